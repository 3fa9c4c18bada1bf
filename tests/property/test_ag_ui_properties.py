"""Properties of AG-UI streams alone: IDs of a thread, the protocol's own client, and each format of credentials."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from projector.core.sse import encode_sse
from projector.dialects.descriptor import DialectOptions
from projector.recording.replay import Case
from tests.property.canaries import everywhere, leaks, secret_of
from tests.property.dialect_streams import assert_sound, events_of, play_lines, told
from tests.property.mutations import CASES, lines_of
from tests.property.soundness import pipeline_of
from tests.rule_samples import FORMATS, Format

DIALECT: Final = "ag_ui"
CLIENT: Final = ("ag-ui-clients.mjs", "@ag-ui/client")

each_case: Final = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each_case
def test_ids_of_the_thread_are_not_reused(case: Case) -> None:
    settings, lines = case.settings, b"\n".join(lines_of(case))
    first = pipeline_of(DIALECT, case.provider, settings)
    before = events_of(first.feed(lines) + first.close())
    names = ("messageId", "toolCallId", "parentMessageId")
    taken = frozenset(event[name] for event in before for name in names if name in event)
    again = pipeline_of(DIALECT, case.provider, settings, DialectOptions(taken_ids=taken))
    said = again.feed(lines) + again.close()
    assert_sound(DIALECT, said)
    after = events_of(said)
    spans = ("REASONING_START", "REASONING_END")  # a span is in no list of messages
    assert not {event[name] for event in after if event["type"] not in spans for name in names if name in event} & taken


@pytest.mark.node
def test_the_client_agrees(node_modules: Path) -> None:
    """The protocol's own client accepts streams that are cut off after each third."""
    streams = [
        events_of(play_lines(DIALECT, case, lines_of(case)[: len(lines_of(case)) * third // 3]))
        for case in CASES
        for third in (1, 2)
    ]
    data = [b"".join(encode_sse(json.dumps(event).encode()) for event in events).decode() for events in streams]
    lines = "\n".join(json.dumps({"declared": sse}) for sse in data).encode()
    command = ["node", *CLIENT]
    said = subprocess.run(command, input=lines, stdout=subprocess.PIPE, check=True, cwd=node_modules).stdout
    heard = [json.loads(line) for line in said.split(b"\n")[:-1]]
    assert [(one["thrown"], one["warnings"]) for one in heard] == [(None, [])] * len(streams)


@pytest.mark.parametrize("row", FORMATS, ids=[row.name for row in FORMATS])
def test_no_credential_is_written(row: Format) -> None:
    assert leaks(told(DIALECT, everywhere(row.matches[0])), *secret_of(row)) == set()
