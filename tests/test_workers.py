"""Work on several threads gives what it gives one after another, and stops when nobody waits for it."""

import threading
import time

import numpy as np
import pytest

from dualq import problems
from dualq.base import LogError, one_by_one, silent, together
from dualq.offline.careful import model
from dualq.proof import floors
from dualq.proof.proving import certificate_of


@pytest.fixture(params=["1", "2", "5"])
def threads(request, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", request.param)
    return int(request.param)


def test_answers_stand_in_the_order_of_the_tasks(threads):
    tasks = [lambda _, i=i: (time.sleep(0.01 * (7 - i)), i)[1] for i in range(7)]
    assert together(tasks, silent) == list(range(7))
    assert together([], silent) == []


def test_no_more_tasks_run_at_once_than_there_are_threads(threads):
    running, most, lock = [], [], threading.Lock()

    def task(_):
        with lock:
            running.append(1)
            most.append(len(running))
        time.sleep(0.02)
        with lock:
            running.pop()

    together([task] * 12, silent)
    assert 1 <= max(most) <= threads


def test_the_caller_is_told_in_its_own_thread(threads):
    told = []
    together(
        [lambda begin, i=i: begin(f"part {i}") for i in range(4)], lambda x: told.append((x, threading.get_ident()))
    )
    assert sorted(told) == [(f"part {i}", threading.get_ident()) for i in range(4)]


def test_what_a_task_raises_is_raised_and_the_others_stop(threads):
    begun, gone_on = threading.Event(), threading.Event()

    def fails(_):
        if threads > 1:
            begun.wait(10.0)
        raise LogError("no rows")

    def goes_on(begin):
        begun.set()
        while not gone_on.is_set():
            begin("one part more")  # raises, once nobody waits
            time.sleep(0.001)

    before = threading.active_count()
    with pytest.raises(LogError, match="no rows"):
        together([fails, goes_on], silent)
    for _ in range(1000):
        if threading.active_count() == before:
            break
        time.sleep(0.01)
    gone_on.set()
    assert threading.active_count() == before


def test_what_begin_raises_stops_the_work(threads):
    def stop(_):
        raise KeyboardInterrupt

    later = []
    with pytest.raises(KeyboardInterrupt):
        together([lambda begin: (begin("first"), time.sleep(0.05), begin("second"), later.append(1))] * 3, stop)
    time.sleep(0.3)
    assert later == []


@pytest.mark.parametrize("problem", [problems.garnet(60, 4, 3, discount=0.9, seed=2), problems.queue(30)])
def test_a_careful_model_is_the_same_to_the_bit(problem, threads, monkeypatch):
    counts = problem.record(3_000, seed=1).counts()
    alone = model.careful_model(counts, 0.9)
    monkeypatch.setattr(model, "MANY_ENTRIES", 0)
    found = model.careful_model(counts, 0.9)
    assert found.V.tobytes() == alone.V.tobytes()
    assert found.policy.matrix.tobytes() == alone.policy.matrix.tobytes()
    assert (found.expected, found.logged, found.reliability) == (alone.expected, alone.logged, alone.reliability)
    assert found.halves is not None
    assert alone.halves is not None
    for mine, theirs in zip(found.halves, alone.halves, strict=True):
        assert mine.V.tobytes() == theirs.V.tobytes()


def test_a_certificate_is_the_same_to_the_bit(threads, monkeypatch):
    two = problems.garnet(40, 3, 3, discount=0.9, seed=2)
    counts = two.record(20_000, seed=1).counts()
    asked = counts, model.careful_model(counts, 0.9).policy, 0.9, np.full(40, 1 / 40)
    alone = certificate_of(*asked)
    monkeypatch.setattr(floors, "MANY_ENTRIES", 0)
    found = certificate_of(*asked)
    assert (found.lower, found.upper, found.behaviour) == (alone.lower, alone.upper, alone.behaviour)


def test_one_by_one_is_in_order():
    told = []
    assert one_by_one([lambda begin, i=i: (begin(str(i)), i)[1] for i in range(3)], told.append) == [0, 1, 2]
    assert told == ["0", "1", "2"]
