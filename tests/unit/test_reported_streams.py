"""Streams that users of other gateways have reported, in both APIs, as the frames that a page receives."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from projector import Policy, build_pipeline
from projector.contracts.stream_rules import check_stream

RESPONSES: Final = "openai_responses"
CHAT: Final = "openai_chat"
CREATED: Final = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}
DELTA: Final = {"type": "response.output_text.delta", "output_index": 0, "item_id": "msg_1", "content_index": 0}
MESSAGE: Final = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
}
RESPONSE: Final = {"id": "resp_1", "object": "response", "status": "completed", "output": [MESSAGE]}
COMPLETED: Final = {"type": "response.completed", "response": RESPONSE}
CHUNK: Final = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m"}
COMPLETION: Final = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
}
BEGINNING: Final[dict[str, list[object]]] = {
    RESPONSES: [CREATED, {**DELTA, "delta": "Hello"}],
    CHAT: [{**CHUNK, "choices": [{"index": 0, "delta": {"content": "Hello"}}]}],
}
END: Final[dict[str, list[object]]] = {
    RESPONSES: [COMPLETED],
    CHAT: [{**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}],
}
WHOLE: Final[dict[str, object]] = {RESPONSES: RESPONSE, CHAT: COMPLETION}
BOTH: Final = pytest.mark.parametrize("provider", [RESPONSES, CHAT])


def sse(*payloads: object) -> bytes:
    texts = (payload if isinstance(payload, str) else json.dumps(payload) for payload in payloads)
    return b"".join(b"data: %b\n\n" % text.encode() for text in texts)


def frames(provider: str, data: bytes, **settings: Any) -> list[dict[str, Any]]:
    """Return the frames of some bytes, whole and byte by byte."""
    said = []
    for size in (len(data), 1):
        options = {"provider": provider, "dialect": "public_sse_v1", "output_format": "ndjson", **settings}
        pipeline = build_pipeline(clock=lambda: 0.0, **options)
        said.append(b"".join(pipeline.feed(data[at : at + size]) for at in range(0, len(data), size)))
        said[-1] += pipeline.close()
    first, second = ([{**json.loads(line), "stream_id": ""} for line in lines.splitlines()] for lines in said)
    assert first == second
    assert check_stream(said[0].splitlines()) == []
    return first


def last(provider: str, data: bytes, **settings: Any) -> Any:
    """Return the terminal of some bytes."""
    frame = frames(provider, data, **settings)[-1]
    return frame.get("error") or frame["final"]


@BOTH
def test_d47_a_comment_in_data_changes_nothing(provider: str) -> None:
    plain = sse(*BEGINNING[provider], *END[provider])
    commented = sse(": keepalive", *BEGINNING[provider], ": keepalive", " ", *END[provider])
    assert frames(provider, commented) == frames(provider, plain)


@BOTH
@pytest.mark.parametrize("data", [b"data: : keepalive\n\n", b"data:\n\ndata: \n\n"])
def test_d47_comments_alone_are_an_empty_stream(provider: str, data: bytes) -> None:
    assert last(provider, data)["code"] == "upstream_empty"


ERRORS: Final[dict[str, tuple[Any, str, bool]]] = {
    "an object": ({"error": {"message": "No", "code": "rate_limit_exceeded"}}, "rate_limit_exceeded", True),
    "with a status": ({"error": {"message": "No", "code": 400, "status": "INVALID_ARGUMENT"}}, "400", False),
    "a text": ({"error": "No"}, "provider_error", False),
    "a list": ([{"error": {"message": "No", "code": 503, "status": "UNAVAILABLE"}}], "503", True),
    "base_resp": ({"id": "1", "base_resp": {"status_code": 1002, "status_msg": "No"}}, "1002", True),
    "base_resp, not retryable": ({"base_resp": {"status_code": 1004, "status_msg": "No"}}, "1004", False),
    "code and message": ({"code": "overloaded", "message": "No"}, "overloaded", True),
    "a status and a message": ({"status": 429, "message": "No"}, "429", True),
    "errors": ({"errors": [{"code": "server_error", "message": "No"}]}, "server_error", True),
    "errors as text": ({"errors": "No"}, "provider_error", False),
    "detail": ({"detail": "No"}, "provider_error", False),
    "detail of a problem": ({"status": 503, "title": "Busy", "detail": "No"}, "503", True),
    "detail as a list": ({"detail": [{"msg": "No", "type": "missing"}]}, "provider_error", False),
    "names as of an API gateway": ({"statusCode": 429, "message": "No"}, "429", True),
    "names in camel case": ({"errorCode": 503, "errorMessage": "No"}, "503", True),
    "names in upper case": ({"Code": "Throttling", "Message": "No"}, "Throttling", False),
    "names with a prefix": ({"error_code": 17, "error_msg": "No"}, "17", False),
    "a fault": ({"fault": {"faultstring": "No", "detail": {"errorcode": "QuotaViolation"}}}, "QuotaViolation", False),
    "no success": ({"success": False, "message": "No"}, "provider_error", False),
    "an error in its detail": ({"detail": {"error": {"message": "No", "code": 429}}}, "429", True),
    "an object named error": ({"object": "error", "message": "No", "code": 404}, "404", False),
}


@BOTH
@pytest.mark.parametrize("write", [sse, lambda error: json.dumps(error, indent=1).encode()], ids=["data", "body"])
@pytest.mark.parametrize(("error", "code", "may_retry"), ERRORS.values(), ids=ERRORS)
def test_d48_an_error_is_read_in_every_shape(
    provider: str, write: Callable[..., bytes], error: Any, code: str, *, may_retry: bool
) -> None:
    said = last(provider, write(error), policy=Policy(error_messages="provider"))
    assert said == {"code": code, "message": "No", "source": "provider", "is_retryable": may_retry}


@pytest.mark.parametrize("name", ["base_resp", "names with a prefix"])
def test_d48_names_with_underscores_stay_those_of_an_error_at_gemini(name: str) -> None:
    error, code, may_retry = ERRORS[name]
    said = last("gemini", sse(error), policy=Policy(error_messages="provider"))
    assert (said["code"], said["message"], said["is_retryable"]) == (code, "No", may_retry)


@BOTH
@pytest.mark.parametrize("write", [sse, lambda answer: json.dumps(answer, indent=1).encode()], ids=["data", "body"])
def test_d48_a_whole_answer_is_a_stream_of_one_answer(provider: str, write: Callable[..., bytes]) -> None:
    said = frames(provider, write(WHOLE[provider]))
    assert [frame["delta"] for frame in said if frame["kind"] == "message.delta"] == ["Hello"]
    assert said[-1]["final"]["status"] == "completed"
    assert said[-1]["final"]["response_text"] == "Hello"


@BOTH
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"state": "loading"}', "upstream_malformed"),
        (b"[1, 2]", "upstream_malformed"),
        (b'{"statusCode": 200, "message": "OK"}', "upstream_malformed"),
        (b'{"code": 0, "message": "OK", "success": true}', "upstream_malformed"),
        (b'{"error": {"mess', "upstream_truncated"),
    ],
)
def test_d48_another_document_is_no_answer(provider: str, body: bytes, code: str) -> None:
    assert last(provider, body)["code"] == code


def delta(number: int, text: str) -> dict[str, Any]:
    return {**DELTA, "sequence_number": number, "delta": text}


REPEATED: Final[dict[str, tuple[list[dict[str, Any]], str]]] = {
    "at once": ([delta(1, "Hel"), delta(1, "Hel"), delta(2, "lo")], "Hello"),
    "a block": ([delta(1, "H"), delta(2, "e"), delta(3, "y"), delta(2, "e"), delta(3, "y"), delta(4, "!")], "Hey!"),
    "a long block": ([*(delta(at, "a") for at in range(1, 40)), *(delta(at, "a") for at in range(20, 50))], "a" * 49),
    "equal texts under new numbers": ([delta(1, "ha"), delta(2, "ha")], "haha"),
    "numbers that do not count": ([delta(0, "ha"), delta(0, "!"), delta(0, "!")], "ha!!"),
}


@pytest.mark.parametrize(("deltas", "text"), REPEATED.values(), ids=REPEATED)
def test_d52_a_delta_that_is_sent_again_counts_once(deltas: list[dict[str, Any]], text: str) -> None:
    end = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}}
    assert last(RESPONSES, sse(CREATED, *deltas, end))["response_text"] == text


ZERO: Final[dict[str, dict[str, Any]]] = {
    RESPONSES: {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, "input_tokens_details": {"cached_tokens": 0}},
    CHAT: {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
}
REAL: Final[dict[str, dict[str, Any]]] = {
    RESPONSES: {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    CHAT: {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
}


def with_usage(provider: str, *usages: dict[str, Any]) -> bytes:
    """Return a stream that reports usage several times."""
    if provider == CHAT:
        return sse(*BEGINNING[CHAT], *END[CHAT], *({**CHUNK, "choices": [], "usage": usage} for usage in usages))
    kinds = [*["response.in_progress"] * (len(usages) - 1), "response.completed"]
    responses = [{**RESPONSE, "status": kind.removeprefix("response.")} for kind in kinds]
    events = [
        {"type": kind, "response": {**response, "usage": usage}}
        for kind, response, usage in zip(kinds, responses, usages, strict=True)
    ]
    return sse(*BEGINNING[RESPONSES], *events)


@BOTH
def test_d52_usage_of_zero_does_not_replace_usage(provider: str) -> None:
    assert last(provider, with_usage(provider, REAL[provider], ZERO[provider]))["usage"] == REAL[RESPONSES]
    assert last(provider, with_usage(provider, ZERO[provider], REAL[provider]))["usage"] == REAL[RESPONSES]
    assert last(provider, with_usage(provider, ZERO[provider]))["usage"]["total_tokens"] == 0


def written(provider: str, dialect: str, data: bytes) -> list[dict[str, Any]]:
    """Return the events of a dialect."""
    pipeline = build_pipeline(provider=provider, dialect=dialect, output_format="ndjson")
    lines = (pipeline.feed(data) + pipeline.close()).splitlines()
    return [json.loads(line) for line in lines if line != b"[DONE]"]


@BOTH
def test_the_service_tier_is_the_providers(provider: str) -> None:
    first, *rest = BEGINNING[provider]
    end = END[provider][0]
    if provider == CHAT:
        data = sse({**first, "service_tier": "priority"}, *rest, {**end, "service_tier": "priority"})  # type: ignore[dict-item]
    else:
        response = {**RESPONSE, "service_tier": "priority"}
        created = {**CREATED, "response": {**CREATED["response"], "service_tier": "auto"}}  # type: ignore[dict-item]
        data = sse(created, *rest, {"type": "response.completed", "response": response})
    for dialect in ("responses", "openresponses"):
        assert written(provider, dialect, data)[-1]["response"]["service_tier"] == "priority"
    tiers = {chunk.get("service_tier") for chunk in written(provider, "chat_completions", data)}
    assert tiers == {"priority" if provider == CHAT else None}  # a chunk has the one that was known at the start
    plain = sse(*BEGINNING[provider], *END[provider])
    assert written(provider, "responses", plain)[-1]["response"]["service_tier"] == "default"


PLACE: Final = {"output_index": 0, "item_id": "fc_1"}
ITEM: Final = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": ""}
END_OF_CALL: Final = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}


def fragment(arguments: object = None, **members: Any) -> dict[str, Any]:
    """Return a fragment of a call, in the shape of Chat Completions."""
    function = {name: members.pop(name) for name in ("name",) if name in members}
    return {**members, "function": function | ({} if arguments is None else {"arguments": arguments})}


def chat_calls(*chunks: list[dict[str, Any]]) -> bytes:
    deltas = [{**CHUNK, "choices": [{"index": 0, "delta": {"tool_calls": calls}}]} for calls in chunks]
    return sse(*deltas, {**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})


def response_call(*fragments: str, whole: str | None) -> bytes:
    deltas = [{"type": "response.function_call_arguments.delta", **PLACE, "delta": text} for text in fragments]
    done = [] if whole is None else [{"type": "response.function_call_arguments.done", **PLACE, "arguments": whole}]
    item = {**ITEM, "status": "completed"} | ({} if whole is None else {"arguments": whole})
    return sse(
        CREATED,
        {"type": "response.output_item.added", "output_index": 0, "item": ITEM},
        *deltas,
        *done,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        END_OF_CALL,
    )


BERN: Final = '{"city": "Bern"}'
OBJECTS: Final[dict[str, tuple[list[str], str]]] = {
    "an empty one first": (["{}", BERN], BERN),
    "in fragments": (["{}", '{"city"', ': "Bern"}'], BERN),
    "with blanks": ([" {} ", " ", BERN, ""], BERN),
    "three": (["{}", '{"city": ""}', BERN], BERN),
    "alone": ([BERN], BERN),
    "the empty one alone": (["{}"], "{}"),
    "an array is none": (["[1]"], "[1]"),
}


@pytest.mark.parametrize(("fragments", "expected"), OBJECTS.values(), ids=OBJECTS)
@pytest.mark.parametrize("write", ["chat", "responses", "responses, joined", "responses, without a whole"])
def test_d50_the_last_whole_object_is_the_call(write: str, fragments: list[str], expected: str) -> None:
    if write == "chat":
        first = fragment(fragments[0], index=0, id="call_1", name="weather")
        provider, data = CHAT, chat_calls([first], *([fragment(text, index=0)] for text in fragments[1:]))
    else:
        whole = {"responses": expected, "responses, joined": "".join(fragments)}.get(write)
        provider, data = RESPONSES, response_call(*fragments, whole=whole)
    said = frames(provider, data)
    [done] = [frame for frame in said if frame["kind"] == "tool.arguments.done"]
    deltas = "".join(frame["delta"] for frame in said if frame["kind"] == "tool.arguments.delta")
    assert (done["arguments_text"].strip(), deltas) == (expected, done["arguments_text"])
    for dialect in ("responses", "chat_completions"):
        assert arguments_of(dialect, written(provider, dialect, data)) == done["arguments_text"]


def arguments_of(dialect: str, events: list[dict[str, Any]]) -> str:
    """Return the arguments that a client of the dialect joins."""
    if dialect == "responses":
        return "".join(event["delta"] for event in events if event["type"].endswith("arguments.delta"))
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    return "".join(call["function"]["arguments"] for delta in deltas for call in delta.get("tool_calls", ()))


def test_d50_an_empty_object_gives_way_to_the_whole_arguments() -> None:
    [done] = [
        frame for frame in frames(RESPONSES, response_call("{}", whole=BERN)) if frame["kind"] == "tool.arguments.done"
    ]
    assert done["arguments_json"] == {"city": "Bern"}


def test_d50_what_is_held_back_is_shown_if_the_call_is_cut_off() -> None:
    cut = chat_calls([fragment(BERN, index=0, id="call_1", name="weather")]).rpartition(b"data: ")[0]
    said = frames(CHAT, cut)
    assert [frame["kind"] for frame in said if "arguments" in frame["kind"]] == []
    limited = cut + sse({**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
    said = frames(CHAT, limited)
    assert [frame["kind"] for frame in said if "arguments" in frame["kind"]] == ["tool.arguments.delta"]


CALLS: Final[dict[str, tuple[list[list[dict[str, Any]]], list[tuple[str, str]]]]] = {
    "parallel, told apart by their places": (
        [
            [fragment("", name="a"), fragment("", name="b")],
            [fragment('{"x"'), fragment('{"y"')],
            [fragment(": 1}"), fragment(": 2}")],
        ],
        [("a", '{"x": 1}'), ("b", '{"y": 2}')],
    ),
    "parallel, with one name": (
        [[fragment('{"x": 1}', name="a")], [fragment('{"x": 2}', name="a")]],
        [("a", '{"x": 1}'), ("a", '{"x": 2}')],
    ),
    "parallel with one name in one chunk": (
        [[fragment('{"x": 1}', name="a"), fragment('{"x": 2}', name="a")]],
        [("a", '{"x": 1}'), ("a", '{"x": 2}')],
    ),
    "a name with each fragment": (
        [[fragment('{"x"', name="a")], [fragment(": 1}", name="a")], [fragment("", name="a")]],
        [("a", '{"x": 1}')],
    ),
    "another name on the same index": (
        [[fragment('{"x": 1}', name="a", index=0)], [fragment('{"x": 2}', name="b", index=0)]],
        [("a", '{"x": 1}'), ("b", '{"x": 2}')],
    ),
    "a fragment without id and name at a new index": (
        [[fragment('{"x"', name="a", index=0, id="1")], [fragment(": 1}", index=1)]],
        [("a", '{"x": 1}')],
    ),
    "a fragment of no call": ([[fragment('{"x": 1}', index=0)]], []),
    "a name in fragments": (
        [
            [fragment("", name="get_", index=0, id="1")],
            [fragment("", name="wea", index=0)],
            [fragment("{", name="ther", index=0)],
            [fragment("}", index=0)],
        ],
        [("get_weather", "{}")],
    ),
    "a name that grows": (
        [[fragment(name="get", index=0, id="1")], [fragment("{}", name="get_weather", index=0)]],
        [("get_weather", "{}")],
    ),
    "a name alone": ([[fragment("", name="a", index=0, id="1")]], [("a", "")]),
    "a call with an id alone": ([[fragment("{}", index=0, id="1")]], [("unknown", "{}")]),
}


@pytest.mark.parametrize(("chunks", "calls"), CALLS.values(), ids=CALLS)
def test_d50_each_call_gets_its_fragments(chunks: list[list[dict[str, Any]]], calls: list[tuple[str, str]]) -> None:
    said = frames(CHAT, chat_calls(*chunks))
    dones = [frame for frame in said if frame["kind"] == "tool.arguments.done"]
    assert [(frame["tool_name"], frame["arguments_text"]) for frame in dones] == calls
    names = {frame["tool"]["name"] for frame in said if frame["kind"] == "tool.status"}
    assert names == {name for name, _ in calls}


SECRET: Final = "sk-proj-" + "a1B2" * 12
CLIENT_ITEMS: Final[list[dict[str, Any]]] = [
    {
        "type": "shell_call",
        "call_id": "c",
        "action": {"commands": ["ls", f"x {SECRET}"]},
        "environment": {"type": "local"},
    },
    {"type": "local_shell_call", "call_id": "c", "action": {"type": "exec", "command": ["ls"], "env": {}}},
    {"type": "apply_patch_call", "call_id": "c", "operation": {"type": "create_file", "path": "a", "diff": "+b"}},
    {"type": "computer_call", "call_id": "c", "action": {"type": "wait"}, "pending_safety_checks": []},
    {"type": "tool_search_call", "call_id": "c", "arguments": {"query": "q"}, "execution": "client"},
    {"type": "tool_search_output", "call_id": "c", "tools": [{"type": "function", "name": "f"}], "execution": "server"},
    {"type": "compaction", "encrypted_content": "gAAAAABo" + "x" * 20_000},
    {"type": "program", "call_id": "c", "code": "f()", "fingerprint": "f"},
]


def one_item(item: dict[str, Any]) -> bytes:
    done = {"id": "it_1", "status": "completed", **item}
    response = {"id": "resp_1", "object": "response", "status": "completed", "output": [done]}
    return sse(
        CREATED,
        {"type": "response.output_item.added", "output_index": 0, "item": {"id": "it_1", "type": item["type"]}},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": response},
    )


@pytest.mark.parametrize("item", CLIENT_ITEMS, ids=lambda item: item["type"])
def test_d49_items_that_a_client_needs_pass(item: dict[str, Any]) -> None:
    clean = json.loads(json.dumps(item).replace(SECRET, "<redacted>"))
    response = written(RESPONSES, "responses", one_item(item))[-1]["response"]
    own = written(RESPONSES, "openresponses", one_item(item))[-1]["response"]
    for name, value in clean.items():
        assert response["output"][0][name] == value
        assert own["output"][0][name] == (f"public-sse:{value}" if name == "type" else value)
    kinds = [frame["kind"] for frame in frames(RESPONSES, one_item(item))]
    assert kinds == ["lifecycle", "output_item.added", "output_item.done", "lifecycle", "final"]


@pytest.mark.parametrize("item_type", ["function_call", "custom_tool_call"])
def test_d49_members_of_calls_pass(item_type: str) -> None:
    members = {"namespace": "files", "caller": {"type": "program", "caller_id": SECRET}, "async": True}
    item = {"type": item_type, "call_id": "c", "name": "f", "arguments": "{}", "input": "x", **members}
    for dialect in ("responses", "openresponses"):
        [said] = written(RESPONSES, dialect, one_item(item))[-1]["response"]["output"]
        assert (said["namespace"], said["async"]) == ("files", True)
        assert said["caller"] == {"type": "program", "caller_id": "<redacted>"}


def test_d49_an_item_of_an_unknown_type_is_marked() -> None:
    terminal = frames(RESPONSES, one_item({"type": "hologram"}))[-1]
    notice = {"type": "truncated", "path": "final", "message": "Items of unknown types are not shown."}
    assert (terminal["final"]["status"], terminal["notices"]) == ("completed", [notice])


TAGGED: Final[dict[str, tuple[list[str], str, str]]] = {
    "thought": (["<thought>Hm.", "</thought>Yes."], "Hm.", "Yes."),
    "the channels of Gemma": (["<|channel>", "thought\nHm.<chan", "nel|>Yes."], "\nHm.", "Yes."),
    "after text": (["Well. ", "<think>Hm.</think>", "Yes."], "Hm.", "Well. Yes."),
    "long after text": ([*["a"] * 20, "<think>Hm.</think>", *["b"] * 20], "Hm.", "a" * 20 + "b" * 20),
    "blanks in the tags": (["<think >Hm.</think\n>Yes."], "Hm.", "Yes."),
    "a closing tag alone": (["Hm.</think>Yes."], "Hm.", "Yes."),
    "a closing tag after what was shown": (["Hm.", "</think>", "Yes."], "", "Hm.Yes."),
    "quoted": (["The tag `<think>", "` begins", " it."], "", "The tag `<think>` begins it."),
    "quoted, cut": ([*["a"] * 20, "`", "<think>", "`."], "", "a" * 20 + "`<think>`."),
}


@BOTH
@pytest.mark.parametrize(("deltas", "thought", "text"), TAGGED.values(), ids=TAGGED)
def test_d51_reasoning_in_tags(provider: str, deltas: list[str], thought: str, text: str) -> None:
    if provider == CHAT:
        data = sse(*({**CHUNK, "choices": [{"index": 0, "delta": {"content": one}}]} for one in deltas), *END[CHAT])
    else:
        content = [{"type": "output_text", "text": "".join(deltas), "annotations": []}]
        response = {**RESPONSE, "output": [{**MESSAGE, "content": content}]}
        texts = ({**DELTA, "sequence_number": at, "delta": one} for at, one in enumerate(deltas, 1))
        data = sse(CREATED, *texts, {"type": "response.completed", "sequence_number": 99, "response": response})
    said = frames(provider, data, policy=Policy(reasoning="full"))
    assert said[-1]["final"]["response_text"] == text
    assert "".join(frame["delta"] for frame in said if frame["kind"] == "message.delta") == text
    events = b"".join(written_bytes(provider, "responses", data, policy=Policy(reasoning="full")))
    found = [json.loads(line) for line in events.splitlines()]
    assert "".join(one["delta"] for one in found if one["type"] == "response.reasoning_text.delta") == thought


def written_bytes(provider: str, dialect: str, data: bytes, **settings: Any) -> list[bytes]:
    pipeline = build_pipeline(provider=provider, dialect=dialect, output_format="ndjson", **settings)
    return [pipeline.feed(data[at : at + 150]) for at in range(0, len(data), 150)] + [pipeline.close()]


PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


@pytest.mark.parametrize("where", ["delta", "message"])
def test_an_image_of_a_delta_is_an_image_of_the_answer(where: str) -> None:
    images = [image(f"data:image/png;base64,{PIXEL}"), image("https://example.test/a.png"), {"type": "image_url"}]
    shown = {"content": "A dot.", "images": images}
    chunks = [{**CHUNK, "choices": [{"index": 0, where: shown, "finish_reason": None}]}] * (
        2 if where == "delta" else 1
    )
    data = sse(*chunks, *END[CHAT])
    said = frames(CHAT, data)
    assert [frame["data"] for frame in said if frame["kind"] == "chunk.delta"] == [PIXEL]
    tools = [frame["tool"] for frame in said if frame["kind"] == "tool.status"]
    assert [(tool["tool_type"], tool["status"]) for tool in tools][-1] == ("image_generation", "completed")
    output = written(CHAT, "responses", data)[-1]["response"]["output"]
    assert [item["result"] for item in output if item["type"] == "image_generation_call"] == [PIXEL]


DATA_URL: Final = f"data:image/png;base64,{PIXEL}"


@pytest.mark.parametrize(
    "delta",
    [
        {"images": [{"type": "image_url", "image_url": DATA_URL}]},
        {"content": ["A dot.", image(DATA_URL)]},
    ],
)
def test_an_image_may_be_a_part_of_the_content_or_its_url_alone(delta: dict[str, Any]) -> None:
    data = sse({**CHUNK, "choices": [{"index": "0", "delta": delta, "finish_reason": None}]}, *END[CHAT])
    assert [frame["data"] for frame in frames(CHAT, data) if frame["kind"] == "chunk.delta"] == [PIXEL]
