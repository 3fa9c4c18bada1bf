"""Checks of personal data: which part of a candidate is a value of its class.

A candidate begins with what the class's `begins` matches and continues with its `run`. A check returns how many of its
first characters are a value, 0 for none. If the text ends in the candidate (`is_cut`), most of a value counts. An
extension stands behind a value and belongs to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple, TypeAlias

Check: TypeAlias = Callable[[str, bool], int]


def email(text: str, is_cut: bool) -> int:  # noqa: FBT001 - the table's signature
    """Check the shape of an address (RFC 5321, RFC 5322, RFC 6531); users of code hosts and SSH are no persons."""
    match = _EMAIL.match(text)
    if match is None:
        match = _EMAIL_CUT.fullmatch(text) if is_cut and text < _NO_BLANKS else None
    return 0 if match is None else match.end()


_NO_BLANKS: Final = "\u0e00"
"""The first script without blanks between words: there the end of a text is no address, but may be a mention."""
_EDGE: Final = r"[^\x00-/:-@\[-`{-\u00b6]"
"""A letter or digit of any script, in a candidate; the characters beyond Latin-1 make expressions expensive."""
_LABEL: Final = rf"{_EDGE}(?:[^\x00-,./:-@\[-^`{{-\u00b6]{{0,61}}{_EDGE})?"
_DOT_OF_CJK: Final = "(?:\u3002|\uff61)"
_NO_PERSON: Final = r"(?!git@|(?:zlib|[a-z]+[0-9-][^@]*)@(?:openssh\.com|libssh\.org)(?!\w|\.\w))"
_LOCAL: Final = r"""(?:"[^"]*"|\{[^@}]*\}|[^@.\"{](?:[^@\"]{0,62}[^@.\"])?)@"""
_NO_TOP_LEVEL: Final = (
    "(?:png|jpe?g|gif|svg|webp|avif|bmp|ico|tiff?|pdf|css|scss|[cm]?jsx?|tsx?|json|ya?ml|toml|xml|html?|txt|csv|log|exe|dll"
    "|jar|tgz|gz|bz2|docx?|xlsx?|pptx?|vue|transpose|reshape|flatten|squeeze|unsqueeze|astype|conj|detach|numpy|permute)"
)
"""Ends of file names, and methods behind the operator `@` of Python, which are no domains."""
_RELEASE: Final = (
    r"(?!v?[0-9]{1,9}\.[0-9]{1,9}(?![0-9A-Za-z])|[0-9](?:\.[0-9])?x\.(?:[\w-]{1,32}\.)?(?i:"
    rf"{_NO_TOP_LEVEL})(?![\w-]))"
)
"""No domain begins with two numbers, as `v4.2.0` does, or is the end of the name of a picture, `@2x.min.png`."""
_TOP_LEVEL: Final = (
    rf"(?!(?i:{_NO_TOP_LEVEL})(?![\w-]))(?:xn--[0-9A-Za-z-]{{2,59}}|[A-Za-z\u00c0-\u024f]{{2,24}})"
    r"(?![A-Za-z\u00c0-\u024f])(?:_[0-9A-Za-z_.-]*|(?<=(?i:\.com|\.org|\.net|\.edu|\.gov))[0-9]{0,3}(?![0-9])"
    r"|(?![0-9]|-\w)|(?<=[@.][A-Za-z]{2})(?![0-9]|-[a-z]+-[0-9]))"
)
"""A top-level domain. A footnote follows common ones (`.com1`), and a hyphen those that no region begins with."""
_EMAIL: Final = re.compile(
    rf"{_NO_PERSON}{_LOCAL}{_RELEASE}"
    rf"(?:(?:{_LABEL}\.){{1,8}}(?:{_TOP_LEVEL}|(?:(?!{_DOT_OF_CJK})[^\x00-\u00b6]){{2,24}})"
    rf"|(?<=[0-9A-Za-z_]@)(?:(?:(?!{_DOT_OF_CJK}){_EDGE}){{1,63}}{_DOT_OF_CJK}){{1,8}}[A-Za-z]{{2,24}}(?![0-9A-Za-z])"
    r"|\[(?:[0-9.]{7,15}|(?i:ipv6):[0-9A-Fa-f:.]{2,45})\])"
)
_TAG: Final = (
    r"(?!(?:v[0-9][\w.-]*|latest|next|beta|alpha|canary|rc|main|master|localhost|(?=[a-f]*[0-9])[0-9a-f]{6,40})\Z)"
)
"""What stands behind the `@` of packages, actions and objects in place of a domain."""
_EMAIL_CUT: Final = re.compile(rf"{_NO_PERSON}(?!.@){_LOCAL}{_TAG}(?!.*\.{_NO_TOP_LEVEL}\Z)(?:[^\W\d][\w.-]*)?")


_ISSUERS: Final = (
    (4, 4, 16, 13, 19),  # Visa
    (51, 55, 16),  # Mastercard
    (2221, 2720, 16),
    (34, 34, 15),  # American Express
    (37, 37, 15),
    (6011, 6011, 16, 19),  # Discover
    (644, 659, 16, 19),
    (62, 62, 16, 17, 18, 19),  # UnionPay, with those of Discover
    (81, 81, 16, 17, 18, 19),
    (3528, 3589, 16, 17, 18, 19),  # JCB
    (300, 305, 14, 16),  # Diners Club
    (36, 36, 14, 16),
    (38, 39, 14, 16),
    (2200, 2204, 16, 17, 18, 19),  # Mir
    (6304, 6304, 12, 13, 16, 18, 19),  # Maestro
    (5018, 5020, 12, 13, 16, 18, 19),
    (5038, 5038, 12, 13, 16, 18, 19),
    (6759, 6763, 12, 13, 16, 18, 19),
    (508, 508, 16),  # RuPay
    (60, 60, 16),
)
"""Issuer identification numbers (ISO/IEC 7812-1), from first to last, and the lengths of their card numbers."""


def _lengths_by_prefix() -> Mapping[bytes, tuple[int, ...]]:
    found: dict[bytes, tuple[int, ...]] = {}
    for first, last, *lengths in _ISSUERS:
        rest = 10 ** (_CARD_GROUP_CHARS - len(str(first)))
        for number in range(first * rest, (last + 1) * rest):
            prefix = str(number).encode()
            found[prefix] = tuple({*found.get(prefix, ()), *lengths})
    return found


_CARD_GROUP_CHARS: Final = 4
_CARD_LENGTHS: Final = _lengths_by_prefix()
"""The first four digits of a card number -> the lengths that it may have."""
_CARD: Final = re.compile(
    "(?:[0-9]{12,19}|[0-9]{4} ?(?P<by>[ ./-]) ?[0-9]{4} ?(?P=by) ?[0-9]{4}"
    "(?:[0-9]| ?(?P=by) ?[0-9]{4}(?: ?(?P=by) ?[0-9]{1,3})?)?"
    "|[0-9]{4} ?(?P<in_three>[ ./-]) ?[0-9]{6} ?(?P=in_three) ?[0-9]{4,5}"
    "|[0-9]{4}[ -][0-9]{12}|[0-9]{6}[ -](?:[0-9]{10}|[0-9]{13})|[0-9]{8}[ -][0-9]{8}|[0-9]{12}[ -][0-9]{4})(?![0-9])"
)
_CARD_CUT: Final = re.compile(
    "[0-9]{12,15}|[0-9]{4} ?(?P<by>[ ./-]) ?[0-9]{4} ?(?P=by) ?[0-9]{4}(?: ?(?P=by) ?[0-9]{1,3})?"
    "|[0-9]{4} ?(?P<in_three>[ ./-]) ?[0-9]{6} ?(?P=in_three) ?[0-9]{2,4}"
)
_CARD_DIGITS: Final = {16: (16, 12), 17: (16, 17, 12), 18: (16, 18, 12), 19: (16, 19, 12)}
"""Number of digits in groups of four -> how many of them may be a card before other digits, the usual number first."""


def payment_card(text: str, is_cut: bool) -> int:  # noqa: FBT001 - the table's signature
    """Check issuer, length, groups and the Luhn digit (ISO/IEC 7812-1 annex B); groups have one separator."""
    lengths = _CARD_LENGTHS.get(text[:_CARD_GROUP_CHARS].encode())
    if lengths is None:
        return 0
    match = _CARD.match(text)
    if match is not None:
        digits = _only(match[0])
        count = len(digits)
        for length in (count,) if match["by"] is None else _CARD_DIGITS.get(count, (count,)):
            if length in lengths and _luhn(digits[:length]):
                return match.end() if length == count else _end_of(text, length)
    cut = _CARD_CUT.match(text) if is_cut else None
    return cut.end() if cut is not None and not text[cut.end() :].strip(" ./-") else 0


def next_card(text: str, at: int, stop: int) -> int:
    """Return the first of two positions between which there are only numbers at which a card may begin; else the last.

    At least as many characters as a card has follow the last position. A card begins and ends with a group of digits.
    The Luhn digits of all parts of the text are differences of two sums: of those with each second digit doubled, from
    the first one or the second one on.
    """
    groups = _DIGIT_RUN.findall(text, at, stop + _CARD_MAX_CHARS)
    digits = "".join(groups).encode()
    sums = []
    for first in (0, 1):
        values = bytearray(digits.translate(_VALUES))
        values[first::2] = values[first::2].translate(_DOUBLED)
        sums.append([*accumulate(values, initial=0)])
    ends = [*accumulate(map(len, groups), initial=0)]
    known = {*ends}
    for number, read in enumerate(ends):
        for length in _CARD_LENGTHS.get(digits[read : read + _CARD_GROUP_CHARS], ()):
            end = read + length
            if end in known and (sums[end & 1][end] - sums[end & 1][read]) % 10 == 0:
                return min(stop, next(islice(_DIGIT_RUN.finditer(text, at), number, None)).start())
    return stop


_CARD_MAX_CHARS: Final = 40
_SEPARATORS: Final = b" ./-"
_ALNUM: Final = re.compile("[0-9A-Za-z]")


def _only(text: str) -> bytes:
    """Return the letters and digits of a text."""
    return text.encode().translate(None, _SEPARATORS)


def _end_of(text: str, count: int) -> int:
    """Return the position behind so many letters and digits."""
    return next(islice(_ALNUM.finditer(text), count - 1, None)).end()


def _luhn(digits: bytes) -> bool:
    values = digits.translate(_VALUES)
    return (sum(values[-1::-2]) + sum(values[-2::-2].translate(_DOUBLED))) % 10 == 0


_VALUES: Final = bytes.maketrans(b"0123456789", bytes(range(10)))
_DOUBLED: Final = bytes.maketrans(bytes(range(10)), bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)))
"""A digit -> the cross sum of its double."""


_IBAN_LENGTHS: Final[Mapping[str, int]] = {
    country: length
    for length, countries in {
        15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
        29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
    }.items()
    for country in countries.split()
}  # fmt: skip
"""Length of an IBAN by country: SWIFT IBAN registry, release 99."""
_IBAN_CUT_CHARS: Final = 12
_IBAN_DIGITS: Final = {ord(char): str(int(char, 36)) for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


def iban(text: str, is_cut: bool) -> int:  # noqa: FBT001 - the table's signature
    """Check country, length and the check digits (ISO 13616-1, ISO 7064 MOD 97-10)."""
    length = _IBAN_LENGTHS.get(text[:2].upper())
    if length is None:
        return 0
    chars = _only(text)
    if len(chars) < length:
        return len(text.rstrip(" -")) if is_cut and len(chars) >= _IBAN_CUT_CHARS and text[-1] not in "./" else 0
    moved = (chars[4:length] + chars[:4]).decode().upper()
    if int(moved.translate(_IBAN_DIGITS)) % 97 != 1:
        return 0
    end = _end_of(text, length)
    separators = {*text[:end]} & {*" ./-"}
    if len(separators) > 1 and separators & {".", "/"}:
        return 0
    return end if _ALNUM.match(text, end) is None else 0


_SSN: Final = re.compile(
    "(?!000|666)(?:[0-8][0-9]{2}(?![ .-]+00)|9[0-9]{2}(?=[ .-]+(?:5[0-9]|6[0-5]|7[0-9]|8[0-8]|9[0-9])))"
    "(?P<by> - |[ .-])[0-9]{2}(?P=by)(?!0000)[0-9]{4}(?!(?P=by)?[0-9])"
)


def us_ssn(text: str, _is_cut: bool) -> int:  # noqa: FBT001 - the table's signature
    """Check the ranges that are assigned: of areas 900 to 999 the groups of ITIN and ATIN."""
    match = _SSN.match(text)
    return match.end() if match is not None else 0


_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|[01][0-9]{2}|[1-9]?[0-9])"
_DOT: Final = r"(?:\.|\[\.\])"
_IPV4: Final = rf"(?:{_BYTE}{_DOT}){{3}}{_BYTE}"
_IS_IPV4: Final = re.compile(
    rf"(?:[iI][pP](?:-{_BYTE}){{4}}|{_IPV4})"
    rf"(?![0-9A-Za-z]|{_DOT}[0-9]|[.-](?:tar|tgz|zip|jar|deb|rpm|exe|msi|dll|whl|dmg|nupkg|so|win|linux|x86|x64|amd|arm"
    r"|alpha|beta|rc|pre|dev|snapshot|release)[0-9]*(?![A-Za-z]))(?:_[0-9A-Za-z_.-]*)?",
    re.IGNORECASE,
)
"""An address of four numbers that no end of a version or of a file name follows."""
_NO_HOSTS: Final = re.compile(r"127\.|0\.|255\.255\.|[0-9]+\.[0-9]+\.0\.0(?![0-9])")
_IPV6: Final = re.compile("[0-9A-Fa-f:]*(?::[0-9A-Fa-f]{1,4}|::)(?![0-9A-Za-z])")
_IPV4_IN_IPV6: Final = re.compile(rf"[0-9A-Fa-f:]*:{_IPV4}(?![0-9A-Za-z]|\.[0-9])")
_IPV6_BEGINS: Final = re.compile(
    rf"(?P<global>[23][0-9a-f]{{3}}:)|f[cd][0-9a-f]{{2}}:|fe[89ab][0-9a-f]:|64:ff9b:"
    rf"|(?:::|(?:0{{1,4}}:){{1,5}}:?)(?:ffff:(?:0:)?(?:{_IPV4}|[0-9a-f]{{1,4}}:[0-9a-f]{{1,4}}(?![0-9a-z:]))|{_IPV4})",
    re.IGNORECASE,
)
"""What is assigned (RFC 4291, RFC 4193, RFC 6052): global, local to a site or link, and IPv4 in IPv6."""
_ZONE: Final = re.compile("(?:%[0-9A-Za-z](?:[0-9A-Za-z._~-]{0,14}[0-9A-Za-z])?)?(?![0-9A-Za-z])(?:_[0-9A-Za-z_.-]*)?")
_IPV6_GROUPS: Final = 8
_IPV6_LEAST_GROUPS: Final = 3


def ip_address(text: str, _is_cut: bool) -> int:  # noqa: FBT001 - the table's signature
    """Check an address of a host (RFC 791, RFC 4291, RFC 4007); loopback, networks and netmasks name no host."""
    if (match := _IS_IPV4.match(text)) is not None:
        return match.end() if _NO_HOSTS.match(text.replace("[.]", ".")) is None else 0
    begins = _IPV6_BEGINS.match(text)
    if begins is None:
        return 0
    found = (_IPV4_IN_IPV6.match(text) if "." in text else None) or _IPV6.match(text)
    if found is None or not _is_ipv6(found[0], _IPV6_LEAST_GROUPS if begins["global"] else 2):
        return 0
    zone = _ZONE.match(text, found.end())
    return found.end() if zone is None else zone.end()


def _is_ipv6(text: str, least: int) -> bool:
    """Return whether a text is an IPv6 address with a digit: `a::b` is code more often than an address."""
    head, dots, tail = text.partition("::")
    groups = [group for part in (head, tail) if part for group in part.split(":")]
    count = len(groups) + ("." in text)
    is_whole = least <= count < _IPV6_GROUPS if dots else count == _IPV6_GROUPS
    return is_whole and _DIGIT.search(text) is not None and all(map(_HEXTET.fullmatch, groups))


_DIGIT: Final = re.compile("[0-9]")
_HEXTET: Final = re.compile(r"[0-9A-Fa-f]{1,4}|[0-9.]{7,15}")

_MRZ_VALUES: Final = {char: at for at, char in enumerate("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")} | {"<": 0}
_MRZ_WEIGHTS: Final = (7, 3, 1)
_MRZ_LENGTHS: Final = frozenset({30, 36, 44})
_MRZ_CUT: Final = re.compile(r"P[A-Z<][A-Z]{3}[A-Z<]{5,}|[A-Z0-9<]{9}[0-9<][A-Z<]{3}[0-9]{7}[MFX<][A-Z0-9<]*")


def passport_mrz(text: str, is_cut: bool) -> int:  # noqa: FBT001 - the table's signature
    """Check one line of a machine-readable zone with its check digits (ICAO Doc 9303 parts 4 to 6)."""
    if len(text) - 1 in _MRZ_LENGTHS and text.endswith("<"):
        text = text[:-1]  # of a closing tag
    if len(text) not in _MRZ_LENGTHS:
        return len(text) if is_cut and len(text) < max(_MRZ_LENGTHS) and _MRZ_CUT.fullmatch(text) else 0
    is_line = any(form.fullmatch(text) and _is_checked(text, fields) for form, fields in _MRZ_FORMS.items())
    return len(text) if is_line else 0


def _is_checked(text: str, fields: Sequence[tuple[int, int]]) -> bool:
    """Return whether a check digit, or `<`, stands at the end of each field."""
    return all(
        text[end]
        in {"<", str(sum(_MRZ_VALUES[char] * _MRZ_WEIGHTS[at % 3] for at, char in enumerate(text[start:end])) % 10)}
        for start, end in fields
    )


_MRZ_FORMS: Final[Mapping[re.Pattern[str], Sequence[tuple[int, int]]]] = {
    re.compile(r"[PVIAC][A-Z<][A-Z<]{3}[A-Z]+<<[A-Z<]*<|[A-Z]+(?:<[A-Z]+)*<<[A-Z<]*<"): (),
    re.compile(r"[A-Z0-9<]{9}[0-9<][A-Z<]{3}[0-9]{7}[MFX<][0-9]{7}[A-Z0-9<]+"): ((0, 9), (13, 19), (21, 27)),
    re.compile(r"[IAC][A-Z0-9<][A-Z<]{3}[A-Z0-9<]{9}[0-9<][A-Z0-9<]{15}"): ((5, 14),),
    re.compile(r"[0-9]{7}[MFX<][0-9]{7}[A-Z<]{3}[A-Z0-9<]{11}[0-9]"): ((0, 6), (8, 14)),
}
"""A line: of names, of a passport, and two of an identity card -> its fields with check digits."""


# telephone numbers: where one ends, also if another number or an extension follows it directly
#
#   +44 20 7946 0958 (415) 555-2671     `415` could belong to the first number, which may have 15 digits
#   415-555-2671/020 7946 0958          digits that go on make a North American number an ID, unless a number begins
#   +1 415 555 2671 9am                 the last digits begin a word
#   415-555-2671x99                     an extension belongs to its number
#
# A number ends where the next one begins; the search then finds that one.

_DIGIT_RUN: Final = re.compile("[0-9]+")
_DATE: Final = re.compile(r"(?:[0-3]?[0-9][./ -][01]?[0-9][./ -](?:19|20)[0-9]{2}(?![0-9])|(?:19|20)[0-9]{2}[./-])")
_GAP: Final = "[ ()./-]{0,3}"
_INTERNATIONAL: Final = re.compile(rf"(?:\+\(?|00 ?)[1-9](?:{_GAP}[0-9]){{7,14}}(?![0-9])")
_SPLIT_DIGITS: Final = range(9, 16)
"""How many digits an international number has if others stand behind it: those of eight are rare."""
_INTERNATIONAL_CUT: Final = re.compile(rf"\+\(?[1-9](?:{_GAP}[0-9]){{4,14}}{_GAP}")
_ZERO_PREFIX: Final = re.compile(r"00 ?[1-9][0-9]*(?:(?:[ ()/-]{1,3}[0-9]+)+|(?:\.[0-9]+)+)?")
"""A number with the prefix 00 has points only, or none: `001.06 1.06` are two coordinates."""
_LINK: Final = "(?: ?- ?| {1,2})"
_NORTH_AMERICAN: Final = re.compile(
    rf"(?:1[ .-]?)?(?:\([2-9][0-9]{{2}}\)[ .-]?[2-9][0-9]{{2}}[ .-]|[2-9][0-9]{{2}} ?- ?[2-9][0-9]{{2}} ?- ?"
    rf"|[2-9][0-9]{{2}} {{1,2}}[2-9][0-9]{{2}}{_LINK}|[2-9][0-9]{{2}}\.[2-9][0-9]{{2}}\.)[0-9]{{4}}(?![0-9])"
)
_NATIONAL: Final = re.compile(
    r"\(?0[1-9][0-9]{0,4}(?:\)[ /-]?|[ /.-]|[ ][/-][ ])[0-9]{2,8}"
    r"(?:(?:[ /-]?[0-9]{2,8}){1,4}|(?:\.?[0-9]{2,8}){0,4})(?![0-9])"
)
_NATIONAL_DIGITS: Final = range(9, 13)
_OTHER: Final = re.compile(
    rf"[ )./-]{{0,3}}+\(??(?!{_DATE.pattern})(?:{_INTERNATIONAL.pattern}|{_NORTH_AMERICAN.pattern}"
    rf"|(?P<national>{_NATIONAL.pattern}))"
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


def phone(text: str, is_cut: bool) -> int:  # noqa: FBT001 - the table's signature
    """Check an international number (E.164), or a national one with separators: North American, or with a 0."""
    if _DATE.match(text) is not None:
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
    match = _INTERNATIONAL.match(text, 0, len(text) if uniform is None else uniform.end())
    if match is None:
        return 0
    longest = match.end()
    ends = [group.end for group in _groups(text, 0, longest) if group.digits - prefix in _SPLIT_DIGITS][::-1]
    closed = next((end for end in ends if text.count("(", 0, end) <= text.count(")", 0, end)), longest)
    return _split(text, ends, longest) or closed


def _north_american(text: str, *, is_cut: bool) -> int:
    """Return the end of a North American number; 0 if there is none, or if its separator and more digits follow."""
    match = _NORTH_AMERICAN.match(text)
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
    match = _NATIONAL.match(text)
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
    for match in _DIGIT_RUN.finditer(text, start, end):
        digits += len(match[0])
        yield _Group(match.end(), digits, len(match[0]))


def _is_apart(text: str, group: _Group, after: _Group) -> bool:
    """Return whether the next group begins a date, or is not one of several with the same separator and length."""
    start = after.end - after.size
    separator = text[group.end : start]
    if separator != text[group.end - group.size - 1]:
        return True
    return separator == " " and (_DATE.match(text, start) is not None or group.size != after.size)


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


CHECKS: Final[Mapping[str, Check]] = {
    "email": email,
    "payment_card": payment_card,
    "iban": iban,
    "us_ssn": us_ssn,
    "phone": phone,
    "ip_address": ip_address,
    "passport_mrz": passport_mrz,
}
"""Name of a check in the rule files -> function."""

EXTENSIONS: Final[Mapping[str, Callable[..., int | None]]] = {"phone": extension_end}
"""Name of a check -> the function that finds the extension of its values."""
