"""The configurations in docs/openwop.md, and the host they configure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from projector.openwop.host.descriptions import PATHS
from projector.server.config.loading import load
from tests.asgi.openwop_peer import OpenWopPeer

PAGE = (Path(__file__).parents[2] / "docs" / "openwop.md").read_text(encoding="utf-8")
AGENT, WEBHOOKS, CONFORMANCE = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
(BODY,) = re.findall(r"-d '(.*?)'", PAGE)


def read(text: str, folder: Path) -> Any:
    file = folder / "projector.toml"
    file.write_text(text, encoding="utf-8")
    return load({"OPENAI_API_KEY": "sk-test"}, config=file)


def test_the_agent_of_the_page_can_be_run(tmp_path: Path) -> None:
    settings = read(AGENT, tmp_path)
    asked = json.loads(BODY)
    assert "openwop" in settings.agents[asked["workflowId"]].dialects
    assert settings.openwop is not None


def test_the_webhooks_are_configured(tmp_path: Path) -> None:
    openwop = read(WEBHOOKS, tmp_path).openwop
    assert (openwop.webhook_origins, openwop.webhook_networks) == (("https://hooks.example",), ("10.20.0.0/16",))


def test_the_workflow_is_registered(tmp_path: Path) -> None:
    settings = read(CONFORMANCE, tmp_path)
    assert "my-check" in settings.openwop.registered()


def test_the_webhooks_of_the_page_are_settings(tmp_path: Path) -> None:
    settings = read(WEBHOOKS, tmp_path)
    assert [str(one) for one in settings.openwop.webhook_origins] == ["https://hooks.example"]


async def test_the_demo_is_a_host_for_the_suite(serve: Callable[..., Any]) -> None:
    (variable,) = re.findall(r"\$ (PROJECTOR_\w+)=true projector demo", PAGE)
    assert variable == "PROJECTOR_OPENWOP__CONFORMANCE"
    host = OpenWopPeer(serve(demo=True, openwop={"conformance": True}), authorization="Bearer whatever")
    for workflow_id in ("conformance-agent-reasoning", "conformance-agent-reasoning-streaming"):
        await host.until(await host.create(workflow_id), "completed")


@pytest.mark.parametrize("path", re.findall(r"^\| `(?:GET|POST) (\S+)` \|", PAGE, re.MULTILINE))
def test_every_path_of_the_page_is_one_of_the_host(path: str) -> None:
    known = {re.sub(r"\{\w+\}", "{}", known) for known in PATHS}
    assert re.sub(r"\{\w+\}", "{}", path) in known
