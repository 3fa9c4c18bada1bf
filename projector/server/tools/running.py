"""Calls of a model to functions of the host: arguments, time limit, result."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import anyio
from anyio import CapacityLimiter, to_thread

from projector.contracts import codec
from projector.conversation.call_pairs import OUTPUT_TYPES
from projector.server.streaming.session import log_crash

Tool: TypeAlias = Callable[..., Any]
"""A function, or a coroutine function. A plain function runs in a thread, because it may block."""

FAILURES: Final[Mapping[str, str]] = {
    "unknown": "There is no tool of this name.",
    "arguments": "The arguments are not a JSON object that fits the parameters of the tool.",
    "timeout": "The tool did not finish in time.",
    "failed": "The tool failed.",
}
"""How a call fails -> what model and client are told. The text of an exception is never sent."""


class Call(NamedTuple):
    """A call of the model."""

    call_id: str
    name: str
    item_type: str
    input: str
    """The arguments of a function as JSON text, or the input of a custom tool."""


class Result(NamedTuple):
    """The result of a call."""

    call: Call
    output: Any
    """A JSON value."""
    is_failed: bool = False

    @property
    def item(self) -> dict[str, Any]:
        """The result as an input item."""
        text = self.output if isinstance(self.output, str) else codec.dumps(self.output).decode()
        return {"type": OUTPUT_TYPES[self.call.item_type], "call_id": self.call.call_id, "output": text}

    @property
    def event(self) -> dict[str, Any]:
        """The result as an event of the host."""
        status = "failed" if self.is_failed else "completed"
        return {"type": "projector.tool_output", "call_id": self.call.call_id, "output": self.output, "status": status}


class ToolRunner:
    """Runs calls, a limited number at a time; each has a time limit, which begins when it runs."""

    def __init__(self, tools: Mapping[str, Tool], *, timeout_s: float, max_parallel: int) -> None:
        self._tools = dict(tools)
        self._timeout_s = timeout_s
        self._turns = CapacityLimiter(max_parallel)
        self._threads = CapacityLimiter(max_parallel)

    async def run(self, call: Call) -> Result:
        """Run a call. Any failure of it is a result."""
        tool = self._tools.get(call.name)
        if tool is None:
            return _failed(call, "unknown")
        try:
            bound = _bind(tool, call)
        except (TypeError, codec.CodecError):
            return _failed(call, "arguments")
        async with self._turns:
            try:
                with anyio.move_on_after(self._timeout_s):
                    return Result(call, _json_value(await self._result(bound)))
            except (Exception, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                    raise  # the loop was stopped, not something that the tool awaited
                log_crash("tool_failed", error, tool=call.name)
                return _failed(call, "failed")
        return _failed(call, "timeout")

    async def _result(self, bound: Callable[[], Any]) -> Any:
        if inspect.iscoroutinefunction(bound.func if isinstance(bound, partial) else bound):
            return await bound()
        result = await to_thread.run_sync(bound, abandon_on_cancel=True, limiter=self._threads)
        return await result if inspect.isawaitable(result) else result


def _failed(call: Call, reason: str) -> Result:
    return Result(call, {"error": FAILURES[reason]}, is_failed=True)


def _bind(tool: Tool, call: Call) -> Callable[[], Any]:
    """Return the call of the function; raise `TypeError` or `CodecError` if the arguments do not fit."""
    if call.item_type == "custom_tool_call":
        return partial(tool, call.input)
    arguments = codec.loads(call.input.encode("utf-8", "surrogatepass")) if call.input.strip() else {}
    if not isinstance(arguments, dict):
        raise TypeError("expected a JSON object")
    with contextlib.suppress(ValueError):  # some functions in C have no signature
        inspect.signature(tool).bind(**arguments)
    return partial(tool, **arguments)


def _json_value(value: Any) -> Any:
    """Return a result as a JSON value; raise if it cannot be one."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    return codec.loads(codec.dumps(value))
