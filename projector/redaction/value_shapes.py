"""Whether a value after a sensitive key is a secret: a placeholder, a word of a language, code or prose is none.

The tables are the decision. They were chosen by counting: source files of the standard library and of packages must
stay as they are, and passwords as people and generators make them must not.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final, NamedTuple

from projector.redaction.descriptions import STATES
from projector.redaction.rules import KeyRules, Verdict

_NOT_SET: Final = "null nan empty default unknown unspecified hidden masked redacted removed omitted changed na tbd"
_TYPES: Final = (
    "string str text bytes int integer float number bool boolean object any array list dict date secret value"
)
LITERALS: Final = STATES | frozenset(f"{_NOT_SET} {_TYPES} todo bearer basic digest negotiate".split())
"""Values that name a state, a type or a scheme, compared in lower case."""

_PLACEHOLDER: Final = re.compile(
    r"""
    <[^<>]*> | \[(?:REDACTED|redacted|hidden|masked|removed|FILTERED)[^\[\]]{0,80}\]   # <password>, our own marks
    | \$\{\{? [^{}]* \}?\}? | \$\( .* \)? | \$(?:[A-Za-z_]+[0-9]?|[0-9@*\#?!$])(?:(?:->|::|[.:\[]).*)?  # ${VAR}, $VAR
    | %\w+% | \{\{? [^{}]* \}?\}? | @[\w.]+@                                           # %VAR%, {{ name }}
    | %(?:\(\w+\))?[-+#0-9.]*[a-zA-Z] | :[A-Za-z_]+[0-9]? | \?+ | &[\w.]+               # %(name)s, :name of SQL
    | [*xX.\-_#•…]+                                                                    # ****
    | (?:your|my|the|an?|some|insert|enter|replace)                                    # your-api-key
      (?:[-_ ](?:[A-Z]?[a-z]+[0-9]?|[A-Z]+[0-9]?|[0-9]{1,3}))+
    | (?:(?:[Aa]lt|[Ss]hift|[Cc]trl|[Cc]ontrol|[Oo]ption|[Cc]md|[Cc]ommand|[Mm]eta)\+)+\w{1,8}  # keys of a keyboard
    | [~^][0-9]{1,3}(?:\.[0-9]{1,3}){2} | /\^\S+/[dgimsuvy]{0,6}[;,)]?                   # ranges of versions, /^a+$/
    | \+\+[A-Za-z_$.]+[;,)]? | (?:true|false|null)(?:[|/](?:true|false|null))+         # ++count, true|false
    | [^\w]+ | \#[0-9a-fA-F]{3,8}                                                      # colours
    """,
    re.VERBOSE | re.DOTALL,
)
_INTERPOLATION: Final = re.compile(
    r"\$\{\{?[^{}]*\}?\}|\$\([^()]*\)|\{\{?[^{}]*\}?\}|%\(\w+\)[a-z]|(?<![A-Za-z])%[sdrx]|%[sdrx](?![A-Za-z])"
    r"|(?<![A-Za-z0-9])\$[A-Za-z_]+[0-9]?(?![A-Za-z0-9])|<[\w .:-]+>|#\{[^{}]*\}"
)
_NUMBER: Final = re.compile(r"[-+]?(?:[0-9][0-9_,.]*(?:[eE][-+]?[0-9]+)?|0[xX][0-9a-fA-F]{1,4})[a-zA-Z%]{0,2}")
_NUMBER_MAX_DIGITS: Final = 3
"""A longer number may be a PIN."""
_FUNCTION_WORD: Final = re.compile(
    r"(?i)(?:^|\s|\b)(?:the|an?|is|are|was|be|been|to|of|for|from|in|on|at|by|with|and|or|not|no|if|must|should|may|can|"
    r"cannot|will|has|have|had|your|you|this|that|it|its|as|per|any|all|when|used|use|uses|using|required|invalid|"
    r"enter|please|which|does|did|do|only|but|than|too|into|found|given|e\.g\.)(?=$|[\s,.:;!?)'])"
)
_NAME: Final = re.compile(r"\.?[A-Za-z_][A-Za-z_]*(?:[-.:/ ][A-Za-z_]+)*[.:,!?]*")
_HARMLESS_SHAPE: Final = re.compile(
    r"""
    [0-9]+\*\w+ | v?[0-9]{1,4}(?:\.[0-9]{1,6}){1,4}(?:[-.+]?[a-z]{1,5}\.?[0-9]{0,4}){0,2}  # versions, addresses
    | [0-9]{4}-[0-9]{2}(?:-[0-9]{2}(?:T[0-9:.,+Z-]*)?)? | [0-9:.]{1,6}[a-z%]{0,3}  # dates, times, sizes
    | (?:https?|ftp|file|wss?|urn)://\S* | [.~]{0,2}/[\w./-]*  # addresses and paths
    | [\w.-]+\.(?:py|js|ts|go|rs|rb|java|json|toml|ya?ml|txt|md|html?|conf|cfg|ini|pem|key|crt|sh|com|org|net)
    | (?:sha|md|utf|base|rfc|hs|rs|es|aes|ed|ps|x|py|http|oauth|ipv|int|uint|float)-?_?[0-9]{1,5}
      (?:[-_](?:[a-z]{1,16}|[0-9]{1,5})){0,4}
    | (?:[a-z]\w{0,16}\.){0,4}_?(?:(?:oauth|pbkdf|md|sigv)[0-9]|(?:ed|x)(?:25519|448|509)|base(?:32|58|64)
      |rfc[0-9]{4}|(?:hmac)?sha[0-9]{1,3}|aes[0-9]{3})(?:(?-i:[A-Z][a-z]{2,16}|with|and)|sha[0-9]{1,3}|rsa|ecdsa){1,4}
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SYMBOL: Final = re.compile(r"[A-Za-z0-9][^A-Za-z0-9\s_.:/,;()\[\]{}<>'\"\\=|-][A-Za-z0-9]")
_SHAPE_MIN_CHARS: Final = 6


def is_empty(value: str) -> bool:
    """Return whether a value is empty, a placeholder, or a word that names no secret."""
    bare = value.strip()
    if not bare or bare.lower().rstrip(".,;") in LITERALS:
        return True
    return _PLACEHOLDER.fullmatch(bare) is not None and not _is_jumble(bare.lstrip("$"))


def is_address(value: str) -> bool:
    """Return whether a value is a web address, which is searched as such."""
    return value.lstrip().startswith(("https://", "http://"))


def is_path(value: str) -> bool:
    """Return whether a value is a path of a file, as in `PWD=/home/app`."""
    if _PATH.fullmatch(value) is None or is_random(value):
        return False
    return not any(map(_MIXED.fullmatch, value.split("/")))


_PATH: Final = re.compile(r"[.~]{0,2}/[\w./-]*")
_MIXED: Final = re.compile(r"(?=.{6})(?![A-Za-z_.-]*[0-9.]*$)(?=.*[A-Za-z]).*[0-9].*")
"""A part of a path with digits among its letters."""


def is_prose(value: str) -> bool:
    """Return whether a value is a sentence or a phrase, and not the words of a pass phrase."""
    return " " in value.strip() and _FUNCTION_WORD.search(value) is not None and not has_secret_word(value)


def is_public(value: str) -> bool:
    """Return whether a value is an address, a placeholder, a template or prose."""
    return is_address(value) or is_empty(value) or is_template(value) or is_prose(value)


def has_secret_word(value: str) -> bool:
    """Return whether one word of a text has the shape of a secret."""
    return any(has_secret_shape(word.strip("\"'`,.:;()[]{}")) for word in value.split())


def is_template(value: str) -> bool:
    """Return whether a value is filled in later, and nothing around the gaps has the shape of a secret."""
    if value.startswith("$") and _is_jumble(value[1:]):
        return False
    rest, count = _INTERPOLATION.subn(" ", value)
    return bool(count) and not has_secret_word(rest) and not is_symbolic(value, least=_SHAPE_MIN_CHARS)


def is_symbolic(value: str, *, least: int = 8) -> bool:
    """Return whether a word has the symbols and the letters of a generated password, and not those of code."""
    if is_empty(value):
        return False
    if is_varied(value):
        return True
    word = value.rstrip(".,;:)]}>")
    if _is_generated(value.rstrip(".,;:")) and _TEMPLATE_OF_SYMBOLS.search(word) is None:
        return True
    if len(word) < least or len(_ODD_SYMBOL.findall(word)) < _SYMBOLS_MIN or _CODE_OF_SYMBOLS.search(word) is not None:
        return False
    return sum(expression.search(word) is not None for expression in (_DIGIT, _LOWER, _UPPER)) > 1


def _is_generated(word: str) -> bool:
    """Return whether the letters and digits around the symbols of a word change more often than those of names."""
    parts = _WORD_PARTS.findall(word)
    letters = "".join(parts)
    is_short = len(parts) == 1 or len(letters) < _GENERATED_MIN_CHARS
    if is_short or _ODD_SYMBOL.search(word) is None or _is_class_call(word):
        return False
    kinds = [expression.search(letters) is not None for expression in (_LOWER, _UPPER, _DIGIT)]
    if _is_unbalanced(word) and (all(kinds) or (kinds[0] and kinds[1] and "<" not in word)):
        return True
    return _is_jumble(letters) or any(map(_DIGIT_INSIDE.match, parts))


def _is_unbalanced(word: str) -> bool:
    """Return whether a bracket inside a word has no other one, which is rare in code."""
    return any(
        word.count(opening) < word.count(closing) and _CLOSES_A_CALL.search(word) is not None
        for opening, closing in ("()", "[]")
    ) or (word.count("<") != word.count(">"))


_CLOSES_A_CALL: Final = re.compile(r"[)\]][A-Za-z0-9]")
_WORD_PARTS: Final = re.compile("[A-Za-z0-9]+")
_GENERATED_MIN_CHARS: Final = 8
_DIGIT_INSIDE: Final = re.compile("(?=[A-Z0-9]*[a-z])(?=[a-z0-9]*[A-Z])[A-Za-z]*[0-9]+[A-Za-z]")


def is_varied(word: str) -> bool:
    """Return whether a word changes between letters, digits and symbols more often than code does."""
    if len(word) < _VARIED_MIN_CHARS or len({*_SYMBOLS.findall(word)}) < _VARIED_MIN_SYMBOLS:
        return False
    kinds = [
        0 if char.islower() else 1 if char.isupper() else 2 if char.isdigit() else 3 if char.isascii() else 4
        for char in word
    ]
    changes = sum(one != other for one, other in pairwise(kinds))
    return len({*kinds}) > _VARIED_MIN_KINDS and changes >= _VARIED_CHANGES * len(word)


_SYMBOLS: Final = re.compile(r"[^\w\s]")
_VARIED_MIN_CHARS: Final = 10
_VARIED_MIN_SYMBOLS: Final = 3
_VARIED_MIN_KINDS: Final = 3
_VARIED_CHANGES: Final = 0.55
"""Changes for each character: a password of random letters, digits and symbols has 0.7, code at most 0.5."""
_ODD_SYMBOL: Final = re.compile(r"[!@#$%^&*<>~?+,;{}()\[\]]")
_SYMBOLS_MIN: Final = 2
_TEMPLATE: Final = r"""
    ^[@$]? \$? [({]{1,2} | \$\{ | \{\{ | \$\( | %\( | </ | /> | => | -> | :: | && | \|\| | [,;&?] \w+ [=:]
    | \{ \w* \} [-_/.:@]* (?: \{ | $ ) | ^ [-_/.:@]* \{ | % [sd] (?![A-Za-z0-9]) | [({] [A-Za-z_]* [)}] (?![A-Za-z0-9])
    """
_TEMPLATE_OF_SYMBOLS: Final = re.compile(_TEMPLATE, re.VERBOSE)
"""A part of a word that only code and templates have."""
_CODE_OF_SYMBOLS: Final = re.compile(
    r"^[!&*]*[A-Za-z_$][\w$.:]*[<(\[] (?: [\w\s.:,<>\[\]()?&'*|$=!+/-]* ) $ |" + _TEMPLATE,  # calls, indexes and types
    re.VERBOSE,
)
"""Such a part, or a word that is all code."""


def is_short_number(value: str) -> bool:
    """Return whether a value is a number of few digits."""
    return _NUMBER.fullmatch(value) is not None and sum(char.isdigit() for char in value) <= _NUMBER_MAX_DIGITS


def is_name(value: str) -> bool:
    """Return whether a value is made of letters, as names in code and words are."""
    return _NAME.fullmatch(value) is not None


def has_secret_shape(value: str) -> bool:
    """Return whether a word looks like a password or a key, and not like a name, a number or an address."""
    if len(value) < _SHAPE_MIN_CHARS or _HARMLESS_SHAPE.fullmatch(value) is not None or is_empty(value):
        return False
    if not any(map(str.isalpha, value)):
        return False
    return any(map(str.isdigit, value)) or _SYMBOL.search(value) is not None or _is_jumble(value)


def _is_jumble(value: str) -> bool:
    """Return whether letters change their case more often than the words of a name: `vBQfyFEprv`."""
    parts = _PARTS.findall(value)
    if not value.isalpha():
        words = _WORDS_OF_NAME.findall(value)
        letters = sum(map(len, words))
        return len(parts) - len(words) >= _JUMBLE_MIN_PARTS and letters < _JUMBLE_MAX_PART_CHARS * len(parts)
    if len(parts) < _JUMBLE_MIN_PARTS:
        return False
    if len(value) < _JUMBLE_LONG_CHARS:
        return len(value) < _JUMBLE_MAX_PART_CHARS * len(parts)
    has_few_vowels = len(_VOWEL.findall(value)) < _JUMBLE_MAX_VOWELS * len(value)
    return len(value) < _JUMBLE_LONG_PART_CHARS[has_few_vowels] * len(parts)


_WORDS_OF_NAME: Final = re.compile(r"[A-Za-z]+")
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_JUMBLE_MIN_PARTS: Final = 4
_JUMBLE_MAX_PART_CHARS: Final = 2.6
_JUMBLE_LONG_CHARS: Final = 20
_JUMBLE_LONG_PART_CHARS: Final = (3.6, 4.5)
_JUMBLE_MAX_VOWELS: Final = 0.32
"""Part of the letters of a long word; English has two in five."""
_VOWEL: Final = re.compile("(?i)[aeiou]")


def is_entry(value: str) -> bool:
    """Return whether the second of two strings, of which the first is a sensitive key, is no name, word or text."""
    if is_public(value):
        return False
    words = value.split()
    if len(words) > 2 and all(map(_INNER_CAPITAL.search, words)):  # noqa: PLR2004 - a pass phrase
        return True
    return has_secret_word(value) or _ODD.search(value) is not None or _LONG_NUMBER.fullmatch(value.strip()) is not None


_INNER_CAPITAL: Final = re.compile("[a-z][A-Z]")
_ODD: Final = re.compile(r"[A-Za-z0-9][\"'\\$#%^*!~]+[A-Za-z0-9]|[^\x00-\x7f][A-Za-z0-9]*[0-9]")
_LONG_NUMBER: Final = re.compile(r"[0-9]{6,}")


def begins_key_file(value: str) -> bool:
    """Return whether a value is a private key of several lines, which a format reads to its end."""
    return _KEY_FILE.match(value) is not None


_KEY_FILE: Final = re.compile(r"\s*(?:-{4,5} ?BEGIN(?![%+])|PuTTY-User-Key-File)", re.IGNORECASE)


def is_random(value: str) -> bool:
    """Return whether a word looks generated: long enough, with digits, small and capital letters."""
    digits, lower, upper = (
        len(found) for found in (_DIGIT.findall(value), _LOWER.findall(value), _UPPER.findall(value))
    )
    is_mixed = min(digits, lower, upper) >= _RANDOM_MIN_OF_EACH and len(value) >= _RANDOM_MIN_CHARS
    is_mixed = is_mixed or (lower > 0 < upper and _CHOSEN.fullmatch(value) is not None)
    return is_mixed and has_secret_shape(value) and _RANDOM.fullmatch(value) is not None


_DIGIT: Final = re.compile("[0-9]")
_LOWER: Final = re.compile("[a-z]")
_UPPER: Final = re.compile("[A-Z]")
_RANDOM: Final = re.compile(r"[\w!@#$%^&*+=~/.-]+")
_RANDOM_MIN_OF_EACH: Final = 2
_RANDOM_MIN_CHARS: Final = 10
_CHOSEN: Final = re.compile(r"(?=.{8})(?=\D*[0-9])(?=.*?\w(?:!|\$++[0-9a-z]|@[0-9]{3}))[\w@#&!$]+")
"""A password as people choose it: a word, a digit, a symbol inside or at the end."""


def is_mixed(value: str) -> bool:
    """Return whether a word has a digit or a symbol that words, names and paths do not have."""
    return _NO_WORD.fullmatch(value) is not None


_NO_WORD: Final = re.compile(r"(?!/)(?=\S*[0-9!@#$%^&*+=~])\S+")


def is_hex_key(value: str) -> bool:
    """Return whether a word has the digits of a generated key or UUID: 32 or more, hexadecimal, in one case."""
    digits = value.replace("-", "")
    is_mixed = min(len(_DIGIT.findall(digits)), len(_LETTER.findall(digits))) >= _RANDOM_MIN_OF_EACH
    return is_mixed and _HEX_KEY.fullmatch(digits) is not None


_LETTER: Final = re.compile("[A-Fa-f]")
_HEX_KEY: Final = re.compile("[0-9a-f]{32,}|[0-9A-F]{32,}")


# places

BLANKS: Final = re.compile(r"[^\S\r\n]*+")
SPACES: Final = re.compile(r"\s*+")
BARE: Final = re.compile(r"[^\s\"'`,;<>]*+")
PARAMETER: Final = re.compile(r"[^\s\"'`,;<>&]*+")
QUOTES: Final = "\"'`"
QUOTED: Final = ("\\", *QUOTES)
"""First characters of strings in quotes, which may be escaped."""
ANNOUNCE_CHARS: Final = 80
"""Maximum length of a string that is the key of the next one."""


class Place(NamedTuple):
    """Where a value stands: the text before its key, the key, and the words that make keys sensitive."""

    head: str
    key: str
    keys: KeyRules
    verdict: Verdict = Verdict.SENSITIVE
    link: str = ""

    @property
    def line(self) -> str:
        """The text before the key on its line."""
        return self.head[max(self.head.rfind("\n"), self.head.rfind("\r")) + 1 :]

    @property
    def begins_line(self) -> bool:
        """Whether the key is the first word of its line."""
        return _LINE_START.fullmatch(self.line) is not None

    @property
    def is_parameter(self) -> bool:
        """Whether the key is a parameter of an address or a form."""
        return self.head[-1:] in ("?", "&") and bool(self.head)

    @property
    def closers(self) -> str:
        """Punctuation that certainly ends a value without quotes: a quote or a tag that is open before the key."""
        line = _APOSTROPHE.sub("", self.line)
        quotes = "".join(quote for quote in QUOTES if line.count(quote) % 2)
        return quotes + "<" * ("<" in line) + "&" * self.is_parameter

    @property
    def is_variable(self) -> bool:
        """Whether the key is a variable of an environment, directly before its value."""
        return self.link == "=" and self.key == self.key.upper()


_APOSTROPHE: Final = re.compile(r"(?<=[^\W\d_])(?<!\b[BEFNRUXbefnrux])(?<!\b[bf]r)(?<!\br[bf])'(?=[^\W\d_])")
"""One between letters, as in `can't` and `l'accès`, opens no string; behind the letters of `b'..'` one does."""
_LINE_START: Final = re.compile(
    r"[ \t>+|#*-]*(?:(?:export|set|setx|ENV|ARG|let|var|const|local|declare -x)[ \t]+)?[$@]?"
)


def is_key_name(text: str, keys: KeyRules) -> bool:
    """Return whether a value is the name of a secret, as in `token = "csrf_token"` or `password=password`."""
    is_identifier = is_name(text) or ("_" in text and text.isidentifier())
    return is_identifier and keys.verdict(text) is not Verdict.PLAIN and not _is_jumble(text)


# values without quotes


_MAY_BE_NUMBER: Final = re.compile(r"(?i)pass|pin|pwd|secret|otp|code")
_IDEOGRAPHS: Final = re.compile(r"[\u3001\u3002\u3040-\u9fff\uac00-\ud7af\uff08-\uff0c].*", re.DOTALL)
"""Text in a script without blanks, which may follow a password but is none."""
_DIGITS_ONLY: Final = re.compile(r"[0-9]+(?:[-_.][0-9]+)*")
_DIGITS_MIN_CHARS: Final = 6
"""A shorter number under a key such as `token` may be a count."""
_MEMBER: Final = re.compile(r"(?:self|cls|this)(?:\??\.[A-Za-z_]+)+(?:\??[(\[{].*)?[.,:;)\]}]*", re.DOTALL)
_OF_HELP: Final = re.compile(r"(?i:here|options?|flags?|arguments?|parameters?)|\([A-Z][A-Za-z]+-[A-Za-z]+")
"""A word behind an option in the help of a command, or a command of PowerShell."""


def is_no_value(word: str, keys: KeyRules) -> bool:
    """Return whether a word without quotes is a placeholder, a short number, or the name of a secret, anywhere."""
    plain = word.rstrip(".,;:)]}")
    is_harmless = is_empty(plain) or is_template(plain) or is_short_number(plain) or is_key_name(plain, keys)
    return is_harmless or begins_key_file(word)


def is_argument(word: str, place: Place) -> bool:
    """Return whether a word stands for itself where only a secret can: it joins no words, and is no option."""
    plain = word.rstrip(".,;:)]}")
    is_count = place.verdict is not Verdict.SENSITIVE and plain.isdigit()
    is_of_prose = _FUNCTION_WORD.fullmatch(plain) is not None or _OF_HELP.fullmatch(plain) is not None
    return not (is_count or is_of_prose or plain.startswith("-") or is_no_value(word, place.keys))


def is_bare_secret(word: str, place: Place, before: str, after: str) -> bool:
    """Return whether a word without quotes looks like a secret, or is one because of where it stands.

    Directly behind `=` or `:` a name is one too, except in calls, as in `password=hunter`. Elsewhere a name is code.
    """
    if not place.key.isascii():
        word = _IDEOGRAPHS.sub("", word)
    plain = word.rstrip(".,;:)]}")
    is_digits = _DIGITS_ONLY.fullmatch(plain) is not None
    is_count = place.verdict is Verdict.SENSITIVE_UNLESS_NUMBER and is_digits
    if is_count or is_no_value(word, place.keys) or _MEMBER.fullmatch(word) is not None:
        return False
    if place.is_variable or place.is_parameter or ("-" in place.head[-1:] and "=" in place.link):
        return not is_path(plain)
    if is_digits and (_MAY_BE_NUMBER.search(place.key) is not None or len(plain) >= _DIGITS_MIN_CHARS):
        return True
    if not is_code(word) and has_secret_shape(plain):
        return True
    is_harmless = is_path(plain) or is_address(plain) or (place.verdict is not Verdict.SENSITIVE and is_digits)
    return not is_harmless and _is_value(word, plain, place, before, after)


def _is_value(word: str, plain: str, place: Place, before: str, after: str) -> bool:
    """Return whether a word without the shape of a secret stands where only a value can."""
    is_expression = _EXPRESSION.fullmatch(word) is not None
    if before in ("=", ":", ">") and place.link.strip() == place.link and not place.link.endswith("::"):
        return not is_expression or not _is_argument(word, place, after)
    if ":" not in place.link:
        return False
    if is_expression:
        return place.begins_line and after in ("\n", "\r", "") and "_" in plain and plain.islower()
    return place.link[:1] in QUOTED or _WITH_SYMBOL.match(plain) is not None


_WITH_SYMBOL: Final = re.compile(r"[A-Za-z/]{0,24}[0-9@#$%^&*+=~]")
_EXPRESSION: Final = re.compile(
    r"[!*&]*[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)*(?:[(\[{].*|[)\]}]*[,;:.]?)", re.DOTALL
)
"""A name, an attribute, a call or an index in code."""
_ACTIONS: Final = re.compile(
    "add|all|admin|check|create|delete|generate|get|list|manage|new|read|refresh|remove|reset|revoke|rotate|set|show|"
    "sync|test|update|validate|verify|view|write"
)
"""What follows the colon in the names of scopes and tasks, or the name of a role: `token:read`."""


def _is_argument(word: str, place: Place, after: str) -> bool:
    """Return whether a word stands in a call or an object of code, as in `login(user, token=session)`."""
    head = place.head
    if word.endswith(("(", "[", "{")) or word.count(")") > word.count("(") or head.rfind("(") > head.rfind(")"):
        return True
    is_member = place.link[:1] in QUOTED or head.rfind("{") > head.rfind("}") or _ACTIONS.fullmatch(word) is not None
    is_line = place.begins_line and place.line[:1] in (" ", "\t") and after == ","
    return is_line or (":" in place.link and is_member)


_CALL: Final = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)*!?[(\[].*", re.DOTALL)
_DOTTED: Final = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][\w$]*)+[.,:;)\]}]*")
_MIXED_WORD: Final = re.compile(
    r"(?=[^.(\[]*[a-z])(?=[^.(\[]*[A-Z])[A-Za-z_]*[0-9]|(?=[A-Za-z0-9]{8})[A-Za-z]*[0-9]+[A-Za-z]+[0-9]"
)
"""Small and capital letters and digits, or a long part with digits in two places: no name in code."""


def is_code(word: str) -> bool:
    """Return whether a word is a call, an index or an attribute; `kX9(mQ2)vT7` is none."""
    if _DOTTED.fullmatch(word) is not None:
        return not any(map(_MIXED_WORD.match, word.split(".")))
    return is_call(word)


def is_call(word: str) -> bool:
    """Return whether a word is a call or an index."""
    if _CALL.fullmatch(word) is None or _MIXED_WORD.match(word) is not None:
        return _is_class_call(word)
    return _CLOSES_A_CALL.search(word) is None


def _is_class_call(word: str) -> bool:
    """Return whether a word calls a class with digits in its name: `OAuth2Session(..)`, `corev1.Secret{`."""
    return _CLASS_CALL.match(word) is not None and _CLOSES_A_CALL.search(word) is None


_CLASS_CALL: Final = re.compile(
    r"(?:[a-z][a-z0-9_]*\.)*(?:_?(?:OAuth[12]|(?:(?:[A-Z]{1,5}[a-z]{0,16}){1,3}[0-9]{1,5}){1,2}s?(?:[A-Z][a-z]{2,16}){1,4})"
    r"(?:\.[a-z_]\w*)*\([^!@#$%^~]*\Z|(?<=\.)[A-Z][A-Za-z]*\{)"
)
