"""A route that answers with a stream: from who asks and what, to a relay that runs. Pure ASGI, no layer per event.

Where a request wants the answer in one piece, it is the same relay with another line
(`projector.server.streaming.response_mode`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import anyio
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from projector import StreamContext
from projector.dialects.options import DialectOptions
from projector.server.catalog import AgentBinding
from projector.server.config.settings import Settings
from projector.server.http import requests
from projector.server.http.authenticator import Authenticator
from projector.server.http.problems import problem
from projector.server.http.requests import ClientLeftError
from projector.server.ownership import Ownership
from projector.server.streaming.memory import Account
from projector.server.streaming.registry import Streams
from projector.server.streaming.response_mode import response_mode
from projector.server.streaming.session import ProviderSource, StreamSession
from projector.server.telemetry.observer import Observer
from projector.server.telemetry.tracing import begin_stream


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request asks for."""

    binding: AgentBinding
    body: Mapping[str, Any]
    agent: str | None = None
    """As the request named it."""
    conversation_id: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    is_stream: bool | None = True
    """Whether the answer is to be a stream; None where the request does not say."""
    options: DialectOptions | None = None
    """What the dialect repeats and obeys."""


Reader: TypeAlias = Callable[[dict[str, Any], Mapping[str, str]], Ask]
"""Gives what the body and the path of a request ask for; raises `Problem` where they may not ask."""


@dataclass(frozen=True, slots=True)
class Site:
    """What all routes of one server share."""

    settings: Settings
    streams: Streams
    ownership: Ownership
    authenticator: Authenticator
    observer: Observer


class Asked(NamedTuple):
    """A request whose body has been read, and who asks."""

    scope: Scope
    body: dict[str, Any]
    caller: str
    account: Account


class SessionRoute(ABC):
    """A route that answers with a stream, as an ASGI application.

    Args:
        site: of the server.
        dialects: what at least some requests may choose, for who describes the server.
    """

    def __init__(self, site: Site, dialects: Collection[str]) -> None:
        self._site = site
        self.dialects = dialects

    @abstractmethod
    def session(self, asked: Asked) -> StreamSession:
        """Give the stream that a request asks for.

        Raises:
            Problem: there is none.
        """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with a stream.

        Raises:
            Problem: there is no stream for this request.
        """
        site = self._site
        caller = await site.authenticator.caller(scope)
        with site.streams.admitted(caller) as account:
            try:
                with anyio.fail_after(site.settings.timeouts.request_read_s):
                    body = await requests.read_json(scope, receive, site.settings.limits.max_body_bytes, account)
            except TimeoutError:
                raise problem("request_timeout") from None
            except ClientLeftError:
                return
            session = self.session(Asked(scope, body, caller, account))
            with site.streams.running(session):
                await site.observer.run(session, scope, receive, send)


class StreamRoute(SessionRoute):
    """A route whose stream is the answer of one upstream.

    Args:
        read: gives what a request asks for.
        site: of the server.
        dialects: what at least some requests may choose, for who describes the server.
    """

    def __init__(self, read: Reader, site: Site, dialects: Collection[str]) -> None:
        super().__init__(site, dialects)
        self._read = read

    def session(self, asked: Asked) -> StreamSession:
        """Return the session of a response; see `SessionRoute`."""
        scope, body, caller, account = asked
        ask = self._read(body, scope["path_params"])
        named = QueryParams(scope["query_string"]).get("dialect")
        mode, dialect = response_mode(ask.binding, named, is_stream=ask.is_stream)
        self._check_owner(ask, caller)
        ownership = self._site.ownership
        facts = ask.binding.stats(dialect, caller, ask.body, ask.conversation_id, ask.metadata)
        facts.on_response = lambda response_id: ownership.add_response(response_id, caller)
        facts.on_approval = ownership.add_approval
        stats = begin_stream(scope, facts)
        context = StreamContext(stats.stream_id, ask.conversation_id, ask.agent)
        pipeline = ask.binding.pipeline(stats, context, options=ask.options, output_format=mode.output_format)
        provider, settings = ask.binding.provider, self._site.settings
        reader = provider.reader(ask.body, stats, account, settings.retries)
        return StreamSession(
            stats,
            ProviderSource(pipeline, reader),
            account,
            timeouts=provider.timeouts,
            heartbeat_s=settings.heartbeat_s if mode.has_heartbeats else math.inf,
            writer_type=mode.writer_type,
        )

    def _check_owner(self, ask: Ask, caller: str) -> None:
        previous = ask.body.get("previous_response_id")
        if previous is not None:
            if not isinstance(previous, str):
                raise problem("invalid_request", "`previous_response_id` must be text.")
            self._site.ownership.check_response(previous, caller)
        if ask.conversation_id is not None:
            self._site.ownership.enter_conversation(ask.conversation_id, caller)
