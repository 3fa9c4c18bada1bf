"""Webhooks: subscriptions of callers, callback URLs of runs, and the deliveries to both.

Each receiver gets its events one after another. A failed delivery is repeated with a growing delay; after the last
attempt the event is dropped, and so are new events while too many wait. Copied events of forks are not delivered.
"""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from math import inf
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import aiohttp
import anyio

from projector.contracts import codec
from projector.core.context import Timestamps
from projector.openwop.event_log import RUN_TERMINALS
from projector.openwop.host import run_requests
from projector.openwop.host.endpoint import HostRequest
from projector.openwop.host.host_errors import HostError
from projector.openwop.host.run_log import LogEntry
from projector.openwop.host.settings import OpenWopSettings
from projector.openwop.host.webhook_requests import WebhookSender
from projector.server.control.rate_limits import owner_of
from projector.server.http.problems import problem
from projector.server.telemetry.logs import log
from projector.store.protocol import Store, StoreUnavailableError

ALL_EVENTS: Final = "*"
CALLBACK_EVENTS: Final = RUN_TERMINALS | {"node.suspended"}
"""Events that are sent to the `callbackUrl` of a run: a person or program has something to do."""
WAITING_MAX: Final = 1_000
"""Events that may wait for one receiver."""
CLOSE_S: Final = 5.0
"""Seconds that deliveries get when the server stops."""
SECRET_BYTES: Final = 32
KIND: Final = "openwop-webhooks"
"""Kind of the values of a store that are the subscriptions of a caller."""
KEPT_S: Final = 30 * 86_400.0
"""Seconds that subscriptions are kept after the last change."""
READ_S: Final = 1.0
"""Seconds after which subscriptions are read again, which another server may have changed."""

Row: TypeAlias = list[Any]
"""A subscription: the arguments of `Receiver`."""

_RETRYABLE: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})


@dataclass(eq=False, slots=True)
class Receiver:
    """One URL of a caller, with the events that wait for it."""

    receiver_id: str
    caller: str
    url: str
    secret: str
    events: Collection[str]
    waiting: deque[tuple[str, LogEntry]] = field(default_factory=deque)
    """Ids of deliveries, and their events."""
    task: asyncio.Task[None] | None = None

    def wants(self, event_type: str) -> bool:
        """Return whether events of a type are delivered."""
        return event_type in self.events or ALL_EVENTS in self.events


Arrival: TypeAlias = tuple[Receiver | None, str, LogEntry]
"""An event of a run: the receiver of the run, the ID of the event, and the event."""


class Webhooks:
    """Receivers of all callers. Subscriptions are in the store; what waits for a receiver is in this process."""

    def __init__(self, settings: OpenWopSettings, store: Store) -> None:
        self._settings = settings
        self._sender = WebhookSender(settings.webhook_networks)
        self._store = store
        self._receivers: dict[str, Receiver] = {}
        """Receivers that this process has delivered to, or is about to."""
        self._read_at: dict[str, float] = {}
        """Caller -> when its subscriptions were read, in seconds of `time.monotonic`."""
        self._arrived: dict[str, deque[Arrival]] = {}
        """Caller -> events that are not yet with their receivers, while a task brings them there."""
        self._busy: set[asyncio.Task[None]] = set()

    async def on_register(self, request: HostRequest) -> None:
        """Handle `POST /v1/webhooks`."""
        await request.admission()
        body = run_requests.webhook_request(await request.body())
        receiver = await self.register(request.caller, body.url, body.events, body.secret)
        created = {
            "subscriptionId": receiver.receiver_id,
            "url": body.url,
            "secret": receiver.secret,
            "eventTypes": body.events,
            "createdAt": Timestamps().write(time.time()),
        }
        await request.answer(created, HTTPStatus.CREATED)

    async def on_unregister(self, request: HostRequest) -> None:
        """Handle `DELETE /v1/webhooks/{id}`."""
        await self.unregister(request.path["webhook_id"], request.caller)
        await request.answer(b"", HTTPStatus.NO_CONTENT)

    async def register(self, caller: str, url: str, events: Collection[str], secret: str | None) -> Receiver:
        """Add a subscription of a caller; raise `HostError` if the URL is not allowed or it has too many."""
        self.check_url(url, "url")
        receiver_id = f"wh_{uuid.uuid4().hex}"
        receiver = Receiver(receiver_id, caller, url, secret or secrets.token_urlsafe(SECRET_BYTES), frozenset(events))
        row = [receiver_id, caller, url, receiver.secret, sorted(events)]
        most = self._settings.max_caller_webhooks
        if not await self._change(caller, lambda rows: [*rows, row] if len(rows) < most else None):
            raise HostError("rate_limited", "Too many webhooks of this caller.")
        return receiver

    async def unregister(self, receiver_id: str, caller: str) -> None:
        """Remove a subscription, and drop what waits for it; raise `HostError` if the caller has no such one."""
        name = [receiver_id, caller]

        def without(rows: list[Row]) -> list[Row] | None:
            kept = [row for row in rows if row[:2] != name]
            return kept if len(kept) < len(rows) else None

        if not await self._change(caller, without):
            raise HostError("subscription_not_found")
        if receiver_id in self._receivers:
            self._receivers.pop(receiver_id).waiting.clear()

    async def _change(self, caller: str, change: Callable[[list[Row]], list[Row] | None]) -> bool:
        """Change the subscriptions of a caller in the store; return false if `change` returns None."""
        is_changed = False

        def changed(values: Sequence[bytes | None]) -> list[bytes | None] | None:
            nonlocal is_changed
            rows = change([] if values[0] is None else codec.loads(values[0]))
            is_changed = rows is not None
            return None if rows is None else [codec.dumps(rows)]

        try:
            await self._store.update(KIND, [owner_of(caller)], changed, KEPT_S)
        except StoreUnavailableError:
            raise problem("overloaded") from None
        self._read_at.pop(owner_of(caller), None)
        return is_changed

    def callback(self, run_id: str, caller: str, url: str) -> Receiver:
        """Return the receiver of the callback URL of a run; raise `HostError` if it is not allowed."""
        return Receiver(run_id, caller, url, self.check_callback(url), CALLBACK_EVENTS)

    def check_callback(self, url: str) -> str:
        """Return the key that signs the deliveries to a callback URL; raise `HostError` if it is not allowed."""
        key = self._settings.webhook_secret
        if key is None:
            raise HostError("capability_not_provided", "`callbackUrl` is not supported: there is no `webhook_secret`.")
        self.check_url(url, "callbackUrl")
        return key.get_secret_value()

    def check_url(self, url: str, member: str) -> None:
        """Raise `HostError` if the origin of a URL is not one of those that the settings name."""
        if not self._settings.webhook_origins:
            raise HostError("capability_not_provided", f"`{member}` is not supported: there are no `webhook_origins`.")
        try:
            parts = urlsplit(url)
        except ValueError:
            parts = urlsplit("")
        is_plain = url.isascii() and url.isprintable() and " " not in url  # what parsers may read differently
        if not is_plain or f"{parts.scheme}://{parts.netloc}".lower() not in self._settings.webhook_origins:
            raise HostError("validation_error", f"`{member}`: expected a URL of one of the configured origins.")

    def notify(self, caller: str, run_receiver: Receiver | None, event_id: str, entry: LogEntry) -> None:
        """Deliver an event of a run of a caller to all that want it."""
        if not self._settings.webhook_origins:
            return
        arrived = self._arrived.get(caller)
        if arrived is not None:
            arrived.append((run_receiver, event_id, entry))
            return
        self._arrived[caller] = deque([(run_receiver, event_id, entry)])
        self._begin(self._bring(caller))

    async def _bring(self, caller: str) -> None:
        """Bring the events of a caller to their receivers, in order."""
        arrived = self._arrived[caller]
        while arrived:
            receivers = await self._receivers_of(caller)
            run_receiver, event_id, entry = arrived.popleft()
            for receiver in [*receivers, *([] if run_receiver is None else [run_receiver])]:
                if receiver.wants(entry.type):
                    self._enqueue(receiver, event_id, entry)
        del self._arrived[caller]

    async def _receivers_of(self, caller: str) -> list[Receiver]:
        """Return the receivers of a caller, from the store if they were not read lately."""
        owner, now = owner_of(caller), time.monotonic()
        if now - self._read_at.get(owner, -inf) > READ_S:
            try:
                value = await self._store.get(KIND, owner)
            except StoreUnavailableError:
                value = None
            else:
                self._read_at[owner] = now
                rows = [] if value is None else codec.loads(value)
                found = {row[0]: self._receivers.get(row[0]) or Receiver(*row) for row in rows}
                gone = [one for one in self._receivers.values() if owner_of(one.caller) == owner]
                for receiver in gone:
                    del self._receivers[receiver.receiver_id]
                self._receivers |= found
        return [one for one in self._receivers.values() if one.caller == caller]

    async def aclose(self) -> None:
        """Wait a moment for pending deliveries, then drop them."""
        with anyio.move_on_after(CLOSE_S):
            while self._busy:  # bringing an event begins its delivery
                await asyncio.wait([*self._busy])
        for task in self._busy:
            task.cancel()
        await self._sender.aclose()

    def _enqueue(self, receiver: Receiver, event_id: str, entry: LogEntry) -> None:
        if len(receiver.waiting) >= WAITING_MAX:
            log.warning("webhook_dropped", webhook=receiver.receiver_id, reason="too_many")
            return
        receiver.waiting.append((event_id, entry))
        if receiver.task is None:
            receiver.task = self._begin(self._deliver_all(receiver))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)
        return task

    async def _deliver_all(self, receiver: Receiver) -> None:
        while receiver.waiting:
            event_id, entry = receiver.waiting.popleft()
            reason = await self._deliver(receiver, event_id, entry)
            if reason is not None:
                log.warning("webhook_dropped", webhook=receiver.receiver_id, reason=reason)
        receiver.task = None

    async def _deliver(self, receiver: Receiver, event_id: str, entry: LogEntry) -> str | None:
        """Send an event until it is accepted; return why it was not."""
        headers = {
            "X-openwop-Event": entry.type,
            "X-openwop-Delivery": event_id,
            "X-openwop-Subscription": receiver.receiver_id,
        }
        delay_s, reason = self._settings.webhook_backoff_s, ""
        for attempt in range(self._settings.webhook_attempts):
            if attempt:
                await anyio.sleep(delay_s)
                delay_s *= 2
            try:
                status = await self._sender.post(receiver.url, receiver.secret, entry.data, headers)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                reason = type(error).__name__
                continue
            if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
                return None
            reason = f"http_{status}"
            if status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _RETRYABLE:
                break
        return reason
