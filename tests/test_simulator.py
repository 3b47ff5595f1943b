"""The simulator against dense matrices, closed forms and its own model's probabilities.

Statistical tests are seeded. Each rejects a correct simulator with probability FALSE_ALARM at most (over seeds).
"""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chi2, kstest

from dualq import problems
from dualq.base.errors import ModelError
from dualq.model.mdp import MDP
from dualq.model.policy import TablePolicy
from dualq.worlds import simulator
from dualq.worlds.simulator import Simulator

FALSE_ALARM = 1e-6


def chi_square(counts, expected):
    """p-value of counts against expected counts, cells of expectation zero left out (they must be empty)."""
    counts, expected = np.ravel(counts), np.ravel(expected)
    assert counts[expected == 0.0].sum() == 0
    counts, expected = counts[expected > 0.0], expected[expected > 0.0]
    return chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size)  # one degree too many: only more cautious


def dense_chain(sim):
    """P_theta as sum_a theta_s(a) P_a(s, s'), by loops."""
    S, A = sim.mdp.rewards.shape
    P = np.zeros((S, S))
    for s in range(S):
        for a in range(A):
            for s_next, p in zip(*sim.mdp.P(s, a), strict=True):
                P[s, s_next] += sim.behaviour.matrix[s, a] * p
    return P


def dense_stationary(P):
    """The left eigenvector of eigenvalue one."""
    values, vectors = np.linalg.eig(P.T)
    v = np.real(vectors[:, np.argmin(np.abs(values - 1.0))])
    return v / v.sum()


def walker(P, behaviour=None, start=None, **rewards):
    """A simulator on a single-action chain, for tests of where it goes."""
    P = np.asarray(P, float)
    n = len(P)
    mdp = MDP(P[:, None, :], np.zeros((n, 1)), 0.9, states=[f"s{i}" for i in range(n)])
    start = np.eye(n)[0] if start is None else start
    return Simulator(mdp, TablePolicy.uniform(mdp), start, "test", episodic=False, **rewards)


class Fixed:
    """A generator that draws the given numbers."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def random(self):
        return self.numbers.pop(0)


# ---- distributions


@pytest.mark.parametrize("name", ["two_state", "grid_world", "garnet", "inventory", "queue"])
@pytest.mark.parametrize("k", [0, 1, 7])
def test_state_action_distribution_is_the_power_of_the_chain(name, k):
    sim = problems.BY_NAME[name]()
    v = np.linalg.matrix_power(dense_chain(sim).T, k) @ sim.start
    np.testing.assert_allclose(sim.state_distribution(k), v, atol=1e-14)
    np.testing.assert_allclose(sim.distribution(k), v[:, None] * sim.behaviour.matrix, atol=1e-14)
    assert not sim.distribution(k)[~sim.mdp.available].any()


@pytest.mark.parametrize("power_steps", [0, 1000])  # the linear solve, and the powers of the chain where they settle
@pytest.mark.parametrize("name", ["two_state", "grid_world", "garnet", "inventory", "queue", "machine_replacement"])
def test_stationary_is_the_left_eigenvector(monkeypatch, name, power_steps):
    monkeypatch.setattr(simulator, "POWER_STEPS", power_steps)
    sim = problems.BY_NAME[name]()
    expected = dense_stationary(dense_chain(sim))[:, None] * sim.behaviour.matrix
    np.testing.assert_allclose(sim.stationary(), expected, atol=1e-12)


@pytest.mark.parametrize("drift", [0.6, 0.4])
def test_stationary_of_a_long_walk_whose_probabilities_span_hundreds_of_decades(drift):
    n = 5000
    up = np.full(n - 1, drift)
    P = sp.diags_array([up, 1.0 - up], offsets=[1, -1], shape=(n, n)).tolil()
    P[0, 0], P[n - 1, n - 1] = 1.0 - drift, drift
    mdp = MDP(sp.csr_array(P), np.zeros((n, 1)), 0.9)
    v = Simulator(mdp, TablePolicy.uniform(mdp), np.eye(1, n, n // 2)[0], "test").stationary()[:, 0]
    ratio = drift / (1.0 - drift)  # detailed balance: v(s+1) / v(s)
    places = np.arange(n) if ratio < 1.0 else np.arange(n)[::-1]
    expected = min(ratio, 1.0 / ratio) ** places
    np.testing.assert_allclose(v, expected / expected.sum(), rtol=1e-9, atol=1e-300)


def test_stationary_of_a_circle_and_of_an_absorbing_state():
    circle = walker(np.roll(np.eye(3), 1, axis=1))
    np.testing.assert_allclose(circle.stationary()[:, 0], [1 / 3] * 3, atol=1e-14)
    absorbed = walker([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(absorbed.stationary()[:, 0], [0.0, 0.0, 1.0])


def test_stationary_that_is_not_unique_is_refused_with_the_place():
    with pytest.raises(
        ModelError, match=r"not unique: 2 sets of states are never left, .*state='s[12]' and of state='s[12]'"
    ):
        walker([[0.2, 0.4, 0.4], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]).stationary()


def test_a_transition_of_probability_zero_does_not_join_two_classes():
    P = sp.csr_array((np.array([1.0, 0.0, 1.0]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 2))
    mdp = MDP(P, np.zeros((2, 1)), 0.9)
    with pytest.raises(ModelError, match="not unique"):
        Simulator(mdp, TablePolicy.uniform(mdp), np.array([1.0, 0.0]), "test", episodic=False).stationary()


# ---- episodes


@pytest.mark.parametrize("name", ["maze", "FrozenLake-v1"])
def test_the_chain_that_begins_anew_is_that_of_its_walk(name):
    if name == "FrozenLake-v1":
        pytest.importorskip("gymnasium")
    sim = problems.maze(6, seed=1) if name == "maze" else problems.gym(name)
    S, P = sim.mdp.num_states, dense_chain(sim)
    ends = [s for s in range(S) if P[s, s] == 1.0 and not sim.mdp.rewards[s].any()]
    np.testing.assert_array_equal(np.flatnonzero(sim.ends), ends)
    for s in range(S):
        ended = P[s, ends].sum()
        P[s, ends] = 0.0
        P[s] += ended * sim.start
    np.testing.assert_allclose(sim.chain().toarray(), P, atol=1e-15)
    np.testing.assert_allclose(sim.state_distribution(9), np.linalg.matrix_power(P.T, 9) @ sim.start, atol=1e-14)
    np.testing.assert_allclose(sim.moved(sim.distribution(8)), sim.state_distribution(9), atol=1e-14)
    np.testing.assert_allclose(sim.stationary().sum(axis=1), dense_stationary(P), atol=1e-12)
    # The frequencies of a long walk: a share of a slowly mixing chain is known to a few standard errors of so many
    # episodes; seeded, and the bound is several times what was seen.
    log = sim.record(200_000)
    share = np.bincount(log.state, minlength=S) / len(log)
    assert np.abs(share - dense_stationary(P)).max() < 0.02
    assert not sim.ends[log.state].any()


def test_a_recorded_episode_has_a_number():
    pytest.importorskip("gymnasium")
    log = problems.gym("FrozenLake-v1").record(5000)
    table = log.table().to_pydict()
    number = 0
    for i, ended in enumerate(table["ended"]):
        assert table["episode"][i] == number
        number += ended
    assert number > 300
    assert problems.two_state().record(10).episode is None
    assert "episode" not in problems.two_state().record(10).table().column_names


def test_without_episodes_the_walk_stays():
    sim = dataclasses.replace(problems.maze(6, seed=1), episodic=False)
    log = sim.record(20_000)
    assert not log.ended.any()
    assert not sim.ends.any()
    assert sim.mdp.absorbing[log.state[-1]]


def test_what_is_absorbing_and_pays_is_no_end():
    P = np.eye(3)[:, None]
    mdp = MDP(P, [[0.0], [1.0], [0.0]], 0.9, reward_bound=(-1.0, 1.0))
    fields = mdp, TablePolicy.uniform(mdp), np.full(3, 1 / 3), "test"
    assert Simulator(*fields).ends.tolist() == [True, False, True]
    low, high = np.array([-1.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.0])  # 0 on average, and not always
    assert Simulator(*fields, low, high).ends.tolist() == [False, False, True]


# ---- draws


def test_step_draws_successors_with_their_probabilities():
    sim = problems.garnet(6, 3, 4, seed=3)
    rng = np.random.default_rng(0)
    draws = 500
    S, A = sim.mdp.rewards.shape
    counts, expected = np.zeros((S, A, S)), np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            successors, probabilities = sim.mdp.P(s, a)
            expected[s, a, successors] = draws * probabilities
            for _ in range(draws):
                reward, s_next = sim.step(s, a, rng)
                assert reward == sim.mdp.rewards[s, a]
                counts[s, a, s_next] += 1
    assert chi_square(counts, expected) > FALSE_ALARM


def test_reset_and_behave_draw_from_start_and_behaviour():
    sim = problems.two_state()
    rng = np.random.default_rng(1)
    draws = 4000
    starts = np.bincount([sim.reset(rng) for _ in range(draws)], minlength=2)
    acts = np.array([np.bincount([sim.behave(s, rng) for _ in range(draws)], minlength=2) for s in range(2)])
    assert chi_square(starts, draws * sim.start) > FALSE_ALARM / 2
    assert chi_square(acts, draws * sim.behaviour.matrix) > FALSE_ALARM / 2


@pytest.mark.parametrize(("action", "low"), [("right", 1.0), ("left", 0.0)])
def test_rewards_are_uniform_in_their_range(action, low):
    sim = problems.grid_world(2)
    s, a = sim.mdp.states.index((0, 0)), sim.mdp.actions.index(action)  # to the right of the top left lies the goal
    rng = np.random.default_rng(2)
    rewards = [sim.step(s, a, rng)[0] for _ in range(3000)]
    assert kstest(rewards, "uniform", args=(low, 0.2)).pvalue > FALSE_ALARM


def test_a_successor_listed_twice_pays_each_reward_in_its_share():
    P = sp.csr_array((np.array([0.25, 0.75]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    paid = np.array([-1.0, 3.0])
    mdp = MDP(P, [[2.0]], 0.5, reward_bound=(-1.0, 3.0))
    sim = Simulator(mdp, TablePolicy.uniform(mdp), np.array([1.0]), "test", paid, paid)
    rng = np.random.default_rng(4)
    rewards = np.array([sim.step(0, 0, rng)[0] for _ in range(2000)])
    assert set(rewards) == {-1.0, 3.0}
    assert chi_square([(rewards < 0).sum(), (rewards > 0).sum()], [500, 1500]) > FALSE_ALARM


def test_the_extremes_of_the_generator_never_draw_what_cannot_happen():
    P = sp.csr_array((np.array([0.0, 0.4, 0.6, 0.0]), np.array([0, 1, 2, 3]), np.array([0, 4])), shape=(1, 4))
    P = sp.csr_array(sp.vstack([P, sp.eye_array(4).tocsr()[1:]]))
    mdp = MDP(P, np.zeros((4, 1)), 0.5)
    sim = Simulator(mdp, TablePolicy.uniform(mdp), np.array([0.0, 0.5, 0.5, 0.0]), "test")
    largest = np.nextafter(1.0, 0.0)
    assert sim.step(0, 0, Fixed(0.0))[1] == 1
    assert sim.step(0, 0, Fixed(0.4))[1] == 2  # [0, 0.4) is state 1, [0.4, 1) state 2
    assert sim.step(0, 0, Fixed(largest))[1] == 2
    assert [sim.reset(Fixed(u)) for u in (0.0, largest)] == [1, 2]


def test_a_second_number_is_drawn_only_where_the_reward_is_random():
    sim = problems.grid_world(2)
    rng = Fixed(0.5, 0.25)
    assert sim.step(0, sim.mdp.actions.index("right"), rng) == (1.0 + 0.25 * (1.2 - 1.0), 1)
    assert rng.numbers == []
    rng = Fixed(0.9, 0.25)
    queue = problems.queue()
    assert queue.step(0, 0, rng) == (1.0, 1)
    assert rng.numbers == [0.25]


def test_a_trajectory_visits_pairs_as_the_distributions_say():
    """Frequencies of (s_k, a_k) over independent runs against tau_k."""
    sim = problems.two_state()
    rng = np.random.default_rng(5)
    runs, k = 4000, 3
    counts = np.zeros((2, 2))
    for _ in range(runs):
        s = sim.reset(rng)
        for _ in range(k):
            _, s = sim.step(s, sim.behave(s, rng), rng)
        counts[s, sim.behave(s, rng)] += 1
    assert chi_square(counts, runs * sim.distribution(k)) > FALSE_ALARM


# ---- checks at the border


def test_an_action_that_does_not_exist_is_refused():
    sim = problems.queue(capacity=5)
    with pytest.raises(ModelError, match="action='accept' does not exist in customers=5"):
        sim.step(5, 0, np.random.default_rng(0))
    with pytest.raises(ModelError, match="no state -1 with action 0; states are 0 to 5"):
        sim.step(-1, 0, np.random.default_rng(0))
    with pytest.raises(ModelError, match=r"no state 0 with action 2; .*actions 0 to 1"):
        sim.step(0, 2, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": [0.5, 0.2, 0.3]}, r"start: the weights have shape \(3,\); .* for each of 2 states"),
        ({"start": [0.5, 0.4]}, "start sums to 0.9; it must sum to 1"),
        ({"start": [1.5, -0.5]}, "start: the weight of state=1 is -0.5; weights must be finite and not negative"),
        ({"start": [np.nan, 1.0]}, "start: the weight of state=0 is nan"),
        ({"behaviour": TablePolicy([[1.0, 0.0]])}, r"policy is for \(1, 2\) states and actions"),
        ({"reward_low": np.zeros(8)}, "must be given together"),
        ({"reward_low": np.zeros(3), "reward_high": np.ones(3)}, r"reward_low has shape \(3,\); it must be \(8,\)"),
        ({"reward_low": np.ones(8), "reward_high": np.full(8, 4.0)}, r"drawn from \[1, 4\]; .* \[0, 3\]"),
        ({"reward_low": np.full(8, 2.0), "reward_high": np.ones(8)}, r"\(state=0, action=0\) to state=0 .* \[2, 1\]"),
        ({"reward_low": np.full(8, np.nan), "reward_high": np.ones(8)}, r"drawn from \[nan, 1\]"),
        (
            {"reward_low": np.repeat([3, 1, 1, 1.0], 2), "reward_high": np.repeat([3, 3, 1, 2.0], 2)},
            r"drawn in \(state=1, action=1\) are 1.5 on average; the model's expected reward there is 1",
        ),
    ],
)
def test_bad_simulators_are_refused_with_the_place(change, message):
    two = problems.two_state()
    fields = {"mdp": two.mdp, "behaviour": two.behaviour, "start": two.start, "source": "test"}
    with pytest.raises(ModelError, match=message):
        Simulator(**(fields | change))


def test_a_behaviour_outside_of_the_mask_is_refused():
    queue = problems.queue(capacity=2)
    always = TablePolicy(np.tile([1.0, 0.0], (3, 1)), queue.mdp.states, queue.mdp.actions)
    with pytest.raises(ModelError, match="takes action='accept' in customers=2, where it does not exist"):
        Simulator(queue.mdp, always, queue.start, "test")


def test_a_negative_number_of_steps_is_refused():
    with pytest.raises(ModelError, match="k is -1"):
        problems.two_state().distribution(-1)


def test_what_the_caller_does_afterwards_changes_nothing():
    two = problems.two_state()
    start, low = np.array([0.4, 0.6]), np.repeat(two.mdp.rewards.ravel(), 2)
    sim = Simulator(two.mdp, two.behaviour, start, "test", low, low)
    start[:], low[:] = 9.0, 9.0
    np.testing.assert_array_equal(sim.start, [0.4, 0.6])
    assert sim.step(0, 0, np.random.default_rng(0))[0] == 3.0
    for array in (sim.start, sim.reward_low):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    sim.state_distribution(0)[0] = 9.0  # a copy
    np.testing.assert_array_equal(sim.start, [0.4, 0.6])


def test_costs_are_recorded_beside_the_rows():
    sim = problems.garnet(5, 2, 3, seed=0)
    rng = np.random.default_rng(0)
    by_pair, by_transition = rng.random((5, 2)), rng.random((5, 2, 5))
    log = sim.record(300, seed=4, costs={"fuel": by_pair, "noise": by_transition})
    plain = sim.record(300, seed=4)
    np.testing.assert_array_equal(log.next_state, plain.next_state)
    for i in range(300):
        s, a, t = log.state[i], log.action[i], log.next_state[i]
        assert log.costs["fuel"][i] == by_pair[s, a]
        assert log.costs["noise"][i] == by_transition[s, a, t]
    assert log.cost_ranges["fuel"] == (by_pair.min(), by_pair.max())
    assert log.cost_ranges_known == {"fuel", "noise"}
    with pytest.raises(ModelError, match=r"the cost 'fuel' has shape \(5,\); it must be \(5, 2\), one per pair, or"):
        sim.record(10, costs={"fuel": np.ones(5)})
    with pytest.raises(ModelError, match="the cost 'fuel' is not finite everywhere"):
        sim.record(10, costs={"fuel": np.full((5, 2), np.nan)})
