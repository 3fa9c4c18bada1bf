"""What the scripts of `.clients` share: probes of a client, and their results as JSON lines.

A script is run with the base URL of the server and the URL of the test provider. It prints a line for each probe:
`{"api": ..., "behaviour": ..., "result": ...}`, or `"raised"` instead of `"result"`. With `crossed` as a third argument
each API of the server has the upstream with the other one.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from http.client import HTTPConnection
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel

BASE_URL, PROVIDER_URL, *_CROSSED = sys.argv[1:]
KEY: Final = "sk-client-key"
QUESTION: Final = "What is the weather in Oslo?"

APIS: Final = ("responses", "chat")
_HOSTED: Final[Mapping[str, tuple[str, ...]]] = {
    "responses": ("search", "files", "code", "citations", "image", "mcp"),
    "chat": ("search",),
}
"""API of the provider -> models with hosted tools or citations."""

_BROKEN: Final[Mapping[str, tuple[str, ...]]] = {
    "responses": ("error-midstream", "failed-midstream", "truncated"),
    "chat": ("error-midstream", "truncated"),
}
"""API of the provider -> models that fail within the stream."""
UPSTREAMS: Final = dict(zip(APIS, reversed(APIS) if _CROSSED else APIS, strict=True))
"""API of the client -> that of its provider."""
HOSTED: Final = {api: _HOSTED[UPSTREAMS[api]] for api in APIS}
BROKEN: Final = {api: _BROKEN[UPSTREAMS[api]] for api in APIS}

STATUSES: Final = (400, 401, 403, 404, 422, 429, 500, 503)


class Book(BaseModel):
    """Format of the model `structured`."""

    title: str
    year: int
    loans: list[str]


ANSWERS: Final = {"get_weather": "4 degrees", "get_time": "13:05"}
"""Function -> its output."""

TOOLS: Final = {"get_weather": "city", "get_time": "zone"}
"""Function -> its parameter."""


def parameters(name: str) -> dict[str, Any]:
    """Return the JSON schema of a function's parameters."""
    field = TOOLS[name]
    properties = {field: {"type": "string"}}
    return {"type": "object", "properties": properties, "required": [field], "additionalProperties": False}


Probe = Callable[[], Any] | Callable[[], Awaitable[Any]]


PLAIN: Final = (Exception, BaseException, object)
"""Classes of every exception, which a failure does not list."""


class Failure(NamedTuple):
    """What a client raised, and the number of requests that reached the provider."""

    classes: list[str]
    message: str
    calls: int


async def failure(call: Probe) -> dict[str, Any]:
    """Return what a call raises."""
    reset()
    try:
        await finished(call())
    except Exception as error:  # noqa: BLE001 - the subject of the probe
        classes = [f"{one.__module__}.{one.__qualname__}" for one in type(error).__mro__ if one not in PLAIN]
        return Failure(classes, str(error), sum(calls().values()))._asdict()
    return Failure([], "", sum(calls().values()))._asdict()


async def failures(call: Callable[[str], Any]) -> dict[str, Any]:
    """Return what a client raises for each status of the provider."""
    return {str(status): await failure(lambda status=status: call(f"fail-{status}")) for status in STATUSES}


async def errors(api: str, ways: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return what each way to ask raises for each status of the provider."""
    return {way: await failures(partial(ask, api)) for way, ask in ways.items()}


async def broken(api: str, ways: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    """Return what each way to ask raises for each model that fails within the stream."""
    return {model: {way: await failure(partial(ask, api, model)) for way, ask in ways.items()} for model in BROKEN[api]}


async def finished(value: Any) -> Any:
    """Return a value, awaited if needed."""
    return await value if inspect.isawaitable(value) else value


async def each(models: Iterable[str], call: Callable[[str], Any]) -> dict[str, Any]:
    """Return the result of a call for each model."""
    return {model: await finished(call(model)) for model in models}


def calls() -> dict[str, int]:
    """Return the number of requests that reached the provider, by model."""
    return _provider("GET")


def reset() -> None:
    """Set the number of requests to zero."""
    _provider("DELETE")


def last_request() -> dict[str, Any]:
    """Return the body of the last request that reached the provider."""
    return _provider("GET", "/requests")[-1]


def _provider(method: str, path: str = "/calls") -> Any:
    connection = HTTPConnection(urlsplit(PROVIDER_URL).netloc, timeout=60)
    with closing(connection):
        connection.request(method, path)
        return json.load(connection.getresponse())


def run(probes: Mapping[tuple[str, str], Probe]) -> None:
    """Run the probes and print their results."""
    warnings.simplefilter("error", UserWarning)  # pydantic's, when a model holds what its field does not allow
    asyncio.run(_run(probes))


async def _run(probes: Mapping[tuple[str, str], Probe]) -> None:
    for (api, behaviour), probe in probes.items():
        reset()
        line: dict[str, Any] = {"api": api, "behaviour": behaviour}
        try:
            line["result"] = await finished(probe())
        except Exception as error:  # noqa: BLE001 - a probe that fails is a result
            line["raised"] = f"{type(error).__name__}: {error}"
        line["calls"] = sum(calls().values())
        print(json.dumps(line, default=str), flush=True)  # noqa: T201 - the output of the script
