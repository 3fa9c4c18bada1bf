"""The models of the `openai` SDK as a judge of events of the Responses API: strictly, and without unknown members."""

from __future__ import annotations

import json
import re
import typing
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final

from openai import BaseModel, omit
from openai._models import construct_type
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter, ValidationError

MODELS: Final = {
    typing.get_args(model.model_fields["type"].annotation)[0]: model
    for model in typing.get_args(typing.get_args(ResponseStreamEvent)[0])
}
"""Type of an event -> its model."""

UNKNOWN_MEMBERS: Final = {
    "ResponseErrorEvent.error": "the SDK raises its exception on this member, and the API sends it",
    "ResponseCustomToolCall.status": "the API sends it, and the AI SDK requires it",
}
"""Members that we write and the models lack -> why."""


@cache
def adapter_of(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(MODELS[name])


def faults_of(lines: Iterable[bytes]) -> list[str]:
    """Return what the SDK does not accept in a stream, given as the data of its events.

    Each event must be valid for its model in strict mode, have no member that the model lacks, serialize without a
    warning, and be accepted by the SDK's accumulator.
    """
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    faults: list[str] = []
    for line in lines:
        event = json.loads(line)
        if event["type"] not in MODELS:
            faults.append(f"{event['type']}: unknown type")
            continue
        faults += [f"{event['type']}: {fault}" for fault in _faults(event, state)]
    return faults


def _faults(event: dict[str, Any], state: ResponseStreamState[Any]) -> Iterator[str]:
    try:
        model = adapter_of(event["type"]).validate_python(event, strict=True)
    except ValidationError as error:
        yield from (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_input=False))
        return
    yield from (f"unknown member {name}" for name in unknown_members(model) if name not in UNKNOWN_MEMBERS)
    built: Any = construct_type(type_=ResponseStreamEvent, value=event)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            built.to_dict()
            if event["type"] != "error":  # the SDK raises an exception before it builds the event
                state.handle_event(built)
        except (UserWarning, RuntimeError, AssertionError) as error:
            yield re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")


def unknown_members(value: object) -> Iterator[str]:
    """Yield each member that a model lacks, as `Model.member`."""
    if isinstance(value, BaseModel):
        yield from (f"{type(value).__name__}.{name}" for name in value.model_extra or {})
        for name in value.model_fields_set:
            yield from unknown_members(getattr(value, name, None))
    elif isinstance(value, list):
        for entry in value:
            yield from unknown_members(entry)
