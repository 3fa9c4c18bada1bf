"""What the text of a configuration file adds to its values: lines of repeated tables and of placeholders."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from projector._validation import FieldPath

_TABLE: Final = re.compile(r"\s*(\[{1,2})\s*([^\[\]]+?)\s*\]{1,2}\s*(?:#.*)?")
_SETTING: Final = re.compile(r"\s*([\w.\"'-]+(?:\s*\.\s*[\w.\"'-]+)*)\s*=")
_PLACEHOLDER: Final = re.compile(r"(?<![\w-])(?:RESOURCE(?:-WEST)?|DEPLOYMENT)(?![\w-])")
"""Words of the pages and of `projector init` that stand for names of the provider's account."""
_WITH_PLACEHOLDERS: Final = frozenset({"base_url", "model"})


class Placeholder(NamedTuple):
    """A word that was to be replaced."""

    path: FieldPath
    word: str
    line: int


def repeated_name(text: str, number: int) -> str:
    """Return which table or setting of a line is written a second time, and where the first one is; "" if none."""
    lines = text.splitlines()[:number]
    if not lines:
        return ""
    *before, last = lines
    if header := _TABLE.fullmatch(last):
        name = _plain(header[2])
        start = next((at for at, line in enumerate(before, 1) if _table_of(line) == name), None)
        if start is not None:
            return f"the table `[{name}]` is already at line {start}: write its settings there"
        table, _, setting_name = name.rpartition(".")
        return _repeated_setting(before, table, setting_name)
    if setting := _SETTING.match(last):
        name = _plain(setting[1])
        table = next((found for line in reversed(before) if (found := _table_of(line)) is not None), "")
        return _repeated_setting(before, table, name)
    return ""


def _repeated_setting(lines: Sequence[str], table: str, name: str) -> str:
    """Return where a table has a setting of a name; "" if it has none."""
    current, found = "", 0
    for at, line in enumerate(lines, 1):
        if (header := _table_of(line)) is not None:
            current, found = header, 0 if header == table else found  # each table of an array has its own settings
        elif current == table and _setting_of(line) == name:
            found = at
    return f"`{name}` is already at line {found}" if found else ""


def placeholders(values: Mapping[str, Any], text: str) -> list[Placeholder]:
    """Return the placeholders that a file still has, with the lines of their settings."""
    lines: dict[tuple[str, str], Iterator[int]] = {}
    found: list[Placeholder] = []
    for path, word in _words(values, ()):
        key = next(str(step) for step in reversed(path) if isinstance(step, str))
        places = lines.setdefault((key, word), iter(_lines_with(text, key, word)))
        found.append(Placeholder(path, word, next(places, 1)))
    return found


def path_with_nul(node: object, path: FieldPath = ()) -> FieldPath | None:
    """Return the path of the first text with a NUL character, which no system accepts in the name of a file."""
    if isinstance(node, str):
        return path if "\0" in node else None
    steps = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return next((found for key, value in steps if (found := path_with_nul(value, (*path, key))) is not None), None)


def _words(node: object, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """Yield the path and the first placeholder of each setting that has one."""
    if isinstance(node, str):
        if path[-1] in _WITH_PLACEHOLDERS and (match := _PLACEHOLDER.search(node)):
            yield path, match[0]
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _words(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _words(value, (*path, index))


def _lines_with(text: str, key: str, word: str) -> list[int]:
    """Return the line of each setting of a name with a word in its value, in the order of the text."""
    setting = re.compile(rf"\b{re.escape(key)}[\"']?\s*=\s*[\"'][^\"'\n]*{re.escape(word)}")
    lines = text.splitlines()
    count = Counter({at: len(setting.findall(line)) for at, line in enumerate(lines, 1) if line.lstrip()[:1] != "#"})
    return list(count.elements())


def _table_of(line: str) -> str | None:
    header = _TABLE.fullmatch(line)
    return None if header is None else _plain(header[2])


def _setting_of(line: str) -> str | None:
    setting = _SETTING.match(line)
    return None if setting is None else _plain(setting[1])


def _plain(name: str) -> str:
    """Return a name without quotes and blanks."""
    return re.sub(r"[\s\"']+", "", name)
