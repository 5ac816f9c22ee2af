"""What a page of the documentation has its reader type: its blocks of code, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

#: Languages that are run. What has another one, or none, is an output or a file to look at.
RUN = ("python", "sh", "console")
FENCE = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
#: A line, with the lines up to the end of the text that it gives a command.
SHELL_LINE = re.compile(r"^.*<<'(\w+)'.*\n(?:.*\n)*?\1\n|^.+\n", re.MULTILINE)
FILE = re.compile(r"# (?P<name>\w+\.py)\b")


@dataclass(frozen=True)
class Block:
    """A block of a page.

    ``reason`` says why it is not run: the page has it in a comment before the block, which is not
    shown. ``file`` is the name that the first line of a Python block gives: a program of its own.
    """

    page: str
    line: int
    language: str
    text: str
    reason: str | None
    file: str | None

    @property
    def place(self) -> str:
        """Where it begins, as editors open it."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A line for the shell, and what it prints if the page says so; ``...`` is any text."""

    text: str
    output: str | None = None


def blocks(path: Path) -> list[Block]:
    """The blocks of a page that are run, and those that say why they are not."""
    page = path.read_text("utf-8")
    found = []
    for match in FENCE.finditer(page):
        text = match["text"]
        file = FILE.match(text) if match["language"] == "python" else None
        line = page.count("\n", 0, match.start("text")) + 1
        name = file["name"] if file else None
        found.append(Block(path.name, line, match["language"], text, match["reason"], name))
    return [block for block in found if block.language in RUN]


def commands(block: Block) -> list[Command]:
    """The commands of a block: all lines of ``sh``, those after a prompt of ``console``."""
    text = block.text.replace("\\\n", "")
    if block.language == "sh":
        lines = [match.group() for match in SHELL_LINE.finditer(text)]
        return [Command(line.rstrip("\n")) for line in lines if not line.startswith("#")]
    lines = text.splitlines()
    found: list[Command] = []
    for line in lines:
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        elif found:
            last = found.pop()
            found.append(Command(last.text, f"{last.output or ''}{line}\n"))
    return found


def agrees(expected: str, printed: str) -> bool:
    """Whether a command printed what its page says, line by line, without spaces at the ends."""
    wanted = [re.escape(line.rstrip()).replace(r"\.\.\.", ".*") for line in expected.splitlines()]
    lines = [line.rstrip() for line in printed.splitlines()]
    return re.fullmatch("\n".join(wanted), "\n".join(lines)) is not None
