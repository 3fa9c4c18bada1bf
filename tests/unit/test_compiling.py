"""Patterns are compiled before the first stream, and mean the same in each Python 3.11.

A stream that compiles holds the event loop for up to 0.3 s.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import projector
from projector import build_pipeline
from projector.redaction.policy import CREDENTIALS, Policy
from projector.redaction.redactor import Redactor
from projector.redaction.rules import shipped
from tests.rule_samples import CONTEXTS

EXAMPLES = Path(__file__).parent.parent.parent / "examples_ndjson"

SHORT_CHARS = 200
"""Length of a pattern that is compiled in a tenth of a millisecond."""


@pytest.mark.parametrize("provider", ["openai_responses", "openai_chat"])
def test_no_stream_compiles_a_long_pattern(monkeypatch: pytest.MonkeyPatch, provider: str) -> None:
    streams = [path.read_bytes() for path in sorted((EXAMPLES / provider).glob("*.ndjson"))]
    assert streams
    play(streams, provider, Redactor(Policy(text="off")))  # imports all modules, which have patterns of their own
    classes = {CREDENTIALS, *(row.name for row in shipped().classes)}
    redactor = Redactor(Policy(sensitive_keys_add=("nosuchwordelsewhere",), text=dict.fromkeys(classes, "mask")))
    redactor.compile()
    compiled = recorded(monkeypatch)
    play(streams, provider, redactor)
    assert [one.pattern for one in compiled if len(one.pattern) > SHORT_CHARS] == []


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[re.Pattern[Any]]:
    """Return a list of the patterns that are compiled from now on."""
    compiled: list[re.Pattern[Any]] = []
    compile_pattern = re._compiler.compile  # type: ignore[attr-defined] # `re.compile` returns what it has cached

    def record(pattern: str, flags: int = 0) -> object:
        compiled.append(compile_pattern(pattern, flags))
        return compiled[-1]

    monkeypatch.setattr("re._compiler.compile", record)
    re.purge()
    return compiled


def play(streams: list[bytes], provider: str, redactor: Redactor) -> None:
    """Read whole streams."""
    for stream in streams:
        pipeline = build_pipeline(
            provider=provider, dialect="public_sse_v1", redactor=redactor, input_format="ndjson", takes_host_events=True
        )
        pipeline.feed(stream)
        pipeline.close()


SYNTAX: Any = importlib.import_module("re._constants")
SINGLE = (SYNTAX.LITERAL, SYNTAX.NOT_LITERAL, SYNTAX.IN, SYNTAX.ANY)
"""Steps that match one character, or fail before they have read any."""


def test_a_possessive_group_matches_in_each_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """`(?:ab?c)*+` matches all of "aca" before Python 3.11.5, which keeps what a failed round has read.

    With an empty way at its end, as in `(?:ab?c|)*+`, no round fails.
    """
    for module in pkgutil.walk_packages(projector.__path__, "projector."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    compiled = recorded(monkeypatch)
    redactor = Redactor(Policy(text=dict.fromkeys((row.name for row in shipped().classes), "mask")))
    redactor.compile()
    for text in ("<b>password=kX9mQ2vT7w</b>", *(text for row in CONTEXTS for text in row.matches)):
        redactor.text(text)
    redactor.provider_message("organization pier")
    assert len(compiled) > 50
    patterns = compiled + [one for one in gc.get_objects() if type(one) is re.Pattern]
    groups = [(one.pattern, group) for one in patterns for group in possessive_groups(parsed(one))]
    assert len(groups) > 1_000
    assert [pattern for pattern, group in groups if may_fail(group)] == []


@pytest.mark.parametrize(
    ("pattern", "fails"),
    [
        ("[ab]*+", False),
        ("(?:a|[^b]|.)*+", False),
        ("(?:ab?c|)*+", False),
        ("(?:[ab]++|c(?!d)|)*+x", False),
        ("(?:ab?c)*+", True),
        ("(?:a(?=b)|c)?+", True),
        ("((?:a|b(?!c)){1,3}+)", True),
        ("(?=(?:ab)++)", True),
        ("(?:(?:ab)*+|)*+", True),
        ("(?>(?:ab)++)", True),
    ],
)
def test_which_possessive_group_may_fail(pattern: str, *, fails: bool) -> None:
    assert any(map(may_fail, possessive_groups(parsed(re.compile(pattern))))) is fails


def parsed(pattern: re.Pattern[Any]) -> Any:
    parser: Any = importlib.import_module("re._parser")
    return parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)


def possessive_groups(steps: Any) -> Any:
    """Yield what a pattern repeats without going back: a tree of the parser, at any depth."""
    for kind, value in steps:
        if kind is SYNTAX.POSSESSIVE_REPEAT:
            yield value[2]
        parts = value if isinstance(value, tuple) else (value,)
        for part in parts:
            for inner in part if isinstance(part, list) else (part,):
                if type(inner).__name__ == "SubPattern":
                    yield from possessive_groups(inner)


def may_fail(group: Any) -> bool:
    """Return whether a round can fail after it has read something."""
    [(kind, value), *others] = group
    if others:
        return True
    if kind is SYNTAX.BRANCH:
        ways = value[1]
        return len(ways[-1]) > 0 and any(len(way) != 1 or way[0][0] not in SINGLE for way in ways)
    return kind not in SINGLE
