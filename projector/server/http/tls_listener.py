"""Accepting TLS connections: each counts towards the limits from its acceptance on.

A server of asyncio tells its protocol of a connection after the handshake only. Until then, clients that send nothing
would take a file descriptor and 100 KB each, without a limit.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from projector.server.http.connection import GuardedProtocol

_PAUSE_S: Final = 1.0
"""Seconds without accepting after a failure, such as too many open files; those of asyncio."""


class TlsListener:
    """Accepts connections on a listening socket, with the part of the interface of `asyncio.Server` that is used."""

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], GuardedProtocol],
        context: ssl.SSLContext,
        handshake_s: float,
    ) -> None:
        listener.setblocking(False)
        self.sockets = (listener,)
        self._listener = listener
        self._make_protocol = make_protocol
        self._context = context
        self._handshake_s = handshake_s
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Accept no more connections, and close those in a handshake."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until `close` is complete."""
        await asyncio.wait([self._accepting, *self._handshakes])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(self._listener)
            except OSError:
                await asyncio.sleep(_PAUSE_S)
                continue
            protocol = self._make_protocol()
            if protocol.admission.admit(str(peer[0])):
                handshake = asyncio.create_task(self._shake_hands(connection, str(peer[0]), protocol))
                self._handshakes.add(handshake)
                handshake.add_done_callback(self._handshakes.discard)
            else:
                connection.close()

    async def _shake_hands(self, connection: socket.socket, address: str, protocol: GuardedProtocol) -> None:
        protocol.is_admitted = True
        loop = asyncio.get_running_loop()
        try:
            with suppress(OSError):  # TLS errors and the time-out are included
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await loop.connect_accepted_socket(
                    lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=self._handshake_s
                )
        finally:
            if protocol.transport is None:  # otherwise the protocol is told of the end of its connection
                protocol.admission.release(address)
                connection.close()
