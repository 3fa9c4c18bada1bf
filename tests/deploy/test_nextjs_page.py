"""The page of deploy/nextjs in a browser."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.test_client_package import passed
from tests.clients.typescript_client import ran
from tests.deploy.browser import pictures

pytestmark = [pytest.mark.node, pytest.mark.timeout(700)]  # the first test builds


def test_a_person_can_use_it(
    nextjs_app: Path, typescript_client: Path, program: Callable[[str], str], tmp_path: Path
) -> None:
    assert typescript_client.is_dir()  # its packages have the driver of the browser
    arguments = [str(nextjs_app), sys.executable, program("chromium"), str(pictures(tmp_path))]
    assert passed(ran(["node", "nextjs_page.test.mjs", *arguments], Path(__file__).parent, limit_s=580)) == 34
