"""``plasmon hdf5``: what is Arrow in a file and why the rest is not, and the way in and out."""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from plasmon._command_line import Parser, run
from plasmon.hdf5 import _moving_commands, _plugin, _settings
from plasmon.hdf5._plugin import PluginError

_DESCRIPTION = (
    "Shows which datasets of an HDF5 file are Arrow data and why others are not; "
    "imports and exports"
)
_STORE = "the store's socket (default: this user's store)"

#: Commands that open no file.
_WITHOUT_HDF5 = frozenset({"plugin-path", "run"})
#: HDF5's original variables, in the environment of a child with the connector.
_CHILD = "PLASMON_HDF5_CHILD"
_VARIABLES = (_settings.PLUGIN_PATH, _settings.VOL_CONNECTOR, _settings.EXTERNAL_PREFIX)


def _with_connector(settings: str) -> None:
    """Starts this command again with the connector: HDF5 reads its environment only once."""
    if os.environ.get(_CHILD):
        return
    environment = dict(os.environ)
    given = {name: environment[name] for name in _VARIABLES if name in environment}
    environment[_CHILD] = json.dumps(given)
    environment[_settings.PLUGIN_PATH] = _settings.plugin_path()
    environment[_settings.VOL_CONNECTOR] = f"{_plugin.CONNECTOR} {settings}".strip()
    environment[_settings.EXTERNAL_PREFIX] = "${ORIGIN}"
    command = [sys.executable, "-m", "plasmon.hdf5", *sys.argv[1:]]
    sys.stdout.flush()
    os.execve(sys.executable, command, environment)


def _given() -> dict[str, str]:
    """The environment that the command was called in."""
    others = {key: text for key, text in os.environ.items() if key not in (*_VARIABLES, _CHILD)}
    given: dict[str, str] = json.loads(os.environ[_CHILD])
    return others | given


def _backend(arguments: argparse.Namespace) -> str:
    """The connector's settings for new data."""
    words = [f"backend={getattr(arguments, 'backend', 'files')}"]
    if getattr(arguments, "store", None):
        words.append(f"store={arguments.store.absolute()}")
    return " ".join(words)


def _plugin_path(arguments: argparse.Namespace) -> int:
    del arguments
    print(_settings.plugin_path())
    return 0


def _run(arguments: argparse.Namespace) -> int:
    command = arguments.program[arguments.program[:1] == ["--"] :]
    if not command:
        raise PluginError("no program is named; use `plasmon hdf5 run PROGRAM ARGUMENTS`")
    program = command[0]
    environment = _settings.of_program(program, arguments.settings, os.environ)
    sys.stdout.flush()
    try:
        os.execvpe(program, command, environment)
    except OSError as error:
        raise PluginError(f"{program} cannot be started: {error.strerror}") from error


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
    if _is_folder(arguments):
        return _doctor_of_folder(arguments)
    from plasmon.hdf5 import _tools

    given = _given()
    problems = _settings.problems(given) + _tools.doctor(arguments.file)
    if arguments.json:
        print(json.dumps([{"kind": "problem", "text": problem} for problem in problems], indent=2))
        return 1 if problems else 0
    for problem in problems:
        print(problem)
    if not problems:
        print("everything is in order")
        if note := _settings.note(given):
            print(note)
    return 1 if problems else 0


def _is_folder(arguments: argparse.Namespace) -> bool:
    return arguments.command == "doctor" and arguments.file is not None and arguments.file.is_dir()


def _doctor_of_folder(arguments: argparse.Namespace) -> int:
    from plasmon.hdf5 import _folders

    found = _folders.look(arguments.file)
    if arguments.json:
        print(json.dumps([finding.as_json() for finding in found], indent=2))
    else:
        for finding in found:
            print(finding if finding.kind == "file" else f"{finding.kind}: {finding}")
        wrong = sum(finding.is_problem for finding in found)
        print(f"{wrong} problems" if wrong else "everything is in order")
    return 1 if any(finding.is_problem for finding in found) else 0


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

    command("plugin-path", "print the folders for HDF5_PLUGIN_PATH", _plugin_path)
    one = command("run", "run a program with the connector, checked before", _run)
    one.add_argument(
        "--settings", metavar="<SETTINGS>", help="the connector's settings, e.g. 'backend=store'"
    )
    one.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="<PROGRAM> ...",
        help="the program and its arguments",
    )
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
    one = command("doctor", "check the connector, its settings, and a file with its data", _doctor)
    one.add_argument("file", type=Path, nargs="?", help="a file with Arrow data, or a folder")
    _moving_commands.add(command)
    one = command("view", "show existing Arrow data as a read-only HDF5 file", _view)
    one.add_argument("sources", nargs="+", metavar="<SOURCE>", help="folder, file or store:NAME")
    one.add_argument("--out", type=Path, required=True, metavar="<FILE>", help="the file to write")
    one.add_argument("--store", type=Path, metavar="<SOCKET>", help=_STORE)
    one.add_argument("--namespace", default="", help="the namespace of the objects' names")
    return parser


def _check_h5py() -> None:
    """Raises ImportError without h5py.

    It is not imported here: the caller's environment may name a connector that is not there.
    """
    if importlib.util.find_spec("h5py") is None:
        raise ImportError("No module named 'h5py'")


def _ran(arguments: argparse.Namespace) -> int:
    by_hdf5_alone = (
        arguments.command == "view"
        or arguments.command in _moving_commands.NAMES
        or _is_folder(arguments)
    )
    if by_hdf5_alone:
        os.environ.pop("HDF5_VOL_CONNECTOR", None)
    if arguments.command in _WITHOUT_HDF5:
        alone: int = arguments.run(arguments)
        return alone
    _check_h5py()
    if not by_hdf5_alone:
        _with_connector(_backend(arguments))
    run: int = arguments.run(arguments)
    return run


def main() -> int:
    """Runs what the arguments name; the exit code."""
    arguments = _parser().parse_args()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names may have letters that the terminal's encoding lacks.
            stream.reconfigure(errors="backslashreplace")
    needs = "pip install 'plasmon[hdf5]'"
    return run(lambda: _ran(arguments), PluginError, OSError, needs=needs)


if __name__ == "__main__":
    sys.exit(main())
