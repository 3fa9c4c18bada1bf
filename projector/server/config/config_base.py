"""Building blocks of the configuration: the base class of its tables, the types of their fields, and extensions.

An extension is an optional subpackage with a table of its own: a row of `EXTENSIONS` and a field of `Settings`. It is
imported when its table is configured.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar, cast, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticKnownError

from projector._errors import known_name
from projector._registry import Registry
from projector.dialects import DIALECTS
from projector.providers import PROVIDERS

NUMBER_MAX: Final = 2**53 - 1
"""Larger numbers are mistakes, and not exact as floats."""
DEFAULT_DIALECT: Final = "public_sse_v1"
DEFAULT: Final = "default"
"""Name of the agent for requests that name none, and of the agent and upstream of the shorthand settings."""
SHORTHAND: Final[Mapping[str, str]] = {
    "api_key": "upstreams",
    "api_key_file": "upstreams",
    "base_url": "upstreams",
    "model": "agents",
}
"""Settings of one upstream with one agent, for a configuration that names no upstreams -> the tables that have them."""

Api: TypeAlias = Annotated[str, AfterValidator(lambda name: known_name("api", name, PROVIDERS))]
Dialect: TypeAlias = Annotated[str, AfterValidator(lambda name: known_name("dialect", name, DIALECTS))]
Dialects: TypeAlias = Annotated[tuple[Dialect, ...], Field(min_length=1)]


_PartT = TypeVar("_PartT")
_TableT = TypeVar("_TableT", bound="Table")


def unwrapped(table: _TableT, **changes: object) -> _TableT:
    """Return the values of a table as the attributes of a plain object, for what each request or event reads.

    Classes of pydantic have `__getattr__`, with which reading an attribute takes ten times as long.
    """
    return cast("_TableT", SimpleNamespace(**{**vars(table), **changes}))


class Table(BaseModel):
    """One table of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_boolean(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, bool):  # pydantic reads it as 0 or 1
            types = {*_types_in(cls.model_fields[str(info.field_name)].annotation)}
            if types & {int, float} and not types & {bool, Any}:
                raise PydanticKnownError("int_type" if int in types else "float_type")
        return value

    @field_validator("*", mode="after")
    @classmethod
    def _is_no_huge_number(cls, value: object) -> object:
        if isinstance(value, int) and abs(value) > NUMBER_MAX:
            raise PydanticKnownError("less_than_equal", {"le": NUMBER_MAX})
        return value


class ExtensionSettings(Table, ABC):
    """The table of an extension; an empty table in the configuration enables it."""

    extension: ClassVar[str]
    """Where the class of the extension is, as `module:name`. `projector.server.app` creates it, with its table."""

    @abstractmethod
    def check(self, agents: Mapping[str, Any]) -> None:
        """Raise `ValueError` if it does not fit the agents."""


EXTENSIONS: Final[Registry[type[ExtensionSettings]]] = Registry(
    {"openwop": "projector.openwop.settings:OpenWopSettings"}
)
"""Name of the table -> its settings."""


def _types_in(annotation: object) -> Iterator[object]:
    """Yield the types in an annotation."""
    yield annotation
    for part in get_args(annotation):
        yield from _types_in(part)


def parts_of(node: object, kind: type[_PartT], path: tuple[str, ...] = ()) -> Iterator[tuple[str, _PartT]]:
    """Yield everything of a type in the settings, after its path: tables, policies, secrets."""
    if isinstance(node, kind):
        yield ".".join(path), node
    elif isinstance(node, Table):
        for name in type(node).model_fields:
            yield from parts_of(getattr(node, name), kind, (*path, name))
    elif isinstance(node, dict):
        for name, inner in node.items():
            yield from parts_of(inner, kind, (*path, name))
    elif isinstance(node, tuple):
        for inner in node:
            yield from parts_of(inner, kind, path)


def raised(check: Callable[..., object], *arguments: object) -> Iterator[str]:
    """Yield what a check raises as `ValueError`."""
    try:
        check(*arguments)
    except ValueError as error:
        yield str(error)


def matching(pattern: str, expected: str) -> AfterValidator:
    """Return a validator for a pattern; its error describes the format in words."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise ValueError(f"expected {expected}")
        return text

    return AfterValidator(check)


def _name_or_list(names: object) -> object:
    if isinstance(names, str):
        return (names,)
    if isinstance(names, Mapping) or not isinstance(names, Iterable):
        raise ValueError("expected a name, or a list of names")  # noqa: TRY004 - pydantic reports it
    return names


NAME_OR_LIST: Final = BeforeValidator(_name_or_list)
"""A validator for a list of names; a single one needs no list."""

NAME: Final = matching(
    r"[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?",
    "a name of at most 64 characters: a to z, 0 to 9, `-` and `_`, with a letter or digit at both ends",
)
Name: TypeAlias = Annotated[str, NAME]


def has_valid_host(url: str) -> bool:
    """Return whether a URL has a host, and optionally a port, that a client can connect to."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")  # each label has 1 to 63 characters
        if host.rpartition(".")[2].isdigit():  # a domain name does not end in a number
            ip_address(host)
    except ValueError:
        return False
    return bool(host) and port != 0 and url.isprintable()


def _check_base_url(url: str) -> str:
    if not (_BASE_URL.fullmatch(url) and has_valid_host(url)):
        raise ValueError("expected http:// or https://, a host, optionally a port and a path, and nothing else")
    return url


def _check_api_url(url: str) -> str:
    for path in (row.request_path for row in PROVIDERS.values()):
        if path and url.rstrip("/").endswith(path):
            raise ValueError(f"expected the base of the API, without `{path}`")
    return url


def check_filled(text: str) -> str:
    """Return a text; raise `ValueError` if it has a placeholder of the pages or of `projector init`."""
    if word := _PLACEHOLDER.search(text):
        raise ValueError(f"has the placeholder {word[0]}: replace it")
    return text


_PLACEHOLDER: Final = re.compile(r"(?<![\w-])(?:RESOURCE(?:-WEST)?|DEPLOYMENT)(?![\w-])")
"""Words that stand for names of the provider's account."""
_BASE_URL: Final = re.compile(r"https?://[^@\s?#]+")
BaseUrl: TypeAlias = Annotated[str, AfterValidator(_check_base_url)]
"""URL of another server. Credentials in it are rejected: it is printed and logged."""
ApiUrl: TypeAlias = Annotated[BaseUrl, AfterValidator(_check_api_url), AfterValidator(check_filled)]
"""URL of an API, to which the server adds the path of a request."""
Model: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(check_filled)]
"""The provider's name of a model."""
