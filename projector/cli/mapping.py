"""The tables in words, for `projector explain` and docs/mapping.md: what becomes of a provider's event, and why."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from projector.core.handlers import DROPPED, HANDLERS, HOST_HANDLERS, SAYS
from projector.core.handlers.items import FINISHERS, ITEMS_ONLY
from projector.core.intake import STEERING
from projector.dialects import DIALECTS
from projector.providers.openai_chat import fields as chat
from projector.redaction.explain import rules
from projector.redaction.policy import Policy

UNKNOWN: Final = "unknown: counted, dropped, never forwarded (CONTRACT D30)"
RULES: Final = "rules"
"""The name under which the rules of redaction are explained."""


class Entry(NamedTuple):
    """One row of a table: what it is about, what is said of it, and how or why not."""

    name: str
    says: str
    why: str


def explain(name: str) -> list[str]:
    """Give the lines that say what becomes of an event type, an item type or a chunk's member; `rules` for rules."""
    if name == RULES:
        return [f"{rule.group}: {rule.name}: {rule.about}" for rule in rules(Policy())]
    entries = list(_entries())
    found = [entry for entry in entries if name in {entry.name, entry.name.removesuffix(" (item)")}]
    if found:
        return [line for entry in found for line in _lines(entry)]
    known = [entry.name for entry in entries]
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return [f"{name}: {UNKNOWN}", f"  nearest known name: {nearest[0]}"]


def everything() -> Iterator[str]:
    """Give the lines for everything that is known, and the rules of redaction."""
    for entry in _entries():
        yield from _lines(entry)
    yield from explain(RULES)


def mapping_markdown() -> str:
    """Give docs/mapping.md."""
    return "\n".join(_mapping_lines()) + "\n"


def summary(handler: Callable[..., object]) -> str:
    """Give the first line of a handler's docstring: what it does, in its own words."""
    return (inspect.getdoc(handler) or "").partition("\n")[0]


def _entries() -> Iterator[Entry]:
    for name, handler in {**HANDLERS, **HOST_HANDLERS}.items():
        yield Entry(name, ", ".join(SAYS[handler]) or "says nothing by itself", summary(handler))
    for name, steer in STEERING.items():
        yield Entry(name, "a line of recordings", summary(steer))
    for name, why in DROPPED.items():
        yield Entry(name, "says nothing", why)
    for name, finisher in FINISHERS.items():
        yield Entry(f"{name} (item)", "output_item.added, output_item.done", summary(finisher))
    for name, why in ITEMS_ONLY.items():
        yield Entry(f"{name} (item)", "output_item.added and output_item.done only", why)
    for place, table in CHAT_DROPPED.items():
        for name, why in table.items():
            yield Entry(f"{place}.{name}", "not read", why)


def _lines(entry: Entry) -> list[str]:
    return [f"{entry.name}: {entry.says}", f"  {entry.why}"]


CHAT_DROPPED: Final[Mapping[str, Mapping[str, str]]] = {
    "chunk": chat.CHUNK_DROPPED,
    "choice": chat.CHOICE_DROPPED,
    "delta": chat.DELTA_DROPPED,
}
CHAT_READ: Final[Mapping[str, frozenset[str]]] = {
    "chunk": chat.CHUNK_READ,
    "choice": chat.CHOICE_READ,
    "delta": chat.DELTA_READ,
}


def _mapping_lines() -> Iterator[str]:
    about = "Printed from the tables by `make docs`; `projector explain NAME` says one row."
    yield from ("# Mapping", "", f"{about} D22 and its like are rows of [contract.md](contract.md).", "")
    yield from ("## Provider events that are said", "", "| event | public kinds | how |", "|---|---|---|")
    for name, handler in {**HANDLERS, **HOST_HANDLERS}.items():
        kinds = ", ".join(f"`{kind}`" for kind in SAYS[handler]) or "none by itself"
        yield f"| `{name}` | {kinds} | {summary(handler)} |"
    yield ""
    yield "An item that the provider never announced is announced by `output_item.added` before any of these."
    yield ""
    steering = {name: summary(steer) for name, steer in STEERING.items()}
    yield from _table("Lines of recordings that steer the pipeline", "line", steering, "what it does")
    yield from _table("Provider events that are dropped", "event", DROPPED)
    yield from _table("Item types that are said as items only", "item type", ITEMS_ONLY)
    for name, dialect in DIALECTS.items():
        yield from _table(f"Frame kinds that `{name}` drops", "kind", dialect.dropped)
    yield "## Chat Completions"
    yield ""
    yield "Chunks become the events above (`projector/providers/openai_chat`). The profile says where reasoning is."
    yield ""
    for place, names in CHAT_READ.items():
        yield f"Read of a {place}: {', '.join(f'`{name}`' for name in sorted(names))}."
        yield ""
    for place, table in CHAT_DROPPED.items():
        yield from _table(f"Members of a {place} that are not read", "member", table)
    finishes = {reason: f"`{status}`" for reason, (status, _) in chat.FINISHES.items()}
    yield from _table("Finish reasons", "finish_reason", finishes, "status")
    yield f"Anything else is {UNKNOWN}."


def _table(title: str, head: str, rows: Mapping[str, str], what: str = "why") -> Iterator[str]:
    yield from (f"## {title}", "", f"| {head} | {what} |", "|---|---|")
    for name, why in rows.items():
        yield f"| `{name}` | {why} |"
    yield ""
