"""IDs and names of one stream: searched like text, but a mark cannot stand in an ID (CONTRACT D41).

An ID that holds a credential or a registered value is replaced by a pseudonym, the same wherever the ID occurs in the
stream. Pseudonyms are numbered in the order of their first use. They are therefore equal in every replay, and do not
depend on what they replace: a hash, even with a key, could be searched for short values, because a key that a replay
can reproduce is known to the client.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from projector.contracts import codec
from projector.redaction.clean import REDACTED_HERE, Cleaned, CleanText, cut_text
from projector.redaction.search import Search
from projector.redaction.strings import clean_plain
from projector.redaction.whole_values import clean_text

KNOWN_MAX: Final = 512
"""IDs that are remembered as clean. Deltas of an item do not ask again, so more would save little."""
CLEAN_NAMES_MAX: Final = 1_024
"""Names that all streams of a policy remember as clean: roles, models, tools and agents. A search of one takes longer
than anything else in the set-up of a short stream."""
CLEAN_NAME_MAX_CHARS: Final = 64
"""Length of a name that is remembered; those of tools have at most as many."""
READ_MAX_CHARS: Final = 4_096
"""Characters of an ID that are searched; of a longer one no more is ever shown."""


class Names:
    """The IDs and names of one stream.

    Args:
        search: the compiled policy.
        max_chars: limit of an ID.
        clean_names: names in which nothing is withheld, shared with other streams of the policy.
    """

    __slots__ = ("_clean_names", "_known", "_max_chars", "_pseudonyms", "_search", "replaced")

    def __init__(self, search: Search, max_chars: int, clean_names: dict[str, CleanText]) -> None:
        self._search = search
        self._max_chars = max_chars
        self._clean_names = clean_names
        self._known: dict[str, CleanText] = {}
        self._pseudonyms: dict[bytes, CleanText] = {}
        self.replaced: set[str] = set()
        """Pseudonyms, and names with a mark: a frame that contains one needs a notice."""

    def identifier(self, text: str) -> CleanText:
        """Return an ID of at most `max_chars`, or its pseudonym if something in it is withheld."""
        found = self._known.get(text)
        if found is not None:
            return found
        read = codec.scrub(text[:READ_MAX_CHARS])
        if not self._search.is_clean(read) and clean_plain(self._search, read) != read:
            return self._pseudonym(text)
        clean = CleanText(cut_text(read, self._max_chars))
        if len(text) <= self._max_chars and len(self._known) < KNOWN_MAX:
            self._known[text] = clean
        return clean

    def name(self, text: str, max_chars: int) -> CleanText:
        """Return a name of at most `max_chars`, with marks in place of what is withheld."""
        known = self._clean_names.get(text)
        if known is not None and len(known) <= max_chars:
            return known
        cleaned = clean_text(self._search, text, max_chars)
        if REDACTED_HERE[0] in cleaned.notices:
            self.replaced.add(cleaned.value)
        elif cleaned.value == text and not cleaned.notices:
            self._remember(cleaned.value)
        return cleaned.value

    def _remember(self, name: CleanText) -> None:
        if len(name) <= CLEAN_NAME_MAX_CHARS and len(self._clean_names) < CLEAN_NAMES_MAX:
            self._clean_names[name] = name

    def noted(self, text: str) -> Cleaned[CleanText]:
        """Return an ID with its own notice, for a place inside a tree."""
        found = self.identifier(text)
        return Cleaned(found, REDACTED_HERE if found in self.replaced else ())

    def _pseudonym(self, text: str) -> CleanText:
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()  # an ID may be very long
        found = self._pseudonyms.get(key)
        if found is None:
            found = self._pseudonyms[key] = CleanText(f"redacted_{len(self._pseudonyms) + 1}")
            self.replaced.add(found)
        return found
