"""Commands that read streams: `project` and `validate`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

from projector._errors import UsageError
from projector.cli import EXIT_INTERRUPTED
from projector.cli.terminal import opened, paint, print_error, reads, write_out
from projector.core.context import StreamContext, parse_time
from projector.core.handlers import listed, unexpected_drops
from projector.core.intake import HOST_PREFIX
from projector.core.pipeline import Pipeline, build_pipeline
from projector.core.sse import BOM
from projector.dialects import DIALECTS
from projector.providers import PROVIDERS

if TYPE_CHECKING:  # `project` does not need the rules, and importing them takes longer than projecting a small stream
    from projector.contracts.stream_rules import Violation
    from projector.contracts.stream_rules.table import Checker
    from projector.core.canonical import Frame
    from projector.core.input_formats import InputFormat

_UNREAD: Final = frozenset({"upstream_malformed", "upstream_event_too_large"})
"""Codes of the errors that every provider has for an input that it cannot read."""
FRAMING: Final = (b":", b"event:", b"id:", b"retry:")
"""Starts of SSE lines without data."""


def project(arguments: argparse.Namespace) -> int:
    """Write the events of a provider stream as it arrives.

    A hint on standard error names the provider of a stream that `--provider` has no event for, or the option that
    reads its host events.
    """
    pipeline = build_pipeline(
        provider=arguments.provider,
        dialect=arguments.dialect,
        context=StreamContext(stream_id=arguments.stream_id),
        run=arguments.is_run,
        input_format=arguments.input_format,
        output_format=arguments.output_format,
        takes_host_events=arguments.host_events,
        clock=_clock(arguments.clock),
    )
    try:
        with opened(arguments.file) as source:
            convert(source, pipeline, arguments.provider, arguments.input_format)
    except KeyboardInterrupt:
        write_out(pipeline.cancel())
        return EXIT_INTERRUPTED
    names = listed(unexpected_drops(pipeline.dropped))
    if names:
        print_error(f"dropped: {names}")
    if not arguments.host_events and any(name.startswith(HOST_PREFIX) for name in pipeline.dropped):
        print_error(f"`{HOST_PREFIX}*` lines were dropped; `--host-events` reads them as events of the host")
    return 1 if names and arguments.fail_on_dropped else 0


def validate(arguments: argparse.Namespace) -> int:
    """Print each violation of a dialect's rules with its line number.

    Raises:
        UsageError: the dialect has no rules.
    """
    if (rules := DIALECTS[arguments.dialect].checker) is None:
        expected = " or ".join(f"`{name}`" for name, dialect in DIALECTS.items() if dialect.checker is not None)
        raise UsageError(
            f"`{arguments.dialect}` has no rules of ours, see `Check a stream` in docs/dialects.md for those of its "
            f"protocol; expected {expected}"
        )
    found = False
    for name in arguments.files:
        with opened(name) as source:
            checker = rules()
            violations: list[Violation] = []
            first: tuple[int, bytes] | None = None
            for number, line in _events(source):
                first = first or (number, line)
                violations += checker.feed(number, line)
            violations += checker.close()
        for violation in violations:
            found = True
            event = f" event {violation.event_id}" if violation.event_id is not None else ""
            place, rule = paint(f"{name}:{violation.line}:", "bold"), paint(violation.rule, "red")
            print(f"{place}{event} {rule} ({violation.level}): {violation.message}")
        if first is not None and violations and violations[0].line == first[0]:
            _hint_at_dialect(name, first, rules)
    return 1 if found else 0


def _hint_at_dialect(name: str, first: tuple[int, bytes], rules: Callable[[], Checker]) -> None:
    """Print which other dialect or which provider the first event of a file is of, if there is one."""
    if first[1].startswith(b'{"type":"about:blank"'):
        print_error(f"{name}: it looks like an error response of the server, which is no stream")
    elif rules().feed(*first):
        others = ((one, dialect.checker) for one, dialect in DIALECTS.items())
        other = next((one for one, others_rules in others if others_rules and not others_rules().feed(*first)), None)
        if other is not None:
            print_error(f"{name}: it looks like `--dialect {other}`")
        elif provider := _provider_of(first[1] + b"\n", "ndjson"):
            print_error(f"{name}: it looks like a stream of a provider: `projector project --provider {provider}`")


def _events(source: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield each event of an NDJSON file, or each `data` line of an SSE file that we wrote, with its line number."""
    for number, read in enumerate(source, 1):
        line = read.removeprefix(BOM) if number == 1 else read
        event = line.removeprefix(b"data:").strip()
        if event and not line.startswith(FRAMING):
            yield number, event


def convert(source: BinaryIO, pipeline: Pipeline, provider: str, input_format: InputFormat) -> None:
    """Write the output of a pipeline for a stream as it arrives; if there is none, print what the input may be."""
    head, has_events = b"", False
    for data in reads(source):
        head = head or data
        write_out(written := pipeline.feed(data))
        has_events = has_events or bool(written)
    write_out(pipeline.close())
    if not has_events:
        _hint_at_provider(head, provider, input_format)


def _hint_at_provider(head: bytes, provider: str, input_format: InputFormat) -> None:
    """Print what an input without events of a provider is, by its first bytes."""
    other = _provider_of(head, input_format)
    meant = (
        f"it looks like `--provider {other}`" if other else "expected its stream, as SSE or as a JSON event per line"
    )
    if other != provider:
        print_error(f"no event of `{provider}` in the input; {meant}")


def _provider_of(head: bytes, input_format: InputFormat) -> str | None:
    """Return the provider that reads most of the first bytes of a stream, None if none has events for them."""
    dropped: dict[str, int] = {}
    for name in PROVIDERS:
        frames: list[Frame] = []
        pipeline = build_pipeline(
            provider=name,
            dialect="public_sse_v1",
            context=StreamContext(),
            input_format=input_format,
            on_frame=frames.append,
        )
        pipeline.feed(head)
        if frames and frames[0].get("error", {}).get("code") not in _UNREAD:
            dropped[name] = pipeline.dropped.total()
    return min(dropped, key=dropped.__getitem__, default=None)


def _clock(text: str | None) -> Callable[[], float]:
    """Return a clock that is fixed at an ISO 8601 time, or the system clock."""
    if text is None:
        return time.time
    at = parse_time(text, "--clock")
    return lambda: at
