"""The command line. Each command loads its own module when it runs."""

from __future__ import annotations

import importlib
import io
import os
import sys

from projector.cli.commands import build_parser

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, the shell convention


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status."""
    words = sys.argv[1:] if argv is None else argv
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - open until the end
    try:
        if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
            sys.stdout.reconfigure(errors="backslashreplace")  # not every encoding has every character of a diff
        try:
            arguments, unknown = build_parser(words[0] if words else "").parse_known_args(words)
            if unknown:  # `parse_args` would show the usage of the whole program
                arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
            module, _, function = arguments.run.partition(":")
            status = int(getattr(importlib.import_module(f"{__name__}.{module}"), function)(arguments))
        finally:
            sys.stdout.flush()  # `--help` leaves with `SystemExit`
    except BrokenPipeError:
        # the reader has left, such as `head`; without this the interpreter fails again when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except (OSError, ValueError) as error:  # `UsageError` is a ValueError
        from projector.cli.terminal import print_error  # noqa: PLC0415 - only for the message of a failure

        for line in _message(error).splitlines():
            print_error(line)
        return EXIT_USAGE
    return status


def _message(error: OSError | ValueError) -> str:
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    reason = "not found" if isinstance(error, FileNotFoundError) else (error.strerror or type(error).__name__).lower()
    return reason if error.filename is None else f"{error.filename}: {reason}"
