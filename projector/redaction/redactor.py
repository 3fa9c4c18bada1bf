"""The redactor: functions that create clean values from untrusted ones.

A `Redactor` is a compiled policy. It is stateless and shared by all streams.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

from projector.contracts import codec
from projector.contracts.limits import NAME_MAX_CHARS
from projector.redaction import whole_values
from projector.redaction.clean import CleanArguments, Cleaned, CleanJson, CleanText, cut_text
from projector.redaction.detector import Detector
from projector.redaction.filters import ValueFilter
from projector.redaction.json_filter import StringFilter
from projector.redaction.policy import Policy
from projector.redaction.steps import StepWriter
from projector.redaction.stream import ArgumentStream, TextStream, ValueStream

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*+={0,2}")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:\[\]/-]{0,127}")
_QUANTUM: Final = 4
"""Base64 writes three bytes as four characters."""


class Redactor:
    """A policy, ready to be applied; immutable.

    `secrets` are the keys of a server's configuration, which are withheld like registered values (CONTRACT D41). They
    are no part of the policy, because the policy is printed and compared.
    """

    def __init__(self, policy: Policy, secrets: Iterable[str] = ()) -> None:
        self.policy = policy
        self._secrets = tuple(secrets)
        self._detector = Detector(policy, self._secrets)

    def with_reasoning(self, reasoning: Literal["off", "summary", "full"]) -> Redactor:
        """Return a redactor that differs in the reasoning of its policy."""
        return Redactor(self.policy.model_copy(update={"reasoning": reasoning}), self._secrets)

    def identifier(self, text: str) -> CleanText:
        """Return an id of at most `id_max_chars`, without registered values; ids are not searched for formats."""
        if not self._detector.values.lacks(text):
            values = ValueFilter(self._detector.values)
            text = StepWriter().write(values.feed(text) + values.end(), text)
        return CleanText(codec.scrub(cut_text(text, self.policy.limits.id_max_chars)))

    def label(self, text: str, max_chars: int = NAME_MAX_CHARS) -> Cleaned[CleanText]:
        """Return a name, title, query or file name of at most `max_chars`."""
        return whole_values.clean_text(self._detector, text, max_chars)

    def text(self, text: str, max_chars: int | None = None) -> Cleaned[CleanText]:
        """Return clean tool text: code, string outputs, error messages. Searches as `code_stream` does."""
        return whole_values.clean_text(self._detector, text, max_chars)

    def provider_message(self, text: str) -> Cleaned[CleanText]:
        """Return an error message of a provider, without names of accounts and infrastructure (CONTRACT D41)."""
        return whole_values.clean_message(self._detector, text, self.policy.limits.error_message_max_chars)

    def plain_name(self, text: str) -> CleanText | None:
        """Return an error code, its type or a parameter; None if it is more than a name, or anything is withheld."""
        is_name = _PLAIN_NAME.fullmatch(text) is not None
        return CleanText(text) if is_name and self.provider_message(text).value == text else None

    def url(self, url: str) -> Cleaned[CleanText]:
        """Return a web address without credentials; one that is not http or https is withheld (CONTRACT D28)."""
        return whole_values.clean_url(self._detector, url, self.policy.limits.url_max_chars)

    def json(self, value: object, *, string_max_chars: int) -> Cleaned[CleanJson]:
        """Return a tree without sensitive values, in bounded strings, containers and depth."""
        return whole_values.clean_tree(value, self.policy.limits, string_max_chars, self._detector)

    def arguments(self, text: str) -> CleanArguments:
        """Return the complete arguments of a call."""
        stream = self.argument_stream()
        stream.feed(text)
        return stream.finish().arguments

    def parsed(self, text: CleanText) -> Cleaned[CleanJson] | None:
        """Parse a clean JSON text and limit its containers; return None if it is null or not JSON."""
        try:
            value = codec.loads_exact(text)
        except codec.CodecError:
            return None
        return None if value is None else whole_values.clean_tree(value, self.policy.limits, None)

    def base64(self, text: str) -> CleanText | None:
        """Return image data; None if it is not base64 in its standard alphabet, padded and without line ends."""
        return CleanText(text) if len(text) % _QUANTUM == 0 and _BASE64.fullmatch(text) else None

    def argument_stream(self) -> ArgumentStream:
        """Return a cleaner for the arguments of one call, fragment by fragment."""
        return ArgumentStream(self._detector, self.policy.limits)

    def message_stream(self) -> TextStream:
        """Return a cleaner for model output, from which only registered values are withheld (CONTRACT D25)."""
        values = self._detector.values
        return ValueStream(values) if values else TextStream(None)

    def code_stream(self) -> TextStream:
        """Return a cleaner for tool code, fragment by fragment."""
        return TextStream(StringFilter(self._detector, 1))
