"""Every client API with every provider: three turns, and what the provider wants back of them.

The page docs/providers.md has the table: where the server finds what a provider wants back.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.asgi.faithful_clients import CLIENTS, AgUi, AiSdk, ChatCompletions, ChatStream, Client, events_of
from tests.asgi.strict_providers import (
    ANSWERS,
    CREDENTIAL,
    LOST,
    MARKS,
    OUTPUTS,
    PLANTED,
    PROVIDERS,
    USERS,
    mark,
    play,
    target_of,
)

PAGE: Final = Path(__file__).parents[2] / "docs" / "providers.md"
KEY: Final = base64.b64encode(b"k" * 32).decode()


class Mode(NamedTuple):
    """What server and client keep."""

    is_kept: bool = True
    """Whether the server keeps what belongs to calls."""
    has_keys: bool = False
    """Whether the client carries what belongs to reasoning, sealed."""
    is_lossy: bool = False
    """Whether the client keeps texts and calls only."""
    shows_encrypted: bool = False
    """Whether the policy shows encrypted reasoning."""


KEPT, LOSSY, SEALED = (
    Mode(),
    Mode(has_keys=True, is_lossy=True, shows_encrypted=True),
    Mode(is_kept=False, has_keys=True),
)
SHOWN: Final = Mode(shows_encrypted=True)


def settings(port: int, mode: Mode) -> dict[str, Any]:
    policy = {"reasoning": "full", "encrypted_reasoning": mode.shows_encrypted}
    shared = {"policy": policy, "store": "default" if mode.is_kept else "none"}
    names, dialects = [*PROVIDERS], ["public_sse_v1", "ag_ui", "ai_sdk"]
    upstreams = {
        name: {
            "api": one.api,
            "base_url": f"http://localhost:{port}/{name}/a",
            "api_key": PLANTED,
            "models": {name: one.model},
        }
        for name, one in PROVIDERS.items()
    }
    agents = {
        name: {"upstream": name, "model": one.model, "dialects": dialects, **shared} for name, one in PROVIDERS.items()
    }
    return {
        "api_key": None,
        "base_url": None,
        "upstreams": upstreams,
        "agents": agents,
        "passthrough": {"responses": names, "chat_completions": names, "messages": names, **shared},
        "state_encryption_keys": [KEY] if mode.has_keys else [],
    }


async def converse(site: Any, client: Client, count: int = len(ANSWERS)) -> tuple[str, str]:
    """Return all that the client receives in the conversation, and why it fails; empty if it does not."""
    heard = ""
    for at, said in enumerate(ANSWERS[:count]):
        if at in USERS:
            client.ask(USERS[at], has_image=at == 0)
        answer = await site.ask(client.url, client.body())
        text = (await answer.rest()).decode()
        heard += text
        if answer.status != 200:
            return heard, f"answer {at}: {text}"
        shown, calls = client.hear(events_of(text))
        assert (shown.split()[:1], calls) == (said.text.split()[:1], [call_id for call_id, _ in said.calls])
        if calls:
            client.answer([(call_id, OUTPUTS[call_id]) for call_id in reversed(calls)])
    return heard, ""


def cells() -> dict[str, list[str]]:
    """Return the table of the page: path of a client -> a cell for each provider."""
    table = PAGE.read_text(encoding="utf-8").partition("| client | ")[2].partition("\n\n")[0]
    titles, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert titles == [row.title for row in PROVIDERS.values()]
    return {path.strip("`"): found for path, *found in rows}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.__name__)
async def test_three_turns(serve: Any, upstream: Any, upstream_port: int, client: type[Client], provider: str) -> None:
    scripted = await upstream(play)

    async def outcome(mode: Mode) -> tuple[str, bool]:
        """Return why a conversation fails, and whether the provider got a placeholder for a signature."""
        site = serve(**settings(upstream_port, mode))
        heard, failure = await converse(site, client(provider, is_lossy=mode.is_lossy))
        assert not [one for one in (CREDENTIAL, PLANTED, *MARKS) if one in heard]
        bodies = [scripted.peers.get_nowait().body for _ in range(scripted.peers.qsize())]
        return failure, LOST in json.dumps(bodies)

    assert await outcome(KEPT) == ("", False)
    assert await outcome(LOSSY) == ("", False)
    failure, is_lost = await outcome(SEALED)
    found = "server" if failure else "server, or a placeholder" if is_lost else "server or client"
    assert cells()[client.title][[*PROVIDERS].index(provider)] == found, failure


@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.__name__)
async def test_encrypted_reasoning_that_is_shown_goes_back_once(
    serve: Any, upstream: Any, upstream_port: int, client: type[Client]
) -> None:
    scripted = await upstream(play)
    heard, failure = await converse(serve(**settings(upstream_port, SHOWN)), client("openai", is_lossy=False))
    assert not failure
    assert not [one for one in (CREDENTIAL, PLANTED) if one in heard]
    last = [scripted.peers.get_nowait().body for _ in ANSWERS][-1]
    found = [item["encrypted_content"] for item in last["input"] if item.get("type") == "reasoning"]
    has_all = client not in {ChatCompletions, ChatStream}
    assert found == [mark(at) for at in ((0, 1, 2, 3) if has_all else (0, 1, 3))]


@pytest.mark.parametrize("client", [ChatStream, AgUi, AiSdk], ids=lambda one: one.__name__)
@pytest.mark.parametrize("provider", ["deepseek", "compatible", "anthropic", "gemini"])
@pytest.mark.parametrize("mode", [KEPT, SEALED], ids=["kept", "sealed"])
async def test_a_conversation_stays_at_the_target_that_its_state_is_from(
    serve: Any, upstream: Any, upstream_port: int, mode: Mode, client: type[Client], provider: str
) -> None:
    if mode is SEALED and cells()[client.title][[*PROVIDERS].index(provider)] != "server or client":
        return
    scripted = await upstream(play)
    given = settings(upstream_port, mode)
    first = given["upstreams"][provider]
    given["upstreams"]["other"] = {**first, "base_url": first["base_url"][:-1] + "b", "models": ["other"]}
    targets = [{"upstream": name, "model": PROVIDERS[provider].model} for name in (provider, "other")]
    two = {name: one for name, one in given["agents"][provider].items() if name not in {"upstream", "model"}}
    given["agents"] = {provider: {**two, "targets": targets, "balance": "weight"}}
    site = serve(**given)
    accounts = []
    for count in (len(ANSWERS), 1, len(ANSWERS)):  # targets take turns, so that the last conversation begins at another
        _, failure = await converse(site, client(provider, is_lossy=False), count)
        assert not failure
        accounts.append({target_of(scripted.peers.get_nowait())[1] for _ in range(count)})
    assert sorted(map(sorted, accounts[::2])) == [["a"], ["b"]]


@pytest.mark.parametrize("client", [AgUi, AiSdk], ids=lambda one: one.__name__)
async def test_a_changed_value_is_refused_while_calls_wait(
    serve: Any, upstream: Any, upstream_port: int, client: type[Client]
) -> None:
    scripted = await upstream(play)
    site, chat = serve(**settings(upstream_port, SEALED)), client("anthropic", is_lossy=False)
    await converse(site, chat, 1)
    chat.history = json.loads(re.sub(r"(sealed\.[^\"]{60}).", r"\1_", json.dumps(chat.history)))
    problem = await (await site.ask(chat.url, chat.body())).problem()
    assert problem["code"] == "invalid_request"
    assert problem["detail"].startswith("`messages` is not valid: it was changed")
    assert scripted.peers.qsize() == 1
