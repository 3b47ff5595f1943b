"""Which candidate is recommended, and which price keeps a limit: against twins written from what is stated."""

from types import SimpleNamespace

import numpy as np
import pytest

from dualq.base import InfeasibleError, LogError
from dualq.model import parse
from dualq.offline.approximate.candidates import Candidate, choose
from dualq.offline.approximate.price_search import MARGIN, limits_on, no_surer_than_counted, priced, searched
from dualq.offline.careful.selection_bias import Estimate
from dualq.worlds import continuous


def candidate(name, value, error, gain_error, logged=10.0):
    return Candidate(name, None, Estimate(value, error), Estimate(value - logged, gain_error), 0.5, 0.0, None)


def naive_choice(candidates):
    """The rule, read from the page: gains above two errors, the largest less half of one; else the clone."""
    best, most = "clone", -np.inf
    for c in candidates:
        if c.name != "clone" and c.expected.standard_error is not None:
            left = c.gain.value - 0.5 * c.gain.standard_error
            if c.gain.value > 2 * c.gain.standard_error and left > most:
                best, most = c.name, left
    return best


def test_the_choice_is_that_of_the_rule():
    rng, seen = np.random.default_rng(0), set()
    for _ in range(500):
        names = [n for n in ("neural, supported", "neural, tilted", "linear", "partition") if rng.random() < 0.7]
        made = []
        for name in rng.permutation(names).tolist():
            error = None if rng.random() < 0.2 else rng.uniform(0.2, 2.0)
            made.append(candidate(name, rng.normal(12.0, 3.0), error, error and 0.7 * error))
        made.append(candidate("clone", rng.normal(10.0, 0.3), 0.3, 0.3))
        found = choose(made)
        assert made[found.place].name == naive_choice(made)
        seen.add(made[found.place].name)
        chosen = made[found.place]
        if chosen.name != "clone":  # nothing is recommended that is not clearly better than the log
            assert chosen.gain.value > 2 * chosen.gain.standard_error
    assert seen == {"neural, supported", "neural, tilted", "linear", "partition", "clone"}


def test_why_nothing_can_be_judged_is_said():
    lost = Candidate("linear", None, Estimate(50.0, None), Estimate(40.0, None), 0.01, 0.0, None)
    found = choose([lost, candidate("clone", 10.0, 0.3, 0.3)])
    assert found.place == 1
    assert "goes where the log never was" in found.reason


# ---- prices


@pytest.fixture(scope="module")
def rows():
    return continuous.record(continuous.Maintenance(), 400, seed=0)


def cost_at(price, error=0.01, judged_below=np.inf):
    """A fake learner: its policy costs 1 / (1 + price), and cannot be judged from some price on."""
    e = error if price < judged_below else None
    return SimpleNamespace(price=price, costs={"failure": Estimate(1.0 / (1.0 + price), e)})


def search(rows, bound, **options):
    asked = []

    def learned(prices):
        asked.append(float(prices[0]))
        return cost_at(asked[-1], **options)

    found, price = searched(rows, [parse(f"failure<={bound}")], learned, lambda one: one.costs)
    return found, float(price[0]), asked


@pytest.mark.parametrize("bound", [0.9, 0.5, 0.2, 0.05])
def test_the_price_is_nearly_the_lowest_that_keeps_the_limit(rows, bound):
    """1 / (1 + p) + margin = bound at p*: what is found is above it, by less than a doubling halved thrice."""
    lowest = 1.0 / (bound - MARGIN * 0.01) - 1.0
    found, price, asked = search(rows, bound)
    assert found.price == price
    assert price >= lowest
    first = rows.r.std() / rows.costs["failure"].std()
    assert price <= max(lowest * 2 ** (1 / 8), lowest + first / 8) + 1e-9
    assert len(asked) <= 12


def test_no_price_where_the_limit_is_kept_anyway(rows):
    found, price, asked = search(rows, 1.5)
    assert (price, found.price, asked) == (0.0, 0.0, [0.0])


def test_what_lies_before_a_price_that_cannot_be_judged_is_found(rows):
    first = rows.r.std() / rows.costs["failure"].std()
    wall = 1.4 * first
    bound = 1.0 / (1.0 + 1.2 * first) + MARGIN * 0.01
    found, price, _ = search(rows, bound, judged_below=wall)
    assert 1.2 * first <= price < wall
    assert found.costs["failure"].standard_error is not None


def test_a_limit_out_of_reach_is_refused_with_what_was_reached(rows):
    with pytest.raises(
        InfeasibleError, match=r"failure<=0.01.*the nearest that was found has failure 0\.\d+ ± 0.01"
    ) as e:
        search(rows, 0.01)
    assert e.value.conflict == ("failure",)
    assert 0.0 < e.value.least["failure"] < 0.05
    with pytest.raises(InfeasibleError, match="goes where the log never was"):
        search(rows, 0.5, judged_below=-1.0)


def test_a_rare_cost_is_no_surer_than_a_count():
    """Beside the variance of a mean of so many draws of 0 or 1; a cost that is not rare keeps its error."""
    flags = np.array([0.0, 1.0])
    rare = no_surer_than_counted(Estimate(0.01, 1e-4), flags, 400.0)
    draws = np.random.default_rng(0).random((20_000, 400)) < 0.01
    assert rare.value == 0.01
    assert rare.standard_error == pytest.approx(draws.mean(axis=1).std(), rel=0.03)
    assert no_surer_than_counted(Estimate(0.3, 1e-4), flags, 400.0).standard_error == 1e-4
    assert no_surer_than_counted(Estimate(0.01, 0.2), flags, 400.0).standard_error == 0.2
    never = no_surer_than_counted(Estimate(-0.02, 1e-4), flags, 400.0)
    assert never.value == 0.0
    assert never.standard_error == pytest.approx((1 / 400 * 399 / 400 / 400) ** 0.5)
    assert no_surer_than_counted(Estimate(5.0, None), np.full(3, 5.0), 400.0) == Estimate(5.0, None)


def test_prices_are_paid_on_rewards(rows):
    both = [parse("failure<=0.1"), parse("failure>=0.01")]
    paid = priced(rows, both, np.array([3.0, 1.0]))
    naive = [r - 3.0 * c + 1.0 * c for r, c in zip(rows.r, rows.costs["failure"], strict=True)]
    assert paid.r.tolist() == pytest.approx(naive)


@pytest.mark.parametrize(
    ("given", "said"), [("speed<=1", "no cost of this log; its costs are 'failure'"), (3, "needs a table")]
)
def test_limits_that_cannot_be_are_named(rows, given, said):
    with pytest.raises(LogError, match=said):
        limits_on(rows, given)
