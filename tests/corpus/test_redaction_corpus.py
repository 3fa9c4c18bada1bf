"""Nothing harmless is withheld from recorded streams: their keys were removed when they were recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.corpus.recorded import each_stream, play

REDACTOR: Final = Redactor(Policy(error_messages="provider", reasoning="full"))

RIGHTLY: Final[Mapping[str, str]] = {
    "prism__openai_stream-rate-limited-1": "an error names the project and the organization",
    "pydantic-ai__test_openai_responses_test_openai_responses_code_execution_return_image_stream": "an image in a URL",
}
"""Recording -> what is withheld from it."""


@each_stream
def test_nothing_is_withheld(path: Path, provider: str) -> None:
    lines = play(path, provider, "public_sse_v1", REDACTOR)
    found = [
        line for line in map(json.loads, lines) if any(each["type"] == "redacted" for each in line.get("notices", ()))
    ]
    assert [frame for frame in found if path.stem not in RIGHTLY] == []
