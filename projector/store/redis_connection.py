"""Connections to Redis: time-outs, back-off, and errors of the project's own.

Commands that are asked for at the same time are sent together: a round trip costs far more than a command. Another
client has a single connection that blocks, for all readers.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Any, Final, TypeAlias, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as NoConnectionError
from redis.exceptions import TimeoutError as NoAnswerError

from projector.store.protocol import StoreUnavailableError, UnreadableError

Command: TypeAlias = tuple[Any, ...]
_Answer = TypeVar("_Answer")

COMMAND_S: Final = 2.0
"""Seconds until an answer. Redis answers within milliseconds; longer than this the server goes on without it."""
BLOCK_MS: Final = 1_000
"""Time of one blocking read; after it leases are checked. Below the time-out of the socket, or the read is repeated."""
_SENDERS: Final = 2
"""Round trips at the same time. A second one goes on while the first brings a large page."""
_TOGETHER_MAX: Final = 1_000
"""Commands of a round trip; more would let the first wait."""
_POOL: Final = 8
"""Connections for transactions and senders."""
_STOPPED_S: Final = 1.0
"""How much longer than its time-out a command waited if this process was stopped meanwhile, as with its virtual
machine: time-outs are noticed before the answers that have arrived, and say nothing of Redis."""
_GAP_S: Final = BLOCK_MS / 1_000 + 1.5
"""Seconds without an answer after which it is not known whether Redis was there. Blocking reads get one a second."""
_BACKOFF_S: Final = 0.1
_BACKOFF_MAX_S: Final = 0.5
"""After failures no connection is tried for this time, doubled with each: calls fail at once."""


class Connection:
    """The clients of one server.

    Args:
        url: `redis://` or `rediss://`, with credentials if they are needed.
        ca_file: certificates of authorities that are trusted instead of those of the system.
        blocks: how many commands may block at the same time.
    """

    def __init__(self, url: str, ca_file: str | None = None, blocks: int = 1) -> None:
        options: dict[str, Any] = {
            "protocol": 2,
            "decode_responses": False,
            "socket_connect_timeout": COMMAND_S,
            "health_check_interval": 0,
            # a pooled connection may be broken since its last use: commands are repeated once, and bear it
            "retry": Retry(NoBackoff(), 1, supported_errors=(NoConnectionError,)),
        }
        if ca_file is not None:
            options["ssl_ca_certs"] = ca_file
        pool = BlockingConnectionPool.from_url(
            url, max_connections=_POOL, timeout=COMMAND_S, socket_timeout=COMMAND_S, **options
        )
        self._client: Any = Redis(connection_pool=pool)
        waiting = BlockingConnectionPool.from_url(
            url, max_connections=blocks, timeout=COMMAND_S, socket_timeout=BLOCK_MS / 1_000 + COMMAND_S, **options
        )
        self._waiting: Any = Redis(connection_pool=waiting)
        for client in (self._client, self._waiting):
            client.response_callbacks.pop("SET")  # it makes a truth value of the present one
        self._asked: deque[tuple[Sequence[Command], asyncio.Future[list[Any]]]] = deque()
        self._senders: set[asyncio.Task[None]] = set()
        self._transactions = asyncio.Semaphore(_POOL - _SENDERS)
        self._backoff_s = _BACKOFF_S
        self._down_until_s = 0.0
        self._present_since_s = self._answered_s = -inf
        self.failures = 0
        """How often there was no answer: after one, the server may have lost what it had answered to."""

    @property
    def present_s(self) -> float:
        """Seconds for which Redis is known to answer and write; 0 if it is away, or was not asked for a while."""
        now_s = time.monotonic()
        return now_s - self._present_since_s if now_s - self._answered_s <= _GAP_S else 0.0

    async def run(self, *command: Any) -> Any:
        """Send one command; return its answer.

        Raises:
            StoreUnavailableError: Redis is away, or refuses the command.
        """
        return accepted(await self.run_all([command]))[0]

    async def run_all(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands together; return their answers. Errors of single commands are among them.

        Raises:
            UnicodeEncodeError: an argument is not valid Unicode; nothing is sent.
            StoreUnavailableError: Redis is away, or the commands could not be sent.
        """
        if not commands:
            return []
        commands = self._encoded(commands)  # an error in a round trip would be one of all callers
        self._check()
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._asked.append((commands, future))
        self._start_sender()
        return _without_failure(await future)

    async def run_transaction(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands as one step; return their answers. Errors of single commands are among them."""
        commands = self._encoded(commands)
        async with self._transactions, self._checked():
            return _without_failure(await self._execute(commands, is_transaction=True))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Return a pipeline for `watch` and `multi`."""
        async with self._transactions, self._checked(), self._client.pipeline(transaction=True) as pipeline:
            yield pipeline

    async def block(self, *command: Any) -> Any:
        """Send a command that blocks for at most `BLOCK_MS`."""
        async with self._checked():
            return await _awake(lambda: self._waiting.execute_command(*command), BLOCK_MS / 1_000 + COMMAND_S)

    async def aclose(self) -> None:
        """Close all connections."""
        while self._asked:
            self._asked.popleft()[1].cancel()
        for sender in [*self._senders]:
            sender.cancel()
        for client in (self._waiting, self._client):
            await client.aclose(close_connection_pool=True)

    def _encoded(self, commands: Sequence[Command]) -> list[Command]:
        """Return commands with arguments in bytes; redis-py knows a command by the text of its name."""
        encode = self._client.get_encoder().encode
        return [(name, *map(encode, arguments)) for name, *arguments in commands]

    def _start_sender(self) -> None:
        if self._asked and len(self._senders) < _SENDERS:
            sender = asyncio.create_task(self._send())
            self._senders.add(sender)
            sender.add_done_callback(self._on_sent)

    def _on_sent(self, sender: asyncio.Task[None]) -> None:
        self._senders.discard(sender)
        self._start_sender()  # for what was asked between the end of the task and this call

    async def _send(self) -> None:
        """Send what was asked for, until there is nothing more."""
        await asyncio.sleep(0)  # others may ask in the same turn of the event loop
        while self._asked:
            sent: list[tuple[Sequence[Command], asyncio.Future[list[Any]]]] = []
            count = 0
            while self._asked and count < _TOGETHER_MAX:
                sent.append(self._asked.popleft())
                count += len(sent[-1][0])
            try:
                async with self._checked():
                    answers = await self._execute([one for commands, _ in sent for one in commands])
            except Exception as error:  # noqa: BLE001 - its callers get it, and the next commands are sent
                for _, future in sent:
                    if not future.done():
                        future.set_exception(_failure(error))
            else:
                for commands, future in sent:
                    part, answers = answers[: len(commands)], answers[len(commands) :]
                    if not future.done():
                        future.set_result(part)
            finally:
                for _, future in sent:
                    future.cancel()  # without effect, unless this task was cancelled

    async def _execute(self, commands: Sequence[Command], *, is_transaction: bool = False) -> list[Any]:
        async def ask() -> list[Any]:
            async with self._client.pipeline(transaction=is_transaction) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                answers: list[Any] = await pipeline.execute(raise_on_error=False)
                return answers

        answers = await _awake(ask, COMMAND_S)
        if any(isinstance(answer, ReadOnlyError) for answer in answers):
            await self._client.connection_pool.disconnect()
            raise NoConnectionError("a replica")  # the address leads to another server after a failover
        if any(map(_refuses_writes, answers)):
            self._answered_s = -inf  # producers cannot renew their leases
        return answers

    def _check(self) -> None:
        if time.monotonic() < self._down_until_s:
            raise StoreUnavailableError("Redis did not answer lately")

    @asynccontextmanager
    async def _checked(self) -> AsyncIterator[None]:
        self._check()
        try:
            yield
        except (AskError, TryAgainError):  # of a cluster: another server has the keys
            raise
        except ResponseError as error:  # of a transaction
            if _refuses_writes(error):
                self._answered_s = -inf
            raise refused(error) from error
        except (RedisError, OSError, TimeoutError, RuntimeError) as error:  # uvloop raises the last one if it is closed
            self._answered_s = -inf
            self.failures += 1
            self._down_until_s = time.monotonic() + self._backoff_s
            self._backoff_s = min(2 * self._backoff_s, _BACKOFF_MAX_S)
            raise StoreUnavailableError(f"Redis does not answer: {cause_of(error)}") from error
        else:
            self._backoff_s = _BACKOFF_S
            now_s = time.monotonic()
            if now_s - self._answered_s > _GAP_S:
                self._present_since_s = now_s
            self._answered_s = now_s


async def _awake(ask: Callable[[], Awaitable[_Answer]], timeout_s: float) -> _Answer:
    """Return the answer to commands; ask once more if their time-out passed while this process was stopped."""
    began_s = time.monotonic()
    try:
        return await ask()
    except NoAnswerError:
        if time.monotonic() - began_s < timeout_s + _STOPPED_S:
            raise
    return await ask()


def _failure(error: Exception) -> StoreUnavailableError:
    """Return what one caller gets of the error of a round trip, which all of its callers get."""
    if isinstance(error, StoreUnavailableError):
        return type(error)(*error.args)
    return StoreUnavailableError(f"commands could not be sent: {type(error).__name__}")


def _refuses_writes(answer: object) -> bool:
    """Return whether a command was refused as others would be that write."""
    if isinstance(answer, OutOfMemoryError | NoPermissionError):
        return True
    found = _REFUSALS.search(str(answer)) if isinstance(answer, ResponseError) else None
    return found is not None and found[1] in {"MISCONF", "NOREPLICAS"}


def accepted(answers: list[Any]) -> list[Any]:
    """Return answers; raise `StoreUnavailableError` if a command was refused."""
    for answer in answers:
        if isinstance(answer, ResponseError):
            raise refused(answer)
    return answers


def _without_failure(answers: list[Any]) -> list[Any]:
    """Raise the error of a command that every command would have now."""
    for answer in answers:
        if isinstance(answer, OutOfMemoryError):
            raise refused(answer)
        if isinstance(answer, RedisError) and not isinstance(answer, ResponseError):
            raise StoreUnavailableError(f"Redis failed: {type(answer).__name__}")
    return answers


_REFUSALS: Final = re.compile(
    r"(?:^|caused error: (?:[(]['\"])?)"
    r"(CLUSTERDOWN|ERR|EXECABORT|LOADING|MASTERDOWN|MISCONF|NOAUTH|NOPERM|NOREPLICAS|WRONGPASS|WRONGTYPE)\b"
)
"""Codes of answers; redis-py may put the command before one, and Redis repeats arguments after it."""


def refused(error: ResponseError) -> StoreUnavailableError:
    """Return the error of a refused command, with the first word such as `NOAUTH`: the rest may repeat the command."""
    if isinstance(error, OutOfMemoryError):
        return StoreUnavailableError("Redis has reached its `maxmemory`")
    found = _REFUSALS.search(str(error))
    kind = UnreadableError if found is not None and found[1] == "WRONGTYPE" else StoreUnavailableError
    return kind(f"Redis refused a command: {found[1] if found else type(error).__name__}")


def cause_of(error: Exception) -> str:
    """Return why there is no answer, as the name of an exception: of that of the system, if redis-py hides one."""
    hidden = error.__context__
    return type(hidden if isinstance(hidden, OSError) else error).__name__


def ttl_ms(seconds: float) -> int:
    """Return a time to live in milliseconds; Redis accepts none below 1."""
    return max(1, int(1_000 * seconds))
