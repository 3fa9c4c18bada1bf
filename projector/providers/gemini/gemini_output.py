"""The output of a response: which item each piece belongs to, and when items open and close.

A message ends when another item than reasoning begins. Reasoning ends when anything else goes on, and is a new item
when it resumes. One call of a function is open at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from projector.core import canonical as read
from projector.core.canonical import Drops
from projector.providers.gemini.gemini_fields import CODE, FILES, IMAGE, WEB
from projector.providers.gemini.grounding import Citations, Passage
from projector.providers.stage_parts import CALL_SHAPES, Call, Event, HostedCall, Outputs, image_events

IMAGE_PREFIX: Final = "image/"


class Output(Outputs):
    """The output items of one response."""

    def __init__(self, dropped: Drops) -> None:
        super().__init__(dropped)
        self.citations = Citations(dropped)
        self._part = -1
        """Number of the last part of the answer."""
        self._kind = ""
        """Its kind: deltas of one kind are one part."""
        self.passages: list[Passage] = []
        """The texts of the open message."""
        self._call: Call | None = None
        self._hosted: dict[str, HostedCall] = {}
        """Calls of tools of the provider without a result, by ID."""

    # text and reasoning

    def text(self, delta: str, signature: str | None = None) -> list[Event]:
        """Add text of the answer. A signature without text belongs to what came before."""
        if not delta:
            return self._sign(signature) if signature else []
        events = self.end_call() + self.end_reasoning()
        self._begin_part("text")
        message, added = self._opened_message()
        if not self.passages or self.passages[-1].part != self._part:
            self.passages.append(Passage(self._part, message.chars))
        self.passages[-1].add(delta)
        if signature:
            message.opaque = {"signature": signature}
        return [*events, *added, message.text(delta)]

    @property
    def is_in_text(self) -> bool:
        """Whether text would only continue the text of the message."""
        return self._message is not None and self._call is None and self._reasoning is None and self._kind == "text"

    def skip(self, texts: Sequence[str]) -> None:
        """Add text whose events are not needed; only while `is_in_text`."""
        super().skip(texts)
        self.passages[-1].add("".join(texts))

    def thought(self, delta: str, signature: str | None = None) -> list[Event]:
        """Add text of a summary of the reasoning."""
        events = self.end_call()
        if delta:
            self._begin_part("thought")
            item, opened = self._opened_reasoning()
            events += [*opened, item.summary(delta)]
        return events + self._sign_thought(signature) if signature else events

    def end_reasoning(self) -> list[Event]:
        """Close the reasoning."""
        item, self._reasoning = self._reasoning, None
        if item is None:
            return []
        if item.opaque is not None:
            item.opaque = {"thought": item.said, "signature": item.opaque}
        return item.done("completed")

    def _sign(self, signature: str) -> list[Event]:
        if self._reasoning is not None:
            return self._sign_thought(signature)
        if self._message is not None:
            self._message.opaque = {"signature": signature, "is_alone": True}
            return []
        return [*self.end_call(), *self._sign_thought(signature), *self.end_reasoning()]

    def _sign_thought(self, signature: str) -> list[Event]:
        """Keep the signature of reasoning, which may have no text."""
        item, events = self._opened_reasoning()
        item.opaque = signature
        return events

    # calls of functions

    def call(self, name: str, call_id: str | None, signature: str | None, *, is_whole: bool = False) -> list[Event]:
        """Begin a call; its arguments follow, and its signature may, unless it is whole."""
        events = self._begin_item("call")
        item_id, index = self.next_id("fc")
        call = self._call = Call(call_id or f"call_{item_id.removeprefix('fc_')}", CALL_SHAPES["function"])
        call.name, call.is_signed = name, is_whole or signature is not None
        call.opaque = {name: one for name, one in (("signature", signature), ("id", call_id)) if one is not None}
        return events + call.added(item_id, index)

    def arguments(self, delta: str) -> list[Event]:
        """Add text of the arguments of the open call."""
        if self._call is None:
            return self._dropped.drop("arguments of no call")
        return self._call.input(delta)

    def sign_call(self, signature: str) -> None:
        """Keep a signature that came after the beginning of the open call."""
        if self._call is not None and "signature" not in self._call.opaque:
            self._call.opaque = {"signature": signature, **self._call.opaque}

    def end_call(self) -> list[Event]:
        """Close the call."""
        call = self.take_call()
        return [] if call is None else call.done("completed")

    def take_call(self) -> Call | None:
        """Return the open call, which its step continues and closes."""
        call, self._call = self._call, None
        return call

    # tools of the provider

    def hosted(self, item_type: str, call_id: str | None, members: dict[str, Any] | None = None) -> HostedCall:
        """Return a new call of a tool of the provider; `begin` announces it."""
        item_id, index = self.next_id("ht")
        call = HostedCall(call_id or item_id, item_type, "", index, members or {})
        self._hosted[call.item_id] = call
        return call

    def begin(self, call: HostedCall) -> list[Event]:
        """Announce a call, after what came before it."""
        return [*self._begin_item(call.item_type), call.event("added", "in_progress")]

    def waiting(self, call_id: str | None, item_type: str) -> HostedCall | None:
        """Return the call that a result belongs to: by its ID, else the last one of the type."""
        known = self._hosted.get(call_id or "")
        if known is not None:
            return known
        return next((call for call in reversed(self._hosted.values()) if call.item_type == item_type), None)

    def finish(self, call: HostedCall, status: str) -> list[Event]:
        """End a call of a tool."""
        self._hosted.pop(call.item_id, None)
        return [call.event("done", status)]

    def code(self, code: str, call_id: str | None) -> list[Event]:
        """Add code that the provider runs."""
        call = self.hosted(CODE, call_id, {"code": code})
        return self.begin(call) + call.call_code(code)

    def code_result(self, logs: str, call_id: str | None, *, has_failed: bool) -> list[Event]:
        """Add what code has written."""
        call = self.waiting(call_id, CODE)
        if call is None:
            return self._dropped.drop("result of no code")
        call.members["outputs"] = [{"type": "logs", "logs": logs}] if logs else []
        return self.finish(call, "failed" if has_failed else "completed")

    def page(self, url: str, *, has_failed: bool) -> list[Event]:
        """Add a page that the provider has read. It does not end the message: it came before it."""
        call = self.hosted(WEB, None, {"action": action_of({"url": url}, is_page=True)})
        return [call.event("added", "in_progress"), *self.finish(call, "failed" if has_failed else "completed")]

    def media(self, mime_type: str, data: str) -> list[Event]:
        """Add an image of the answer, which is complete at once; other media have no place in the contract."""
        if not mime_type.startswith(IMAGE_PREFIX) or not data:
            return self._dropped.drop(f"media {mime_type}")
        item_id, index = self.next_id("ht")
        image_format = mime_type.removeprefix(IMAGE_PREFIX)
        return self._begin_item(IMAGE) + image_events(item_id, index, image_format, data)

    # ends

    def end(self, status: str) -> list[Event]:
        """Close all items; unless the status is `completed`, an open call was cut off (CONTRACT D23)."""
        is_complete = status == "completed"
        call = self.take_call()
        events = [] if call is None else call.done("completed") if is_complete else call.flush()
        events += self.end_reasoning() + self.ground()
        events += self.end_message("completed" if is_complete else "incomplete", is_last=True)
        for hosted in [*self._hosted.values()]:
            is_done = is_complete and hosted.item_type in {CODE, FILES}
            events += self.finish(hosted, "completed" if is_done else "incomplete")
        return events

    def ground(self) -> list[Event]:
        """Return searches that only the sources of the answer show; these are complete now."""
        events: list[Event] = []
        web, files = self.citations.sources("web"), self.citations.sources("retrievedContext")
        for call in [*self._hosted.values()]:
            if call.item_type == WEB and call.name == GROUNDING:
                urls = dict.fromkeys(url for source in web if (url := read.text_or_none(source, "uri")))
                action = action_of({"queries": self.citations.queries("webSearchQueries")}, is_page=False)
                call.members["action"] = {**action, "sources": [{"type": "url", "url": url} for url in urls]}
                events += self.finish(call, "completed")
            elif call.item_type == FILES:
                queries = self.citations.queries("retrievalQueries")
                call.members["queries"] = queries or call.members.get("queries", [])
                call.members["results"] = [file_result(source) for source in files]
                events += self.finish(call, "completed")
        return events

    def search(self, item_type: str) -> list[Event]:
        """Announce a search that grounding metadata shows. It does not end the message: it came before it."""
        call = self.hosted(item_type, None)
        call.name = GROUNDING
        event = [call.progress("response.web_search_call.searching")] if item_type == WEB else []
        return [call.event("added", "in_progress"), *event]

    def end_message(self, status: str, *, is_last: bool = False) -> list[Event]:
        """Close the message with its citations, because another item begins."""
        cited = self.cite(self.citations.of(self.passages, is_last=is_last))
        self.passages = []
        return cited + self._ended_message(status)

    # parts

    def _begin_item(self, kind: str) -> list[Event]:
        events = self.end_call() + self.end_reasoning() + self.end_message("completed")
        self._part, self._kind = self._part + 1, kind
        return events

    def _begin_part(self, kind: str) -> None:
        if self._kind != kind:
            self._part, self._kind = self._part + 1, kind


GROUNDING: Final = "grounding"
"""Name of a call that only the sources of the answer show."""


def action_of(given: Mapping[str, object], *, is_page: bool) -> dict[str, Any]:
    """Return the action of a web search from its arguments: pages or queries, in a list or alone."""
    name = "url" if is_page else "query"
    alone = read.text_or_none(given, name)
    found = read.texts(given, "urls" if is_page else "queries") or ([alone] if alone else [])
    if is_page:
        return {"type": "open_page", "url": found[0] if found else ""}
    return {"type": "search", **({"query": found[0], "queries": found} if found else {})}


def file_result(source: Mapping[str, object]) -> dict[str, Any]:
    """Return a result of a search in files."""
    names = {"filename": read.text_or_none(source, "title"), "text": read.text_or_none(source, "text")}
    return {name: value for name, value in names.items() if value is not None}
