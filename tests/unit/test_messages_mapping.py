"""Each row of the mapping from the Messages API, and of its dialect, has an example that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

EXAMPLES: Final = Path(__file__).parents[2] / "examples_ndjson"

INTO: Final[dict[str, tuple[str, str, str]]] = {
    "a start": ("text", '"message_start"', '"status":"in_progress"'),
    "an error first": ("error-first", '"rate_limit_error"', '"kind":"error"'),
    "the same ID again": ("emulator", '"id":"msg_18"', '"status":"completed"'),
    "another ID": ("spliced", '"id":"msg_17"', '"code":"upstream_truncated"'),
    "blocks of text that follow each other": ("text", '", from pier two."', "leaves at noon, from pier two."),
    "text after another block": ("fetch", '"It ends in May."', '"output_index":2'),
    "text in the start of a block": ("citations", '"text":" So"', '"delta":" So"'),
    "citations wait for their text": ("citations", '"citations_delta"', '"start_index":19,"end_index":35'),
    "a web page": ("citations", '"web_search_result_location"', '"url":"https://rivers.example/elbe"'),
    "a source with an address": ("citations", '"https://rivers.example/notes"', '"https://rivers.example/notes"'),
    "a source without one": ("citations", '"vault/notes"', "!vault"),
    "a file": ("citations", '"file_id":"file_tides"', '"file_id":"file_tides","filename":"Tides"'),
    "a page of a document": ("citations", '"page_location","document_index":3', '"file_id":"document_3"'),
    "a block of a document": ("citations", '"content_block_location"', '"file_id":"document_1"'),
    "cited text": ("citations", "hidden source text", "!hidden source text"),
    "an encrypted index": ("citations", "opaque-1", "!opaque-1"),
    "encrypted content": ("web-search", '"encrypted_content":"opaque"', "!opaque"),
    "the age of a page": ("web-search", '"page_age":"1 day"', "!1 day"),
    "a summary of thinking": ("thinking", '"I add."', '"kind":"reasoning_summary.delta"'),
    "whole thinking": ("thinking-full", "This is the whole thought.", "!whole thought"),
    "thinking without a delta": ("thinking-full", '"c2lnMg=="', '"item_id":"rs_msg_04_1","item_type":"reasoning"'),
    "a signature": ("thinking", '"c2lnbmVk"', "!c2lnbmVk"),
    "redacted thinking": ("thinking", '"b3BhcXVl"', '"item_id":"rs_msg_03_1","item_type":"reasoning"'),
    "a call": ("parallel-tools", '"toolu_1"', '"tool_call_id":"toolu_1"'),
    "a call without input": ("parallel-tools", '"toolu_2"', '"arguments_text":"{}"'),
    "input in the start": ("no-start", '"input":{"', '"arguments_json":{"'),
    "input that is cut": ("cut-arguments", '"max_tokens"', '"item_type":"function_call","status":"incomplete"'),
    "input that is no JSON": ("eager-input", '"tool_use"', '"item_type":"function_call","status":"completed"'),
    "a call of a toolset": ("refused-call", '"toolset_name":"computer"', '"name":"left_click"'),
    "a call by code of the server": ("programmatic", '"caller"', '"item_type":"function_call"'),
    "a search": ("web-search", '"name":"web_search"', '"query":"elbe level","sources":["https://rivers.example/elbe"]'),
    "a fetch": ("fetch", '"name":"web_fetch"', '"sources":["https://rivers.example/log"]'),
    "the text of a page": ("fetch", "hidden page text", "!hidden page text"),
    "code": ("code-execution", '"name":"code_execution"', '"code":"print(2)"'),
    "a command that fails": ("code-execution", '"return_code":2', '"logs":"no such folder'),
    "an editor": ("code-execution", '"text_editor_code_execution"', '"logs":"pier,level'),
    "an error of a tool": ("code-execution", '"execution_time_exceeded"', '"logs":"execution_time_exceeded"'),
    "a file that code made": ("code-execution", '"file_id":"file_plot"', '"type":"container_file_citation"'),
    "a tool search": ("unshown", '"tool_search_tool_result"', '"item_type":"tool_search_call"'),
    "an advisor": ("unshown", '"advisor_result"', '"item_type":"advisor_call"'),
    "a compaction": ("compaction", '"compaction_delta"', '"item_type":"compaction"'),
    "an upload": ("unshown", '"container_upload"', '"item_type":"container_upload"'),
    "a list of tools": ("unshown", '"mcp_tool_listing"', '"item_type":"mcp_tool_listing"'),
    "another model": ("unshown", '"fallback"', '"item_type":"fallback"'),
    "an MCP call": ("mcp", '"server_name":"birds"', '"tool_name":"find","server_label":"birds"'),
    "an MCP call that fails": ("mcp", '"is_error":true', '"output":{"error":"no name"}'),
    "a result of an earlier call": ("resumed", '"tool_use_id":"srvtoolu_5"', '"sources":["https://tides.example/"]'),
    "a tool without a result": ("pause", '"srvtoolu_5"', '"item_type":"web_search_call","status":"incomplete"'),
    "an unknown block": ("unshown", '"hologram"', "!hologram"),
    "an unknown event": ("unshown", '"type":"weather"', '!weather"'),
    "a delta of another type than its block": ("emulator", '"hidden thought"', '"item_type":"reasoning"'),
    "thinking in a block of text": ("emulator", '"hidden thought"', "!hidden thought"),
    "a delta behind its stop": ("emulator", '"lost"', "!lost"),
    "`end_turn`": ("text", '"end_turn"', '"final":{"status":"completed"'),
    "`stop_sequence`": ("resumed", '"stop_reason":"stop_sequence"', '"final":{"status":"completed"'),
    "`tool_use`": ("parallel-tools", '"stop_reason":"tool_use"', '"final":{"status":"completed"'),
    "`max_tokens`": ("cut-arguments", '"stop_reason":"max_tokens"', '"reason":"max_output_tokens"'),
    "`pause_turn`": ("pause", '"stop_reason":"pause_turn"', '"reason":"pause_turn"'),
    "`compaction`": ("compaction", '"stop_reason":"compaction"', '"reason":"compaction"'),
    "a full window": (
        "window",
        '"stop_reason":"model_context_window_exceeded"',
        '"reason":"model_context_window_exceeded"',
    ),
    "a refusal": ("refusal", '"stop_reason":"refusal"', '"final":{"status":"refused"'),
    "a credential of a refusal": ("refusal", "credit-4711", "!credit-4711"),
    "a refusal after text": ("late-refusal", '"stop_reason":"refusal"', '"reason":"content_filter"'),
    "a refusal after a call": ("refused-call", '"stop_reason":"refusal"', '"reason":"content_filter"'),
    "bytes that end after a stop reason": ("emulator", '"stop_reason":"end_turn"', '"final":{"status":"completed"'),
    "bytes that end without one": ("truncated", '"text_delta"', '"code":"upstream_truncated"'),
    "usage": ("text", '"cache_read_input_tokens":110', '"input_tokens":131,"output_tokens":12'),
    "usage of thinking": ("thinking", '"thinking_tokens":7', '"reasoning_output_tokens":7'),
    "an error in the middle": ("error", '"overloaded_error"', '"code":"overloaded_error"'),
    "a secret across blocks": ("split-secret", '"save"', "<redacted>"),
}
"""Row -> example, a piece of what the provider sends, and one of the public stream; with `!`, one that it has not."""

OUT: Final[dict[str, tuple[str, str]]] = {
    "a start with usage": ("messages-text", '"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,'),
    "parallel calls": ("chat-completions-parallel-tools", '"index":1,"content_block":{"type":"tool_use"'),
    "items that interleave": ("chat-interleaved-items", '"type":"content_block_stop","index":1}'),
    "input": ("messages-parallel-tools", '"name":"get_tide","input":{}}'),
    "input in deltas": ("messages-parallel-tools", '"delta":{"type":"input_json_delta","partial_json":"{}"}'),
    "redacted input": ("messages-parallel-tools", "<redacted>"),
    "a refusal is a text": ("messages-refusal", '"type":"text_delta","text":"I cannot help with this."'),
    "details of a refusal": ("messages-refusal", '"stop_details":{"type":"refusal","category":null,'),
    "thinking": ("messages-thinking", '"type":"thinking_delta"'),
    "thinking that nobody may see": ("messages-thinking-full", "!thinking"),
    "a search": ("messages-web-search", "!server_tool_use"),
    "a search of another provider": ("chat-web-search", "!server_tool_use"),
    "a toolset": ("messages-refused-call", '"toolset_name":"computer"'),
    "`tool_use`": ("messages-parallel-tools", '"stop_reason":"tool_use"'),
    "`end_turn`": ("chat-text-citations", '"stop_reason":"end_turn"'),
    "`max_tokens`": ("chat-completions-length", '"stop_reason":"max_tokens"'),
    "`refusal` for a filter": ("chat-completions-content-filter", '"stop_reason":"refusal"'),
    "`refusal` for a refusal": ("chat-refusal", '"stop_reason":"refusal"'),
    "`pause_turn`": ("messages-pause", '"stop_reason":"pause_turn"'),
    "an error": ("messages-error", '"type":"error","error":{"type":"overloaded_error"'),
    "nothing follows an error": ("messages-error", "!message_delta"),
    "a cut stream": ("chat-truncated", '"type":"overloaded_error"'),
    "a cut stream has no end": ("chat-truncated", "!message_stop"),
    "a failed response": ("chat-failed", '"type":"error"'),
}
"""Row -> example, and a piece of what the dialect writes; with `!`, one that it does not write."""


def has(text: str, piece: str) -> bool:
    return piece[1:] not in text if piece.startswith("!") else piece in text


def example(folder: str, name: str) -> str:
    return (EXAMPLES / folder / f"{name}.ndjson").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", INTO)
def test_what_becomes_of_the_provider(row: str) -> None:
    name, given, shown = INTO[row]
    assert given in example("anthropic_messages_input", f"messages-{name}")
    assert has(example("public_sse_v1", f"messages-{name}"), shown)


@pytest.mark.parametrize("row", OUT)
def test_what_the_dialect_writes(row: str) -> None:
    name, written = OUT[row]
    assert has(example("anthropic_messages", name), written)


def test_every_example_of_the_api_shows_a_row() -> None:
    names = {path.stem.removeprefix("messages-") for path in (EXAMPLES / "anthropic_messages_input").iterdir()}
    assert names == {name for name, *_ in INTO.values()}
