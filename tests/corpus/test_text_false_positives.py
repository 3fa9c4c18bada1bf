"""How often text is withheld that is harmless: recorded answers, and prose with numbers. The rates are printed."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from projector.redaction.clean import Cleaned, CleanText
from projector.redaction.policy import Policy
from projector.redaction.redactor import Redactor
from tests.corpus.recorded import CORPUS
from tests.rule_samples import CLASSES

NAMES: Final = ("credentials", *(row.name for row in CLASSES))
REDACTORS: Final = {name: Redactor(Policy.load({"text": {name: "mask"}})) for name in NAMES}
MOST: Final = {"credentials": 1 / 1_000, "payment_card": 1 / 1_000, "iban": 1 / 1_000, "passport_mrz": 1 / 1_000}
"""Greatest rate of answers from which something is withheld; of the other classes the rate is only printed."""


def _cleaned(redactor: Redactor, text: str) -> list[Cleaned[CleanText]]:
    stream = redactor.message_stream()
    return [stream.feed(text), stream.close()]


def _answers() -> Iterator[str]:
    for path in sorted(CORPUS.glob("*/*.ndjson")):
        texts: dict[object, list[str]] = {}
        for line in path.read_bytes().splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                for key, delta in _deltas(event):
                    texts.setdefault(key, []).append(delta)
        yield from ("".join(deltas) for deltas in texts.values())


def _deltas(event: dict[str, object]) -> Iterator[tuple[object, str]]:
    delta = event.get("delta")
    if event.get("type") in {"response.output_text.delta", "response.reasoning_text.delta"} and isinstance(delta, str):
        yield (event.get("item_id"), event.get("type")), delta
    if isinstance(delta, dict) and isinstance(delta.get("text"), str):
        yield event.get("index"), delta["text"]
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        part = choice.get("delta") if isinstance(choice, dict) else None
        if isinstance(part, dict):
            for name in ("content", "reasoning_content", "reasoning"):
                if isinstance(part.get(name), str):
                    yield name, part[name]


_PROSE: Final = (
    "The meeting is on {date} at {time}; bring order {order} and invoice INV-{order}.",
    "Version {a}.{b}.{c} replaces {a}.{b}.{d} since {date}.",
    "Commit {hash} changed {order} lines, and {uuid} is its trace.",
    "Between {a}00 and {b}000 units, pages {a}-{b}, ISBN 978-3-16-14841{a}-0.",
    "It took {a}.{order} seconds; pi is 3.141592653589793 and e 2.718281828459045.",
    "Call extension {order} between {a}:00 and {b}:30, room {a}-{b}{c}.",
    "Coordinates {a}.{order}, -{b}.{order}; budget 1{order},000 USD, {a},{order},000 in all.",
    "The tuple ({a}, {b}, {c}) at index [{d}] and the hash sha256:{hash}{hash}.",
    "Ticket #{order} from {date}, timestamp 17{order}{order}, port 80{b}.",
    "Series {a} {b} {c} {d} {a} {b} {c} {d} {a} {b} {c} {d} and ratio {a}:{b}:{c}.",
    "a::b, std::vector<int>, x @ y, @name, user@host and left-pad@1.{b}.{c}.",
    "Tel Aviv has {order} streets; the range is {order}-{order}, the model X{order}-{a}.",
)


def _prose(count: int) -> Iterator[str]:
    rng = Random(26)
    for at in range(count):
        fields = {name: rng.randrange(10) for name in "abcd"}
        yield _PROSE[at % len(_PROSE)].format(
            **fields,
            date=f"{rng.randrange(1990, 2030)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
            time=f"{rng.randrange(24):02}:{rng.randrange(60):02}",
            order=rng.randrange(10_000, 1_000_000),
            hash=f"{rng.getrandbits(160):040x}",
            uuid=f"{rng.getrandbits(32):08x}-{rng.getrandbits(16):04x}-4{rng.getrandbits(12):03x}-a1b2-{rng.getrandbits(48):012x}",
        )


def _rates(texts: list[str]) -> dict[str, float]:
    found = Counter(
        name
        for name, redactor in REDACTORS.items()
        for text in texts
        if any(c.notices for c in _cleaned(redactor, text))
    )
    return {name: found[name] / len(texts) for name in NAMES}


def _tell(capsys: pytest.CaptureFixture[str], about: str, rates: dict[str, float]) -> None:
    with capsys.disabled():
        listed = ", ".join(f"{name} {rate:.2%}" for name, rate in rates.items())
        sys.stdout.write(f"\n{about}: {listed}\n")


@pytest.mark.usefixtures("corpus")
def test_recorded_answers(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [text for text in _answers() if text]
    rates = _rates(texts)
    _tell(capsys, f"{len(texts)} recorded answers", rates)
    assert len(texts) > 600
    assert {name: rate for name, rate in rates.items() if rate > MOST.get(name, 1)} == {}


def test_prose_with_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    rates = _rates([*_prose(2_400)])
    _tell(capsys, "prose with numbers", rates)
    assert {name: rate for name, rate in rates.items() if rate > 1 / 1_000} == {}
