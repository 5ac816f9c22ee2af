#!/usr/bin/env python3
"""Builds the fuzz targets with the stable compiler, runs them, and prints what they found.

libFuzzer needs coverage counters in the code under test. They are a pass of LLVM, which the stable
compiler can be asked for; no nightly compiler and no cargo plugin is needed. Build scripts and
macros must stay without them, which naming the target triple sees to.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUZZ = ROOT / "fuzz"

COVERAGE = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
    "-Cdebug-assertions",
]

#: One input may take this long and this much; more is a finding.
INPUT_TIMEOUT_S = 20
MEMORY_MAX_MB = 2048
#: How long beyond its time a target may take to stop.
GRACE_S = 60
#: How much of the output of a target that failed is shown.
LOG_LINES = 40

#: What targets need besides a compiler. Without it they do nothing, so they are left out.
PROGRAMS = {"door": ("etcd", "setpriv")}

#: Where there are well-formed inputs for a target.
EXAMPLES = {"objects": [ROOT / "spec" / "objects"]}


@dataclass
class Outcome:
    """What one target did."""

    target: str
    binary: Path
    executions: int
    coverage: int
    findings: list[Path]
    failed: bool
    log: str


def targets() -> list[str]:
    """The names of all targets."""
    manifest = tomllib.loads((FUZZ / "Cargo.toml").read_text())
    return [target["name"] for target in manifest["bin"]]


def host_triple() -> str:
    """The triple of this machine, as the compiler names it."""
    text = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"^host: (\S+)$", text, re.MULTILINE)
    if found is None:
        raise SystemExit("fuzz: rustc does not name its host")
    return found[1]


def build(names: list[str], profile: str) -> Path:
    """Builds the targets; the folder of the binaries."""
    triple = host_triple()
    command = ["cargo", "build", "--quiet", "--profile", profile, "--target", triple]
    for name in names:
        command += ["--bin", name]
    environment = dict(os.environ, RUSTFLAGS=" ".join(COVERAGE))
    environment.pop("CARGO_TARGET_DIR", None)
    subprocess.run(command, cwd=FUZZ, env=environment, check=True)
    return FUZZ / "target" / triple / profile


def fuzz(binary: Path, seconds: int, seed: int) -> Outcome:
    """Replays what was once found, then fuzzes for so long."""
    name = binary.name
    corpus, artifacts = FUZZ / "corpus" / name, FUZZ / "artifacts" / name
    corpus.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(artifacts, ignore_errors=True)
    artifacts.mkdir(parents=True)
    places = [FUZZ / "seeds" / name, *EXAMPLES.get(name, ())]
    kept = [path for path in places if path.is_dir()]
    command = [
        str(binary),
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-timeout={INPUT_TIMEOUT_S}",
        f"-rss_limit_mb={MEMORY_MAX_MB}",
        f"-artifact_prefix={artifacts}/",
        "-print_final_stats=1",
        str(corpus),
        *map(str, kept),
    ]
    # A target that ends does not clean up after itself.
    with tempfile.TemporaryDirectory(prefix="plasmon-fuzz-") as temporary:
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(os.environ, TMPDIR=temporary),
                timeout=seconds + GRACE_S,
                check=False,
            )
            output, failed = done.stdout, done.returncode != 0
        except subprocess.TimeoutExpired as error:
            output, failed = (error.stdout or b"") + b"\nfuzz: it did not stop in time\n", True
    log = output.decode(errors="replace")
    return Outcome(
        target=name,
        binary=binary,
        executions=last_number(r"stat::number_of_executed_units:\s*(\d+)", log)
        or last_number(r"^#(\d+)", log),
        coverage=last_number(r"\bcov: (\d+)", log),
        findings=sorted(artifacts.iterdir()),
        failed=failed,
        log=log,
    )


def last_number(pattern: str, text: str) -> int:
    """The number in the last match, 0 when there is none."""
    found = re.findall(pattern, text, re.MULTILINE)
    return int(found[-1]) if found else 0


def report(outcomes: list[Outcome]) -> bool:
    """Prints the table; whether nothing was found."""
    print(f"{'target':<12} {'executions':>12} {'coverage':>9} {'findings':>9}")
    for outcome in outcomes:
        count = len(outcome.findings) or int(outcome.failed)
        print(f"{outcome.target:<12} {outcome.executions:>12} {outcome.coverage:>9} {count:>9}")
    bad = [outcome for outcome in outcomes if outcome.failed or outcome.findings]
    for outcome in bad:
        print(f"\n{outcome.target} failed; the end of its output:")
        lines = outcome.log.splitlines()
        panic = [at for at, line in enumerate(lines) if " panicked at " in line]
        start = panic[0] if panic else max(0, len(lines) - LOG_LINES)
        print("\n".join(lines[start : start + LOG_LINES]))
        for path in outcome.findings:
            binary = outcome.binary.relative_to(ROOT)
            print(f"again: {binary} {path.relative_to(ROOT)}")
            print(f"keep it, once it is fixed, in fuzz/seeds/{outcome.target}")
    print(f"{len(outcomes) - len(bad)} passed, {len(bad)} failed")
    return not bad


def main() -> int:
    """Runs all targets, or one."""
    names = targets()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    parser.add_argument("--target", choices=names)
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--quick", action="store_true", help="built sooner, runs slower")
    arguments = parser.parse_args()
    chosen = [arguments.target] if arguments.target else names
    for name in list(chosen):
        missing = [program for program in PROGRAMS.get(name, ()) if shutil.which(program) is None]
        if missing:
            print(f"fuzz: {name} is left out: there is no {' and no '.join(missing)} here")
            chosen.remove(name)
    if not chosen:
        return 0
    binaries = build(chosen, "quick" if arguments.quick else "release")
    workers = max(1, min(len(chosen), os.cpu_count() or 1))
    seconds = max(1, arguments.seconds * workers // len(chosen))
    print(f"fuzz: {len(chosen)} targets, {seconds} s each, {workers} at a time", flush=True)
    with ThreadPoolExecutor(workers) as pool:
        run = [pool.submit(fuzz, binaries / name, seconds, arguments.seed) for name in chosen]
        outcomes = [future.result() for future in run]
    return 0 if report(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
