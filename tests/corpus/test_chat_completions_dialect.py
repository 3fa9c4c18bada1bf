"""Every recorded stream in Chat Completions: the SDK joins the content of the public stream, our provider reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from projector.contracts.stream_rules.table import check_lines
from projector.core.canonical import Frame
from tests.chat_sdk import accumulate, assemble, check_answer, message_of
from tests.corpus.recorded import data_of, each_stream, is_run, pipeline_of
from tests.protocols.chat_completions.checker import ChatCompletionsChecker

FINISHES: Final = {"refused": "stop", "cancelled": "length"}


def play(data: bytes, provider: str, frames: list[Frame], **settings: Any) -> list[bytes]:
    pipeline = pipeline_of(provider, "chat_completions", on_frame=frames.append, **settings)
    return (pipeline.feed(data) + pipeline.close()).splitlines()


@each_stream
def test_the_completion_is_that_of_the_public_stream(path: Path, provider: str) -> None:
    frames: list[Frame] = []
    lines = play(data_of(path), provider, frames, run=is_run(path))
    assert check_lines(ChatCompletionsChecker(), lines) == []
    answer, completion = assemble(lines), accumulate(lines)
    if completion is None:
        assert answer.body["error"]["code"] == error_of(frames)
    else:
        check_answer(answer)
        message = message_of(completion)
        assert message == message_of(answer.body)
        assert message["content"] == joined(frames, "message.delta", "response_text")
        assert message["refusal"] == joined(frames, "refusal.delta", "refusal_text")
        assert message["tool_calls"] == ([] if is_run(path) else calls_in(frames))
        assert answer.body["choices"][0]["finish_reason"] == finish_of(frames, has_calls=bool(message["tool_calls"]))
        assert answer.body.get("usage", {}).get("completion_tokens") == output_tokens(frames)
    again = assemble(play(b"\n".join(lines), "openai_chat", [], profile={"think_mode": "off"}))
    assert (again.status, again.body) == (answer.status, answer.body)


def joined(frames: list[Frame], kind: str, name: str) -> str:
    """Return the texts of all items, joined as one; a text without deltas is that of the end."""
    texts: dict[str, str] = {}
    for frame in frames:
        if frame["kind"] == kind:
            texts[frame["item_id"]] = texts.get(frame["item_id"], "") + frame["delta"]
    return "\n\n".join(filter(None, texts.values())) or frames[-1]["final"].get(name, "")


def calls_in(frames: list[Frame]) -> list[tuple[str, str, str]]:
    """Return ID, name and arguments of each call of a function, in order."""
    calls: dict[str, list[str]] = {}
    for frame in frames:
        if frame["kind"] == "tool.status" and frame["tool"]["tool_type"] == "function":
            calls.setdefault(frame["item_id"], [frame["tool"]["tool_call_id"], frame["tool"]["name"], ""])
        elif frame["item_id" if "item_id" in frame else "kind"] in calls:
            call = calls[frame["item_id"]]
            if frame["kind"] == "tool.arguments.delta":
                call[2] += frame["delta"]
            elif frame["kind"] == "tool.arguments.done":
                call[2] = frame["arguments_text"]
    return [(call_id, name, arguments) for call_id, name, arguments in calls.values()]


def finish_of(frames: list[Frame], *, has_calls: bool) -> str:
    status = frames[-1]["final"]["status"]
    if status == "incomplete":
        reasons = [frame.get("reason") for frame in frames if frame["kind"] == "lifecycle"]
        return "content_filter" if "content_filter" in reasons else "length"
    return FINISHES.get(status) or ("tool_calls" if has_calls else "stop")


def error_of(frames: list[Frame]) -> str:
    if frames[-1]["kind"] == "error":
        return str(frames[-1]["error"]["code"])
    return next(str(frame.get("reason", "provider_error")) for frame in frames if frame.get("status") == "failed")


def output_tokens(frames: list[Frame]) -> int | None:
    usage = frames[-1]["final"].get("usage")
    return usage.get("output_tokens", 0) if usage else None
