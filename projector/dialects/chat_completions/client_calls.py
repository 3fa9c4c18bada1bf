"""The calls that the client has to execute, as `tool_calls` of a completion: functions and custom tools.

In a stream of one response each call is written as it arrives. In a run the host may execute a call itself, and clients
execute every call that they receive; so the calls of a run are written at its end, without those that have an output,
those of a response that was followed by another one, and those of a workflow, which does not wait for clients.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from projector.core.canonical import Frame

Delta: TypeAlias = dict[str, Any]
"""An entry of `tool_calls` in a chunk."""

UNNAMED: Final = "unknown"
"""Name of a call whose name has not arrived. Clients join the names of all fragments, so such a call waits."""

INPUTS: Final = {"function_call": ("function", "arguments"), "custom_tool_call": ("custom", "input")}
"""Item type -> type of the call, and the member of the call with its input."""


class _Call:
    """One call as written so far."""

    __slots__ = ("branch", "call_id", "has_input", "held", "index", "input", "kind", "name")

    def __init__(self, item_type: str, branch: int) -> None:
        self.kind, self.input = INPUTS[item_type]
        self.branch = branch
        self.call_id = ""
        self.name = UNNAMED
        self.index: int | None = None
        """Position in `tool_calls`; None until it is written."""
        self.held: list[str] = []
        """Fragments of the input that cannot be written yet."""
        self.has_input = False


class ClientCalls:
    """The calls of one stream. Methods that read a frame return the entries of `tool_calls` to write now."""

    def __init__(self, *, is_run: bool) -> None:
        self._is_run = is_run
        self._calls: dict[str, _Call] = {}
        """Item ID -> call, without those that the host executed."""
        self._count = 0
        self._branch = 0
        self._ended: set[int] = set()
        """Branches whose last response has ended."""

    @property
    def are_waiting(self) -> bool:
        """Whether a call that was written has no output."""
        return any(call.index is not None for call in self._calls.values())

    def enter(self, branch: int) -> None:
        """Set the branch of the following frames."""
        self._branch = branch

    def end_response(self) -> None:
        """Record that the response of this branch has ended."""
        self._ended.add(self._branch)

    def add(self, frame: Frame) -> None:
        """Read the announcement of an item. In a run, a new response shows that earlier calls were executed."""
        if self._branch in self._ended:
            self._ended.remove(self._branch)
            self._calls = {name: call for name, call in self._calls.items() if call.branch != self._branch}
        if frame["item_type"] in INPUTS and not (self._is_run and "workflow" in frame):
            self._calls[frame["item_id"]] = _Call(frame["item_type"], self._branch)

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
        return [{"index": call.index, call.kind: {call.input: fragment}}]

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
        body = {"name": call.name, call.input: ""}
        return [{"index": call.index, "id": call.call_id, "type": call.kind, call.kind: body}]
