"""A conversation as `systemInstruction` and `contents`.

The API demands: the results of all calls of a turn are the only parts of the content that follows it, in the order of
the calls; a call has an object as its arguments; what the model sent with a signature goes back with it.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from projector.conversation.entries import (
    ASSISTANT,
    USER,
    Approval,
    ApprovalRequest,
    Content,
    Entry,
    File,
    Image,
    Message,
    Opaque,
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

PROVIDER: Final = "gemini"
MODEL: Final = "model"

NEEDS_SIGNATURES: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")
"""Names of models that refuse the first call of a turn without a signature."""
LOST_SIGNATURE: Final = "skip_thought_signature_validator"
"""Google's placeholder for a signature that is lost, or of a call that another model has made."""


class Contents:
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

    def add(self, entry: Entry) -> None:
        """Add an entry; raise `UnsupportedRequestError` if the API cannot express it."""
        if (reason := UNSUPPORTED.get(type(entry))) is not None:
            raise UnsupportedRequestError(reason)
        if (write := WRITERS.get(type(entry))) is not None:
            write(self, entry)

    def done(self) -> list[Body]:
        """Return all contents."""
        self._end_results()
        return self.contents

    def message(self, entry: Message) -> None:
        """Add a message; those of the system and the developer before the first turn are the instruction."""
        parts = _parts(entry.content)
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
            "args": {"input": entry.input} if entry.kind == "custom" else object_of(entry.input),
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
        self._after += _parts(tuple(part for part in media if isinstance(part, Image | File)))

    def server_call(self, entry: ServerCall) -> None:
        """Add a call of an MCP tool and its output, which are one entry, as those of a function."""
        self._end_results()
        self.call(ToolCall(entry.id, entry.name, entry.input))
        self.output(ToolOutput(entry.id, entry.output))

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


WRITERS: Final[Mapping[type, Callable[[Contents, Any], None]]] = {
    Message: Contents.message,
    ToolCall: Contents.call,
    ToolOutput: Contents.output,
    ServerCall: Contents.server_call,
    Reasoning: Contents.reasoning,
}
"""Entry -> what adds it."""

UNSUPPORTED: Final[Mapping[type, str]] = {
    Approval: "This agent does not support items of type `mcp_approval_response`.",
    ApprovalRequest: "This agent does not support items of type `mcp_approval_request`.",
}
"""Entry that the API cannot express -> message."""


def contents_of(entries: Iterable[Entry], model: str) -> Contents:
    """Return the contents of a conversation; raise `UnsupportedRequestError` for an entry that has none."""
    contents = Contents(model)
    for entry in entries:
        contents.add(entry)
    return contents


def data_of(url: str) -> tuple[str, str] | None:
    """Return media type and base64 of a data URL; None for another URL."""
    if not url.startswith("data:"):
        return None
    head, _, data = url.removeprefix("data:").partition(",")
    media_type, _, coding = head.partition(";")
    if coding.rpartition(";")[2] != "base64":
        raise UnsupportedRequestError("A data URL must be in base64.")
    return media_type, data


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


def _parts(content: Content) -> list[Body]:
    parts = (Text(content),) if isinstance(content, str) else content
    return [written for part in parts if (written := PARTS[type(part)](part)) is not None]


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


PARTS: Final[Mapping[type, Callable[[Any], Body | None]]] = {Text: _text, Refusal: _text, Image: _image, File: _file}
"""Part of a message -> its part; None for an empty one, which the API refuses."""
