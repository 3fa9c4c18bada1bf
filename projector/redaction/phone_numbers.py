r"""The check of telephone numbers: where a number ends, also if another number or an extension follows it directly.

    +44 20 7946 0958 (415) 555-2671     `415` could belong to the first number, which may have 15 digits
    415-555-2671/020 7946 0958          digits that go on make a North American number an ID, unless a number begins
    +1 415 555 2671 9am                 the last digits begin a word
    415-555-2671x99                     an extension belongs to its number

A number ends where the next one begins; the search then finds that one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_DIGITS: Final = re.compile("[0-9]+")
_DATE: Final = r"(?:[0-3]?[0-9][./ -][01]?[0-9][./ -](?:19|20)[0-9]{2}(?![0-9])|(?:19|20)[0-9]{2}[./-])"
_IS_DATE: Final = re.compile(_DATE)
_GAP: Final = "[ ()./-]{0,3}"
_INTERNATIONAL: Final = rf"(?:\+\(?|00 ?)[1-9](?:{_GAP}[0-9]){{7,14}}(?![0-9])"
_IS_INTERNATIONAL: Final = re.compile(_INTERNATIONAL)
_SPLIT_DIGITS: Final = range(9, 16)
"""How many digits an international number has if others stand behind it: those of eight are rare."""
_INTERNATIONAL_CUT: Final = re.compile(rf"\+\(?[1-9](?:{_GAP}[0-9]){{4,14}}{_GAP}")
_ZERO_PREFIX: Final = re.compile(r"00 ?[1-9][0-9]*(?:(?:[ ()/-]{1,3}[0-9]+)+|(?:\.[0-9]+)+)?")
"""A number with the prefix 00 has points only, or none: `001.06 1.06` are two coordinates."""
_LINK: Final = "(?: ?- ?| {1,2})"
_NORTH_AMERICAN: Final = (
    rf"(?:1[ .-]?)?(?:\([2-9][0-9]{{2}}\)[ .-]?[2-9][0-9]{{2}}[ .-]|[2-9][0-9]{{2}} ?- ?[2-9][0-9]{{2}} ?- ?"
    rf"|[2-9][0-9]{{2}} {{1,2}}[2-9][0-9]{{2}}{_LINK}|[2-9][0-9]{{2}}\.[2-9][0-9]{{2}}\.)[0-9]{{4}}(?![0-9])"
)
_IS_NORTH_AMERICAN: Final = re.compile(_NORTH_AMERICAN)
_NATIONAL: Final = (
    r"\(?0[1-9][0-9]{0,4}(?:\)[ /-]?|[ /.-]|[ ][/-][ ])[0-9]{2,8}"
    r"(?:(?:[ /-]?[0-9]{2,8}){1,4}|(?:\.?[0-9]{2,8}){0,4})(?![0-9])"
)
_IS_NATIONAL: Final = re.compile(_NATIONAL)
_NATIONAL_DIGITS: Final = range(9, 13)
_OTHER: Final = re.compile(
    rf"[ )./-]{{0,3}}+\(??(?!{_DATE})(?:{_INTERNATIONAL}|{_NORTH_AMERICAN}|(?P<national>{_NATIONAL}))"
)
"""Another number, behind what separates it."""
_OTHER_CUT: Final = re.compile(r"[./-]\(?(?:1[ .-]?)?[02-9][0-9]{1,4}[) ./-]{1,2}[0-9][0-9 ()./-]*")
"""Another number, which the end of the text cuts off."""
_LAST_DIGITS: Final = re.compile(r"(?:/[0-9]{1,4}(?![0-9]))+(?![./-][0-9])")
"""The end of another number that begins like the first one: `415-555-2671/72`."""
_DAY: Final = "[0-3]?[0-9][./-]"
_MONTH: Final = "[01]?[0-9][./-]"
_YEAR: Final = "(?:19|20)[0-9]{2}"
_BEHIND_DATE: Final = re.compile(rf" {{1,3}}(?:{_DAY}{_MONTH}{_YEAR}|{_YEAR}[./-]{_MONTH}[0-3]?[0-9])(?![0-9])")
_GOES_ON: Final = re.compile("[./-][0-9]")
_FRACTION: Final = re.compile("[.-][0-9]{1,3}(?![0-9])")


class _Group(NamedTuple):
    """A group of digits: the end of it, the number of digits up to there, and the number of its own."""

    end: int
    digits: int
    size: int


def phone(text: str, is_cut: bool) -> int:  # noqa: FBT001 - the table's signature (`text_checks`)
    """Check an international number (E.164), or a national one with separators: North American, or with a 0."""
    if _IS_DATE.match(text) is not None:
        return 0
    if text.startswith(("+", "0")):
        end = _international(text) or _national(text)
    else:
        end = _north_american(text, is_cut=is_cut) or _national(text)
    if end:
        return end
    cut = _INTERNATIONAL_CUT.fullmatch(text) if is_cut else None
    return len(text.rstrip(" ()./-")) if cut is not None else 0


def _international(text: str) -> int:
    """Return the end of an international number; 0 if there is none."""
    prefix = 2 if text.startswith("0") else 0
    uniform = _ZERO_PREFIX.match(text) if prefix else None
    match = _IS_INTERNATIONAL.match(text, 0, len(text) if uniform is None else uniform.end())
    if match is None:
        return 0
    longest = match.end()
    ends = [group.end for group in _groups(text, 0, longest) if group.digits - prefix in _SPLIT_DIGITS][::-1]
    closed = next((end for end in ends if text.count("(", 0, end) <= text.count(")", 0, end)), longest)
    return _split(text, ends, longest) or closed


def _north_american(text: str, *, is_cut: bool) -> int:
    """Return the end of a North American number; 0 if there is none, or if its separator and more digits follow."""
    match = _IS_NORTH_AMERICAN.match(text)
    if match is None:
        return 0
    end = match.end()
    if _GOES_ON.match(text, end) is None or "(" in match[0] or _other_end(text, end):
        return end
    if text[end] == text[end - 5] or _FRACTION.match(text, end) is not None:
        return end if is_cut and _OTHER_CUT.fullmatch(text, end) is not None else 0
    others = _LAST_DIGITS.match(text, end)
    return end if others is None else others.end()


def _national(text: str) -> int:
    """Return the end of a national number; 0 if there is none."""
    match = _IS_NATIONAL.match(text)
    if match is None:
        return 0
    longest = match.end()
    groups = [*_groups(text, 0, longest)]
    ends = [at for at, group in enumerate(groups) if group.digits in _NATIONAL_DIGITS][::-1]
    alone = (at for at in ends if groups[at].end == longest or _is_apart(text, *groups[at : at + 2]))
    end = next((groups[at].end for at in alone), 0)
    return _split(text, [groups[at].end for at in ends], end) or end


def _split(text: str, ends: Sequence[int], longest: int) -> int:
    """Return the end behind which a date begins, or another number that ends behind the longest one; 0 if none does."""
    others = (end for end in ends if _BEHIND_DATE.match(text, end) is not None or _other_end(text, end) > longest)
    return next(others, 0)


def _groups(text: str, start: int, end: int) -> Iterator[_Group]:
    """Yield the groups of digits between two positions."""
    digits = 0
    for match in _DIGITS.finditer(text, start, end):
        digits += len(match[0])
        yield _Group(match.end(), digits, len(match[0]))


def _is_apart(text: str, group: _Group, after: _Group) -> bool:
    """Return whether the next group begins a date, or is not one of several with the same separator and length."""
    start = after.end - after.size
    separator = text[group.end : start]
    if separator != text[group.end - group.size - 1]:
        return True
    return separator == " " and (_IS_DATE.match(text, start) is not None or group.size != after.size)


def _other_end(text: str, at: int) -> int:
    """Return the end of another number, which begins behind the separators at a position; 0 if none does."""
    match = _OTHER.match(text, at)
    if match is None or match["national"] is None:
        return 0 if match is None else match.end()
    groups = _groups(text, *match.span("national"))
    return max((group.end for group in groups if group.digits in _NATIONAL_DIGITS), default=0)


_EXTENSION: Final = re.compile(
    r"(?:,? ?(?:(?:x|extn?|extension)[.:]? ?|#)|;ext=|[pw])[0-9]{1,20}",  # digits: as in libphonenumber
    re.IGNORECASE,
)
_PREFIXES: Final = "|".join("extension"[:count] for count in range(9, 0, -1))
_EXTENSION_CUT: Final = re.compile(
    rf"(?:,? ?(?:(?:x|extn|{_PREFIXES})[.:]? ?|#)?|;(?:e(?:x(?:t=?)?)?)?|[pw])\Z", re.IGNORECASE
)


def extension_end(text: str, at: int, *, at_end: bool) -> int | None:
    """Return the end of the extension behind a number (RFC 3966); `at` if there is none, None if later text decides.

    If the text ends in letters that may begin one, they count.
    """
    match = _EXTENSION.match(text, at)
    if match is not None:
        return match.end() if at_end or match.end() < len(text) else None
    if _EXTENSION_CUT.match(text, at) is None:
        return at
    if not at_end:
        return None
    return len(text) if text[at : at + 1].isalpha() else at
