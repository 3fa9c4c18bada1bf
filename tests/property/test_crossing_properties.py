"""Hostile requests of one API for an upstream with the other: a body, or an error that names a member."""

from __future__ import annotations

import copy
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from projector.contracts import codec
from projector.conversation.model_request import UnsupportedRequestError
from projector.providers import PROVIDERS, profile_of
from tests.unit.test_crossing import BOTH_WAYS, CHAT, RESPONSES

BODIES: Final[dict[str, list[dict[str, Any]]]] = {
    CHAT: [{"model": "m", "messages": [{"role": "user", "content": "Hi"}], **chat} for _, chat, _ in BOTH_WAYS],
    RESPONSES: [{"model": "m", "input": "Hi", **responses} for _, _, responses in BOTH_WAYS],
}
WORDS: Final = ("type", "role", "content", "function", "custom", "text", "name", "json_schema", "tools", "x")
VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.floats(allow_nan=False) | st.sampled_from([*WORDS, "", "auto"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def requests(draw: st.DrawFn, api: str) -> dict[str, Any]:
    """Draw a valid request in which one value, at any depth, is replaced, removed or added."""
    body = copy.deepcopy(draw(st.sampled_from(BODIES[api])))
    node: Any = body
    while True:
        keys = [*node] if isinstance(node, dict) else [*range(len(node))]
        key = draw(st.sampled_from([*keys, "x"] if isinstance(node, dict) else keys))
        inner = node.get(key) if isinstance(node, dict) else node[key]
        if inner and isinstance(inner, dict | list) and draw(st.booleans()):
            node = inner
            continue
        if draw(st.booleans()):
            node[key] = draw(VALUES)
        elif isinstance(node, dict):
            node.pop(key, None)
        return body


def cross(body: dict[str, Any], source: str, target: str) -> None:
    route = PROVIDERS[source].passthrough
    assert route is not None
    assert route.request_reader is not None
    before, refused = copy.deepcopy(body), None
    try:
        sent = PROVIDERS[target].request_writer(route.request_reader(body), profile_of(target, {}))
        codec.dumps(sent)
        assert sent["model"] == body["model"]
    except UnsupportedRequestError as error:
        refused = error
    assert refused is None or (refused.param and str(refused).startswith(f"`{refused.param}`"))
    assert body == before


@given(requests(CHAT))
def test_a_chat_request_is_translated_or_refused(body: dict[str, Any]) -> None:
    cross(body, CHAT, RESPONSES)


@given(requests(RESPONSES))
def test_a_request_of_the_responses_api_is_translated_or_refused(body: dict[str, Any]) -> None:
    cross(body, RESPONSES, CHAT)
