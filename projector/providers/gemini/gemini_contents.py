"""A conversation as `systemInstruction` and `contents`, or as the `input` of an interaction.

The API demands: the results of all calls of a turn are the only parts of the content that follows it, in the order of
the calls; a call has an object as its arguments; what the model sent with a signature goes back with it.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Mapping
from typing import Any, Final

from projector.conversation.entries import (
    ASSISTANT,
    USER,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolOutput,
    object_of,
    text_of,
)
from projector.conversation.model_request import Body
from projector.conversation.written import PartWriters, Turns, data_of, typed_text, written_parts

PROVIDER: Final = "gemini"
MODEL: Final = "model"

NEEDS_SIGNATURES: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")
"""Names of models that refuse the first call of a turn without a signature."""
LOST_SIGNATURE: Final = "skip_thought_signature_validator"
"""Google's placeholder for a signature that is lost, or of a call that another model has made."""


class Contents(Turns):
    """The contents of a conversation for a model."""

    def __init__(self, model: str) -> None:
        self.system: list[Body] = []
        self.contents: list[Body] = []
        self._needs_signatures = NEEDS_SIGNATURES.search(model) is not None
        self._calls: dict[str, ToolCall] = {}
        """Calls by ID; the last one with an ID counts."""
        self._order: dict[str, int] = {}
        self._results: list[tuple[int, Body]] = []
        """Results that wait for the others of their turn, by the numbers of their calls."""
        self._after: list[Body] = []
        """Media of results, which follow them."""

    def done(self) -> list[Body]:
        """Return all contents."""
        self._end_results()
        return self.contents

    def message(self, entry: Message) -> None:
        """Add a message; those of the system and the developer before the first turn are the instruction."""
        parts = written_parts(entry.content, PARTS)
        if entry.role == ASSISTANT:
            self._extend(MODEL, _signed(parts, _value(entry.opaque)))
        elif entry.role == USER or self.contents or self._results:
            self._extend(USER, parts)
        else:
            self.system += parts

    def call(self, entry: ToolCall) -> None:
        """Add a call."""
        state = _value(entry.opaque)
        own_id = state.get("id")
        call = {
            **({"id": own_id} if isinstance(own_id, str) else {}),
            "name": entry.name,
            "args": arguments_of(entry),
        }
        self._extend(MODEL, [])
        parts = self.contents[-1]["parts"]
        signature = state.get("signature")
        is_first = not any("functionCall" in part for part in parts)
        if signature is None and is_first and self._needs_signatures:
            signature = LOST_SIGNATURE
        parts.append({"functionCall": call, **({"thoughtSignature": signature} if signature else {})})
        self._calls[entry.id], self._order[entry.id] = entry, len(self._order)

    def output(self, entry: ToolOutput) -> None:
        """Add the result of a call, by its name, and its ID if the model gave it one."""
        call = self._calls.get(entry.call_id)
        own_id = _value(call.opaque).get("id") if call is not None else None
        response: Body = {
            **({"id": own_id} if isinstance(own_id, str) else {}),
            "name": call.name if call is not None else entry.call_id,
            "response": {"output": text_of(entry.output)},
        }
        self._results.append((self._order.get(entry.call_id, len(self._order)), {"functionResponse": response}))
        media = () if isinstance(entry.output, str) else entry.output
        self._after += written_parts(tuple(part for part in media if isinstance(part, Image | File)), PARTS)

    def reasoning(self, entry: Reasoning) -> None:
        """Add reasoning with the signature of the model; without one it means nothing to it."""
        state = _value(entry.opaque)
        if not isinstance(state.get("signature"), str):
            return
        thought = state.get("thought")
        about = {"text": thought, "thought": True} if thought else {"text": ""}
        self._extend(MODEL, [{**about, "thoughtSignature": state["signature"]}])

    def _extend(self, role: str, parts: list[Body]) -> None:
        self._end_results()
        if not self.contents or self.contents[-1]["role"] != role or _is_result(self.contents[-1]):
            if not parts and role == USER:
                return
            self.contents.append({"role": role, "parts": []})
        self.contents[-1]["parts"] += parts

    def _end_results(self) -> None:
        """Add the results of a turn in the order of their calls, and then their media."""
        results, self._results = sorted(self._results, key=lambda result: result[0]), []
        if results:
            self.contents.append({"role": USER, "parts": [part for _, part in results]})
        after, self._after = self._after, []
        if after:
            self.contents.append({"role": USER, "parts": after})


def type_of(url: str) -> str | None:
    """Return the media type that the name at the end of a URL indicates."""
    return mimetypes.guess_type(url.partition("?")[0].partition("#")[0])[0]


def _is_result(content: Body) -> bool:
    return any("functionResponse" in part for part in content["parts"])


def _value(opaque: Opaque | None) -> Mapping[str, Any]:
    """Return what this provider wants back."""
    is_own = opaque is not None and opaque.provider == PROVIDER and isinstance(opaque.value, dict)
    return opaque.value if is_own else {}  # type: ignore[union-attr,return-value] # checked above


def _signed(parts: list[Body], state: Mapping[str, Any]) -> list[Body]:
    """Return the parts of a message with its signature: on its last part, or alone after it."""
    signature = state.get("signature")
    if not isinstance(signature, str):
        return parts
    if state.get("is_alone") is True or not parts:
        return [*parts, {"text": "", "thoughtSignature": signature}]
    return [*parts[:-1], {**parts[-1], "thoughtSignature": signature}]


def _text(part: Part) -> Body | None:
    text = part.text if isinstance(part, Text | Refusal) else ""
    return {"text": text} if text else None


def _media(url: str) -> Body:
    if (data := data_of(url)) is not None:
        return {"inlineData": {"mimeType": data[0], "data": data[1]}}
    kind = type_of(url)
    return {"fileData": {"fileUri": url, **({"mimeType": kind} if kind else {})}}


def _image(image: Image) -> Body:
    return _media(image.url)


def _file(file: File) -> Body:
    return {"fileData": {"fileUri": file.file_id}} if file.file_id else _media(file.url or "")


PARTS: Final[PartWriters] = {Text: _text, Refusal: _text, Image: _image, File: _file}
"""Part of a message -> its part of a content."""


# steps of an interaction


class Steps(Turns):
    """The steps of a conversation, which are the input of an interaction."""

    def __init__(self) -> None:
        self.system: list[str] = []
        """Texts of the system before the first turn."""
        self.steps: list[Body] = []
        self._names: dict[str, str] = {}

    def message(self, entry: Message) -> None:
        """Add a message; those of the system and the developer before the first turn are the instruction."""
        if entry.role not in {ASSISTANT, USER} and not self.steps:
            self.system.append(text_of(entry.content))
        elif content := written_parts(entry.content, STEP_PARTS):
            kind = "model_output" if entry.role == ASSISTANT else "user_input"
            self.steps.append({"type": kind, "content": content})

    def call(self, entry: ToolCall) -> None:
        """Add a call."""
        self._names[entry.id] = entry.name
        call = {"id": entry.id, "name": entry.name, "arguments": arguments_of(entry)}
        self.steps.append({"type": "function_call", **call})

    def output(self, entry: ToolOutput) -> None:
        """Add the result of a call."""
        result: Any = entry.output if isinstance(entry.output, str) else written_parts(entry.output, STEP_PARTS)
        name = {"name": self._names[entry.call_id]} if entry.call_id in self._names else {}
        self.steps.append({"type": "function_result", "call_id": entry.call_id, **name, "result": result})

    def reasoning(self, entry: Reasoning) -> None:
        """Add reasoning with the signature of the model; without one it means nothing to it."""
        state = _value(entry.opaque)
        if isinstance(state.get("signature"), str):
            thought = state.get("thought")
            summary = {"summary": [{"type": "text", "text": thought}]} if thought else {}
            self.steps.append({"type": "thought", "signature": state["signature"], **summary})


def arguments_of(entry: ToolCall) -> Body:
    """Return the arguments of a call; a custom tool has one text as its input."""
    return {"input": entry.input} if entry.kind == "custom" else object_of(entry.input)


def _content(url: str, kind: str) -> Body:
    if (data := data_of(url)) is not None:
        kind = "image" if data[0].startswith("image/") else kind
        return {"type": kind, "mime_type": data[0], "data": data[1]}
    named = type_of(url)
    return {"type": kind, "uri": url, **({"mime_type": named} if named else {})}


def _image_content(image: Image) -> Body:
    return _content(image.url, "image")


def _document(file: File) -> Body:
    return _content(file.file_id or file.url or "", "document")


STEP_PARTS: Final[PartWriters] = {
    Text: typed_text,
    Refusal: typed_text,
    Image: _image_content,
    File: _document,
}
"""Part of a message -> its content in a step."""
