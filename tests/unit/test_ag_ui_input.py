"""AG-UI requests as provider requests: the rebuilt conversation, answers to approvals, tools by name."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import pytest
from ag_ui.core import RunAgentInput as ProtocolInput

from projector.conversation.client_history import DEFAULTS, ConversationSettings, InputRefusedError
from projector.conversation.model_request import ModelRequest, UnsupportedRequestError
from projector.dialects.ag_ui.conversation import approvals, conversation, dialect_options, read_run_input
from projector.dialects.descriptor import DialectOptions
from projector.providers import PROVIDERS, profile_of
from projector.server.http.requests import part_params

Body: TypeAlias = dict[str, Any]

PLACE: Final = {"threadId": "thread", "runId": "run"}
HI: Final = {"role": "user", "id": "m1", "content": "Hi"}
SEALED: Final = ConversationSettings(encrypted_reasoning=True)
REPLAYED: Final = ConversationSettings(trust_client_approvals=True)
UNREAD: Final = {
    "state": "the server shares no state with clients",
    "context": "only the server adds to the conversation",
    "forwardedProps": "model settings belong to the agent",
    "parentRunId": "runs are independent of each other",
}
"""Members of a `RunAgentInput` that are ignored, and why."""


def body(*messages: object, **members: object) -> Body:
    return {**PLACE, "messages": list(messages), **members}


def call(call_id: str, item_type: str | None = None, **function: object) -> Body:
    about = {"public-sse.item_type": item_type, "public-sse.server_label": "weather"} if item_type else {}
    asked = {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}", **function}}
    return {**asked, **({"metadata": about} if about else {})}


def said(*calls: Body, content: str | None = None, message_id: str = "a1") -> Body:
    text = {"content": content} if content else {}
    return {"role": "assistant", "id": message_id, **text, **({"toolCalls": list(calls)} if calls else {})}


def result(call_id: str, content: object = "42", **members: object) -> Body:
    return {"role": "tool", "id": f"{call_id}:result", "toolCallId": call_id, "content": content, **members}


def thought(message_id: str, content: str = "", **members: object) -> Body:
    return {"role": "reasoning", "id": message_id, "content": content, **members}


def resolved(interrupt_id: str, **payload: object) -> Body:
    return {"interruptId": interrupt_id, "status": "resolved", "payload": payload}


def asked_of(provider: str, request: Body, settings: ConversationSettings = DEFAULTS, **given: Any) -> Body:
    """Return the client's part of the body that is sent to a provider."""
    said = conversation(read_run_input(request), settings=settings, **given)
    members = {"encrypted_reasoning": settings.encrypted_reasoning, **given}
    members.pop("client_tools", None)
    asked = ModelRequest(model="m", input=said.entries, client_tools=said.tools, **members)
    profile = profile_of(provider, {"takes_stream_options": False} if provider == "openai_chat" else {})
    sent = PROVIDERS[provider].request_writer(asked, profile)
    assert sent.pop("model") == "m"
    return sent


def responses(request: Body, **given: Any) -> Body:
    return asked_of("openai_responses", request, **given)


def chat(request: Body, **given: Any) -> Body:
    return asked_of("openai_chat", request, **given)


# allowed requests


def test_the_examples_are_requests_of_the_protocol() -> None:
    whole = body(
        HI, said(call("c"), content="x"), result("c"), thought("r:0"), resume=[resolved("int-a", approved=True)]
    )
    ProtocolInput.model_validate({**whole, "state": {}, "tools": [], "context": [], "forwardedProps": {}})
    read_run_input(whole)


REFUSED: Final[list[tuple[Body, str]]] = [
    ({}, "`threadId` is missing."),
    ({**PLACE, "messages": "x"}, "`messages` must be a list."),
    ({**body(HI), "threadId": ""}, "`threadId` must not be empty."),
    ({**body(HI), "runId": 7}, "`runId` must be a string."),
    ({**body(HI), "runId": "r" * 257}, "`runId` must have at most 256 characters."),
    (
        body({"role": "system", "id": "s", "content": "secret"}),
        "`messages[0]` has an unsupported 'role'; expected 'user', 'assistant', 'tool', 'reasoning', 'activity'.",
    ),
    (
        body(HI, {"role": "developer", "id": "s"}),
        "`messages[1]` has an unsupported 'role'; expected 'user', 'assistant', 'tool', 'reasoning', 'activity'.",
    ),
    (body({"id": "s"}), "`messages[0]` has no 'role'."),
    (body(7), "`messages[0]` must be an object."),
    (body({**HI, "content": 7}), "`messages[0].content` must be a string."),
    (
        body({**HI, "content": [{"type": "audio"}]}),
        "`messages[0].content[0]` has an unsupported 'type'; expected 'text', 'image'.",
    ),
    (body({**HI, "content": [{"type": "text"}]}), "`messages[0].content[0].text` is missing."),
    (body(said(call("c", arguments={}))), "`messages[0].toolCalls[0].function.arguments` must be a string."),
    (body(HI, tools=[{"description": "d"}]), "`tools[0].name` is missing."),
    (body(HI, resume=[resolved("int-a", approved="yes")]), "`resume[0].payload.approved` must be true or false."),
    (body(HI, resume=[resolved("int-a")]), "`resume[0].payload.approved` is missing."),
    (body(HI, resume=[{"interruptId": "int-a"}]), "`resume[0]` has no 'status'."),
]


@pytest.mark.parametrize(("request_body", "complaint"), REFUSED, ids=[complaint for _, complaint in REFUSED])
def test_an_invalid_member_is_named_by_its_path(request_body: Body, complaint: str) -> None:
    with pytest.raises(InputRefusedError) as raised:
        read_run_input(request_body)
    assert str(raised.value) == complaint


@pytest.mark.parametrize(
    "source",
    [
        {"type": "url", "value": "http://a.example/a.png"},
        {"type": "url", "value": "file:///etc/passwd"},
        {"type": "data", "value": "AAAA", "mimeType": "text/html"},
        {"type": "data", "value": "AAAA"},
        {"type": "file", "value": "file-1"},
    ],
)
def test_images_are_https_or_data_urls(source: Body) -> None:
    with pytest.raises(InputRefusedError, match=r"^`messages\[0\]\.content\[0\]\.source"):
        read_run_input(body({**HI, "content": [{"type": "image", "source": source}]}))


def test_unread_members_are_ignored() -> None:
    members = {name: {"a": 1} for name in (*UNREAD, "unknown")}
    assert responses(body({**HI, "unknown": 1}, **members)) == responses(body(HI))
    assert all(len(why.split()) > 3 for why in UNREAD.values())


def test_null_is_absent() -> None:
    nulls = body({**said(content="x"), "toolCalls": None}, tools=None, resume=None, protocolVersion=None)
    assert responses(nulls)["input"] == [{"type": "message", "role": "assistant", "content": "x"}]


# the caller


@pytest.mark.parametrize(
    ("version", "is_before_1_0"),
    [(None, True), ("0.9", True), ("1.0", False), ("1.1", False), ("2.0", False), ("latest", False), ("0", False)],
)
def test_the_options_of_a_request(version: str | None, *, is_before_1_0: bool) -> None:
    asked = read_run_input(body(HI, said(call("c1")), result("c1"), thought("r:0"), protocolVersion=version))
    taken = frozenset({"m1", "a1", "c1", "c1:result", "r:0"})
    assert dialect_options(asked) == DialectOptions("thread", "run", is_before_1_0, taken)


# the conversation

IMAGES: Final = [
    {"type": "text", "text": "Look"},
    {"type": "image", "source": {"type": "url", "value": "https://a.example/a.png"}},
    {"type": "image", "source": {"type": "data", "value": "QUJD", "mimeType": "image/png"}},
]

CONVERSATIONS: Final[list[tuple[str, Body, list[Body], list[Body]]]] = [
    (
        "text",
        body(HI, said(content="Hello"), {**HI, "id": "m2", "content": "Bye"}),
        [
            {"type": "message", "role": "user", "content": "Hi"},
            {"type": "message", "role": "assistant", "content": "Hello"},
            {"type": "message", "role": "user", "content": "Bye"},
        ],
        [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"},
            {"role": "user", "content": "Bye"},
        ],
    ),
    (
        "images",
        body({**HI, "content": IMAGES}),
        [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look"},
                    {"type": "input_image", "image_url": "https://a.example/a.png", "detail": "auto"},
                    {"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "auto"},
                ],
            }
        ],
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look"},
                    {"type": "image_url", "image_url": {"url": "https://a.example/a.png"}},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
                ],
            }
        ],
    ),
    (
        "calls",
        body(
            said(call("c1"), call("c2", name="g", arguments='{"a":1}'), content="I call."), result("c2"), result("c1")
        ),
        [
            {"type": "message", "role": "assistant", "content": "I call."},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "g", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "c2", "output": "42"},
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
        ],
        [
            {
                "role": "assistant",
                "content": "I call.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "c2", "type": "function", "function": {"name": "g", "arguments": '{"a":1}'}},
                ],
            },
            {"role": "tool", "tool_call_id": "c2", "content": "42"},
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
        ],
    ),
    (
        "what has no other half is left out",
        body(HI, result("c0"), said(call("c1"), call("c2")), result("c1"), result("c1"), said(call("c3"))),
        [
            {"type": "message", "role": "user", "content": "Hi"},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
        ],
        [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
        ],
    ),
    (
        "a result answers one call, the last of its id",
        body(HI, said(call("c1", name="old")), said(call("c1"), message_id="a2"), result("c1"), result("c1")),
        [
            {"type": "message", "role": "user", "content": "Hi"},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "42"},
        ],
        [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
        ],
    ),
    (
        "activities and reasoning are not told again",
        body({"role": "activity", "id": "ws", "activityType": "web_search", "content": {}}, thought("r:0", "Hm"), HI),
        [{"type": "message", "role": "user", "content": "Hi"}],
        [{"role": "user", "content": "Hi"}],
    ),
]


@pytest.mark.parametrize(("name", "asked", "items", "messages"), CONVERSATIONS, ids=[row[0] for row in CONVERSATIONS])
def test_conversations(name: str, asked: Body, items: list[Body], messages: list[Body]) -> None:
    del name
    assert responses(asked) == {"input": items}
    assert chat(asked) == {"messages": messages}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (result("c1", [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}]), "42"),
        (result("c1", "", error="closed"), "closed"),
        (result("c1", "half", error="closed"), "half"),
        (result("c1", ""), ""),
    ],
)
def test_a_result_is_text(message: Body, text: str) -> None:
    asked = body(said(call("c1")), message)
    assert responses(asked)["input"][-1]["output"] == text
    assert chat(asked)["messages"][-1]["content"] == text


@pytest.mark.parametrize("empty", [body(), body(said()), body(thought("r:0")), body(said(call("c1")))])
@pytest.mark.parametrize("translate", [responses, chat])
def test_a_request_without_input_is_rejected(translate: Any, empty: Body) -> None:
    with pytest.raises(InputRefusedError, match="nothing to answer"):
        translate(empty)


def test_other_calls_keep_their_item_type() -> None:
    calls = [call("ct", "custom_tool_call", arguments="select 1"), call("mcp_1", "mcp_call")]
    assert responses(body(said(*calls), result("ct"), result("mcp_1")))["input"] == [
        {"type": "custom_tool_call", "call_id": "ct", "name": "f", "input": "select 1"},
        {"type": "custom_tool_call_output", "call_id": "ct", "output": "42"},
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "weather",
            "name": "f",
            "arguments": "{}",
            "output": "42",
        },
    ]


def test_a_call_of_an_mcp_tool_without_its_server_is_a_function() -> None:
    asked = {**call("mcp_1"), "metadata": {"public-sse.item_type": "mcp_call", "public-sse.server_label": 7}}
    items = responses(body(said(asked), result("mcp_1")))["input"]
    assert [item["type"] for item in items] == ["function_call", "function_call_output"]


# encrypted reasoning


def about(item_id: str, kind: str = "summary") -> Body:
    return {"metadata": {"public-sse.item_id": item_id, "public-sse.kind": kind}}


def test_an_encrypted_value_is_sent_with_the_summaries_of_its_item() -> None:
    asked = body(
        HI,
        thought("rs_1:0", "First", encryptedValue="gAAA", **about("rs_1")),
        thought("rs_1:full:0", "hidden", **about("rs_1", "full")),
        thought("rs_1:1", "Second"),
        said(content="Hello"),
    )
    request = responses(asked, settings=SEALED)
    assert request["include"] == ["reasoning.encrypted_content"]
    assert request["input"][1] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "First"}, {"type": "summary_text", "text": "Second"}],
        "encrypted_content": "gAAA",
    }
    assert [item["type"] for item in request["input"]] == ["message", "reasoning", "message"]


def test_encrypted_values_are_sent_only_if_enabled() -> None:
    asked = body(HI, thought("rs_1:0", encryptedValue="gAAA"), said(content="Hello"))
    assert "gAAA" not in str(responses(asked))
    assert "gAAA" not in str(chat(asked, settings=SEALED))
    assert "include" not in responses(asked)


@pytest.mark.parametrize(
    ("after", "is_kept"),
    [
        ([said(content="x")], True),
        ([said(call("c")), result("c")], True),
        ([thought("rs_2:0", encryptedValue="gBBB"), said(content="x")], True),
        ([said(call("c"))], False),
        ([said(call("c")), thought("rs_2:0", encryptedValue="gBBB"), said(content="x", message_id="a2")], False),
        ([said(call("c"), call("d")), result("d")], True),
        ([{**HI, "id": "m2"}], False),
        ([thought("rs_2:0", encryptedValue="gBBB")], False),
        ([], False),
    ],
)
def test_reasoning_is_sent_only_before_its_items(after: list[Body], *, is_kept: bool) -> None:
    request = responses(body(HI, thought("rs_1:0", encryptedValue="gAAA"), *after), settings=SEALED)
    assert ("gAAA" in str(request)) == is_kept


# approvals

ANSWER: Final = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1"}
ASKED: Final = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "weather",
    "name": "f",
    "arguments": "{}",
}
APPROVAL: Final = call("mcpr_1", "mcp_approval_request")


@pytest.mark.parametrize(
    ("entry", "answer"),
    [
        (resolved("int-mcpr_1", approved=True), {**ANSWER, "approve": True}),
        (resolved("int-mcpr_1", approved=False, reason="No."), {**ANSWER, "approve": False, "reason": "No."}),
        ({"interruptId": "int-mcpr_1", "status": "cancelled"}, {**ANSWER, "approve": False}),
    ],
)
@pytest.mark.parametrize("history", [[said(APPROVAL)], [said(call("mcpr_1"))], []], ids=["known", "bare", "forgotten"])
def test_an_answer_to_an_interrupt_is_the_answer_to_its_approval(
    entry: Body, answer: Body, history: list[Body]
) -> None:
    assert responses(body(*history, resume=[entry]))["input"] == [answer]


def test_an_approval_request_is_sent_again_if_trusted() -> None:
    asked = body(said(APPROVAL), resume=[resolved("int-mcpr_1", approved=True)])
    assert responses(asked, settings=REPLAYED)["input"] == [ASKED, {**ANSWER, "approve": True}]


@pytest.mark.parametrize("arguments", ['{"token":"<redacted>"}', '{"a":"[REDACTED:vault]"}'])
def test_a_redacted_approval_request_is_not_sent_again(arguments: str) -> None:
    approval = call("mcpr_1", "mcp_approval_request", arguments=arguments)
    asked = body(said(approval), resume=[resolved("int-mcpr_1", approved=True)])
    assert responses(asked, settings=REPLAYED)["input"] == [{**ANSWER, "approve": True}]


def test_an_approval_of_an_earlier_run_is_history() -> None:
    done = body(said(APPROVAL), result("mcpr_1"), HI)
    assert responses(done, settings=REPLAYED)["input"] == [{"type": "message", "role": "user", "content": "Hi"}]


def test_an_unknown_interrupt_is_rejected() -> None:
    with pytest.raises(InputRefusedError, match=r"^`resume\[0\]\.interruptId`"):
        responses(body(HI, resume=[resolved("other", approved=True)]))
    with pytest.raises(UnsupportedRequestError, match="mcp_approval_response"):
        chat(body(HI, resume=[resolved("int-mcpr_1", approved=True)]))


YES: Final = {**ANSWER, "approve": True}
F_RESULT: Final = {"type": "function_call_output", "call_id": "f1", "output": "42"}
BYE: Final = {**HI, "id": "m2", "content": "Bye"}


@pytest.mark.parametrize(
    ("history", "sent"),
    [
        ([], [YES]),
        ([HI, said(APPROVAL)], [YES]),
        ([HI, said(call("f1"), APPROVAL), result("f1")], [YES, F_RESULT]),
        ([HI, said(call("f1")), result("f1"), said(APPROVAL, content="May I?")], [YES]),
        ([HI, said(APPROVAL, APPROVAL)], [YES]),
        (
            [HI, said(APPROVAL), BYE, said(call("f2"), message_id="a2"), result("f2")],
            [YES, {"type": "message", "role": "user", "content": "Bye"}],
        ),
        ([HI, said(APPROVAL), BYE], [YES, {"type": "message", "role": "user", "content": "Bye"}]),
        ([HI, thought("rs_1:0", encryptedValue="gAAA"), said(APPROVAL)], [YES]),
    ],
)
def test_items_before_a_stored_response_are_not_sent(history: list[Body], sent: list[Body]) -> None:
    asked = body(*history, resume=[resolved("int-mcpr_1", approved=True)])
    request = responses(asked, settings=SEALED, previous_response_id="resp_1")
    assert request == {
        "previous_response_id": "resp_1",
        "input": sent,
        "include": ["reasoning.encrypted_content"],
    }


def test_approvals_are_named_by_the_ids_of_the_provider() -> None:
    entries = [resolved("int-mcpr_1", approved=True), {"interruptId": "int-mcpr_2", "status": "cancelled"}]
    assert list(approvals(read_run_input(body(HI, resume=entries)))) == ["mcpr_1", "mcpr_2"]
    assert approvals(read_run_input(body(HI))) == {}
    with pytest.raises(InputRefusedError):
        approvals(read_run_input(body(HI, resume=[resolved("other", approved=True)])))


@pytest.mark.parametrize(
    ("content", "params"), [("Hi", set()), (IMAGES[:1], set()), (IMAGES, {"images"})], ids=["text", "part", "image"]
)
def test_images_need_a_parameter(content: object, params: set[str]) -> None:
    assert part_params(conversation(read_run_input(body({**HI, "content": content}))).entries) == params


# tools of the client

TOOLS: Final = [
    {"name": "ask", "description": "Ask.", "parameters": {"type": "object"}},
    {"name": "rm", "description": ""},
]
FUNCTION: Final = {"name": "ask", "description": "Ask.", "parameters": {"type": "object"}}


@pytest.mark.parametrize("names", [(), ("other",)])
@pytest.mark.parametrize("translate", [responses, chat])
def test_tools_that_the_agent_does_not_allow_are_dropped(translate: Any, names: tuple[str, ...]) -> None:
    assert "tools" not in translate(body(HI, tools=TOOLS), client_tools=names)


def test_tools_that_the_agent_allows_are_sent() -> None:
    asked = body(HI, tools=TOOLS)
    assert responses(asked, client_tools={"ask"})["tools"] == [{"type": "function", **FUNCTION, "strict": False}]
    assert chat(asked, client_tools={"ask"})["tools"] == [{"type": "function", "function": FUNCTION}]
    (bare,) = chat(asked, client_tools={"rm"})["tools"]
    assert bare["function"]["parameters"] == {"type": "object", "properties": {}}
