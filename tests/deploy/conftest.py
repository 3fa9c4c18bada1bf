"""Servers and scripted upstreams, shared with the tests of the server."""

from __future__ import annotations

from tests.asgi.conftest import _quiet, _sites, serve, upstream, upstream_port

__all__ = ["_quiet", "_sites", "serve", "upstream", "upstream_port"]
