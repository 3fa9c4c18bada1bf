"""`projector record`: one request to a real upstream on loopback, kept as a case that replays."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import pytest

from projector import UsageError, cli
from projector.dialects import DIALECTS
from projector.recording import replay
from tests.asgi.conftest import Peer
from tests.rule_samples import MIXED

SECRET = "sk-" + MIXED[:48]
REQUEST = {"model": "m", "input": "Hello", "instructions": "Be kind."}
EVENTS = [
    {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "instructions": "Be kind."}},
    {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "delta": f"Your key {SECRET[:5]}"},
    {
        "type": "response.output_text.delta",
        "item_id": "msg_1",
        "output_index": 0,
        "delta": f"{SECRET[5:]} of the vault",
    },
    {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "delta": "-value, key-of-the-house."},
    {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}},
]
CONFIG = """
[upstreams.one]
base_url = "http://localhost:{port}/v1"
api_key = "${{HOUSE_KEY}}"
timeouts.idle_s = 0.2

[upstreams.chat]
api = "openai_chat"
base_url = "http://localhost:{port}/v1"
profile.think_mode = "assume_open"

[upstreams.claude]
api = "anthropic_messages"
base_url = "http://localhost:{port}/v1"

[upstreams.google]
api = "gemini"
base_url = "http://localhost:{port}/v1beta"
api_key = "${{HOUSE_KEY}}"

[agents.helper]
upstream = "one"
model = "m"
policy.registered = [{{ id = "vault", value = "vault-value" }}]
"""


class Done(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Awaitable[Done]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], upstream_port: int) -> Run:
    """Runs `record` in a folder with a configuration and a request, beside the upstream of the test."""
    for name in [name for name in os.environ if name.startswith("PROJECTOR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOUSE_KEY", "key-of-the-house")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "projector.toml").write_text(CONFIG.format(port=upstream_port))
    (tmp_path / "request.json").write_text(json.dumps(REQUEST), "utf-8-sig")  # as some editors do

    async def run_one(*arguments: str, request: object = None) -> Done:
        if request is not None:
            await anyio.Path("request.json").write_text(json.dumps(request))
        named = [] if "--again" in arguments else ["--", "request.json"]
        line = ["record", "--config", "projector.toml", *arguments, *named]
        status = await anyio.to_thread.run_sync(cli.main, line)
        return Done(status, *capfd.readouterr())

    return run_one


def kept_lines(case: str) -> list[bytes]:
    return Path(f"recordings/{case}.ndjson").read_bytes().splitlines()


def written(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def sends(*events: dict[str, Any], end: str = "end") -> Callable[[Peer], Awaitable[None]]:
    async def script(peer: Peer) -> None:
        await peer.start()
        for event in events:
            await peer.event(event)
        if end == "end":
            await peer.end()
        elif end == "reset":
            peer.reset()
        else:
            await peer.gone.wait()

    return script


async def test_a_request_becomes_a_case_that_replays(run: Run, upstream: Any, capfd: Any) -> None:
    provider = await upstream(sends(*EVENTS))
    done = await run("--upstream", "one", "--dir", "kept", "--name", "hello")
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        "kept/openai_responses/hello.ndjson: 5 events, 3 values redacted",
        "Next: review the case, write its golden files, and commit both:",
        "  projector replay kept --update",
    ]
    peer = provider.peers.get_nowait()
    assert peer.body == {**REQUEST, "stream": True}
    assert peer.header(b"authorization") == b"Bearer key-of-the-house"
    (case,) = replay.load_cases(Path("kept"))
    kept = [json.loads(line) for line in case.source.read_bytes().splitlines()]
    assert [event.get("delta") for event in kept[1:4]] == [
        "Your key <redacted>",
        " of the [REDACTED:vault]",
        ", <redacted>.",
    ]
    assert kept[0]["response"] == {"id": "resp_1", "status": "in_progress", "instructions": ""}
    assert cli.main(["replay", "kept"]) == 1
    assert capfd.readouterr().out.count("golden is missing") == len(DIALECTS)
    assert cli.main(["replay", "kept", "--update"]) == 0
    assert cli.main(["replay", "kept"]) == 0


async def test_dropped_input_is_listed(run: Run, upstream: Any) -> None:
    await upstream(sends(EVENTS[0], {"type": "response.odd"}, {**EVENTS[1], "extra": 1}, EVENTS[-1]))
    done = await run("--upstream", "one", "--name", "odd")
    assert done.status == 0
    assert done.out.splitlines()[1] == "openai_responses/odd.ndjson: dropped: event.extra (1), response.odd (1)"


async def test_raw_keeps_everything_and_warns(run: Run, upstream: Any) -> None:
    await upstream(sends(*EVENTS))
    done = await run("--upstream", "one", "--raw", "--name", "hello")
    assert done.status == 0
    assert "--raw saves the stream unredacted" in done.err
    assert "commit" not in done.out
    assert [json.loads(line) for line in kept_lines("openai_responses/hello")] == EVENTS


async def test_the_profile_of_the_upstream_goes_with_the_case(run: Run, upstream: Any) -> None:
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": {"content": text}}]} for text in ("hm", "</think>Hello")]
    await upstream(sends(*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    done = await run("--upstream", "chat", "--name", "thought", request={"model": "m", "messages": []})
    assert (done.status, done.err) == (0, "")
    (case,) = replay.load_cases(Path("recordings"))
    assert (case.provider, case.settings.profile) == ("openai_chat", {"think_mode": "assume_open"})
    last = json.loads(replay.play(case, "public_sse_v1").splitlines()[-1])
    assert last["final"]["response_text"] == "Hello"


@pytest.mark.parametrize(
    ("name", "api", "own", "other"),
    [
        ("one", "openai_responses", "`input`", "messages"),
        ("chat", "openai_chat", "`messages`", "input"),
        ("claude", "anthropic_messages", "`messages`", "contents"),
        ("google", "gemini", "`contents` or `input`", "messages"),
    ],
)
async def test_a_request_of_the_other_api_is_not_sent(run: Run, name: str, api: str, own: str, other: str) -> None:
    done = await run("--upstream", name, request={"model": "m", other: []})
    assert done.status == 2
    assert f'`api = "{api}"`: expected {own} in the request, not `{other}`' in done.err


async def test_a_request_of_interactions_is_sent(run: Run, upstream: Any) -> None:
    await upstream(sends({"event_type": "interaction.created", "interaction": {"id": "int_1"}}))
    done = await run("--upstream", "google", request={"model": "m", "input": "Hello"})
    assert (done.status, done.err) == (0, "")


@pytest.mark.parametrize(("end", "code"), [("reset", "upstream_reset"), ("silence", "upstream_timeout_idle")])
async def test_a_broken_stream_is_a_case_that_breaks(run: Run, upstream: Any, end: str, code: str) -> None:
    await upstream(sends(*EVENTS[:2], end=end))
    done = await run("--upstream", "one", "--name", "broken")
    assert done.status == 0
    assert f"The stream was cut off, and the case ends the same way: {code}" in done.out
    (case,) = replay.load_cases(Path("recordings"))
    assert json.loads(replay.play(case, "public_sse_v1").splitlines()[-1])["error"]["code"] == code


async def test_an_error_of_the_provider_is_a_case_and_is_said(run: Run, upstream: Any) -> None:
    failed = {"id": "resp_1", "status": "failed", "error": {"code": "server_error", "message": "secret"}}
    await upstream(sends(EVENTS[0], {"type": "response.failed", "response": failed}))
    done = await run("--upstream", "one", "--name", "failed")
    assert done.status == 0
    assert "The stream did not complete, and the case ends the same way: failed" in done.out
    (case,) = replay.load_cases(Path("recordings"))
    assert json.loads(replay.play(case, "public_sse_v1").splitlines()[-1])["kind"] == "final"


async def test_a_name_is_made_of_the_upstream_and_the_time(run: Run, upstream: Any) -> None:
    await upstream(sends(*EVENTS))
    assert (await run("--upstream", "one")).status == 0
    (case,) = replay.load_cases(Path("recordings"))
    upstream_name, day, time = case.name.split("-")
    assert (upstream_name, len(day), len(time)) == ("one", 8, 6)


async def test_the_only_upstream_needs_no_name(run: Run, upstream: Any, upstream_port: int) -> None:
    await upstream(sends(*EVENTS))
    written("projector.toml", f'[upstreams.alone]\nbase_url = "http://localhost:{upstream_port}/v1"\n')
    assert (await run("--name", "case")).status == 0
    (case,) = replay.load_cases(Path("recordings"))
    assert case.name == "case"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"", ".", id="no-body"),
        pytest.param(
            b'{"error": {"message": "Unknown parameter: top_k, with key-of-the-house"}}',
            ": Unknown parameter: top_k, with <redacted>",
            id="message-of-the-provider",
        ),
    ],
)
async def test_a_refused_request_writes_no_case(
    run: Run, upstream: Any, upstream_port: int, body: bytes, reason: str
) -> None:
    async def refuse(peer: Peer) -> None:
        head = b"HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        await peer.send(head % len(body) + body)

    await upstream(refuse)
    done = await run("--upstream", "one")
    cause = "The provider answered with HTTP status 401 (the server's key for it is missing or not accepted)"
    expected = f"upstream_http_401: localhost:{upstream_port}: {cause}{reason}"
    assert done == Done(1, "", f"projector: {expected}\n")
    with pytest.raises(UsageError, match="expected a folder"):
        replay.load_cases(Path("recordings"))


@pytest.mark.parametrize("host", ["localhost", "[::1]"])
async def test_an_unreachable_upstream_is_named_by_its_address(run: Run, upstream_port: int, host: str) -> None:
    written("projector.toml", CONFIG.format(port=upstream_port).replace("localhost", host))
    done = await run("--upstream", "one")
    expected = (
        f"projector: upstream_unreachable: {host}:{upstream_port}: The provider could not be reached (refused).\n"
    )
    assert done == Done(1, "", expected)
    with pytest.raises(UsageError, match="not found"):
        replay.load_cases(Path("recordings"))


@pytest.mark.parametrize(
    ("arguments", "request_text", "message"),
    [
        (("--upstream", "two"), None, "unknown upstream `two`; known: `one`, `chat`"),
        ((), None, "`--upstream`: expected `one` or `chat`"),
        (("--upstream", "one", "--name", "../up"), None, "name of a case: expected a letter or digit, then"),
        (("--upstream", "one", "--name", "taken"), None, "`taken`: expected a new name"),
        (("--upstream", "one"), "[1]", "request.json: the request must be a JSON object"),
        (("--upstream", "one"), "{", "request.json: the request must be a JSON object"),
        (
            ("--upstream", "one", "--dir", "request.json"),
            None,
            "request.json: expected a folder that can be written: Not",
        ),
        (("--upstream", "one", "--dir", "/proc/cases"), None, "/proc/cases: expected a folder that can be written"),
    ],
)
async def test_mistakes_are_reported_before_a_request_is_sent(
    run: Run, arguments: tuple[str, ...], request_text: str | None, message: str
) -> None:
    written("recordings/openai_chat/taken.ndjson", "{}\n")
    if request_text is not None:
        written("request.json", request_text)
    done = await run(*arguments)
    assert (done.status, done.out) == (2, "")
    assert message in done.err


async def test_without_an_upstream_its_settings_are_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    written("projector.toml", "")
    done = await run()
    assert (done.status, done.out) == (2, "")
    assert "OPENAI_API_KEY" in done.err
    assert "--config" in done.err


async def test_a_case_is_recorded_again(run: Run, upstream: Any) -> None:
    again, events = ("--again", "--name", "hello"), [*EVENTS]

    async def script(peer: Peer) -> None:
        await sends(*events)(peer)

    await upstream(script)
    assert (await run("--upstream", "one", "--name", "hello", "--keep-request")).status == 0
    assert json.loads(await anyio.Path("recordings/requests/one/hello.json").read_text()) == REQUEST
    done = await run(*again)
    assert (done.status, done.out) == (0, "1 case recorded again, 0 changed\n")
    events[:] = [EVENTS[0], {"type": "response.odd"}, {**EVENTS[-1], "surprise": 7}]
    done = await run(*again)
    assert done.status == 1
    assert done.out.splitlines() == [
        "hello: kinds: new `response.odd`",
        "hello: kinds: no `response.output_text.delta`",
        "hello: members of `response.completed`: new `surprise` (number)",
        "1 case recorded again, 1 changed",
    ]
    assert len(kept_lines("openai_responses/hello")) == len(EVENTS)
    assert (await run(*again, "--force")).status == 1
    assert len(kept_lines("openai_responses/hello")) == 3
    assert (await run(*again)).status == 0


MESSAGES: Final = [{"role": "user", "content": "Hello"}]
CHUNK: Final = {"id": "c", "object": "chat.completion.chunk"}
OF_CHAT: Final = [
    CHUNK | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    CHUNK | {"choices": [{"index": 0, "delta": {"content": "Good "}}]},
    CHUNK | {"choices": [{"index": 0, "delta": {"content": "day."}}]},
    CHUNK | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]
OF_GEMINI: Final = [
    {"candidates": [{"content": {"parts": [{"text": "Good "}], "role": "model"}, "index": 0}], "responseId": "r"},
    {"candidates": [{"content": {"parts": [{"text": "day."}]}, "finishReason": "STOP", "index": 0}], "responseId": "r"},
]
OF_CLAUDE: Final = [
    {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": []}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Good day."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]


@pytest.mark.parametrize(
    ("name", "request_body", "events", "kinds"),
    [
        pytest.param("chat", {"model": "m", "messages": MESSAGES}, OF_CHAT, 3, id="openai_chat"),
        pytest.param("google", {"model": "m", "contents": []}, OF_GEMINI, 2, id="gemini"),
        pytest.param("claude", {"model": "m", "messages": MESSAGES}, OF_CLAUDE, 6, id="anthropic_messages"),
    ],
)
async def test_what_is_new_in_each_event_renames_none(
    run: Run, upstream: Any, name: str, request_body: dict[str, Any], events: list[dict[str, Any]], kinds: int
) -> None:
    """The events of Chat Completions and Gemini have no type: they are told apart by what they have."""
    sent = [*events]

    async def script(peer: Peer) -> None:
        await sends(*sent)(peer)

    await upstream(script)
    done = await run("--upstream", name, "--name", "hello", "--keep-request", request=request_body)
    assert done.status == 0, done.err
    again = ("--again", "--name", "hello")
    assert (await run(*again)).out == "1 case recorded again, 0 changed\n"
    sent[:] = [{**event, "x_new": 7} for event in events]
    found = (await run(*again)).out.splitlines()
    assert len(found) == kinds + 1
    assert all(": new `x_new` (number)" in line for line in found[:-1]), found
    sent[:] = [events[0], {"foreign": {"a": 1}}, *events[1:]]
    found = (await run(*again)).out.splitlines()
    assert [line for line in found if "order:" not in line] == [
        "hello: kinds: new `foreign`",
        "1 case recorded again, 1 changed",
    ]


async def test_force_replaces_a_case_and_keeps_its_table(run: Run, upstream: Any) -> None:
    arguments, ends = ("--upstream", "one", "--name", "hello"), iter(["reset", "end"])

    async def script(peer: Peer) -> None:
        await sends(*EVENTS, end=next(ends))(peer)

    await upstream(script)
    assert (await run(*arguments)).status == 0
    assert (await run(*arguments)).status == 2
    done = await run(*arguments, "--force")
    assert (done.status, "Kinds, members and order are those of the case before." in done.out) == (0, True)
    (case,) = replay.load_cases(Path("recordings"))
    assert (case.settings.close, case.settings.about) == (None, "Recorded from the upstream `one`.")
