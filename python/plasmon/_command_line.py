"""Help, errors and exit codes of the parts of the command `plasmon` that are written in Python.

They are like the others: the same form of `--help`, `plasmon: ...` on the standard error or one
JSON document with `--json`, and the exit codes of `plasmon --help`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from typing import IO, Any, NoReturn

from plasmon._errors import Disconnected, NoRoom, NotFound, NotSealed, PlasmonError, TimedOut

#: The exit codes, as `plasmon --help` lists them.
FAILED, USAGE, NO_STORE, ABSENT, FULL = 1, 2, 3, 4, 5
INTERRUPTED = 130


class _Formatter(argparse.HelpFormatter):
    """The form of help that the other commands have."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        super().add_usage(usage, actions, groups, "Usage: " if prefix is None else prefix)

    def _get_default_metavar_for_optional(self, action: argparse.Action) -> str:
        return f"<{action.dest.upper()}>"

    def _get_default_metavar_for_positional(self, action: argparse.Action) -> str:
        return f"<{action.dest.upper()}>"

    def _expand_help(self, action: argparse.Action) -> str:
        text = super()._expand_help(action)
        return text[:1].upper() + text[1:]


class Parser(argparse.ArgumentParser):
    """A parser whose help and errors look like those of the other commands."""

    def __init__(self, **options: Any) -> None:
        options = {"formatter_class": _Formatter, **options}
        super().__init__(**{**options, "add_help": False, "allow_abbrev": False})
        self._positionals.title = "Arguments"
        self._optionals.title = "Options"
        self.add_argument("-h", "--help", action="help", help="print help")

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_text(self.description)
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        return formatter.format_help()

    def error(self, message: str) -> NoReturn:
        if "--json" not in sys.argv:
            usage = self.format_usage().rstrip()
            message = f"error: {message}\n\n{usage}\n\nFor more information, try '--help'."
        tell(message, code="usage", own="")
        sys.exit(USAGE)


def tell(message: str, *, code: str, id: object = None, own: str = "plasmon: ") -> None:
    """Says on the standard error what is wrong: to a program, or to a person."""
    if "--json" in sys.argv:
        document = {"error": message, "code": code, "object": None, "id": id and str(id)}
        print(json.dumps(document), file=sys.stderr)
    else:
        print(f"{own}{message}", file=sys.stderr)


def exit_code(error: BaseException) -> int:
    """The exit code for an error, as the other commands have it."""
    about_object = isinstance(error, PlasmonError) and error.object_id is not None
    match error:
        case Disconnected():
            return NO_STORE
        case NotFound() | NotSealed():
            return ABSENT
        case TimedOut() if about_object:
            return ABSENT
        case NoRoom():
            return FULL
    return FAILED


def run(main: Callable[[], int], *expected: type[Exception], needs: str) -> int:
    """Runs a command; errors are reported as the other commands report them.

    ``expected`` are errors whose text is meant for the person at the command. ``needs`` is the
    command that installs what the command imports.
    """
    try:
        return main()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whatever read the output has enough.
        _abandon(sys.stdout)
        return 0
    except Exception as error:
        if not isinstance(error, (PlasmonError, ImportError, *expected)):
            raise
        return _failed(error, needs)


def _failed(error: Exception, needs: str) -> int:
    """Tells of an error; the exit code."""
    text = str(error)
    if isinstance(error, ImportError):
        text += f": {needs}"
    if isinstance(error, PlasmonError):
        tell(text, code=error.key, id=error.object_id)
    else:
        tell(text, code="failed")
    return exit_code(error)


def _abandon(out: IO[str]) -> None:
    """Keeps the interpreter from writing to a closed pipe at its end."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
