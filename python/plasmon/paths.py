"""The library, headers and build files of the package, for programs in C and C++.

    $ export PKG_CONFIG_PATH=$(plasmon paths --pkg-config)
    $ cc program.c $(pkg-config --cflags --libs plasmon)

    $ cmake -Dplasmon_DIR=$(plasmon paths --cmake) ..

``plasmon paths`` and ``python -m plasmon.paths`` are the same command.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from plasmon._command_line import FAILED, Parser, tell

#: The library in the folder of libraries.
LIBRARY = "libplasmon.so"

_ROOT = Path(__file__).resolve().parent / "_capi"


@dataclass(frozen=True)
class Paths:
    """The folders and programs, each with its whole path."""

    #: ``plasmon.h`` and ``plasmon_pool.h``.
    include: str
    #: ``libplasmon.so``.
    lib: str
    #: For ``PKG_CONFIG_PATH``.
    pkg_config: str
    #: For CMake's ``plasmon_DIR``.
    cmake: str
    #: The daemon's program, for ``PLASMON_DAEMON``; empty if there is none.
    daemon: str


def paths() -> Paths:
    """Where everything is. FileNotFoundError if the package was installed without the library."""
    from plasmon._store import _daemon

    lib = _ROOT / "lib"
    if not (lib / LIBRARY).is_file():
        text = f"there is no {lib / LIBRARY}: install the package again, with pip install ."
        raise FileNotFoundError(text)
    return Paths(
        include=str(_ROOT / "include"),
        lib=str(lib),
        pkg_config=str(lib / "pkgconfig"),
        cmake=str(lib / "cmake" / "plasmon"),
        daemon=_daemon() or "",
    )


def _parser() -> Parser:
    parser = Parser(
        prog="plasmon paths",
        description="Print where the library, the headers and the build files for C and C++ are.",
    )
    chosen = parser.add_mutually_exclusive_group()
    helps = {
        "include": "the folder of plasmon.h",
        "lib": f"the folder of {LIBRARY}",
        "pkg-config": "the folder of plasmon.pc, for PKG_CONFIG_PATH",
        "cmake": "the folder of plasmon-config.cmake, for plasmon_DIR",
        "daemon": "the daemon's executable, for PLASMON_DAEMON",
    }
    for name, text in helps.items():
        key = name.replace("-", "_")
        chosen.add_argument(f"--{name}", dest="key", action="store_const", const=key, help=text)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Prints what the arguments name, or everything."""
    given = _parser().parse_args(arguments)
    try:
        found = asdict(paths())
    except FileNotFoundError as missing:
        tell(str(missing), code="failed")
        return FAILED
    if given.key:
        found = {given.key: found[given.key]}
    if given.json:
        print(json.dumps(found))
    elif given.key:
        print(found[given.key])
    else:
        for key, path in found.items():
            print(f"{key.replace('_', '-'):<11} {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
