r"""Spellings of characters, and the text that a reader sees behind them.

`jane%40example.com` in an address, `jane&#64;example.com` in HTML, `jane\u0040example.com` in JSON, `sk\_live` in
Markdown and `p<zero-width space>assword` are read as other characters than are written. Where a text has such
spellings it is searched twice, as it is written and as it is read, and what either reading finds is withheld: a
registered value may have such characters itself, and an escape ends a word for some programs (`\nghp_..`) and is part
of it for others. A `Decoder` is the second reading; it leads back to the text as it is written.

What filters decide are steps over a text (`Step`). They are applied here: to the text, to the escapes that spell it in
JSON, and to positions in it; and those of several filters are merged.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from projector.redaction.value_ends import Continued, State, is_reported, rest_of

Step: TypeAlias = tuple[int, str | None]
"""A decision about the next characters of a text: `(n, None)` shows n of them, `(n, mark)` shows the mark in their
place, and an empty mark drops them. Characters that no step covers yet are held."""

INVISIBLE: Final = (
    "\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20e3\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
"""Characters that a reader does not see, as part of a class: controls, and Default_Ignorable_Code_Point of Unicode; and
the box around a digit of an emoji."""
_FORMS: Final = "\uff0b\uff0d-\uff19\uff1d\uff20-\uff3a\uff3f\uff41-\uff5a\U0001d400-\U0001d7ff"
"""Full-width letters, digits and signs of secrets, and mathematical letters and digits, as part of a class."""
_HEX: Final = "[0-9a-fA-F]"
_PAIR: Final = rf"u[dD][89abAB]{_HEX}{{2}}\\{{1,64}}+u[dD][c-fC-F]{_HEX}{{2}}"
_PAIR_BEGINS: Final = rf"u[dD][89abAB]{_HEX}{{2}}(?:\\{{1,64}}+(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?"
_BRACES: Final = rf"u\{{0{{0,2}}(?![dD][89a-fA-F]{_HEX}{{2}}\}})(?:{_HEX}{{1,5}}|10{_HEX}{{4}})\}}"
_LONG: Final = rf"U00(?!00[dD][89a-fA-F])(?:0{_HEX}|10){_HEX}{{4}}"
_COLOUR: Final = r"\[[0-9;:?]{0,24}"
_ESC: Final = r"(?:x1[bB]|u001[bB]|u\{1[bB]\}|033|e)"
"""How strings of programs spell the character that begins a control sequence."""
_NEXT: Final = f"%[89abAB]{_HEX}"
_UTF8: Final = rf"(?:[cC][2-9a-fA-F]|[dD]{_HEX}|[eE]{_HEX}{_NEXT}|[fF][0-4](?:{_NEXT}){{2}}){_NEXT}"
_UTF8_BEGINS: Final = rf"(?:[c-fC-F]|(?:[c-fC-F]{_HEX}|[eE]{_HEX}{_NEXT}|[fF][0-4](?:{_NEXT}){{1,2}})(?:%[89abAB]?)?)"
_ENTITY_BEGINS: Final = rf"(?:\#[0-9]{{0,7}}|\#[xX]{_HEX}{{0,6}}|[A-Za-z]{{0,24}})"
_CODE: Final = "(?:2[1345ABDEFabdef]|3[0-9ADFadf]|4[0-9A-Fa-f]|5[0-9AEFaef]|6[1-9A-Fa-f]|7[0-9ACEace])"


def _spelled(code: str, controls: str) -> re.Pattern[str]:
    """Return the expression for spellings, given that of the digits after `%` and the letters of controls."""
    return re.compile(
        rf"[{INVISIBLE}]+|[{_FORMS}]"
        rf"|\x1b(?:{_COLOUR}[A-Za-z]|[()][0-9A-Za-z])"  # of a terminal: ECMA-48, control sequences; ECMA-35, alphabets
        r"|(?<!\\)\\{1,64}+(?:"  # at any level of strings
        rf"{_ESC}{_COLOUR}[A-Za-z]|(?!{_ESC}(?:{_COLOUR})?\Z)(?:{_PAIR}"
        rf"|u(?![dD][89a-fA-F]){_HEX}{{4}}|x{_HEX}{{2}}|{_BRACES}|{_LONG}|[01][0-7]{{2}}"
        rf"|[{controls}_*.@~+#()-]|\r?\n))"  # control characters, the escapes of Markdown, a line that goes on
        rf"|&(?!(?:amp;){{1,2}}{_ENTITY_BEGINS}\Z)(?:amp;){{0,2}}"  # HTML that was escaped again
        rf"(?:\#[0-9]{{1,7}}(?:;|(?=[^0-9;]))|\#[xX]{_HEX}{{1,6}}(?:;|(?=[^0-9a-fA-F;]))|[A-Za-z]{{2,24}};)"
        rf"|%(?:25{code}|(?!25[02-7]?\Z){code}|{_UTF8}|u(?![dD][89a-fA-F]){_HEX}{{4}})"  # redirects encode twice
    )


SPELLED: Final = _spelled(f"(?:[2-7]{_HEX}|0[9ADad])", "bfnrtv")
"""All spellings."""
SPELLED_IN_SECRETS: Final = _spelled(_CODE, "")
"""Those in keys and secrets. Blanks, quotes, brackets and `&` would end one, so they stay as they are written."""
MAY_BE_SPELLED: Final = re.compile(rf"[\\&%\x1b{INVISIBLE}{_FORMS}]")
"""First characters of all spellings; most texts have none."""
UNFINISHED: Final = re.compile(
    rf"(?:\x1b(?:{_COLOUR}|[()])?"
    rf"|(?<!\\)\\{{1,64}}+(?:{_ESC}(?:{_COLOUR})?|{_PAIR_BEGINS}|u{_HEX}{{0,3}}|u\{{{_HEX}{{0,6}}|U{_HEX}{{0,7}}"
    rf"|x{_HEX}?|[01][0-7]?|\r)?"
    rf"|&(?:amp;){{0,2}}{_ENTITY_BEGINS}"
    rf"|%(?:25?[02-7]?|[03-7]|{_UTF8_BEGINS}|u{_HEX}{{0,3}})?)\Z"
)
UNFINISHED_MAX_CHARS: Final = 144
_ALL_INVISIBLE: Final = re.compile(f"[{INVISIBLE}]*")
_HIDDEN_MAX_CHARS: Final = 64
"""Maximum length of what stands unseen between two characters; each run is held with the character after it."""
_BLANKS: Final = (0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)
_ZEROS: Final = tuple(code for code in range(0x80, 0x1900) if unicodedata.decimal(chr(code), None) == 0)
PLAIN: Final = str.maketrans(
    {
        **dict.fromkeys(map(chr, _BLANKS), " "),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63", "-"),
        **dict.fromkeys("\u2024\ufe52", "."),
        "\ufe6b": "@",
        **{chr(0xFF01 + at): chr(0x21 + at) for at in range(0x5E)},
        **{chr(zero + at): str(at) for zero in _ZEROS for at in range(10)},
    }
)
"""Blanks, hyphens, full-width and small forms, and digits of other scripts -> the plain character."""


def decoded(spelling: str) -> str:
    """Return the character that a spelling stands for; empty if it is not seen, and the spelling if it is unknown."""
    if spelling[0] == "\\":
        char = _unescaped(spelling)
    elif spelling[:2] == "%u":
        char = chr(int(spelling.removeprefix("%u"), 16))
    elif spelling[0] == "%":
        code = bytes.fromhex(spelling.replace("%", ""))
        char = code.decode("utf-8", "replace") if code[0] > 0x7F else chr(int(spelling[-2:], 16))  # noqa: PLR2004 - ASCII
    elif spelling[0] == "&":
        char = html.unescape(html.unescape(html.unescape(spelling)))
    elif spelling[0] == "\x1b":
        return ""
    else:
        char = unicodedata.normalize("NFKC", spelling) if len(spelling) == 1 else spelling
    return "" if _ALL_INVISIBLE.fullmatch(char) else char


def _unescaped(spelling: str) -> str:
    """Return the character of an escape; a blank for control characters, nothing for colours and ends of lines."""
    escape = spelling.lstrip("\\")
    if "[" in escape or escape.isspace():
        return ""
    if escape[0] in "01":
        return chr(int(escape, 8))
    if escape[0] not in "uxU" or len(escape) == 1:
        return escape if not escape.isalpha() else " "
    first, *second = (int(unit[1:].strip("{}"), 16) for unit in spelling.split("\\") if unit)
    return chr(0x10000 + ((first & 0x3FF) << 10) + (second[0] & 0x3FF)) if second else chr(first)


def as_read(text: str) -> str:
    """Return a complete text as it is read."""
    return SPELLED.sub(lambda spelling: decoded(spelling[0]), text)


def unfinished_from(text: str, start: int = 0) -> int:
    """Return where a spelling begins that the end of a text may cut off; the length of the text if none does."""
    found = UNFINISHED.search(text, max(start, len(text) - UNFINISHED_MAX_CHARS))
    return len(text) if found is None else found.start()


class Decoder(State):
    """The reading of a growing text as it is read. `held` is the number of characters that no step covers yet."""

    def __init__(self, held: int, expression: re.Pattern[str] = SPELLED) -> None:
        self._expression = expression
        self.pending = ""
        """An unfinished spelling."""
        self._hidden = 0  # unseen characters before the next one
        self.held = held
        self._spelled: list[tuple[int, int]] = []  # number of a held character, and by how many it is longer

    def feed(self, text: str) -> str:
        """Return the next characters as they are read."""
        text = self.pending + text
        parts: list[str] = []
        at = 0
        for spelling in self._expression.finditer(text):
            self._see(text[at : spelling.start()], 0, parts)
            at = spelling.end()
            if char := decoded(spelling[0]):
                self._see(char, len(spelling[0]) - len(char), parts)
                continue
            self._hidden += len(spelling[0])
            if self._hidden > _HIDDEN_MAX_CHARS:
                self._hidden -= 1
                self._see(spelling[0][-1], 0, parts)
        end = unfinished_from(text, at)
        self._see(text[at:end], 0, parts)
        self.pending = text[end:]
        return "".join(parts)

    def finish(self) -> str:
        """Return what is left at the end of the text: a spelling that is not finished is read as it is written."""
        text, self.pending = self.pending, ""
        self._see(text, 0, [])
        return text

    @property
    def unread(self) -> int:
        """Number of characters at the end of the text that were not passed on."""
        return len(self.pending) + self._hidden

    @property
    def longer(self) -> int:
        """By how many characters those that were passed on, and that no step covers yet, are longer as written."""
        return sum(longer for _, longer in self._spelled)

    def _see(self, text: str, longer: int, parts: list[str]) -> None:
        if not text:
            return
        if self._hidden or longer:
            self._spelled.append((self.held, self._hidden + longer))
            self._hidden = 0
        self.held += len(text)
        parts.append(text)

    def as_written(self, steps: list[Step]) -> list[Step]:
        """Convert steps over what was read into steps over what is written."""
        found: list[Step] = []
        read = at = 0
        for count, mark in steps:
            read += count
            longer = 0
            while at < len(self._spelled) and self._spelled[at][0] < read:
                longer += self._spelled[at][1]
                at += 1
            found.append((count + longer, mark))
        self._spelled = [(number - read, longer) for number, longer in self._spelled[at:]]
        self.held -= read
        return found


# strings of JSON (RFC 8259)

# Characters and whole escapes of a string. Its last part: a high surrogate escape and the low one after it are
# one character, so a high one waits until the next escape is certain.
STRING_RUN: Final = re.compile(
    r"""
    (?: [^"\\\x00-\x1f]++
    | \\ (?: ["\\/bfnrt]
           | u (?! [dD][89abAB] ) [0-9a-fA-F]{4}
           | u [dD][89abAB][0-9a-fA-F]{2}
             (?: \\u[dD][c-fC-F][0-9a-fA-F]{2}
               | (?! \Z | \\ (?: \Z | u (?: \Z | [dD] (?: \Z | [c-fC-F][0-9a-fA-F]?+\Z ) ) ) )
             )
         )
    |)*+
    """,
    re.VERBOSE,
)
ESCAPE: Final = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^u])")
UNFINISHED_ESCAPE: Final = re.compile(
    r"\\(?:\Z|u(?:[0-9a-fA-F]{0,3}\Z|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?\Z))"
)


def raw_steps(steps: list[Step], raw: str) -> list[Step]:
    """Convert steps over decoded characters into steps over the escapes that spell them."""
    escapes = ESCAPE.finditer(raw)
    escape = next(escapes, None)
    found: list[Step] = []
    read = extra = 0
    for count, mark in steps:
        read += count
        before = extra
        while escape is not None and escape.start() - extra < read:
            extra += escape.end() - escape.start() - 1
            escape = next(escapes, None)
        found.append((count + extra - before, mark))
    return found


class StepWriter:
    """Applies steps to a text; keeps the characters that no step covers yet. `marked` once a mark was written."""

    __slots__ = ("held", "marked")

    def __init__(self) -> None:
        self.held = ""
        """Characters that no step covers yet."""
        self.marked = False

    def show(self, count: int, text: str) -> str:
        """Return the first `count` of the held characters and `text`, and hold the others."""
        text = self.held + text if self.held else text
        self.held = text[count:]
        return text[:count]

    def write(self, steps: list[Step], text: str) -> str:
        """Return the clean text that results from applying the steps to the held characters and `text`."""
        text = self.held + text
        if len(steps) == 1 and steps[0] == (len(text), None):
            self.held = ""
            return text
        clean: list[str] = []
        at = 0
        for count, mark in steps:
            clean.append(text[at : at + count] if mark is None else mark)
            self.marked = self.marked or bool(mark)
            at += count
        self.held = text[at:]
        return "".join(clean)


class StepBuffer:
    """Gathers the steps of a document. While `muted` everything is dropped; `marked` once a mark was added."""

    __slots__ = ("_shown", "_steps", "held", "marked", "muted")

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._shown = 0  # characters shown since the last step
        self.held = ""
        """Characters held by the filter of a string or number."""
        self.muted = False
        self.marked = False

    def show(self, count: int) -> None:
        """Show the next characters."""
        if self.muted:
            self.add(count, "")
        else:
            self._shown += count

    def add(self, count: int, mark: str | None) -> None:
        """Add a step."""
        if self.muted:
            mark = ""
        elif mark is None:
            self._shown += count
            return
        if self._shown:
            self._steps.append((self._shown, None))
            self._shown = 0
        if mark or count:
            self._steps.append((count, mark))
            self.marked = self.marked or bool(mark)

    def extend(self, steps: list[Step], text: str) -> None:
        """Add a filter's steps over the held characters and `text`; uncovered characters are held."""
        text = self.held + text
        covered = 0
        for count, mark in steps:
            self.add(count, mark)
            covered += count
        self.held = text[covered:]

    def extend_decoded(self, steps: list[Step], raw: str, size: int = 0) -> None:
        """Add a filter's steps over the decoded characters of a string: `size` new ones, which are spelled as `raw`."""
        text = self.held + raw
        has_escapes = size < len(raw) or "\\" in self.held
        if len(steps) == 1 and steps[0][1] is None:
            count = steps[0][0]
            if count == len(self.held) + size and "\\" not in self.held:
                count = len(text)
            if count == len(text) or not has_escapes:  # all is shown, or each character is its own spelling
                self.show(count)
                self.held = text[count:]
                return
        if has_escapes:
            steps = raw_steps(steps, text)
        self.extend([(count, mark and _escaped(mark)) for count, mark in steps], raw)

    def take(self) -> list[Step]:
        """Return the collected steps and clear them. Consecutive shown characters are one step."""
        steps, self._steps = self._steps, []
        if self._shown:
            steps.append((self._shown, None))
            self._shown = 0
        return steps


def _escaped(mark: str) -> str:
    """Return a mark escaped for a JSON string; marks contain no other characters that need escapes."""
    return type(mark)(mark.replace("\\", "\\\\").replace('"', '\\"'))


class PositionMap:
    """Maps positions in a text to positions in the clean text, where marks have replaced some characters."""

    __slots__ = ("_ends", "read", "starts")

    def __init__(self) -> None:
        self.read = 0
        """Length of the text so far; a caller that shows all of a text may add its length."""
        self.starts: list[int] = []
        """Start of the text that each mark replaces."""
        self._ends: list[tuple[int, int, int]] = []
        """End of the text of each mark; start and end of the mark in the clean text."""

    def add(self, steps: list[Step]) -> None:
        """Add the steps over the next characters of the text."""
        for count, mark in steps:
            if mark is not None:
                start = self.position(self.read, is_end=True)
                self.starts.append(self.read)
                self._ends.append((self.read + count, start, start + len(mark)))
            self.read += count

    def position(self, position: int, *, is_end: bool) -> int:
        """Return the position in the clean text; inside replaced text, the end or start of its mark."""
        if not (at := bisect_left(self.starts, position)):
            return position
        end, mark_start, mark_end = self._ends[at - 1]
        if position < end:
            return mark_end if is_end else mark_start
        return position - end + mark_end


# steps of several filters


class Queue(State):
    """The steps of one of several filters of a text which the others have not made yet."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self.steps = [*steps]
        self._ahead = 0  # characters that were taken before their steps were made

    @property
    def is_even(self) -> bool:
        """Whether everything was taken, and nothing before its time."""
        return not self.steps and not self._ahead

    @property
    def is_shown(self) -> bool:
        """Whether all steps show characters, and nothing was taken before its time."""
        return not self._ahead and all(mark is None for _, mark in self.steps)

    def add(self, steps: list[Step]) -> None:
        """Add the next steps."""
        self.steps += steps
        ahead, self._ahead = self._ahead, 0
        self.take(ahead)

    def take(self, count: int) -> None:
        """Take the next characters, even those without a step."""
        while count and self.steps:
            length, mark = self.steps[0]
            if count < length:
                self.steps[0] = (length - count, mark if mark is None else rest_of(mark))
                return
            del self.steps[0]
            count -= length
        self._ahead += count


def merge(groups: Sequence[Sequence[Queue]], last: Step | None = None, lost: list[str] | None = None) -> list[Step]:
    """Return the next steps of several filters of a text: what any of them withholds is withheld.

    The groups are in order of precedence, and `last` is the step before. The first group that withholds a character
    decides about its mark, so the others need not have read it, unless a value goes on there: it has one mark. A value
    that is only reported counts where no other one is. The marks of values that no step has are added to `lost`.
    """
    found: list[Step] = []
    every = [queue for group in groups for queue in group]
    while (step := _next(groups, is_after_value=last is not None and last[1] is not None)) is not None:
        for queue in every:
            if lost is not None and queue.steps and (mark := queue.steps[0][1]) and mark != step[1]:
                lost.append(mark)
            queue.take(step[0])
        found.append(step)
        last = step
    return found


def _next(groups: Sequence[Sequence[Queue]], *, is_after_value: bool) -> Step | None:
    """Return the next step of all groups; None if more of their steps have to be made."""
    count = 0
    marks: list[str] = []  # of the groups that withhold the next characters
    for group in groups:
        if not all(queue.steps for queue in group):
            return None
        least = min(queue.steps[0][0] for queue in group)
        count = min(count, least) if count else least
        of_group = [mark for queue in group if (mark := queue.steps[0][1]) is not None]
        if of_group:
            marks.append(_strictest(of_group))
            if not is_reported(marks[-1]) and not (is_after_value and all(marks)):
                break
    if not count:
        return None
    return count, _strictest(marks) if marks else None


def _strictest(marks: list[str]) -> str:
    """Return the first mark that is no report, if there is one; without its name if a value goes on."""
    strict = [mark for mark in marks if not is_reported(mark)] or marks
    if any(type(mark) is Continued for mark in strict):
        return Continued.of(mark for mark in strict if mark or type(mark) is Continued)
    return strict[0] if all(strict) else rest_of(strict[0])
