"""One run of the OpenWOP host has exactly one terminal event, at its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from projector.core.faults import FAULTS, Fault
from projector.openwop.run_log import RunLog
from projector.openwop.runs import REJECTED, HostRun, RunEndedError, Work

Does = Callable[[HostRun], Awaitable[None]]


class Scripted(Work):
    """Work that runs the function of a row."""

    def __init__(self, does: Does, *, is_mute: bool = False) -> None:
        self._does = does
        self._is_mute = is_mute
        self.closed = 0

    async def run(self, run: HostRun) -> None:
        await self._does(run)

    def end(self, run: HostRun, fault: Fault | None) -> None:
        if not self._is_mute:
            error = {"error": {"code": fault.code, "message": "m"}} if fault else {}
            run.log.emit("run.failed" if fault else "run.cancelled", error)

    async def close(self) -> None:
        self.closed += 1


async def complete(run: HostRun) -> None:
    run.log.emit("run.started", {})
    run.log.emit("run.completed", {})


async def crash(_run: HostRun) -> None:
    raise KeyError("a secret")


async def crash_late(run: HostRun) -> None:
    await complete(run)
    raise KeyError("a secret")


async def fail(_run: HostRun) -> None:
    raise RunEndedError(REJECTED)


async def forget(run: HostRun) -> None:
    run.log.emit("run.started", {})


async def wait(run: HostRun) -> None:
    run.log.emit("run.started", {})
    run.log.emit("node.suspended", {"nodeId": "n", "interruptId": "i", "kind": "approval"}, node_id="n")
    await run.answers()


async def cancel_itself(run: HostRun) -> None:
    run.stop(None)
    run.stop(REJECTED)
    raise RunEndedError


async def fail_while_stopped(run: HostRun) -> None:
    run.stop(None)
    raise RunEndedError(REJECTED)


ROWS: list[tuple[str, Does, bool, str, str | None]] = [
    ("it says its end", complete, False, "run.completed", None),
    ("it crashes", crash, False, "run.failed", "internal_error"),
    ("it crashes and cannot say its end", crash, True, "run.failed", "internal_error"),
    ("it crashes behind its end", crash_late, False, "run.completed", None),
    ("it fails", fail, False, "run.failed", "rejected"),
    ("it fails and cannot say its end", fail, True, "run.failed", "rejected"),
    ("it forgets its end", forget, True, "run.failed", "internal_error"),
    ("nobody answers", wait, False, "run.failed", "interrupt_timeout"),
    ("it is cancelled, then failed", cancel_itself, False, "run.cancelled", None),
    ("it fails because it was cancelled", fail_while_stopped, False, "run.cancelled", None),
]


def new_run() -> HostRun:
    return HostRun("run_1", "w", "me", RunLog("run_1", 10_000, lambda _: True), approval_timeout_s=0.05)


@pytest.mark.parametrize(("name", "does", "is_mute", "last", "code"), ROWS, ids=[row[0] for row in ROWS])
async def test_every_run_has_one_end(name: str, does: Does, last: str, code: str | None, *, is_mute: bool) -> None:
    del name
    run, work, ended = new_run(), Scripted(does, is_mute=is_mute), []
    with capture_logs() as logs:
        run.start(work, ended.append)
        await run.ended()
    ends = [entry.type for entry in run.log.entries if entry.type in {"run.completed", "run.failed", "run.cancelled"}]
    assert ends == [last]
    assert run.log.entries[-1].type == last
    assert (run.log.state.error or {}).get("code") == code
    assert (work.closed, ended) == (1, [run])
    assert run._work is None
    assert "a secret" not in repr(logs)
    run.stop(None)
    assert run.log.entries[-1].type == last


async def test_a_run_stopped_before_it_starts_does_nothing() -> None:
    run, work = new_run(), Scripted(complete)
    run.start(work, lambda _: None)
    run.stop(FAULTS["server_shutdown"])
    await run.ended()
    assert [entry.type for entry in run.log.entries] == ["run.failed"]
