"""What is shown does not depend on how a text was cut: into deltas, parts, messages, summaries or responses.

The texts are drawn by `drawn_cuts.py`. Over deltas, the text with cuts equals the text without. Over texts that clients
join, each of them shows what the joined texts up to its end show when they are one text, and no other character. A
failure is reduced, and printed with the seed of its draw.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from random import Random
from typing import Any, Final

import pytest

from projector.core.context import StreamContext
from projector.core.pipeline import Pipeline, build_pipeline
from projector.dialects import DIALECTS
from projector.redaction.ledger import BlockedError
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.redaction.streams import Seam, TextStream
from tests.property.canaries import Event
from tests.property.drawn_cuts import (
    REGISTERED,
    SECRETS,
    Case,
    Deltas,
    Failure,
    draw_text,
    pieces,
    random_cut,
    reduced,
)
from tests.property.soundness import EFFORT
from tests.rule_samples import CLASSES

COMPARISONS: Final = 2_000 * EFFORT if EFFORT > 1 else 8_000
"""Comparisons of `make test-all`, which are the same in every run, or of `make fuzz`."""
_GROUPS: Final = 16
_MOST_FAILURES: Final = int(os.environ.get("PROJECTOR_TESTS_FAILURES", "5"))
_FEW: Final = 24

_CLASSES: Final = [row.name for row in CLASSES]
_ACTIONS: Final = ("mask", "report", "block")
_TEXT: Final[dict[str, object]] = {
    "default": "credentials",
    "off": "off",
    **{action: dict.fromkeys(("credentials", *_CLASSES), action) for action in _ACTIONS},
    "report credentials": {"credentials": "report", **dict.fromkeys(_CLASSES, "mask")},
    "mask credentials": {"credentials": "mask", **dict.fromkeys(_CLASSES, "report")},
    **{
        f"mixed {shift}": {name: _ACTIONS[(at + shift) % 3] for at, name in enumerate(("credentials", *_CLASSES))}
        for shift in range(3)
    },
}
_VALUES: Final = [{"value": value} | ({"id": name} if name else {}) for name, value in REGISTERED.items()]
POLICIES: Final = [
    text + values + secrets for text in _TEXT for values in ("", "+values") for secrets in ("", "+secrets")
]
"""What is done with text, and whether values are registered and the server has secrets."""


@cache
def redactor_of(policy: str, *, blocks: bool = True) -> Redactor:
    """Return the redactor of a policy, or that of the same policy with `mask` in place of `block`."""
    text, *more = policy.split("+")
    actions = _TEXT[text]
    if not blocks and isinstance(actions, dict):
        actions = {name: "mask" if action == "block" else action for name, action in actions.items()}
    table = {"text": actions, "registered": _VALUES if "values" in more else [], "reasoning": "full"}
    return Redactor(Policy.load(table), SECRETS if "secrets" in more else ())


# over deltas


def _stream(redactor: Redactor, place: str) -> TextStream:
    return {
        "message": redactor.message_stream,
        "runs": redactor.message_stream,
        "code": redactor.code_stream,
        "structured": redactor.structured_stream,
    }[place]()


def _shown(policy: str, place: str, deltas: Iterable[str], *, blocks: bool = True) -> tuple[str, bool]:
    """Return the text that is shown, and whether a value ended it."""
    redactor = redactor_of(policy, blocks=blocks)
    said: list[str] = []
    try:
        if place == "arguments":
            arguments = redactor.argument_stream()
            said += [arguments.feed(delta).value for delta in deltas]
            end = arguments.finish()
            return "".join([*said, end.rest.value, "|", end.arguments.text.value]), False
        stream = _stream(redactor, place)
        at, rows = 0, [*deltas]
        while at < len(rows):
            run = stream.feed_run(rows, at) if place == "runs" else []
            said += run
            at += len(run)
            said += [stream.feed(delta).value for delta in rows[at : at + 1]]
            at += 1
        said.append(stream.close().value)
    except BlockedError:
        return "".join(said), True
    return "".join(said), False


@lru_cache(4_096)
def _uncut(policy: str, place: str, text: str) -> tuple[str, bool]:
    return _shown(policy, place, [text])


def over_deltas(case: Case) -> Failure | None:
    """Compare a text with cuts and without."""
    deltas = case.texts[0]
    text = "".join(deltas)
    expected, is_blocked = _uncut(case.policy, case.place, text)
    got, ends = _shown(case.policy, case.place, deltas)
    if ends != is_blocked:
        return Failure("block missed" if is_blocked else "blocked by a cut", (expected, is_blocked), (got, ends))
    if is_blocked:
        whole, _ = _shown(case.policy, case.place, [text], blocks=False)
        return None if whole.startswith(got) else Failure("shown before the block", whole, got)
    return None if got == expected else Failure("differs", expected, got)


# over texts that clients join


def _kept(stream: TextStream, text: str, clean: str) -> list[bool]:
    """Return for each character of a text whether it is shown."""
    place = stream.positions.position
    kept = [place(at + 1, is_end=True) - place(at, is_end=False) == 1 for at in range(len(text))]
    shown = "".join(char for char, is_kept in zip(text, kept, strict=True) if is_kept)
    assert len(shown) <= len(clean)
    return kept


@lru_cache(4_096)
def _uncut_kept(policy: str, text: str, *, blocks: bool = True) -> tuple[list[bool] | None, str]:
    """Return which characters of an uncut text are shown, None if it is blocked; and the clean text."""
    stream = redactor_of(policy, blocks=blocks).message_stream()
    try:
        clean = stream.feed(text).value + stream.close().value
    except BlockedError:
        return None, ""
    return _kept(stream, text, clean), clean


def joined(case: Case) -> tuple[list[list[bool]] | None, list[str]]:
    """Return which characters of each text are shown, None if one is blocked; and the clean texts."""
    seam = Seam()
    redactor = redactor_of(case.policy)
    is_part = case.place.startswith("parts")
    streams: list[TextStream] = []
    clean: list[str] = []
    try:
        for at, deltas in enumerate(case.texts):
            stream = redactor.message_stream(seam, "m" if is_part else at)
            streams.append(stream)
            clean.append("".join([stream.feed(delta).value for delta in deltas]))
            if case.place != "parts":
                clean[-1] += stream.close().value
        if case.place == "parts":  # which are closed at the end of their message
            for at, stream in enumerate(streams):
                clean[at] += stream.close().value
    except BlockedError:
        return None, clean
    texts = map("".join, case.texts)
    return [_kept(*each) for each in zip(streams, texts, clean, strict=True)], clean


def over_texts(case: Case) -> Failure | None:
    """Compare joined texts with one text: with nothing between them, and messages with a blank line too."""
    texts = ["".join(deltas) for deltas in case.texts]
    kept, clean = joined(case)
    separators = ("",) if case.place.startswith("parts") else ("", "\n\n")
    whole = _uncut_kept(case.policy, "".join(texts))[1]
    is_blocked = False
    is_equal = True
    for at, text in enumerate(texts):
        befores = [separator.join([*texts[:at], ""]) if at else "" for separator in separators]
        ends = bool(text) and any(_uncut_kept(case.policy, before + text)[0] is None for before in befores)
        is_blocked = is_blocked or ends
        if kept is None:
            continue
        ways = [(len(before), _uncut_kept(case.policy, before + text, blocks=False)[0]) for before in befores]
        expected = [way[start:] for start, way in ways if way is not None]
        wanted = [all(each) for each in zip(*expected, strict=True)]
        if any(ours and not theirs for ours, theirs in zip(kept[at], wanted, strict=True)):
            return Failure("leak", whole, clean)
        is_equal = is_equal and kept[at] == wanted
    if is_blocked and kept is not None:
        return Failure("block missed", whole, clean)
    if kept is None:
        may_block = is_blocked or (_blocks_credentials(case.policy) and _ANY.search(whole + "".join(clean)) is not None)
        return None if may_block else Failure("blocked by a seam", whole, clean)
    if not is_equal:
        return Failure("more withheld", whole, clean)
    flat = [each for row in kept or () for each in row]
    if len(separators) == 1 and flat == _uncut_kept(case.policy, "".join(texts))[0]:
        return None if _ANY.sub("*", "".join(clean)) == _ANY.sub("*", whole) else Failure("marks", whole, clean)
    return None


def _blocks_credentials(policy: str) -> bool:
    """Return whether the rest of any value blocks, because it may be that of a credential."""
    actions = _TEXT[policy.partition("+")[0]]
    return isinstance(actions, dict) and actions["credentials"] == "block"


_ANY: Final = re.compile(r"<redacted[^>]*>|\[REDACTED:[^]]*\]")
"""Any mark: the first part of a registered value that begins like another one has no name."""


# over a pipeline


def _item(at: int, kind: str, item_type: str, item_id: str, **members: object) -> Event:
    item = {"type": item_type, "id": item_id, "call_id": f"call_{at}", "name": "tool", **members}
    return {"type": f"response.output_item.{kind}", "output_index": at, "item": item}


def _delta(at: int, name: str, delta: str, **members: object) -> Event:
    return {"type": f"response.{name}.delta", "output_index": at, "item_id": f"it_{at}", "delta": delta, **members}


_CREATED: Final[Event] = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}
_COMPLETED: Final[Event] = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
_TOOLS: Final = {
    "arguments": ("function_call", "function_call_arguments", "arguments"),
    "code": ("code_interpreter_call", "code_interpreter_call_code", "code"),
}


def _responses_of(case: Case) -> Iterator[list[Event]]:
    """Yield the events of each response of OpenAI Responses."""
    what = case.place.split(" ")[1]
    content = [[{"type": "output_text", "text": "".join(deltas)}] for deltas in case.texts]
    if what == "responses":
        for at, deltas in enumerate(case.texts):
            yield [
                _CREATED,
                _item(at, "added", "message", f"it_{at}", content=[]),
                *(_delta(at, "output_text", delta, content_index=0) for delta in deltas),
                _item(at, "done", "message", f"it_{at}", content=content[at]),
                _COMPLETED,
            ]
        return
    events = [_CREATED]
    if what in _TOOLS:
        item_type, name, member = _TOOLS[what]
        text = "".join(case.texts[0])
        events += [_item(0, "added", item_type, "it_0", **{member: ""})]
        events += [_delta(0, name, delta) for delta in case.texts[0]]
        events += [_item(0, "done", item_type, "it_0", **{member: text})]
    elif what == "messages":
        for at, deltas in enumerate(case.texts):
            events += [_item(at, "added", "message", f"it_{at}", content=[])]
            events += [_delta(at, "output_text", delta, content_index=0) for delta in deltas]
            events += [_item(at, "done", "message", f"it_{at}", content=content[at])]
    else:
        is_message = what == "parts"
        item_type, name, index = (
            ("message", "output_text", "content_index")
            if is_message
            else ("reasoning", "reasoning_summary_text", "summary_index")
        )
        events += [_item(0, "added", item_type, "it_0")]
        events += [_delta(0, name, delta, **{index: at}) for at, deltas in enumerate(case.texts) for delta in deltas]
        events += [
            _item(0, "done", item_type, "it_0", **({"content": [each[0] for each in content]} if is_message else {}))
        ]
    yield [*events, _COMPLETED]


def _chat(delta: Event, reason: str | None = None) -> Event:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def _chats_of(case: Case) -> Iterator[list[Event]]:
    """Yield the chunks of each response of Chat Completions."""
    what = case.place.split(" ")[1]
    for deltas in case.texts:
        if what == "arguments":
            call = {"index": 0, "id": "call_0", "type": "function", "function": {"name": "tool", "arguments": ""}}
            rows = [call, *({"index": 0, "function": {"arguments": delta}} for delta in deltas)]
            yield [*(_chat({"tool_calls": [row]}) for row in rows), _chat({}, "tool_calls")]
        else:
            name = "content" if what == "responses" else "reasoning_content"
            yield [*(_chat({name: delta}) for delta in deltas), _chat({"content": "."}), _chat({}, "stop")]


def played(case: Case) -> bytes:
    """Return the output of a run."""
    provider, _, dialect = case.place.split(" ")
    pipeline: Pipeline = build_pipeline(
        provider=provider,
        dialect=dialect,
        context=StreamContext(stream_id="stream_1"),
        redactor=redactor_of(case.policy),
        takes_host_events=True,
        run=True,
        input_format="ndjson",
        output_format="ndjson",
        clock=lambda: 1_765_800_000.0,
    )
    said = b""
    responses = _responses_of(case) if provider == "openai_responses" else _chats_of(case)
    for number, events in enumerate(responses):
        said += pipeline.next_response() if number else b""
        said += pipeline.feed(b"".join(json.dumps(event).encode() + b"\n" for event in events))
    return said + pipeline.close()


_GROWING: Final = ("delta", "inputTextDelta", "chunk")
_NAMES: Final = (
    *("type", "kind", "item_id", "messageId", "id", "toolCallId", "channel", "content_index", "summary_index"),
)
_ENDS: Final = (b"content_blocked", b"content_filter")


def read(said: bytes) -> dict[tuple[object, ...], str]:
    """Return the texts of an output, with their deltas joined."""
    found: dict[tuple[object, ...], str] = defaultdict(str)
    for line in said.splitlines():
        if line.startswith(b"{"):
            _read(json.loads(line), found)
    return {key: text for key, text in found.items() if text}


def _read(frame: dict[str, Any], found: dict[tuple[object, ...], str]) -> None:
    for choice in frame.get("choices", ()):
        for name, value in choice["delta"].items():
            if isinstance(value, str):
                found[name,] += value
        for call in choice["delta"].get("tool_calls", ()):
            found["arguments", call["index"]] += call["function"].get("arguments", "")
    for patch in frame.get("patch", ()):
        if isinstance(patch.get("value"), str | list):
            found["patch", frame["messageId"]] += "".join(map(str, patch["value"]))
    holder = {**frame, **frame["payload"]} if isinstance(frame.get("payload"), dict) else frame
    for name in _GROWING:
        if isinstance(holder.get(name), str):
            found[tuple(holder.get(key) for key in _NAMES)] += holder[name]


def over_pipeline(case: Case) -> Failure | None:
    """Compare a run with cuts with one that has a delta for each text."""
    uncut = case._replace(texts=tuple(("".join(deltas),) for deltas in case.texts))
    expected, got = played(uncut), played(case)
    ends, our_ends = ([end in said for end in _ENDS] for said in (expected, got))
    if ends != our_ends:
        return Failure("block missed" if any(ends) else "blocked by a cut", read(expected), read(got))
    if any(ends):
        return None
    texts, ours = read(expected), read(got)
    if texts != ours:
        return Failure("differs", texts, ours)
    return _against_texts(case, ours)


def _against_texts(case: Case, ours: dict[tuple[object, ...], str]) -> Failure | None:
    """Compare the texts of a run with those of the redactor."""
    provider, what, dialect = case.place.split(" ")
    if dialect != "public_sse_v1" or provider != "openai_responses" or what in _TOOLS:
        return None
    _, clean = joined(case._replace(place="parts" if what == "parts" else "messages"))
    texts = [ours[key] for key in sorted(ours, key=str) if str(key[1]).endswith(".delta")]
    wanted = [text for text in clean if text]
    return None if texts == wanted else Failure("not as the redactor", wanted, texts)


# draws


_PLACES: Final = ("message", "message", "runs", "code", "arguments", "structured")
_JOINTS: Final = ("parts", "parts closed at once", "messages")
_RUNS: Final = [
    *(("openai_responses", what) for what in ("parts", "messages", "summaries", "responses", "arguments", "code")),
    *(("openai_chat", what) for what in ("responses", "reasoning", "arguments")),
]
_CHECKS: Final = {"deltas": over_deltas, "texts": over_texts, "pipeline": over_pipeline}


def cases(random: Random) -> Iterator[tuple[str, Case]]:
    """Yield the cases of one drawn text, with the name of their check."""
    text = draw_text(random)
    policy = random.choice(POLICIES)
    place = random.choice(_PLACES)
    if place in {"arguments", "structured"} and random.random() < _JSON:
        text = json.dumps({"q": text}, ensure_ascii=random.random() < 1 / 2)
    whole = range(1, len(text))
    few = whole if EFFORT > 1 else random.sample(whole, min(_FEW, len(whole)))
    for edge in few:
        yield "deltas", Case(policy, place, (pieces(text, [edge]),))
    yield "deltas", Case(policy, place, (tuple(text),))
    for _ in range(2):
        yield "deltas", Case(policy, place, (random_cut(text, random),))
    yield from _joined_cases(random, text, policy)


_JSON: Final = 0.7
_TWO: Final = 0.6


def _joined_cases(random: Random, text: str, policy: str) -> Iterator[tuple[str, Case]]:
    joint = random.choice(_JOINTS)
    for _ in range(_FEW // 2):
        most = 1 if random.random() < _TWO else 3
        texts = pieces(text, [random.randint(0, len(text)) for _ in range(most)])
        if joint == "messages" and random.random() < 1 / 2:
            texts = tuple(part.removesuffix("\n\n") for part in texts if part != "\n\n")
        cut: tuple[Deltas, ...] = tuple(
            (part,) if random.random() < _TWO else random_cut(part, random) for part in texts
        )
        yield "texts", Case(policy, joint, tuple(deltas for deltas in cut if deltas))
    for provider, what in random.sample(_RUNS, 2):
        dialect = random.choice(sorted(DIALECTS))
        texts = (json.dumps({"q": text}),) if what == "arguments" else (text,) if what == "code" else texts
        cut = tuple(random_cut(part, random) for part in texts)
        yield "pipeline", Case(policy, f"{provider} {what} {dialect}", tuple(deltas for deltas in cut if deltas))


def run(seed: int) -> tuple[int, list[str]]:
    """Compare the cases of one draw; return their number, and the first failure of each kind as a line."""
    found: dict[tuple[str, str], str] = {}
    count = 0
    for name, case in cases(Random(seed)):
        count += 1
        if not case.texts:
            continue
        failure = _CHECKS[name](case)
        if failure is not None and (name, failure.kind) not in found:
            small, what = reduced(case, _CHECKS[name])
            found[name, failure.kind] = f"{failure.kind} | {name} | {tuple(small)} | {what} | seed {seed}"
    return count, [*found.values()]


FOUND: Final = {
    "a `<` held as a tag until the next part": (
        "pipeline",
        Case("block", "openai_responses parts public_sse_v1", (("74081",), ("22F1204159UTO<<<",), ("<<<<<<<<6",))),
    ),
    "an unfinished spelling at the end of a reported value": (
        "texts",
        Case("report", "parts closed at once", ((r"\u007b\u0070\u0062\u006b\u0064\u0066\u0032\u007d0300",), ("8\\",))),
    ),
    "a value that another message makes one of another class": (
        "texts",
        Case("mixed 0", "messages", (("DE89 04 0532013",), (";",))),
    ),
    "the same by the blank line between them": (
        "texts",
        Case("mixed 0", "messages", (("DE89 040532 013",), ("0",))),
    ),
    "the rest of a reported value behind one that is withheld": (
        "texts",
        Case("mixed 0", "messages", (("lin_api_a1B2c3D4e5F6g7H8i9J0ka1B2c3D4e5F6g7",), ("H8i9J@",))),
    ),
    "a value of another class for each way to join the texts": (
        "texts",
        Case("mixed 1", "messages", (("123 - 45",), (" -",), (" 6789@",))),
    ),
}
"""Differences that were found: a check and its case."""


@pytest.mark.parametrize(("check", "case"), FOUND.values(), ids=FOUND)
def test_found_differences_stay_mended(check: str, case: Case) -> None:
    assert _CHECKS[check](case) is None


@pytest.mark.parametrize("group", range(_GROUPS))
def test_cuts_change_nothing(group: int) -> None:
    first = 0 if EFFORT == 1 else int.from_bytes(os.urandom(4))
    count, seed, found = 0, first + group, list[str]()
    while count < COMPARISONS // _GROUPS and len(found) < _MOST_FAILURES:
        compared, failures = run(seed)
        count += compared
        found += failures
        seed += _GROUPS
    assert found == [], "\n".join([f"{count} comparisons", *found])
