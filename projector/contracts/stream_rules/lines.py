"""Rules of one line: is it JSON, is it small enough, does it obey its model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from projector.contracts import codec
from projector.contracts.limits import FRAME_MAX_BYTES
from projector.contracts.public_sse_v1 import PublicEvent, parse_event
from projector._validation import invalid_fields
from projector.contracts.stream_rules.table import Breach

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_MAYBE_SURROGATE: Final = re.compile("[\ud800-\udfff]|\\\\u[dD][89a-fA-F]")
_MODEL_RULES: Final = {
    "union_tag_not_found": "kind",
    "union_tag_invalid": "kind",
    "extra_forbidden": "extra_member",
}
"""The errors of a model that have a rule of their own; the first two at the root only."""


class Reading(NamedTuple):
    """What a line is: nothing of it is there when the line is no JSON object, and no event when it breaks its model."""

    members: dict[str, Any] | None
    event: PublicEvent | None
    breaches: list[Breach]


def read_line(line: bytes | str) -> Reading:
    """Read one line of a stream, without its line end."""
    breaches: list[Breach] = []
    size = len(line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass"))
    if size > FRAME_MAX_BYTES:
        breaches.append(Breach("frame_bytes", f"expected at most {FRAME_MAX_BYTES} bytes, found {size}"))
    try:
        text = line if isinstance(line, str) else line.decode()
        members = codec.loads_exact(text)
    except ValueError:
        return Reading(None, None, [*breaches, Breach("json", "expected JSON in UTF-8")])
    if not isinstance(members, dict):
        return Reading(None, None, [*breaches, Breach("json", "expected a JSON object")])
    if _MAYBE_SURROGATE.search(text) and _has_surrogate(members):
        return Reading(members, None, [*breaches, Breach("surrogate", "expected text without lone surrogates")])
    try:
        return Reading(members, parse_event(members), breaches)
    except ValidationError as error:
        return Reading(members, None, breaches + _shape_breaches(error, members))


def _shape_breaches(error: ValidationError, members: Mapping[str, object]) -> list[Breach]:
    """Return the fields that break the model of their event."""
    found = []
    for field in invalid_fields(error, members):
        rule = "shape" if field.path and field.type.startswith("union_tag") else _MODEL_RULES.get(field.type, "shape")
        rule = "schema" if field.path == ("schema",) and field.type != "missing" else rule
        found.append(Breach(rule, field.sentence(field.name or "kind")))
    return found


def _has_surrogate(value: object) -> bool:
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str) and _SURROGATE.search(value):
            return True
        if isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, list):
            pending += value
    return False
