"""Houses that have seen different states and actions: against one log with all their rows, read in the usual way."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

import dualq
from dualq.offline.together.agreement import Common, agreed
from dualq.offline.together.network import Network

COLUMNS = {"state": ["ward", "stay"], "action": "drug", "reward": "gain", "next_state": ["ward2", "stay2"]}
BINS = {"stay": [2.0, 10.0]}  # as words "< 2" would stand before ">= 10" and that before "[2, 10)"


def house(k: int, rows: int = 60) -> pd.DataFrame:
    """Each house has wards of its own and one that all have, drugs of its own and one that all have."""
    rng = np.random.default_rng(k)
    wards, drugs = np.array(["all", f"w{9 - k}"]), np.array(["none", f"d{k % 3}"])
    stays = rng.integers(0, 14 if k else 5, size=(2, rows)).astype(float)  # the first house has no long stays
    picked = rng.integers(2, size=(3, rows))
    return pd.DataFrame(
        {
            "ward": wards[picked[0]],
            "stay": stays[0],
            "drug": drugs[picked[1]],
            "gain": rng.integers(-8, 8, size=rows) / 4,
            "ward2": wards[picked[2]],
            "stay2": stays[1],
        }
    )


def read(frame: pd.DataFrame, **more) -> dualq.TableLog:
    return dualq.read_log(frame, bins=BINS | more.pop("bins", {}), reward_range=(-2, 2), **COLUMNS, **more)


@pytest.mark.parametrize(("share", "most"), [("counts", 10**5), ("masked counts", 10**5), ("masked counts", 10)])
def test_the_labels_of_all_houses_are_those_of_one_log(share: str, most: int, monkeypatch):
    monkeypatch.setattr("dualq.offline.together.agents.MOST_DENSE", most)  # 10: the pattern must be agreed on
    frames = [house(k) for k in range(4)]
    wanted = dualq.learn(read(pd.concat(frames)), discount=0.9, certificate=None)
    logs = [read(frame) for frame in frames]
    assert len({log.counts().shape for log in logs}) > 1
    net = Network.ring(5, loss=0.2)
    together = dualq.learn_together([*logs, None], net, share=share, discount=0.9, certificate=None)
    for fit in together.fits:
        assert isinstance(fit, dualq.Fit)
        assert (fit.counts.states, fit.counts.actions) == (wanted.counts.states, wanted.counts.actions)
        for name in ("s", "a", "s_next", "n", "reward_sum", "reward_square_sum"):
            assert np.array_equal(getattr(fit.counts, name), getattr(wanted.counts, name)), name
        assert np.array_equal(fit.solution.Q, wanted.solution.Q)
    assert "the labels of its states and actions" in together.revealed[0]
    assert "labels" not in together.revealed[4]  # it has none to tell


def test_iterates_among_the_labels_of_all():
    frames = [house(k, 200) for k in range(3)]
    one = read(pd.concat(frames))
    exact, seen = dualq.solve(one.counts().mdp(0.8)), one.counts().visits > 0
    fit = dualq.learn_together([read(f) for f in frames], Network.ring(3), share="iterates", discount=0.8).fits[1]
    assert isinstance(fit, dualq.IterateFit)
    assert (fit.policy.states, fit.policy.actions) == (one.states, one.actions)
    np.testing.assert_allclose(fit.Q[seen], exact.Q[: len(one.states)][seen], atol=1e-7)


def test_a_house_that_is_left_out_takes_its_labels_with_it():
    frames = [house(k) for k in range(4)]
    net = Network.complete(4, away={3: [(1, None)]})
    together = dualq.learn_together([read(f) for f in frames], net, discount=0.9, patience=15, certificate=None)
    assert together.left_out == (3,)
    assert together.fits[0].counts.states == read(pd.concat(frames[:3])).states


def test_available_actions_of_all_houses():
    frames = [house(k) for k in range(3)]
    given = {"available": {("w9", "< 2"): ["none", "d0"], ("all", "< 2"): ["none", "d0", "d1", "d2"]}}
    per_house = [
        {"available": {("w9", "< 2"): ["none", "d0"]}},
        {"available": {("all", "< 2"): ["none", "d1"]}},
        {"available": {("all", "< 2"): ["none", "d2"]}},
    ]
    wanted = dualq.learn(read(pd.concat(frames), **given), discount=0.9)
    logs = [read(frame, **more) for frame, more in zip(frames, per_house, strict=True)]
    fit = dualq.learn_together(logs, Network.ring(3), discount=0.9).fits[0]
    assert fit.certificate.upper == wanted.certificate.upper


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: f.assign(drug=1), r"agent 1: its action column 'drug' holds whole numbers \(1\); .* words"),
        (lambda f: f.assign(ward=True, ward2=False), r"agent 1: its state column 'ward' holds .* \((True|False)\)"),
    ],
)
def test_labels_of_another_type_are_refused_with_the_agent(change, said: str):
    frames = [house(0), change(house(1)), house(2)]
    with pytest.raises(dualq.LogError, match=said):
        dualq.learn_together([read(frame) for frame in frames], Network.ring(3), discount=0.9)


def test_bins_and_columns_that_differ_are_refused_with_the_agent():
    logs = [read(house(k)) for k in range(3)]
    cut = dualq.read_log(house(2), bins={"stay": 3}, reward_range=(-2, 2), **COLUMNS)
    with pytest.raises(dualq.LogError, match=r"agent 2: its column 'stay' is cut at .* give all logs the same edges"):
        dualq.learn_together([*logs[:2], cut], Network.ring(3))
    named = house(1).rename(columns={"drug": "pill"})
    other = dualq.read_log(named, bins=BINS, reward_range=(-2, 2), **(COLUMNS | {"action": "pill"}))
    with pytest.raises(dualq.LogError, match=r"agent 1: its columns are .*pill.*; those of agent 0 are .*drug"):
        dualq.learn_together([logs[0], other, logs[2]], Network.ring(3))
    with_them = read(house(1), available={("all", "< 2"): ["none", "d1"]})
    with pytest.raises(dualq.LogError, match=r"agent 1: it says which actions are available; agent 0 does not"):
        dualq.learn_together([logs[0], with_them, logs[2]], Network.ring(3))


def test_which_actions_exist_is_put_together_and_a_contradiction_is_named():
    def told(states: list[str], actions: list[str], available: list[list[int]]) -> dict:
        mask = np.array(available, bool)
        return Common(dualq.Labels(states), dualq.Labels(actions, "action"), {}, available=mask).words()

    one, two = told(["x", "y"], ["a", "b"], [[1, 0], [1, 1]]), told(["x", "z"], ["a", "c"], [[1, 0], [0, 1]])
    found = agreed({0: one, 1: two})
    # in x both list what there is; in y one lists all that it knows, so c may exist; in z the other lists c alone
    assert found.available.tolist() == [[True, False, False], [True, True, True], [False, False, True]]
    with pytest.raises(dualq.LogError, match=r"agent 3: .* action='b' in state='x'"):
        agreed({0: one, 3: told(["x"], ["a", "b"], [[1, 1]])})


def test_numbers_that_are_no_labels_are_refused_with_the_agent():
    rng = np.random.default_rng(0)
    columns = {"state": "x", "action": "a", "next_state": "y"}
    plain = {"x": [0, 1] * 50, "a": ["go"] * 100, "reward": [1.0] * 100, "y": [1, 0] * 50}
    frame = plain | {"x": rng.random(100), "y": rng.random(100)}
    with pytest.raises(dualq.LogError, match=r"agent 1: its state 'x' is a number .* bins=\{'x': \[1, 2, 5\]\}"):
        dualq.learn_together([plain, frame], Network.ring(2), **columns)


def test_labels_keep_their_types_on_the_way():
    days = [datetime.date(2024, 1, day) for day in (3, 1)]
    own = Common(dualq.Labels(days, "day"), dualq.Labels([(1, "a"), (2, "b")], ("dose", "drug")), {})
    other = Common(dualq.Labels([datetime.date(2023, 5, 5)], "day"), dualq.Labels([(2, "a")], ("dose", "drug")), {})
    found = agreed({4: own.words(), 2: other.words()})
    assert list(found.states) == [datetime.date(2023, 5, 5), *reversed(days)]
    assert list(found.actions) == [(1, "a"), (2, "a"), (2, "b")]
    assert list(agreed({1: own.words(), 3: own.words()}).states) == days  # all alike: the order that they have
    numbered = [Common(dualq.Labels(k, "s"), dualq.Labels(2, "a"), {}).words() for k in (3, 5)]
    assert agreed(dict(enumerate(numbered))).states == dualq.Labels(5, "s")
