"""The demo of the shuffle says that all is well only when it is."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from scripts.demo_spark import __main__ as demo
from scripts.demo_spark import checks, machines, picture, report, scene
from scripts.demo_spark.marks import MAP, map_tasks_again

KILL = scene.KILL.title


def good() -> scene.Account:
    """A story in which nothing went wrong, and in which ours took half of the time."""
    account = scene.Account(list(scene.JOBS))
    for job in scene.JOBS:
        again = 8 if job.kills else None
        theirs = scene.Run(10.0, [1, [2, 3]], 300_000_000, 2.5, again)
        account.note(job, scene.VANILLA, theirs)
        ours = replace(theirs, seconds=5.0, spilled_bytes=0, map_tasks_again=0 if again else None)
        account.note(job, scene.OURS, ours)
    return account


def failed(account: scene.Account) -> list[str]:
    return [check.what for check in checks.all_of(account) if not check.holds]


def test_a_good_story_passes_and_is_told():
    account = good()
    assert failed(account) == []
    text = report.as_text(account, checks.all_of(account))
    assert "300 x 300 blocks of a few bytes: 0.50 of the time" in text
    assert "3,000,000 rows of 100 bytes" in text
    assert "300 MB" in text
    assert "FAIL" not in text
    row = next(line for line in text.splitlines() if line.endswith("8"))
    assert row.split()[:3] == ["Spark's", "own", "10.0"]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"result": [1, [2, 4]]}, "both managers have the same result"),
        ({"map_tasks_again": 1}, "no map task runs again"),
        ({"map_tasks_again": None}, "no map task runs again"),
        ({"spilled_bytes": 1}, "nothing is spilled"),
    ],
)
def test_what_goes_wrong_is_found(change, what):
    account = good()
    runs = account.runs[KILL]
    runs[scene.OURS] = replace(runs[scene.OURS], **change)
    (found,) = failed(account)
    assert found.startswith(KILL)
    assert what in found
    assert f"FAIL  {found}" in report.as_text(account, checks.all_of(account))


def test_a_job_that_was_not_run_is_no_success():
    account = good()
    del account.runs[KILL][scene.OURS]
    assert failed(account) == [f"{KILL}: both managers have the same result"]
    del account.runs[KILL]
    account.left_out[KILL] = "there are no namespaces"
    assert failed(account) == []
    assert "left out: there are no namespaces" in report.as_text(account, [])


def test_a_quick_run_is_smaller_and_says_so():
    quick = scene.BLOCKS.smaller(demo.QUICK)
    assert (quick.rows, quick.more, quick.title) == (
        scene.BLOCKS.rows // demo.QUICK,
        {"count": 15},
        "15 x 15 blocks of a few bytes",
    )
    assert scene.KILL.smaller(10**9).kills


def test_the_account_is_a_document_and_a_picture(tmp_path):
    account = good()
    document = json.loads(report.as_json(account, checks.all_of(account)))
    assert document["runs"][KILL][scene.OURS]["seconds"] == 5.0
    assert all(check["holds"] for check in document["checks"])
    pytest.importorskip("matplotlib")
    picture.draw(account, tmp_path / "deep" / "demo.png")
    assert (tmp_path / "deep" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_without_the_jar_the_demo_says_what_to_do(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(scene, "JAR", tmp_path / "none.jar")
    assert demo.main([]) == 1
    assert "make demo-spark" in capsys.readouterr().err


def test_marks_tell_which_map_tasks_ran_again(tmp_path):
    for name in ("0-1", "1-2", "1-7"):
        (tmp_path / f"{MAP}{name}").touch()
    (tmp_path / "reduce-0-99").touch()
    assert map_tasks_again(tmp_path, 2) == 1


def test_where_there_can_be_no_machines_the_demo_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(machines, "DAEMON", tmp_path / "plasmond")
    account, said = good(), []
    machines.play(machines.KILL, account, tmp_path, said.append)
    assert failed(account) == []
    text = report.as_text(account, checks.all_of(account))
    assert f"{machines.KILL.title}\n  left out: {tmp_path}/plasmond is not built" in text
    assert len(said) == 2
