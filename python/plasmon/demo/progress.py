"""The demo's progress: a line for each step, with the seconds since the start."""

from __future__ import annotations

import sys
import time


class Progress:
    """Lines on standard error, each at once."""

    def __init__(self) -> None:
        self.started = time.perf_counter()

    def say(self, text: str) -> None:
        """Prints a line."""
        seconds = time.perf_counter() - self.started
        print(f"[{seconds:5.1f} s] {text}", file=sys.stderr, flush=True)
