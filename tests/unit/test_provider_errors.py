"""Error responses of providers, in the shapes that they really send, and their headers about retries."""

from __future__ import annotations

import email.utils
import json
import time
from typing import Any

import pytest

from projector.providers.error_shapes import MEMBER_MAX_CHARS, MESSAGE_MAX_CHARS
from projector.server.upstream.protocol import ProviderFailure, provider_failure, retry_after_s, should_retry

OPENAI = {"message": "Too long", "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded"}
NOT_FOUND = {"code": "404", "message": "Resource not found"}


@pytest.mark.parametrize(
    ("body", "message", "members"),
    [
        pytest.param({"error": OPENAI}, "Too long", (*list(OPENAI.values())[1:],), id="openai"),
        pytest.param({"error": NOT_FOUND}, "Resource not found", (None, None, "404"), id="azure"),
        pytest.param({"error": {"message": "Pay", "code": 402}}, "Pay", (None, None, "402"), id="openrouter"),
        pytest.param([{"error": {"message": "No", "code": 400}}], "No", (None, None, "400"), id="gemini"),
        pytest.param({"object": "error", **OPENAI}, "Too long", (*list(OPENAI.values())[1:],), id="vllm-and-mistral"),
        pytest.param({"error": "model not found"}, "model not found", (None, None, None), id="ollama"),
        pytest.param({"code": "Bad argument", "error": "No"}, "No", (None, None, "Bad argument"), id="xai"),
        pytest.param({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}, "Busy",
                     ("overloaded_error", None, None), id="anthropic"),
        pytest.param({"statusCode": 401, "message": "No key"}, "No key", (None, None, None), id="api-gateway"),
        pytest.param({"Message": "No access"}, "No access", (None, None, None), id="aws"),
        pytest.param({"message": "Go", "error": "Not Found"}, "Go", (None, None, None), id="spring"),
        pytest.param({"detail": "Not authenticated"}, "Not authenticated", (None, None, None), id="fastapi"),
        pytest.param({"detail": [{"loc": ["body"], "msg": "Field required", "type": "missing"}]}, "Field required",
                     (None, None, None), id="fastapi-validation"),
        pytest.param({"detail": {"message": "No", "code": "x"}}, "No", (None, None, "x"), id="fastapi-object"),
        pytest.param({"error": {"message": {"text": 1}}}, None, (None, None, None), id="no-text"),
        pytest.param({"error": {"message": "", "code": True}}, None, (None, None, None), id="wrong-types"),
        pytest.param({"error": []}, None, (None, None, None), id="empty-list"),
        pytest.param({"error": None}, None, (None, None, None), id="null"),
        pytest.param("only text", None, (None, None, None), id="a-string"),
        pytest.param(7, None, (None, None, None), id="a-number"),
    ],
)  # fmt: skip
def test_the_shapes_of_error_bodies(body: Any, message: str | None, members: tuple[str | None, ...]) -> None:
    kind, param, code = members
    expected = ProviderFailure(400, message, type=kind, code=code, param=param)
    assert provider_failure(400, json.dumps(body).encode()) == expected


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b'{"error": {"message": "cut', b"\xff\xfe"])
def test_a_body_that_is_not_json_has_no_message(body: bytes) -> None:
    assert provider_failure(502, body) == ProviderFailure(502)


def test_the_members_are_bounded() -> None:
    error = dict.fromkeys(OPENAI, "x" * 60_000)
    failure = provider_failure(400, json.dumps({"error": error}).encode())
    assert failure.message == "x" * MESSAGE_MAX_CHARS
    assert {failure.type, failure.code, failure.param} == {"x" * MEMBER_MAX_CHARS}


def test_a_deep_body() -> None:
    assert provider_failure(400, b'{"error":' * 10_000 + b'"x"' + b"}" * 10_000) == ProviderFailure(400)
    assert provider_failure(400, b'{"error":' * 9 + b'"x"' + b"}" * 9).message is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 0007 "}, 7),
        ({"retry-after": "1.2"}, 2),
        ({"retry-after": "3."}, 3),
        ({"retry-after": "9" * 5_000}, 999_999_999),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "\u0667"}, None),  # a digit, but not of HTTP
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "Fri, 31 Dec 99999 23:59:59 GMT"}, None),
        ({"retry-after": "Mon, 01 Jan 0001 00:00:00 +2359"}, 0),
        ({"retry-after-ms": "1500"}, 2),
        ({"retry-after-ms": "20", "retry-after": "60"}, 1),
        ({"retry-after-ms": "soon", "retry-after": "60"}, 60),
    ],
)
def test_the_wait_that_a_provider_asks_for(headers: dict[str, str], expected: int | None) -> None:
    assert retry_after_s(headers) == expected


def test_a_date_in_the_future() -> None:
    date = email.utils.formatdate(time.time() + 3_600, usegmt=True)
    assert retry_after_s({"retry-after": date}) in range(3_000, 3_602)


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("False", False), ("maybe", None), (None, None)])
def test_should_retry(value: str | None, *, expected: bool | None) -> None:
    assert should_retry({} if value is None else {"x-should-retry": value}) is expected
