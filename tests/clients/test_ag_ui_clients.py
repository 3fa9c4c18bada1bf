"""Every AG-UI stream, golden or recorded, against the protocol's own clients, models and rules."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from ag_ui.core import Event as AnyEvent
from ag_ui_validate.pytest_plugin import validate_agui
from pydantic import TypeAdapter

from projector.conversation.client_history import ConversationSettings
from projector.dialects.ag_ui.conversation import conversation, read_run_input
from projector.dialects.descriptor import DialectOptions
from projector.providers.openai_responses.request import items_of
from tests.clients.ag_ui_streams import (
    BEFORE_1_0,
    CORPUS_SOURCES,
    DECLARED,
    GOLDEN,
    Event,
    Source,
    as_sse,
    play,
    said_by_client,
    said_in_public,
)
from tests.protocols.ag_ui.events import parse_event

CLIENTS: Final = {"1.0.0": "@ag-ui/client", "0.0.59": "@ag-ui/client-0"}
SOURCES: Final = [*GOLDEN, *CORPUS_SOURCES]

ALLOWED_IN_1_0: Final = {"AGUI204": "off"}
"""Rules of the validator, which was made for 0.1.21, that 1.0 does not have: arguments are not validated as JSON."""

ENDS: Final[dict[str, tuple[str, set[str | None]]]] = {
    "completed": ("RUN_FINISHED", {"success", "interrupt"}),
    "incomplete": ("RUN_FINISHED", {"success"}),
    "refused": ("RUN_FINISHED", {"success"}),
    "cancelled": ("RUN_FINISHED", {"cancelled"}),
    "failed": ("RUN_ERROR", {None}),
    "error": ("RUN_ERROR", {None}),
}
"""Status of the public stream -> how the run ends."""

SETTINGS: Final = ConversationSettings(encrypted_reasoning=True, trust_client_approvals=True)

MODELS: Final[TypeAdapter[Any]] = TypeAdapter(AnyEvent)

Heard: TypeAlias = Mapping[tuple[str, str], Event]

each_client = pytest.mark.parametrize("client", CLIENTS)


@pytest.fixture(params=["goldens", "corpus"])
def sources(request: pytest.FixtureRequest) -> list[Source]:
    """Return the goldens, or the recordings; skip if there are no recordings."""
    if request.param == "goldens":
        return GOLDEN
    request.getfixturevalue("corpus")
    return CORPUS_SOURCES


@pytest.fixture(scope="module")
def heard(node_modules: Path) -> Heard:
    """Results of each client for each stream; both clients run concurrently."""
    pairs = ({"declared": as_sse(play(each)), "undeclared": as_sse(play(each, options=BEFORE_1_0))} for each in SOURCES)
    data = "\n".join(map(json.dumps, pairs)).encode()

    def listen(package: str) -> list[bytes]:
        command = ["node", "ag-ui-clients.mjs", package]
        said = subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True, cwd=node_modules).stdout
        return said.split(b"\n")[:-1]

    with ThreadPoolExecutor() as pool:
        answers = dict(zip(CLIENTS, pool.map(listen, CLIENTS.values()), strict=True))
    return {
        (client, source.name): json.loads(line)
        for client, said in answers.items()
        for source, line in zip(SOURCES, said, strict=True)
    }


@pytest.mark.node
@each_client
def test_the_client_accepts_each_stream(heard: Heard, client: str, sources: list[Source]) -> None:
    for source in sources:
        result = heard[client, source.name]
        assert (result["thrown"], result["warnings"]) == (None, []), source.name


@pytest.mark.node
@each_client
def test_the_client_reads_what_the_public_stream_contains(heard: Heard, client: str, sources: list[Source]) -> None:
    for source in sources:
        said = said_by_client(heard[client, source.name]["messages"])
        assert said == said_in_public(play(source, "public_sse_v1")), source.name


@pytest.mark.node
@each_client
def test_the_run_ends_as_the_stream_does(heard: Heard, client: str, sources: list[Source]) -> None:
    for source in sources:
        terminal = heard[client, source.name]["terminal"]
        last = play(source, "public_sse_v1")[-1].get("final", {"status": "error"})
        is_downgraded = client == "0.0.59" and last["status"] == "cancelled"
        expected, outcomes = ENDS["error" if is_downgraded else last["status"]]
        assert terminal["type"] == expected, source.name
        assert terminal.get("outcome", {}).get("type") in outcomes, source.name
        assert terminal.get("code") == "cancelled" or not is_downgraded
        spent = [usage.get("outputTokens") for usage in terminal.get("usage", ())]
        assert spent == ([last["usage"].get("output_tokens")] if last.get("usage") else []), source.name


@pytest.mark.node
@each_client
def test_the_next_request_of_the_client_is_accepted(heard: Heard, client: str, sources: list[Source]) -> None:
    for source in sources:
        result = heard[client, source.name]
        asked = read_run_input(result["next"])
        assert asked.protocol_version == ("1.0" if client == "1.0.0" else None)
        items = items_of(conversation(asked, settings=SETTINGS).entries)
        calls = [item["call_id"] for item in items if item["type"] in {"function_call", "custom_tool_call"}]
        outputs = [item["call_id"] for item in items if item["type"].endswith("_output")]
        assert sorted(calls) == sorted(outputs), source.name
        approved = [f"int-{item['approval_request_id']}" for item in items if item.get("approve")]
        assert approved == [interrupt["id"] for interrupt in result["interrupts"]], source.name


def test_the_models_agree(sources: list[Source]) -> None:
    for source in sources:
        for event in play(source):
            parse_event(event)
            assert not MODELS.validate_python(event).model_extra, source.name


@pytest.mark.parametrize("options", [DECLARED, BEFORE_1_0], ids=["declared", "undeclared"])
def test_the_rules_agree(sources: list[Source], options: DialectOptions) -> None:
    for source in sources:
        events = [json.dumps(event) for event in play(source, options=options)]
        report = validate_agui(events, severity_overrides=ALLOWED_IN_1_0)
        assert [found for found in report.diagnostics if found.severity != "info"] == [], source.name
        assert report.internal_errors == []


def test_the_corpus_is_there(corpus: Path) -> None:
    assert len(CORPUS_SOURCES) > 600, corpus
