"""Condenses the samples of several rounds into a median and its spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted samples lie, interpolated between neighbours."""
    if not ordered:
        raise ValueError("a quantile of no samples")
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def median(samples: Sequence[float]) -> float:
    """The middle value."""
    return quantile(sorted(samples), 0.5)


@dataclass(frozen=True)
class Spread:
    """What is left of many samples."""

    median: float
    min: float
    p10: float
    p90: float
    rounds: int
    samples: int


def spread(rounds: Sequence[Sequence[float]]) -> Spread:
    """Condenses rounds of samples.

    The median is the median of the rounds' medians: a disturbance that ruins one round moves it no
    further than to a neighbouring round, however many samples that round holds. The rest describes
    all samples together.
    """
    filled = [one for one in rounds if one]
    if not filled:
        raise ValueError("a spread of no samples")
    everything = sorted(value for one in filled for value in one)
    return Spread(
        median=median([median(one) for one in filled]),
        min=everything[0],
        p10=quantile(everything, 0.1),
        p90=quantile(everything, 0.9),
        rounds=len(filled),
        samples=len(everything),
    )


def paired_ratio(
    numerator: Sequence[Sequence[float]], denominator: Sequence[Sequence[float]]
) -> float:
    """The median over the rounds of one side's median over the other's.

    Both sides of a round ran within a moment of each other, so the noise of a shared machine
    cancels out where the ratio of two overall medians would keep it.
    """
    ratios = [
        median(top) / median(bottom)
        for top, bottom in zip(numerator, denominator, strict=False)
        if top and bottom and median(bottom) > 0
    ]
    return median(ratios)
