"""Members of requests: those of callers, the table of parameters of each API, and what the writers of all APIs need.

A caller's members are read by name and type; errors name a member by its path, and contain no value. One table for each
API says where it has the parameters, and is read both ways: values have the shape of the Responses API, unless a row of
another API says how they are read and written there. A conversation is written as turns, its parts by their type.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn, Self, TypeAlias, TypeVar, assert_never

from projector.contracts.limits import ID_MAX_CHARS
from projector.conversation import entries as neutral
from projector.conversation.client_history import NO_PARAMETERS
from projector.conversation.entries import Content, Part
from projector.conversation.model_request import Body, UnsupportedRequestError

_Row = TypeVar("_Row")

NOT_SUPPORTED: Final = "is not supported by the model that serves this request."


class Given:
    """An object of a request. Null means absent, as in the OpenAI APIs."""

    def __init__(self, value: object, path: str = "") -> None:
        if not isinstance(value, Mapping):
            raise UnsupportedRequestError(f"`{path}` must be an object.", path)
        self.members: dict[str, object] = {name: member for name, member in value.items() if member is not None}
        self.path = path

    def path_of(self, name: str) -> str:
        """Return the path of a member."""
        return f"{self.path}.{name}" if self.path else name

    def refuse(self, name: str, why: str) -> NoReturn:
        """Raise the error about a member."""
        path = self.path_of(name[:ID_MAX_CHARS])
        raise UnsupportedRequestError(f"`{path}` {why}", path)

    def only(self, *names: str) -> dict[str, object]:
        """Return the members; raise the error about one that is not in `names`."""
        for name in self.members:
            if name not in names:
                self.refuse(name, NOT_SUPPORTED)
        return self.members

    def text(self, name: str) -> str:
        """Return a text."""
        value = self.text_or_none(name)
        return self.refuse(name, "is missing.") if value is None else value

    def text_or_none(self, name: str) -> str | None:
        """Return a text, None if it is absent."""
        value = self.members.get(name)
        return value if isinstance(value, str) or value is None else self.refuse(name, "must be a string.")

    def data_url(self, name: str) -> str:
        """Return a data URL."""
        value = self.text(name)
        return value if value.startswith("data:") else self.refuse(name, "must be a data URL.")

    def child(self, name: str) -> Given:
        """Return an object, which is empty if it is absent."""
        return Given(self.members.get(name, {}), self.path_of(name))

    def values(self, name: str) -> list[object]:
        """Return a list, which is empty if it is absent."""
        value = self.members.get(name, [])
        return value if isinstance(value, list) else self.refuse(name, "must be a list.")

    def objects(self, name: str) -> list[Given]:
        """Return a list of objects."""
        return [Given(value, f"{self.path_of(name)}[{at}]") for at, value in enumerate(self.values(name))]

    def row(self, name: str, table: Mapping[str, _Row]) -> _Row:
        """Return the row of a table that a text names; raise the error about its value if there is none."""
        value = self.text(name)
        return table[value] if value in table else self.unsupported(name)

    def refuse_stored_file(self) -> None:
        """Raise the error about a file that the caller's provider stores, if the object names one."""
        if "file_id" in self.members:
            self.refuse("file_id", "is a file of another provider; send its content.")

    def unsupported(self, name: str) -> NoReturn:
        """Raise the error about the value of a member that has none in the other API."""
        self.refuse(name, f"has a value that {NOT_SUPPORTED}")


TOOL_TYPES: Final = frozenset(
    {
        *("apply_patch", "code_interpreter", "computer", "computer_use_preview", "custom", "file_search", "function"),
        *("image_generation", "local_shell", "mcp", "namespace", "programmatic_tool_calling", "shell", "tool_search"),
        *("web_search", "web_search_preview"),
        # of the Messages API
        *("advisor", "bash", "browser_toolset", "code_execution", "computer_toolset", "mcp_toolset", "memory"),
        *("text_editor", "tool_search_tool_bm25", "tool_search_tool_regex", "web_fetch"),
    }
)
"""Types of tools that an error repeats, without a date at their end; any other is a value of the caller."""
DATE: Final = re.compile(r"_20\d{6}\Z", re.ASCII)
_NAMED_MAX: Final = 128
"""Tools that an error names, as many as providers accept; an error that named all could be larger than its request."""


def tools_of(tools: Sequence[object], supported: Collection[str], *, default: str | None = None) -> list[Given]:
    """Return the tools of a request; raise the error that names the tools whose types are not supported.

    `default` is the type of tools without one, in an API that has such tools.
    """
    found = [Given(tool, f"tools[{at}]") for at, tool in enumerate(tools)]
    types = [default if default and "type" not in tool.members else tool.text("type") for tool in found]
    refused = [(tool, kind) for tool, kind in zip(found, types, strict=True) if kind not in supported]
    if refused:
        path, shown = refused[0][0].path_of("type"), refused[:_NAMED_MAX]
        known = [f" (`{kind}`)" if DATE.sub("", kind) in TOOL_TYPES else "" for _, kind in shown]
        named = [f"`{tool.path}.type`{kind}" for (tool, _), kind in zip(shown, known, strict=True)]
        named += [f"{len(refused) - len(shown)} more"] if len(refused) > len(shown) else []
        has = "has" if len(refused) == 1 else "each have"
        raise UnsupportedRequestError(f"{', '.join(named)} {has} a value that {NOT_SUPPORTED}", path)
    return found


def content_of(given: Given, name: str, readers: Mapping[str, Callable[[Given], Part]]) -> Content:
    """Return a member that is a text, or a list of parts; the readers of these are by their type."""
    if isinstance(given.members.get(name), str):
        return given.text(name)
    return tuple(part.row("type", readers)(part) for part in given.objects(name))


# the table of parameters


class Member(NamedTuple):
    """Where a parameter is in the body of an API."""

    path: str
    """Names joined by `.`."""
    read: Callable[[Given, str], object] = lambda given, name: given.members[name]
    """Returns the neutral value of a member of an object; None if it says nothing."""
    write: Callable[[Any], object] = lambda value: value
    """Returns the value in this API; None, or `UnsupportedRequestError` with its own path, if it has none."""


Members: TypeAlias = Mapping[str, Member]
"""Name of a parameter -> the member of the API."""


def same_names(*names: str) -> dict[str, Member]:
    """Return the rows of parameters that an API has at the top of the body, under their neutral names."""
    return {name: Member(name) for name in names}


HINTS: Final = frozenset(
    {
        *("metadata", "truncation", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
        *("verbosity", "service_tier"),
    }
)
"""Parameters that an API without them may ignore: they are hints, or change nothing of an answer."""

NOT_STORED: Final = ("store", False)
"""A parameter and the value that an API without it has: readers of APIs that store nothing set it for those that do."""

STREAMING: Final = frozenset({"model", "stream", "stream_options"})
"""Members that the server sets itself."""


def read_parameters(
    body: Given, members: Members, read_elsewhere: Collection[str], defaults: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, str]]:
    """Return the parameters of a body by their neutral names, and the path of each in the body.

    Args:
        body: the caller's body.
        members: the table of its API.
        read_elsewhere: members that are no parameters.
        defaults: path -> value that changes nothing, so that it is valid for every API.

    Raises:
        UnsupportedRequestError: a member is in no table.
    """
    names = {member.path: name for name, member in members.items()}
    outer = {path.partition(".")[0] for path in names if "." in path}
    values: dict[str, object] = {}
    paths: dict[str, str] = {}
    for name in body.members:
        if name in read_elsewhere or name in STREAMING:
            continue
        given = body.child(name) if name in outer else body
        for member in given.members if name in outer else (name,):
            path = given.path_of(member)
            if path in defaults and given.members[member] == defaults[path]:
                continue
            if path not in names:
                given.refuse(member, NOT_SUPPORTED)
            value = members[names[path]].read(given, member)
            if value is not None:
                values[names[path]], paths[names[path]] = value, path
    return values, paths


def write_parameters(body: Body, parameters: Mapping[str, object], members: Members, paths: Mapping[str, str]) -> None:
    """Set parameters in a body; raise `UnsupportedRequestError` for one that the API does not have.

    Args:
        body: the body; its nested objects are copied.
        parameters: values by their neutral names.
        members: the table of the API.
        paths: name -> path of the parameter in the caller's request, for errors.
    """
    for name, value in parameters.items():
        given = paths.get(name, name)
        if name not in members:
            if (name, value) == NOT_STORED:
                continue
            raise UnsupportedRequestError(f"`{given}` {NOT_SUPPORTED}", given)
        written = members[name].write(value)
        if written is None:
            raise UnsupportedRequestError(f"`{given}` has a value that {NOT_SUPPORTED}", given)
        *outer, last = members[name].path.split(".")
        node = body
        for key in outer:
            node[key] = dict(node.get(key) or {})  # the configuration must not change
            node = node[key]
        node[last] = written


# what writers need


TEXT_INPUT: Final[Mapping[str, object]] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}
"""Parameters of a custom tool, which has one text as its input, as those of a function."""


class Turns(ABC):
    """The turns of a conversation in one API, to which entries are added in their order."""

    def add(self, entries: Iterable[neutral.Entry]) -> Self:
        """Add entries; raise `UnsupportedRequestError` for one that no API but Responses can express."""
        for entry in entries:
            match entry:
                case neutral.Message():
                    self.message(entry)
                case neutral.ToolCall():
                    self.call(entry)
                case neutral.ToolOutput():
                    self.output(entry)
                case neutral.ServerCall():
                    self.call(neutral.ToolCall(entry.id, entry.name, entry.input))
                    self.output(neutral.ToolOutput(entry.id, entry.output))
                case neutral.Reasoning():
                    self.reasoning(entry)
                case neutral.Approval():
                    raise UnsupportedRequestError(_NO_ITEMS.format("mcp_approval_response"))
                case neutral.ApprovalRequest():
                    raise UnsupportedRequestError(_NO_ITEMS.format("mcp_approval_request"))
                case neutral.DroppedCalls():
                    pass
                case _:
                    assert_never(entry)
        return self

    @abstractmethod
    def message(self, entry: neutral.Message) -> None:
        """Add a message."""

    @abstractmethod
    def call(self, entry: neutral.ToolCall) -> None:
        """Add a call."""

    @abstractmethod
    def output(self, entry: neutral.ToolOutput) -> None:
        """Add the output of a call."""

    def reasoning(self, entry: neutral.Reasoning) -> None:  # noqa: B027 - only the provider that encrypted it can read it
        """Add reasoning, if it is of this provider."""


_NO_ITEMS: Final = "This agent does not support items of type `{}`."


class PartWriters(NamedTuple):
    """What writes the parts of messages in an API."""

    text: Callable[[str], Body | None]
    """Writes a text or refusal; None for an empty one, which many APIs refuse."""
    image: Callable[[neutral.Image], Body]
    file: Callable[[neutral.File], Body]


def written_parts(content: Content, writers: PartWriters) -> list[Body]:
    """Return the parts of content; a text is one part."""
    parts = (neutral.Text(content),) if isinstance(content, str) else content
    return [written for part in parts if (written := _written(part, writers)) is not None]


def _written(part: Part, writers: PartWriters) -> Body | None:
    if isinstance(part, neutral.Image):
        return writers.image(part)
    return writers.file(part) if isinstance(part, neutral.File) else writers.text(part.text)


def typed_text(text: str) -> Body | None:
    """Return a text as an object of the type `text`; None for an empty one."""
    return {"type": "text", "text": text} if text else None


def data_of(url: str) -> tuple[str, str] | None:
    """Return media type and base64 of a data URL; None for another URL."""
    if not url.startswith("data:"):
        return None
    head, _, data = url.removeprefix("data:").partition(",")
    media_type, _, coding = head.partition(";")
    if coding.rpartition(";")[2] != "base64":
        raise UnsupportedRequestError("A data URL must be in base64.")
    return media_type, data


class ClientFunction(NamedTuple):
    """A tool of the client as a function."""

    name: str
    about: Body
    """The description, if there is one."""
    schema: Any
    """JSON Schema of the arguments."""


CLIENT_TOOLS: Final = frozenset({"function", "custom"})
"""Types of the tools that a client runs; `tools_of` refuses others."""

WEB_SEARCHES: Final = frozenset({"web_search", "web_search_2025_08_26", "web_search_preview"})
"""Types of the tool with which a provider searches the web."""


def function_of(tool: Given) -> ClientFunction:
    """Return a tool of the client, whose type is one of `CLIENT_TOOLS`, as a function.

    The grammar of a custom tool is a part of the description: the schema of a function can have none.
    """
    form = tool.child("format")
    grammar = form.text_or_none("definition")
    rule = f"The input follows this grammar ({form.text('syntax')}):\n{grammar}" if grammar else None
    description = "\n\n".join(filter(None, (tool.text_or_none("description"), rule)))
    about: Body = {"description": description} if description else {}
    schema = TEXT_INPUT if tool.text("type") == "custom" else tool.members.get("parameters") or NO_PARAMETERS
    return ClientFunction(tool.text("name"), about, schema)


def listed(value: object) -> object:
    """Return a text as a list of one."""
    return [value] if isinstance(value, str) else value
