"""The checker of UI message streams: every rule is broken by a row of its own, and no golden breaks one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from projector.contracts.stream_rules.table import check_lines
from tests.protocols.ai_sdk.checker import RULES, AiSdkChecker
from tests.protocols.ai_sdk.events import Data, TransientData

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson" / "ai_sdk"
DONE: Final = {"type": "[DONE]"}
CALL: Final = "chat-function-tool"
Chunk = dict[str, Any]
Edit = Callable[[list[Chunk]], None]


def chunks_of(name: str) -> list[Chunk]:
    lines = (EXAMPLES / f"{name}.ndjson").read_text().splitlines()
    return [*map(json.loads, lines[:-1]), DONE]


def line_of(chunk: Chunk) -> str:
    return "[DONE]" if chunk == DONE else json.dumps(chunk)


def at(chunks: list[Chunk], kind: str) -> int:
    return next(place for place, chunk in enumerate(chunks) if chunk["type"] == kind)


def drop(kind: str) -> Edit:
    return lambda chunks: chunks.__delitem__(at(chunks, kind))


def again(kind: str) -> Edit:
    return lambda chunks: chunks.insert(at(chunks, kind), chunks[at(chunks, kind)])


def last(kind: str) -> Edit:
    return lambda chunks: chunks.append(chunks[at(chunks, kind)])


def before_done(kind: str) -> Edit:
    return lambda chunks: chunks.insert(-1, chunks[at(chunks, kind)])


def put(kind: str, **members: object) -> Edit:
    return lambda chunks: chunks[at(chunks, kind)].update(members)


def swap(first: str, second: str) -> Edit:
    def edit(chunks: list[Chunk]) -> None:
        one, other = at(chunks, first), at(chunks, second)
        chunks[one], chunks[other] = chunks[other], chunks[one]

    return edit


ROWS: Final[list[tuple[str, str, Edit]]] = [
    ("shape", CALL, put("text-start", role="hunter2")),
    ("shape", CALL, put("start", type="hunter2")),
    ("shape", CALL, put("finish", finishReason="hunter2")),
    ("start", CALL, drop("start")),
    ("start", CALL, again("start")),
    ("one_end", CALL, before_done("finish")),
    ("one_end", CALL, before_done("data-lifecycle")),
    ("end_missing", CALL, drop("finish")),
    ("done", CALL, drop("[DONE]")),
    ("done", CALL, last("[DONE]")),
    ("done", CALL, last("finish")),
    ("done", CALL, lambda chunks: chunks.insert(2, DONE)),
    ("step_order", CALL, drop("start-step")),
    ("step_order", CALL, again("start-step")),
    ("step_order", "chat-web-search", drop("finish-step")),
    ("not_open", CALL, drop("text-start")),
    ("not_open", CALL, put("text-delta", id="hunter2")),
    ("not_open", "chat-reasoning-summary", drop("reasoning-start")),
    ("already_open", CALL, again("text-start")),
    ("not_closed", CALL, drop("text-end")),
    ("not_closed", "chat-reasoning-summary", drop("reasoning-end")),
    ("call_step", CALL, lambda chunks: chunks.insert(at(chunks, "tool-input-available"), {"type": "start-step"})),
    ("call_unique", CALL, again("tool-input-start")),
    ("call_known", CALL, drop("tool-input-start")),
    ("call_known", CALL, put("tool-output-available", toolCallId="hunter2")),
    ("call_input", CALL, swap("tool-input-delta", "tool-input-available")),
    ("call_input", CALL, drop("tool-input-available")),
    ("call_executed", "chat-web-search", lambda chunks: chunks[at(chunks, "tool-output-available")].pop("dynamic")),
]


@pytest.mark.parametrize(("rule", "stream", "edit"), ROWS)
def test_each_rule_can_be_violated(rule: str, stream: str, edit: Edit) -> None:
    chunks = chunks_of(stream)
    edit(chunks)
    found = check_lines(AiSdkChecker(), map(line_of, chunks))
    assert rule in {violation.rule for violation in found}
    assert "hunter2" not in repr(found)


def test_a_line_that_is_not_json_is_a_violation() -> None:
    assert {found.rule for found in check_lines(AiSdkChecker(), [b'{"type": "sta', b""])} == {
        "json",
        "end_missing",
        "done",
    }


def test_every_rule_has_a_row() -> None:
    assert {rule for rule, *_ in ROWS} | {"json"} == RULES.keys()


PART_TYPES: Final = Path(__file__).parents[2] / "clients" / "typescript" / "src" / "ai-sdk.ts"


def test_the_types_of_the_client_have_the_data_of_each_golden() -> None:
    """`PublicDataParts` is written by hand. Of a part that is an object of its own, members are compared too."""
    source = re.findall(r"PublicDataParts = \{\n(.*?)\n\};", PART_TYPES.read_text(encoding="utf-8"), re.DOTALL)[0]
    types = dict(re.findall(r'^  "?([a-z-]+)"?: (.*);$', source, re.MULTILINE))
    names = {name for model in (Data, TransientData) for name in get_args(model.model_fields["type"].annotation)}
    assert {f"data-{name}" for name in types} == names, f"PublicDataParts in {PART_TYPES.name}"
    chunks = [json.loads(line) for path in EXAMPLES.iterdir() for line in path.read_bytes().splitlines()[:-1]]
    for chunk in chunks:
        written = types.get(chunk["type"].removeprefix("data-"), "") if chunk["type"].startswith("data-") else ""
        if "&" not in written and written.startswith("{"):
            members = dict(re.findall(r"(\w+)(\??):", written))
            required = {name for name, optional in members.items() if not optional}
            assert required <= chunk["data"].keys() <= members.keys(), (chunk["type"], written)
