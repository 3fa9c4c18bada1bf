"""Clients of each API that read an answer as their libraries do, and send back all that they keep of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tests.asgi.strict_providers import FAILED, IMAGE

Body = dict[str, Any]
Results = list[tuple[str, str]]
DATA_URL: Final = f"data:image/png;base64,{IMAGE}"


class Client:
    """A conversation of one client.

    Args:
        target: name of the agent, and of the model on routes with models.
        is_lossy: whether it keeps texts and calls only.
    """

    path = ""
    title = ""

    def __init__(self, target: str, *, is_lossy: bool) -> None:
        self.target = target
        self.is_lossy = is_lossy
        self.history: list[Body] = []

    @property
    def url(self) -> str:
        return self.path.replace("{agent}", self.target)

    def ask(self, text: str, *, has_image: bool) -> None:
        """Add a message of the user."""
        raise NotImplementedError

    def body(self) -> Body:
        """Return the body of the next request."""
        raise NotImplementedError

    def hear(self, events: list[Body]) -> tuple[str, list[str]]:
        """Add an answer; return its text and the IDs of its calls."""
        raise NotImplementedError

    def answer(self, results: Results) -> None:
        """Add the outputs of calls."""
        raise NotImplementedError


def events_of(text: str) -> list[Body]:
    """Return the events of a stream."""
    lines = (line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:"))
    return [json.loads(line) for line in lines if line.startswith("{")]


class Responses(Client):
    path = title = "/v1/responses"

    def ask(self, text: str, *, has_image: bool) -> None:
        image = [{"type": "input_image", "image_url": DATA_URL}] if has_image else []
        parts = [{"type": "input_text", "text": text}, *image]
        self.history.append({"type": "message", "role": "user", "content": parts})

    def body(self) -> Body:
        return {
            "model": self.target,
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "input": self.history,
        }

    def hear(self, events: list[Body]) -> tuple[str, list[str]]:
        assert events[-1]["type"] == "response.completed", events[-1]
        output = events[-1]["response"]["output"]
        if self.is_lossy:
            output = [{name: one for name, one in item.items() if name != "id"} for item in output]
            output = [item for item in output if item["type"] != "reasoning"]
        self.history += output
        texts = [part["text"] for item in output if item["type"] == "message" for part in item["content"]]
        return "".join(texts), [item["call_id"] for item in output if item["type"] == "function_call"]

    def answer(self, results: Results) -> None:
        self.history += [{"type": "function_call_output", "call_id": one, "output": said} for one, said in results]


class ChatCompletions(Client):
    path = title = "/v1/chat/completions"

    def ask(self, text: str, *, has_image: bool) -> None:
        image = [{"type": "image_url", "image_url": {"url": DATA_URL}}] if has_image else []
        self.history.append({"role": "user", "content": [{"type": "text", "text": text}, *image]})

    def body(self) -> Body:
        return {"model": self.target, "stream": True, "messages": self.history}

    def hear(self, events: list[Body]) -> tuple[str, list[str]]:
        message: Body = {"role": "assistant", "content": ""}
        calls: dict[int, Body] = {}
        for event in events:
            assert "error" not in event, event
            for choice in event["choices"]:
                delta = choice["delta"]
                message["content"] += delta.get("content") or ""
                for given in delta.get("tool_calls", []):
                    call = calls.setdefault(given["index"], given | {"function": {"name": "", "arguments": ""}})
                    for name, value in given["function"].items():
                        call["function"][name] += value
                    call |= {name: value for name, value in given.items() if name != "function"}
                known = {"role", "content", "tool_calls", "refusal"}
                message |= {name: value for name, value in delta.items() if name not in known and not self.is_lossy}
        kept = {"id", "type", "function"} if self.is_lossy else {name for call in calls.values() for name in call}
        message["tool_calls"] = [
            {name: value for name, value in call.items() if name in kept - {"index"}} for call in calls.values()
        ]
        self.history.append({name: value for name, value in message.items() if value})
        return message["content"], [call["id"] for call in calls.values()]

    def answer(self, results: Results) -> None:
        self.history += [{"role": "tool", "tool_call_id": one, "content": said} for one, said in results]


class Messages(Client):
    path = title = "/v1/messages"

    def ask(self, text: str, *, has_image: bool) -> None:
        source = {"type": "base64", "media_type": "image/png", "data": IMAGE}
        image = [{"type": "image", "source": source}] if has_image else []
        self.history.append({"role": "user", "content": [{"type": "text", "text": text}, *image]})

    def body(self) -> Body:
        return {"model": self.target, "max_tokens": 99, "stream": True, "messages": self.history}

    def hear(self, events: list[Body]) -> tuple[str, list[str]]:
        assert events[-1]["type"] == "message_stop", events[-1]
        content: list[Body] = []
        for event in events:
            if event["type"] == "content_block_start":
                content.append(dict(event["content_block"]))
                arguments = ""
            for name, value in event["delta"].items() if event["type"] == "content_block_delta" else ():
                if name == "partial_json":
                    arguments += value
                elif name != "type":
                    content[-1][name] += value
            if event["type"] == "content_block_stop" and content[-1]["type"] == "tool_use":
                content[-1]["input"] = json.loads(arguments)
        kept = [block for block in content if not (self.is_lossy and "thinking" in block["type"])]
        self.history.append({"role": "assistant", "content": kept})
        texts = [block["text"] for block in content if block["type"] == "text"]
        return "".join(texts), [block["id"] for block in content if block["type"] == "tool_use"]

    def answer(self, results: Results) -> None:
        content = [
            {"type": "tool_result", "tool_use_id": one, "content": said, "is_error": said == FAILED}
            for one, said in results
        ]
        self.history.append({"role": "user", "content": content})


class ChatStream(Client):
    path = title = "/api/v1/chat/stream"

    def ask(self, text: str, *, has_image: bool) -> None:
        image = [{"type": "input_image", "image_url": DATA_URL}] if has_image else []
        parts = [{"type": "input_text", "text": text}, *image]
        self.history.append({"type": "message", "role": "user", "content": parts})

    def body(self) -> Body:
        return {"agent": self.target, "input": self.history}

    def hear(self, events: list[Body]) -> tuple[str, list[str]]:
        assert events[-1].get("final", {}).get("status") == "completed", events[-1]
        text = "".join(event["delta"] for event in events if event["kind"] == "message.delta")
        calls = [event for event in events if event["kind"] == "tool.arguments.done"]
        self.history += [{"type": "message", "role": "assistant", "content": text}] if text else []
        for call in calls:
            about = {"name": call["tool_name"], "arguments": call["arguments_text"]}
            self.history.append({"type": "function_call", "call_id": call["tool_call_id"], **about})
        return text, [call["tool_call_id"] for call in calls]

    def answer(self, results: Results) -> None:
        self.history += [{"type": "function_call_output", "call_id": one, "output": said} for one, said in results]


class AgUi(Client):
    path, title = "/api/v1/ag-ui/{agent}", "/api/v1/ag-ui/default"

    def __init__(self, target: str, *, is_lossy: bool) -> None:
        super().__init__(target, is_lossy=is_lossy)
        self._runs = 0

    def ask(self, text: str, *, has_image: bool) -> None:
        source = {"type": "data", "value": IMAGE, "mimeType": "image/png"}
        image = [{"type": "image", "source": source}] if has_image else []
        message = {"id": f"u{len(self.history)}", "role": "user", "content": [{"type": "text", "text": text}, *image]}
        self.history.append(message)

    def body(self) -> Body:
        self._runs += 1
        run = {"threadId": f"t-{id(self)}", "runId": f"r{self._runs}", "protocolVersion": "1.0"}
        messages = [one for one in self.history if not (self.is_lossy and one["role"] == "reasoning")]
        return {**run, "messages": messages, "tools": [], "state": {}, "context": []}

    def _message(self, message_id: str, role: str) -> Body:
        for message in self.history:
            if message["id"] == message_id and message["role"] == role:
                return message
        self.history.append({"id": message_id, "role": role, **({"content": ""} if role == "reasoning" else {})})
        return self.history[-1]

    def hear(self, events: list[Body]) -> tuple[str, list[str]]:
        assert events[-1]["type"] == "RUN_FINISHED", events[-1]
        calls: dict[str, Body] = {}
        text = ""
        for event in events:
            kind = event["type"]
            if kind == "TEXT_MESSAGE_START":
                self._message(event["messageId"], "assistant").setdefault("content", "")
            elif kind == "TEXT_MESSAGE_CONTENT":
                text += event["delta"]
                self._message(event["messageId"], "assistant")["content"] += event["delta"]
            elif kind == "TOOL_CALL_START":
                call: Body = {"id": event["toolCallId"], "type": "function"}
                call["function"] = {"name": event["toolCallName"], "arguments": ""}
                calls[call["id"]] = call
                parent = self._message(event.get("parentMessageId") or event["toolCallId"], "assistant")
                parent.setdefault("toolCalls", []).append(call)
            elif kind == "TOOL_CALL_ARGS":
                calls[event["toolCallId"]]["function"]["arguments"] += event["delta"]
            elif kind == "REASONING_MESSAGE_START":
                self._message(event["messageId"], "reasoning").update(metadata=event.get("metadata", {}))
            elif kind == "REASONING_MESSAGE_CONTENT":
                self._message(event["messageId"], "reasoning")["content"] += event["delta"]
            elif kind == "REASONING_ENCRYPTED_VALUE" and not self.is_lossy:
                is_call = event["subtype"] == "tool-call"
                entity = calls[event["entityId"]] if is_call else self._message(event["entityId"], "reasoning")
                entity["encryptedValue"] = event["encryptedValue"]
        return text, [*calls]

    def answer(self, results: Results) -> None:
        for one, said in results:
            failed = {"error": said} if said == FAILED else {}
            self.history.append({"id": f"{one}-o", "role": "tool", "toolCallId": one, "content": said, **failed})


class AiSdk(Client):
    path, title = "/api/v1/ai-sdk/{agent}", "/api/v1/ai-sdk/default"

    def ask(self, text: str, *, has_image: bool) -> None:
        image = [{"type": "file", "mediaType": "image/png", "url": DATA_URL}] if has_image else []
        parts = [{"type": "text", "text": text}, *image]
        self.history.append({"id": f"u{len(self.history)}", "role": "user", "parts": parts})

    def body(self) -> Body:
        return {"id": f"c-{id(self)}", "trigger": "submit-message", "messages": [*map(self._sent, self.history)]}

    def _sent(self, message: Body) -> Body:
        if not self.is_lossy:
            return message
        metadata = {"providerMetadata", "callProviderMetadata"}
        parts = [{name: one for name, one in part.items() if name not in metadata} for part in message["parts"]]
        return message | {"parts": [part for part in parts if part["type"] != "reasoning"]}

    def hear(self, events: list[Body]) -> tuple[str, list[str]]:
        assert events[-1]["type"] == "finish", events[-1]
        if self.history[-1]["role"] == "user":
            self.history.append({"id": events[0]["messageId"], "role": "assistant", "parts": []})
        parts = self.history[-1]["parts"]
        opened: dict[str, Body] = {}
        begun = len(parts)
        for event in events:
            kind, _, what = event["type"].rpartition("-")
            if event["type"] == "start-step":
                parts.append({"type": "step-start"})
            elif kind in {"text", "reasoning"}:
                if what == "start":
                    opened[event["id"]] = {"type": kind, "text": ""}
                    parts.append(opened[event["id"]])
                opened[event["id"]]["text"] += event.get("delta", "")
                metadata = event.get("providerMetadata")
                opened[event["id"]].update({"providerMetadata": metadata} if metadata else {})
            elif event["type"] == "tool-input-available":
                part = {"type": f"tool-{event['toolName']}", "toolCallId": event["toolCallId"]}
                metadata = event.get("providerMetadata")
                about = {"callProviderMetadata": metadata} if metadata else {}
                parts.append({**part, "state": "input-available", "input": event["input"], **about})
        said = [part["text"] for part in parts[begun:] if part["type"] == "text"]
        return "".join(said), [part["toolCallId"] for part in parts[begun:] if "toolCallId" in part]

    def answer(self, results: Results) -> None:
        for part in self._calls():
            said = dict(results).get(part["toolCallId"])
            if said is not None:
                is_failed = said == FAILED
                part["state"] = "output-error" if is_failed else "output-available"
                part["errorText" if is_failed else "output"] = said

    def _calls(self) -> Iterator[Body]:
        return (part for part in self.history[-1]["parts"] if "toolCallId" in part)


CLIENTS: Final[tuple[type[Client], ...]] = (Responses, ChatCompletions, Messages, ChatStream, AgUi, AiSdk)
