"""The runs of one server, by id: whose they are, how many are kept, how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import anyio

from projector.core.faults import FAULTS
from projector.openwop.host.log import RunLog
from projector.openwop.host.refusals import Refusal
from projector.openwop.host.run import Run, Work
from projector.openwop.host.settings import OpenWop
from projector.server.http.problems import problem


class Origin(NamedTuple):
    """Where a run comes from: the name that its caller gave the request, and what the request was."""

    caller: str
    key: str
    digest: bytes


class Runs:
    """What is kept of runs, in this process only."""

    def __init__(self, settings: OpenWop) -> None:
        self._settings = settings
        self._runs: dict[str, Run] = {}  # in the order in which they began
        self._by_key: dict[tuple[str, str], tuple[bytes, Run]] = {}
        self._keys: dict[str, tuple[str, str]] = {}
        """The origin of a run, by its id, where the request had a name."""
        self._held_bytes = 0
        self._forgetting: dict[str, asyncio.TimerHandle] = {}

    def begin(self, run_id: str, workflow_id: str, caller: str) -> Run:
        """Make a run that has not started.

        Raises:
            Problem: there is no room for it, because all that are kept still run.
        """
        settings = self._settings
        if not self._make_room(self._is_full):
            raise problem("overloaded")
        run = Run(
            run_id, workflow_id, caller, RunLog(run_id, settings.max_run_bytes, self._hold), settings.approval_timeout_s
        )
        self._runs[run_id] = run
        return run

    def known(self, origin: Origin) -> Run | None:
        """Give the run that a request has begun already, None where it has not.

        Raises:
            Refusal: another request had this name.
        """
        digest, run = self._by_key.get((origin.caller, origin.key), (origin.digest, None))
        if digest != origin.digest:
            raise Refusal("idempotency_key_mismatch")
        return run

    def name(self, run: Run, origin: Origin) -> None:
        """Note where a run comes from, for as long as it is kept."""
        self._keys[run.run_id] = origin.caller, origin.key
        self._by_key[origin.caller, origin.key] = origin.digest, run

    def start(self, run: Run, work: Work) -> None:
        """Start a run; its log is forgotten some time after its end."""
        run.start(work, self._on_end)

    def discard(self, run: Run) -> None:
        """Forget a run that could not start."""
        self._forget(run.run_id)

    def get(self, run_id: str, caller: str) -> Run:
        """Give a run of a caller.

        Raises:
            Refusal: there is none of this id, or it is another's.
        """
        run = self._runs.get(run_id)
        if run is None or run.caller != caller:
            raise Refusal("not_found")
        return run

    def end_waiting(self) -> None:
        """End the runs that wait for a person: a server that ends does not wait for them."""
        for run in list(self._runs.values()):
            if run.log.state.pending:
                run.fail(FAULTS["server_shutdown"])

    async def aclose(self) -> None:
        """End all runs and forget them."""
        for run in list(self._runs.values()):
            run.fail(FAULTS["server_shutdown"])
        with anyio.CancelScope(shield=True):
            for run in list(self._runs.values()):
                await run.ended()
        for run_id in list(self._runs):
            self._forget(run_id)

    def _hold(self, n_bytes: int) -> bool:
        self._held_bytes += n_bytes
        return self._make_room(lambda: self._held_bytes > self._settings.max_log_bytes)

    def _is_full(self) -> bool:
        return len(self._runs) >= self._settings.max_runs or self._held_bytes >= self._settings.max_log_bytes

    def _make_room(self, is_short: Callable[[], bool]) -> bool:
        """Forget the oldest runs that have ended while there is no room; give whether there is some now."""
        while is_short():
            ended = next((run_id for run_id, run in self._runs.items() if run.log.state.is_over), None)
            if ended is None:
                return False
            self._forget(ended)
        return True

    def _on_end(self, run: Run) -> None:
        if run.run_id in self._runs:
            loop = asyncio.get_running_loop()
            self._forgetting[run.run_id] = loop.call_later(self._settings.retention_s, self._forget, run.run_id)

    def _forget(self, run_id: str) -> None:
        timer = self._forgetting.pop(run_id, None)
        if timer is not None:
            timer.cancel()
        if run_id in self._keys:
            del self._by_key[self._keys.pop(run_id)]
        self._held_bytes -= self._runs.pop(run_id).log.held_bytes
