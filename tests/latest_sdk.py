"""Run the tests of the tables with the newest SDKs: they fail if an SDK has something that the tables lack.

.venv/bin/python tests/latest_sdk.py (`make check-latest`)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SDKS: Final = ("openai", "openai-agents")
TESTS: Final = (
    *("tests/contract/test_tables.py", "tests/contract/test_sdk_members.py"),
    "tests/unit/test_agents_sdk_vocabulary.py",
)
SHOW_VERSIONS: Final = f"from importlib.metadata import version; print(*map(version, {SDKS}), flush=True)"


def main() -> int:
    """Install the newest SDKs in a folder that precedes the locked ones; return pytest's exit status."""
    with tempfile.TemporaryDirectory() as folder:
        python = (sys.executable, "-W", "ignore")
        subprocess.run([*python, "-m", "pip", "install", "--quiet", "--target", folder, *SDKS], check=True)
        environment = {**os.environ, "PYTHONPATH": folder}
        subprocess.run([*python, "-c", SHOW_VERSIONS], env=environment, check=True)
        tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS)
        return subprocess.run([sys.executable, *tests], env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
