"""A client of the OpenWOP host for tests: JSON responses and event streams."""

from __future__ import annotations

import asyncio
import json
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from projector.openwop.event_log import RUN_TERMINALS
from projector.openwop.events import EVENT_ADAPTER
from tests.openwop_reader import check_log

with warnings.catch_warnings(action="ignore"):
    from jsonschema import Draft202012Validator, FormatChecker
    from referencing import Registry, Resource

if TYPE_CHECKING:
    from tests.asgi.conftest import Answer, Site

Check: TypeAlias = Callable[[str, object], None]

PATIENCE_S = 60.0
"""Seconds to wait for something immediate on a busy machine."""


class Message(NamedTuple):
    """One SSE message; a comment has no data."""

    id: str | None
    event: str | None
    data: Any


class OpenWopPeer:
    """Client of one host, as one caller."""

    def __init__(self, site: Site, **headers: str) -> None:
        self.site = site
        self._headers = headers

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.site.get(path, **{"accept": "application/json", **self._headers, **headers})

    async def post(self, path: str, body: object, **headers: str) -> Answer:
        return await self.site.ask(path, body, **self._headers, **headers)

    async def create(self, workflow_id: str, **members: object) -> str:
        answer = await self.post("/v1/runs", {"workflowId": workflow_id, **members})
        assert answer.status == 201
        created = json.loads(await answer.rest())
        assert set(created) == {"runId", "status", "eventsUrl", "statusUrl"}
        assert created["status"] == "pending"
        run_id: str = created["runId"]
        return run_id

    async def say(self, message: str, workflow_id: str = "helper", **members: object) -> str:
        return await self.create(workflow_id, inputs={"message": message}, **members)

    async def snapshot(self, run_id: str) -> dict[str, Any]:
        return await document(await self.get(f"/v1/runs/{run_id}"))

    async def until(self, run_id: str, *statuses: str, patience_s: float = PATIENCE_S) -> dict[str, Any]:
        deadline = time.monotonic() + patience_s
        while (snapshot := await self.snapshot(run_id))["status"] not in statuses:
            assert time.monotonic() < deadline, snapshot
            await asyncio.sleep(0.01)
        return snapshot

    async def log(self, run_id: str) -> list[dict[str, Any]]:
        """Return the log of a run; check the rules over a whole log if the run has ended."""
        said = await document(await self.get(f"/v1/runs/{run_id}/events"))
        assert set(said) == {"events"}
        events: list[dict[str, Any]] = said["events"]
        if events[-1]["type"] in RUN_TERMINALS:
            assert check_log([json.dumps(event) for event in events]) == [], types(events)
        return events

    async def stream(self, run_id: str, query: str = "", **headers: str) -> Answer:
        answer = await self.get(f"/v1/runs/{run_id}/events{query}", accept="text/event-stream", **headers)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        return answer

    async def resolve(self, run_id: str, node_id: str, action: str, **members: object) -> Answer:
        body = {"resumeValue": {"action": action}, **members}
        return await self.post(f"/v1/runs/{run_id}/interrupts/{node_id}", body)


async def document(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, await answer.rest()
    assert answer.headers["content-type"] == "application/json"
    said: dict[str, Any] = json.loads(await answer.rest())
    return said


async def error(answer: Answer, status: int) -> dict[str, Any]:
    """Return the error object; check that it has no other members."""
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    said: dict[str, Any] = json.loads(await answer.rest())
    assert {"error", "message"} <= said.keys() <= {"error", "message", "details"}
    return said


async def messages(answer: Answer) -> list[Message]:
    return messages_of(await answer.rest())


def messages_of(data: bytes) -> list[Message]:
    return [_message(block.decode()) for block in data.split(b"\n\n") if block and not block.startswith(b":")]


def _message(block: str) -> Message:
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    return Message(fields.get("id"), fields.get("event"), json.loads(fields["data"]))


def types(events: list[dict[str, Any]] | list[Message]) -> list[str]:
    return [str(event["type"] if isinstance(event, Mapping) else event.event) for event in events]


def schema_check(folder: Path) -> Check:
    """Return a function that validates a document against a schema of the protocol, `FILE` or `FILE#POINTER`."""
    schemas = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("schemas/*.json")]
    registry = Registry().with_resources([(schema["$id"], Resource.from_contents(schema)) for schema in schemas])

    def check(reference: str, value: object) -> None:
        schema = {"$ref": f"https://openwop.dev/spec/v1/{reference}"}
        Draft202012Validator(schema, registry=registry, format_checker=FormatChecker()).validate(value)

    return check


def hold(check: Check, event: dict[str, Any]) -> None:
    """Validate an event against the protocol's schemas and our models."""
    check("run-event.schema.json", event)
    kind = event["type"]
    check(f"run-event-payloads.schema.json#/$defs/_typeIndex/properties/{kind}", event["payload"])
    EVENT_ADAPTER.validate_python(event)
