"""The servers of one store: a single one, or the primaries of a Redis Cluster.

The first server of the URL that answers tells which. In a cluster the client of redis-py knows which server has which
slot. Commands go to that server over a `Connection` of its own, so that one that is away holds up its own keys only:
pipelines of redis-py's cluster client wait for all servers, and its transactions stop the event loop.

The first argument of a command is its only key, unless the command is for one slot.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import SSLConnection, parse_url
from redis.cluster import PRIMARY
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TryAgainError,
)

from projector.store import redis_connection
from projector.store.protocol import StoreFullError, StoreUnavailableError
from projector.store.redis_connection import Command, Connection, accepted

ASIDE_S: Final = 0.5
"""Seconds that a stream waits for servers which have nothing of it."""
_REDIRECTS: Final = 5
_PAUSE_S: Final = 0.02
"""Pause before a command is redirected again: the servers may not agree yet."""
_REFRESH_S: Final = 0.25
"""Seconds between two questions which server has which slot."""
_PORT: Final = 6379
_FAILURES: Final = (RedisError, RedisClusterException, OSError, TimeoutError, RuntimeError)
"""What redis-py and uvloop raise if a cluster does not answer."""


GROUPS: Final = 32
"""Hash tags of streams. In a cluster one `XREAD` waits for keys of one slot only, so each takes a connection."""


def _tags() -> tuple[str, ...]:
    """Return a hash tag for each group; their slots are spread evenly over those that a cluster has."""
    found: dict[int, str] = {}
    for number in range(REDIS_CLUSTER_HASH_SLOTS):
        found.setdefault(key_slot(b"%d" % number) * GROUPS // REDIS_CLUSTER_HASH_SLOTS, str(number))
        if len(found) == GROUPS:
            break
    return tuple(f"{{{found[group]}}}:" for group in range(GROUPS))


TAGS: Final = _tags()


def tag_of(stream_id: str) -> str:
    """Return what the names of all keys of a stream begin with, after the prefix: it puts them into one slot."""
    return TAGS[zlib.crc32(stream_id.encode()) % GROUPS]


KINDS: Final = ("log", "head", "state", "lease")
"""What there is of a stream, each under a key of its own."""


def key_of(prefix: str, kind: str, stream_id: str) -> str:
    """Return the name of a key of a stream."""
    return f"{prefix}{tag_of(stream_id)}{kind}:{stream_id}"


class MovingError(StoreUnavailableError):
    """Keys are on their way to another server. The same call works in a moment."""


class Servers:
    """The servers of one store. The methods are those of `Connection`, and raise the same errors.

    Args:
        url: `redis://` or `rediss://`; of a cluster, one or more of its servers, separated by commas.
        ca_file: certificates of authorities that are trusted instead of those of the system.
    """

    def __init__(self, url: str, ca_file: str | None = None) -> None:
        parts = urlsplit(url)
        user, at, hosts = parts.netloc.rpartition("@")
        self._ca_file = ca_file
        self._url = parts._replace(netloc=user + at)
        self._seeds = {one: self._connect(one) for one in hosts.split(",")}
        self._single: Connection | None = None
        self._cluster: RedisCluster | None = None
        self._nodes: dict[str, Connection] = {}
        self._finding: asyncio.Task[StoreUnavailableError | None] | None = None
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def is_cluster(self) -> bool:
        """Whether it is a cluster; false as long as no server has answered."""
        return self._cluster is not None

    async def find(self) -> None:
        """Find out whether this is a cluster."""
        if self._single is None and self._cluster is None:
            if self._finding is None or self._finding.done():
                self._finding = asyncio.create_task(self._find())
            await asyncio.wait([self._finding])  # one answer for all who wait
            if (error := self._finding.result()) is not None:
                raise type(error)(*error.args)

    async def describe(self) -> str:
        """Return what the URL leads to."""
        await self.find()
        if self._cluster is not None:
            return f"a cluster of {len(self._primaries())} primaries"
        (answer,) = await self.run_all([("ROLE",)])
        if isinstance(answer, ResponseError):
            return "a single server"  # whose user may not ask more
        role, *state = answer
        if role != b"master":
            raise StoreUnavailableError("this is a replica: expected the address of the primary")
        return f"a single server, with {len(state[1])} replicas"

    async def policies(self) -> set[str]:
        """Return what the servers do when they are full (`maxmemory-policy`), of those whose user may ask."""
        await self.find()
        servers = [self._node(one.name) for one in self._primaries()] if self._single is None else [self._single]
        answers = [answer for one in servers for answer in await one.run_all([("INFO", "memory")])]
        return {one["maxmemory_policy"] for one in answers if isinstance(one, dict) and "maxmemory_policy" in one}

    async def run(self, *command: Any) -> Any:
        """Send one command; return its answer."""
        return accepted(await self.run_all([command]))[0]

    async def run_all(self, commands: Sequence[Command], *, follow: bool = True) -> list[Any]:
        """Send commands; return their answers. Those of one server are sent together.

        Without `follow`, a `MovedError` is an answer: another server has the key since the last command.
        """
        await self.find()
        if self._single is not None:
            return await self._single.run_all(commands)
        answers: list[Any] = [None] * len(commands)
        left = {number: (self._name(command[1]), False) for number, command in enumerate(commands)}
        for tried in range(_REDIRECTS):
            if tried > 1:
                await asyncio.sleep(_PAUSE_S)
            for number, answer in (await self._run_at(left, commands)).items():
                answers[number] = answer
            left = {}
            for number, answer in enumerate(answers):
                if isinstance(answer, MovedError):
                    if follow:
                        left[number] = self._name(commands[number][1]), False
                elif isinstance(answer, AskError):
                    left[number] = f"{answer.host}:{answer.port}", True
            if not left:
                break
        return answers

    async def _run_at(self, places: Mapping[int, tuple[str, bool]], commands: Sequence[Command]) -> dict[int, Any]:
        """Send some of the commands, each to its server, with `ASKING` or without it; return their answers."""
        parts: dict[tuple[str, bool], list[int]] = {}
        for number, place in places.items():
            parts.setdefault(place, []).append(number)
        sending = [
            self._send(name, [commands[number] for number in part], is_asking=is_asking)
            for (name, is_asking), part in parts.items()
        ]
        # the frames of a stream have one server: a task of their own would double what they cost
        results = [await sending[0]] if len(sending) == 1 else await asyncio.gather(*sending, return_exceptions=True)
        answers: dict[int, Any] = {}
        for part, found in zip(parts.values(), results, strict=True):
            if isinstance(found, BaseException):
                raise found
            answers |= zip(part, found, strict=True)
            for answer in found:
                if isinstance(answer, ResponseError):
                    await self._note(answer)
        return answers

    async def aside(self, work: Callable[[], Awaitable[object]]) -> bool:
        """Do work with servers that have nothing of a stream; return false if a cluster does not do it soon."""
        await self.find()
        try:
            async with asyncio.timeout(ASIDE_S if self.is_cluster else None):
                await work()
        except StoreFullError:
            raise
        except (StoreUnavailableError, TimeoutError):
            if not self.is_cluster:
                raise
            return False
        return True

    async def run_transaction(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands for one slot as one step; while it moves to another server, one after the other."""
        try:
            async with self._at(commands[0][1]) as node:
                return await node.run_transaction(commands)
        except MovingError:
            return await self.run_all(commands)

    @asynccontextmanager
    async def transaction(self, key: str) -> AsyncIterator[Any]:
        """Return a pipeline for `watch` and `multi`, for the slot of a key."""
        async with self._at(key) as node, node.transaction() as pipeline:
            yield pipeline

    async def block(self, key: str, *command: Any) -> Any:
        """Send a command that blocks, for the slot of a key."""
        async with self._at(key) as node:
            return await node.block(*command)

    def present_s(self, key: str) -> float:
        """Return the seconds for which the server of a key is known to have answered."""
        node = self._single
        if self._cluster is not None:
            node = self._nodes.get(self._name(key))
        return 0.0 if node is None else node.present_s

    def state_of(self, key: str) -> tuple[str, int]:
        """Return a value that changes when a key may have lost what was written: after a failure, and a failover."""
        name = "" if self._cluster is None else self._name(key)
        node = self._nodes.get(name) if name else self._single
        return name, 0 if node is None else node.failures

    async def aclose(self) -> None:
        """Close all connections."""
        tasks = [task for task in (self._finding, self._refreshing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node in [*self._seeds.values(), *self._nodes.values()]:
            await node.aclose()
        if self._cluster is not None:
            await self._close_nodes(self._cluster)

    async def _find(self) -> StoreUnavailableError | None:
        problem = StoreUnavailableError("Redis does not answer")
        for seed in self._seeds.values():
            try:
                (said,) = await seed.run_all([("HELLO", 2)])
            except StoreUnavailableError as error:
                problem = error
                continue
            said = [] if isinstance(said, ResponseError) else said  # a server or proxy without this command
            mode = dict(zip(said[::2], said[1::2], strict=False)).get(b"mode")
            if mode == b"sentinel":
                return StoreUnavailableError("this is a Sentinel: expected the address of the primary")
            if mode != b"cluster":
                self._single = seed
                return None
            try:
                await self._begin()
            except _FAILURES as error:
                problem = StoreUnavailableError(f"the cluster does not answer: {redis_connection.cause_of(error)}")
                continue
            return None
        return problem

    async def _begin(self) -> None:
        """Ask a cluster which server has which slot."""
        options = parse_url(urlunsplit(self._url._replace(netloc=f"{self._url.netloc}localhost", path="")))
        is_encrypted = options.pop("connection_class", None) is SSLConnection
        seconds = redis_connection.COMMAND_S
        cluster = RedisCluster(
            startup_nodes=[ClusterNode(*one) for one in map(_address, self._seeds)],
            username=options.get("username"),
            password=options.get("password"),
            ssl=is_encrypted,
            ssl_ca_certs=self._ca_file,
            protocol=2,
            require_full_coverage=False,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
        )
        try:
            await cluster.nodes_manager.initialize()
        except BaseException:
            await self._close_nodes(cluster)
            raise
        self._cluster = cluster

    @staticmethod
    async def _close_nodes(cluster: RedisCluster) -> None:
        for group in ("nodes_cache", "startup_nodes"):
            await cluster.nodes_manager.aclose(group)

    async def _send(self, name: str, commands: Sequence[Command], *, is_asking: bool) -> list[Any]:
        sent = [one for command in commands for one in (("ASKING",), command)] if is_asking else commands
        try:
            answers = await self._node(name).run_all(sent)
        except StoreUnavailableError:
            self._refresh(name)
            raise
        return answers[1::2] if is_asking else answers

    @asynccontextmanager
    async def _at(self, key: str) -> AsyncIterator[Connection]:
        """Return the connection to the server of a key."""
        await self.find()
        if self._single is not None:
            yield self._single
            return
        name = self._name(key)
        try:
            yield self._node(name)
        except (AskError, TryAgainError) as error:
            await self._note(error)
            raise MovingError("keys are on their way to another server") from error
        except StoreUnavailableError:
            self._refresh(name)
            raise

    async def _note(self, answer: object) -> None:
        """Keep what an answer says about the server of a slot."""
        if self._cluster is None or not isinstance(answer, MovedError | ClusterDownError):
            return
        if isinstance(answer, MovedError) and answer.slot_id in self._cluster.nodes_manager.slots_cache:
            await self._cluster.nodes_manager.move_slot(answer)
        self._refresh(None)

    def _refresh(self, failed: str | None) -> None:
        """Ask which server has which slot, beside what waits for it."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._ask(failed))

    async def _ask(self, failed: str | None) -> None:
        try:
            if self._cluster is not None:
                seeds = [*map(_address, self._seeds)]
                await self._cluster.nodes_manager.initialize(seeds, last_failed_node_name=failed)
        except _FAILURES:
            pass  # the next failure asks again
        await asyncio.sleep(_REFRESH_S)

    def _primaries(self) -> list[ClusterNode]:
        return [] if self._cluster is None else self._cluster.nodes_manager.get_nodes_by_server_type(PRIMARY)

    def _name(self, key: str) -> str:
        """Return the address of the server that has a key."""
        try:
            if self._cluster is not None:
                name: str = self._cluster.nodes_manager.get_node_from_slot(key_slot(key.encode())).name
                return name
        except (KeyError, RedisClusterException):
            self._refresh(None)
        raise StoreUnavailableError("no server of the cluster has the slot of a key")

    def _node(self, name: str) -> Connection:
        if name not in self._nodes:
            self._nodes[name] = self._connect(name, GROUPS)
        return self._nodes[name]

    def _connect(self, address: str, blocks: int = 1) -> Connection:
        host, port = _address(address)
        netloc = f"{self._url.netloc}[{host}]:{port}" if ":" in host else f"{self._url.netloc}{host}:{port}"
        path = self._url.path if blocks == 1 else ""
        return Connection(urlunsplit(self._url._replace(netloc=netloc, path=path)), self._ca_file, blocks)


def _address(text: str) -> tuple[str, int]:
    """Return host and port of an address."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(_PORT)
    return host.strip("[]"), int(port or _PORT)
