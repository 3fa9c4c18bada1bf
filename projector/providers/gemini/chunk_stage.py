"""Chunks of `streamGenerateContent` as canonical events: identity, parts, grounding, end, errors and usage.

A response ends with the input after a finish reason, or with a chunk without candidates after one: usage may follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from projector.core import canonical as read
from projector.core.lane import Slots
from projector.core.sse import AFTER_THE_END, NO_CHUNK, NO_OBJECT, SseMessage
from projector.providers.error_shapes import error_of
from projector.providers.gemini import gemini_fields as fields
from projector.providers.gemini.gemini_output import Output, action_of
from projector.providers.gemini.partial_arguments import PartialArguments
from projector.providers.stage_parts import Event, Events, JsonStage, index_of

TOOLS: Final[Mapping[str, str]] = {
    "GOOGLE_SEARCH_WEB": fields.WEB,
    "GOOGLE_SEARCH_IMAGE": fields.WEB,
    "GOOGLE_MAPS": fields.WEB,
    "URL_CONTEXT": fields.WEB,
    "FILE_SEARCH": fields.FILES,
}
"""Type of a tool of the server -> type of its item."""
PAGES: Final = "URL_CONTEXT"
_TEXT_CHUNK: Final = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId"})
"""Members of a chunk with nothing but text."""
FIRST: Final = 0
"""Index of the only candidate that is read; without one, its position counts."""
TRUE: Final[tuple[object, ...]] = (True, "true")
"""Values of `thought`; some servers send text."""
FAILED_CODE: Final[tuple[object, ...]] = ("OUTCOME_FAILED", 2, "OUTCOME_DEADLINE_EXCEEDED", 3)
FETCHED: Final[tuple[object, ...]] = ("URL_RETRIEVAL_STATUS_SUCCESS", 1)
"""Names of states with their numbers, which servers that send arrays use."""


class ChunkStage(JsonStage):
    """Translates one response."""

    def __init__(self) -> None:
        super().__init__(fields.CHUNK_COUNTS)
        self._output = Output(self._dropped)
        self._is_blocked = False
        self._arguments: PartialArguments | None = None
        self._thoughts: list[tuple[str, str | None]] = []
        """Thoughts within an open call, which follow it."""
        self._tools: set[str] = set()
        """Types of items of tools that the stream has in place, and of searches that were announced."""
        self._pages: set[str] = set()
        self._calls: dict[str, int] = {}
        """ID of the model -> hash of its whole call."""
        self._has_ids = False
        """Whether a second chunk had the ID of the response: in some gateways, each has its own."""

    def read(self, value: object, message: SseMessage) -> Events:
        """Return the events of a chunk, or of a list of chunks."""
        chunks = [fields.without_envelope(one) for one in (value if isinstance(value, list) else [value])]
        if fields.has_other_names(message.data):
            chunks = [fields.with_api_names(chunk) for chunk in chunks]
        return [event for chunk in chunks for event in self._read(chunk, message.data)]

    def close(self) -> Events:
        """Return the end of the response, if there was a finish reason; else the stream was truncated."""
        if self._is_over or not (self._reason or self._is_blocked):
            return []
        return self._end()

    def slots(self, chunk: Mapping[str, Any], _name: str, /) -> Slots | None:
        """Return what may differ in further chunks with nothing but text, and counts; None for another chunk."""
        candidates, usage = chunk.get("candidates"), read.mapping_or_empty(chunk, "usageMetadata")
        if not isinstance(candidates, list) or len(candidates) != 1 or not _TEXT_CHUNK.issuperset(chunk):
            return None
        is_in_text = self._arguments is None and self._output.is_in_text and self._response.get("id") is not None
        is_known = self._has_ids or "responseId" not in chunk  # else a second one with this ID has a meaning
        if not (is_in_text and is_known) or not fields.MEMBERS["chunk"]["usageMetadata"].issuperset(usage):
            return None
        candidate = candidates[0]
        if type(candidate) is not dict or index_of({"index": FIRST, **candidate}) != FIRST:
            return None
        content = read.mapping_or_empty(candidate, "content")
        if not {"content", "index"}.issuperset(candidate) or not {"parts", "role"}.issuperset(content):
            return None
        parts = content.get("parts")
        if type(parts) is not list or [type(part) is dict and [*part] for part in parts] != [["text"]]:
            return None
        names = [name for name, count in usage.items() if type(count) is int and count > 0]
        return Slots(
            ("candidates", 0, "content", "parts", 0, "text"),
            next_number=self._next_number,
            counts=tuple(("usageMetadata", name) for name in names),
            on_counts=lambda counts: self._usage.update(zip(names, counts, strict=True)),
        )

    def skip(self, texts: Sequence[str], numbers: Sequence[int], /) -> None:
        """Record deltas of the text, and their sequence numbers."""
        self._output.skip(texts)
        self._pass_over(numbers)

    def _read(self, chunk: object, data: bytes) -> Events:
        if self._is_over or not read.is_mapping(chunk):
            return self._dropped.drop(AFTER_THE_END if self._is_over else NO_OBJECT)
        is_chunk = not fields.CHUNK_MARKS.isdisjoint(chunk)
        if chunk.get("error") or (not is_chunk and error_of(chunk, has_begun=bool(self._response)) is not None):
            return self._fail(fields.error_members(chunk).event())
        if not is_chunk:
            return self._dropped.drop(NO_CHUNK)
        self._dropped.note_unknown_in(chunk, fields.MEMBERS["chunk"], "chunk")
        known, response_id = self._response.get("id"), read.text_or_none(chunk, "responseId")
        self._has_ids |= response_id is not None and response_id == known
        if self._has_ids and response_id not in {None, known} and chunk.get("candidates"):
            return self._another()
        self._usage |= {name: count for name, count in read.mapping_or_empty(chunk, "usageMetadata").items() if count}
        events = self._identify(chunk, response_id, data)
        self._is_blocked |= bool(read.mapping_or_empty(chunk, "promptFeedback").get("blockReason"))
        candidates = self._dropped.objects(chunk, "chunk", "candidates")
        for at, candidate in enumerate(candidates):
            if (at if candidate.get("index") is None else index_of(candidate)) == FIRST:
                events += self._read_candidate(candidate)
            else:
                self._dropped.note("candidates beyond the first")
        if self._reason is not None and not candidates:
            return [*self._numbered(events), *self._end()]
        return self._numbered(events)

    def _identify(self, chunk: Mapping[str, object], response_id: str | None, data: bytes) -> list[Event]:
        """Announce the response, and again when its ID is known."""
        known = self._response
        if known.get("id") or (known and response_id is None):
            return []
        if not known:
            self._output.response_id = response_id or blake2b(data, digest_size=8).hexdigest()
        model = read.text_or_none(chunk, "modelVersion")
        return self._announce(id=response_id, model=model, usage=self.usage_so_far())

    def _read_candidate(self, candidate: Mapping[str, object]) -> list[Event]:
        self._dropped.note_unknown_in(candidate, fields.MEMBERS["candidate"], "candidate")
        events: list[Event] = []
        content = read.mapping_or_empty(candidate, "content")
        if candidate.get("content") and not content:
            self._dropped.note("candidate.content")
        for part in self._dropped.objects(content, "content", "parts"):
            events += self._read_part(part)
        for name, note in METADATA.items():
            if metadata := read.mapping_or_empty(candidate, name):
                events += note(self, metadata)
        finish = fields.finish_of(candidate.get("finishReason"))
        if finish is not None:
            self._reason = finish
            if finish not in fields.ENDS:
                self._dropped.note(f"finishReason.{finish}")
        return events

    # parts

    def _read_part(self, part: Mapping[str, object]) -> list[Event]:
        kinds = [kind for kind in PARTS if kind in part]
        unknown = part.keys() - fields.MEMBERS["part"]["part"]
        self._dropped.note_unknown_in(part, fields.MEMBERS["part"], "part")
        if self._is_repeated(read.mapping_or_empty(part, "functionCall")):
            return self._dropped.drop("repeated call")
        if not kinds:
            if signature := read.text_or_none(part, "thoughtSignature"):
                return self._output.text("", signature)
            if not unknown:
                self._dropped.note(f"part.{next(iter(part), '(empty)')}")
        if len(kinds) > 1:
            self._dropped.note("several kinds in one part")
        return [event for kind in kinds for event in PARTS[kind](self, part)]

    def _is_repeated(self, given: Mapping[str, object]) -> bool:
        """Record a whole call; return whether it was read before, under its ID."""
        call_id = read.text_or_none(given, "id")
        if call_id in {None, read.text_or_none(given, "name")} or not given.get("args"):
            return False  # some servers send the name of the function as the ID of each of its calls
        before, self._calls[call_id] = self._calls.get(call_id), hash(read.json_text(given))
        return before == self._calls[call_id]

    def on_text(self, part: Mapping[str, object]) -> list[Event]:
        """Add text, or a thought."""
        text, signature = read.text_or_none(part, "text") or "", read.text_or_none(part, "thoughtSignature")
        if part["text"] is not None and not isinstance(part["text"], str):
            self._dropped.note("part.text")
        if not text and (len(part) > (signature is not None) + 1 + ("thought" in part)):
            return []  # an empty text beside something else, whose signature it is
        is_thought = part.get("thought") in TRUE
        if is_thought and self._arguments is not None:
            self._thoughts.append((text, signature))
            return []
        events = self._end_arguments() if text else []
        return events + (self._output.thought if is_thought else self._output.text)(text, signature)

    def on_call(self, part: Mapping[str, object]) -> list[Event]:
        """Begin a call, or continue the open one; a call without `willContinue` is whole."""
        given = read.mapping_or_empty(part, "functionCall")
        name, call_id = read.text_or_none(given, "name"), read.text_or_none(given, "id")
        goes_on, args = given.get("willContinue") is True, given.get("args")
        events: list[Event] = []
        signature = read.text_or_none(part, "thoughtSignature")
        begins = name is not None or (bool(args) and self._arguments is None)
        if begins:
            events = self._end_arguments()
            events += self._output.call(name or "", call_id, signature, is_whole=not goes_on)
            self._arguments = PartialArguments()
        elif signature:
            self._output.sign_call(signature)
        if self._arguments is None:
            return self._dropped.drop("part of no call")
        is_whole = begins and bool(args) and isinstance(args, dict | str)
        for one in read.mappings(given, "partialArgs") if not is_whole else ():
            if (text := self._arguments.add(one)) is None:
                self._dropped.note("partialArgs")
            elif text:
                events += self._output.arguments(text)
        if is_whole:
            self._arguments = None
            text = self._dropped.input_of(given, "args", "functionCall.args") or "{}"
            return [*events, *self._output.arguments(text), *self._output.end_call()]
        if args:
            self._dropped.note("functionCall.args")
        return events if goes_on else events + self._end_arguments()

    def on_code(self, part: Mapping[str, object]) -> list[Event]:
        """Add code that the provider runs."""
        given = read.mapping_or_empty(part, "executableCode")
        code, call_id = read.text_or_none(given, "code") or "", read.text_or_none(given, "id")
        return self._end_arguments() + self._output.code(code, call_id)

    def on_code_result(self, part: Mapping[str, object]) -> list[Event]:
        """Add what the code has written."""
        given = read.mapping_or_empty(part, "codeExecutionResult")
        logs, call_id = read.text_or_none(given, "output") or "", read.text_or_none(given, "id")
        return self._output.code_result(logs, call_id, has_failed=given.get("outcome") in FAILED_CODE)

    def on_tool(self, part: Mapping[str, object]) -> list[Event]:
        """Begin a call of a tool of the server."""
        given = read.mapping_or_empty(part, "toolCall")
        kind, args = read.text_or_none(given, "toolType") or "", read.mapping_or_empty(given, "args")
        item_type = TOOLS.get(kind)
        if item_type is None:
            return self._dropped.drop(f"toolCall.{kind}")
        self._tools.add(PAGES if kind == PAGES else item_type)
        action = action_of(args, is_page=kind == PAGES)
        members = {"queries": action.get("queries", [])} if item_type == fields.FILES else {"action": action}
        call = self._output.hosted(item_type, read.text_or_none(given, "id"), members)
        return self._end_arguments() + self._output.begin(call)

    def on_tool_end(self, part: Mapping[str, object]) -> list[Event]:
        """End a call of a tool of the server; a search in files waits for its results."""
        given = read.mapping_or_empty(part, "toolResponse")
        item_type = TOOLS.get(read.text_or_none(given, "toolType") or "")
        call = self._output.waiting(read.text_or_none(given, "id"), item_type or "")
        if call is None or item_type is None:
            return self._dropped.drop("toolResponse of no call")
        return [] if item_type == fields.FILES else self._output.finish(call, "completed")

    def on_file(self, _part: Mapping[str, object]) -> list[Event]:
        """Count a file: nothing shows it."""
        return self._dropped.drop("part.fileData")

    def on_media(self, part: Mapping[str, object]) -> list[Event]:
        """Add an image; drafts of images are thoughts."""
        if part.get("thought") in TRUE:
            return self._dropped.drop("draft of an image")
        given = read.mapping_or_empty(part, "inlineData")
        mime_type, data = read.text_or_none(given, "mimeType") or "", read.text_or_none(given, "data") or ""
        return self._end_arguments() + self._output.media(mime_type, data)

    def _end_arguments(self) -> list[Event]:
        """End the open call."""
        arguments, self._arguments = self._arguments, None
        if arguments is None:
            return []
        events = [*self._output.arguments(arguments.close()), *self._output.end_call()]
        thoughts, self._thoughts = self._thoughts, []
        return [*events, *(event for one in thoughts for event in self._output.thought(*one))]

    # metadata of a candidate

    def on_grounding(self, metadata: Mapping[str, object]) -> list[Event]:
        """Keep grounding metadata, and announce the searches that it shows."""
        citations = self._output.citations
        citations.note_grounding(metadata)
        shown = {
            fields.WEB: bool(citations.queries("webSearchQueries") or citations.sources("web")),
            fields.FILES: bool(citations.queries("retrievalQueries") or citations.sources("retrievedContext")),
        }
        events: list[Event] = []
        for item_type, is_shown in shown.items():
            if is_shown and item_type not in self._tools:
                self._tools.add(item_type)
                events += self._output.search(item_type)
        return events

    def on_citations(self, metadata: Mapping[str, object]) -> list[Event]:
        """Keep citations with their own sources."""
        self._output.citations.note_sources(metadata)
        return []

    def on_pages(self, metadata: Mapping[str, object]) -> list[Event]:
        """Add pages that were read, unless the stream has these calls in place."""
        events: list[Event] = []
        for page in read.mappings(metadata, "urlMetadata"):
            url = read.text_or_none(page, "retrievedUrl")
            if url is not None and url not in self._pages and PAGES not in self._tools:
                self._pages.add(url)
                events += self._output.page(url, has_failed=page.get("urlRetrievalStatus") not in FETCHED)
        return events

    # ends

    def _end(self) -> Events:
        end = fields.FILTERED if self._reason is None else fields.ENDS.get(self._reason, fields.OTHER)
        events = self._end_arguments() if end.status == "completed" else []
        events += self._output.end(end.status)
        if end.status == "error":
            code = (self._reason or "").lower()
            events += self._announce(usage=self.usage_so_far())
            return self._stop([*events, {"type": "error", "error": {"code": code}}])
        return self._finish(events, end.status, reason=end.reason)


PARTS: Final[Mapping[str, Callable[[ChunkStage, Mapping[str, object]], list[Event]]]] = {
    "text": ChunkStage.on_text,
    "functionCall": ChunkStage.on_call,
    "executableCode": ChunkStage.on_code,
    "codeExecutionResult": ChunkStage.on_code_result,
    "toolCall": ChunkStage.on_tool,
    "toolResponse": ChunkStage.on_tool_end,
    "inlineData": ChunkStage.on_media,
    "fileData": ChunkStage.on_file,
}
"""Kind of a part -> what reads it, in the order in which the kinds of one part count."""

METADATA: Final[Mapping[str, Callable[[ChunkStage, Mapping[str, object]], list[Event]]]] = {
    "urlContextMetadata": ChunkStage.on_pages,
    "groundingMetadata": ChunkStage.on_grounding,
    "citationMetadata": ChunkStage.on_citations,
}
"""Member of a candidate -> what reads it, after its parts."""
