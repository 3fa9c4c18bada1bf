"""Checks of personal data: which part of a candidate is a value of its class.

A candidate begins with what the class's `begins` matches and continues with its `run`. A check returns how many of its
first characters are a value, 0 for none. If the text ends in the candidate (`is_cut`), most of a value counts. An
extension stands behind a value and belongs to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias

from projector.redaction.phone_numbers import extension_end, phone

Check: TypeAlias = Callable[[str, bool], int]


class ExtensionEnd(Protocol):
    """Return the end of the extension at a position; the position if there is none, None if later text decides."""

    def __call__(self, text: str, at: int, /, *, at_end: bool) -> int | None:  # noqa: D102 - the class says it
        ...


_DIGIT_GROUP: Final = re.compile("[0-9]+")


def email(text: str, is_cut: bool) -> int:  # noqa: FBT001 - the table's signature
    """Check the shape of an address (RFC 5321, RFC 5322 `dot-atom`); the SSH user of Git hosts is no person."""
    match = _EMAIL.match(text)
    if match is None:
        match = _EMAIL_CUT.fullmatch(text) if is_cut else None
    return 0 if match is None or text.startswith(_NO_PERSON) else match.end()


_LOCAL: Final = r"[^@.](?:[^@]{0,62}[^@.])?@"
_EMAIL: Final = re.compile(rf"{_LOCAL}(?:[^\W_](?:[\w-]{{0,61}}[^\W_])?\.){{1,8}}[^\W\d_]{{2,24}}(?![\w@]|-\w)")
_EMAIL_CUT: Final = re.compile(rf"{_LOCAL}(?:[^\W\d][\w.-]*)?")
_NO_PERSON: Final = "git@"


class _Issuer(NamedTuple):
    first: int
    last: int
    lengths: frozenset[int]


_ISSUERS: Final = tuple(
    _Issuer(first, last, frozenset(lengths))
    for first, last, *lengths in (
        (4, 4, 16, 13, 19),  # Visa
        (51, 55, 16),  # Mastercard
        (2221, 2720, 16),
        (34, 34, 15),  # American Express
        (37, 37, 15),
        (6011, 6011, 16, 19),  # Discover
        (644, 659, 16, 19),
        (622126, 622925, 16, 19),
        (62, 62, 16, 17, 18, 19),  # UnionPay
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
)
"""Issuer identification numbers (ISO/IEC 7812-1) with the lengths of their card numbers, as published."""


def payment_card(text: str, is_cut: bool) -> int:  # noqa: FBT001 - the table's signature
    """Check issuer, length and the Luhn digit (ISO/IEC 7812-1 annex B), in one group or several, the first of four."""
    groups = [*_DIGIT_GROUP.finditer(text)]
    digits, ends = "", {}
    for at, group in enumerate(groups):
        if at == 1 and len(digits) != _CARD_GROUP_CHARS:
            break
        digits += group[0]
        ends[len(digits)] = group.end()
    lengths = {length for row in _ISSUERS if row.first <= _prefix(digits, row) <= row.last for length in row.lengths}
    for length in sorted(lengths & ends.keys(), key=lambda length: (length != _CARD_USUAL_DIGITS, length)):
        if _luhn(digits[:length]):
            return ends[length]
    return len(text.rstrip(" .-")) if is_cut and lengths and len(digits) in _CARD_CUT_DIGITS else 0


_CARD_GROUP_CHARS: Final = 4
_CARD_USUAL_DIGITS: Final = 16
_CARD_CUT_DIGITS: Final = range(12, 16)


def _prefix(digits: str, issuer: _Issuer) -> int:
    return int(digits[: len(str(issuer.first))] or 0)


def _luhn(digits: str) -> bool:
    doubled = (int(digit) * 2 for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(two - 9 if two > 9 else two for two in doubled)) % 10 == 0  # noqa: PLR2004 - cross sum


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
_ALNUM: Final = re.compile("[0-9A-Za-z]")


def iban(text: str, is_cut: bool) -> int:  # noqa: FBT001 - the table's signature
    """Check country, length and the check digits (ISO 13616-1, ISO 7064 MOD 97-10)."""
    length = _IBAN_LENGTHS.get(text[:2].upper(), 0)
    places = [match.start() for match in _ALNUM.finditer(text)]
    if not length or len(places) < length:
        return len(text.rstrip(" -")) if length and is_cut and len(places) >= _IBAN_CUT_CHARS else 0
    compact = "".join(text[at] for at in places[:length])
    end = places[length - 1] + 1
    if _ALNUM.match(text, end) is not None:
        return 0
    return end if int("".join(str(int(char, 36)) for char in compact[4:] + compact[:4])) % 97 == 1 else 0


_SSN: Final = re.compile(r"(?!000|666)[0-8][0-9]{2}([- ])(?!00)[0-9]{2}\1(?!0000)[0-9]{4}(?!\1?[0-9])")


def us_ssn(text: str, _is_cut: bool) -> int:  # noqa: FBT001 - the table's signature
    """Check the ranges that are assigned: no area 000, 666 or 900 to 999, no group 00, no serial 0000."""
    match = _SSN.match(text)
    return match.end() if match is not None else 0


_BYTE: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = re.compile(rf"(?:{_BYTE}\.){{3}}{_BYTE}(?![0-9A-Za-z]|\.[0-9])")
_NO_HOSTS: Final = re.compile(r"127\.|0\.0\.0\.0|255\.255\.|::1$|::$")
_IPV6: Final = re.compile(rf"[0-9A-Fa-f:]+(?::(?:{_BYTE}\.){{3}}{_BYTE})?")
_IPV6_GROUPS: Final = 8
_IPV6_LEAST_GROUPS: Final = 3


def ip_address(text: str, _is_cut: bool) -> int:  # noqa: FBT001 - the table's signature
    """Check an address of a host (RFC 791, RFC 4291 section 2.2); loopback and netmasks name no host."""
    match = _IPV4.match(text)
    if match is None:
        found = _IPV6.match(text)
        value = found[0] if found is not None else ""
        value = value if value.endswith("::") else value.rstrip(":")
        return len(value) if _is_ipv6(value) and _NO_HOSTS.match(value) is None else 0
    return match.end() if _NO_HOSTS.match(text) is None else 0


def _is_ipv6(text: str) -> bool:
    """Return whether a text is an IPv6 address with a digit: `a::b` is code more often than an address."""
    head, dots, tail = text.partition("::")
    groups = [group for part in (head, tail) if part for group in part.split(":")]
    count = len(groups) + ("." in text)
    is_short = bool(dots) and _IPV6_LEAST_GROUPS <= count < _IPV6_GROUPS
    has_digit = any(char.isdigit() for char in text)
    return has_digit and (is_short or (not dots and count == _IPV6_GROUPS)) and all(map(_HEXTET.fullmatch, groups))


_HEXTET: Final = re.compile(r"[0-9A-Fa-f]{1,4}|[0-9.]{7,15}")

_MRZ_VALUES: Final = {char: at for at, char in enumerate("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")} | {"<": 0}
_MRZ_WEIGHTS: Final = (7, 3, 1)
_MRZ_NAMES: Final = re.compile(r"[PVIAC][A-Z<][A-Z<]{3}[A-Z]+<<[A-Z<]*<|[A-Z]+(?:<[A-Z]+)*<<[A-Z<]*<")
_MRZ_DATA: Final = re.compile(r"[A-Z0-9<]{9}[0-9<][A-Z<]{3}[0-9]{7}[MFX<][0-9]{7}[A-Z0-9<]+")
_MRZ_CARD_NUMBER: Final = re.compile(r"[IAC][A-Z0-9<][A-Z<]{3}[A-Z0-9<]{9}[0-9<][A-Z0-9<]{15}")
_MRZ_CARD_DATA: Final = re.compile(r"[0-9]{7}[MFX<][0-9]{7}[A-Z<]{3}[A-Z0-9<]{11}[0-9]")
_MRZ_LENGTHS: Final = frozenset({30, 36, 44})
_MRZ_CUT: Final = re.compile(r"P[A-Z<][A-Z]{3}[A-Z<]{5,}|[A-Z0-9<]{9}[0-9<][A-Z<]{3}[0-9]{7}[MFX<][A-Z0-9<]*")


def passport_mrz(text: str, is_cut: bool) -> int:  # noqa: FBT001 - the table's signature
    """Check one line of a machine-readable zone with its check digits (ICAO Doc 9303 parts 4 to 6)."""
    if len(text) not in _MRZ_LENGTHS:
        return len(text) if is_cut and len(text) < max(_MRZ_LENGTHS) and _MRZ_CUT.fullmatch(text) else 0
    return len(text) if any(form.fullmatch(text) and check(text) for form, check in _MRZ_FORMS) else 0


def _is_checked(text: str, *fields: tuple[int, int]) -> bool:
    return all(
        text[end]
        in {"<", str(sum(_MRZ_VALUES[char] * _MRZ_WEIGHTS[at % 3] for at, char in enumerate(text[start:end])) % 10)}
        for start, end in fields
    )


_MRZ_FORMS: Final[tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...]] = (
    (_MRZ_NAMES, lambda _text: True),
    (_MRZ_DATA, lambda text: _is_checked(text, (0, 9), (13, 19), (21, 27))),
    (_MRZ_CARD_NUMBER, lambda text: _is_checked(text, (5, 14))),
    (_MRZ_CARD_DATA, lambda text: _is_checked(text, (0, 6), (8, 14))),
)

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

EXTENSIONS: Final[Mapping[str, ExtensionEnd]] = {"phone": extension_end}
"""Name of a check -> the function that finds the extension of its values."""
