"""What every store promises (`projector.store.protocol`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from projector.store.budgets import Limit
from projector.store.protocol import (
    INTERRUPTED,
    LEASE_S,
    RENEWAL_S,
    Batch,
    Store,
    StoreFullError,
    TrimmedError,
    UnknownStreamError,
)
from tests.store.rigs import LOCAL, SMALL, LocalRig, Rig, batch, frames, head, ignored, read_all


async def test_a_log_is_read_as_it_was_written(rig: Rig) -> None:
    assert await rig.one.open(head())
    assert await rig.one.append([batch(1, 3), batch(4, 4)]) == {}
    assert await rig.one.append([batch(5, 9)]) == {}
    assert await rig.one.seal("s", first=10, frames=frames(10, 11))
    for after in range(12):
        assert await read_all(rig.other, after=after) == frames(after + 1, 11)
    status = await rig.other.find("s")
    assert status is not None
    assert (status.head, status.first, status.last) == (head(), 1, 11)
    assert status.seal is not None
    assert status.seal.reason == ""


async def test_frames_may_have_any_bytes(rig: Rig) -> None:
    odd = [bytes(range(256)), b"\n", b"", b"\r\n" * 9]
    assert await rig.one.open(head())
    assert await rig.one.append([Batch("s", 1, odd[:2])]) == {}
    assert await rig.one.seal("s", first=3, frames=odd[2:])
    assert await read_all(rig.other) == odd


async def test_pages_have_at_most_the_bytes_that_were_asked_for_and_at_least_one_frame(rig: Rig) -> None:
    assert await rig.one.open(head())
    await rig.one.append([batch(1, 10, size=85)])
    sizes = {max_bytes: len((await rig.other.read("s", 2, max_bytes)).frames) for max_bytes in (0, 99, 280, 9_999)}
    assert sizes == {0: 1, 99: 1, 280: 2, 9_999: 8}
    page = await rig.other.read("s", 10, 100)
    assert (page.first, page.last, page.frames, page.seal) == (11, 10, [], None)


async def test_the_seal_comes_after_the_last_frame(rig: Rig) -> None:
    assert await rig.one.open(head())
    await rig.one.append([batch(1, 2)])
    await rig.one.seal("s", first=3, frames=frames(3, 4))
    seals = [(await rig.other.read("s", after, 20)).seal for after in (0, 1, 2, 3, 4, 9)]
    assert [seal is not None for seal in seals] == [False, False, False, True, True, True]


async def test_an_id_is_used_once(rig: Rig) -> None:
    assert await rig.one.open(head(owner="ann"))
    assert not await rig.other.open(head(owner="bob"))
    await rig.one.seal("s")
    assert not await rig.other.open(head(owner="bob"))
    status = await rig.other.find("s")
    assert status is not None
    assert status.head.owner == "ann"


@pytest.mark.parametrize(
    ("name", "before", "refused"),
    [
        ("sealed", lambda rig: rig.one.seal("s", first=3, frames=frames(3, 3)), "sealed"),
        ("sealed by another process", lambda rig: rig.other.seal("s", reason=INTERRUPTED), "sealed"),
        ("deleted", lambda rig: rig.other.delete("s"), "unknown"),
        ("old", lambda rig: rig.advance(SMALL.open_max_s + 1), "unknown"),
    ],
)
async def test_nothing_is_appended(
    rig: Rig, name: str, before: Callable[[Rig], Awaitable[object]], refused: str
) -> None:
    assert await rig.one.open(head())
    assert await rig.one.open(head("t"))
    await rig.one.append([batch(1, 2)])
    await before(rig)
    expected = {"s": refused, "t": refused} if name == "old" else {"s": refused}
    assert await rig.one.append([batch(3, 4), batch(1, 1, "t")]) == expected
    assert not await rig.one.seal("s", first=3, frames=frames(3, 4))
    assert (await rig.one.renew(["s"]))["s"].lost == refused


async def test_a_gap_is_refused_and_a_repetition_is_not(rig: Rig) -> None:
    assert await rig.one.open(head())
    assert await rig.one.append([batch(1, 3)]) == {}
    assert await rig.one.append([batch(1, 3)]) == {}, "the answer to the first call may have been lost"
    assert await rig.one.append([batch(5, 6)]) == {"s": "gap"}
    assert await read_all(rig.other) == frames(1, 3)


async def test_a_seal_after_a_gap_leaves_out_its_frames(rig: Rig) -> None:
    assert await rig.one.open(head())
    await rig.one.append([batch(1, 3)])
    assert await rig.one.seal("s", first=5, frames=frames(5, 6))
    page = await rig.other.read("s", 0, 1_000)
    assert (page.frames, page.seal and page.seal.reason) == (frames(1, 3), INTERRUPTED)


async def test_who_writes_a_missing_end_is_told_so(rig: Rig, request: pytest.FixtureRequest) -> None:
    """A store in memory has no streams of other processes."""
    told: list[str] = []
    for store in {rig.one, rig.other}:
        store.listen(ignored, told.append)
    for stream_id in ("s", "t"):
        assert await rig.one.open(head(stream_id))
        await rig.one.append([batch(1, 2, stream_id)])
    await rig.one.seal("t", first=3, frames=frames(3, 3))
    assert told == []
    for _ in range(2):
        await rig.other.seal("s", reason=INTERRUPTED)
    in_memory = request.node.callspec.params["rig"] in {"memory", "encrypted"}
    assert told == ([] if in_memory else ["s"])


async def test_one_of_many_callers_seals(rig: Rig) -> None:
    assert await rig.one.open(head())
    await rig.one.append([batch(1, 2)])
    sealed = await asyncio.gather(
        *(store.seal("s", reason=INTERRUPTED) for _ in range(5) for store in (rig.one, rig.other)),
        rig.one.seal("s", first=3, frames=frames(3, 3)),
    )
    assert sum(sealed) == 1
    assert await read_all(rig.other) in (frames(1, 2), frames(1, 3))


async def test_what_does_not_exist(rig: Rig) -> None:
    assert await rig.one.find("s") is None
    assert await rig.one.append([batch(1, 1)]) == {"s": "unknown"}
    assert not await rig.one.seal("s")
    assert not await rig.one.request_cancel("s")
    assert (await rig.one.renew(["s"]))["s"].lost == "unknown"
    await rig.one.delete("s")
    await rig.one.wait("s", 0, 1_000)
    with pytest.raises(UnknownStreamError):
        await rig.one.read("s", 0, 1)
    assert await rig.one.find("s") is None, "and nothing has created it"


# leases


@pytest.mark.parametrize("way", ["read", "find"])
async def test_a_lapsed_lease_seals(rig: Rig, way: str) -> None:
    assert await rig.one.open(head())
    await rig.one.append([batch(1, 3)])
    for _ in range(9):
        await rig.advance(RENEWAL_S)
        assert (await rig.one.renew(["s"]))["s"].lost is None
    assert (await rig.other.read("s", 3, 1)).seal is None
    await rig.advance(LEASE_S + 0.1)
    assert (await rig.other.read("s", 0, 1)).seal is None, "frames come first"
    page = await rig.other.read("s", 3, 1)
    if way == "find":
        status = await rig.other.find("s")
        assert status is not None
        assert status.seal == page.seal
    assert page.seal is not None
    assert page.seal.reason == INTERRUPTED
    assert await rig.one.append([batch(4, 4)]) == {"s": "sealed"}
    assert (await rig.one.renew(["s"]))["s"].lost == "sealed"


async def test_a_producer_that_was_late_goes_on_if_nobody_noticed(rig: Rig) -> None:
    assert await rig.one.open(head())
    await rig.advance(LEASE_S + 0.1)
    assert (await rig.one.renew(["s"]))["s"].lost is None
    assert await rig.one.append([batch(1, 1)]) == {}
    assert (await rig.other.read("s", 1, 1)).seal is None


async def test_how_long_nobody_has_read(rig: Rig) -> None:
    assert await rig.one.open(head())
    await rig.advance(5)
    assert (await rig.one.renew(["s"]))["s"].unread_ms == 5_000
    if isinstance(rig, LocalRig):
        await rig.other.read("s", 0, 1)
    else:
        while (await rig.one.renew(["s"]))["s"].unread_ms:  # it is seen with a check of leases, about every second
            await rig.other.wait("s", 0, 2.5)
    await rig.advance(2)
    assert (await rig.one.renew(["s"]))["s"].unread_ms == 2_000


# cancel


async def test_a_cancel_reaches_the_producer_once(rig: Rig) -> None:
    cancelled: list[str] = []
    called = asyncio.Event()
    rig.one.listen(lambda stream_id: (cancelled.append(stream_id), called.set())[0], ignored)
    assert await rig.one.open(head())
    assert await rig.other.request_cancel("s")
    assert await rig.other.request_cancel("s")
    await asyncio.wait_for(called.wait(), 60)
    assert cancelled == ["s"]
    assert (await rig.one.renew(["s"]))["s"].cancel_requested
    await rig.one.seal("s")
    assert not await rig.other.request_cancel("s")


# waiting


@pytest.mark.parametrize(
    "wake",
    [
        pytest.param(lambda store: store.append([batch(3, 3)]), id="append"),
        pytest.param(lambda store: store.seal("s", first=3, frames=frames(3, 3)), id="seal"),
        pytest.param(lambda store: store.seal("s", reason=INTERRUPTED), id="seal without frames"),
        pytest.param(lambda store: store.delete("s"), id="delete"),
    ],
)
async def test_all_who_wait_are_woken(rig: Rig, wake: Callable[[Store], Awaitable[object]]) -> None:
    assert await rig.one.open(head())
    await rig.one.append([batch(1, 2)])
    waiting = [asyncio.ensure_future(store.wait("s", 2, 600)) for store in (rig.one, rig.other) for _ in range(20)]
    await asyncio.sleep(0.05)
    await wake(rig.one)
    await asyncio.wait_for(asyncio.gather(*waiting), 60)


async def test_waiting_ends(rig: Rig) -> None:
    assert await rig.one.open(head())
    await rig.one.append([batch(1, 2)])
    await rig.other.wait("s", 2, 0.01)
    await rig.other.wait("s", 1, 60)
    await rig.one.seal("s")
    await rig.other.wait("s", 2, 60)


async def test_many_readers_see_the_same(rig: Rig) -> None:
    """Readers that start at any time, at their own pace, while the log is written."""

    async def follow(rig: Rig, after: int) -> list[bytes]:
        found: list[bytes] = []
        last = after
        while True:
            page = await rig.other.read("s", last, 100 + after)
            found += page.frames
            last = page.last
            if page.seal is not None:
                return found
            if not page.frames:
                await rig.other.wait("s", last, 5)

    assert await rig.one.open(head())
    await rig.one.append([batch(1, 40)])
    readers = [asyncio.ensure_future(follow(rig, after)) for after in range(0, 40, 4)]
    for first in range(41, 141, 5):
        await rig.one.append([batch(first, first + 4)])
        await asyncio.sleep(0)
    await rig.one.seal("s", first=141, frames=frames(141, 150))
    found = await asyncio.wait_for(asyncio.gather(*readers), 60)
    assert found == [frames(after + 1, 150) for after in range(0, 40, 4)]


# limits


async def test_a_log_over_its_limit_loses_its_first_frames(rig: Rig) -> None:
    assert await rig.one.open(head())
    for first in range(1, 1_000, 10):
        assert await rig.one.append([batch(first, first + 9)]) == {}
    status = await rig.other.find("s")
    assert status is not None
    assert status.last == 1_000
    assert 0 < status.last - status.first < SMALL.stream_frames
    with pytest.raises(TrimmedError):
        await rig.other.read("s", 0, 1)
    assert await read_all(rig.other, after=status.first - 1) == frames(status.first, 1_000)


async def test_a_frame_over_the_limit(rig: Rig) -> None:
    assert await rig.one.open(head())
    await rig.one.append([batch(1, 1), batch(2, 2, size=SMALL.stream_bytes)])
    with pytest.raises(TrimmedError):
        await rig.other.read("s", 0, 1)
    await rig.one.append([batch(3, 3)])
    assert await read_all(rig.other, after=2) == frames(3, 3)


async def test_an_owner_has_so_many_streams(rig: Rig) -> None:
    for number in range(SMALL.owner_streams):
        assert await rig.one.open(head(f"s{number}"))
    with pytest.raises(StoreFullError):
        await rig.one.open(head("more"))
    assert await rig.one.open(head("bob's", owner="bob"))
    await rig.one.seal("s2")
    await rig.advance(1)
    await rig.one.seal("s1")
    assert await rig.one.open(head("more"))
    assert await rig.one.find("s2") is None, "it was sealed first"
    assert await rig.one.find("s1") is not None
    assert await rig.one.find("bob's") is not None


async def test_a_store_has_so_many_streams(rig: Rig) -> None:
    for number in range(SMALL.total_streams):
        assert await rig.one.open(head(f"s{number}", owner=f"owner {number}"))
    with pytest.raises(StoreFullError):
        await rig.one.open(head("more", owner="bob"))
    await rig.one.seal("s3")
    assert await rig.one.open(head("more", owner="bob"))
    assert await rig.one.find("s3") is None


async def test_logs_are_kept_for_a_time_after_their_seal(rig: Rig) -> None:
    assert await rig.one.open(head())
    await rig.one.append([batch(1, 2)])
    await rig.one.seal("s")
    await rig.advance(SMALL.retention_s - 1)
    assert await read_all(rig.other) == frames(1, 2)
    await rig.advance(2)
    assert await rig.other.find("s") is None
    with pytest.raises(UnknownStreamError):
        await rig.other.read("s", 0, 1)


# values


async def test_values(rig: Rig) -> None:
    assert await rig.one.get("k", ["a"]) == [None]
    assert await rig.one.claim("k", {"a": b"1"}, 60) == {"a": b"1"}
    assert await rig.other.claim("k", {"a": b"2"}, 60) == {"a": b"1"}
    assert await rig.other.get("k", ["a"]) == [b"1"]
    assert await rig.other.get("other", ["a"]) == [None], "kinds are apart"
    await rig.one.put("k", {"a": b"3"}, 60)
    assert await rig.other.get("k", ["a"]) == [b"3"]
    await rig.other.update("k", ["a"], lambda _: [None], 0)
    await rig.other.update("k", ["a"], lambda _: [None], 0)
    assert await rig.one.get("k", ["a"]) == [None]


async def test_many_values(rig: Rig) -> None:
    await rig.one.put("k", {"b": b"2"}, 60)
    claimed = await rig.other.claim("k", {"a": b"1", "b": b"new", "c": b"3"}, 60)
    assert claimed == {"a": b"1", "b": b"2", "c": b"3"}
    assert await rig.one.get("k", ["c", "none", "b", "a", "c"]) == [b"3", None, b"2", b"1", b"3"]
    assert await rig.one.get("k", []) == []
    assert await rig.one.claim("k", {}, 60) == {}
    await rig.advance(61)
    assert await rig.one.get("k", ["a", "b", "c"]) == [None] * 3


async def test_values_expire(rig: Rig) -> None:
    await rig.one.put("k", {"a": b"1"}, 60)
    await rig.one.claim("k", {"b": b"1"}, 10)
    await rig.advance(11)
    assert await rig.other.get("k", ["a", "b"]) == [b"1", None]
    assert await rig.other.claim("k", {"b": b"2"}, 10) == {"b": b"2"}


async def test_one_of_many_claims_wins(rig: Rig) -> None:
    stores = [rig.one, rig.other] * 5
    found = await asyncio.gather(*(store.claim("k", {"a": b"%d" % n}, 60) for n, store in enumerate(stores)))
    assert len({one["a"] for one in found}) == 1


async def test_updates_are_not_lost(rig: Rig) -> None:
    def add(values: Sequence[bytes | None]) -> Sequence[bytes | None]:
        return [b"%d" % (int(value or b"0") + 1) for value in values]

    await asyncio.gather(*(store.update("k", ["x|a", "x|b"], add, 60) for store in [rig.one, rig.other] * 10))
    assert await rig.one.get("k", ["x|a", "x|b"]) == [b"20", b"20"]
    await rig.one.update("k", ["x|a", "x|b"], lambda _: None, 60)
    await rig.one.update("k", ["x|a"], lambda _: [None], 60)
    assert await rig.one.get("k", ["x|a", "x|b"]) == [None, b"20"]


async def test_updates_of_one_process_do_not_repeat_each_other(rig: Rig) -> None:
    """Those of a caller with many requests at once would hold up all others."""
    made: list[Sequence[bytes | None]] = []

    def change(values: Sequence[bytes | None]) -> Sequence[bytes | None]:
        made.append(values)
        return [b"1"]

    await asyncio.gather(*(rig.one.update("k", ["a"], change, 60) for _ in range(20)))
    assert len(made) == 20


async def test_budgets_are_shared(rig: Rig) -> None:
    minute, day = Limit("requests", 60.0, 10), Limit("tokens", 86_400.0, 1_000, "agent")
    taken = [await store.budgets.take("ann", [(minute, 1), (day, 50)]) for store in [rig.one, rig.other] * 6]
    assert [bool(receipts) for _, receipts in taken] == [True] * 10 + [False] * 2
    levels, _ = taken[-1]
    assert [level.remaining for level in levels] == [0, 500]
    assert (levels[0].wait_s, levels[1].wait_s) == (6.0, 0.0)
    await rig.other.budgets.settle([(taken[0][1][1], 0.0), (taken[1][1][1], 100.0)])
    (level,), _ = await rig.one.budgets.take("ann", [(day, 0)])
    assert level.remaining == 500
    await rig.advance(6)
    assert (await rig.other.budgets.take("ann", [(minute, 1)]))[1]
    assert not (await rig.other.budgets.take("ann", [(minute, 1)]))[1]
    assert (await rig.other.budgets.take("bob", [(minute, 1)]))[1]


async def test_recent_streams_are_those_that_run_and_then_those_sealed_last(rig: Rig) -> None:
    for number, owner in enumerate(["ann", "bob", "ann", "bob"]):
        assert await rig.one.open(head(f"s{number}", owner))
        assert await rig.one.append([batch(1, 2, f"s{number}")]) == {}
        await rig.advance(0.1)
    ending = b'{"outcome":"completed"}'
    assert await rig.one.seal("s2", first=3, frames=frames(3, 3), ending=ending)
    await rig.advance(0.1)
    assert await rig.one.seal("s0", first=9, frames=frames(9, 9), ending=b"{}"), "its frames do not follow"

    async def ids(count: int, owner: str | None = None) -> list[str]:
        return [status.head.stream_id for status in await rig.other.recent(count, owner)]

    assert await ids(9) == ["s3", "s1", "s0", "s2"]
    assert await ids(3) == ["s3", "s1", "s0"]
    assert (await ids(9, "ann"), await ids(1, "bob"), await ids(9, "eve")) == (["s0", "s2"], ["s3"], [])
    statuses = await rig.other.recent(9)
    assert statuses == [await rig.other.find(status.head.stream_id) for status in statuses]
    sealed = [(status.seal.reason, status.seal.ending) for status in statuses[2:] if status.seal is not None]
    assert sealed == [(INTERRUPTED, b""), ("", ending)]
    page = await rig.other.read("s2", 3, 1)
    assert page.seal == statuses[3].seal
    await rig.advance(SMALL.retention_s + 1)
    assert await ids(9, "ann") == []


async def test_ping_and_close(rig: Rig) -> None:
    await rig.one.ping()
    await rig.one.aclose()
    await rig.one.aclose()


@pytest.mark.parametrize("store", LOCAL)
async def test_a_store_of_one_process_is_never_over_its_limits(store: str) -> None:
    """Sealed logs go first, the oldest first; then logs that grow lose their first frames."""
    async with LOCAL[store](SMALL) as rig:
        for number in range(5):
            assert await rig.one.open(head(f"s{number}", owner=f"owner {number % 2}"))
            assert await rig.one.append([batch(1, 20, f"s{number}", size=600)]) == {}
            if number < 3:
                assert await rig.one.seal(f"s{number}")
            await rig.advance(0.1)
        statuses = [await rig.one.find(f"s{number}") for number in range(5)]
        kept = [status is not None for status in statuses]
        assert kept == sorted(kept), "the first are dropped first"
        assert not kept[0]
        assert kept[3:] == [True, True], "they are not sealed"
        assert await rig.one.open(head("s5", owner="owner 5"))
        for first in range(1, 201, 20):
            assert await rig.one.append([batch(first, first + 19, "s5", size=600)]) == {}
        sizes = [sum(map(len, await _kept_frames(rig.one, f"s{number}"))) for number in (3, 4, 5)]
        assert SMALL.total_bytes / 2 < sum(sizes) <= SMALL.total_bytes


async def _kept_frames(store: Store, stream_id: str) -> list[bytes]:
    status = await store.find(stream_id)
    assert status is not None
    return await read_all(store, stream_id, after=status.first - 1)


BAD = "\ud800"  # no Unicode: it has no UTF-8


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("get", lambda store: store.get("response", ["resp_1", BAD])),
        ("claim", lambda store: store.claim("response", {BAD: b"1"}, 60)),
        ("put", lambda store: store.put("response", {BAD: b"1"}, 60)),
        ("update", lambda store: store.update("response", [BAD], lambda _: [b"1"], 60)),
        ("find", lambda store: store.find(BAD)),
        ("read", lambda store: store.read(BAD, 0, 1_000)),
        ("wait", lambda store: store.wait(BAD, 0, 0.01)),
        ("open", lambda store: store.open(head(BAD))),
        ("open for an owner", lambda store: store.open(head("t", owner=BAD))),
        ("append", lambda store: store.append([batch(1, 1, BAD)])),
        ("seal", lambda store: store.seal(BAD)),
        ("recent", lambda store: store.recent(9, BAD)),
        ("budgets", lambda store: store.budgets.take(BAD, [(Limit("requests", 60.0, 9), 1)])),
    ],
)
async def test_a_text_that_is_not_unicode_is_refused_alone(
    rig: Rig, name: str, call: Callable[[Store], Awaitable[object]]
) -> None:
    """What others ask for at the same time succeeds, and the store has not failed."""
    assert await rig.one.open(head())
    await rig.one.put("response", {"resp_1": b"ann"}, 60)
    [*before, refused, found, appended] = await asyncio.gather(
        rig.one.get("response", ["resp_1"]),
        rig.one.find("s"),
        call(rig.one),
        rig.one.get("response", ["resp_1", "resp_2"]),
        rig.one.append([batch(1, 2)]),
        return_exceptions=True,
    )
    assert not isinstance(refused, BaseException) or isinstance(refused, UnicodeEncodeError | UnknownStreamError), name
    assert (before[0], found, appended) == ([b"ann"], [b"ann", None], {})
    await rig.one.ping()
    assert await rig.one.open(head("u"))
    assert await rig.one.seal("s", first=3, frames=frames(3, 4))
    assert await read_all(rig.other) == frames(1, 4)
