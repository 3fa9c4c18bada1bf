"""The mint: the only functions that make Clean values out of untrusted ones.

A `Redactor` is a policy, compiled once; it holds no state of a stream and is shared by all of them.
"""

from __future__ import annotations

import math
import re
from typing import Final

from contracts import codec
from contracts.kinds import REDACTED
from contracts.limits import NAME_MAX_CHARS
from redaction.clean import (
    REDACTED_HERE,
    TRUNCATED_HERE,
    CleanArguments,
    Cleaned,
    CleanJson,
    CleanText,
    Notice,
    bounded,
    notice,
)
from redaction.formats import FORMATS
from redaction.policy import Policy
from redaction.rules import KeyRules, Verdict
from redaction.stream import ArgumentStream, TextStream

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def join_key(path: str, key: str) -> str:
    """Give the path of a member; moves to `contracts.paths`."""
    return f"{path}.{key}" if _PLAIN_KEY.fullmatch(key) else f"{path}[{codec.dumps(key).decode()}]"


def join_index(path: str, index: int) -> str:
    """Give the path of an entry; moves to `contracts.paths`."""
    return f"{path}[{index}]"


_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*+={0,2}")
_INT64: Final = range(-(2**63), 2**64)


class Redactor:
    """What a policy says, ready to be applied. Immutable, shared by all streams."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._keys = KeyRules(policy.sensitive_keys_add, policy.sensitive_keys_remove)
        self._values = [
            (row.value.get_secret_value(), f"[REDACTED:{row.id}]" if row.id else REDACTED) for row in policy.registered
        ]
        on = [row.pattern for row in FORMATS if row.name not in policy.formats_off]
        self._formats = re.compile("|".join(on) or "(?!)")

    def identifier(self, text: str) -> CleanText:
        """Give an id: at most `id_max_chars`, without lone surrogates and registered values."""
        text = codec.scrub(text[: self.policy.limits.id_max_chars])
        return CleanText(self._withhold_values(text))

    def label(self, text: str, max_chars: int = NAME_MAX_CHARS) -> Cleaned[CleanText]:
        """Give a name, title, query or file name of at most `max_chars`."""
        return self.text(text, max_chars)

    def text(self, text: str, max_chars: int | None = None) -> Cleaned[CleanText]:
        """Give tool text: code, output, error messages."""
        clean = self._search(text)
        notices = REDACTED_HERE if clean != codec.scrub(text) else ()
        if max_chars is not None and len(clean) > max_chars:
            return Cleaned(CleanText(clean[:max_chars]), notices + TRUNCATED_HERE)
        return Cleaned(CleanText(clean), notices)

    def url(self, url: str) -> Cleaned[CleanText]:
        """Give a web address; one that is not http or https is withheld (CONTRACT D28)."""
        if not url[:8].lower().startswith(("http://", "https://")):
            return Cleaned(CleanText(REDACTED), REDACTED_HERE)
        return self.text(url, self.policy.limits.url_max_chars)

    def json(self, value: object, *, string_max_chars: int) -> Cleaned[CleanJson]:
        """Give a tree without sensitive values, of bounded strings, containers and depth."""
        notices: list[Notice] = []
        clean = self._tree(value, "", string_max_chars, self.policy.limits.container_max_depth, notices)
        return Cleaned(CleanJson(clean), bounded(notices))

    def arguments(self, text: str) -> CleanArguments:
        """Give the arguments of a call, known as a whole."""
        stream = self.argument_stream()
        stream.feed(text)
        return stream.finish().arguments

    def base64(self, text: str) -> CleanText | None:
        """Give image data; None when it is not base64."""
        return CleanText(text) if len(text) % 4 == 0 and _BASE64.fullmatch(text) else None

    def argument_stream(self) -> ArgumentStream:
        """Give a cleaner for the arguments of one call, fragment by fragment."""
        return ArgumentStream(self)

    def message_stream(self) -> TextStream:
        """Give a cleaner for text of the model: only registered values are withheld."""
        return TextStream(self._withhold_values)

    def code_stream(self) -> TextStream:
        """Give a cleaner for tool code."""
        return TextStream(self._search)

    def _withhold_values(self, text: str) -> str:
        for value, mark in self._values:
            text = text.replace(value, mark)
        return text

    def _search(self, text: str) -> str:
        return self._formats.sub(REDACTED, self._withhold_values(codec.scrub(text)))

    def _tree(self, value: object, path: str, max_chars: int, depth: int, notices: list[Notice]) -> object:
        limits = self.policy.limits
        if isinstance(value, str):
            clean = self.text(value, max_chars)
            notices += [n._replace(path=path) for n in clean.notices]
            return clean.value
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if value in _INT64 else str(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, dict):
            if depth == 0 or len(value) > limits.container_max_entries:
                notices.append(notice("truncated", path))
            tree: dict[str, object] = {}
            for raw, item in list(value.items())[: limits.container_max_entries if depth else 0]:
                key = self._search(str(raw))[: limits.key_max_chars]
                place = join_key(path, key)
                if self._keys.verdict(str(raw)) is Verdict.SENSITIVE:
                    notices.append(notice("redacted", place))
                    tree[key] = REDACTED
                else:
                    tree[key] = self._tree(item, place, max_chars, depth - 1, notices)
            return tree
        if isinstance(value, list | tuple):
            if depth == 0 or len(value) > limits.container_max_entries:
                notices.append(notice("truncated", path))
            items = value[: limits.container_max_entries if depth else 0]
            return [
                self._tree(item, join_index(path, i), max_chars, depth - 1, notices) for i, item in enumerate(items)
            ]
        notices.append(notice("redacted", path))
        return None
