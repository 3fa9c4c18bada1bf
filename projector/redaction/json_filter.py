r"""Streaming filter of JSON documents (CONTRACT D23 to D25).

The text is never rebuilt: the filter follows the grammar, and each character is shown unchanged or withheld. Little
text is held back, and each kind is limited:

    an unfinished escape                         at most 11 characters
    a possible start of a credential             until it is decided (`TextFilter`)
    a possible start of a registered number      until it is decided (`NumberFilter`)

The value of a sensitive key is not held: a mark replaces it, and the grammar finds its end.

Strings are searched with their escapes decoded, and shown with the provider's escapes: `raw_steps` converts steps over
decoded characters into steps over escapes. So `sk-\u0061...` is found as `sk-a...`, and keys are compared decoded.

A string that contains JSON is a nested document: `projector.redaction.strings` feeds the decoded text into an inner
`JsonStreamFilter`.
"""

# ruff: noqa: SLF001 - the tables of this module name the methods of its class
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from projector.contracts import codec
from projector.contracts.kinds import REDACTED
from projector.redaction import descriptions
from projector.redaction import strings as grammar
from projector.redaction.rules import MATERIAL, Verdict, is_value_of_pair, names_a_value
from projector.redaction.search import Search
from projector.redaction.spellings import STRING_RUN, UNFINISHED_ESCAPE, Step, StepBuffer
from projector.redaction.strings import (
    MAY_BE_JSON,
    EntryFilter,
    NumberFilter,
    Passed,
    StringFilter,
    Strings,
    clean_plain,
)
from projector.redaction.text_filter import Filter, TextFilter
from projector.redaction.value_ends import End, end_of
from projector.redaction.value_shapes import ANNOUNCE_CHARS

Path: TypeAlias = tuple[str | int, ...]
_Handlers: TypeAlias = dict[str, Callable[["JsonStreamFilter", str], None]]

_MATERIAL_OPENS: Final = re.compile(r'"[A-Za-z0-9_-]{0,39}')
"""The beginning of a string that may become the material of a key."""
_SHOWN_MAX_CHARS: Final = 20
"""Length of the longest value that is shown under a sensitive key (`descriptions`)."""
_MAX_PATHS: Final = 64
"""Maximum number and depth of kept paths. An event has fewer notices, and a tree fewer levels."""


class JsonStreamFilter:
    """The filter of one JSON document. After `failed` it reads no more; `rest` is the unread text.

    `withheld` are the paths of marks in the outermost document, as keys and indexes.
    """

    def __init__(self, search: Search, level: int = 0) -> None:
        self._search = search
        self._level = level
        self._read: Callable[[JsonStreamFilter, str, int], int] = JsonStreamFilter._between
        self._expect = _VALUE
        self._containers: list[_Handlers] = []  # of each open container: what may follow a value
        self._path: list[str | int] = []
        self._verdict = Verdict.PLAIN  # of the next value, from its key
        self._muted_at: int | None = None  # number of open containers at the start of a withheld value
        self._described_at: int | None = None  # the same of a description
        self._key: list[str] | None = None
        self._string: Filter | None = None
        self._string_begins = False
        self._number = NumberFilter(search)
        self._literal = ""
        self._pending = ""  # an unfinished escape, or the beginning of a value under a sensitive key
        self._content_start = ""  # of the current string
        self._strings: list[Strings | None] = []  # of each open container: the strings of an array in order
        self._passed: Passed = {}
        self._known = grammar.KnownMembers(search.is_clean, has_numbers=self._number.is_costly)
        self._pairs: dict[int, Verdict] = {}  # number of open containers -> verdict of the value that a member named
        self._steps = StepBuffer()
        self.withheld: dict[Path, None] = {}  # a set in order
        self.failed = False
        self.rest = ""

    @property
    def blank(self) -> bool:
        """Whether only blanks were read."""
        return self._expect is _VALUE and not self._containers and self._read is JsonStreamFilter._between

    @property
    def complete(self) -> bool:
        """Whether one whole value was read, with optional blanks around it."""
        return self._expect is _NOTHING

    def mark_of_rest(self, rest: str, /) -> str | None:
        """Return the mark in place of the remaining text if reading stops there; None if it may be plain text."""
        if self._muted_at is not None or (self._string is not None and self._string.goes_on(rest)):
            return ""
        verdict = self._verdict if self._key is None else self._search.keys.verdict("".join(self._key))
        return None if verdict is Verdict.PLAIN else REDACTED

    def goes_on(self, rest: str, /) -> bool:
        """Return whether a text that follows would belong to a value that is withheld."""
        return self.mark_of_rest(rest) is not None

    @property
    def ended_in(self) -> list[End]:
        """The ends of the values in which the text ended, after `end`."""
        return [] if self._string is None else self._string.ended_in

    def quick(self, text: str, /) -> int:
        """Read a piece of the inside of a string, without escapes and syntax (`Filter.quick`).

        It is exact because such a piece changes nothing but the string, whose characters are their own spelling.
        """
        string, steps = self._string, self._steps
        if string is None or self._pending or "\\" in steps.held or grammar.NOT_PLAIN.search(text) is not None:
            return -1
        if (count := string.quick(text)) >= 0:
            steps.held = (steps.held + text)[count:] if steps.held or count < len(text) else ""
            self._add_content(text)
        return count

    def feed(self, text: str, /) -> list[Step]:
        """Read a piece and return the steps that no later text can change."""
        text = self._pending + text
        self._pending = ""
        at, size = 0, len(text)
        while at < size and not self.failed:
            at = self._read(self, text, at)
        if self.failed:
            self.rest = text[at:]
        return self._steps.take()

    def end(self) -> list[Step]:
        """Return the steps over the held characters at the end of the text."""
        self._flush_string()
        if self._read is JsonStreamFilter._in_sensitive and self._pending:
            self._steps.add(len(self._pending), f'"{REDACTED}"')
            self._remember()
        else:
            self._steps.show(len(self._pending))
        self._pending = ""
        if self._read is JsonStreamFilter._in_number:
            self._steps.extend(self._number.end(at_end=True), "")
            if self._number.complete:
                self._end_value()
        return self._steps.take()

    def _remember(self) -> None:
        """Keep the path of a mark."""
        self._steps.marked = False
        if self._level == 0 and len(self.withheld) < _MAX_PATHS:
            self.withheld[tuple(self._path[:_MAX_PATHS])] = None

    # between values

    def _between(self, text: str, at: int) -> int:
        char, expect = text[at], self._expect
        if expect is not _VALUE and char in grammar.FIRST and (end := self._read_known(text, at)) > at:
            return end
        handler = expect.get(char)
        if handler is not None:
            if self._verdict is not Verdict.PLAIN and char in descriptions.FIRST and self._muted_at is None:
                self._read = JsonStreamFilter._in_sensitive
                return at
            handler(self, char)
            at += 1
            if char in ",:" and text[at : at + 1] == " ":
                self._steps.show(1)
                at += 1
            return at
        end = end_of(grammar.BLANKS, text, at)
        self._steps.show(end - at)
        self.failed = end == at
        return end

    def _read_known(self, text: str, at: int) -> int:
        """Read syntax and members that were read before; return `at` if there are none."""
        expect = self._expect
        if not self._known.keys or self._pairs or not self._is_readable:
            return at
        if text[at] == "}":
            return self._next_object(text, at) if expect is _NEXT_MEMBER else at
        is_next = expect is _NEXT_MEMBER if text[at] == "," else expect is _KEY or expect is _FIRST_KEY
        members = self._known.members(text, at) if is_next and text[at] != ":" else None
        if members is None:
            return at
        end, key = members
        if key is not None:
            self._path[-1] = key
        self._expect = _NEXT_MEMBER if key is None else _VALUE
        self._steps.show(end - at)
        return end

    def _next_object(self, text: str, at: int) -> int:
        """Read from the end of an object to the beginning of the next one in an array."""
        found = grammar.NEXT_OBJECT.match(text, at)
        if found is None or self._containers[-2:] != [_NEXT_ENTRY, _NEXT_MEMBER]:
            return at
        step = self._path[-2]
        self._path[-2:] = [step + 1 if isinstance(step, int) else step, ""]
        self._expect = _FIRST_KEY
        self._steps.show(found.end() - at)
        return found.end()

    @property
    def _is_member(self) -> bool:
        """Whether the path ends with a key, so that no other string continues this one."""
        return bool(self._path) and type(self._path[-1]) is str

    @property
    def _is_readable(self) -> bool:
        """Whether neither a withheld value nor a description is read."""
        return self._muted_at is None and self._described_at is None

    def _in_sensitive(self, text: str, at: int) -> int:
        """Show a value under a sensitive key if it is a state, empty, a count or a description; withhold others."""
        if self._verdict is Verdict.MATERIAL:
            return self._in_material(text, at)
        key, parent = self._key_and_parent()
        whole, opens = descriptions.shown_under(key, is_count=self._verdict is Verdict.SENSITIVE_UNLESS_NUMBER)
        if len(text) - at < _SHOWN_MAX_CHARS and opens.fullmatch(text, at):
            self._pending = text[at:]
            return len(text)
        shown = whole.match(text, at)
        if shown is None and text[at] == "{":
            head = descriptions.head_of(key, parent)
            if head.whole.match(text, at) is not None:
                self._verdict = Verdict.PLAIN
                if self._described_at is None and not descriptions.is_path(key):
                    self._described_at = len(self._containers)  # of its members, keywords alone are shown
            elif (found := head.opens.match(text, at)) is not None and found.end() == len(text):
                self._pending = text[at:]
                return len(text)
        self._read = JsonStreamFilter._between
        if shown is None or not self._search.is_clean(shown[0]):
            self._expect[text[at]](self, text[at])
            return at + 1
        self._verdict = Verdict.PLAIN
        self._steps.show(shown.end() - at)
        self._end_value()
        return shown.end()

    def _in_material(self, text: str, at: int) -> int:
        """Withhold a string that looks like the material of a key; read any other value as a plain one."""
        if _MATERIAL_OPENS.fullmatch(text, at) is not None:
            self._pending = text[at:]
            return len(text)
        is_secret = text[at] == '"' and MATERIAL.match(text, at + 1) is not None
        self._read = JsonStreamFilter._between
        self._verdict = Verdict.SENSITIVE if is_secret else Verdict.PLAIN
        self._expect[text[at]](self, text[at])
        return at + 1

    def _key_and_parent(self) -> tuple[str, str]:
        key, parent = self._path[-1], self._path[-2] if len(self._path) > 1 else ""
        return str(key), str(parent)

    def _begin_value(self, char: str) -> None:
        """Show the first character of a value, or the mark in place of the value."""
        if char in _CONTAINERS and self._strings:
            self._strings[-1] = None
        verdict, self._verdict = self._verdict, Verdict.PLAIN
        verdict = Verdict.PLAIN if verdict is Verdict.MATERIAL else verdict
        counts = verdict is Verdict.SENSITIVE_UNLESS_NUMBER and char in grammar.NUMBER_OPENS
        if verdict is Verdict.PLAIN or counts or self._muted_at is not None:
            self._steps.show(1)
        else:
            self._steps.add(1, f'"{REDACTED}"')
            self._remember()
            self._muted_at = len(self._containers)
            self._steps.muted = True

    def _end_value(self) -> None:
        self._read = JsonStreamFilter._between
        if self._muted_at == len(self._containers):
            self._muted_at = None
            self._steps.muted = False
        if self._described_at == len(self._containers):
            self._described_at = None
        if self._steps.marked:
            self._remember()
        self._expect = self._containers[-1] if self._containers else _NOTHING

    def _open(self, char: str) -> None:
        self._begin_value(char)
        step, self._expect, after_value = _CONTAINERS[char]
        self._containers.append(after_value)
        self._strings.append(None)
        self._path.append(step)

    def _close(self, _char: str) -> None:
        self._steps.show(1)
        self._pairs.pop(len(self._containers), None)
        self._containers.pop()
        self._strings.pop()
        self._path.pop()
        self._end_value()

    def _next(self, _char: str) -> None:
        self._steps.show(1)
        step = self._path[-1]
        self._path[-1] = step + 1 if isinstance(step, int) else step
        self._expect = _VALUE if isinstance(step, int) else _KEY

    def _colon(self, _char: str) -> None:
        self._steps.show(1)
        self._expect = _VALUE

    # strings

    def _key_string(self, _char: str) -> None:
        self._steps.show(1)
        self._read = JsonStreamFilter._in_string
        self._key = []
        self._string_begins = True

    def _value_string(self, char: str) -> None:
        self._begin_value(char)
        self._read = JsonStreamFilter._in_string
        self._string_begins = True
        self._content_start = ""

    def _in_string(self, text: str, at: int) -> int:
        if self._string_begins:
            self._string_begins = False
            if (end := self._at_once(text, at)) > at:
                return end
        run = grammar.PLAIN_RUN.match(text, at)
        end = run.end() if run else at
        if text[end : end + 1] == "\\":
            end = end_of(STRING_RUN, text, at)
        if end > at:
            self._content(text[at:end])
        if end == len(text):
            return end
        if text[end] == '"':
            self._close_string()
            return end + 1
        if UNFINISHED_ESCAPE.match(text, end):
            self._pending = text[end:]
            return len(text)
        self._flush_string()
        self.failed = True
        return end

    def _at_once(self, text: str, at: int) -> int:
        """Read a string at once if it is complete in this piece and clean, as most are; otherwise create its filter."""
        run = grammar.PLAIN_RUN.match(text, at)
        end = run.end() if run else at
        content = text[at:end]
        closed = text[end : end + 1] == '"'
        if self._muted_at is not None:
            self._string = None
        elif closed and self._passes(content):
            self._key = None if self._key is None else [content]
            self._content_start = content
            self._steps.show(end - at)
            self._string = None
            self._close_string()
            return end + 1
        elif self._key is not None or (self._is_member and content and content[0] not in MAY_BE_JSON):
            self._string = TextFilter(self._search)
        elif self._is_member or not self._path:
            self._string = string_filter(self._search, self._level + 1)
        else:
            self._string = self._entries().filter()
        return at

    def _passes(self, content: str) -> bool:
        """Return whether a complete string is certainly shown as it is."""
        if self._key is not None:
            return self._search.is_clean(content)
        if self._path and not self._is_member:
            return self._entries().passes(content)
        return content[:1] not in MAY_BE_JSON and self._search.is_clean(content)

    def _entries(self) -> Strings:
        """Return the strings of the array that is open, in order."""
        entries = self._strings[-1]
        if entries is None:
            entries = self._strings[-1] = Strings(self._search, JsonStreamFilter, self._level + 1, self._passed)
        return entries

    def _content(self, raw: str) -> None:
        decoded = raw if "\\" not in raw else codec.scrub(codec.loads(f'"{raw}"'))
        self._add_content(decoded)
        string, steps = self._string, self._steps
        if string is None:
            steps.show(len(raw))
            return
        if decoded is raw and "\\" not in steps.held and (count := string.quick(raw)) >= 0:
            steps.show(count)
            steps.held = (steps.held + raw)[count:]
            return
        steps.extend_decoded(string.feed(decoded), raw, len(decoded))
        if isinstance(string, StringFilter) and (settled := string.settled) is not None:
            self._string = settled

    def _add_content(self, decoded: str) -> None:
        if self._key is not None:
            self._key.append(decoded)
        elif len(self._content_start) <= ANNOUNCE_CHARS:
            self._content_start += decoded

    def _flush_string(self) -> None:
        if self._string is not None and ((steps := self._string.end()) or self._steps.held):
            self._steps.extend_decoded(steps, "")

    def _close_string(self) -> None:
        self._flush_string()
        string, self._string = self._string, None
        self._steps.show(1)
        if self._key is None:
            if self._muted_at is None and self._path:
                self._leave(string)
            self._end_value()
            return
        key, self._key = "".join(self._key), None
        if key in self._known.keys and not self._pairs and self._is_readable:
            self._path[-1] = key
            self._read = JsonStreamFilter._between
            self._expect = _COLON
            return
        self._verdict = self._search.keys.verdict(key)
        if self._pairs and self._verdict is Verdict.PLAIN and is_value_of_pair(key):
            self._verdict = self._pairs.get(len(self._containers), Verdict.PLAIN)
        self._path[-1] = key
        if self._described_at is not None and self._verdict is Verdict.PLAIN:
            is_shown = descriptions.is_keyword(*self._key_and_parent())
            self._verdict = Verdict.PLAIN if is_shown else Verdict.SENSITIVE
        if self._steps.marked:
            self._path[-1] = clean_plain(self._search, key)
            self._remember()
        elif self._verdict is Verdict.PLAIN and self._muted_at is None:  # what is muted was not searched
            self._known.add(key)
        self._read = JsonStreamFilter._between
        self._expect = _COLON

    def _leave(self, string: Filter | None) -> None:
        """Keep what a string leaves to the next string of its array, or to the value that it names."""
        step = self._path[-1]
        if isinstance(step, str):
            verdict = self._search.keys.verdict_of_name(self._content_start) if names_a_value(step) else Verdict.PLAIN
            if verdict is not Verdict.PLAIN:
                self._pairs[len(self._containers)] = verdict
        elif isinstance(string, EntryFilter):
            self._entries().leave(string)

    # numbers and literals

    def _number_begins(self, char: str) -> None:
        self._read = JsonStreamFilter._in_number
        self._number = NumberFilter(self._search, char)
        if self._verdict is Verdict.SENSITIVE or self._muted_at is not None:
            self._begin_value(char)
        else:
            self._verdict = Verdict.PLAIN
            self._steps.extend(self._number.feed(char), char)

    def _in_number(self, text: str, at: int) -> int:
        end = self._number.read(text, at)
        self._steps.extend(self._number.feed(text[at:end]), text[at:end])
        if end < len(text):
            self._steps.extend(self._number.end(at_end=False), "")
            self.failed = not self._number.complete
            if not self.failed:
                self._end_value()
        return end

    def _literal_begins(self, char: str) -> None:
        self._begin_value(char)
        self._read = JsonStreamFilter._in_literal
        self._literal = grammar.LITERALS[char][1:]

    def _in_literal(self, text: str, at: int) -> int:
        self.failed = text[at] != self._literal[0]
        if self.failed:
            return at
        self._steps.show(1)
        self._literal = self._literal[1:]
        if not self._literal:
            self._end_value()
        return at + 1


# allowed next character (blanks are skipped) -> its reader
_VALUE: Final[_Handlers] = {
    "{": JsonStreamFilter._open,
    "[": JsonStreamFilter._open,
    '"': JsonStreamFilter._value_string,
    **dict.fromkeys(grammar.NUMBER_OPENS, JsonStreamFilter._number_begins),
    **dict.fromkeys("tfn", JsonStreamFilter._literal_begins),
}
_FIRST_KEY: Final[_Handlers] = {'"': JsonStreamFilter._key_string, "}": JsonStreamFilter._close}
_KEY: Final[_Handlers] = {'"': JsonStreamFilter._key_string}
_COLON: Final[_Handlers] = {":": JsonStreamFilter._colon}
_NEXT_MEMBER: Final[_Handlers] = {",": JsonStreamFilter._next, "}": JsonStreamFilter._close}
_FIRST_ENTRY: Final[_Handlers] = {**_VALUE, "]": JsonStreamFilter._close}
_NEXT_ENTRY: Final[_Handlers] = {",": JsonStreamFilter._next, "]": JsonStreamFilter._close}
_NOTHING: Final[_Handlers] = {}

# opening character -> first step of the paths inside, what may come first, what after a value
_CONTAINERS: Final[dict[str, tuple[str | int, _Handlers, _Handlers]]] = {
    "{": ("", _FIRST_KEY, _NEXT_MEMBER),
    "[": (0, _FIRST_ENTRY, _NEXT_ENTRY),
}


def string_filter(search: Search, level: int = 0) -> StringFilter:
    """Return the filter of a decoded string, which is plain text or a document."""
    return StringFilter(search, JsonStreamFilter, level)


def strings_of(search: Search) -> Strings:
    """Return the strings of a list that is no JSON, such as the entries of a log."""
    return Strings(search, JsonStreamFilter, 1)
