#!/usr/bin/env python3
"""Runs Spark's own suites of tests with Spark's shuffle manager and with Plasmon's, side by side.

The suites come from Spark's test jars in Maven; the class path is asked of spark/suites/pom.xml.
Suites of SQL take their manager from a system property; those of the core have subclasses in
PlasmonSuites.scala. Tests that fail with Plasmon's are those of docs/spark-suites.md and no others,
or the command ends with 1.

Needs what ``scripts/spark.sh jar`` and ``scripts/spark.sh environments`` make.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITES = ROOT / "spark" / "suites"
WORK = ROOT / "spark" / "target" / "suites"
BUILT = ROOT / "spark" / "target" / "plasmon-spark.jar"
#: A copy: a virtual machine crashes whose jar is built again while it runs.
JAR = WORK / "plasmon-spark.jar"
PACKAGE = "org.apache.spark.shuffle.plasmon"
#: The longest takes five minutes where nothing else runs.
SUITE_TIMEOUT_S = 1800

#: The suite, and what runs it with our manager: a subclass, or itself with system properties.
KNOWN = {
    "ShuffleSuite": (f"{PACKAGE}.SortManagerShuffleSuite", f"{PACKAGE}.PlasmonShuffleSuite"),
    "ShuffleNettySuite": (
        f"{PACKAGE}.SortManagerShuffleNettySuite",
        f"{PACKAGE}.PlasmonShuffleNettySuite",
    ),
    "SortShuffleSuite": ("org.apache.spark.SortShuffleSuite", f"{PACKAGE}.PlasmonSortShuffleSuite"),
    "AdaptiveQueryExecSuite": ("org.apache.spark.sql.execution.adaptive.AdaptiveQueryExecSuite",)
    * 2,
    "CoalesceShufflePartitionsSuite": (
        "org.apache.spark.sql.execution.CoalesceShufflePartitionsSuite",
    )
    * 2,
    "PairRDDFunctionsSuite": (
        "org.apache.spark.rdd.PairRDDFunctionsSuite",
        f"{PACKAGE}.PlasmonPairRDDFunctionsSuite",
    ),
    "SortingSuite": ("org.apache.spark.rdd.SortingSuite", f"{PACKAGE}.PlasmonSortingSuite"),
    "RDDSuite": ("org.apache.spark.rdd.RDDSuite", f"{PACKAGE}.PlasmonRDDSuite"),
    "DistributedSuite": ("org.apache.spark.DistributedSuite",) * 2,
    "ContextCleanerSuite": (
        "org.apache.spark.ContextCleanerSuite",
        f"{PACKAGE}.PlasmonContextCleanerSuite",
    ),
    "ExchangeSuite": ("org.apache.spark.sql.execution.ExchangeSuite",) * 2,
    "JoinSuite": ("org.apache.spark.sql.JoinSuite",) * 2,
    "DataFrameAggregateSuite": ("org.apache.spark.sql.DataFrameAggregateSuite",) * 2,
}
#: What the driver logs when Plasmon's manager has started.
JOINED = "the shuffle is in the store at"
#: The page whose tables list the tests that fail with our manager, and why.
DIFFERENCES = ROOT / "docs" / "spark-suites.md"
OPENED = [
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio",
    "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref",
    "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar",
]  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A line of Spark whose suites are run, and what they need besides."""

    version: str
    scala: str
    #: The environment of scripts/spark.sh whose pyspark holds a compiler for this Scala.
    environment: str
    #: What differs in spark/suites/pom.xml.
    properties: dict[str, str]


LINES = {
    "3.5": Line("3.5.7", "2.12", "spark35", {}),
    # The newest line whose test jars are published.
    "4.1": Line(
        "4.1.1",
        "2.13",
        "spark4",
        {
            "scalatest.version": "3.2.19",
            "scalatestplus.version": "3.2.19.0",
            "scalatestplus.mockito": "mockito-5-12",
            "scalatestplus.scalacheck": "scalacheck-1-18",
            "mockito.version": "5.12.0",
            "mockito.inline": "5.2.0",
        },
    ),
}


@dataclass
class Outcome:
    """The results of a suite's tests."""

    passed: list[str]
    failed: list[str]
    completed: bool
    #: Whether a context joined a store of ours: some suites overlook the setting.
    plasmon: bool


def class_path(line: Line) -> str:
    """Everything that the suites need, in absolute paths: executors run in other folders."""
    listed = WORK / f"class-path-{line.version}"
    if not listed.exists():
        properties = {"spark.version": line.version, "scala.binary.version": line.scala}
        asked = ["dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
        asked += [f"-D{key}={value}" for key, value in (properties | line.properties).items()]
        quiet = ["mvn", "-B", "-q", "--no-transfer-progress", "-f", str(SUITES / "pom.xml")]
        subprocess.run([*quiet, *asked], check=True)
    return f"{home(line) / 'classes'}:{JAR}:{listed.read_text().strip()}"


def home(line: Line) -> Path:
    """The folder that a line's suites take for Spark's home, and in which they run."""
    return WORK / line.version


def compile_subclasses(line: Line, path: str) -> None:
    """With the compiler that comes with pyspark, so that Scala need not be installed."""
    environment = ROOT / ".venvs" / line.environment
    jars = next(environment.glob("lib/python*/site-packages/pyspark/jars"))
    target = home(line) / "classes"
    target.mkdir(parents=True, exist_ok=True)
    compiler = ["java", "-cp", f"{jars}/*", "scala.tools.nsc.Main", "-nowarn"]
    sources = [str(file) for file in SUITES.glob("*.scala")]
    subprocess.run([*compiler, "-classpath", path, "-d", str(target), *sources], check=True)


@dataclass(frozen=True)
class Run:
    """One suite with one manager."""

    line: Line
    name: str
    plasmon: bool
    path: str
    only: tuple[str, ...] = ()
    #: Settings besides, as ``key=value``, for our manager alone.
    settings: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """ScalaTest's runner, with the properties that Spark's own build sets."""
        folder = home(self.line)
        properties = {
            "spark.testing": "1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.unsafe.exceptionOnMemoryLeak": "true",
            "spark.test.home": str(folder),
            "java.io.tmpdir": "/tmp" if self.plasmon else str(folder / "target" / "tmp"),
            "derby.system.durability": "test",
            "spark.port.maxRetries": "100",
        }
        if self.plasmon:
            properties["spark.shuffle.manager"] = f"{PACKAGE}.PlasmonShuffleManager"
            properties["spark.shuffle.sort.io.plugin.class"] = f"{PACKAGE}.PlasmonShuffleDataIO"
            properties |= dict(setting.split("=", 1) for setting in self.settings)
        only = [word for text in self.only for word in ("-z", text)]
        return [
            "java", "-Xmx3g", "-Xss4m", "-ea", "-XX:+IgnoreUnrecognizedVMOptions",
            "-Djdk.reflect.useDirectMethodHandle=false",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED),
            *(f"-D{key}={value}" for key, value in properties.items()),
            "-cp", self.path, "org.scalatest.tools.Runner", "-R", str(folder / "classes"),
            "-oDWF", "-s", KNOWN[self.name][self.plasmon], *only,
        ]  # fmt: skip

    def outcome(self) -> Outcome:
        """Runs it; its output goes to a log."""
        folder = home(self.line)
        (folder / "target" / "tmp").mkdir(parents=True, exist_ok=True)
        jars = folder / "assembly" / "target" / f"scala-{self.line.scala}" / "jars"
        jars.mkdir(parents=True, exist_ok=True)
        environment = os.environ | {
            "SPARK_HOME": str(folder), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_TESTING": "1",
            "SPARK_PREPEND_CLASSES": "", "SPARK_SCALA_VERSION": self.line.scala,
        }  # fmt: skip
        log = folder / f"{self.name}-{'plasmon' if self.plasmon else 'sort'}.log"
        with log.open("w") as output:
            try:
                subprocess.run(
                    self.command(), stdout=output, stderr=subprocess.STDOUT, cwd=folder,
                    env=environment, timeout=SUITE_TIMEOUT_S, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                output.write(f"\nstopped after {SUITE_TIMEOUT_S} s\n")
        return outcome(log.read_text(errors="replace"))


def outcome(text: str) -> Outcome:
    """Reads the report of ScalaTest's runner."""
    failed = re.findall(r"^- (.*) \*\*\* FAILED \*\*\*", text, re.MULTILINE)
    passed = re.findall(r"^- (?!.*\*\*\* FAILED)(?!.*!!! )(.*) \(\d.*\)$", text, re.MULTILINE)
    return Outcome(passed, failed, "Run completed in" in text, JOINED in text)


def written(page: str) -> dict[str, set[str]]:
    """The differences of each suite on the page: rows that begin with the suites and a test."""
    found: dict[str, set[str]] = {name: set() for name in KNOWN}
    for suites, test in re.findall(
        r"^\| (\w+Suite(?:, \w+Suite)*) \| (.*?) \|", page, re.MULTILINE
    ):
        for suite in suites.split(", "):
            found[suite].add(test)
    return found


def unwritten(ours: Outcome, theirs: Outcome | None, known: set[str]) -> list[str]:
    """The differences that the page does not name.

    A test that did not run with ours but passed with Spark's manager is one, too. Without
    ``theirs`` Spark's manager is taken to pass all.
    """
    lines = [] if ours.completed else ["the suite did not complete"]
    lines += [] if ours.plasmon else ["no test used Plasmon's manager"]
    expected = set(theirs.failed) if theirs else set()
    worse = set(ours.failed) - expected - known
    lines += [f"fails, and is not in {DIFFERENCES.name}: {test}" for test in sorted(worse)]
    missing = set(theirs.passed) - set(ours.passed) - set(ours.failed) if theirs else set()
    return lines + [f"did not run: {test}" for test in sorted(missing)]


def mended(ours: Outcome, known: set[str]) -> list[str]:
    """The differences that the page names and that are gone."""
    passed = sorted(known & set(ours.passed))
    return [f"passes, and is in {DIFFERENCES.name}: {test}" for test in passed]


def compare(line: Line, name: str, arguments: argparse.Namespace, path: str) -> bool:
    """Runs a suite with both managers and prints a row for each; whether the page is right."""
    found: dict[bool, Outcome] = {}
    for plasmon in (True,) if arguments.ours else (False, True):
        said = found[plasmon] = Run(
            line, name, plasmon, path, tuple(arguments.only), tuple(arguments.conf)
        ).outcome()
        manager = "plasmon" if plasmon else "sort"
        end = "" if said.completed else "  not completed"
        counts = f"{len(said.passed):>7} {len(said.failed):>7}{end}"
        print(f"{line.version:<8}{name:<32}{manager:>9} {counts}", flush=True)
        for test in said.failed:
            print(f"{'':>41}- {test}", flush=True)
    known = written(DIFFERENCES.read_text("utf-8"))[name]
    lines = unwritten(found[True], found.get(False), known)
    # With other settings more tests may pass than the page says.
    lines += [] if arguments.conf else mended(found[True], known)
    for text in lines:
        print(f"{line.version:<8}{name}: {text}", flush=True)
    return not lines


def main() -> int:
    """Runs the suites that are named, and prints a line for each and manager."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="SUITE", help=", ".join(KNOWN))
    parser.add_argument("--line", choices=list(LINES), help="one line of Spark; default: all")
    parser.add_argument(
        "--only", action="append", default=[], help="tests whose names contain this"
    )
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting for ours"
    )
    parser.add_argument("--ours", action="store_true", help="leave Spark's own manager out")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in KNOWN:
            parser.error(f'no suite "{name}": {", ".join(KNOWN)}')
    WORK.mkdir(parents=True, exist_ok=True)
    # Renamed into place, for the virtual machines of another run.
    part = JAR.with_suffix(f".{os.getpid()}")
    shutil.copyfile(BUILT, part)
    part.replace(JAR)
    good = True
    print(f"{'Spark':<8}{'suite':<32}{'manager':>9} {'passed':>7} {'failed':>7}", flush=True)
    for line in [LINES[arguments.line]] if arguments.line else LINES.values():
        path = class_path(line)
        compile_subclasses(line, path)
        for name in arguments.names or KNOWN:
            good &= compare(line, name, arguments, path)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
