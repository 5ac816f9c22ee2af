"""The HDF5 files and data in a folder, and which belongs to which.

Nothing here opens a file through the connector, and nothing is changed. That no file of a folder
belongs to some data does not mean that none does: a file may have been moved elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py

from plasmon.hdf5 import _identity, _moving
from plasmon.hdf5._identity import Identity, Manifest
from plasmon.hdf5._plugin import PluginError

#: Findings that are, or may be, faults: the command exits with 1.
_PROBLEMS = frozenset({"damaged", "leftover", "unknown"})


@dataclass(frozen=True)
class Finding:
    """A report on a file or on some data.

    `kind` is "file" (a file and its data), "before" (data without a number), "damaged" (it cannot
    be read), "leftover" (no file of the folder belongs to it), "unknown" (the connector did not
    write it).
    """

    kind: str
    path: Path
    text: str

    @property
    def is_problem(self) -> bool:
        """Whether it needs attention."""
        return self.kind in _PROBLEMS

    def as_json(self) -> dict[str, str]:
        """For `--json`."""
        return {"kind": self.kind, "path": str(self.path), "text": self.text}

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def look(root: Path) -> list[Finding]:
    """Visits a folder and those in it, but does not follow links to others."""
    found: list[Finding] = []
    for name, folders, _ in os.walk(root):
        folder = Path(name)
        data = [one for one in sorted(folders) if one.endswith(".arrow")]
        folders[:] = sorted(one for one in folders if one not in data)
        found += _look_at(folder, [folder / one for one in data])
    return found


def _look_at(folder: Path, data: list[Path]) -> Iterator[Finding]:
    needed: set[str] = set()
    silent: list[Path] = []
    before: set[str] = set()
    for path in _moving._skeletons(folder):
        finding, identity = _skeleton(path, before)
        if identity is not None:
            needed.add(identity.data)
        elif finding is not None and finding.kind == "damaged":
            silent.append(path)
        if finding is not None:
            yield finding
    for one in data:
        if one.is_symlink():
            continue
        for finding in _data(one, needed, before):
            text = finding.text
            if finding.kind == "leftover" and silent:
                text += f". {silent[0].name} does not say which data belongs to it: this may be"
            yield Finding(finding.kind, finding.path, text)


def _skeleton(path: Path, before: set[str]) -> tuple[Finding | None, Identity | None]:
    """The identity in an HDF5 file; `before` takes the data without a number that it names."""
    identity = None
    try:
        with h5py.File(path, "r") as file:
            identity = _identity.identity_of(file)
            named = {
                os.fsdecode(name.removesuffix(_moving._NEEDS)) for name in _moving._markers(file)
            }
        old = {name for name in named if _number(name) is None}
        before |= old
        missing = [name for name in sorted(old) if not (path.parent / name).is_file()]
        if missing:
            return Finding("damaged", path, f"it names {missing[0]}, which is not there"), identity
        if identity is None and _number(next(iter(named), "")) is not None:
            text = "it names data with a number and does not say that it is its own"
            return Finding("damaged", path, text), None
        if identity is None:
            text = f"{len(old)} files of data without a number; they get one when it is written"
            return (Finding("before", path, text) if old else None), None
        of = _moving.pair(path)
    except (OSError, PluginError) as error:
        return Finding("damaged", path, " ".join(str(error).split())), identity
    assert of.home is not None
    assert of.manifest is not None
    gone = [name for name in named - old if not (of.home / Path(*Path(name).parts[2:])).is_file()]
    if gone:
        text = f"it names {min(gone)}, which is not there"
        return Finding("damaged", path, text), identity
    stored = "" if of.manifest.objects is None else ", and objects in a store"
    text = f"data {of.home}, {len(of.files)} files, {of.bytes} bytes{stored}"
    return Finding("file", path, text), identity


def _number(name: str) -> str | None:
    """The number in the name of a file of data."""
    parts = name.split("/")
    return parts[1] if len(parts) > 2 and _identity._MARK.fullmatch(parts[1]) else None


def _data(folder: Path, needed: set[str], before: set[str]) -> Iterator[Finding]:
    """Findings in the folder of data of a file's name."""
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink() and entry.name == "latest":
            continue
        if entry.is_dir() and not entry.is_symlink() and (entry / "manifest").exists():
            yield from _home(entry, needed)
            continue
        files = [entry] if not entry.is_dir() or entry.is_symlink() else sorted(entry.rglob("*"))
        for path in files:
            within = str(path.relative_to(folder.parent))
            if within not in before and (path.is_symlink() or not path.is_dir()):
                text = "no manifest lists it and no file here names it"
                yield Finding("unknown", path, f"{text}; {_what_gc_does(path)}")


def _home(home: Path, needed: set[str]) -> Iterator[Finding]:
    """Findings in the folder of some data."""
    try:
        manifest = _identity.read(home)
    except (OSError, ValueError) as error:
        yield Finding("damaged", home, " ".join(str(error).split()))
        return
    if manifest.data not in needed:
        yield Finding("leftover", home, _leftover(home, manifest))
    listed = {home / name for name in manifest.files} | {home / "manifest"}
    for path in sorted(home.rglob("*")):
        if path not in listed and (path.is_symlink() or not path.is_dir()):
            text = f"the manifest does not list it; {_what_gc_does(path)}"
            yield Finding("unknown", path, text)


def _what_gc_does(path: Path) -> str:
    if path.name.startswith(_moving._DRAFT):
        return "it is a draft, which gc removes when its program has ended"
    return "gc leaves it where it is"


def _leftover(home: Path, manifest: Manifest) -> str:
    files = [path for name in manifest.files if (path := home / name).is_file()]
    size = sum(path.stat().st_size for path in files)
    return (
        f"no file in {home.parent.parent} belongs to this data of "
        f"{manifest.owner or 'a file that was replaced'} ({len(files)} files, {size} bytes). A "
        f"file elsewhere may: look for it first. plasmon hdf5 gc --dry-run {home.parent.parent} "
        "lists what gc would remove"
    )
