"""The redactor: functions that create clean values from untrusted ones.

A `Redactor` is a compiled policy, shared by all streams. That of one stream (`for_stream`) also remembers its names.

IDs and names are searched like text, but a mark cannot stand in an ID (CONTRACT D41). One that holds a credential or a
registered value is replaced by a pseudonym, the same wherever the ID occurs in the stream. Pseudonyms are numbered in
the order of their first use. They are therefore equal in every replay, and do not depend on what they replace: a hash,
even with a key, could be searched for short values, because a key that a replay can reproduce is known to the client.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from copy import copy
from hashlib import blake2b
from typing import Final, Literal

from projector.contracts import codec
from projector.contracts.limits import NAME_MAX_CHARS
from projector.redaction import compose, whole_values
from projector.redaction.clean import (
    MARK,
    REDACTED_HERE,
    CleanArguments,
    Cleaned,
    CleanJson,
    CleanText,
    bounded,
    cut_text,
    notice,
    render,
)
from projector.redaction.json_filter import string_filter
from projector.redaction.ledger import Echo, Ledger
from projector.redaction.policy import CREDENTIALS, Policy
from projector.redaction.rules import merged
from projector.redaction.search import Search
from projector.redaction.streams import ArgumentStream, MessageStream, Seam, TextStream, echo_of
from projector.redaction.strings import clean_plain

_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*+={0,2}")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:\[\]/-]{0,127}")
_RANDOM_ID: Final = re.compile(r"stream_[0-9a-f]{32}")  # as `build_pipeline` makes them (CONTRACT D2)
_QUANTUM: Final = 4
"""Base64 writes three bytes as four characters."""
KNOWN_MAX: Final = 512
"""IDs that are remembered as clean. Deltas of an item do not ask again, so more would save little."""
CLEAN_NAMES_MAX: Final = 1_024
"""Names that all streams of a policy remember as clean: roles, models, tools and agents. A search of one takes longer
than anything else in the set-up of a short stream."""
CLEAN_NAME_MAX_CHARS: Final = 64
"""Length of a name that is remembered; those of tools have at most as many."""
READ_MAX_CHARS: Final = 4_096
"""Characters of an ID that are searched; of a longer one no more is ever shown."""


class Redactor:
    """A policy, ready to be applied.

    `secrets` are the keys of a server's configuration, which are withheld like registered values (CONTRACT D41). They
    are no part of the policy, because the policy is printed and compared.
    """

    def __init__(self, policy: Policy, secrets: Iterable[str] = ()) -> None:
        self.policy = policy
        self._secrets = tuple(secrets)
        self._search = Search(policy, self._secrets)
        self._ids: dict[str, CleanText] = {}
        self._pseudonyms: dict[bytes, CleanText] | None = None  # None: no stream, which would remember its names
        self.replaced: AbstractSet[str] = frozenset()
        """Pseudonyms and marked names of this stream: a frame that contains one needs a notice."""
        self._clean_names: dict[str, CleanText] = {}
        self._plain_names: dict[str, CleanText] = {}
        """Codes and types of errors that are clean: providers have few of them."""
        self._values = self._search.of_values(self._search.values)
        self._actions = actions = policy.text_actions
        self._prose = self._search.of_prose(actions, merged(policy.own_rules).classes) if actions else None
        masked = {name: "mask" if action == "block" else action for name, action in actions.items()}
        self._message_actions = {} if actions.keys() == {CREDENTIALS} else masked
        """Those of error messages, in which no credentials are left; empty if there are no others."""
        self._structured = self._search.of_classes(self._prose.rows, self._prose.reported) if self._prose else None
        self._echo: Echo | None = None

    def compile(self) -> None:
        """Compile the rules now. Otherwise it is done on first use, which holds its thread for up to 0.3 s."""
        for search in (self._search, self._prose, self._structured):
            if search is not None:
                search.compile()

    def for_stream(self) -> Redactor:
        """Return a redactor with the same policy for one stream, whose IDs have the same pseudonyms everywhere."""
        redactor = Redactor.__new__(type(self))
        redactor.__dict__.update(self.__dict__)  # a fifth of the time of `copy`
        redactor._ids, redactor._pseudonyms, redactor.replaced = {}, {}, set()  # noqa: SLF001 - of this class
        return redactor

    def for_request(self, body: object, key: bytes, *, host_adds: bool = False) -> Redactor:
        """Return a redactor for the answer to a request: values of the caller may pass, if the policy says so (D40).

        Args:
            body: the request.
            key: a random key; values are kept as hashes with it.
            host_adds: whether instructions, tools and system messages of the body are those of the host.
        """
        if self._prose is None or self.policy.echo == "off":
            return self
        redactor = copy(self)
        redactor._echo = echo_of(self._prose, _texts_of(body, _OF_THE_HOST if host_adds else ()), key)  # noqa: SLF001 - of this class
        return redactor

    def with_reasoning(self, reasoning: Literal["off", "summary", "full"]) -> Redactor:
        """Return a redactor that differs in the reasoning of its policy."""
        return Redactor(self.policy.model_copy(update={"reasoning": reasoning}), self._secrets)

    def identifier(self, text: str) -> CleanText:
        """Return an ID of at most `id_max_chars`; one that holds something withheld is replaced by a pseudonym."""
        found = self._ids.get(text)
        if found is not None:
            return found
        max_chars = self.policy.limits.id_max_chars
        read = codec.scrub(text[:READ_MAX_CHARS])
        if not self._search.is_clean(read) and clean_plain(self._search, read) != read:
            return self._pseudonym(text)
        clean = CleanText(cut_text(read, max_chars))
        if len(text) <= max_chars and self._pseudonyms is not None and len(self._ids) < KNOWN_MAX:
            self._ids[text] = clean
        return clean

    def _pseudonym(self, text: str) -> CleanText:
        pseudonyms = {} if self._pseudonyms is None else self._pseudonyms
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()  # an ID may be very long
        found = pseudonyms.get(key)
        if found is None:
            found = pseudonyms[key] = CleanText(f"redacted_{len(pseudonyms) + 1}")
            self._replace_with(found)
        return found

    def _replace_with(self, name: CleanText) -> None:
        """Remember in a stream that a name stands for something withheld."""
        if isinstance(self.replaced, set):
            self.replaced.add(name)

    def stream_identifier(self, text: str) -> CleanText:
        """Return the ID of a stream. A random one is not searched: any short value is in it now and then."""
        return CleanText(text) if _RANDOM_ID.fullmatch(text) else self.identifier(text)

    def noted_identifier(self, text: str) -> Cleaned[CleanText]:
        """Return an ID with its notice, for a place inside a tree."""
        stream = self if self._pseudonyms is not None else self.for_stream()
        found = stream.identifier(text)
        return Cleaned(found, REDACTED_HERE if found in stream.replaced else ())

    def name(self, text: str) -> CleanText:
        """Return a name that frames repeat without notices of its own, such as that of a tool: see `replaced`."""
        known = self._clean_names.get(text)
        if known is not None:
            return known
        cleaned = self.label(text)
        if REDACTED_HERE[0] in cleaned.notices:
            self._replace_with(cleaned.value)
        elif not cleaned.notices and len(text) <= CLEAN_NAME_MAX_CHARS and len(self._clean_names) < CLEAN_NAMES_MAX:
            self._clean_names[text] = cleaned.value
        return cleaned.value

    def label(self, text: str, max_chars: int = NAME_MAX_CHARS) -> Cleaned[CleanText]:
        """Return a name, title, query or file name of at most `max_chars`."""
        return whole_values.clean_text(self._search, text, max_chars)

    def text(self, text: str, max_chars: int | None = None) -> Cleaned[CleanText]:
        """Return clean tool text: code, string outputs, error messages. Searches as `code_stream` does."""
        return whole_values.clean_text(self._search, text, max_chars)

    def texts(self, texts: Iterable[str], max_chars: int | None = None) -> list[Cleaned[CleanText]]:
        """Return texts that follow each other, as entries of a log, cleaned as one context and each cut to a limit."""
        return whole_values.clean_continued(self._search, texts, max_chars)

    def provider_message(self, text: str) -> Cleaned[CleanText]:
        """Return an error message of a provider, without names of accounts and infrastructure (CONTRACT D41).

        It is for pages and logs, and repeats what it refuses: classes that the policy blocks are masked, and values of
        the caller do not pass.
        """
        message = whole_values.clean_message(self._search, text, self.policy.limits.error_message_max_chars)
        if self._prose is None or not self._message_actions:
            return message
        return _again(message, MessageStream(self._prose, Ledger(self._message_actions, None)))

    def plain_name(self, text: str) -> CleanText | None:
        """Return an error code, its type or a parameter; None if it is more than a name, or anything is withheld."""
        known = self._plain_names.get(text)
        if known is None and _PLAIN_NAME.fullmatch(text) is not None and self.provider_message(text).value == text:
            known = CleanText(text)
            if len(self._plain_names) >= CLEAN_NAMES_MAX:
                self._plain_names.clear()  # mostly IDs of requests, of which each occurs once
            self._plain_names[text] = known
        return known

    def url(self, url: str) -> Cleaned[CleanText]:
        """Return a web address without credentials; one that is not http or https is withheld (CONTRACT D28)."""
        return whole_values.clean_url(self._search, url, self.policy.limits.url_max_chars)

    def json(self, value: object, *, string_max_chars: int, tool: str | None = None) -> Cleaned[CleanJson]:
        """Return a tree without sensitive values, in bounded strings, containers and depth.

        `tool` is the type of the item of a call that the client runs: see `Policy.arguments_as_sent`.
        """
        return whole_values.clean_tree(value, self.policy.limits, string_max_chars, self._search_in(tool))

    def arguments(self, text: str) -> CleanArguments:
        """Return the complete arguments of a call."""
        stream = self.argument_stream()
        stream.feed(text)
        return stream.finish().arguments

    def parsed(self, text: Cleaned[CleanText]) -> Cleaned[CleanJson] | None:
        """Parse a clean JSON text; return None if it is null or not JSON.

        The tree is searched too: in the text a registered value may be written with escapes (CONTRACT D40). Marks of
        the text have notices at their places in the tree.
        """
        try:
            value = codec.loads_exact(text.value)
        except codec.CodecError:
            return None
        if value is None:
            return None
        tree = whole_values.clean_tree(value, self.policy.limits, None, self._search)
        marked = [notice("redacted", render(path)) for path in _marked(tree.value)] if text.notices else []
        return Cleaned(tree.value, bounded([*marked, *tree.notices]))

    def base64(self, text: str) -> CleanText | None:
        """Return image data; None if it is not base64 in its standard alphabet, padded and without line ends."""
        return CleanText(text) if len(text) % _QUANTUM == 0 and _BASE64.fullmatch(text) else None

    def argument_stream(self, tool: str | None = None) -> ArgumentStream:
        """Return a cleaner for the arguments of one call, fragment by fragment.

        `tool` is the name of a tool that the client runs: see `Policy.arguments_as_sent`.
        """
        return ArgumentStream(self._search_in(tool), self.policy.limits)

    def _search_in(self, tool: str | None) -> Search:
        return self._values if tool in self.policy.arguments_as_sent else self._search

    def message_stream(self, seam: Seam | None = None, message: object = None) -> TextStream:
        """Return a cleaner for text that people read: registered values, and what the policy's `text` names (D40).

        Texts of one `seam` are those that clients join: with nothing if they are of one `message`, else with nothing or
        a blank line.
        """
        if self._prose is None:
            return self.value_stream(seam, message)
        return MessageStream(self._prose, Ledger(self._actions, self._echo), seam, message)

    def value_stream(self, seam: Seam | None = None, message: object = None) -> TextStream:
        """Return a cleaner from which only registered values are withheld."""
        if not self._search.values:
            return TextStream(None)
        return MessageStream(self._values, Ledger({}, None), seam, message)

    def shown_text(self, text: Cleaned[CleanText]) -> Cleaned[CleanText]:
        """Return a clean short text that people read, such as a title, without what the policy's `text` names."""
        return text if self._prose is None else _again(text, self.message_stream())

    def rejoined(self, text: Cleaned[CleanText]) -> Cleaned[CleanText]:
        """Search clean texts again after they were joined: texts that grew at the same time may form a value."""
        return _again(text, self.value_stream()) if self._search.values else text

    def structured_stream(self) -> TextStream:
        """Return a cleaner for a structured output: the text is searched as the tree that clients parse (D40)."""
        if self._structured is None or not self._structured.rows:
            return self.code_stream()
        ledger = Ledger(self._actions, self._echo, of_classes=True)
        return TextStream(string_filter(self._structured, 1), ledger)

    def code_stream(self, tool: str | None = None) -> TextStream:
        """Return a cleaner for tool code, or for the input of a `tool` that the client runs, fragment by fragment."""
        return TextStream(string_filter(self._search_in(tool), 1))


def _again(text: Cleaned[CleanText], stream: TextStream) -> Cleaned[CleanText]:
    """Return a clean text, searched again by a stream."""
    cleaned = compose.joined(stream.feed(text.value), stream.close())
    return Cleaned(cleaned.value, bounded([*text.notices, *cleaned.notices]))


_OF_THE_HOST: Final = ("instructions", "tools", "system", "developer")
"""Members of a request, and roles of messages, that the host may have added."""


def _texts_of(body: object, hidden: tuple[str, ...]) -> Iterator[str]:
    """Yield the texts of a request, the last one first, except in some members and in messages of some roles."""
    unread = [body]
    while unread:
        value = unread.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | tuple):
            unread.extend(value)
        elif isinstance(value, Mapping) and value.get("role") not in hidden:
            unread.extend(member for name, member in value.items() if name not in hidden)


def _marked(tree: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of the marks in a clean tree."""
    if isinstance(tree, str):
        if MARK.search(tree):
            yield path
    elif isinstance(tree, dict):
        for key, member in tree.items():
            yield from _marked(member, (*path, key))
    elif isinstance(tree, list):
        for at, entry in enumerate(tree):
            yield from _marked(entry, (*path, at))
