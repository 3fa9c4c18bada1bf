"""Requests of Chat Completions: the body that is written, and the one of a caller for an upstream with another API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from projector.contracts import codec
from projector.conversation.entries import Message, ToolCall
from projector.conversation.given_members import Given
from projector.conversation.model_request import Body, Item, ModelRequest
from projector.conversation.request_members import read_parameters, write_parameters
from projector.conversation.written import function_of
from projector.providers.openai_chat.chat_history import read_messages
from projector.providers.openai_chat.chat_members import DEFAULTS, MEMBERS, READ_ELSEWHERE, read_tools, write_tools
from projector.providers.openai_chat.chat_messages import messages_of
from projector.providers.openai_chat.chat_profile import ChatProfile


def write_request(request: ModelRequest, profile: ChatProfile) -> Body:
    """Return the body of a request, or raise `UnsupportedRequestError` if the API cannot express it."""
    request.refuse_previous_response()
    if not profile.takes_custom_tools:
        request = _with_functions(request)
    tools, search = write_tools(list(request.client_tools))
    body = request.start(tools) | search
    parameters = {name: value for name, value in request.parameters.items() if (name, value) != ("store", False)}
    write_parameters(body, parameters, MEMBERS, request.parameter_paths)  # that is the default, which some do not know
    instructions = [] if request.instructions is None else [Message("system", request.instructions)]
    body["messages"] = messages_of([*instructions, *request.entries])
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
    name, about, schema = function_of(Given(tool))
    return {"type": "function", "name": name, **about, "parameters": schema, "strict": False}


def read_request(body: Mapping[str, Any]) -> ModelRequest:
    """Return a caller's request in neutral terms; raise `UnsupportedRequestError` for what only this API has.

    A completion is not stored unless the caller asks for it; a response would be.
    """
    given = Given(body)
    parameters, paths = read_parameters(given, MEMBERS, READ_ELSEWHERE, DEFAULTS)
    if "max_tokens" in given.members:  # the older name
        parameters.setdefault("max_output_tokens", given.members["max_tokens"])
    return ModelRequest(
        model=given.text("model"),
        input=read_messages(given),
        client_tools=read_tools(given),
        parameters={"store": False, **parameters},
        parameter_paths={"max_output_tokens": "max_tokens", **paths},
    )
