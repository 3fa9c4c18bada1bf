"""Routes that count the tokens of a passthrough request before it is sent: by the provider, else by its size."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from anyio.lowlevel import checkpoint
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from projector import StreamContext
from projector.contracts import codec
from projector.core import canonical as read
from projector.core.faults import FAULTS
from projector.providers import PROVIDERS, profile_of
from projector.providers.descriptor import PassthroughRoute, TokenCounting
from projector.server.catalog import AgentBinding, PassthroughBinding
from projector.server.config.target_settings import CircuitBreaker
from projector.server.control.token_meter import REPORTED_MAX, input_tokens
from projector.server.http.error_responses import answer_headers
from projector.server.http.problems import problem_of_failure, request_id
from projector.server.http.request_bodies import check_models, passthrough_body, target_body
from projector.server.http.requests import ClientLeftError, read_json
from projector.server.http.site import Site
from projector.server.http.stream_route import Received, with_carried_state
from projector.server.streaming.deadlines import Clock
from projector.server.streaming.session import report_failure, shown_fault
from projector.server.streaming.side_tasks import SideTasks
from projector.server.upstream.circuit import Circuits
from projector.server.upstream.failover import Attempts
from projector.server.upstream.protocol import ProviderRequest, Upstream, UpstreamError
from projector.server.upstream.reader import UpstreamReader
from projector.server.upstream.targets import Target

ANSWER_MAX_BYTES: Final = 65_536
"""Size of a count; those of providers have less than a hundred bytes."""
_ORIGINAL: Final = "original_input_tokens"
"""Tokens before the provider edits the context, if the request has it do so."""


def count_routes(passthrough: Mapping[str, PassthroughBinding], site: Site) -> list[Route]:
    """Return the routes that count, of the passthrough routes that are on and have one."""
    return [
        Route(counting.path, CountRoute(site, name, one, row, counting), methods=["POST"])
        for name, one in passthrough.items()
        if (row := PROVIDERS[one.api].passthrough) is not None and (counting := PROVIDERS[one.api].counting) is not None
    ]


class CountRoute:
    """An ASGI application that responds with the number of tokens of a request."""

    def __init__(
        self, site: Site, name: str, passthrough: PassthroughBinding, row: PassthroughRoute, counting: TokenCounting
    ) -> None:
        self._site = site
        self._name = name
        self._passthrough = passthrough
        self._row = row
        self._counting = counting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request; raise `Problem` if it is invalid, or the provider fails."""
        site = self._site
        caller, grant = await site.grant(scope)
        grant.check_route(self._name)
        with site.streams.admitted(caller) as account:
            await site.admission(scope, caller, grant)
            try:
                body = await read_json(scope, receive, site.settings, account)
                count = await self._count(Received(scope, body, caller, account, grant), receive)
            except ClientLeftError:
                return
        answer = Response(codec.dumps(count), headers=answer_headers(scope), media_type="application/json")
        await answer(scope, receive, send)

    async def _count(self, received: Received, receive: Receive) -> Mapping[str, Any]:
        """Return the answer; raise `ClientLeftError` if the client disconnects before it is there."""
        received = with_carried_state(received, self._row.carried(received.body), self._site.sealer)
        binding = self._passthrough.binding(received.body.get("model"))
        check_models(received.body, binding, received.grant)
        targets = binding.targets.in_order()
        body_of = partial(self._body, received, binding)
        body = body_of(targets[0])
        counted = [one for target in targets if (one := self._counted(target, body)) is not None]
        if not counted:
            return {"input_tokens": input_tokens(body, REPORTED_MAX, has_flat_files=True)}
        stats = binding.stats(self._row.dialect, received.caller, body, None)
        stats.request_id = request_id(received.scope)
        given = Headers(scope=received.scope)
        stats.caller_headers = {self._passthrough.api: {one: given[one] for one in self._row.headers if one in given}}
        attempts = Attempts(counted, body_of, stats)
        reader = UpstreamReader(attempts, stats, received.account, lambda target: target.report_to(stats))
        try:
            return await _answer(reader, receive)
        except UpstreamError as error:
            redactor = binding.redactor.for_request(received.body, secrets.token_bytes(16))
            pipeline = binding.pipeline(redactor, stats, StreamContext(stats.stream_id), output_format="ndjson")
            failure = report_failure(pipeline, error)
            stats.provider_errors, stats.problem_code = pipeline.provider_errors, error.fault.code
            raise problem_of_failure(error, shown_fault(pipeline, error, failure), failure) from None
        finally:
            self._site.observer.report_request(stats)

    def _body(self, received: Received, binding: AgentBinding, target: Target) -> Mapping[str, object]:
        """Return the body that a request with the caller's body would send to a target."""
        sent = passthrough_body(received.body, binding, required=self._row.required, target=target)
        return target_body(sent, self._row, target, self._passthrough.api, received.kept)

    def _counted(self, target: Target, body: Mapping[str, object]) -> Target | None:
        """Return a target that counts in place of answering; None if it does not count."""
        provider = target.provider
        count = getattr(provider.upstream, "count", None)
        profile = profile_of(provider.api, provider.profile)
        if provider.api != self._passthrough.api or count is None or self._counting.outgoing(body, profile) is None:
            return None
        counting = replace(provider, upstream=_Counting(provider.upstream, count))
        circuit = Circuits(CircuitBreaker(failures=0)).circuit(provider.name, "")
        return replace(target, provider=counting, circuit=circuit)  # a failed count must not keep answers away


class _Counting:
    """An upstream that counts in place of answering."""

    is_recording = False

    def __init__(self, upstream: Upstream, count: Callable[[ProviderRequest], Any]) -> None:
        self.providers = upstream.providers
        self.open = count
        self.aclose = upstream.aclose


async def _answer(reader: UpstreamReader, receive: Receive) -> Mapping[str, Any]:
    """Return what a provider has counted."""
    data, is_gone = bytearray(), False

    def leave(_error: Exception | None = None) -> None:
        nonlocal is_gone
        is_gone = True
        reader.stop()

    async def on_chunk(chunk: bytes) -> bool:
        data.extend(chunk)
        return len(data) > ANSWER_MAX_BYTES

    with SideTasks(leave) as beside:
        beside.watch(receive, leave)
        await reader.run(Clock(), checkpoint, on_chunk)
    if is_gone:
        raise ClientLeftError
    try:
        answer = codec.loads(bytes(data))
    except codec.CodecError:
        answer = None
    tokens = read.count_or_none(answer, "input_tokens") if read.is_mapping(answer) else None
    if tokens is None:
        raise UpstreamError(FAULTS["upstream_malformed"])
    managed = answer.get("context_management")
    original = read.count_or_none(managed, _ORIGINAL) if read.is_mapping(managed) else None
    return {"input_tokens": tokens, **({} if original is None else {"context_management": {_ORIGINAL: original}})}
