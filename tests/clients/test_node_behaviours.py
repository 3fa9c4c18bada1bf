"""What the npm clients do with streams that are cut, fail or have withheld data, and with other routes of the API."""

from __future__ import annotations

import json
from typing import Final

import pytest

from tests.clients.node_readings import (
    AI_SDK,
    AI_SDK_6,
    LANGCHAIN,
    OPENAI,
    OPENAI_6,
    PROVIDER_API,
    NodeClient,
    NodeReadings,
)
from tests.clients.recorded_provider import ORGANISATION
from tests.clients.recorded_streams import content

pytestmark = pytest.mark.node

READERS: Final[dict[str, tuple[NodeClient, str]]] = {
    "openai-responses": (OPENAI, "responses"),
    "openai-chat": (OPENAI, "chat"),
    "openai-6-responses": (OPENAI_6, "responses"),
    "openai-6-chat": (OPENAI_6, "chat"),
    "ai-sdk-responses": (AI_SDK, "responses"),
    "ai-sdk-chat": (AI_SDK, "chat"),
    "ai-sdk-compatible": (AI_SDK, "compatible"),
    "ai-sdk-6-responses": (AI_SDK_6, "responses"),
    "ai-sdk-6-chat": (AI_SDK_6, "chat"),
    "ai-sdk-6-compatible": (AI_SDK_6, "compatible"),
    "langchain-responses": (LANGCHAIN, "responses"),
    "langchain-chat": (LANGCHAIN, "chat"),
    "open-responses": (AI_SDK, "open-responses"),
    "open-responses-1": (AI_SDK_6, "open-responses"),
}
each_reader: Final = pytest.mark.parametrize(("client", "api"), READERS.values(), ids=READERS)
RESPONSES_READERS: Final = {name: (client, api) for name, (client, api) in READERS.items() if api.endswith("responses")}
each_responses_reader: Final = pytest.mark.parametrize(
    ("client", "api"), RESPONSES_READERS.values(), ids=RESPONSES_READERS
)

SILENT: Final = frozenset({(AI_SDK_6, "open-responses")})
"""Readers that do not report an error in a stream."""

SECRETS: Final = ("hunter2-inner", "cs-example", "k-example-deep", "hunter2-broken", "not-for-pages")


@each_reader
def test_withheld_data_breaks_nothing(node_readings: NodeReadings, client: NodeClient, api: str) -> None:
    for form, reading in node_readings.of(client, api, "secrets").items():
        assert "error" not in reading, form
        assert not [secret for secret in SECRETS if secret in json.dumps(reading)], form


@each_reader
def test_an_answer_that_is_too_long_keeps_its_text(node_readings: NodeReadings, client: NodeClient, api: str) -> None:
    text = content(PROVIDER_API[api], "incomplete").text
    for form, reading in node_readings.of(client, api, "incomplete").items():
        assert (reading.get("error"), reading["text"]) == (None, text), form


@each_responses_reader
@pytest.mark.parametrize("scenario", ["unicode", "citations"])
def test_texts_of_all_kinds_arrive(node_readings: NodeReadings, client: NodeClient, api: str, scenario: str) -> None:
    for form, reading in node_readings.of(client, api, scenario).items():
        assert (reading.get("error"), reading["text"]) == (None, content("responses", scenario).text), form


@each_reader
@pytest.mark.parametrize("scenario", ["error-midstream", "truncated"])
def test_a_stream_that_ends_early_raises(
    node_readings: NodeReadings, client: NodeClient, api: str, scenario: str
) -> None:
    for form, reading in node_readings.of(client, api, scenario).items():
        is_silent = (client, api) in SILENT and form == "stream"
        assert ("error" in reading) is not is_silent, form


@each_responses_reader
def test_a_failed_response_raises(node_readings: NodeReadings, client: NodeClient, api: str) -> None:
    for form, reading in node_readings.of(client, api, "failed-midstream").items():
        is_silent = (client, api) in SILENT and form == "stream"
        assert ("error" in reading) is not is_silent, form


@pytest.mark.parametrize("client", [OPENAI, OPENAI_6], ids=lambda it: it.package)
def test_the_other_routes_of_the_api(node_readings: NodeReadings, client: NodeClient) -> None:
    listed = node_readings.one(client, "models/list")
    assert ["text", "model"] in listed["models"]
    assert ORGANISATION not in json.dumps(listed)
    for name, status in {
        "models/unknown": (404, "NotFoundError", "model_not_found"),
        "other/embeddings": (404, "NotFoundError", "not_found"),
        "other/no-model": (400, "BadRequestError", "invalid_request"),
    }.items():
        error = node_readings.one(client, name)["error"]
        assert (error["status"], error["kind"], error["code"]) == status, name


@each_reader
def test_a_client_error_costs_one_request(node_readings: NodeReadings, client: NodeClient, api: str) -> None:
    for status in (400, 401, 403, 404, 413):
        for form, reading in node_readings.of(client, api, f"fail-{status}").items():
            assert reading["requests"] == {f"fail-{status}": 1}, (status, form)
