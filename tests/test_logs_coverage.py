"""Coverage: figures by hand, and how often the tests for change are wrong and right."""

from __future__ import annotations

import itertools

import ibis
import numpy as np
import pytest
from scipy import stats

import dualq
from dualq import problems
from dualq.logs import coverage as coverage_module
from dualq.logs.change import _variance_over_orders, alike_counts, alike_means
from dualq.policy import Policy
from dualq.simulator import Simulator


def walk(rng, rows, P, theta, rewards, change=None):
    """A walk, and what changes in its second half: (P, theta, rewards)."""
    s, columns = 0, []
    for k in range(rows):
        P_k, theta_k, r_k = change if change is not None and k >= rows // 2 else (P, theta, rewards)
        a = rng.choice(theta_k.shape[1], p=theta_k[s])
        s_next = rng.choice(len(P_k), p=P_k[s, a])
        columns.append((s, a, r_k[s, a] + rng.normal(), s_next))
        s = s_next
    s, a, r, s_next = map(np.array, zip(*columns, strict=True))
    return dualq.Log(s, a, r, s_next, len(P), theta.shape[1])


def model(seed):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(4), (4, 2))
    return P, rng.dirichlet(np.ones(2) * 3, 4), rng.normal(size=(4, 2))


def test_figures_by_hand():
    log = dualq.Log([0, 0, 0, 1], [0, 0, 1, 0], [1.0] * 4, [0, 1, 1, 2], 3, 2)
    coverage = log.coverage()
    np.testing.assert_array_equal(coverage.visits, [[2, 1], [1, 0], [0, 0]])
    assert coverage.actions_per_state.tolist() == [2, 1, 0]
    assert coverage.zeta == 0.25
    assert coverage.effective_size == pytest.approx(9 / (1 / 2 + 1 + 1))
    assert coverage.never_left == [2]
    assert coverage.jumps == 1  # the second row leads to 1, and the third stands in 0
    assert "in 1 row the next state is not the state of the following row" in coverage.notes


def test_a_table_has_the_coverage_of_its_arrays(tmp_path):
    P, theta, rewards = model(0)
    log = walk(np.random.default_rng(1), 1500, P, theta, rewards)
    log.to_parquet(tmp_path / "log.parquet")
    read = dualq.read_log(tmp_path / "log.parquet")
    mine, theirs = log.coverage().summary(), read.coverage().summary()
    for name in ("behaviour", "dynamics", "rewards"):
        assert mine["drift"][name]["p_value"] == pytest.approx(theirs["drift"][name]["p_value"], rel=1e-6)
    for name in ("rows", "zeta", "effective_size", "jumps", "supported_pairs", "never_left"):
        assert mine[name] == theirs[name]
    assert log.markov_test().p_value == pytest.approx(read.markov_test().p_value, rel=1e-9)


def test_false_alarms_are_as_rare_as_stated():
    # 150 walks without change, level .05: dynamics and rewards together alarm in at most 5% of them, so in more than
    # 16 with probability below .002; the same for behaviour and for memory.
    alarms = {"warnings": 0, "behaviour": 0, "memory": 0}
    for seed in range(150):
        log = walk(np.random.default_rng(1000 + seed), 400, *model(seed))
        coverage = log.coverage(level=0.05)
        alarms["warnings"] += any(coverage.drift[what].found for what in ("dynamics", "rewards"))
        alarms["behaviour"] += coverage.drift["behaviour"].found
        alarms["memory"] += coverage.memory.found
    assert all(count <= 16 for count in alarms.values()), alarms


@pytest.mark.parametrize("what", ["behaviour", "dynamics", "rewards"])
def test_changes_are_found_and_told_apart(what):
    P, theta, rewards = model(3)
    other_P, other_theta, _ = model(4)
    changed = {
        "behaviour": (P, other_theta, rewards),
        "dynamics": (other_P, theta, rewards),
        "rewards": (P, theta, rewards + 0.7),
    }[what]
    log = walk(np.random.default_rng(5), 2000, P, theta, rewards, changed)
    coverage = log.coverage()
    assert {name for name, change in coverage.drift.items() if change.found} == {what}
    assert len(coverage.warnings) == (what != "behaviour")
    begin, end = coverage.drift[what].period
    assert float(begin.replace(",", "")) == pytest.approx(1000, abs=10)  # the second half, to the last row
    assert end == "1,999"


def test_a_hidden_state_is_noticed():
    # 0 0 1 1 0 0 1 1 ...: what follows 0 depends on what was before it.
    s = np.tile([0, 0, 1, 1], 100)
    log = dualq.Log(s[:-1], np.zeros(399, int), np.zeros(399), s[1:], 2, 1)
    assert log.markov_test().found
    assert log.coverage().memory == log.markov_test()
    assert any("depends on the state before too" in warning for warning in log.coverage().warnings)
    assert not problems.two_state().record(2000, seed=0).markov_test().found  # false alarm 1%; the seed is fixed


def test_memory_is_not_tested_where_that_would_take_long(monkeypatch):
    log = problems.two_state().record(2000, seed=0)
    assert log.coverage().memory.tested > 0
    for limit in ("MOST_ROWS", "MOST_CELLS"):
        with monkeypatch.context() as less:
            less.setattr(coverage_module, limit, 10)
            memory = log.coverage().memory
            assert (memory.tested, memory.found) == (0, False)
            assert "was not tested" in memory.words
    # Rows without an order have no row before them.
    rows = {"state": [0, 1], "action": [0, 0], "reward": [1.0, 1.0], "next_state": [1, 0]}
    assert dualq.read_log(ibis.memtable(rows).distinct()).coverage().memory is None


def test_states_that_occur_once_ask_for_bins():
    x = np.random.default_rng(0).random(50)
    rows = {"state": x, "action": [0, 1] * 25, "reward": x, "t": np.arange(50)}
    (warning,) = dualq.read_log(rows).coverage().warnings
    assert "49 of 49 states occur in one row only" in warning
    assert "--bins state=10" in warning
    assert dualq.read_log(rows, bins={"state": 5}).coverage().warnings == []


def test_many_numbers_in_thin_pairs_are_advised_into_bins():
    rng = np.random.default_rng(0)
    level, act = rng.integers(0, 1200, 9000) / 100.0, rng.integers(0, 3, 9000)
    rows = {"side": rng.choice(["left", "right"], 9000), "level": level, "act": act, "reward": level * act}
    read = {"state": ["side", "level"], "action": "act", "time": "row"}
    (warning,) = dualq.read_log(rows, **read).coverage().warnings
    assert "logged pairs have under 10 rows" in warning
    assert f"level has {np.unique(level).size:,} different numbers; cut them into bins (--bins level=8)" in warning
    assert dualq.read_log(rows, bins={"level": 8}, **read).coverage().warnings == []
    words = rows | {"level": [f"w{x}" for x in level]}  # no numbers: nothing to cut
    assert dualq.read_log(words, **read).coverage().warnings == []


def test_a_probability_is_never_zero():
    s = np.tile([0, 0, 1, 1], 1000)
    words = dualq.Log(s[:-1], np.zeros(3999, int), np.zeros(3999), s[1:], 2, 1).markov_test().words
    assert "p < 1e-16" in words


def test_a_drifting_planner_is_no_warning():
    two = problems.two_state()
    to = Policy(1.0 - two.behaviour.matrix)
    first, second = two.record(2000, seed=0), Simulator(two.mdp, to, two.start, "other").record(2000, seed=1)
    parts = (np.concatenate([getattr(log, name) for log in (first, second)]) for name in ("state", "action", "reward"))
    both = dualq.Log(*parts, np.concatenate([first.next_state, second.next_state]), two.mdp.states, two.mdp.actions)
    coverage = both.coverage()
    assert coverage.drift["behaviour"].found
    assert coverage.warnings == []
    assert any("that is fine" in note for note in coverage.notes)


def test_counts_are_compared_as_scipy_does():
    table = np.array([[30, 50, 20], [45, 40, 25], [20, 60, 40]])
    row, column = np.indices(table.shape)
    found = alike_counts(np.zeros(9), row.ravel(), column.ravel(), table.ravel())
    expected = stats.chi2_contingency(table, correction=False)
    X2 = expected.statistic * (1 - 1 / table.sum())
    assert found.p_value == pytest.approx(min(1.0, 2 * stats.chi2.sf(X2, expected.dof)), rel=1e-12)


def test_the_variance_over_all_orders_is_exact():
    x = np.array([0.0, 1.0, 1.5, 4.0, -2.0, 0.3, 7.0])
    x -= x.mean()
    sizes = [2, 2, 3]
    ends = np.cumsum([0, *sizes])
    values = [
        sum(np.sum(y[a:b]) ** 2 / (b - a) for a, b in itertools.pairwise(ends))
        for y in (np.array(order) for order in itertools.permutations(x))
    ]
    N, rows, inverse = np.array([7.0]), np.array([3.0]), np.array([sum(1 / n for n in sizes)])
    found = _variance_over_orders(N, rows, inverse, np.array([np.mean(x**2)]), np.array([np.mean(x**4)]))
    assert found[0] == pytest.approx(np.var(values), rel=1e-9)


def test_rare_large_losses_raise_no_false_alarm():
    # 300 draws of 20 groups, a loss of 100 in 2% of the rows, level .05: more than 27 alarms with probability < .002.
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(300):
        group, period = rng.integers(0, 20, 1000), np.arange(1000) // 250
        x = -100.0 * (rng.random(1000) < 0.02)
        alarms += alike_means(group, period, np.ones(1000), [x, x**2, x**3, x**4]).p_value <= 0.05
    assert alarms <= 27
