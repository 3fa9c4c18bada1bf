"""Settings of `projector demo`: the page, streams that survive a lost connection, and a secret to withhold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from projector.dialects import DIALECTS
from projector.server.config.config_base import DEFAULT, DEFAULT_DIALECT
from projector.server.config.extensions import EXTENSIONS
from projector.server.config.setting_names import PREFIX

SECRET: Final = "harbour-master-7781"  # noqa: S105 - made up; an example repeats it in a text, and the server withholds it
"""API key of the built-in provider."""
PAGE_TOOL: Final = "get_departures"
"""A function of the examples that a page may run itself (`deploy/examples`)."""


def demo_flags(port: int | None, environ: Mapping[str, str] = os.environ) -> Mapping[str, object]:
    """Return the settings of a demo server, which take precedence over the environment."""
    off = {name for name in EXTENSIONS if not any(one.startswith(f"{PREFIX}{name.upper()}__") for one in environ)}
    names = [name for name in DIALECTS if name != DEFAULT_DIALECT and name not in off]
    agent = {
        "upstream": DEFAULT,
        "model": "demo",
        "dialects": [DEFAULT_DIALECT, *names],
        "client_tools": [PAGE_TOOL],
        "on_disconnect": "continue",
    }
    return {"port": port, "demo_page": True, "api_key": SECRET, "agents": {DEFAULT: agent}}
