"""Web addresses in citations and sources (CONTRACT D28)."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, unquote_plus

from projector.contracts import codec
from projector.contracts.kinds import REDACTED
from projector.redaction import texts
from projector.redaction.clean import REDACTED_HERE, TRUNCATED_HERE, Cleaned, CleanText, bounded
from projector.redaction.detector import Detector
from projector.redaction.rules import Verdict

# The host part ends where a browser says so: at a backslash too.
_WEB: Final = re.compile(
    r"\s*(?P<scheme>https?://)(?P<user>[^/?#\\]*@)?(?P<host>[^/?#\\]*)(?P<path>[^?#]*)(?P<parameters>.*)",
    re.IGNORECASE | re.DOTALL,
)
_READ_TIMES: Final = 2
"""So many times its limit is read of an address; marks are seldom longer than what they stand for."""
_PARAMETERS: Final = re.compile(r"([?&;#])([^?&;#]*)")


def clean(detector: Detector, url: str, max_chars: int) -> Cleaned[CleanText]:
    """Give an address without user name and password, and without the values of sensitive parameters."""
    web = _WEB.fullmatch(codec.scrub(url[: _READ_TIMES * max_chars]))
    if web is None:
        return Cleaned(CleanText(REDACTED), REDACTED_HERE)
    user = f"{REDACTED}@" if web["user"] else ""
    path = _part(detector, web["path"], unquote(web["path"]))
    parameters = _PARAMETERS.sub(lambda part: part[1] + _parameter(detector, part[2]), web["parameters"])
    said = web["scheme"] + user + web["host"] + path + parameters
    cleaned = texts.clean(detector, said, max_chars)
    notices = cleaned.notices if said == web[0].lstrip() else REDACTED_HERE + cleaned.notices
    if len(url) > _READ_TIMES * max_chars:
        notices += TRUNCATED_HERE
    return Cleaned(cleaned.value, bounded(notices))


def _parameter(detector: Detector, text: str) -> str:
    """Give one parameter of a query or fragment; its name counts as the key of an object does."""
    name, equals, value = text.partition("=")
    if equals and detector.keys.verdict(unquote_plus(name)) is not Verdict.PLAIN:
        return f"{name}={REDACTED}"
    return name + equals + _part(detector, value, unquote_plus(value))


def _part(detector: Detector, text: str, decoded: str) -> str:
    """Give a part of an address; withheld as a whole where its percent-encoding hides something."""
    if text == decoded or not texts.clean(detector, decoded).notices:
        return text
    return REDACTED
