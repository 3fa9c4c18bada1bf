"""Exceptions of the real `anthropic` SDK as faults: it is installed with the other clients, not with the project."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

PROGRAM = Path(__file__).parent / "python" / "failures_anthropic.py"


def test_exceptions_of_the_sdk_are_failures_of_the_provider(python_clients: Path) -> None:
    done = subprocess.run([python_clients, PROGRAM], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "429": ["upstream_http_429", None],
        "529": ["upstream_http_529", None],
        "401": ["upstream_http_401", None],
        "refused": ["upstream_unreachable", None],
        "silent": ["upstream_timeout_idle", None],
        "error in the stream": [
            "provider_error",
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        ],
    }
