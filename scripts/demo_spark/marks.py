"""What tasks of the job in which a process is killed leave in a folder."""

from __future__ import annotations

from pathlib import Path

#: That a map task has ended.
MAP = "map-"
#: That a reduce task has read its input, with the process of its executor at the end.
REDUCE = "reduce-"
#: That the process was killed. It is no task's; reduce tasks wait for it.
KILLED = "killed"
#: For how long.
KILLED_WITHIN_S = 60.0


def map_tasks_again(folder: Path, maps: int) -> int:
    """How many of so many map tasks ran more often than once."""
    return len(list(folder.glob(f"{MAP}*"))) - maps
