"""Run tests/contract/test_tables.py with the newest provider SDK: what it has and our tables lack, turns red.

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
SHOW_VERSION: Final = "import openai; print('openai', openai.__version__, flush=True)"


def main() -> int:
    """Install the newest SDK beside the locked one, where Python finds it first; give pytest's exit status."""
    with tempfile.TemporaryDirectory() as folder:
        python = (sys.executable, "-W", "ignore")
        subprocess.run([*python, "-m", "pip", "install", "--quiet", "--target", folder, "openai"], check=True)
        environment = {**os.environ, "PYTHONPATH": folder}
        subprocess.run([*python, "-c", SHOW_VERSION], env=environment, check=True)
        tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/contract/test_tables.py")
        return subprocess.run([sys.executable, *tests], env=environment, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
