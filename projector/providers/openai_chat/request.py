"""Requests of Chat Completions: the body that is written, and those of callers.

A caller's own body is forwarded to an upstream of this API, or read in neutral terms for one with another API. Members
are listed in both directions; neutral values are those of the Responses API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from projector.contracts import codec
from projector.conversation import request_members as common
from projector.conversation.entries import ToolCall
from projector.conversation.model_request import Body, Item, ModelRequest, UnsupportedRequestError
from projector.conversation.opaque import KeptCalls
from projector.providers.openai_chat.chunk_fields import ChatProfile
from projector.providers.openai_chat.messages import forwarded, messages_of, read_messages

JSON_SCHEMA: Final = "json_schema"
FORMATS: Final = frozenset({"text", "json_object", JSON_SCHEMA})
SCHEMA_MEMBERS: Final = ("name", "description", "schema", "strict")
FUNCTION_MEMBERS: Final = ("name", "description", "parameters", "strict")
CUSTOM_MEMBERS: Final = ("name", "description", "format")


def _nested(members: Mapping[str, Any]) -> Body:
    """Return an object as this API has it: its members are in another one, under the name of its type."""
    kind = members["type"]
    return {"type": kind, kind: {name: one for name, one in members.items() if name != "type"}}


# structured output


def _read_format(body: common.Given, name: str) -> object:
    given = body.child(name)
    if (kind := given.text("type")) not in FORMATS:
        given.unsupported("type")
    return {"type": kind, **given.child(kind).only(*SCHEMA_MEMBERS)} if kind == JSON_SCHEMA else dict(given.members)


def _write_format(value: Mapping[str, Any]) -> Body:
    return _nested(value) if value["type"] == JSON_SCHEMA else dict(value)


# the choice of a tool


def _read_choice(body: common.Given, name: str) -> object:
    if isinstance(body.members[name], str):
        return body.text(name)
    given = body.child(name)
    kind = given.text("type")
    if kind == "allowed_tools":
        allowed = given.child(kind)
        return {"type": kind, "mode": allowed.text("mode"), "tools": [_named(one) for one in allowed.objects("tools")]}
    return _named(given)


def _named(given: common.Given) -> Body:
    kind = given.text("type")
    return {"type": kind, "name": given.child(kind).text("name")} if kind in TOOL_READERS else given.unsupported("type")


def _write_choice(value: object) -> object:
    if isinstance(value, str):
        return value
    given = common.Given(value, "tool_choice")
    kind = given.text("type")
    if kind == "allowed_tools":
        tools = [_write_named(one) for one in given.objects("tools")]
        return _nested({"type": kind, "mode": given.text("mode"), "tools": tools})
    return _write_named(given)


def _write_named(given: common.Given) -> Body:
    kind = given.text("type")
    return _nested({"type": kind, "name": given.text("name")}) if kind in TOOL_READERS else given.unsupported("type")


# tools


def read_tools(body: common.Given) -> list[Body]:
    """Return the tools of a body in the shape of the Responses API."""
    found = common.tools_of(body.values("tools"), TOOL_READERS)
    tools = [TOOL_READERS[tool.text("type")](tool) for tool in found]
    if "web_search_options" in body.members:
        options = dict(body.child("web_search_options").only(*SEARCH_OPTIONS))
        location = options.pop("user_location", None)
        if location is not None:
            given = common.Given(location, "web_search_options.user_location")
            options["user_location"] = {"type": "approximate", **given.child("approximate").members}
        tools.append({"type": "web_search", **options})
    return tools


def _read_function(tool: common.Given) -> Body:
    """Return a function. Without `strict` it is not strict here, and strict in the Responses API."""
    function = tool.child("function")
    function.text("name")
    members = function.only(*FUNCTION_MEMBERS)
    return {"type": "function", "parameters": {"type": "object", "properties": {}}, "strict": False, **members}


def _read_custom(tool: common.Given) -> Body:
    custom = tool.child("custom")
    members = dict(custom.only(*CUSTOM_MEMBERS))
    form = custom.child("format")
    if form.members.get("type") == "grammar":
        members["format"] = {"type": "grammar", **form.child("grammar").members}
    return {"type": "custom", **members}


TOOL_READERS: Final[Mapping[str, Callable[[common.Given], Body]]] = {"function": _read_function, "custom": _read_custom}
"""Type of a tool -> what reads it."""

SEARCH_OPTIONS: Final = ("search_context_size", "user_location")


def write_tools(tools: list[Mapping[str, Any]]) -> tuple[list[Body], Body]:
    """Return tools of the Responses API as `tools`, and the members that a web search becomes.

    Raises:
        UnsupportedRequestError: the API has no such tool.
    """
    written: list[Body] = []
    members: Body = {}
    for given in common.tools_of(tools, {*common.WEB_SEARCHES, *TOOL_READERS}):
        kind = given.text("type")
        if kind in common.WEB_SEARCHES:
            members["web_search_options"] = _search_options(given)
        elif kind == "function":
            function = given.only("type", *FUNCTION_MEMBERS)
            if function.get("strict") is False:
                del function["strict"]  # the default, which some servers do not know
            written.append(_nested(function))
        else:
            written.append(_custom(given))
    return written, members


def _search_options(tool: common.Given) -> Body:
    options: Body = {name: one for name, one in tool.only("type", *SEARCH_OPTIONS).items() if name != "type"}
    if "user_location" in options:
        options["user_location"] = _nested({**tool.child("user_location").members, "type": "approximate"})
    return options


def _custom(tool: common.Given) -> Body:
    custom = tool.only("type", *CUSTOM_MEMBERS)
    form = custom.get("format")
    if isinstance(form, dict) and form.get("type") == "grammar":
        custom["format"] = _nested(form)
    return _nested(custom)


# parameters


MEMBERS: Final[common.Members] = {
    **common.same_names(
        "temperature", "top_p", "reasoning_effort", "verbosity", "parallel_tool_calls", "metadata", "store"
    ),
    **common.same_names("service_tier", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
    **common.same_names(
        "logprobs", "top_logprobs", "stop", "seed", "presence_penalty", "frequency_penalty", "logit_bias"
    ),
    "max_output_tokens": common.Member("max_completion_tokens"),
    "format": common.Member("response_format", read=_read_format, write=_write_format),
    "tool_choice": common.Member("tool_choice", read=_read_choice, write=_write_choice),
}

DEFAULTS: Final[Mapping[str, object]] = {
    "n": 1,
    "stop": [],
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "logit_bias": {},
    "logprobs": False,
    "top_logprobs": 0,
    "modalities": ["text"],
    "response_format": {"type": "text"},
    "tool_choice": "auto",
}
"""Path of a member -> value that changes nothing."""

READ_ELSEWHERE: Final = frozenset({"messages", "tools", "web_search_options", "max_tokens"})


# requests


def write_request(request: ModelRequest, profile: ChatProfile) -> Body:
    """Return the body of a request, or raise `UnsupportedRequestError` if the API cannot express it."""
    request.refuse_previous_response()
    if not profile.takes_custom_tools:
        request = _with_functions(request)
    tools, search = write_tools(list(request.client_tools))
    body = request.start(tools) | search
    # not to store is the default, which some do not know
    parameters = {name: value for name, value in request.parameters.items() if (name, value) != common.NOT_STORED}
    common.write_parameters(body, parameters, MEMBERS, request.parameter_paths)
    body["messages"] = messages_of(request.whole)
    if profile.takes_stream_options:
        body["stream_options"] = {"include_usage": True}  # without it a stream reports no usage
    return body


def _with_functions(request: ModelRequest) -> ModelRequest:
    """Return a request with functions in place of custom tools."""
    tools = [_function(tool) if tool.get("type") == "custom" else tool for tool in request.client_tools]
    entries = [
        replace(entry, kind="function", input=codec.dumps({"input": entry.input}).decode())
        if isinstance(entry, ToolCall) and entry.kind == "custom"
        else entry
        for entry in request.entries
    ]
    return replace(request, client_tools=tools, input=entries)


def _function(tool: Item) -> Item:
    name, about, schema = common.function_of(common.Given(tool))
    return {"type": "function", "name": name, **about, "parameters": schema, "strict": False}


def read_request(body: Mapping[str, Any]) -> ModelRequest:
    """Return a caller's request in neutral terms; raise `UnsupportedRequestError` for what only this API has.

    A completion is not stored unless the caller asks for it; a response would be.
    """
    given = common.Given(body)
    parameters, paths = common.read_parameters(given, MEMBERS, READ_ELSEWHERE, DEFAULTS)
    if "max_tokens" in given.members:  # the older name
        parameters.setdefault("max_output_tokens", given.members["max_tokens"])
    return ModelRequest(
        model=given.text("model"),
        input=read_messages(given),
        client_tools=read_tools(given),
        parameters={"store": False, **parameters},
        parameter_paths={"max_output_tokens": "max_tokens", **paths},
    )


def forwarded_body(body: Mapping[str, Any], profile: ChatProfile, kept: KeptCalls) -> Body:
    """Return the caller's body; it requests usage, which logs and metrics need, unless the upstream rejects that.

    Reasoning goes back only where the upstream wants it: many refuse a message that contains any. What the upstream
    wants back with calls is added last, because it may be another projector, with sealed values of its own.

    Raises:
        UnsupportedRequestError: it requests several choices, of which only one would be shown, or audio, of which
            nothing would be (CONTRACT D49).
    """
    count = body.get("n")
    if isinstance(count, int | float) and count > 1:
        raise UnsupportedRequestError("`n` must be 1: a response has one choice.", "n")
    modalities = body.get("modalities")
    if isinstance(modalities, list) and "audio" in modalities:
        raise UnsupportedRequestError("`modalities` must not contain `audio`: a response has none.", "modalities")
    sent = dict(body)
    if isinstance(body.get("messages"), list):
        sent["messages"] = forwarded(body["messages"], profile, kept)
    if not profile.takes_stream_options:
        return sent
    return {**sent, "stream_options": {**(body.get("stream_options") or {}), "include_usage": True}}
