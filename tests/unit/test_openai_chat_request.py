"""Conversations as messages of Chat Completions: which calls belong to one message."""

from __future__ import annotations

from typing import Final

import pytest

from projector.conversation.entries import (
    Entry,
    File,
    Image,
    Message,
    Reasoning,
    Role,
    ServerCall,
    Text,
    ToolCall,
    ToolOutput,
)
from projector.conversation.model_request import ModelRequest
from projector.providers.openai_chat.chunk_fields import ChatProfile
from projector.providers.openai_chat.request import write_request


def call(call_id: str) -> Entry:
    return ToolCall(call_id, "f", "{}")


def output(call_id: str) -> Entry:
    return ToolOutput(call_id, "1")


def mcp(call_id: str) -> Entry:
    return ServerCall(call_id, "s", "g", "{}", "2")


def message(role: Role) -> Entry:
    return Message(role, "Hi")


ROWS: Final[list[tuple[str, list[Entry], str]]] = [
    ("calls after a text", [message("assistant"), call("a"), call("b")], "assistant:a,b"),
    ("calls of two turns", [call("a"), output("a"), call("b"), output("b")], "assistant:a tool:a assistant:b tool:b"),
    (
        "an MCP call while another call waits",
        [call("a"), call("b"), output("a"), mcp("m"), output("b")],
        "assistant:a,b,m tool:a tool:m tool:b",
    ),
    ("an MCP call alone", [message("user"), mcp("m"), mcp("n")], "user assistant:m tool:m assistant:n tool:n"),
    ("a text between calls", [call("a"), output("a"), message("assistant")], "assistant:a tool:a assistant"),
    ("a text between a call and its output", [call("a"), message("assistant"), output("a")], "assistant:a tool:a"),
    (
        "a text after one of two outputs",
        [call("a"), call("b"), output("a"), message("assistant"), output("b")],
        "assistant:a,b tool:a tool:b",
    ),
    ("reasoning", [Reasoning("r"), message("user")], "user"),
    ("an output alone", [output("a"), call("b")], "tool:a assistant:b"),
]


@pytest.mark.parametrize(("name", "items", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_calls_are_grouped(name: str, items: list[Entry], expected: str) -> None:
    del name
    short = []
    for sent in write_request(ModelRequest(model="m", input=items), ChatProfile())["messages"]:
        ids = [sent["tool_call_id"]] if sent["role"] == "tool" else [one["id"] for one in sent.get("tool_calls", ())]
        short.append(f"{sent['role']}:{','.join(ids)}" if ids else sent["role"])
    assert " ".join(short) == expected


def test_media_of_outputs_are_sent_by_the_user() -> None:
    """The API has only texts in the message of a tool."""
    image, file = Image("data:image/png;base64,AA=="), File(name="a.pdf", url="data:application/pdf;base64,AA==")
    items = [
        *(ToolCall(name, "look", "{}") for name in ("c1", "c2", "c3")),
        ToolOutput("c1", (Text("one"), image)),
        ToolOutput("c2", (file,)),
        ToolOutput("c3", (Text("three"),)),
        Message("user", "And?"),
    ]
    assert write_request(ModelRequest(model="m", input=items), ChatProfile())["messages"][1:] == [
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "one"}]},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
        {"role": "tool", "tool_call_id": "c3", "content": [{"type": "text", "text": "three"}]},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": image.url}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": file.url}},
            ],
        },
        {"role": "user", "content": "And?"},
    ]


def test_texts_between_calls_and_outputs_join_them() -> None:
    items = [message("assistant"), call("a"), message("assistant"), output("a")]
    [caller, _] = write_request(ModelRequest(model="m", input=items), ChatProfile())["messages"]
    assert caller["content"] == "Hi\n\nHi"


@pytest.mark.parametrize("takes", [True, False])
def test_custom_tools_are_functions_where_there_are_none(*, takes: bool) -> None:
    items = [Message("user", "Hi"), ToolCall("c", "patch", "*** x", "custom"), ToolOutput("c", "Done", "custom")]
    request = ModelRequest(model="m", input=items, client_tools=[{"type": "custom", "name": "patch"}])
    sent = write_request(request, ChatProfile(takes_custom_tools=takes))
    [tool], [call] = sent["tools"], sent["messages"][1]["tool_calls"]
    if takes:
        assert tool == {"type": "custom", "custom": {"name": "patch"}}
        assert call["custom"] == {"name": "patch", "input": "*** x"}
    else:
        assert tool["function"]["parameters"]["required"] == ["input"]
        assert call["function"] == {"name": "patch", "arguments": '{"input":"*** x"}'}
