"""Webhooks and callback URLs of the OpenWOP host: signed, repeated, to named origins and checked addresses only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import openwop_client as wop
import pytest

from projector.openwop.host.webhook_requests import CheckedResolver, WebhookSender, is_allowed
from tests.asgi.openwop_peer import PATIENCE_S, OpenWopPeer, document, error

REASONING = "conformance-agent-reasoning"
LOW_CONFIDENCE = "conformance-agent-low-confidence"
SECRET = "a key of at least thirty-two characters"
KEY = "a key of a webhook"

Serve = Callable[..., Any]


class Delivery(NamedTuple):
    """A request that a receiver got."""

    path: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """A server of a caller, which answers each request with the next status, and then with 204."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = list(statuses)
        self.got: asyncio.Queue[Delivery] = asyncio.Queue()
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")[:-2]
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        body = await reader.readexactly(int(headers["content-length"]))
        self.got.put_nowait(Delivery(first.split(" ")[1], headers, body))
        status = self._statuses.pop(0) if self._statuses else 204
        writer.write(b"HTTP/1.1 %d x\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n" % status)
        await writer.drain()
        writer.close()

    async def next(self) -> Delivery:
        return await asyncio.wait_for(self.got.get(), PATIENCE_S)


@asynccontextmanager
async def receiving(*statuses: int) -> AsyncIterator[Receiver]:
    receiver = Receiver(*statuses)
    async with await asyncio.start_server(receiver.handle, "127.0.0.1", 0) as server:
        receiver.port = server.sockets[0].getsockname()[1]
        yield receiver


def host_for(serve: Serve, *receivers: Receiver, **settings: Any) -> OpenWopPeer:
    origins = [f"http://127.0.0.1:{receiver.port}" for receiver in receivers]
    openwop = {"conformance": True, "webhook_origins": origins, "webhook_backoff_s": 0.01, **settings}
    return OpenWopPeer(serve(openwop=openwop))


async def register(host: OpenWopPeer, receiver: Receiver, *events: str) -> dict[str, Any]:
    body = {"url": f"http://127.0.0.1:{receiver.port}/hook?x=1", "events": events, "secret": KEY}
    answer = await host.post("/v1/webhooks", body)
    assert answer.status == 201
    said: dict[str, Any] = json.loads(await answer.rest())
    assert (said["url"], said["secret"], said["eventTypes"]) == (body["url"], KEY, list(events))
    return said


def is_signed(delivery: Delivery, key: str) -> bool:
    found = wop.read_webhook_headers(delivery.headers)
    assert found is not None
    return wop.verify_webhook_signature(key, found[0], found[1], delivery.body).valid


async def test_events_are_delivered_signed_and_in_order(serve: Serve) -> None:
    async with receiving() as receiver:
        host = host_for(serve, receiver)
        subscription = (await register(host, receiver, "*"))["subscriptionId"]
        run_id = await host.create(REASONING)
        await host.until(run_id, "completed")
        log = await host.log(run_id)
        got = [await receiver.next() for _ in log]
        assert [json.loads(delivery.body) for delivery in got] == log
        for delivery, event in zip(got, log, strict=True):
            assert delivery.path == "/hook?x=1"
            assert is_signed(delivery, KEY)
            assert not is_signed(delivery, KEY + "x")
            assert delivery.headers["x-openwop-event"] == event["type"]
            assert delivery.headers["x-openwop-delivery"] == event["eventId"]
            assert delivery.headers["x-openwop-subscription"] == subscription
        again = await host.post(f"/v1/runs/{run_id}:fork", {"fromSeq": 0, "mode": "replay"})
        await host.until(json.loads(await again.rest())["runId"], "completed")
        await host.until(await host.create(REASONING), "completed")
        assert json.loads((await receiver.next()).body)["sequence"] == 0  # of the run: replayed events are not sent


async def test_only_the_events_of_a_subscription_are_delivered(serve: Serve) -> None:
    async with receiving() as receiver:
        host = host_for(serve, receiver)
        said = await register(host, receiver, "run.completed", "agent.decided")
        await host.until(await host.create(REASONING), "completed")
        assert [json.loads((await receiver.next()).body)["type"] for _ in range(2)] == [
            "agent.decided",
            "run.completed",
        ]
        path = f"/v1/webhooks/{said['subscriptionId']}?tenantId=t"
        assert (await host.site.get(path, method="DELETE")).status == 204
        await host.until(await host.create(REASONING), "completed")
        assert receiver.got.empty()
        assert (await error(await host.site.get(path, method="DELETE"), 404))["error"] == "subscription_not_found"


async def test_a_callback_gets_what_needs_an_answer_and_the_end(serve: Serve) -> None:
    async with receiving() as receiver:
        host = host_for(serve, receiver, webhook_secret=SECRET)
        run_id = await host.create(LOW_CONFIDENCE, callbackUrl=f"http://127.0.0.1:{receiver.port}/done")
        suspended = await receiver.next()
        assert is_signed(suspended, SECRET)
        token = json.loads(suspended.body)["payload"]["token"]
        await document(await host.post(f"/v1/interrupts/{token}", {"resumeValue": "go on"}))
        ended = await receiver.next()
        assert (ended.path, json.loads(ended.body)["type"]) == ("/done", "run.completed")
        await host.until(run_id, "completed")


@pytest.mark.parametrize(
    ("statuses", "attempts"),
    [
        ((500,), 2),
        ((503, 429, 408), 4),
        ((500,) * 9, 5),
        ((400,), 1),
        ((307,), 1),
        ((301,), 1),
        ((410,), 1),
    ],
)
async def test_a_failed_delivery_is_repeated(serve: Serve, statuses: tuple[int, ...], attempts: int) -> None:
    async with receiving(*statuses) as receiver:
        host = host_for(serve, receiver)
        await register(host, receiver, "run.started", "run.completed")
        await host.until(await host.create(REASONING), "completed")
        got = [await receiver.next() for _ in range(attempts + 1)]
        assert [delivery.headers["x-openwop-event"] for delivery in got] == ["run.started"] * attempts + [
            "run.completed"
        ]
        assert {delivery.path for delivery in got} == {"/hook?x=1"}
        assert all(is_signed(delivery, KEY) for delivery in got)


async def test_a_receiver_that_is_down_does_not_delay_the_run(serve: Serve) -> None:
    async with receiving() as gone:
        pass
    async with receiving() as receiver:
        host = host_for(serve, receiver, gone, webhook_backoff_s=60)
        await register(host, gone, "*")
        await register(host, receiver, "run.completed")
        await host.until(await host.create(REASONING), "completed")
        await receiver.next()


REFUSED: list[tuple[str, object, str]] = [
    ("another origin", "http://127.0.0.2:9/hook", "validation_error"),
    ("another port", "http://127.0.0.1:9/hook", "validation_error"),
    ("another scheme", "https://127.0.0.1:{port}/hook", "validation_error"),
    ("a user", "http://u@127.0.0.1:{port}/hook", "validation_error"),
    ("a host as user", "http://127.0.0.1:{port}@evil.example/hook", "validation_error"),
    ("a backslash", "http://127.0.0.1:{port}\\@evil.example/hook", "validation_error"),
    ("a line break", "http://127.0.0.1:{port}/\nhook", "validation_error"),
    ("no URL", "hook", "validation_error"),
    ("a broken address", "http://[::1/hook", "validation_error"),
    ("no text", 7, "validation_error"),
    ("nothing", "", "validation_error"),
]


@pytest.mark.parametrize(("name", "url", "code"), REFUSED, ids=[row[0] for row in REFUSED])
async def test_other_urls_are_refused(serve: Serve, name: str, url: object, code: str) -> None:
    del name
    async with receiving() as receiver:
        host = host_for(serve, receiver, webhook_secret=SECRET)
        url = url.format(port=receiver.port) if isinstance(url, str) else url
        answers = (
            await host.post("/v1/webhooks", {"url": url, "events": ["*"]}),
            await host.post("/v1/runs", {"workflowId": REASONING, "callbackUrl": url}),
        )
        for answer in answers:
            said = await error(answer, 400)
            assert said["error"] == code
            assert "evil" not in said["message"]


async def test_webhooks_belong_to_their_caller_and_are_limited(serve: Serve) -> None:
    async with receiving() as receiver:
        host = host_for(serve, receiver, max_caller_webhooks=1)
        await register(host, receiver, "*")
        body = {"url": f"http://127.0.0.1:{receiver.port}/", "events": ["*"]}
        assert (await error(await host.post("/v1/webhooks", body), 429))["error"] == "rate_limited"
        for wrong in ({}, {**body, "events": []}, {**body, "events": [""]}, {**body, "secret": "short"}):
            assert (await error(await host.post("/v1/webhooks", wrong), 400))["error"] == "validation_error"


async def test_without_origins_there_are_no_webhooks(serve: Serve) -> None:
    host = OpenWopPeer(serve(openwop={"conformance": True}))
    assert "webhooks" not in await document(await host.get("/.well-known/openwop"))
    for path, body in (
        ("/v1/webhooks", {"url": "https://hooks.example/", "events": ["*"]}),
        ("/v1/runs", {"workflowId": REASONING, "callbackUrl": "https://hooks.example/"}),
    ):
        assert (await error(await host.post(path, body), 400))["error"] == "capability_not_provided"


ADDRESSES: list[tuple[str, tuple[str, ...], bool]] = [
    ("93.184.216.34", (), True),
    ("2606:4700::1111", (), True),
    *((address, (), False) for address in ("127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "100.64.0.1")),
    *((address, (), False) for address in ("0.0.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1%eth0")),
    *((address, (), False) for address in ("fd00::1", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::")),
    ("not an address", (), False),
    ("10.1.2.3", ("10.1.0.0/16",), True),
    ("10.2.2.3", ("10.1.0.0/16",), False),
    ("fd00::1", ("fd00::/8",), True),
]


@pytest.mark.parametrize(("address", "networks", "allowed"), ADDRESSES)
def test_private_addresses_are_allowed_by_name_only(address: str, networks: tuple[str, ...], *, allowed: bool) -> None:
    assert is_allowed(address, networks) == allowed


async def test_a_name_is_connected_to_at_an_allowed_address_only() -> None:
    async with receiving() as receiver:
        url = f"http://localhost:{receiver.port}/hook"
        refused, allowed = WebhookSender(()), WebhookSender(("127.0.0.0/8", "::1/128"))
        with pytest.raises(OSError, match="localhost"):
            await refused.post(url, KEY, b"{}", {})
        assert receiver.got.empty()
        assert await allowed.post(url, KEY, b"{}", {}) == 204
        assert is_signed(await receiver.next(), KEY)
        for sender in (refused, allowed):
            await sender.aclose()
        resolver = CheckedResolver(lambda _: False)
        with pytest.raises(OSError, match="no allowed address"):
            await resolver.resolve("localhost")
        await resolver.close()
