"""Weights and ranges that users give: what is taken, and that everybody who takes some says the same of a bad one."""

from __future__ import annotations

import numpy as np
import pytest

import dualq
from dualq import LogError, ModelError, problems
from dualq.base import Labels, as_distribution, checked_interval, checked_range, checked_weights
from dualq.logs import start_weights
from dualq.offline.careful.model import careful_model
from dualq.worlds import Simulator

TWO = problems.two_state()
LOG = TWO.record(200, seed=0)
COUNTS = LOG.counts()
STATES = Labels(["dry", "wet", "frost"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (2.0, [2.0, 2.0, 2.0]),
        ([0, 1, 3], [0.0, 1.0, 3.0]),
        ({"wet": 1, "dry": "0.5"}, [0.5, 1.0, 0.0]),
    ],
)
def test_weights_are_taken_per_state_by_label_or_one_for_all(given, expected):
    weights = checked_weights("start", given, STATES)
    assert weights.tolist() == expected
    assert as_distribution("start", weights).tolist() == (np.array(expected) / sum(expected)).tolist()


TAKERS = {
    "a model": lambda start: TWO.mdp.checked_start(start),
    "a simulator": lambda start: Simulator(TWO.mdp, TWO.behaviour, start, "test"),
    "a log": lambda start: start_weights(LOG, dict(enumerate(start))),
    "the careful model": lambda start: careful_model(COUNTS, 0.9, start),
    "the certificate": lambda start: dualq.certificate_of(COUNTS, TWO.behaviour, 0.9, start),
}


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_everybody_says_the_same_of_a_bad_weight(taker, bad):
    right = f"the weight of state=1 is {bad:g}; weights must be finite and not negative"
    with pytest.raises((ModelError, LogError)) as raised:
        TAKERS[taker]([1.0, bad])
    assert str(raised.value).endswith(f": {right}")
    assert raised.value.argument in ("start", "weights")
    assert raised.value.state == 1
    assert raised.value.value == pytest.approx(bad, nan_ok=True)


@pytest.mark.parametrize("taker", ["a model", "a simulator", "the careful model", "the certificate"])
def test_everybody_says_the_same_of_too_many_weights(taker):
    with pytest.raises((ModelError, LogError), match=r"have shape \(5,\); give .* one for each of 2 states"):
        TAKERS[taker]([0.2] * 5)


@pytest.mark.parametrize("taker", ["a log", "the careful model", "the certificate"])
def test_somewhere_must_be_some_weight(taker):
    with pytest.raises((ModelError, LogError), match="start: all weights are zero; some state must"):
        TAKERS[taker]([0.0, 0.0])


ROWS = {"state": [0, 1, 0], "action": [0, 1, 0], "reward": [1.0, 2.0, 3.0], "next_state": [1, 0, 0], "late": [0, 1, 0]}
ARRAYS = [ROWS[name] for name in ("state", "action", "reward", "next_state")]
RANGES = {
    "a table": lambda given: dualq.read_log(ROWS, reward_range=given),
    "a cost of a table": lambda given: dualq.read_log(ROWS, costs=["late"], cost_ranges={"late": given}),
    "arrays": lambda given: dualq.ArrayLog(*ARRAYS, 2, 2, reward_range=given),
    "a cost of arrays": lambda given: dualq.ArrayLog(
        *ARRAYS, 2, 2, costs={"late": ROWS["late"]}, cost_ranges={"late": given}
    ),
    "a model": lambda given: dualq.MDP(np.ones((1, 1, 1)), [[1.0]], 0.9, reward_bound=given),
}


@pytest.mark.parametrize("taker", RANGES)
@pytest.mark.parametrize("bad", [(4.0, 0.0), (0.0, np.inf), (np.nan, 1.0)])
def test_everybody_says_the_same_of_a_bad_range(taker, bad):
    with pytest.raises((ModelError, LogError), match="it must be two finite numbers, the smaller one first") as raised:
        RANGES[taker](bad)
    assert repr(raised.value.value) in str(raised.value)


def test_an_interval_may_be_infinite_and_a_range_not():
    assert checked_interval("value_range", (0, np.inf)) == (0.0, np.inf)
    assert checked_range("range", ("1", 2)) == (1.0, 2.0)
    for given in ((2.0, 1.0), (np.nan, 1.0), 3, (1.0,), "ab"):
        with pytest.raises(ModelError, match=r"value_range is .*; it must be two numbers, the smaller one first"):
            checked_interval("value_range", given)
        with pytest.raises(LogError, match="two finite numbers"):
            checked_range("range", given, LogError)
