"""Cells: what they are in words, what is counted on them, and problems whose best policy is known."""

from dataclasses import replace

import numpy as np
import pytest

import dualq
from dualq.base import Labels, LogError, StateColumns, States
from dualq.logs import NumberRows
from dualq.model import FunctionPolicy
from dualq.offline.approximate.asked import Known
from dualq.offline.approximate.cells import cell_table
from dualq.offline.approximate.partition import (
    CellRule,
    Partition,
    cell_log,
    cell_rule,
    earlier_and_later,
    inside_r2,
    lost_inside,
    partition_of,
    rounded,
)
from dualq.offline.approximate.tree import matrix_of
from dualq.offline.approximate.trees import grown_tree

DISCOUNT = 0.9


def rows_of(columns, actions, state, a, r, next_state, ended=None, episode=None, **more):
    ended = np.zeros(len(a), bool) if ended is None else ended
    episode = np.zeros(len(a), int) if episode is None else episode
    return NumberRows(columns, Labels(actions, "action"), state, a, r, next_state, ended, episode, **more)


def some_rows(seed=0, n=600):
    """Two numbers and a category, episodes of 10, costs, some ends."""
    rng = np.random.default_rng(seed)
    columns = StateColumns(("wear", "heat", "shift"), {"shift": ("day", "night", "late")})
    state, after = (States(rng.normal(size=(n, 2)), rng.integers(0, 3, (n, 1))) for _ in range(2))
    a, r, ended = rng.integers(0, 2, n), rng.normal(size=n), np.arange(n) % 20 == 19
    costs = {"hurt": rng.random(n)}
    return rows_of(columns, ["run", "repair"], state, a, r, after, ended, np.arange(n) // 10, costs=costs)


def some_partition(rows, leaves=7):
    y = rows.state.numbers[:, 0] * (rows.state.categories[:, 0] == 1) + np.abs(rows.state.numbers[:, 1])
    tree = grown_tree(matrix_of(rows.state), y, categories=1, max_leaves=leaves, min_rows=10)
    return Partition(rows.columns, tree)


def holds(condition, numbers, label):
    """One condition of a cell's label, read as a person would."""
    words = condition.split(" ")
    if words[0] == "shift":
        return label == words[2] if words[1] == "=" else label not in condition.split(" not ")[1].split(" or ")
    return eval(condition, {}, dict(numbers))


def test_the_label_of_a_cell_says_which_states_are_in_it():
    rows = some_rows()
    partition = some_partition(rows)
    cells = partition.cells(rows.state)
    assert len(set(partition.labels)) == len(partition) == 7
    for row in range(0, len(rows), 7):
        named = rows.columns.named(rows.state, row)
        numbers = {"wear": named["wear"], "heat": named["heat"]}
        said = [all(holds(c, numbers, named["shift"]) for c in label.split(" and ")) for label in partition.labels]
        assert np.flatnonzero(said).tolist() == [cells[row]]


def test_one_cell_is_any_state():
    rows = some_rows()
    assert list(some_partition(rows, leaves=1).labels) == ["any"]


def test_counts_are_those_of_a_loop():
    rows = some_rows()
    partition = some_partition(rows)
    s, s_next = partition.cells(rows.state), partition.cells(rows.next_state)
    log = cell_log(rows, partition)
    counts = log.counts()
    found = {}
    for i in range(len(rows)):
        key = s[i], rows.a[i], None if rows.ended[i] else s_next[i]
        n, r, cost = found.get(key, (0, 0.0, 0.0))
        found[key] = n + 1, r + rows.r[i], cost + rows.costs["hurt"][i]
    keys = [
        (s, a, None if e else t) for s, a, t, e in zip(counts.s, counts.a, counts.s_next, counts.ended, strict=True)
    ]
    sums = np.column_stack([counts.n, counts.reward_sum, counts.cost_sums["hurt"]])
    assert set(keys) == set(found)
    np.testing.assert_allclose(sums, [found[key] for key in keys])
    starts = np.bincount(s[np.arange(0, 600, 10)], minlength=len(partition))
    np.testing.assert_array_equal(log.starts(), starts)


def test_cells_are_grown_on_whole_episodes_that_come_first():
    early, later = earlier_and_later(some_rows(), share=0.25)
    assert (len(early), len(later)) == (150, 450)
    assert early.episode.max() < later.episode.min()


def test_few_long_episodes_are_each_cut_in_time():
    rng = np.random.default_rng(0)
    x = States(np.arange(90.0)[:, None], np.empty((90, 0), int))
    rows = rows_of(
        StateColumns(("t",), {}), [0, 1], x, rng.integers(0, 2, 90), np.ones(90), x, episode=np.arange(90) // 30
    )
    early, later = earlier_and_later(rows, share=0.2)
    assert early.state.numbers[:, 0].tolist() == [*range(0, 6), *range(30, 36), *range(60, 66)]
    assert later.starts.numbers[:, 0].tolist() == [6.0, 36.0, 66.0]


def test_rounding_moves_few_rows_to_the_other_side():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 2))
    tree = grown_tree(X, np.sin(2 * X[:, 0]) + (X[:, 1] > 0.4), max_leaves=10)
    round_ = rounded(tree, X)
    digits = [len(f"{c:.10g}".lstrip("-0.")) for c in round_.threshold]
    assert max(digits) <= 4
    assert (tree.leaf_of(X) != round_.leaf_of(X)).mean() <= 0.01 * tree.depth


def a_walk(seed, n=12_000, episode=40):
    """Wear grows; running earns 1 - wear, repair costs 2 and starts anew. `noise` tells nothing."""
    rng = np.random.default_rng(seed)
    m = n // episode
    wear, seen = rng.uniform(0.0, 2.0, m), []
    for _ in range(episode):
        a = (rng.random(m) < 0.3).astype(int)
        r, after = worked(wear, a, rng)
        seen.append((wear, a, r, after))
        wear = after
    wear, a, r, after = (np.stack(x, axis=1).ravel() for x in zip(*seen, strict=True))
    states = [States(np.column_stack([x, rng.normal(size=n)]), np.empty((n, 0), int)) for x in (wear, after)]
    columns = StateColumns(("wear", "noise"), {})
    return rows_of(columns, ["run", "repair"], states[0], a, r, states[1], episode=np.repeat(np.arange(m), episode))


def worked(wear, a, rng):
    reward = np.where(a == 1, -2.0, 1.0 - wear) + 0.3 * rng.normal(size=wear.size)
    return reward, np.where(a == 1, 0.0, wear) + rng.uniform(0.0, 0.6, wear.size)


def best_threshold():
    """The exact answer on a fine grid: V(w) = max(1 - w + a E V(w + u), -2 + a E V(u)), u uniform on [0, 0.6]."""
    grid = np.linspace(0.0, 8.0, 801)
    ahead = np.minimum(np.arange(801)[:, None] + np.arange(61), 800)
    V = np.zeros(801)
    for _ in range(300):
        Q = np.column_stack(
            [1.0 - grid + DISCOUNT * V[ahead].mean(axis=1), np.full(801, -2.0 + DISCOUNT * V[:61].mean())]
        )
        V = Q.max(axis=1)
    return grid[Q.argmax(axis=1).argmax()]


def earned(rule, seed=0, n=4000, steps=80):
    rng = np.random.default_rng(seed)
    wear, total = rng.uniform(0.0, 2.0, n), np.zeros(n)
    for t in range(steps):
        a = rule(States(np.column_stack([wear, rng.normal(size=n)]), np.empty((n, 0), int))).argmax(axis=1)
        r, wear = worked(wear, a, rng)
        total += DISCOUNT**t * r
    return total.mean()


def test_a_known_threshold_is_found():
    """The best policy repairs from a known wear on; what the log did earns far less. Seeded."""
    rows, c = a_walk(0), best_threshold()
    early, later = earlier_and_later(rows)
    partition = partition_of(early, DISCOUNT)
    fit = dualq.learn(cell_log(later, partition), discount=DISCOUNT)
    rule = cell_rule(partition, fit.policy)
    best = earned(lambda states: np.eye(2)[(states.numbers[:, 0] >= c).astype(int)])
    usual = np.array([0.7, 0.3])
    drawn = np.random.default_rng(1)
    logged = earned(lambda states: np.eye(2)[(drawn.random(len(states)) < usual[1]).astype(int)])
    assert earned(rule) > best - 0.1 * (best - logged)
    first = partition.tree.pruned(5)
    assert set(first.feature[first.feature >= 0]) == {0}  # what tells nothing is asked for last, if at all
    policy = FunctionPolicy(rows.columns, rows.actions, rule)
    assert policy.act({"wear": c + 0.5, "noise": 0.0}) == "repair"
    assert policy.act({"wear": c - 0.5, "noise": 0.0}) == "run"


@pytest.mark.filterwarnings("error")
def test_where_every_row_is_a_case_of_its_own_the_best_action_changes_at_the_known_place():
    """One decision each: going pays x - 0.6 on average and staying 0, so go from 0.6 on."""
    rng = np.random.default_rng(6)
    x, a = rng.random(4000), rng.integers(0, 2, 4000)
    states = States(x[:, None], np.empty((4000, 0), int))
    nowhere = States(np.full((4000, 1), np.nan), np.empty((4000, 0), int))
    r = a * (x - 0.6) + 0.1 * rng.normal(size=4000)
    columns, ended = StateColumns(("x",), {}), np.ones(4000, bool)
    rows = rows_of(columns, ["stay", "go"], states, a, r, nowhere, ended, np.arange(4000))
    early, later = earlier_and_later(rows)
    partition = partition_of(early, DISCOUNT)
    fit = dualq.learn(cell_log(later, partition), discount=DISCOUNT, certificate=None)
    at = np.linspace(0.0, 1.0, 1001)
    goes = cell_rule(partition, fit.policy)(States(at[:, None], np.empty((1001, 0), int)))[:, 1]
    assert (goes[at < 0.5] == 0.0).all()
    assert (goes[at > 0.7] == 1.0).all()


def test_on_a_table_cells_are_as_good_as_the_table():
    """States of a table, written as a number: the value of what is learned on cells, exactly, beside the table's."""
    world = dualq.problems.garnet(8, 3, 3, discount=DISCOUNT, seed=2)
    log = world.record(steps=20_000, seed=0)
    none = np.empty((len(log), 0), int)
    s, t = (States(x[:, None].astype(float), none) for x in (log.state, log.next_state))
    rows = rows_of(StateColumns(("s",), {}), list(log.actions), s, log.action, log.reward, t, has_episodes=False)
    early, later = earlier_and_later(rows)
    partition = partition_of(early, DISCOUNT)
    cells = dualq.learn(cell_log(later, partition), discount=DISCOUNT, certificate=None)
    table = dualq.learn(log, discount=DISCOUNT, certificate=None)
    every = States(np.arange(8.0)[:, None], np.empty((8, 0), int))
    mine = dualq.TablePolicy(cell_rule(partition, cells.policy)(every), log.states, log.actions)
    ours, theirs, usual = (p.value(world.mdp).mean() for p in (mine, table.policy, world.behaviour))
    assert ours >= theirs - 0.02 * (theirs - usual)


def test_what_is_lost_inside_cells_is_found():
    """At level 0.01 the second finding would be a false alarm in one of 100 seeds."""
    rows = some_rows(n=4000)
    partition = some_partition(rows)
    V = np.zeros(len(partition))
    cells = partition.cells(rows.state)
    rng = np.random.default_rng(3)
    told = rows.earning(0.2 * rows.state.numbers[:, 1] + rng.normal(size=4000))
    kept = rows.earning(cells + rng.normal(size=4000))
    found = lost_inside(told, partition, V, DISCOUNT)
    assert found.found
    assert found.what == "bins"
    assert "inside the cells heat still predicts" in found.words
    assert not lost_inside(kept, partition, V, DISCOUNT).found


def test_how_much_is_lost_inside_cells_is_about_the_truth():
    """r = heat + noise of variance 1: of what varies in a cell, Var(heat | cell) / (1 + Var(heat | cell)) is lost."""
    rows = some_rows(n=8000)
    partition = some_partition(rows)
    heat, cells, V = rows.state.numbers[:, 1], partition.cells(rows.state), np.zeros(len(partition))
    noise = np.random.default_rng(5).normal(size=8000)
    inside = np.mean((heat - (np.bincount(cells, heat) / np.bincount(cells))[cells]) ** 2)
    truth = inside / (1.0 + inside)
    assert 0.7 * truth < inside_r2(rows.earning(heat + noise), partition, V, DISCOUNT) < truth + 0.04
    assert inside_r2(rows.earning(cells + noise), partition, V, DISCOUNT) < 0.01


def test_what_follows_is_looked_at_too():
    """Rewards say nothing, but the next cell's value depends on where in its cell a state was."""
    rng = np.random.default_rng(4)
    x = rng.random(4000)
    after = (rng.random(4000) < x).astype(float)
    none = np.empty((4000, 0), int)
    states = (States(x[:, None], none), States(after[:, None], none))
    rows = rows_of(StateColumns(("x",), {}), [0], states[0], np.zeros(4000, int), np.zeros(4000), states[1])
    partition = Partition(rows.columns, grown_tree(x[:, None], x >= 0.5, max_leaves=2))
    assert lost_inside(rows, partition, np.array([0.0, 10.0]), DISCOUNT).found
    assert not lost_inside(rows, partition, np.array([5.0, 5.0]), DISCOUNT).found


def test_a_rule_of_cells_says_what_its_cell_says():
    rows = some_rows()
    partition = some_partition(rows)
    P = np.random.default_rng(0).dirichlet([1.0, 1.0], len(partition))
    np.testing.assert_array_equal(CellRule(partition.tree, P)(rows.state), P[partition.cells(rows.state)])


def test_too_few_rows_are_refused():
    with pytest.raises(LogError, match="in 100 rows; 200 are needed"):
        partition_of(some_rows(n=100), DISCOUNT)


def test_earlier_rows_widen_what_was_seen_and_make_nothing_known():
    """The largest reward and the largest cost lie in the rows in which cells were found."""
    rows = some_rows(n=4000)
    r, hurt = rows.r.copy(), rows.costs["hurt"].copy()
    r[3], hurt[4] = 50.0, 7.0
    counts = cell_table(replace(rows.earning(r), costs={"hurt": hurt}), DISCOUNT).proven().fit.counts
    assert counts.reward_range == (r.min(), 50.0)
    assert counts.cost_ranges["hurt"] == (hurt.min(), 7.0)
    assert not counts.range_known
    assert not counts.cost_ranges_known


def test_a_known_range_is_not_widened():
    rows = some_rows(n=400)
    log = cell_log(rows, some_partition(rows), reward_range=(-9.0, 9.0))
    assert log.having_seen((-20.0, 20.0), {}).counts().reward_range == (-9.0, 9.0)


def test_what_a_user_knows_is_proven_with_as_on_a_table_of_labels():
    """The same cells, learned from as a log of labels by `learn`."""
    rows = replace(some_rows(n=4000), reward_range=(-9.0, 9.0), cost_ranges={"hurt": (0.0, 2.0)})
    known = Known(value_range=(-30.0, 40.0), looks=3)
    found = cell_table(rows, DISCOUNT, certificate="proven", known=known).proven(0.95, "proven", known)
    log = cell_log(earlier_and_later(rows)[1], found.partition, (-9.0, 9.0), {"hurt": (0.0, 2.0)})
    table = dualq.learn(log, discount=DISCOUNT, value_range=(-30.0, 40.0), looks=3)
    assert found.fit.certificate.lower == table.certificate.lower
    assert found.fit.certificate.upper == table.certificate.upper
    assert found.fit.counts.cost_ranges_known == {"hurt"}
    free = cell_table(replace(rows, reward_range=None), DISCOUNT).proven(certificate="proven").fit.certificate
    assert (free.lower, free.upper) != (table.certificate.lower, table.certificate.upper)


def test_value_is_measured_where_it_is_asked_for():
    """At "log", at episodes' starts, at some states: the weights of cells are counts of a loop."""
    rows = some_rows(n=4000)
    some = rows.state.at(np.arange(37))
    for start, states in (("log", None), ("episodes", None), (some, some)):
        found = cell_table(rows, DISCOUNT, start=start).proven()
        _, later = earlier_and_later(rows)
        asked = {"log": later.state, "episodes": later.starts}[start] if states is None else states
        weights = np.bincount(found.partition.cells(asked), minlength=len(found.partition)) / len(asked)
        np.testing.assert_allclose(found.fit.start, weights)
