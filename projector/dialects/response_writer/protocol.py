"""The differences between the protocols that share this package, as one table for each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from projector.dialects.response_writer.output_items import ItemShape, PartKind


@dataclass(frozen=True, kw_only=True)
class WireProtocol:
    """What one protocol writes.

    Args:
        items: item types of the protocol.
        dropped_items: item types that are not written, and why.
        has_own_items: whether all other items are written under our own name; otherwise `items` and `dropped_items`
            list every type.
        roles: roles of messages; any other role becomes the assistant's.
        citations: type of a citation -> its required members, with defaults.
        reasoning: part of full reasoning.
        request_members: required members of the response that repeat the request, with fixed values, because no
            dialect receives the request (seed contract, section 7.2).
        text_members: returns members of the response for the text format in `response.meta`.
        usage_members: members of `usage` that no frame has.
        ends: status of `final` -> the last event and the status of its response.
        incomplete_details: returns `incomplete_details` for the reason of an incomplete response.
        error_members: returns the members of an `error` event, from a frame's error.
        response_error: returns `error` of a failed response, from a code and a message.
        announces_failure: whether an `error` event precedes the end of a response that the provider ended as failed.
        whole_members: members of items that are dropped instead of truncated: a part of them is worthless.
        has_extensions: whether events of our own are always written; otherwise only if the client accepts them.
    """

    items: Mapping[str, ItemShape]
    dropped_items: Mapping[str, str]
    has_own_items: bool
    roles: frozenset[str]
    citations: Mapping[str, Mapping[str, object]]
    reasoning: PartKind
    request_members: Mapping[str, object]
    text_members: Callable[[Mapping[str, str]], Mapping[str, object]]
    usage_members: Mapping[str, Mapping[str, int]]
    ends: Mapping[str, tuple[str, str]]
    incomplete_details: Callable[[str | None], Mapping[str, str] | None]
    error_members: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    response_error: Callable[[str, str], Mapping[str, Any]]
    announces_failure: bool
    whole_members: frozenset[str]
    has_extensions: bool
