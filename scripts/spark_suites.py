#!/usr/bin/env python3
"""Runs Spark's own suites of tests with Spark's shuffle manager and with Plasmon's, side by side.

The suites come from Spark's test jars in Maven; the class path is asked of spark/suites/pom.xml.
Suites of SQL take their manager from a system property; those of the core have subclasses in
PlasmonSuites.scala. Needs what ``scripts/spark.sh jar`` and ``scripts/spark.sh environments`` make.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITES = ROOT / "spark" / "suites"
WORK = ROOT / "spark" / "target" / "suites"
JAR = ROOT / "spark" / "target" / "plasmon-spark.jar"
VERSION, SCALA = "3.5.7", "2.12"
PACKAGE = "org.apache.spark.shuffle.plasmon"
SUITE_TIMEOUT_S = 3600

#: The suite, and what runs it with our manager: a subclass, or itself with system properties.
KNOWN = {
    "ShuffleSuite": ("org.apache.spark.ShuffleSuite", f"{PACKAGE}.PlasmonShuffleSuite"),
    "ShuffleNettySuite": (
        "org.apache.spark.ShuffleNettySuite",
        f"{PACKAGE}.PlasmonShuffleNettySuite",
    ),
    "SortShuffleSuite": ("org.apache.spark.SortShuffleSuite", f"{PACKAGE}.PlasmonSortShuffleSuite"),
    "AdaptiveQueryExecSuite": ("org.apache.spark.sql.execution.adaptive.AdaptiveQueryExecSuite",)
    * 2,
    "CoalesceShufflePartitionsSuite": (
        "org.apache.spark.sql.execution.CoalesceShufflePartitionsSuite",
    )
    * 2,
}
OPENED = [
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio",
    "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref",
    "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar",
]  # fmt: skip


@dataclass
class Outcome:
    """What a suite counted."""

    passed: int
    failed: list[str]
    completed: bool


def class_path() -> str:
    """Everything that the suites need, in absolute paths: executors run in other folders."""
    listed = WORK / f"class-path-{VERSION}"
    if not listed.exists():
        asked = ["dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
        quiet = ["mvn", "-B", "-q", "--no-transfer-progress", "-f", str(SUITES / "pom.xml")]
        subprocess.run([*quiet, *asked, f"-Dspark.version={VERSION}"], check=True)
    return f"{WORK / 'classes'}:{JAR}:{listed.read_text().strip()}"


def compile_subclasses(path: str) -> None:
    """With the compiler that comes with pyspark, so that Scala need not be installed."""
    jars = next((ROOT / ".venvs/spark35/lib").glob("python*/site-packages/pyspark/jars"))
    (WORK / "classes").mkdir(parents=True, exist_ok=True)
    compiler = ["java", "-cp", f"{jars}/*", "scala.tools.nsc.Main", "-nowarn"]
    sources = [str(file) for file in SUITES.glob("*.scala")]
    target = str(WORK / "classes")
    subprocess.run([*compiler, "-classpath", path, "-d", target, *sources], check=True)


def run(name: str, suite: str, plasmon: bool, path: str, only: str | None) -> Outcome:
    """Runs one suite with one manager; its output goes to a log."""
    (WORK / "target" / "tmp").mkdir(parents=True, exist_ok=True)
    (WORK / "assembly" / "target" / f"scala-{SCALA}" / "jars").mkdir(parents=True, exist_ok=True)
    properties = {
        "spark.testing": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.unsafe.exceptionOnMemoryLeak": "true",
        "spark.test.home": str(WORK),
        "java.io.tmpdir": "/tmp" if plasmon else str(WORK / "target" / "tmp"),
        "derby.system.durability": "test",
        "spark.port.maxRetries": "100",
    }
    if plasmon:
        properties["spark.shuffle.manager"] = f"{PACKAGE}.PlasmonShuffleManager"
        properties["spark.shuffle.sort.io.plugin.class"] = f"{PACKAGE}.PlasmonShuffleDataIO"
    command = [
        "java", "-Xmx3g", "-Xss4m", "-ea", "-XX:+IgnoreUnrecognizedVMOptions",
        "-Djdk.reflect.useDirectMethodHandle=false",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
        *(f"-D{key}={value}" for key, value in properties.items()),
        "-cp", path, "org.scalatest.tools.Runner", "-R", str(WORK / "classes"), "-oDW",
        "-s", suite, *(["-z", only] if only else []),
    ]  # fmt: skip
    environment = os.environ | {
        "SPARK_HOME": str(WORK), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_TESTING": "1",
        "SPARK_PREPEND_CLASSES": "", "SPARK_SCALA_VERSION": SCALA,
    }  # fmt: skip
    log = WORK / f"{name}-{'plasmon' if plasmon else 'sort'}.log"
    with log.open("w") as output:
        try:
            subprocess.run(
                command, stdout=output, stderr=subprocess.STDOUT, cwd=WORK, env=environment,
                timeout=SUITE_TIMEOUT_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            output.write(f"\nstopped after {SUITE_TIMEOUT_S} s\n")
    return outcome(log.read_text(errors="replace"))


def outcome(text: str) -> Outcome:
    """Reads the report of ScalaTest's runner."""
    failed = re.findall(r"^- (.*) \*\*\* FAILED \*\*\*", text, re.MULTILINE)
    passed = re.findall(r"^- (?!.*\*\*\* FAILED)(?!.*!!! )(.*) \(\d.*\)$", text, re.MULTILINE)
    return Outcome(len(passed), failed, "Run completed in" in text)


def main() -> int:
    """Runs the suites that are named, and prints a line for each and manager."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="SUITE", help=", ".join(KNOWN))
    parser.add_argument("--only", help="tests whose names contain this")
    parser.add_argument("--ours", action="store_true", help="leave Spark's own manager out")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in KNOWN:
            parser.error(f'no suite "{name}": {", ".join(KNOWN)}')
    WORK.mkdir(parents=True, exist_ok=True)
    path = class_path()
    compile_subclasses(path)
    worse = False
    print(f"Spark {VERSION}{'suite':>24} {'manager':>9} {'passed':>7} {'failed':>7}")
    for name in arguments.names or KNOWN:
        known: dict[bool, Outcome] = {}
        for plasmon in (True,) if arguments.ours else (False, True):
            found = known[plasmon] = run(name, KNOWN[name][plasmon], plasmon, path, arguments.only)
            manager = "plasmon" if plasmon else "sort"
            end = "" if found.completed else "  not completed"
            row = f"{name:>35} {manager:>9} {found.passed:>7} {len(found.failed):>7}{end}"
            print(row, flush=True)
            for test in found.failed:
                print(f"{'':>37}- {test}")
        expected = set(known[False].failed) if False in known else set()
        worse |= bool(set(known[True].failed) - expected) or not known[True].completed
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
