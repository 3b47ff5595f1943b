"""Labels and names of columns that would like to be more than that: formulas, SQL, markup."""

from __future__ import annotations

import csv
import itertools
import json

import pytest

import dualq
from dualq.app.cli import run
from dualq.base.spreadsheets import guarded, unguarded

FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''=1", '=HYPERLINK("http://x")', "-", "=", "'"]
SQL = ["x'; DROP TABLE log; --", 'a" OR "1"="1', "a]b", "a`b", "x\\", "%s", "{0}", "$1", "1); SELECT 1; --", "select"]


@pytest.mark.parametrize("text", [*FORMULAS, *SQL, "", "x", "-3", "+4.5", "-1e3", "2024-01-01", "-inf"])
def test_text_comes_back_and_is_no_formula(text):
    cell = guarded(text)
    assert unguarded(cell) == text
    assert cell[:1] not in ("=", "+", "-", "@", "\t", "\r") or (cell[0] in "+-" and abs(float(cell)) < float("inf"))


def test_no_two_texts_are_written_alike():
    texts = ["".join(parts) for n in range(4) for parts in itertools.product("'=-x3", repeat=n)]
    assert len({guarded(text) for text in texts}) == len(texts)
    assert [unguarded(guarded(text)) for text in texts] == texts


def hostile(labels, state="state", action="action"):
    """A log that knows nothing but such labels."""
    n = len(labels)
    rows = range(60 * n)
    return {
        state: [labels[i % n] for i in rows],
        action: [labels[(i * 7 + i // n) % n] for i in rows],
        "reward": [float((i * i) % 5) for i in rows],
    }


def written(path, columns):
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(columns)
        table.writerows(zip(*columns.values(), strict=True))
    return path


@pytest.mark.parametrize("labels", [FORMULAS[:4] + FORMULAS[6:], SQL], ids=["formulas", "SQL"])
def test_hostile_labels_are_labels(tmp_path, capsys, labels):
    path, out = written(tmp_path / "log.csv", hostile(labels)), tmp_path / "run"
    fit = dualq.learn(path, state="state", action="action", time="row", discount=0.9)
    assert {fit.policy.states[s] for s in range(len(labels))} == set(labels)
    fit.save(out)
    with (out / "policy.csv").open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not any(cell[:1] in ("=", "+", "-", "@") for cell in cells)

    with (out / "policy.csv").open(newline="") as file:  # what it says is what is done
        for row in csv.DictReader(file):
            chances = fit.policy.probabilities(unguarded(row["state"]))
            assert chances[unguarded(row["action"])] == float(row["probability"])
    columns = ["--state", "state", "--action", "action", "--time", "row", "--discount", "0.9", "--json"]
    assert run(["evaluate", str(path), "--policy", str(out / "policy.csv"), *columns]) == 0
    from_csv = json.loads(capsys.readouterr().out)
    assert run(["evaluate", str(path), "--policy", str(out), *columns]) == 0
    assert from_csv["expected"] == json.loads(capsys.readouterr().out)["expected"]
    assert run(["act", str(out), "--state", json.dumps(labels[0])]) == 0
    assert json.loads(capsys.readouterr().out) in labels


@pytest.mark.parametrize("name", ["=1+1", *SQL])
def test_hostile_names_of_columns_are_names(tmp_path, name):
    """The same fit as under a plain name; nothing but the name differs."""
    plain, odd = hostile(["a", "b", "c"]), hostile(["a", "b", "c"], state=name)
    log = dualq.read_log(written(tmp_path / "odd.csv", odd), state=[name], action="action", time="row")
    fit = dualq.learn(log, discount=0.9)
    right = dualq.learn(plain, state="state", action="action", time="row", discount=0.9)
    assert log.states.names == (name,)
    assert fit.policy.matrix.tobytes() == right.policy.matrix.tobytes()
    assert fit.expected == right.expected
    fit.save(tmp_path / "run")
    evaluation = dualq.evaluate(log, tmp_path / "run" / "policy.csv", discount=0.9)
    assert evaluation.policy.matrix.tobytes() == right.policy.matrix.tobytes()


def test_a_model_with_hostile_labels_comes_back(tmp_path):
    labels = FORMULAS[:4]
    model = dualq.problems.garnet(4, 2, 2, seed=0).mdp
    named = dualq.MDP(model.transitions, model.rewards, 0.9, states=labels, actions=["=a", "-3"])
    dualq.models.write_model(tmp_path / "m.csv", named)
    back = dualq.models.read_model(tmp_path / "m.csv", discount=0.9)
    assert list(back.states) == labels
    assert set(back.actions) == {"=a", "-3"}
