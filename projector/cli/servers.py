"""Servers, and their configuration."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from projector.cli import health_probe
from projector.cli.common import shell


def demo(arguments: argparse.Namespace) -> int:
    """Serve with the built-in provider; print a line to try."""
    return _serve({"port": arguments.port}, None, is_demo=True)


def serve(arguments: argparse.Namespace) -> int:
    """Serve with the configured provider."""
    shell("process").refuse_workers(arguments.workers)
    return _serve({"host": arguments.host, "port": arguments.port}, arguments.config, is_demo=False)


def health(arguments: argparse.Namespace) -> int:
    """Say whether a server lives; status 1 if it does not."""
    why_not = health_probe.why_not_alive(arguments.url)
    print("The server lives." if why_not is None else why_not)
    return 0 if why_not is None else 1


def check_config(arguments: argparse.Namespace) -> int:
    """Say whether a server could start with this configuration file and this environment."""
    shell("config.loading").load(os.environ, config=arguments.file)
    print("The configuration can be served.")
    return 0


def print_config(arguments: argparse.Namespace) -> int:
    """Print the settings in effect as TOML, secrets masked."""
    loaded = shell("config.loading").read(os.environ, config=arguments.file)
    print(shell("config.config_dump").shown(loaded), end="")
    return 0


def _serve(flags: Mapping[str, object], config: Path | None, *, is_demo: bool) -> int:
    settings = shell("config.loading").load(os.environ, flags, config)
    shell("process").run(settings, demo=is_demo)
    return 0
