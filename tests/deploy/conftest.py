"""Servers and scripted upstreams, as the tests of the shell have them."""

from __future__ import annotations

from tests.asgi.conftest import _quiet, _sites, serve, upstream, upstream_port

__all__ = ["_quiet", "_sites", "serve", "upstream", "upstream_port"]
