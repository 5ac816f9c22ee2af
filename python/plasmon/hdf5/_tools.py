"""The commands on files. They run in a process whose HDF5 opens files through the connector."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from plasmon import PlasmonError
from plasmon._by_reference import connection
from plasmon.hdf5 import _plugin
from plasmon.hdf5._moving import draft_name
from plasmon.hdf5._objects import NAMESPACE, ObjectPlace, is_listed
from plasmon.hdf5._plugin import PluginError, Storage

#: How many bytes of a dataset are copied at once.
_PIECE_BYTES = 64 << 20


@dataclass(frozen=True)
class Finding:
    """A report on one dataset."""

    name: str
    shape: tuple[int, ...]
    type: str
    storage: Storage

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "dataset": self.name,
            "shape": list(self.shape),
            "type": self.type,
            "storage": self._kind(),
            "file": str(self.storage.file) if self.storage.file else None,
            "object": str(self.storage.object) if self.storage.object else None,
            "plain": self.storage.plain,
            "reason": self.storage.reason or None,
        }

    def _kind(self) -> str:
        if self.storage.view:
            return "view"
        if self.storage.object:
            return "store"
        return "arrow" if self.storage.file else "native"


def inspect(path: Path) -> list[Finding]:
    """How each dataset of a file is stored."""
    with h5py.File(path, "r") as file:
        return [_finding(dataset) for dataset in _datasets(file)]


def _finding(dataset: h5py.Dataset) -> Finding:
    storage = _plugin.explain(dataset)
    return Finding(display_name(dataset.name), tuple(dataset.shape or ()), _type(dataset), storage)


def _type(dataset: h5py.Dataset) -> str:
    try:
        return str(dataset.dtype)
    except (TypeError, UnicodeDecodeError):
        return "(not a NumPy type)"


def display_name(name: str | bytes | None) -> str:
    """A name of HDF5 on one line: it may have any bytes."""
    text = os.fsencode(name or "(no name)").decode(errors="backslashreplace")
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _datasets(file: h5py.File) -> list[h5py.Dataset]:
    found: list[h5py.Dataset] = []

    def remember(_: str, thing: object) -> None:
        if isinstance(thing, h5py.Dataset):
            found.append(thing)

    file.visititems(remember)
    return found


def describe(findings: list[Finding]) -> list[str]:
    """A line for each dataset, and one that counts."""
    lines = []
    for finding in findings:
        where = f"native: {finding.storage.reason}"
        if finding.storage.view:
            where = f"view: {finding.storage.view}; HDF5 reads it only with the connector"
        elif finding.storage.is_arrow:
            reader = "" if finding.storage.plain else "; HDF5 reads it only with the connector"
            where = f"arrow: {finding.storage.where}{reader}"
        lines.append(f"{finding.name} {finding.shape} {finding.type}  {where}")
    arrow = sum(1 for finding in findings if finding.storage.is_arrow)
    lines.append(f"{arrow} of {len(findings)} datasets are Arrow")
    return lines


def export(path: Path, target: Path) -> None:
    """Writes a plain HDF5 file: every dataset in it, nothing beside it."""
    _refuse_existing(target)
    unfinished = target.with_name(draft_name())
    try:
        # With another driver than the usual one the connector leaves a new file to HDF5.
        with h5py.File(path, "r") as source, h5py.File(unfinished, "x", driver="stdio") as sink:
            for name in source:
                h5py.h5o.copy(source.id, name.encode(), sink.id, name.encode())
            _copy_attributes(source.id, sink.id)
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)


def import_file(path: Path, target: Path) -> None:
    """Writes a file whose datasets are Arrow where they can be.

    References cannot be carried over yet: a file that holds some is refused.
    """
    _refuse_existing(target)
    with h5py.File(path, "r") as source, h5py.File(target, "x") as sink:
        try:
            _copy_group(source.id, sink.id, {})
            _copy_attributes(source.id, sink.id)
        except BaseException:
            # So that objects of a store go, too.
            for name in list(sink):
                del sink[name]
            sink.close()
            target.unlink()
            raise


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise PluginError(f"{target} exists; choose another name or remove it first")


def _copy_group(source: Any, sink: Any, seen: dict[bytes, Any]) -> None:
    """Copies what is below a group. `seen` has what more than one hard link leads to."""
    for name in source:
        kind = source.links.get_info(name).type
        if kind == h5py.h5l.TYPE_SOFT:
            sink.links.create_soft(name, source.links.get_val(name))
            continue
        if kind == h5py.h5l.TYPE_EXTERNAL:
            sink.links.create_external(name, *source.links.get_val(name))
            continue
        thing = h5py.h5o.open(source, name)
        token = bytes(h5py.h5o.get_info(thing).addr.to_bytes(8, "little"))
        if token in seen:
            h5py.h5o.link(seen[token], sink, name)
            continue
        seen[token] = _copy_object(thing, sink, name, seen)


def _copy_object(thing: Any, sink: Any, name: bytes, seen: dict[bytes, Any]) -> Any:
    if isinstance(thing, h5py.h5g.GroupID):
        made = h5py.h5g.create(sink, name, gcpl=thing.get_create_plist())
        _copy_group(thing, made, seen)
    elif isinstance(thing, h5py.h5d.DatasetID):
        _refuse_references(thing.get_type(), name)
        space, creation = thing.get_space(), thing.get_create_plist()
        made = h5py.h5d.create(sink, name, thing.get_type(), space, dcpl=creation)
        _copy_values(h5py.Dataset(thing), h5py.Dataset(made))
    else:
        made = thing.copy()
        made.commit(sink, name)
    _copy_attributes(thing, made)
    return made


def _copy_values(source: h5py.Dataset, sink: h5py.Dataset) -> None:
    """Copies values in pieces of rows."""
    if source.shape is None or source.size == 0:
        return
    if source.shape == ():
        sink[()] = source[()]
        return
    row = max(source.dtype.itemsize, 1) * int(np.prod(source.shape[1:], dtype=np.int64))
    step = max(_PIECE_BYTES // max(row, 1), 1)
    for start in range(0, source.shape[0], step):
        sink[start : start + step] = source[start : start + step]


def _copy_attributes(source: Any, sink: Any) -> None:
    for at in range(h5py.h5a.get_num_attrs(source)):
        attribute = h5py.h5a.open(source, index=at)
        _refuse_references(attribute.get_type(), attribute.name)
        made = h5py.h5a.create(sink, attribute.name, attribute.get_type(), attribute.get_space())
        if attribute.get_space().get_simple_extent_type() == h5py.h5s.NULL:
            continue
        values = np.empty(attribute.shape, attribute.dtype)
        attribute.read(values)
        made.write(values)


def _refuse_references(kind: Any, name: bytes) -> None:
    if kind.detect_class(h5py.h5t.REFERENCE):
        raise PluginError(
            f"{display_name(name)} holds references, which this command cannot carry "
            "over; write the file with the connector in the first place"
        )


def doctor(path: Path | None) -> list[str]:
    """The faults of the connector, or of a file and its data; each with the remedy."""
    if path is None:
        return _check_connector()
    problems = []
    named: set[Path] = set()
    objects: set[ObjectPlace] = set()
    with h5py.File(path, "r") as file:
        for dataset in _datasets(file):
            storage = _plugin.explain(dataset)
            if not storage.is_arrow or dataset.size == 0:
                continue
            if storage.file is not None:
                named.add(storage.file)
            if storage.object is not None:
                objects.add(storage.object)
            try:
                dataset[(0,) * dataset.ndim]
            except (OSError, ValueError) as error:
                problems.append(f"{display_name(dataset.name)}: {error}")
    real = Path(os.path.realpath(path))
    folder = real.with_name(f"{real.name}.arrow")
    # Other numbers are the data of other files: those of a folder are reported by its own doctor.
    homes = {home for home in folder.glob("*/") if (home / "manifest").is_file()}
    others = {home for home in homes if not any(home in file.parents for file in named)}
    for file in sorted(folder.rglob("*.arrow")):
        if others.intersection(file.parents):
            continue
        if file.is_file() and not file.is_symlink() and file not in named:
            problems.append(
                f"{file}: no dataset of {path} names this file; other files may, and copies of "
                "this one"
            )
    return problems + _leftovers(objects)


def _leftovers(named: set[ObjectPlace]) -> list[str]:
    """Objects that are called like those of a file, and that it does not name."""
    problems = []
    known = {(place.socket, place.name) for place in named}
    for socket, prefix in {(place.socket, place.name.split("/", 1)[0]) for place in named}:
        if not is_listed(socket):
            continue  # every dataset says so
        try:
            found = connection(socket).list(NAMESPACE, f"{prefix}/")
        except PlasmonError:
            continue  # every dataset says so
        for info in found:
            name = str(info.name)
            if (socket, name.removesuffix("@")) not in known:
                problems.append(
                    f"hdf5:{name} in the store {socket}: no dataset of this file names this "
                    "object; other files may, and copies of this one"
                )
    return problems


def _check_connector() -> list[str]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probe.h5"
        with h5py.File(path, "w") as file:
            dataset = file.create_dataset("x", data=np.arange(8.0))
            storage = _plugin.explain(dataset)
        if not storage.is_arrow:
            return [f"a column of numbers stays with HDF5: {storage.reason}"]
    return []
