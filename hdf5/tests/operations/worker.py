"""Runs commands on HDF5 files, one line of JSON after the other.

The same program runs twice: with the connector, and with HDF5 alone.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import steps

#: Large enough that data is not kept within the skeleton, and small enough for thousands.
ROWS = 64


def values(seed: int, kind: str) -> np.ndarray:
    """What a dataset is filled with."""
    made = np.random.default_rng(seed).integers(-(2**31), 2**31, ROWS)
    return made.astype(kind)


def write(path: str, mode: str, changes: list[dict[str, Any]]) -> None:
    """Opens a file and changes it."""
    with h5py.File(path, mode) as file:
        for change in changes:
            CHANGES[change["what"]](file, change)


def _make(file: h5py.File, change: dict[str, Any]) -> None:
    if change["name"] in file:
        del file[change["name"]]
    made = values(change["seed"], change["kind"])
    if change["grows"]:
        file.create_dataset(change["name"], data=made, maxshape=(None,), chunks=(16,))
    else:
        file.create_dataset(change["name"], data=made)


def _fill(file: h5py.File, change: dict[str, Any]) -> None:
    if change["name"] in file:
        dataset = file[change["name"]]
        dataset[: len(dataset) // 2] = values(change["seed"], "i4")[: len(dataset) // 2]


def _append(file: h5py.File, change: dict[str, Any]) -> None:
    dataset = file.get(change["name"])
    if dataset is not None and dataset.maxshape[0] is None:
        rows = len(dataset)
        dataset.resize(rows + 8, axis=0)
        dataset[rows:] = values(change["seed"], "i4")[:8]


def _delete(file: h5py.File, change: dict[str, Any]) -> None:
    if change["name"] in file:
        del file[change["name"]]


def _rename(file: h5py.File, change: dict[str, Any]) -> None:
    if change["name"] in file and change["to"] not in file:
        file.move(change["name"], change["to"])


def _copy(file: h5py.File, change: dict[str, Any]) -> None:
    if change["name"] in file and change["to"] not in file:
        file.copy(change["name"], change["to"])


def _attribute(file: h5py.File, change: dict[str, Any]) -> None:
    at = file.get(change["name"], file)
    at.attrs["seed"] = change["seed"]


def _comment(file: h5py.File, change: dict[str, Any]) -> None:
    # What it says is not compared: h5py gives what happens to lie in memory.
    h5py.h5o.set_comment(file.id, f"a comment {change['seed']}".encode())


CHANGES = {
    "make": _make,
    "fill": _fill,
    "append": _append,
    "delete": _delete,
    "rename": _rename,
    "copy": _copy,
    "attribute": _attribute,
    "comment": _comment,
}


def read(path: str) -> dict[str, Any]:
    """Everything that a file has: of each dataset the values, or why there are none."""
    found: dict[str, Any] = {}
    with h5py.File(path, "r") as file:
        found["/"] = {"attributes": {key: int(text) for key, text in file.attrs.items()}}

        def visit(name: str, item: Any) -> None:
            if not isinstance(item, h5py.Dataset):
                return
            about = {
                "kind": item.dtype.str,
                "grows": item.maxshape[0] is None,
                "attributes": {key: int(text) for key, text in item.attrs.items()},
            }
            try:
                about["values"] = item[...].tolist()
            except OSError as error:
                about["error"] = str(error)
            found[name] = about

        file.visititems(visit)
    return found


def file(path: str) -> dict[str, Any]:
    """What one file has, or why it cannot be opened."""
    try:
        return read(path)
    except (KeyError, OSError, RuntimeError, ValueError) as error:
        return {"error": str(error)}


def files(folder: str) -> dict[str, Any]:
    """What every file below a folder has."""
    found = {}
    for path in sorted(Path(folder).rglob("*.h5")):
        if not path.is_file():
            continue
        found[os.path.relpath(path, folder)] = file(str(path))
    return found


def tables(folder: str) -> dict[str, Any]:
    """The Arrow data of every file below a folder, as the package gives it by itself."""
    import plasmon.hdf5

    found: dict[str, Any] = {}
    for path in sorted(Path(folder).rglob("*.h5")):
        try:
            file = plasmon.hdf5.open(path)
        except OSError:
            continue
        about = found[os.path.relpath(path, folder)] = {}
        with file:
            for name in file:
                try:
                    if file[name].file is not None:
                        about[name] = file[name].array.tolist()
                except OSError as error:
                    about[name] = str(error)
    return found


def tool(command: str, *paths: str) -> None:
    """What `plasmon hdf5` does with files and their data."""
    from plasmon.hdf5 import _collecting, _moving, _packing

    places = [Path(path) for path in paths]
    if command == "gc":
        _collecting.collect(_collecting.find(places[0]))
    elif command == "pack":
        archive = places[1].with_suffix(".tar")
        _packing.pack(places[0], archive)
        folder = places[1].with_suffix(".unpacked")
        try:
            _packing.unpack(archive, folder)
            _moving.move(folder / places[0].name, places[1])
        finally:
            archive.unlink()
            shutil.rmtree(folder)
    else:
        getattr(_moving, command)(*places)


def with_fault(fault: dict[str, Any], action: str, *arguments: Any) -> dict[str, Any]:
    """Does something in a separate process that has an accident."""
    ended = steps.run(lambda: ACTIONS[action](*arguments), **fault)
    return {"how": ended.how, "steps": ended.steps, "hit": ended.hit}


def adopt(path: str, content: dict[str, Any]) -> None:
    """Writes a file that has what `read` found in another one."""
    with h5py.File(path, "w") as file:
        for name, about in content.items():
            at: Any = file
            if name != "/":
                data = np.array(about["values"], about["kind"])
                more: dict[str, Any] = {"maxshape": (None,), "chunks": (16,)}
                at = file.create_dataset(name, data=data, **(more if about["grows"] else {}))
            for key, number in about["attributes"].items():
                at.attrs[key] = number


ACTIONS = {
    "write": write,
    "file": file,
    "files": files,
    "tables": tables,
    "tool": tool,
    "with_fault": with_fault,
    "adopt": adopt,
}


def main() -> None:
    """Answers each line with one."""
    for line in sys.stdin:
        action, arguments = json.loads(line)
        try:
            answer = {"done": ACTIONS[action](*arguments)}
        except (KeyError, OSError, RuntimeError, TypeError, ValueError, steps.Unavailable) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
