"""What stages share: counts of input that is not read, and the reading of messages that are JSON.

Each stage announces its response and ends it; usage is in a table of its API.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from projector.contracts import codec
from projector.core import canonical as read
from projector.core.canonical import CanonicalEvent
from projector.core.faults import FAULTS, Fault
from projector.core.sse import COMMENT, DONE, SseMessage, is_comment
from projector.core.state import DROP_NAMES_MAX, OTHER
from projector.providers.canonical_items import Event, Numbering

NAME_MAX_CHARS: Final = 80
"""Maximum length of a counted name, which may come from the provider."""


class Drops(Counter[str]):
    """Counts by name. The number of names is bounded: a hostile provider could invent one with every chunk."""

    def note(self, name: str, times: int = 1) -> None:
        """Count input that is not read."""
        name = name[:NAME_MAX_CHARS]
        known = name in self or len(self) < DROP_NAMES_MAX
        self[name if known else OTHER] += times

    def drop(self, name: str) -> list[Any]:
        """Count input that is not read, and return no events."""
        self.note(name)
        return []

    def note_unknown(self, kind: str, names: Iterable[str]) -> None:
        """Count unknown members of a kind of object."""
        for name in names:
            self.note(f"{kind}.{name}")

    def objects(self, holder: Mapping[str, object], kind: str, name: str) -> list[Mapping[str, object]]:
        """Return the objects in a list field. Non-objects are counted; a missing field is not."""
        value = holder.get(name)
        entries = value if isinstance(value, list) else [] if value is None else [value]
        found = read.mappings(holder, name)
        if len(found) < len(entries):
            self.note(f"{kind}.{name}", len(entries) - len(found))
        return found


class JsonStage(ABC):
    """A stage of messages that are JSON. The last item is a fault if one is not JSON before the end of the response."""

    def __init__(self) -> None:
        self.dropped: Counter[str]
        """Input that was not read, by object and member or by reason."""
        self.dropped = self._dropped = Drops()
        self._numbered = Numbering()
        self._is_over = False
        self._response: dict[str, Any] = {}
        """Members of the response so far; empty before it is announced."""

    def feed(self, message: SseMessage, /) -> list[CanonicalEvent | Fault]:
        """Return the events of a message."""
        try:
            value = codec.loads(message.data)
        except codec.TooDeepError:
            return self._dropped.drop("(too deep)")
        except codec.CodecError:
            return self._read_text(message)
        return self._dropped.drop("(after the end)") if self._is_over else self.read(value, message)

    @abstractmethod
    def read(self, value: object, message: SseMessage) -> list[CanonicalEvent | Fault]:
        """Return the events of the JSON of a message, before the end."""

    @abstractmethod
    def close(self) -> list[CanonicalEvent | Fault]:
        """Return the events that the end of input causes."""

    @property
    @abstractmethod
    def has_reason(self) -> bool:
        """Whether the reason is known why the response ends."""

    def _read_text(self, message: SseMessage) -> list[CanonicalEvent | Fault]:
        """Read a payload that is not JSON: a comment, an end mark of another API, or a broken stream."""
        if is_comment(message.data):
            return self._dropped.drop(COMMENT)
        if message.data.strip() == DONE:
            return self.close()
        if self._is_over or self.has_reason:
            return self._dropped.drop("(after the end)")
        self._is_over = True
        return [FAULTS["upstream_malformed"]]

    def _announce(self, **members: object) -> list[Event]:
        """Return the event that announces the response, or what else of it is known now; empty members are unknown."""
        name = "response.in_progress" if self._response else "response.created"
        known = {member: value for member, value in members.items() if value}
        self._response = {**self._response, "object": "response", **known}
        return [{"type": name, "response": {**self._response, "status": "in_progress", "output": []}}]

    def _pass_over(self, numbers: Sequence[int]) -> None:
        """Record the sequence numbers of events that were read without this stage."""
        self._numbered.next = numbers[-1] + 1

    def _finish(
        self,
        events: list[Event],
        status: str,
        *,
        reason: str | None,
        usage: Mapping[str, object],
        error: Mapping[str, object] | None = None,
    ) -> list[CanonicalEvent | Fault]:
        """Return the last events, and the end of the response, whose items had their own events.

        Args:
            events: the last events of items.
            status: the status of the response.
            reason: why it is `incomplete`, or the code of its error; None if no reason is known.
            usage: its usage; empty if none is known.
            error: its error, if more than a code is known.
        """
        response = {**self._response, "status": status, "output": []}
        if status == "failed":
            response["error"] = error or {"code": reason}
        elif reason is not None:
            response["incomplete_details"] = {"reason": reason}
        if usage:
            response["usage"] = usage
        return self._stop([*events, {"type": f"response.{status}", "response": response}])

    def _stop(self, events: list[Any]) -> list[CanonicalEvent | Fault]:
        """Return the last events of the response."""
        self._is_over = True
        return self._numbered(events)


Counts: TypeAlias = Mapping[str, tuple[str, ...]]
"""Path of a count in a Responses `usage` -> its paths in the usage of an API. The first with a count is read; names
joined by ` + ` are a sum, which is known if one of them is."""


def usage_of(usage: Mapping[str, object], counts: Counts) -> dict[str, object]:
    """Return token counts in the shape of a Responses `usage` (CONTRACT D13). An unknown count is absent, not 0."""
    known: dict[str, object] = {}
    for name, paths in counts.items():
        count = next((count for path in paths if (count := _count_at(usage, path)) is not None), None)
        if count is not None:
            outer, _, inner = name.rpartition(".")
            known |= {outer: {inner: count}} if outer else {inner: count}
    return known


def _count_at(usage: Mapping[str, object], path: str) -> int | None:
    found: list[int] = []
    for one in path.split(" + "):
        *outer, name = one.split(".")
        holder = usage
        for step in outer:
            holder = read.mapping_or_empty(holder, step)
        if (count := read.count_or_none(holder, name)) is not None:
            found.append(count)
    return sum(found) if found else None
