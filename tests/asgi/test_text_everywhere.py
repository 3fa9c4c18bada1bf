"""No value of a class of text leaves the server: from streams, JSON answers, logs of runs, or recordings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from projector.dialects import DIALECTS
from tests.asgi.test_openwop_agents import Serve, Start, completed, created, hosting, says
from tests.asgi.test_recorder import cases_in, settings_with
from tests.rule_samples import CLASSES, MIXED
from tests.waiting import wait_until

GITHUB: Final = "ghp" + "_" + MIXED[:36]
MAIL: Final = "jane.doe@example.com"
CARD: Final = "4111 1111 1111 1111"
SECRETS: Final = {GITHUB: GITHUB[8:], MAIL: "jane.doe", CARD: "1111 1111"}
"""Value -> a part of it that must stand nowhere."""
TEXT: Final = f"Use {GITHUB}, write to {MAIL}, pay with {CARD} now."
POLICY: Final = {
    "text": {"credentials": "mask", **{row.name: "mask" for row in CLASSES}},
    "reasoning": "full",
}
OTHERS: Final = [name for name in DIALECTS if name != "openwop"]
PIECE_CHARS: Final = 7


def _deltas(kind: str, item_id: str, index: int, text: str) -> list[dict[str, Any]]:
    place = {"item_id": item_id, "output_index": index, "content_index": 0, "summary_index": 0}
    pieces = (text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS))
    return [{"type": f"response.{kind}.delta", **place, "delta": piece} for piece in pieces]


def events(text: str) -> list[dict[str, Any]]:
    """Return the events of an answer with a text in its reasoning, summary, message and the title of a citation."""
    cited = {"type": "url_citation", "start_index": 0, "end_index": 3, "title": TEXT, "url": f"https://x.org/?q={MAIL}"}
    place = {"item_id": "msg_1", "output_index": 1, "content_index": 0, "annotation_index": 0}
    message = {"type": "message", "id": "msg_1", "role": "assistant"}
    content = [{"type": "output_text", "text": text, "annotations": [cited]}]
    done = {"output_index": 1, "item": {**message, "status": "completed", "content": content}}
    return [
        created("resp_1"),
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1"}},
        *_deltas("reasoning_text", "rs_1", 0, TEXT),
        *_deltas("reasoning_summary_text", "rs_1", 0, TEXT),
        {"type": "response.output_item.added", "output_index": 1, "item": message},
        *_deltas("output_text", "msg_1", 1, text),
        {"type": "response.output_text.annotation.added", **place, "annotation": cited},
        {"type": "response.output_item.done", **done},
        completed("resp_1"),
    ]


def assert_nothing_is_shown(said: bytes) -> None:
    """Check joined deltas and whole texts: a value may stand in neither."""
    lines = [line.removeprefix(b"data: ") for line in said.splitlines()]
    texts: list[str] = []
    for line in lines:
        if line.startswith((b"{", b"[{")):
            _strings(json.loads(line), texts)
    for written in (said.decode(), "".join(texts), "\n".join(texts)):
        assert [part for part in SECRETS.values() if part in written] == []
    assert "<redacted" in "".join(texts)


def _strings(value: object, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(value)
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _strings(member, found)


@pytest.fixture
def site(serve: Callable[..., Any], upstream_port: int, tmp_path: Path) -> Any:
    upstreams = {"one": {"base_url": f"http://localhost:{upstream_port}/v1", "api_key": "key-of-the-house"}}
    settings = settings_with(tmp_path / "kept")
    settings["agents"]["helper"] |= {"policy": POLICY, "dialects": OTHERS}
    return serve(api_key=None, base_url=None, upstreams=upstreams, **settings)


@pytest.mark.parametrize("dialect", OTHERS)
async def test_streams(site: Any, upstream: Start, dialect: str) -> None:
    await upstream(says(events(TEXT)))
    answer = await site.ask(f"/api/v1/chat/stream?dialect={dialect}")
    assert answer.status == 200
    assert_nothing_is_shown(await answer.rest())


@pytest.mark.parametrize("dialect", OTHERS)
async def test_structured_output(site: Any, upstream: Start, dialect: str) -> None:
    form = {"format": {"type": "json_schema", "name": "x", "schema": {}}}
    begin, *rest = events(json.dumps({"a": TEXT, "b": [MAIL, 4111111111111111]}))
    begin = {**begin, "response": {**begin["response"], "text": form}}
    await upstream(says([begin, *rest]))
    said = await (await site.ask(f"/api/v1/chat/stream?dialect={dialect}")).rest()
    assert_nothing_is_shown(said)
    assert b"4111111111111111" not in said


async def test_recordings(site: Any, upstream: Start, tmp_path: Path) -> None:
    await upstream(says(events(TEXT)))
    await (await site.ask()).rest()
    await wait_until(lambda: bool(cases_in(tmp_path / "kept")))
    (case,) = cases_in(tmp_path / "kept")
    assert_nothing_is_shown(case.source.read_bytes())


async def test_logs_of_runs(serve: Serve, upstream_port: int, upstream: Start) -> None:
    await upstream(says(events(TEXT)))
    host = hosting(serve, upstream_port, POLICY)
    run_id = await host.say("hello")
    await host.until(run_id, "completed")
    log = await host.log(run_id)
    assert_nothing_is_shown("\n".join(json.dumps(event) for event in log).encode())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"model": "gpt-x", "input": "hi"}),
        ("/v1/responses?dialect=openresponses", {"model": "gpt-x", "input": "hi"}),
    ],
)
async def test_json_answers(serve: Callable[..., Any], upstream: Start, path: str, body: dict[str, Any]) -> None:
    await upstream(says(events(TEXT)))
    answer = await serve(passthrough={"policy": POLICY}).ask(path, {**body, "stream": False})
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert_nothing_is_shown(await answer.rest())
