"""Reads the JSON of a request, and refuses what may not be asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from projector.contracts.limits import KEY_MAX_CHARS
from projector.dialects.ag_ui.run_input import AssistantMessage, RunAgentInput
from projector.dialects.options import DialectOptions

_BEFORE_1_0: Final = re.compile(r"0\.\d+")
"""What is no version at all counts as a newer one, as the protocol wants it."""

_COMPLAINTS: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "string_type": "must be text",
    "string_too_short": "is empty",
    "string_too_long": "is too long",
    "string_pattern_mismatch": "must be an image, over https or in base64 with its type",
    "too_long": "has too many entries",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "union_tag_invalid": "is of a kind that is not allowed here",
    "union_tag_not_found": "does not say of which kind it is",
}
"""Type of pydantic's error -> our words; instructions are messages of a kind that is not allowed."""


class InputRefusedError(ValueError):
    """The request asks for what this server does not do; the message names the place, never a value."""


def read_run_input(body: Mapping[str, Any]) -> RunAgentInput:
    """Read the JSON object of a request.

    Raises:
        InputRefusedError: it is no request that may be made here; the first such place is named.
    """
    try:
        return RunAgentInput.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    raise InputRefusedError(f"`{_place(body, first['loc'])}` {_COMPLAINTS.get(first['type'], 'is not valid')}.")


def dialect_options(asked: RunAgentInput) -> DialectOptions:
    """Give what the dialect repeats and obeys."""
    said = [message for message in asked.messages if isinstance(message, AssistantMessage)]
    call_ids = [call.id for message in said for call in message.tool_calls or ()]
    version = asked.protocol_version
    return DialectOptions(
        thread_id=asked.thread_id,
        run_id=asked.run_id,
        is_before_1_0=version is None or _BEFORE_1_0.fullmatch(version) is not None,
        taken_ids=frozenset([*call_ids, *(message.id for message in asked.messages)]),
    )


def _place(body: object, location: Sequence[int | str]) -> str:
    """Write a place as it stands in the request: the validator also names branches of unions, which nobody wrote."""
    place = ""
    for step in location:
        if isinstance(step, int) and isinstance(body, list):
            place, body = f"{place}[{step}]", body[step]
        elif isinstance(body, dict) and (step in body or step == location[-1]):
            place, body = f"{place}.{step}"[: len(place) + KEY_MAX_CHARS], body.get(step)
    return place.removeprefix(".")
