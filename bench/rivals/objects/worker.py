"""Measures one codec: `python -m bench.rivals.objects.worker <codec>`."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.rivals.objects import codecs, values
from bench.rivals.objects.codecs import Way
from bench.rivals.objects.timing import timed
from bench.rivals.protocol import Answer, UnsupportedError, serve

#: The table of values that the tests of our package use.
CASES = "python.tests.objects.cases"
APART_TIMEOUT_S = 120.0


class Objects:
    """One codec and the objects that it is measured with."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.codec = codecs.named(name)
        self.shelf = values.Shelf()
        self.case = ""
        self.ways: dict[str, tuple[Way, Any, bool]] = {}
        self.trials: dict[str, Way] = {}
        self.table: dict[str, Any] = {}
        self.files = itertools.count()

    def op_start(self, directory: str, capacity_bytes: int) -> Answer:
        self.directory = Path(directory)
        self.codec.start(directory, capacity_bytes)
        return {"address": directory, "start_ns": 0, "versions": self.codec.versions()}

    def op_stop(self) -> Answer:
        self.codec.stop()
        return {}

    def _prepared(self, case: str, way: str) -> tuple[Way, Any, bool]:
        """A way, the bytes that it makes of a case's object, and whether the object survives."""
        if case != self.case:
            self._clear()
            self.case = case
        if way not in self.ways:
            used = self.codec.way(way, case)
            value = self._value(case)
            try:
                blob = used.dumps(value)
                back = used.loads(blob)
            except Exception as error:
                raise UnsupportedError(f"{type(error).__name__}: {error}"[:120]) from error
            self.ways[way] = used, blob, values.same(value, back)
        return self.ways[way]

    def _value(self, case: str) -> Any:
        try:
            return self.shelf[case]
        except ImportError as missing:
            raise UnsupportedError(f"has no such object: {missing}") from missing

    def _clear(self) -> None:
        for way, blob, _ in self.ways.values():
            way.drop([blob])
        self.ways.clear()

    def _described(self, answer: Answer, case: str, way: str) -> Answer:
        used, blob, survives = self._prepared(case, way)
        return {**answer, "bytes": used.nbytes(blob), "same": survives}

    def op_dumps(self, case: str, way: str = "", **how: Any) -> Answer:
        used, _, _ = self._prepared(case, way)
        value = self.shelf[case]
        answer = timed(lambda: used.dumps(value), drop=used.drop, **how)
        return self._described(answer, case, way)

    def op_loads(self, case: str, way: str = "", **how: Any) -> Answer:
        used, blob, _ = self._prepared(case, way)
        return self._described(timed(lambda: used.loads(blob), **how), case, way)

    def op_first_dumps(self, case: str, way: str = "") -> Answer:
        """The first time ever: nothing was written before, no memory is warm."""
        used = self.codec.way(way, case)
        value = self.shelf[case]
        return timed(lambda: used.dumps(value), 1, drop=used.drop, warmup=0)

    def op_loads_apart(self, case: str, way: str = "", **how: Any) -> Answer:
        """Loads in a new process that holds nothing else."""
        _, blob, _ = self._prepared(case, way)
        path = self.directory / f"{self.case}-{next(self.files)}.bytes"
        lent = self.codec.lend(way, blob, path)
        order = {"codec": self.name, "way": way, "case": case, "lent": lent, "how": how}
        try:
            answer = _apart(order)
        finally:
            path.unlink(missing_ok=True)
        return self._described(answer, case, way)

    def op_trials(self) -> Answer:
        """The names of the table of correctness."""
        cases = importlib.import_module(CASES)
        self.table = {case.name: case for case in cases.every_case()}
        return {"names": list(self.table)}

    def op_trial(self, name: str, mode: str = "") -> Answer:
        """What becomes of one value: `right`, `wrong`, an `error`, or it cannot be made here."""
        if not self.table:
            self.op_trials()
        if name not in self.table:
            return {"verdict": "absent", "text": "no such case with these libraries"}
        if mode not in self.trials:
            self.trials[mode] = self.codec.trial(mode)
        return judged(self.table[name], self.trials[mode])


def judged(case: Any, way: Way) -> Answer:
    """Sends one value there and back."""
    if any(importlib.util.find_spec(library) is None for library in case.needs):
        return {"verdict": "absent", "text": f"needs {', '.join(case.needs)}"}
    try:
        value = case.make()
    except Exception as error:
        return {"verdict": "absent", "text": f"cannot be made: {error}"[:200]}
    try:
        blob = way.dumps(value)
        back = way.loads(blob)
        way.drop([blob])
    except Exception as error:
        return {"verdict": "error", "text": f"{type(error).__name__}: {error}"[:200]}
    try:
        holds = bool(case.holds(value, back))
    except Exception as error:
        return {"verdict": "wrong", "text": f"{type(error).__name__}: {error}"[:200]}
    return {"verdict": "right" if holds else "wrong", "text": ""}


def _apart(order: dict[str, Any]) -> Answer:
    done = subprocess.run(
        [sys.executable, "-m", "bench.rivals.objects.apart"],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        timeout=APART_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no word"])[-1])
    answer: Answer = json.loads(done.stdout)
    return answer


if __name__ == "__main__":
    serve(Objects(sys.argv[1]))
