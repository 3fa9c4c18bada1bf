"""Edge cases of JSON (CONTRACT D31): parsing, encoding, and the text of errors."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from projector.contracts import codec
from tests.property.cost import alone

HIGH, LOW = "\ud83d", "\ude00"  # the halves of one character
DEEP = "[" * 100_000 + "]" * 100_000


def nested(levels: int, inner: object = 0) -> object:
    for _ in range(levels):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(b'{"a": [1, -2.5, true, null]}', {"a": [1, -2.5, True, None]}, id="json"),
        pytest.param('"text"', "text", id="text-as-str"),
        pytest.param("[NaN, Infinity, -Infinity]", [None, None, None], id="D31-nan-and-infinities-are-null"),
        pytest.param(rb'"\ud83d"', HIGH, id="D31-a-lone-surrogate-stays-for-scrub"),
        pytest.param(b'"caf\xff"', "caf\ufffd", id="malformed-utf-8"),
        pytest.param(b'{"a": "\xc3"}', {"a": "\ufffd"}, id="half-a-character"),
        pytest.param("[" + "9" * 5000 + ", 1]", ["9" * 5000, 1], id="D45-an-integer-too-long-to-parse-is-its-digits"),
        pytest.param(b"18446744073709551615", 2**64 - 1, id="the-largest-64-bit-integer"),
    ],
)
def test_loads(text: bytes | str, value: object) -> None:
    assert codec.loads(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param('{"a": 1}', {"a": 1}, id="json"),
        pytest.param(f"[{2**70}, {-(2**70)}]", [2**70, -(2**70)], id="D31-integers-of-any-size"),
        pytest.param("[-" + "9" * 5000 + "]", ["-" + "9" * 5000], id="D45-an-integer-too-long-to-parse-is-its-digits"),
        pytest.param(f'{{"a": "{2**70}"}}', {"a": str(2**70)}, id="digits-in-text"),
        pytest.param(r'"\ud83d"', HIGH, id="D31-a-surrogate-as-an-escape"),
        pytest.param(f'"{HIGH}"', HIGH, id="D31-a-surrogate-as-a-character"),
        pytest.param(f'["{HIGH}", {2**70}]', [HIGH, 2**70], id="both"),
        pytest.param(r'"\u00e9"', "é", id="a-plain-escape"),
    ],
)
def test_loads_exact(text: str, value: object) -> None:
    assert codec.loads_exact(text) == value


@pytest.mark.parametrize(
    ("load", "text", "error"),
    [
        pytest.param(codec.loads, b"{'secret'}", codec.CodecError, id="no-json"),
        pytest.param(codec.loads, b"", codec.CodecError, id="nothing"),
        pytest.param(codec.loads, DEEP, codec.TooDeepError, id="D31-too-deep"),
        pytest.param(codec.loads_exact, "secret", codec.CodecError, id="exact-no-json"),
        pytest.param(codec.loads_exact, "", codec.CodecError, id="exact-nothing"),
        pytest.param(codec.loads_exact, "1 2", codec.CodecError, id="exact-two-values"),
        pytest.param(codec.loads_exact, "NaN", codec.CodecError, id="exact-nan"),
        pytest.param(codec.loads_exact, f"[Infinity, {2**70}]", codec.CodecError, id="exact-infinity"),
        pytest.param(codec.loads_exact, rf'["\u{0:04x}", NaN]', codec.CodecError, id="exact-nan-beside-an-escape"),
        pytest.param(codec.loads_exact, rf'"\u{0:04x}" secret', codec.CodecError, id="exact-text-after-the-value"),
        pytest.param(codec.loads_exact, DEEP, codec.CodecError, id="exact-too-deep"),
        pytest.param(codec.loads_exact, f"[{2**70},{DEEP}]", codec.TooDeepError, id="exact-deep-with-long-digits"),
        pytest.param(codec.loads_exact, rf'["\ud83d",{DEEP}]', codec.CodecError, id="exact-deep-with-a-surrogate"),
        pytest.param(codec.dumps, object(), codec.CodecError, id="no-json-type"),
        pytest.param(codec.dumps, nested(255), codec.CodecError, id="D31-deeper-than-254-levels"),
        pytest.param(codec.dumps, nested(100_000, HIGH), codec.CodecError, id="D31-much-deeper-with-a-surrogate"),
    ],
)
def test_errors_are_values_of_one_kind_and_name_no_payload(
    load: Callable[[Any], object], text: object, error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        load(text)
    assert isinstance(caught.value, codec.CodecError)
    assert str(caught.value).startswith("expected ")
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({"a": ["é", 1.5, True, None]}, '{"a":["é",1.5,true,null]}', id="json"),
        pytest.param([2**64 - 1, -(2**63)], "[18446744073709551615,-9223372036854775808]", id="64-bit"),
        pytest.param(
            [2**64, -(2**63) - 1, True, 7],
            '["18446744073709551616","-9223372036854775809",true,7]',
            id="D31-integers-over-64-bit-are-strings",
        ),
        pytest.param([math.nan, math.inf, -math.inf], "[null,null,null]", id="D31-nan-and-infinities-are-null"),
        pytest.param([math.nan, 2**64], '[null,"18446744073709551616"]', id="D31-both"),
        pytest.param(["a" + HIGH, LOW], '["a\ufffd","\ufffd"]', id="D31-lone-surrogates"),
        pytest.param({HIGH: {"a": (HIGH + LOW, 2)}}, '{"\ufffd":{"a":["😀",2]}}', id="D31-keys-and-pairs"),
        pytest.param(nested(254), "[" * 254 + "0" + "]" * 254, id="254-levels"),
    ],
)
def test_dumps(value: object, text: str) -> None:
    assert codec.dumps(value) == text.encode()


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain", "plain"),
        ("é😀", "é😀"),
        (HIGH, "\ufffd"),
        (LOW + "a" + HIGH, "\ufffda\ufffd"),
        ("a" + HIGH + LOW, "a😀"),
        (HIGH + HIGH + LOW, "\ufffd😀"),
    ],
)
def test_scrub(text: str, clean: str) -> None:
    assert codec.scrub(text) == clean


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a lone surrogate", rb'["\ud83d"]'),
        ("NaN", b"[NaN]"),
        ("malformed UTF-8", b'["\xff"]'),
    ],
)
def test_only_strict_json_may_be_long(name: str, text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "LENIENT_MAX_BYTES", len(text))
    codec.loads(text)
    codec.loads(b'["a long text"]')
    with pytest.raises(codec.CodecError):
        codec.loads(text + b" ")
    assert name


@pytest.mark.parametrize("length", [0, 1_000, 131_072])
def test_kept_bytes_take_their_own_size(length: int) -> None:
    value = {"a": "b" * length}

    def kept_and_size() -> tuple[int, bytes]:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            kept = codec.to_keep(codec.dumps(value))
            return tracemalloc.get_traced_memory()[0] - before, kept
        finally:
            tracemalloc.stop()

    with alone():
        size, kept = min(kept_and_size() for _ in range(3))  # other threads only add
    assert kept == codec.dumps(value)
    assert size < len(kept) + 1_000


@pytest.mark.parametrize("piece_chars", [1, 3, 100])
@pytest.mark.parametrize(
    "value",
    [
        "",
        "abcdefgh",
        'é\u0001"\\😀' * 5,
        HIGH * 5,
        (HIGH + LOW) * 5,
        {"a": "x" * 9, "b": [1, None, "é" * 9, {"c" * 9: ["", "\n" * 9]}], "d": ("x" * 9, 2.5)},
    ],
)
def test_the_size_of_an_encoded_value(value: object, piece_chars: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_PIECE_CHARS", piece_chars)
    assert codec.size(value) == len(codec.dumps(value))


@pytest.mark.parametrize(
    ("value", "is_long"),
    [
        ("a" * 4, False),
        ("a" * 5, True),
        ({"a": ["aa"]}, False),
        ({"a": ["aa", ("aa", "a")]}, True),
        ([None, 1.5, True, {}], True),
    ],
)
def test_a_tree_with_much_text_is_long(value: object, monkeypatch: pytest.MonkeyPatch, *, is_long: bool) -> None:
    monkeypatch.setattr(codec, "_PIECE_CHARS", 4)
    assert codec.is_long(value) is is_long
