"""Every fault of a provider, on every route: one terminal event or one error document, and nothing left open.

Each fault comes before each event. Over TLS and with a second target it comes before a sample of the events, and in
`make fuzz` before each.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from tests.asgi.certificates import Authority
from tests.asgi.chaos import (
    CASES,
    R_ONE,
    R_TOOLS,
    Outcome,
    ask,
    events_of,
    mistakes,
    plans_of,
    run_all,
    settled,
)
from tests.asgi.faulty_provider import FaultyProvider, Plan, providing
from tests.asgi.process import COUNTING, TWO_APIS, running, serve_with
from tests.property.soundness import EFFORT

pytestmark = pytest.mark.timeout(600 if EFFORT == 1 else 3600)

CONFIG: Final = """
[timeouts]
first_byte_s = 10
idle_s = 10
[retries]
max = 1
initial_backoff_s = 0.01
budget_share = 10
[circuit_breaker]
failures = 0
[agents.helper]
upstream = "one"
model = "m"
dialects = ["public_sse_v1", "ag_ui", "openwop"]
[openwop]
[workflows.both]
dialects = ["public_sse_v1", "openwop"]
stages = [
  {{name = "first", steps = [{{name = "a", agent = "helper"}}, {{name = "b", agent = "helper"}}]}},
  {{name = "second", steps = [{{name = "c", agent = "helper", input = "{{{{request.message}}}}"}}]}},
]
"""
TLS: Final = 'tls.ca_file = "authority.pem"'
OVER_TLS: Final = ("chat-stream", "ag-ui-chat", "openwop", "responses", "chat-completions-json")
"""Cases that are repeated with an upstream that is reached by TLS."""


@pytest.mark.parametrize("name", CASES)
async def test_one_end_for_every_fault(name: str, tmp_path: Path) -> None:
    config = tmp_path / "chaos.toml"
    async with providing() as (provider, port):
        config.write_text((CONFIG + TWO_APIS).format(port=port))
        await check_all(name, config, provider)


@pytest.mark.parametrize("name", OVER_TLS)
async def test_one_end_for_every_fault_over_tls(name: str, tmp_path: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*Authority(tmp_path).issue("provider"))
    config = tmp_path / "chaos.toml"
    async with providing(context) as (provider, port):
        url = f'"https://localhost:{port}/v1"\n{TLS}'
        config.write_text((CONFIG + TWO_APIS).replace('"http://127.0.0.1:{port}/v1"', url).format())
        await check_all(name, config, provider, is_sample=True)


async def check_all(name: str, config: Path, provider: FaultyProvider, *, is_sample: bool = False) -> None:
    """Check the answer to every plan of a case, and that nothing is left open."""
    case, plans = CASES[name], plans_of(name, is_sample=is_sample)
    async with running(COUNTING + serve_with(config), 1) as server:
        provider.plans = {f"plan-{number}": plan for number, plan in enumerate(plans)}
        assert (await ask(server, case, "plan-0")).is_complete
        tasks, files = await server.tasks(), server.open_files() - len(provider.wires)
        found = await run_all(server, case, provider.plans)
        # connections are used again only if their last response was clean
        again = await asyncio.gather(*(ask(server, case, "plan-0") for _ in range(20)))
        left = await settled(server, provider, tasks, files)
        server.stop()
        assert await server.exit_code() == 0
    wrong = [(plan[1:], outcome[:2], mistakes(plan, outcome)) for plan, outcome in found]
    assert [one for one in wrong if one[2]] == []
    assert [one for one in again if one.problems or not one.is_complete] == []
    assert left == {}


ONE: Final = 'upstream = "one"\nmodel = "m"'
BOTH: Final = 'targets = [{{upstream = "one", model = "m"}}, {{upstream = "spare", model = "m"}}]'
SPARE: Final = f"""
[upstreams.spare]
base_url = "http://127.0.0.1:{{spare}}/v1"
[models.m]
{BOTH}
"""
SAID: Final = {b"N-S": R_TOOLS, b"reading room": R_ONE}
"""Text that only the stream of this golden holds."""
WITH_SPARE: Final = ("chat-stream", "ag-ui", "openwop", "responses", "responses-public", "responses-open-json")
"""Cases that are repeated with a second target, which always answers, with another text."""
MUST_GO_OVER: Final = frozenset({"no-response", "no-response-silence", "half-a-head", "status-404", "status-503"})
"""Faults after which the second target answers; the others may also break the answer, if they come too late."""


@pytest.mark.parametrize("name", WITH_SPARE)
async def test_one_end_with_a_spare_target(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    own, other = sorted(SAID, key=lambda text: SAID[text] != case.golden)
    # a target that sends Retry-After gets no requests for that time
    plans = [plan for plan in plans_of(name, is_sample=True) if not (plan.fault or "").startswith("retry-after")]
    config = tmp_path / "chaos.toml"
    async with providing() as (provider, port), providing() as (spare, spare_port):
        config.write_text((CONFIG.replace(ONE, BOTH) + SPARE + TWO_APIS).format(port=port, spare=spare_port))
        provider.plans = {f"plan-{number}": plan for number, plan in enumerate(plans)}
        spare.plans = defaultdict(lambda: Plan(events_of(SAID[other])))
        async with running(COUNTING + serve_with(config), 1) as server:
            assert own in (await ask(server, case, "plan-0")).data
            tasks, files = await server.tasks(), server.open_files() - len(provider.wires) - len(spare.wires)
            found = await run_all(server, case, provider.plans)
            left = await settled(server, provider, tasks, files + len(spare.wires))
            server.stop()
            assert await server.exit_code() == 0
    wrong = [(plan[1:], outcome[:2], mixed(plan, outcome, own, other)) for plan, outcome in found]
    assert [one for one in wrong if one[2]] == []
    over = {plan.fault for plan, outcome in found if other in outcome.data}
    assert over >= MUST_GO_OVER
    assert sum(other in outcome.data for _, outcome in found) <= spare.requests <= len(found)
    assert left == {}


def mixed(plan: Plan, outcome: Outcome, own: bytes, other: bytes) -> list[str]:
    """Return what is wrong with an answer that is of one of two targets."""
    if other not in outcome.data:
        return mistakes(plan, outcome)
    found = list(outcome.problems)
    if own in outcome.data:
        found.append("the answers of two targets in one")
    if not outcome.is_complete:
        found.append("the answer of the other target is not complete")
    return found
