"""Sequences of operations in which programs are killed, or find the disk full.

After an accident a file has what it had before, or what the program had got to, or says why it
cannot be read. HDF5 writes its own file in several steps, so a kill can damage that, with HDF5
alone as well: then every read is an error.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from typing import Any

from operations import steps
from operations.sequences import Sequence, Side

#: How many of the operations have an accident.
FAULT_SHARE = 0.6
#: After how many accidents data that no file needs is removed.
GC_SHARE = 0.3
#: This many steps are enough for most operations to end.
STEPS = 60

State = dict[str, Any]


class FaultySequence(Sequence):
    """One sequence with accidents."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        #: After how many accidents the file could not be opened, or lacked a dataset's values.
        self.counts.update(accidents=0, damaged=0, lost=0)

    def _fault(self) -> dict[str, Any]:
        draw = self._random
        return {
            "kind": draw.choice(steps.KINDS),
            "at": draw.randint(1, draw.choice((10, 30, STEPS))),
            "orderly": draw.random() < 0.5,
        }

    def _run_writer(self, name: str, mode: str, changes: list[dict[str, Any]]) -> bool:
        """A program that writes."""
        path = self._native.folder / name
        refused = not path.exists() and (mode == "r+" or path.is_symlink())
        if refused or self._random.random() >= FAULT_SHARE:
            return super()._run_writer(name, mode, changes)
        fault = self._fault()
        self._done.append(f"  {fault} while {name} is written ({mode})")
        before = self._before(name)
        states = self._states(name, mode, changes)
        path = str(self._ours.folder / name)
        ended = self._ours.ask("with_fault", fault, "write", path, mode, changes)
        self._done.append(f"    {ended}")
        if ended["how"] == "done":
            # The data is written: this is compared as always.
            return True
        if ended["how"] != "killed" and not ended["hit"]:
            self._restore(name, before)
            self._become(name, states[0])
            return False
        self.counts["accidents"] += 1
        self._settle(name, states)
        if self._random.random() < GC_SHARE:
            self._tool("gc", name, name)
        return False

    def _states(self, name: str, mode: str, changes: list[dict[str, Any]]) -> list[State | None]:
        """What a file may have between the changes of a program; what it has at last."""
        states = [self._has(self._native, name)]
        path = str(self._native.folder / name)
        for change in [[], *([one] for one in changes)]:
            self._native.ask("write", path, mode, change)
            states.append(self._has(self._native, name))
            mode = "r+"
        return states

    @staticmethod
    def _has(side: Side, name: str) -> State | None:
        """What a file has; None when it is not there."""
        path = side.folder / name
        return dict(side.ask("file", str(path))) if path.is_file() else None

    def _become(self, name: str, state: State | None) -> None:
        """Gives the native file something else."""
        path = self._native.folder / name
        if state is None:
            # A program leaves nothing behind a link; a tool removes the link.
            gone = path.resolve() if (self._ours.folder / name).is_symlink() else path
            gone.unlink(missing_ok=True)
        elif "error" not in state:
            self._native.ask("adopt", str(path), state)

    def _settle(self, name: str, states: Iterable[State | None]) -> None:
        """Compares what a file has after an accident; native HDF5 goes on from there."""
        states, found = list(states), self._has(self._ours, name)
        if found is None:
            if None not in states:
                raise self._failure(f"{name} is gone")
            self._become(name, None)
            return
        errors = [about["error"] for about in found.values() if "error" in about]
        if isinstance(found.get("error"), str):
            self.counts["damaged"] += 1
            errors = [found["error"]]
        else:
            known = [state for state in states if state is not None and "error" not in state]
            self._check(name, found, known)
            self.counts["lost"] += len(errors)
        if not errors:
            self._become(name, found)
            return
        # What cannot be read is made again.
        for side in (self._ours, self._native):
            side.ask("write", str(side.folder / name), "w", [])

    def _check(self, name: str, found: State, states: list[State]) -> None:
        for dataset, about in found.items():
            of = [state[dataset] for state in states if dataset in state]
            if not of:
                raise self._failure(f"{name}:{dataset} is {about}, and was never written")
            for key, number in about["attributes"].items():
                if number not in [one["attributes"].get(key) for one in of]:
                    raise self._failure(f"{name}:{dataset} has {key}={number}: {of}")
            if dataset == "/" or "error" in about:
                continue
            self.counts["read"] += 1
            values = [one["values"] for one in of if one["kind"] == about["kind"]]
            if not values or len(about["values"]) not in [len(one) for one in values]:
                raise self._failure(f"{name}:{dataset} is {about}, and should be of {of}")
            for at, value in enumerate(about["values"]):
                # What was not written yet is zero.
                if value and value not in [one[at] for one in values if at < len(one)]:
                    raise self._failure(f"{name}:{dataset}[{at}] is {value}: {about} of {of}")

    def _tool(self, command: str, one: str, other: str) -> None:
        """`plasmon hdf5`; `gc` loses nothing that could be read before."""
        if command == "gc":
            before = self._readable()
            super()._tool(command, one, other)
            lost = before - self._readable()
            if lost:
                raise self._failure(f"gc lost {sorted(lost)}")
        elif self._random.random() < FAULT_SHARE:
            self._faulty_tool(command, one, other)
        else:
            super()._tool(command, one, other)

    def _readable(self) -> set[tuple[str, str]]:
        files = self._ours.ask("files", str(self._ours.folder)).items()
        return {
            (name, dataset)
            for name, content in files
            if not isinstance(content.get("error"), str)
            for dataset, about in content.items()
            if "error" not in about
        }

    def _faulty_tool(self, command: str, one: str, other: str) -> None:
        fault = self._fault()
        self._done.append(f"{fault} while plasmon hdf5 {command} {one} {other}")
        folder = self._ours.folder
        names = (one,) if command == "remove" else (one, other)
        before = [self._has(self._ours, name) for name in (one, other)]
        paths = [str(folder / name) for name in names]
        ended = self._reader.ask("with_fault", fault, "tool", command, *paths)
        self._done.append(f"    {ended}")
        self.counts["accidents"] += ended["how"] != "done"
        # What the program had open for the user is the user's to remove.
        for path in [*folder.rglob("*.tar"), *folder.rglob("*.unpacked")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if command in {"move", "pack"}:
            self._others.clear()
        if command == "remove":
            self._settle(one, [before[0], None])
            return
        if one == other:
            return
        both = [folder / name for name in names]
        if before[1] is None and all(path.is_file() for path in both) and both[0].samefile(both[1]):
            # Killed when the file had both names: the user keeps that which the data is beside.
            both[self._has(self._ours, one) == before[0]].unlink()
        native = self._native.folder
        moved = command == "move" and not os.path.lexists(folder / one)
        if moved and (native / one).is_file() and not (native / one).is_symlink():
            # Hard links of the file lead to it under its new name.
            os.replace(native / one, native / other)
        after = [self._has(self._ours, name) for name in (one, other)]
        if before[0] is not None and before[0] not in after:
            raise self._failure(f"{one} had {before[0]}, and now there is {after}")
        gone = [None] if command == "move" else []
        self._settle(one, [before[0], *gone])
        self._settle(other, [before[1], before[0]])
