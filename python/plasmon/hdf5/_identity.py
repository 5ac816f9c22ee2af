"""Whether the data that a skeleton names is still what it was written for.

The skeleton says in the comment of its root group which data is its, and in which generation; the
data says so in its manifest. See docs/formats/hdf5.md.
"""

from __future__ import annotations

import ctypes
import os
import re
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plasmon.hdf5 import _plugin

_COMMENT = re.compile(r"(?:^|\n)plasmon data (\S+)/([0-9a-f]{16}) generation ([0-9a-f]{16})$")
_MARK = re.compile(r"[0-9a-f]{16}")
_MANIFEST = "manifest"
_COMMENT_BYTES = 65_536
#: Letters that stay as they are in a line.
_PLAIN = "!\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


@dataclass(frozen=True)
class Identity:
    """Which data a skeleton belongs to."""

    #: The name of the folder that has the data's folder, when the data was made.
    folder: str
    #: The number of the data, 16 digits, and the name of its folder.
    data: str
    #: What it was when the skeleton was written last.
    generation: str


@dataclass(frozen=True)
class Manifest:
    """What is known of some data."""

    data: str
    generation: str
    #: The generation that the skeleton may say already.
    following: str | None
    #: The name that the skeleton had when it was last written.
    owner: str
    #: The inode of that skeleton; 0 when the data has no owner.
    inode: int = 0
    #: The files that were written, from the manifest's folder.
    files: tuple[str, ...] = ()


def identity_of(file: Any) -> Identity | None:
    """What an open h5py.File says; None for files without Arrow data, and for those of before."""
    import h5py

    # h5py's own function gives what lies in memory that it has freed.
    with h5py._objects.phil:
        comment = _comment(ctypes.CDLL(_plugin._libhdf5()), file)
    found = _COMMENT.search(comment)
    if found is None:
        return None
    folder, data, generation = found.groups()
    return Identity(urllib.parse.unquote(folder, errors="surrogateescape"), data, generation)


def _comment(library: ctypes.CDLL, file: Any) -> str:
    ask = library.H5Oget_comment
    ask.argtypes = [ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t]
    ask.restype = ctypes.c_ssize_t
    comment = ctypes.create_string_buffer(_COMMENT_BYTES)
    return os.fsdecode(comment.value) if ask(file.id.id, comment, _COMMENT_BYTES) > 0 else ""


def say(file: Any, identity: Identity) -> None:
    """Puts an identity on an open h5py.File, whose comment is what it said before, or nothing."""
    import h5py

    folder = urllib.parse.quote(identity.folder, safe=_PLAIN)
    line = f"plasmon data {folder}/{identity.data} generation {identity.generation}"
    with h5py._objects.phil:
        library = ctypes.CDLL(_plugin._libhdf5())
        known = _COMMENT.sub("", _comment(library, file))
        put = library.H5Oset_comment
        put.argtypes = [ctypes.c_int64, ctypes.c_char_p]
        if put(file.id.id, os.fsencode(f"{known}\n{line}" if known else line)) < 0:
            raise OSError(f"{file.filename} cannot say which data is its")


def located(skeleton: Path, identity: Identity | None, within: str) -> Path:
    """Where a file of data is that a skeleton names, which it says as a path from its folder.

    Raises OSError when that is not what the skeleton was written for.
    """
    parts = within.split("/")
    named = parts[1] if len(parts) > 2 and _MARK.fullmatch(parts[1]) else None
    if identity is None:
        if named is not None:
            raise OSError(f"{skeleton} names {within}, which was written for another file")
        return skeleton.parent / within
    if named is not None and named != identity.data:
        raise OSError(f"{skeleton} names {within}, which was written for another file")
    home, manifest = home_of(skeleton, identity)
    if identity.generation not in {manifest.generation, manifest.following}:
        raise OSError(
            f"the data that {skeleton.name} names was changed after {skeleton.name} was copied (by "
            f"{manifest.owner}), and its own values are gone; plasmon hdf5 cp makes copies that "
            "keep theirs"
        )
    return skeleton.parent / within if named is None else home.joinpath(*parts[2:])


def home_of(skeleton: Path, identity: Identity) -> tuple[Path, Manifest]:
    """The folder of a skeleton's data: where it was made, or under the skeleton's name of now.

    Raises FileNotFoundError when it is in neither.
    """
    places = [skeleton.parent / identity.folder, skeleton.with_name(f"{skeleton.name}.arrow")]
    for place in places:
        home = place / identity.data
        if (home / _MANIFEST).is_file():
            manifest = read(home)
            if manifest.data == identity.data:
                return home, manifest
    raise FileNotFoundError(
        f"the data of {skeleton} should be in {places[0] / identity.data}, which is not there; "
        "copy or move the folder of data together with the HDF5 file (plasmon hdf5 cp, mv)"
    )


def read(home: Path) -> Manifest:
    """The manifest in a folder of data. Raises OSError when it is none."""
    lines = (home / _MANIFEST).read_bytes().decode("ascii", "replace").split("\n")[:-1]
    data = generation = owner = ""
    following = None
    inode, files = 0, dict[str, None]()
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "plasmon-hdf5":
            version, _, data = rest.partition(" ")
            if version != "1":
                raise OSError(f"{home / _MANIFEST} is of version {version}, and 1 is known")
        elif kind == "generation":
            generation, following = rest, None
        elif kind == "next":
            following = rest
        elif kind == "owner":
            number, _, name = rest.split(" ", 2)
            owner = urllib.parse.unquote(name, errors="surrogateescape")
            inode = int(number)
        elif kind == "made":
            files[urllib.parse.unquote(rest, errors="surrogateescape")] = None
        elif kind == "gone":
            files.pop(urllib.parse.unquote(rest, errors="surrogateescape"), None)
    if not (_MARK.fullmatch(data) and _MARK.fullmatch(generation)):
        raise OSError(f"{home / _MANIFEST} is damaged: it does not say whose data this is")
    return Manifest(data, generation, following, owner, inode, tuple(files))
