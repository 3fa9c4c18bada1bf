"""What the server keeps of calls: by caller, for a time, within bounds, and what is written from it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

import pytest

from projector.conversation.entries import Message, Reasoning, ToolCall, ToolOutput
from projector.conversation.model_request import ModelRequest, UnsupportedRequestError
from projector.conversation.opaque import (
    KeptCall,
    OpaqueCollector,
    Place,
    has_state,
    lacks_state,
    waiting_turn,
    with_opaque,
)
from projector.providers import PROVIDERS, profile_of
from projector.server.opaque_state import CallKeeper
from projector.store.memory import MemoryStore
from projector.store.protocol import StoreLimits, StoreUnavailableError

THINKING: Final = {"thinking": "It rains.", "signature": "c2lnbmF0dXJl"}


async def test_the_calls_of_another_caller_are_unknown() -> None:
    times = iter([10.0, 20.0, 20.0, 100.0])
    keeper = CallKeeper(None, 50, clock=lambda: next(times))
    keeper.keep("alice", "call_a", Place("openai_chat", "one", "m"), {"x": 1}, ({"y": 2},))
    body = {"input": [{"type": "function_call", "call_id": "call_a"}]}
    found = await keeper.load(body, "alice")
    assert [(one.own, one.before) for one in found.values()] == [({"x": 1}, ({"y": 2},))]
    assert await keeper.load(body, "bob") == {}
    assert await keeper.load(body, "alice") == {}, "it is too old"


async def test_a_call_that_reuses_an_id_forgets_what_the_earlier_one_had() -> None:
    keeper = CallKeeper(None, 50)
    for own in ({"x": 1}, None):
        keeper.keep("alice", "call_0", Place("openai_chat", "one", "m"), own, ())
    assert await keeper.load({"call_id": "call_0"}, "alice") == {}


async def test_values_outlast_the_process_and_stay_bounded() -> None:
    store = MemoryStore(StoreLimits())
    place = Place("openai_chat", "one", "m")
    first = CallKeeper(store, 50, max_bytes=400)
    for number in range(9):
        first.keep("alice", f"call_{number}", place, {"text": "x" * 100}, ())
    await first.aclose()
    second = CallKeeper(store, 50)
    assert [*await second.load({"call_id": "call_0"}, "alice")] == ["call_0"]
    await second.aclose()
    assert [*await CallKeeper(None, 50).load({"call_id": "call_0"}, "alice")] == []


async def test_a_store_has_nothing_in_clear_and_another_id_opens_nothing() -> None:
    """Without a key of the configuration, too: reasoning may contain what redaction removed."""
    written: dict[str, bytes] = {}

    class Seen(MemoryStore):
        async def put(self, kind: str, values: Mapping[str, bytes], ttl_s: float) -> None:
            written.update(values)
            await super().put(kind, values, ttl_s)

    store = Seen(StoreLimits())
    first = CallKeeper(store, 50)
    place = Place("openai_chat", "one", "m")
    first.keep("alice", "call_a", place, {"text": "sk-secret"}, ({"reasoning": "of alice"},))
    await first.aclose()
    (kept,) = written.values()
    assert not any(part in kept for part in (b"secret", b"alice", b"call_a", b"openai_chat"))
    other = CallKeeper(store, 50)
    assert await other.load({"call_id": "call_b"}, "alice") == {}
    assert await other.load({"call_id": "call_a"}, "bob") == {}
    (found,) = (await other.load({"call_id": "call_a"}, "alice")).values()
    assert (found.own, found.before) == ({"text": "sk-secret"}, ({"reasoning": "of alice"},))


async def test_a_store_that_is_away_is_an_error() -> None:
    class Away(MemoryStore):
        async def get(self, *_: Any) -> Any:
            raise StoreUnavailableError

    with pytest.raises(StoreUnavailableError):
        await CallKeeper(Away(StoreLimits()), 50).load({"call_id": "call_0"}, "alice")


ODD: Final[list[Any]] = [
    None,
    7,
    [7, None, []],
    [{"type": [], "role": "user"}, {"type": "function_call", "call_id": []}, {"role": [], "content": {}}],
    [{"type": "reasoning", "encrypted_content": {}}, {"role": "assistant", "content": [7, {"type": []}]}],
    [{"role": "assistant", "tool_calls": [7, {"id": []}]}, {"role": "assistant", "tool_calls": {}}],
    [{"role": "assistant", "content": [{"type": "thinking", "signature": 7}, {"type": "tool_use", "id": []}]}],
]


@pytest.mark.parametrize("api", ["openai_responses", "openai_chat", "anthropic_messages"])
def test_bodies_of_other_types_are_no_crash(api: str) -> None:
    kept = {"call_a": KeptCall(Place(api, "one", "m"), 0, {"x": 1}, (THINKING,))}
    route = PROVIDERS[api].passthrough
    assert route is not None
    for one in ODD:
        body = {"input": one, "messages": one}
        assert list(route.carried(body)) == []
        route.body_writer(body, profile_of(api, {}), kept)
        assert route.request_reader is not None
        with contextlib.suppress(UnsupportedRequestError):
            route.request_reader(body)


ASKED, AGAIN = Message("user", "Hi"), Message("user", "And?")
CALL_A, CALL_B = (ToolCall(f"call_{one}", "look", "{}") for one in "ab")
OUT_A, OUT_B = (ToolOutput(f"call_{one}", "1") for one in "ab")
HERE: Final = Place("anthropic_messages", "one", "m")
KNOWN: Final = {
    "call_a": KeptCall(HERE, 0, None, (THINKING,)),
    "sealed.x": KeptCall(HERE, 0, THINKING),
    "call_b": KeptCall(HERE._replace(model="n"), 0, None, (THINKING,)),
}
SEALED_B: Final = Reasoning("r", encrypted="sealed.x")


@pytest.mark.parametrize(
    ("entries", "count", "has", "lacks"),
    [
        ([ASKED, CALL_A, OUT_A], 2, True, False),
        ([ASKED, CALL_B, OUT_B], 2, False, True),
        ([ASKED, SEALED_B, CALL_B, OUT_B], 3, True, False),
        ([ASKED, CALL_A, OUT_A, CALL_B, OUT_B], 4, True, True),
        ([ASKED, CALL_A, CALL_B, OUT_A, OUT_B], 4, True, False),
        ([ASKED, CALL_B, OUT_B, AGAIN], 3, False, True),
        ([ASKED, CALL_A, OUT_A, Message("assistant", "Done."), AGAIN], 0, False, False),
        ([ASKED, CALL_B, OUT_B, Message("assistant", "Done."), AGAIN, CALL_A, OUT_A], 2, True, False),
        ([], 0, False, False),
    ],
)
def test_what_a_turn_that_goes_on_has(entries: list[Any], count: int, *, has: bool, lacks: bool) -> None:
    turn = waiting_turn(entries)
    assert len(turn) == count
    assert (has_state(turn, KNOWN, HERE), lacks_state(turn, KNOWN, HERE)) == (has, lacks)


def test_thinking_goes_back_with_the_call_that_followed_it() -> None:
    place = Place("anthropic_messages", "one", "m")
    kept: dict[str, KeptCall] = {}
    collector = OpaqueCollector(
        lambda call_id, own, before: kept.update({call_id: KeptCall(place, 0, own, before)}),
        lambda *_: "sealed.",
        frozenset(),
    )
    assert collector.add("reasoning", None, THINKING, is_done=True) is None
    assert collector.add("function_call", "toolu_1", None, is_done=True) is None
    text = Message("assistant", "I look.")
    asked = [Message("user", "Hi"), text, ToolCall("toolu_1", "look", "{}"), ToolOutput("toolu_1", "1")]
    request = ModelRequest(model="m", input=with_opaque(asked, kept, place))
    profile = profile_of("anthropic_messages", {})
    messages = PROVIDERS["anthropic_messages"].request_writer(request, profile)["messages"]
    assert [block["type"] for block in messages[1]["content"]] == ["thinking", "text", "tool_use"]
    assert messages[1]["content"][0] == {"type": "thinking", **THINKING}
    assert with_opaque(asked, kept, place._replace(upstream="two")) == asked
