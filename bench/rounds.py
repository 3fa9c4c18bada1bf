"""Interleaved measuring: in each round every subject runs once, so that other work on the machine disturbs all alike.

CPU time of this process, not wall-clock time. The least of the rounds is the figure: a disturbance can only add.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple, TypeAlias

Subject: TypeAlias = Callable[[], object]


class Cost(NamedTuple):
    """CPU seconds of one subject, a number for each round."""

    rounds: list[float]

    @property
    def least(self) -> float:
        """The figure."""
        return min(self.rounds)

    @property
    def median(self) -> float:
        """The cost of a usual round."""
        return median(self.rounds)

    def over(self, floor: Cost) -> Ratio:
        """Return this cost in units of another one, measured in the same rounds."""
        of_rounds = sorted(ours / theirs for ours, theirs in zip(self.rounds, floor.rounds, strict=True))
        return Ratio(self.least / floor.least, of_rounds[0], of_rounds[-1])


class Ratio(NamedTuple):
    """The ratio of two costs: of the least ones, and the extremes of the single rounds."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the ratio with its spread."""
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"


def measure(subjects: Mapping[str, Subject], rounds: int) -> dict[str, Cost]:
    """Run the subjects in turn for some rounds, and return the cost of each."""
    costs = {name: Cost([]) for name in subjects}
    for _ in range(rounds):
        for name, subject in subjects.items():
            gc.collect()  # no subject pays for what another left behind
            start = time.process_time()
            subject()
            costs[name].rounds.append(time.process_time() - start)
    return costs
