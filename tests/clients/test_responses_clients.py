"""Real clients of the Responses API read every golden and receive the content of the public stream.

The clients: the `openai` SDK for Python and npm (events, accumulators, answers that do not stream), and the OpenAI
provider of the AI SDK.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from openai import APIError, APIStatusError, OpenAI

from projector.contracts.stream_rules.table import check_lines
from projector.dialects.openai_errors import status_of
from tests.clients.golden_server import EXAMPLES, golden, public, readings, serving
from tests.protocols.responses.checker import ResponsesChecker
from tests.protocols.responses.events import EVENT_ADAPTER
from tests.sdk_models import MODELS, faults_of

NAMES: Final = sorted(path.stem for path in (EXAMPLES / "responses").glob("*.ndjson"))
each_golden: Final = pytest.mark.parametrize("name", NAMES)

FINISH: Final = {"max_output_tokens": "length", "content_filter": "content-filter"}
"""Reason of an incomplete response -> the finish reason of the AI SDK."""


def events_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in golden("responses", name)]


def error_of(name: str) -> dict[str, Any] | None:
    """Return the `error` event of a golden: each failed stream has one."""
    return next((event for event in events_of(name) if event["type"] == "error"), None)


# the models


@each_golden
def test_every_event_is_valid_for_the_models_of_the_sdk(name: str) -> None:
    assert faults_of(golden("responses", name)) == []


@each_golden
def test_every_golden_obeys_the_rules(name: str) -> None:
    assert check_lines(ResponsesChecker(), golden("responses", name)) == []


def test_every_event_is_in_a_golden() -> None:
    said = {event["type"] for name in NAMES for event in events_of(name)}
    schemas = EVENT_ADAPTER.json_schema()["$defs"].values()
    types = [schema["properties"]["type"] for schema in schemas if "sequence_number" in schema["properties"]]
    known = {name for of_type in types for name in of_type.get("enum", [of_type.get("const")])}
    assert said == {name for name in known if not name.startswith("public-sse:")} <= MODELS.keys()


# the openai SDK for Python


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with serving("responses") as address:
        yield address


def client_of(base: str, kind: str, name: str) -> OpenAI:
    return OpenAI(api_key="none", base_url=f"{base}/{kind}/{name}", max_retries=0)


@each_golden
def test_the_openai_sdk_streams(base: str, name: str) -> None:
    sent, read = events_of(name), []
    with client_of(base, "streams", name) as client, warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = client.responses.create(model="any", input="Hi", stream=True)
        if (error := error_of(name)) is None:
            read = [event.to_dict() for event in stream]
        else:
            with pytest.raises(APIError, match=r".") as raised:
                read.extend(event.to_dict() for event in stream)
            assert (raised.value.code, raised.value.message) == (error["code"], error["message"])
            assert raised.value.type == error["error"]["type"]
    assert read == (sent if error is None else sent[: sent.index(error)])


@each_golden
def test_the_openai_sdk_accumulates(base: str, name: str) -> None:
    expected = public(name)
    with client_of(base, "streams", name) as client, warnings.catch_warnings():
        warnings.simplefilter("error")
        with client.responses.stream(model="any", input="Hi") as stream:
            if expected.error is not None or expected.status == "failed":
                with pytest.raises(APIError):
                    stream.until_done()
            elif expected.status == "completed":
                assert stream.get_final_response().output_text == expected.text
            else:
                assert [event.type for event in stream][-1] == f"response.{expected.status}"


@each_golden
def test_the_openai_sdk_reads_the_answer_without_a_stream(base: str, name: str) -> None:
    with client_of(base, "answers", name) as client:
        if (error := error_of(name)) is not None:
            with pytest.raises(APIStatusError) as raised:
                client.responses.create(model="any", input="Hi")
            assert (raised.value.code, raised.value.status_code) == (
                error["code"],
                status_of(error["code"], error["error"]["type"]),
            )
            return
        response = client.responses.create(model="any", input="Hi")
    assert response.output_text == public(name).text
    calls = [(item.call_id, item.name, item.arguments) for item in response.output if item.type == "function_call"]
    assert sorted(calls) == sorted(public(name).calls)


# the npm clients


@pytest.fixture(scope="module")
def npm(node_modules: Path) -> dict[str, dict[str, Any]]:
    """Return what the npm clients read of every golden, from one process."""
    return readings(node_modules, "responses", "responses")


@pytest.mark.node
@pytest.mark.parametrize("client", ["openai", "openai-6"])
@each_golden
def test_the_npm_openai_sdk_accumulates(npm: dict[str, dict[str, Any]], name: str, client: str) -> None:
    read = npm[name][client]["stream"]
    if (error := error_of(name)) is not None:
        assert (read["raised"], read["code"]) == ("APIError", error["code"])
        return
    assert read["types"] == [event["type"] for event in events_of(name)]
    assert read["text"] == public(name).text


@pytest.mark.node
@pytest.mark.parametrize("client", ["ai-sdk", "ai-sdk-6"])
@each_golden
def test_the_ai_sdk_streams(npm: dict[str, dict[str, Any]], name: str, client: str) -> None:
    read, error = npm[name][client]["stream"], error_of(name)
    if error is not None:
        assert read["errors"] == [error["message"]]
        assert read["finish"] in {"error", "thrown"}  # it throws if there was no output before
        return
    last = events_of(name)[-1]["response"]
    texts: dict[tuple[int, int], str] = {}  # those of a run may interleave
    for event in events_of(name):
        if event["type"] in {"response.output_text.delta", "response.refusal.delta"}:
            part = event["output_index"], event["content_index"]
            texts[part] = texts.get(part, "") + event["delta"]
    assert read["errors"] == []
    assert read["text"] == "".join(text for _, text in sorted(texts.items()))
    hosted = {"shell", "local_shell", "apply_patch", "computer"}  # its own names for items that are no function calls
    assert [call for call in read["calls"] if call[1] not in hosted] == calls_of(name)
    reason = (last["incomplete_details"] or {}).get("reason")
    ordinary = "tool-calls" if read["calls"] else "content-filter" if public(name).refusal else "stop"
    assert read["finish"] == FINISH.get(reason, ordinary)


@pytest.mark.node
@pytest.mark.parametrize("client", ["ai-sdk", "ai-sdk-6"])
@each_golden
def test_the_ai_sdk_reads_the_answer_without_a_stream(npm: dict[str, dict[str, Any]], name: str, client: str) -> None:
    read, error = npm[name][client]["answer"], error_of(name)
    if error is not None:
        assert (read["error"], read["status"]) == (error["message"], status_of(error["code"], error["error"]["type"]))
        return
    output = events_of(name)[-1]["response"]["output"]
    if client == "ai-sdk-6" and any(item["type"] == "compaction" for item in output):
        assert read["error"] == "Invalid JSON response"  # it does not know this item, whoever sends it
        return
    parts = [part for item in output for part in item.get("content", [])]
    assert read["error"] is None
    assert read["text"] == "".join(
        part.get("refusal", part.get("text")) for part in parts if "annotations" in part or "refusal" in part
    )


def calls_of(name: str) -> list[list[str]]:
    """Return the calls that the client runs: ID, name and input, which is JSON text in the AI SDK."""
    items = [event["item"] for event in events_of(name) if event["type"] == "response.output_item.done"]
    return [
        [item["call_id"], item["name"], item["arguments"] if "arguments" in item else json.dumps(item["input"])]
        for item in items
        if item["type"] in {"function_call", "custom_tool_call"}
    ]
