"""Six providers that play one conversation, and answer 400 to a history that the real ones refuse.

Each reads a request into events (`User`, `Answer`, `Output` below), so that order and content are compared once, and
checks what only its API has: roles, pairs of calls and outputs, and what it wants back unchanged.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from tests.asgi.conftest import Peer

Body = dict[str, Any]

CREDENTIAL: Final = "sk-proj-" + "a1B2c3D4" * 6
PLANTED: Final = "violet-otter-moonrise-42"
"""The key of all upstreams, which is withheld from every stream, and has no format."""
IMAGE: Final = "iVBORw0KGgo="
FAILED: Final = "It failed."


class Said(NamedTuple):
    """One answer of the model."""

    reasoning: str
    text: str
    calls: tuple[tuple[str, str], ...] = ()
    """ID and name of each call."""


USERS: Final = {0: "Look", 3: "And now?", 5: "Thanks."}
"""Number of an answer -> what the user says before it: three turns, the first one with an image."""
ANSWERS: Final = (
    Said(f"The key is {CREDENTIAL}, the password {PLANTED}.", "I look.", (("call_a", "look"), ("call_b", "find"))),
    Said(f"Again {PLANTED}.", "", (("call_c", "look"),)),
    Said("I have it.", f"Done: {CREDENTIAL} and {PLANTED}."),
    Said("Once more.", "", (("call_d", "find"),)),
    Said("", "Nothing new."),
    Said("Polite.", "Welcome."),
)
OUTPUTS: Final = {"call_a": "1", "call_b": FAILED, "call_c": "2", "call_d": "3"}


def mark(at: int, more: str = "") -> str:
    """Return the signature of an answer."""
    return base64.b64encode(f"signature {more} of answer {at}".encode()).decode()


MARKS: Final = tuple(mark(at, more) for at in range(len(ANSWERS)) for more in ("", "text"))


def arguments_of(call_id: str) -> Body:
    return {"at": call_id}


class Refusal(Exception):  # noqa: N818 - it is what the provider answers
    """A request that the provider refuses."""


def need(condition: object, reason: str) -> None:
    if not condition:
        raise Refusal(reason)


Event = tuple[str, ...]


def conversation(count: int) -> list[Event]:
    """Return the events of a request after a number of answers; texts by their first word, as they may be redacted."""
    events: list[Event] = []
    for at, said in enumerate(ANSWERS[: count + 1]):
        if at in USERS:
            events.append(("user", USERS[at].split()[0], *(["image"] if at == 0 else [])))
        if at < count:
            events += [("text", said.text.split()[0])] if said.text else []
            events += [("call", call_id, name) for call_id, name in said.calls]
            events += [("output", call_id, OUTPUTS[call_id]) for call_id, _ in said.calls]
    return events


def in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    """Return events with the outputs of each answer in one order: clients and providers have their own."""
    runs = [sorted(run) if kind == "output" else [*run] for kind, run in groupby(events, itemgetter(0))]
    return tuple(chain.from_iterable(runs))


COUNTS: Final = {in_order(conversation(count)): count for count in range(len(ANSWERS))}


def answers_in(events: Iterable[Event]) -> int:
    """Return how many answers a conversation has; refuse one that is not what was said."""
    found = COUNTS.get(in_order(events))
    if found is None:
        raise Refusal(f"unknown conversation {events}")
    return found


def is_open(at: int, count: int) -> bool:
    """Return whether an answer is in the turn that goes on."""
    return at >= max(start for start in USERS if start <= count)


def answer_of(call_id: object) -> int:
    """Return the number of the answer with a call."""
    return next((at for at, said in enumerate(ANSWERS) if call_id in [one for one, _ in said.calls]), -1)


def word(text: object) -> str:
    need(isinstance(text, str) and text.strip(), "an empty text")
    return str(text).split()[0]


# Responses


def read_responses(body: Body) -> int:
    events: list[Event] = []
    waiting: list[str] = []
    reasoned: set[int] = set()
    items, is_stored = body["input"], body.get("store", True)
    for item, following in zip(items, [*items[1:], {}], strict=True):
        kind = item.get("type", "message")
        need(not waiting or kind in {"function_call", "function_call_output"}, "no tool output found for a call")
        if kind == "reasoning":
            item_id, sealed = item.get("id"), item.get("encrypted_content")
            need(is_stored or sealed, f"item {item_id} not found: `store` is false")
            need(sealed in {None, *MARKS}, "the encrypted content could not be verified")
            at = MARKS.index(sealed) // 2 if sealed else int(item_id.removeprefix("rs_"))
            need(item_id in {None, f"rs_{at}"}, "an ID that does not begin with rs")
            reasoned.add(at)
            is_own = following.get("role") == "assistant" or answer_of(following.get("call_id")) == at
            need(is_own and "output" not in following, "reasoning without its required following item")
        elif kind == "function_call":
            need(json.loads(item["arguments"]) == arguments_of(item["call_id"]), "other arguments")
            at = answer_of(item["call_id"])
            need(at in reasoned or not is_stored or "id" not in item, "function_call without its reasoning item")
            waiting.append(item["call_id"])
            events.append(("call", item["call_id"], item["name"]))
        elif kind == "function_call_output":
            need(item["call_id"] in waiting, "no tool call found for an output")
            waiting.remove(item["call_id"])
            events.append(("output", item["call_id"], item["output"]))
        else:
            content, role = item["content"], item["role"]
            parts = [{"text": content, "type": "any"}] if isinstance(content, str) else content
            kinds = {"user": {"input_text", "input_image"}, "assistant": {"output_text"}}[role]
            need(all(part["type"] in {*kinds, "any"} for part in parts), f"a part that {role} cannot have")
            images = ["image" for part in parts if IMAGE in part.get("image_url", "")]
            said = word(" ".join(part["text"] for part in parts if "text" in part))
            events.append(("user" if role == "user" else "text", said, *images))
    need(not waiting, "no tool output found for a call")
    return answers_in(events)


def write_responses(at: int, said: Said, body: Body) -> Iterator[Body]:
    items: list[Body] = []
    if said.reasoning:
        is_included = "reasoning.encrypted_content" in body.get("include", ())
        sealed = {"encrypted_content": mark(at)} if is_included else {}
        summary = [{"type": "summary_text", "text": said.reasoning}]
        items.append({"type": "reasoning", "id": f"rs_{at}", "summary": summary, **sealed})
    if said.text:
        part = {"type": "output_text", "text": said.text, "annotations": []}
        items.append({"type": "message", "id": f"msg_{at}", "role": "assistant", "content": [part]})
    for call_id, name in said.calls:
        call = {"call_id": call_id, "name": name, "arguments": json.dumps(arguments_of(call_id))}
        items.append({"type": "function_call", "id": f"fc_{call_id}", **call})
    done = [item | {"status": "completed"} for item in items]
    response = {"id": f"resp_{at}", "model": "m", "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": response}
    for index, item in enumerate(done):
        yield {"type": "response.output_item.added", "output_index": index, "item": item | {"status": "in_progress"}}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response | {"status": "completed", "output": done}}


# Chat Completions, with what each kind of server wants back


def read_chat(state: Callable[[int, int], tuple[Body, Body]]) -> Callable[[Body], int]:
    """Return a reader; `state` returns members of a message with calls, and those of one of its calls."""

    def read(body: Body) -> int:
        events: list[Event] = []
        waiting: list[str] = []
        for message in body["messages"]:
            role, content = message["role"], message.get("content")
            need(not waiting or role == "tool", "a call without its output")
            if role == "tool":
                need(message["tool_call_id"] in waiting, "an output without its call")
                waiting.remove(message["tool_call_id"])
                events.append(("output", message["tool_call_id"], content))
                continue
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
            need(all(part["type"] in {"text", "image_url"} for part in parts), "an unknown part")
            images = ["image" for part in parts if IMAGE in part.get("image_url", {}).get("url", "")]
            texts = [part["text"] for part in parts if "text" in part]
            if role == "user" or texts:
                events.append(("user" if role == "user" else "text", word(" ".join(texts)), *images))
            calls = message.get("tool_calls", [])
            need(role != "assistant" or calls or texts, "content or tool_calls must be set")
            own = {name: one for name, one in message.items() if name not in {"role", "content", "tool_calls"}}
            wanted = state(answer_of(calls[0]["id"]), 0)[0] if calls else {}
            need(own == wanted, f"members {sorted(own)} instead of {sorted(wanted)}")
            for index, call in enumerate(calls):
                need(json.loads(call["function"]["arguments"]) == arguments_of(call["id"]), "other arguments")
                own = {name: one for name, one in call.items() if name not in {"id", "type", "function"}}
                wanted = state(answer_of(call["id"]), index)[1]
                need(own == wanted, f"{call['id']}: no valid thought_signature in {own}")
                waiting.append(call["id"])
                events.append(("call", call["id"], call["function"]["name"]))
        need(not waiting, "a call without its output")
        return answers_in(events)

    return read


def write_chat(state: Callable[[int, int], tuple[Body, Body]], member: str) -> Callable[..., Iterator[Body]]:
    def write(at: int, said: Said, _body: Body) -> Iterator[Body]:
        thought = f"<thought>{said.reasoning}</thought>" if member == "content" else said.reasoning
        deltas: list[Body] = [{member: thought}] if said.reasoning else []
        deltas += [{"content": said.text}] if said.text else []
        for index, (call_id, name) in enumerate(said.calls):
            function = {"name": name, "arguments": json.dumps(arguments_of(call_id))}
            call = {"index": index, "id": call_id, "type": "function", "function": function, **state(at, index)[1]}
            deltas.append({"tool_calls": [call]})
        for delta in deltas:
            yield {"id": f"c{at}", "model": "m", "choices": [{"index": 0, "delta": delta}]}
        reason = "tool_calls" if said.calls else "stop"
        yield {"id": f"c{at}", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}

    return write


def nothing(_at: int, _index: int) -> tuple[Body, Body]:
    return {}, {}


def deepseek(at: int, _index: int) -> tuple[Body, Body]:
    return {"reasoning_content": ANSWERS[at].reasoning}, {}


def compatible(at: int, index: int) -> tuple[Body, Body]:
    return {}, {} if index else {"extra_content": {"google": {"thought_signature": mark(at)}}}


# Anthropic Messages


def read_anthropic(body: Body) -> int:
    messages = body["messages"]
    need(body.get("max_tokens"), "max_tokens: field required")
    roles = [message["role"] for message in messages]
    need(roles == ["user", "assistant"] * (len(roles) // 2) + ["user"], f"roles must alternate: {roles}")
    events: list[Event] = []
    waiting: list[str] = []
    thinking: list[tuple[int, str, list[Body]]] = []
    for at, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        need(blocks, "content must not be empty")
        kinds = [block["type"] for block in blocks]
        results = [block for block in blocks if block["type"] == "tool_result"]
        if message["role"] == "user":
            need(
                sorted(block["tool_use_id"] for block in results) == waiting,
                f"messages.{at}: tool_result for {waiting}",
            )
            need(kinds[: len(results)] == ["tool_result"] * len(results), f"messages.{at}: tool_result must be first")
            events += [("output", block["tool_use_id"], block["content"]) for block in results]
            texts = [block["text"] for block in blocks if block["type"] == "text"]
            images = ["image" for block in blocks if block["type"] == "image" and block["source"]["data"] == IMAGE]
            events += [("user", word(" ".join(texts)), *images)] if texts else []
            waiting = []
            continue
        calls = [block for block in blocks if block["type"] == "tool_use"]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        events += [("text", word(" ".join(texts)))] if texts else []
        for block in calls:
            need(block["input"] == arguments_of(block["id"]), "other input")
            events.append(("call", block["id"], block["name"]))
            waiting.append(block["id"])
        said = answer_of(calls[0]["id"]) if calls else -1
        thinking.append((said, kinds[0], [block for block in blocks if "thinking" in block["type"]]))
    need(not waiting, f"tool_use without tool_result: {waiting}")
    count = answers_in(events)
    for at, (said, first, blocks) in enumerate(thinking):
        number = at if said < 0 else said
        need(blocks in ([], thinking_of(number)), f"thinking of answer {number} cannot be modified")
        is_needed = is_open(number, count) and thinking_of(number)
        need(not is_needed or blocks, f"expected thinking, but found {first}")
        need(not blocks or "thinking" in first, f"expected thinking, but found {first}")
    return count


def thinking_of(at: int) -> list[Body]:
    """Return the blocks of thinking of an answer: one is redacted by the provider."""
    if not ANSWERS[at].reasoning:
        return []
    shown = {"type": "thinking", "thinking": ANSWERS[at].reasoning, "signature": mark(at)}
    return [{"type": "redacted_thinking", "data": mark(at, "text")}, shown] if at == 1 else [shown]


def write_anthropic(at: int, said: Said, _body: Body) -> Iterator[Body]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": f"msg_{at}", "type": "message", "role": "assistant", "model": "claude-x-5", "usage": usage}
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    blocks = thinking_of(at) + ([{"type": "text", "text": said.text}] if said.text else [])
    blocks += [{"type": "tool_use", "id": one, "name": name, "input": arguments_of(one)} for one, name in said.calls]
    for index, block in enumerate(blocks):
        kind = block["type"]
        empty = {"thinking": "", "signature": "", "text": "", "input": {}}
        start = {name: empty.get(name, value) for name, value in block.items()}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for name in ("thinking", "text", "signature", "input"):
            if name in block:
                member, value = (name, block[name]) if name != "input" else ("partial_json", json.dumps(block[name]))
                delta = {"type": f"{'input_json' if name == 'input' else name}_delta", member: value}
                yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
        stop = "tool_use" if kind == "tool_use" else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage}
    yield {"type": "message_stop"}


# Gemini

LOST: Final = "skip_thought_signature_validator"
"""What models from Gemini 3 on accept in place of a signature."""


def read_gemini(body: Body) -> int:
    events: list[Event] = []
    waiting: list[tuple[object, object]] = []
    called: list[str] = []
    signed: list[tuple[int, int, object]] = []
    for content in body["contents"]:
        parts = content["parts"]
        need(parts and content["role"] in {"user", "model"}, "a content without parts or role")
        responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
        answered = [(one.get("id"), one["name"]) for one in responses]
        need(answered == waiting, f"function responses {answered} for {waiting}")
        need(not responses or len(responses) == len(parts), "other parts beside function responses")
        need(not responses or content["role"] == "user", "a function response of the model")
        need(all(one["response"].keys() <= {"output", "error"} for one in responses), "members of a function response")
        said = [next(iter(one["response"].values())) for one in responses]
        events += [("output", at, text) for at, text in zip(called, said, strict=True)]
        calls = [part for part in parts if "functionCall" in part]
        need(not calls or content["role"] == "model", "a function call of the user")
        texts = [part for part in parts if part.get("text") and not part.get("thought")]
        images = ["image" for part in parts if part.get("inlineData", {}).get("data") == IMAGE]
        if texts:
            said = word(" ".join(part["text"] for part in texts))
            events.append(("user" if content["role"] == "user" else "text", said, *images))
        for index, part in enumerate(calls):
            call = part["functionCall"]
            at = call["args"]["at"]
            need(call.get("id", at) == at, "another call")
            events.append(("call", at, call["name"]))
            signed.append((answer_of(at), index, part.get("thoughtSignature")))
        waiting = [(part["functionCall"].get("id"), part["functionCall"]["name"]) for part in calls]
        called = [part["functionCall"]["args"]["at"] for part in calls]
        others = [part["thoughtSignature"] for part in parts if "thoughtSignature" in part and part not in calls]
        need(set(others) <= {mark(at, "text") for at in range(len(ANSWERS))}, "a thought signature is not valid")
    need(not waiting, f"function calls {waiting} without responses")
    for at, index, signature in signed:
        wanted = {None} if index else {mark(at), LOST}
        need(signature in wanted, f"function call of answer {at} with signature {signature}")
    return answers_in(events)


def write_gemini(at: int, said: Said, _body: Body) -> Iterator[Body]:
    chunks: list[Body] = [{"text": said.reasoning, "thought": True}] if said.reasoning else []
    chunks += [{"text": said.text}] if said.text else []
    for index, (call_id, name) in enumerate(said.calls):
        signature = {} if index else {"thoughtSignature": mark(at)}
        chunks.append({"functionCall": {"id": call_id, "name": name, "args": arguments_of(call_id)}, **signature})
    chunks += [] if said.calls else [{"text": "", "thoughtSignature": mark(at, "text")}]
    for part in chunks:
        yield {"candidates": [{"content": {"role": "model", "parts": [part]}}], "responseId": f"r{at}"}
    yield {"candidates": [{"finishReason": "STOP"}], "responseId": f"r{at}"}


class Provider(NamedTuple):
    """A provider: how the page names it, its row of `PROVIDERS`, and what it does."""

    title: str
    api: str
    read: Callable[[Body], int]
    """Returns how many answers the conversation of a request has; raises `Refusal`."""
    write: Callable[[int, Said, Body], Iterator[Body]]
    """Yields the events of an answer."""
    target: str
    """Path and query of requests, after the name of the upstream."""
    model: str = "m"
    key: tuple[bytes, str] = (b"authorization", f"Bearer {PLANTED}")
    """Header with the key."""


CHAT: Final = "/chat/completions"
GENERATE: Final = "/models/gemini-3-x:streamGenerateContent?alt=sse"
PROVIDERS: Final[Mapping[str, Provider]] = {
    "openai": Provider("Responses", "openai_responses", read_responses, write_responses, "/responses"),
    "plain": Provider("Chat Completions", "openai_chat", read_chat(nothing), write_chat(nothing, "reasoning"), CHAT),
    "deepseek": Provider(
        "DeepSeek", "openai_chat", read_chat(deepseek), write_chat(deepseek, "reasoning_content"), CHAT
    ),
    "compatible": Provider(
        "Gemini's compatible endpoint", "openai_chat", read_chat(compatible), write_chat(compatible, "content"), CHAT
    ),
    "anthropic": Provider(
        "Anthropic Messages",
        "anthropic_messages",
        read_anthropic,
        write_anthropic,
        "/messages",
        "claude-x-5",
        (b"x-api-key", PLANTED),
    ),
    "gemini": Provider(
        "Gemini", "gemini", read_gemini, write_gemini, GENERATE, "gemini-3-x", (b"x-goog-api-key", PLANTED)
    ),
}


def target_of(peer: Peer) -> tuple[Provider, str, str]:
    """Return the provider of a request, the account there, and its target."""
    _, name, account, target = peer.head.split()[1].decode().split("/", 3)
    return PROVIDERS[name], account, f"/{target}"


async def play(peer: Peer) -> None:
    """Play the conversation of the provider that the path begins with, or answer 400."""
    provider, _, target = target_of(peer)
    header, key = provider.key
    try:
        need(target == provider.target and peer.header(header) == key.encode(), "not the address, or not the key")
        at = provider.read(peer.body)
    except Refusal as refusal:
        error = {"type": "invalid_request_error", "code": 400, "status": "INVALID_ARGUMENT", "message": str(refusal)}
        text = json.dumps({"type": "error", "error": error}).encode()
        head = f"HTTP/1.1 400 Bad\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
        await peer.send(head.encode() + text)
        return
    await peer.start()
    for event in provider.write(at, ANSWERS[at], peer.body):
        await peer.event(event)
    await peer.end()
