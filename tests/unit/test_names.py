"""IDs, names and codes are searched like text, and every frame that lost something has a notice (CONTRACT D41)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from projector.contracts import paths
from projector.redaction import redactor as names
from projector.redaction import whole_values
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from projector.redaction.search import Search

Event: TypeAlias = dict[str, Any]

REGISTERED: Final = "quay-7781"
CREDENTIAL: Final = "ghp" + "_" + "a1B2c3D4e5F6" * 3
POLICY: Final = {"registered": [{"value": REGISTERED}]}


def on(name: str, **response: object) -> Event:
    return {"type": f"response.{name}", "response": {"id": "resp_1", **response}}


def item(event: str, kind: str, /, **members: object) -> Event:
    return {"type": f"response.output_item.{event}", "output_index": 0, "item": {"id": "it", **members, "type": kind}}


def function(**members: object) -> list[Event]:
    call = {"name": "f", "call_id": "c", "arguments": "{}", **members}
    return [item("added", "function_call", **call), item("done", "function_call", **call)]


def cited(secret: str) -> list[Event]:
    citation = {"type": "container_file_citation", "container_id": secret, "file_id": f"file_{secret}"}
    part = {"type": "output_text", "text": "ab", "annotations": [citation]}
    return [item("done", "message", content=[part])]


def files(secret: str) -> list[Event]:
    return [item("done", "file_search_call", results=[{"file_id": secret, "filename": "a"}])]


PLACES: Final[dict[str, tuple[Callable[[str], list[Event]], set[str]]]] = {
    "the id of an item": (
        lambda secret: [item("added", "message", id=f"msg-{secret}"), item("done", "message", id=f"msg-{secret}")],
        {"item_id"},
    ),
    "the id of a call": (lambda secret: function(call_id=secret), {"tool_call_id", "tool.tool_call_id"}),
    "the name of a tool": (lambda secret: function(name=f"get {secret}"), {"tool_name", "tool.name"}),
    "a role": (lambda secret: [item("added", "message", role=secret)], {"role"}),
    "the id of a response": (lambda secret: [on("created", id=secret, status="queued")], {"id", "response_id"}),
    "a reason": (
        lambda secret: [on("incomplete", incomplete_details={"reason": secret})],
        {"reason"},
    ),
    "the code of a failed response": (lambda secret: [on("failed", error={"code": f"no {secret}"})], {"reason"}),
    "the code of an error": (lambda secret: [{"type": "error", "code": secret, "message": "m"}], {"error.code"}),
    "a container and a file of a citation": (cited, {"citation.container_id", "citation.file_id"}),
    "a container of a call": (
        lambda secret: [item("added", "code_interpreter_call", container_id=secret)],
        {"tool.container_id"},
    ),
    "a file of a search": (files, {"tool.results[0].file_id"}),
    "the size of an image": (
        lambda secret: [item("done", "image_generation_call", size=secret, quality=f"q {secret}")],
        {"tool.size", "tool.quality"},
    ),
    "an agent": (
        lambda secret: [{"type": "projector.context", "agent": secret}, on("created", status="queued")],
        {"agent"},
    ),
    "a workflow": (
        lambda secret: [
            {"type": "projector.context", "workflow": {"step_name": f"step {secret}", "workflow_run_id": secret}},
            on("created", status="queued"),
        ],
        {"workflow.step_name", "workflow.workflow_run_id"},
    ),
    "an attachment": (
        lambda secret: [
            item("added", "message"),
            {"type": "projector.attachment", "attachment": {"object_id": secret}},
            on("completed"),
        ],
        {"final.attachments[0].object_id"},
    ),
}


@pytest.mark.parametrize("secret", [REGISTERED, CREDENTIAL], ids=["registered", "credential"])
@pytest.mark.parametrize(("make", "noticed"), PLACES.values(), ids=PLACES.keys())
def test_nothing_leaves_in_a_name(
    open_stream: Callable[..., Any], make: Callable[[str], list[Event]], noticed: set[str], secret: str
) -> None:
    stream = open_stream(policy=POLICY)
    stream.feed(*make(secret))
    assert secret.encode() not in b"".join(stream.lines)
    found = [(frame, row) for frame in stream.sealed for row in frame.get("notices", ())]
    assert {row["path"] for _, row in found} == noticed
    assert all(paths.resolve(frame, row["path"]) is not paths.ABSENT for frame, row in found)


def test_an_id_has_one_pseudonym_in_a_stream(open_stream: Callable[..., Any]) -> None:
    stream = open_stream(policy=POLICY)
    call = {"id": f"a-{REGISTERED}", "call_id": f"b-{REGISTERED}", "name": "f", "arguments": "{}"}
    said = stream.feed(item("added", "function_call", **call), item("done", "function_call", **call))
    assert {frame["item_id"] for frame in said} == {"redacted_1"}
    ids = {frame.get("tool_call_id", frame.get("tool", {}).get("tool_call_id")) for frame in said}
    assert ids - {None} == {"redacted_2"}
    assert all("item_id" in {row["path"] for row in frame["notices"]} for frame in said)


def test_pseudonyms_do_not_depend_on_what_they_replace() -> None:
    streams = [Redactor(Policy()).for_stream() for _ in range(2)]
    others = [CREDENTIAL, CREDENTIAL.replace("a1", "b2")]
    assert [stream.identifier(text) for stream, text in zip(streams, others, strict=True)] == ["redacted_1"] * 2


def test_an_id_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor = Redactor(Policy()).for_stream()
    searched: list[str] = []
    passes = Search.is_clean
    monkeypatch.setattr(Search, "is_clean", lambda self, text: searched.append(text) or passes(self, text))
    for _ in range(100):
        redactor.identifier("msg_abc")
        redactor.identifier("fc_123")
    assert searched == ["msg_abc", "fc_123"]


def test_names_of_other_streams_are_not_remembered() -> None:
    redactor = Redactor(Policy())
    assert redactor.identifier(CREDENTIAL) == "redacted_1"
    assert redactor.replaced == frozenset()


def test_a_clean_name_is_searched_once_for_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor = Redactor(Policy())
    searched: list[str] = []
    clean = whole_values.clean_text
    monkeypatch.setattr(
        whole_values,
        "clean_text",
        lambda detector, text, *limit: searched.append(text) or clean(detector, text, *limit),
    )
    for _ in range(3):
        assert redactor.for_stream().name("get_weather") == "get_weather"
    assert searched == ["get_weather"]


def test_a_name_with_something_withheld_is_marked_in_each_stream() -> None:
    redactor = Redactor(Policy())
    for _ in range(2):
        stream = redactor.for_stream()
        marked = stream.name(f"f {CREDENTIAL}")
        assert CREDENTIAL not in marked
        assert stream.replaced == {marked}


def test_remembered_names_are_few_and_short() -> None:
    redactor = Redactor(Policy())
    stream = redactor.for_stream()
    for number in range(2 * names.CLEAN_NAMES_MAX):
        stream.name(f"tool{number}")
        stream.name(f"tool{number}".ljust(names.CLEAN_NAME_MAX_CHARS + 1, "x"))
    remembered = redactor._clean_names
    assert len(remembered) == names.CLEAN_NAMES_MAX
    assert max(map(len, remembered)) <= names.CLEAN_NAME_MAX_CHARS


@pytest.mark.parametrize("constant", ["message", "completed", "in_progress", "commentary"])
def test_constants_of_the_contract_are_no_registered_values(play: Callable[..., list[Event]], constant: str) -> None:
    content = [{"type": "output_text", "text": "ab"}]
    events = [
        item("added", "message", phase="commentary"),
        item("done", "message", status="completed", content=content),
    ]
    plain, kept = (play(*events, policy=policy) for policy in ({}, {"registered": [{"value": constant}]}))
    ignored = {"stream_id", "server_timestamp"}
    assert [{name: each[name] for name in each.keys() - ignored} for each in kept] == [
        {name: each[name] for name in each.keys() - ignored} for each in plain
    ]
