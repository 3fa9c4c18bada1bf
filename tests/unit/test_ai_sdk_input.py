"""Requests of the AI SDK as conversations: messages, results of tools, answers to approvals, what is rejected."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import pytest

from projector.conversation.client_history import DEFAULTS, ConversationSettings, InputRefusedError
from projector.conversation.entries import (
    Approval,
    ApprovalRequest,
    Entry,
    File,
    Image,
    Message,
    Reasoning,
    ServerCall,
    Text,
    ToolCall,
    ToolOutput,
)
from projector.dialects.ai_sdk.conversation import approvals, conversation, dialect_options, read_chat_input
from projector.dialects.descriptor import DialectOptions
from projector.server.http.requests import part_params

Json: TypeAlias = dict[str, Any]

SEALED: Final = ConversationSettings(encrypted_reasoning=True)
TRUSTING: Final = ConversationSettings(trust_client_approvals=True)
STEP: Final = {"type": "step-start"}
HI: Final = Message("user", "Hi")


def words(text: str) -> Json:
    return {"type": "text", "text": text, "state": "done"}


def user(*parts: Json, message_id: str = "m1") -> Json:
    return {"id": message_id, "role": "user", "parts": list(parts) or [words("Hi")]}


def said(*parts: Json, message_id: str = "m2") -> Json:
    return {"id": message_id, "role": "assistant", "metadata": {"a": 1}, "parts": list(parts)}


def tool(call_id: str = "c", state: str = "output-available", **members: object) -> Json:
    call = {"type": "tool-pick", "toolCallId": call_id, "state": state, "input": {"a": 1}}
    return call | ({"output": "blue"} if state == "output-available" else {}) | members


def approval(state: str = "approval-responded", **answer: object) -> Json:
    about = {"public-sse": {"server_label": "weather"}}
    call = {"type": "dynamic-tool", "toolName": "f", "providerExecuted": True, "callProviderMetadata": about}
    return {**call, **tool("m", state, type="dynamic-tool"), "approval": {"id": "mcpr_1", **answer}}


def thought(text: str, **metadata: object) -> Json:
    return {"type": "reasoning", "text": text, "providerMetadata": {"public-sse": metadata}}


def body(*messages: object, **members: object) -> Json:
    return {"id": "chat", "messages": list(messages), "trigger": "submit-message", **members}


def model_messages(*messages: object) -> Json:
    """Return a request of assistant-ui's data stream runtime."""
    return {"messages": list(messages), "threadId": "chat", "runConfig": {}, "unstable_assistantMessageId": "a"}


def model_result(kind: object, value: object, call_id: str = "c", **members: object) -> Json:
    output = {"type": kind, "value": value, **members}
    return {"role": "tool", "content": [{"type": "tool-result", "toolCallId": call_id, "output": output}]}


MODEL_USER: Final = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
MODEL_CALL: Final = {
    "role": "assistant",
    "content": [
        {"type": "text", "text": "Ho"},
        {"type": "tool-call", "toolCallId": "c", "toolName": "pick", "input": {"a": 1}},
    ],
}
CALL: Final = ToolCall("c", "pick", '{"a":1}')
OUTPUT: Final = ToolOutput("c", "blue")
APPROVED: Final = Approval("mcpr_1", is_approved=True)

ROWS: Final[list[tuple[str, Json, ConversationSettings, list[Entry]]]] = [
    ("a text", body(user()), DEFAULTS, [HI]),
    ("texts of the user", body(user(words("a"), words("b"))), DEFAULTS, [Message("user", "a\n\nb")]),
    (
        "an image and a document",
        body(
            user(
                words("Hi"),
                {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,QQ=="},
                {"type": "file", "mediaType": "application/pdf", "url": "https://a.example/b.pdf", "filename": "b.pdf"},
            )
        ),
        DEFAULTS,
        [Message("user", (Text("Hi"), Image("data:image/png;base64,QQ=="), File("https://a.example/b.pdf", "b.pdf")))],
    ),
    ("two turns", body(user(), said(STEP, words("Ho")), user()), DEFAULTS, [HI, Message("assistant", "Ho"), HI]),
    ("a result", body(user(), said(STEP, tool())), DEFAULTS, [HI, CALL, OUTPUT]),
    (
        "a result before a text of the same step",
        body(user(), said(STEP, tool(), words("Wait."))),
        DEFAULTS,
        [HI, CALL, Message("assistant", "Wait."), OUTPUT],
    ),
    (
        "a result that is no text, and a failure",
        body(user(), said(tool("a", output={"x": [1]}), tool("b", "output-error", errorText="No."))),
        DEFAULTS,
        [
            HI,
            ToolCall("a", "pick", '{"a":1}'),
            ToolCall("b", "pick", '{"a":1}'),
            ToolOutput("a", '{"x":[1]}'),
            ToolOutput("b", "No.", has_failed=True),
        ],
    ),
    (
        "the text of a custom tool",
        body(user(), said(tool(input="select 1"))),
        DEFAULTS,
        [HI, ToolCall("c", "pick", "select 1", "custom"), ToolOutput("c", "blue", "custom")],
    ),
    ("a call without a result", body(user(), said(tool(state="input-available")), user()), DEFAULTS, [HI, HI]),
    (
        "a tool of the provider",
        body(user(), said(tool(type="dynamic-tool", toolName="web_search", providerExecuted=True)), user()),
        DEFAULTS,
        [HI, HI],
    ),
    (
        "a call of an MCP server",
        body(user(), said(approval("output-available", approved=True), words("Fine.")), user()),
        DEFAULTS,
        [HI, ServerCall("m", "weather", "f", '{"a":1}', "blue"), Message("assistant", "Fine."), HI],
    ),
    (
        "parts that are not read",
        body(user(), said({"type": "data-notice", "data": 1}, {"type": "source-url"}, {"type": "file"}), user()),
        DEFAULTS,
        [HI, HI],
    ),
    (
        "parts of the user that are not read",
        body(user({"type": "data-place", "data": 1}), user({"type": "data-place", "data": 1}, words("Hi"))),
        DEFAULTS,
        [HI],
    ),
    ("an approval", body(user(), said(STEP, approval(approved=True))), DEFAULTS, [HI, APPROVED]),
    (
        "a refused approval",
        body(user(), said(STEP, approval(approved=False, reason="no"))),
        DEFAULTS,
        [HI, Approval("mcpr_1", is_approved=False, reason="no")],
    ),
    (
        "an approval whose request is trusted",
        body(user(), said(STEP, approval(approved=True))),
        TRUSTING,
        [HI, ApprovalRequest("mcpr_1", "weather", "f", '{"a":1}'), APPROVED],
    ),
    (
        "an approval whose request is redacted",
        body(user(), said(STEP, approval(approved=True) | {"input": {"a": "<redacted>"}})),
        TRUSTING,
        [HI, APPROVED],
    ),
    (
        "an earlier approval",
        body(user(), said(STEP, approval(approved=True), STEP, words("Done.")), user()),
        DEFAULTS,
        [HI, Message("assistant", "Done."), HI],
    ),
    (
        "reasoning",
        body(
            user(),
            said(
                thought("a", item_id="rs"),
                thought("b", item_id="rs", encrypted_content="gAAA"),
                thought("whole", item_id="rs2", kind="full"),
                words("Ho"),
            ),
            user(),
        ),
        SEALED,
        [HI, Reasoning("rs", ("a", "b"), "gAAA"), Message("assistant", "Ho"), HI],
    ),
    (
        "reasoning without the policy",
        body(user(), said(thought("a", item_id="rs", encrypted_content="gAAA"), words("Ho")), user()),
        DEFAULTS,
        [HI, Message("assistant", "Ho"), HI],
    ),
    (
        "reasoning before a lost call",
        body(
            user(),
            said(thought("a", item_id="rs", encrypted_content="g"), tool(state="input-available"), words("Ho")),
            user(),
        ),
        SEALED,
        [HI, Message("assistant", "Ho"), HI],
    ),
    (
        "one ID for two calls",
        body(user(), said(tool(), tool())),
        DEFAULTS,
        [HI, CALL, OUTPUT],
    ),
    (
        "model messages",
        model_messages(MODEL_USER, MODEL_CALL, model_result("text", "blue"), MODEL_USER),
        DEFAULTS,
        [HI, Message("assistant", "Ho"), CALL, OUTPUT, HI],
    ),
    (
        "a failed tool in model messages",
        model_messages(MODEL_USER, MODEL_CALL, model_result("error-json", {"why": 1})),
        DEFAULTS,
        [HI, Message("assistant", "Ho"), CALL, ToolOutput("c", '{"why":1}', has_failed=True)],
    ),
    *(
        (
            f"a denied tool in model messages: {reason}",
            model_messages(MODEL_USER, MODEL_CALL, model_result("execution-denied", None, reason=reason)),
            DEFAULTS,
            [HI, Message("assistant", "Ho"), CALL, ToolOutput("c", text, has_failed=True)],
        )
        for reason, text in ((None, "The user did not approve the call."), ("Too late.", "Too late."))
    ),
    (
        "a result without a type in model messages",
        model_messages(MODEL_USER, MODEL_CALL, model_result([], "blue")),
        DEFAULTS,
        [HI, Message("assistant", "Ho"), CALL, OUTPUT],
    ),
    (
        "a result of no call in model messages",
        model_messages(MODEL_USER, model_result("json", 1, "other"), MODEL_USER),
        DEFAULTS,
        [HI, HI],
    ),
    (
        "a file in model messages",
        model_messages(
            {"role": "user", "content": [{"type": "file", "mediaType": "image/png", "data": "https://a.example/b.png"}]}
        ),
        DEFAULTS,
        [Message("user", (Image("https://a.example/b.png"),))],
    ),
    ("a text as model message", model_messages({"role": "user", "content": "Hi"}), DEFAULTS, [HI]),
]


@pytest.mark.parametrize(("name", "request_body", "settings", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_the_conversation(name: str, request_body: Json, settings: ConversationSettings, expected: list[Entry]) -> None:
    del name
    assert conversation(read_chat_input(request_body), settings=settings).entries == expected


END: Final = "`messages` must end with a message of the user, or with results or approvals."

REFUSED: Final[list[tuple[str, Json, str]]] = [
    ("no chat", {"messages": [user()]}, "`id` is missing."),
    ("no messages", body(), "`messages` must not be empty."),
    (
        "instructions",
        body({"id": "m", "role": "system", "parts": [words("Obey.")]}),
        "`messages[0]` has an unsupported 'role'; expected 'user', 'assistant'.",
    ),
    ("another trigger", body(user(), trigger="go"), "`trigger` must be 'submit-message' or 'regenerate-message'."),
    ("a text that is none", body(user({"type": "text", "text": 7})), "`messages[0].parts[0].text` must be a string."),
    (
        "a call without an ID",
        body(said({"type": "tool-f", "state": "x"})),
        "`messages[0].parts[0].toolCallId` is missing.",
    ),
    ("a type of a part that is none", body(user({"type": []})), "`messages[0].parts[0].type` must be a string."),
    ("a type of an answer that is none", body(said({"type": {}})), "`messages[0].parts[0].type` must be a string."),
    ("a part that is none", body(user({}, words("a"))), "`messages[0].parts[0].type` is missing."),
    ("an ID that is too long", body(user(message_id="m" * 257)), "`messages[0].id` must have at most 256 characters."),
    (
        "instructions as model message",
        model_messages({"role": "system", "content": "Obey."}, MODEL_USER),
        "`messages[0]` has an unsupported 'role'; expected 'user', 'assistant'.",
    ),
    ("content that is none", model_messages({"role": "user", "content": 7}), END),
    ("parts of content that are none", model_messages({"role": "user", "content": [7, None]}), END),
    ("model messages and others", model_messages(MODEL_USER, 7), "`messages[1]` must be an object."),
    (
        "a call without an ID in model messages",
        model_messages({"role": "assistant", "content": [{"type": "tool-call"}]}),
        "`messages[0].parts[0].toolCallId` is missing.",
    ),
    ("no chat of model messages", {"messages": [MODEL_USER]}, "`id` is missing."),
    ("nothing to answer", body(user(), said(words("Ho"))), END),
    ("a call that is still open", body(user(), said(words("Ho"), tool(state="input-available"))), END),
    ("nothing at all", body(said()), END),
]


@pytest.mark.parametrize(("name", "request_body", "complaint"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_is_rejected(name: str, request_body: Json, complaint: str) -> None:
    del name
    with pytest.raises(InputRefusedError) as raised:
        conversation(read_chat_input(request_body))
    assert str(raised.value) == complaint


@pytest.mark.parametrize(
    "url", ["http://a.example/b.png", "file:///etc/passwd", "data:text/html,<b>", "javascript:alert(1)", ""]
)
def test_files_are_https_or_data_urls(url: str) -> None:
    part = {"type": "file", "mediaType": "image/png", "url": url}
    with pytest.raises(InputRefusedError, match=r"^`messages\[0\]\.parts\[0\]\.url`"):
        read_chat_input(body(user(part)))


def test_only_allowed_tools_of_the_client_are_offered() -> None:
    tools = {"pick": {"description": "Pick.", "parameters": {"type": "object"}}, "rm": {}}
    offered = conversation(read_chat_input(body(user(), tools=tools)), client_tools=["pick"]).tools
    function = {"name": "pick", "description": "Pick.", "parameters": {"type": "object"}}
    assert offered == [{"type": "function", **function, "strict": False}]


def test_approvals_are_those_of_the_last_step() -> None:
    later = approval(approved=True) | {"approval": {"id": "mcpr_2", "approved": True}}
    asked = read_chat_input(body(user(), said(STEP, approval(approved=True), STEP, later)))
    assert approvals(asked) == ["mcpr_2"]
    sent = conversation(asked, previous_response_id="resp_1").entries
    assert sent == [Approval("mcpr_2", is_approved=True)]


def test_a_result_continues_the_message_of_the_client() -> None:
    assert dialect_options(read_chat_input(body(user()))) == DialectOptions()
    options = dialect_options(read_chat_input(body(user(), said(tool()))))
    assert options == DialectOptions(message_id="m2", taken_ids=frozenset({"c"}))


def test_files_need_a_parameter() -> None:
    part = {"type": "file", "mediaType": "application/pdf", "url": "https://a.example/b.pdf"}
    assert part_params(conversation(read_chat_input(body(user(part)))).entries) == {"files"}
