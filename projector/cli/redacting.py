"""The command `redact`: cleans a text, or a recorded stream, with a policy."""

from __future__ import annotations

import argparse
import codecs
import sys
from collections.abc import Iterable, Iterator
from typing import Final

from projector._errors import UsageError
from projector.cli.mapping import policy_of
from projector.cli.streams import convert
from projector.cli.terminal import opened, print_error, reads, write_out
from projector.core.context import StreamContext
from projector.core.pipeline import build_pipeline
from projector.redaction.clean import SHOWN_COUNTS, bounded
from projector.redaction.ledger import BlockedError
from projector.redaction.policy import Policy, PolicyError
from projector.redaction.redactor import Redactor

_SETTINGS: Final = frozenset({"off", "credentials"})


def redact(arguments: argparse.Namespace) -> int:
    """Write a text as it arrives, or the events of a stream, cleaned; exit 1 if the text has a blocked value.

    Values of a text that the policy only reports are counted on standard error.
    """
    policy, secrets = policy_of(arguments.config, arguments.policy)
    redactor = Redactor(_with_text(policy, arguments.text), secrets)
    with opened(arguments.file) as source:
        if arguments.provider is None:
            return _redact_text(redactor, reads(source))
        pipeline = build_pipeline(
            provider=arguments.provider,
            dialect="public_sse_v1",
            context=StreamContext(),
            redactor=redactor,
            input_format="auto",
            output_format="ndjson",
        )
        convert(source, pipeline, arguments.provider, "auto")
        return 0


def _redact_text(redactor: Redactor, parts: Iterable[bytes]) -> int:
    """Write a text line by line, so that all text before a blocked value is written."""
    stream = redactor.message_stream()
    line, notices = 1, bounded(())
    try:
        for text in _lines(parts):
            clean = stream.feed(text) if text else stream.close()
            write_out(clean.value.encode())
            line, notices = line + text.count("\n"), bounded([*notices, *clean.notices])
    except BlockedError as blocked:
        line -= stream.held.count("\n")
        print_error(f"line {line}: blocked: a value of the class `{blocked}`; the output ends before this line")
        return 1
    for notice in notices:
        _, begin, counts = notice.message.partition(SHOWN_COUNTS)
        if counts:
            print(f"{begin}{counts}", file=sys.stderr)
    return 0


def _lines(parts: Iterable[bytes]) -> Iterator[str]:
    """Yield each line of a text, or each part of one in a read, and an empty one as its end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for data in parts:
        yield from decoder.decode(data).splitlines(keepends=True)
    yield from decoder.decode(b"", final=True).splitlines()
    yield ""


def _with_text(policy: Policy, text: str | None) -> Policy:
    """Return a policy with the classes of the command line."""
    if text is None:
        return policy
    classes = (one.partition("=") for one in text.split(","))
    chosen = text if text in _SETTINGS else {name: action or "mask" for name, _, action in classes}
    try:
        return Policy.load({**policy.model_dump(exclude_unset=True), "text": chosen})
    except PolicyError as error:
        raise UsageError(f"`--text`: {str(error).removeprefix('`policy`: ')}") from None
