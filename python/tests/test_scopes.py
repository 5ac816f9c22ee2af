"""Scopes: objects that stay together or not at all, whatever ends meanwhile."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

import plasmon
from plasmon import _native

from .conftest import DEADLINE_S, child, settles

IDS_MAX = _native.LIMITS["SCOPE_IDS_MAX"]


@pytest.fixture(autouse=True)
def empty(request):
    """Names are used by several tests: none is there before one of them."""
    if "store" in request.fixturenames:
        store = request.getfixturevalue("store")
        store.delete([info.id for info in store.list(namespace="scopes")])


def put(store, *names):
    for name in names:
        store.put(name.encode(), name=name, namespace="scopes")


def states(store, *names):
    return store.states(names, namespace="scopes")


def test_objects_are_published_together(store, other):
    extra = store.new_id()
    with store.scope("a", ["b"], extra, namespace="scopes") as scope:
        assert isinstance(scope, plasmon.Scope)
        assert (scope.state, repr(scope)) == ("open", "<plasmon.Scope: open>")
        put(store, "a", "b", "beside")
        scope.add("c", (name for name in ["d", "e"]), namespace="scopes")
        put(store, "c", "d")
        store.put(b"by its id", id=extra)
        # Until the end they are found as any others.
        assert states(other, "a", "b", "c", "d", "e") == ["sealed"] * 4 + ["absent"]
    assert scope.state == "published"
    store.disconnect()
    assert states(other, "a", "b", "c", "d", "beside") == ["sealed"] * 5
    assert other.get(extra) == b"by its id"


def test_a_block_that_raises_deletes_its_objects(store, other):
    put(other, "of another")
    with pytest.raises(ZeroDivisionError), store.scope(namespace="scopes") as scope:
        scope.add("a", "of another", "never made", namespace="scopes")
        put(store, "a", "beside")
        _ = 1 / 0
    assert (scope.state, repr(scope)) == ("aborted", "<plasmon.Scope: aborted>")
    found = states(other, "a", "of another", "never made", "beside")
    assert found == ["deleted", "sealed", "absent", "sealed"]


def test_without_a_block(store, other):
    for end, state in (("publish", "sealed"), ("abort", "deleted")):
        scope = store.scope("a", namespace="scopes")
        put(store, "a")
        getattr(scope, end)()
        assert states(other, "a") == [state]
        store.delete("a", namespace="scopes")
    with store.scope("a", namespace="scopes") as scope:
        put(store, "a")
        scope.abort()
        put(store, "a")
    assert states(other, "a") == ["sealed"]
    store.scope().publish()


def test_a_scope_that_has_ended(store):
    published, aborted = store.scope(), store.scope()
    published.publish()
    aborted.abort()
    aborted.abort()
    with pytest.raises(ValueError, match="published, and its objects stay"):
        published.abort()
    for scope, state in ((published, "published"), (aborted, "aborted")):
        for use in (scope.publish, lambda scope=scope: scope.add("a"), scope.__enter__):
            with pytest.raises(plasmon.BadRequest, match=f"the scope is {state}"):
                use()
        assert scope.state == state
    with store.scope() as scope:
        scope.publish()


def test_invalid_arguments(store):
    with pytest.raises(TypeError, match="an ObjectId, a str, or an iterable"):
        store.scope(1)
    with pytest.raises(TypeError, match="found int"):
        store.scope([2])
    with pytest.raises(ValueError, match="name"):
        store.scope("a\nb")
    with store.scope() as scope, pytest.raises(TypeError):
        scope.add(None)


def test_what_this_connection_had_put_before_is_deleted_and_what_replaced_another(store, other):
    put(store, "before")
    put(other, "replaced")
    with store.scope("before", "replaced", namespace="scopes") as scope:
        store.put(b"new", name="replaced", namespace="scopes", replace=True)
        scope.abort()
    assert states(other, "before", "replaced") == ["deleted", "deleted"]


def test_scopes_within_scopes_end_by_themselves(store, other):
    outer = store.scope("outer", "both", namespace="scopes")
    with store.scope("inner", "both", namespace="scopes"):
        put(store, "outer", "inner", "both")
    outer.abort()
    assert states(other, "outer", "inner", "both") == ["deleted", "sealed", "sealed"]
    store.delete(["inner", "both"], namespace="scopes")
    with store.scope("outer", namespace="scopes"):
        inner = store.scope("inner", namespace="scopes")
        put(store, "outer", "inner")
        inner.abort()
    assert states(other, "outer", "inner") == ["sealed", "deleted"]


def test_tables_with_all_that_they_are_made_of(own):
    store = own()
    for complete in (False, True):
        with store.scope("table") as scope, store.table_builder({"n": "int64"}) as table:
            table.extend({"n": range(1000)})
            table.finish(name="table")
            if not complete:
                scope.abort()
        assert bool(store.list()) == complete
    assert store.get("table").num_rows == 1000


def test_thousands_of_ids_and_no_more(store, other):
    names = [f"part-{n}" for n in range(IDS_MAX)]
    with store.scope(names, namespace="scopes") as scope:
        with pytest.raises(plasmon.LimitReached, match=str(IDS_MAX)) as caught:
            scope.add(*names[:10], "more", "still more", namespace="scopes")
        assert (caught.value.wanted, caught.value.found) == (IDS_MAX + 2, IDS_MAX)
        # Which are in it already are no further ones, and none of those refused is in it.
        scope.add(names, namespace="scopes")
        put(store, *names[:2000], "more")
        with pytest.raises(plasmon.LimitReached), store.scope("of another"):
            pass
        scope.abort()
        # At once, and none of those that are made again goes with the others.
        assert set(states(store, *names[:2000])) == {"deleted"}
        put(store, *names[:2000], names[-1])
    assert set(states(other, *names[:2000], names[-1], "more")) == {"sealed"}
    with pytest.raises(plasmon.LimitReached, match="publish or abort"):
        store.scope(names, "more")
    with other.scope(names, namespace="scopes"), store.scope(names[:10], namespace="scopes"):
        pass


def test_a_scope_that_is_referred_to_no_more_is_aborted(store, other):
    scope = store.scope("a", namespace="scopes")
    put(store, "a")
    cycle = [scope]
    cycle.append(cycle)
    del scope, cycle
    gc.collect()
    settles(lambda: states(other, "a") == ["deleted"])


def test_a_store_that_is_disconnected(daemon, other):
    store = daemon.connect()
    with pytest.raises(plasmon.Disconnected), store.scope("a", namespace="scopes") as scope:
        put(store, "a")
        store.disconnect()
    assert scope.state == "aborted"
    settles(lambda: states(other, "a") == ["deleted"])
    store = daemon.connect()
    scope = store.scope("a", namespace="scopes")
    store.disconnect()
    with pytest.raises(plasmon.Disconnected):
        scope.add("b", namespace="scopes")
    scope.abort()
    with pytest.raises(plasmon.Disconnected):
        store.scope("a")


def test_a_scope_keeps_its_connection(daemon, other):
    store = daemon.connect()
    scope = store.scope("a", namespace="scopes")
    put(store, "a")
    del store
    gc.collect()
    assert states(other, "a") == ["sealed"]
    scope.publish()
    assert states(other, "a") == ["sealed"]
    other.delete("a", namespace="scopes")


def test_threads_share_a_scope(store, other):
    with store.scope() as scope:

        def work(number):
            for n in range(50):
                scope.add(f"{number}-{n}", namespace="scopes")
                put(store, f"{number}-{n}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        scope.abort()
    assert len(other.list(namespace="scopes")) == 0


MAKER = """
    import sys
    import plasmon

    store = plasmon.connect(sys.argv[1], reconnect_timeout=30)
    with store.scope("a", "b", "of another", namespace="scopes"):
        for name in ("a", "b"):
            store.put(name.encode(), name=name, namespace="scopes")
        print("made", flush=True)
        while sys.stdin.readline() != "publish\\n":
            # Whatever is asked finds out whether the daemon is another one.
            print(store.status().epoch, flush=True)
    print("published", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def maker():
    """Starts a process that makes objects in a scope, and publishes them when it is told to."""
    started = []

    def start(store):
        program = [sys.executable, "-c", textwrap.dedent(MAKER), str(store.socket)]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(program, stdin=pipe, stdout=pipe, text=True))
        assert started[-1].stdout.readline() == "made\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_process_that_is_killed_leaves_nothing(own, maker, restarted):
    store = own()
    process = maker(store)
    if restarted:
        os.kill(store.status().pid, signal.SIGKILL)
        print(file=process.stdin, flush=True)
        assert process.stdout.readline() == f"{store.status().epoch}\n"
    put(store, "of another")
    assert states(store, "a", "b", "of another") == ["sealed"] * 3
    process.kill()
    settles(lambda: states(store, "a", "b") == ["deleted"] * 2)
    assert states(store, "of another") == ["sealed"]


@pytest.mark.parametrize("restarted", [False, True])
def test_published_objects_outlive_process_and_daemon(own, maker, restarted):
    store = own()
    process = maker(store)
    if restarted:
        os.kill(store.status().pid, signal.SIGKILL)
    print("publish", file=process.stdin, flush=True)
    assert process.stdout.readline() == "published\n"
    if restarted:
        os.kill(store.status().pid, signal.SIGKILL)
    process.kill()
    settles(lambda: len(store.clients()) == 1)
    assert states(store, "a", "b") == ["sealed"] * 2
    assert store.get("a", namespace="scopes") == b"a"


def test_a_block_that_raises_while_the_daemon_is_restarted(own):
    store = own()
    with pytest.raises(ZeroDivisionError), store.scope("a", namespace="scopes") as scope:
        put(store, "a")
        os.kill(store.status().pid, signal.SIGKILL)
        _ = 1 / 0
    assert scope.state == "aborted"
    assert states(store, "a") == ["deleted"]


def test_a_store_that_has_ended_takes_its_objects_along(own):
    store = own(keeper=False)
    impatient = plasmon.connect(store.socket, reconnect_timeout=0)
    published, raised = impatient.scope("a"), pytest.raises(ZeroDivisionError)
    with raised, impatient.scope("b"):
        os.kill(store.status().pid, signal.SIGKILL)
        _ = 1 / 0
    with pytest.raises(plasmon.Disconnected):
        published.publish()
    assert published.state == "aborted"


def test_a_process_that_ends_in_the_block(store):
    code = """
        import sys
        import plasmon

        store = plasmon.connect(sys.argv[1])
        scope = store.scope("kept", namespace="scopes")
        with store.scope("a", namespace="scopes"):
            store.put(b"a", name="a", namespace="scopes")
            store.put(b"kept", name="kept", namespace="scopes")
            sys.exit(3)
    """
    found = child(code, str(store.socket))
    assert (found.returncode, found.stderr) == (3, "")
    settles(lambda: states(store, "a", "kept") == ["deleted"] * 2)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("raises", [False, True])
def test_a_forked_child_ends_nothing_of_its_parents(store, other, raises):
    with store.scope("a", namespace="scopes") as scope:
        put(store, "a")
        pid = os.fork()
        if pid == 0:
            os._exit(_in_child(store, scope, raises))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert (scope.state, states(other, "a")) == ("open", ["sealed"])
        assert states(other, "of the child") == ["sealed"]
        scope.abort()
        assert states(other, "a") == ["deleted"]


def _in_child(store, scope, raises):
    """What a child does with the scope of its parent, in which it was forked."""
    try:
        with pytest.raises(plasmon.Forked, match="make one in this process"):
            scope.add("b")
        # It has scopes of its own.
        with store.scope("of the child", namespace="scopes"):
            put(store, "of the child")
        if raises:
            with pytest.raises(ZeroDivisionError), scope:
                _ = 1 / 0
        else:
            with pytest.raises(plasmon.Forked), scope:
                pass
        del scope
        gc.collect()
        store.flush()
        return 0
    except BaseException as error:  # there is nothing else that would tell it
        print(f"in the child: {error!r}", file=sys.stderr, flush=True)
        return 1


def test_a_child_that_only_drops_it(store, other):
    scope = [store.scope("a", namespace="scopes")]
    put(store, "a")
    pid = os.fork()
    if pid == 0:
        scope.clear()
        gc.collect()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert states(other, "a") == ["sealed"]
    scope[0].publish()
    assert states(other, "a") == ["sealed"]
