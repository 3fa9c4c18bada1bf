"""The secrets of a configuration: the forms in which they are withheld, and what is not one (CONTRACT D41)."""

from __future__ import annotations

from typing import Any

import pytest

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.server.config.settings import Settings, secret_values

KEY = "sk-proj-Zq8RtB1nVt5K0aWe"

HERON = "mopane-7781-quiet-heron-"
"""A key of no known format, of 24 characters."""


@pytest.mark.parametrize(
    ("upstream", "values"),
    [
        ({"api_key": KEY}, [KEY]),
        ({"api_key": "short-7"}, []),
        ({"headers": {"authorization": f"Bearer {KEY}"}}, [KEY]),
        ({"headers": {"api-key": KEY, "X-Title": "My application"}}, [KEY]),
        ({"headers": {"authorization": "Basic dTpxdWlldC1oZXJvbg=="}}, ["dTpxdWlldC1oZXJvbg==", "quiet-heron"]),
        ({"headers": {"authorization": "Basic not-in-base64"}}, ["not-in-base64"]),
        ({"query": {"code": "a/b+c=secret", "api-version": "2024-10-21"}}, ["a/b+c=secret", "a%2Fb%2Bc%3Dsecret"]),
        ({"proxy": "http://u:quiet%2Dheron@proxy:3128"}, ["quiet%2Dheron", "quiet-heron", "dTpxdWlldC1oZXJvbg=="]),
        ({"proxy": "http://proxy:3128"}, []),
        ({}, []),
    ],
    ids=str,
)
def test_the_secrets_of_an_upstream(upstream: dict[str, Any], values: list[str]) -> None:
    agents = {"helper": {"upstream": "one", "model": "m"}}
    assert secret_values(Settings.model_validate({"upstreams": {"one": upstream}, "agents": agents})) == tuple(values)


def test_the_key_of_the_shorthand() -> None:
    assert secret_values(Settings.model_validate({"api_key": KEY})) == (KEY,)


def streamed(redactor: Redactor, *fragments: str) -> str:
    stream = redactor.message_stream()
    return "".join([*(stream.feed(fragment).value for fragment in fragments), stream.close().value])


@pytest.mark.parametrize(
    ("secret", "text", "shown"),
    [
        (HERON, f"is {HERON}.", "is <redacted>."),
        (HERON, "They begin with mopane-", "They begin with mopane-"),
        (HERON, f"is {HERON[:12]}", "is <redacted>"),
        (HERON, f"is {HERON[:11]}", f"is {HERON[:11]}"),
        ("test-key-of-ours", "this is a test", "this is a test"),
        ("eight-ch", "eight-c", "eight-c"),
        ("seven-c", "seven-c", "seven-c"),
        ("a" * 64, "a" * 15, "a" * 15),
        ("a" * 64, "a" * 16, "<redacted>"),
        ('quo"ted-secret', 'is quo\\"ted-secret here', "is <redacted> here"),
    ],
)
def test_the_beginning_of_a_secret_is_withheld_if_it_is_long(secret: str, text: str, shown: str) -> None:
    """A registered value of a policy counts from its fourth character; the keys of many providers begin alike."""
    redactor = Redactor(Policy(), [secret])
    assert streamed(redactor, text) == streamed(redactor, *text) == shown
    assert redactor.text(text).value == shown


@pytest.mark.parametrize("start", [0, 1, 7, 40])
def test_each_of_many_secrets_is_withheld(start: int) -> None:
    """With many of them another search finds where one may begin."""
    secrets = [f"{first}{second}-quiet-heron" for first in "abcdefgh" for second in "ijklmnop"]
    redactor = Redactor(Policy.load({"registered": [{"value": secret} for secret in secrets], "text": "off"}))
    for secret in secrets[::9]:
        text = f"{'x' * start}{secret} end"
        assert streamed(redactor, text) == streamed(redactor, *text) == f"{'x' * start}<redacted> end"


def test_another_verbosity_keeps_the_secrets() -> None:
    assert Redactor(Policy(), [KEY]).with_reasoning("off").name(KEY) == "<redacted>"


def test_a_value_of_the_policy_keeps_its_mark_and_its_rule() -> None:
    policy = Policy.load({"registered": [{"id": "ours", "value": KEY}]})
    assert streamed(Redactor(policy, [KEY]), f"{KEY} sk-p") == "[REDACTED:ours] <redacted>"
