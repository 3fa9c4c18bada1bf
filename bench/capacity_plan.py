"""What a number of open streams needs: servers, Redis nodes, network and money. docs/capacity.md explains the formula.

    python -m bench.capacity_plan --streams 20000 --events-per-s 30 --core-hour 0.03

prints a plan; `--update` writes the tables of the page. `make bench-capacity` measures `COSTS`.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parents[1] / "docs" / "capacity.md"
SIZES: Final = (10_000, 100_000, 1_000_000)
PRIMARIES_MAX: Final = 32
"""Primaries of one cluster that have streams: `projector.store.redis_servers.GROUPS`."""
TURN_S: Final = 0.01
"""Seconds whose events a server handles together: about as long as it takes, two thirds of the time."""
MONTH_H: Final = 730
MONTH_S: Final = 3600 * MONTH_H


def _row(default: float, text: str) -> float:
    """Return a field with the text that the page and the help of the command have for it."""
    made: float = field(default=default, metadata={"text": text})
    return made


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What `make bench-capacity` measures."""

    server_mb: float = _row(87.5, "memory of a server without streams, MB")
    stream_kb: float = _row(59.9, "memory of an open stream in its server, KB")
    turn_us: float = _row(571, "CPU of a server for each turn in which it has events, µs")
    open_us: float = _row(25.4, "CPU of an open stream, whatever it sends, µs per second")
    event_us: float = _row(88.7, "CPU of an event in the server of its stream, µs")
    reader_us: float = _row(295, "CPU of an event for a reader that came back, µs")
    start_us: float = _row(2040, "CPU of the start and the end of a stream, µs")
    client_bytes: float = _row(326, "an event to its client, bytes")
    provider_bytes: float = _row(189, "an event from the provider, bytes")
    redis_turn_us: float = _row(58.8, "CPU of Redis for each turn of a server, µs")
    redis_event_us: float = _row(4.47, "CPU of an event in Redis, µs")
    redis_commands: float = _row(0.994, "commands to Redis of an event")
    redis_open_commands: float = _row(1.2, "commands to Redis of an open stream, per second")
    redis_open_us: float = _row(3.13, "CPU of an open stream in Redis, whatever it sends, µs per second")
    redis_in_bytes: float = _row(449, "an event to Redis, bytes")
    redis_open_bytes: float = _row(147, "an open stream to Redis, bytes per second")
    redis_out_bytes: float = _row(452, "an event from Redis to a reader that came back, bytes")
    redis_event_bytes: float = _row(344, "memory of an event in Redis, bytes")
    redis_stream_bytes: float = _row(6250, "memory of a stream in Redis, bytes")
    cluster_turn_us: float = _row(621, "CPU of a server for each turn, µs")
    cluster_event_us: float = _row(105, "CPU of an event in the server of its stream, µs")
    cluster_redis_turn_us: float = _row(112, "CPU of a primary for each turn of a server, µs")
    cluster_redis_event_us: float = _row(6.09, "CPU of an event in its primary, µs")
    cluster_redis_open_us: float = _row(2.82, "CPU of an open stream in its primary, µs per second")

    @property
    def busy_core(self) -> float:
        """CPU of a server that has events in each turn, besides those of the events, in cores."""
        return self.turn_us / TURN_S / 1e6

    @property
    def redis_busy_core(self) -> float:
        """CPU of Redis for such a server, in cores."""
        return self.redis_turn_us / TURN_S / 1e6

    @property
    def of_cluster(self) -> Costs:
        """The costs with a cluster, where the primaries also write to their replicas."""
        return replace(
            self,
            turn_us=self.cluster_turn_us,
            event_us=self.cluster_event_us,
            redis_turn_us=self.cluster_redis_turn_us,
            redis_event_us=self.cluster_redis_event_us,
            redis_open_us=self.cluster_redis_open_us,
        )


COSTS: Final = Costs()
"""The figures of docs/capacity.md."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the reader sets."""

    streams: float = _row(10_000, "open streams")
    events_per_s: float = _row(50, "events per second of an open stream")
    lasting_s: float = _row(30, "seconds that a stream lasts")
    readers: float = _row(0.1, "readers that came back, per open stream")
    retention_s: float = _row(60, "`store.retention_s`")
    store_gb: float = _row(math.inf, "`store.max_bytes` in GB: what Redis may hold in all")
    utilization: float = _row(2 / 3, "share of a core that is planned for")
    max_streams: float = _row(1_000, "`limits.max_streams` of a server")
    server_gb: float = _row(1.34, "memory of a server, GB")
    node_gb: float = _row(16, "`maxmemory` of a Redis node, GB")
    replicas: float = _row(1, "replicas of each primary")
    core_hour: float = _row(0.04, "price of a core for an hour")
    gb_hour: float = _row(0.005, "price of a GB of memory for an hour")
    gb_out: float = _row(0.05, "price of a GB sent to clients")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a load needs. Servers and Redis nodes have one core each."""

    streams: float
    servers: int
    server_memory_gb: float
    primaries: int
    clusters: int
    redis_nodes: int
    redis_memory_gb: float
    from_providers_gb_s: float
    to_clients_gb_s: float
    to_redis_gb_s: float
    machines_month: float
    traffic_month: float


def server_us(load: Load, costs: Costs = COSTS) -> float:
    """Return the CPU of an open stream with its readers in the servers, in µs per second."""
    reading = load.readers * (load.events_per_s * costs.reader_us + costs.open_us)
    return load.events_per_s * costs.event_us + costs.open_us + costs.start_us / load.lasting_s + reading


def streams_of_core(load: Load, costs: Costs = COSTS) -> float:
    """Return how many streams a core carries."""
    return max(0.0, load.utilization - costs.busy_core) * 1e6 / server_us(load, costs)


def streams_of_server(load: Load, costs: Costs = COSTS) -> float:
    """Return how many streams a server carries, which has one core."""
    room_kb = (load.server_gb * 1e3 - costs.server_mb) * 1e3
    return min(streams_of_core(load, costs), room_kb / costs.stream_kb, load.max_streams)


def kept_bytes(load: Load, costs: Costs = COSTS) -> float:
    """Return what Redis holds of an open stream, and of the ended ones that are kept for each open one, in bytes."""
    ended = load.retention_s / load.lasting_s
    events = load.events_per_s * load.lasting_s * (0.5 + ended)
    return events * costs.redis_event_bytes + (1 + ended) * costs.redis_stream_bytes


def redis_us(load: Load, costs: Costs = COSTS) -> float:
    """Return the CPU of an open stream with its readers in Redis, in µs per second."""
    return load.events_per_s * (1 + load.readers) * costs.redis_event_us + costs.redis_open_us


def redis_in_bytes(load: Load, costs: Costs = COSTS) -> float:
    """Return what an open stream sends to Redis, in bytes per second."""
    return load.events_per_s * costs.redis_in_bytes + costs.redis_open_bytes


def redis_commands(load: Load, costs: Costs = COSTS) -> float:
    """Return the commands of an open stream with its readers, per second."""
    return load.events_per_s * costs.redis_commands * (1 + load.readers) + costs.redis_open_commands


def streams_of_node(load: Load, costs: Costs = COSTS) -> float:
    """Return how many streams a Redis node carries; what it holds is at most its share of `store_gb`."""
    turns_us = costs.redis_busy_core * 1e6 / streams_of_server(load, costs)
    by_cpu = load.utilization * 1e6 / (redis_us(load, costs) + turns_us)
    held = min(kept_bytes(load, costs), load.store_gb * 1e9 / load.streams)
    return min(by_cpu, load.node_gb * 1e9 / held)


def plan(load: Load, costs: Costs = COSTS) -> Plan:
    """Return what a load needs."""
    events = load.streams * load.events_per_s
    if load.streams > streams_of_node(load, costs):
        costs = costs.of_cluster
    servers = math.ceil(load.streams / streams_of_server(load, costs))
    primaries = math.ceil(load.streams / streams_of_node(load, costs))
    clusters = math.ceil(primaries / PRIMARIES_MAX)
    if primaries > 1:
        primaries = max(3, primaries)  # fewer cannot agree that one has failed
    nodes = math.ceil(primaries * (1 + load.replicas))
    server_gb = (servers * costs.server_mb * 1e3 + load.streams * costs.stream_kb) / 1e6
    redis_gb = min(load.streams * kept_bytes(load, costs) / 1e9, load.store_gb) * (1 + load.replicas)
    to_clients = events * (1 + load.readers) * costs.client_bytes / 1e9
    machines = (servers + nodes) * load.core_hour + (server_gb + redis_gb) * load.gb_hour
    return Plan(
        streams=load.streams,
        servers=servers,
        server_memory_gb=server_gb,
        primaries=primaries,
        clusters=clusters,
        redis_nodes=nodes,
        redis_memory_gb=redis_gb,
        from_providers_gb_s=events * costs.provider_bytes / 1e9,
        to_clients_gb_s=to_clients,
        to_redis_gb_s=load.streams * redis_in_bytes(load, costs) * (1 + load.replicas) / 1e9,
        machines_month=machines * MONTH_H,
        traffic_month=to_clients * MONTH_S * load.gb_out,
    )


def _number(value: float) -> str:
    """Return a number with three digits, or whole if it has more."""
    if value == 0 or value >= 100:  # noqa: PLR2004 - whole numbers from here on
        return f"{value:,.0f}"
    return f"{value:.3g}"


def plan_table(plans: Sequence[Plan]) -> str:
    """Return the plans, a column each."""
    rows = {
        "servers, with one core each": [one.servers for one in plans],
        "memory of the servers, GB": [one.server_memory_gb for one in plans],
        "Redis primaries": [one.primaries for one in plans],
        "clusters of at most 32 primaries": [one.clusters for one in plans],
        "Redis nodes with replicas, with one core each": [one.redis_nodes for one in plans],
        "memory of Redis, GB": [one.redis_memory_gb for one in plans],
        "from providers, GB per s": [one.from_providers_gb_s for one in plans],
        "to clients, GB per s": [one.to_clients_gb_s for one in plans],
        "to Redis and its replicas, GB per s": [one.to_redis_gb_s for one in plans],
        "cores and memory, a month": [one.machines_month for one in plans],
        "traffic to clients, a month": [one.traffic_month for one in plans],
    }
    lines = ["| open streams | " + " | ".join(_number(one.streams) for one in plans) + " |"]
    lines.append("|---" * (1 + len(plans)) + "|")
    lines += [f"| {name} | " + " | ".join(map(_number, values)) + " |" for name, values in rows.items()]
    return "\n".join(lines)


def rows_of(what: Costs | Load) -> str:
    """Return what was measured, or what the reader sets, a row each."""
    lines = [""]
    for one in fields(what):
        value = getattr(what, one.name)
        lines.append(f"- `{one.name}` {'no limit' if value == math.inf else _number(value)}: {one.metadata['text']}")
    return "\n".join(lines)


def carried(load: Load, costs: Costs = COSTS) -> str:
    """Return what one core, one server and one Redis node carry, with a single Redis node and with a cluster."""
    rows = {"core": streams_of_core, "server": streams_of_server, "Redis node": streams_of_node}
    lines = ["| one | with one Redis node | with a cluster |", "|---|---|---|"]
    lines += [f"| {name} | {of(load, costs):,.0f} | {of(load, costs.of_cluster):,.0f} |" for name, of in rows.items()]
    return "\n".join(lines)


def tables() -> dict[str, str]:
    """Return the tables of the page, by name."""
    load = Load()
    return {
        "measured": rows_of(COSTS),
        "set": rows_of(load),
        "carried": carried(load),
        "plans": plan_table([plan(replace(load, streams=size)) for size in SIZES]),
    }


def written(page: str) -> str:
    """Return the page with its tables."""
    for name, table in tables().items():
        mark = f"<!-- {name}: python -m bench.capacity_plan --update -->"
        page, found = re.subn(rf"{re.escape(mark)}\n\n?(?:[|-].*\n)*", lambda _, new=f"{mark}\n{table}\n": new, page)
        if found != 1:
            raise ValueError(f"expected one mark: {mark}")
    return page


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a plan, or write the tables of the page."""
    parser = argparse.ArgumentParser(description="Plan servers, Redis nodes and their price.")
    parser.add_argument("--update", action="store_true", help="write the tables of docs/capacity.md instead")
    for one in fields(Load):
        flag = f"--{one.name.replace('_', '-')}"
        parser.add_argument(
            flag, type=float, default=one.default, help=f"{one.metadata['text']} (default: {one.default:g})"
        )
    given: dict[str, Any] = vars(parser.parse_args(arguments))
    if given.pop("update"):
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    load = Load(**given)
    print(f"{carried(load)}\n\n{plan_table([plan(load)])}")


if __name__ == "__main__":
    main()
