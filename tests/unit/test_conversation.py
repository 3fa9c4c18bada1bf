"""The neutral conversation: each entry and part has a writer at each provider, or a reason why not."""

from __future__ import annotations

from typing import Any, Final, get_args

import pytest

from projector.conversation.entries import (
    Approval,
    DroppedCalls,
    Entry,
    File,
    Image,
    Message,
    Part,
    Refusal,
    Text,
)
from projector.conversation.model_request import UnsupportedRequestError
from projector.conversation.request_members import Given, written_parts
from projector.providers.anthropic_messages import request as messages_request
from projector.providers.gemini import request as gemini_request
from projector.providers.openai_chat import messages as chat_messages
from projector.providers.openai_responses import request as responses_request

ENTRIES: Final = set(get_args(Entry)) - {DroppedCalls}
PARTS: Final = (Text("Hi"), Refusal("No."), Image("https://a.example/b.png"), File("data:application/pdf;base64,QQ=="))


def test_each_entry_and_part_is_written() -> None:
    """By the other providers, `Turns.add` is checked by mypy to have a case for each entry."""
    assert set(responses_request.WRITERS) == ENTRIES
    assert {type(part) for part in PARTS} == set(get_args(Part))
    contents = (messages_request.PARTS, gemini_request.PARTS, gemini_request.STEP_PARTS)
    for writers in (chat_messages.PARTS, responses_request.INPUT_PARTS, *contents):
        written = written_parts(PARTS, writers)
        assert len(written) == len(PARTS)
        assert all(written)


def test_only_anthropic_leaves_out_blank_texts() -> None:
    blank = [Message("user", " ")]
    assert gemini_request.Steps().add(blank).steps == [
        {"type": "user_input", "content": [{"type": "text", "text": " "}]}
    ]
    assert messages_request.MessageTurns().add(blank).done() == []


def test_approvals_are_unsupported_by_chat_completions() -> None:
    with pytest.raises(UnsupportedRequestError, match="mcp_approval_response"):
        chat_messages.messages_of([Approval("a", is_approved=True)])


ITEMS: Final[list[dict[str, Any]]] = [
    {"type": "message", "role": "user", "content": "Hi"},
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "Hi"},
            {"type": "input_image", "image_url": "https://a.example/b.png", "detail": "low"},
            {"type": "input_file", "file_data": "data:application/pdf;base64,QQ==", "filename": "b.pdf"},
            {"type": "input_file", "file_url": "https://a.example/b.pdf"},
        ],
    },
    {"type": "message", "role": "assistant", "content": "Ho", "phase": "commentary"},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Ho"}, {"type": "refusal", "refusal": "No."}],
    },
    {"type": "message", "role": "developer", "content": "Obey."},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "1"},
    {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "1"}]},
    {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "c", "output": "1"},
    {"type": "mcp_call", "id": "m", "server_label": "s", "name": "f", "arguments": "{}", "output": "1"},
    {
        "type": "reasoning",
        "id": "rs",
        "summary": [{"type": "summary_text", "text": "a"}],
        "encrypted_content": "gAAA",
    },
]


@pytest.mark.parametrize("item", ITEMS, ids=[f"{at} {item['type']}" for at, item in enumerate(ITEMS)])
def test_an_item_is_written_as_it_was_read(item: dict[str, Any]) -> None:
    assert responses_request.items_of(responses_request.read_input(Given({"input": [item]}))) == [item]


@pytest.mark.parametrize("item_type", ["web_search_call", "file_search_call", "code_interpreter_call"])
def test_calls_of_a_provider_are_left_out_as_the_answer_has_what_they_found(item_type: str) -> None:
    """Clients repeat all items of an answer, as `input += response.output` does."""
    items = [{"type": item_type, "id": "call_1", "status": "completed"}, ITEMS[0]]
    assert responses_request.items_of(responses_request.read_input(Given({"input": items}))) == ITEMS[:1]


def test_input_may_be_a_text() -> None:
    assert responses_request.read_input(Given({"input": "Hi"})) == [Message("user", "Hi")]


REFUSED: Final[list[tuple[str, object, str]]] = [
    ("input is a number", 7, "input"),
    ("an item is none", ["x"], "input[0]"),
    ("an item of another provider", [{"type": "image_generation_call", "id": "ig"}], "input[0].type"),
    ("a type that is no text", [{"type": ["web_search_call"]}], "input[0].type"),
    ("a reference", [{"type": "item_reference", "id": "msg"}], "input[0].type"),
    ("an unknown role", [{"role": "tool", "content": "x"}], "input[0].role"),
    ("no role", [{"content": "x"}], "input[0].role"),
    ("an unknown part", [{"role": "user", "content": [{"type": "input_audio"}]}], "input[0].content[0].type"),
    (
        "a file of the provider",
        [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}],
        "input[0].content[0].file_id",
    ),
    (
        "a file that is no data URL",
        [{"role": "user", "content": [{"type": "input_file", "file_data": "QQ==", "filename": "a.pdf"}]}],
        "input[0].content[0].file_data",
    ),
    ("a call without arguments", [{"type": "function_call", "call_id": "c", "name": "f"}], "input[0].arguments"),
    ("arguments that are no text", [{"type": "function_call", "call_id": 1}], "input[0].call_id"),
]


@pytest.mark.parametrize(("name", "given", "param"), REFUSED, ids=[row[0] for row in REFUSED])
def test_an_error_names_the_member(name: str, given: object, param: str) -> None:
    del name
    with pytest.raises(UnsupportedRequestError) as raised:
        responses_request.read_input(Given({"input": given}))
    assert raised.value.param == param
    assert str(raised.value).startswith(f"`{param}`")
