"""Nothing harmless is withheld: objects and texts as arguments, as tool output and as code, whole and in pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

FOLDER: Final = Path(__file__).parent
_LINES: Final = (FOLDER / "harmless_objects.ndjson").read_text(encoding="utf-8").splitlines()
OBJECTS: Final = {line[:60]: line for line in _LINES}
"""JSON objects, as the arguments of a call or the output of a tool might be."""
TEXTS: Final = dict(
    part.rstrip("\n").split("\n", 1)
    for part in (FOLDER / "harmless_texts.txt").read_text(encoding="utf-8").split("=== ")[1:]
)
"""Name -> text."""
REDACTOR: Final = Redactor(Policy())
CUTS: Final = (1, 4, 40)

each_text: Final = pytest.mark.parametrize("name", TEXTS)


def test_there_are_many() -> None:
    assert len(OBJECTS) + len(TEXTS) >= 400
    assert len(OBJECTS) == len(_LINES)


def streamed(text: str, size: int) -> tuple[str, bool]:
    """Return what is shown of arguments in pieces, and whether anything was noted."""
    stream = REDACTOR.argument_stream()
    deltas = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    end = stream.finish()
    noted = [*deltas, end.rest, end.arguments.text, *([end.arguments.json] if end.arguments.json else [])]
    return "".join(delta.value for delta in deltas) + end.rest.value, any(each.notices for each in noted)


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_stay(name: str) -> None:
    text = OBJECTS[name]
    for size in CUTS:
        assert streamed(text, size) == (text, False)
    tree = REDACTOR.json(json.loads(text), string_max_chars=8_000)
    assert (tree.value, tree.notices) == (json.loads(text), ())
    for written in (text, f"HTTP 200\n{text}", json.dumps(json.loads(text), indent=2)):
        cleaned = REDACTOR.text(written)
        assert (cleaned.value, cleaned.notices) == (written, ())


@each_text
def test_texts_stay(name: str) -> None:
    text = TEXTS[name]
    cleaned = REDACTOR.text(text)
    assert (cleaned.value, cleaned.notices) == (text, ())
    for size in CUTS:
        assert streamed(json.dumps({"text": text}), size) == (json.dumps({"text": text}), False)
        code = REDACTOR.code_stream()
        said = "".join(code.feed(text[at : at + size]).value for at in range(0, len(text), size)) + code.close().value
        assert said == text
