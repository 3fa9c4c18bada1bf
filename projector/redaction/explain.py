"""Explain a policy: its rules, what it withholds in a file and why, and whether the samples of its rules hold.

The text of a file is searched by the filters of the public stream; their results are traced back to rules. A file of
JSON documents, one or one per line, is searched as the values in it, which are tool data and have no classes; any other
file is one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import REDACTED
from projector.redaction.clean import render
from projector.redaction.policy import Policy
from projector.redaction.rule_files import Entry
from projector.redaction.rules import Format, KeyRules, Rules, TextClass, Verdict, Word, merged, normal_form
from projector.redaction.scanners import mark_of
from projector.redaction.search import Search
from projector.redaction.strings import clean_plain
from projector.redaction.whole_values import Finder, Span


class Rule(NamedTuple):
    """One rule: its group, its name, and what it does."""

    group: str
    name: str
    about: str


_ALWAYS: Final = (
    Rule("text", "json-in-strings", "JSON inside a string is cleaned too, up to six levels deep"),
    Rule("text", "surrogates", "lone surrogates become U+FFFD"),
    Rule("numbers", "not-finite", "NaN and infinities become null"),
    Rule("numbers", "over-64-bits", "integers over 64 bits become strings"),
    Rule("urls", "scheme", f"only http and https are shown; any other address becomes {REDACTED}"),
    Rule("urls", "credentials", "user names, passwords and sensitive parameters are withheld"),
)
_IMAGES: Final = {
    "chunks": "image bytes are streamed in chunks",
    "host": "image bytes are left to the host, which adds an attachment",
}
_ERROR_MESSAGES: Final = {
    "auto": "messages of provider errors are ours, except on the routes of the OpenAI APIs",
    "generic": "messages of provider errors are ours",
    "provider": "messages of provider errors are shown, without names of accounts and infrastructure",
}
_REASONING: Final = {
    "off": "no reasoning of the model is shown",
    "summary": "reasoning summaries of the provider are shown",
    "full": "the reasoning text is shown in dialects that have a field for it",
}


def rules(policy: Policy) -> list[Rule]:
    """Return the rules that a policy applies, by group. Registered values are listed by their ids only."""
    formats, words, exceptions, counts, _, classes = merged(policy.own_rules)
    abouts = {row.name: row.about for row in classes}
    removed = set(map(normal_form, policy.sensitive_keys_remove))
    endings = " or ".join(word for row in counts for word in row.spellings)
    return [
        *(Rule("keys", row.name, f"{row.where} {row.name}: {row.about}") for row in words if row.name not in removed),
        *(Rule("keys", word, "added by the policy") for word in policy.sensitive_keys_add),
        *(Rule("keys", word, "not sensitive, by the policy") for word in policy.sensitive_keys_remove),
        *(Rule("formats", row.name, row.about) for row in formats if row.name not in policy.formats_off),
        *(Rule("formats", name, "switched off by the policy") for name in sorted(policy.formats_off)),
        *(Rule("values", row.id or REDACTED, "registered by the host") for row in policy.registered),
        *(
            Rule("text", name, f"{action} {abouts.get(name, 'credentials of known formats')}")
            for name, action in policy.text_actions.items()
        ),
        *_ALWAYS,
        Rule("keys", "counts", f"a key with {endings} in it that holds a number is shown"),
        Rule("keys", "exceptions", f"harmless: {', '.join(row.name for row in exceptions)}"),
        *(Rule("limits", name, str(limit)) for name, limit in policy.limits),
        Rule("images", policy.images, _IMAGES[policy.images]),
        Rule("errors", policy.error_messages, _ERROR_MESSAGES[policy.error_messages]),
        Rule("reasoning", policy.reasoning, _REASONING[policy.reasoning]),
    ]


# what a policy withholds in a file

_TEXT: Final = "text"
_BEFORE_CHARS: Final = 2_048
"""Text before a mark in which its rule is looked for; an anchor is shorter."""


class Withholding(NamedTuple):
    """One mark: its line, counted from 1, its place, and the name and source of the rule. It holds no secret."""

    line: int
    place: str
    rule: str
    source: str


_Reason: TypeAlias = tuple[str, str]
"""The name and the source of a rule."""


class Tracer:
    """Search of texts and JSON values for what a policy withholds, and the rules that do."""

    def __init__(self, policy: Policy, secrets: Iterable[str] = ()) -> None:
        self._policy = policy
        self._secrets = tuple(secrets)
        self._rules = merged(policy.own_rules)
        self._search = Search(policy, self._secrets)
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
                shown = [*path, clean_plain(self._search, key)]
                if shown[-1] != key:
                    yield from self._in_string(key, shown)
                if self._search.keys.hides(key, member):
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
                return row.id or "registered value", "registered by the host"
        if any(secret in text[span.start : span.end] for secret in self._secrets):
            return "configured secret", "the configuration of the server"
        for one in self._rules.classes:
            if span.mark == mark_of(one.name):
                return one.name, one.source
        found = self._search.format_of(text, max(0, span.start - _BEFORE_CHARS), span.start, span.end)
        if found is not None:
            return found.name, found.source
        return "address or sensitive key", "contracts/public_sse_v1, D25"

    def _reason_of_key(self, key: str) -> _Reason:
        """Return the sensitive word of a key."""
        for word in self._rules.words:
            one = Rules(words=(word,), exceptions=self._rules.exceptions, counts=self._rules.counts)
            if KeyRules(rules=one).verdict(key) is not Verdict.PLAIN:
                return word.name, word.source
        return "sensitive_keys_add", "added by the policy"


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


# samples of rules


_REST: Final = re.compile(re.escape(REDACTED) + "[-.~+=_]*[A-Za-z0-9]")
"""The rest of a credential after what was withheld of it."""


def check_samples(rules: Rules, policy: Policy) -> list[str]:
    """Return an error for each sample that a policy does not treat as its entry expects."""
    search = Search(policy)

    def shown(row: Entry, sample: str) -> str:
        of_class = search.of_prose({row.name: "mask"}, (row,)) if isinstance(row, TextClass) else None
        return clean_plain(of_class or search, sample)

    def is_withheld(row: Entry, sample: str) -> bool:
        if isinstance(row, Word):
            return search.keys.verdict(sample) is Verdict.SENSITIVE
        return shown(row, sample) != sample

    def problem(row: Entry, sample: str, *, is_match: bool) -> str:
        if is_withheld(row, sample) is not is_match:
            return f"expected to be {'withheld' if is_match else 'shown'}"
        if is_match and isinstance(row, Format) and not is_withheld(row, sample + "\n"):
            return "withheld only where the text ends: expected a sample that is as long as `pattern`"
        if is_match and isinstance(row, Format) and _REST.search(shown(row, sample)):
            return "withheld only in part: expected a `pattern` and `tail` up to its end"
        return ""

    entries: list[Entry] = [each for table in rules for each in table]
    return [
        f"`{row.name}`: `{field}` {number}: {text}"
        for row in entries
        for field, samples in (("matches", row.matches), ("harmless", row.harmless))
        for number, sample in enumerate(samples, 1)
        if (text := problem(row, sample, is_match=field == "matches"))
    ]
