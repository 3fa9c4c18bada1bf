"""Thinking on `/v1/messages`: the client carries it sealed; a strict provider refuses any that it did not send."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pytest

from projector.conversation.opaque import SEALED, KeptCall, Place
from projector.server.opaque_state import VALUE_MAX_BYTES, StateSealer
from tests.asgi.conftest import Peer
from tests.asgi.test_messages_route import MESSAGES

Block = dict[str, Any]

OLD, NEW = (base64.b64encode(letter * 32).decode() for letter in (b"a", b"b"))
REGISTERED: Final = "violet-otter-moonrise-42"
"""The key of the upstream, which is withheld from every stream, and has no format."""
CREDENTIAL: Final = "sk-proj-" + "a1B2c3D4" * 6
THINKING: Final = f"The password is {REGISTERED}, the key {CREDENTIAL}, and it rains."
CALLERS: Final = {"alice": "sk-caller-alice-0123456789", "bob": "sk-caller-bob-0123456789"}
CUTS: Final = (1, 5, 23, 1000)
"""Characters of a delta."""


def _call(call_id: str) -> Block:
    return {"type": "tool_use", "id": call_id, "name": "look", "input": {"at": call_id}}


def _thinking(text: str, signature: str) -> Block:
    return {"type": "thinking", "thinking": text, "signature": signature}


TEXT: Final = {"type": "text", "text": "I look."}
TURNS: Final[list[list[Block]]] = [
    [_thinking(THINKING, "c2lnbmF0dXJlLTE="), TEXT, _call("toolu_1"), _call("toolu_2")],
    [{"type": "redacted_thinking", "data": "ZGF0YQ=="}, _thinking(f"Again {REGISTERED}", "c2ln/2=="), _call("toolu_3")],
    [_thinking("", "c2ln+3=="), _call("toolu_4"), _thinking("Plain.", "c2ln4"), _call("toolu_5")],
    [_thinking("Nothing to hide.", "c2ln5"), {"type": "text", "text": "Done."}],
]
"""The content of each answer: withheld, redacted by the provider, without text, between calls, and as it is."""


def mistakes(messages: list[dict[str, Any]]) -> list[str]:
    """Return why the provider would refuse messages: thinking is unchanged, and whole in a turn with open calls."""
    found = []
    starts = [at for at, one in enumerate(messages) if one["role"] == "user" and "tool_result" not in json.dumps(one)]
    for at, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        thinking = [block for block in message["content"] if "thinking" in block["type"]]
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        [sent] = [turn for turn in TURNS if [one["id"] for one in turn if one["type"] == "tool_use"] == calls]
        if thinking and message["content"] != sent:
            found.append(f"messages.{at}: thinking cannot be modified")
        elif not thinking and at > starts[-1]:
            found.append(f"messages.{at}: expected thinking, but found {message['content'][0]['type']}")
    return found


def strict(cut: int) -> Callable[[Peer], Any]:
    """Return the script of a provider that plays `TURNS` by the number of answers in the request."""

    async def script(peer: Peer) -> None:
        if found := mistakes(peer.body["messages"]):
            text = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": str(found)}})
            head = f"HTTP/1.1 400 Bad\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
            await peer.send((head + text).encode())
            return
        done = sum(message["role"] == "assistant" for message in peer.body["messages"])
        await peer.start()
        for event in events(TURNS[min(done, len(TURNS) - 1)], cut):
            await peer.event(event)
        await peer.end()

    return script


DELTAS: Final = {"thinking": ("thinking", "thinking_delta"), "text": ("text", "text_delta")}


def events(content: list[Block], cut: int) -> Iterator[Block]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x-5", "usage": usage}
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for at, block in enumerate(content):
        empty = {"thinking": "", "signature": "", "text": "", "input": {}}
        start = {name: empty.get(name, value) for name, value in block.items()}
        yield {"type": "content_block_start", "index": at, "content_block": start}
        member, kind = DELTAS.get(block["type"], ("", ""))
        deltas = [{"type": kind, member: piece} for piece in pieces(block.get(member, ""), cut)]
        if "input" in block:
            deltas.append({"type": "input_json_delta", "partial_json": json.dumps(block["input"])})
        if "signature" in block:
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        for delta in deltas:
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    stop = "tool_use" if content[-1]["type"] == "tool_use" else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}
    yield {"type": "message_stop"}


def pieces(text: str, cut: int) -> list[str]:
    return [text[at : at + cut] for at in range(0, len(text), cut)]


def content_of(text: str, *, stream: bool) -> list[Block]:
    """Return the content of an answer, joined as the SDK joins it."""
    if not stream:
        return list(json.loads(text)["content"])
    content: list[Block] = []
    inputs = ""
    for event in (json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")):
        if event["type"] == "content_block_start":
            content.append(event["content_block"])
            inputs = ""
        elif event["type"] == "content_block_delta":
            _, *members = event["delta"]
            for name in members:
                if name == "partial_json":
                    inputs += event["delta"][name]
                    content[-1]["input"] = json.loads(inputs) if inputs.endswith("}") else {}
                else:
                    content[-1][name] += event["delta"][name]
    return content


class Chat:
    """A conversation of a caller."""

    def __init__(self, site: Any, *, stream: bool = True) -> None:
        self.site, self.stream = site, stream
        self.said = ""
        """All that the caller received."""
        self.messages: list[dict[str, Any]] = []
        self.model = "m"

    async def ask(self, content: object = "Hi", caller: str = "alice") -> tuple[int, str]:
        """Send the conversation with another message of the user; return status and body."""
        self.messages.append({"role": "user", "content": content})
        body = {"model": self.model, "max_tokens": 9, "stream": self.stream, "messages": self.messages}
        answer = await self.site.ask(MESSAGES, body, x_api_key=CALLERS[caller])
        text = (await answer.rest()).decode()
        self.said += text
        if answer.status == 200:
            self.messages.append({"role": "assistant", "content": content_of(text, stream=self.stream)})
        return answer.status, text

    async def go_on(self, caller: str = "alice") -> tuple[int, str]:
        """Send the results of the last calls."""
        calls = [block["id"] for block in self.messages[-1]["content"] if block["type"] == "tool_use"]
        return await self.ask([{"type": "tool_result", "tool_use_id": one, "content": "1"} for one in calls], caller)

    def sealed(self, at: int) -> Block:
        """Return the first block of thinking of an answer."""
        return next(block for block in self.messages[at]["content"] if block["type"] == "thinking")


def settings(port: int, *keys: str, reasoning: str = "summary", **more: Any) -> dict[str, Any]:
    one = {"api": "anthropic_messages", "base_url": f"http://localhost:{port}/v1", "api_key": REGISTERED}
    hashes = {name: f"sha256:{hashlib.sha256(key.encode()).hexdigest()}" for name, key in CALLERS.items()}
    return {
        "api_key": None,
        "base_url": None,
        "upstreams": {"one": one, "two": dict(one)},
        "passthrough": {"messages": "one", "policy": {"reasoning": reasoning}, "store": "none"},
        "state_encryption_keys": keys,
        "auth": {"api_keys": hashes},
        **more,
    }


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("reasoning", ["off", "summary"])
async def test_the_provider_gets_its_own_thinking_back(
    serve: Any, upstream: Any, upstream_port: int, cut: int, reasoning: str, *, stream: bool
) -> None:
    scripted = await upstream(strict(cut))
    chat = Chat(serve(**settings(upstream_port, NEW, reasoning=reasoning)), stream=stream)
    answers = [await chat.ask(), await chat.go_on(), await chat.go_on(), await chat.go_on(), await chat.ask("More")]
    assert [status for status, _ in answers] == [200] * 5, answers
    assert not any(secret in chat.said for secret in (REGISTERED, CREDENTIAL, *SIGNATURES))
    assert ("it rains" in chat.messages[1]["content"][0]["thinking"]) is (reasoning == "summary")
    bodies = [(await scripted.peers.get()).body["messages"] for _ in answers]
    assert [message["content"] for message in bodies[-1] if message["role"] == "assistant"] == TURNS


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("stream", [True, False])
async def test_clients_of_the_responses_api_carry_it_too(
    serve: Any, upstream: Any, upstream_port: int, cut: int, *, stream: bool
) -> None:
    scripted = await upstream(strict(cut))
    given = settings(upstream_port, NEW)
    given["passthrough"] |= {"responses": "one"}
    site = serve(**given)
    items: list[Block] = [{"role": "user", "content": "Hi"}]
    for turn in (*TURNS, TURNS[-1]):
        body = {"model": "m", "input": items, "stream": stream}
        answer = await site.ask("/v1/responses", body, authorization=f"Bearer {CALLERS['alice']}")
        text = (await answer.rest()).decode()
        assert answer.status == 200, text
        assert not any(secret in text for secret in (REGISTERED, CREDENTIAL, *SIGNATURES))
        lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
        output = json.loads(lines[-1])["response"]["output"] if stream else json.loads(text)["output"]
        calls = [block["id"] for block in turn if block["type"] == "tool_use"]
        items += output
        items += [{"type": "function_call_output", "call_id": one, "output": "1"} for one in calls]
        items += [] if calls else [{"role": "user", "content": "More"}]
    bodies = [(await scripted.peers.get()).body["messages"] for _ in (*TURNS, 1)]
    assert [message["content"] for message in bodies[-1] if message["role"] == "assistant"] == TURNS
    output[0]["encrypted_content"] += "A"
    items = [*items[:-1], {"type": "function_call_output", "call_id": "toolu_5", "output": "1"}]
    answer = await site.ask("/v1/responses", {"model": "m", "input": items}, authorization=f"Bearer {CALLERS['alice']}")
    error = json.loads(await answer.rest())["error"]
    assert (answer.status, error["param"]) == (400, f"input[{items.index(output[0])}].encrypted_content")


SIGNATURES: Final = [
    block[name] for turn in TURNS for block in turn for name in ("signature", "data") if block.get(name)
]


def _changed(block: Block) -> None:
    text = block["signature"]
    block["signature"] = text[:-9] + ("A" if text[-9] != "A" else "B") + text[-8:]


def _cut(block: Block) -> None:
    block["signature"] = block["signature"][:60]


def _foreign(block: Block) -> None:
    block["signature"] = f"public-sse.{SEALED}%%%"


def _edited(block: Block) -> None:
    block["thinking"] = "Something else."


class Row(NamedTuple):
    """How a conversation goes on after its first answer."""

    keys: tuple[str, ...] = (NEW,)
    """Keys of the server then."""
    caller: str = "alice"
    change: Callable[[Block], None] = lambda _: None
    is_accepted: bool = False


ROWS: Final[Mapping[str, Row]] = {
    "a new key first": Row((OLD, NEW), is_accepted=True),
    "a text that the client edited": Row(change=_edited, is_accepted=True),
    "a key that is gone": Row((OLD,)),
    "no key": Row(()),
    "another caller": Row(caller="bob"),
    "a changed character": Row(change=_changed),
    "a cut value": Row(change=_cut),
    "no base64": Row(change=_foreign),
}


@pytest.mark.parametrize("name", ROWS)
async def test_what_is_not_valid_is_refused_while_calls_are_open(
    serve: Any, upstream: Any, upstream_port: int, name: str
) -> None:
    scripted = await upstream(strict(5))
    row = ROWS[name]
    chat = Chat(serve(**settings(upstream_port, NEW)))
    await chat.ask()
    row.change(chat.sealed(1))
    chat.site = serve(**settings(upstream_port, *row.keys))
    status, text = await chat.go_on(row.caller)
    if row.is_accepted:
        assert status == 200, text
        return
    error = json.loads(text)["error"]
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert error["message"].startswith("`messages[1].content[0].signature` is not valid")
    assert scripted.peers.qsize() == 1, "the provider was asked"
    chat.messages[2:] = []
    status, text = await chat.ask("Never mind.", row.caller)
    assert status == 200, text
    await scripted.peers.get()
    sent = (await scripted.peers.get()).body["messages"]
    assert sent[1]["content"] == [block for block in TURNS[0] if block["type"] != "thinking"]


@pytest.mark.parametrize("keys", [(), (NEW,)])
async def test_a_client_that_loses_thinking_gets_it_from_the_server(
    serve: Any, upstream: Any, upstream_port: int, keys: tuple[str, ...]
) -> None:
    await upstream(strict(5))
    given = settings(upstream_port, *keys)
    given["passthrough"]["store"] = "default"
    chat = Chat(serve(**given))
    for ask in (chat.ask, chat.go_on, chat.go_on, chat.go_on):
        status, text = await ask()
        assert status == 200, text
        assert REGISTERED not in text
        chat.messages[-1]["content"] = [one for one in chat.messages[-1]["content"] if one["type"] != "thinking"]


async def test_a_conversation_stays_where_its_thinking_is_valid(serve: Any, upstream: Any, upstream_port: int) -> None:
    scripted = await upstream(strict(5))
    given = settings(upstream_port, NEW)
    for name in ("one", "two"):
        given["upstreams"][name] = {**given["upstreams"][name], "base_url": f"http://localhost:{upstream_port}/{name}"}
    targets = [{"upstream": name, "model": "claude-x"} for name in ("one", "two")]
    given["models"] = {"m": {"targets": targets, "balance": "weight"}, "other": {"targets": [targets[0]]}}
    site = serve(**given)
    for place in (b"/one/", b"/two/"):
        chat = Chat(site)
        for ask in (chat.ask, chat.go_on, chat.go_on):
            status, text = await ask()
            assert status == 200, text
            assert place in (await scripted.peers.get()).head
    chat.model = "other"
    status, text = await chat.go_on()
    assert (status, "expected thinking, but found tool_use" in text) == (400, True), "it was sent to another upstream"


PLACE: Final = Place("anthropic_messages", "one", "m")


def changes_of(sealed: str) -> list[str]:
    """Return texts that differ from a sealed one by a character, by their end, or by another value behind it."""
    changed = [f"{sealed[:at]}{'Ab+é'[at % 4]}{sealed[at + 1 :]}" for at in range(len(sealed))]
    changed += [f"{sealed.rstrip('=')[:-1]}{one}{'=' * sealed.count('=')}" for one in "ABab01+/=\n"]
    cut = [sealed[:at] for at in range(0, len(sealed), 5)]
    more = [f"{sealed}=", f"{sealed}\n", f" {sealed}", SEALED + sealed, sealed + sealed.removeprefix(SEALED)]
    return [one for one in (*changed, *cut, *more) if one != sealed]


def test_a_value_is_opened_as_it_was_sealed() -> None:
    old, new = b"a" * 32, b"b" * 32
    sealer = StateSealer([new, old], clock=lambda: 5.0)
    sealed = StateSealer([old], clock=lambda: 5.0).seal("alice", PLACE, {"thinking": "é\ud83d"})
    assert sealed is not None
    assert sealer.open("alice", sealed) == KeptCall(PLACE, 5.0, {"thinking": "é\ufffd"})
    assert sealer.open("bob", sealed) is None
    assert [one for one in changes_of(sealed) if sealer.open("alice", one) is not None] == []
    assert sealer.seal("alice", PLACE, "") != sealer.seal("alice", PLACE, "")
    lengths = {len(sealer.seal("alice", PLACE, "x" * size) or "") for size in range(100)}
    assert len(lengths) == 1
    assert sealer.seal("alice", PLACE, "x" * VALUE_MAX_BYTES) is None
    assert sealer.open("alice", SEALED + "A" * 3 * VALUE_MAX_BYTES) is None
    assert StateSealer([]).seal("alice", PLACE, "") is None
