"""Draws bar charts: `python -m bench.plots`, with a list of them as JSON on standard input.

It runs in an environment with matplotlib, which the harness itself does without.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import matplotlib  # type: ignore[import-not-found,unused-ignore]

matplotlib.use("Agg")
from matplotlib import pyplot  # type: ignore[import-not-found,unused-ignore]

COLORS = ("#d9534f", "#9aa5b1", "#12a5b8")
WIDTH = 0.26


def draw(plot: dict[str, Any]) -> None:
    """One chart: two groups of bars, a bar for each side, its milliseconds above it."""
    figure, axes = pyplot.subplots(figsize=(4.6, 3.0), dpi=100)
    for at, (label, times) in enumerate(plot["bars"].items()):
        places = [group + at * WIDTH for group in range(len(times))]
        bars = axes.bar(places, times, WIDTH * 0.94, color=COLORS[at % len(COLORS)], label=label)
        axes.bar_label(bars, [f"{time:.3g}" for time in times], fontsize=7, padding=1)
    axes.set_title(plot["title"], fontsize=10, fontweight="bold")
    axes.set_ylabel("processor time (ms)", fontsize=8)
    axes.set_xticks([WIDTH, 1 + WIDTH], ["serialization", "deserialization"], fontsize=8)
    axes.tick_params(axis="y", labelsize=7)
    axes.margins(y=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False)
    figure.tight_layout()
    # Without the program's version, a picture changes only when its bars do.
    figure.savefig(plot["file"], metadata={"Software": None})
    pyplot.close(figure)


if __name__ == "__main__":
    for one in json.load(sys.stdin):
        draw(one)
