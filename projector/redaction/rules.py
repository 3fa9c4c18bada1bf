"""The shipped rules: formats of credentials, and words of sensitive keys (CONTRACT D25).

The entries are data in the top-level folder `redaction/`; its README.md explains their format. The engine reads them
from `rules.json` in this folder, which `make schemas` compiles (`projector.redaction.rule_files`), because parsing TOML
would make every start a hundred times as expensive.

A key is compared in lower case and without `-`, `_`, `.` and blanks: `X-Api_Key` is `xapikey`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable, Mapping
from enum import Enum
from functools import cache
from operator import add
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from projector.contracts import codec
from projector.redaction.descriptions import SHOWN, is_outcome


class Format(NamedTuple):
    """One kind of credential.

    `anchor` and `pattern` are in the language of `projector.redaction.patterns`; `redaction/README.md` describes all
    fields.
    """

    name: str
    about: str
    anchor: str
    pattern: str
    source: str
    tail: str = ""
    open_chars: int = 1
    pattern_at_end: str = ""
    keep_anchor: bool = False
    ignore_case: bool = False
    inside_words: bool = False
    value: str = ""
    before: str = ""
    not_after: str = ""
    word: bool = False
    exact: bool = False
    matches: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()

    @property
    def is_run(self) -> bool:
        """Whether it is found in generated characters (`RunSearch`): its anchor is inside it, or begins names too."""
        return bool(self.before or self.not_after) or self.exact


class Context(NamedTuple):
    """A text between a sensitive key and its value, and which values count there (`projector.redaction.assignments`).

    `before` and `key` are expressions that the end of the text before the key and the key contain; `link` is in the
    pattern language.
    """

    name: str
    about: str
    source: str
    link: str
    value: str
    before: str = ""
    key: str = ""
    matches: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()


class TextClass(NamedTuple):
    """One class of personal data in text that people read, such as e-mail addresses (`text_search`).

    `begins` and `before`, what must not precede a value, are in the pattern language; `run` is one class of characters.
    Only a letter, a digit, `_` and this class must not precede a value that begins with one of the class `sure`.
    `check` names one of `projector.redaction.text_checks`; without it the whole candidate is a value.
    """

    name: str
    about: str
    source: str
    begins: str
    run: str = ""
    least: int = 1
    most: int = 64
    before: str = "[0-9A-Za-z_]"
    sure: str = ""
    check: str = ""
    matches: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()


class Word(NamedTuple):
    """Words that make a key sensitive, or harmless (`Rules.exceptions`), or a count (`Rules.counts`).

    They stand anywhere in the key (`contains`), are all of it (`is`), or its first or last whole words: `db_pass` and
    `dbPass` end with `pass`, `compass` does not. A count has one as a whole word anywhere, or ends with a long one.
    """

    name: str
    about: str
    source: str
    where: Literal["contains", "is", "begins", "ends"] = "contains"
    words: tuple[str, ...] = ()
    keys_only: bool = False
    """Whether a text that is no JSON is not searched for the words: each word makes that search dearer."""
    matches: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()

    @property
    def spellings(self) -> tuple[str, ...]:
        """The words of the entry; its name if it lists none."""
        return self.words or (self.name,)


class Rules(NamedTuple):
    """The entries of rule files, in order of precedence of their formats."""

    formats: tuple[Format, ...] = ()
    words: tuple[Word, ...] = ()
    exceptions: tuple[Word, ...] = ()
    """Harmless words, removed from a key before it is compared, or first or last words of harmless keys."""
    counts: tuple[Word, ...] = ()
    """Words of keys that count tokens if their value is a number: `max_tokens`."""
    contexts: tuple[Context, ...] = ()
    """What stands between a sensitive key and its value, in order of precedence."""
    classes: tuple[TextClass, ...] = ()
    """Classes of personal data in text that people read."""


@cache
def shipped() -> Rules:
    """Return the entries of `rules.json`, without their samples."""
    tables: Any = codec.loads((Path(__file__).parent / "rules.json").read_bytes())
    formats = tuple(Format(**row) for row in tables["formats"])
    words = {name: tuple(map(_word, tables[name])) for name in ("words", "exceptions", "counts")}
    contexts = tuple(Context(**row) for row in tables["contexts"])
    return Rules(formats, **words, contexts=contexts, classes=tuple(TextClass(**row) for row in tables["classes"]))


def _word(row: dict[str, Any]) -> Word:
    return Word(**{**row, "words": tuple(row.get("words", ()))})


def merged(own: Rules) -> Rules:
    """Return a host's own rules, which take precedence, with the shipped ones."""
    return Rules._make(map(add, own, shipped()))


_SEPARATORS: Final = re.compile(r"[-_.\s]+")
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""Words of a key in snake, kebab or camel case; digits separate words: `db_pass2` ends with `pass`."""
_LAST_WORDS: Final = 3
"""Maximum number of words that `ends` compares: `service_role_key`."""
_INVISIBLE: Final = frozenset({"Cf", "Mn"})
"""Unicode categories of characters that change nothing that a reader sees: zero-width spaces, soft hyphens, accents."""
LOOKALIKES: Final = str.maketrans(
    "\u0430\u0441\u0501\u0435\u04bb\u0456\u0458\u043a\u04cf\u043e\u0440\u051b\u0455\u0442\u0443\u051d\u0445\u03b1\u03b5\u03b9\u03ba\u03bf\u03c1\u03c4\u03c5\u03c7\u0131\u0142\u0111\u00f8\u00f0\u2010\u2011",
    "acdehijklopqstywxaeikoptuxildod--",
)
"""Cyrillic and Greek small letters that look like Latin ones, Latin ones with a stroke, and hyphens."""
_JWK: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "k"})
"""Members of a JSON Web Key with a private or symmetric key (RFC 7518 section 6)."""
MATERIAL: Final = re.compile(r"(?=.{0,39}[0-9])(?=.{0,39}[a-z])(?=.{0,39}[A-Z])[A-Za-z0-9_-]{40}")
"""How the value of such a member begins: 256 bits are 43 characters."""
_COUNT: Final = re.compile(r"[-+]?[0-9][0-9.,_]{0,15}")
_NO_SECRET: Final = re.compile(r"(?i:null|none|nil|undefined|true|false|nan|n/a|\[\]|\{\}|\*+|\.\.\.)?")
_NAME: Final = re.compile(r"[\w./:-]{1,80}")
_NAMES_OF_PAIRS: Final = frozenset(
    {"name", "key", "header", "field", "label", "param", "parameter", "parametername", "parameterkey", "variable"}
    | {"env", "property", "attribute", "setting"}
)
_VALUES_OF_PAIRS: Final = frozenset({"value", "val", "content", "default", "secretstring", "parametervalue", "data"})
_PAIR_MAX_MEMBERS: Final = 32
"""An object that names a value has few members; the limit bounds the search."""
_MEMO_MAX_KEYS: Final = 4_096
_MEMO_KEY_CHARS: Final = 64
"""Limits of the cache of verdicts: real schemas repeat a few short keys, hostile ones must not fill the memory."""


class Verdict(Enum):
    """Effect of a key on its value."""

    PLAIN = 0
    SENSITIVE = 1
    SENSITIVE_UNLESS_NUMBER = 2
    MATERIAL = 3
    """Only if the value looks like the material of a key: a member of a JSON Web Key."""

    def hides(self, value: object) -> bool:
        """Return whether a value of JSON is withheld: null, booleans, states, and numbers under counts, are shown."""
        is_state = isinstance(value, str) and (not value or SHOWN.fullmatch(f'"{value}"') is not None)
        if self is Verdict.PLAIN or is_state or value is None or isinstance(value, bool) or value in ([], {}):
            return False
        if self is Verdict.MATERIAL:
            return isinstance(value, str) and MATERIAL.match(value) is not None
        return self is Verdict.SENSITIVE or not is_count(value)

    def hides_text(self, text: str) -> bool:
        """Return whether a value is withheld as a text or a program writes it, without its quotes."""
        if self in (Verdict.PLAIN, Verdict.MATERIAL) or _NO_SECRET.fullmatch(text):
            return False
        return self is Verdict.SENSITIVE or not is_count(text)


def is_count(value: object) -> bool:
    """Return whether a value is a number, or a short text of one."""
    return isinstance(value, int | float) if not isinstance(value, str) else _COUNT.fullmatch(value) is not None


def names_a_value(key: str) -> bool:
    """Return whether a member has the name of a value: `name`, `key`, `header`."""
    return key.lower() in _NAMES_OF_PAIRS


def is_value_of_pair(key: str) -> bool:
    """Return whether a member has the value that another one names: `value`."""
    return key.lower() in _VALUES_OF_PAIRS


def normal_form(key: str) -> str:
    """Return the key in the form that is compared; letters that look like plain ones become those."""
    return _SEPARATORS.sub("", plain_letters(key).lower())


def plain_letters(key: str) -> str:
    """Return the key with ASCII letters in place of full-width, accented, Cyrillic and Greek ones that look alike."""
    if key.isascii():
        return key
    decomposed = unicodedata.normalize("NFKD", key)
    visible = "".join(char for char in decomposed if unicodedata.category(char) not in _INVISIBLE)
    return visible if visible.isascii() else visible.casefold().translate(LOOKALIKES)


def _part_of(word: str, letters: Container[str], others: Iterable[str]) -> str:
    """Return the part of a word that begins with one of some letters; empty if it is short, or has another word."""
    if any(other in word for other in others):
        return ""
    return next((word[at:] for at in range(len(word) - _PART_MIN_CHARS + 1) if word[at] in letters), "")


_PART_MIN_CHARS: Final = 7


class KeyRules:
    """The key rules of a policy: words of rule files, plus what the host adds, minus those it removes."""

    def __init__(self, add: Iterable[str] = (), remove: Iterable[str] = (), rules: Rules | None = None) -> None:
        rules = rules or shipped()
        self._plain = frozenset(map(normal_form, remove))
        contains = [*_spellings(rules.words, "contains"), *map(normal_form, add)]
        self.words = tuple(word for word in dict.fromkeys(contains) if word and word not in self._plain)
        """Words that make a key sensitive wherever they stand in it."""
        self.last_words = tuple(word for word in _spellings(rules.words, "ends") if word not in self._plain)
        """Words that make a key sensitive as its last whole words."""
        self._is = frozenset(_spellings(rules.words, "is")) - self._plain
        unsearched = {word for row in rules.words if row.keys_only for word in _spellings([row], row.where)}
        searched = [word for word in self.words if word not in unsearched]
        letters = {word[0] for word in searched if word.isascii()}
        ends = [word for word in (*self.last_words, *self._is) if word not in unsearched]
        others = [word for word in ends if word[0] in letters or not word[0].isascii()]
        whole = (*searched, *others)
        parts = [_part_of(word, letters, whole) for word in ends]
        self.beginnings = _shortest([*whole, *filter(None, parts)])
        """What a text is searched for: words but those that begin with another one. Their whole key decides.

        No letter is added to those with which the words of any key begin: each one holds every text that ends with it.
        So of a word with another first letter a part is searched: `cryptionkey`.
        """
        self.apart = _shortest(word for word in ends if not any(map(word.__contains__, (*whole, *filter(None, parts)))))
        """Words that have no such part, which are searched where a word begins: `kennwort`."""
        self._ends = frozenset(self.last_words)
        self._harmless_begins = frozenset(_spellings(rules.exceptions, "begins"))
        self._harmless_ends = frozenset(_spellings(rules.exceptions, "ends"))
        self._harmless = _any_of(_spellings(rules.exceptions, "contains"))
        self._counts = frozenset(_spellings(rules.counts, "contains"))
        self._long_counts = tuple(word for word in self._counts if len(word) >= _LONG_COUNT_CHARS)
        self._contains = _any_of(self.words)
        self._known: dict[str, Verdict] = {}

    def verdict(self, key: str) -> Verdict:
        """Return whether the value of a key is withheld. `key` is decoded: no escapes are left in it."""
        known = self._known.get(key)
        if known is None:
            known = self._judge(key)
            if len(key) <= _MEMO_KEY_CHARS and len(self._known) < _MEMO_MAX_KEYS:
                self._known[key] = known
        return known

    def verdict_of_pair(self, members: Mapping[object, object]) -> Verdict:
        """Return the verdict of the value of an object that names it: `{"name": "X-Api-Key", "value": ".."}`."""
        if len(members) > _PAIR_MAX_MEMBERS:
            return Verdict.PLAIN
        names = (value for key, value in members.items() if isinstance(value, str) and names_a_value(str(key)))
        return next(
            (verdict for name in names if (verdict := self.verdict_of_name(name)) is not Verdict.PLAIN), Verdict.PLAIN
        )

    def verdict_of_name(self, name: str) -> Verdict:
        """Return the verdict of a name that is the value of a member; it may have a path: `prod/db/password`."""
        return self.verdict(name) if _NAME.fullmatch(plain_letters(name)) else Verdict.PLAIN

    def hides(self, key: str, value: object) -> bool:
        """Return whether the value of a key is withheld."""
        return self.verdict(key).hides(value) and not is_outcome(key, value)

    def _judge(self, key: str) -> Verdict:
        form = normal_form(key)
        if key in _JWK and form not in self._plain:
            return Verdict.MATERIAL
        if form in self._is:
            return Verdict.SENSITIVE
        if form in self._plain or "node_modules/" in key:  # a package of `package-lock.json`: `node_modules/js-tokens`
            return Verdict.PLAIN
        words = [word.lower() for word in _WORDS.findall(plain_letters(key))]
        is_sensitive = self._contains.search(self._harmless.sub("", form)) or not self._ends.isdisjoint(_endings(words))
        # of several words, as keys of flags, counts and descriptions begin or end: `is` alone describes nothing
        if not is_sensitive or (
            len(words) > 1
            and (words[0] in self._harmless_begins or not self._harmless_ends.isdisjoint(_endings(words)))
        ):
            return Verdict.PLAIN
        is_count = form.endswith(self._long_counts) or not set(words).isdisjoint(self._counts)
        return Verdict.SENSITIVE_UNLESS_NUMBER if is_count else Verdict.SENSITIVE


_LONG_COUNT_CHARS: Final = 6
"""Other words end with a shorter one: `admin`, `account`."""


def _spellings(rows: Iterable[Word], where: str) -> list[str]:
    """Return words as texts contain them, and in the form in which keys are compared: `contraseña`, `contrasena`."""
    words = [word for row in rows if row.where == where for word in row.spellings]
    return [*dict.fromkeys(form for word in words for form in (word, normal_form(word)))]


def _shortest(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words, sorted, but those that begin with another one."""
    every = sorted({*words})
    return tuple(word for word in every if not word.startswith(tuple({*every} - {word})))


def _any_of(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, words)) or r"(?!)")


def _endings(words: list[str]) -> list[str]:
    """Return the last word, the last two words, and so on, each joined."""
    return ["".join(words[-count:]) for count in range(1, min(len(words), _LAST_WORDS) + 1)]
