"""What a chunk contains, and how servers differ in it: which members are read, and why others are not.

A member in neither table is unknown: it is counted under its object and name, and changes nothing (CONTRACT D30).
Finish reasons and token counts are tables, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projector.core.canonical import Known
from projector.providers.descriptor import InputTables
from projector.providers.stage_parts import REASONS, Counts
from projector.providers.think import NonEmpty, ThinkProfile


class ChatProfile(ThinkProfile):
    """Differences of one upstream. The defaults work with every known server."""

    reasoning_fields: tuple[NonEmpty, ...] = ("reasoning_content", "reasoning")
    """Members of a delta with reasoning text. A response is read by the one that it uses first; of several in one
    chunk, by the first listed here."""

    returned_reasoning: tuple[NonEmpty, ...] = ("reasoning_content",)
    """Members with reasoning text that the upstream wants back in the message with the calls that followed it. Others
    are not sent back."""

    takes_stream_options: bool = True
    """Whether the upstream accepts `stream_options.include_usage` in a request. A few reject unknown members."""

    takes_custom_tools: bool = True
    """Whether the upstream has custom tools, as OpenAI does. To others they are functions with one text, `input`."""


ERROR: Final = "error"

EXTRA: Final = "extra_content"
"""Member of a call that goes back as it came. All others of the object are members of the message."""
GOOGLE: Final = "google"
SIGNATURE: Final = "thought_signature"
RETURNED: Final = "returned"
"""Member of the opaque value of reasoning."""
SHOWN: Final = "reasoning_content"
"""Member of a message in which clients of this API see reasoning of every provider; many send it back."""


def returned_reasoning(members: Mapping[str, str]) -> object:
    """Return the opaque value of reasoning that goes back in members of the message with the calls after it."""
    return {RETURNED: dict(members)}


_OPERATIONS: Final = "for the operator of the model, not for its users"
_FILTERS: Final = "content filter results; the finish reason shows that content was filtered"
_PADDING: Final = "padding that hides the length of the text in a chunk"

_RESPONSE: Final = "a member of the response, in `response.created` and at its end"
_USAGE: Final = "`usage` of the response at its end"
_CITATIONS: Final = "`response.output_text.annotation.added`"
_ERROR: Final = "`error`, which ends the stream"
_REASONING: Final = "deltas of a reasoning item"

CHUNK_READ: Final[Mapping[str, str]] = {
    **dict.fromkeys(("id", "model", "created", "service_tier"), _RESPONSE),
    "choices": "the first choice; others are counted and dropped",
    "usage": _USAGE,
    "x_groq": "its members `usage` and `error`, as those of a chunk",
    **dict.fromkeys(("citations", "search_results"), _CITATIONS),
    **dict.fromkeys((ERROR, "base_resp"), _ERROR),
}
CHOICE_READ: Final[Mapping[str, str]] = {
    "index": "tells the first choice from others",
    "delta": "its members, as below",
    "message": "the same, if no delta came before",
    "finish_reason": "the status of the response: `response.completed`, `response.incomplete` or another end",
    "usage": _USAGE,
    ERROR: _ERROR,
}
DELTA_READ: Final[Mapping[str, str]] = {
    "content": "`response.output_text.delta`; reasoning in tags or parts becomes a reasoning item",
    "refusal": "`response.refusal.delta`",
    "reasoning_details": _REASONING,
    "tool_calls": "`response.function_call_arguments.delta`, or `response.custom_tool_call_input.delta`",
    "function_call": "the same, from the older API",
    "annotations": _CITATIONS,
    "images": "an `image_generation_call` for each image that is a data URL",
}
"""Members of a delta that are read, in addition to the profile's reasoning fields."""


def _reasons(*rows: tuple[str, *tuple[str, ...]]) -> dict[str, str]:
    """Return a mapping of members to reasons, from rows of a reason and its members."""
    return {name: reason for reason, *names in rows for name in names}


CHUNK_DROPPED: Final = _reasons(
    (
        "repeated in every chunk, not needed by a page",
        *("object", "system_fingerprint", "provider", "model_version", "generationId", "episode_id"),
        *("inference_id", "variant_name"),
    ),
    ("same as `created`", "created_at"),
    ("same as `model`", "model_id"),
    (_PADDING, "obfuscation", "p"),
    (_FILTERS, "prompt_filter_results"),
    ("the prompt is never published", "prompt_text", "prompt_token_ids", "prompt_logprobs"),
    (_OPERATIONS, "kv_transfer_params", "latency_checkpoint", "sla_metrics", "system", "time_info", "timings"),
    (_OPERATIONS, "provider_metadata"),
)
CHOICE_DROPPED: Final = _reasons(
    ("copy of the delta's text for the older API, read without one", "text"),
    ("token probabilities, not for pages", "logprobs"),
    ("token IDs, not for pages", "token_ids"),
    ("provider-specific form of `finish_reason`", "native_finish_reason", "stop_reason", "matched_stop"),
    (_OPERATIONS, "seed", "trace_details"),
    (_PADDING, "obfuscation"),
    (_FILTERS, "content_filter_result", "content_filter_results", "content_filter_offsets"),
)
DELTA_DROPPED: Final = _reasons(
    ("always the assistant; some servers repeat it, some omit it", "role"),
    ("the choice has an index of its own", "index"),
    ("reasoning has its own member", "channel"),
    ("token IDs, not for pages", "token_id"),
    (_PADDING, "obfuscation"),
    (_OPERATIONS, "provider_metadata"),
    ("the contract has no audio", "audio"),
    (
        "tools that one provider runs itself, without a stable format",
        *("executed_tools", "graph_data", "image_data", "llm_data", "translation_data", "web_search_data"),
    ),
)

CHUNK_KNOWN: Final = CHUNK_READ | CHUNK_DROPPED.keys()
CHOICE_KNOWN: Final = CHOICE_READ | CHOICE_DROPPED.keys()
DELTA_KNOWN: Final = DELTA_READ | DELTA_DROPPED.keys()

_CALL: Final = frozenset({"name", "arguments", "input"})
_IMAGE: Final = {"image_url": frozenset({"url", "detail"})}
_CITED: Final = frozenset({
    "type", "title", "url", "start_index", "end_index", "content", "file_id", "filename", "index", "container_id",
})  # fmt: skip
_TOKENS: Final = frozenset({
    "accepted_prediction_tokens", "audio_tokens", "cache_write_tokens", "cached_tokens", "image_tokens",
    "reasoning_tokens", "rejected_prediction_tokens", "text_tokens", "video_tokens",
})  # fmt: skip

MEMBERS: Final[Mapping[str, Known]] = {
    "chunk": {"chunk": frozenset(CHUNK_KNOWN)},
    "choice": {"choice": frozenset(CHOICE_KNOWN)},
    "content": {
        "content": frozenset({
            "type", "text", "annotations", "refusal", "thinking", "image_url", "closed", "reference_ids", "index",
        }),
        **_IMAGE,
    },
    "thinking": {"thinking": frozenset({"type", "text"})},
    "images": {"images": frozenset({"type", "index", "image_url"}), **_IMAGE},
    "tool_calls": {
        "tool_calls": frozenset({"index", "id", "type", "function", "custom", EXTRA}),
        "function": _CALL,
        "custom": _CALL,
    },
    "function_call": {"function_call": _CALL},
    "annotations": {
        "annotations": _CITED | {"url_citation", "file_citation", "container_file_citation"},
        **dict.fromkeys(("url_citation", "file_citation", "container_file_citation"), _CITED),
    },
    "reasoning_details": {
        "reasoning_details": frozenset({
            "type", "text", "summary", "data", "signature", "format", "index", "id", "provider",
        }),
    },
    "usage": {
        "usage": frozenset({
            "prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details", "completion_tokens_details",
            "prompt_token_details", "prompt_cache_hit_tokens", "prompt_cache_miss_tokens", "cached_tokens",
            "num_cached_tokens", "cache_creation_input_tokens", "reasoning_tokens", "queue_time", "prompt_time",
            "completion_time", "total_time", "cost", "cost_details", "cost_in_usd_ticks", "market_cost", "is_byok",
            "num_sources_used", "num_search_queries", "citation_tokens", "prompt_audio_seconds", "search_context_size",
            "service_tier",
        }),
        "prompt_tokens_details": _TOKENS,
        "completion_tokens_details": _TOKENS,
    },
}  # fmt: skip
"""Object of a chunk -> the members that known servers send in it, and in objects in it."""

FINISHES: Final[Mapping[str, tuple[str, str | None]]] = {
    "stop": ("completed", None),
    "tool_calls": ("completed", None),
    "function_call": ("completed", None),
    **REASONS,
}
"""Finish reason in lower case -> status and reason of the response (D32). Any other is a normal end, and is counted."""


def finish_of(reason: str) -> str:
    """Return a finish reason as in `FINISHES`: some servers write `STOP`, `FinishReason.STOP` or `STOP: why`."""
    return reason.partition(":")[0].strip().rpartition(".")[2].lower().removeprefix("finish_reason_")


COUNTS: Final[Counts] = {
    "input_tokens": ("prompt_tokens",),
    "output_tokens": ("completion_tokens",),
    "total_tokens": ("total_tokens",),
    "input_tokens_details.cached_tokens": (
        "prompt_tokens_details.cached_tokens",
        "prompt_cache_hit_tokens",
        "cached_tokens",
        "num_cached_tokens",
    ),
    "output_tokens_details.reasoning_tokens": ("completion_tokens_details.reasoning_tokens", "reasoning_tokens"),
}


def input_tables() -> InputTables:
    """Return the tables of this module, for `projector explain` and docs/mapping.md."""
    reasoning = dict.fromkeys(ChatProfile().reasoning_fields, f"{_REASONING}; `profile.reasoning_fields` names them")
    return InputTables(
        read={"chunk": CHUNK_READ, "choice": CHOICE_READ, "delta": {**DELTA_READ, **reasoning}},
        dropped={"chunk": CHUNK_DROPPED, "choice": CHOICE_DROPPED, "delta": DELTA_DROPPED},
        finish_reasons={reason: status for reason, (status, _) in FINISHES.items()},
    )
