"""The rules over a whole public stream, as a sans-IO checker.

`RULES` is the list of them; `check_stream` and `StreamChecker` apply it. The models define what one event may
hold; these rules define a stream: numbering, order, lengths, and how it ends.
"""

from projector.contracts.stream_rules.checker import StreamChecker, check_stream
from projector.contracts.stream_rules.table import RULES, Level, Rule, Violation

__all__ = ["RULES", "Level", "Rule", "StreamChecker", "Violation", "check_stream"]
