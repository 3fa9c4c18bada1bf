"""The output of a response: which item each block belongs to, and when items open and close."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from projector.core import canonical as read
from projector.core.canonical import Drops
from projector.providers.anthropic_messages import block_fields as fields
from projector.providers.stage_parts import CALL_SHAPES, Annotation, Call, Event, HostedCall, Outputs, Reasoning
from projector.redaction.clean import Gathered

KEPT_MAX_BYTES: Final = 500_000
"""Size of the blocks of tools of the server that go back: the results of some ten searches."""

REFUSED: Final = "The model refused to answer."


@dataclass(slots=True, eq=False)
class Block:
    """An open block."""

    kind: str
    given: Mapping[str, object]
    """Its `content_block`."""
    call: Call | None = None
    hosted: HostedCall | None = None
    reasoning: Reasoning | None = None
    signature: str = ""
    text_start: int = 0
    citations: list[Mapping[str, object]] = field(default_factory=list)
    inputs: Gathered[str] = field(default_factory=Gathered)

    def input(self) -> str:
        """Return the input of a call: its fragments, or what its start has."""
        return self.inputs.text or read.input_text(self.given, "input") or "{}"


class Output(Outputs):
    """The output items of one response. Each block of thinking is reasoning of its own."""

    def __init__(self, dropped: Drops) -> None:
        super().__init__(dropped)
        self.container_id: str | None = None
        self.is_summary = True
        """Whether thinking is a summary."""
        self.is_visible = False
        """Whether there was a call, or text of a message."""
        self._hosted: dict[str, HostedCall] = {}
        self._unfinished: list[tuple[Call, bool]] = []
        """Calls whose end waits for that of the response, and whether their input is a JSON object: the reason of the
        end, or the container of their code, is not known yet."""
        self._files: list[str] = []
        self._unsaid: list[dict[str, object]] = []
        """Blocks of tools of the server, in their order, that no finished item has as its opaque value yet."""
        self._said_bytes = 0

    def start(self, kind: str, given: Mapping[str, object]) -> tuple[Block | None, list[Event]]:
        """Begin a block; None if its type is unknown."""
        begin = STARTS.get(kind)
        if begin is None and read.text_or_none(given, "tool_use_id") in self._hosted:
            begin = Output.result  # of a tool that is new
        if begin is None:
            self._dropped.note(f"block.{kind}")
            return None, []
        block = Block(kind, given)
        if given.get("input") is not None and read.input_text(given, "input") is None:
            self._dropped.note("block.input")
        if kind == "text":
            block.text_start = self._message.chars if self._message is not None else 0
            block.citations += read.mappings(given, "citations")
            return block, self.text(block, read.text_or_none(given, "text") or "")
        events = self._ended_message("completed")
        return block, events + begin(self, block)

    def text(self, block: Block, delta: str) -> list[Event]:
        """Add text, whatever the type of its block."""
        if not delta:
            return []
        events = self._end_reasoning(block)
        message, added = self._opened_message()
        block.text_start = 0 if added else block.text_start
        self.is_visible = self.is_visible or bool(delta.strip())
        return [*events, *added, message.text(delta)]

    def is_in_text(self, block: Block) -> bool:
        """Return whether text of a block would only continue the text of the message."""
        return self._message is not None and block.reasoning is None

    def skip(self, texts: Sequence[str]) -> None:
        """Add text whose events are not needed; only while `is_in_text`."""
        self.is_visible = self.is_visible or any(text.strip() for text in texts)
        super().skip(texts)

    def thinking(self, block: Block, delta: str) -> list[Event]:
        """Add thinking, whatever the type of its block."""
        if not delta:
            return []
        events: list[Event] = []
        item = block.reasoning
        if item is None:
            events = self._ended_message("completed")
            item, opened = self._begin_reasoning(block)
            events += opened
        return [*events, item.summary(delta) if self.is_summary else item.text(delta)]

    def input(self, block: Block, delta: str) -> list[Event]:
        """Add a fragment of the input of a call."""
        if not delta:
            return []
        if block.call is None and block.hosted is None:
            return self._dropped.drop("input of no call")
        block.inputs.add(delta)
        if block.call is not None:
            return block.call.input(delta)
        hosted = block.hosted
        if hosted is not None and hosted.item_type == fields.MCP:
            return [hosted.progress("response.mcp_call_arguments.delta", delta=delta)]
        return []

    def stop(self, block: Block) -> list[Event]:
        """End a block."""
        events = self._end_reasoning(block)
        if block.call is not None:
            return events + self._end_call(block, block.call)
        if block.hosted is None:
            return events + self._cite(block)
        if block.kind not in fields.UNSHOWN:
            return events + self._end_input(block, block.hosted)
        self._remember(block.given)
        return [*events, self._end_hosted(block.hosted, "completed")]

    def refuse(self, explanation: str | None) -> list[Event]:
        """Add a message with a refusal."""
        message, events = self._opened_message()
        return [*events, message.refusal(explanation or REFUSED)]

    def end(self, status: str, open_blocks: list[Block], *, is_cut: bool) -> list[Event]:
        """Close all items; `is_cut` says that the limit of tokens ended the last one."""
        events: list[Event] = []
        for block in open_blocks:
            if block.call is not None and status != "completed":
                events += block.call.flush()
            else:
                events += self.stop(block)
        for call, is_whole in self._unfinished:
            if fields.CALLER in call.opaque and self.container_id is not None:
                call.opaque["container"] = self.container_id
            events += call.done("incomplete" if is_cut and not is_whole else "completed")
        events += self._cite_files()  # the container is often named only now
        events += self._ended_message("completed" if status == "completed" else "incomplete")
        events += [self._end_hosted(call, "incomplete") for call in self._hosted.values()]
        if self._files:
            self._dropped.note("files without a message", len(self._files))
        self._hosted.clear()
        return events

    # blocks

    def begin_thinking(self, block: Block) -> list[Event]:
        """Begin a block of thinking; it is announced without text too."""
        block.signature = read.text_or_none(block.given, "signature") or ""
        _, events = self._begin_reasoning(block)
        return events + self.thinking(block, read.text_or_none(block.given, "thinking") or "")

    def redacted_thinking(self, block: Block) -> list[Event]:
        """Add thinking that only the provider can read."""
        item, events = self._begin_reasoning(block)
        block.reasoning = None
        data = read.text_or_none(block.given, "data")
        item.opaque = None if data is None else {"data": data}
        return events + item.done("completed")

    def tool_use(self, block: Block) -> list[Event]:
        """Begin a call of a function."""
        item_id, index = self.next_id("fc")
        block.call = Call(read.text_or_none(block.given, "id") or item_id, CALL_SHAPES["function"])
        block.call.name = read.text_or_none(block.given, "name") or ""
        toolset = read.text_or_none(block.given, fields.TOOLSET)
        block.call.members = block.call.opaque = {} if toolset is None else {fields.TOOLSET: toolset}
        self.is_visible = True
        caller = read.mapping_or_empty(block.given, "caller")
        if read.text_or_none(caller, "type") not in {None, "direct"}:
            block.call.opaque = {**block.call.opaque, fields.CALLER: dict(caller), "blocks": self._unsaid}
            self._unsaid = []
        return block.call.added(item_id, index)

    def server_tool_use(self, block: Block) -> list[Event]:
        """Begin a call of a hosted tool."""
        name = read.text_or_none(block.given, "name") or ""
        return self._begin_hosted(block, fields.SERVER_TOOLS.get(name, "server_tool_call"), name)

    def mcp_tool_use(self, block: Block) -> list[Event]:
        """Begin a call of an MCP tool."""
        name = read.text_or_none(block.given, "name") or ""
        members = {"server_label": read.text_or_none(block.given, "server_name") or "", "name": name, "arguments": ""}
        return self._begin_hosted(block, fields.MCP, name, members)

    def result(self, block: Block) -> list[Event]:
        """Add the result of a call, which may be one of an earlier message."""
        call_id = read.text_or_none(block.given, "tool_use_id") or ""
        call = self._hosted.pop(call_id, None)
        item_type = fields.RESULTS.get(block.kind) or (call.item_type if call is not None else "")
        events: list[Event] = []
        if call is None:
            item_id, index = self.next_id("ht")
            call = HostedCall(call_id or item_id, item_type, "", index, {})
            if item_type == fields.MCP:
                call.members |= {"server_label": "", "name": "", "arguments": ""}
            events.append(call.event("added", "in_progress"))
        members, has_failed, files = fields.outcome_of(block.given, item_type)
        if sources := members.pop("sources", None):
            members["action"] = {"type": "search", **call.members.get("action", {}), "sources": sources}
        call.members |= members
        self._files += files
        self._remember(block.given)
        return [*events, self._end_hosted(call, "failed" if has_failed else "completed")]

    def unshown(self, block: Block) -> list[Event]:
        """Begin an item without content."""
        item_id, index = self.next_id("it")
        block.hosted = HostedCall(item_id, block.kind, "", index, {})
        return [block.hosted.event("added", "in_progress")]

    # parts

    def _begin_hosted(
        self, block: Block, item_type: str, name: str, members: dict[str, Any] | None = None
    ) -> list[Event]:
        item_id, index = self.next_id("ht")
        call_id = read.text_or_none(block.given, "id") or item_id
        block.hosted = self._hosted[call_id] = HostedCall(call_id, item_type, name, index, members or {})
        return [block.hosted.event("added", "in_progress")]

    def _remember(self, block: Mapping[str, object]) -> None:
        """Keep a block that the provider wants back, unless those of this response are too large to be kept."""
        text = read.json_text(dict(block))
        self._said_bytes += len(text.encode())
        if text and self._said_bytes <= KEPT_MAX_BYTES:
            self._unsaid.append(dict(block))

    def _end_hosted(self, call: HostedCall, status: str) -> Event:
        """Return the end of a call of a hosted tool, which has the blocks since the last one."""
        done = call.event("done", status)
        if self._unsaid:
            done["item"]["opaque"] = {"blocks": self._unsaid}
            self._unsaid = []
        return done

    def _begin_reasoning(self, block: Block) -> tuple[Reasoning, list[Event]]:
        item = block.reasoning = Reasoning(*self.next_id("rs"))
        return item, [item.added()]

    def _end_reasoning(self, block: Block) -> list[Event]:
        item, block.reasoning = block.reasoning, None
        if item is None:
            return []
        if block.signature:
            item.opaque = {"thinking": item.said, "signature": block.signature}
        return item.done("completed")

    def _end_call(self, block: Block, call: Call) -> list[Event]:
        text = block.input()
        events = [] if block.inputs else call.input(text)
        is_whole = read.object_in(text) is not None
        if is_whole and fields.CALLER not in call.opaque:
            return events + call.done("completed")
        self._unfinished.append((call, is_whole))
        return events + call.flush()

    def _end_input(self, block: Block, hosted: HostedCall) -> list[Event]:
        text = block.input()
        given = read.object_in(text) or {}
        self._remember({**block.given, "input": given})
        if hosted.item_type == fields.MCP:
            hosted.members["arguments"] = text
            return [hosted.progress("response.mcp_call_arguments.done", arguments=text)]
        if hosted.item_type == fields.WEB:
            hosted.members["action"] = fields.action_of(hosted.name, given)
            return [hosted.progress("response.web_search_call.searching")]
        if hosted.item_type == fields.CODE:
            code = hosted.members["code"] = fields.code_of(given)
            if self.container_id is not None:
                hosted.members["container_id"] = self.container_id
            return hosted.call_code(code)
        return []

    def _cite(self, block: Block) -> list[Event]:
        """Return the citations of a block, whose text is known now, and files that were made before it."""
        message = self._message
        if message is None or not message.has_text:
            return self.cite(block.citations)
        annotations: list[Annotation] = []
        for raw in block.citations:
            annotation = fields.citation_of(raw, block.text_start, message.chars)
            if annotation is None:
                self._dropped.note(f"citation.{raw.get('type')}")
            else:
                annotations.append(annotation)
        return self.cite(annotations) + self._cite_files()

    def _cite_files(self) -> list[Event]:
        """Return citations of the files that were made, once their container is known."""
        message = self._message
        if self.container_id is None or message is None or not message.has_text:
            return []
        files, self._files = self._files, []
        place = {"start_index": message.chars, "end_index": message.chars}
        about = {"type": "container_file_citation", "container_id": self.container_id, "filename": ""}
        return self.cite([{**about, "file_id": file_id, **place} for file_id in files])


STARTS: Final[Mapping[str, Callable[[Output, Block], list[Event]]]] = {
    "text": lambda _output, _block: [],
    "thinking": Output.begin_thinking,
    "redacted_thinking": Output.redacted_thinking,
    "tool_use": Output.tool_use,
    "server_tool_use": Output.server_tool_use,
    "mcp_tool_use": Output.mcp_tool_use,
    **dict.fromkeys(fields.RESULTS, Output.result),
    **dict.fromkeys(fields.UNSHOWN, Output.unshown),
}
"""Type of a block -> what begins it."""
