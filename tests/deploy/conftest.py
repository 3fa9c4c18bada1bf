"""Servers and scripted upstreams, shared with the tests of the server, and the built Next.js app."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.asgi.conftest import _quiet, _sites, serve, upstream, upstream_port

__all__ = ["_quiet", "_sites", "serve", "upstream", "upstream_port"]

QUIET: Final = {"NEXT_TELEMETRY_DISABLED": "1"}
SOURCES: Final = ("*.json", "*.ts", "app/**/*", "components/*", "lib/*", "node_modules/public-stream-client/dist")


@pytest.fixture(scope="session")
def nextjs_app(nextjs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder deploy/nextjs with a build that is not older than its sources."""
    done = nextjs / ".next" / "BUILD_ID"
    sources = [path for pattern in SOURCES for path in nextjs.glob(pattern) if path.name != "next-env.d.ts"]
    with (tmp_path_factory.getbasetemp().parent / "nextjs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # processes of one run share the folder
        if not done.exists() or done.stat().st_mtime < max(path.stat().st_mtime for path in sources):
            command = ["node", "node_modules/next/dist/bin/next", "build"]
            ran = subprocess.run(
                command, cwd=nextjs, env=os.environ | QUIET, capture_output=True, text=True, check=False
            )
            assert ran.returncode == 0, ran.stdout + ran.stderr
    return nextjs
