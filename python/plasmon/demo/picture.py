"""The readers' memory as a picture, drawn by matplotlib where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plasmon.demo.compare import Outcome

_OURS = "#12a5b8"
_PICKLE = "#d9534f"
_OTHERS = ("#9aa5b1", "#6c7a89", "#b8a04a", "#7d5ba6", "#4a7d4f")
_MARKS = "ovs^D"


def draw(outcomes: list[Outcome], table_bytes: int, path: Path) -> None:
    """Writes the picture. ImportError where there is no matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.2, 4.2), dpi=120)
    others = 0
    for outcome in outcomes:
        if not outcome.readers:
            continue
        style: dict[str, Any] = {"linewidth": 1.2, "markersize": 4, "zorder": 2}
        if outcome.way == "plasmon":
            style |= {"color": _OURS, "linewidth": 2.6, "marker": "o", "zorder": 4}
        elif outcome.way.startswith("pickle"):
            style |= {"color": _PICKLE, "marker": "x", "zorder": 3}
        else:
            style |= {"color": _OTHERS[others % len(_OTHERS)], "marker": _MARKS[others % 5]}
            others += 1
        gigabytes = [usage.pss / 1e9 for usage in outcome.readers.values()]
        axes.plot([*outcome.readers], gigabytes, label=outcome.way, **style)
    axes.axhline(table_bytes / 1e9, color="black", linewidth=0.8, linestyle=":", label="the table")
    axes.set_title("Memory of all processes that hold one table", fontsize=11, fontweight="bold")
    axes.set_xlabel("readers")
    axes.set_ylabel("GB, every page counted once (PSS)")
    counts = sorted({count for outcome in outcomes for count in outcome.readers})
    axes.set_xticks(counts)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the program's version, a picture changes only when its lines do.
    figure.savefig(path, metadata={"Software": None})
    pyplot.close(figure)
