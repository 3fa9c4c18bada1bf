"""The demo page in a browser, built from the sources of the TypeScript client."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.conftest import running
from tests.clients.test_client_package import passed
from tests.clients.typescript_client import ran
from tests.deploy.browser import pictures

pytestmark = pytest.mark.node


def test_the_built_files_are_fresh(typescript_client: Path) -> None:
    assert ran(["node", "build.mjs", "--check"], typescript_client / "demo") == ""


def test_the_sources_compile(typescript_client: Path) -> None:
    ran(["node", "../node_modules/typescript/bin/tsc", "--project", "."], typescript_client / "demo")


@pytest.mark.timeout(600)
def test_a_person_can_use_it(typescript_client: Path, program: Callable[[str], str], tmp_path: Path) -> None:
    demo = [sys.executable, "-m", "projector", "demo", "--port", "0"]
    with running(demo) as url, running(demo, PROJECTOR_DEMO_PACE_S="0.3") as slow:
        command = ["node", "page.test.mjs", f"{url}/", program("chromium"), str(pictures(tmp_path)), f"{slow}/"]
        assert passed(ran(command, typescript_client / "demo", limit_s=580)) == 17


@pytest.mark.timeout(600)
def test_it_survives_failures(typescript_client: Path, program: Callable[[str], str], tmp_path: Path) -> None:
    assert typescript_client.is_dir()  # its packages have the driver of the browser
    command = ["node", "demo_page.test.mjs", sys.executable, program("chromium"), str(pictures(tmp_path))]
    assert passed(ran(command, Path(__file__).parents[1] / "deploy", limit_s=580)) == 3


@pytest.mark.timeout(600)
def test_a_person_can_look_at_streams(typescript_client: Path, program: Callable[[str], str], tmp_path: Path) -> None:
    with running([sys.executable, "-m", "projector", "demo", "--port", "0"]) as url:
        command = ["node", "streams.test.mjs", f"{url}/", program("chromium"), str(pictures(tmp_path)), sys.executable]
        assert passed(ran(command, typescript_client / "demo", limit_s=580)) == 5
