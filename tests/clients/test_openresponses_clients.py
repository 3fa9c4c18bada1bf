"""Real clients of Open Responses read every golden over loopback HTTP and receive the content of the public stream.

The clients: the `openai` SDK (events, its own accumulator, answers that do not stream) and the Open Responses provider
of the AI SDK.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from openai import APIError, APIStatusError, OpenAI

from projector.contracts.stream_rules.table import check_lines
from tests.clients.golden_server import EXAMPLES, golden, public, readings, serving
from tests.protocols.openresponses.checker import OpenResponsesChecker
from tests.protocols.openresponses.events import EVENT_ADAPTER

NAMES: Final = sorted(path.stem for path in (EXAMPLES / "openresponses").glob("*.ndjson"))
each_golden: Final = pytest.mark.parametrize("name", NAMES)

AI_SDK_FINISH: Final = {"failed": "error", "content_filter": "content-filter", "max_output_tokens": "length"}
"""Status, or reason of an incomplete response -> its name in the AI SDK."""

COUNTS: Final = ("input_tokens", "output_tokens", "total_tokens")


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with serving("openresponses") as address:
        yield address


@pytest.fixture(scope="module")
def openai(base: str) -> Iterator[OpenAI]:
    with OpenAI(api_key="none", base_url=base, max_retries=0) as client:
        yield client


# the openai SDK


def read_events(openai: OpenAI, base: str, name: str) -> tuple[list[dict[str, Any]], str | None]:
    """Return the events that the SDK yields for a stream, and the code of the error that it raised."""
    client = openai.with_options(base_url=f"{base}/streams/{name}")
    events: list[dict[str, Any]] = []
    try:
        with client.responses.create(model="any", input="Hi", stream=True) as stream:
            events.extend(event.to_dict(warnings=False) for event in stream)  # it warns of items that it does not know
    except APIError as error:
        return events, error.code
    return events, None


def joined(events: list[dict[str, Any]], name: str) -> str:
    """Return the joined deltas of a kind, item by item, because those of a run may interleave."""
    deltas = [event for event in events if event["type"] == f"response.{name}.delta"]
    return "".join(event["delta"] for event in sorted(deltas, key=lambda event: event["output_index"]))


@each_golden
def test_the_openai_sdk_reads_every_event(openai: OpenAI, base: str, name: str) -> None:
    events, error = read_events(openai, base, name)
    expected = public(name)
    sent = [json.loads(line) for line in golden("openresponses", name)[:-1]]
    assert error == expected.error
    assert events == sent[: None if error is None else next(n for n, it in enumerate(sent) if it["type"] == "error")]
    assert (joined(events, "output_text"), joined(events, "refusal")) == (expected.text, expected.refusal)
    assert joined(events, "reasoning_summary_text") == expected.summary
    assert calls_of(events) == expected.calls
    if error is None:
        response = events[-1]["response"]
        assert response["status"] == expected.status
        assert counts(expected.usage).items() <= counts(response["usage"]).items()


def calls_of(events: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    return [(it["call_id"], it["name"], it["arguments"]) for it in items if it["type"] == "function_call"]


def counts(usage: dict[str, Any] | None) -> dict[str, int]:
    """Return the counts that are not 0. Open Responses requires a total, which may be computed by the projector."""
    return {name: usage[name] for name in COUNTS if usage.get(name)} if usage else {}


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # of items that it does not know
@each_golden
def test_the_openai_sdk_accumulates_every_stream(openai: OpenAI, base: str, name: str) -> None:
    """The accumulator looks up each item and part by its index, and raises if they are inconsistent."""
    client = openai.with_options(base_url=f"{base}/streams/{name}")
    expected = public(name)
    with client.responses.stream(model="any", input="Hi") as stream:
        if expected.error is not None:
            with pytest.raises(APIError) as raised:
                stream.until_done()
            assert raised.value.code == expected.error
        elif expected.status == "completed":
            assert stream.get_final_response().output_text == expected.text
        else:
            assert [event.type for event in stream][-1] == f"response.{expected.status}"


@each_golden
def test_the_openai_sdk_reads_the_answer_without_a_stream(openai: OpenAI, base: str, name: str) -> None:
    client = openai.with_options(base_url=f"{base}/answers/{name}")
    expected = public(name)
    if expected.error is not None:
        with pytest.raises(APIStatusError) as raised:
            client.responses.create(model="any", input="Hi")
        assert raised.value.code == expected.error
        return
    response = client.responses.create(model="any", input="Hi")
    assert (response.status, response.output_text) == (expected.status, expected.text)
    assert sorted(
        (item.call_id, item.name, item.arguments) for item in response.output if item.type == "function_call"
    ) == sorted(expected.calls)
    assert counts(expected.usage).items() <= counts(response.usage.to_dict() if response.usage else None).items()


# the AI SDK


@pytest.fixture(scope="module")
def ai_sdk(node_modules: Path) -> dict[str, dict[str, Any]]:
    """Return the AI SDK provider's reading of every golden, from one process."""
    return {
        name: read["ai-sdk"]["stream"]
        for name, read in readings(node_modules, "openresponses", "openresponses").items()
    }


@pytest.mark.node
@each_golden
def test_the_ai_sdk_reads_every_stream(ai_sdk: dict[str, dict[str, Any]], name: str) -> None:
    read, expected = ai_sdk[name], public(name)
    assert read["errors"] == []
    assert (read["text"], [tuple(call) for call in read["calls"]]) == (expected.text, expected.calls)
    assert read["reasoning"] == expected.summary, "full reasoning (`response.reasoning.delta`) it does not know"
    assert counts(expected.usage).items() <= counts(read["usage"]).items()
    opened = [span_id for kind, span_id in read["spans"] if kind.endswith("-start")]
    closed = [span_id for kind, span_id in read["spans"] if kind.endswith("-end")]
    assert sorted(opened) == sorted(closed)
    assert read["finish"] == finish_expected(name)


def finish_expected(name: str) -> str:
    """Return the finish reason that the AI SDK reports for a golden."""
    response = json.loads(golden("openresponses", name)[-2])["response"]
    reason = (response["incomplete_details"] or {}).get("reason", response["status"])
    ordinary = "stop" if response["status"] == "completed" else "other"
    calls = "tool-calls" if public(name).calls else ordinary
    return AI_SDK_FINISH.get(reason, calls)


# our own models


@each_golden
def test_every_golden_obeys_the_rules(name: str) -> None:
    assert check_lines(OpenResponsesChecker(), golden("openresponses", name)) == []


def test_every_event_is_in_a_golden() -> None:
    """FR-010: the core events of the protocol, reasoning included, and ours."""
    said = {json.loads(line)["type"] for name in NAMES for line in golden("openresponses", name)[:-1]}
    schemas = EVENT_ADAPTER.json_schema()["$defs"].values()
    types = [schema["properties"]["type"] for schema in schemas if "sequence_number" in schema["properties"]]
    known = {name for of_type in types for name in of_type.get("enum", [of_type.get("const")])}
    assert said == known
    assert len([name for name in known if not name.startswith("public-sse:")]) == 24
