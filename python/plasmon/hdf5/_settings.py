"""The environment of a program that uses the connector: made, and checked.

HDF5 looks for plugins in `HDF5_PLUGIN_PATH` alone once it is set, so our folder goes in front of
those that a program would have found without it: those that were set before, those of the packages
that bring filters (netCDF4, hdf5plugin), and the usual ones of HDF5.

A check makes a file with the libhdf5 in question, in a separate process and in the environment in
question: a wrong path, a wrong name, settings that do not parse and a version that does not fit
each fail there, where h5py would end with a segmentation fault at its import.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from plasmon.hdf5 import _libraries, _plugin
from plasmon.hdf5._libraries import Libraries
from plasmon.hdf5._plugin import CONNECTOR, PluginError

PLUGIN_PATH = "HDF5_PLUGIN_PATH"
VOL_CONNECTOR = "HDF5_VOL_CONNECTOR"
EXTERNAL_PREFIX = "HDF5_EXTFILE_PREFIX"

#: Where HDF5 looks when no other path is set: as the source says, and in the wheels.
_USUAL = (
    "/usr/local/hdf5/lib/plugin",
    "/usr/local/lib/hdf5/plugin",
    "/usr/local/lib/plugin",
    "/usr/lib/x86_64-linux-gnu/hdf5/plugins",
    "/usr/lib/aarch64-linux-gnu/hdf5/plugins",
)
_PROBE_TIMEOUT_S = 60
#: HDF5's output for an error that the connector reported.
_REASON = re.compile(r"in plasmon\(\): (.*)|cannot use the connector: (.*)")
#: Makes a file with one libhdf5; the last argument is the file.
_PROBE = """
import ctypes, sys
hdf5 = ctypes.CDLL(sys.argv[1])
hdf5.H5Fcreate.restype = ctypes.c_int64
hdf5.H5Fcreate.argtypes = [ctypes.c_char_p, ctypes.c_uint, ctypes.c_int64, ctypes.c_int64]
hdf5.H5Fclose.argtypes = [ctypes.c_int64]
if hdf5.H5open() < 0:
    sys.exit(2)
file = hdf5.H5Fcreate(sys.argv[2].encode(), 2, 0, 0)
sys.exit(3 if file < 0 or hdf5.H5Fclose(file) < 0 else 0)
"""


def plugin_path() -> str:
    """The folders for HDF5_PLUGIN_PATH: the connector's, then those where HDF5 finds filters."""
    return _joined(os.environ, _libraries.of_interpreter(sys.executable))


def _joined(environment: Mapping[str, str], libraries: Libraries) -> str:
    before = [one for one in environment.get(PLUGIN_PATH, "").split(":") if one]
    usual = [one for one in _USUAL if Path(one).is_dir()]
    folders = [_plugin.folder(), *before, *map(str, libraries.filters), *usual]
    return ":".join(dict.fromkeys(folders))


def of_program(
    program: str, settings: str | None, environment: Mapping[str, str]
) -> dict[str, str]:
    """The environment that a program is to run in. Raises PluginError for one that cannot work."""
    libraries = _libraries.of_program(program)
    made = dict(environment)
    made[PLUGIN_PATH] = _joined(environment, libraries)
    named = environment.get(VOL_CONNECTOR, "")
    if settings is not None:
        made[VOL_CONNECTOR] = f"{CONNECTOR} {settings}".strip()
    elif not named:
        made[VOL_CONNECTOR] = CONNECTOR
    elif not _is_ours(named):
        raise PluginError(
            f"{VOL_CONNECTOR} is {named!r}, another connector than {CONNECTOR}; unset it, or set "
            f"it to '{CONNECTOR}' and settings"
        )
    # Without it HDF5 alone, in programs without the connector, looks from the working directory.
    made.setdefault(EXTERNAL_PREFIX, "${ORIGIN}")
    found = refusals(made, libraries.libraries)
    if found:
        raise PluginError("; ".join(found))
    return made


def problems(environment: Mapping[str, str]) -> list[str]:
    """The faults in the settings of programs that are started in this environment."""
    named, path = environment.get(VOL_CONNECTOR, ""), environment.get(PLUGIN_PATH, "")
    if not named:
        return []  # programs use HDF5 without the connector
    if not _is_ours(named):
        return [
            f"{VOL_CONNECTOR} is {named!r}: programs that are started here do not use this "
            f"connector; its name is {CONNECTOR}"
        ]
    folders = [one for one in path.split(":") if one]
    if not any(_plugin.is_folder(Path(one)) for one in folders):
        where = f"is {path!r}, where the connector is not" if folders else "is not set"
        return [
            f"{PLUGIN_PATH} {where}: HDF5 does not find the connector that {VOL_CONNECTOR} names, "
            f"and h5py ends at its import; set {PLUGIN_PATH}=$(plasmon hdf5 plugin-path)"
        ]
    return refusals(environment, _libraries.of_interpreter(sys.executable).libraries)


def note(environment: Mapping[str, str]) -> str:
    """A note for the user about settings that are valid."""
    if environment.get(VOL_CONNECTOR):
        return ""
    return (
        f"{VOL_CONNECTOR} is not set here: programs use HDF5 alone, unless they are started with "
        "`plasmon hdf5 run PROGRAM`"
    )


def refusals(environment: Mapping[str, str], libraries: Iterable[Path]) -> list[str]:
    """Why copies of libhdf5 cannot use the connector in an environment; each reason once."""
    with tempfile.TemporaryDirectory() as folder:
        running = [
            (library, _probe(library, Path(folder) / f"{at}.h5", environment))
            for at, library in enumerate(libraries)
        ]
        found = [_refusal(library, probe) for library, probe in running]
    return list(dict.fromkeys(reason for reason in found if reason))


def _is_ours(named: str) -> bool:
    return re.split(r"[ ;,]", named, maxsplit=1)[0] == CONNECTOR


def _probe(library: Path, file: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _PROBE, library, file],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def _refusal(library: Path, probe: subprocess.Popen[bytes]) -> str:
    """Why a file could not be made; nothing if it could."""
    try:
        _, said = probe.communicate(timeout=_PROBE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        probe.kill()
        probe.communicate()
        return f"{library} does not make a file within {_PROBE_TIMEOUT_S} seconds"
    if probe.returncode == 0:
        return ""
    text = os.fsdecode(said)
    for one in _REASON.finditer(text):
        return str(one[1] or one[2])
    last = (re.findall(r"in \w+\(\): (.*)", text) or text.splitlines() or ["no reason"])[-1]
    return f"{library} cannot load the connector in {_plugin.folder()}: {last}"
