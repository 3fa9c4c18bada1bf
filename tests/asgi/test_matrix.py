"""Every client API with every provider: three turns, and what the provider wants back of them.

The page docs/providers.md has the table: where the server finds what a provider wants back.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from projector.server.upstream.targets import LOST as LOST_STATE
from tests.asgi.conftest import Peer
from tests.asgi.faithful_clients import (
    CLIENTS,
    AgUi,
    AiSdk,
    ChatCompletions,
    ChatStream,
    Client,
    Messages,
    events_of,
)
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
        is_stream = answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers.get("incremental") == ("?1" if is_stream else None)
        shown, calls = client.hear(events_of(text))
        assert (shown.split()[:1], calls) == (said.text.split()[:1], [call_id for call_id, _ in said.calls])
        if calls:
            client.answer([(call_id, OUTPUTS[call_id]) for call_id in reversed(calls)])
    return heard, ""


def cells() -> dict[str, list[str]]:
    """Return the table of the page: path of a client -> a cell for each provider."""
    table = PAGE.read_text(encoding="utf-8").partition("| client | ")[2].partition("\n\n")[0]
    titles, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert sorted(", ".join(titles).split(", ")) == sorted(row.title for row in PROVIDERS.values())
    return {
        path.strip("`"): [
            next(cell for title, cell in zip(titles, found, strict=True) if row.title in title.split(", "))
            for row in PROVIDERS.values()
        ]
        for paths, *found in rows
        for path in paths.split(", ")
    }


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.__name__)
async def test_three_turns(serve: Any, upstream: Any, upstream_port: int, client: type[Client], provider: str) -> None:
    scripted = await upstream(play)

    async def outcome(mode: Mode) -> tuple[str, bool]:
        """Return why a conversation fails, and whether the provider got a placeholder for a signature."""
        site = serve(**settings(upstream_port, mode))
        heard, failure = await converse(site, client(provider, is_lossy=mode.is_lossy))
        assert not [one for one in (CREDENTIAL, PLANTED, *MARKS) if one in heard]
        assert failure or "<redacted>" in heard
        assert failure or client is ChatStream or "Polite." in heard, "reasoning is shown"
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
    site = serve(**at_two(upstream_port, provider, mode=mode, balance="weight"))
    accounts = []
    for count in (len(ANSWERS), 1, len(ANSWERS)):  # targets take turns, so that the last conversation begins at another
        _, failure = await converse(site, client(provider, is_lossy=False), count)
        assert not failure
        accounts.append({target_of(scripted.peers.get_nowait())[1] for _ in range(count)})
    assert sorted(map(sorted, accounts[::2])) == [["a"], ["b"]]


def at_two(port: int, provider: str, model: str = "", mode: Mode = KEPT, **more: Any) -> dict[str, Any]:
    """Return settings with an agent and a model of two targets: another account, or another `model` of the same."""
    given = settings(port, mode)
    first, name = given["upstreams"][provider], PROVIDERS[provider].model
    given["upstreams"]["other"] = {**first, "base_url": first["base_url"][:-1] + "b", "models": ["other"]}
    second = {"upstream": provider, "model": model} if model else {"upstream": "other", "model": name}
    two = {name: one for name, one in given["agents"][provider].items() if name not in {"upstream", "model"}}
    targets = [{"upstream": provider, "model": name}, second]
    given["agents"] = {provider: {**two, "targets": targets, **more}}
    return {**given, "retries": {"max": 0}}


def unless_down(down: set[str]) -> Callable[[Peer], Awaitable[None]]:
    """Return the script of providers of which some accounts answer 503."""

    async def script(peer: Peer) -> None:
        if target_of(peer)[1] in down:
            await peer.send(b"HTTP/1.1 503 Down\r\ncontent-length: 0\r\n\r\n")
        else:
            await play(peer)

    return script


async def go_on(site: Any, client: Client, first: int, last: int) -> str:
    """Play some answers of the conversation; return why one fails."""
    for at in range(first, last):
        if at in USERS:
            client.ask(USERS[at], has_image=at == 0)
        answer = await site.ask(client.url, client.body())
        text = (await answer.rest()).decode()
        if answer.status != 200:
            return text
        _, calls = client.hear(events_of(text))
        if calls:
            client.answer([(call_id, OUTPUTS[call_id]) for call_id in calls])
    return ""


@pytest.mark.parametrize(
    ("provider", "moves"), [("anthropic", True), ("gemini", True), ("openai", False), ("deepseek", False)]
)
async def test_what_follows_if_the_target_of_a_conversation_is_down(
    serve: Any, upstream: Any, upstream_port: int, provider: str, *, moves: bool
) -> None:
    """Within a turn, the request is not sent to others; in a later one it is, if the provider goes on without."""
    down: set[str] = set()
    scripted = await upstream(unless_down(down))
    mode = SHOWN if provider == "openai" else KEPT
    site, client = serve(**at_two(upstream_port, provider, mode=mode)), ChatStream(provider, is_lossy=False)

    def accounts() -> list[str]:
        return [target_of(scripted.peers.get_nowait())[1] for _ in range(scripted.peers.qsize())]

    assert await go_on(site, client, 0, 1) == ""
    down.add("a")
    assert '"code":"upstream_http_503"' in await go_on(site, client, 1, 2)
    assert accounts() == ["a", "a"]
    down.clear()
    assert await go_on(site, client, 1, 3) == ""
    down.add("a")
    failure = await go_on(site, client, 3, 4)
    assert ('"code":"upstream_http_503"' in failure) is not moves
    assert accounts() == ["a", "a", "a", *(["b"] if moves else [])]
    down.clear()
    if moves:
        assert await go_on(site, client, 4, len(ANSWERS)) == ""
        assert set(accounts()) == {"b"}, "the turn goes on where it began, and the next one there"


async def test_a_conversation_stays_at_a_model_of_its_upstream(serve: Any, upstream: Any, upstream_port: int) -> None:
    scripted = await upstream(play)
    site = serve(**at_two(upstream_port, "openai", "n", SHOWN, balance="weight"))
    models = []
    for count in (len(ANSWERS), 1, len(ANSWERS)):  # targets take turns, so that the last conversation begins at another
        _, failure = await converse(site, AgUi("openai", is_lossy=False), count)
        assert not failure
        models.append({scripted.peers.get_nowait().body["model"] for _ in range(count)})
    assert models[::2] == [{"m"}, {"n"}]


async def refuses(peer: Peer) -> None:
    """Refuse a request that is too long."""
    text = b'{"error": {"message": "It is too long."}}'
    await peer.send(b"HTTP/1.1 400 Bad\r\ncontent-length: %d\r\n\r\n%b" % (len(text), text))


@pytest.mark.parametrize("provider", ["deepseek", "compatible", "anthropic"])
@pytest.mark.parametrize("client", [ChatStream, ChatCompletions, Messages], ids=lambda one: one.__name__)
async def test_lost_state_is_told_apart(
    serve: Any, upstream: Any, upstream_port: int, client: type[Client], provider: str
) -> None:
    """As at another server without a shared store, or after a time."""
    plays = [play]

    async def script(peer: Peer) -> None:
        await plays[-1](peer)

    await upstream(script)
    sites = [serve(**settings(upstream_port, KEPT), heartbeat_s=100 + at) for at in range(2)]
    chat = client(provider, is_lossy=True)
    assert await go_on(sites[0], chat, 0, 1) == ""
    sites[1].state.site.call_keeper._values.clear()  # of the tests before
    failure = await go_on(sites[1], chat, 1, 2)
    assert LOST_STATE in failure
    assert ('"code":"upstream_http_400"' in failure) is (client is ChatStream)
    plays.append(refuses)
    failure = await go_on(sites[1], chat, 1, 2)
    assert failure
    assert LOST_STATE not in failure


@pytest.mark.parametrize(
    ("client", "provider", "path"),
    [
        (AgUi, "anthropic", "messages"),
        (AiSdk, "anthropic", "messages"),
        (AgUi, "gemini", "messages"),
        (AiSdk, "compatible", "messages"),
        (ChatCompletions, "compatible", "messages[1].tool_calls[0].extra_content"),
        (ChatCompletions, "gemini", "messages[1].tool_calls[0].extra_content"),
    ],
)
async def test_a_changed_value_is_refused_while_calls_wait(
    serve: Any, upstream: Any, upstream_port: int, client: type[Client], provider: str, path: str
) -> None:
    scripted = await upstream(play)
    site, chat = serve(**settings(upstream_port, SEALED)), client(provider, is_lossy=False)
    await converse(site, chat, 1)
    chat.history = json.loads(re.sub(r"(sealed\.[^\"]{60}).", r"\1_", json.dumps(chat.history)))
    answer = await site.ask(chat.url, chat.body())
    assert answer.status in {400, 422}
    assert f"`{path}` is not valid: it was changed" in (await answer.rest()).decode()
    assert scripted.peers.qsize() == 1
