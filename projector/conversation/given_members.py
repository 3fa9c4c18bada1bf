"""Members of a caller's request, read by name and type. Errors name a member by its path, and contain no value."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NoReturn

from projector.contracts.limits import ID_MAX_CHARS
from projector.conversation.entries import Content, Part
from projector.conversation.model_request import UnsupportedRequestError

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


def tools_of(tools: Sequence[object], supported: Collection[str], *, default: str | None = None) -> list[Given]:
    """Return the tools of a request; raise the error that names each tool whose type is not supported.

    `default` is the type of tools without one, in an API that has such tools.
    """
    found = [Given(tool, f"tools[{at}]") for at, tool in enumerate(tools)]
    types = [default if default and "type" not in tool.members else tool.text("type") for tool in found]
    refused = [(tool, kind) for tool, kind in zip(found, types, strict=True) if kind not in supported]
    if refused:
        path = refused[0][0].path_of("type")
        named = [f"`{tool.path}.type`{_known_type(kind)}" for tool, kind in refused]
        has = "has" if len(refused) == 1 else "each have"
        raise UnsupportedRequestError(f"{', '.join(named)} {has} a value that {NOT_SUPPORTED}", path)
    return found


def _known_type(kind: str) -> str:
    return f" (`{kind}`)" if DATE.sub("", kind) in TOOL_TYPES else ""


def content_of(given: Given, name: str, readers: Mapping[str, Callable[[Given], Part]]) -> Content:
    """Return a member that is a text, or a list of parts; the readers of these are by their type."""
    if isinstance(given.members.get(name), str):
        return given.text(name)
    return tuple(part_of(part, readers) for part in given.objects(name))


def part_of(part: Given, readers: Mapping[str, Callable[[Given], Part]]) -> Part:
    """Return a part; raise the error about its type if it has no reader."""
    read = readers.get(part.text("type"))
    return part.unsupported("type") if read is None else read(part)
