"""Streams of the dialects that follow a protocol of others, for their properties: playing and checking them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from ag_ui_validate.pytest_plugin import validate_agui

from projector.contracts.kinds import VENDOR
from projector.core.faults import FAULTS
from projector.core.handlers.items import MEMBERS
from projector.core.sse import DONE
from projector.dialects.descriptor import DialectOptions
from projector.dialects.responses.writer import ITEMS
from projector.recording.replay import Case, CaseSettings
from tests import chat_sdk, json_answers
from tests.dialect_checks import violations_of
from tests.property.cost import assert_linear
from tests.property.mutations import Lines
from tests.property.soundness import OURS, pipeline_of
from tests.protocols.anthropic_messages.events import MESSAGE_ADAPTER
from tests.sdk_models import faults_of

Event: TypeAlias = dict[str, Any]


def play(dialect: str, reads: Iterable[bytes], case: Case, options: DialectOptions | None = None, **more: Any) -> bytes:
    """Return all output of a stream; check that nothing follows its end."""
    pipeline = pipeline_of(dialect, case.provider, case.settings, options, **more)
    said = b"".join(map(pipeline.feed, reads))
    said += pipeline.close(FAULTS[case.settings.close] if case.settings.close else None)
    assert pipeline.ended
    assert pipeline.feed(b'{"type":"response.created"}\n') + pipeline.close() == b""
    return said


def play_lines(dialect: str, case: Case, lines: Lines, options: DialectOptions | None = None, **more: Any) -> bytes:
    return play(dialect, [b"\n".join(lines)], case, options, **more)


def events_of(said: bytes) -> list[Event]:
    """Return the events of a stream, without an end mark."""
    return [json.loads(line) for line in said.splitlines() if line != DONE]


# what every stream must have


def assert_sound(dialect: str, said: bytes) -> None:
    """Check every rule, what the clients of a dialect need, and that there is no internal fault."""
    assert violations_of(dialect, said.splitlines()) == []
    assert not any(f'"code":"{code}"'.encode() in said for code in OURS)
    CHECKS[dialect](said)


def _check_ag_ui(said: bytes) -> None:
    """Check the rules of the validator, and those of the client that the validator does not have."""
    events = events_of(said)
    report = validate_agui([json.dumps(event) for event in events], severity_overrides={"AGUI204": "off"})
    assert [found for found in report.diagnostics if found.severity != "info"] == []
    types = [event["type"] for event in events]
    assert types[0] == "RUN_STARTED"
    assert [kind in {"RUN_FINISHED", "RUN_ERROR"} for kind in types] == [False] * (len(types) - 1) + [True]
    for opening, (closing, member) in PAIRS.items():
        opened = Counter(event[member] for event in events if event["type"] == opening)
        closed = Counter(event[member] for event in events if event["type"] == closing)
        assert opened == closed or (types[-1] == "RUN_ERROR" and opening == "STEP_STARTED")
        assert opening == "STEP_STARTED" or set(opened.values()) <= {1}
    made = ("TEXT_MESSAGE_START", "REASONING_MESSAGE_START", "TOOL_CALL_RESULT", "ACTIVITY_SNAPSHOT")
    ids = Counter(event["messageId"] for event in events if event["type"] in made)
    assert set(ids.values()) <= {1}


PAIRS: Final = {
    "STEP_STARTED": ("STEP_FINISHED", "stepName"),
    "TEXT_MESSAGE_START": ("TEXT_MESSAGE_END", "messageId"),
    "REASONING_START": ("REASONING_END", "messageId"),
    "REASONING_MESSAGE_START": ("REASONING_MESSAGE_END", "messageId"),
    "TOOL_CALL_START": ("TOOL_CALL_END", "toolCallId"),
}
"""Start event of AG-UI -> its end event, and the member that identifies the pair."""


def _check_ai_sdk(said: bytes) -> None:
    assert said.splitlines()[-1] == DONE


def _check_completion(said: bytes) -> None:
    """Check that the SDK accepts each chunk and joins the same message as the JSON answer."""
    lines = said.splitlines()
    answer = chat_sdk.assemble(lines)
    completion = chat_sdk.accumulate(lines)
    assert (answer.status == 200) == (completion is not None) == (answer.body.get("object") == "chat.completion")
    if completion is not None:
        chat_sdk.check_answer(answer)
        assert chat_sdk.message_of(completion) == chat_sdk.message_of(answer.body)
        assert completion["choices"][0]["finish_reason"] == answer.body["choices"][0]["finish_reason"]


def _check_messages(said: bytes) -> None:
    """Check the JSON answer, and that only a message that did not fail has an end."""
    answer = json_answers.assemble(said.splitlines(), "anthropic_messages")
    last = events_of(said)[-1]["type"]
    assert (answer.status == 200) == (answer.body["type"] == "message") == (last == "message_stop")
    if answer.status == 200:
        MESSAGE_ADAPTER.validate_python(answer.body)


def _check_open_responses(said: bytes) -> None:
    answer = json_answers.assemble(said.splitlines(), "openresponses")
    assert (answer.status == 200) == (answer.body.get("object") == "response")


def without_sent(line: bytes) -> bytes:
    """Return an event without the insides of members that are written as the provider sent them, perhaps spoiled."""
    event = json.loads(line)
    for item in [event.get("item"), *(event.get("response") or {}).get("output", ())]:
        for name in MEMBERS.get(item["type"], ()) if item else ():
            if isinstance(item.get(name), (dict, list)):
                required = ITEMS[item["type"]].members
                del item[name]
                item.update({name: required[name]} if name in required else {})
    return json.dumps(event).encode()


def _check_responses(said: bytes) -> None:
    """Check the models of the SDK, one end, no name of ours, and the JSON answer."""
    lines = said.splitlines()
    assert faults_of(map(without_sent, lines)) == []
    names = [event["type"] for event in events_of(said)]
    ends = {"response.completed", "response.incomplete", "response.failed"}
    assert [name for name in names if name in ends] == names[-1:]
    assert not any(name.startswith(VENDOR) for name in names)
    answer = json_answers.assemble(lines, "responses")
    assert (answer.status == 200) == (answer.body.get("object") == "response")


CHECKS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "ag_ui": _check_ag_ui,
    "ai_sdk": _check_ai_sdk,
    "anthropic_messages": _check_messages,
    "chat_completions": _check_completion,
    "openresponses": _check_open_responses,
    "responses": _check_responses,
}
"""Dialect -> what its clients need beside the rules."""


# secrets

SECRET: Final = 'quay vault/6fe1 \u00fc\n"'
VAULT: Final = CaseSettings(
    host_events=True,
    policy={"registered": [{"id": "vault", "value": SECRET}], "error_messages": "provider"},
)


def told(dialect: str, events: list[Event], options: DialectOptions | None = None, **policy: object) -> bytes:
    """Return the output of a stream in the format of the search for canaries: each event with a kind and an item."""
    lines = [json.dumps(event).encode() + b"\n" for event in events]
    pipeline = pipeline_of(dialect, "openai_responses", VAULT, options, **policy)
    said = b"".join(map(pipeline.feed, lines)) + pipeline.close()
    assert_sound(dialect, said)
    shown = [one for event in events_of(said) for one in SHOWN.get(dialect, _with_kind)(event)]
    return b"\n".join(json.dumps(one, ensure_ascii=False).encode() for one in shown)


def _with_kind(event: Event) -> Iterator[Event]:
    yield {"kind": event["type"], "item_id": "", **event}


def _ag_ui_deltas(event: Event) -> Iterator[Event]:
    place = {"kind": event["type"], "item_id": event.get("messageId", event.get("toolCallId", ""))}
    for step in event.get("patch", ()):
        if step["path"].startswith("/code"):
            yield {**place, "delta": "".join(step["value"])}
    yield {**event, **place}


def _chat_deltas(event: Event) -> Iterator[Event]:
    deltas = [choice["delta"] for choice in event.get("choices", ())]
    entries = [entry for delta in deltas for entry in delta.get("tool_calls", ())]
    texts = [(name, "", text) for delta in deltas for name, text in delta.items() if isinstance(text, str)]
    texts += [("call", str(entry["index"]), entry["function"]["arguments"]) for entry in entries]
    yield event
    yield from ({"kind": name, "item_id": item, "delta": text} for name, item, text in texts)


def _block_deltas(event: Event) -> Iterator[Event]:
    place = {"kind": event["type"], "item_id": str(event.get("index", ""))}
    texts = [text for name, text in event.get("delta", {}).items() if name != "type" and isinstance(text, str)]
    yield {**place, "event": event}
    yield from ({**place, "delta": text} for text in texts)


SHOWN: Final[Mapping[str, Callable[[Event], Iterator[Event]]]] = {
    "ag_ui": _ag_ui_deltas,
    "anthropic_messages": _block_deltas,
    "chat_completions": _chat_deltas,
}
"""Dialect whose deltas are not in members of that name -> its events, with their deltas as the search joins them."""


# cost


def assert_linear_cost(dialect: str, event: Callable[[int], Event], *, run: bool = False) -> None:
    """Check the cost of a stream of many events, given by their number, and of its JSON answer."""

    def work(size: int) -> Callable[[], object]:
        data = b"".join(json.dumps(event(at)).encode() + b"\n" for at in range(size))

        def play_it() -> None:
            pipeline = pipeline_of(dialect, "openai_responses", CaseSettings(run=run))
            said = pipeline.feed(data) + pipeline.close()
            if dialect == "chat_completions":
                chat_sdk.assemble(said.splitlines())

        return play_it

    assert_linear(work, 80)
