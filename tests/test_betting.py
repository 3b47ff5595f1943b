"""The betting interval: its naive twin, and how often it misses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from dualq.base.errors import ModelError
from dualq.proof import Ledger, weighted_bounds
from dualq.proof.betting import betting_floor


def naive_floor(x, delta, points=2001):
    """The largest m of a grid against which a player wins, bet by bet; stakes as Waudby-Smith and Ramdas have them."""
    n, won = len(x), 0.0
    for m in np.linspace(0.0, max(x) + 1e-9, points):
        capital, best, total, squares, s2 = 1.0, 1.0, 0.0, 0.25, 0.25
        for i, value in enumerate(x, start=1):
            stake = np.sqrt(2.0 * np.log(1.0 / delta) / (n * s2))
            if m > 0.0:
                stake = min(stake, 0.9 / m)
            capital *= 1.0 + stake * (value - m)
            best = max(best, capital)
            total += value
            squares += (value - (0.5 + total) / (i + 1)) ** 2
            s2 = squares / (i + 1)
        if best >= 1.0 / delta:
            won = m
    return won


@pytest.mark.parametrize("seed", range(4))
def test_the_floor_is_that_of_a_player_bet_by_bet(seed):
    rng = np.random.default_rng(seed)
    x = rng.gamma(1.0, size=60) * (rng.random(60) < 0.6)
    grid = x.max() / 2000
    assert betting_floor(x, Ledger(0.05)) == pytest.approx(naive_floor(x, 0.05), abs=1.5 * grid)


def misses(draw, truth, logs, seed):
    rng = np.random.default_rng(seed)
    ends = np.array([weighted_bounds(*draw(rng), Ledger(0.05)) for _ in range(logs)])
    return int((ends[:, 0] > truth).sum()), int((ends[:, 1] < truth).sum())


def rare(rng, n=150, chance=0.1):
    """The policy always takes what the log rarely took."""
    taken = rng.random(n) < chance
    return taken / chance, (rng.random(n) < np.where(taken, 0.7, 0.2)).astype(float)


def heavy(rng, n=150):
    """Propensities down to one in two hundred; the policy takes both actions alike."""
    chance = rng.choice([0.005, 0.5], n)
    taken = rng.random(n) < chance
    W = np.where(taken, 0.5 / chance, 0.5 / (1.0 - chance))
    return W, (rng.random(n) < np.where(taken, 0.9, 0.1)).astype(float)


@pytest.mark.parametrize(("draw", "truth"), [(rare, 0.7), (heavy, 0.5)])
def test_each_end_misses_no_more_often_than_its_half_of_delta(draw, truth):
    logs = 400
    most = binom.ppf(1.0 - 1e-4, logs, 0.025)  # a valid end is beyond this in one test of ten thousand
    low, high = misses(draw, truth, logs, 1)
    assert low <= most
    assert high <= most


def test_it_may_be_looked_at_after_every_number():
    """At all times together: the floors of all beginnings of a log hold with one delta (stakes for a fixed n)."""
    rng, logs = np.random.default_rng(2), 150
    broken = 0
    for _ in range(logs):
        x = (rng.random(80) < 0.3) * 2.0
        floors = [betting_floor(x[:t], Ledger(0.1)) for t in (10, 20, 40, 80)]
        broken += floors[-1] > 0.6
    assert broken <= binom.ppf(1.0 - 1e-4, logs, 0.1)


def test_it_narrows_and_contains_the_mean():
    rng = np.random.default_rng(3)
    widths = []
    for n in (100, 1_000, 10_000):
        W, y = rare(rng, n, 0.5)
        low, high = weighted_bounds(W, y, Ledger(0.05))
        assert low < float((W * y).mean()) < high
        widths.append(high - low)
    assert widths[0] > 2.0 * widths[1] > 4.0 * widths[2]


def test_both_ends_share_delta():
    ledger = Ledger(0.05)
    weighted_bounds(np.ones(10), np.ones(10), ledger)
    assert [(account.what, account.delta) for account in ledger.accounts] == [("floor", 0.025), ("ceiling", 0.025)]
    assert ledger.spent == pytest.approx(0.05)


def test_nothing_is_known_without_numbers():
    assert weighted_bounds(np.zeros(5), np.zeros(5), Ledger(0.05)) == (0.0, 1.0)


@pytest.mark.parametrize("wrong", [-0.1, np.nan, np.inf])
def test_a_number_that_cannot_be_bet_on_is_named(wrong):
    with pytest.raises(ModelError, match=f"is {wrong:g}; it must be finite, and not negative"):
        betting_floor(np.array([1.0, wrong]), Ledger(0.05))
