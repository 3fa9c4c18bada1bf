"""Members of chunks: what is read, what is not and why; the ends of a response, its usage, and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from projector.core import canonical as read
from projector.core.canonical import Known
from projector.providers.descriptor import InputTables
from projector.providers.error_shapes import ReportedError, members_of
from projector.providers.recording_shape import RecordingShape
from projector.providers.stage_parts import Counts

WEB: Final = "web_search_call"
FILES: Final = "file_search_call"
CODE: Final = "code_interpreter_call"
IMAGE: Final = "image_generation_call"
MCP: Final = "mcp_call"


class End(NamedTuple):
    """How a response ends."""

    status: str
    """`completed`, `incomplete`, or `error` for a failed generation, whose code is the reason in lower case."""
    reason: str | None = None


COMPLETED: Final = End("completed")
FILTERED: Final = End("incomplete", "content_filter")
OTHER: Final = End("incomplete", "other")
FAILED: Final = End("error")

_ENDS: Final[Mapping[End, str]] = {
    COMPLETED: "STOP",
    End("incomplete", "max_output_tokens"): "MAX_TOKENS",
    FILTERED: "SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII MODEL_ARMOR IMAGE_SAFETY"
    " IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION ESCALATION PUP_LIMITED_DISABLED",
    FAILED: "MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL MALFORMED_RESPONSE MISSING_THOUGHT_SIGNATURE"
    " TOO_MANY_TOOL_CALLS",
    OTHER: "OTHER FINISH_REASON_UNSPECIFIED IMAGE_OTHER NO_IMAGE",
    End("incomplete", "continuation"): "CONTINUATION",
}
ENDS: Final[Mapping[str, End]] = {reason: end for end, reasons in _ENDS.items() for reason in reasons.split()}
"""`finishReason` -> end of the response; any other is `OTHER`, and is counted."""

NUMBERED: Final[Mapping[object, str]] = {1: "STOP", 2: "MAX_TOKENS"}
"""Number of a finish reason -> its name, where both APIs agree; servers that send arrays send numbers."""

INTERACTION_ENDS: Final[Mapping[str, End]] = {
    "completed": COMPLETED,
    "requires_action": COMPLETED,
    "failed": End("failed", "failed"),
    "cancelled": End("cancelled"),
    "incomplete": End("incomplete", "incomplete"),
    "requires_continuation": End("incomplete", "continuation"),
    "budget_exceeded": End("incomplete", "max_output_tokens"),
}
"""Status of an interaction -> end of the response."""


def finish_of(value: object) -> str | None:
    """Return the name of a finish reason, which may be a number, or in lower case; None if there is none."""
    if isinstance(value, str):
        return value.upper() or None
    return NUMBERED.get(value, "OTHER") if type(value) is int and value else None


CHUNK_MARKS: Final = frozenset({"candidates", "usageMetadata", "promptFeedback"})
"""An object with none of these is not a chunk."""
ENVELOPE: Final = "response"
"""The member of an object of Code Assist that has the chunk."""
_OWN_NAMES: Final = frozenset({"args", "response"})
"""Members whose own members a tool names."""
NULL: Final = "nullValue"
"""The member of a partial argument that is null, which may be the value null itself."""
_LEVELS_MAX: Final = 12
"""Levels of a chunk that has known members."""


def without_envelope(value: object) -> object:
    """Return the chunk that an envelope has, with the envelope's other members; another object as it is."""
    if not isinstance(value, dict) or ENVELOPE not in value or not CHUNK_MARKS.isdisjoint(value):
        return value
    inner = read.mapping_or_empty(value, ENVELOPE)
    if CHUNK_MARKS.isdisjoint(inner):
        return value
    return {**{name: one for name, one in value.items() if name != ENVELOPE}, **inner}


def has_other_names(data: bytes) -> bool:
    """Check whether the JSON of chunks may have names with underscores, or members that are null.

    Gateways and dumps of models write `finish_reason`, and members that are null.
    """
    return b"null" in data or _OTHER_NAME.search(data) is not None


def with_api_names(value: object) -> object:
    """Return a chunk with the names of the API, without null; another object, as an error of a gateway, as it is.

    If a member has both names, that of the API counts.
    """
    chunk = _with_api_names(value, _LEVELS_MAX)
    return value if isinstance(chunk, dict) and CHUNK_MARKS.isdisjoint(chunk) else chunk


def _with_api_names(value: object, levels: int) -> object:
    if not levels:
        return value
    if isinstance(value, list):
        return [_with_api_names(one, levels - 1) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        api_name: one if name in _OWN_NAMES else _with_api_names(one, levels - 1)
        for name, one in value.items()
        if (name == NULL or one is not None) and ((api_name := _api_name(name)) == name or not value.get(api_name))
    }


def _api_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others)) if first else name


# usage


CHUNK_COUNTS: Final[Counts] = {
    "input_tokens": ("promptTokenCount + toolUsePromptTokenCount",),
    "output_tokens": ("candidatesTokenCount + thoughtsTokenCount",),
    "total_tokens": ("totalTokenCount",),
    "input_tokens_details.cached_tokens": ("cachedContentTokenCount",),
    "output_tokens_details.reasoning_tokens": ("thoughtsTokenCount",),
}
"""Counts of a `usageMetadata`; thoughts are not among the candidates' tokens."""

INTERACTION_COUNTS: Final[Counts] = {
    "input_tokens": ("total_input_tokens + total_tool_use_tokens",),
    "output_tokens": ("total_output_tokens + total_thought_tokens",),
    "total_tokens": ("total_tokens",),
    "input_tokens_details.cached_tokens": ("total_cached_tokens",),
    "output_tokens_details.reasoning_tokens": ("total_thought_tokens",),
}
"""Counts of the usage of an interaction."""

_COUNTS: Final = frozenset(
    {
        *(("usageMetadata",), ("usage_metadata",), (ENVELOPE, "usageMetadata")),
        *(("usage",), ("interaction", "usage"), ("metadata", "total_usage")),
    }
)


def recording_shape() -> RecordingShape:
    """Return how streams are recorded."""
    return RecordingShape(counts=_COUNTS)


# errors

RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"


def error_members(value: object) -> ReportedError:
    """Return the members of an error; its code is the status in lower case, and the wait that it asks for."""
    first = value[0] if isinstance(value, list) and value else value
    inner = read.mapping_or_empty(first, "error") if read.is_mapping(first) else {}
    members = members_of(value)
    status = read.text_or_none(inner, "status")
    delays = [
        read.text_or_none(one, "retryDelay")
        for one in read.mappings(inner, "details")
        if one.get("@type") == RETRY_INFO
    ]
    code = status.lower() if status is not None else members.code
    return members._replace(code=code, retry_after=next((delay for delay in delays if delay is not None), None))


# tables

_RESPONSE: Final = "a member of the response"
_CITED: Final = "citations of the text"

READ: Final[Mapping[str, Mapping[str, str]]] = {
    "chunk": {
        "candidates": "the first candidate; others are counted and dropped",
        "usageMetadata": "`usage` of the response",
        **dict.fromkeys(("responseId", "modelVersion"), _RESPONSE),
        "promptFeedback": "a blocked request is `incomplete`, with `content_filter`",
        "error": "`error`, which ends the stream",
    },
    "candidate": {
        "content": "its parts, as below",
        "finishReason": "the status of the response",
        "index": "tells the first candidate from others",
        "groundingMetadata": f"a `{WEB}` or `{FILES}`, and {_CITED}",
        "citationMetadata": _CITED,
        "urlContextMetadata": f"a `{WEB}` for each page",
    },
    "part": {
        "text": "a delta of a message; with `thought`, of a summary of the reasoning",
        "thought": "tells reasoning from the answer, and drafts of images from images",
        "thoughtSignature": "goes back to the provider with its call, message or reasoning; never shown",
        "functionCall": "a `function_call`; streamed arguments are written in the order of their paths",
        "executableCode": f"a `{CODE}`",
        "codeExecutionResult": f"the logs of a `{CODE}`",
        "toolCall": f"a `{WEB}` or `{FILES}`",
        "toolResponse": "the end of that call",
        "inlineData": f"an `{IMAGE}`, if it is an image",
    },
    "interaction": {
        "interaction.created": "`response.created`",
        "interaction.status_update": "`response.in_progress`",
        "step.start": "an item",
        "step.delta": "a delta of an item",
        "step.stop": "the end of an item",
        "interaction.completed": "the end of the response",
        "error": "the error",
    },
}
DROPPED: Final[Mapping[str, Mapping[str, str]]] = {
    "chunk": dict.fromkeys(("createTime", "modelStatus"), "not needed by a page"),
    "candidate": {
        "finishMessage": "may contain a call that is not valid",
        "safetyRatings": "the finish reason shows that content was filtered",
        **dict.fromkeys(("avgLogprobs", "logprobsResult"), "token probabilities, not for pages"),
        "tokenCount": "repeated in the usage",
        "continuationToken": "only the provider can read it",
    },
    "groundingMetadata": {
        **dict.fromkeys(("searchEntryPoint", "googleMapsWidgetContextToken"), "HTML and tokens of others"),
        "groundingSupports.confidenceScores": "not part of the contract",
    },
    "part": {
        "fileData": "a file of the provider, which a page cannot read",
        **dict.fromkeys(("videoMetadata", "mediaResolution"), "about the media of a request"),
        "thoughtSignature of code and tools": "a conversation has none of these parts",
    },
    "interaction": {
        "user_input, function_result": "the client itself sent them",
        "retrieval, tool_search, processing": "no public type",
        "search_suggestions": "HTML of others",
        "signature of tools": "a conversation has none of these steps",
    },
}

_OWN: Final = {kind: frozenset(READ[kind].keys() | DROPPED[kind].keys()) for kind in ("chunk", "candidate", "part")}

MEMBERS: Final[Mapping[str, Known]] = {
    "chunk": {
        "chunk": _OWN["chunk"],
        "promptFeedback": frozenset({"blockReason", "blockReasonMessage", "safetyRatings"}),
        "usageMetadata": frozenset({
            "promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount", "toolUsePromptTokenCount",
            "thoughtsTokenCount", "totalTokenCount", "promptTokensDetails", "cacheTokensDetails",
            "candidatesTokensDetails", "toolUsePromptTokensDetails", "trafficType", "serviceTier",
        }),
    },
    "candidate": {"candidate": _OWN["candidate"], "content": frozenset({"parts", "role"})},
    "part": {
        "part": _OWN["part"],
        "functionCall": frozenset({"id", "name", "args", "partialArgs", "willContinue"}),
        "executableCode": frozenset({"id", "language", "code"}),
        "codeExecutionResult": frozenset({"id", "outcome", "output"}),
        "toolCall": frozenset({"id", "toolType", "args"}),
        "toolResponse": frozenset({"id", "toolType", "response"}),
        "inlineData": frozenset({"displayName", "mimeType", "data"}),
        "fileData": frozenset({"displayName", "mimeType", "fileUri"}),
    },
}  # fmt: skip
"""Kind of object -> the members that it has in the API, and those of objects in it."""

_NAMES: Final = sorted({name for known in MEMBERS.values() for names in known.values() for name in names})
_UNDERSCORED: Final = "|".join(re.sub("[A-Z]", r"_\g<0>", name).lower() for name in _NAMES if not name.islower())
_OTHER_NAME: Final = re.compile(rb'"(?:%b)"\s*+:' % _UNDERSCORED.encode())
"""A member of chunks with underscores in its name."""


def input_tables() -> InputTables:
    """Return the tables of this module, for `projector explain` and docs/mapping.md."""
    ends = {reason: end.status for reason, end in ENDS.items()}
    statuses = {name: end.status for name, end in INTERACTION_ENDS.items()}
    return InputTables(read=READ, dropped=DROPPED, finish_reasons={**ends, **statuses})
