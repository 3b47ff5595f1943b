"""Lines that promises and estimates rest on, each against a closed form or a plain loop."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import dualq
from dualq.logs.blocks import counts_in_blocks
from dualq.logs.counts import Counts
from dualq.logs.starts import start_weights
from dualq.offline.careful.model import careful_model
from dualq.offline.careful.selection_bias import reliability_of
from dualq.offline.limited.estimates import Estimates
from dualq.offline.limited.parsing import asked_for


def machines(episodes=60, seed=0):
    """Episodes of three states: each row ends with chance .2, with a flag; a new one begins anywhere."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(episodes):
        s, ended = int(rng.integers(3)), False
        while not ended:
            a, s_next, ended = int(rng.random() < 0.4), int(rng.integers(3)), bool(rng.random() < 0.2)
            rows.append((len(rows), s, a, float(s + a), s_next, ended, float(rng.random() < 0.3)))
            s = s_next
    names = ("t", "state", "action", "reward", "next_state", "done", "late")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


def read(columns, **words):
    return dualq.read_log(columns, time="t", terminal="done", costs=["late"], **words)


# ---- what the log says


def test_the_state_before_is_of_the_same_episode():
    columns = machines()
    s, a, s_next, done = (columns[name].tolist() for name in ("state", "action", "next_state", "done"))
    expected: dict[tuple[int, ...], int] = {}
    for i in range(1, len(s)):
        if not done[i - 1] and s_next[i - 1] == s[i]:
            key = s[i - 1], s[i], a[i], s_next[i], int(done[i])
            expected[key] = expected.get(key, 0) + 1
    log = read(columns)
    groups = log.counted.questions.by_previous().to_pyarrow()
    keys = zip(*(groups[name].to_pylist() for name in ("p0", "s0", "a0", "n0", "ended")), strict=True)
    assert dict(zip(((*k[:4], int(k[4])) for k in keys), groups["n"].to_pylist(), strict=True)) == expected
    assert sum(expected.values()) < len(s) - 1  # some rows are the first of their episode


@pytest.mark.parametrize("shuffled", [False, True])
def test_blocks_are_cut_in_the_order_of_time(shuffled):
    columns = machines()
    order = np.random.default_rng(1).permutation(len(columns["t"])) if shuffled else np.arange(len(columns["t"]))
    blocks = counts_in_blocks(read({name: column[order] for name, column in columns.items()}))
    N = len(order)
    cuts = [0, 1, 3, 8, 23, 64, *(round(64 * 2 ** (k / 4)) for k in range(1, 30) if 64 * 2 ** (k / 4) < N), N]
    assert [block.total for block in blocks] == [j - i for i, j in pairwise(cuts)]
    for block, (i, j) in zip(blocks, pairwise(cuts), strict=True):
        visits = np.zeros((3, 2), int)
        np.add.at(visits, (columns["state"][i:j], columns["action"][i:j]), 1)
        np.testing.assert_array_equal(block.visits, visits)
        assert block.reward_range == (0.0, 3.0)  # of the whole log
        assert block.ended.sum() <= columns["done"][i:j].sum() <= block.n[block.ended].sum()


def test_rows_without_an_order_are_one_block():
    columns = {name: column for name, column in machines().items() if name != "t"}
    blocks = counts_in_blocks(dualq.read_log(columns, terminal="done", costs=["late"]))
    assert [block.total for block in blocks] == [len(columns["state"])]


def test_starts_are_those_of_a_loop():
    columns = machines()
    first, everywhere = np.zeros(3), np.zeros(3)
    for i, s in enumerate(columns["state"]):
        everywhere[s] += 1
        first[s] += i == 0 or columns["done"][i - 1]
    log = read(columns)
    np.testing.assert_allclose(start_weights(log), first / first.sum())
    np.testing.assert_allclose(start_weights(log, "log"), everywhere / everywhere.sum())
    assert np.abs(first / first.sum() - everywhere / everywhere.sum()).max() > 0.01


def test_a_range_is_known_where_all_parts_know_theirs():
    def part(r, known, cost, cost_known):
        return Counts.from_arrays(
            *([0], [0], [r], [0]), states=1, actions=1, reward_range=(0.0, 5.0) if known else None,
            costs={"late": [cost]}, cost_ranges={"late": (0.0, 2.0)} if cost_known else None,
        )  # fmt: skip

    both = part(1.0, True, 0.5, True).merge(part(7.0, False, 1.0, True))
    assert both.reward_range == (0.0, 7.0)
    assert not both.range_known
    assert both.cost_ranges == {"late": (0.0, 2.0)}
    assert both.cost_ranges_known == {"late"}
    unknown = part(1.0, False, 0.5, True).merge(part(7.0, False, 3.0, False))
    assert unknown.cost_ranges == {"late": (0.0, 3.0)}
    assert not unknown.cost_ranges_known


def test_a_state_that_was_entered_only_to_end_is_no_state_that_was_never_left():
    # 0 -> 1 and 0 -> 2 end; 0 -> 3 goes on, and nobody has left 3.
    counts = Counts.from_arrays([0] * 4, [0] * 4, [1.0] * 4, [1, 2, 3, 0], [1, 1, 0, 0], states=4, actions=1)
    assert counts.never_left.tolist() == [3]
    mdp = counts.mdp(0.5, never_left_reward=2.0)
    V = dualq.TablePolicy(np.ones((5, 1))).value(mdp)
    # V(0) = 1 + .5 (0 + 0 + 4 + V(0)) / 4, and 3 pays 2 for ever
    np.testing.assert_allclose(V, [1.5 / 0.875, 0.0, 0.0, 4.0, 0.0])


# ---- what is estimated


@pytest.mark.parametrize("n", [40, 400])
def test_a_cost_that_was_never_seen_has_an_error(n):
    # One state, one action, no cost in n rows: the policy is there all the time, d = 1 and w = 1/n, and two more events
    # make sqrt(2) / n of a range of 3.
    zeros = np.zeros(n, int)
    counts = Counts.from_arrays(
        zeros, zeros, np.arange(n) % 2, zeros, states=1, actions=1, costs={"late": np.zeros(n)},
        cost_ranges={"late": (0.0, 3.0)},
    )  # fmt: skip
    start = np.ones(1)
    estimates = Estimates(counts, careful_model(counts, 0.8, start), start)
    (asked,) = asked_for({"late": 0.5}, estimates)
    found = estimates.claimed(asked, dualq.TablePolicy([[1.0]]))
    assert found.value == pytest.approx(0.0, abs=1e-12)
    assert found.standard_error == pytest.approx(3.0 * np.sqrt(2.0) / n, rel=1e-6)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.8])
def test_halves_keep_less_than_all_rows_do(part):
    # What half of the rows keep for sure, `part`, is with all of them between that and 2 part / (1 + part), the
    # reliability of a test of twice the length (Spearman; Brown), everywhere alike: mean and deviation of that.
    longer = 2.0 * part / (1.0 + part)
    found = reliability_of([(10.0 * part, 10.0, 1e-12)])
    assert found.value == pytest.approx(0.5 * (part + longer), abs=1e-6)
    assert found.standard_error == pytest.approx((longer - part) / np.sqrt(12.0), rel=1e-3)


def test_actions_that_tie_are_taken_as_the_log_took_them():
    # Two actions that do the same, three to one in the log: nothing speaks for another mixture.
    s = np.arange(400) % 2
    counts = Counts.from_arrays(s, (np.arange(400) % 8 >= 6).astype(int), s * 1.0, 1 - s, states=2, actions=2)
    careful = careful_model(counts, 0.8)
    np.testing.assert_allclose(careful.policy.matrix, [[0.75, 0.25], [0.75, 0.25]])


# ---- what is promised


def two_states(rows=300, seed=0, **words):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, rows + 1)
    a = rng.integers(0, 2, rows)
    return dualq.ArrayLog(s[:-1], a, (s[:-1] == a) * 1.0, s[1:], 2, 2, **words)


def test_an_observed_range_is_no_range_where_rows_are_few():
    # By the rule of three a reward that n rows of a pair did not show may come in 3 / n of its decisions: with about
    # 10 rows a pair that is more than 5 % of them, with 75 it is 4 %.
    few, many = dualq.learn(two_states(40), discount=0.5), dualq.learn(two_states(300), discount=0.5)
    pairs = many.counts.visits[many.policy.matrix == 1.0]
    assert (3.0 / pairs).max() < 0.05 < (3.0 / few.counts.visits[few.policy.matrix == 1.0]).min()
    assert any("how low or high a reward can be" in reason for reason in few.withheld)
    assert many.promised
    assert dualq.learn(two_states(40, reward_range=(0.0, 1.0)), discount=0.5).promised


def test_a_promise_is_withheld_where_the_log_speaks_against_it():
    # The second half pays other rewards: what was learned holds for neither half, and the verdict says so.
    log = two_states(2000)
    r = np.where(np.arange(2000) < 1000, log.reward, 1.0 - log.reward)
    changed = dualq.ArrayLog(log.state, log.action, r, log.next_state, 2, 2, reward_range=(0.0, 1.0))
    fit = dualq.learn(changed, discount=0.5)
    assert not fit.promised
    assert fit.verdict == "do not use"
    assert fit.certificate.lower <= fit.certificate.upper


@pytest.mark.parametrize(("rows", "promised"), [(60, False), (3000, True)])
def test_a_limit_is_promised_only_where_its_bound_is_proven(rows, promised):
    # The limit is expected to be kept with either log; only the longer one proves it.
    log = two_states(rows)
    late, ranges = ((log.state == 0) & (log.action == 0)) * 1.0, {"late": (0.0, 1.0)}
    columns = (log.state, log.action, log.reward, log.next_state)
    limited = dualq.ArrayLog(*columns, 2, 2, reward_range=(0.0, 1.0), costs={"late": late}, cost_ranges=ranges)
    (kept,) = dualq.learn(limited, discount=0.5, limits={"late": 0.35}).limits
    assert kept.low <= kept.estimate <= 0.35
    assert kept.kept == (kept.high <= 0.35 + 1e-12) == promised
    assert (kept.basis == "proven") == promised
