"""A conversation as the `input` of an interaction: steps in the order of the entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from projector.conversation.entries import (
    ASSISTANT,
    USER,
    Content,
    Entry,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    ServerCall,
    Text,
    ToolCall,
    ToolOutput,
    object_of,
    text_of,
)
from projector.conversation.model_request import Body, UnsupportedRequestError
from projector.providers.gemini.gemini_contents import UNSUPPORTED, data_of, type_of

PROVIDER: Final = "gemini"
IMAGES: Final = "image/"


def steps_of(entries: Iterable[Entry]) -> tuple[list[str], list[Body]]:
    """Return the texts of the system before the first turn, and the steps; raise for an entry that has none."""
    system: list[str] = []
    steps: list[Body] = []
    names: dict[str, str] = {}
    for entry in entries:
        if (reason := UNSUPPORTED.get(type(entry))) is not None:
            raise UnsupportedRequestError(reason)
        if isinstance(entry, Message) and entry.role not in {ASSISTANT, USER} and not steps:
            system.append(text_of(entry.content))
        elif (write := WRITERS.get(type(entry))) is not None:
            steps += write(entry, names)
    return system, steps


def _message(entry: Message, _names: Mapping[str, str]) -> list[Body]:
    content = _contents(entry.content)
    kind = "model_output" if entry.role == ASSISTANT else "user_input"
    return [{"type": kind, "content": content}] if content else []


def _call(entry: ToolCall, names: dict[str, str]) -> list[Body]:
    names[entry.id] = entry.name
    arguments = {"input": entry.input} if entry.kind == "custom" else object_of(entry.input)
    return [{"type": "function_call", "id": entry.id, "name": entry.name, "arguments": arguments}]


def _output(entry: ToolOutput, names: Mapping[str, str]) -> list[Body]:
    result: Any = entry.output if isinstance(entry.output, str) else _contents(entry.output)
    name = {"name": names[entry.call_id]} if entry.call_id in names else {}
    return [{"type": "function_result", "call_id": entry.call_id, **name, "result": result}]


def _server_call(entry: ServerCall, names: dict[str, str]) -> list[Body]:
    """Return a call of an MCP tool and its output, which are one entry, as those of a function."""
    return [
        *_call(ToolCall(entry.id, entry.name, entry.input), names),
        *_output(ToolOutput(entry.id, entry.output), names),
    ]


def _reasoning(entry: Reasoning, _names: Mapping[str, str]) -> list[Body]:
    """Return reasoning with the signature of the model; without one it means nothing to it."""
    value = entry.opaque.value if entry.opaque is not None and entry.opaque.provider == PROVIDER else None
    if not isinstance(value, dict) or not isinstance(value.get("signature"), str):
        return []
    thought = value.get("thought")
    summary = {"summary": [{"type": "text", "text": thought}]} if thought else {}
    return [{"type": "thought", "signature": value["signature"], **summary}]


WRITERS: Final[Mapping[type, Callable[[Any, dict[str, str]], list[Body]]]] = {
    Message: _message,
    ToolCall: _call,
    ToolOutput: _output,
    ServerCall: _server_call,
    Reasoning: _reasoning,
}
"""Entry -> its steps."""


def _contents(content: Content) -> list[Body]:
    parts = (Text(content),) if isinstance(content, str) else content
    return [written for part in parts if (written := PARTS[type(part)](part)) is not None]


def _text(part: Part) -> Body | None:
    text = part.text if isinstance(part, Text | Refusal) else ""
    return {"type": "text", "text": text} if text else None


def _media(url: str, kind: str) -> Body:
    if (data := data_of(url)) is not None:
        kind = "image" if data[0].startswith(IMAGES) else kind
        return {"type": kind, "mime_type": data[0], "data": data[1]}
    named = type_of(url)
    return {"type": kind, "uri": url, **({"mime_type": named} if named else {})}


def _image(image: Image) -> Body:
    return _media(image.url, "image")


def _file(file: File) -> Body:
    return _media(file.file_id or file.url or "", "document")


PARTS: Final[Mapping[type, Callable[[Any], Body | None]]] = {Text: _text, Refusal: _text, Image: _image, File: _file}
"""Part of a message -> its content; None for an empty text."""
