"""Strict readers of the npm clients read every golden of the OpenAI dialects: accumulators, and schemas for each event.

They must receive what the answer in one piece contains.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.clients.golden_server import EXAMPLES, golden, readings
from tests.json_answers import assemble

pytestmark = pytest.mark.node

APIS: Final = {"responses": "responses", "chat": "chat_completions"}
"""API -> dialect."""
GOLDENS: Final = [(api, path.stem) for api, dialect in APIS.items() for path in sorted((EXAMPLES / dialect).glob("*"))]


@pytest.fixture(scope="module")
def read(node_modules: Path) -> dict[str, dict[str, dict[str, Any]]]:
    return {api: readings(node_modules, api, dialect) for api, dialect in APIS.items()}


@pytest.mark.parametrize(("api", "name"), GOLDENS)
def test_every_reader_receives_the_answer(read: dict[str, dict[str, dict[str, Any]]], api: str, name: str) -> None:
    expected = assemble(golden(APIS[api], name), APIS[api])
    for reader, found in read[api][name].items():
        reading = found["stream"]
        if expected.status != 200:
            assert expected.body["error"]["message"] in reading["errors"][0], reader
        else:
            wanted = content_of[api](expected.body)
            shown = {"text": wanted["text"] + wanted["refusal"]} if "refusal" not in reading else wanted
            assert {**reading, **shown, "errors": []} == reading, reader
            spans = reading.get("spans", [])
            opened = [place for kind, place in spans if kind.endswith("-start")]
            assert sorted(opened) == sorted(place for kind, place in spans if kind.endswith("-end")), reader


def of_response(body: dict[str, Any]) -> dict[str, Any]:
    """Return text, refusal and calls of a response."""
    parts = [part for item in body["output"] if item["type"] == "message" for part in item["content"]]
    calls = [item for item in body["output"] if item["type"] == "function_call"]
    return {
        "text": "".join(part.get("text", "") for part in parts),
        "refusal": "".join(part.get("refusal", "") for part in parts),
        "calls": [[call["call_id"], call["name"], call["arguments"]] for call in calls],
    }


def of_completion(body: dict[str, Any]) -> dict[str, Any]:
    """Return text, refusal and calls of a completion. A stream has calls of custom tools as functions, too."""
    message = body["choices"][0]["message"]
    calls = [(call["id"], *call[call["type"]].values()) for call in message.get("tool_calls") or []]
    return {
        "text": message["content"] or "",
        "refusal": message["refusal"] or "",
        "calls": [[*call] for call in calls],
    }


content_of: Final = {"responses": of_response, "chat": of_completion}
