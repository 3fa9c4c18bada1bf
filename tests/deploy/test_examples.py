"""deploy/examples, each built by npm and used in Chromium before a real server."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from tests.clients.conftest import running
from tests.clients.test_client_package import OPTIONS, passed
from tests.deploy.browser import pictures
from tests.deploy.example_provider import Desk, page, ran

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

HERE: Final = Path(__file__).parent
DIALECT: Final = HERE.parents[1] / "contracts" / "ai_sdk" / "README.md"
DRIVE_S: Final = 560
AGENT: Final[dict[str, Any]] = {
    "upstream": "one",
    "model": "gpt-x",
    "dialects": ["public_sse_v1", "ai_sdk", "ag_ui"],
    "client_tools": ["get_departures"],
    "on_disconnect": "continue",
}

TURNS: Final = [["message"], ["message", "message", "message"]]
"""Items of the requests of two turns: the second has the first."""
TOOL: Final = [["message"], ["message", "function_call", "function_call_output"]]
"""Items of the requests of a turn with a tool of the page."""

Use: TypeAlias = Callable[..., Awaitable[int]]


@pytest.fixture
def use(example: Callable[[str], Path], program: Callable[[str], str], tmp_path: Path) -> Use:
    """Build and use an example before the server at a URL; return the number of tests of its script that passed."""

    async def run(name: str, server: str, *provider: str) -> int:
        async with page(example(name), tmp_path / "built", server) as url:
            command = ["node", f"example-{name}.mjs", url, program("chromium"), str(pictures(tmp_path)), *provider]
            return passed(await ran(*command, folder=HERE, limit_s=DRIVE_S))

    return run


@pytest.fixture
async def desk(upstream: Any) -> Desk:
    """The scripted provider."""
    found = Desk()
    await upstream(found)
    return found


@pytest.fixture
def urls(serve: Any, upstream_port: int) -> tuple[str, str]:
    """URLs of a server and of the scripted provider behind it."""
    provider = f"http://localhost:{upstream_port}"
    upstreams = {"one": {"base_url": f"{provider}/v1"}}
    site = serve(api_key=None, base_url=None, upstreams=upstreams, agents={"default": AGENT})
    return f"http://127.0.0.1:{site.port}", provider


DECISIONS: Final = [True, False]


async def test_use_chat(use: Use, desk: Desk, urls: tuple[str, str]) -> None:
    assert await use("use-chat", *urls) == 9
    assert desk.types("room")[:2] == TURNS
    assert desk.types("boats")[:2] == TOOL
    assert desk.decisions() == DECISIONS
    assert await desk.left.get() == "stop"
    assert desk.left.empty()


async def test_the_code_of_the_dialect_compiles(example: Callable[[str], Path], tmp_path: Path) -> None:
    """That of contracts/ai_sdk/README.md, with the packages of use-chat."""
    (tmp_path / "node_modules").symlink_to(example("use-chat") / "node_modules")
    (code,) = re.findall(r"```tsx\n(.*?)```", DIALECT.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "page.tsx").write_text(code, encoding="utf-8")
    await ran("node", "node_modules/typescript/bin/tsc", *OPTIONS, "page.tsx", folder=tmp_path, limit_s=120)


async def test_use_chat_with_the_demo(use: Use) -> None:
    with running([sys.executable, "-m", "projector", "demo", "--port", "0"]) as server:
        assert await use("use-chat", server) == 4


async def test_assistant_ui(use: Use, desk: Desk, urls: tuple[str, str]) -> None:
    assert await use("assistant-ui", *urls) == 12
    assert desk.types("room")[:6] == 3 * TURNS
    assert desk.types("boats") == 2 * TOOL
    assert desk.decisions() == 2 * DECISIONS


async def test_copilotkit(use: Use, desk: Desk, urls: tuple[str, str]) -> None:
    assert await use("copilotkit", *urls) == 4
    assert desk.types("boats") == TOOL
    assert desk.decisions() == DECISIONS
