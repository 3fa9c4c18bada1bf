"""Properties of the dialect `responses` alone: events of our own, and credentials in what only it writes."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given

from projector.contracts.kinds import VENDOR
from projector.dialects.descriptor import DialectOptions
from projector.recording.replay import Case
from tests.dialect_checks import violations_of
from tests.property.canaries import leaks
from tests.property.dialect_streams import play_lines, told
from tests.property.mutations import Lines, spoiled
from tests.property.soundness import examples

DIALECT: Final = "responses"


@examples(60)
@given(spoiled())
def test_extensions_only_add_events(stream: tuple[Case, Lines]) -> None:
    case, lines = stream
    plain = play_lines(DIALECT, case, lines).splitlines()
    extended = play_lines(DIALECT, case, lines, DialectOptions(extensions=True)).splitlines()
    assert violations_of(DIALECT, extended) == []
    left = [event for event in map(json.loads, extended) if not event["type"].startswith(VENDOR)]
    assert [{**event, "sequence_number": at} for at, event in enumerate(left)] == [*map(json.loads, plain)]


KEY: Final = "AKIA" + "Q3EGSNDKLOPQRTU7"

DETAILS: Final[dict[str, dict[str, Any]]] = {
    "query": {"type": "web_search_call", "action": {"type": "search", "query": KEY, "queries": [KEY]}},
    "page": {"type": "web_search_call", "action": {"type": "open_page", "url": f"https://example.org/?a={KEY}"}},
    "pattern": {"type": "web_search_call", "action": {"type": "find_in_page", "pattern": KEY}},
    "source": {"type": "web_search_call", "action": {"sources": [{"url": f"https://example.org/{KEY}"}]}},
    "type of an action": {"type": "web_search_call", "action": {"type": KEY}},
    "phase": {"type": "message", "phase": KEY, "content": []},
    "error of a server": {"type": "mcp_call", "name": "f", "error": {"type": KEY, "content": KEY}},
    "message of a server": {"type": "mcp_call", "name": "f", "error": {"type": "http_error", "message": KEY}},
}


@pytest.mark.parametrize("item", DETAILS.values(), ids=DETAILS)
def test_no_credential_is_in_what_only_this_dialect_writes(item: dict[str, Any]) -> None:
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    said = told(DIALECT, [done, {"type": "response.completed"}])
    assert leaks(said, KEY[4:]) == set()
    assert item["type"].encode() in said
