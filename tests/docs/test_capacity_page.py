"""docs/capacity.md has the tables of bench/capacity_plan.py, and the sums of the plan are right."""

from __future__ import annotations

import math
import re
from dataclasses import fields, replace
from typing import Final

import pytest

from bench.capacity_plan import (
    COSTS,
    PAGE,
    PRIMARIES_MAX,
    Costs,
    Load,
    kept_bytes,
    main,
    plan,
    streams_of_core,
    streams_of_node,
    streams_of_server,
    written,
)
from projector.server.config.settings import Limits
from projector.store.redis_servers import GROUPS

TEXT: Final = PAGE.read_text(encoding="utf-8")
ROUND: Final = Costs(
    server_mb=100,
    stream_kb=100,
    turn_us=1_000,
    open_us=100,
    event_us=80,
    reader_us=40,
    start_us=3_000,
    client_bytes=300,
    provider_bytes=200,
    redis_turn_us=100,
    redis_event_us=4,
    redis_commands=1,
    redis_open_commands=1,
    redis_open_us=4,
    redis_in_bytes=400,
    redis_open_bytes=100,
    redis_out_bytes=400,
    redis_event_bytes=400,
    redis_stream_bytes=6_000,
    cluster_turn_us=1_000,
    cluster_event_us=80,
    cluster_redis_turn_us=100,
    cluster_redis_event_us=4,
    cluster_redis_open_us=4,
)
LOAD: Final = Load(streams=1_000, events_per_s=50, lasting_s=30, readers=0, retention_s=60, utilization=0.6)


def test_the_page_has_the_tables_of_the_plan() -> None:
    assert written(TEXT) == TEXT, "run `python -m bench.capacity_plan --update`"


def test_the_page_explains_every_name() -> None:
    formula = TEXT.partition("## The formula")[2].partition("\n## ")[0]
    named = {name for one in re.findall(r"`([^`]+)`", formula) for name in re.findall(r"[a-z_]{4,}", one)}
    known = {one.name for one in (*fields(Costs), *fields(Load))}
    assert named <= known | {"max_streams"}
    assert {"event_us", "turn_us", "open_us", "start_us", "reader_us", "redis_event_us"} <= named


def test_the_page_is_short() -> None:
    assert len(re.sub(r"^(?:\||- `).*$|```.*?```", "", TEXT, flags=re.MULTILINE | re.DOTALL).split()) <= 900


def test_limits_of_the_plan_are_those_of_the_server() -> None:
    assert GROUPS == PRIMARIES_MAX
    assert Load().max_streams == Limits().max_streams


def test_what_one_carries() -> None:
    # 50 x 80 + 100 + 3,000 / 30 = 4,200 µs per second; 0.6 of a core, less 100 turns of 1,000 µs
    assert streams_of_core(LOAD, ROUND) == pytest.approx(500_000 / 4_200)
    assert streams_of_server(LOAD, ROUND) == streams_of_core(LOAD, ROUND)
    assert streams_of_server(replace(LOAD, server_gb=0.11), ROUND) == pytest.approx(100)
    assert streams_of_server(replace(LOAD, max_streams=7), ROUND) == 7
    # 50 events for 30 s, half of one open and two ended streams
    assert kept_bytes(LOAD, ROUND) == pytest.approx(1_500 * 2.5 * 400 + 3 * 6_000)
    # 50 events of 4 µs, 4 µs of an open stream, and 1 / 119 of 10,000 µs
    assert streams_of_node(LOAD, ROUND) == pytest.approx(600_000 / (204 + 84))
    assert streams_of_node(replace(LOAD, node_gb=1), ROUND) == pytest.approx(1e9 / 1_518_000)
    assert streams_of_node(replace(LOAD, node_gb=1, store_gb=0.5), ROUND) == pytest.approx(2_000)


def test_a_plan() -> None:
    small = plan(LOAD, ROUND)
    assert (small.servers, small.primaries, small.clusters, small.redis_nodes) == (9, 1, 1, 2)
    large = plan(replace(LOAD, streams=100_000, readers=0.5), ROUND)
    # a reader costs 50 x 40 + 100 µs in a server, 25 readings of 4 µs in Redis, and each event again on the network
    assert large.servers == math.ceil(100_000 / (500_000 / (4_200 + 1_050)))
    assert large.primaries == math.ceil(100_000 * (304 + 105) / 600_000) == 69
    assert large.clusters == 3
    assert large.to_clients_gb_s == pytest.approx(100_000 * 50 * 1.5 * 300 / 1e9)
    assert large.machines_month == pytest.approx(
        730
        * (
            (large.servers + large.redis_nodes) * LOAD.core_hour
            + (large.server_memory_gb + large.redis_memory_gb) * LOAD.gb_hour
        )
    )
    dearer = replace(ROUND, cluster_turn_us=2_000, cluster_redis_event_us=8)
    assert plan(LOAD, dearer) == small
    # 0.6 of a core, less 100 turns of 2,000 µs; 50 events of 8 µs, 4 µs of an open stream, and 1 / 95 of 10,000 µs
    assert plan(replace(LOAD, streams=9_990), dearer).servers == math.ceil(9_990 / (400_000 / 4_200))
    assert plan(replace(LOAD, streams=9_990), dearer).primaries == math.ceil(9_990 * (404 + 105) / 600_000)
    assert plan(replace(LOAD, streams=3_000), ROUND).primaries == 3, "two cannot agree that one has failed"


def test_the_command_prints_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--streams", "20000", "--core-hour", "0.03"])
    printed = capsys.readouterr().out
    assert "| open streams | 20,000 |" in printed
    month = plan(Load(streams=20_000, core_hour=0.03), COSTS).machines_month
    assert f"| cores and memory, a month | {month:,.0f} |" in printed
