"""What the installed package brings along, and what it says of what it does not."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import plasmon
from plasmon.paths import paths

from .conftest import DEADLINE_S, child
from .pages.blocks import blocks

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
EXAMPLES = ROOT / "crates" / "capi" / "examples" / "c"


def run(*command, cwd=None, **environment):
    """What a command prints; fails with what it says when it fails."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def serves(program, folder):
    """Runs a C program that starts the store of its user, for which it has a folder of its own."""
    with plasmon.start(socket=folder / "s", capacity=64 << 20) as store:
        out = run(program, PLASMON_SOCKET=str(store.socket))
    assert out.endswith(": ok")


def test_the_readme_needs_numpy_which_the_package_brings():
    """`pip install .` alone did not bring what README's first lines import."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = {re.split(r"\W", need)[0] for need in project["dependencies"]}
    assert needs == {"numpy"}
    example = "".join(one.text for one in blocks(ROOT / "README.md") if one.language == "python")
    # Only what the package requires can be imported, as after a bare `pip install .`.
    bare = """
        import importlib.abc, sys

        class Bare(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name in {"pyarrow", "pandas", "polars", "joblib", "cloudpickle"}:
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Bare())
    """
    bare = "\n".join(line[8:] for line in bare.splitlines())
    with plasmon.start(capacity=64 << 20) as store:
        done = child(
            bare + "\n" + example + "\nassert numbers.sum() == 499999500000.0",
            PLASMON_SOCKET=str(store.socket),
        )
    assert done.returncode == 0, done.stderr


def test_ingest_without_pyarrow_says_the_command():
    """It said "No module named 'pyarrow'", and nothing of what to do."""
    for call in ("plasmon.ingest('x.parquet')", "plasmon.Store.pooled(None).__enter__()"):
        done = child(f"import sys; sys.modules['pyarrow'] = None\nimport plasmon; {call}")
        assert "pip install pyarrow" in done.stderr.splitlines()[-1]


def test_paths_are_printed_one_by_one_and_together():
    found = paths()
    assert (Path(found.include) / "plasmon.h").is_file()
    assert (Path(found.include) / "plasmon_pool.h").is_file()
    assert Path(found.daemon).is_file()
    command = [BIN / "plasmon", "paths"]
    module = [sys.executable, "-m", "plasmon.paths"]
    for key in ("include", "lib", "pkg-config", "cmake", "daemon"):
        path = getattr(found, key.replace("-", "_"))
        assert run(*command, f"--{key}") == run(*module, f"--{key}") == path
        assert Path(path).exists()
    assert json.loads(run(*command, "--json"))["lib"] == found.lib
    assert json.loads(run(*command, "--cmake", "--json")) == {"cmake": found.cmake}
    assert len(run(*command).splitlines()) == 5


def test_the_programs_are_installed_beside_the_interpreter():
    """A store of a pool looks for the pool daemon beside its own daemon."""
    for program in ("plasmon", "plasmond", "plasmon-poold"):
        assert run(BIN / program, "--version") == f"{program} {plasmon.__version__}"


def test_every_file_names_the_same_version():
    header = (Path(paths().include) / "plasmon.h").read_text()
    assert f'#define PLASMON_VERSION "{plasmon.__version__}"' in header
    assert f"Version: {plasmon.__version__}\n" in (
        Path(paths().pkg_config, "plasmon.pc").read_text()
    )
    cmake = Path(paths().cmake, "plasmon-config-version.cmake").read_text()
    assert f'set(PACKAGE_VERSION "{plasmon.__version__}")' in cmake


def test_pkg_config_builds_a_program(tmp_path):
    where = {"PKG_CONFIG_PATH": paths().pkg_config}
    flags = run("pkg-config", "--cflags", "--libs", "plasmon", **where).split()
    run("cc", EXAMPLES / "put_get.c", *flags, "-o", tmp_path / "program")
    serves(tmp_path / "program", tmp_path)
    needed = run("readelf", "-d", tmp_path / "program")
    # Without a name of its own the library's path at build time would be part of the program.
    assert re.search(r"\(NEEDED\).*\[libplasmon\.so\]", needed)
    assert run("pkg-config", "--modversion", "plasmon", **where) == plasmon.__version__


@pytest.mark.skipif(not shutil.which("cmake"), reason="cmake is not installed")
@pytest.mark.parametrize(("asked", "found"), [("0.1", True), ("0.2", False), ("1", False)])
def test_cmake_builds_a_program(tmp_path, asked, found):
    (tmp_path / "CMakeLists.txt").write_text(f"""
        cmake_minimum_required(VERSION 3.16)
        project(example C)
        find_package(plasmon {asked} REQUIRED)
        add_executable(program "{EXAMPLES / "put_get.c"}")
        target_link_libraries(program PRIVATE plasmon::plasmon)
    """)
    configure = ["cmake", "-S", tmp_path, "-B", tmp_path, f"-Dplasmon_DIR={paths().cmake}"]
    if not found:
        with pytest.raises(AssertionError, match=f'compatible with requested\\s+version "{asked}"'):
            run(*configure)
        return
    run(*configure)
    run("cmake", "--build", tmp_path)
    serves(tmp_path / "program", tmp_path)


def test_without_a_jar_spark_says_the_one_command(tmp_path):
    """It said `make spark`, whose jar only the .venv of the sources finds."""
    program = tmp_path / "bin" / "plasmon"
    program.parent.mkdir()
    shutil.copy2(BIN / "plasmon", program)
    done = subprocess.run([program, "spark", "jar"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"run `make spark PREFIX={tmp_path}`" in done.stderr
    # Where scripts/spark.sh puts it.
    jar = tmp_path / "share" / "plasmon" / "plasmon-spark.jar"
    assert '"$1/share/plasmon"' in (ROOT / "scripts" / "spark.sh").read_text()
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"")
    assert run(program, "spark", "jar") == str(jar)
