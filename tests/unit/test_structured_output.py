"""A structured output is searched by the rules for trees, in its text and parsed (CONTRACT D40)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from projector.core.pipeline import build_pipeline
from projector.dialects import DIALECTS
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor

Event: TypeAlias = dict[str, Any]

CREDENTIAL: Final = "ghp" + "_" + "a1B2c3D4e5F6" * 3
REGISTERED: Final = {"registered": [{"value": "Quiet-Heron-7741"}, {"value": "Größe-Möwe"}]}
REDACTOR: Final = Redactor(Policy.load(REGISTERED))


def delta(text: str) -> Event:
    return {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "m", "delta": text}


def response(name: str, *, is_structured: bool = True) -> Event:
    text = {"text": {"format": {"type": "json_schema"}}} if is_structured else {}
    return {"type": f"response.{name}", "response": {"id": "r", "status": name, **text}}


def output(dialect: str, *events: Event) -> bytes:
    pipeline = build_pipeline(provider="openai_responses", dialect=dialect, redactor=REDACTOR)
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    return pipeline.feed(data) + pipeline.close()


OUTPUTS: Final[dict[str, tuple[str, object, list[str]]]] = {
    "harmless": ('{"tokens":5,"a":["b"]}', {"tokens": 5, "a": ["b"]}, []),
    "escapes": (r'{"v":"\u0051uiet-Heron-7741"}', {"v": "<redacted>"}, [".v"]),
    "not ASCII": (r'{"v":"Gr\u00f6\u00dfe-M\u00f6we"}', {"v": "<redacted>"}, [".v"]),
    "a sensitive key": ('{"a":{"password":"hunter2hunter2"}}', {"a": {"password": "<redacted>"}}, [".a.password"]),
    "a sensitive key, written with escapes": (
        r'{"pass\u0077ord":["x1","x2"]}',
        {"password": "<redacted>"},
        [".password"],
    ),
    "a credential": (f'[{{"a":"x {CREDENTIAL}"}}]', [{"a": "x <redacted>"}], ["[0].a"]),
    "a credential, written with escapes": (
        f'{{"a":"{CREDENTIAL}"}}'.replace("_", r"\u005f"),
        {"a": "<redacted>"},
        [".a"],
    ),
}


@pytest.mark.parametrize(("text", "said", "noticed"), OUTPUTS.values(), ids=OUTPUTS.keys())
@pytest.mark.parametrize("is_late", [False, True], ids=["format at the beginning", "format at the end"])
def test_the_tree_has_no_secret(
    open_stream: Callable[..., Any], text: str, said: object, noticed: list[str], *, is_late: bool
) -> None:
    stream = open_stream(policy=REGISTERED)
    stream.feed(response("created", is_structured=not is_late), *map(delta, text), response("completed"))
    final = stream.sealed[-1]
    assert final["final"]["structured_output"] == said
    of_tree = [row["path"] for row in final.get("notices", ()) if "structured" in row["path"]]
    assert of_tree == [f"final.structured_output{path}" for path in noticed]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", [name for name in OUTPUTS if name != "harmless"])
def test_a_client_of_any_dialect_parses_no_secret(dialect: str, name: str) -> None:
    text, _, _ = OUTPUTS[name]
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    written = output(dialect, response("created"), *map(delta, pieces), response("completed"))
    secrets = ("Quiet-Heron", r"\u0051uiet", "Möwe", r"M\u00f6we", "hunter2", "x1", CREDENTIAL, r"ghp\u005f")
    shown = written.decode().replace("\\\\", "\\")
    assert [secret for secret in secrets if secret in shown] == []
