"""Requests of Gemini, from a request in neutral terms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from projector.conversation.given_members import NOT_SUPPORTED, Given, tools_of
from projector.conversation.model_request import Body, ModelRequest, UnsupportedRequestError
from projector.conversation.request_members import Member, Members, write_parameters
from projector.conversation.written import CLIENT_TOOLS, function_of, listed
from projector.providers.gemini.gemini_api import GeminiProfile
from projector.providers.gemini.gemini_contents import Contents, Steps

IGNORED: Final = frozenset(
    {"metadata", "truncation", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "verbosity",
     "service_tier"}
)  # fmt: skip
"""Parameters that change nothing of an answer, or that are hints."""
LEVELS: Final = {"minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "high"}
BUDGETS: Final = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576}
"""Effort -> tokens of thinking."""
HAS_BUDGETS: Final = re.compile(r"gemini-(?:1|2)\b")
"""Names of models that know budgets and no levels."""
MODES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
HOSTED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("web_search", "web_search_2025_08_26", "web_search_preview"), "googleSearch"),
    "code_interpreter": "codeExecution",
}
"""Tool of the Responses API that the provider runs -> the provider's own."""
INTERACTION_TOOLS: Final[Mapping[str, str]] = {"googleSearch": "google_search", "codeExecution": "code_execution"}


def write_request(request: ModelRequest, profile: GeminiProfile) -> Body:
    """Return the body of a request, or raise `UnsupportedRequestError` if the API cannot express it."""
    return (_write_interaction if profile.api == "interactions" else _write_contents)(request)


def _write_contents(request: ModelRequest) -> Body:
    request.refuse_previous_response()
    functions, hosted = _tools(request, "parametersJsonSchema")
    declared = [{"functionDeclarations": functions}] if functions else []
    body = request.start([*hosted, *declared])
    _write_parameters(body, request, CONTENT_MEMBERS, ignored=IGNORED | {"store"})
    effort, summary = (request.parameters.get(name) for name in ("reasoning_effort", "reasoning_summary"))
    if effort is not None or summary is not None:
        config = dict(body.get("generationConfig") or {})
        config["thinkingConfig"] = _thinking(effort, request, dict(config.get("thinkingConfig") or {}))
        body["generationConfig"] = config
    contents = Contents(request.model).add(request.entries)
    system = [] if request.instructions is None else [{"text": request.instructions}]
    if system or contents.system:
        body["systemInstruction"] = {"parts": [*system, *contents.system]}
    body["contents"] = contents.done()
    return body


def _write_interaction(request: ModelRequest) -> Body:
    functions, hosted = _tools(request, "parameters")
    named = [{"type": INTERACTION_TOOLS[name]} for tool in hosted for name in tool]
    body = request.start([*named, *({"type": "function", **function} for function in functions)])
    _write_parameters(body, request, INTERACTION_MEMBERS, ignored=IGNORED)
    effort, summary = (request.parameters.get(name) for name in ("reasoning_effort", "reasoning_summary"))
    if effort is not None or summary is not None:
        level = (
            {}
            if effort is None
            else {"thinking_level": LEVELS["minimal" if effort == "none" else _effort(effort, request)]}
        )
        body["generation_config"] = {**body.get("generation_config", {}), **level, "thinking_summaries": "auto"}
    steps = Steps().add(request.entries)
    texts = [*([request.instructions] if request.instructions is not None else []), *steps.system]
    if texts:
        body["system_instruction"] = "\n\n".join(texts)
    if request.previous_response_id is not None:
        body["previous_interaction_id"] = request.previous_response_id
    body["input"] = steps.steps
    return body


def _write_parameters(body: Body, request: ModelRequest, members: Members, *, ignored: frozenset[str]) -> None:
    """Set the parameters that have a member; parallel calls cannot be switched off."""
    written = {"reasoning_effort", "reasoning_summary", "tool_choice", "format"}
    given = {name: value for name, value in request.parameters.items() if name not in ignored | written}
    if given.get("parallel_tool_calls") is True:
        del given["parallel_tool_calls"]
    write_parameters(body, given, members, request.parameter_paths)
    is_content = members is CONTENT_MEMBERS
    if (choice := request.parameters.get("tool_choice")) is not None and choice != "auto":
        mode, names = _choice(choice)
        if is_content:
            allowed = {"allowedFunctionNames": names} if names else {}
            body["toolConfig"] = {**(body.get("toolConfig") or {}), "functionCallingConfig": {"mode": mode, **allowed}}
        else:
            config = {"allowed_tools": {"mode": mode.lower(), "tools": names}} if names else mode.lower()
            body["generation_config"] = {**body.get("generation_config", {}), "tool_choice": config}
    form = request.parameters.get("format")
    if isinstance(form, Mapping) and form.get("type") != "text":
        schema = _schema(form["schema"]) if form.get("type") == "json_schema" else None
        if is_content:
            about = {"responseMimeType": "application/json", **({"responseJsonSchema": schema} if schema else {})}
            body["generationConfig"] = {**(body.get("generationConfig") or {}), **about}
        else:
            about = {"mime_type": "application/json", **({"schema": schema} if schema else {})}
            body["response_format"] = {"type": "text", **about}


def _choice(value: object) -> tuple[str, list[str]]:
    """Return the mode of calls, and the functions that are allowed; without an `ANY`, text is allowed too."""
    if isinstance(value, str) and value in MODES:
        return MODES[value], []
    given = Given(value if isinstance(value, Mapping) else {}, "tool_choice")
    kind = given.text("type")
    if kind == "allowed_tools":
        names = [tool.text("name") for tool in given.objects("tools")]
        return ("ANY" if given.members.get("mode") == "required" else "VALIDATED"), names
    if kind not in {"function", "custom"}:
        given.unsupported("type")
    return "ANY", [given.text("name")]


def _effort(value: object, request: ModelRequest) -> str:
    if isinstance(value, str) and value in BUDGETS:
        return value
    path = request.parameter_paths.get("reasoning_effort", "reasoning_effort")
    raise UnsupportedRequestError(f"`{path}` has a value that {NOT_SUPPORTED}", path)


def _thinking(value: object, request: ModelRequest, config: Body) -> Body:
    """Return the configuration of thinking: a level, or a budget for models that know no levels."""
    if value is None:
        return {**config, "includeThoughts": True}
    effort = _effort(value, request)
    if HAS_BUDGETS.search(request.model) is not None:
        config["thinkingBudget"] = BUDGETS[effort]
    else:
        config["thinkingLevel"] = LEVELS.get(effort, "minimal")
    return {**config, "includeThoughts": effort != "none"}


def _tools(request: ModelRequest, schema_name: str) -> tuple[list[Body], list[Body]]:
    """Return the functions of the client, and the tools of the provider."""
    functions: list[Body] = []
    hosted: list[Body] = []
    for tool in tools_of(request.client_tools, {*HOSTED, *CLIENT_TOOLS}):
        if (kind := tool.text("type")) in HOSTED:
            hosted.append({HOSTED[kind]: {}})
            continue
        function = function_of(tool)
        functions.append({"name": function.name, **function.about, schema_name: _schema(function.schema)})
    return functions, hosted


def _schema(value: object) -> object:
    """Return a JSON Schema without the name of its dialect; the API ignores what it does not know of the rest."""
    return {name: one for name, one in value.items() if name != "$schema"} if isinstance(value, Mapping) else value


CONTENT_MEMBERS: Final[Members] = {
    "temperature": Member("generationConfig.temperature"),
    "top_p": Member("generationConfig.topP"),
    "max_output_tokens": Member("generationConfig.maxOutputTokens"),
    "stop": Member("generationConfig.stopSequences", write=listed),
    "seed": Member("generationConfig.seed"),
    "presence_penalty": Member("generationConfig.presencePenalty"),
    "frequency_penalty": Member("generationConfig.frequencyPenalty"),
}
INTERACTION_MEMBERS: Final[Members] = {
    "temperature": Member("generation_config.temperature"),
    "top_p": Member("generation_config.top_p"),
    "max_output_tokens": Member("generation_config.max_output_tokens"),
    "stop": Member("generation_config.stop_sequences", write=listed),
    "seed": Member("generation_config.seed"),
    "store": Member("store"),
}
