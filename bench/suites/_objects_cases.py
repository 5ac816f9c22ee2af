"""The cases of the objects' benchmark: contenders, and values to serialize and read back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.case import Case, Entry, Measure, Samples, Side
from bench.environments import MissingError
from bench.run import Context, ask_fresh

OURS, PICKLE, CLOUDPICKLE, MARSHAL = "plasmon", "pickle", "cloudpickle", "marshal"
MSGSPEC, PYFORY, OLD = "msgspec", "pyfory", "pyarrow-11"
FEATHER, PARQUET = "feather", "parquet"
FLOOR = "floor"
STORE = f"{OURS} store"
WORKER = ("-m", "bench.rivals.objects.worker")
#: Every side but pyarrow 11 runs in one environment: one interpreter, the same libraries.
SIDES = (
    *(
        Side(name, "Python", (*WORKER, name), "ours+objects")
        for name in (OURS, PICKLE, CLOUDPICKLE, MARSHAL, MSGSPEC, PYFORY, FEATHER, PARQUET, FLOOR)
    ),
    Side(OLD, "Python", (*WORKER, OLD), "plasma"),
)
RIVALS = (CLOUDPICKLE, MARSHAL, MSGSPEC, PYFORY, OLD)
#: The rounds that rivals take part in; we and pickle, of which the figures are made, do in all.
RIVAL_ROUNDS = 2
SAMPLES_MAX = 100
#: The value that files of frames are measured with, too.
MIXED = "pandas_mixed"
TURN_S = 0.1
#: Puts until the store has warm memory for the next one: what is deleted is used again a put later.
STORE_WARMUP = 3
SMALL = {"batch": 500, "count": 12}


@dataclass(frozen=True)
class Value:
    """An object that is measured, and its targets."""

    name: str
    title: str
    #: How many times faster than pickle we are to be.
    dumps: float
    loads: float
    #: Made of arrays or columns: the figures are those of the store, which such values are for.
    memory: bool = False
    #: Made of many containers, which the garbage collector looks at while they are built.
    containers: bool = False
    small: bool = False
    #: Made of plain objects, so that it can be measured how fast CPython makes those.
    floor: bool = False

    @property
    def ours(self) -> str:
        """The entry that the figures are made of."""
        return STORE if self.memory else OURS


VALUES = (
    Value("arrays_list", "a list of 100 arrays of 50,000 floats", 5, 200, memory=True),
    Value("arrays_dict", "a dict of 100 arrays of 50,000 floats", 5, 200, memory=True),
    Value("dict_of_sets", "a dict of 100,000 sets of 2 strings", 4, 4, containers=True, floor=True),
    Value("strings", "a list of 200,000 strings", 12, 2, floor=True),
    Value("floats", "a list of a million floats", 5, 1.5, floor=True),
    Value("ints", "a list of a million integers of 40 bits", 12, 1.8, floor=True),
    Value("dict_str_float", "a dict of 100,000 strings to floats", 5, 2, floor=True),
    Value(
        "dataclasses",
        "a list of 100,000 dataclasses of three fields",
        *(8, 8),
        containers=True,
        floor=True,
    ),
    Value(
        "tuples",
        "a list of 100,000 tuples (int, text, float)",
        *(5, 2.5),
        containers=True,
        floor=True,
    ),
    Value("nested_arrays", "500 nested dicts of arrays and scalars", 6, 5, memory=True),
    Value("tiny_arrays", "a list of 10,000 arrays of 16 floats", 15, 3.5, memory=True),
    Value("table", "an Arrow table, a million rows of 8 columns", 2.5, 100, memory=True),
    Value("pandas", "a pandas frame, a million rows of 8 columns", 2.5, 100, memory=True),
    Value(
        "pandas_mixed",
        "a pandas frame of strings, decimals and timestamps, 100,000 rows",
        *(2, 0.9),
        memory=True,
    ),
    Value("polars", "a polars frame, a million rows of 8 columns", 2.5, 100, memory=True),
    Value("reduce_classes", "a list of 100,000 objects with `__reduce__`", 0.9, 3, containers=True),
    Value("small_example", "the article's example, five elements", 0.9, 0.9, small=True),
    Value("task_args", "arguments of a task: a tuple and a dict", 0.9, 0.9, small=True),
)

#: What the variants do, for readers of the tables.
WORK = {
    OURS: "plasmon: a context's dumps to new bytes, loads of them",
    STORE: "put into a store whose memory is warm, get out of it",
    f"{OURS} unregistered": 'the class found by its import path, context with pickle="std"',
    f"{OURS} gc counted": "and one pass of the collector over the young generation",
    f"{OURS} gc run": 'the collector left on while loading: context with gc="run"',
    PICKLE: "protocol 5, in-band",
    f"{PICKLE} gc off": "with the collector off while loading, as in timeit",
    f"{PICKLE} out-of-band": "protocol 5, buffers copied after it into new memory, aligned",
    f"{PICKLE} out-of-band, warm": "the same into the same memory each time",
    CLOUDPICKLE: "cloudpickle.dumps and loads",
    MARSHAL: "marshal: few types, no checks; nearly a floor",
    MSGSPEC: "MessagePack; told the type where it can be told",
    PYFORY: "Fory for Python alone, references tracked",
    FEATHER: "to_feather and read_feather, in memory; columns of objects as far as Arrow has them",
    PARQUET: "to_parquet and read_parquet, in memory; the same",
    FLOOR: "the same objects made by CPython's functions from flat columns: no format, no checks",
    OLD: "pyarrow.serialize of pyarrow 11, in a separate environment",
    f"{OLD} pickle": "pickle 5 of that environment, whose frames are others",
}


def _entry(label: str, op: str, value: Value, **how: Any) -> Entry:
    """The entry of a label: a side, then its variant."""
    side, _, variant = label.partition(" ")
    ways = {"gc off": "", "gc counted": "", "gc run": "collecting"}
    collectors = {"gc off": "off", "gc counted": "counted"}
    small: dict[str, Any] = SMALL if value.small else {"count": SAMPLES_MAX}
    request: dict[str, Any] = {"op": op, "case": value.name, "way": ways.get(variant, variant)}
    if variant in collectors:
        how["collector"] = collectors[variant]
    if variant == "store" and op == "dumps":
        how["warmup"] = STORE_WARMUP
    rounds = None if side in {OURS, PICKLE, FLOOR} else RIVAL_ROUNDS
    request |= {**small, "seconds": TURN_S, **how}
    return Entry(side, request, WORK[label], variant, rounds=rounds)


def _labels(value: Value, op: str) -> list[str]:
    labels = [OURS, STORE, PICKLE]
    if value.memory:
        labels.append(f"{PICKLE} out-of-band")
    if value.memory and op == "dumps":
        labels.append(f"{PICKLE} out-of-band, warm")
    if value.containers and op == "loads":
        labels += [f"{OURS} gc counted", f"{OURS} gc run", f"{PICKLE} gc off"]
    if value.name == "dataclasses":
        labels.append(f"{OURS} unregistered")
    if value.name in {"table", "pandas"}:
        labels.append(f"{OLD} pickle")
    if value.name == MIXED:
        labels += [FEATHER, PARQUET]
    if value.floor and op == "loads":
        labels.append(FLOOR)
    return [*labels, *RIVALS]


def _speed(value: Value, op: str, words: str) -> Case:
    entries = tuple(_entry(label, op, value) for label in _labels(value, op))
    return Case(f"{op}_{value.name}", f"{words} {value.title}", entries, quick_rounds=1)


def named(name: str) -> Value:
    """The value of a name."""
    return next(value for value in VALUES if value.name == name)


def _apart(name: str, *labels: str) -> Case:
    """A new process for each entry, so that nothing depends on what else was done in it before.

    The collector does not look at a large heap, and memory that was freed goes back to the system.
    """
    value = named(name)
    entries = tuple(_entry(label, "loads_apart", value) for label in labels)
    title = f"load {value.title} in a process that holds nothing else"
    return Case(f"loads_apart_{name}", title, entries, quick_rounds=1)


APART = (
    _apart(
        "dict_of_sets",
        *(OURS, f"{OURS} gc counted", f"{OURS} gc run", PICKLE, f"{PICKLE} gc off"),
    ),
    _apart("arrays_list", OURS, STORE, PICKLE, f"{PICKLE} out-of-band", OLD),
)


def _cold() -> tuple[Case, ...]:
    value = named("arrays_list")
    labels = (STORE, PICKLE, f"{PICKLE} out-of-band", OLD)
    once: dict[str, Any] = {"count": 1, "warmup": 0, "reads": True}
    reads = tuple(_entry(label, "loads_apart", value, **once) for label in labels)
    warm = tuple(
        _entry(label, "loads_apart", value, count=5, warmup=1, reads=True) for label in labels
    )
    return (
        _first("arrays_list"),
        _first("strings"),
        Case(
            "read_arrays_list_first",
            "load the list of arrays for the first time in a new process, and sum every array",
            reads,
            quick_rounds=1,
            heat="cold",
        ),
        Case(
            "read_arrays_list",
            "load the list of arrays again and again in a process, and sum every array each time",
            warm,
            rounds=2,
            quick_rounds=1,
        ),
    )


def _first(name: str) -> Case:
    """The first time in a new process, into a new store: every page is touched first."""
    value = named(name)
    entries = tuple(
        Entry(
            (side := label.partition(" "))[0],
            {"op": "first_dumps", "case": name, "way": side[2]},
            f"{WORK[label]}; the first time in a new process",
            side[2],
            ask_fresh,
        )
        for label in (OURS, STORE, PICKLE, OLD)
    )
    title = f"dump {value.title} for the first time in a new process, into a new store"
    return Case(f"dumps_{name}_first", title, entries, rounds=3, quick_rounds=1, heat="cold")


#: The sides that are tried with every value of the table of correctness, with their modes.
TRIALS = {
    OURS: "trusted bytes: a context with cloudpickle",
    STORE: "put and get, as the store trusts this user's processes",
    f"{OURS} never": 'a context with pickle="never": foreign bytes; refusing is right',
    PICKLE: WORK[PICKLE],
    f"{PICKLE} out-of-band": WORK[f"{PICKLE} out-of-band"],
    CLOUDPICKLE: WORK[CLOUDPICKLE],
    MARSHAL: WORK[MARSHAL],
    MSGSPEC: "MessagePack without types",
    PYFORY: WORK[PYFORY],
    f"{OLD} default": "pyarrow.serialize of pyarrow 11 with its default context",
    f"{OLD} pickling": "the same with every unknown class pickled",
}


def trials(context: Context, entry: Entry) -> Samples:
    """Sends every value of the table there and back; the sample is how many were right.

    A worker that ends over a value is started again, and the value counts as an error.
    """
    verdicts: dict[str, str] = {}
    reasons: dict[str, str] = {}
    names: list[str] = []
    while not names or len(verdicts) < len(names):
        try:
            with context.awake(entry.side) as worker:
                names = names or worker.call({"op": "trials"})["names"]
                for name in names[len(verdicts) :]:
                    told = worker.call({**entry.request, "name": name})
                    verdicts[name] = told["verdict"]
                    if told["text"]:
                        reasons[name] = told["text"]
        except MissingError as ended:
            if not names:
                raise
            context.lose(entry.side, str(ended))
            lost = names[len(verdicts)]
            verdicts[lost], reasons[lost] = "error", str(ended)
    context.note({"verdicts": verdicts, "reasons": reasons})
    return [float(sum(verdict == "right" for verdict in verdicts.values()))]


def _trial(label: str, work: str, measure: Measure) -> Entry:
    side, _, mode = label.partition(" ")
    return Entry(side, {"op": "trial", "mode": mode}, work, mode, measure)


CORRECT = Case(
    "correct",
    "values of every kind that come back as what they were, type included",
    tuple(_trial(label, work, trials) for label, work in TRIALS.items()),
    rounds=1,
    quick_rounds=1,
    unit="values",
)

CASES = (
    *(
        _speed(value, op, words)
        for value in VALUES
        for op, words in (("dumps", "dump"), ("loads", "load"))
    ),
    *APART,
    *_cold(),
    CORRECT,
)
