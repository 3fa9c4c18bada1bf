"""Accepting connections: many in a turn of the event loop, and each counts towards the limits from its acceptance on.

A server of uvloop accepts one connection in a turn, so that new clients would wait behind the work of all others. And
it tells its protocol of a connection with TLS after the handshake only: until then, clients that send nothing would
take a file descriptor and 100 KB each, without a limit.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Final

from projector.server.http.connection import GuardedProtocol

ACCEPTED_MAX: Final = 64
"""Connections that are accepted in one turn of the event loop; more would hold up those that are open."""
_PAUSE_S: Final = 1.0
"""Seconds without accepting after a failure, such as too many open files; those of asyncio."""


class Listener:
    """Accepts connections on a listening socket, with the part of the interface of `asyncio.Server` that is used.

    Args:
        listener: the socket; it is closed with this object.
        make_protocol: returns the protocol of a connection.
        context: of TLS; None for plain connections.
        handshake_s: seconds that the handshake of a connection may take.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], GuardedProtocol],
        context: ssl.SSLContext | None = None,
        handshake_s: float | None = None,
    ) -> None:
        listener.setblocking(False)
        self.sockets = (listener,)
        self._listener = listener
        self._make_protocol = make_protocol
        self._context = context
        self._handshake_s = None if context is None else handshake_s
        self._connecting: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Accept no more connections, and close those in a handshake."""
        for task in (self._accepting, *self._connecting):
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until `close` is complete."""
        await asyncio.wait([self._accepting, *self._connecting])

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        with closing(self._listener):
            while True:
                try:
                    self._begin(*await loop.sock_accept(self._listener))
                    for _ in range(ACCEPTED_MAX - 1):
                        self._begin(*self._listener.accept())
                except BlockingIOError:  # no other one waits
                    pass
                except OSError:
                    await asyncio.sleep(_PAUSE_S)
                await asyncio.sleep(0)

    def _begin(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        connection.setblocking(False)
        protocol = self._make_protocol()
        if self._context is None or protocol.admission.admit(peer[0]):  # a plain connection gets a response
            protocol.is_admitted = self._context is not None
            task = asyncio.create_task(self._connect(connection, peer[0], protocol))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)
        else:
            connection.close()

    async def _connect(self, connection: socket.socket, address: str, protocol: GuardedProtocol) -> None:
        loop = asyncio.get_running_loop()
        try:
            with suppress(OSError):  # TLS errors and the time-out are included
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await loop.connect_accepted_socket(
                    lambda: protocol, connection, ssl=self._context, ssl_handshake_timeout=self._handshake_s
                )
        finally:
            if protocol.transport is None:  # otherwise the protocol is told of the end of its connection
                if protocol.is_admitted:
                    protocol.admission.release(address)
                connection.close()
