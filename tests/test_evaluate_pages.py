"""evaluate and compare at the command line and on pages; rules over numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dualq
from dualq.app import cli
from dualq.base import StateColumns, States
from dualq.offline.approximate.evaluation import evaluated
from dualq.offline.approximate.logged import logged
from dualq.worlds import continuous, sample_log

RULE = "order = 4 if stock <= 2 else 0"


def run(capsys, *words):
    code = cli.run(list(words))
    out, err = capsys.readouterr()
    return code, out, err.strip().splitlines()


def test_evaluate_prints_writes_and_gives_json(capsys, tmp_path):
    code, out, _ = run(capsys, "evaluate", "--policy", RULE, "--limit", "stockout<=0.3", "--out", str(tmp_path / "e"))
    assert code == 0
    for words in ("Better. This policy is expected to earn", "Guaranteed (95%)", "What it earns", "difference"):
        assert words in out
    assert "stockout <= 0.3" in out
    kept = json.loads((tmp_path / "e" / "evaluation.json").read_text())
    page = (tmp_path / "e" / "report.html").read_text()
    assert "<h1>Better</h1>" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    code, out, _ = run(capsys, "evaluate", "--policy", str(tmp_path / "e"), "--json")
    found = json.loads(out)
    assert code == 0
    for name in ("expected", "logged", "difference"):  # an engine adds in the order its threads come by
        assert found[name] == pytest.approx(kept[name])
    assert found["certificate"]["lower"] < found["expected"]["value"] < found["certificate"]["upper"]
    assert kept["limits"][0]["basis"] == "proven"


def test_a_limit_that_is_broken_stands_beside_the_verdict(capsys):
    code, out, _ = run(capsys, "evaluate", "--policy", RULE, "--limit", "stockout<=0.1", "--certificate", "none")
    assert code == 0
    found = dualq.evaluate(sample_log.path(), RULE, **sample_log.COLUMNS, certificate=None)
    reached = found.costs["stockout"].policy.value
    assert reached > 0.1
    assert f"But it does not keep stockout <= 0.1 (it is expected to reach {reached:.4g})." in " ".join(out.split())


def test_compare_learns_within_the_limits_and_puts_what_keeps_them_first():
    words = {**sample_log.COLUMNS, "limits": {"stockout": 0.2}, "certificate": None}
    found = dualq.compare(sample_log.path(), {"never": "order = 0", "mine": RULE}, **words)
    within = [limit.basis != "missed" for name in found.names for limit in found[name].limits]
    assert within == sorted(within, reverse=True)
    free = dualq.compare(sample_log.path(), {"mine": RULE}, **sample_log.COLUMNS, certificate=None)
    cost = [c["learned"].costs["stockout"].policy.value for c in (found, free)]
    assert cost[0] <= 0.2 + 1e-9 < cost[1]
    assert found.best == "learned"


def test_compare_prints_the_best_first(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    words = [
        "compare",
        "--policy",
        f"mine:{RULE}",
        "--policy",
        "order = 6 if stock <= 0 else 0",
        "--certificate",
        "none",
    ]
    code, out, _ = run(capsys, *words, "--out", str(tmp_path / "c"))
    assert code == 0
    rows = [line for line in out.splitlines() if "±" in line and "expected to earn" not in line]
    assert [row.split("  ")[0].strip() for row in rows if row.startswith(" ")] == [
        "what dualq learns",
        "order = 6 if stock <= 0 else 0",
        "mine",
        "what was done so far",
    ]
    assert "Nothing is guaranteed: no certificate was asked for" in out
    found = json.loads((tmp_path / "c" / "comparison.json").read_text())
    assert found["best"] == "learned"
    assert [row["name"] for row in found["table"]] == ["learned", "order = 6 if stock <= 0 else 0", "mine", "so far"]
    assert "what dualq learns" in (tmp_path / "c" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluate", "--policy", "order = 7"], "no order 7; known are 0, 2, 4, 6"),
        (["evaluate"], "Missing option '--policy'"),
        (["evaluate", "--policy", RULE, "--state", "stock"], "no LOG is given"),
        (["compare", "--policy", RULE, "--policy", RULE], "two policies are called"),
        (["evaluate", "--policy", RULE, "--limit", "late<=1"], "the log has no cost 'late'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, words, said):
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert err[-1].startswith("dualq: ")
    assert said in err[-1]


# ---- numbers


@pytest.fixture(scope="module")
def numbers():
    problem = continuous.PROBLEMS["inventory"]()
    rows = continuous.record(problem, 1200, 3)
    return problem, continuous.to_table(rows)


NUMBERS = {
    "state": ["stock", "level", "weekday"],
    "action": "action",
    "reward": "reward",
    "episode": "episode",
    "time": "step",
    "terminal": "done",
}
LINE = 'action = (4 if weekday == "Fri" else 2) if stock < level else 0'


def decide(state):
    return (4 if state["weekday"] == "Fri" else 2) if state["stock"] < state["level"] else 0


def test_a_rule_over_numbers_is_valued_as_by_the_dual(numbers):
    problem, table = numbers
    log = dualq.read_log(table, **NUMBERS, numbers="auto", costs=["stockout"])
    e = dualq.evaluate(log, decide, discount=problem.discount)
    rows = log.number_rows()
    columns: StateColumns = rows.columns

    def rule(states: States) -> np.ndarray:
        found = np.zeros((len(states), len(rows.actions)))
        for i in range(len(states)):
            found[i, rows.actions.index(decide(columns.named(states, i)))] = 1.0
        return found

    right, usual = (
        evaluated(rows, rule, problem.discount, rows.starts),
        logged(rows, problem.discount, rows.starts),
    )
    assert e.expected.value == pytest.approx(right.value)
    assert e.logged.value == pytest.approx(usual.value)
    assert e.difference.value == pytest.approx(right.value - usual.value)
    paired = right.error_of_difference(usual.evaluation)
    stated = paired if right.covered and right.standard_error is not None else None
    assert e.difference.standard_error == pytest.approx(stated)
    assert e.effective_size == pytest.approx(right.effective_size)
    assert not e.promised
    assert e.certificate is None
    line = dualq.evaluate(log, LINE, discount=problem.discount)
    assert line.found.value == pytest.approx(right.value)


def test_rules_over_numbers_are_compared_by_the_rows_they_share(numbers):
    problem, table = numbers
    c = dualq.compare(table, {"line": LINE, "function": decide}, discount=problem.discount, learned=False, **NUMBERS)
    assert set(c.names) == {"line", "function", "so far"}
    assert c["line"].better_than(c["function"]).value == pytest.approx(0.0, abs=1e-9)
    assert c["line"].found.error_of_difference(c["function"].found) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({1: 2}, "the log's state has numbers .* its policy must be a function"),
        ("action = 99", "gives 99, which is no action of the log; its actions are 0, 2, 4, 8"),
        (lambda state: {0: 0.5, 2: 0.2}, "probabilities that sum to 0.7"),
    ],
)
def test_what_cannot_be_asked_of_numbers_is_one_line(numbers, policy, words):
    problem, table = numbers
    with pytest.raises(dualq.LogError, match=words):
        dualq.evaluate(table, policy, discount=problem.discount, **NUMBERS)
