"""The `response` object. One stream is one object, even for a run of several responses. Its ID never changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.core.canonical import Frame
from projector.core.context import parse_time
from projector.dialects.response_writer.protocol import WireProtocol

UNKNOWN: Final = "unknown"
"""Value of a required member that the provider did not send."""


class ResponseObject:
    """The response so far. The first event fixes its ID and time."""

    def __init__(self, protocol: WireProtocol) -> None:
        self.id = ""
        self.created_at = 0
        self.model = UNKNOWN
        self.service_tier: str | None = None
        self.reported: Frame = {}
        """The error that the provider reported last."""
        self.reason: str | None = None
        """Reason of the last response that did not complete."""
        self._protocol = protocol
        self._text_members: Mapping[str, object] = {}

    def update(self, meta: Frame) -> None:
        """Set members from `response.meta`: model and time of the first response, and the last service tier."""
        if self.model == UNKNOWN:
            self.model = meta.get("model", UNKNOWN)
        if not self.created_at:
            self.created_at = meta.get("created_at", 0)
        self.service_tier = meta.get("service_tier", self.service_tier)
        if "text_format" in meta:
            self._text_members = self._protocol.text_members(meta["text_format"])

    def begin(self, frame: Frame) -> None:
        """Set the ID from the envelope of the first written frame, and the creation time if it is unknown."""
        self.id = frame.get("response_id") or frame["stream_id"]
        self.created_at = self.created_at or seconds(frame)

    def wire(
        self,
        status: str,
        *,
        output: list[dict[str, Any]] | tuple[()] = (),
        completed_at: int | None = None,
        incomplete_details: Mapping[str, str] | None = None,
        error: Mapping[str, Any] | None = None,
        usage: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        """Return the current object as it is written."""
        return {
            "id": self.id,
            "object": "response",
            "created_at": self.created_at,
            "completed_at": completed_at,
            "status": status,
            "incomplete_details": incomplete_details,
            "model": self.model,
            "output": output,
            "error": error,
            "usage": usage_of(usage, self._protocol.usage_members) if usage else None,
            **self._protocol.request_members,
            **self._text_members,
            **({"service_tier": self.service_tier} if self.service_tier else {}),
        }


def usage_of(usage: Mapping[str, int], details: Mapping[str, Mapping[str, int]]) -> dict[str, object]:
    """Return the usage with the members of the protocol. They are required, so an unknown count is 0.

    Args:
        usage: tokens of the whole stream.
        details: further members of the details, which no frame has.
    """
    read, written = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    cached, reasoning = usage.get("cached_input_tokens", 0), usage.get("reasoning_output_tokens", 0)
    return {
        "input_tokens": read,
        "output_tokens": written,
        "total_tokens": usage.get("total_tokens", read + written),
        "input_tokens_details": {"cached_tokens": cached, **details.get("input_tokens_details", {})},
        "output_tokens_details": {"reasoning_tokens": reasoning, **details.get("output_tokens_details", {})},
    }


def seconds(frame: Frame) -> int:
    """Return the time of a frame in whole seconds since 1970-01-01 UTC."""
    return int(parse_time(frame["server_timestamp"], "server_timestamp"))
