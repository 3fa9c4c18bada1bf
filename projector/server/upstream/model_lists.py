"""The models that upstreams list (`GET <base URL>/models`): reading, checking, caching."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

import anyio

from projector.contracts.limits import NAME_MAX_CHARS
from projector.core.faults import FAULTS
from projector.server.telemetry.logs import log
from projector.server.upstream.protocol import Model, Upstream, UpstreamError

LIST_S: Final = 300.0
"""Seconds that a list is kept: providers add models a few times a month."""
FAILURE_S: Final = 30.0
"""Seconds until a failed upstream is asked again."""
ANSWER_S: Final = 10.0
"""Seconds for the list of one upstream."""
MODELS_MAX: Final = 2_000
"""Models of one upstream; large routers list some hundreds."""

_SECONDS: Final = range(2**53)
_ID: Final = re.compile(rf"[!-~](?:[ -~]{{0,{NAME_MAX_CHARS - 2}}}[!-~])?")


def read_models(value: object) -> list[Model]:
    """Return the models of a provider's list; entries without a valid ID are left out."""
    entries = value.get("data") if isinstance(value, dict) else value
    found: dict[str, Model] = {}
    for entry in entries if isinstance(entries, list) else []:
        model_id = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(model_id, str) and _ID.fullmatch(model_id):
            owner, title = _name(entry.get("owned_by")), _name(entry.get("display_name"))
            model = Model(model_id, _seconds(entry.get("created")), owner or Model("").owned_by, title)
            found.setdefault(model_id, model)
        if len(found) == MODELS_MAX:
            break
    return list(found.values())


def _seconds(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _SECONDS else 0


def _name(value: object) -> str:
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""


class ModelLists:
    """The lists of all upstreams of a server; each upstream is asked by one request at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, Sequence[Model]]] = {}
        self._asking: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)

    async def of(self, name: str, upstream: Upstream) -> Sequence[Model]:
        """Return the models of an upstream; none if it fails or has no list."""
        async with self._asking[name]:
            until, models = self._kept.get(name, (0.0, ()))
            if self._clock() >= until:
                listed = await _ask(name, upstream)
                models = listed or ()
                self._kept[name] = self._clock() + (FAILURE_S if listed is None else LIST_S), models
            return models


async def _ask(name: str, upstream: Upstream) -> Sequence[Model] | None:
    """Return the models of an upstream; None if it fails."""
    ask = getattr(upstream, "models", None)
    if ask is None:
        return ()
    try:
        with anyio.fail_after(ANSWER_S):
            models: Sequence[Model] = await ask()
    except TimeoutError:
        log.warning("models_not_listed", upstream=name, code=FAULTS["upstream_timeout_total"].code)
    except UpstreamError as error:
        log.warning("models_not_listed", upstream=name, code=error.fault.code, reason=error.reason)
    else:
        return models
    return None
