"""Our AG-UI streams and the public streams of the same inputs, summarised for comparison."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from projector.core.faults import FAULTS
from projector.core.sse import encode_sse
from projector.dialects.descriptor import DialectOptions
from projector.recording import replay
from projector.recording.replay import CaseSettings
from tests.corpus.recorded import STREAMS, data_of, is_run
from tests.property.soundness import pipeline_of

Event: TypeAlias = dict[str, Any]

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"
CASES: Final = replay.load_cases(EXAMPLES)

DECLARED: Final = DialectOptions()
BEFORE_1_0: Final = DialectOptions(is_before_1_0=True)


class Source(NamedTuple):
    """An input: a golden one, or a recorded one."""

    name: str
    provider: str
    path: Path
    settings: CaseSettings


GOLDEN: Final = [Source(case.name, case.provider, case.source, case.settings) for case in CASES]
CORPUS_SOURCES: Final = [
    Source(f"{path.parent.name}/{path.stem}", provider, path, CaseSettings(run=is_run(path)))
    for path, provider in STREAMS
]


def play(source: Source, dialect: str = "ag_ui", options: DialectOptions = DECLARED) -> list[Event]:
    """Return the output events of an input; each input is projected once."""
    key = (source.name, dialect, options)
    if key not in _PLAYED:
        _PLAYED[key] = _play(source, dialect, options)
    return _PLAYED[key]


_PLAYED: Final[dict[tuple[str, str, DialectOptions], list[Event]]] = {}


def _play(source: Source, dialect: str, options: DialectOptions) -> list[Event]:
    return [json.loads(line) for line in output_of(source, dialect, options).splitlines()]


def output_of(source: Source, dialect: str, options: DialectOptions) -> bytes:
    """Return the output of an input as lines."""
    settings = source.settings
    pipeline = pipeline_of(dialect, source.provider, settings, options)
    return pipeline.feed(data_of(source.path)) + pipeline.close(FAULTS[settings.close] if settings.close else None)


def as_sse(events: Iterable[Event]) -> str:
    return b"".join(encode_sse(json.dumps(event).encode()) for event in events).decode()


class Said(NamedTuple):
    """Content of a stream in any dialect."""

    texts: list[str]
    refusals: list[str]
    summaries: list[str]
    arguments: dict[str, str]
    results: dict[str, list[str]]
    activities: dict[str, str]
    """Last status, by item."""


def said_in_public(frames: list[Event]) -> Said:
    """Read a public stream."""
    parts: dict[str, dict[object, str]] = defaultdict(lambda: defaultdict(str))
    said = Said([], [], [], {}, defaultdict(list), {})
    for frame in frames:
        kind, item_id = frame["kind"], frame.get("item_id")
        if kind in DELTAS:
            parts[kind][item_id, frame.get("summary_index")] += frame["delta"]
        elif kind == "tool.status" and frame["tool"]["tool_type"] in {"function", "mcp"}:
            said.arguments.setdefault(frame["tool"]["tool_call_id"], frame["tool"].get("arguments_text", ""))
        elif kind == "tool.arguments.delta":
            said.arguments[frame["tool_call_id"]] += frame["delta"]
        elif kind == "tool.arguments.done":
            said.arguments[frame["tool_call_id"]] = frame["arguments_text"]
        elif kind == "tool.output" and frame["tool_type"] in {"function", "mcp"}:
            output = frame["output"]
            text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, separators=(",", ":"))
            said.results[frame["tool_call_id"]].append(text)
        elif kind == "output_item.done" and frame["item_type"] not in SAID_OTHERWISE:
            said.activities[str(item_id)] = frame["status"]
    for kind, found in DELTAS.items():
        getattr(said, found).extend(text for text in parts[kind].values() if text)
    return said


DELTAS: Final = {"message.delta": "texts", "refusal.delta": "refusals", "reasoning_summary.delta": "summaries"}
SAID_OTHERWISE: Final = {
    *("message", "reasoning", "function_call", "custom_tool_call", "mcp_call", "mcp_approval_request"),
    *("function_call_output", "custom_tool_call_output"),
}


OURS: Final = {"answered", "incomplete"}
"""Status of a result that only marks a call as not to be executed."""


def said_by_client(messages: list[Mapping[str, Any]]) -> Said:
    """Read the messages that a client has assembled."""
    said = Said([], [], [], {}, defaultdict(list), {})
    for message in messages:
        about = message.get("metadata", {})
        if message["role"] == "assistant":
            found = said.refusals if about.get("public-sse.kind") == "refusal" else said.texts
            found.extend([message["content"]] if message.get("content") else [])
            said.arguments.update((call["id"], call["function"]["arguments"]) for call in message.get("toolCalls", ()))
        elif message["role"] == "reasoning":
            if about["public-sse.kind"] == "full":
                continue  # the public stream has none of it
            said.summaries.extend([message["content"]] if message["content"] else [])
        elif message["role"] == "tool":
            if about.get("public-sse.status") not in OURS and message["content"]:
                said.results[message["toolCallId"]].append(message["content"])
        else:
            said.activities[message["id"]] = message["content"]["status"]
    return said
