"""The rules over a whole stream of Open Responses, as a sans-IO checker; bad input is a breach, never an exception."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from projector._validation import sentences
from projector.contracts import codec
from projector.contracts.stream_rules.table import Violation
from projector.dialects.openresponses.events import parse_event
from projector.dialects.openresponses.output_rules import OutputWatch

END_MARK: Final = b"[DONE]"

BEGINNINGS: Final = ("response.created", "response.queued", "response.in_progress")

ENDS: Final[Mapping[str, tuple[str, str]]] = {
    "response.completed": ("completed", "completed_at"),
    "response.incomplete": ("incomplete", "incomplete_details"),
    "response.failed": ("failed", "error"),
}
"""The last event -> the status of its response, and the member that only this end has."""

BEHIND_AN_ERROR: Final = frozenset({"response.failed", "public-sse:notices"})


class Breach(NamedTuple):
    """What the stream breaks: the number of the event, from 1, and what was expected there."""

    line: int
    expected: str


class StreamChecker:
    """Checks one stream. `feed` takes the data of each event in order, the end mark included."""

    def __init__(self) -> None:
        self._line = 0
        self._output = OutputWatch()
        self._response_id: str | None = None
        self._begun: list[str] = []
        self._error: Mapping[str, Any] | None = None
        self._has_ended = False
        self._is_over = False

    def feed(self, data: bytes) -> list[Breach]:
        """Take one event; give what it breaks."""
        self._line += 1
        return [Breach(self._line, expected) for expected in self._check(data)]

    def close(self) -> list[Breach]:
        """Take the end of the stream; give what is missing."""
        return [] if self._is_over else [Breach(self._line, "the end mark")]

    def _check(self, data: bytes) -> list[str]:
        if data == END_MARK:
            is_right = self._has_ended and not self._is_over
            self._is_over = True
            return [] if is_right else ["one end mark, behind the end of the response"]
        try:
            event = codec.loads(data)
            parse_event(event)
        except codec.CodecError:
            return ["JSON"]
        except ValidationError as error:
            return [f"an event of the model: {text}" for text in sentences(error, event, root="event")]
        return self._see(event)

    def _see(self, event: Mapping[str, Any]) -> list[str]:
        name = event["type"]
        found = [] if event["sequence_number"] == self._line - 1 else ["`sequence_number` rising by one from 0"]
        if self._has_ended:
            return [*found, "nothing behind the end of the response"]
        if self._error is not None and name not in BEHIND_AN_ERROR:
            found.append("`response.failed` behind an error")
        if name in BEGINNINGS:
            return found + self._begin(name, event["response"])
        if self._begun[-1:] != ["response.in_progress"]:
            found.append("`response.in_progress` before everything else")
        if name in ENDS:
            return found + self._end(event)
        if name == "error":
            self._error = event["error"]
        return found + self._output.see(event)

    def _begin(self, name: str, response: Mapping[str, Any]) -> list[str]:
        self._begun.append(name)
        self._response_id = self._response_id or response["id"]
        ranks = [BEGINNINGS.index(said) for said in self._begun]
        is_right = ranks[0] == 0 and ranks == sorted(set(ranks)) and not response["output"] and not self._output.items
        found = [] if is_right else ["created, queued, in_progress, each once at most and before the items"]
        return found + self._same_id(response)

    def _end(self, event: Mapping[str, Any]) -> list[str]:
        self._has_ended = True
        response = event["response"]
        status, own = ENDS[event["type"]]
        members = [member for _, member in ENDS.values() if response[member] is not None]
        found = [] if (response["status"], members) == (status, [own]) else [f"status {status}, and `{own}`"]
        if self._error is not None and (event["type"], response["error"]) != ("response.failed", _told(self._error)):
            found.append("a response that failed with the error that was said")
        return found + self._same_id(response) + self._output.end(event)

    def _same_id(self, response: Mapping[str, Any]) -> list[str]:
        return [] if response["id"] == self._response_id else ["one id of the response"]


class OpenResponsesChecker:
    """Checks one stream by the interface of all dialects: violations of the one rule `open_responses`."""

    def __init__(self) -> None:
        self._checker = StreamChecker()
        self._line = 0

    def feed(self, line_no: int, line: bytes | str, /) -> list[Violation]:
        """Check one line."""
        self._line = line_no
        return self._violations(self._checker.feed(line.encode() if isinstance(line, str) else line))

    def close(self) -> list[Violation]:
        """Check the end of the stream."""
        return self._violations(self._checker.close())

    def _violations(self, found: list[Breach]) -> list[Violation]:
        return [Violation(self._line, None, "open_responses", "seed", f"expected {one.expected}") for one in found]


def check_stream(events: Iterable[bytes]) -> list[Breach]:
    """Check a whole stream, given as the data of its events in order."""
    checker = StreamChecker()
    found = [breach for data in events for breach in checker.feed(data)]
    return found + checker.close()


def _told(error: Mapping[str, Any]) -> dict[str, Any]:
    return {"code": error["code"], "message": error["message"]}
