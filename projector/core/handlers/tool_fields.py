"""The fields of a tool's status, read from its item by allow-list (seed section 9.7, CONTRACT D18, D19, D22, D28)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from projector.core import canonical as read
from projector.core import frames
from projector.core.canonical import Frame
from projector.core.state import StreamState
from projector.core.transcript import Item, ToolCall
from projector.redaction import compose
from projector.redaction.clean import Cleaned, CleanJson, CleanText

IMAGE_FIELDS: Final[Mapping[str, str]] = {
    "output_format": "format",
    "size": "size",
    "quality": "quality",
    "background": "background",
}
"""The provider's name -> the contract's name."""


def begin(state: StreamState, item: Item, call: ToolCall, raw: Mapping[str, object]) -> None:
    """Read the fields that are known when the call begins."""
    if call.tool_type == "mcp" and (label := read.text_or_none(raw, "server_label")) is not None:
        call.lossy["server_label"] = state.redactor.label(label)
    if item.type == "mcp_approval_request" and read.text_or_none(raw, "arguments") is not None:
        approval(state, item, call, raw)
    if call.tool_type == "code_interpreter":
        code_interpreter(state, item, call, raw)


ACTION_TYPES: Final[Mapping[str | None, str]] = {
    "open_page": "open_page",
    "find_in_page": "find_in_page",
    "find": "find_in_page",
}
"""Action of a web search, also in its older spelling -> its type; any other is a `search`."""


def web_search(state: StreamState, item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Read query and sources from the item's action; a page that was opened is a source (D19)."""
    action = read.mapping_or_empty(raw, "action")
    queries = read.texts(action, "queries")
    query = read.text_or_none(action, "query") or (queries[0] if queries else None)
    if query:
        call.lossy["query"] = state.redactor.label(query, state.policy.limits.query_max_chars)
    urls = [source.get("url") for source in read.mappings(action, "sources")] + [action.get("url")]
    sources = dict.fromkeys(url for url in urls if type(url) is str and url)
    if sources:
        call.sources = [state.redactor.url(url) for url in sources]
        call.lossy["sources"] = compose.listed(call.sources, state.policy.limits.container_max_entries)
    details = compose.record({"action": _action(state, action)}) if action else None
    return [] if details is None else [frames.item_details(item.place, details)]


def file_search(state: StreamState, _item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Read queries and results, at most ten results (section 8.1)."""
    limits = state.policy.limits
    queries = [state.redactor.label(query, limits.query_max_chars) for query in read.texts(raw, "queries")]
    if queries:
        call.lossy["queries"] = compose.listed(queries, limits.container_max_entries)
    results = read.mappings(raw, "results")
    if results:
        most = limits.file_search_results_max_items
        cleaned = [_file_search_result(state, result) for result in results[: most + 1]]
        call.lossy["results"] = compose.listed(cleaned, most)
    return []


def code_interpreter(state: StreamState, _item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Read the container."""
    if (container := read.text_or_none(raw, "container_id")) is not None:
        call.plain["container_id"] = state.redactor.identifier(container)
    if state.response.container_mode is not None:
        call.plain["container_mode"] = state.response.container_mode
    return []


def image_generation(state: StreamState, _item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Read the settings of the image."""
    for name, public_name in IMAGE_FIELDS.items():
        if (value := read.text_or_none(raw, name)) is not None:
            call.plain[public_name] = state.redactor.name(value)
    if (prompt := read.text_or_none(raw, "revised_prompt")) is not None:
        call.lossy["revised_prompt"] = state.redactor.label(prompt, state.policy.limits.query_max_chars)
    return []


def approval(state: StreamState, _item: Item, call: ToolCall, raw: Mapping[str, object]) -> list[Frame]:
    """Read the fields of an approval request: server and clean arguments (D18)."""
    if (label := read.text_or_none(raw, "server_label")) is not None:
        call.lossy["server_label"] = state.redactor.label(label)
    if (text := read.text_or_none(raw, "arguments")) is not None:
        cleaned = state.redactor.arguments(text)
        call.lossy["arguments_text"] = cleaned.text
        call.lossy["arguments_json"] = cleaned.json
    call.outcome = "awaiting_approval"
    return []


def add_cited(state: StreamState, call: ToolCall, urls: Iterable[CleanText]) -> None:
    """Add cited URLs to the sources of the only search (D19)."""
    known = {str(source.value) for source in call.sources}
    call.sources += [Cleaned(url) for url in urls if url not in known]
    if call.sources:
        call.lossy["sources"] = compose.listed(call.sources, state.policy.limits.container_max_entries)


def _action(state: StreamState, action: Mapping[str, object]) -> Cleaned[CleanJson]:
    """Read the action of a web search, by allow-list."""
    redactor, limits = state.redactor, state.policy.limits
    kind, label = read.text_or_none(action, "type"), partial(redactor.label, max_chars=limits.query_max_chars)
    queries = [label(text) for text in read.texts(action, "queries")]
    urls = [text for source in read.mappings(action, "sources") if (text := read.text_or_none(source, "url"))]
    sources = [compose.record({"type": redactor.label("url"), "url": redactor.url(text)}) for text in urls]
    return compose.record(
        {
            "type": redactor.label(ACTION_TYPES.get(kind, "search")),
            **{name: read.cleaned(action, name, label) for name in ("query", "pattern")},
            "queries": compose.listed(queries, limits.container_max_entries) if queries else None,
            "url": read.cleaned(action, "url", redactor.url),
            "sources": compose.listed(sources, limits.container_max_entries) if sources else None,
        }
    )


def _file_search_result(state: StreamState, result: Mapping[str, object]) -> Cleaned[CleanJson]:
    redactor, limits = state.redactor, state.policy.limits
    most, score = limits.file_search_text_max_chars, read.number_or_none(result, "score")
    attributes = read.mapping_or_empty(result, "attributes")
    return compose.record(
        {
            "file_id": read.cleaned(result, "file_id", redactor.noted_identifier),
            "filename": read.cleaned(result, "filename", redactor.label),
            "score": compose.plain(score) if score is not None else None,
            "text": read.cleaned(result, "text", partial(redactor.text, max_chars=most)),
            "attributes": redactor.json(attributes, string_max_chars=most) if attributes else None,
        }
    )
