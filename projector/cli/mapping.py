"""How each provider event is handled, printed from the tables for `projector explain` and docs/mapping.md."""

from __future__ import annotations

import argparse
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from projector._errors import UsageError
from projector._validation import nearest
from projector.cli.servers import load_settings, server_module
from projector.cli.terminal import opened, print_error
from projector.contracts.kinds import PrivateKind
from projector.core.faults import FAULTS
from projector.core.handlers import DROPPED, EMITS, HANDLERS, HOST_HANDLERS
from projector.core.handlers.items import FINISHERS, ITEMS_ONLY
from projector.core.intake import STEERING
from projector.core.sse import NO_EVENTS, REASONS
from projector.providers import PROVIDERS
from projector.redaction.explain import Tracer, rules
from projector.redaction.policy import Policy

UNKNOWN: Final = "counted and dropped, never forwarded (contracts/public_sse_v1, D30)"
ITEM: Final = " (item)"
READ: Final = "read"
NOT_READ: Final = "not read"
RULES: Final = "rules"
"""The name that `explain` prints the redaction rules for."""


class Entry(NamedTuple):
    """One row of a table: a name, what is emitted for it, and how or why not."""

    name: str
    output: str
    reason: str


def explain_name(arguments: argparse.Namespace) -> int:
    """Print how a name is handled, or all names, or what is withheld in a file; exit 1 if a name is unknown."""
    name = arguments.name
    if arguments.config is not None and arguments.redaction is None and name != RULES:
        raise UsageError(f"`--config`: expected `--redaction FILE` or `{RULES}` with it")
    policy, secrets = policy_of(arguments.config, arguments.policy)
    if arguments.redaction is not None:
        lines = withheld_lines(arguments.redaction, policy, secrets)
    else:
        lines = list(everything()) if name is None else explain(name, policy)
    if lines:
        print("\n".join(lines))
        return 0
    if os.path.isfile(name):  # noqa: PTH113 - `Path.is_file` raises for a long name
        raise UsageError(
            f"{name}: expected a name, not a file: `projector project` lists what is dropped of a stream, "
            "`--redaction FILE` what is withheld"
        )
    known = [*(entry.name.removesuffix(ITEM) for entry in _entries()), RULES]
    similar = nearest(name, known)
    hint = "" if similar is None else f"; the nearest known name is `{similar}`"
    print_error(
        f"unknown name `{name[:80]}`{hint}. Unknown events are {UNKNOWN}. `projector explain` lists all names,"
        " and docs/operations.md the codes of errors."
    )
    return 1


def explain(name: str, policy: Policy | None = None) -> list[str]:
    """Return the lines about an event type, an item type, a chunk field, a code of an error, or the rules of a policy.

    There are none if the name is unknown.
    """
    if name in FAULTS:
        return [f"{name}: {FAULTS[name].message} See `Errors` in docs/operations.md."]
    if name == RULES:
        return [f"{rule.group}: {rule.name}: {rule.about}" for rule in rules(policy or Policy())]
    entries = [*_entries()]
    found = [entry for entry in entries if name in {entry.name, entry.name.removesuffix(ITEM)}]
    found = found or [entry for entry in entries if entry.output in {READ, NOT_READ} and name == _field(entry.name)]
    return [line for entry in found for line in _lines(entry)]


def withheld_lines(name: str, policy: Policy, secrets: Iterable[str] = ()) -> list[str]:
    """Return a line for each withholding in a file, `-` for standard input: its line, place, rule and source."""
    with opened(name) as source:
        text = source.read().decode("utf-8-sig", "replace")
    found = [f"{at.line}: {at.place}: {at.rule} ({at.source})" for at in Tracer(policy, secrets).file(text)]
    return found or ["nothing is withheld"]


def policy_of(config: str | None, policy: str | None) -> tuple[Policy, tuple[str, ...]]:
    """Return a policy of a configuration and the secrets of that configuration; without one the default policy.

    By default it is that of the agents and workflows, or else of the passthrough routes. Raises `UsageError` if they
    have several policies and `--policy` does not choose one of them.
    """
    if config is None:
        if policy is not None:
            raise UsageError("`--policy` is a policy of a configuration: expected `--config FILE` too")
        return Policy(), ()
    settings = load_settings(config)
    for reason in server_module("config.settings").secret_warnings(settings):
        print(f"warning: {reason}", file=sys.stderr)
    policies = dict(server_module("config.config_base").parts_of(settings, Policy)) or {"policy": Policy()}
    chosen = f"{_owner(policy or '')}.policy"
    if policy is None:
        first, *others = [path for path in policies if path != _PASSTHROUGH] or policies
        chosen = first if all(policies[other] == policies[first] for other in others) else chosen
    if chosen not in policies:
        raise UsageError(f"`--policy`: expected {' or '.join(f'`{_owner(path)}`' for path in policies)}")
    return policies[chosen], server_module("config.settings").secret_values(settings)


_PASSTHROUGH: Final = "passthrough.policy"


def _owner(path: str) -> str:
    """Return what has the policy at a path, as `--policy` names it."""
    return path.removesuffix(".policy")


def everything() -> Iterator[str]:
    """Return the lines about every known name, and the redaction rules."""
    for entry in _entries():
        yield from _lines(entry)
    yield from explain(RULES)


def mapping_markdown() -> str:
    """Return the content of docs/mapping.md."""
    return "\n".join(_mapping_lines()) + "\n"


def summary(handler: Callable[..., object]) -> str:
    """Return the first line of a handler's docstring."""
    return (inspect.getdoc(handler) or "").partition("\n")[0]


def _entries() -> Iterator[Entry]:
    for name, handler in {**HANDLERS, **HOST_HANDLERS}.items():
        yield Entry(name, _emitted(EMITS[handler]) or "no event by itself", summary(handler))
    for name, steer in STEERING.items():
        yield Entry(name, "recording directive", summary(steer))
    for name, why in {**DROPPED, **NO_EVENTS, **REASONS}.items():
        yield Entry(name, "dropped", why)
    for name, finisher in FINISHERS.items():
        yield Entry(f"{name}{ITEM}", "output_item.added, output_item.done", summary(finisher))
    for name, why in ITEMS_ONLY.items():
        yield Entry(f"{name}{ITEM}", "output_item.added and output_item.done only", why)
    for provider in PROVIDERS.values():
        tables = provider.tables()
        for output, kinds in ((READ, tables.read), (NOT_READ, tables.dropped)):
            for kind, table in kinds.items():
                for name, why in table.items():
                    yield Entry(f"{kind}.{name}", output, why)


def _emitted(kinds: Iterable[str], mark: str = "") -> str:
    """Return the kinds that are emitted; those that only some dialects have after the others."""
    private = {*PrivateKind}
    public, others = ([f"{mark}{kind}{mark}" for kind in kinds if (kind in private) is only] for only in (False, True))
    return "; ".join(filter(None, [", ".join(public), f"in dialects: {', '.join(others)}" if others else ""]))


def _field(name: str) -> str:
    """Return the name of a field without its object."""
    return name.partition(".")[2]


def _lines(entry: Entry) -> list[str]:
    return [f"{entry.name}: {entry.output}", f"  {entry.reason}"]


def _mapping_lines() -> Iterator[str]:
    about = "Printed by `make docs`; a row joins what is handled alike."
    contract = "../contracts/public_sse_v1/README.md"
    where = f"D22 and similar numbers are in [the contract]({contract}). Other APIs are translated to these events."
    command = "`projector explain` also has the members of messages, and why some are not read."
    yield from ("# Mapping", "", f"{about} {where} {command}", "")
    yield from ("## Handled provider events, and the public kinds that they emit", "")
    handled = {**HANDLERS, **HOST_HANDLERS}.items()
    kinds: dict[str, dict[str, None]] = {}
    for _, how in handled:
        kinds.setdefault(summary(how), {}).update(dict.fromkeys(EMITS[how]))
    emitted = {how: _emitted(kinds[summary(how)], "`") or "none" for _, how in handled}
    yield from _list({name: f"{summary(how)} → {emitted[how]}" for name, how in handled})
    yield from ("", "If the provider did not announce an item, `output_item.added` is emitted before any of these.", "")
    steering = {name: summary(steer) for name, steer in STEERING.items()}
    yield from ("## Recording directives", "", *_list(steering), "")
    yield from ("## Dropped provider events", "", *_list(DROPPED), "")
    yield from ("## Item types without content events", "", *_list(ITEMS_ONLY), "")
    yield from ("## Finish reasons of other APIs", "")
    yield from _finish_lines()
    yield f"Any other name is {UNKNOWN}."


def _finish_lines() -> Iterator[str]:
    apis: dict[tuple[str, str], list[str]] = {}
    for provider in PROVIDERS.values():
        for row in provider.tables().finish_reasons.items():
            apis.setdefault(row, []).append(provider.title)
    tables: dict[str, dict[str, str]] = {}
    for (reason, status), titles in apis.items():
        tables.setdefault(", ".join(titles), {})[reason] = f"`{status}`"
    for owners, reasons in tables.items():
        yield from (f"{owners}:", "", *_list(reasons), "")


def _list(rows: Mapping[str, str]) -> Iterator[str]:
    """Write a line for each meaning; names with the same meaning share one."""
    names: dict[str, list[str]] = {}
    for name, why in rows.items():
        names.setdefault(why, []).append(f"`{name}`")
    for why, group in names.items():
        yield f"- {', '.join(group)}: {why}"
