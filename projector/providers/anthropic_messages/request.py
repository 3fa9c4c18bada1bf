"""Requests of the Messages API: the body that is written, and those of callers.

The API demands: turns of both roles alternate; the results of all calls of a turn are the first blocks of one message
of the user; texts are not empty; the input of a call is an object; thinking has its signature. A caller's own body is
forwarded, or read in neutral terms for an upstream with another API. Thinking in a forwarded one is replaced by what
the provider sent: the caller has it sealed in the `signature` of its blocks, or the server has kept it with the call
that followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from projector.contracts import codec
from projector.contracts.kinds import SEARCH_ID, SIGNATURE
from projector.conversation import entries as neutral
from projector.conversation import request_members as common
from projector.conversation.model_request import Body, Item, ModelRequest, UnsupportedRequestError
from projector.conversation.opaque import Carried, KeptCall, KeptCalls, SealedIn, carried_of, is_sealed, of_last_calls
from projector.providers.anthropic_messages.api import MessagesProfile
from projector.providers.anthropic_messages.block_fields import CALLER, TOOLSET

PROVIDER: Final = "anthropic_messages"
"""Row of `PROVIDERS`."""

BUDGETS: Final = {"minimal": 1024, "low": 1024, "medium": 4096, "high": 16384, "xhigh": 32768}
"""Effort -> tokens of thinking, for models without `output_config.effort`."""
EFFORTS: Final = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "max"}
CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}
IGNORED: Final = common.HINTS | {"store", "reasoning_summary"}
SAMPLING: Final = frozenset({"temperature", "top_p", "top_k"})
"""Parameters that later versions of the API, and some models, refuse."""


def _choice(value: object) -> object:
    if isinstance(value, str) and value in CHOICES:
        return {"type": CHOICES[value]}
    given = common.Given(value if isinstance(value, Mapping) else {}, "tool_choice")
    if given.text_or_none("type") not in {"function", "custom"}:
        given.unsupported("type")
    return {"type": "tool", "name": given.text("name")}


def _format(value: Mapping[str, Any]) -> object:
    is_schema = value.get("type") == "json_schema"
    return {"type": "json_schema", "schema": value.get("schema")} if is_schema else None


MEMBERS: Final[common.Members] = {
    "temperature": common.Member("temperature"),
    "top_p": common.Member("top_p"),
    "top_k": common.Member("top_k"),
    "max_output_tokens": common.Member("max_tokens"),
    "tool_choice": common.Member("tool_choice", write=_choice),
    "stop": common.Member("stop_sequences", write=common.listed),
    "format": common.Member("output_config.format", write=_format),
}


def write_request(request: ModelRequest, profile: MessagesProfile) -> Body:
    """Return the body of a request, or raise `UnsupportedRequestError` if the API cannot express it."""
    request.refuse_previous_response()
    tools = [common.function_of(tool) for tool in common.tools_of(request.client_tools, common.CLIENT_TOOLS)]
    body = request.start([{"name": tool.name, **tool.about, "input_schema": tool.schema} for tool in tools])
    body.setdefault("max_tokens", profile.max_tokens)
    left_out = IGNORED if profile.takes_sampling else IGNORED | SAMPLING
    parameters = {name: value for name, value in request.parameters.items() if name not in left_out}
    if (parameters.get("format") or {}) == {"type": "text"}:
        del parameters["format"]
    effort, parallel = parameters.pop("reasoning_effort", None), parameters.pop("parallel_tool_calls", True)
    common.write_parameters(body, parameters, MEMBERS, request.parameter_paths)
    if effort is not None:
        _write_effort(body, effort, profile, request.parameter_paths)
    if parallel is False and "tools" in body and body.get("tool_choice") != {"type": "none"}:
        body["tool_choice"] = {"type": "auto", **body.get("tool_choice", {}), "disable_parallel_tool_use": True}
    turns = MessageTurns().add(request.whole)
    if turns.system:
        body["system"] = turns.system
    body["messages"] = turns.done()
    answered = [block.get("tool_use_id") for block in body["messages"][-1]["content"]] if body["messages"] else []
    return with_container(body, [turns.states.get(one) for one in answered])


def _write_effort(body: Body, effort: object, profile: MessagesProfile, paths: Mapping[str, str]) -> None:
    """Set the effort: as it is called, or as a budget of tokens, which `max_tokens` includes."""
    if effort == "none":
        body["thinking"] = {"type": "disabled"}
        return
    if not isinstance(effort, str) or effort not in EFFORTS:
        path = paths.get("reasoning_effort", "reasoning_effort")
        raise UnsupportedRequestError(f"`{path}` has a value that {common.NOT_SUPPORTED}", path)
    if profile.effort == "effort":
        body["output_config"] = {**body.get("output_config", {}), "effort": EFFORTS[effort]}
        return
    body["thinking"] = {"type": "enabled", "budget_tokens": BUDGETS[effort]}
    if not isinstance(body["max_tokens"], int):
        limit = paths.get("max_output_tokens", "max_output_tokens")
        raise UnsupportedRequestError(f"`{limit}` must be an integer.", limit)
    body["max_tokens"] = max(body["max_tokens"], BUDGETS[effort] + profile.max_tokens)


# the conversation


class MessageTurns(common.Turns):
    """The turns of a conversation, as `system` and `messages`."""

    def __init__(self) -> None:
        self.system: list[Body] = []
        self.messages: list[Body] = []
        self.states: dict[str, object] = {}
        """ID of a call -> its opaque value."""
        self._results: list[Body] = []
        """Results of the last message, which are its first blocks."""

    def message(self, entry: neutral.Message) -> None:
        """Add a message; those of the system and the developer before the first turn are the system prompt."""
        blocks = common.written_parts(entry.content, PARTS)
        if entry.role in {neutral.ASSISTANT, neutral.USER}:
            self._extend(entry.role, blocks)
        elif self.messages:
            self._extend(neutral.USER, blocks)
        else:
            self.system += blocks

    def call(self, entry: neutral.ToolCall) -> None:
        """Add a call."""
        given = entry.input if entry.kind == "custom" else None
        value = {"input": given} if given is not None else neutral.object_of(entry.input)
        state = neutral.own_value(entry.opaque, PROVIDER)
        self.states[entry.id] = state
        block = {"type": "tool_use", "id": entry.id, "name": entry.name, "input": value}
        self._extend(neutral.ASSISTANT, called_block(block, state))

    def output(self, entry: neutral.ToolOutput) -> None:
        """Add the result of a call, before anything else that the user says in this turn."""
        content: Any = entry.output if isinstance(entry.output, str) else common.written_parts(entry.output, PARTS)
        said = ({"content": content} if content else {}) | ({"is_error": True} if entry.has_failed else {})
        block = {"type": "tool_result", "tool_use_id": entry.call_id, **said}
        self._extend(neutral.USER, [])
        self._results.append(block)

    def reasoning(self, entry: neutral.Reasoning) -> None:
        """Add thinking as it came; without its signature it cannot go back, and the API goes on without it."""
        if blocks := kept_blocks(neutral.own_value(entry.opaque, PROVIDER)):
            self._extend(neutral.ASSISTANT, blocks)

    def done(self) -> list[Body]:
        """Return the messages; those without content are left out."""
        self._end_results()
        return [message for message in self.messages if message["content"]]

    def _extend(self, role: str, blocks: list[Body]) -> None:
        if not self.messages or self.messages[-1]["role"] != role:
            self._end_results()
            self.messages.append({"role": role, "content": []})
        self.messages[-1]["content"] += blocks

    def _end_results(self) -> None:
        """Add the results of the last message before its other blocks."""
        if self._results:
            self.messages[-1]["content"][:0] = self._results
            self._results = []


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
    """Return the block of a call with its opaque value, after those of the code on the server that made it."""
    if not isinstance(state, Mapping):
        return [block]
    return [*kept_blocks(state), block | {name: state[name] for name in (CALLER, TOOLSET) if name in state}]


def with_container(body: Body, states: Iterable[object]) -> Body:
    """Return a body with the container of the calls that it answers, given their opaque values."""
    found = [one["container"] for one in states if isinstance(one, Mapping) and "container" in one]
    return {**body, "container": found[-1]} if found and "container" not in body else body


def _source(url: str) -> Body:
    """Return the source of an image or document: base64 or an address."""
    data = common.data_of(url)
    return {"type": "url", "url": url} if data is None else {"type": "base64", "media_type": data[0], "data": data[1]}


def _image(image: neutral.Image) -> Body:
    return {"type": "image", "source": _source(image.url)}


def _file(file: neutral.File) -> Body:
    source = {"type": "file", "file_id": file.file_id} if file.file_id else _source(file.url or "")
    return {"type": "document", "source": source, **({"title": file.name} if file.name else {})}


PARTS: Final = common.PartWriters(lambda text: common.typed_text(text) if text.strip() else None, _image, _file)


# a caller's own request


SEARCHES: Final[Mapping[str, str]] = {"server_tool_use": "id", "web_search_tool_result": "tool_use_id"}
"""Block of a search -> its member with the ID of the search."""

THREAD: Final = "thread"
"""Member of a request that continues, or begins, a conversation that the provider holds."""

ROLES: Final[Mapping[str, neutral.Role]] = {"user": neutral.USER, "assistant": neutral.ASSISTANT, "system": "system"}
EFFORTS_OF: Final = {**{one: one for one in ("low", "medium", "high", "xhigh")}, "max": "xhigh"}
CHOICES_OF: Final = {own: neutral for neutral, own in CHOICES.items()}
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
OWN_TOOL: Final = "custom"
"""Type of the tools that a client runs; it may be absent."""
PARAMETERS: Final = {
    MEMBERS[name].path: name for name in ("max_output_tokens", "temperature", "top_p", "top_k", "stop")
}
"""Member -> name of the parameter in neutral terms. Members without a row are hints, which other APIs do not have."""
UNEQUALLED: Final[Mapping[str, object]] = {"container": None, "inference_geo": "global", "mcp_servers": []}
"""Member that no other API has and that is no hint -> value that changes nothing."""


def forwarded_body(body: Mapping[str, Any], _profile: object, kept: KeptCalls) -> Body:
    """Return the caller's body with the thinking that the provider wants back.

    What was kept with a call is added, unless the caller sent some. It is at the start of what precedes the call, as it
    was in the response. Code that waits for its calls goes on in its container. What our dialect wrote into earlier
    answers is left out, because the provider would refuse it. A conversation that the provider holds is refused: any
    caller of this key could continue it.
    """
    _refuse_thread(common.Given(body))
    messages = body.get("messages")
    if not isinstance(messages, list):
        return dict(body)
    blocks = [block for message in messages for block in _blocks_of(message, neutral.ASSISTANT)]
    calls = of_last_calls(kept, [*map(_call_id, blocks)])
    forwarded = [(message, _forwarded(message, kept, calls)) for message in messages]
    sent = {**body, "messages": [own for message, own in forwarded if own is message or own["content"]]}
    last = _blocks_of(messages[-1], neutral.USER) if messages else []
    answered = [block.get("tool_use_id") for block in last if isinstance(block, dict)]
    return with_container(sent, [call.own for one in answered if (call := kept.get(str(one))) is not None])


def _refuse_thread(given: common.Given) -> None:
    if THREAD in given.members:
        given.refuse(THREAD, common.NOT_SUPPORTED)


def _call_id(block: object) -> str | None:
    return str(block["id"]) if isinstance(block, dict) and block.get("type") == "tool_use" and "id" in block else None


def _forwarded(message: Any, kept: KeptCalls, calls: Iterator[KeptCall | None]) -> Any:
    """Return a message as the provider takes it: without content it would refuse it."""
    given = _blocks_of(message, neutral.ASSISTANT)
    if not given:
        return message
    blocks: list[object] = []
    start, is_carried = 0, False
    for block in given:
        kind = str(block.get("type")) if isinstance(block, dict) else None
        carried = kept.get(_sealed(block) or "")
        own = kept_blocks(carried.own) if carried is not None else [] if is_ours(block) else [_without_citations(block)]
        call = next(calls)
        if call is not None:
            if not is_carried:
                blocks[start:start] = [one for value in call.before for one in kept_blocks(value)]
            own = called_block(block, call.own)
        blocks += own
        if kind in _THINKING:
            is_carried = is_carried or bool(own)
        elif kind == "tool_use":
            start, is_carried = len(blocks), False
    return {**message, "content": blocks}


def is_ours(block: object) -> bool:
    """Return whether a block is thinking that only we have signed, or nobody has, or a search that we show."""
    if not isinstance(block, dict) or block.get("type") != "thinking":
        return _is_search(block)
    signature = block.get("signature")
    return not signature or (isinstance(signature, str) and signature.startswith(SIGNATURE))


def _is_search(block: object) -> bool:
    call_id = block.get(SEARCHES.get(str(block.get("type")), "")) if isinstance(block, dict) else None
    return isinstance(call_id, str) and call_id.startswith(SEARCH_ID)


def _without_citations(block: object) -> object:
    """Return a text without citations whose index in the source was not shown."""
    if not isinstance(block, dict) or not isinstance(block.get("citations"), list):
        return block
    kept = [one for one in block["citations"] if not isinstance(one, dict) or one.get("encrypted_index") != ""]
    rest = {name: value for name, value in block.items() if name != "citations"}
    return {**rest, **({"citations": kept} if kept else {})}


def read_request(body: Mapping[str, Any]) -> ModelRequest:
    """Return a caller's request in neutral terms; raise `UnsupportedRequestError` for what only this API has.

    Clients of this API send many members that are hints; what would change the answer is translated or refused.
    """
    given = common.Given(body)
    _refuse_thread(given)
    parameters = {name: given.members[member] for member, name in PARAMETERS.items() if member in given.members}
    paths = {name: member for member, name in PARAMETERS.items()}
    output = given.child("output_config")
    effort = output.text_or_none("effort")
    if effort is not None:
        parameters["reasoning_effort"] = output.row("effort", EFFORTS_OF)
        paths["reasoning_effort"] = "output_config.effort"
    if "format" in output.members:
        schema = output.child("format").members.get("schema")
        parameters["format"] = {"type": "json_schema", "name": "answer", "schema": schema}
        paths["format"] = "output_config.format"
    for name, nothing in UNEQUALLED.items():
        if given.members.get(name, nothing) != nothing:
            given.refuse(name, common.NOT_SUPPORTED)
    tools = [_read_tool(tool) for tool in common.tools_of(given.values("tools"), {OWN_TOOL}, default=OWN_TOOL)]
    if tools and "tool_choice" in given.members:
        choice = given.child("tool_choice")
        parameters["tool_choice"] = _read_choice(choice)
        if choice.members.get("disable_parallel_tool_use") is True:
            parameters["parallel_tool_calls"] = False
            paths["parallel_tool_calls"] = choice.path_of("disable_parallel_tool_use")
    return ModelRequest(
        model=given.text("model"),
        input=[*_system(given), *(entry for message in given.objects("messages") for entry in _entries(message))],
        client_tools=tools,
        parameters={"store": False, **parameters},
        parameter_paths=paths,
    )


def _system(given: common.Given) -> Iterator[neutral.Entry]:
    content = common.content_of(given, "system", PART_READERS) if "system" in given.members else ""
    if content:
        yield neutral.Message("system", content)


def _read_tool(tool: common.Given) -> Item:
    """Return a function. Without `strict` it is not strict here, and strict in the Responses API."""
    description = tool.text_or_none("description")
    about = {"description": description} if description else {}
    schema, is_strict = tool.child("input_schema").members, tool.members.get("strict") is True
    return {"type": "function", "name": tool.text("name"), **about, "parameters": schema, "strict": is_strict}


def _read_choice(choice: common.Given) -> object:
    if choice.text("type") == "tool":
        return {"type": "function", "name": choice.text("name")}
    return choice.row("type", CHOICES_OF)


def _entries(message: common.Given) -> Iterator[neutral.Entry]:
    """Yield the entries of a message: results of tools, calls and thinking are entries beside its text."""
    role = message.row("role", ROLES)
    if isinstance(message.members.get("content"), str):
        yield neutral.Message(role, message.text("content"))
        return
    parts: list[neutral.Part] = []
    for block in message.objects("content"):
        if _is_search(block.members):
            continue
        read = ENTRIES.get(block.text("type"))
        if read is None:
            parts.append(block.row("type", PART_READERS)(block))
            continue
        if parts:
            yield neutral.Message(role, tuple(parts))
            parts = []
        yield from read(block)
    if parts:
        yield neutral.Message(role, tuple(parts))


def _read_call(block: common.Given) -> Iterator[neutral.Entry]:
    arguments = codec.dumps(block.child("input").members).decode()
    yield neutral.ToolCall(block.text("id"), block.text("name"), arguments)


def _read_result(block: common.Given) -> Iterator[neutral.Entry]:
    content = common.content_of(block, "content", PART_READERS) if "content" in block.members else ""
    has_failed = block.members.get("is_error") is True
    yield neutral.ToolOutput(block.text("tool_use_id"), content, has_failed=has_failed)


def _thinking(block: common.Given) -> Iterator[neutral.Entry]:
    """Yield reasoning that the upstream has encrypted; no provider reads that of another one."""
    signature = block.text_or_none("signature") or ""
    if signature.startswith(SIGNATURE):
        yield neutral.Reasoning("", (), signature.removeprefix(SIGNATURE))


ENTRIES: Final[Mapping[str, Callable[[common.Given], Iterator[neutral.Entry]]]] = {
    "tool_use": _read_call,
    "tool_result": _read_result,
    "thinking": _thinking,
    "redacted_thinking": lambda _block: iter(()),
}
"""Type of a block that is no part of a message -> what reads it."""


def _url(block: common.Given) -> str:
    """Return the source of an image or document as an address or a data URL."""
    source = block.child("source")
    kind = source.text("type")
    if kind == "url":
        return source.text("url")
    if kind != "base64":
        source.unsupported("type")
    return f"data:{source.text('media_type')};base64,{source.text('data')}"


def _read_document(block: common.Given) -> neutral.File:
    citations = block.child("citations")
    if citations.members.get("enabled") is True:
        citations.refuse("enabled", common.NOT_SUPPORTED)
    if "context" in block.members:
        block.refuse("context", common.NOT_SUPPORTED)
    return neutral.File(_url(block), block.text_or_none("title"))


PART_READERS: Final[Mapping[str, Callable[[common.Given], neutral.Part]]] = {
    "text": lambda block: neutral.Text(block.text("text")),
    "image": lambda block: neutral.Image(_url(block)),
    "document": _read_document,
}
"""Type of a block -> what reads it as a part of a message."""


# sealed values


def carried_state(body: Mapping[str, Any]) -> list[Carried]:
    """Return the sealed values in a caller's body."""
    return carried_of(body.get("messages"), _begins_turn, _sealed_in)


def _begins_turn(message: object) -> bool:
    """Return whether a message begins a turn: it is the user's, and has no results of calls."""
    if not isinstance(message, dict) or message.get("role") != neutral.USER:
        return False
    blocks = _blocks_of(message, neutral.USER)
    return not any(isinstance(block, dict) and block.get("type") == "tool_result" for block in blocks)


def _blocks_of(message: object, role: str) -> list[Any]:
    """Return the blocks of a message of a role; none, if it is another's or a text."""
    blocks = message.get("content") if isinstance(message, dict) and message.get("role") == role else None
    return blocks if isinstance(blocks, list) else []


def _sealed(block: object) -> str | None:
    """Return the sealed value in a block of thinking."""
    signature = block.get("signature") if isinstance(block, dict) and block.get("type") == "thinking" else None
    sealed = signature.removeprefix(SIGNATURE) if isinstance(signature, str) and signature.startswith(SIGNATURE) else ""
    return sealed if is_sealed(sealed) else None


def _sealed_in(at: int, message: object) -> SealedIn:
    for position, block in enumerate(_blocks_of(message, neutral.ASSISTANT)):
        if (sealed := _sealed(block)) is not None:
            yield f"messages[{at}].content[{position}].signature", sealed, None
