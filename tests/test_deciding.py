"""Decisions for many rows: as `act` row by row; unknown states marked; random policies drawn alike everywhere."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import dualq
from dualq.app.cli import run as command
from dualq.base import Labels, LogError, Places
from dualq.model import TablePolicy
from dualq.model.draws import PRIME, SHIFTS, scrambled, thresholds
from dualq.offline import decide_file
from dualq.offline.deciding import Decider


def naive_scrambled(case: int) -> int:
    """The draw as the top of draws.py says it, with Python's whole numbers."""
    x = case % PRIME
    for k in SHIFTS:
        x = pow(x + k, 5, PRIME)
    return x


def test_the_draw_is_the_documented_one_and_spreads_evenly():
    cases = [0, 1, 2, 17, PRIME - 1, PRIME, 2**62, 2**63 - 1, -1, -(10**15)]
    assert scrambled(np.array(cases)).tolist() == [naive_scrambled(case) for case in cases]
    u = scrambled(np.arange(1_000_000)) / PRIME  # the numbers of rows: as regular as cases can be
    counts = np.bincount((u * 1000).astype(int), minlength=1000)
    assert abs(((counts - 1000.0) ** 2 / 1000.0).sum() - 999) < 5 * np.sqrt(2 * 999)  # false alarms: about 1e-6
    for lag in (1, 2, 7, 100):
        r = np.corrcoef(u[lag:], u[:-lag])[0, 1]
        assert abs(r) < 5e-3  # five standard errors


def test_thresholds_give_the_probabilities_and_never_an_action_that_has_none():
    P = np.array([[0.0, 0.25, 0.0, 0.75, 0.0], [1 / 3, 1 / 3, 0.0, 0.0, 1 / 3]])
    t = thresholds(P)
    assert (np.diff(np.c_[np.zeros(2, int), t], axis=1)[P == 0.0] == 0).all()
    np.testing.assert_allclose(np.diff(np.c_[np.zeros(2), t / PRIME], axis=1), P, atol=1e-9)
    assert (t[:, -1] == PRIME).all()


def mixed_policy() -> TablePolicy:
    """States of two columns, half of them with a random action."""
    rng = np.random.default_rng(0)
    states = Labels([(i, f"s{j}") for i in range(7) for j in range(5) if (i + j) % 3], ("i", "j"))
    P = rng.dirichlet(np.ones(3), len(states))
    P[::2] = np.eye(3)[rng.integers(0, 3, len(P[::2]))]
    return TablePolicy(P, states, Labels(["a", "b", "c"], "act"))


def test_frames_of_every_kind_get_what_act_says_row_by_row():
    policy, rng = mixed_policy(), np.random.default_rng(1)
    frame = pd.DataFrame({"i": rng.integers(0, 8, 500), "j": [f"s{k}" for k in rng.integers(0, 6, 500)]})
    frame["id"] = rng.integers(0, 10**15, 500)
    rows = frame.to_dict("records")
    known = [(r["i"], r["j"]) in policy.states for r in rows]
    one_by_one = [policy.act((r["i"], r["j"]), case=r["id"]) if k else None for r, k in zip(rows, known, strict=True)]
    assert 0 < known.count(False) < 500
    assert len({a for a in one_by_one if a}) == 3
    several = (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame), frame.to_dict("list"))
    for table in (*several, frame.astype({"j": "category", "i": float})):
        assert policy.act_many(table, case="id") == one_by_one
    assert policy.act_many(frame, case=frame["id"].to_numpy(), default="z") == [a or "z" for a in one_by_one]
    by_row = [
        policy.act((r["i"], r["j"]), case=n) if k else None for n, (r, k) in enumerate(zip(rows, known, strict=True))
    ]
    assert policy.act_many(frame) == by_row


def test_values_of_several_types_and_missing_ones_are_found_or_marked():
    policy = TablePolicy.deterministic(np.array([0, 1, 0]), 2, Labels([1, 2, "(end)"], "x"), ["go", "stay"])
    given = [1, 2.0, "2", "(end)", None, float("nan"), [1], True]
    assert policy.act_many({"x": given}) == ["go", "stay", None, "go", None, None, None, "go"]
    assert policy.act_many({"x": []}) == []
    with pytest.raises(LogError, match="the state needs the columns x; x is missing"):
        policy.act_many({"y": [1]})
    with pytest.raises(LogError, match="a case is 'A1'; cases must be whole numbers"):
        policy.act_many({"x": [1], "id": ["A1"]}, case="id")
    with pytest.raises(LogError, match="2 cases were given for 1 rows"):
        policy.act_many({"x": [1]}, case=[1, 2])


def test_many_columns_with_many_values_do_not_overflow():
    rng = np.random.default_rng(2)
    rows = np.unique(rng.integers(0, 1000, (800, 9)), axis=0)  # 1000^9 is beyond 64 bits
    places = Places(Labels([tuple(r) for r in rows.tolist()], tuple("abcdefghi")))
    order = rng.permutation(len(rows))
    codes = [places.codes(name, rows[order, j].tolist()) for j, name in enumerate("abcdefghi")]
    np.testing.assert_array_equal(places.find(codes), order)


DAY = datetime.date(2024, 2, 29)


@pytest.fixture(scope="module")
def decider() -> Decider:
    """A number in bins, text that looks like numbers, a date."""
    labels = [(b, z, DAY) for b in ("< 1", "[1, 2.5)", ">= 2.5") for z in ("007", "12")]
    P = np.eye(2)[[0, 1, 1, 0, 1, 1]]
    return Decider(TablePolicy(P, Labels(labels, ("wear", "zip", "day")), [10, 20]), {"wear": [1.0, 2.5]})


def test_numbers_find_their_bins_and_dates_may_be_text(decider):
    wear = [0.5, 1.0, 2.4999, 2.5, np.nan, np.inf, 7]
    states = [{"wear": w, "zip": "12", "day": "2024-02-29"} for w in wear]
    table = {name: [state[name] for state in states] for name in states[0]}
    found = decider.act_many(table)
    for state, action in zip(states, found, strict=True):
        assert action == (decider.act(state) if np.isfinite(state["wear"]) else None)
    days = [DAY, DAY, "2024-02-30", None]
    assert decider.act_many({"wear": ["< 1"] * 4, "zip": ["007"] * 4, "day": days}) == [10, 10, None, None]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_gets_a_column_of_decisions(decider, tmp_path, ending):
    table = pa.table(
        {
            "n": [1, 2, 3, 4, 5, 6],
            "zip": ["12", "12", "12", "13", None, "13"],
            "wear": [0.0, 1.5, 9.0, 9.0, 1.0, None],
            "day": [DAY] * 6,
        }
    )
    source, out = tmp_path / f"new.{ending}", tmp_path / f"decided.{ending}"
    (pa.csv.write_csv if ending == "csv" else pa.parquet.write_table)(table, source)
    found = decide_file(decider, source, out)  # zip is all numbers in the text file, and text in the log
    assert (found.rows, found.unknown, found.missing) == (6, 1, 2)  # what is missing is not unknown
    assert str(found.first_unknown["zip"]) == "13"
    written = (pa.csv.read_csv if ending == "csv" else pa.parquet.read_table)(out).to_pydict()
    assert written["decided_action"] == [20, 10, 20, None, None, None]
    assert [why or None for why in written["undecided"]] == [None] * 3 + ["unknown state"] + ["missing value"] * 2
    assert written["n"] == [1, 2, 3, 4, 5, 6]
    with pytest.raises(dualq.LogError, match="has a column 'decided_action' already"):
        decide_file(decider, out, tmp_path / f"again.{ending}")
    assert not (tmp_path / f"again.{ending}").exists()
    decide_file(decider, source, out, default=10)
    assert (pa.csv.read_csv if ending == "csv" else pa.parquet.read_table)(out)["decided_action"].to_pylist()[3] == 10


def test_a_number_column_with_a_word_in_it_is_still_read(tmp_path):
    policy = TablePolicy.deterministic(np.array([0, 1]), 2, Labels([3, 4], "stock"), ["go", "stay"])
    (tmp_path / "new.csv").write_text("stock\n3\nn/a\n4\n")
    decide_file(Decider(policy, {}), tmp_path / "new.csv", tmp_path / "out.csv")
    assert pa.csv.read_csv(tmp_path / "out.csv")["decided_action"].to_pylist() == ["go", "", "stay"]


def test_the_command_writes_all_or_nothing_and_says_what_is_wrong(tmp_path, capsys):
    two = dualq.problems.two_state()
    dualq.learn(two.record(steps=500, seed=0), discount=0.9).save(tmp_path / "run")
    (tmp_path / "new.csv").write_text("state\n0\n1\n5\n")
    words = ["act", str(tmp_path / "run"), "--log", str(tmp_path / "new.csv"), "--out"]
    assert command([*words, str(tmp_path / "out.csv"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rows"], facts["unknown"], facts["columns"]) == (3, 1, ["decided_action"])
    assert command([*words, str(tmp_path / "out.csv")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("2 of 3 rows decided, in decided_action.")
    assert '1 row with a state that the log never had, such as {"state": 5}: the field is empty there' in said
    for wrong, said in (
        ([*words, str(tmp_path / "out.txt")], "must end in .csv or .parquet"),
        ([*words, str(tmp_path / "no.csv"), "--case", "id"], "there is no column 'id'"),
        (["act", str(tmp_path / "run")], "say what to decide"),
        (["act", str(tmp_path / "run"), "--state", "0", "--case", "x"], "must be a whole number"),
        (["act", str(tmp_path / "run"), "--state", "5"], "no state 5; known are 0, 1. To have an answer all the same"),
        (["act", str(tmp_path / "run"), "--state", '{"s": 1}'], "give state, and nothing else; got s\n"),
        (["act", str(tmp_path / "run"), "--state", "5", "--default", "9"], "--default 9: no action 9; known are 0, 1"),
        ([*words, str(tmp_path / "no.csv"), "--default", "9"], "--default 9: no action 9; known are 0, 1"),
    ):
        assert command(wrong) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.csv", "out.csv", "run"]
