"""What a policy withholds in a file, with the rule that did it, for `projector explain --redaction`.

The text itself is searched by the filters of the public stream; here their results are traced back to rules. A file of
JSON documents, one or one per line, is searched as the values in it, which are tool data and have no classes; any other
file is one text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from projector.contracts import codec
from projector.redaction.clean import render
from projector.redaction.detector import Detector
from projector.redaction.filters import clean_plain
from projector.redaction.policy import Policy
from projector.redaction.rules import KeyRules, Rules, Verdict, merged
from projector.redaction.spans import Finder, Span
from projector.redaction.text_filter import mark_of

_TEXT: Final = "text"
_BEFORE_CHARS: Final = 2_048
"""Text before a mark in which its rule is looked for; an anchor is shorter."""


class Withholding(NamedTuple):
    """One mark: its line, counted from 1, its place, and the name and source of the rule. It holds no secret."""

    line: int
    place: str
    rule: str
    source: str


class _Reason(NamedTuple):
    rule: str
    source: str


class Tracer:
    """Search of texts and JSON values for what a policy withholds, and the rules that do."""

    def __init__(self, policy: Policy, secrets: Iterable[str] = ()) -> None:
        self._policy = policy
        self._secrets = tuple(secrets)
        self._rules = merged(policy.own_rules)
        self._detector = Detector(policy, self._secrets)
        self._finder = Finder(policy, secrets=self._secrets)

    def file(self, text: str) -> Iterator[Withholding]:
        """Yield each withholding in the content of a file, in order."""
        documents = _documents(text)
        if documents is None:
            for span in self._finder.spans(text):
                yield Withholding(text.count("\n", 0, span.start) + 1, _TEXT, *self._reason_of(text, span))
            return
        for line, document in documents:
            for place, reason in self._in_value(document, []):
                yield Withholding(line, place or ".", *reason)

    def _in_value(self, value: object, path: list[str | int]) -> Iterator[tuple[str, _Reason]]:
        if isinstance(value, str):
            yield from self._in_string(value, path)
        elif isinstance(value, dict):
            for key, member in value.items():
                shown = [*path, clean_plain(self._detector, key)]
                if shown[-1] != key:
                    yield from self._in_string(key, shown)
                if self._detector.keys.hides(key, member):
                    yield render(shown), self._reason_of_key(key)
                else:
                    yield from self._in_value(member, shown)
        elif isinstance(value, list):
            for index, entry in enumerate(value):
                yield from self._in_value(entry, [*path, index])

    def _in_string(self, text: str, path: list[str | int]) -> Iterator[tuple[str, _Reason]]:
        document = _container(text)
        if document is not None:
            yield from self._in_value(document, path)
            return
        for span in self._finder.tool_spans(text):
            yield render(path), self._reason_of(text, span)

    def _reason_of(self, text: str, span: Span) -> _Reason:
        """Return the rule of a mark: a registered or configured value, a class, a format, or a sensitive key."""
        for row in self._policy.registered:
            if row.value.get_secret_value() in text[span.start : span.end]:
                return _Reason(row.id or "registered value", "registered by the host")
        if any(secret in text[span.start : span.end] for secret in self._secrets):
            return _Reason("configured secret", "the configuration of the server")
        for one in self._rules.classes:
            if span.mark == mark_of(one.name):
                return _Reason(one.name, one.source)
        at = max(0, span.start - _BEFORE_CHARS)
        while (found := self._detector.find(text, at, at_end=True)) is not None and found.start < span.end:
            if found.row is not None and found.end >= span.start:
                return _Reason(found.row.name, found.row.source)
            at = found.start + 1
        return _Reason("address or sensitive key", "contracts/public_sse_v1, D25")

    def _reason_of_key(self, key: str) -> _Reason:
        """Return the sensitive word of a key."""
        for word in self._rules.words:
            one = Rules(words=(word,), exceptions=self._rules.exceptions, counts=self._rules.counts)
            if KeyRules(rules=one).verdict(key) is not Verdict.PLAIN:
                return _Reason(word.name, word.source)
        return _Reason("sensitive_keys_add", "added by the policy")


def _documents(text: str) -> list[tuple[int, object]] | None:
    """Return the JSON documents of a file with their lines: one, or one per line; None for any other text."""
    whole = _container(text)
    if whole is not None:
        return [(1, whole)]
    lines = [(number, line.removeprefix("data:")) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    documents = [(number, _container(line)) for number, line in lines]
    return documents if documents and all(document is not None for _, document in documents) else None


def _container(text: str) -> object:
    """Return the object or list that a text is as JSON, or None."""
    if text.lstrip()[:1] not in {"{", "["}:
        return None
    try:
        return codec.loads(text)
    except ValueError:
        return None
