"""Requests of the Responses API: the body that is written, and the one of a caller for an upstream with another API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from projector.conversation.given_members import Given
from projector.conversation.model_request import Body, ModelRequest
from projector.conversation.request_members import read_parameters, write_parameters
from projector.providers.openai_responses.client_tools import read_tools
from projector.providers.openai_responses.response_input import read_input
from projector.providers.openai_responses.response_items import items_of
from projector.providers.openai_responses.response_members import (
    DEFAULTS,
    ENCRYPTED_REASONING,
    MEMBERS,
    READ_ELSEWHERE,
)


def write_request(request: ModelRequest, _profile: object = None) -> Body:
    """Return the body of a request, or raise `UnsupportedRequestError` if the API cannot express it."""
    body = request.start(request.client_tools)
    write_parameters(body, request.parameters, MEMBERS, request.parameter_paths)
    body["input"] = request.input if isinstance(request.input, str) else items_of(request.input)
    optional = {
        "instructions": request.instructions,
        "previous_response_id": request.previous_response_id,
        "metadata": request.metadata,
    }
    body |= {name: value for name, value in optional.items() if value is not None}
    if request.encrypted_reasoning:
        body["include"] = [*body.get("include", ()), ENCRYPTED_REASONING]
    return body


def read_request(body: Mapping[str, Any]) -> ModelRequest:
    """Return a caller's request in neutral terms; raise `UnsupportedRequestError` for what only this API has."""
    given = Given(body)
    parameters, paths = read_parameters(given, MEMBERS, READ_ELSEWHERE, DEFAULTS)
    tools = read_tools(given)
    if not tools:
        parameters.pop("parallel_tool_calls", None)  # this API alone accepts it there: Codex sends it with a summary
    return ModelRequest(
        model=given.text("model"),
        instructions=given.text_or_none("instructions"),
        input=read_input(given),
        client_tools=tools,
        parameters=parameters,
        parameter_paths=paths,
    )
