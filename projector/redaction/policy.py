"""What a host may decide about redaction: limits, key words, formats, registered values, images, reasoning.

A `Policy` is built once, from keywords or from a table of a configuration file (`Policy.load`). Unknown names are
refused with the nearest known one. A registered value never shows in a `repr` or in an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from projector._validation import describe
from projector.contracts import limits
from projector.redaction.formats import FORMATS

_MIN_VALUE_CHARS: Final = 4
"""A shorter registered value would be found in every other word."""

_CONFIG: Final = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

Count: TypeAlias = Annotated[int, Field(ge=1)]


class PolicyError(ValueError):
    """The configuration is not a policy; the message names the entry and what was expected, never a value."""


def _nearest(name: object, known: Iterable[str]) -> str:
    """Give the end of an error message: the known name that was probably meant."""
    close = difflib.get_close_matches(str(name), list(known), n=1, cutoff=0.0)
    return f"; the nearest known name is `{close[0]}`" if close else ""


class _Table(BaseModel):
    """A table of configuration: frozen, and strict about names."""

    model_config = _CONFIG

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, table: object) -> object:
        if isinstance(table, Mapping):
            for name in table:
                if name not in cls.model_fields:
                    raise ValueError(f"unknown name `{str(name)[:80]}`{_nearest(name, cls.model_fields)}")
        return table


class Limits(_Table):
    """The numbers of `projector.contracts.limits` that a host may change, each under its name in lower case.

    Names, deltas and notices have the same bounds for everybody: frames are built on them.
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
    frame_max_bytes: Count = limits.FRAME_MAX_BYTES
    container_max_entries: Count = limits.CONTAINER_MAX_ENTRIES
    container_max_depth: Count = limits.CONTAINER_MAX_DEPTH
    id_max_chars: Count = limits.ID_MAX_CHARS
    key_max_chars: Count = limits.KEY_MAX_CHARS
    title_max_chars: Count = limits.TITLE_MAX_CHARS
    url_max_chars: Count = limits.URL_MAX_CHARS
    event_max_bytes: Count = limits.EVENT_MAX_BYTES
    query_max_chars: Count = limits.QUERY_MAX_CHARS


class RegisteredValue(_Table):
    """A secret that the host knows: it leaves as `[REDACTED:<id>]`, or as `<redacted>` where it has no id."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")] | None = None
    value: SecretStr

    @field_validator("value")
    @classmethod
    def _long_enough(cls, value: SecretStr) -> SecretStr:
        if len(value.get_secret_value().strip()) < _MIN_VALUE_CHARS:
            raise ValueError(f"a registered value needs at least {_MIN_VALUE_CHARS} characters that are not blank")
        return value


class Policy(_Table):
    """Everything that a host may decide. The defaults are the contract's.

    `sensitive_keys_add` are words: a key that contains one (compared as in CONTRACT D25) loses its value.
    `sensitive_keys_remove` are built-in words that no longer count, or whole keys that are no secrets after all
    (`page_token`). `formats_off` names rows of `projector.redaction.formats.FORMATS`.
    """

    limits: Limits = Limits()
    sensitive_keys_add: tuple[str, ...] = ()
    sensitive_keys_remove: tuple[str, ...] = ()
    formats_off: frozenset[str] = frozenset()
    registered: tuple[RegisteredValue, ...] = ()
    images: Literal["chunks", "host"] = "chunks"
    reasoning: Literal["off", "summary", "full"] = "summary"
    encrypted_reasoning: bool = False

    @field_validator("formats_off")
    @classmethod
    def _known_formats(cls, names: frozenset[str]) -> frozenset[str]:
        known = [row.name for row in FORMATS]
        for name in sorted(names):
            if name not in known:
                raise ValueError(f"unknown format `{name[:80]}`{_nearest(name, known)}")
        return names

    @classmethod
    def load(cls, table: Mapping[str, object]) -> Policy:
        """Read a policy from a plain mapping, as a TOML table gives it.

        Raises:
            PolicyError: an unknown name, or a value of the wrong type; the message holds no value.
        """
        try:
            return cls.model_validate(table)
        except ValidationError as error:
            message = describe(error, table, cls, root="policy")
        raise PolicyError(message)
