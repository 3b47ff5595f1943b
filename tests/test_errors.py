"""Errors carry their parts as fields beside the sentence."""

import pickle

import numpy as np
import pytest

from dualq.base import about
from dualq.base.errors import DualqError, ErrorParts, InfeasibleError, LabelError, LogError, ModelError
from dualq.base.labels import Labels
from dualq.logs import read_log
from dualq.model import MDP, TablePolicy, limits, read_model
from dualq.solvers import solve

HEADER = "state,action,next_state,probability,reward\n"


def test_every_part_is_a_field_and_none_where_it_does_not_apply():
    error = LogError("orders.csv: row 3: profit is 'x'", path="orders.csv", row=3, column="profit", value="x")
    assert str(error) == "orders.csv: row 3: profit is 'x'"
    assert (error.path, error.row, error.column, error.value) == ("orders.csv", 3, "profit", "x")
    assert (error.line, error.argument, error.state, error.action) == (None, None, None, None)
    assert set(error.parts) == {"path", "row", "column", "value"}
    assert all(getattr(DualqError("nothing known"), name) is None for name in ErrorParts.__annotations__)


def test_about_adds_what_the_error_does_not_say_itself():
    with pytest.raises(LogError) as caught, about(path="outer.csv", row=1), about(path="inner.csv", column="x"):
        raise LogError("wrong", row=7)
    assert caught.value.parts == {"path": "inner.csv", "row": 7, "column": "x"}


def test_parts_survive_the_way_from_a_worker():
    error = pickle.loads(pickle.dumps(InfeasibleError("no", conflict=("a",), least={"a": 1.0}, argument="limits")))
    assert (str(error), error.conflict, error.least, error.argument) == ("no", ("a",), {"a": 1.0}, "limits")


def test_a_label_that_does_not_exist_is_the_value():
    with pytest.raises(LabelError) as caught:
        Labels(["red", "green"], "colour").index("gren")
    assert caught.value.value == "gren"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a,x,a,half,0\n", {"row": 2, "column": "probability", "value": "half"}),
        ("a,x,a,1,0\n\nb,x,b,1,inf\n", {"row": 4, "column": "reward", "value": float("inf")}),
        ("a,x,a,0.5,0\n", {"row": 2, "column": "probability", "value": 0.5, "state": "a", "action": "x"}),
        ("a,x,b,1,0\n", {"row": 2, "column": "next_state", "value": "b"}),
        ("a,x,a,1\n", {"row": 2}),
    ],
)
def test_a_model_file_says_which_row_column_and_value(tmp_path, text, parts):
    path = tmp_path / "model.csv"
    path.write_text(HEADER + text)
    with pytest.raises(DualqError) as caught:
        read_model(path, discount=0.9)
    assert caught.value.parts == {"path": str(path), **parts}
    assert str(caught.value).startswith(f"{path}: row {parts['row']}")


def test_a_model_without_a_discount_names_the_argument(tmp_path):
    path = tmp_path / "model.csv"
    path.write_text(HEADER + "a,x,a,1,0\n")
    with pytest.raises(DualqError) as caught:
        read_model(path)
    assert caught.value.parts == {"path": str(path), "argument": "discount"}


TWO = [[[1.0, 0.0]], [[0.0, 1.0]]]


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (
            lambda: MDP([[[0.5, 0.4]], [[0.0, 1.0]]], [[0.0], [0.0]], 0.9, states=["a", "b"]),
            {"state": "a", "action": 0},
        ),
        (lambda: MDP(TWO, [[0.0], [np.inf]], 0.9), {"state": 1, "action": 0, "value": np.inf}),
        (lambda: MDP(TWO, [[0.0], [0.0]], 1.5), {"argument": "discount", "value": 1.5}),
        (
            lambda: solve(MDP(TWO, [[0.0], [1.0]], 0.9), weights=[1, -2]),
            {"argument": "weights", "state": 1, "value": -2},
        ),
        (lambda: TablePolicy([[0.5, 0.6]], ["a"]), {"state": "a", "value": [0.5, 0.6]}),
        (lambda: limits.parse("stockout=2"), {"argument": "limits", "value": "stockout=2"}),
    ],
)
def test_models_policies_and_limits_say_what_they_are_about(make, parts):
    with pytest.raises(ModelError) as caught:
        make()
    assert caught.value.parts == parts


LOG = "s,a,r,when\n"


@pytest.mark.parametrize(
    ("text", "options", "parts"),
    [
        ("0,x,1,0\n0,y,much,1\n", {}, {"row": 2, "column": "r", "value": "much"}),
        ("0,x,1,0\n0,y,1,1,7\n", {}, {"line": 3}),
        ("0,x,1,0\n", {"clock": "sun"}, {"argument": "clock", "value": "sun"}),
        ("0,x,1,0\n", {"action": "b"}, {"argument": "action", "value": "b"}),
        ("0,x,1,0\n0,y,1,1\n", {"reward_range": (1, 0)}, {"argument": "reward_range", "column": "r", "value": (1, 0)}),
    ],
)
def test_a_log_says_which_file_row_column_and_value(tmp_path, text, options, parts):
    path = tmp_path / "log.csv"
    path.write_text(LOG + text)
    with pytest.raises(LogError) as caught:
        read_log(path, **{"state": "s", "action": "a", "reward": "r", "time": "when"} | options)
    assert caught.value.path == str(path)
    assert {name: value for name, value in caught.value.parts.items() if name in parts} == parts


def test_a_log_in_memory_has_no_path():
    with pytest.raises(LogError) as caught:
        read_log({"s": [1]}, state="s", action="a", reward="r", time="row")
    assert caught.value.path is None
