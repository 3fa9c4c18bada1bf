"""What a server must remember of a stream to write it again: the `meta` of its head in the store, as JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

from projector.contracts import codec
from projector.core.pipeline import OutputFormat
from projector.core.replay import StreamReplay
from projector.dialects.descriptor import DialectOptions
from projector.redaction.policy import Policy
from projector.server.config.agent_settings import KeepingSettings
from projector.store.protocol import StreamHead

_DEFAULTS: Final = DialectOptions()
_OPTIONS: Final = [(one.name, getattr(_DEFAULTS, one.name)) for one in fields(_DEFAULTS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStream:
    """A stream as its readers need it. Of the policy, dialects read two values only: redaction is over."""

    dialect: str
    """Dialect of the first reader."""
    dialects: Sequence[str]
    """Dialects that a reader may select."""
    options: DialectOptions = _DEFAULTS
    is_run: bool = False
    policy: Policy
    agent: str | None = None
    workflow: str | None = None
    conversation_id: str | None = None

    def head(self, stream_id: str, owner: str, producer: str) -> StreamHead:
        """Return the head of a new log."""
        values = {name: getattr(self, name) for name in _NAMES}
        values["policy"] = {
            "reasoning": self.policy.reasoning,
            "limits": {"frame_max_bytes": self.policy.limits.frame_max_bytes},
        }
        values["options"] = {
            name: sorted(value) if isinstance(value, frozenset) else value
            for name, default in (_OPTIONS if self.options != _DEFAULTS else ())
            if (value := getattr(self.options, name)) != default
        }
        return StreamHead(stream_id, owner, producer, int(time.time() * 1000), codec.dumps_to_keep(values))

    @classmethod
    def of(cls, head: StreamHead) -> StoredStream:
        """Return the stream of a head, also of one that another version of this server has written."""
        values: dict[str, Any] = codec.loads(head.meta)
        values["policy"] = Policy.load(values["policy"])
        options = {name: value for name, value in values.pop("options", {}).items() if hasattr(_DEFAULTS, name)}
        if "taken_ids" in options:
            options["taken_ids"] = frozenset(options["taken_ids"])
        values["options"] = DialectOptions(**options)
        return cls(**{name: value for name, value in values.items() if name in _NAMES})

    def replay(
        self,
        dialect: str | None = None,
        *,
        after: int = 0,
        options: Mapping[str, Any] | None = None,
        output_format: OutputFormat = "sse",
    ) -> StreamReplay:
        """Return a writer of the stream, by default as for its first reader.

        Args:
            dialect: a name of `dialects`.
            after: number of the last event that the reader has.
            options: members of `DialectOptions` that the reader's request sets.
            output_format: format of the output.
        """
        return StreamReplay(
            dialect=dialect or self.dialect,
            policy=self.policy,
            options=replace(self.options, **(options or {})),
            is_run=self.is_run,
            after=after,
            output_format=output_format,
        )


_NAMES: Final = tuple(one.name for one in fields(StoredStream))


class Keeping(NamedTuple):
    """What a stream is stored as, and whether it survives a disconnect of its client."""

    stored: StoredStream | None = None
    """None: it has no log."""
    survives: bool = False

    @classmethod
    def of(cls, settings: KeepingSettings, stored: StoredStream) -> Keeping:
        """Return what is kept of a stream of an agent, workflow or passthrough route."""
        is_stored = settings.store != "none"
        return cls(stored if is_stored else None, survives=is_stored and settings.on_disconnect == "continue")


NOTHING: Final = Keeping()
