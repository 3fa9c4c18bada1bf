"""Every member that the models of the `openai` SDK have: it reaches a client of `/v1/responses`, or has a reason here.

`make check-latest` runs this file with the newest SDK. Each item type is streamed with all of its members, once for
each variant of what is in it, and compared with what a client reads.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import pytest
from openai.types.responses import Response, ResponseOutputItem, ResponseStreamEvent
from pydantic import BaseModel

from projector import build_pipeline
from projector.core.handlers import DROPPED as DROPPED_EVENTS
from projector.dialects.responses.writer import DROPPED_ITEMS
from projector.redaction.policy import Policy

VARIANTS: Final = 12
"""More than any union in an item has."""
URL: Final = "https://example.com/a.png"
POLICY: Final = Policy(reasoning="full", encrypted_reasoning=True)


def variants(annotation: Any) -> list[Any]:
    """Return the types that an annotation allows, without None."""
    if get_origin(annotation) is Annotated:
        return variants(get_args(annotation)[0])
    if get_origin(annotation) in {typing.Union, types.UnionType}:
        return [one for part in get_args(annotation) for one in variants(part)]
    return [] if annotation is type(None) else [annotation]


def is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def sample(annotation: Any, turn: int) -> Any:
    """Return a value of a type with every member; `turn` selects the variants of unions."""
    options = variants(annotation)
    one = options[turn % len(options)]
    origin = get_origin(one)
    if is_model(one):
        members = {field.alias or name: sample(field.annotation, turn) for name, field in one.model_fields.items()}
        return {name: URL if name == "url" else value for name, value in members.items()}
    if origin is Literal:
        return get_args(one)[turn % len(get_args(one))]
    if origin is list:
        return [sample(get_args(one)[0], turn)]
    if origin is dict:
        return {"any": sample(get_args(one)[1], turn)}
    return {str: "text", int: 1, float: 1.5, bool: True}.get(one, "text")


def paths(annotation: Any, turn: int) -> Iterator[str]:
    """Yield the path of each member that a sample has."""
    options = variants(annotation)
    one = options[turn % len(options)]
    if is_model(one):
        for name, field in one.model_fields.items():
            yield field.alias or name
            yield from (f"{field.alias or name}.{path}" for path in paths(field.annotation, turn))
    elif get_origin(one) is list:
        yield from paths(get_args(one)[0], turn)


def written(value: Any) -> Iterator[str]:
    """Yield the path of each member of an object that a client reads."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from (f"{name}.{path}" for path in written(member))
    elif isinstance(value, list):
        for entry in value:
            yield from written(entry)


def streamed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events that a client reads."""
    pipeline = build_pipeline(provider="openai_responses", dialect="responses", policy=POLICY)
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    lines = (pipeline.feed(data) + pipeline.close()).splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith(b"data: ") and line != b"data: [DONE]"]


ITEM_MODELS: Final = {
    get_args(model.model_fields["type"].annotation)[0]: model for model in variants(ResponseOutputItem)
}


DELTA_MODELS: Final = {
    get_args(model.model_fields["type"].annotation)[0]: model
    for model in variants(ResponseStreamEvent)
    if "item_id" in model.model_fields and get_args(model.model_fields["type"].annotation)[0] not in DROPPED_EVENTS
}
"""Type of an event of an item -> its model, if the event is translated."""


def item_type_of(event_type: str) -> str:
    """Return the type of the item that an event belongs to."""
    name = event_type.split(".")[1]
    for given, item_type in {
        "function_call": "function_call",
        "custom_tool": "custom_tool_call",
        "mcp": "mcp_call",
    }.items():
        if name.startswith(given):
            return item_type
    return "reasoning" if "reasoning" in name else name.removesuffix("_code") if "_call" in name else "message"


def lost(item_type: str) -> set[str]:
    """Return the members of an item, and inside it, that no client reads whatever the variant."""
    model = ITEM_MODELS[item_type]
    found: set[str] = set()
    sent: set[str] = set()
    for turn in range(VARIANTS):
        item = {**sample(model, turn), "type": item_type}
        item |= {"status": ("completed", "failed")[turn % 2]} if "status" in item else {}
        if "error" in item:
            del item["error" if turn % 2 == 0 else "output" if "output" in item else "result"]  # it has one of them
        place = {"output_index": 0, "item_id": item["id"]}
        events = [
            {"type": "response.output_item.added", **place, "item": item},
            {"type": "response.output_item.done", **place, "item": item},
        ]
        sent |= set(paths(model, turn))
        for event in streamed(events):
            if event["type"] == "response.output_item.done":
                found |= set(written(event["item"]))
    gone = sent - found
    return {path for path in gone if path.rpartition(".")[0] not in gone}


NOT_WRITTEN: Final[dict[str, dict[str, str]]] = {
    "message": {
        "content.logprobs.bytes": (logprobs := "spells out the text, which may be withheld, token by token"),
        "content.logprobs.logprob": logprobs,
        "content.logprobs.token": logprobs,
        "content.logprobs.top_logprobs": logprobs,
    },
    "image_generation_call": {
        "action": "repeats what the request asked for",
        "error": "the message is one of the provider (CONTRACT D41); the status says that there is no image",
        "svg_usage": "counts tokens of a tool, which `usage` of the response does not",
    },
}
"""Item type -> member that no client reads -> why."""

ECHO: Final = "echoes the request, which is the caller's or has parts of the host, such as instructions"
BILLING: Final = "belongs to the account of the host"
RESPONSE_NOT_WRITTEN: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("background", "conversation", "image", "instructions", "max_output_tokens", "max_tool_calls"), ECHO
    ),
    **dict.fromkeys(("metadata", "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options"), ECHO),
    **dict.fromkeys(("prompt_cache_retention", "reasoning", "safety_identifier", "temperature", "text"), ECHO),
    **dict.fromkeys(("tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user"), ECHO),
    **dict.fromkeys(("access_programs", "prompt_cache_diagnostics", "service_tier", "tool_usage"), BILLING),
    "completed_at": "is the time at which this server ended the response",
    "input_transformations": "describes the request as the provider read it",
    "moderation": "describes the request and the text before anything was withheld from it",
    "usage.input_tokens_details.cache_write_tokens": "is 0, which SDKs require; frames have no such count",
    "usage.input_tokens_details.cache_write_tokens_details": "prices of the provider's cache",
}
"""Member of a response that does not come back with the value of the provider -> why."""

BEGUN: Final = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "output": [],
    "status": "in_progress",
}
TEXTS: Final = {"background": "opaque", "output_format": "png", "quality": "low"}


@pytest.mark.parametrize("item_type", sorted(ITEM_MODELS.keys() - DROPPED_ITEMS.keys()))
def test_every_member_of_an_item_is_read_or_has_a_reason(item_type: str) -> None:
    assert lost(item_type) == NOT_WRITTEN.get(item_type, {}).keys()


def test_every_member_of_a_response_is_read_or_has_a_reason() -> None:
    """Members that a client reads with another value than the provider's count as not read."""
    sent = {**sample(Response, 0), **BEGUN, "status": "completed", "error": None, "incomplete_details": None}
    events = [{"type": "response.created", "response": BEGUN}, {"type": "response.completed", "response": sent}]
    got = streamed(events)[-1]["response"]
    differ = {name for name in sent.keys() - {"usage"} if got.get(name) != sent[name]}
    for name, member in sent["usage"].items():
        details = member if isinstance(member, dict) else {"": member}
        told = got["usage"][name] if isinstance(member, dict) else {"": got["usage"][name]}
        differ |= {f"usage.{name}.{one}" for one in details if told.get(one) != details[one]}
    assert differ == RESPONSE_NOT_WRITTEN.keys()


@pytest.mark.parametrize("event_type", sorted(DELTA_MODELS))
def test_every_member_of_an_event_is_read(event_type: str) -> None:
    """An event that is translated has all of its members."""
    model = DELTA_MODELS[event_type]
    event = {**sample(model, 0), "type": event_type, "item_id": "i", "output_index": 0}
    event |= {name: TEXTS[name] for name in TEXTS.keys() & event.keys()}
    item = {"type": item_type_of(event_type), "id": "i", "content": [], "summary": []}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    got = next(one for one in streamed([added, event]) if one["type"] == event_type)
    assert event.keys() - got.keys() == set()
