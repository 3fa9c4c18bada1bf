"""Encode and decode JSON, including the edge cases of CONTRACT D31: the only module that calls orjson.

orjson is strict and fast; text that it rejects is parsed again by the standard library, which accepts lone surrogates,
NaN and integers of any size. No error contains a payload value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from projector.contracts.limits import LENIENT_MAX_BYTES

HIGH: Final = chr(0xD800)
"""The first of the high surrogates, which end before `LOW`."""
LOW: Final = chr(0xDC00)
"""The first of the low surrogates, which end before `AFTER_LOW`."""
AFTER_LOW: Final = chr(0xE000)
Fragment: Final = orjson.Fragment
"""Bytes that `dumps` writes as they are, in place of a value."""
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
_PIECE_CHARS: Final = 2**18
"""Characters that are encoded at once: a control character takes six bytes, so this takes two milliseconds at most."""
_ARRAYS: Final = (list, tuple)
_INT64: Final = range(-(2**63), 2**64)  # what orjson writes: signed or unsigned 64 bits


class CodecError(ValueError):
    """The text is not JSON; the message holds no payload."""

    def __init__(self, message: str, place: tuple[int, int] | None = None) -> None:
        super().__init__(message)
        self.place = place
        """Line and column of the first error, from 1; None if it is not known."""


class TooDeepError(CodecError):
    """The text is nested too deeply for any parser."""


def loads(data: bytes | str, *, is_strict: bool = False) -> Any:
    """Parse one JSON text of a provider; raise `CodecError` if it is not JSON or nested too deeply.

    NaN and infinities become None, integers too long to parse become the text of their digits, lone surrogates stay
    (see `scrub`), malformed UTF-8 becomes U+FFFD: up to `LENIENT_MAX_BYTES`, because parsing such text holds the
    interpreter three times as long. In a strict text, such as that of a client, NaN, infinities and malformed UTF-8
    are errors.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if len(data) > LENIENT_MAX_BYTES:
            place = error.lineno, error.colno
            raise CodecError("expected strict JSON in a text of this size", place) from None
        try:
            text = data if isinstance(data, str) else data.decode("utf-8", "strict" if is_strict else "replace")
        except UnicodeDecodeError as malformed:
            before = malformed.object[: malformed.start]
            place = before.count(b"\n") + 1, malformed.start - before.rfind(b"\n")
            raise CodecError("expected UTF-8", place) from None
        return _loads_slow(text, _refuse_constant if is_strict else lambda _name: None)


def loads_exact(text: str) -> Any:
    """Parse one JSON text of a tool strictly. Integers stay exact, as text if they are too long to parse.

    Numbers outside the range of a double become None.

    orjson silently turns integers over 64 bits into floats; only text with a run of 19 digits can contain one.

    Raises:
        CodecError: the text is not JSON (NaN and infinities are not JSON), or too deep.
    """
    if _LONG_DIGITS.search(text) is None:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass  # lone surrogates and numbers beyond a double are valid JSON
    return _loads_slow(text, _refuse_constant, _finite)


_LONG_DIGITS: Final = re.compile("[0-9][0-9]{18}")  # begins with a class, for which a search is quick


def dumps(value: object) -> bytes:
    """Encode one value as JSON in UTF-8; raise `CodecError` for another type or more than 254 levels.

    Lone surrogates become U+FFFD, integers over 64 bits strings, NaN and infinities null.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        return orjson.dumps(_writable(value))
    except (TypeError, RecursionError):
        raise CodecError("expected a value of JSON types, of at most 254 levels") from None


def contents(texts: Sequence[str]) -> list[bytes]:
    """Encode each text as the content of a JSON string, without quotes."""
    parts = dumps(_UNIT.join(texts))[1:-1].split(_UNIT_ENCODED)
    if len(parts) == len(texts):  # otherwise a text contains the separator, or its escape
        return parts
    return [dumps(text)[1:-1] for text in texts]


_UNIT: Final = "\x1f"
_UNIT_ENCODED: Final = b"\\u001f"


def to_keep(data: bytes) -> bytes:
    """Return a copy of what `dumps` returned: bytes of orjson 3.13 have up to 15 times their size behind them."""
    return b"%b" % data  # half the time of `bytes(memoryview(data))`


def is_long(value: object) -> bool:
    """Return whether a tree has so many characters and values that encoding it at once holds the interpreter long."""
    room = _PIECE_CHARS
    rest = [value]
    for one in rest:
        room -= len(one) if isinstance(one, str) else 1
        if isinstance(one, dict):
            rest += one.values()
        elif isinstance(one, _ARRAYS):
            rest += one
        if room < 0:
            return True
    return False


def size(value: object) -> int:
    """Return the number of bytes of the JSON of a value, which may have texts of megabytes.

    These are encoded in pieces, and not joined: anything else would hold the interpreter too long.
    """
    long: list[str] = []
    rest = len(dumps(_without_long(value, long)))
    pieces = (text[at : at + _PIECE_CHARS] for text in long for at in range(0, len(text), _PIECE_CHARS))
    return rest + sum(len(dumps(piece)) - 2 for piece in pieces)


def _without_long(value: object, long: list[str]) -> object:
    """Return a copy of a tree with empty texts in place of long ones, which are added to a list."""
    if isinstance(value, str):
        if len(value) <= _PIECE_CHARS:
            return value
        long.append(scrub(value))
        return ""
    if isinstance(value, dict):
        return {key: _without_long(member, long) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_without_long(entry, long) for entry in value]
    return value


def dumps_exact(value: object) -> bytes:
    """Encode one value as it was parsed, with lone surrogates and integers of any size; raise as `dumps` does."""
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return dumps(value)  # an infinity: fall back to the lossy form


def scrub(text: str) -> str:
    """Return the text with lone surrogates replaced by U+FFFD; a split pair becomes its character."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _loads_slow(
    text: str, parse_constant: Callable[[str], Any], parse_float: Callable[[str], Any] | None = None
) -> Any:
    try:
        return json.loads(text, parse_constant=parse_constant, parse_float=parse_float, parse_int=_integer)
    except RecursionError:
        raise TooDeepError("expected JSON that is nested less deeply") from None
    except json.JSONDecodeError as error:
        raise CodecError("expected JSON text", (error.lineno, error.colno)) from None
    except ValueError:
        raise CodecError("expected JSON text") from None


def _integer(digits: str) -> int | str:
    """Return an integer, or its digits if Python refuses to convert so many (CONTRACT D31, D45)."""
    try:
        return int(digits)
    except ValueError:
        return digits


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _refuse_constant(_name: str) -> None:
    raise ValueError


def _writable(value: object) -> object:
    """Return a copy that orjson can encode."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, int):
        return value if value in _INT64 else str(value)
    if isinstance(value, dict):
        return {scrub(str(key)): _writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    return value
