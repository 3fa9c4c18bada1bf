"""Requests of webhooks to the servers of callers: to checked addresses only, without redirects.

The address that is checked is the one that is connected to: the resolver of the connector returns allowed addresses
only, so a name cannot change its address in between.
"""

from __future__ import annotations

import hmac
import socket
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, TypeAlias

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver

Address: TypeAlias = IPv4Address | IPv6Address

TRANSLATED: Final = ip_network("64:ff9b::/96")
"""IPv6 addresses that a gateway translates to the IPv4 address in their last 32 bits."""

TIMEOUT_S: Final = 5.0
"""Time limit of one request, required by the protocol."""
CONNECTIONS_MAX: Final = 100

SIGNATURES: Final = ("OpenWOP-Signature", "X-openwop-Signature")
TIMESTAMPS: Final = ("OpenWOP-Timestamp", "X-openwop-Timestamp")
"""Names of the headers in the current and the first version of the protocol; both are sent."""


def is_allowed(address: str, networks: Collection[str]) -> bool:
    """Return whether an address is public, or in one of the networks."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if any(found in ip_network(network) for network in networks):
        return True
    return all(one.is_global and not one.is_multicast for one in (found, *_embedded(found)))


def _embedded(address: Address) -> list[Address]:
    """Return the IPv4 addresses that an IPv6 address stands for."""
    if isinstance(address, IPv4Address):
        return []
    tunnel = address.teredo or ()
    known = (address.ipv4_mapped, address.sixtofour, *tunnel)
    translated = [IPv4Address(int(address) & 0xFFFFFFFF)] if address in TRANSLATED else []
    return [one for one in known if one is not None] + translated


class CheckedResolver(AbstractResolver):
    """Resolves names to allowed addresses; raises `OSError` for a name without one."""

    def __init__(self, allows: Callable[[str], bool]) -> None:
        self._allows = allows
        self._resolver = DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the allowed addresses of a name."""
        found = [one for one in await self._resolver.resolve(host, port, family) if self._allows(one["host"])]
        if not found:
            raise OSError("the host has no allowed address")
        return found

    async def close(self) -> None:
        """Release the resolver."""
        await self._resolver.close()


def signed_headers(secret: str, body: bytes) -> dict[str, str]:
    """Return the signature of a body, and the time that is signed with it."""
    now = str(int(time.time()))
    signature = hmac.digest(secret.encode(), now.encode() + b"." + body, "sha256").hex()
    return dict.fromkeys(SIGNATURES, f"sha256={signature}") | dict.fromkeys(TIMESTAMPS, now)


class WebhookSender:
    """Sends signed requests; `networks` are the private ones that it may reach."""

    def __init__(self, networks: Collection[str]) -> None:
        self._networks = networks
        self._session: aiohttp.ClientSession | None = None

    async def post(self, url: str, secret: str, body: bytes, headers: Mapping[str, str]) -> int:
        """Send a JSON document and return the status; raise `aiohttp.ClientError`, `OSError` or `TimeoutError`."""
        if self._session is None:
            resolver = CheckedResolver(partial(is_allowed, networks=self._networks))
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=resolver, use_dns_cache=False, limit=CONNECTIONS_MAX, force_close=True
                ),
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        sent = {"content-type": "application/json", **headers, **signed_headers(secret, body)}
        async with self._session.post(url, data=body, headers=sent, allow_redirects=False) as response:
            return response.status

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
