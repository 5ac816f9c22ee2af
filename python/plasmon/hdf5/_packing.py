"""An HDF5 file and its data as one archive that travels."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import h5py

from plasmon.hdf5 import _moving
from plasmon.hdf5._moving import Progress
from plasmon.hdf5._plugin import PluginError


def pack(source: Path, target: Path, *, progress: Progress = _moving._silent) -> list[str]:
    """Writes a file and its data as one archive that can be moved; returns what is in it."""
    target = _moving._fresh(source, target)
    of = _moving.pair(source)
    _moving._refuse_objects(source, of)
    draft = target.with_name(_moving.draft_name())
    done, total = 0, of.bytes
    try:
        with (
            h5py.File(of.skeleton, "r"),
            _moving._held(draft),
            tarfile.open(draft, "w") as archive,
        ):
            archive.add(of.skeleton, of.skeleton.name)
            if of.home is not None and of.identity is not None:
                within = f"{of.identity.folder}/{of.identity.data}"
                archive.add(of.home / _moving._MANIFEST, f"{within}/{_moving._MANIFEST}")
                for path in of.files:
                    archive.add(path, f"{within}/{path.relative_to(of.home).as_posix()}")
                    done += path.stat().st_size
                    progress("packed", done, total)
            for path, name in zip(of.files_before, of.before, strict=True):
                archive.add(path, name)
                done += path.stat().st_size
                progress("packed", done, total)
        os.link(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    return [f"{target}: {of.skeleton.name} and {of}"]


def unpack(source: Path, folder: Path, *, progress: Progress = _moving._silent) -> list[str]:
    """Writes what `pack` put into an archive into a folder; returns what was written."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(source) as archive:
        members = archive.getmembers()
        for member in members:
            _check_member(source, member)
            if (folder / member.name).exists():
                raise PluginError(f"{folder / member.name} exists; unpack into another folder")
        skeletons = [member for member in members if "/" not in member.name]
        if len(skeletons) != 1:
            raise PluginError(f"{source} is not an archive written by plasmon hdf5 pack")
        done, total = 0, sum(member.size for member in members)
        # The file comes last: until then nothing names the data.
        for member in [*(one for one in members if one not in skeletons), *skeletons]:
            _extract(archive, member, folder)
            done += member.size
            progress("unpacked", done, total)
    skeleton = folder / skeletons[0].name
    of = _moving.pair(skeleton)
    if of.home is not None:
        _moving._link(skeleton, of.home)
    return [f"{skeleton}: {of}"]


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Writes a member; a manifest is complete when it is there."""
    name = Path(member.name)
    if name.name == _moving._MANIFEST:
        draft = name.with_name(f"{_moving._DRAFT}manifest")
        archive.extract(member.replace(name=str(draft), deep=False), folder, filter="data")
        (folder / draft).rename(folder / name)
    else:
        archive.extract(member, folder, filter="data")


def _check_member(source: Path, member: Any) -> None:
    parts = member.name.split("/")
    is_data = len(parts) > 1 and parts[0].endswith(".arrow") and ".." not in parts
    if not member.isfile() or not (len(parts) == 1 or is_data):
        raise PluginError(f"{source} has {member.name!r}, which plasmon hdf5 pack does not write")
