"""Every step of the certificate against its slow twin, tests/naive_proof.py, which is written from docs/certificate.md.

Small random logs: with ends and without, with states that were only entered to end, or never left, with pairs that were
never seen, in one block or several, with ranges that are known or as observed, rewards far from 0 on either side.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from naive_proof import Naive, dot

import dualq
from dualq.logs.counts import Counts
from dualq.proof import floors
from dualq.proof.confidence_sets import confidence_sets, references_of
from dualq.proof.costs import AverageBounds, cost_column, known_cost
from dualq.proof.evidence import evidence_of, merged_counts, paid_at_the_end, value_range_of
from dualq.proof.ledger import Ledger
from dualq.proof.own_value import SHARE

S, A, ALPHA, DELTA = 4, 2, 0.6, 0.1
EQUAL = {"rtol": 1e-9, "atol": 1e-11}
CASES = range(6)


class Case:
    """A random log as rows and as counts, a policy, and where value is measured."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.ends, self.shift = seed % 2 == 1, (0.0, -3.0, 5.0)[seed % 3]
        cuts = ([0, 400], [0, 64, 181, 420], [0, 25, 140, 420])[(seed + seed // 3) % 3]
        P = rng.dirichlet(np.ones(S), size=(S, A))
        s, self.rows = 0, []
        for _ in range(cuts[-1]):
            a = 1 if s == 1 else int(rng.random() < 0.3)  # action 0 in state 1 is never seen
            s_next = int(rng.choice(S, p=P[s, a]))
            ended = bool(self.ends and (s_next == 3 or rng.random() < 0.1))  # with ends, state 3 is entered only to end
            r = self.shift + P[s, a, 0] + rng.choice([0.0, 0.5, 1.0])
            self.rows.append((s, a, float(r), s_next, ended, float(rng.random() < 0.2 + 0.3 * a)))
            s = int(rng.integers(3)) if ended or s_next == 3 else s_next  # state 3 is never left
        self.known = seed % 2 == 0
        self.range = (self.shift - 0.5, self.shift + 2.5) if self.known else None
        self.blocks = [self.rows[i:j] for i, j in pairwise(cuts)]
        self.counts = [self._counted(block) for block in self.blocks]
        self.merged = merged_counts(self.counts)
        self.policy = rng.dirichlet(np.ones(A), S)
        self.start = np.array([0.5, 0.3, 0.2, 0.0])

    def _counted(self, block):
        s, a, r, s_next, ended, cost = (np.array(column) for column in zip(*block, strict=True))
        return Counts.from_arrays(
            *(s, a, r, s_next, ended), states=S, actions=A, reward_range=self.range, costs={"late": cost},
            cost_ranges={"late": (0.0, 1.5)} if self.known else None,
        )  # fmt: skip

    def naive(self, delta=DELTA, **words):
        return Naive([[row[:5] for row in block] for block in self.blocks], S, A, ALPHA, delta, self.range, **words)


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return Case(request.param)


@pytest.fixture(scope="module")
def naive(case):
    return case.naive()


@pytest.fixture
def exact(monkeypatch):
    """The iteration goes on until nothing moves: then floors are fixed points, and not only below them."""
    monkeypatch.setattr(floors, "PRECISION", 1e-13)


def test_evidence(case, naive):
    ev = evidence_of(case.counts, case.merged)
    assert np.flatnonzero(ev.possible).tolist() == sorted(naive.places)
    seen = set()
    for i, (s, a) in enumerate(naive.pairs):
        for entry in range(ev.indptr[i], ev.indptr[i + 1]):
            to = int(ev.columns[entry])
            seen.add((s, a, to))
            for e in range(len(case.blocks)):
                rewards = [row.r for row in naive.of((s, a), e) if naive.successor(row) == to]
                mean = sum(rewards) / max(len(rewards), 1)
                found = ev.n[e, entry], ev.r[e, entry], ev.scatter[e, entry]
                expected = len(rewards), sum(rewards), sum((r - mean) ** 2 for r in rewards)
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert seen == {(row.s, row.a, naive.successor(row)) for row in naive.rows}


@pytest.mark.parametrize("given", [None, (-1.0, 2.0), (-1e6, 1e6)])
def test_the_range_of_values(case, given):
    expected = case.naive(value_range=given)
    assert value_range_of(given, case.merged, ALPHA) == pytest.approx((expected.low, expected.high))


def test_the_range_of_values_where_only_the_end_pays():
    # Ten episodes of 30 rows; only the last pays, 2 in one and 7 in the others. No value is above one reward, or below
    # nothing; with a single paid row before the end this is not so, nor with fewer than 100 rows that went on.
    def counts(episodes, paid_before=0.0):
        s, r = np.zeros(30 * episodes, int), np.zeros(30 * episodes)
        ended = np.arange(s.size) % 30 == 29
        r[ended], r[29], r[3] = 7.0, 2.0, paid_before
        return Counts.from_arrays(s, s, r, s, ended, states=1, actions=1)

    assert paid_at_the_end(counts(10)) == (0.0, 7.0)
    assert paid_at_the_end(counts(10, 1.0)) is None
    assert paid_at_the_end(counts(3)) is None


def test_references(case, naive):
    found = references_of(case.counts, evidence_of(case.counts, case.merged), ALPHA)
    for name, expected in naive.references.items():
        np.testing.assert_allclose(found[name], expected, **EQUAL)
    if len(case.blocks) == 3:
        assert not found["optimal"][1].any()  # too few rows
        assert found["optimal"][2].any()


def test_the_two_events(case, naive):
    sets = confidence_sets(case.counts, case.merged, ALPHA, Ledger(DELTA))
    for name, model in sets.items():
        for i, pair in enumerate(naive.pairs):
            if not naive.of(pair):
                continue
            for side, sign in enumerate((1, -1)):
                assert model.noise[side, i] == pytest.approx(naive.noise[name, sign][pair], rel=1e-9)
            centre, radius = naive.balls[pair]
            assert model.eps[i] == pytest.approx(radius, rel=1e-9)
            entries = slice(model.evidence.indptr[i], model.evidence.indptr[i + 1])
            found = dict(zip(model.evidence.columns[entries].tolist(), model.around[entries], strict=True))
            assert {s: p for s, p in found.items() if p > 0.0} == pytest.approx(centre, rel=1e-12)


def test_the_certificate(case, exact):
    # the policy's chances are on no grid, so that only the events of pairs speak of it; they have what is left of delta
    naive = case.naive(DELTA * (1.0 if len(case.blocks) == 1 else 1.0 - SHARE))
    c = dualq.certificate_of(case.counts, dualq.TablePolicy(case.policy), ALPHA, case.start, 1.0 - DELTA)
    start, table = case.start, c.per_state
    assert c.lower == pytest.approx(naive.floor(case.policy, start), **_approx())
    upper = naive.best_ceiling([[True] * A] * S)
    np.testing.assert_allclose(table["upper"], upper, **EQUAL)
    assert c.upper == pytest.approx(dot(start, upper), **_approx())
    ceilings = [min(x) for x in zip(naive.interval(case.policy)[1], upper, strict=True)]
    assert c.policy_upper == pytest.approx(dot(start, ceilings), **_approx())
    low, high = naive.interval(naive.behaviour())
    np.testing.assert_allclose(table["behaviour_low"], low, **EQUAL)
    np.testing.assert_allclose(table["behaviour_high"], high, **EQUAL)
    assert c.behaviour == pytest.approx((dot(start, low), dot(start, high)), **_approx())
    assert "1" in c.ceilings
    for k, found in c.ceilings.items():
        assert found == pytest.approx(dot(start, naive.best_ceiling(naive.thick(int(k)))), **_approx())
    assert c.upper_supported == c.ceilings["1"]
    assert c.value_range == pytest.approx((naive.low, naive.high))


@pytest.mark.parametrize("sense", ["<=", ">="])
def test_costs(case, exact, sense):
    turn = -1.0 if sense == "<=" else 1.0
    given = (0.0, 1.5) if case.known else (0.0, 1.0)
    turned = [[(s, a, turn * cost, *rest) for s, a, _, *rest, cost in block] for block in case.blocks]
    naive = Naive(turned, S, A, ALPHA, DELTA, tuple(sorted(turn * end for end in given)))
    ends = [turn * 0.4 * bound(case.policy, case.start) for bound in (naive.floor, naive.ceiling)]
    policy, start = dualq.TablePolicy(case.policy), case.start
    # the policy has no price: only the events of pairs speak of it, which leave the rest of delta to the others
    delta = DELTA if len(case.blocks) == 1 else DELTA / (1.0 - SHARE)
    found = dualq.cost_bounds(case.counts, policy, "late", ALPHA, start, 1.0 - delta, sense)
    assert found == pytest.approx(sorted(ends), **_approx())
    bounds = cost_column(case.counts, "late", sense, ALPHA, start, Ledger(DELTA))
    assert bounds.end(case.policy) == pytest.approx(ends[0], **_approx())
    assert bounds.worst == pytest.approx(turn * 0.4 * naive.low)


def test_costs_that_are_known(case, exact):
    cost = np.random.default_rng(3).random((S, A))
    naive = case.naive(known={pair: -float(cost[pair]) for pair in np.ndindex(S, A)})
    found = known_cost(case.counts, cost, "<=", ALPHA, case.start, Ledger(DELTA)).of(case.policy)
    ends = [-0.4 * bound(case.policy, case.start) for bound in (naive.ceiling, naive.floor)]
    assert found == pytest.approx(ends, **_approx())


@pytest.mark.parametrize("precision", [1e-7, 1e-3, 1.0])
def test_a_floor_does_not_rest_on_convergence(case, naive, monkeypatch, precision):
    # However early the iteration stops, here from a guess that is too high by 1 % of the range, what it leaves open is
    # taken off: by h / (1 - alpha) for a violation h, which is (1 + alpha) / (1 - alpha) = 4 times the guess's error.
    monkeypatch.setattr(floors, "PRECISION", precision)
    wide = naive.high - naive.low
    for name, model in AverageBounds(case.counts, ALPHA, case.start, Ledger(DELTA)).sets.items():
        for sign, worst in ((1.0, naive.low), (-1.0, -naive.high)):
            fixed = np.array(naive.bound(name, int(sign), case.policy))
            guess = np.append(fixed + 0.01 * wide * np.array([1.0, 0.5, 0.2, 0.0]), 0.0)
            found = floors.floor_of(model, guess, worst, np.ones((S, A), bool), case.policy, sign).value
            assert (found <= fixed + 1e-11 * wide).all()
            assert (found >= fixed - min(0.041, 10.0 * precision) * wide).all()


def _approx():
    return {"rel": 1e-9, "abs": 1e-11}


@pytest.mark.parametrize("seed", range(8))
def test_a_floor_is_one_whatever_the_guess(seed):
    # V = T V has one solution: from the plug-in value, where pairs are given up and taken back many times on the way,
    # as from the floor itself, and from values that no policy has.
    sim = dualq.problems.garnet(150, 5, 4, discount=0.9, seed=seed)
    counts, start = sim.record(steps=40_000, seed=seed).counts(), np.full(150, 1 / 150)
    bounds = AverageBounds([counts], 0.9, start, Ledger(DELTA))
    policy = np.eye(5)[np.random.default_rng(seed).integers(5, size=150)]
    for model in bounds.sets.values():
        for sign, worst in ((1.0, bounds.low), (-1.0, -bounds.high)):
            plug_in = sign * floors.plug_in_value(model, policy, 0.5 * (bounds.low + bounds.high))
            floor = floors.floor_of(model, plug_in, worst, bounds.everything, policy, sign).value
            for guess in (np.append(floor, 0.0), np.full(151, worst), np.full(151, worst + 20.0)):
                again = floors.floor_of(model, guess, worst, bounds.everything, policy, sign).value
                np.testing.assert_allclose(again, floor, atol=3.0 * floors.PRECISION * 10.0)
