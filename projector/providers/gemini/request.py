"""Requests of Gemini, from a request in neutral terms.

A conversation becomes `systemInstruction` and `contents`, or the `input` of an interaction. The API demands: the
results of all calls of a turn are the only parts of the content that follows it, in the order of the calls; a call has
an object as its arguments; what the model sent with a signature goes back with it.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from projector.conversation import entries as neutral
from projector.conversation import request_members as common
from projector.conversation.model_request import Body, ModelRequest, UnsupportedRequestError
from projector.providers.gemini.api import GeminiProfile

# a conversation as contents


PROVIDER: Final = "gemini"
MODEL: Final = "model"

NEEDS_SIGNATURES: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")
"""Names of models that refuse the first call of a turn without a signature."""
LOST_SIGNATURE: Final = "skip_thought_signature_validator"
"""Google's placeholder for a signature that is lost, or of a call that another model has made."""


class Contents(common.Turns):
    """The contents of a conversation for a model."""

    def __init__(self, model: str) -> None:
        self.system: list[Body] = []
        self.contents: list[Body] = []
        self._needs_signatures = NEEDS_SIGNATURES.search(model) is not None
        self._calls: dict[str, neutral.ToolCall] = {}
        """Calls by ID; the last one with an ID counts."""
        self._order: dict[str, int] = {}
        self._results: list[tuple[int, Body]] = []
        """Results that wait for the others of their turn, by the numbers of their calls."""
        self._after: list[Body] = []
        """Media of results, which follow them."""
        self._last_with_calls: Body | None = None

    def done(self) -> list[Body]:
        """Return all contents."""
        self._end_results()
        return self.contents

    def message(self, entry: neutral.Message) -> None:
        """Add a message; those of the system and the developer before the first turn are the instruction."""
        parts = common.written_parts(entry.content, PARTS)
        if entry.role == neutral.ASSISTANT:
            parts = _signed(parts, _value(entry.opaque))
        elif entry.role != neutral.USER and not (self.contents or self._results):
            self.system += parts
            return
        if parts:  # the API refuses contents without one
            self._extend(MODEL if entry.role == neutral.ASSISTANT else neutral.USER, parts)

    def call(self, entry: neutral.ToolCall) -> None:
        """Add a call."""
        state = _value(entry.opaque)
        own_id = state.get("id")
        call = {
            **({"id": own_id} if isinstance(own_id, str) else {}),
            "name": entry.name,
            "args": arguments_of(entry),
        }
        self._extend(MODEL, [])
        content, signature = self.contents[-1], state.get("signature")
        if signature is None and content is not self._last_with_calls and self._needs_signatures:
            signature = LOST_SIGNATURE
        content["parts"].append({"functionCall": call, **({"thoughtSignature": signature} if signature else {})})
        self._last_with_calls = content
        self._calls[entry.id], self._order[entry.id] = entry, len(self._order)

    def output(self, entry: neutral.ToolOutput) -> None:
        """Add the result of a call, by its name, and its ID if the model gave it one."""
        call = self._calls.get(entry.call_id)
        own_id = _value(call.opaque).get("id") if call is not None else None
        response: Body = {
            **({"id": own_id} if isinstance(own_id, str) else {}),
            "name": call.name if call is not None else entry.call_id,
            "response": {"error" if entry.has_failed else "output": neutral.text_of(entry.output)},
        }
        self._results.append((self._order.get(entry.call_id, len(self._order)), {"functionResponse": response}))
        media = () if isinstance(entry.output, str) else entry.output
        self._after += common.written_parts(
            tuple(part for part in media if isinstance(part, neutral.Image | neutral.File)), PARTS
        )

    def reasoning(self, entry: neutral.Reasoning) -> None:
        """Add reasoning with the signature of the model; without one it means nothing to it."""
        state = _value(entry.opaque)
        if not isinstance(state.get("signature"), str):
            return
        thought = state.get("thought")
        about = {"text": thought, "thought": True} if thought else {"text": ""}
        self._extend(MODEL, [{**about, "thoughtSignature": state["signature"]}])

    def _extend(self, role: str, parts: list[Body]) -> None:
        self._end_results()
        before = self.contents[-1] if self.contents else {"role": None, "parts": []}
        if before["role"] != role or any("functionResponse" in part for part in before["parts"][:1]):  # these are alone
            self.contents.append({"role": role, "parts": []})
        self.contents[-1]["parts"] += parts

    def _end_results(self) -> None:
        """Add the results of a turn in the order of their calls, and then their media."""
        results, self._results = sorted(self._results, key=lambda result: result[0]), []
        if results:
            self.contents.append({"role": neutral.USER, "parts": [part for _, part in results]})
        after, self._after = self._after, []
        if after:
            self.contents.append({"role": neutral.USER, "parts": after})


def type_of(url: str) -> str | None:
    """Return the media type that the name at the end of a URL indicates."""
    return mimetypes.guess_type(url.partition("?")[0].partition("#")[0])[0]


def _value(opaque: neutral.Opaque | None) -> Mapping[str, Any]:
    """Return what this provider wants back."""
    value = neutral.own_value(opaque, PROVIDER)
    return value if isinstance(value, dict) else {}


def _signed(parts: list[Body], state: Mapping[str, Any]) -> list[Body]:
    """Return the parts of a message with its signature: on its last part, or alone after it."""
    signature = state.get("signature")
    if not isinstance(signature, str):
        return parts
    if state.get("is_alone") is True or not parts:
        return [*parts, {"text": "", "thoughtSignature": signature}]
    return [*parts[:-1], {**parts[-1], "thoughtSignature": signature}]


def _media(url: str) -> Body:
    if (data := common.data_of(url)) is not None:
        return {"inlineData": {"mimeType": data[0], "data": data[1]}}
    kind = type_of(url)
    return {"fileData": {"fileUri": url, **({"mimeType": kind} if kind else {})}}


def _file(file: neutral.File) -> Body:
    return {"fileData": {"fileUri": file.file_id}} if file.file_id else _media(file.url or "")


PARTS: Final = common.PartWriters(lambda text: {"text": text} if text else None, lambda image: _media(image.url), _file)


# steps of an interaction


class Steps(common.Turns):
    """The steps of a conversation, which are the input of an interaction."""

    def __init__(self) -> None:
        self.system: list[str] = []
        """Texts of the system before the first turn."""
        self.steps: list[Body] = []
        self._names: dict[str, str] = {}

    def message(self, entry: neutral.Message) -> None:
        """Add a message; those of the system and the developer before the first turn are the instruction."""
        if entry.role not in {neutral.ASSISTANT, neutral.USER} and not self.steps:
            self.system.append(neutral.text_of(entry.content))
        elif content := common.written_parts(entry.content, STEP_PARTS):
            kind = "model_output" if entry.role == neutral.ASSISTANT else "user_input"
            self.steps.append({"type": kind, "content": content})

    def call(self, entry: neutral.ToolCall) -> None:
        """Add a call."""
        self._names[entry.id] = entry.name
        call = {"id": entry.id, "name": entry.name, "arguments": arguments_of(entry)}
        self.steps.append({"type": "function_call", **call})

    def output(self, entry: neutral.ToolOutput) -> None:
        """Add the result of a call."""
        result: Any = entry.output if isinstance(entry.output, str) else common.written_parts(entry.output, STEP_PARTS)
        name = {"name": self._names[entry.call_id]} if entry.call_id in self._names else {}
        failed = {"is_error": True} if entry.has_failed else {}
        self.steps.append({"type": "function_result", "call_id": entry.call_id, **name, "result": result, **failed})

    def reasoning(self, entry: neutral.Reasoning) -> None:
        """Add reasoning with the signature of the model; without one it means nothing to it."""
        state = _value(entry.opaque)
        if isinstance(state.get("signature"), str):
            thought = state.get("thought")
            summary = {"summary": [{"type": "text", "text": thought}]} if thought else {}
            self.steps.append({"type": "thought", "signature": state["signature"], **summary})


def arguments_of(entry: neutral.ToolCall) -> Body:
    """Return the arguments of a call; a custom tool has one text as its input."""
    return {"input": entry.input} if entry.kind == "custom" else neutral.object_of(entry.input)


def _content(url: str, kind: str) -> Body:
    if (data := common.data_of(url)) is not None:
        kind = "image" if data[0].startswith("image/") else kind
        return {"type": kind, "mime_type": data[0], "data": data[1]}
    named = type_of(url)
    return {"type": kind, "uri": url, **({"mime_type": named} if named else {})}


STEP_PARTS: Final = common.PartWriters(
    common.typed_text,
    lambda image: _content(image.url, "image"),
    lambda file: _content(file.file_id or file.url or "", "document"),
)


# requests


LEVELS: Final = {"minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "high"}
BUDGETS: Final = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576}
"""Effort -> tokens of thinking."""
HAS_BUDGETS: Final = re.compile(r"gemini-(?:1|2)\b")
"""Names of models that know budgets and no levels."""
MODES: Final = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
HOSTED: Final[Mapping[str, str]] = {
    **dict.fromkeys(common.WEB_SEARCHES, "googleSearch"),
    "code_interpreter": "codeExecution",
}
"""Tool of the Responses API that the provider runs -> the provider's own."""
HOSTED_MEMBERS: Final = ("container", "search_context_size")
"""Members of such a tool that change nothing here."""
HOSTED_DEFAULTS: Final[Sequence[tuple[str, object]]] = (
    ("external_web_access", True),
    ("filters", {}),
    ("file_ids", []),
)
"""Members of such a tool, or of its container, with the value that changes nothing."""
INTERACTION_TOOLS: Final[Mapping[str, str]] = {"googleSearch": "google_search", "codeExecution": "code_execution"}


def write_request(request: ModelRequest, profile: GeminiProfile) -> Body:
    """Return the body of a request, or raise `UnsupportedRequestError` if the API cannot express it."""
    return (_write_interaction if profile.api == "interactions" else _write_contents)(request)


def _write_contents(request: ModelRequest) -> Body:
    request.refuse_previous_response()
    functions, hosted = _tools(request, "parametersJsonSchema")
    declared = [{"functionDeclarations": functions}] if functions else []
    body = request.start([*hosted, *declared])
    _write_parameters(body, request, CONTENT_MEMBERS, ignored=common.HINTS | {"store"})
    effort, summary = (request.parameters.get(name) for name in ("reasoning_effort", "reasoning_summary"))
    if effort is not None or summary is not None:
        config = dict(body.get("generationConfig") or {})
        config["thinkingConfig"] = _thinking(effort, request, dict(config.get("thinkingConfig") or {}))
        body["generationConfig"] = config
    contents = Contents(request.model).add(request.whole)
    if contents.system:
        body["systemInstruction"] = {"parts": contents.system}
    body["contents"] = contents.done()
    return body


def _write_interaction(request: ModelRequest) -> Body:
    functions, hosted = _tools(request, "parameters")
    named = [{"type": INTERACTION_TOOLS[name]} for tool in hosted for name in tool]
    body = request.start([*named, *({"type": "function", **function} for function in functions)])
    _write_parameters(body, request, INTERACTION_MEMBERS, ignored=common.HINTS)
    effort, summary = (request.parameters.get(name) for name in ("reasoning_effort", "reasoning_summary"))
    if effort is not None or summary is not None:
        level = (
            {}
            if effort is None
            else {"thinking_level": LEVELS["minimal" if effort == "none" else _effort(effort, request)]}
        )
        body["generation_config"] = {**body.get("generation_config", {}), **level, "thinking_summaries": "auto"}
    steps = Steps().add(request.whole)
    if steps.system:
        body["system_instruction"] = "\n\n".join(steps.system)
    if request.previous_response_id is not None:
        body["previous_interaction_id"] = request.previous_response_id
    body["input"] = steps.steps
    return body


def _write_parameters(body: Body, request: ModelRequest, members: common.Members, *, ignored: frozenset[str]) -> None:
    """Set the parameters that have a member; parallel calls cannot be switched off."""
    written = {"reasoning_effort", "reasoning_summary", "tool_choice", "format"}
    given = {name: value for name, value in request.parameters.items() if name not in ignored | written}
    if given.get("parallel_tool_calls") is True:
        del given["parallel_tool_calls"]
    common.write_parameters(body, given, members, request.parameter_paths)
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
        schema = _schema(form.get("schema")) if form.get("type") == "json_schema" else None
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
    given = common.Given(value if isinstance(value, Mapping) else {}, "tool_choice")
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
    raise UnsupportedRequestError(f"`{path}` has a value that {common.NOT_SUPPORTED}", path)


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


def _without_defaults(given: common.Given) -> common.Given:
    members = {name: value for name, value in given.members.items() if (name, value) not in HOSTED_DEFAULTS}
    return common.Given(members, given.path)


def _tools(request: ModelRequest, schema_name: str) -> tuple[list[Body], list[Body]]:
    """Return the functions of the client, and the tools of the provider."""
    functions: list[Body] = []
    hosted: list[Body] = []
    for tool in common.tools_of(request.client_tools, {*HOSTED, *common.CLIENT_TOOLS}):
        if (kind := tool.text("type")) in HOSTED:
            _without_defaults(tool).only("type", *HOSTED_MEMBERS)
            _without_defaults(tool.child("container")).only("type")  # a new one, which the caller's API demands
            hosted.append({HOSTED[kind]: {}})
            continue
        function = common.function_of(tool)
        functions.append({"name": function.name, **function.about, schema_name: _schema(function.schema)})
    return functions, hosted


def _schema(value: object) -> object:
    """Return a JSON Schema without the name of its dialect; the API ignores what it does not know of the rest."""
    return {name: one for name, one in value.items() if name != "$schema"} if isinstance(value, Mapping) else value


CONTENT_MEMBERS: Final[common.Members] = {
    "temperature": common.Member("generationConfig.temperature"),
    "top_p": common.Member("generationConfig.topP"),
    "top_k": common.Member("generationConfig.topK"),
    "max_output_tokens": common.Member("generationConfig.maxOutputTokens"),
    "stop": common.Member("generationConfig.stopSequences", write=common.listed),
    "seed": common.Member("generationConfig.seed"),
    "presence_penalty": common.Member("generationConfig.presencePenalty"),
    "frequency_penalty": common.Member("generationConfig.frequencyPenalty"),
}
INTERACTION_MEMBERS: Final[common.Members] = {
    "temperature": common.Member("generation_config.temperature"),
    "top_p": common.Member("generation_config.top_p"),
    "max_output_tokens": common.Member("generation_config.max_output_tokens"),
    "stop": common.Member("generation_config.stop_sequences", write=common.listed),
    "seed": common.Member("generation_config.seed"),
    "store": common.Member("store"),
}
