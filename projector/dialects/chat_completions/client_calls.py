"""The calls that the client has to execute, as `tool_calls` of a completion: functions and custom tools.

In a stream of one response each call is written as it arrives. In a run the host may execute a call itself, and clients
execute every call that they receive; so the calls of a run are written at its end, without those that have an output,
those of a response that was followed by another one, and those of a workflow, which does not wait for clients.

A call of a custom tool is written twice in each entry: as `custom`, as the API has it, and as a function whose
arguments are the input, because the models and helpers of the SDKs reject a streamed call that is no function.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from projector.core.canonical import Frame

Delta: TypeAlias = dict[str, Any]
"""An entry of `tool_calls` in a chunk."""

UNNAMED: Final = "unknown"
"""Name of a call whose name has not arrived. Clients join the names of all fragments, so such a call waits."""

CUSTOM: Final = "custom_tool_call"
CALLS: Final = frozenset({"function_call", CUSTOM})
"""Types of items that are calls for the client."""


class _Call:
    """One call as written so far."""

    __slots__ = ("call_id", "has_input", "held", "index", "is_custom", "name")

    def __init__(self, item_type: str) -> None:
        self.is_custom = item_type == CUSTOM
        self.call_id = ""
        self.name = UNNAMED
        self.index: int | None = None
        """Position in `tool_calls`; None until it is written."""
        self.held: list[str] = []
        """Fragments of the input that cannot be written yet."""
        self.has_input = False

    def entry(self, fragment: str, **first: str) -> Delta:
        """Return an entry with a fragment of the input, and for the first one ID, type and name."""
        name = {"name": first.pop("name")} if first else {}
        entry: Delta = {"index": self.index, **first, "function": {**name, "arguments": fragment}}
        if self.is_custom:
            entry["custom"] = {**name, "input": fragment}
        return entry


class ClientCalls:
    """The calls of one stream. Methods that read a frame return the entries of `tool_calls` to write now."""

    def __init__(self, *, is_run: bool) -> None:
        self._is_run = is_run
        self._calls: dict[str, _Call] = {}
        """Item ID -> call, without those that the host executed."""
        self._count = 0
        self._has_ended = False
        """Whether the last response has ended."""

    @property
    def are_waiting(self) -> bool:
        """Whether a call that was written has no output."""
        return any(call.index is not None for call in self._calls.values())

    def end_response(self) -> None:
        """Record that a response has ended."""
        self._has_ended = True

    def add(self, frame: Frame) -> None:
        """Read the announcement of an item. Another response shows that the calls before it were executed."""
        if self._has_ended:  # parallel responses are in workflows, whose calls are not written
            self._has_ended = False
            self._calls.clear()
        if frame["item_type"] in CALLS and not (self._is_run and "workflow" in frame):
            self._calls[frame["item_id"]] = _Call(frame["item_type"])

    def begin(self, frame: Frame) -> list[Delta]:
        """Read a status; the first one has the ID and name of the call."""
        call, tool = self._calls.get(frame["item_id"]), frame["tool"]
        if call is None or call.call_id:
            return []
        call.call_id, call.name = tool["tool_call_id"], tool["name"]
        return [] if self._is_run or call.name == UNNAMED else self._announce(call)

    def feed(self, frame: Frame) -> list[Delta]:
        """Read a delta of the arguments."""
        call = self._calls.get(frame["item_id"])
        return [] if call is None else self._add_input(call, frame["delta"])

    def complete(self, frame: Frame) -> list[Delta]:
        """Read the complete arguments. They are written if no delta was."""
        call = self._calls.get(frame["item_id"])
        if call is None:
            return []
        if call.index is None:
            call.name = frame["tool_name"]
        return [] if call.has_input else self._add_input(call, frame["arguments_text"])

    def close(self, frame: Frame) -> list[Delta]:
        """Read the end of an item. A call that waited for its name is written."""
        call = self._calls.get(frame["item_id"])
        return [] if call is None or self._is_run else self._release(call)

    def answer(self, frame: Frame) -> None:
        """Read an output: the host executed the call."""
        self._calls.pop(frame["item_id"], None)

    def finish(self) -> list[Delta]:
        """Return the calls of a run that wait for the client."""
        return [entry for call in self._calls.values() for entry in self._release(call)]

    def _add_input(self, call: _Call, fragment: str) -> list[Delta]:
        if not fragment:
            return []
        call.has_input = True
        if call.index is None:
            call.held.append(fragment)
            return []
        return [call.entry(fragment)]

    def _release(self, call: _Call) -> list[Delta]:
        """Return a call that was held back, unless it is written already."""
        if call.index is not None:
            return []
        entries = self._announce(call)
        held, call.held = call.held, []
        return entries + [entry for fragment in held for entry in self._add_input(call, fragment)]

    def _announce(self, call: _Call) -> list[Delta]:
        """Return the first entry of a call: ID, type and name, without any input."""
        call.index = self._count
        self._count += 1
        return [call.entry("", id=call.call_id, type="function", name=call.name)]
