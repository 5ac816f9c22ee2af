"""The times of both managers as a picture, drawn by matplotlib where it is installed."""

from __future__ import annotations

from pathlib import Path

from scripts.demo_spark.scene import MANAGERS, Account, Job, Run

_COLORS = dict(zip(MANAGERS, ("#9aa5b1", "#12a5b8"), strict=True))
_BAR = 0.38


def draw(account: Account, path: Path) -> None:
    """Writes the picture. ImportError where there is no matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    jobs = [job for job in account.jobs if job.title in account.runs]
    figure, axes = pyplot.subplots(figsize=(8.4, 1.2 + 1.1 * len(jobs)), dpi=120)
    for number, name in enumerate(MANAGERS):
        places = [at + (number - 0.5) * _BAR for at in range(len(jobs))]
        runs = [account.runs[job.title].get(name) for job in jobs]
        seconds = [0.0 if run is None else run.seconds for run in runs]
        bars = axes.barh(places, seconds, _BAR, color=_COLORS[name], label=f"{name} manager")
        axes.bar_label(bars, [_label(run) for run in runs], padding=4, fontsize=8)
    axes.set_yticks(range(len(jobs)), [_title(job) for job in jobs], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlabel("seconds; less is better")
    axes.margins(x=0.3)
    axes.set_title("One shuffle, two managers", fontsize=11, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the program's version, a picture changes only when its bars do.
    figure.savefig(path, metadata={"Software": None})
    pyplot.close(figure)


def _title(job: Job) -> str:
    first, _, rest = job.title.partition(", ")
    return f"{first},\n{rest}" if rest else first.replace(" in the ", "\nin the ")


def _label(run: Run | None) -> str:
    if run is None:
        return ""
    words = [f"{run.seconds:.1f} s"]
    if run.spilled_bytes:
        words.append(f"{run.spilled_bytes / 1e6:,.0f} MB spilled")
    if run.map_tasks_again is not None:
        words.append(f"{run.map_tasks_again} map tasks again")
    return ", ".join(words)
