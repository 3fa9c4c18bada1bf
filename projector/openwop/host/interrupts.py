"""Answers to interrupts: what a person decided, and the signed tokens with which one may decide without a key.

A tool call that waits for approval is answered with one of `ACTIONS`. Any other interrupt is answered with any value;
it rejects if it says so (`REJECTIONS`).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from projector.contracts import codec
from projector.openwop.event_log import APPROVAL, APPROVAL_ACTIONS
from projector.openwop.host.host_errors import HostError
from projector.store.protocol import Store

ANONYMOUS: Final = "anonymous"
"""Name of a person without a key: the log contains no addresses."""
BY_TOKEN: Final = "token"  # noqa: S105 - the name of a person who has only the token of an interrupt

REJECTIONS: Final[Mapping[str, frozenset[str]]] = {
    "action": frozenset({"reject"}),
    "decision": frozenset({"reject", "rejected"}),
}
"""Member of a free value -> values that reject."""

COMMENTS: Final = ("comment", "feedback", "refineFeedback", "editedArtifactData")
"""Members of an answer to an approval that are logged with it."""

_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "refine": ("refineFeedback", "feedback"),
    "edit-accept": ("editedArtifactData",),
}
"""Action -> members of which it needs one."""

EDITED: Final = "Call the tool again with these arguments instead: "
"""What the model is told when a person edited a call: providers accept or reject a call, and cannot change it."""

ANSWERS: Final = "openwop-answer"
"""Kind of the values of a store that are answers to interrupts."""
ANSWER_TTL_S: Final = 86_400.0
"""Seconds that an answer is kept: longer than runs wait."""


class Decision(NamedTuple):
    """What a person decided."""

    is_accepted: bool
    action: str | None
    """Action of an approval; None for a free value."""
    value: object
    """The whole answer."""

    @property
    def reason(self) -> str | None:
        """Text for the model, with what a person wants instead."""
        answer = self.value if isinstance(self.value, Mapping) else {}
        if self.action == "edit-accept":
            return EDITED + codec.dumps(answer["editedArtifactData"]).decode()
        refined = answer.get("refineFeedback")
        texts = (refined.get("text") if isinstance(refined, Mapping) else None, answer.get("feedback"))
        return next((text for text in (*texts, answer.get("comment")) if isinstance(text, str) and text), None)


def decision(kind: str, value: object) -> Decision:
    """Return the decision of an answer to an interrupt; raise `HostError` if it is none of the allowed ones."""
    answer: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    if kind != APPROVAL:
        is_rejected = any(_is_one(answer.get(name), values) for name, values in REJECTIONS.items())
        return Decision(not is_rejected, None, value)
    action = answer.get("action")
    if not isinstance(action, str) or action not in APPROVAL_ACTIONS:
        raise HostError("validation_error", f"`resumeValue.action` must be one of: {', '.join(APPROVAL_ACTIONS)}.")
    needed = _REQUIRED.get(action, ())
    if needed and not any(answer.get(name) is not None for name in needed):
        raise HostError("validation_error", f"`resumeValue.{needed[0]}` is missing: `{action}` requires it.")
    return Decision(action == "accept", action, value)


def _is_one(value: object, values: frozenset[str]) -> bool:
    return isinstance(value, str) and value in values


def answer_key(run_id: str, interrupt_id: str) -> str:
    """Return the key of the answer to an interrupt."""
    return f"{run_id}:{interrupt_id}"


async def claim_answer(store: Store, run_id: str, interrupt_id: str, value: object, by: str) -> None:
    """Store the answer to an interrupt; raise `HostError` if another one was stored before."""
    answer = codec.dumps({"value": value, "by": by, "id": secrets.token_hex(8)})
    if await store.claim(ANSWERS, answer_key(run_id, interrupt_id), answer, ANSWER_TTL_S) != answer:
        raise HostError("interrupt_already_resolved")


class InterruptTokens:
    """Signs and reads tokens that name an interrupt of a run; a token is worth nothing once it is resolved."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, run_id: str, interrupt_id: str) -> str:
        """Return the token of an interrupt."""
        name = codec.dumps([run_id, interrupt_id])
        return f"{_text(name)}.{_text(self._digest(name))}"

    def read(self, token: str) -> tuple[str, str]:
        """Return run and interrupt of a token; raise `HostError` if it was not signed with this key."""
        name, _, digest = token.partition(".")
        try:
            data, signed = _bytes(name), _bytes(digest)
        except (binascii.Error, ValueError):
            raise HostError("interrupt_not_found") from None
        if not hmac.compare_digest(signed, self._digest(data)):
            raise HostError("interrupt_not_found")
        run_id, interrupt_id = codec.loads(data)
        return run_id, interrupt_id

    def _digest(self, name: bytes) -> bytes:
        return hmac.digest(self._key, b"openwop interrupt\n" + name, "sha256")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), b"-_", validate=True)
