"""``plasmon hdf5``: what is Arrow in a file and why the rest is not, and the way in and out."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from plasmon._command_line import Parser, run
from plasmon.hdf5 import _plugin
from plasmon.hdf5._plugin import PluginError

_DESCRIPTION = "What is Arrow in an HDF5 file and why the rest is not, and the way in and out"
_STORE = "the store's socket (default: this user's store)"

#: What a child with the connector has in its environment besides.
_CHILD = "PLASMON_HDF5_CHILD"


def _with_connector(settings: str) -> None:
    """Starts this command again with the connector: HDF5 reads its environment only once."""
    if os.environ.get(_CHILD):
        return
    environment = dict(os.environ)
    environment[_CHILD] = "1"
    environment["HDF5_PLUGIN_PATH"] = _plugin.plugin_path()
    environment["HDF5_VOL_CONNECTOR"] = f"{_plugin.CONNECTOR} {settings}".strip()
    environment["HDF5_EXTFILE_PREFIX"] = "${ORIGIN}"
    command = [sys.executable, "-m", "plasmon.hdf5", *sys.argv[1:]]
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)


def _settings(arguments: argparse.Namespace) -> str:
    """What the connector is to do with new data."""
    words = [f"backend={getattr(arguments, 'backend', 'files')}"]
    if getattr(arguments, "store", None):
        words.append(f"store={arguments.store.absolute()}")
    return " ".join(words)


def _plugin_path(arguments: argparse.Namespace) -> int:
    del arguments
    print(_plugin.plugin_path())
    return 0


def _inspect(arguments: argparse.Namespace) -> int:
    from plasmon.hdf5 import _tools

    findings = _tools.inspect(arguments.file)
    if arguments.json:
        print(json.dumps([finding.as_json() for finding in findings], indent=2))
    else:
        for line in _tools.describe(findings):
            print(line)
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from plasmon.hdf5 import _tools

    _tools.export(arguments.file, arguments.target)
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from plasmon.hdf5 import _tools

    _tools.import_file(arguments.file, arguments.target)
    return 0


def _view(arguments: argparse.Namespace) -> int:
    from plasmon.hdf5 import _view

    for line in _view.make(arguments.sources, arguments.out, arguments.store, arguments.namespace):
        print(line)
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from plasmon.hdf5 import _tools

    problems = _tools.doctor(arguments.file)
    for problem in problems:
        print(problem)
    if not problems:
        print("everything is in order")
    return 1 if problems else 0


def _parser() -> Parser:
    parser = Parser(prog="plasmon hdf5", description=_DESCRIPTION)
    parser.add_argument("--json", action="store_true", help="print JSON (inspect, and errors)")
    commands = parser.add_subparsers(
        dest="command", required=True, title="Commands", metavar="<COMMAND>"
    )

    def command(name: str, text: str, run: Callable[[argparse.Namespace], int]) -> Parser:
        one = commands.add_parser(name, help=text, description=text[:1].upper() + text[1:])
        one.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print errors as JSON"
        )
        one.set_defaults(run=run)
        return one

    command("plugin-path", "print the folder for HDF5_PLUGIN_PATH", _plugin_path)
    one = command("inspect", "which datasets are Arrow, and why others are not", _inspect)
    one.add_argument("file", type=Path, help="an HDF5 file")
    one = command("export", "write a plain HDF5 file that needs nothing else", _export)
    one.add_argument("file", type=Path, help="a file with Arrow data")
    one.add_argument("target", type=Path, help="the file to write")
    one = command("import", "write a file with Arrow data from any HDF5 file", _import)
    one.add_argument("file", type=Path, help="an HDF5 file")
    one.add_argument("target", type=Path, help="the file to write")
    one.add_argument(
        "--backend", choices=("files", "store"), default="files", help="where the data goes"
    )
    one.add_argument("--store", type=Path, metavar="<SOCKET>", help=_STORE)
    one = command("doctor", "check the connector, and a file with its data", _doctor)
    one.add_argument("file", type=Path, nargs="?", help="a file with Arrow data")
    one = command("view", "show Arrow data of others as a read-only HDF5 file", _view)
    one.add_argument("sources", nargs="+", metavar="<SOURCE>", help="folder, file or store:NAME")
    one.add_argument("--out", type=Path, required=True, metavar="<FILE>", help="the file to write")
    one.add_argument("--store", type=Path, metavar="<SOCKET>", help=_STORE)
    one.add_argument("--namespace", default="", help="of the names of objects")
    return parser


def _ran(arguments: argparse.Namespace) -> int:
    if arguments.command == "view":
        # The skeleton is written by HDF5 alone.
        os.environ.pop("HDF5_VOL_CONNECTOR", None)
    if arguments.command != "plugin-path":
        import h5py  # noqa: F401
    if arguments.command not in {"plugin-path", "view"}:
        _with_connector(_settings(arguments))
    run: int = arguments.run(arguments)
    return run


def main() -> int:
    """Runs what the arguments name; the exit code."""
    arguments = _parser().parse_args()
    needs = "pip install 'plasmon[hdf5]'"
    return run(lambda: _ran(arguments), PluginError, OSError, needs=needs)


if __name__ == "__main__":
    sys.exit(main())
