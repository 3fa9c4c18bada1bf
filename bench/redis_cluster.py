"""A Redis Cluster of one's own, for tests: three primaries and three replicas, on loopback addresses."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

from redis import Redis

from bench.redis_server import RedisServer, free_port, hold

PRIMARIES: Final = 3
_BUS: Final = 10_000
"""How much higher than the port for clients is the one of the servers' own connections."""
_AWAY_MS: Final = 2_000
"""Time without an answer after which a server counts as failed, and a replica takes over."""


class RedisCluster:
    """Processes `redis-server` that form a cluster.

    Args:
        server: the program `redis-server`.
        cli: the program `redis-cli`.
        folder: of their files.
        tls: options of each server for encrypted connections.
        options: further options of each server.
    """

    def __init__(
        self, server: str, cli: str, folder: Path, tls: Sequence[str] = (), options: Sequence[str] = ()
    ) -> None:
        self._cli = cli
        self.servers: list[RedisServer] = []
        self.tls_ports = [_free_port() for _ in range(2 * PRIMARIES) if tls]
        self._authority = tls[tls.index("--tls-ca-cert-file") + 1] if tls else ""
        for number in range(2 * PRIMARIES):
            own = folder / str(number)
            own.mkdir(parents=True)
            given = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(_AWAY_MS), "--save", ""]
            # a part that is away must not stop the others; a replica need not be fresh to take over
            given += ["--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0"]
            given += ["--repl-diskless-sync-delay", "0"]
            if tls:
                given += ["--tls-port", str(self.tls_ports[number]), "--tls-cluster", "yes", *tls]
                given += ["--tls-replication", "yes"]
            self.servers.append(RedisServer(server, own, [*given, *options]))
            self.servers[-1].port = _free_port()

    @property
    def url(self) -> str:
        """The address of two of its servers."""
        return f"redis://127.0.0.1:{self.servers[0].port},127.0.0.1:{self.servers[-1].port}"

    def cli(self, *arguments: str) -> str:
        """Run `redis-cli`."""
        command = [self._cli, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout  # noqa: S603 - our own

    def start(self) -> None:
        """Start all servers and join them."""
        for server in self.servers:
            server.start()
        self.join()
        self.settle()

    def join(self) -> None:
        """Make one cluster of the servers."""
        addresses = [f"127.0.0.1:{port}" for port in self.tls_ports or [server.port for server in self.servers]]
        encrypted = ["--tls", "--cacert", self._authority] if self._authority else []
        self.cli(*encrypted, "--cluster", "create", *addresses, "--cluster-replicas", "1", "--cluster-yes")

    def settle(self) -> None:
        """Wait until the servers agree, and each slot has a primary with a replica, if it still runs."""
        running = [server for server in self.servers if server.is_running]
        while not all(self._is_settled(server, len(running)) for server in running):
            time.sleep(0.05)

    @staticmethod
    def _is_settled(server: RedisServer, running: int) -> bool:
        with Redis(port=server.port) as client:
            state = client.execute_command("CLUSTER INFO")
            nodes: dict[str, dict[str, Any]] = client.execute_command("CLUSTER NODES")
            links: dict[str, Any] = client.info("replication")
        sound = [one for one in nodes.values() if "fail" not in one["flags"] and "noaddr" not in one["flags"]]
        is_synced = links["role"] == "master" or links["master_link_status"] == "up"
        replicas = sum("slave" in one["flags"] for one in sound)
        return state["cluster_state"] == "ok" and is_synced and (len(sound), replicas) == (running, running - PRIMARIES)

    def primaries(self) -> list[RedisServer]:
        """Return the servers that have slots now."""
        found = []
        for server in self.servers:
            if server.is_running:
                with Redis(port=server.port) as client:
                    if client.info("replication")["role"] == "master":
                        found.append(server)
        return found

    def owner(self, slot: int) -> RedisServer:
        """Return the server that has a slot."""
        return self._owner(slot, next(server for server in self.servers if server.is_running))

    def _owner(self, slot: int, asked: RedisServer) -> RedisServer:
        """Return the server that has a slot, as one of them knows it."""
        with Redis(port=asked.port) as client:
            slots: list[Any] = client.execute_command("CLUSTER SLOTS")
        port = next(primary[1] for first, last, primary, *_ in slots if first <= slot <= last)
        return next(server for server in self.servers if server.port == port)

    def replica_of(self, primary: RedisServer) -> RedisServer:
        """Return a replica of a primary."""
        with Redis(port=primary.port) as client:
            port = client.info("replication")["slave0"]["port"]
        return next(server for server in self.servers if server.port == port)

    @contextlib.contextmanager
    def moving(self, slot: int, to: RedisServer) -> Iterator[Callable[[], bool]]:
        """Move a slot to another primary, as `redis-cli` does it. The function moves some keys, if there are.

        At the end all servers that run know of it: two take part, and the others are told a moment later.
        """
        source = self.owner(slot)
        with Redis(port=source.port) as old, Redis(port=to.port) as new:
            old_id, new_id = (one.execute_command("CLUSTER MYID").decode() for one in (old, new))
            new.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", old_id)
            old.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", new_id)

            def move_keys() -> bool:
                if keys := old.execute_command("CLUSTER GETKEYSINSLOT", slot, 3):
                    old.execute_command("MIGRATE", "127.0.0.1", to.port, "", 0, 5_000, "KEYS", *keys)
                return bool(keys)

            yield move_keys
            while move_keys():
                time.sleep(0.01)
            for one in (new, old):
                one.execute_command("CLUSTER SETSLOT", slot, "NODE", new_id)
        while any(self._owner(slot, server) is not to for server in self.servers if server.is_running):
            time.sleep(0.01)

    def move(self, slot: int, to: RedisServer) -> None:
        """Move a slot with its keys to another primary."""
        with self.moving(slot, to):
            pass

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.resume()
            server.kill()


def _free_port() -> int:
    """Return a free port; the one `_BUS` higher is free as well, and both are given to no other program."""
    while True:
        port = free_port()
        if port + _BUS < 2**16:
            with contextlib.suppress(OSError):
                hold(port + _BUS)
                return port
