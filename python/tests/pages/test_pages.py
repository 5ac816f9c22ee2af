"""The code of README and of every guide runs as printed, from the top of its page, in one fresh
folder: Python in one session, blocks that name a file (``# sum.py``) as programs, commands in one
shell, whose output is what the page says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .blocks import RUN, Block, Command, agrees, blocks, commands
from .given import GIVEN
from .reader import Fault, Reader

ROOT = Path(__file__).parents[3]
#: Programs that a page needs and that a machine may not have.
NEEDS = {"pool.md": "etcd"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_page_works_as_printed(path: Path) -> None:
    needed = NEEDS.get(path.name)
    if needed is not None and shutil.which(needed) is None:
        pytest.skip(f"{needed} is not installed")
    run = [block for block in blocks(path) if block.reason is None]
    with Reader() as reader:
        GIVEN.get(path.name, lambda _: None)(reader.folder)
        for block in run:
            reader.follow(block)


def test_what_is_not_run_has_a_reason() -> None:
    """The pages have code, nearly all of it is run, and no fence has an unknown language."""
    found = [block for path in PAGES for block in blocks(path)]
    assert len(found) > 30
    skipped = [block for block in found if block.reason is not None]
    assert len(skipped) < len(found) / 4
    for path in PAGES:
        fences = [line[3:] for line in path.read_text("utf-8").splitlines() if line[:3] == "```"]
        assert set(fences) <= {"", *RUN}, path


def block(language: str, text: str) -> Block:
    return Block("page.md", 7, language, text, None, None)


def test_a_block_that_fails_is_found() -> None:
    """The reader itself: errors, other output and commands that fail are faults with a place."""
    with Reader() as reader:
        reader.follow(block("python", "x = 1\n"))
        reader.follow(block("python", "assert x == 1\n"))
        with pytest.raises(Fault, match=r"page.md:7:(.|\n)*line 8(.|\n)*NameError"):
            reader.follow(block("python", "\ny\n"))
        reader.follow(block("sh", "export A=1\ntest $A = 1\n"))
        with pytest.raises(Fault, match="exit code 1"):
            reader.follow(block("sh", "false\n"))
        reader.follow(block("console", "$ echo $A; pwd\n1\n.../work\n"))
        with pytest.raises(Fault, match="instead of"):
            reader.follow(block("console", "$ echo 3\n4\n"))


def test_commands_and_their_output() -> None:
    typed = block("console", "$ one \\\n  two\nprinted\n$ three\n")
    assert commands(typed) == [Command("one   two", "printed\n"), Command("three")]
    given = block("sh", "# no command\ncat > a <<'END'\nb\n\nc\nEND\n\nfour\n")
    assert commands(given) == [Command("cat > a <<'END'\nb\n\nc\nEND"), Command("four")]
    assert agrees("a ... c\n", "a b c  \n")
    assert not agrees("a\n", "a\nb\n")
