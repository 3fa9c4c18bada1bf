"""The tables in words, for `projector explain` and docs/mapping.md: what becomes of a provider's event, and why."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from projector.dialects import public_sse_v1
from projector.handlers import DROPPED, HANDLERS, HOST_HANDLERS, SAYS
from projector.handlers.items import FINISHERS, ITEMS_ONLY

UNKNOWN: Final = "unknown: counted, dropped, never forwarded (CONTRACT D30)"


def explain(name: str) -> list[str]:
    """Give the lines that say what becomes of an event type or an item type."""
    if (handler := HANDLERS.get(name) or HOST_HANDLERS.get(name)) is not None:
        return [f"{name}: {', '.join(SAYS[handler]) or 'says nothing by itself'}", f"  {summary(handler)}"]
    if name in DROPPED:
        return [f"{name}: says nothing", f"  {DROPPED[name]}"]
    if name in FINISHERS:
        return [f"{name} (item): output_item.added, output_item.done", f"  {summary(FINISHERS[name])}"]
    if name in ITEMS_ONLY:
        return [f"{name} (item): output_item.added and output_item.done only", f"  {ITEMS_ONLY[name]}"]
    known = [*HANDLERS, *DROPPED, *HOST_HANDLERS, *FINISHERS, *ITEMS_ONLY]
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return [f"{name}: {UNKNOWN}", f"  nearest known name: {nearest[0]}"]


def everything() -> Iterator[str]:
    """Give the lines for every event type and item type that is known."""
    for name in [*HANDLERS, *DROPPED, *HOST_HANDLERS, *FINISHERS, *ITEMS_ONLY]:
        yield from explain(name)


def mapping_markdown() -> str:
    """Give docs/mapping.md."""
    return "\n".join(_mapping_lines()) + "\n"


def summary(handler: Callable[..., object]) -> str:
    """Give the first line of a handler's docstring: what it does, in its own words."""
    return (inspect.getdoc(handler) or "").partition("\n")[0]


def _mapping_lines() -> Iterator[str]:
    yield "# Mapping"
    yield ""
    yield "Printed from the tables by `make docs`; `projector explain NAME` says one row."
    yield ""
    yield "## Provider events that are said"
    yield ""
    yield "| event | public kinds | how |"
    yield "|---|---|---|"
    for name, handler in {**HANDLERS, **HOST_HANDLERS}.items():
        yield f"| `{name}` | {_kinds(SAYS[handler])} | {summary(handler)} |"
    yield ""
    yield "An item that the provider never announced is announced by `output_item.added` before any of these."
    yield ""
    yield from _table("Provider events that are dropped", "event", DROPPED)
    yield from _table("Item types that are said as items only", "item type", ITEMS_ONLY)
    yield from _table("Private frame kinds that `public_sse_v1` drops", "kind", public_sse_v1.DROPPED)
    yield f"Any other event is {UNKNOWN}"


def _table(title: str, head: str, rows: Mapping[str, str]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield f"| {head} | why |"
    yield "|---|---|"
    for name, why in rows.items():
        yield f"| `{name}` | {why} |"
    yield ""


def _kinds(kinds: tuple[str, ...]) -> str:
    return ", ".join(f"`{kind}`" for kind in kinds) or "none by itself"
