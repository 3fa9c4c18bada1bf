"""Properties of the request built from any conversation that a client may send."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector.conversation.client_history import ConversationSettings, InputRefusedError
from projector.conversation.model_request import ModelRequest
from projector.dialects.ag_ui.conversation import approvals, conversation, dialect_options, read_run_input
from projector.providers.openai_chat.chunk_fields import ChatProfile
from projector.providers.openai_chat.request import write_request
from projector.providers.openai_responses.request import items_of

IDS: Final = st.sampled_from(["a", "b", "c"])
CLIENT_ITEMS: Final = {"mcp_approval_response", "function_call_output", "custom_tool_call_output"}
LED_TO: Final = {"reasoning", "function_call", "custom_tool_call", "mcp_call", "mcp_approval_request"}


def tagged(kind: str | None) -> dict[str, Any]:
    return {"metadata": {"public-sse.item_type": kind, "public-sse.server_label": "desk"}} if kind else {}


CALLS: Final = st.builds(
    lambda call_id, kind: {"id": call_id, "function": {"name": "f", "arguments": "{}"}, **tagged(kind)},
    IDS,
    st.sampled_from([None, None, "custom_tool_call", "mcp_call", "mcp_approval_request"]),
)
MESSAGES: Final = st.one_of(
    st.builds(lambda at: {"role": "user", "id": at, "content": "Hi"}, IDS),
    st.builds(
        lambda at, text, calls: {"role": "assistant", "id": at, "content": text, "toolCalls": calls},
        IDS,
        st.sampled_from([None, "", "Hello"]),
        st.none() | st.lists(CALLS, max_size=2),
    ),
    st.builds(lambda at: {"role": "tool", "id": f"{at}:result", "toolCallId": at, "content": "42"}, IDS),
    st.builds(
        lambda at, sealed: {"role": "reasoning", "id": at, "content": "Hm", "encryptedValue": sealed},
        IDS,
        st.none() | st.just("SEALED"),
    ),
    st.builds(lambda at: {"role": "activity", "id": at}, IDS),
)
RESUMES: Final = st.lists(
    st.builds(
        lambda at, approved: {"interruptId": f"int-{at}", "status": "resolved", "payload": {"approved": approved}},
        IDS,
        st.booleans(),
    ),
    max_size=2,
)
BODIES: Final = st.builds(
    lambda messages, resume: {"threadId": "t", "runId": "r", "messages": messages, "resume": resume},
    st.lists(MESSAGES, max_size=8),
    RESUMES,
)
SETTINGS: Final = st.builds(ConversationSettings, st.booleans(), st.booleans())


def pairs(items: Iterable[dict[str, Any]]) -> list[str]:
    """Return the IDs of calls without an output; raise if an output has no call."""
    waiting: list[str] = []
    for item in items:
        if item["type"] in {"function_call", "custom_tool_call"}:
            waiting.append(item["call_id"])
        elif item["type"] in {"function_call_output", "custom_tool_call_output"}:
            waiting.remove(item["call_id"])
    return waiting


@given(body=BODIES, settings=SETTINGS)
def test_a_request_of_the_responses_api_is_complete(body: dict[str, Any], settings: ConversationSettings) -> None:
    asked = read_run_input(body)
    try:
        items = items_of(conversation(asked, settings=settings).entries)
    except InputRefusedError:
        return
    assert items
    assert pairs(items) == []
    for item, after in zip(items, [*items[1:], {"type": "nothing"}], strict=True):
        if item["type"] == "reasoning":
            assert settings.encrypted_reasoning
            assert after["type"] in LED_TO or after.get("role") == "assistant"
        if item["type"] == "mcp_approval_request":
            assert settings.trust_client_approvals
            assert (after["type"], after["approval_request_id"]) == ("mcp_approval_response", item["id"])
    answers = [item["approval_request_id"] for item in items if item["type"] == "mcp_approval_response"]
    assert sorted(answers) == sorted(approvals(asked))


@given(body=BODIES, settings=SETTINGS)
def test_a_continued_response_gets_only_items_of_the_client(
    body: dict[str, Any], settings: ConversationSettings
) -> None:
    asked = read_run_input(body)
    if not approvals(asked):
        return
    items = items_of(conversation(asked, settings=settings, previous_response_id="resp_1").entries)
    assert {item["type"] for item in items if item.get("role") != "user"} <= CLIENT_ITEMS
    answers = [item["approval_request_id"] for item in items if item["type"] == "mcp_approval_response"]
    assert sorted(answers) == sorted(approvals(asked))


@given(body=BODIES)
def test_a_request_of_chat_completions_is_complete(body: dict[str, Any]) -> None:
    try:
        entries = conversation(read_run_input({**body, "resume": []})).entries
    except InputRefusedError:
        return
    messages = write_request(ModelRequest(model="m", input=entries), ChatProfile())["messages"]
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        waiting += [call["id"] for call in message.get("tool_calls", ())]
        assert message.get("content") or message.get("tool_calls")
    assert waiting == []


@given(body=BODIES)
def test_every_id_of_the_thread_is_taken(body: dict[str, Any]) -> None:
    taken = dialect_options(read_run_input(body)).taken_ids
    for message in body["messages"]:
        assert {message["id"], *(call["id"] for call in message.get("toolCalls") or ())} <= taken


def test_an_empty_thread_is_rejected() -> None:
    with pytest.raises(InputRefusedError):
        conversation(read_run_input({"threadId": "t", "runId": "r", "messages": []}))
