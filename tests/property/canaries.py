"""Streams with a secret in every field that D25 covers, and a search for leaked pieces of it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, Final, TypeAlias

from projector.redaction import patterns
from tests.rule_samples import KEY_WORDS, WORD, Format

Event: TypeAlias = dict[str, Any]

WINDOW_CHARS: Final = 8
"""Number of consecutive characters of a secret that count as a leak; a shorter secret leaks only as a whole."""

ESCAPE_LEVELS: Final = 3
"""Levels of unescaping: JSON, in JSON text, in JSON text."""

_ESCAPE: Final = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL)


def secret_of(row: Format) -> tuple[str, str]:
    """Return the secret of an example and the text before it, found without the detector.

    A secret that is too short to be recognised includes its anchor, if that is withheld too.
    """
    words = "|".join("[-_. ]?".join(rule.name) for rule in KEY_WORDS)
    anchor = re.compile(row.anchor.replace(WORD, f"(?:{words})"), re.IGNORECASE if row.ignore_case else 0)
    sample = row.matches[0]
    found = anchor.search(sample)
    assert found is not None
    start = found.end()
    if row.value.startswith(("option-", "joined-")):
        rest = re.split(rf"\s-{row.value[-1]}\s?", sample, maxsplit=1)[1]
        return rest.split()[0], sample[: len(sample) - len(rest)]
    if row.value:
        rest = sample[start:].lstrip("=")
        return rest.rstrip("\"'}"), sample[: len(sample) - len(rest)]
    last = patterns.pieces(patterns.alternatives(row.pattern)[0])[-1].atom
    tail = (row.tail or last) + "*" if last[0] == "[" else ""
    body = re.compile(f"(?:{row.pattern}){tail}").match(sample, start)
    assert body is not None
    if len(body[0]) < WINDOW_CHARS and not row.keep_anchor:
        start = found.start()
    return sample[start : body.end()], sample[:start]


def leaks(said: bytes, secret: str, context: str = "", window_chars: int = WINDOW_CHARS) -> set[str]:
    """Return each piece of a secret that can be read from a stream, with deltas joined and escapes decoded.

    Pieces are long enough not to occur in the public context of the secret.
    """
    return leaks_in(shown(said), secret, context, window_chars)


def leaks_in(text: str, secret: str, context: str = "", window_chars: int = WINDOW_CHARS) -> set[str]:
    """Return each piece of a secret that is in a text; see `leaks`."""
    for size in range(min(window_chars, len(secret)), len(secret) + 1):
        pieces = {secret[at : at + size] for at in range(len(secret) - size + 1)}
        if not any(piece in context for piece in pieces):
            return {piece for piece in pieces if piece in text}
    raise ValueError("expected a secret that is no part of its context")


def shown(said: bytes) -> str:
    """Return all content of a stream as one text."""
    raw = said.decode()
    joined: dict[object, str] = defaultdict(str)
    for line in raw.splitlines():
        frame = json.loads(line)
        if "delta" in frame:
            joined[frame["kind"], frame["item_id"]] += frame["delta"]
    return unescaped("\0".join([raw, *joined.values()]))


def unescaped(text: str) -> str:
    """Return a text, followed by what it is without each level of escapes."""
    texts = [text]
    for _ in range(ESCAPE_LEVELS):
        texts.append(_ESCAPE.sub(_unescaped, texts[-1]))
    return "\0".join(texts)


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else {"n": "\n", "r": "\r", "t": "\t"}.get(match[2], match[2])


# fields that may contain a secret


def done(index: int, item_type: str, **item: object) -> Event:
    return {"type": "response.output_item.done", "output_index": index, "item": {"type": item_type, **item}}


def deltas(kind: str, index: int, pieces: list[str]) -> Iterator[Event]:
    for piece in pieces:
        yield {"type": f"response.{kind}.delta", "output_index": index, "delta": piece}


DELTAS: Final[Mapping[str, Callable[[str], str]]] = {
    "function_call_arguments": lambda text: json.dumps({"q": [text]}),
    "mcp_call_arguments": lambda text: json.dumps({text: 1}),
    "custom_tool_call_input": lambda text: text,
    "code_interpreter_call_code": lambda text: text,
    "output_text": lambda text: text,
    "refusal": lambda text: text,
    "reasoning_summary_text": lambda text: text,
}
"""Event type with deltas -> a whole value that contains a text."""

TOOL_DELTAS: Final = tuple(DELTAS)[:4]
"""Event types that are searched for credential formats; text of the model is searched for registered values only."""

NESTINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "value": lambda text: json.dumps({"a": text}),
    "key": lambda text: json.dumps({"a": {text: [1]}}),
    "escaped": lambda text: '{"a":"' + "".join(f"\\u{ord(char):04x}" for char in text) + '"}',
    "JSON text": lambda text: json.dumps({"a": json.dumps({"b": text})}),
    "JSON text in JSON text": lambda text: json.dumps({"a": json.dumps([json.dumps({"b": text})])}),
    "no JSON": lambda text: '{"a": ' + text,
}
"""Ways in which arguments contain a text."""


def broken_off_everywhere(text: str, kind: str) -> list[Event]:
    """Return one unfinished item for each prefix of a text."""
    whole = DELTAS[kind](text)
    return [event for at in range(len(whole)) for event in deltas(kind, at, [whole[: at + 1]])]


def cut_everywhere(text: str, kind: str) -> list[Event]:
    """Return one item for each way to cut a text into two deltas."""
    whole = DELTAS[kind](text)
    ways = [[whole[:at], whole[at:]] for at in range(len(whole))]
    return [event for index, pieces in enumerate(ways) for event in deltas(kind, index, pieces)]


def everywhere(text: str) -> list[Event]:
    """Return a stream that contains a whole text in each field."""
    slots = count()
    url = f"https://example.org/?q={text}"
    events = [
        done(next(slots), "function_call", call_id=name, name=text, arguments=nest(text))
        for name, nest in NESTINGS.items()
    ]
    events += [
        {"type": "projector.tool_output", "call_id": name, "output": output}
        for name, output in zip(NESTINGS, outputs_with(text), strict=False)
    ]
    events += [
        done(next(slots), "function_call_output", call_id="no JSON", output=f"said {text}."),
        done(next(slots), "mcp_call", name=text, server_label=text, arguments="{}", output=json.dumps({"a": text})),
        done(next(slots), "mcp_call", name="m", arguments="{}", error={"message": f"wrong: {text}"}),
        done(next(slots), "mcp_approval_request", name="m", server_label="s", arguments=json.dumps({"a": [text]})),
        done(next(slots), "custom_tool_call", call_id="c", name="c", input=f"run {text}"),
        done(next(slots), "web_search_call", action={"query": f"what is {text}", "sources": [{"url": url}]}),
        done(
            next(slots),
            "file_search_call",
            queries=[f"where is {text}"],
            results=[{"filename": f"{text}.pdf", "text": f"it is {text} here", "attributes": {"note": text, text: 1}}],
        ),
        done(next(slots), "code_interpreter_call", code=f"x = 1  # {text}", outputs=interpreter_outputs(text, url)),
        done(next(slots), "image_generation_call", revised_prompt=f"a poster of {text}"),
        done(
            next(slots),
            "message",
            content=[{"type": "output_text", "text": "See there.", "annotations": annotations_with(text, url)}],
        ),
        {"type": "projector.attachment", "attachment": {"object_id": "o", "filename": f"{text}.png", "url": url}},
    ]
    return [*events, {"type": "response.completed", "response": {}}]


def errors_with(text: str) -> list[Event]:
    """Return errors that contain a text; each ends its stream."""
    message = f"failed with {text}"
    return [
        {"type": "error", "code": "server_error", "message": message},
        {"type": "error", "error": {"type": "server_error", "message": message}},
        {"type": "error", "error": message},
        {"error": {"message": message}},
    ]


def interpreter_outputs(text: str, url: str) -> list[Event]:
    return [
        {"type": "logs", "logs": f"> {text}\n"},
        {"type": "image", "url": url},
        {"type": "files", "files": [{"file_id": "cfile_1", "filename": f"{text}.txt", "mime_type": "text/plain"}]},
    ]


def outputs_with(text: str) -> list[object]:
    """Return tool outputs that contain a text."""
    return [text, {"a": [f"is {text}."]}, {text: {"b": 1}}, json.dumps({"a": text}), [[json.dumps(["b", text])]]]


def annotations_with(text: str, url: str) -> list[Event]:
    return [
        {"type": "url_citation", "title": f"About {text}", "url": url},
        {"type": "file_citation", "filename": f"{text}.md", "file_id": "file-1"},
        {"type": "container_file_citation", "filename": f"{text}.csv", "file_id": "cfile_1", "container_id": "cntr_1"},
    ]
