"""What an error says in its sentence it says in its fields too: a table of bad inputs, and what each is about."""

from __future__ import annotations

import pytest

import dualq
from dualq.logs import start_weights

ROWS = {
    "state": [0, 1, 0, 1],
    "action": ["a", "b", "a", "b"],
    "reward": [1.0, 2.0, 3.0, 4.0],
    "next_state": [1, 0, 1, 0],
    "late": [0.0, 1.0, 0.0, 1.0],
    "t": [0, 1, 2, 3],
}
ARRAYS = ([0, 1], [0, 0], [1.0, 2.0], [1, 0], 2, 1)


def read(changed=None, **words):
    rows = {**ROWS, **(changed or {})}
    return dualq.read_log({name: column for name, column in rows.items() if column is not None}, **words)


def csv(tmp_path, text, **words):
    path = tmp_path / "log.csv"
    path.write_bytes(text)
    return dualq.read_log(path, **words)


NUMBERS = [i / 7 for i in range(2000)]


def many(**columns):
    """500 times the rows, with some columns in place of theirs."""
    return {name: values * 500 for name, values in ROWS.items()} | {"t": list(range(2000))} | columns


MIXED = {"t": ["9 May", "10 May", "noon!", "x"]}
BAD = {
    "two columns for one part": (lambda: read(reward=["reward", "late"]), {"argument": "reward"}),
    "one column for two parts": (lambda: read(state="action", action="action"), {"column": "action"}),
    "a cost of the state": (lambda: read(state="late", costs=["late"], next_state=False, time="t"), {"column": "late"}),
    "more next states than states": (
        lambda: read(next_state=["next_state", "late"]),
        {"argument": "next_state", "value": ("next_state", "late")},
    ),
    "no such column": (lambda: read(reward="profit"), {"argument": "reward", "value": "profit"}),
    "a column that is no column": (lambda: read({"late": [[1, 2]] * 4}, costs=["late"]), {"column": "late"}),
    "a range of no cost": (lambda: read(cost_ranges={"lost": (0, 1)}), {"argument": "cost_ranges", "value": "lost"}),
    "a range the wrong way": (
        lambda: read(costs=["late"], cost_ranges={"late": (1, 0)}),
        {"argument": "cost_ranges", "column": "late", "value": (1, 0)},
    ),
    "bins of text": (lambda: read(bins={"action": 2}), {"argument": "bins", "column": "action"}),
    "bins that are none": (lambda: read(bins="many"), {"argument": "bins", "value": "many"}),
    "more bins than numbers": (
        lambda: read({"state": [5] * 4}, bins={"state": 9}),
        {"argument": "bins", "column": "state", "value": 9},
    ),
    "last rows of what": (lambda: read(terminal="last"), {"argument": "terminal", "value": "last"}),
    "last rows twice": (lambda: read(terminal="last", truncated="last"), {"argument": "terminal", "value": "last"}),
    "available in no state": (lambda: read(available={7: ["a"]}), {"argument": "available", "value": 7}),
    "available is no mapping": (lambda: read(available=["a"]), {"argument": "available", "value": ["a"]}),
    "available is text": (
        lambda: read(available={0: "a"}),
        {"argument": "available", "state": 0, "value": "a"},
    ),
    "available of another type": (
        lambda: read({"action": [1, 2, 1, 2]}, available={0: ["a"]}),
        {"argument": "available"},
    ),
    "available leaves some out": (lambda: read(available={0: ["b"]}), {"argument": "available"}),
    "a start that is no word": (lambda: start_weights(read(), "first"), {"argument": "start", "value": "first"}),
    "a start without episodes": (lambda: start_weights(read(), "episodes"), {"argument": "start", "value": "episodes"}),
    "a start elsewhere": (lambda: start_weights(read(), {9: 1.0}), {"argument": "start", "value": 9}),
    "a negative start": (lambda: start_weights(read(), {1: -2.0}), {"argument": "start", "state": 1, "value": -2.0}),
    "names for a frame": (lambda: read(columns=["a"]), {"argument": "columns"}),
    "a reward that is missing": (
        lambda: read({"reward": [1.0, None, 3.0, 4.0]}),
        {"row": 1, "column": "reward"},
    ),
    "times in words": (lambda: read(MIXED, next_state=False, time="t"), {"column": "t"}),
    "a clock that is none": (lambda: read(clock="wall"), {"argument": "clock", "value": "wall"}),
    "an action with too many values": (
        lambda: read(many(action=NUMBERS), action="action"),
        {"argument": "action", "column": "action"},
    ),
    "a state with too many values": (
        lambda: read(many(state=NUMBERS), next_state=False, time="t"),
        {"argument": "state", "column": "state"},
    ),
    "a state that is free text": (
        lambda: read(many(state=[f"note {i}: " + "word " * 8 for i in range(2000)]), next_state=False, time="t"),
        {"argument": "state", "column": "state"},
    ),
    "a part without a time": (lambda: read({"t": None}, since=1), {"argument": "time"}),
    "last rows of a part without a time": (
        lambda: read(next_state=False, terminal="last", episode="late", time="row", since=1),
        {"argument": "time"},
    ),
    "a part with no rows": (lambda: read(time="t", since=9), {"argument": "since", "column": "t", "value": 9}),
    "an end with no rows": (lambda: read(time="t", until=-2), {"argument": "until", "column": "t", "value": -2}),
    "a part since a word": (lambda: read(time="t", since="May"), {"argument": "since", "value": "May"}),
    "a part of episodes without an order": (
        lambda: read({"late": ["x", "x", "y", "y"], "t": [0, 1, 0, 1]}, episode="late", time="t", since=1),
        {"argument": "clock", "column": "late"},
    ),
    "too short an array": (lambda: dualq.ArrayLog(*ARRAYS, time=[0]), {"column": "time"}),
    "too short a cost": (
        lambda: dualq.ArrayLog(*ARRAYS, costs={"late": [0.0]}),
        {"argument": "costs", "column": "late"},
    ),
    "a range of no cost, in arrays": (
        lambda: dualq.ArrayLog(*ARRAYS, cost_ranges={"late": (0, 1)}),
        {"argument": "cost_ranges", "value": "late"},
    ),
    "a cost called as a column": (
        lambda: dualq.ArrayLog(*ARRAYS, costs={"state": [0.0, 1.0]}).table(),
        {"argument": "costs", "column": "state"},
    ),
}
TEXTS = {
    "names for too few fields": (
        b"0,a,1\n1,b,2\n",
        {"columns": ["state", "action"]},
        {"argument": "columns", "value": 2},
    ),
    "a name twice": (
        b"0,a,1\n1,b,2\n",
        {"columns": ["state", "state", "x"]},
        {"argument": "columns", "value": "state"},
    ),
    "one column": (
        b"state:action:reward\n0:a:1\n1:b:2\n",
        {"reward": "reward"},
        {"argument": "delimiter", "column": "state:action:reward"},
    ),
    "one column, and no names": (
        b"s a r\n0 a 1\n1 b 2\n",
        {},
        {"argument": "delimiter", "column": "s a r"},
    ),
    "bytes that are no text": (b"state,action,reward,t\n0,a,1,0\n1,\xff,2,1\n", {"time": "t"}, {"line": 3}),
    "a title above the names": (b"My log\nstate,action,reward,t\n0,a,1,0\n1,b,2,1\n", {"time": "t"}, {"line": 1}),
}


def says(error, expected):
    """The fields are those expected, and each stands in the sentence."""
    assert {name: getattr(error, name) for name in expected} == expected
    sentence = str(error)
    for name, value in error.parts.items():
        if name == "argument":  # cost_ranges: "a range is given for the cost ..."
            assert any(word.removesuffix("s") in sentence for word in str(value).split("_"))
        elif name in ("value", "state") and value is not None and not isinstance(value, tuple | list | dict):
            assert f"{value:g}" in sentence if isinstance(value, float) else str(value) in sentence
        elif name in ("column", "row", "line"):
            assert str(value) in sentence or ((name, value) == ("line", 1) and "first line" in sentence)


@pytest.mark.parametrize("what", BAD)
def test_fields_agree_with_the_sentence(what):
    call, expected = BAD[what]
    with pytest.raises(dualq.LogError) as raised:
        call()
    says(raised.value, expected)


@pytest.mark.parametrize("what", TEXTS)
def test_fields_agree_with_the_sentence_of_a_text_file(what, tmp_path):
    text, words, expected = TEXTS[what]
    with pytest.raises(dualq.LogError) as raised:
        csv(tmp_path, text, **words)
    says(raised.value, expected)
    assert str(raised.value.path).endswith("log.csv")
