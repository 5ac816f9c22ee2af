"""`plasmon hdf5 gc`: removes data that programs have left in a folder.

There are three sorts. Data whose HDF5 file was removed by name, of which the connector is not told.
Files of data that a program had begun when it was killed, and that no dataset names. Drafts, which
have a special name until they are complete. Each is removed only if it is the connector's own (a
manifest lists it, or its name is that of a draft), and if no program is at work there: a program
holds a lock on the manifest of the data that it writes, and the lock ends with the program.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import h5py

from plasmon import PlasmonError
from plasmon.hdf5 import _identity, _moving
from plasmon.hdf5._identity import Identity, Manifest
from plasmon.hdf5._objects import NAMESPACE, ObjectPlace, is_listed, listed_stores

#: A draft of a process; one whose process wrote no number is that of a manifest or a link.
_DRAFT = re.compile(r"\.plasmon-draft-(?:(\d+)-[0-9a-f]+|manifest|link-([0-9a-f]{16}))")
#: A number of data in the bytes of a file.
_NUMBER = re.compile(rb"/([0-9a-f]{16})[/ ]")
_LINK = re.compile(r"\.latest\.(\d+)")


class InUse(Exception):
    """A program writes there, or this cannot be determined."""


@contextmanager
def _alone(path: Path, *, provably: bool) -> Iterator[None]:
    """Keeps programs away from data while this lasts. Raises InUse when one is at work.

    Where the file system has no locks, `provably` decides whether that counts as such.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(path, flags)
    except OSError as error:
        raise InUse(str(error)) from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse("a program writes there") from None
        except OSError as error:
            if provably:
                raise InUse(f"the file system has no locks ({error.strerror})") from error
        yield
    finally:
        os.close(file)


def _is_dead(process: str | None) -> bool:
    """Whether a process has ended. One without a number is known by its lock alone."""
    if process is None:
        return True
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return False


@dataclass(frozen=True)
class Leftover:
    """Data that no file in its folder belongs to."""

    home: Path
    manifest: Manifest
    bytes: int
    #: Its objects in stores.
    objects: tuple[ObjectPlace, ...] = ()

    def __str__(self) -> str:
        owner = self.manifest.owner or "a file that was replaced"
        objects = f" and {len(self.objects)} objects in a store" if self.objects else ""
        return f"{self.home}: {self.bytes} bytes{objects}, written for {owner}"


@dataclass(frozen=True)
class Stray:
    """Files of data that no dataset of their file names: their writer was killed."""

    skeleton: Path
    home: Path
    files: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.home}: {', '.join(self.files)}, which no dataset of {self.skeleton} names"


@dataclass
class Leftovers:
    """Files to remove, and those that have to stay with the reason."""

    data: list[Leftover] = field(default_factory=list)
    strays: list[Stray] = field(default_factory=list)
    drafts: list[Path] = field(default_factory=list)
    stays: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.data or self.strays or self.drafts)

    def lines(self) -> list[str]:
        """A description of each."""
        drafts = [f"{path}: a draft of a program that has ended" for path in self.drafts]
        return [*map(str, self.data), *map(str, self.strays), *drafts]


def find(folder: Path) -> Leftovers:
    """The files in a folder that none of its HDF5 files needs."""
    found = Leftovers()
    known = _moving._skeletons(folder)
    silent = [path for path, data in known.items() if data == "?"]
    named = {path: _numbers(path) for path in silent}
    for home in sorted(filter(_is_home, folder.glob("*.arrow/*"))):
        try:
            for path in silent:
                _refuse_needed(home, path, named[path])
            _look_at(home, known, found)
        except (InUse, OSError) as error:
            found.stays.append(f"{home} stays: {error}")
    for path in [*folder.glob(".plasmon-draft-*"), *folder.glob("*.arrow/.*")]:
        if not path.parent.is_symlink() and _is_leftover_draft(path):
            found.drafts.append(path)
    return found


def _numbers(path: Path) -> set[str]:
    """The numbers that are in the bytes of a file which cannot be opened.

    A program writes the number of its data into its file before it makes any.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return {number.decode() for number in _NUMBER.findall(content)}


def _refuse_needed(home: Path, path: Path, named: set[str]) -> None:
    """Raises InUse when a file that cannot be opened may need some data.

    It names it, or what it was before it was damaged may have: it is the owner, or has its name.
    """
    manifest = _identity.read(home) if (home / "manifest").exists() else None
    owns = manifest is not None and manifest.inode == path.stat().st_ino
    if owns or home.name in named or home.parent.name == f"{path.name}.arrow":
        raise InUse(
            f"{path.name} cannot be opened and may need it; try again when no program writes into "
            "that file, or remove it if it is damaged"
        )


def _is_home(path: Path) -> bool:
    plain = path.is_dir() and not path.is_symlink() and not path.parent.is_symlink()
    return plain and _identity._MARK.fullmatch(path.name) is not None


def _look_at(home: Path, known: dict[Path, str | None], found: Leftovers) -> None:
    """The unused files in the folder of some data."""
    drafts = [path for path in sorted(home.iterdir()) if path.name.startswith(".plasmon-draft-")]
    if not (home / "manifest").exists():
        # A program was killed before the data began. What else lies there is not the connector's.
        if len(drafts) == len(list(home.iterdir())) and all(map(_is_leftover_draft, drafts)):
            found.drafts += [*drafts, home]
        return
    manifest = _identity.read(home)
    if manifest.data not in known.values():
        with _alone(home / "manifest", provably=False):
            pass
        paths = [home / name for name in manifest.files]
        size = sum(path.stat().st_size for path in paths if path.is_file())
        objects = _objects(home, manifest)
        found.data.append(Leftover(home, manifest, size, tuple(objects)))
        return
    stray = _stray(home, manifest, [path for path, data in known.items() if data == manifest.data])
    if not drafts and stray is None:
        return
    with _alone(home / "manifest", provably=True):
        found.drafts += [path for path in drafts if _is_leftover_draft(path, held=True)]
    if stray is not None:
        found.strays.append(stray)


def _is_leftover_draft(path: Path, *, held: bool = False) -> bool:
    """Whether a draft is the connector's, or a command's, and its process has ended.

    With `held` the manifest beside it says already that no program is at work.
    """
    link = _LINK.fullmatch(path.name)
    if link is not None:
        return path.is_symlink() and _is_dead(link[1])
    draft = _DRAFT.fullmatch(path.name)
    if draft is None:
        return False
    if draft[2] is not None:
        # A link of the connector leads to the number in its name.
        return path.is_symlink() and os.readlink(path) == draft[2]
    if not stat.S_ISREG(path.lstat().st_mode) or not _is_dead(draft[1]):
        return False
    with suppress(InUse):
        if not held:
            with _alone(path, provably=draft[1] is None):
                pass
        return True
    return False


def _stray(home: Path, manifest: Manifest, skeletons: list[Path]) -> Stray | None:
    """The files that no dataset names of the one file that the data belongs to."""
    inodes = {path.stat().st_ino for path in skeletons}
    mine = manifest.home == (home / "manifest").stat().st_ino and inodes == {manifest.inode}
    if not mine or not manifest.files:
        # A copy may name what its original does not any more.
        return None
    with h5py.File(skeletons[0], "r") as file:
        unnamed = _unnamed(file, home, manifest)
    return Stray(skeletons[0], home, tuple(unnamed)) if unnamed else None


def _unnamed(file: h5py.File, home: Path, manifest: Manifest) -> list[str]:
    named = (os.fsdecode(name.removesuffix(_moving._NEEDS)) for name in _moving._markers(file))
    within = {"/".join(Path(name).parts[2:]) for name in named}
    return [name for name in manifest.files if name not in within and (home / name).is_file()]


def _objects(home: Path, manifest: Manifest) -> list[ObjectPlace]:
    """The objects of some data in stores. Raises InUse when they cannot be had.

    Those of a copied folder are the original's.
    """
    if manifest.objects != (home / "manifest").stat().st_ino:
        return []
    found = []
    for socket in sorted(manifest.stores or listed_stores()):
        if not os.path.exists(socket):
            # Objects go with their store.
            continue
        how = (
            f"plasmon hdf5 gc removes them when PLASMON_SOCKET={socket} says that it may; by hand: "
            f"plasmon -s {socket} rm --namespace {NAMESPACE} '*-{manifest.data}/*', and then "
            f"{home} can be removed"
        )
        if not is_listed(socket):
            raise InUse(f"its objects are in the store {socket}, which only this data names. {how}")
        try:
            found += _objects_in(socket, manifest.data)
        except PlasmonError as error:
            raise InUse(f"its objects are in the store {socket}: {error}. {how}") from error
    return found


def _objects_in(socket: str, data: str) -> list[ObjectPlace]:
    from plasmon._by_reference import connection

    names = (str(info.name) for info in connection(socket).list(NAMESPACE))
    mine = {name.removesuffix("@") for name in names if f"-{data}/" in name}
    return [ObjectPlace(name, socket) for name in sorted(mine)]


def collect(found: Leftovers) -> list[str]:
    """Removes what was found; returns what had to stay."""
    stays = []
    for leftover in found.data:
        try:
            with _alone(leftover.home / "manifest", provably=False):
                for place in leftover.objects:
                    place.delete()
                for draft in leftover.home.glob(".plasmon-draft-*"):
                    if _is_leftover_draft(draft, held=True):
                        draft.unlink()
                _moving._remove_data(leftover.home, leftover.manifest)
        except (InUse, OSError, PlasmonError) as error:
            stays.append(f"{leftover.home} stays: {error}")
    for stray in found.strays:
        try:
            with _alone(stray.home / "manifest", provably=True):
                _remove_strays(stray)
        except (InUse, OSError) as error:
            stays.append(f"{stray.home}: {', '.join(stray.files)} stays: {error}")
    for path in found.drafts:
        if path.is_dir() and not path.is_symlink():
            _moving._tidy(path)
            _moving._tidy_home(path)
        else:
            path.unlink(missing_ok=True)
            if path.parent.suffix == ".arrow":
                _moving._tidy(path.parent)
    return stays


def _remove_strays(stray: Stray) -> None:
    """Removes files of data, whose names other data may get then.

    So the data gets another generation before, in the connector's order: a copy of the file from
    before must not take other data for what it knows.
    """
    with h5py.File(stray.skeleton, "r+") as file:
        identity, manifest = _identity.identity_of(file), _identity.read(stray.home)
        if identity is None or identity.data != manifest.data:
            return
        if identity.generation not in {manifest.generation, manifest.following}:
            return
        files = [one for one in _unnamed(file, stray.home, manifest) if one in stray.files]
        generation = _identity.new_mark()
        _identity.add(stray.home, [f"next {generation}"])
        _identity.say(file, Identity(identity.folder, identity.data, generation))
    _identity.add(stray.home, [f"generation {generation}"])
    for name in files:
        _moving._remove_file(stray.home, name)
    _identity.add(stray.home, [f"gone {_identity.escaped(name)}" for name in files])
