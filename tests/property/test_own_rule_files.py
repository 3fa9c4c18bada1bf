"""A rule file of the host that is accepted never breaks a stream, and its output does not depend on the cuts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projector import build_pipeline
from projector.contracts import codec
from projector.redaction import patterns
from projector.redaction.policy import Policy, PolicyError
from projector.redaction.redactor import Redactor
from projector.redaction.rules import shipped
from tests.property.soundness import examples

Entry: TypeAlias = dict[str, Any]

OFF: Final = [row.name for row in shipped().formats]
"""The shipped formats are off, so that a policy is compiled in milliseconds."""
LITERALS: Final = [*"acmeKD-_:./= #é~&", r"\.", r"\-", r"\[", r"\\", r"\|", r"\w"]
CLASSES: Final = [
    *("[a-z]", "[0-9]", "[A-Za-z0-9]", r'[^"\r\n]', r"[\s\S]", "[-_a-z]", "[]x]", "[^]x]", r"[\]x]", "[.|]", "[ ]"),
    *("[a]", r"[\d]", r"[\w-]", "[é-ü]"),
]
COUNTS: Final = ["", "", "", "?", "{2}", "{3,6}", "{0,3}", "{1}", "{12}", "{5,2}", "{0}"]
PIECES: Final = st.tuples(st.sampled_from(LITERALS) | st.sampled_from(CLASSES), st.sampled_from(COUNTS)).map("".join)
WAYS: Final = st.lists(PIECES, min_size=1, max_size=4).map("".join)
PATTERNS: Final = st.lists(WAYS, min_size=1, max_size=3).map("|".join)
ANCHORS: Final = st.sampled_from(["acme_live_", "acme:", ":key_", "WORD=", "acm|xyzq"]) | WAYS.map("acm".__add__)
ABOUT: Final = {"name": "own-x", "about": "a", "source": "s", "matches": ["x"], "harmless": ["y"]}
FORMATS: Final = st.fixed_dictionaries(
    {"anchor": ANCHORS, "pattern": PATTERNS},
    optional={
        "tail": st.sampled_from([*CLASSES, "[a-z]{2}"]),
        "open_chars": st.sampled_from([1, 2, 5, 40, "never"]),
        "pattern_at_end": PATTERNS,
        "keep_anchor": st.just(True),
        "ignore_case": st.just(True),
        "inside_words": st.just(True),
    },
).map(lambda entry: {"table": "format", **ABOUT, **entry})
TEXT_CLASSES: Final = st.fixed_dictionaries(
    {"begins": PATTERNS},
    optional={
        "run": st.sampled_from([*CLASSES, "[0-9]{8}"]),
        "least": st.integers(1, 12),
        "most": st.integers(1, 40),
        "before": st.sampled_from([*CLASSES, *LITERALS]),
        "sure": st.sampled_from(CLASSES),
    },
).map(lambda entry: {"table": "class", **ABOUT, **entry})
CHARS: Final = "abcxyz019KD-_.:/=é] |\\[#~&"


@st.composite
def texts_of(draw: st.DrawFn, entry: Entry) -> str:
    """Return a text with what an entry finds, or nearly."""
    fields = ("anchor", "pattern") if entry["table"] == "format" else ("begins", "run")
    written = "".join(draw(texts_in(entry[field])) for field in fields if field in entry)
    behind = draw(st.text(alphabet=CHARS + "\n,", max_size=12))
    return draw(st.sampled_from(["", "key ", "a", "x: "])) + written + behind


@st.composite
def texts_in(draw: st.DrawFn, pattern: str) -> str:
    """Return a text in a pattern, as far as it consists of some characters."""
    text = ""
    for piece in patterns.pieces(draw(st.sampled_from(patterns.alternatives(pattern)))):
        chars = re.findall(piece.atom, CHARS) if piece.atom != patterns.WORD else ["token"]
        for _ in range(draw(st.integers(piece.least, min(piece.most, 30)))):
            text += draw(st.sampled_from(chars)) if chars else ""
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rules")


def redactor_for(entry: Entry, folder: Path) -> Redactor | None:
    """Return the redactor with a rule file of one entry, compiled; None if the file is refused."""
    path = folder / "ours.toml"
    lines = [f"{name} = {codec.dumps(value).decode()}" for name, value in entry.items() if name != "table"]
    path.write_text("\n".join([f"[[{entry['table']}]]", *lines]), encoding="utf-8")
    text = {"own-x": "mask"} if entry["table"] == "class" else {}
    try:
        policy = Policy.load({"rules": [path.name], "formats_off": OFF, "text": text}, folder)
    except PolicyError:
        return None
    redactor = Redactor(policy)
    redactor.compile()
    return redactor


def shown(redactor: Redactor, parts: list[str]) -> tuple[str, str]:
    """Return the text of a stream, and the kind of its last event."""
    pipeline = build_pipeline(
        provider="openai_responses", dialect="public_sse_v1", redactor=redactor, output_format="ndjson"
    )
    at = {"item_id": "m", "output_index": 0, "content_index": 0}
    response = {"id": "r", "status": "in_progress"}
    events: list[Entry] = [{"type": "response.created", "response": response}]
    events += [{"type": "response.output_text.delta", **at, "delta": part} for part in parts]
    events += [{"type": "response.completed", "response": {**response, "status": "completed"}}]
    out = b"".join(pipeline.feed(b"data: " + codec.dumps(event) + b"\n\n") for event in events) + pipeline.close()
    lines = [codec.loads(line) for line in out.splitlines()]
    return "".join(line["delta"] for line in lines if line["kind"] == "message.delta"), str(lines[-1]["kind"])


@given(data=st.data())
@examples(1_000)
def test_an_accepted_rule_breaks_no_stream_and_no_cut_shows_more(data: st.DataObject, folder: Path) -> None:
    entry = data.draw(FORMATS | TEXT_CLASSES)
    redactor = redactor_for(entry, folder)
    if redactor is None:  # about half of them
        return
    text = data.draw(texts_of(entry))
    cut = data.draw(st.integers(0, len(text)))
    whole = shown(redactor, [text])
    assert whole[1] == "final"
    assert shown(redactor, [*text]) == whole
    assert shown(redactor, [text[:cut], text[cut:]]) == whole


@pytest.mark.parametrize("off", [OFF, [name for name in OFF if name != "github-token"]], ids=["all", "all but one"])
def test_the_shipped_formats_can_be_off(off: list[str]) -> None:
    redactor = Redactor(Policy.load({"formats_off": off}))
    redactor.compile()
    token = "ghp" + "_" + "a1B2c3D4" * 5
    assert shown(redactor, [f"my {token[:9]}", token[9:]]) == (f"my {token if off == OFF else '<redacted>'}", "final")
