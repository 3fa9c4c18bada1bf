"""Rules of notices (seed section 8, CONTRACT D26)."""

from __future__ import annotations

from collections.abc import Mapping

from projector.contracts.limits import NOTICES_MAX_ITEMS
from projector.contracts.parts import Notice
from projector.contracts.paths import ABSENT, resolve
from projector.contracts.public_sse_v1 import PublicEvent
from projector.contracts.stream_rules.table import Breach


def check_notices(event: PublicEvent, members: Mapping[str, object]) -> list[Breach]:
    """Check the notices of one event against the event as it stands on the wire."""
    notices = event.notices or []
    found = []
    if len(notices) > NOTICES_MAX_ITEMS + 1:
        found.append(Breach("notice_items", f"expected at most {NOTICES_MAX_ITEMS} and a parent, found {len(notices)}"))
    seen = set()
    for index, notice in enumerate(notices):
        if resolve(members, notice.path) is ABSENT:
            found.append(Breach("notice_path", f"`notices[{index}].path`: expected a place in the event"))
        if (notice.type, notice.path) in seen:
            found.append(Breach("notice_once", f"`notices[{index}]`: expected another path or type"))
        seen.add((notice.type, notice.path))
    return found


def is_cut(event: PublicEvent, path: str | None = None) -> bool:
    """Tell whether a notice says that something was cut: the member at `path`, or its parent, or anything at all."""
    return any(_speaks_of(notice, path) for notice in event.notices or () if notice.type == "truncated")


def _speaks_of(notice: Notice, path: str | None) -> bool:
    return path is None or notice.path == path or path.startswith(f"{notice.path}.")
