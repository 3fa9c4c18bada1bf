"""A TCP proxy that keeps what a client receives."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Final

READ_BYTES: Final = 65_536
DELTA: Final = re.compile(rb'"(?:delta|text|thinking|partial_json)": ?("(?:[^"\\]|\\.)*")')
"""A string that continues a text or arguments, in streams of the Responses and the Messages API."""


class Tee(ThreadingTCPServer):
    """The proxy before a port of this machine."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.target = ("127.0.0.1", port)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.connections: list[bytearray] = []
        """What came through each."""

    @property
    def received(self) -> bytes:
        """Return all bytes."""
        return b"\n".join(self.connections)

    def joined_deltas(self) -> str:
        """Return what the deltas of each connection say when they are joined, which shows a secret that was cut."""
        return "\n".join("".join(map(json.loads, DELTA.findall(one))) for one in self.connections)


@contextmanager
def kept(port: int) -> Iterator[Tee]:
    """Run a proxy until the end of the block."""
    with Tee(port) as tee:
        threading.Thread(target=tee.serve_forever, daemon=True).start()
        yield tee
        tee.shutdown()


class _Connection(BaseRequestHandler):
    server: Tee
    request: socket.socket

    def handle(self) -> None:
        received = bytearray()
        self.server.connections.append(received)
        with socket.create_connection(self.server.target) as up:
            threading.Thread(target=self._pass_requests, args=(up,), daemon=True).start()
            with suppress(OSError):
                while data := up.recv(READ_BYTES):
                    received += data
                    self.request.sendall(data)
            with suppress(OSError):
                self.request.shutdown(socket.SHUT_RDWR)

    def _pass_requests(self, up: socket.socket) -> None:
        with suppress(OSError):
            while data := self.request.recv(READ_BYTES):
                up.sendall(data)
        with suppress(OSError):
            up.shutdown(socket.SHUT_RDWR)
