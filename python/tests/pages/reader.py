"""A reader that follows a page: one folder, one shell, one Python, from the top."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .blocks import Block, agrees, commands

#: Longer than any block takes on a busy machine.
BLOCK_TIMEOUT_S = 120.0
#: Commands that go on until a reader has seen enough.
ENDLESS = ("plasmon top", "plasmon watch", "plasma_store")
SEEN_ENOUGH_S = 1.0

#: What the reader's Python does: a line is a block with its place, run as in a console.
SESSION = """
def _session():
    import json, sys, traceback
    for line in sys.stdin:
        place, first, text = json.loads(line)
        try:
            exec(compile("\\n" * (first - 1) + text, place, "exec"), globals())
            error = None
        except BaseException:
            error = traceback.format_exc()
        print("\\0" + json.dumps(error), flush=True)
_session()
"""


class Fault(AssertionError):
    """A page that does not do what it says."""


class Reader:
    """Follows one page, in a fresh folder with no store. A context manager that clears up."""

    def __init__(self) -> None:
        # Short: the path of a socket has 107 bytes.
        self.home = Path(tempfile.mkdtemp(prefix="reader-"))
        self.folder = self.home / "work"
        for part in ("work", "run", "tmp"):
            (self.home / part).mkdir(mode=0o700)
        self.environment = {
            **{name: value for name, value in os.environ.items() if "PLASMON" not in name},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_RUNTIME_DIR": str(self.home / "run"),
            "TMPDIR": str(self.home / "tmp"),
            # The modules for old programs say that they are for old programs.
            "PYTHONWARNINGS": "error,default::DeprecationWarning,default::FutureWarning",
            "COLUMNS": "100",
        }
        self._python: subprocess.Popen[str] | None = None
        self._shell: subprocess.Popen[str] | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *raised: object) -> None:
        for process in (self._python, self._shell):
            if process is not None:
                assert process.stdin is not None
                process.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(BLOCK_TIMEOUT_S)
                process.kill()
                process.wait()
                assert process.stdout is not None
                process.stdout.close()
                # What a page runs in the background, and would have ended itself.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
        self._run(["plasmon", "stop"])
        shutil.rmtree(self.home)

    def follow(self, block: Block) -> None:
        """Does what a block says; raises :class:`Fault` where it fails or prints something else."""
        if block.language != "python":
            self._shell_block(block)
        elif block.file is not None:
            (self.folder / block.file).write_text(block.text, "utf-8")
            self._program(block, [sys.executable, block.file])
        else:
            self._python_block(block)

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=BLOCK_TIMEOUT_S,
            check=False,
        )

    def _program(self, block: Block, command: list[str]) -> None:
        found = self._run(command)
        if found.returncode != 0:
            raise Fault(f"{block.place}: exit code {found.returncode}\n{found.stderr}")

    def _start(self, command: list[str], **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **options,
        )

    def _answer(self, process: subprocess.Popen[str], place: str, sent: str) -> tuple[str, str]:
        """What a process prints until the line that ends its answer, and that line."""
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(sent)
        process.stdin.flush()
        printed, end = "", time.monotonic() + BLOCK_TIMEOUT_S
        descriptor = process.stdout.fileno()
        while "\0" not in printed or not printed.endswith("\n"):
            if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
                raise Fault(f"{place}: no end after {BLOCK_TIMEOUT_S} s; printed:\n{printed}")
            part = os.read(descriptor, 1 << 16).decode(errors="replace")
            if not part:
                raise Fault(f"{place}: the process ended; printed:\n{printed}")
            printed += part
        output, _, answer = printed.rpartition("\0")
        return output, answer

    def _python_block(self, block: Block) -> None:
        if self._python is None:
            self._python = self._start(
                [sys.executable, "-u", "-c", SESSION], start_new_session=True
            )
        asked = json.dumps([block.place, block.line, block.text])
        printed, answer = self._answer(self._python, block.place, asked + "\n")
        if error := json.loads(answer):
            raise Fault(f"{block.place}:\n{printed}{error}")

    def _shell_block(self, block: Block) -> None:
        if self._shell is None:
            self._shell = self._start(["bash"], start_new_session=True)
        for command in commands(block):
            text = command.text.partition("  #")[0].strip()
            if text.startswith(ENDLESS):
                self._endless(block, text)
                continue
            # The shell reads its commands where programs would read their input.
            asked = f"{{ {command.text}\n}} </dev/null; printf '\\0%d\\n' $?\n"
            printed, answer = self._answer(self._shell, block.place, asked)
            if int(answer) != 0:
                raise Fault(f"{block.place}: {text}: exit code {answer}{printed}")
            if command.output is not None and not agrees(command.output, printed):
                raise Fault(
                    f"{block.place}: {text}: printed\n{printed}instead of\n{command.output}"
                )

    def _endless(self, block: Block, text: str) -> None:
        """Runs a command until it was seen to go on, and ends it as Ctrl-C does."""
        process = self._start(["bash", "-c", f"exec {text}"], start_new_session=True)
        try:
            code = process.wait(SEEN_ENOUGH_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(BLOCK_TIMEOUT_S)
            return
        finally:
            printed, _ = process.communicate()
        raise Fault(f"{block.place}: {text}: ended with {code}\n{printed}")
