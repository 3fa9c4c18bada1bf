"""What tools of the provider do: an activity for each, which grows by small patches (CONTRACT D19 to D22)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from projector.core.canonical import Frame
from projector.dialects.ag_ui.items import Activity
from projector.dialects.ag_ui.run import Event, Run, metadata

ACTIVITY_TYPES: Final[Mapping[str, str]] = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
}
"""Item type -> the contract's name of the tool; an item without a public tool type is an activity of its own name."""

NOT_CONTENT: Final = frozenset({"tool_type", "tool_call_id"})
"""Members of `tool` that say which activity it is, not what it does."""

CODE: Final = "code"
OUTPUTS: Final = "outputs"


def on_added(run: Run, frame: Frame) -> list[Event]:
    """Say that a tool begins."""
    item_type, content = frame["item_type"], {"status": frame["status"]}
    message_id = run.message_ids.give(frame["item_id"])
    activity = run.activities[frame["item_id"]] = Activity(
        message_id, ACTIVITY_TYPES.get(item_type, item_type), content
    )
    run.parent_id = None
    snapshot = {"messageId": activity.id, "activityType": activity.type, "content": dict(content)}
    return [run.event("ACTIVITY_SNAPSHOT", **snapshot)]


def on_status(run: Run, frame: Frame) -> list[Event]:
    """Say the members that have changed."""
    members = {name: value for name, value in frame["tool"].items() if name not in NOT_CONTENT}
    return _change(run, frame, members)


def on_code_delta(run: Run, frame: Frame) -> list[Event]:
    """Say one more piece of the code."""
    return _append(run, frame, CODE, frame["delta"]) if frame["delta"] else []


def on_code_done(run: Run, frame: Frame) -> list[Event]:
    """Say the code as one piece, unless deltas have said it."""
    is_said = CODE in run.activities[frame["item_id"]].content
    return [] if is_said or not frame["code"] else _append(run, frame, CODE, frame["code"])


def on_output(run: Run, frame: Frame) -> list[Event]:
    """Say one more output."""
    return _append(run, frame, OUTPUTS, frame["output"])


def on_done(run: Run, frame: Frame) -> list[Event]:
    """Say how the tool ended, where no status did: one that failed, and one without a public tool type."""
    return _change(run, frame, {"status": frame["status"]})


def _change(run: Run, frame: Frame, members: Mapping[str, object]) -> list[Event]:
    content = run.activities[frame["item_id"]].content
    changed = {name: value for name, value in members.items() if content.get(name) != value}
    content.update(changed)
    return _patch(run, frame, {f"/{name}": value for name, value in changed.items()})


def _append(run: Run, frame: Frame, name: str, value: object) -> list[Event]:
    """Put an entry at the end of a list: a patch of a growing text would repeat all of it each time."""
    content = run.activities[frame["item_id"]].content
    is_new = name not in content
    content[name] = ...
    return _patch(run, frame, {f"/{name}": [value]} if is_new else {f"/{name}/-": value})


def _patch(run: Run, frame: Frame, values: Mapping[str, Any]) -> list[Event]:
    activity = run.activities[frame["item_id"]]
    patch = [{"op": "add", "path": path, "value": value} for path, value in values.items()]
    if not patch:
        return []
    delta = {"messageId": activity.id, "activityType": activity.type, "patch": patch}
    return [run.event("ACTIVITY_DELTA", **delta, metadata=metadata(notices=frame.get("notices")))]
