"""Data of the layout before numbers: files that a skeleton names, and no manifest lists.

Such a name is all that ties a file to its data: `x.h5.arrow/g/x.arrow`, seen from the file's
folder, even after the file was renamed. So data that a file names is its own as long as no other
file in that folder names it, and as long as it lies in a folder of data.
"""

from __future__ import annotations

import itertools
import os
import secrets
import string
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from plasmon.hdf5 import _identity
from plasmon.hdf5._objects import ObjectPlace
from plasmon.hdf5._plugin import PluginError

_NEEDS = b" (needs the plasmon connector)"
_ENDING = ".arrow"
#: Files that show data of others have this attribute, and name data that is not theirs.
_VIEW = "plasmon.view"
_TRIES = 1000


def files_of(file: Any, names: Iterable[bytes]) -> tuple[str, ...]:
    """The files without a number among the names that an open h5py.File has for its data."""
    if _VIEW in file.attrs:
        return ()
    found = {os.fsdecode(name.removesuffix(_NEEDS)) for name in names}
    return tuple(sorted(name for name in found if _is_of_before(name)))


def _is_of_before(name: str) -> bool:
    first, *rest = name.split("/")
    plain = all(part not in {"", ".", ".."} for part in (first, *rest))
    numbered = len(rest) > 1 and _identity._MARK.fullmatch(rest[0]) is not None
    is_data = first.endswith(_ENDING) and bool(rest) and rest[-1].endswith(_ENDING)
    return plain and is_data and not numbered


def objects_of(names: Iterable[bytes]) -> tuple[ObjectPlace, ...]:
    """The objects whose names have no number among those names."""
    places = (ObjectPlace.of_text(os.fsdecode(name.removesuffix(_NEEDS))) for name in names)
    found = {place for place in places if place is not None}
    old = [place for place in found if _identity._OBJECT.match(place.name) is None]
    return tuple(sorted(old, key=lambda place: place.name))


def there(folder: Path, names: Iterable[str]) -> list[Path]:
    """Those files; raises OSError when one is not there, or a link leads to it."""
    paths = [folder / name for name in names]
    for path in paths:
        parents = itertools.takewhile(lambda parent: parent != folder, path.parents)
        if not path.is_file() or any(one.is_symlink() for one in (path, *parents)):
            raise FileNotFoundError(
                f"{path} should have the values of a dataset, and is not there; copy or move the "
                "folder of data together with the HDF5 file"
            )
    return paths


def names_for_copy(names: Iterable[str], folder: Path) -> dict[str, str]:
    """The name of the files of a copy in a folder.

    It is as before, or in a folder of data whose name is as long: a skeleton has no room for more.
    """
    names = list(names)
    taken = {name.partition("/")[0] for name in names if (folder / name).exists()}
    folders = {first: _free(first, folder) for first in taken}
    parts = {name: name.partition("/") for name in names}
    return {name: f"{folders.get(one, one)}/{rest}" for name, (one, _, rest) in parts.items()}


def _free(taken: str, folder: Path) -> str:
    letters = string.ascii_lowercase + string.digits
    length = len(os.fsencode(taken)) - len(_ENDING)
    for _ in range(_TRIES):
        name = "".join(secrets.choice(letters) for _ in range(length)) + _ENDING
        if not (folder / name).exists():
            return name
    raise PluginError(
        f"there is no name left for the data of a copy in {folder}; copy into another folder"
    )


def move(folder: Path, names: Iterable[str], target: Path) -> None:
    """Moves the files from below a folder to below another one on the same disk."""
    moved: list[str] = []
    try:
        for name in names:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            if (target / name).exists():
                raise PluginError(f"{target / name} exists: other data has that name there")
            (folder / name).rename(target / name)
            moved.append(name)
    except BaseException:
        for name in reversed(moved):
            (target / name).rename(folder / name)
        raise
    tidy(folder, moved)


def tidy(folder: Path, names: Iterable[str]) -> None:
    """Removes the folders that those files were in and that are empty now."""
    for name in names:
        for parent in (folder / name).parents:
            if parent == folder:
                break
            try:
                parent.rmdir()
            except OSError:
                break
