"""Requests of the Messages API, from a request in neutral terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.conversation.client_history import NO_PARAMETERS
from projector.conversation.entries import user_text
from projector.conversation.given_members import NOT_SUPPORTED, Given, tools_of
from projector.conversation.model_request import Body, ModelRequest, UnsupportedRequestError
from projector.conversation.request_members import Member, Members, write_parameters
from projector.providers.anthropic_messages.message_turns import turns_of
from projector.providers.anthropic_messages.messages_profile import MessagesProfile

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


def _stop(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _format(value: Mapping[str, Any]) -> object:
    if value.get("type") != "json_schema":
        raise UnsupportedRequestError(f"`text.format` {NOT_SUPPORTED}", "text.format")
    return {"type": "json_schema", "schema": value.get("schema")}


MEMBERS: Final[Members] = {
    "temperature": Member("temperature"),
    "top_p": Member("top_p"),
    "max_output_tokens": Member("max_tokens"),
    "tool_choice": Member("tool_choice", write=_choice),
    "stop": Member("stop_sequences", write=_stop),
    "format": Member("output_config.format", write=_format),
}


def write_request(request: ModelRequest, profile: MessagesProfile) -> Body:
    """Return the body of a request, or raise `UnsupportedRequestError` if the API cannot express it."""
    if request.previous_response_id is not None:
        raise UnsupportedRequestError("`previous_response_id` cannot be set here.", "previous_response_id")
    body = request.start([_tool(tool) for tool in tools_of(request.client_tools, {"function", "custom"})])
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
    turns = turns_of([user_text(request.input)] if isinstance(request.input, str) else request.input)
    system = [] if request.instructions is None else [{"type": "text", "text": request.instructions}]
    if system or turns.system:
        body["system"] = [*system, *turns.system]
    body["messages"] = turns.done()
    return body


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


def _tool(tool: Given) -> Body:
    """Return a tool of the client; a custom tool has one text as its input."""
    schema = tool.members.get("parameters") or NO_PARAMETERS
    if tool.text("type") == "custom":
        schema = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    description = tool.text_or_none("description")
    about = {"description": description} if description else {}
    return {"name": tool.text("name"), **about, "input_schema": schema}
