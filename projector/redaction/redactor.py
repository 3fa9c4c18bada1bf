"""The mint: the functions that make Clean values out of untrusted ones.

A `Redactor` is a policy, compiled once. It holds no state of a stream and is shared by all of them.
"""

from __future__ import annotations

import re
from typing import Final

from projector.contracts import codec
from projector.contracts.limits import NAME_MAX_CHARS
from projector.redaction import texts, trees, urls
from projector.redaction.clean import CleanArguments, Cleaned, CleanJson, CleanText
from projector.redaction.detector import Detector
from projector.redaction.filters import Said, ValueSieve
from projector.redaction.policy import Policy
from projector.redaction.stream import ArgumentStream, TextStream

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*+={0,2}")
_QUANTUM: Final = 4
"""Base64 writes three bytes as four characters."""


class Redactor:
    """What a policy says, ready to be applied; immutable."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._detector = Detector(policy)

    def identifier(self, text: str) -> CleanText:
        """Give an id of at most `id_max_chars`, without registered values; ids are not searched for formats."""
        max_chars = self.policy.limits.id_max_chars
        if self._detector.values:
            sieve = ValueSieve(self._detector.values)
            text = Said().take(sieve.feed(text) + sieve.end(), text)
        if len(text) > max_chars:
            text = texts.cut(text, max_chars)
        return CleanText(codec.scrub(text))

    def label(self, text: str, max_chars: int = NAME_MAX_CHARS) -> Cleaned[CleanText]:
        """Give a name, title, query or file name of at most `max_chars`."""
        return texts.clean(self._detector, text, max_chars)

    def text(self, text: str, max_chars: int | None = None) -> Cleaned[CleanText]:
        """Give tool text: code, string outputs, error messages. The same search as `code_stream`."""
        return texts.clean(self._detector, text, max_chars)

    def url(self, url: str) -> Cleaned[CleanText]:
        """Give a web address without credentials; one that is not http or https is withheld (CONTRACT D28)."""
        return urls.clean(self._detector, url, self.policy.limits.url_max_chars)

    def json(self, value: object, *, string_max_chars: int) -> Cleaned[CleanJson]:
        """Give a tree without sensitive values, in bounded strings, containers and depth."""
        detector, key_max_chars = self._detector, self.policy.limits.key_max_chars
        rules = trees.TreeRules(
            limits=self.policy.limits,
            string=lambda text: texts.clean(detector, text, string_max_chars),
            key=lambda text: texts.clean_key(detector, text, key_max_chars),
            verdict=detector.keys.verdict,
            numbers=detector.values.numbers,
        )
        return trees.clean(value, rules)

    def arguments(self, text: str) -> CleanArguments:
        """Give the arguments of a call that is known as a whole."""
        stream = self.argument_stream()
        stream.feed(text)
        return stream.finish().arguments

    def parsed(self, text: CleanText) -> Cleaned[CleanJson] | None:
        """Give the value that a clean JSON text holds, in bounded containers; None where it is no JSON, or null."""
        try:
            value = codec.loads_exact(text)
        except codec.CodecError:
            return None
        return None if value is None else trees.clean(value, trees.bounding(self.policy.limits, None))

    def base64(self, text: str) -> CleanText | None:
        """Give image data; None when it is not base64 in its standard alphabet, padded and without line ends."""
        return CleanText(text) if len(text) % _QUANTUM == 0 and _BASE64.fullmatch(text) else None

    def argument_stream(self) -> ArgumentStream:
        """Give the cleaner for the arguments of one call, fragment by fragment."""
        return ArgumentStream(self._detector, self.policy.limits)

    def message_stream(self) -> TextStream:
        """Give the cleaner for the model's own words, where only registered values are withheld (CONTRACT D25)."""
        return TextStream(ValueSieve(self._detector.values) if self._detector.values else None)

    def code_stream(self) -> TextStream:
        """Give the cleaner for tool code, fragment by fragment."""
        return TextStream(texts.string_sieve(self._detector))
