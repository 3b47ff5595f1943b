"""Calls that nobody should make are refused in one line of ours, or are none of our business."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pytest
from api_calls import calls, faults, later_calls
from dualq.errors import ArgumentError, LogError, ModelError

import dualq
from dualq.base.argument_kinds import _hints, fits, in_words


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    before = os.getcwd()
    os.chdir(folder)  # odd paths are relative
    yield [*calls(folder), *later_calls(folder)]
    os.chdir(before)


@pytest.mark.parametrize("number", [150, pytest.param(1_500, marks=pytest.mark.slow)])
def test_odd_arguments_are_refused_in_one_line(found, number):
    wrong = [f"{fault.call}: {fault.what}" for fault in faults(found, number, seed=number)]
    print(f"{number:,} calls, {len(wrong)} of them answered wrongly")
    assert wrong == []


def test_a_refusal_names_the_argument_and_what_would_be_right():
    with pytest.raises(ArgumentError, match=r"^progress is 3; it must be a function or None$") as refused:
        dualq.learn(dualq.problems.two_state().record(50), progress=3)
    assert (refused.value.argument, refused.value.value) == ("progress", 3)
    with pytest.raises(TypeError, match=r"^folder is \[None\]; it must be a text or a path$"):
        dualq.load([None])


def test_a_mistake_of_ours_is_left_to_be_seen(monkeypatch):
    """Where every argument fits, the failure is no argument's fault, and is not made to look like one."""
    monkeypatch.setattr("dualq.solvers.exact.METHODS", None)
    with pytest.raises(TypeError) as seen:
        dualq.solve(dualq.problems.two_state().mdp, method="lp")
    assert not isinstance(seen.value, ArgumentError)


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (int | None, [3, None], ["3", 2.0, True, 10**30]),
        (float, [3, 0.5], ["x", None, 1j]),
        (dict[str, int], [{}, {"a": 1}], [{1: 1}, {"a": "b"}, []]),
        (list[tuple[int, int]], [[(0, 1)]], [[0], ["ab"], "ab", {0: 1}]),
        (Callable[[str], None], [print], [3]),
    ],
)
def test_what_fits_an_annotation(hint, good, bad):
    assert all(fits(value, hint) for value in good)
    assert not any(fits(value, hint) for value in bad)
    assert in_words(hint)


@pytest.mark.parametrize("function", [dualq.learn, dualq.solve, dualq.Fit.act, dualq.Network.ring])
def test_doors_hide_no_signature(function):
    assert "args" not in inspect.signature(function).parameters


def doors():
    """Every function behind a door, as it stands in its class or module."""
    for thing in (getattr(dualq, name) for name in dualq.__all__):
        members = vars(thing).values() if isinstance(thing, type) else [thing]
        for member in (getattr(one, "__func__", one) for one in members):
            if inspect.isfunction(member) and member.__code__.co_filename.endswith("front_door.py"):
                yield thing, member.__wrapped__


def test_every_function_that_users_call_is_behind_a_door():
    """Protocols are others' to write, errors and plain results are made by us; formulas are behind `theory.bounds`."""
    others = {"Algorithm", "Log", "Policy", "DualqError", "InfeasibleError", "LogError", "ModelError", "Together"}
    behind = {getattr(owner, "__name__", None) or function.__name__ for owner, function in doors()}
    known = {name: getattr(dualq, name) for name in dualq.__all__ if callable(getattr(dualq, name))}
    assert [name for name, thing in known.items() if name not in others and thing.__name__ not in behind] == []


@pytest.mark.parametrize(
    ("column", "values", "wrong"),
    [
        ("state", [0.5, 1.9, 0.0], "row 0: state is 0.5; it must be a whole number of 32 bits"),
        ("next_state", [0, 2**40, 1], "row 1: next_state is 1099511627776; it must be a whole number of 32 bits"),
        ("action", [0, 1, np.nan], "row 2: action is nan; it must be a whole number of 32 bits"),
        ("time", [0.5, 1.7, 2.2], "row 0: time is 0.5; it must be a whole number of 64 bits"),
        ("episode", [0, 0.25, 0.5], "row 1: episode is 0.25; it must be a whole number of 64 bits"),
        ("ended", [0, 1, 2], "row 2: ended is 2; it must be true or false"),
        ("state", np.array([0, 1.5, 1], object), "row 1: state is 1.5; it must be a whole number of 32 bits"),
        ("action", [Decimal("0.5"), 1, 0], "row 0: action is 0.5; it must be a whole number of 32 bits"),
        (
            "state",
            [1j, 0, 0],
            "the column state is of the type complex128; each value must be a whole number of 32 bits",
        ),
        ("ended", ["False"] * 3, "the column ended is of the type <U5; each value must be true or false"),
        ("ended", [None, True, False], "row 0: ended is None; it must be true or false"),
        (
            "time",
            [0, 2**70, 1],
            "the column time holds something else (Python int too large to convert to C long); "
            "each value must be a whole number of 64 bits",
        ),
        ("reward", [1j, 0, 0], "the column reward holds complex numbers; they must be real"),
    ],
)
def test_arrays_are_not_rounded_in_silence(column, values, wrong):
    good = {"state": [0, 1, 0], "action": [0, 1, 1], "reward": [1.0, 0.0, 2.0], "next_state": [1, 0, 1]}
    for time in ([0.0, 1.0, 2.0], np.array([0, 1, 2], object), np.arange("2024-01", "2024-04", dtype="datetime64[M]")):
        dualq.ArrayLog(**good | {"time": time, "ended": [0, 1.0, 0]}, states=2, actions=2)
    with pytest.raises(LogError) as refused:
        dualq.ArrayLog(**good | {column: values}, states=2, actions=2)
    assert str(refused.value) == wrong


def test_seeds_shapes_and_columns_that_cannot_be_are_named(found):
    by_name = {call.name: call for call in found}
    half = dualq.TablePolicy(np.full((1, 2), 0.5), states=["a"], actions=["x", "y"])
    with pytest.raises(LogError, match=r"^seed is -1; it must be a whole number from 0 on"):
        half.act("a", seed=-1)
    with pytest.raises(LogError, match=r"^a case is 1e\+308; cases must be whole numbers of 64 bits"):
        half.act_many({"state": ["a"]}, case=[1e308])
    with pytest.raises(LogError, match=r"^a case is inf; cases must be whole numbers"):
        half.act_many({"state": ["a"]}, case=float("inf"))
    with pytest.raises(ModelError, match=r"^Q has the shape \(2,\); it must have a row per state"):
        dualq.TablePolicy.greedy(np.ones(2))
    for edges in (np.zeros((2, 2, 2)), [(0.7, 1)], ["01"], [(0, float("inf"))]):
        with pytest.raises(ModelError, match=r"^edges are .*; they must be pairs of agents"):
            dualq.QDLearning(edges=edges)
    with pytest.raises(LogError, match=r"^'y' is no number of the state; its numbers are x$"):
        by_name["numbers.grid"].function(x="x", y="y", points=3)


def test_numbers_too_large_to_compute_with_and_no_points_are_refused(found):
    """Warnings are errors here: an overflow on the way to the refusal would be seen."""
    by_name, two = {call.name: call for call in found}, dualq.problems.two_state()
    too_large = r"^weights: the weight of state=0 is 1e\+308; weights must be at most 1e\+100$"
    for ask in (
        lambda: dualq.solve(two.mdp, weights=1e308, method="lp"),
        lambda: dualq.pseudo_gap(two.mdp, dualq.solve(two.mdp), weights=1e308),
        lambda: two.behaviour.occupancy(two.mdp, weights=1e308),
    ):
        with pytest.raises(ModelError, match=too_large):
            ask()
    with pytest.raises(ModelError, match=r"^holding_cost is 1e\+308; it must be at most 1e\+100$"):
        dualq.problems.queue(holding_cost=1e308)
    with pytest.raises(ModelError, match=r"^consensus is 1e\+308 / n\^0.1; it must be from above 0 to 1, with a power"):
        dualq.QDLearning(edges=[(0, 1)], consensus=1e308)
    with pytest.raises(LogError, match=r"^points is -1; it must be a whole number, between 1 and 20000$"):
        by_name["numbers.dependence"].function(column="x", points=-1)
    with pytest.raises(LogError, match=r"^points is nan; it must be a whole number, between 1 and 1000$"):
        by_name["numbers.grid"].function(x="x", y="x", points=float("nan"))
    with pytest.raises(LogError, match=r"^assume is array\(\[0., 0.\]\); it must be one of 'set aside'$"):
        dualq.evaluate(two.record(50), two.behaviour, assume=np.zeros((2, 2)))


def test_a_moment_beyond_all_whole_numbers_is_a_moment():
    table = {"time": [0, 1, 2, 3], "state": ["a", "b"] * 2, "action": ["x"] * 4, "reward": [0.0] * 4}
    roles = {"state": "state", "action": "action", "reward": "reward", "time": "time"}
    assert dualq.read_log(table, **roles, until=10**30).counts().visits.sum() == 3
    with pytest.raises(LogError, match="no row"):
        dualq.read_log(table, **roles, since=10**30)


def test_what_arguments_must_be_can_be_read():
    """An annotation that names what is nowhere to be found would let everything through."""
    found = list(doors())
    assert len(found) > 100
    for owner, function in found:
        known = _hints(function, (object.__new__(owner),) if function.__name__ == "__init__" else ())
        assert set(inspect.get_annotations(function)) - set(known) <= {"return"}, function.__qualname__
