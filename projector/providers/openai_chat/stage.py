"""Chat Completions chunks as canonical events: deltas, in every known form; identity, end, errors and usage.

A response ends at `[DONE]`, or at the end of input after a finish reason. Until then, input after a finish reason is
read: some servers send a finish reason with every chunk, and usage after it (CONTRACT D32).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from projector.core import canonical as read
from projector.core.canonical import Drops
from projector.core.lane import Slots
from projector.core.sse import DONE, LATE_ERROR, NO_CHUNK, NO_OBJECT, SseMessage, is_comment
from projector.providers.error_shapes import ReportedError, error_beside, error_of, members_of
from projector.providers.openai_chat import chunk_fields
from projector.providers.openai_chat.chunk_fields import ERROR, EXTRA, ChatProfile
from projector.providers.openai_chat.output import LEGACY_INDEX, ChatOutput, indexes_of
from projector.providers.stage_parts import CALL_SHAPES, Annotation, Event, Events, JsonStage, index_of, moved, usage_of
from projector.providers.think import LONE_TAG, Operation, ThinkSplitter

SUMMARY: Final = "reasoning.summary"
ENCRYPTED: Final = "reasoning.encrypted"

DETAILS: Final[Mapping[str, tuple[str, Callable[[ChatOutput, str], list[Event]]]]] = {
    "reasoning.text": ("text", ChatOutput.reasoning),
    SUMMARY: ("summary", ChatOutput.summary),
    ENCRYPTED: ("data", ChatOutput.encrypted),
}
"""Type of an entry of `reasoning_details` -> the member that is read, and where it goes. Signatures and formats are
not read."""

TEXTS: Final = {"output_text": "text"}
"""Type of a part of another API -> its type here."""
UNTYPED: Final = frozenset({"text", "annotations", "index"})
"""Members of a text part without a type; with others, such as `thought`, it may be no text of the answer."""

_IMAGE_URL: Final = re.compile(r"data:image/([a-z0-9.+-]{1,40});base64,", re.IGNORECASE)

NEVER_REPEATED: Final = frozenset({SUMMARY, ENCRYPTED})
"""Types of entries that no other member has: one that repeats a summary does not call it a summary (D44)."""


class Citations:
    """Sources that a provider names outside the text, as annotations. Each source is returned once.

    Some servers send OpenAI's annotations, nested or flat, some send lists of URLs or search results with every chunk.
    """

    def __init__(self) -> None:
        self._seen: set[object] = set()
        self._urls: set[str] = set()

    def of_message(self, annotations: Iterable[Annotation], start: int = 0, most: int = 0) -> list[Annotation]:
        """Read annotations, flat or with an object under the name of their type.

        `start` is added to positions up to `most`, which are in a part of the text; others are in the message.
        """
        return self._new(moved(_flat(annotation), start, most) for annotation in annotations)

    def of_chunk(self, chunk: Mapping[str, object]) -> list[Annotation]:
        """Read `search_results`, which have titles, and `citations`. Neither has a position in the text."""
        results = read.mappings(chunk, "search_results")
        addresses = [{"url": url} for url in read.texts(chunk, "citations")] + read.mappings(chunk, "citations")
        new: list[Annotation] = []
        for source in [*results, *addresses]:
            url = read.text_or_none(source, "url")
            if url is None or url in self._urls:
                continue
            title = read.text_or_none(source, "title")
            new += self._new([{"type": "url_citation", "url": url} | ({"title": title} if title else {})])
        return new

    def _new(self, annotations: Iterable[Annotation]) -> list[Annotation]:
        new = []
        for annotation in annotations:
            key = tuple(sorted(annotation.items(), key=lambda member: member[0]))
            if key not in self._seen:
                self._seen.add(key)
                if (url := read.text_or_none(annotation, "url")) is not None:
                    self._urls.add(url)
                new.append(annotation)
        return new


def _flat(annotation: Annotation) -> Annotation:
    """Return an annotation as in the Responses API, with texts and numbers only."""
    nested = read.mapping_or_empty(annotation, read.text_or_none(annotation, "type") or "")
    return {
        name: value for name, value in [*annotation.items(), *nested.items()] if isinstance(value, str | int | float)
    }


def _texts_with_summary(details: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """Return the texts that another member repeats if `details` name a summary: the summary, alone and with the rest.

    The other member is not read then, so that nothing is emitted twice (CONTRACT D44).
    """
    texts = [
        (entry.get("type"), read.text_or_none(entry, "summary") or read.text_or_none(entry, "text"))
        for entry in details
    ]
    summary = "".join(text for kind, text in texts if kind == SUMMARY and text)
    return (summary, "".join(text for _, text in texts if text)) if summary else ()


class DeltaReader:
    """Reads the deltas of one choice into its output."""

    def __init__(self, profile: ChatProfile, output: ChatOutput, citations: Citations, dropped: Drops) -> None:
        self._output = output
        self._citations = citations
        self._dropped = dropped
        self._reasoning_fields = profile.reasoning_fields
        self._returned = frozenset(profile.returned_reasoning)
        self._reasoning_field: str | None = None
        """The first that was seen; servers repeat the same text under several (D33)."""
        self._known = frozenset({*chunk_fields.DELTA_KNOWN, *profile.reasoning_fields})
        self.splitter = ThinkSplitter(profile.think_mode, profile.think_tags)
        self._images: set[bytes] = set()
        """Digests of the images."""
        self._has_thought = False
        """Whether there is anything between the tags of the open block."""
        self._starts: dict[int, int] = {}
        """Index of a part of the content -> where it begins in the text."""

    def feed(self, delta: Mapping[str, object]) -> list[Event]:
        """Return the events of a delta."""
        if len(delta) == 1 and type(text := delta.get("content")) is str and text and self.splitter.passes(text):
            return self._output.text(text)  # nearly every delta of servers that send no empty members
        if not self._known.issuperset(delta):
            self._dropped.note_unknown_in(delta, {"delta": self._known}, "delta")
        events = self._read_reasoning(delta)
        if content := delta.get("content"):
            events += self._split(content) if type(content) is str else self._read_parts(content)
        if refusal := delta.get("refusal"):
            events += self._output.refusal(refusal) if type(refusal) is str else self._dropped.drop("delta.refusal")
        if delta.get("annotations"):
            events += self._read_annotations("delta", delta)
        if delta.get("images"):
            images = self._objects("delta", delta, "images")
            events += [event for image in images for event in self._read_image(image)]
        if delta.get("tool_calls"):
            events += self._read_calls(self._objects("delta", delta, "tool_calls"))
        if function := delta.get("function_call"):
            self._dropped.note_unknown_in(delta, chunk_fields.MEMBERS["function_call"], "delta")
            events += self._read_call(LEGACY_INDEX, {"function": function})
        return events

    def continues_text(self, delta: Mapping[str, object]) -> bool:
        """Return whether further deltas with the same members would only continue the text."""
        return (
            self.splitter.is_outside
            and self._output.is_in_text
            and self._known.issuperset(delta)
            and not any(value for name, value in delta.items() if name not in {"content", "role"})
        )

    def flush(self) -> list[Event]:
        """Return the events of text that was held back because it looked like a tag."""
        self._has_thought = True  # a block that is cut off before its first character is none
        return self._apply(self.splitter.close())

    def _split(self, text: str) -> list[Event]:
        return self._output.text(text) if self.splitter.passes(text) else self._apply(self.splitter.push(text))

    def _apply(self, operations: list[Operation]) -> list[Event]:
        output = self._output
        events: list[Event] = []
        for kind, text in operations:
            if kind == "close":
                events += output.end_reasoning() if self._has_thought else output.empty_reasoning()
                self._has_thought = False
            elif kind == "drop":
                self._dropped.note(LONE_TAG)
            else:
                self._has_thought |= kind == "reasoning"
                events += output.text(text) if kind == "text" else output.reasoning(text)
        return events

    def _objects(self, kind: str, holder: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
        return self._dropped.objects(holder, kind, name, chunk_fields.MEMBERS[name])

    def _read_annotations(self, kind: str, holder: Mapping[str, object], start: int = 0, most: int = 0) -> list[Event]:
        return self._output.cite(self._citations.of_message(self._objects(kind, holder, "annotations"), start, most))

    def _read_reasoning(self, delta: Mapping[str, object]) -> list[Event]:
        events: list[Event] = []
        has_details = bool(delta.get("reasoning_details"))
        details = self._objects("delta", delta, "reasoning_details") if has_details else []
        repeated = _texts_with_summary(details) if details else ()
        for name in self._reasoning_fields:
            text = delta.get(name)
            if not text:
                continue
            if type(text) is str and name in self._returned:
                self._output.keep_reasoning(name, text)
            if type(text) is str and text not in repeated and self._reasoning_field in {None, name}:
                self._reasoning_field = name
                events += self._output.reasoning(text)
            else:
                self._dropped.note(f"delta.{name}")
        return events + self._read_details(details) if details else events

    def _read_details(self, details: list[Mapping[str, object]]) -> list[Event]:
        """Read `reasoning_details`; after another field with the same text, only what no other field has."""
        events: list[Event] = []
        for entry in details:
            kind = read.text_or_none(entry, "type") or ""
            if kind not in DETAILS:
                self._dropped.note(f"reasoning_details.{kind}")
            elif self._reasoning_field is None or kind in NEVER_REPEATED:
                member, add = DETAILS[kind]
                text = read.text_or_none(entry, member)
                events += add(self._output, text) if text else []
        return events

    def _read_parts(self, parts: object) -> list[Event]:
        """Read the parts of a content; some servers send one part without a list."""
        parts = [parts] if isinstance(parts, dict) else parts
        if not isinstance(parts, list):
            return self._dropped.drop("delta.content")
        events: list[Event] = []
        for part in parts:
            if isinstance(part, str):
                events += self._split(part) if part else []
            elif isinstance(part, dict):
                events += self._read_part(part)
            else:
                events += self._dropped.drop("content part")
        return events

    def _read_part(self, part: Mapping[str, object]) -> list[Event]:
        """Read a part, whose citations have their positions in it if they fit; one with an index may go on."""
        self._dropped.note_unknown_in(part, chunk_fields.MEMBERS["content"], "content")
        given = part.get("type", "text" if "text" in part and UNTYPED.issuperset(part) else None)
        kind = TEXTS.get(given, given) if isinstance(given, str) else None
        if kind == "image_url" and part.get(kind):
            return self._read_image(part)
        if kind not in {"text", "refusal", "thinking"}:
            return self._dropped.drop(f"content.{kind}")
        text = read.text_or_none(part, kind)
        if kind != "thinking":
            if text is None and part.get(kind):
                return self._dropped.drop(f"content.{kind}")
            add = self._split if kind == "text" else self._output.refusal
            start = self._output.chars + self.splitter.held_chars
            if (index := index_of(part)) is not None:
                start = self._starts.setdefault(index, start)
            events = add(text) if text else []
            if not part.get("annotations"):
                return events
            most = self._output.chars + self.splitter.held_chars - start
            return events + self._read_annotations("content", part, start, most)
        inner = [] if text else self._objects("content", part, kind)
        texts = [text] if text else [read.text_or_none(one, "text") for one in inner]
        return [event for text in texts if text for event in self._output.reasoning(text)]

    def _read_image(self, image: Mapping[str, object]) -> list[Event]:
        """Read an image of the answer. Some servers repeat all images in their last chunk, or send the URL alone."""
        alone = read.text_or_none(image, "image_url")
        url = alone or read.text_or_none(read.mapping_or_empty(image, "image_url"), "url") or ""
        found = _IMAGE_URL.match(url)
        if found is None:
            return self._dropped.drop("image without its data")
        digest = blake2b(url.encode("utf-8", "surrogatepass")).digest()
        if digest in self._images:
            return self._dropped.drop("repeated image")
        self._images.add(digest)
        return self._output.image(found[1].lower(), url[found.end() :])

    def _read_calls(self, fragments: list[Mapping[str, object]]) -> list[Event]:
        events: list[Event] = []
        for fragment, index in zip(fragments, indexes_of(fragments), strict=True):
            events += self._read_call(index, fragment)
        return events

    def _read_call(self, index: int | None, fragment: Mapping[str, object]) -> list[Event]:
        kind = "custom" if "custom" in fragment else "function"
        body = read.mapping_or_empty(fragment, kind)
        return self._output.call(
            index,
            read.text_or_none(fragment, "id") or "",
            read.text_or_none(body, "name") or "",
            kind,
            self._dropped.input_of(body, CALL_SHAPES[kind].member, "tool call input"),
            read.mapping_or_empty(fragment, EXTRA),
        )


# chunks


DEFAULT: Final = ChatProfile()

CHUNK_MARKS: Final = frozenset({"choices", "usage", "x_groq"})
"""An object with none of these is not a chunk."""

ONLY_DELTA: Final = chunk_fields.CHUNK_KNOWN - {"x_groq", "citations", "search_results", "base_resp", ERROR}
ONLY_CHOICE_DELTA: Final = chunk_fields.CHOICE_KNOWN - {"usage", ERROR}
"""Members of a chunk and a choice that may be there, null or empty, if only the delta is read."""

FIRST: Final = (0, None, "0")
"""The index of the only choice that is projected (D33); some servers send indexes as text."""


class OpenAIChatStage(JsonStage):
    """Translates one response. The last item is a fault if a payload is not JSON before a finish reason (D12, D32)."""

    def __init__(self, profile: ChatProfile = DEFAULT) -> None:
        super().__init__(chunk_fields.COUNTS)
        self._citations = Citations()
        self._output = ChatOutput(self._dropped)
        self._deltas = DeltaReader(profile, self._output, self._citations, self._dropped)
        self._inner_error: ReportedError | None = None
        self._is_identified = self._has_content = False

    def read(self, chunk: object, message: SseMessage) -> Events:
        """Return the events of a chunk."""
        if not isinstance(chunk, dict):
            error = error_of(chunk, has_begun=bool(self._response))
            return self._dropped.drop(NO_OBJECT) if error is None else self._report(error, [])
        delta = _only_delta(chunk, message[1]) if self._is_identified and self._output.count else None
        if delta is not None:
            return self._numbered(self._deltas.feed(delta))  # nearly every chunk
        return self._read_object(chunk, message.event)

    def slots(self, chunk: Mapping[str, Any], name: str, /) -> Slots | None:
        """Return what may differ in further chunks with nothing but text; None for another chunk."""
        delta = _only_delta(chunk, name)
        if delta is None or not self._deltas.continues_text(delta):
            return None
        return Slots(
            text=("choices", 0, "delta", "content"),
            next_number=self._next_number,
            padding=("obfuscation",),
            stops=self._deltas.splitter.stops,
        )

    def skip(self, texts: Sequence[str], numbers: Sequence[int], /) -> None:
        """Record deltas of the text, and their sequence numbers."""
        self._output.skip(texts)
        self._deltas.splitter.pass_over(texts)
        self._pass_over(numbers)

    def _read_object(self, chunk: dict[str, Any], name: str) -> Events:
        was_finished = self._reason is not None
        is_other = not self._response and "type" in chunk and "choices" not in chunk  # has usage in another API
        is_other = is_other and "prompt_tokens" not in read.mapping_or_empty(chunk, "usage")
        if is_other or CHUNK_MARKS.isdisjoint(chunk):
            error = members_of(chunk) if name == ERROR else error_of(chunk, has_begun=bool(self._response))
            return self._dropped.drop(NO_CHUNK) if error is None else self._report(error, [], is_late=was_finished)
        events = self._read_chunk(chunk)
        error = error_beside(chunk) or self._inner_error
        return self._numbered(events) if error is None else self._report(error, events, is_late=was_finished)

    def _read_chunk(self, chunk: dict[str, Any]) -> list[Event]:
        self._dropped.note_unknown_in(chunk, chunk_fields.MEMBERS["chunk"], "chunk")
        tier = {"service_tier": chunk["service_tier"]} if chunk.get("service_tier") else {}
        events = [] if self._is_identified else self._identify(chunk, tier)
        self._response |= tier
        self._inner_error = None
        for choice in self._dropped.objects(chunk, "chunk", "choices"):
            if choice.get("index", 0) in FIRST:
                events += self._read_choice(choice)
            else:
                self._dropped.note("choices beyond the first")
        if "x_groq" in chunk:
            extension = read.mapping_or_empty(chunk, "x_groq")
            self._take_usage(extension.get("usage") or {})
            self._inner_error = error_beside(extension) or self._inner_error
        if usage := chunk.get("usage"):
            self._take_usage(usage)
        if "citations" in chunk or "search_results" in chunk:
            events += self._output.cite(self._citations.of_chunk(chunk))
        return events

    def _read_choice(self, choice: Mapping[str, object]) -> list[Event]:
        self._dropped.note_unknown_in(choice, chunk_fields.MEMBERS["choice"], "choice")
        if usage := choice.get("usage"):
            self._take_usage(usage)
        if ERROR in choice:
            self._inner_error = error_beside(choice)
        delta = choice.get("delta")
        has_content = isinstance(delta, dict) and _has_content(delta)
        self._has_content = self._has_content or has_content  # also what is held back
        if not (self._has_content or self._output.count) and choice.get("message") is not None:
            delta = choice["message"]  # a whole completion in one chunk; after deltas it only repeats them
        elif delta is None and choice.get("text"):
            delta, self._has_content = {"content": choice["text"]}, True  # of the older API
        events: list[Event] = []
        if isinstance(delta, dict):
            events = self._deltas.feed(delta)
        elif delta is not None:
            self._dropped.note("choice.delta")
        finish = choice.get("finish_reason")
        if type(finish) is str and finish:
            self._reason = chunk_fields.finish_of(finish)
            if self._reason not in chunk_fields.FINISHES:
                self._dropped.note(f"finish_reason.{finish}")
        return events

    def _read_text(self, message: SseMessage) -> Events:
        """Read a payload that is not JSON. The end mark ends the response; an error may be plain text."""
        text, is_open = message.data.strip(), not self._is_over
        if text == DONE and is_open:
            return self._end()
        if message.event == ERROR and is_open and self._reason is None and not is_comment(text):
            return self._report(members_of(text.decode("utf-8", "replace")), [])
        return super()._read_text(message)

    def _held(self) -> Events:
        return self._stop(self._deltas.flush())

    def _identify(self, chunk: Mapping[str, object], tier: Mapping[str, object]) -> list[Event]:
        """Announce the response, and again when its ID is known: some first chunks are empty."""
        response_id, model = read.text_or_none(chunk, "id"), read.text_or_none(chunk, "model")
        if self._response and response_id is None:
            return []
        if response_id is not None:
            self._output.response_id = response_id
            self._is_identified = True
        created_at = read.count_or_none(chunk, "created")
        usage = usage_of(read.mapping_or_empty(chunk, "usage"), chunk_fields.COUNTS)
        return self._announce(**tier, id=response_id, model=model, created_at=created_at, usage=usage)

    def _take_usage(self, usage: object) -> None:
        """Keep the last usage that is not all zero (D52): several are cumulative."""
        if not isinstance(usage, dict):
            self._dropped.note("usage")
            return
        self._dropped.note_unknown_in(usage, chunk_fields.MEMBERS["usage"], "usage")
        if read.has_counts(usage) or not self._usage:
            self._usage = usage

    def _end(self) -> Events:
        """Emit what was held back, close all items, and end the response with the status of its finish reason."""
        if not self._response:
            return self._stop([])
        status, reason = chunk_fields.FINISHES.get(self._reason or "", ("completed", None))
        events = self._deltas.flush() + self._output.end(status)
        return self._finish(events, status, reason=reason)

    def _report(self, error: ReportedError, events: list[Event], *, is_late: bool = False) -> Events:
        """Emit an error of the provider, which ends the stream, unless it follows a finish reason (D32)."""
        if is_late:
            self._dropped.note(LATE_ERROR)
            return self._numbered(events)
        return self._stop([*events, *self._deltas.flush(), error.event()])


def _has_content(delta: Mapping[str, object]) -> bool:
    return any(value for name, value in delta.items() if name != "role")


def _only_delta(chunk: Mapping[str, Any], name: str) -> dict[str, object] | None:
    """Return the delta of a chunk in which nothing else is read or counted; None for another chunk."""
    if (
        not ONLY_DELTA.issuperset(chunk)
        or chunk.get("usage")
        or type(choices := chunk.get("choices")) is not list
        or len(choices) != 1
        or ERROR in (name, chunk.get("object"))
    ):
        return None
    choice = choices[0]
    if type(choice) is not dict or not ONLY_CHOICE_DELTA.issuperset(choice):
        return None
    delta = choice.get("delta")
    if type(delta) is not dict or choice.get("finish_reason") is not None or choice.get("index", 0) not in FIRST:
        return None
    return delta
