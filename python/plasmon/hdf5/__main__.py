"""`plasmon hdf5`: what is Arrow in a file and why the rest is not, and the way in and out."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from plasmon.hdf5 import _plugin
from plasmon.hdf5._plugin import PluginError

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


def _require_h5py() -> None:
    try:
        import h5py  # noqa: F401
    except ImportError as error:
        raise PluginError("this command needs h5py: pip install h5py") from error


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="plasmon hdf5", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON (inspect)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("plugin-path", help="the folder for HDF5_PLUGIN_PATH")
    one = commands.add_parser("inspect", help="which datasets are Arrow, and why others are not")
    one.add_argument("file", type=Path)
    one.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
    one.set_defaults(run=_inspect)
    one = commands.add_parser("export", help="write a plain HDF5 file that needs nothing else")
    one.add_argument("file", type=Path)
    one.add_argument("target", type=Path)
    one.set_defaults(run=_export)
    one = commands.add_parser("import", help="write a file with Arrow data from any HDF5 file")
    one.add_argument("file", type=Path)
    one.add_argument("target", type=Path)
    one.add_argument("--backend", choices=("files", "store"), default="files")
    one.add_argument("--store", type=Path, metavar="SOCKET", help="without: this user's own")
    one.set_defaults(run=_import)
    one = commands.add_parser("doctor", help="check the connector, and a file with its data")
    one.add_argument("file", type=Path, nargs="?")
    one.set_defaults(run=_doctor)
    one = commands.add_parser("view", help="show Arrow data of others as a read-only HDF5 file")
    one.add_argument("sources", nargs="+", metavar="SOURCE", help="folder, file or store:NAME")
    one.add_argument("--out", type=Path, required=True, metavar="FILE")
    one.add_argument("--store", type=Path, metavar="SOCKET", help="without: this user's own")
    one.add_argument("--namespace", default="", help="of the names of objects")
    one.set_defaults(run=_view)
    return parser


def main() -> int:
    """Runs what the arguments name; the exit code."""
    arguments = _parser().parse_args()
    try:
        if arguments.command == "plugin-path":
            print(_plugin.plugin_path())
            return 0
        if arguments.command == "view":
            # The skeleton is written by HDF5 alone.
            os.environ.pop("HDF5_VOL_CONNECTOR", None)
            _require_h5py()
            return _view(arguments)
        _require_h5py()
        _with_connector(_settings(arguments))
        run: int = arguments.run(arguments)
        return run
    except (PluginError, OSError) as error:
        print(f"plasmon hdf5: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
