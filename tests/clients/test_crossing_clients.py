"""The `openai` package with each of its APIs on an upstream that has only the other one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.clients import observed
from tests.clients.conftest import Recorded
from tests.clients.recorded_streams import content
from tests.clients.test_python_clients import TIMEOUT_S, Lines, result_of, run_client

pytestmark = pytest.mark.timeout(TIMEOUT_S)

UPSTREAMS: Final = {"responses": "chat", "chat": "responses"}
"""API of the client -> API of the upstream."""


@pytest.fixture(scope="module")
def lines(python_clients: Path, crossed_url: str, recorded: Recorded) -> Lines:
    """Return what the script of the package prints."""
    return run_client(python_clients, "client_openai", crossed_url, recorded.url)


BEHAVIOURS: Final = ("text", "whole", "tools", "parallel", "structured", "refusal", "usage")
each_api: Final = pytest.mark.parametrize("api", UPSTREAMS)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@each_api
def test_the_client_reads_what_the_upstream_says(lines: Lines, api: str, behaviour: str) -> None:
    probe, judge = observed.JUDGES[behaviour]
    assert judge(UPSTREAMS[api], result_of(lines, api, probe)) == "yes"


def test_a_chat_client_reads_the_text_of_hosted_tools(lines: Lines) -> None:
    read = result_of(lines, "chat", "hosted")
    assert set(read["search"]["texts"]) == {content("responses", "search").text}


def test_a_response_is_read_again_after_each_event(lines: Lines) -> None:
    read = result_of(lines, "responses", "resumed")
    assert len(read["after each event"]) > 1
    assert all(same for found in read.values() for same in found), read


def test_a_stored_response_is_refused_by_name(lines: Lines) -> None:
    assert "`previous_response_id` is not supported" in lines["responses", "stored"]["raised"]


@each_api
def test_errors_of_the_upstream_keep_their_classes(lines: Lines, api: str) -> None:
    probe, judge = observed.JUDGES["errors"]
    assert judge(api, result_of(lines, api, probe)) == "yes"
