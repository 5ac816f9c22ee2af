"""`plasmon hdf5 view`: an HDF5 file that shows Arrow data of others, which stays where it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py

from plasmon.hdf5 import _view_sources
from plasmon.hdf5._plugin import PluginError
from plasmon.hdf5._view_sources import Column, Source

#: The attribute of the root by which the connector recognizes a view.
_VIEW = "plasmon.view"
_VERSION = "1"
_NEEDS = " (needs the plasmon connector)"
_READ_ONLY = 0o444


def make(names: list[str], out: Path, store: Path | None, namespace: str) -> list[str]:
    """Writes the skeleton; a line for each source, and one for each column that is left out."""
    if out.exists():
        raise PluginError(f"{out} exists; choose another name or remove it first")
    sources = _view_sources.find(names, store, namespace)
    unfinished = out.with_name(f".{out.name}.{os.getpid()}.part")
    lines = []
    try:
        with h5py.File(unfinished, "x") as file:
            file.attrs[_VIEW] = _VERSION
            for source in sources:
                lines += _write(file, source)
        unfinished.chmod(_READ_ONLY)
        unfinished.rename(out)
    finally:
        unfinished.unlink(missing_ok=True)
    return lines


def _write(file: h5py.File, source: Source) -> list[str]:
    path = "/".join(_link(part) for part in source.path.split("/") if part)
    if path in file:
        return [f"{path}: left out: another source has this name ({source.place})"]
    columns = source.columns
    if [column.name for column in columns] == [""]:
        _dataset(file, path, source, columns[0])
        return [f"{path}: an array, {source.place}"]
    group = file.create_group(path)
    group.attrs["plasmon.source"] = source.place
    if source.left_out:
        group.attrs["plasmon.left_out"] = source.left_out
    for column in columns:
        _dataset(group, _link(column.name), source, column)
    plain = sum(1 for column in columns if column.segments is not None)
    line = f"{path}: {len(columns)} columns, {plain} of them also without the connector"
    return [line, *(f"{path}: left out: {reason}" for reason in source.left_out)]


def _dataset(group: h5py.Group, name: str, source: Source, column: Column) -> None:
    external: list[Any] | None = None
    size = int(column.dtype.itemsize)
    for extent in column.shape:
        size *= extent
    if size and column.segments is not None:
        external = [(os.fsencode(one.file), one.offset, one.bytes) for one in column.segments]
    elif size:
        escaped = column.name.replace("%", "%25").replace(" ", "%20")
        external = [(os.fsencode(f"view:{escaped} of {source.place}{_NEEDS}"), 0, size)]
    made = group.create_dataset(name, column.shape, column.dtype, external=external)
    made.attrs["plasmon.type"] = column.type


def _link(name: str) -> str:
    """A name that HDF5 takes for one link."""
    name = name.replace("%", "%25").replace("/", "%2F").replace("\0", "%00")
    return {"": "%", ".": "%2E", "..": "%2E."}.get(name, name)
