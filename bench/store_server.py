"""The CPU time of a server per event with each store, for 200 paced streams: part of `make bench-store`, Linux only.

Requests, connections and HTTP come on top of what `bench/store.py` measures. Redis has a process of its own.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import uvloop
from proxy import LOADS, Site, Subject
from redis_server import RedisServer

from projector.server.config.settings import Settings
from projector.server.interpreter import settle_interpreter
from projector.server.listening import listen, raise_file_limit
from projector.server.process import server
from projector.server.telemetry.logs import configure_logs

ROUNDS: Final = 5
LOAD: Final = "paced"
NONE: Final = "none"
KEPT_S: Final = 5.0
"""Seconds for which ended streams are kept, so that memory does not grow."""


IDLE_S: Final = 3_600
"""Seconds that a stream waits for its next event: in `bench/capacity.py` it may be long until its turn."""
_LIMITS: Final = ("max_bytes", "max_caller_bytes", "max_caller_streams", "max_streams")


class StoreSite(Site):
    """One server process with a store: `none`, `memory`, or the port of a Redis server."""

    script: ClassVar = Path(__file__)


def serve(store: str, port: int, provider: int) -> None:
    """Serve with a store, as `projector serve` does; Redis has room for all streams."""
    configure_logs()
    kept: dict[str, Any] = {"retention_s": KEPT_S}
    if store.isdigit():
        kept |= {"kind": "redis", "url": f"redis://127.0.0.1:{store}/0"} | dict.fromkeys(_LIMITS, 2**40)
    agent = {"upstream": "main", "model": "m"} | ({"store": NONE} if store == NONE else {})
    settings = Settings(
        port=port,
        upstreams={"main": {"base_url": f"http://127.0.0.1:{provider}/v1"}},
        store=kept,
        agents={"default": agent},
        timeouts={"idle_s": IDLE_S},
    )
    raise_file_limit(settings)
    serving = server(settings)
    serving.compile()
    settle_interpreter()
    serving.run(sockets=[listen(settings)])


async def measure(sites: Mapping[str, StoreSite]) -> None:
    """Print the cost of an event with each store."""
    load = LOADS[LOAD]
    costs: dict[str, list[float]] = {name: [] for name in sites}
    for _ in range(ROUNDS):
        for name, site in sites.items():
            costs[name].append(await Subject(site).cpu_us(LOAD, load) / load.events)
    cost = {name: min(values) for name, values in costs.items()}  # other processes only add to it
    print(f"a whole server, {load.streams} paced streams, {ROUNDS} rounds: CPU per event")
    for name, value in cost.items():
        print(f"  {name:12}{value:6.1f} us per event   {value / cost[NONE]:.2f} of none")


def main() -> None:
    """Start the servers, and measure."""
    with ExitStack() as stack:
        stores = {NONE: NONE, "memory": "memory"}
        program = shutil.which("redis-server")
        if program is None:
            print("redis: skipped, there is no redis-server")
        else:
            folder = Path(stack.enter_context(TemporaryDirectory()))
            redis = stack.enter_context(RedisServer(program, folder))
            stores["redis"] = redis.url.rpartition(":")[2].partition("/")[0]
        provider = Site("provider")
        stack.callback(provider.stop)
        sites = {}
        for name, store in stores.items():
            sites[name] = StoreSite(store, provider.port)
            stack.callback(sites[name].stop)
        uvloop.run(measure(sites))


if __name__ == "__main__":
    raise_file_limit(Settings())
    if len(sys.argv) > 1:
        serve(sys.argv[1], *map(int, sys.argv[2:]))
    else:
        main()
