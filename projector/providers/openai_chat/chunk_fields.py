"""Members of a chunk: which are read, and why others are not; finish reasons; token counts.

A member in neither table is unknown: it is counted under its object and name, and changes nothing (CONTRACT D30).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from projector.core import canonical as read
from projector.providers.descriptor import InputTables

ERROR: Final = "error"

_SAME = "repeated in every chunk, not needed by a page"
_OPERATIONS = "for the operator of the model, not for its users"
_FILTERS = "content filter results; the finish reason shows that content was filtered"
_PADDING = "padding against guessing text from the size of chunks"
_SERVER_TOOLS = "tools that one provider runs itself, without a stable format"
_FINISH = "provider-specific form of `finish_reason`"
_PROMPT = "the prompt is never published (section 7.2)"

CHUNK_READ: Final = frozenset(
    {"id", "model", "created", "choices", "usage", "x_groq", "citations", "search_results", "error"}
)
CHUNK_DROPPED: Final[Mapping[str, str]] = {
    "object": _SAME,
    "system_fingerprint": _SAME,
    "service_tier": _SAME,
    "provider": _SAME,
    "created_at": "same as `created`",
    "model_id": "same as `model`",
    "model_version": _SAME,
    "generationId": _SAME,
    "episode_id": _SAME,
    "inference_id": _SAME,
    "variant_name": _SAME,
    "obfuscation": _PADDING,
    "p": _PADDING,
    "prompt_filter_results": _FILTERS,
    "prompt_text": _PROMPT,
    "prompt_token_ids": _PROMPT,
    "prompt_logprobs": _PROMPT,
    "kv_transfer_params": _OPERATIONS,
    "latency_checkpoint": _OPERATIONS,
    "sla_metrics": _OPERATIONS,
    "system": _OPERATIONS,
    "time_info": _OPERATIONS,
    "timings": _OPERATIONS,
    "provider_metadata": _OPERATIONS,
}

CHOICE_READ: Final = frozenset({"index", "delta", "message", "finish_reason", "usage", "error"})
CHOICE_DROPPED: Final[Mapping[str, str]] = {
    "text": "copy of the delta's text for the older API",
    "logprobs": "token probabilities, not for pages",
    "token_ids": "token IDs, not for pages",
    "native_finish_reason": _FINISH,
    "stop_reason": _FINISH,
    "matched_stop": _FINISH,
    "seed": _OPERATIONS,
    "trace_details": _OPERATIONS,
    "obfuscation": _PADDING,
    "content_filter_result": _FILTERS,
    "content_filter_results": _FILTERS,
    "content_filter_offsets": _FILTERS,
}

DELTA_READ: Final = frozenset({"content", "refusal", "reasoning_details", "tool_calls", "function_call", "annotations"})
"""In addition to the profile's reasoning fields."""
DELTA_DROPPED: Final[Mapping[str, str]] = {
    "role": "always the assistant; some servers repeat it, some omit it",
    "index": "the choice has an index of its own",
    "channel": "reasoning has its own member",
    "token_id": "token IDs, not for pages",
    "obfuscation": _PADDING,
    "provider_metadata": _OPERATIONS,
    "audio": "the contract has no audio",
    "executed_tools": _SERVER_TOOLS,
    "graph_data": _SERVER_TOOLS,
    "image_data": _SERVER_TOOLS,
    "llm_data": _SERVER_TOOLS,
    "translation_data": _SERVER_TOOLS,
    "web_search_data": _SERVER_TOOLS,
}

CHUNK_KNOWN: Final = CHUNK_READ | CHUNK_DROPPED.keys()
CHOICE_KNOWN: Final = CHOICE_READ | CHOICE_DROPPED.keys()
DELTA_KNOWN: Final = DELTA_READ | DELTA_DROPPED.keys()

FINISHES: Final[Mapping[str, tuple[str, str | None]]] = {
    "stop": ("completed", None),
    "tool_calls": ("completed", None),
    "function_call": ("completed", None),
    "length": ("incomplete", "length"),
    "content_filter": ("incomplete", "content_filter"),
    # beyond the reference
    "model_length": ("incomplete", "length"),
    "max_tokens": ("incomplete", "length"),
    "insufficient_system_resource": ("incomplete", "insufficient_system_resource"),
    "error": ("failed", "error"),
}
"""Finish reason -> status and reason of the response (D32). Any other reason is a normal end, and is counted."""

Path: TypeAlias = tuple[str, ...]

COUNTS: Final[Mapping[Path, tuple[Path, ...]]] = {
    ("input_tokens",): (("prompt_tokens",),),
    ("output_tokens",): (("completion_tokens",),),
    ("total_tokens",): (("total_tokens",),),
    ("input_tokens_details", "cached_tokens"): (
        ("prompt_tokens_details", "cached_tokens"),
        ("prompt_cache_hit_tokens",),
        ("cached_tokens",),
        ("num_cached_tokens",),
    ),
    ("output_tokens_details", "reasoning_tokens"): (
        ("completion_tokens_details", "reasoning_tokens"),
        ("reasoning_tokens",),
    ),
}
"""Path of a count in a Responses `usage` -> its paths in a Chat Completions `usage`; the first with a count is read."""


def responses_usage(usage: Mapping[str, object]) -> dict[str, object]:
    """Return token counts in the shape of a Responses `usage` (CONTRACT D13). An unknown count is absent, not 0."""
    known: dict[str, object] = {}
    for (*outer, name), paths in COUNTS.items():
        count = next((count for path in paths if (count := _count_at(usage, path)) is not None), None)
        if count is None:
            continue
        if not outer:
            known[name] = count
        else:
            known[outer[0]] = {name: count}
    return known


def _count_at(usage: Mapping[str, object], path: Path) -> int | None:
    *outer, name = path
    for step in outer:
        usage = read.mapping_or_empty(usage, step)
    return read.count_or_none(usage, name)


def input_tables() -> InputTables:
    """Return the tables of this module, for `projector explain` and docs/mapping.md."""
    return InputTables(
        read={"chunk": CHUNK_READ, "choice": CHOICE_READ, "delta": DELTA_READ},
        dropped={"chunk": CHUNK_DROPPED, "choice": CHOICE_DROPPED, "delta": DELTA_DROPPED},
        finish_reasons={reason: status for reason, (status, _) in FINISHES.items()},
    )
