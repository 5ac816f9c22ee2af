"""What several artifacts are built from has one choice of features, so it is compiled once."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: What `pip install` builds with Arrow, each by a call of cargo of its own.
ARTIFACTS = ("plasmon-python", "plasmon-hdf5", "plasmon-capi", "plasmon-cli")

TREE = "cargo tree --locked -e normal,build --no-dedupe --prefix none -f {p}\t{f}".split(" ")


def features(artifact: str) -> dict[str, set[str]]:
    """The packages that an artifact is built from, each with the features chosen for it."""
    lines = subprocess.run(
        [*TREE, "-p", artifact],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    chosen: dict[str, set[str]] = {}
    for package, found in (line.split("\t") for line in lines if "\t" in line):
        chosen.setdefault(package, set()).add(found)
    return chosen


def test_packages_that_artifacts_share_have_the_same_features() -> None:
    """What differs belongs into crates/features/Cargo.toml."""
    first, *others = (features(artifact) for artifact in ARTIFACTS)
    assert any(package.startswith("arrow-array ") for package in first)
    for other in others:
        differing = {
            package: (first[package], other[package])
            for package in first.keys() & other.keys()
            if first[package] != other[package]
        }
        assert not differing
