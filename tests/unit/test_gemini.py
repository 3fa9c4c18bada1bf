"""The provider `gemini`: requests, how they are sent, streamed arguments, positions, framing, what the stage keeps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from yarl import URL

from projector.contracts.limits import EVENT_MAX_BYTES
from projector.conversation.entries import (
    Approval,
    Entry,
    File,
    Image,
    Message,
    Opaque,
    Reasoning,
    ServerCall,
    Text,
    ToolCall,
    ToolOutput,
)
from projector.conversation.model_request import ModelRequest, UnsupportedRequestError
from projector.core.context import StreamContext
from projector.core.faults import FAULTS
from projector.core.input_formats import BareJsonDecoder
from projector.core.pipeline import build_pipeline
from projector.core.sse import SseMessage, encode_sse
from projector.providers import PROVIDERS, profile_of
from projector.providers.gemini.api import HELD_MAX_BYTES, InteractionCursor
from projector.providers.gemini.grounding import Passage
from projector.providers.gemini.interaction_stage import KNOWN_MAX
from projector.providers.gemini.partial_arguments import PartialArguments, steps_of
from projector.providers.stage_parts import ID_KEPT_CHARS
from projector.recording import record
from projector.redaction.policy import Policy
from projector.redaction.whole_values import Finder

ROW: Final = PROVIDERS["gemini"]
GOLDENS: Final = sorted((Path(__file__).parents[2] / "examples_ndjson" / "gemini").glob("*.ndjson"))
INTERACTIONS: Final = {"api": "interactions"}


def written(profile: dict[str, Any] | None = None, *, model: str = "gemini-2.5-pro", **members: Any) -> dict[str, Any]:
    request = ModelRequest(model=model, **{"input": "Hi", **members})
    return dict(ROW.request_writer(request, profile_of("gemini", profile or {})))


def kept(**value: Any) -> Opaque:
    return Opaque("gemini", value)


# conversations

LOOK: Final = ToolCall("c1", "look", '{"at":1}', opaque=kept(signature="s", id="c1"))
CALL: Final = {"functionCall": {"name": "look", "args": {"at": 1}}}
CONVERSATIONS: Final[dict[str, tuple[list[Entry], list[Any]]]] = {
    "roles and parts": (
        [
            *(Message("user", (Text("A"), Text(""))), Message("assistant", "B"), Message("developer", "C")),
            *(Message("assistant", ""), Message("user", "")),
        ],
        [("user", [{"text": "A"}]), ("model", [{"text": "B"}]), ("user", [{"text": "C"}])],
    ),
    "answers are alone, in the order of the calls": (
        [
            LOOK,
            ToolCall("c2", "look", "{}"),
            ToolOutput("c2", "two"),
            ToolOutput("c1", (Text("one"), Image("data:image/png;base64,AA=="))),
            Message("user", "and"),
        ],
        [
            (
                "model",
                [
                    {"functionCall": {"id": "c1", "name": "look", "args": {"at": 1}}, "thoughtSignature": "s"},
                    {"functionCall": {"name": "look", "args": {}}},
                ],
            ),
            (
                "user",
                [
                    {"functionResponse": {"id": "c1", "name": "look", "response": {"output": "one"}}},
                    {"functionResponse": {"name": "look", "response": {"output": "two"}}},
                ],
            ),
            ("user", [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}, {"text": "and"}]),
        ],
    ),
    "signatures go back where they were": (
        [
            Reasoning("r", opaque=kept(thought="T", signature="a")),
            Reasoning("r", opaque=kept(thought="", signature="b")),
            Message("assistant", "B", opaque=kept(signature="c")),
            Message("assistant", "D", opaque=kept(signature="e", is_alone=True)),
        ],
        [
            (
                "model",
                [
                    {"text": "T", "thought": True, "thoughtSignature": "a"},
                    {"text": "", "thoughtSignature": "b"},
                    {"text": "B", "thoughtSignature": "c"},
                    {"text": "D"},
                    {"text": "", "thoughtSignature": "e"},
                ],
            )
        ],
    ),
    "what is kept for others does not": (
        [Reasoning("r", opaque=Opaque("other", {"signature": "a"})), Reasoning("r"), Message("user", "A")],
        [("user", [{"text": "A"}])],
    ),
    "custom tools, calls of servers, arguments that are none": (
        [ToolCall("c1", "f", "x", "custom"), ToolOutput("c1", "1"), ServerCall("m", "s", "g", "?", "2")],
        [
            ("model", [{"functionCall": {"name": "f", "args": {"input": "x"}}}]),
            ("user", [{"functionResponse": {"name": "f", "response": {"output": "1"}}}]),
            ("model", [{"functionCall": {"name": "g", "args": {"input": "?"}}}]),
            ("user", [{"functionResponse": {"name": "g", "response": {"output": "2"}}}]),
        ],
    ),
    "media": (
        [
            Message(
                "user", (Image("https://a.example/b.png?c"), File(file_id="files/1"), File(url="https://a.example/"))
            )
        ],
        [
            (
                "user",
                [
                    {"fileData": {"fileUri": "https://a.example/b.png?c", "mimeType": "image/png"}},
                    {"fileData": {"fileUri": "files/1"}},
                    {"fileData": {"fileUri": "https://a.example/"}},
                ],
            )
        ],
    ),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation(name: str) -> None:
    entries, expected = CONVERSATIONS[name]
    assert [(one["role"], one["parts"]) for one in written(input=entries)["contents"]] == expected


@pytest.mark.parametrize(("model", "is_marked"), [("gemini-2.5-pro", False), ("gemini-3-flash", True)])
def test_a_lost_signature_has_a_placeholder_where_the_model_wants_one(model: str, *, is_marked: bool) -> None:
    calls = [ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}"), ToolOutput("c1", "1"), ToolOutput("c2", "2")]
    parts = written(model=model, input=calls)["contents"][0]["parts"]
    marks = [part.get("thoughtSignature") for part in parts]
    assert marks == ["skip_thought_signature_validator" if is_marked else None, None]


def test_an_interaction_has_steps() -> None:
    entries = [
        Message("system", "S"),
        Message("user", (Text("A"), Image("data:image/png;base64,AA=="))),
        Reasoning("r", opaque=kept(thought="T", signature="s")),
        LOOK,
        ToolOutput("c1", "one"),
        Message("assistant", "B"),
    ]
    body = written(INTERACTIONS, input=entries, instructions="I", previous_response_id="v1_1")
    assert (body["system_instruction"], body["previous_interaction_id"]) == ("I\n\nS", "v1_1")
    assert body["input"] == [
        {
            "type": "user_input",
            "content": [{"type": "text", "text": "A"}, {"type": "image", "mime_type": "image/png", "data": "AA=="}],
        },
        {"type": "thought", "signature": "s", "summary": [{"type": "text", "text": "T"}]},
        {"type": "function_call", "id": "c1", "name": "look", "arguments": {"at": 1}},
        {"type": "function_result", "call_id": "c1", "name": "look", "result": "one"},
        {"type": "model_output", "content": [{"type": "text", "text": "B"}]},
    ]


# members

SCHEMA: Final = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOL: Final = {"type": "function", "name": "f", "description": "d", "parameters": {"$schema": "s", **SCHEMA}}
FORM: Final = {"type": "json_schema", "name": "n", "schema": SCHEMA}
MEMBERS: Final[list[tuple[dict[str, Any], dict[str, Any]]]] = [
    ({"instructions": "I"}, {"systemInstruction": {"parts": [{"text": "I"}]}}),
    (
        {
            "client_tools": [TOOL, {"type": "web_search", "search_context_size": "low", "external_web_access": True}],
            "tools": [{"urlContext": {}}],
        },
        {
            "tools": [
                {"urlContext": {}},
                {"googleSearch": {}},
                {"functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": SCHEMA}]},
            ]
        },
    ),
    ({"parameters": {"tool_choice": "required"}}, {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}),
    (
        {"parameters": {"tool_choice": {"type": "function", "name": "f"}}},
        {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}},
    ),
    (
        {"parameters": {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "f"}]}}},
        {"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED", "allowedFunctionNames": ["f"]}}},
    ),
    (
        {"parameters": {"max_output_tokens": 5, "stop": "END", "seed": 1}, "body": {"generationConfig": {"topK": 2}}},
        {"generationConfig": {"topK": 2, "maxOutputTokens": 5, "stopSequences": ["END"], "seed": 1}},
    ),
    (
        {"parameters": {"format": FORM, "reasoning_effort": "low", "store": False, "parallel_tool_calls": True}},
        {
            "generationConfig": {
                "responseMimeType": "application/json",
                "responseJsonSchema": SCHEMA,
                "thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": True},
            }
        },
    ),
    (
        {"model": "gemini-3-flash", "parameters": {"reasoning_effort": "xhigh"}},
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "high", "includeThoughts": True}}},
    ),
    (
        {"parameters": {"reasoning_effort": "none"}},
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0, "includeThoughts": False}}},
    ),
    (
        {
            "profile": INTERACTIONS,
            "client_tools": [TOOL, {"type": "code_interpreter", "container": {"type": "auto", "file_ids": []}}],
        },
        {
            "tools": [
                {"type": "code_execution"},
                {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA},
            ]
        },
    ),
    (
        {
            "profile": INTERACTIONS,
            "parameters": {"reasoning_effort": "none", "format": FORM, "tool_choice": "none", "store": False},
        },
        {
            "generation_config": {"tool_choice": "none", "thinking_level": "minimal", "thinking_summaries": "auto"},
            "response_format": {"type": "text", "mime_type": "application/json", "schema": SCHEMA},
            "store": False,
        },
    ),
]


@pytest.mark.parametrize(("given", "expected"), MEMBERS, ids=str)
def test_members_of_a_request(given: dict[str, Any], expected: dict[str, Any]) -> None:
    body = written(**given)
    assert {name: body[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"parameters": {"logit_bias": {"1": 1}}}, "logit_bias"),
        ({"parameters": {"parallel_tool_calls": False}}, "parallel_tool_calls"),
        ({"parameters": {"reasoning_effort": "?"}}, "reasoning_effort"),
        ({"parameters": {"tool_choice": {"type": "mcp"}}}, "tool_choice.type"),
        ({"client_tools": [{"type": "file_search"}]}, "tools[0].type"),
        ({"client_tools": [{"type": "web_search", "filters": {"allowed_domains": ["a"]}}]}, "tools[0].filters"),
        ({"client_tools": [{"type": "web_search", "user_location": {"city": "a"}}]}, "tools[0].user_location"),
        ({"client_tools": [{"type": "web_search", "external_web_access": False}]}, "tools[0].external_web_access"),
        ({"client_tools": [{"type": "code_interpreter", "container": "c"}]}, "tools[0].container"),
        (
            {"client_tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}}]},
            "tools[0].container.file_ids",
        ),
        ({"previous_response_id": "r"}, "previous_response_id"),
        ({"input": [Message("user", (Image("data:image/png,AA"),))]}, None),
        ({"input": [Approval("a", is_approved=True)]}, None),
        ({"input": [Approval("a", is_approved=True)], "profile": INTERACTIONS}, None),
    ],
)
def test_what_cannot_be_expressed(given: dict[str, Any], param: str | None) -> None:
    with pytest.raises(UnsupportedRequestError) as raised:
        written(**given)
    assert raised.value.param == param


@pytest.mark.parametrize(
    ("profile", "model", "path", "headers"),
    [
        ({}, "gemini-3-flash", "/models/gemini-3-flash:streamGenerateContent", {"x-goog-api-key": "k"}),
        ({}, "tunedModels/a b", "/tunedModels/a%20b:streamGenerateContent", {"x-goog-api-key": "k"}),
        ({"authentication": "bearer"}, "models/m", "/models/m:streamGenerateContent", {"Authorization": "Bearer k"}),
        (
            {"platform": "vertex"},
            "gemini-3-flash",
            "/publishers/google/models/gemini-3-flash:streamGenerateContent",
            {"Authorization": "Bearer k"},
        ),
        (INTERACTIONS, "m", "/interactions", {"Api-Revision": "2026-05-20", "x-goog-api-key": "k"}),
    ],
)
def test_how_it_is_sent(profile: dict[str, Any], model: str, path: str, headers: dict[str, str]) -> None:
    read = profile_of("gemini", profile)
    sent = ROW.request({"model": model, "contents": []}, read)
    assert sent.path == path
    assert sent.query == ({} if profile == INTERACTIONS else {"alt": "sse"})
    assert ("model" in sent.body) is (profile == INTERACTIONS)
    assert ROW.headers("k", read) == headers
    assert "k" not in ROW.headers(None, read).values()


@pytest.mark.parametrize(
    "model", ["../../other/models/m", "models/../m", "..", "/./x", "a/..", "%2e%2e/m", "..\\..\\m"]
)
def test_no_model_leads_to_another_path(model: str) -> None:
    base = "http://gateway.example/tenant/v1beta"
    for profile in ({}, {"platform": "vertex"}):
        sent = ROW.request({"model": model, "contents": []}, profile_of("gemini", profile))
        url = URL(base + sent.path)  # as the HTTP client reads it
        assert url.raw_path == "/tenant/v1beta" + sent.path
        assert ".." not in url.parts


def test_models_are_listed() -> None:
    assert ROW.models is not None
    assert ROW.models.entries is not None
    listed = ROW.models.entries({"models": [{"name": "models/gemini-3-flash"}, 7]})
    assert [*listed] == [{"id": "gemini-3-flash", "owned_by": "google"}]


# streamed arguments


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$.a[0].b", ("a", 0, "b")),
        ("$['a.b'][\"c\"]", ("a.b", "c")),
        (r"$['it\'s \"x\"']['\u00e9']", ('it\'s "x"', "é")),
        ("$.__proto__", ("__proto__",)),
        ("$", None),
        ("$[0]", None),
        ("$..a", None),
        ("$.a[*]", None),
        ("a.b", None),
        ("$" + ".a" * 61, None),
        (r"$['\x']", None),
    ],
)
def test_paths(path: str, steps: tuple[str | int, ...] | None) -> None:
    assert steps_of(path) == steps


def leaves(tree: Any, path: str = "$") -> list[tuple[str, Any]]:
    """Return the values of a tree, with their paths."""
    if isinstance(tree, dict):
        return [leaf for name, one in tree.items() for leaf in leaves(one, f"{path}[{json.dumps(name)}]")]
    if isinstance(tree, list):
        return [leaf for at, one in enumerate(tree) for leaf in leaves(one, f"{path}[{at}]")]
    return [(path, tree)]


def part_of(path: str, value: Any) -> list[dict[str, Any]]:
    if isinstance(value, str):
        return [
            {"jsonPath": path, "stringValue": value[:1], "willContinue": True},
            {"jsonPath": path, "stringValue": value[1:]},
        ]
    name = "boolValue" if isinstance(value, bool) else "numberValue" if value is not None else "nullValue"
    return [{"jsonPath": path, name: value}]


def drawn_tree(draw: Random, depth: int = 0) -> Any:
    kind = draw.random() if depth else 0
    if depth < 4 and kind < 0.4:
        return {draw.choice('a"\n') + str(at): drawn_tree(draw, depth + 1) for at in range(draw.randint(1, 3))}
    if depth < 4 and kind < 0.6:
        return [drawn_tree(draw, depth + 1) for _ in range(draw.randint(1, 3))]
    return draw.choice(['"é\n', "", 1, 2.5, True, None])


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_arguments_become_the_tree_of_their_paths(*, is_shuffled: bool) -> None:
    draw = Random(1)
    for _ in range(300):
        tree = drawn_tree(draw)
        values = leaves(tree)
        if is_shuffled:
            draw.shuffle(values)
        arguments = PartialArguments()
        text = "".join(arguments.add(part) or "" for path, value in values for part in part_of(path, value))
        text += arguments.close()
        assert json.loads(text) == tree
        names = [pair[0] for pair in json.loads(text, object_pairs_hook=list)]
        assert is_shuffled or len(names) == len(set(names)), "members are written once"


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"jsonPath": "$.a"},
        {"jsonPath": "$.a", "numberValue": "1"},
        {"jsonPath": "$.a[99]", "numberValue": 1},
        {"jsonPath": 7, "stringValue": "x"},
    ],
    ids=str,
)
def test_arguments_that_cannot_be_read(part: dict[str, Any]) -> None:
    arguments = PartialArguments()
    assert (arguments.add(part), arguments.close()) == (None, "{}")


# positions


def test_positions_in_bytes_become_characters() -> None:
    text = "aé€𝄞" * 3000
    passage = Passage(0, 5)
    for at in range(0, len(text), 7):
        passage.add(text[at : at + 7])
    for first, last in [(0, 1), (1, 3), (4094, 4100), (8000, 11999)]:
        begin, end = (len(text[:at].encode()) for at in (first, last))
        assert passage.span(begin, end, text[first:last]) == (5 + first, 5 + last)
        assert passage.span(begin, end, "") == (5 + first, 5 + last)
        assert passage.span(begin, end, "other") is None
    assert passage.find("€𝄞a") == (7, 10)
    assert [passage.span(*at, "") for at in ((2, 3), (1, 2), (1, 4), (1, 6))] == [None, None, None, (6, 8)]
    assert passage.span(0, 10**6, "") is None


# framing

BODIES: Final[dict[str, tuple[bytes, list[Any]]]] = {
    "an array": (b'[{"a":1}\n,\r\n{"b":"}\\"{"}]', [{"a": 1}, {"b": '}"{'}]),
    "an error in bare lines": (
        b'data: {"a":1}\r\n\r\n{\n "error": {"code": 3}\n}\n',
        [{"a": 1}, {"error": {"code": 3}}],
    ),
    "an error ends the event before it": (b'data: {"a":1}\r{"error":7}', [{"a": 1}, {"error": 7}]),
    "an event stream": (b': ping\n\ndata: {"a":\ndata: 1}\n\n', [{"a": 1}]),
    "a cut element": (b'[{"a":1},\n{"b":', [{"a": 1}]),
}


@pytest.mark.parametrize("name", BODIES)
def test_json_outside_of_fields(name: str) -> None:
    data, expected = BODIES[name]
    for size in range(1, len(data) + 1):
        decoder = BareJsonDecoder()
        read = [one for at in range(0, len(data), size) for one in decoder.feed(data[at : at + size])]
        assert [json.loads(one[0]) for one in read + decoder.close()] == expected


@pytest.mark.parametrize(
    ("data", "limit", "code"),
    [
        (b'{"a":', EVENT_MAX_BYTES, "upstream_truncated"),
        (b"<html>", EVENT_MAX_BYTES, "upstream_malformed"),
        (b'[{"a":"' + b"x" * 64, 32, "upstream_event_too_large"),
        (b"data: " + b"x" * 64, 32, "upstream_event_too_large"),
    ],
)
def test_faults_of_framing(data: bytes, limit: int, code: str) -> None:
    for size in (1, 7, len(data)):
        decoder = BareJsonDecoder(limit)
        read = [one for at in range(0, len(data), size) for one in decoder.feed(data[at : at + size])]
        assert read + decoder.close() == [FAULTS[code]]
        assert decoder.feed(b'{"a":1}') == []


def test_the_ids_of_items_keep_so_much_of_a_long_id() -> None:
    chunk = {"responseId": "r" * 500, "candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}
    events = ROW.stage(profile_of("gemini", {})).feed(SseMessage(json.dumps(chunk).encode()))
    assert [event["item"]["id"] for event in events if "item" in event] == [f"msg_{'r' * ID_KEPT_CHARS}_0"]


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)
def test_cuts_do_not_matter(path: Path) -> None:
    lines = [line for line in path.read_bytes().splitlines() if line != b"[DONE]"]
    profile = INTERACTIONS if path.stem.startswith("interactions") else {}

    def project(data: bytes, size: int) -> bytes:
        pipeline = build_pipeline(provider="gemini", dialect="responses", clock=lambda: 0, profile=profile)
        return b"".join(pipeline.feed(data[at : at + size]) for at in range(0, len(data), size)) + pipeline.close()

    events = b"".join(b"data: %b\r\n\r\n" % line for line in lines)
    array = b"[" + b"\n,\r\n".join(lines) + b"]" if not lines[0].startswith(b"[") else events
    outputs = [project(data, size).partition(b"stream_")[0] for data in (events, array) for size in (7, 61, 10**6)]
    assert outputs == outputs[:1] * len(outputs)


NULLS: Final = ("text", "thought", "functionCall", "thoughtSignature", "inlineData", "finishReason", "new")


def dumped(value: Any, name_of: Callable[[str], str]) -> Any:
    """Return a chunk with other names, and with members that are null, as dumps of models have them."""
    if isinstance(value, list):
        return [dumped(one, name_of) for one in value]
    if not isinstance(value, dict):
        return value
    members = {**dict.fromkeys(NULLS), **value}
    own = {"args", "response"}
    return {name_of(name): one if name in own else dumped(one, name_of) for name, one in members.items()}


def with_underscores(name: str) -> str:
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


@pytest.mark.parametrize("name_of", [with_underscores, str], ids=["underscores", "nulls"])
@pytest.mark.parametrize("path", [path for path in GOLDENS if path.stem.startswith("gemini")], ids=lambda one: one.stem)
def test_a_chunk_may_be_the_dump_of_a_model(path: Path, name_of: Callable[[str], str]) -> None:
    given = [json.loads(line) for line in path.read_bytes().splitlines()]
    given = [{"responseId": "r", **one} if isinstance(one, dict) else one for one in given]
    outputs: list[tuple[bytes, object]] = []
    for chunks in (given, dumped(given, name_of)):
        context = StreamContext(stream_id="stream_1")
        pipeline = build_pipeline(provider="gemini", dialect="responses", clock=lambda: 0, context=context)
        sent = b"".join(encode_sse(json.dumps(one).encode()) for one in chunks)
        outputs.append((pipeline.feed(sent) + pipeline.close(), pipeline.dropped))
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    "candidate",
    [
        {"index": []},
        {"index": False},
        {"index": None},
        {"index": "0"},
        {"content": {"parts": [{"text": "a "}], "new": 1}},
    ],
    ids=str,
)
def test_cuts_between_chunks_of_one_shape_do_not_matter(candidate: dict[str, Any]) -> None:
    """Further chunks of a shape may be read without the stage."""
    whole = {"content": {"parts": [{"text": "a "}]}, "index": 0}
    candidates = [whole, whole, *[{**whole, **candidate}] * 6]
    chunks = [{"candidates": [one], "responseId": "r", "modelVersion": "m"} for one in candidates]
    data = b"".join(encode_sse(json.dumps(one).encode()) for one in [*chunks, STOP])
    said = []
    for size in (len(data), 1):
        pipeline = build_pipeline(
            provider="gemini", dialect="public_sse_v1", clock=lambda: 0, context=StreamContext(stream_id="s")
        )
        frames = [pipeline.feed(data[at : at + size]) for at in range(0, len(data), size)]
        said.append((b"".join([*frames, pipeline.close()]), pipeline.dropped))
    assert said[0] == said[1]


def test_a_recording_withholds_a_key_over_two_chunks() -> None:
    path = next(path for path in GOLDENS if path.stem == "gemini-split-secret")
    data = b"".join(b"data: %b\r\n\r\n" % line for line in path.read_bytes().splitlines())
    recorded = record("gemini", data, Finder(Policy())).data
    assert b"AKIA" not in recorded
    assert b'"totalTokenCount":26' in recorded


# what the stage keeps


def items(name: str, stage: Any) -> list[Any]:
    path = next(path for path in GOLDENS if path.stem == name)
    events = [event for line in path.read_bytes().splitlines() for event in stage.feed(SseMessage(line))]
    events += stage.close()
    return [event["item"] for event in events if isinstance(event, dict) and event["type"].endswith("item.done")]


@pytest.mark.parametrize(
    ("name", "profile", "expected"),
    [
        (
            "gemini-thinking",
            {},
            [None, {"thought": "Checking the time zone.", "signature": ...}, {"signature": ..., "is_alone": True}],
        ),
        ("gemini-parallel-tools", {}, [None, {"signature": ..., "id": "c81e72"}, {"id": "c81e73"}, None, None]),
        ("gemini-streamed-arguments", {}, [{"signature": ...}, None]),
        ("interactions-preview", INTERACTIONS, [{"thought": "", "signature": ...}, None, None]),
    ],
)
def test_what_the_provider_wants_back(name: str, profile: dict[str, Any], expected: list[Any]) -> None:
    found = [item.get("opaque") for item in items(name, ROW.stage(profile_of("gemini", profile)))]
    hidden = [None if one is None else {**one, **({"signature": ...} if "signature" in one else {})} for one in found]
    assert hidden == expected


def chunk(*parts: Any, **members: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **members}], "responseId": "r"}


def call(**members: Any) -> dict[str, Any]:
    return {"functionCall": members}


def grounded(uri: str, query: str, start: int, end: int, text: str) -> dict[str, Any]:
    support = {"segment": {"startIndex": start, "endIndex": end, "text": text}, "groundingChunkIndices": [0]}
    chunks = [{"web": {"uri": uri, "title": "t"}}]
    return {"webSearchQueries": [query], "groundingChunks": chunks, "groundingSupports": [support]}


STOP: Final = chunk(finishReason="STOP")
PATH_A: Final = {"jsonPath": "$.a", "numberValue": 1}
CREATED: Final = {"event_type": "interaction.created", "interaction": {"id": "i"}}


def step(index: int, **given: Any) -> list[dict[str, Any]]:
    """Return the events of a step; its `delta` comes between start and stop."""
    delta = given.pop("delta", None)
    begin = {"event_type": "step.start", "index": index, "step": given}
    middle = [{"event_type": "step.delta", "index": index, "delta": delta}] if delta else []
    return [begin, *middle, {"event_type": "step.stop", "index": index}]


def completed(**members: Any) -> dict[str, Any]:
    return {"event_type": "interaction.completed", "interaction": {"status": "completed", **members}}


def woven(*steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events of steps that are open at the same time."""
    return [event for events in zip(*steps, strict=True) for event in events]


def function(index: int, name: str) -> list[dict[str, Any]]:
    """Return the events of a call; its arguments come in two pieces."""
    begin, *rest = step(index, type="function_call", id=name, name=name, delta={"type": "arguments_delta"})
    pieces = ('{"at":', f"{index}}}")
    deltas = [{**rest[0], "delta": {"type": "arguments_delta", "arguments": piece}} for piece in pieces]
    return [begin, *deltas, rest[1]]


def named(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events with IDs, the last two of them twice, as a stream that is continued may have them."""
    given = [{**event, "event_id": f"e{at}"} for at, event in enumerate(events)]
    return [*given, *given[-2:]]


TEXT_PART: Final = {"type": "text", "text": "Hello"}
STEPS: Final = [
    {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]},
    {"type": "thought", "signature": "s", "summary": [{"type": "text", "text": "Hm"}]},
    {"type": "model_output", "content": [TEXT_PART]},
    {"type": "function_call", "id": "c", "name": "f", "arguments": {"a": 1}},
]
WHOLE: Final = [("reasoning", "Hm"), ("message", "Hello"), ("function_call", '{"a":1}')]
ODD: Final[dict[str, tuple[dict[str, Any], list[Any], list[tuple[str, str]], str]]] = {
    "a candidate whose index is text": (
        {},
        [{"candidates": [{**chunk({"text": "a"}, finishReason="STOP")["candidates"][0], "index": "0"}]}],
        [("message", "a")],
        "completed",
    ),
    "a whole call that its arguments come with in parts, too": (
        {},
        [chunk(call(name="f", args={"a": 1}, partialArgs=[{"jsonPath": "$.a", "numberValue": 1}])), STOP],
        [("function_call", '{"a":1}')],
        "completed",
    ),
    "a null of an argument, and a member that has both names": (
        {},
        [
            chunk(call(name="f", willContinue=True)),
            chunk(call(partialArgs=[{"jsonPath": "$.a", "nullValue": None}], willContinue=True)),
            chunk(call()),
            {"candidates": [{"finishReason": "STOP", "finish_reason": "MAX_TOKENS"}]},
        ],
        [("function_call", '{"a":null}')],
        "completed",
    ),
    "a thought that is marked with text": (
        {},
        [chunk({"text": "Hm", "thought": "true"}), chunk({"text": "a"}), STOP],
        [("reasoning", "Hm"), ("message", "a")],
        "completed",
    ),
    "a step whose start is repeated": (
        INTERACTIONS,
        [
            CREATED,
            *[{"event_type": "step.start", "index": 0, "step": {"type": "function_call", "id": "c", "name": "f"}}] * 2,
            *step(0, type="function_call", id="c", name="f", delta={"type": "arguments_delta", "arguments": '{"a":1}'})[
                1:
            ],
            completed(),
        ],
        [("function_call", '{"a":1}')],
        "completed",
    ),
    "the envelopes of Code Assist": (
        {},
        [{"response": chunk({"text": "a"})}, {"response": STOP | {"usage_metadata": None}}],
        [("message", "a")],
        "completed",
    ),
    "a chunk with a member like an envelope": (
        {},
        [chunk({"text": "a"}), STOP | {"response": chunk({"text": "b"})}],
        [("message", "a")],
        "completed",
    ),
    "a whole call that comes again under its ID": (
        {},
        [*[chunk(call(id="c", name="f", args={"a": 1}))] * 2, chunk(call(id="d", name="f", args={"a": 1})), STOP],
        [("function_call", '{"a":1}')] * 2,
        "completed",
    ),
    "equal calls under the name of their function": (
        {},
        [chunk(*[call(id="f", name="f", args={"a": 1})] * 2), STOP],
        [("function_call", '{"a":1}')] * 2,
        "completed",
    ),
    "a call without a name": ({}, [chunk(call(args={"a": 1})), STOP], [("function_call", '{"a":1}')], "completed"),
    "a finish reason in lower case": ({}, [chunk({"text": "a"}, finishReason="stop")], [("message", "a")], "completed"),
    "candidates without an index": (
        {},
        [{"candidates": [chunk({"text": one}, finishReason="STOP")["candidates"][0] for one in "ab"]}],
        [("message", "a")],
        "completed",
    ),
    "a signature after the opening of a call": (
        {},
        [
            chunk(call(name="f", willContinue=True)),
            chunk({**call(partialArgs=[PATH_A], willContinue=True), "thoughtSignature": "late"}),
            chunk(call()),
            STOP,
        ],
        [("function_call late", '{"a":1}')],
        "completed",
    ),
    "a call that is opened with empty arguments": (
        {},
        [
            chunk(call(name="f", args={}, willContinue=True)),
            chunk(call(partialArgs=[PATH_A], willContinue=True)),
            chunk(call()),
            STOP,
        ],
        [("function_call", '{"a":1}')],
        "completed",
    ),
    "arguments as JSON text": (
        {},
        [chunk(call(name="f", args='{"a":1}')), STOP],
        [("function_call", '{"a":1}')],
        "completed",
    ),
    "a thought within a call": (
        {},
        [
            chunk(call(name="f", willContinue=True)),
            chunk({"text": "Hm", "thought": True}),
            chunk(call(partialArgs=[PATH_A], willContinue=True)),
            chunk(call()),
            STOP,
        ],
        [("function_call", '{"a":1}'), ("reasoning", "Hm")],
        "completed",
    ),
    "grounding of two searches": (
        {},
        [
            chunk({"text": "abc"}, groundingMetadata=grounded("u", "q", 0, 3, "abc")),
            chunk({"text": "def"}, groundingMetadata=grounded("v", "r", 3, 6, "def")),
            STOP,
        ],
        [("web_search_call q r", "u v"), ("message", "abcdef u 0 3 v 3 6")],
        "completed",
    ),
    "grounding after a message that was grounded": (
        {},
        [
            chunk({"text": "abc"}, groundingMetadata=grounded("u", "q", 0, 3, "abc")),
            chunk(call(name="f")),
            chunk({"text": "def"}, groundingMetadata=grounded("v", "q", 0, 3, "def")),
            STOP,
        ],
        [
            ("message", "abc u 0 3"),
            ("function_call", "{}"),
            ("web_search_call q", "u v"),
            ("message", "def v 0 3"),
        ],
        "completed",
    ),
    "grounding that grows": (
        {},
        [
            chunk({"text": "abc"}, groundingMetadata=grounded("u", "q", 0, 3, "abc")),
            chunk(groundingMetadata=grounded("u", "q", 0, 3, "abc")),
            STOP,
        ],
        [("web_search_call q", "u"), ("message", "abc u 0 3")],
        "completed",
    ),
    "content at the start of a step": (
        INTERACTIONS,
        [CREATED, *step(0, type="model_output", content=[TEXT_PART], delta={"type": "text", "text": "!"}), completed()],
        [("message", "Hello!")],
        "completed",
    ),
    "arguments as JSON text at the start of a step": (
        INTERACTIONS,
        [CREATED, *step(0, type="function_call", name="f", arguments='{"a":1}'), completed()],
        [("function_call", '{"a":1}')],
        "completed",
    ),
    "arguments as an object in a delta": (
        INTERACTIONS,
        [
            CREATED,
            *step(0, type="function_call", name="f", delta={"type": "arguments_delta", "arguments": {"a": 1}}),
            completed(),
        ],
        [("function_call", '{"a":1}')],
        "completed",
    ),
    "calls that are open at the same time": (
        INTERACTIONS,
        [CREATED, *woven(function(0, "f"), function(1, "g")), completed()],
        [("function_call", '{"at":0}'), ("function_call", '{"at":1}')],
        "completed",
    ),
    "a call that is open beside a text": (
        INTERACTIONS,
        [
            CREATED,
            *woven(
                function(0, "f"),
                [*step(1, type="model_output", delta=TEXT_PART)[:2], *step(1, type="", delta=TEXT_PART)[1:]],
            ),
            completed(),
        ],
        [("function_call", '{"at":0}'), ("message", "HelloHello")],
        "completed",
    ),
    "calls of which one is cut off": (
        INTERACTIONS,
        [CREATED, *woven(function(0, "f"), function(1, "g"))[:-1], completed(status="incomplete")],
        [("function_call", '{"at":0}')],
        "incomplete",
    ),
    "events that are repeated with their IDs": (
        INTERACTIONS,
        [
            *named([CREATED, *step(0, type="model_output", delta=TEXT_PART)[:2]]),
            {"event_type": "step.stop", "index": 0},
            completed(),
        ],
        [("message", "Hello")],
        "completed",
    ),
    "steps that only the end has": (INTERACTIONS, [CREATED, completed(steps=STEPS)], WHOLE, "completed"),
    "steps again at the end": (
        INTERACTIONS,
        [CREATED, *step(0, type="model_output", content=[TEXT_PART]), completed(steps=STEPS)],
        [("message", "Hello")],
        "completed",
    ),
    "a whole interaction": (
        INTERACTIONS,
        [{"id": "i", "status": "requires_action", "steps": STEPS}],
        WHOLE,
        "completed",
    ),
}


def told(item: dict[str, Any]) -> tuple[str, str]:
    """Return type and content of an item, with its signature, queries, sources and citations."""
    kind = item["type"]
    signature = item.get("opaque", {}).get("signature") if kind == "function_call" else None
    action = item.get("action", {})
    name = " ".join([kind, *([signature] if signature else []), *action.get("queries", [])])
    parts = item.get("content") or item.get("summary") or []
    cited = [
        str(value)
        for part in parts
        for one in part.get("annotations", [])
        for value in (one["url"], one["start_index"], one["end_index"])
    ]
    sources = [one["url"] for one in action.get("sources", [])]
    return name, " ".join([item.get("arguments") or "".join(part["text"] for part in parts), *cited, *sources]).strip()


@pytest.mark.parametrize("name", ODD)
def test_odd_streams(name: str) -> None:
    profile, chunks, expected, end = ODD[name]
    stage = ROW.stage(profile_of("gemini", profile))
    events = [event for one in chunks for event in stage.feed(SseMessage(json.dumps(one).encode()))]
    events = [event for event in (*events, *stage.close()) if isinstance(event, dict)]
    assert [told(one["item"]) for one in events if one["type"] == "response.output_item.done"] == expected
    assert events[-1]["type"] == f"response.{end}"
    known = {"step.user_input", "repeated event", "repeated call", "chunk.response"}
    assert not [one for one in stage.dropped if one not in known and not one.startswith("candidates beyond")]


@pytest.mark.parametrize(
    ("sent", "counted"),
    [
        ({"candidates": {"content": {}}}, "chunk.candidates"),
        ({"candidates": [{"content": {"parts": {"text": "a"}}}]}, "content.parts"),
        ({"candidates": [{"content": "a"}]}, "candidate.content"),
        (chunk({"text": 7}), "part.text"),
        (chunk(call(name="f", args=[1])), "functionCall.args"),
        (chunk(call(name="f", new=1)), "functionCall.new"),
        ({"candidates": [], "usageMetadata": {"newTokenCount": 1}}, "usageMetadata.newTokenCount"),
        ({"candidates": [{"content": {"new": 1}}]}, "content.new"),
    ],
    ids=str,
)
def test_nothing_disappears(sent: dict[str, Any], counted: str) -> None:
    stage = ROW.stage(profile_of("gemini", {}))
    stage.feed(SseMessage(json.dumps(sent).encode()))
    assert dict(stage.dropped) == {counted: 1}


@pytest.mark.parametrize("again", [0, 1, KNOWN_MAX], ids=["first event only", "two connections", "many events"])
def test_an_interaction_that_begins_again_is_not_repeated(again: int) -> None:
    """A gateway may ignore `last_event_id`, or begin each response with the first event and then continue."""
    begin, _, end = step(0, type="model_output", delta={"type": "text", "text": ""})
    count = KNOWN_MAX + 100
    words = [
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": f"{at} "}} for at in range(count)
    ]
    sent = [{**event, "event_id": f"e{at}"} for at, event in enumerate([CREATED, begin, *words, end, completed()])]
    cut = len(sent) - 50
    repeated = [sent[:again], sent[:cut]] if again else [sent[:1]]
    stage = ROW.stage(profile_of("gemini", {"api": "interactions"}))
    given = [event for part in ([sent[:cut], *repeated, sent[cut:]]) for event in part]
    events = [event for one in given for event in stage.feed(SseMessage(json.dumps(one).encode()))]
    told = "".join(one["delta"] for one in events if isinstance(one, dict) and one["type"].endswith("text.delta"))
    assert told == "".join(f"{at} " for at in range(count))
    assert dict(stage.dropped) == {"repeated event": sum(map(len, repeated))}


FILTERS: Final = (
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "ESCALATION"),
    *("IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR", "PUP_LIMITED_DISABLED"),
)
CHANCES: Final = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")
OTHERS: Final = ("OTHER", "FINISH_REASON_UNSPECIFIED", "IMAGE_OTHER", "NO_IMAGE", "NEW_ONE", 7)
REASONS: Final[dict[object, tuple[str, object]]] = {
    **dict.fromkeys(("STOP", 1), ("completed", None)),
    **dict.fromkeys(("MAX_TOKENS", 2), ("incomplete", "max_output_tokens")),
    **dict.fromkeys(FILTERS, ("incomplete", "content_filter")),
    **dict.fromkeys(OTHERS, ("incomplete", "other")),
    "CONTINUATION": ("incomplete", "continuation"),
    **{name: (name.lower(), True) for name in CHANCES},
    **{name: (name.lower(), False) for name in ("MISSING_THOUGHT_SIGNATURE", "TOO_MANY_TOOL_CALLS")},
}
BLOCKED: Final = ("SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "MODEL_ARMOR", "JAILBREAK")
STATUSES: Final = {
    "completed": ("completed", None),
    "requires_action": ("completed", None),
    "failed": ("failed", "failed"),
    "cancelled": ("cancelled", None),
    "incomplete": ("incomplete", "incomplete"),
    "requires_continuation": ("incomplete", "continuation"),
    "budget_exceeded": ("incomplete", "max_output_tokens"),
}
ENDINGS: Final = [
    *(({}, [chunk({"text": "a"}, finishReason=reason)], end) for reason, end in REASONS.items()),
    *(({}, [{"promptFeedback": {"blockReason": one}}], ("incomplete", "content_filter")) for one in BLOCKED),
    *((INTERACTIONS, [CREATED, completed(status=one)], end) for one, end in STATUSES.items()),
]


@pytest.mark.parametrize(("profile", "sent", "end"), ENDINGS, ids=str)
def test_how_a_response_ends(profile: dict[str, Any], sent: list[Any], end: tuple[str, object]) -> None:
    pipeline = build_pipeline(provider="gemini", dialect="public_sse_v1", output_format="ndjson", profile=profile)
    output = b"".join(pipeline.feed(b"data: " + json.dumps(one).encode() + b"\n\n") for one in sent)
    frames = [json.loads(line) for line in (output + pipeline.close()).splitlines()]
    last, lifecycles = frames[-1], [frame for frame in frames if frame["kind"] == "lifecycle"]
    if last["kind"] == "error":
        assert (last["error"]["code"], last["error"]["is_retryable"]) == end
    else:
        assert (last["final"]["status"], lifecycles[-1].get("reason")) == end


FOLLOWED: Final = (
    b'data: {"event_type":"interaction.created","interaction":{"id":"v1/i"},"event_id":"e0"}\r\n\r\n'
    b': ping\n\ndata: {"event_type":"step.delta","event_id":"e1","delta":{"event_id":"no"}}\n\n'
)


@pytest.mark.parametrize(
    ("more", "last"),
    [
        (b"", "e1"),
        (b'data: {"event_type":"step.st', "e1"),
        (b'data: {"event_type":"step.stop"}\n\n', None),
        (b'data: {"event_type":"interaction.completed","event_id":"e2"}\n\n', None),
        (b"data: [DONE]\n\n", None),
    ],
    ids=["whole", "within a message", "without an ID", "completed", "done"],
)
@pytest.mark.parametrize("size", [1, 7, 10**7])
def test_where_an_interaction_can_be_continued(more: bytes, last: str | None, size: int) -> None:
    cursor = InteractionCursor()
    data = FOLLOWED + more
    passed = b"".join(cursor.feed(data[at : at + size]) for at in range(0, len(data), size))
    query = {"stream": "true", "last_event_id": last}
    assert cursor.outgoing() == (None if last is None else ("/interactions/v1%2Fi", {}, query))
    assert passed + cursor.rest() == (data if last is None else FOLLOWED)


def test_a_message_that_is_too_large_is_not_held() -> None:
    cursor = InteractionCursor()
    data = FOLLOWED + b"data: " + b"x" * HELD_MAX_BYTES
    assert (cursor.feed(data), cursor.outgoing(), cursor.rest()) == (data, None, b"")


HOSTILE: Final[list[object]] = [
    [],
    7,
    {"candidates": 7},
    {"candidates": [{"index": [], "content": []}]},
    {
        "candidates": [
            {"content": {"parts": [7, {}, {"text": 7}, {"functionCall": []}, {"functionCall": {"name": {}}}]}}
        ]
    },
    {"candidates": [{"content": {"parts": [{"codeExecutionResult": {"outcome": []}}, {"toolResponse": {"id": {}}}]}}]},
    {"candidates": [{"content": {"parts": [{"toolCall": {"toolType": []}}, {"inlineData": {"mimeType": 1}}]}}]},
    {"candidates": [{"finishReason": {}, "groundingMetadata": {"groundingChunks": 1, "groundingSupports": [[], {}]}}]},
    {"candidates": [], "usageMetadata": {"promptTokenCount": [1], "totalTokenCount": -1}},
    {"interaction": [], "event_type": "interaction.created"},
    {"event_type": "step.start", "index": {}, "step": {"type": []}},
    {"event_type": "step.delta", "index": 0, "delta": {"type": {}}},
    {"event_type": "step.start", "index": 0, "step": {"type": "model_output", "content": [{"type": []}, 7]}},
    {"status": [], "steps": [7, {"type": []}, {"type": "model_output", "content": 7}]},
    {"event_type": "step.delta", "index": 0, "delta": {"type": "text_annotation_delta", "annotations": [{"type": []}]}},
    {"event_type": "step.stop", "index": 0},
    {"event_type": "interaction.completed", "interaction": {"status": [], "usage": []}},
]


@pytest.mark.parametrize("profile", [{}, INTERACTIONS], ids=str)
def test_members_of_other_types_end_no_stream(profile: dict[str, Any]) -> None:
    draw = Random(2)
    for _ in range(50):
        stage = ROW.stage(profile_of("gemini", profile))
        for sent in draw.sample(HOSTILE, len(HOSTILE)):
            stage.feed(SseMessage(json.dumps(sent).encode()))
        stage.close()
