"""What is shown of a value under a sensitive key: states, empty containers and descriptions, at every cut."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import pytest

from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

REDACTOR: Final = Redactor(Policy())

DESCRIBED: Final[Mapping[str, tuple[str, str]]] = {
    "a default": (
        '{"password":{"type":"string","default":"hunter2","minLength":8}}',
        '{"password":{"type":"string","default":"<redacted>","minLength":8}}',
    ),
    "an example in a property": (
        '{"properties":{"token":{"title":"Token","type":"string","examples":["a7","b8"]}},"a":["b"]}',
        '{"properties":{"token":{"title":"Token","type":"string","examples":"<redacted>"}},"a":["b"]}',
    ),
    "a value": ('{"properties":{"password":{"value":"hunter2"}}}', '{"properties":{"password":"<redacted>"}}'),
    "a value behind a type": (
        '{"password":{"type":"string","value":{"a":["hunter2"]}},"user":"me"}',
        '{"password":{"type":"string","value":"<redacted>"},"user":"me"}',
    ),
    "another type": ('{"password":{"type":"hunter2"}}', '{"password":"<redacted>"}'),
    "a text first": ('{"password":{"description":"hunter2"}}', '{"password":"<redacted>"}'),
    "a property of a schema": (
        '{"auth":{"type":"object","properties":{"user":{"type":"string"},"pw":"x9","other":"y8"}}}',
        '{"auth":{"type":"object","properties":{"user":{"type":"string"},"pw":"<redacted>","other":"<redacted>"}}}',
    ),
    "behind a description": (
        '{"token":{"type":"null"},"password":"hunter2","name":"me"}',
        '{"token":{"type":"null"},"password":"<redacted>","name":"me"}',
    ),
    "a known key in a description": (
        '{"size":1,"a":{"size":2},"token":{"type":"string","size":"hunter2"}}',
        '{"size":1,"a":{"size":2},"token":{"type":"string","size":"<redacted>"}}',
    ),
    "a path with a value": ('{"/db/password":"hunter2"}', '{"/db/password":"<redacted>"}'),
    "a path with an object": ('{"/db/password":{"a":"hunter2"}}', '{"/db/password":"<redacted>"}'),
    "a state": (
        '{"token":"expired","password":"OK","secret":"okay"}',
        '{"token":"expired","password":"OK","secret":"<redacted>"}',
    ),
    "containers": (
        '{"tokens":[ ],"secrets":{\n},"cookies":[[]]}',
        '{"tokens":[ ],"secrets":{\n},"cookies":"<redacted>"}',
    ),
    "counts": (
        '{"pass":312,"db_pass":3,"passes":1234,"pin":7}',
        '{"pass":312,"db_pass":"<redacted>","passes":1234,"pin":"<redacted>"}',
    ),
    "a fraction": ('{"pass":3.5}', '{"pass":"<redacted>"}'),
    "a known format": (
        '{"token":{"type":"string","description":"as ' + "ghp" + "_" + "a1B2c3D4" * 5 + '"}}',
        '{"token":{"type":"string","description":"as <redacted>"}}',
    ),
}


@pytest.mark.parametrize(("text", "shown"), DESCRIBED.values(), ids=DESCRIBED)
def test_a_description_shows_its_keywords_only(text: str, shown: str) -> None:
    for at in range(len(text)):
        stream = REDACTOR.argument_stream()
        assert stream.feed(text[:at]).value + stream.feed(text[at:]).value + stream.finish().rest.value == shown
    assert REDACTOR.json(json.loads(text), string_max_chars=1_000).value == json.loads(shown)
    written = REDACTOR.text(f"HTTP 200\n{text}").value
    assert not any(secret in written for secret in ("hunter2", "x9", "a7", "ghp"))
