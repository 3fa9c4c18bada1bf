"""Nothing harmless is withheld: objects and texts as arguments, as tool output and as code, whole and in pieces."""

from __future__ import annotations

import json
from collections.abc import Mapping
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

WITHHELD: Final[Mapping[str, str]] = {
    '{"tokens":[]}': "an empty container under a sensitive key",
    '{"tokens":{}}': "an empty container under a sensitive key",
    '{"secrets":[],"variables":[]}': "an empty container under a sensitive key",
    '{"credentials":"include"}': "a text under a sensitive key",
    '{"mode":"cors","credentials":"same-origin"}': "a text under a sensitive key",
    '{"credentials":"omit"}': "a text under a sensitive key",
    "javascript: fetch": "a text under a sensitive key",
    '{"pass":3,"fail":0,"skip":1}': "a value under a sensitive key",
    '{"flags":{"new_password_form":"on","secret_santa":"off"}}': "a value under a sensitive key",
    '{"name":"left-pad","version":"1.3.0","dependencies":{"cookie': "a value under a sensitive key",
    '{"status":"ok","checks":{"secrets":"ok","credentials":"ok"}}': "a value under a sensitive key",
    '{"type":"object","properties":{"password":{"type":"string","': "a container under a sensitive key",
    '{"type":"object","properties":{"token":{"type":"string","des': "a container under a sensitive key",
    '{"properties":{"api_key":{"type":"string","format":"password': "a container under a sensitive key",
    '{"properties":{"secret":{"type":["string","null"]}},"additio': "a container under a sensitive key",
    '{"components":{"securitySchemes":{"ApiKeyAuth":{"type":"apiK': "a container under a sensitive key",
    '{"security":[{"ApiKeyAuth":[]},{"OAuth2":["read","write"]}]}': "a container under a sensitive key",
    '{"flows":{"authorizationCode":{"authorizationUrl":"https://x': "a container under a sensitive key",
    '{"volumes":[{"name":"creds","secret":{"secretName":"app","de': "a container under a sensitive key",
    '{"paths":{"/token":{"post":{"summary":"Create a token","resp': "a container under a sensitive key",
    '{"paths":{"/users/{id}/password":{"put":{"operationId":"setP': "a container under a sensitive key",
    '{"args":["--token-count","--no-cookies"]}': "an option and its value in an array",
    "log: placeholders": "a template behind another one",
    "log: help": "a name in capital letters, and prose",
    "addresses: parameters": "a parameter of a list",
}
"""First 60 characters of an object, or name of a text -> why a part of it is withheld although it is harmless."""

each_text: Final = pytest.mark.parametrize("name", [name for name in TEXTS if name not in WITHHELD])


def test_there_are_many() -> None:
    assert len(OBJECTS) + len(TEXTS) >= 400
    assert len(OBJECTS) == len(_LINES)


def test_what_is_withheld_is_of_the_corpus() -> None:
    assert {*WITHHELD} <= {*OBJECTS, *TEXTS}


@pytest.mark.parametrize("name", WITHHELD)
def test_what_is_no_longer_withheld_has_no_row(name: str) -> None:
    text = TEXTS.get(name) or OBJECTS[name]
    whole = json.dumps({"text": text}) if name in TEXTS else text
    assert streamed(whole, 4)[1] or any(REDACTOR.text(written).notices for written in (text, f"HTTP 200\n{text}"))


def streamed(text: str, size: int) -> tuple[str, bool]:
    """Return what is shown of arguments in pieces, and whether anything was noted."""
    stream = REDACTOR.argument_stream()
    deltas = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    end = stream.finish()
    noted = [*deltas, end.rest, end.arguments.text, *([end.arguments.json] if end.arguments.json else [])]
    return "".join(delta.value for delta in deltas) + end.rest.value, any(each.notices for each in noted)


@pytest.mark.parametrize("name", [name for name in OBJECTS if name not in WITHHELD])
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
