"""Reads the JSON of a request, and refuses what may not be asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from projector._validation import sentences
from projector.dialects.ag_ui.run_input import AssistantMessage, RunAgentInput
from projector.dialects.options import DialectOptions

_BEFORE_1_0: Final = re.compile(r"0\.\d+")
"""What is no version at all counts as a newer one, as the protocol wants it."""


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
        message = sentences(error, body, RunAgentInput)[0]
    raise InputRefusedError(f"{message}.")


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
