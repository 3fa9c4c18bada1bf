"""`langchain-anthropic` against a server: streams, whole answers and a tool loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

from asking_anthropic import KEY, MAX_TURNS, Result, Ways, run, tools_of
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage


def ways(url: str) -> Ways:
    """Return the ways of asking `langchain-anthropic`."""

    def chat(model: str) -> Any:
        return ChatAnthropic(model=model, base_url=url, api_key=KEY, max_tokens=100)  # type: ignore[call-arg, arg-type]

    def read(message: AIMessage) -> Result:
        content = message.content if isinstance(message.content, list) else [message.content]
        blocks: list[Any] = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content if one]
        blocks = [block for block in blocks if block["type"] in {"text", "thinking"}]
        shown = [{name: one[name] for name in ("type", "text", "thinking") if name in one} for one in blocks]
        calls = [{"type": "tool_use", "name": one["name"], "input": one["args"]} for one in message.tool_calls]
        return {"content": shown + calls, "stop_reason": message.response_metadata["stop_reason"]}

    def streamed(asked: Any, messages: Any, received: list[str]) -> Any:
        chunks = list(asked.stream(messages))
        received += map(str, chunks)
        return reduce(add, chunks)

    def whole(asked: Any, messages: Any, received: list[str]) -> Any:
        answer = asked.invoke(messages)
        received.append(str(answer))
        return answer

    def loop(ask: Callable[..., Any], model: str) -> Result:
        executed: list[Any] = []
        received: list[str] = []
        tools = {tool.__name__: tool for tool in tools_of(executed)}
        asked = chat(model).bind_tools(list(tools.values()))
        messages: list[Any] = [HumanMessage("Hi")]
        for _ in range(MAX_TURNS):
            answer = ask(asked, messages, received)
            messages.append(answer)
            messages += [
                ToolMessage(tools[one["name"]](**one["args"]), tool_call_id=one["id"]) for one in answer.tool_calls
            ]
            if not answer.tool_calls:
                break
        return {**read(messages[-1]), "executed": executed, "received": received}

    return {
        "streamed": lambda model: read(streamed(chat(model), "Hi", [])),
        "whole": lambda model: read(whole(chat(model), "Hi", [])),
        "loop_streamed": lambda model: loop(streamed, model),
        "loop_whole": lambda model: loop(whole, model),
    }


if __name__ == "__main__":
    run(ways)
