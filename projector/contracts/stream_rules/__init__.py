"""The rules over a whole public stream, as a sans-IO checker.

`RULES` is the list of them; `check_stream` and `StreamChecker` apply it. The models say what one event may hold, these
rules what a stream may say: with which numbers, in which order, how long, and how it ends.
"""

from projector.contracts.stream_rules.checker import StreamChecker, check_stream
from projector.contracts.stream_rules.table import RULES, Level, Rule, Violation

__all__ = ["RULES", "Level", "Rule", "StreamChecker", "Violation", "check_stream"]
