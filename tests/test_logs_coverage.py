"""Coverage: figures by hand, and how often the tests for change are wrong and right."""

from __future__ import annotations

import itertools

import ibis
import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import dualq
from dualq import problems
from dualq.logs.checks import coverage as coverage_module
from dualq.logs.checks import markov
from dualq.logs.checks.homogeneity import _variance_over_orders, alike_counts, alike_means, log_tail
from dualq.model.policy import TablePolicy
from dualq.worlds.simulator import Simulator


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
    return dualq.ArrayLog(s, a, r, s_next, len(P), theta.shape[1])


def model(seed):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(4), (4, 2))
    return P, rng.dirichlet(np.ones(2) * 3, 4), rng.normal(size=(4, 2))


def test_figures_by_hand():
    log = dualq.ArrayLog([0, 0, 0, 1], [0, 0, 1, 0], [1.0] * 4, [0, 1, 1, 2], 3, 2)
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


@pytest.mark.parametrize("clock", ["one walk", "days that all shops share", "steps of each shop"])
def test_rows_in_any_order_are_the_log_that_their_times_tell(clock, tmp_path):
    # 30 walks of 50 rows, or 60 of 25; the second half of all rows, in time, pays more
    shops, rows = (60, 25) if clock == "steps of each shop" else (30, 50)
    P, theta, rewards = model(0)
    walks = [walk(np.random.default_rng(i), rows, P, theta, rewards) for i in range(shops)]
    s, a, r, s_next = (
        np.concatenate([getattr(w, x) for w in walks]) for x in ("state", "action", "reward", "next_state")
    )
    shop, step = np.repeat(np.arange(shops), rows), np.tile(np.arange(rows), shops)
    times = {"one walk": shop * rows + step}.get(clock, step)
    in_time = np.lexsort((step, shop) if clock != "days that all shops share" else (shop, step))
    r = r + 2.0 * (np.argsort(in_time) >= s.size // 2)
    more = {"reward_range": (r.min(), r.max()), "cost_ranges": {"late": (-1, 4)}}

    def log_of(order):
        episode = None if clock == "one walk" else shop[order]
        costs = {"late": s[order] - 1.0 * a[order]}
        columns = (x[order] for x in (s, a, r, s_next))
        return dualq.ArrayLog(*columns, 4, 2, time=times[order], episode=episode, costs=costs, **more)

    logs = [log_of(in_time), log_of(np.random.default_rng(9).permutation(s.size))]
    logs[0].to_parquet(tmp_path / "log.parquet")  # counted by the engine, which sorts by itself
    logs.append(dualq.read_log(tmp_path / "log.parquet"))
    assert logs[0].state.tolist() == logs[1].state.tolist() == s[in_time].tolist()
    blocks = [[(b.n.tolist(), b.s.tolist()) for b in dualq.counts_in_blocks(log)] for log in logs]
    assert blocks[0] == blocks[1] == blocks[2]
    first = [dualq.counts_in_blocks(log)[0] for log in logs]
    assert first[1].cost_sums["late"].tolist() == first[2].cost_sums["late"].tolist()
    found = [log.coverage().summary() for log in logs]
    assert found[0] == found[1]
    between = sum(s_next[rows - 1 : -1 : rows] != s[rows::rows])  # where one walk follows upon another
    assert found[2]["jumps"] == found[1]["jumps"] == (between if clock == "one walk" else 0)
    for name in ("behaviour", "dynamics", "rewards"):
        assert found[2]["drift"][name]["p_value"] == pytest.approx(found[1]["drift"][name]["p_value"], rel=1e-6)
    assert found[1]["drift"]["rewards"]["p_value"] < 1e-9
    assert logs[2].markov_test().p_value == pytest.approx(logs[1].markov_test().p_value, rel=1e-6)
    if clock != "one walk":
        by_hand = np.bincount(s[step == 0], minlength=4)
        assert [log.starts().tolist() for log in logs] == [by_hand.tolist()] * 3
    promised = [dualq.learn(log, discount=0.5).certificate for log in logs]
    assert promised[0].lower == promised[1].lower
    assert promised[2].lower == pytest.approx(promised[1].lower, rel=1e-9)
    assert promised[2].upper == pytest.approx(promised[1].upper, rel=1e-9)


@pytest.mark.parametrize(("walks", "most"), [(50, 8), pytest.param(150, 16, marks=pytest.mark.slow)])
def test_false_alarms_are_as_rare_as_stated(walks, most):
    # Walks without change, level .05: dynamics and rewards together alarm in at most 5% of them, so in more than
    # 8 of 50, or 16 of 150, with probability below .002; the same for behaviour and for memory.
    alarms = {"warnings": 0, "behaviour": 0, "memory": 0}
    for seed in range(walks):
        log = walk(np.random.default_rng(1000 + seed), 400, *model(seed))
        coverage = log.coverage(level=0.05)
        alarms["warnings"] += any(coverage.drift[what].found for what in ("dynamics", "rewards"))
        alarms["behaviour"] += coverage.drift["behaviour"].found
        alarms["memory"] += coverage.memory.found
    assert all(count <= most for count in alarms.values()), alarms


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
    assert float(begin) == pytest.approx(1000, abs=10)  # the second half, to the last row
    assert end == "1999"
    assert "where time is between 1000 and 1999 (p" in coverage.drift[what].words


@pytest.mark.parametrize(
    ("clock", "words"),
    [
        (lambda k: {"day": k + 7}, "where day is between 1007 and 2006 (p"),
        (lambda k: {"hour": k / 2}, "where hour is between 499.75 and 999.5 (p"),
        (lambda k: {"at": np.datetime64("2024-01-01") + k}, "where at is between 2026-09-26 and 2029-06-22 (p"),
        (None, "between the rows 1000 and 1999 (p"),
    ],
    ids=["whole", "number", "date", "rows"],
)
def test_a_change_has_the_column_in_its_words(clock, words):
    P, theta, rewards = model(3)
    log = walk(np.random.default_rng(5), 2000, P, theta, rewards, (model(4)[0], theta, rewards))
    rows = {"s": log.state, "a": log.action, "r": log.reward, "n": log.next_state}
    extra = {} if clock is None else clock(np.arange(2000))
    read = dualq.read_log(
        rows | extra, state="s", action="a", reward="r", next_state="n", time=next(iter(extra), "row")
    )
    (warning,) = read.coverage().warnings
    assert f"the same action led to different states {words}" in warning


def slipping(rows):
    """0 0 1 1 0 0 1 1 ... where three steps in ten are drawn by chance."""
    rng, s = np.random.default_rng(0), [0, 0]
    while len(s) < rows:
        s.append(1 - s[-2] if rng.random() < 0.7 else int(rng.integers(2)))
    return np.array(s)


def test_a_hidden_state_is_noticed():
    # 0 0 1 1 0 0 1 1 ...: what follows 0 depends on what was before it. With a slip now and then it is no cycle.
    s = slipping(400)
    log = dualq.ArrayLog(s[:-1], np.zeros(399, int), np.zeros(399), s[1:], 2, 1)
    assert log.markov_test().found
    assert log.coverage().memory == log.markov_test()
    assert any("depends on the state before too" in warning for warning in log.coverage().warnings)
    assert not problems.two_state().record(2000, seed=0).markov_test().found  # false alarm 1%; the seed is fixed


def test_memory_is_not_tested_where_that_would_take_long(monkeypatch):
    log = problems.two_state().record(2000, seed=0)
    assert log.coverage().memory.tested > 0
    for limit in ("MOST_ROWS", "MOST_CELLS"):
        with monkeypatch.context() as less:
            less.setattr(markov, limit, 10)
            memory = log.coverage().memory
            assert (memory.tested, memory.found) == (0, False)
            assert "was not tested" in memory.words
    # Rows without an order have no row before them.
    rows = {"state": [0, 1], "action": [0, 0], "reward": [1.0, 1.0], "next_state": [1, 0]}
    assert dualq.read_log(ibis.memtable(rows).distinct()).coverage().memory is None


def test_words_that_occur_once_do_not_ask_for_bins():
    rows = {"state": ["a", "b", "c", "a"], "action": ["x"] * 4, "reward": [1.0, 2.0, 3.0, 4.0], "t": range(4)}
    (warning,) = dualq.read_log(rows, time="t").coverage().warnings
    assert warning == "3 of 3 states occur in one row only, so little can be learned"


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
    assert "combinations of state and action have fewer than 10 rows" in warning
    assert f"level has {np.unique(level).size:,} different numbers; cut them into bins (--bins level=8)" in warning
    (warning,) = dualq.read_log(rows, bins={"level": 8}, **read).coverage().warnings
    assert "inside the bins of level the number itself still predicts what is earned" in warning  # it is level * act
    words = rows | {"level": [f"w{x}" for x in level]}  # no numbers: nothing to cut
    assert dualq.read_log(words, **read).coverage().warnings == []


def test_a_probability_is_never_zero():
    s = np.tile([0, 0, 1, 1], 1000)
    words = dualq.ArrayLog(s[:-1], np.zeros(3999, int), np.zeros(3999), s[1:], 2, 1).markov_test().words
    assert "p < 1e-16" in words


def test_a_drifting_planner_is_no_warning():
    two = problems.two_state()
    to = TablePolicy(1.0 - two.behaviour.matrix)
    first, second = two.record(2000, seed=0), Simulator(two.mdp, to, two.start, "other").record(2000, seed=1)
    parts = (np.concatenate([getattr(log, name) for log in (first, second)]) for name in ("state", "action", "reward"))
    both = dualq.ArrayLog(
        *parts, np.concatenate([first.next_state, second.next_state]), two.mdp.states, two.mdp.actions
    )
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


def test_the_logarithm_of_a_tail_goes_on_where_the_tail_is_zero():
    # For whole a the tail is e^-x (1 + x + ... + x^(a-1) / (a-1)!), here added up in logarithms.
    for a, x in [(1, 2.0), (3, 700.0), (3, 5000.0), (40, 900.0), (400, 9000.0), (20_000, 40_000.0)]:
        k = np.arange(a)
        exact = special.logsumexp(k * np.log(x) - x - special.gammaln(k + 1))
        assert log_tail(a, x) == pytest.approx(exact, rel=1e-6)
    both = log_tail(np.array([3.0, 3.0]), np.array([700.0, 750.0]))  # this side of 0 in floating point, and beyond it
    assert both[0] - both[1] == pytest.approx(50 - 2 * np.log(750 / 700), abs=1e-3)


@pytest.mark.parametrize(
    ("begin", "end", "p"),
    [(0.6, 1.0, 1e-200), (0.15, 1.0, 1e-200), (0.9, 1.0, 1e-200), (0.4, 0.65, 1e-200), (0.46, 0.54, 1e-50)],
)
@pytest.mark.parametrize("by", ["arrays", "table"])
def test_a_clear_change_is_told_where_it_is(begin, end, p, by):
    # What an action does is turned round in a part of the log: most cuts have p = 0 in floating point. The last part
    # lies across a cut between quarters, and so is neither a quarter nor all that follows a cut.
    rng, N = np.random.default_rng(5), 10_000
    t, a = np.arange(N), rng.integers(2, size=N)
    otherwise = (t >= begin * N) & (t < end * N)
    s_next = (rng.random(N) < np.where((a == 0) != otherwise, 0.9, 0.1)).astype(int)
    s = np.append(0, s_next[:-1])
    log = dualq.ArrayLog(s, a, s.astype(float), s_next, 2, 2, time=t)
    change = (log if by == "arrays" else dualq.read_log(log.table())).coverage().drift["dynamics"]
    assert change.p_value < p
    found = [int(edge) for edge in change.period]
    assert np.abs(np.array(found) - [begin * N, end * N]).max() <= N / 40  # a tenth of a quarter


@pytest.mark.parametrize("step", ["10ms", "7s", "6min", "5h", "2D"])
def test_a_change_is_told_as_finely_as_it_was_found(step):
    rng, N = np.random.default_rng(5), 4000
    a = rng.integers(2, size=N)
    s_next = (rng.random(N) < np.where((a == 0) != (np.arange(N) >= 3000), 0.9, 0.1)).astype(int)
    s = np.append(0, s_next[:-1])
    time = pd.Timestamp("2024-01-01") + np.arange(N) * pd.Timedelta(step)
    rows = pd.DataFrame({"time": time, "state": s, "action": a, "reward": 1.0 * s, "next_state": s_next})
    period = dualq.read_log(rows).coverage().drift["dynamics"].period
    assert period is not None
    assert 900 <= len(dualq.read_log(rows, since=period[0])) <= 1130  # 1000, to a fortieth of the time, and a day


@pytest.mark.parametrize("clock", ["steps of each episode", "days that all share"])
def test_episodes_among_each_other_are_the_same_in_arrays_and_in_a_table(clock):
    # Episodes are told apart by their number, whatever the order of the rows: the table is read by the engine.
    rng = np.random.default_rng(7)
    P, theta, _ = model(8)
    rows = []
    for e in range(60):
        s = int(rng.integers(2))
        for t in range(int(rng.integers(3, 12))):
            a = rng.choice(2, p=theta[s])
            s_next = rng.choice(4, p=P[s, a])
            rows.append((s, a, rng.normal(), s_next, t if clock.startswith("steps") else t + e % 7 * 20, e))
            s = s_next
    rows = [rows[i] for i in rng.permutation(len(rows))]
    s, a, r, s_next, t, e = map(np.array, zip(*rows, strict=True))
    log = dualq.ArrayLog(s, a, r, s_next, 4, 2, time=t, episode=e)
    read = dualq.read_log(log.table())
    firsts = [min((row for row in rows if row[5] == k), key=lambda row: row[4])[0] for k in range(60)]
    assert log.starts().tolist() == read.starts().tolist() == np.bincount(firsts, minlength=4).tolist()
    mine, theirs = log.coverage(), read.coverage()
    assert mine.jumps == theirs.jumps == 0
    assert mine.memory.p_value == pytest.approx(theirs.memory.p_value, rel=1e-9)
    for what in ("behaviour", "dynamics", "rewards"):
        assert mine.drift[what].p_value == pytest.approx(theirs.drift[what].p_value, rel=1e-6)
    assert mine.drift_by == ("episode" if clock.startswith("steps") else "time")


def test_it_is_said_where_no_clock_tells_early_from_late():
    # Steps that begin anew, in episodes that are called by words: nobody knows which came first.
    rows = {"episode": np.repeat(list("cab"), 2), "t": [0, 1] * 3, "state": [0, 1] * 3, "action": [0] * 6}
    rows |= {"reward": [1.0] * 6, "next_state": [1, 0] * 3}
    for episode, said in ((rows["episode"], True), (np.repeat([1, 2, 3], 2), False)):
        coverage = dualq.read_log(rows | {"episode": episode}).coverage()
        assert (coverage_module.UNCLOCKED in coverage.notes) is said
        assert bool(coverage.drift) is not said
