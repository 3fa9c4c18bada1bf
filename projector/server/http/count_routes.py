"""Routes beside those of the passthrough APIs, whose answer is one JSON object of the provider.

One counts the tokens of a request before it is sent: by the provider, else by its size. Another one compacts a
conversation, which only the provider can do.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack

from anyio.lowlevel import checkpoint
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from projector.contracts import codec
from projector.contracts.json_values import count_values
from projector.contracts.limits import EVENT_VALUES_MAX
from projector.core import canonical as read
from projector.core.faults import FAULTS, Fault
from projector.dialects.openai_errors import status_of
from projector.providers import PROVIDERS
from projector.providers.descriptor import TokenCounting
from projector.providers.error_shapes import error_of
from projector.redaction.redactor import Redactor
from projector.server.catalog import AgentBinding, PassthroughBinding
from projector.server.config.upstream_settings import CircuitBreaker
from projector.server.control.rate_limits import Admission
from projector.server.control.token_meter import IMAGE_TOKENS, REPORTED_MAX, TokenMeter, input_tokens
from projector.server.http.problems import ClientLeftError, json_answer, problem, problem_of_failure, request_id
from projector.server.http.request_bodies import home_targets, passthrough_body, target_body
from projector.server.http.requests import read_json
from projector.server.http.site import Site
from projector.server.http.stored_references import conversation_id_of
from projector.server.http.stream_route import Received, caller_headers, check_ownership, enter_passthrough
from projector.server.streaming.clock import SideTasks, watch_client
from projector.server.streaming.memory import LARGE_EVENT_BYTES, Account
from projector.server.streaming.session import report_failure
from projector.server.telemetry.stream_stats import StreamStats
from projector.server.upstream.circuit import Circuits
from projector.server.upstream.protocol import Ask, ProviderFailure, UpstreamError
from projector.server.upstream.reader import UpstreamReader
from projector.server.upstream.targets import Attempts, Target

ANSWER_MAX_BYTES: Final = 65_536
"""Size of a count; those of providers have less than a hundred bytes."""
_ORIGINAL: Final = "original_input_tokens"
"""Tokens before the provider edits the context, if the request has it do so."""


def count_routes(passthrough: Mapping[str, PassthroughBinding], site: Site) -> list[Route]:
    """Return the routes beside the passthrough routes that are on."""
    found: list[tuple[str, _Beside]] = []
    for name, one in passthrough.items():
        provider = PROVIDERS[one.api]
        if provider.counting is not None:
            found.append((provider.counting.path, CountRoute(site, name, one, provider.counting)))
        if provider.compact_path is not None:
            found.append((one.route.path + COMPACT, CompactRoute(site, name, one)))
    return [Route(path, route, methods=["POST"]) for path, route in found]


class _Beside(ABC):
    """An ASGI application that responds with a JSON object about a request."""

    _kind: Ask
    """What a target is asked for."""

    def __init__(self, site: Site, name: str, passthrough: PassthroughBinding) -> None:
        self._site = site
        self._name = name
        self._passthrough = passthrough
        self._row = passthrough.route

    @property
    def _required(self) -> str:
        """Required member of the body, in addition to `model`."""
        return self._row.required

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request; raise `Problem` if it is invalid, or the provider fails."""
        site = self._site
        caller, grant = await site.authenticator.grant(scope)
        grant.check_route(self._name)
        with site.streams.admitted(caller) as account:
            admission = await site.limiter.enter(scope, caller, grant.rate_limits)
            body = await read_json(scope, receive, site.settings, account)
            await site.ownership.load(body)
            received = Received(scope, body, caller, account, grant)
            received, binding = enter_passthrough(site, self._passthrough, received)
            found = await self._found(received, binding, receive, admission)
        await json_answer(found, scope)(scope, receive, send)

    @abstractmethod
    async def _found(
        self, received: Received, binding: AgentBinding, receive: Receive, admission: Admission, /
    ) -> Mapping[str, Any]:
        """Return the answer; raise `ClientLeftError` if the client disconnects before it is there."""

    async def _ask(
        self,
        received: Received,
        receive: Receive,
        binding: AgentBinding,
        targets: Sequence[Target],
        read_answer: Callable[[Mapping[str, object], Redactor], _Answer | None],
        max_bytes: int = ANSWER_MAX_BYTES,
        admission: Admission | None = None,
    ) -> tuple[_Answer, StreamStats]:
        """Return what one of the targets has answered; raise `Problem` if they fail, or it is no answer.

        `max_bytes` is the largest size of the answer; its tokens are charged to the admission, if there is one.
        """
        body_of = partial(self._body, received, binding)
        body = body_of(targets[0])
        stats = binding.stats(self._row.dialect, received.caller, body, None)
        stats.request_id = request_id(received.scope)
        stats.caller_headers = {self._passthrough.api: caller_headers(received.scope, self._row)}
        redactor = binding.redactor.for_request(received.body, secrets.token_bytes(16))
        reader = UpstreamReader(
            Attempts(targets, body_of, stats, ask=self._kind),
            stats,
            received.account,
            lambda one: one.report_to(stats),
            lambda error: report_failure(redactor, error, stats),
        )
        try:
            if admission is not None:
                context = self._site.ownership.tokens_of(body.get("previous_response_id"))
                stats.meter = await admission.take_stream(TokenMeter([], body, context))
            data = await _read_answer(reader, receive, max_bytes, received.account)
            answer = await _process(received.account, len(data), _object, data)
            if stats.meter is not None:
                stats.meter.on_usage(read.mapping_or_empty(answer, "usage"))
            return await _process(received.account, len(data), _read, read_answer, answer, redactor), stats
        except UpstreamError as error:
            stats.code = error.fault.code
            raise problem_of_failure(error, *report_failure(redactor, error, stats)) from None
        finally:
            if admission is not None:
                await admission.close()
            self._site.observer.report_request(stats)

    def _askable(self, targets: Sequence[Target]) -> list[Target]:
        """Return those of the targets that can be asked for this; what fails then must not keep answers away."""
        circuits = Circuits(CircuitBreaker(failures=0))
        return [
            replace(target, circuit=circuits.circuit(one.name, ""))
            for target in targets
            if (one := target.provider).api == self._passthrough.api and self._kind in getattr(one.upstream, "asks", ())
        ]

    def _body(self, received: Received, binding: AgentBinding, target: Target) -> Mapping[str, object]:
        """Return the body that a request with the caller's body would send to a target."""
        sent = passthrough_body(received.body, binding, required=self._required, target=target)
        return target_body(sent, self._row, target, self._passthrough.api, received.kept)


class CountRoute(_Beside):
    """Responds with the number of tokens of a request."""

    _kind = "count"

    def __init__(self, site: Site, name: str, passthrough: PassthroughBinding, counting: TokenCounting) -> None:
        super().__init__(site, name, passthrough)
        self._counting = counting

    async def _found(
        self, received: Received, binding: AgentBinding, receive: Receive, _admission: Admission, /
    ) -> Mapping[str, Any]:
        targets = binding.targets.in_order()
        body = self._body(received, binding, targets[0])
        counted = [one for one in self._askable(targets) if self._counting.outgoing(body, one.profile) is not None]
        if not counted:
            return {"input_tokens": input_tokens(body, REPORTED_MAX, file_max=IMAGE_TOKENS)}
        return (await self._ask(received, receive, binding, counted, lambda answer, _: _count_of(answer)))[0]


COMPACT: Final = "/compact"
"""End of the path of the route that compacts a conversation."""
_NO_COMPACTION: Final = "The provider of this model does not compact conversations: ask the model for a summary."
_COMPACTIONS: Final = frozenset({"compaction", "compaction_summary"})


class CompactRoute(_Beside):
    """Responds with a conversation that the provider has compacted: redacted, its opaque state as it came."""

    _kind = "compact"

    @property
    def _required(self) -> str:
        return "model"  # the conversation is `input`, or that of `previous_response_id`

    async def _found(
        self, received: Received, binding: AgentBinding, receive: Receive, admission: Admission, /
    ) -> Mapping[str, Any]:
        ownership, caller = self._site.ownership, received.caller
        conversation_id = conversation_id_of(received.body)
        check_ownership(ownership, received.body, conversation_id, caller)
        await ownership.confirm(conversation_id, caller)
        ordered = home_targets(received.body, binding.targets.in_order(), binding.targets.targets, ownership)
        if not (targets := self._askable(ordered)):
            raise problem("not_found", _NO_COMPACTION)
        limit = binding.redactor.policy.limits.event_max_bytes
        found, stats = await self._ask(received, receive, binding, targets, _compaction_of, limit, admission)
        for item in found["output"]:
            if isinstance(item, dict) and isinstance(item.get("id"), str):
                ownership.add("item", item["id"], caller, stats.upstream)
        ownership.write()
        return found


_Answer = TypeVar("_Answer")
_Ts = TypeVarTuple("_Ts")


async def _read_answer(reader: UpstreamReader, receive: Receive, max_bytes: int, account: Account) -> bytes:
    """Return what a provider has answered, at most little more than `max_bytes`."""
    data, is_gone = bytearray(), False

    def leave(_error: Exception | None = None) -> None:
        nonlocal is_gone
        is_gone = True
        reader.stop()

    async def on_chunk(chunk: bytes) -> bool:
        data.extend(chunk)
        account.hold(len(chunk))
        return len(data) > max_bytes

    with SideTasks(leave) as beside:
        beside.start(watch_client, receive, leave)
        await reader.read(checkpoint, on_chunk)
    if is_gone:
        raise ClientLeftError
    return bytes(data)


async def _process(account: Account, n_bytes: int, work: Callable[[Unpack[_Ts]], _Answer], *arguments: *_Ts) -> _Answer:
    """Return the result of work on an answer of this size; on a large one, off the event loop."""
    if n_bytes <= LARGE_EVENT_BYTES:
        return work(*arguments)
    return await account.memory.process(work, *arguments)


def _object(data: bytes) -> Mapping[str, object]:
    """Return the answer of a provider, an empty object if it is none; raise `UpstreamError` if it has too many values.

    What is larger than the limit of bytes is cut, and so no object.
    """
    if count_values(data, EVENT_VALUES_MAX) > EVENT_VALUES_MAX:
        raise UpstreamError(FAULTS["upstream_event_too_large"])
    try:
        answer = codec.loads(data)
    except codec.CodecError:
        answer = None
    return answer if read.is_mapping(answer) else {}


def _read(
    read_answer: Callable[[Mapping[str, object], Redactor], _Answer | None],
    answer: Mapping[str, object],
    redactor: Redactor,
) -> _Answer:
    """Return what is read of an answer; raise the error that the provider reports in its place (CONTRACT D48)."""
    found = read_answer(answer, redactor)
    if found is not None:
        return found
    error = error_of(answer)
    if error is None:
        raise UpstreamError(FAULTS["upstream_malformed"])
    status = status_of(error.code, error.type)
    failure = ProviderFailure(status, error.message, error.type, error.code, error.param)
    raise UpstreamError(Fault.of_status(status), failure=failure)


def _count_of(answer: Mapping[str, object]) -> Mapping[str, Any] | None:
    tokens = read.count_or_none(answer, "input_tokens")
    if tokens is None:
        return None
    managed = answer.get("context_management")
    original = read.count_or_none(managed, _ORIGINAL) if read.is_mapping(managed) else None
    return {"input_tokens": tokens, **({} if original is None else {"context_management": {_ORIGINAL: original}})}


def _compaction_of(answer: Mapping[str, object], redactor: Redactor) -> dict[str, Any] | None:
    """Return a compacted conversation without sensitive values, None if the answer is none.

    Raises:
        UpstreamError: it has more items and parts than a response may have.
    """
    output = answer.get("output")
    if not isinstance(output, list) or not all(map(read.is_mapping, output)):
        return None
    contents = (item.get("content") for item in output)
    parts = sum(len(content) for content in contents if isinstance(content, list))
    if len(output) + parts > redactor.policy.limits.items_max:
        raise UpstreamError(FAULTS["upstream_response_too_large"])
    rest = {name: value for name, value in answer.items() if name in _COMPACTED}
    return {**_clean(rest, redactor), "output": [_clean_item(item, redactor) for item in output]}


_COMPACTED: Final = frozenset({"id", "object", "created_at", "usage"})
"""Members of a compacted conversation besides its items."""
_STATE: Final = "encrypted_content"


def _clean_item(item: Mapping[str, object], redactor: Redactor) -> dict[str, Any]:
    """Return an item of a compacted conversation. Its texts are whole, as the next request needs them."""
    content, state = item.get("content"), item.get(_STATE)
    rest = _clean({name: value for name, value in item.items() if name not in {"content", _STATE}}, redactor)
    if isinstance(content, list):
        rest["content"] = [_clean_part(part, redactor) for part in content if read.is_mapping(part)]
    elif isinstance(content, str):
        rest["content"] = redactor.text(content).value
    if isinstance(state, str) and (item.get("type") in _COMPACTIONS or redactor.policy.encrypted_reasoning):
        stream = redactor.value_stream()
        rest[_STATE] = stream.feed(state).value + stream.close().value
    return rest


def _clean_part(part: Mapping[str, object], redactor: Redactor) -> dict[str, Any]:
    text = part.get("text")
    if not isinstance(text, str):
        return _clean(part, redactor)
    rest = {name: value for name, value in part.items() if name != "text"}
    return {**_clean(rest, redactor), "text": redactor.text(text).value}


def _clean(value: Mapping[str, object], redactor: Redactor) -> dict[str, Any]:
    limit = redactor.policy.limits.arguments_text_max_chars
    clean = redactor.json(value, string_max_chars=limit).value
    return dict(clean) if isinstance(clean, dict) else {}
