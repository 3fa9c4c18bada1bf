"""A conversation as `messages` of Chat Completions, in both directions.

The API has neither encrypted reasoning nor approvals. Each call must be in the message before its output, and all
calls of one turn in one message. What servers want back with calls is an object for each call that has any:

reasoning_content   reasoning before the calls, back in the message that has them (DeepSeek, and others); None: nothing
                    goes back, whatever the client has kept of what it was shown
extra_content       the member of the call, with a thought signature (Gemini's compatible endpoint)

The same member has what a client carries with a call, sealed: helpers of `openai` keep it with the message, and clients
of the compatible endpoint know it. Others drop it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard, cast

from projector.conversation import entries as neutral
from projector.conversation.model_request import Body, UnsupportedRequestError
from projector.conversation.opaque import Carried, KeptCalls, SealedIn, carried_of, is_sealed, of_last_calls
from projector.conversation.request_members import NOT_SUPPORTED, Given, PartWriters, Turns, content_of, written_parts
from projector.providers.openai_chat.chunk_fields import EXTRA, GOOGLE, RETURNED, SHOWN, SIGNATURE, ChatProfile
from projector.providers.stage_parts import CALL_SHAPES

# what goes back with calls


def state_of(before: Iterable[object], own: object) -> dict[str, Any] | None:
    """Return what belongs to a call and to the reasoning before it; None if that is nothing."""
    members = [value.get(RETURNED) for value in before if isinstance(value, Mapping)]
    given = [one for one in members if isinstance(one, Mapping)]
    names = dict.fromkeys(name for one in given for name in one)
    state = {name: "".join(str(one.get(name, "")) for one in given) for name in names}
    return {**state, **own} if isinstance(own, dict) else state or None


def add_state(message: dict[str, Any], call: dict[str, Any], state: object) -> None:
    """Add what belongs to a call, and to the message that has it."""
    for name, value in state.items() if isinstance(state, dict) else ():
        if name == EXTRA:
            call[name] = value
        elif value is not None:
            message.setdefault(name, value)


def forwarded(messages: Sequence[object], profile: ChatProfile, kept: KeptCalls) -> list[object]:
    """Return messages as the upstream takes them.

    What belongs to calls is in place of the caller's own, by their IDs: members that the server keeps are not the
    client's to change. They go to the last call of an ID. Sealed values are left out, and shown reasoning that the
    upstream does not want back.
    """
    states = {call_id: state_of(call.before, call.own) for call_id, call in kept.items()}
    calls = of_last_calls(
        states, [_id(call) for one in messages if _is_of(one, neutral.ASSISTANT) for call in _calls_of(one)]
    )
    shown = {SHOWN, *profile.reasoning_fields}
    return [
        _forwarded(one, shown - {*profile.returned_reasoning} if one.get("tool_calls") else shown, states, calls)
        if _is_of(one, neutral.ASSISTANT)
        else one
        for one in messages
    ]


def _is_of(message: object, role: neutral.Role) -> TypeGuard[dict[str, Any]]:
    return isinstance(message, dict) and message.get("role") == role


def _id(call: object) -> str:
    return str(call.get("id")) if isinstance(call, dict) else ""


def _forwarded(
    message: dict[str, Any], hidden: set[str], states: Mapping[str, Any], last: Iterator[Any]
) -> dict[str, Any]:
    calls = _calls_of(message)
    known = [state for call in calls if isinstance(state := states.get(_id(call)), dict)]
    replaced = {SHOWN, *(name for state in known for name in state)} if known else set()
    sent = {name: value for name, value in message.items() if name not in hidden | replaced}
    if sent.get("tool_calls"):
        sent["tool_calls"] = [_without(call, replaced) for call in calls]
    for call, state in [(call, next(last)) for call in _calls_of(sent)]:
        if isinstance(call, dict):
            add_state(sent, call, state)
    return sent


def _without(call: object, replaced: set[str]) -> object:
    """Return a call without members that are replaced, and without a sealed value."""
    if not isinstance(call, dict):
        return call
    left_out = replaced if sealed_of(call) is None else {EXTRA, *replaced}
    return {name: value for name, value in call.items() if name not in left_out}


def sealed_of(call: Mapping[str, object]) -> str | None:
    """Return what a client carries with a call, sealed."""
    extra = call.get(EXTRA)
    google = extra.get(GOOGLE) if isinstance(extra, dict) else None
    value = google.get(SIGNATURE) if isinstance(google, dict) else None
    return value if is_sealed(value) else None


def carried_state(body: Mapping[str, Any]) -> list[Carried]:
    """Return the sealed values in a caller's body."""
    return carried_of(body.get("messages"), lambda message: _is_of(message, neutral.USER), _sealed_in)


def _sealed_in(at: int, message: object) -> SealedIn:
    for position, call in enumerate(_calls_of(message)):
        if isinstance(call, dict) and (sealed := sealed_of(call)) is not None:
            yield f"messages[{at}].tool_calls[{position}].{EXTRA}", sealed, str(call.get("id"))


def _calls_of(message: object) -> list[object]:
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    return calls if isinstance(calls, list) else []


# a conversation as messages


PROVIDER: Final = "openai_chat"
"""Row of `PROVIDERS`."""


def messages_of(entries: Iterable[neutral.Entry]) -> list[Body]:
    """Return the messages of a conversation; raise `UnsupportedRequestError` for an entry that is none."""
    messages = _Messages().add(entries)
    messages.end_calls()
    return messages.all


class _Messages(Turns):
    """The messages of a conversation. Calls belong to one message as long as one of them waits for its output."""

    def __init__(self) -> None:
        self.all: list[Body] = []
        self._caller: Body | None = None
        """The message that further calls belong to."""
        self._reasoning: list[object] = []
        """Opaque values of the reasoning before the next call."""
        self._texts: list[str] = []
        """Texts of the model that stand between these calls and their outputs."""
        self._media: list[Body] = []
        """Images and files of the outputs; a message of a tool has only texts."""
        self._waiting = 0

    def message(self, entry: neutral.Message) -> None:
        is_assistant = entry.role == neutral.ASSISTANT
        message = {"role": entry.role, **(_answer(entry.content) if is_assistant else _question(entry.content))}
        if self._waiting and is_assistant:
            self._texts += [message["content"]] if message["content"] else []
            return
        self.end_calls()
        self.all.append(message)
        self._caller = message if is_assistant else None
        self._reasoning = self._reasoning if is_assistant else []

    def end_calls(self) -> None:
        """Complete the message with the last calls, and send the media of their outputs as the user's."""
        if self._caller is not None and self._texts:
            own = self._caller.get("content")
            self._caller["content"] = "\n\n".join([own, *self._texts] if own else self._texts)
        if self._media:
            self.all.append({"role": neutral.USER, "content": self._media})
        self._caller, self._texts, self._media, self._waiting = None, [], [], 0

    def call(self, entry: neutral.ToolCall) -> None:
        """Add a call, in a message of its own if no other call belongs with it."""
        if self._caller is None:
            self._caller = {"role": neutral.ASSISTANT}
            self.all.append(self._caller)
        given = {"name": entry.name, CALL_SHAPES[entry.kind].member: entry.input}
        call = {"id": entry.id, "type": entry.kind, entry.kind: given}
        self._caller.setdefault("tool_calls", []).append(call)
        add_state(self._caller, call, state_of(self._reasoning, neutral.own_value(entry.opaque, PROVIDER)))
        self._reasoning = []
        self._waiting += 1

    def output(self, entry: neutral.ToolOutput) -> None:
        content = entry.output
        if not isinstance(content, str):
            self._media += written_parts(tuple(part for part in content if isinstance(part, MEDIA)), PARTS)
            content = tuple(part for part in content if not isinstance(part, MEDIA)) or ""
        self.all.append({"role": "tool", "tool_call_id": entry.call_id, **_question(content)})
        self._waiting -= 1
        if self._waiting <= 0:
            self.end_calls()

    def reasoning(self, entry: neutral.Reasoning) -> None:
        """Keep reasoning that goes back with the call after it; omit what another provider has encrypted."""
        if entry.opaque is not None and entry.opaque.provider == PROVIDER:
            self._reasoning.append(entry.opaque.value)


def _question(content: neutral.Content) -> Body:
    """Return the content of a message that is not the model's."""
    return {"content": content if isinstance(content, str) else written_parts(content, PARTS)}


def _answer(content: neutral.Content) -> Body:
    """Return the content of a message of the model. Its parts are one text."""
    if isinstance(content, str):
        return {"content": content}
    refusal = "".join(part.text for part in content if isinstance(part, neutral.Refusal))
    return {"content": neutral.text_of(content) or None, **({"refusal": refusal} if refusal else {})}


def _image(image: neutral.Image) -> Body:
    detail = {"detail": image.detail} if image.detail else {}
    return {"type": "image_url", "image_url": {"url": image.url, **detail}}


def _file(file: neutral.File) -> Body:
    """Return a file; raise `UnsupportedRequestError` for an address, which the API does not load."""
    if file.file_id:
        return {"type": "file", "file": {"file_id": file.file_id}}
    if not (file.url or "").startswith("data:"):
        raise UnsupportedRequestError(f"The URL of a file {NOT_SUPPORTED.rstrip('.')}; send its content.")
    return {"type": "file", "file": {"filename": file.name or "file", "file_data": file.url}}


PARTS: Final = PartWriters(lambda text: {"type": "text", "text": text}, _image, _file)
MEDIA: Final = (neutral.Image, neutral.File)


# messages as a conversation


IGNORED: Final[Mapping[str, str]] = {
    "reasoning_content": "no provider reads reasoning of another one",
    "reasoning": "the same",
    "annotations": "the text is sent, its sources are not part of the conversation",
    "parsed": "a member of the helpers of the `openai` package",
}
"""Member of a message of the model that is not sent, and why."""


def read_messages(body: Given) -> neutral.Conversation:
    """Return the conversation of `messages`; raise `UnsupportedRequestError` for what no other API has."""
    entries: list[neutral.Entry] = []
    kinds: dict[str, neutral.CallKind] = {}
    for message in body.objects("messages"):
        for entry in message.row("role", ROLES)(message, kinds):
            if isinstance(entry, neutral.ToolCall):
                kinds[entry.id] = entry.kind
            entries.append(entry)
    return entries


def _read_message(message: Given, _kinds: Mapping[str, neutral.CallKind]) -> Iterator[neutral.Entry]:
    message.only("role", "content")
    yield neutral.Message(message.row("role", neutral.ROLES), _read_content(message, "content"))


def _read_answer(message: Given, _kinds: Mapping[str, neutral.CallKind]) -> Iterator[neutral.Entry]:
    """Yield a message of the model and its calls."""
    message.only("role", "content", "refusal", "tool_calls", *IGNORED)
    content = _read_content(message, "content") if "content" in message.members else ""
    refusal = message.text_or_none("refusal")
    if refusal:
        said = content if not isinstance(content, str) else (neutral.Text(content),) if content else ()
        content = (*said, neutral.Refusal(refusal))
    calls = message.objects("tool_calls")
    if content or not calls:
        yield neutral.Message(neutral.ASSISTANT, content)
    for call in calls:
        kind, shape = call.text("type"), call.row("type", CALL_SHAPES)
        given = call.child(kind)
        text = given.text(shape.member)
        call_id, name, sealed = call.text("id"), given.text("name"), sealed_of(call.members)
        yield neutral.ToolCall(call_id, name, text, cast("neutral.CallKind", kind), encrypted=sealed)


def _read_output(message: Given, kinds: Mapping[str, neutral.CallKind]) -> Iterator[neutral.Entry]:
    message.only("role", "content", "tool_call_id", "name")  # which its call has, too
    call_id = message.text("tool_call_id")
    yield neutral.ToolOutput(call_id, _read_content(message, "content"), kinds.get(call_id, "function"))


ROLES: Final[Mapping[str, Callable[[Given, Mapping[str, neutral.CallKind]], Iterator[neutral.Entry]]]] = {
    "system": _read_message,
    "developer": _read_message,
    "user": _read_message,
    "assistant": _read_answer,
    "tool": _read_output,
}
"""Role of a message -> what reads it."""


def _read_content(message: Given, name: str) -> neutral.Content:
    if name not in message.members:
        message.text(name)  # which is missing
    return content_of(message, name, PART_READERS)


def _read_image(part: Given) -> neutral.Image:
    image = part.child("image_url")
    return neutral.Image(image.text("url"), image.text_or_none("detail"))


def _read_file(part: Given) -> neutral.File:
    file = part.child("file")
    file.refuse_stored_file()
    return neutral.File(file.data_url("file_data"), file.text_or_none("filename"))


PART_READERS: Final[Mapping[str, Callable[[Given], neutral.Part]]] = {
    "text": lambda part: neutral.Text(part.text("text")),
    "refusal": lambda part: neutral.Refusal(part.text("refusal")),
    "image_url": _read_image,
    "file": _read_file,
}
"""Type of a part -> what reads it."""
