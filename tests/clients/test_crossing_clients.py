"""The `openai` package with each of its APIs on an upstream that has only the other one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.clients import observed
from tests.clients.clients_table import BEHAVIOURS, Row
from tests.clients.conftest import Recorded
from tests.clients.rows_python import CROSSED, CROSSINGS
from tests.clients.test_python_clients import TIMEOUT_S, Lines, result_of, run_client

pytestmark = pytest.mark.timeout(TIMEOUT_S)


@pytest.fixture(scope="module")
def lines(python_clients: Path, crossed_url: str, recorded: Recorded) -> Lines:
    """Return what the script of the package prints."""
    return run_client(python_clients, "client_openai", crossed_url, recorded.url, "crossed")


each_row: Final = pytest.mark.parametrize("row", CROSSED, ids=lambda row: row.api)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@each_row
def test_a_client_reads_what_the_table_says(lines: Lines, row: Row, behaviour: str) -> None:
    client, upstream = CROSSINGS[row.api]
    probe, judge = observed.JUDGES[behaviour]
    assert judge(upstream, result_of(lines, client, probe)) == row.cells[behaviour]


def test_a_response_is_read_again_after_each_event(lines: Lines) -> None:
    read = result_of(lines, "responses", "resumed")
    assert len(read["after each event"]) > 1
    assert all(same for found in read.values() for same in found), read


def test_a_stored_response_is_refused_by_name(lines: Lines) -> None:
    assert "`previous_response_id` is not supported" in lines["responses", "stored"]["raised"]


IMAGE: Final = "data:image/png;base64,QUJD"
PDF: Final = "data:application/pdf;base64,QUJD"
PLACE: Final = {"city": "Oslo", "country": "NO"}
PARTS: Final[dict[str, dict[str, Any]]] = {
    "responses": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is the weather in Oslo?"},
                    {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}},
                    {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
                ],
            }
        ],
        "web_search_options": {
            "search_context_size": "low",
            "user_location": {"type": "approximate", "approximate": PLACE},
        },
    },
    "chat": {
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is the weather in Oslo?"},
                    {"type": "input_image", "image_url": IMAGE, "detail": "low"},
                    {"type": "input_file", "filename": "a.pdf", "file_data": PDF},
                ],
            }
        ],
        "tools": [
            {
                "type": "web_search",
                "search_context_size": "low",
                "user_location": {"type": "approximate", **PLACE},
            }
        ],
    },
}
"""API of the client -> what its provider is asked for an image, a file and a web search."""


@pytest.mark.parametrize("api", PARTS)
def test_images_files_and_searches_reach_the_upstream(lines: Lines, api: str) -> None:
    asked = result_of(lines, api, "parts")
    assert {name: asked[name] for name in PARTS[api]} == PARTS[api]


PLACES: Final = {
    "include": "include[0]",
    "reasoning": "reasoning.summary",
    "tools": "tools[0].type",
    "tool_choice": "tool_choice.type",
    "input": "input[0].content[0].file_id",
    "messages": "messages[0].content[0].type",
}
"""Member -> the place in it that the error names, if it is not the member itself."""


@pytest.mark.parametrize("api", PARTS)
def test_what_the_upstream_cannot_do_is_named_to_the_client(lines: Lines, api: str) -> None:
    for name, (status, param, message, calls) in result_of(lines, api, "refused").items():
        assert (status, param, calls) == (400, PLACES.get(name, name), 0), name
        assert f"`{param}`" in message
