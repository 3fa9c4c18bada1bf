"""The redaction policy of a host: limits, key words, formats, registered values, images, reasoning, error messages.

A `Policy` is built once: from keywords, from a table of a configuration file (`Policy.load`), or by the name of a ready
policy in `redaction/policies/` (`Policy.named("strict")`, or `policy = "strict"` in configuration).
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from projector._errors import UsageError
from projector._resources import resource
from projector._validation import describe, nearest
from projector.contracts import limits
from projector.redaction.rules import Rules, normal_form, shipped

_MIN_VALUE_CHARS: Final = 4
"""Minimum length of a registered value; a shorter one would match parts of ordinary words."""

_FRAME_MIN_BYTES: Final = 4_096
"""Least limit of a frame: what is never cut (IDs, names, short fields) takes up to 1,700 bytes in the examples."""

REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to a variable, which is replaced in configuration files."""

Action: TypeAlias = Literal["mask", "block", "report"]
"""What becomes of a value in text: a mark stands for it, it ends the stream, or it is shown with a notice."""
TextAction: TypeAlias = Literal["mask", "block", "report", "off"]
"""The same in settings, where a class can also be switched off."""
CREDENTIALS: Final = "credentials"
"""The class of all credentials in text."""

Count: TypeAlias = Annotated[int, Field(ge=1)]


class PolicyError(UsageError):
    """The configuration is not a valid policy; the message names the entry and what was expected, never a value."""


class _Table(BaseModel):
    """Base class of configuration tables: frozen, and unknown names are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Limits(_Table):
    """The limits of `projector.contracts.limits` that a host may change, under the same names in lower case.

    The limits of names, deltas and notices cannot be changed, because the frame builders depend on them.
    """

    arguments_json_string_max_chars: Count = limits.ARGUMENTS_JSON_STRING_MAX_CHARS
    arguments_text_max_chars: Count = limits.ARGUMENTS_TEXT_MAX_CHARS
    output_string_max_chars: Count = limits.OUTPUT_STRING_MAX_CHARS
    file_search_results_max_items: Count = limits.FILE_SEARCH_RESULTS_MAX_ITEMS
    file_search_text_max_chars: Count = limits.FILE_SEARCH_TEXT_MAX_CHARS
    image_chunk_max_chars: Annotated[int, Field(ge=4, multiple_of=4)] = (
        limits.IMAGE_CHUNK_MAX_CHARS
    )  # each decodes alone
    error_message_max_chars: Count = limits.ERROR_MESSAGE_MAX_CHARS
    frame_max_bytes: Annotated[int, Field(ge=_FRAME_MIN_BYTES)] = limits.FRAME_MAX_BYTES
    container_max_entries: Count = limits.CONTAINER_MAX_ENTRIES
    container_max_depth: Count = limits.CONTAINER_MAX_DEPTH
    id_max_chars: Count = limits.ID_MAX_CHARS
    key_max_chars: Count = limits.KEY_MAX_CHARS
    title_max_chars: Count = limits.TITLE_MAX_CHARS
    url_max_chars: Count = limits.URL_MAX_CHARS
    event_max_bytes: Count = limits.EVENT_MAX_BYTES
    items_max: Count = limits.ITEMS_MAX
    query_max_chars: Count = limits.QUERY_MAX_CHARS


class RegisteredValue(_Table):
    """A secret of the host. It is replaced with `[REDACTED:<id>]`, or with `<redacted>` if it has no id."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] | None = None
    value: SecretStr

    @field_validator("value")
    @classmethod
    def _long_enough(cls, value: SecretStr) -> SecretStr:
        if len(value.get_secret_value().strip()) < _MIN_VALUE_CHARS:
            raise ValueError(f"a registered value needs at least {_MIN_VALUE_CHARS} characters that are not blank")
        return value


def _check_resolved(registered: RegisteredValue) -> RegisteredValue:
    if REFERENCE.fullmatch(registered.value.get_secret_value()):
        place = "is replaced only in a configuration file, not in the value of a variable"
        raise ValueError(f"expected the value itself: a reference such as `${{NAME}}` {place}")
    return registered


def _check_word(word: str) -> str:
    if not normal_form(word):
        raise ValueError("expected a word with letters or digits")
    return word


_Words: TypeAlias = tuple[Annotated[str, AfterValidator(_check_word)], ...]


_LISTS: Final = (
    *("arguments_as_sent", "formats_off", "registered", "rules", "sensitive_keys_add", "sensitive_keys_remove"),
)


class Policy(_Table):
    """The redaction policy of a host. The defaults are those of the contract.

    A table may begin with a ready policy, `base = "strict"`: its own members replace those of the base, and lists add.

    `sensitive_keys_add` are words: a key that contains one (compared as in CONTRACT D25) loses its value.
    `error_messages` selects the messages of provider errors: ours (`generic`), or the provider's, redacted and without
    names of accounts and infrastructure (`provider`). `auto` is `provider` on the routes of the OpenAI APIs, whose
    callers are developers, and `generic` elsewhere (CONTRACT D41).
    `arguments_as_sent` are names of tools that the client runs, or types of their items such as `shell_call`: of the
    arguments of such a call only registered values are withheld.
    `sensitive_keys_remove` are shipped words that no longer count, or whole keys that are harmless (`page_token`).
    `formats_off` are names of formats in `redaction/formats/` or in the host's own files.
    `text` selects what is withheld from text that people read (messages, reasoning, summaries, refusals, structured
    output, titles of citations): nothing (`off`), credentials, or classes with the action of each, such as
    `{email = "mask", phone = "report"}`. Classes are those of `redaction/text/` and of `rules`. A table that does not
    name `credentials` masks them too.
    `echo = "pass"` shows values in text that the caller sent in the same request.
    `rules` are the host's own rule files, in the form of those in `redaction/`. Their paths are relative to the folder
    of the configuration file, or to the working directory if there is none.
    """

    limits: Limits = Limits()
    sensitive_keys_add: _Words = ()
    sensitive_keys_remove: _Words = ()
    formats_off: frozenset[str] = frozenset()
    arguments_as_sent: frozenset[str] = frozenset()
    rules: tuple[Path, ...] = ()
    registered: tuple[Annotated[RegisteredValue, AfterValidator(_check_resolved)], ...] = ()
    images: Literal["chunks", "host"] = "chunks"
    reasoning: Literal["off", "summary", "full"] = "summary"
    encrypted_reasoning: bool = False
    error_messages: Literal["auto", "generic", "provider"] = "auto"
    text: Literal["off", "credentials"] | dict[str, TextAction] = "credentials"
    echo: Literal["off", "pass"] = "off"
    _own_rules: Rules = PrivateAttr(default=Rules())

    @property
    def own_rules(self) -> Rules:
        """The entries of the host's own rule files, with their samples."""
        return self._own_rules

    def __hash__(self) -> int:
        """Return a hash of the content; that of pydantic has none for the table of `text`."""
        return hash(tuple(value for name, value in self.__dict__.items() if name != "text"))

    @property
    def text_actions(self) -> Mapping[str, Action]:
        """The action of each class that is searched for in text."""
        if isinstance(self.text, str):
            return {} if self.text == "off" else {CREDENTIALS: "mask"}
        actions = {CREDENTIALS: "mask", **self.text}
        return {name: action for name, action in actions.items() if action != "off"}

    @property
    def shows_provider_messages(self) -> bool:
        """Whether errors have the provider's message."""
        return self.error_messages == "provider"

    @model_validator(mode="before")
    @classmethod
    def _read_named(cls, table: object) -> object:
        if isinstance(table, str):
            return _ready_table(table)
        return _with_base(table) if isinstance(table, Mapping) and _BASE in table else table

    @field_validator(*_LISTS, mode="before")
    @classmethod
    def _check_list(cls, entries: object) -> object:
        if isinstance(entries, Iterable) and not isinstance(entries, str | bytes | Mapping):
            return entries
        raise ValueError("expected a list, even for one entry")

    @field_validator("text", mode="before")
    @classmethod
    def _check_text(cls, text: object) -> object:
        if isinstance(text, Mapping) or text in ("off", CREDENTIALS):
            return text
        raise ValueError('expected `off`, `credentials`, or a table of classes such as { email = "mask" }')

    @model_validator(mode="after")
    def _read_rules(self) -> Policy:
        if self.rules:
            from projector.redaction.rule_files import read_own  # noqa: PLC0415 - needed with own rules only

            self._own_rules = read_own(self.rules)
        own, known = self._own_rules, shipped()
        classes = {CREDENTIALS, *(row.name for row in (*known.classes, *own.classes))}
        listed = ", ".join(f"`{one}`" for one in sorted(classes))
        of_text = self.text.keys() if isinstance(self.text, Mapping) else ()
        formats = {row.name for row in (*known.formats, *own.formats)}
        problems = [
            *_unknown("class of text", of_text, classes, f"known: {listed}, and those in files of `policy.rules`"),
            *_unknown("format", self.formats_off, formats, "`projector explain rules` lists the formats"),
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @classmethod
    def load(cls, table: Mapping[str, object] | str, folder: str | os.PathLike[str] | None = None) -> Policy:
        """Read a policy from a mapping, such as a TOML table, or by its name; raise `PolicyError` if it is invalid.

        `folder` is where relative paths of rule files begin: the folder of the file that the table is from.
        """
        try:
            return cls.model_validate(table if folder is None else with_rules_in(Path(folder), table))
        except ValidationError as error:
            text = describe(error, table, cls, root="policy")
        raise PolicyError(text)

    @classmethod
    def named(cls, name: str) -> Policy:
        """Return a policy of `redaction/policies/`, `default` or `strict`; raise `PolicyError` for another name."""
        return cls.load(name)


def with_rules_in(folder: Path, table: object) -> Any:
    """Return the table of a policy with the paths of its rule files resolved against a folder."""
    if not isinstance(table, Mapping) or not isinstance(table.get("rules"), list | tuple):
        return table
    paths = [str((folder / name).absolute()) if isinstance(name, str | Path) else name for name in table["rules"]]
    return {**table, "rules": paths}


def _unknown(kind: str, names: Iterable[str], known: Collection[str], otherwise: str) -> Iterator[str]:
    """Yield an error for each name that is not known, with the most similar known one if there is one."""
    for name in sorted({*names} - {*known}):
        found = nearest(name, known)
        yield f"unknown {kind} `{name[:80]}`; {otherwise if found is None else f'did you mean `{found}`?'}"


_BASE: Final = "base"


def _with_base(table: Mapping[str, object]) -> dict[str, object]:
    """Return a table with the members of the ready policy that it begins with."""
    own = dict(table)
    name = own.pop(_BASE)
    if not isinstance(name, str):
        raise ValueError("`base` must be the name of a ready policy")  # noqa: TRY004 - pydantic reports it
    base = _ready_table(name)
    for member, value in base.items():
        added = own.get(member, [])
        if isinstance(value, list) and isinstance(added, list | tuple):
            own[member] = [*value, *added]
    return base | own


def _ready_table(name: str) -> dict[str, object]:
    import tomllib  # noqa: PLC0415 - needed by ready policies only

    files = {path.stem: path for path in (resource("redaction") / "policies").glob("*.toml")}
    if name not in files:
        raise ValueError(f"unknown policy `{name[:80]}`; did you mean `{nearest(name, files, cutoff=0.0)}`?")
    return tomllib.loads(files[name].read_text(encoding="utf-8"))
