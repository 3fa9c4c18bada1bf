"""Interleaved measurement: each round runs every subject once, so that other load affects all of them.

Measures CPU time of this process. The figure is the minimum of the rounds, because other load only adds.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple, TypeAlias

Subject: TypeAlias = Callable[[], object]


class Cost(NamedTuple):
    """CPU seconds of one subject in each round."""

    rounds: list[float]

    @property
    def least(self) -> float:
        """The minimum."""
        return min(self.rounds)

    @property
    def median(self) -> float:
        """The median."""
        return median(self.rounds)

    def over(self, floor: Cost) -> Ratio:
        """Return the ratio to another cost, measured in the same rounds."""
        of_rounds = sorted(ours / theirs for ours, theirs in zip(self.rounds, floor.rounds, strict=True))
        return Ratio(self.least / floor.least, of_rounds[0], of_rounds[-1])


class Ratio(NamedTuple):
    """Ratio of the minimums of two costs, and the extremes of the single rounds."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the ratio with its spread."""
        return f"{self.value:.2f} ({self.low:.2f}-{self.high:.2f})"


def measure(subjects: Mapping[str, Subject], rounds: int) -> dict[str, Cost]:
    """Run the subjects in turn, and return the cost of each."""
    costs = {name: Cost([]) for name in subjects}
    for _ in range(rounds):
        for name, subject in subjects.items():
            gc.collect()  # so that no subject collects the garbage of another
            start = time.process_time()
            subject()
            costs[name].rounds.append(time.process_time() - start)
    return costs
