"""Combine, split and cut clean values. The results contain nothing else, so they are clean as well.

`shrink` truncates to a budget of encoded bytes (CONTRACT D27). Long strings are truncated first, all to the greatest
common length that fits. If that is not enough, long containers are truncated as well, all to the greatest common number
of entries that fits. Short strings and small containers are therefore kept, wherever they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import Final, TypeAlias

from projector.contracts import codec
from projector.contracts.limits import CONTAINER_MAX_ENTRIES
from projector.redaction.clean import (
    TRUNCATED_HERE,
    Cleaned,
    CleanJson,
    CleanText,
    Notice,
    bounded,
    cut_text,
    notice,
    render,
)

EMPTY: Final = CleanText("")
NOTHING: Final[Cleaned[CleanText]] = Cleaned(EMPTY)

Part: TypeAlias = Cleaned[CleanText] | Cleaned[CleanJson]


def own_words(text: str) -> CleanText:
    """Return a text of this project as clean text: a code or message of a fault, a status or type, a sealed value.

    `tests/contract/test_clean_types.py` lists what it may be called with.
    """
    return CleanText(text)


def joined(*parts: Cleaned[CleanText]) -> Cleaned[CleanText]:
    """Join clean texts into one, with all their notices. A single one is not copied: it may have megabytes."""
    return _between("", [part for part in parts if part.value or part.notices])


def paragraphs(parts: Iterable[Cleaned[CleanText]]) -> Cleaned[CleanText]:
    """Join the parts into one text with a blank line between them."""
    return _between("\n\n", list(parts))


def _between(separator: str, parts: Sequence[Cleaned[CleanText]]) -> Cleaned[CleanText]:
    if not parts:
        return NOTHING
    if len(parts) == 1 and not parts[0].notices:
        return parts[0]
    text = separator.join([part.value for part in parts])
    return Cleaned(CleanText(text), bounded(each for part in parts for each in part.notices))


def split(text: CleanText, max_chars: int) -> list[CleanText]:
    """Split the text into pieces of at most `max_chars` code points."""
    return [CleanText(text[start : start + max_chars]) for start in range(0, len(text), max_chars)]


def cut(text: Cleaned[CleanText], max_chars: int) -> Cleaned[CleanText]:
    """Truncate to `max_chars` code points, without a partial mark at the end; add a notice if the text was longer."""
    if len(text.value) <= max_chars:
        return text
    return Cleaned(CleanText(cut_text(text.value, max_chars)), bounded(text.notices + TRUNCATED_HERE))


def listed(parts: Sequence[Part], max_entries: int) -> Cleaned[CleanJson]:
    """Return a list of the values; if it is too long it is truncated, with a notice."""
    notices = [n._replace(path=f"[{at}]{n.path}") for at, part in enumerate(parts[:max_entries]) for n in part.notices]
    if len(parts) > max_entries:
        notices.extend(TRUNCATED_HERE)
    return Cleaned(CleanJson([part.value for part in parts[:max_entries]]), bounded(notices))


def record(parts: Mapping[str, Part | None]) -> Cleaned[CleanJson]:
    """Return an object of the values that are not None. Its keys must be constants of this project."""
    present = {name: part for name, part in parts.items() if part is not None}
    notices = (n._replace(path=f".{name}{n.path}") for name, part in present.items() for n in part.notices)
    return Cleaned(CleanJson({name: part.value for name, part in present.items()}), bounded(notices))


def plain(value: float | bool | None) -> Cleaned[CleanJson]:  # noqa: FBT001 - the value, not a switch
    """Return a number, a boolean or null as clean: none can hold a secret outside a sensitive key."""
    return Cleaned(CleanJson(value))


# cutting to a budget of bytes

_SHORT_BYTES: Final = 128
"""Minimum size of a truncated string while entries can still be dropped: whole words matter more than many entries."""
_QUOTES: Final = 2


def shrink_text(text: CleanText, max_bytes: int) -> Cleaned[CleanText]:
    """Truncate text so that its JSON string takes at most `max_bytes`, quotes and escapes included."""
    short = _cut(text, max_bytes)
    return Cleaned(text) if short == text else Cleaned(CleanText(short), TRUNCATED_HERE)


def shrink(value: CleanJson, max_bytes: int) -> Cleaned[CleanJson]:
    """Truncate the strings and containers of a tree so that its JSON takes at most `max_bytes`."""
    if codec.size(value) <= max_bytes:
        return Cleaned(value)
    entries = greatest(lambda count: _fits(_sizes(value, count, _SHORT_BYTES), max_bytes), CONTAINER_MAX_ENTRIES)
    sizes = [*_sizes(value, entries, max_bytes)]
    strings = [size for size, is_string in sizes if is_string]
    rest = max_bytes - sum(size for size, is_string in sizes if not is_string)
    length = greatest(lambda most: sum(min(size, max(most, _QUOTES)) for size in strings) <= rest, max_bytes)
    notices: list[Notice] = []
    tree = _trimmed(value, entries, length, notices)
    return Cleaned(CleanJson(tree), bounded(notices))


def _cut(text: str, max_bytes: int) -> str:
    if len(text) * 6 + _QUOTES <= max_bytes:
        return text
    if len(text) <= max_bytes and len(codec.dumps(text)) <= max_bytes:
        return text
    count = greatest(lambda chars: len(codec.dumps(text[:chars])) <= max_bytes, min(len(text), max_bytes))
    return cut_text(text, count)


def greatest(fits: Callable[[int], bool], most: int) -> int:
    """Return the greatest number up to `most` that fits, 0 if none does."""
    return bisect_left(range(1, most + 1), True, key=lambda number: not fits(number))  # the key to find


def _sizes(value: object, entries: int, string_bytes: int) -> Iterator[tuple[int, bool]]:
    """Yield the sizes that make up that of a tree, each with whether it is that of a string.

    The tree has at most `entries` in each container and `string_bytes` in each string.
    """
    if isinstance(value, str):
        yield min(string_bytes, len(codec.dumps(value)) if len(value) < string_bytes else string_bytes), True
    elif isinstance(value, dict):
        yield _QUOTES + max(0, min(len(value), entries) - 1), False
        for key, member in islice(value.items(), entries):
            yield len(codec.dumps(key)) + 1, False
            yield from _sizes(member, entries, string_bytes)
    elif isinstance(value, list):
        yield _QUOTES + max(0, min(len(value), entries) - 1), False
        for entry in islice(value, entries):
            yield from _sizes(entry, entries, string_bytes)
    else:
        yield len(codec.dumps(value)), False


def _fits(sizes: Iterable[tuple[int, bool]], max_bytes: int) -> bool:
    """Return whether sizes add up to at most `max_bytes`; read no more of them once they do not."""
    return all(total <= max_bytes for total in accumulate(size for size, _ in sizes))


def _trimmed(
    value: object, entries: int, string_bytes: int, notices: list[Notice], path: tuple[str | int, ...] = ()
) -> object:
    """Return a tree with at most `entries` in each container and `string_bytes` in each string; add to the notices."""
    if isinstance(value, str):
        short = _cut(value, string_bytes)
        if short != value:
            notices.append(notice("truncated", render(path)))
        return short
    if not isinstance(value, dict | list):
        return value
    if len(value) > entries:
        notices.append(notice("truncated", render(path)))
    if isinstance(value, dict):
        members = islice(value.items(), entries)
        return {key: _trimmed(member, entries, string_bytes, notices, (*path, key)) for key, member in members}
    return [_trimmed(each, entries, string_bytes, notices, (*path, at)) for at, each in enumerate(value[:entries])]
