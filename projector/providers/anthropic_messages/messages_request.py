"""Requests of the Messages API, from a request in neutral terms.

The API demands: turns of both roles alternate; the results of all calls of a turn are the first blocks of one message
of the user; texts are not empty; the input of a call is an object; thinking has its signature.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from projector.conversation.entries import (
    ASSISTANT,
    USER,
    File,
    Image,
    Message,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolOutput,
    object_of,
)
from projector.conversation.given_members import NOT_SUPPORTED, Given, tools_of
from projector.conversation.model_request import Body, ModelRequest, UnsupportedRequestError
from projector.conversation.request_members import Member, Members, write_parameters
from projector.conversation.written import (
    CLIENT_TOOLS,
    PartWriters,
    Turns,
    data_of,
    function_of,
    listed,
    typed_text,
    written_parts,
)
from projector.providers.anthropic_messages.block_fields import CALLER
from projector.providers.anthropic_messages.messages_api import MessagesProfile

PROVIDER: Final = "anthropic_messages"
"""Row of `PROVIDERS`."""

BUDGETS: Final = {"minimal": 1024, "low": 1024, "medium": 4096, "high": 16384, "xhigh": 32768}
"""Effort -> tokens of thinking, for models without `output_config.effort`."""
EFFORTS: Final = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "max"}
CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}
IGNORED: Final = frozenset(
    {"store", "metadata", "truncation", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
     "reasoning_summary", "verbosity", "service_tier"}
)  # fmt: skip
"""Parameters that change nothing of an answer, or that are hints."""


def _choice(value: object) -> object:
    if isinstance(value, str) and value in CHOICES:
        return {"type": CHOICES[value]}
    given = Given(value if isinstance(value, Mapping) else {}, "tool_choice")
    if given.members.get("type") not in {"function", "custom"}:
        given.unsupported("type")
    return {"type": "tool", "name": given.text("name")}


def _format(value: Mapping[str, Any]) -> object:
    if value.get("type") != "json_schema":
        raise UnsupportedRequestError(f"`text.format` {NOT_SUPPORTED}", "text.format")
    return {"type": "json_schema", "schema": value.get("schema")}


MEMBERS: Final[Members] = {
    "temperature": Member("temperature"),
    "top_p": Member("top_p"),
    "max_output_tokens": Member("max_tokens"),
    "tool_choice": Member("tool_choice", write=_choice),
    "stop": Member("stop_sequences", write=listed),
    "format": Member("output_config.format", write=_format),
}


def write_request(request: ModelRequest, profile: MessagesProfile) -> Body:
    """Return the body of a request, or raise `UnsupportedRequestError` if the API cannot express it."""
    request.refuse_previous_response()
    tools = [function_of(tool) for tool in tools_of(request.client_tools, CLIENT_TOOLS)]
    body = request.start([{"name": tool.name, **tool.about, "input_schema": tool.schema} for tool in tools])
    body.setdefault("max_tokens", profile.max_tokens)
    parameters = {name: value for name, value in request.parameters.items() if name not in IGNORED}
    if (parameters.get("format") or {}) == {"type": "text"}:
        del parameters["format"]
    effort, parallel = parameters.pop("reasoning_effort", None), parameters.pop("parallel_tool_calls", True)
    write_parameters(body, parameters, MEMBERS, request.parameter_paths)
    if effort is not None:
        _write_effort(body, effort, profile, request.parameter_paths.get("reasoning_effort", "reasoning_effort"))
    if parallel is False and "tools" in body:
        body["tool_choice"] = {"type": "auto", **body.get("tool_choice", {}), "disable_parallel_tool_use": True}
    turns = MessageTurns().add(request.entries)
    system = [] if request.instructions is None else [{"type": "text", "text": request.instructions}]
    if system or turns.system:
        body["system"] = [*system, *turns.system]
    body["messages"] = turns.done()
    answered = [block.get("tool_use_id") for block in body["messages"][-1]["content"]] if body["messages"] else []
    return with_container(body, [turns.states.get(one) for one in answered])


def _write_effort(body: Body, effort: object, profile: MessagesProfile, path: str) -> None:
    """Set the effort: as it is called, or as a budget of tokens, which `max_tokens` includes."""
    if effort == "none":
        body["thinking"] = {"type": "disabled"}
        return
    if not isinstance(effort, str) or effort not in EFFORTS:
        raise UnsupportedRequestError(f"`{path}` has a value that {NOT_SUPPORTED}", path)
    if profile.effort == "effort":
        body["output_config"] = {**body.get("output_config", {}), "effort": EFFORTS[effort]}
        return
    body["thinking"] = {"type": "enabled", "budget_tokens": BUDGETS[effort]}
    body["max_tokens"] = max(body["max_tokens"], BUDGETS[effort] + profile.max_tokens)


# the conversation


class MessageTurns(Turns):
    """The turns of a conversation, as `system` and `messages`."""

    def __init__(self) -> None:
        self.system: list[Body] = []
        self.messages: list[Body] = []
        self.states: dict[str, object] = {}
        """ID of a call -> its opaque value."""

    def message(self, entry: Message) -> None:
        """Add a message; those of the system and the developer before the first turn are the system prompt."""
        blocks = written_parts(entry.content, PARTS)
        if entry.role in {ASSISTANT, USER}:
            self._extend(entry.role, blocks)
        elif self.messages:
            self._extend(USER, blocks)
        else:
            self.system += blocks

    def call(self, entry: ToolCall) -> None:
        """Add a call."""
        given = entry.input if entry.kind == "custom" else None
        value = {"input": given} if given is not None else object_of(entry.input)
        state = entry.opaque.value if entry.opaque is not None and entry.opaque.provider == PROVIDER else None
        self.states[entry.id] = state
        block = {"type": "tool_use", "id": entry.id, "name": entry.name, "input": value}
        self._extend(ASSISTANT, called_block(block, state))

    def output(self, entry: ToolOutput) -> None:
        """Add the result of a call, before anything else that the user says in this turn."""
        content: Any = entry.output if isinstance(entry.output, str) else written_parts(entry.output, PARTS)
        block = {"type": "tool_result", "tool_use_id": entry.call_id, **({"content": content} if content else {})}
        self._extend(USER, [])
        blocks = self.messages[-1]["content"]
        at = sum(one["type"] == "tool_result" for one in blocks)
        blocks.insert(at, block)

    def reasoning(self, entry: Reasoning) -> None:
        """Add thinking as it came; without its signature it cannot go back, and the API goes on without it."""
        opaque = entry.opaque
        if opaque is not None and opaque.provider == PROVIDER and (blocks := kept_blocks(opaque.value)):
            self._extend(ASSISTANT, blocks)

    def done(self) -> list[Body]:
        """Return the messages; those without content are left out."""
        return [message for message in self.messages if message["content"]]

    def _extend(self, role: str, blocks: list[Body]) -> None:
        if not self.messages or self.messages[-1]["role"] != role:
            self.messages.append({"role": role, "content": []})
        self.messages[-1]["content"] += blocks


def kept_blocks(value: object) -> list[Body]:
    """Return the blocks in the opaque value of reasoning, or of tools of the server; none, if it is from none."""
    if not isinstance(value, Mapping):
        return []
    if isinstance(value.get("blocks"), list):
        return list(value["blocks"])
    if isinstance(value.get("data"), str):
        return [{"type": "redacted_thinking", "data": value["data"]}]
    if isinstance(value.get("signature"), str):
        return [{"type": "thinking", "thinking": value.get("thinking") or "", "signature": value["signature"]}]
    return []


def called_block(block: Body, state: object) -> list[Body]:
    """Return the block of a call, after those of the code on the server that made it."""
    if not isinstance(state, Mapping) or CALLER not in state:
        return [block]
    return [*kept_blocks(state), {**block, CALLER: state[CALLER]}]


def with_container(body: Body, states: Iterable[object]) -> Body:
    """Return a body with the container of the calls that it answers, given their opaque values."""
    found = [one["container"] for one in states if isinstance(one, Mapping) and "container" in one]
    return {**body, "container": found[-1]} if found and "container" not in body else body


def _source(url: str) -> Body:
    """Return the source of an image or document: base64 or an address."""
    data = data_of(url)
    return {"type": "url", "url": url} if data is None else {"type": "base64", "media_type": data[0], "data": data[1]}


def _text(part: Part) -> Body | None:
    block = typed_text(part)
    return None if block is None or not block["text"].strip() else block


def _image(image: Image) -> Body:
    return {"type": "image", "source": _source(image.url)}


def _file(file: File) -> Body:
    source = {"type": "file", "file_id": file.file_id} if file.file_id else _source(file.url or "")
    return {"type": "document", "source": source, **({"title": file.name} if file.name else {})}


PARTS: Final[PartWriters] = {Text: _text, Refusal: _text, Image: _image, File: _file}
"""Part of a message -> its block."""
