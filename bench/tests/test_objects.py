"""The objects' suite: what it promises, its timing, its verdicts, its tables."""

import gc
import pickle
import sys
from typing import NamedTuple

import pytest

from bench.case import FREE, Entry
from bench.environments import ROOT, WITH_OURS, MissingError
from bench.report import document, insert, pages
from bench.rivals.objects import codecs, values
from bench.rivals.objects.codecs import Way
from bench.rivals.objects.timing import timed
from bench.rivals.objects.worker import judged
from bench.run import Context, Results, Side
from bench.suites import _objects_page, objects
from bench.suites._objects_cases import OLD, OURS, PICKLE, STORE, TRIALS, trials
from bench.tests.test_report import FACTS

TARGETS = {
    "dumps_ratio_arrays_list": 5, "loads_ratio_arrays_list": 200,
    "dumps_ratio_dict_of_sets": 4, "loads_ratio_dict_of_sets": 4,
    "dumps_ratio_strings": 12, "loads_ratio_strings": 2,
    "dumps_ratio_ints": 12, "loads_ratio_ints": 1.8,
    "dumps_ratio_tiny_arrays": 15, "loads_ratio_tiny_arrays": 3.5,
    "dumps_ratio_polars": 2.5, "loads_ratio_polars": 100,
    "loads_gc_ratio_dict_of_sets": 2, "worst_ratio": 0.9,
}  # fmt: skip


def test_entries_and_figures_name_what_exists():
    sides = {side.name for side in objects.SIDES}
    for case in objects.CASES:
        labels = [entry.label for entry in case.entries]
        assert len(labels) == len(set(labels)), f"{case.name} has two entries of one name"
        assert {entry.side for entry in case.entries} <= sides
    known = {(case.name, entry.label) for case in objects.CASES for entry in case.entries}
    for figure in objects.FIGURES:
        with pytest.raises(MissingError):
            figure.compute(Results())
        ratio = figure.compute
        if isinstance(ratio, objects.Ratio):
            assert {(ratio.case, ratio.top), (ratio.case, ratio.bottom)} <= known, figure.name
    assert len({figure.name for figure in objects.FIGURES}) == len(objects.FIGURES)


def test_the_designs_targets_are_asked_for():
    limits = {figure.name: figure.target.limit for figure in objects.FIGURES if figure.target}
    assert limits.items() >= TARGETS.items()
    names = {figure.name for figure in objects.FIGURES}
    for value in values.NAMES:
        assert {f"dumps_ratio_{value}", f"loads_ratio_{value}"} <= names
    assert {"cases_right", "cases_total"} <= names


def test_a_value_of_each_name_is_measured():
    assert [value.name for value in objects.VALUES] == list(values.NAMES)


def test_values_are_alike_only_down_to_the_types():
    assert values.same({1: {"a", "b"}}, {1: {"b", "a"}})
    assert not values.same([1, 2], [1, 2.0])
    assert not values.same([True], [1])
    assert not values.same((1, 2), [1, 2])
    assert not values.same([(1,)], [[1]])
    assert not values.same({1: "a"}, {True: "a"})
    array = values.make("small_example")
    assert values.same(array, values.make("small_example"))
    assert not values.same(array, [*array[:-1], array[-1].astype("f4")])


def test_the_articles_objects_live_together():
    shelf = values.Shelf()
    shelf["task_args"]
    strings = shelf["strings"]
    assert set(shelf._values) == set(values.ARTICLE)
    assert shelf["strings"] is strings
    shelf["task_args"]
    assert set(shelf._values) == {"task_args"}


@pytest.mark.parametrize("name", ["pickle", "marshal"])
@pytest.mark.parametrize("value", ["task_args", "dict_str_float", "tuples"])
def test_a_codec_gives_back_what_went_in(name, value):
    way = codecs.named(name).way("", value)
    made = values.make(value)
    blob = way.dumps(made)
    assert way.nbytes(blob) == len(blob)
    assert values.same(made, way.loads(blob))


@pytest.mark.parametrize("way", ["out-of-band", "out-of-band, warm"])
def test_buffers_beside_a_pickle_are_aligned_and_lent(way, tmp_path):
    codec = codecs.Pickle()
    made = values.make("arrays_list")[:3]
    used = codec.way(way, "arrays_list")
    blob = used.dumps(made)
    back = used.loads(blob)
    assert values.same(made, back)
    assert all(array.ctypes.data % codecs.ALIGNMENT == 0 for array in back)
    assert not back[0].flags.owndata
    lent = codec.lend(way, blob, tmp_path / "bytes")
    assert values.same(made, used.loads(codec.take(way, lent)))


def test_an_unknown_way_is_no_measurement():
    with pytest.raises(codecs.UnsupportedError, match="sideways"):
        codecs.named("marshal").way("sideways", "ints")


def test_the_collector_is_as_it_was_asked_for():
    states = []
    answer = timed(lambda: states.append(gc.isenabled()), 2, batch=3, collector="off")
    assert states == [False] * 9
    assert gc.isenabled()
    assert [len(answer["samples"]), answer["batch"]] == [2, 3]
    assert answer["wall_ns"] > 0
    timed(lambda: states.append(gc.isenabled()), 1, warmup=0)
    assert states[-1] is True
    with pytest.raises(ValueError, match="sometimes"):
        timed(list, 1, collector="sometimes")


def test_the_pass_that_is_counted_is_a_pass():
    passes = []
    gc.callbacks.append(lambda phase, info: passes.append((phase, info["generation"])))
    try:
        timed(lambda: None, 2, collector="counted", warmup=0)
    finally:
        gc.callbacks.pop()
    assert passes.count(("start", 0)) >= 2


def test_what_was_made_is_dropped_outside_of_the_time():
    dropped = []
    timed(object, 2, batch=2, drop=lambda made: dropped.append(len(made)))
    assert dropped == [2, 2, 2]


class Trial(NamedTuple):
    make: object
    holds: object
    needs: tuple = ()


def _equal(value, back):
    return type(value) is type(back) and value == back


ECHO = Way(lambda value: [value], lambda blob: blob[0])


@pytest.mark.parametrize(
    ("trial", "way", "verdict"),
    [
        (Trial(lambda: 1, _equal), ECHO, "right"),
        (Trial(lambda: 1, _equal), Way(lambda value: [value], lambda blob: True), "wrong"),
        (Trial(lambda: 1, lambda value, back: back.missing), ECHO, "wrong"),
        (Trial(lambda: 1, _equal), Way(lambda value: 1 / 0, list), "error"),
        (Trial(lambda: 1, _equal), Way(lambda value: [value], lambda blob: blob[1]), "error"),
        (Trial(lambda: 1 / 0, _equal), ECHO, "absent"),
        (Trial(lambda: 1, _equal, ("no_such_library",)), ECHO, "absent"),
    ],
)
def test_verdicts(trial, way, verdict):
    assert judged(trial, way)["verdict"] == verdict


PROGRAM = """
import os
from bench.rivals.protocol import serve

class Fragile:
    def op_start(self, directory, capacity_bytes):
        return {"address": directory, "start_ns": 0}
    def op_trials(self):
        return {"names": ["a", "fatal", "b"]}
    def op_trial(self, name, mode):
        if name == "fatal":
            os._exit(1)
        return {"verdict": "right" if name == "a" else mode, "text": ""}

serve(Fragile())
"""


def test_a_value_that_ends_its_worker_is_an_error_and_the_rest_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.environments.rival", lambda name: sys.executable)
    context = Context((Side("one", "Python", ("-c", PROGRAM), "one"),), tmp_path, quick=True)
    context.turn = ("correct", "one wrong", "free")
    try:
        assert trials(context, Entry("one", {"op": "trial", "mode": "wrong"}, "")) == [1.0]
    finally:
        context.end()
    (told,) = context.notes[context.turn]
    assert told["verdicts"] == {"a": "right", "fatal": "error", "b": "wrong"}
    assert list(told["reasons"]) == ["fatal"]
    assert "ended with 1" in told["reasons"]["fatal"]


@pytest.fixture
def results():
    """Two values that were measured by three sides, and a table of two trials."""
    results = Results()
    spent = {PICKLE: 40.0, OURS: 10.0, STORE: 8.0, OLD: 50.0}
    for op in ("dumps", "loads"):
        for label, taken in spent.items():
            key = (f"{op}_strings", label, FREE.name)
            results.rounds[key] = [[taken], [taken * 2]]
            told = {"bytes": int(taken) * 100, "same": label != OLD, "wall_ns": taken + 1}
            results.notes[key] = [told, told]
    for label in (OURS, STORE, PICKLE):
        key = ("correct", label, FREE.name)
        wrong = "wrong" if label == STORE else "error"
        results.rounds[key] = [[1.0]]
        found = {"int": "right", "lambda": wrong}
        results.notes[key] = [{"verdicts": found}]
    results.missing["dumps_strings", "msgspec", FREE.name] = "not there"
    return results


def test_tables_show_ratios_sizes_clocks_and_verdicts(results):
    parts = _objects_page.parts(results)
    assert "| `strings` | 60.0 ns / 60.0 ns | 4.00 / 4.00 | 5.00 / 5.00 |" in parts["speed"]
    assert "0.80 / 0.80 ≠" in parts["speed"]
    assert "| `strings` | 4,000 | 1,000 | 800 |" in parts["sizes"]
    assert "60.0 ns / 41.0 ns" in parts["clocks"]
    assert "| **right** | **1** | **1** | **1** |" in parts["correctness"]
    assert "| lambda | error | **WRONG** | error |" in parts["correctness"]


def test_figures_count_verdicts(results):
    numbers = document(objects.SUITE, results, FACTS)["figures"]
    assert numbers["dumps_ratio_strings"] == pytest.approx(4)
    assert [numbers[f"cases_{name}"] for name in ("total", "right", "not_right")] == [2, 1, 1]
    assert "cases_silently_wrong" not in numbers, "one of our modes was not tried"
    assert "worst_ratio" not in numbers, "most of the ratios are missing"


def test_silent_errors_are_counted_over_all_of_our_modes(results):
    for label in TRIALS:
        key = ("correct", label, FREE.name)
        results.notes.setdefault(key, [{"verdicts": {"int": "wrong"}}])
    numbers = document(objects.SUITE, results, FACTS)["figures"]
    assert numbers["cases_silently_wrong"] == 2


def test_the_worst_size_is_that_of_the_worst_value(results):
    for value in objects.VALUES:
        for label, size in ((PICKLE, 1000), (OURS, 3360), (STORE, 100)):
            results.notes[f"dumps_{value.name}", label, FREE.name] = [{"bytes": size}]
    assert objects.Excess()(results) == pytest.approx(0.5)


def test_the_page_has_a_place_for_every_table(results):
    page = (ROOT / objects.SUITE.page).read_text()
    text = insert(page, pages(document(objects.SUITE, results, FACTS)))
    assert "| lambda | error | **WRONG** | error |" in text


def test_all_but_the_old_one_have_the_same_libraries():
    environments = {side.environment for side in objects.SIDES if side.name != OLD}
    assert environments == {f"{WITH_OURS}objects"}


def test_pickles_of_this_suite_can_be_read_elsewhere():
    made = values.Sample(1, 2.0, "x")
    assert pickle.loads(pickle.dumps(made)) == made
    reduced = pickle.loads(pickle.dumps(values.Reduced("abc")))
    assert (reduced, reduced.length) == (values.Reduced("abc"), 3)
