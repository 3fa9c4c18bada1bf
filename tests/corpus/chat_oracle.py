"""A second, simple reading of Chat Completions streams, which shares no code with the stage.

It reads a recorded stream as a whole, not piece by piece like the stage, and returns the expected content of a page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Chunk: TypeAlias = Mapping[str, Any]

INCOMPLETE: Final = {"length", "content_filter"}

THINK_AT_START: Final = re.compile(r"\s*<think>(.*?)(</think>|\Z)", re.DOTALL)


class Reading(NamedTuple):
    """Expected content of a page for one response."""

    terminal: str
    """`completed`, `incomplete`, `refused`, or `error` and its code."""
    text: str
    refusal: str
    calls: list[tuple[str, str, str]]
    """Id, name and arguments of each call, in order."""
    usage: dict[str, int]
    citations: list[str]
    """Citations of the message, by URL."""
    reasons: bool
    """Whether there is reasoning that is not blank."""


def chunks(lines: bytes) -> tuple[list[Chunk], bool]:
    """Return the objects of an NDJSON file, and whether it contains the end mark."""
    stripped = [line.strip() for line in lines.splitlines()]
    return [json.loads(line) for line in stripped if line.startswith(b"{")], b"[DONE]" in stripped


def provider(objects: list[Chunk], *, is_done: bool) -> Reading:
    """Read the chunks of one stream."""
    deltas = list(_deltas(objects))
    thoughts, text = _split("".join(part for delta in deltas for part in _texts(delta)))
    finishes = [choice["finish_reason"] for choice in _choices(objects) if choice.get("finish_reason")]
    terminal = _terminal(objects, finishes, is_done=is_done)
    refusal = "".join(delta.get("refusal") or "" for delta in deltas)
    return Reading(
        terminal="refused" if refusal and not text and terminal == "completed" else terminal,
        text=text,
        refusal=refusal,
        calls=_calls(deltas),
        usage={} if terminal.startswith("error") else _usage(objects),
        citations=_citations(objects, has_text=bool(text)),
        reasons=bool(thoughts.strip()) or any(map(str.strip, reasoning(objects))) or any(map(_is_encrypted, deltas)),
    )


def reasoning(objects: list[Chunk]) -> list[str]:
    """Return the reasoning texts, one for each spelling and section, including repeated ones."""
    deltas = list(_deltas(objects))
    spelled = ["".join(delta.get(name) or "" for delta in deltas) for name in ("reasoning", "reasoning_content")]
    details = "".join(
        entry.get("text") or entry.get("summary") or ""
        for delta in deltas
        for entry in delta.get("reasoning_details") or []
    )
    thinking = "".join(
        piece["text"]
        for delta in deltas
        if isinstance(delta.get("content"), list)
        for part in delta["content"]
        for piece in part.get("thinking") or []
    )
    tagged, _ = _split("".join(part for delta in deltas for part in _texts(delta)))
    return [*spelled, details, thinking, tagged]


def summary(objects: list[Chunk]) -> str:
    """Return what the provider calls a summary of its reasoning."""
    entries = [entry for delta in _deltas(objects) for entry in delta.get("reasoning_details") or []]
    return "".join(entry["summary"] for entry in entries if entry["type"] == "reasoning.summary")


def public(frames: list[Chunk]) -> Reading:
    """Read the same content from the public stream."""
    last = frames[-1]
    final = last.get("final") or {}
    of_kind = {
        kind: [frame for frame in frames if frame["kind"] == kind] for kind in {frame["kind"] for frame in frames}
    }
    return Reading(
        terminal=final.get("status") or f"error {last['error']['code']}",
        text="".join(frame["delta"] for frame in of_kind.get("message.delta", [])),
        refusal="".join(frame["refusal_text"] for frame in of_kind.get("refusal.done", [])),
        calls=[
            (frame["tool_call_id"], frame["tool_name"], frame["arguments_text"])
            for frame in of_kind.get("tool.arguments.done", [])
        ],
        usage=final.get("usage") or {},
        citations=[frame["citation"]["url"] for frame in of_kind.get("message.citation", [])],
        reasons=any(frame["item_type"] == "reasoning" for frame in of_kind.get("output_item.added", [])),
    )


def _choices(objects: list[Chunk]) -> Iterator[Mapping[str, Any]]:
    for chunk in objects:
        yield from (choice for choice in chunk.get("choices") or [] if choice.get("index", 0) == 0)


def _deltas(objects: list[Chunk]) -> Iterator[Mapping[str, Any]]:
    return (choice["delta"] for choice in _choices(objects))


def _texts(delta: Mapping[str, Any]) -> list[str]:
    content = delta.get("content") or ""
    return [content] if isinstance(content, str) else [part.get("text") or "" for part in content]


def _split(text: str) -> tuple[str, str]:
    """Return the reasoning at the start of a text, and the text without it."""
    found = THINK_AT_START.match(text)
    return (found[1], text[found.start() : text.index("<think>")] + text[found.end() :]) if found else ("", text)


def _is_encrypted(delta: Mapping[str, Any]) -> bool:
    return any(entry.get("data") for entry in delta.get("reasoning_details") or [])


def _terminal(objects: list[Chunk], finishes: list[str], *, is_done: bool) -> str:
    errors = [chunk["error"] for chunk in objects if chunk.get("error")]
    if errors and not finishes:
        code = errors[0].get("code") or errors[0].get("type")
        return f"error {code}"
    if finishes:
        return "incomplete" if finishes[-1] in INCOMPLETE else "completed"
    if is_done:
        return "completed"
    return "error upstream_truncated" if objects else "error upstream_empty"


def _calls(deltas: list[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Collect calls: a fragment with an id that is new begins one, any other one continues the last at its index."""
    calls: list[dict[str, Any]] = []
    for delta in deltas:
        for fragment in delta.get("tool_calls") or []:
            index, call_id, function = fragment.get("index"), fragment.get("id"), fragment.get("function") or {}
            same = [call for call in calls if call["index"] == index and call_id in {None, "", call["id"]}]
            if not same:
                calls.append({"index": index, "id": call_id, "name": function.get("name"), "arguments": ""})
                same = calls[-1:]
            same[-1]["arguments"] += function.get("arguments") or ""
    return [(call["id"], call["name"], call["arguments"]) for call in calls]


def _usage(objects: list[Chunk]) -> dict[str, int]:
    found = [
        usage for chunk in objects for usage in ((chunk.get("x_groq") or {}).get("usage"), chunk.get("usage")) if usage
    ]
    if not found:
        return {}
    last = found[-1]
    prompt, completion = last.get("prompt_tokens_details") or {}, last.get("completion_tokens_details") or {}
    cached = [
        prompt.get("cached_tokens"),
        *map(last.get, ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens")),
    ]
    thought = [completion.get("reasoning_tokens"), last.get("reasoning_tokens")]
    counts = {
        "input_tokens": last.get("prompt_tokens"),
        "output_tokens": last.get("completion_tokens"),
        "total_tokens": last.get("total_tokens"),
        "cached_input_tokens": next((count for count in cached if count is not None), None),
        "reasoning_output_tokens": next((count for count in thought if count is not None), None),
    }
    return {name: count for name, count in counts.items() if count is not None}


def _citations(objects: list[Chunk], *, has_text: bool) -> list[str]:
    if not has_text:
        return []
    urls = [
        url
        for chunk in objects
        for url in [*(result["url"] for result in chunk.get("search_results") or []), *(chunk.get("citations") or [])]
    ]
    return list(dict.fromkeys(urls))
