"""Streams of rows against the probabilities that they are drawn from.

Statistical tests are seeded. Each rejects a correct stream with probability FALSE_ALARM at most (over seeds).
"""

import dataclasses

import numpy as np
import pytest
from naive import all_rows, dense_transitions, distributions, is_end, masked_model, scattered
from scipy.stats import chi2, kstest

from dualq import problems
from dualq.base.errors import LogError
from dualq.logs.counts import Counts
from dualq.model.mdp import MDP
from dualq.model.policy import TablePolicy
from dualq.worlds.simulator import Simulator, settling, wandering
from dualq.worlds.streams import Counted, Recorded, Rows, Simulated, UniformPairs
from dualq.worlds.walks import cumulated_rows, find

FALSE_ALARM = 1e-6


def chi_square(counts, expected):
    """p-value of counts against expected counts, cells of expectation zero left out (they must be empty)."""
    counts, expected = np.ravel(counts), np.ravel(expected)
    assert counts[expected == 0.0].sum() == 0
    counts, expected = counts[expected > 0.0], expected[expected > 0.0]
    return chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size)  # one degree too many: only more cautious


def counted(shape, *columns):
    counts = np.zeros(shape)
    np.add.at(counts, columns, 1.0)
    return counts


def masked():
    mdp = masked_model()
    theta = np.where(mdp.available, [[0.2, 0.5, 0.3]], 0.0)
    return Simulator(mdp, TablePolicy(theta / theta.sum(axis=1, keepdims=True)), np.array([0.5, 0.3, 0.2, 0.0]), "test")


def episodes():
    """Five states of which two end episodes (one of them a possible start), and one is absorbing but pays."""
    rng = np.random.default_rng(9)
    P = rng.dirichlet(np.ones(5), (5, 2))
    P[2:] = np.eye(5)[2:, None]
    P[:2, :, 4] = 0.0  # what pays for ever is never reached, or nothing would end
    P[:2] /= P[:2].sum(axis=2, keepdims=True)
    rewards = rng.random((5, 2))
    rewards[2:4] = 0.0
    mdp = MDP(P, rewards, 0.9)
    return Simulator(mdp, TablePolicy([[0.3, 0.7]] * 5), np.array([0.5, 0.3, 0.2, 0.0, 0.0]), "test")


def skewed(states, actions, branching):
    """Behaviours far from uniform, some of whose actions are never taken."""
    sim = problems.garnet(states, actions, branching, seed=2)
    theta = np.random.default_rng(3).dirichlet(np.full(actions, 0.5), states)
    theta[:, [0, 3, actions - 1]] = 0.0
    return dataclasses.replace(sim, behaviour=TablePolicy(theta / theta.sum(axis=1, keepdims=True)))


def drifting(drift, rate):
    return dataclasses.replace(problems.two_state(), drift=drift(TablePolicy([[0.9, 0.1], [0.1, 0.9]]), rate))


SIMULATORS = {
    "two states": problems.two_state,
    "masked": masked,
    "garnet": lambda: problems.garnet(6, 3, 2, seed=1),
    "seven actions": lambda: skewed(6, 7, 3),
    "twenty actions": lambda: skewed(25, 20, 18),
    "episodes": episodes,
    "drifting episodes": lambda: dataclasses.replace(episodes(), drift=settling(TablePolicy([[0.9, 0.1]] * 5), 0.5)),
    "grid": lambda: problems.grid_world(2),
    "settling": lambda: drifting(settling, 0.3),
    "wandering": lambda: drifting(wandering, 2.0),
}
STREAMS = {
    "walk": Simulated,
    "iid": lambda sim: Simulated(sim, iid=True),
    "uniform": UniformPairs,
}


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("name", SIMULATORS)
def test_successors_come_with_their_probabilities(name, kind):
    sim = SIMULATORS[name]()
    rows = all_rows(STREAMS[kind](sim), 50_000)
    S, A = sim.mdp.rewards.shape
    counts = counted((S, A, S), rows.s, rows.a, rows.s_next)
    assert chi_square(counts, dense_transitions(sim.mdp) * counts.sum(axis=2, keepdims=True)) > FALSE_ALARM
    over = [s for s in range(S) if is_end(sim.mdp, dense_transitions(sim.mdp), s)]
    np.testing.assert_array_equal(rows.ended, np.isin(rows.s_next, over) & (kind != "uniform"))
    if kind == "walk":
        goes_on = ~rows.ended[:-1]
        np.testing.assert_array_equal(rows.s[1:][goes_on], rows.s_next[:-1][goes_on])
        anew = np.bincount(rows.s[1:][~goes_on], minlength=S)
        assert not over or chi_square(anew, sim.start * anew.sum()) > FALSE_ALARM


def test_what_cannot_happen_is_never_drawn():
    cumulated = cumulated_rows(np.array([0, 4, 6]), np.array([0.0, 0.4, 0.6 - 1e-9, 0.0, 1.0, 0.0]))
    largest = np.nextafter(1.0, 0.0)
    assert [find(cumulated, 0, 4, u) for u in (0.0, np.nextafter(0.4, 0.0), 0.4, largest)] == [1, 1, 2, 2]
    assert [find(cumulated, 4, 6, u) for u in (0.0, largest)] == [4, 4]


@pytest.mark.parametrize("name", ["two states", "masked", "garnet", "seven actions", "twenty actions", "episodes"])
def test_a_walk_acts_as_its_behaviour(name):
    sim = SIMULATORS[name]()
    rows = all_rows(Simulated(sim), 50_000)
    counts = counted(sim.mdp.rewards.shape, rows.s, rows.a)
    assert chi_square(counts, sim.behaviour.matrix * counts.sum(axis=1, keepdims=True)) > FALSE_ALARM


@pytest.mark.parametrize("kind", ["walk", "iid"])
@pytest.mark.parametrize("name", SIMULATORS)
def test_pairs_at_step_k_come_with_tau_k(name, kind):
    """(s_k, a_k) over 5,000 generators, for the first steps."""
    sim = SIMULATORS[name]()
    stream, seeds, steps = STREAMS[kind](sim), 5_000, 6
    S, A = sim.mdp.rewards.shape
    counts = np.zeros((steps, S, A))
    rows = Rows.empty(steps)
    state = stream.init(0)
    for seed in range(seeds):  # other seeds by the generator's state: `init` hashes, which takes longer than the walk
        fresh = type(state)(*(array.copy() for array in state))
        fresh.rng[0] = np.uint64((seed + 1) * 0x5851F42D4C957F2D % 2**64)
        stream.fill(fresh, rows)
        counts[np.arange(steps), rows.s, rows.a] += 1.0
    for k, tau in enumerate(distributions(sim, steps)):
        np.testing.assert_allclose(tau, sim.distribution(k), atol=1e-14)
        assert chi_square(counts[k], seeds * tau) > FALSE_ALARM / steps


@pytest.mark.parametrize("name", ["two states", "garnet", "settling", "wandering", "episodes"])
def test_independent_rows_come_with_tau_k_in_the_long_run(name):
    """Counts over 20,000 steps against the sum of tau_k; they vary less than if all had come from the mean of tau_k."""
    sim = SIMULATORS[name]()
    rows = all_rows(Simulated(sim, iid=True), 20_000)
    expected = np.sum(distributions(sim, 20_000), axis=0)
    assert chi_square(counted(expected.shape, rows.s, rows.a), expected) > FALSE_ALARM


@pytest.mark.parametrize("name", ["settling", "wandering"])
def test_a_drifting_walk_acts_as_its_behaviour_of_the_moment(name):
    """All of a walk, and its last quarter, against theta_k summed."""
    sim = SIMULATORS[name]()
    steps = 20_000
    rows = all_rows(Simulated(sim), steps)
    expected = np.zeros((2, 2))
    for k, s in enumerate(rows.s):  # given s_k, a_k is independent of all before
        expected[s] += sim.behaviour_at(k)[s]
    assert chi_square(counted((2, 2), rows.s, rows.a), expected) > FALSE_ALARM
    late = slice(steps - 5_000, steps)
    expected = np.zeros((2, 2))
    for k, s in zip(range(steps - 5_000, steps), rows.s[late], strict=True):
        expected[s] += sim.behaviour_at(k)[s]
    assert chi_square(counted((2, 2), rows.s[late], rows.a[late]), expected) > FALSE_ALARM


def test_uniform_pairs_are_uniform():
    sim = masked()
    rows = all_rows(UniformPairs(sim), 50_000)
    counts = counted(sim.mdp.rewards.shape, rows.s, rows.a)
    n = sim.mdp.available.sum(axis=1, keepdims=True)
    assert chi_square(counts, np.where(sim.mdp.available, 50_000 / (4 * n), 0.0)) > FALSE_ALARM
    again = counted((4, 4), rows.s[1:], rows.s_next[:-1])  # no walk: s_{k+1} knows nothing of s'_k
    assert chi_square(again, np.outer(np.full(4, 0.25), again.sum(axis=0))) > FALSE_ALARM


@pytest.mark.parametrize("kind", STREAMS)
def test_rewards_are_uniform_in_their_range(kind):
    sim = problems.grid_world(2)
    rows = all_rows(STREAMS[kind](sim), 20_000)
    goal = rows.s_next == 1
    assert kstest(rows.r[goal], "uniform", args=(1.0, 0.2)).pvalue > FALSE_ALARM / 2
    assert kstest(rows.r[~goal], "uniform", args=(0.0, 0.2)).pvalue > FALSE_ALARM / 2


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("name", ["two states", "masked"])
def test_rewards_that_are_sure_are_the_expected_ones(name, kind):
    sim = SIMULATORS[name]()
    rows = all_rows(STREAMS[kind](sim), 1000)
    np.testing.assert_array_equal(rows.r, sim.mdp.rewards[rows.s, rows.a])


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("name", SIMULATORS)
def test_the_same_rows_whatever_the_chunks(name, kind):
    stream = STREAMS[kind](SIMULATORS[name]())
    whole = all_rows(stream, 2000, seed=3)
    for chunk in (1, 7, 1000):
        state, parts = stream.init(3), []
        for k in range(0, 2000, chunk):
            rows = Rows.empty(min(chunk, 2000 - k))
            stream.fill(state, rows)
            parts.append(rows)
        for i, column in enumerate(whole):
            assert np.concatenate([rows[i] for rows in parts]).tobytes() == column.tobytes()
        assert state.k[0] == 2000
    assert not np.array_equal(whole.s, all_rows(stream, 2000, seed=4).s)


def test_a_recording_is_read_in_its_order_and_ends():
    rng = np.random.default_rng(0)
    columns = (
        rng.integers(0, 5, 25),
        rng.integers(0, 3, 25),
        rng.random(25),
        rng.integers(0, 5, 25),
        rng.random(25) < 0.5,
    )
    stream = Recorded(*columns)
    state, seen = stream.init(0), []
    while True:
        rows = Rows.empty(10)
        count = stream.fill(state, rows)
        seen.append(rows.first(count))
        if count < 10:
            break
    assert [part.s.size for part in seen] == [10, 10, 5]
    for i, column in enumerate(columns):
        np.testing.assert_array_equal(np.concatenate([part[i] for part in seen]), column)
    assert stream.fill(state, Rows.empty(10)) == 0
    assert not Recorded(*columns[:4]).rows.ended.any()


def test_columns_of_different_length_are_refused():
    with pytest.raises(LogError, match="3, 2, 3, 3, 3 rows; they must have the same number"):
        Recorded([0, 1, 0], [0, 0], [0.0, 0.0, 1.0], [1, 0, 1])


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_rows_that_pass_are_counted(size, monkeypatch):
    monkeypatch.setattr(Counted, "BUFFER", 50)
    mdp, whole = masked_model(), scattered(masked_model(), 1000)
    stream = Counted(whole, mdp.states, mdp.actions)
    for _ in range(2):  # the second begins anew
        state, rows = stream.init(0), Rows.empty(size)
        while stream.fill(state, rows):
            pass
        found = stream.counts
        wanted = Counts.from_arrays(*whole.rows, states=mdp.states, actions=mdp.actions)
        for name in ("s", "a", "s_next", "ended", "n"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
        np.testing.assert_allclose(found.reward_sum, wanted.reward_sum, rtol=1e-12)
        assert found.reward_range == wanted.reward_range
        assert not found.range_known
