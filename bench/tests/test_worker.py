"""Workers are real processes here: small programs that speak the protocol."""

import os
import sys
import time

import pytest

from bench.environments import MissingError
from bench.worker import UnsupportedError, Worker, memory_kib

ECHO = """
import sys
from bench.rivals.protocol import UnsupportedError, fetched, serve, timed

class Echo:
    def op_double(self, value):
        return {"value": 2 * value}
    def op_fail(self):
        raise ValueError("on purpose")
    def op_lack(self):
        raise UnsupportedError("has no such thing")
    def op_noise(self):
        print("a library that prints")
        return {"value": 1}
    def op_server(self):
        import subprocess
        self.server = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        return {"pid": self.server.pid}
    def op_hungry(self):
        import subprocess
        program = "import sys; print(len(sys.stdin.read()))"
        done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
        return {"found": int(done.stdout)}
    def op_log(self, words):
        print(words, file=sys.stderr)
        return {}
    def op_timed(self, count, batch):
        calls = []
        answer = timed(lambda: calls.append(1), count, batch)
        return {**answer, "calls": len(calls)}
    def op_fetched(self, count, batch):
        return fetched(lambda: sum(range(100_000)), count, batch)
    def op_end(self):
        import os
        sys.stderr.write("no more\\n")
        sys.stderr.flush()
        os._exit(3)

serve(Echo())
"""


@pytest.fixture
def worker(tmp_path):
    worker = Worker([sys.executable, "-c", ECHO], tmp_path)
    yield worker
    worker.end()


def test_a_request_is_answered(worker):
    assert worker.call({"op": "double", "value": 21}) == {"value": 42}


def test_a_failure_is_a_reason(worker):
    with pytest.raises(MissingError, match="ValueError: on purpose"):
        worker.call({"op": "fail"})
    assert worker.call({"op": "double", "value": 1}) == {"value": 2}


@pytest.mark.parametrize(("operation", "reason"), [("lack", "no such thing"), ("fly", "no fly")])
def test_what_a_side_lacks_is_told_apart(worker, operation, reason):
    with pytest.raises(UnsupportedError, match=reason):
        worker.call({"op": operation})


def test_what_a_library_prints_is_no_answer(worker):
    assert worker.call({"op": "noise"}) == {"value": 1}


def test_the_end_of_a_worker_is_told_with_its_last_words(worker):
    with pytest.raises(MissingError, match="ended with 3: no more"):
        worker.call({"op": "end"})


def test_a_server_takes_no_requests_away(worker):
    # `plasmon pool dev`, which a worker started, read its worker's pipe: it and the worker raced
    # for each request, and a request that was lost ended as "no answer within 45 s".
    for _ in range(3):
        assert worker.call({"op": "hungry"}, timeout_s=20) == {"found": 0}
    assert worker.call({"op": "double", "value": 21}) == {"value": 42}


def test_no_answer_in_time_is_reported(worker):
    worker.call({"op": "log", "words": "half of it is done"})
    worker.freeze()
    worker.send({"op": "double", "value": 1})
    with pytest.raises(MissingError, match=r"no answer to double within .* half of it is done"):
        worker.receive(timeout_s=0.05)
    worker.thaw()
    assert worker.receive() == {"value": 2}


def test_batches_are_timed_with_one_to_warm_up(worker):
    answer = worker.call({"op": "timed", "count": 3, "batch": 5})
    assert len(answer["samples"]) == 3
    assert answer["calls"] == 20
    assert answer["batch"] == 5


def test_servers_are_found_pinned_and_ended(worker):
    server = worker.call({"op": "server"})["pid"]
    deadline = time.monotonic() + 10
    # A process that was made a moment ago may not have its environment yet.
    while worker.servers() != [server]:
        assert time.monotonic() < deadline, "a server carries its worker's mark"
    assert memory_kib([server])["Rss"] > 0
    worker.pin(server_cpu=0, client_cpu=None)
    assert os.sched_getaffinity(server) == {0}
    assert os.sched_getaffinity(worker.process.pid) == set(range(os.cpu_count() or 1))
    worker.freeze()
    deadline = time.monotonic() + 10
    while _state(server) != "T":
        assert time.monotonic() < deadline, "a stopped process stops"
    assert worker.thaw()
    worker.end()
    assert worker.marked() == []


def _state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_the_memory_of_a_process_that_is_gone_is_nothing():
    assert memory_kib([2**22 + 1]) == {"Rss": 0, "Pss": 0, "Pss_Anon": 0}


def test_fetches_have_the_processor_time_of_the_whole_side(worker):
    worker.call({"op": "server"})
    answer = worker.call({"op": "fetched", "count": 3, "batch": 2})
    assert answer["batch"] == 2
    assert len(answer["samples"]) == len(answer["cpu_ns"]) == 3
    assert all(spent > 0 for spent in answer["cpu_ns"])
