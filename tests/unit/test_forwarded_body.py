"""Bodies that passthrough routes forward: usage is requested from every Chat Completions upstream that accepts it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from projector.conversation.entries import ToolCall
from projector.conversation.model_request import UnsupportedRequestError
from projector.conversation.opaque import NOTHING_KEPT, SEALED, KeptCall, Place, with_opaque
from projector.providers import PROVIDERS, profile_of

REQUESTED = {"include_usage": True}


@pytest.mark.parametrize(
    ("api", "profile", "options", "expected"),
    [
        ("openai_chat", {}, {}, {"stream_options": REQUESTED}),
        ("openai_chat", {}, {"stream_options": None}, {"stream_options": REQUESTED}),
        ("openai_chat", {}, {"stream_options": {"include_usage": False}}, {"stream_options": REQUESTED}),
        (
            "openai_chat",
            {},
            {"stream_options": {"include_obfuscation": False}},
            {"stream_options": {"include_obfuscation": False} | REQUESTED},
        ),
        ("openai_chat", {"takes_stream_options": False}, {}, {}),
        ("openai_chat", {"takes_stream_options": False}, {"stream_options": {}}, {"stream_options": {}}),
        ("openai_responses", {}, {}, {}),
        ("openai_responses", {}, {"stream_options": {}}, {"stream_options": {}}),
    ],
)
def test_usage_is_requested(
    api: str, profile: dict[str, Any], options: dict[str, Any], expected: dict[str, Any]
) -> None:
    route = PROVIDERS[api].passthrough
    assert route is not None
    body = {"model": "m", **options}
    assert route.body_writer(body, profile_of(api, profile), NOTHING_KEPT) == {"model": "m", **expected}
    assert body == {"model": "m", **options}


def test_reasoning_of_another_provider_is_not_forwarded() -> None:
    own = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    others = {**own, "encrypted_content": f"{SEALED}AAAA"}
    route = PROVIDERS["openai_responses"].passthrough
    assert route is not None
    assert route.body_writer({"input": ["Hi", own, others]}, None, NOTHING_KEPT) == {"input": ["Hi", own]}


@pytest.mark.parametrize("given", [True, "true", 1, 0, {}])
def test_no_response_runs_in_the_background(given: object) -> None:
    route = PROVIDERS["openai_responses"].passthrough
    assert route is not None
    with pytest.raises(UnsupportedRequestError) as raised:
        route.body_writer({"input": "Hi", "background": given}, None, NOTHING_KEPT)
    assert raised.value.param == "background"


@pytest.mark.parametrize("given", [False, None])
def test_a_response_that_stays_in_the_foreground_is_forwarded(given: object) -> None:
    route = PROVIDERS["openai_responses"].passthrough
    assert route is not None
    body = {"input": "Hi", "background": given}
    assert route.body_writer(body, None, NOTHING_KEPT) == body


@pytest.mark.parametrize("given", [["text", "audio"], ["audio"]])
def test_no_answer_has_audio(given: list[str]) -> None:
    """The text of such an answer is in its audio: without that, nothing is left."""
    route = PROVIDERS["openai_chat"].passthrough
    assert route is not None
    with pytest.raises(UnsupportedRequestError) as raised:
        route.body_writer({"messages": [], "modalities": given}, profile_of("openai_chat", {}), NOTHING_KEPT)
    assert raised.value.param == "modalities"


@pytest.mark.parametrize("given", [None, ["text"], ["image", "text"], "audio", 7, [["audio"]]])
def test_other_modalities_are_forwarded(given: object) -> None:
    route = PROVIDERS["openai_chat"].passthrough
    assert route is not None
    body = {"messages": [], "modalities": given}
    assert route.body_writer(body, profile_of("openai_chat", {"takes_stream_options": False}), NOTHING_KEPT) == body


def test_each_route_answers_in_the_dialect_of_its_api() -> None:
    routes = {
        provider.passthrough.path: provider.passthrough for provider in PROVIDERS.values() if provider.passthrough
    }
    assert {path: route.dialect for path, route in routes.items()} == {
        "/v1/responses": "responses",
        "/v1/chat/completions": "chat_completions",
        "/v1/messages": "anthropic_messages",
    }


_PLACE: Final = Place("", "", "")
_BEFORE: Final[Mapping[str, object]] = {
    "openai_chat": {"returned": {"reasoning_content": "Hm."}},
    "openai_responses": {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Hm."},
    "anthropic_messages": {"thinking": "Hm.", "signature": "s"},
}
"""API -> what it wants back before a call."""
_FUNCTION: Final = {"name": "f", "arguments": "{}"}
_CALLS: Final[Mapping[str, Callable[[int], Mapping[str, object]]]] = {
    "openai_chat": lambda count: {
        "messages": [
            {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": _FUNCTION}]}
            for _ in range(count)
        ]
    },
    "openai_responses": lambda count: {"input": [{"type": "function_call", "call_id": "c", **_FUNCTION}] * count},
    "anthropic_messages": lambda count: {
        "messages": [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]}
            for _ in range(count)
        ]
    },
}
"""API -> a body with so many calls of one ID."""


@pytest.mark.parametrize("api", _CALLS)
def test_what_is_kept_goes_back_with_the_last_call_of_its_id(api: str) -> None:
    """A short body with one ID many times would become a large one."""
    route = PROVIDERS[api].passthrough
    assert route is not None
    kept = {"c": KeptCall(_PLACE, 0, before=(_BEFORE[api],))}
    body = route.body_writer({"model": "m", **_CALLS[api](3)}, profile_of(api, {}), kept)
    sent = body.get("input") or body["messages"]
    assert json.dumps(sent).count("Hm.") == 1
    assert "Hm." in json.dumps(sent[-2:])


@pytest.mark.parametrize("api", _CALLS)
def test_what_is_kept_goes_back_with_the_last_call_of_its_id_to_other_apis(api: str) -> None:
    place = Place(api, "", "")
    entries = with_opaque([ToolCall("c", "f", "{}")] * 3, {"c": KeptCall(place, 0, 1, (_BEFORE[api],))}, place)
    assert [entry.opaque is not None for entry in entries] == [False, False, True, True]
