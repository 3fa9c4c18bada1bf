"""The tables in words."""

from __future__ import annotations

import argparse

from projector.cli import mapping as explain


def explain_event(arguments: argparse.Namespace) -> int:
    """Print what becomes of an event type, or of every one."""
    for line in explain.explain(arguments.event_type) if arguments.event_type else explain.everything():
        print(line)
    return 0
