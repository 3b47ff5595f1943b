"""Policies: values and occupancies against dense solves, closed forms and simulation; labels at the border."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import policy_occupancy, policy_value
from strategies import mdps, weights_for

from dualq import MDP, Labels, TablePolicy, problems
from dualq.base.errors import LogError, ModelError
from dualq.model import chains


@st.composite
def mdp_and_policy(draw):
    mdp = draw(mdps(max_states=6))
    raw = np.array(draw(st.lists(st.integers(0, 3), min_size=mdp.rewards.size, max_size=mdp.rewards.size)))
    occupancy = np.where(mdp.available, raw.reshape(mdp.rewards.shape), 0)
    return mdp, TablePolicy.from_occupancy(occupancy, mdp.available), draw(weights_for(mdp))


@given(case=mdp_and_policy())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_value_and_occupancy_against_dense_solves(case):
    mdp, policy, eta = case
    value, occupancy = policy.value(mdp), policy.occupancy(mdp, eta)
    np.testing.assert_allclose(value, policy_value(mdp, policy.matrix), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(occupancy, policy_occupancy(mdp, policy.matrix, eta), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose((occupancy * mdp.rewards).sum(), eta @ value, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(occupancy.sum(), eta.sum() / (1 - mdp.discount), rtol=1e-10)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize(
    ("chain", "bandwidth"),
    [
        ("line", "narrow"),
        ("maze", "wide"),
        ("garnet", "wide"),
    ],
)
def test_both_ways_to_solve_a_chain_agree_with_scipy(chain, bandwidth, transpose):
    simulator = {
        "line": problems.chain(400, discount=0.999),
        "maze": problems.maze(20, discount=0.999),
        "garnet": problems.garnet(400, 3, 5, discount=0.999, seed=0),
    }[chain]
    P, _ = simulator.behaviour.chain(simulator.mdp)
    rng = np.random.default_rng(0)
    P, b = P[rng.permutation(P.shape[0])][:, rng.permutation(P.shape[0])], rng.random(P.shape[0])
    A = sp.eye_array(P.shape[0]) - 0.999 * (P.T if transpose else P)
    x = chains.solve_chain(P, 0.999, b, transpose)
    np.testing.assert_allclose(x, sp.linalg.spsolve(sp.csc_array(A), b), rtol=1e-9)


def test_a_solve_in_pieces_has_the_same_bits(monkeypatch):
    P, _ = (simulator := problems.garnet(400, 3, 5, discount=0.999, seed=0)).behaviour.chain(simulator.mdp)
    b = np.random.default_rng(0).random(400)
    whole = chains.solve_chain(P, 0.999, b)
    monkeypatch.setattr(chains, "AT_A_TIME", 1)  # two sweeps a call
    assert chains.solve_chain(P, 0.999, b).tobytes() == whole.tobytes()


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("discount", [0.0, 0.9, 0.99999, 1.0 - 1e-9])
def test_few_states_are_solved_as_exactly_as_many(discount, transpose, monkeypatch):
    P, _ = problems.garnet(40, 3, 5, seed=0).behaviour.chain(problems.garnet(40, 3, 5, seed=0).mdp)
    b = np.random.default_rng(0).random(40)
    dense = chains.solve_chain(P, discount, b, transpose)
    monkeypatch.setattr(chains, "SMALL", 0)
    # rows of P add up to one, which is known; columns do not, and the system is as ill-conditioned as it looks
    rtol = 1e-14 / (1.0 - discount) if transpose else 1e-13 / (1.0 - discount) ** 0.5
    np.testing.assert_allclose(dense, chains.solve_chain(P, discount, b, transpose), rtol=max(rtol, 1e-13))


def test_a_stalled_iteration_falls_back_to_the_direct_solver(monkeypatch):
    P, _ = problems.maze(12).behaviour.chain(problems.maze(12).mdp)
    b = np.random.default_rng(0).random(P.shape[0])
    expected = chains.solve_chain(P, 0.99, b)
    monkeypatch.setattr(chains, "SWEEPS", 2)
    np.testing.assert_allclose(chains.solve_chain(P, 0.99, b), expected, rtol=1e-11)


def test_an_order_is_looked_for_only_where_there_can_be_a_narrow_one():
    """A walk along a line is narrow however its states are numbered; with a place that all lead to nothing is."""
    states = chains.LARGE + 1
    places = np.random.default_rng(0).permutation(states)
    here, there = np.r_[places[:-1], places[-1]], np.r_[places[1:], places[-1]]
    walk = sp.csr_array((np.ones(states), (here, there)), shape=(states, states))
    order = chains.good_order(walk)
    moved = sp.coo_array(walk[order][:, order])
    assert np.abs(moved.coords[0] - moved.coords[1]).max() <= 2
    hub = sp.csr_array(0.5 * walk + sp.csr_array((np.full(states, 0.5), (here, np.zeros(states, int))), walk.shape))
    assert (chains.good_order(hub) == np.arange(states)).all()
    x = chains.solve_chain(hub, 0.9, np.sin(here))
    np.testing.assert_allclose(
        sp.linalg.spsolve(sp.eye_array(states, format="csc") - 0.9 * hub, np.sin(here)), x, rtol=1e-9
    )


@given(case=mdp_and_policy())
@settings(max_examples=50, deadline=None, derandomize=True)
def test_the_error_of_a_value_is_bounded(case):
    mdp, policy, _ = case
    truth = policy_value(mdp, policy.matrix)
    for V in (policy.value(mdp), truth + 0.01, np.zeros(mdp.num_states)):
        assert np.abs(V - truth).max() <= policy.value_error(mdp, V) + 1e-12 * np.abs(truth).max()
    assert policy.value_error(mdp, policy.value(mdp)) <= 1e-12 * max(1.0, np.abs(truth).max()) / (1 - mdp.discount)


def test_value_of_a_geometric_series():
    mdp = MDP(np.ones((1, 1, 1)), [[3.0]], 0.9)
    np.testing.assert_allclose(TablePolicy.uniform(mdp).value(mdp), 30.0, rtol=1e-14)


@pytest.mark.parametrize("walks", [1000, pytest.param(4000, marks=pytest.mark.slow)])
def test_occupancy_counts_simulated_discounted_visits(walks):
    # Each entry is the mean of bounded variables, compared at five standard errors:
    # the chance that any of the four is off by more is below 4 * 6e-7.
    simulator = problems.two_state()
    mdp, rng = simulator.mdp, np.random.default_rng(0)
    visits = np.zeros((walks, 2, 2))
    for walk in visits:
        s, weight = simulator.reset(rng), 1.0
        while weight > 1e-4:
            a = simulator.behave(s, rng)
            walk[s, a] += weight
            weight *= mdp.discount
            _, s = simulator.step(s, a, rng)
    expected = simulator.behaviour.occupancy(mdp, simulator.start)
    error = np.abs(visits.mean(axis=0) - expected)
    assert (error <= 5 * visits.std(axis=0) / np.sqrt(walks) + 2e-3).all()


def test_greedy_takes_the_first_of_equals_and_never_what_does_not_exist():
    Q = np.array([[1.0, 2.0, 2.0], [3.0, np.nextafter(3.0, 4.0), 1.0], [-np.inf, -5.0, -np.inf], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(TablePolicy.greedy(Q).matrix.argmax(axis=1), [1, 0, 1, 0])
    np.testing.assert_array_equal(TablePolicy.greedy(np.array([[1.0, 1.0 + 1e-9]])).matrix, [[0.0, 1.0]])


def test_states_without_occupancy_are_uniform_over_what_exists_and_said_to_be_undecided():
    available = np.array([[True, True, False], [True, True, True]])
    policy = TablePolicy.from_occupancy(np.array([[0.0, 0.0, 0.0], [1.0, 3.0, 0.0]]), available)
    np.testing.assert_array_equal(policy.matrix, [[0.5, 0.5, 0.0], [0.25, 0.75, 0.0]])
    np.testing.assert_array_equal(policy.undecided, [True, False])


def test_acting_in_the_users_labels():
    states = Labels([(3, "winter"), (4, "summer")], ("stock", "season"))
    policy = TablePolicy([[1.0, 0.0], [0.25, 0.75]], states, ["wait", "order"])
    assert policy.act({"season": "winter", "stock": 3}) == "wait"
    assert policy.probabilities((4, "summer")) == {"wait": 0.25, "order": 0.75}
    # 20,000 draws: five standard errors of a share, a false alarm of 6e-7
    rng = np.random.default_rng(1)
    share = np.mean([policy.act((4, "summer"), rng) == "order" for _ in range(20_000)])
    assert abs(share - 0.75) < 5 * np.sqrt(0.75 * 0.25 / 20_000)
    assert policy.act((4, "summer"), seed=7) == policy.act((4, "summer"), seed=7)
    with pytest.raises(ModelError, match=r"no stock and season \(5, 'winter'\)"):
        policy.act((5, "winter"))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.6]], r"policy in state=0 is \[0.5, 0.6\]; it must be probabilities summing to 1"),
        ([[1.5, -0.5]], "policy in state=0"),
        ([[np.nan, 1.0]], "policy in state=0"),
        ([0.5, 0.5], r"a policy has shape \(2,\); it must be \(S, A\)"),
    ],
)
def test_what_is_not_a_policy_is_refused(matrix, message):
    with pytest.raises(ModelError, match=message):
        TablePolicy(matrix)


def test_a_policy_must_fit_the_model():
    mdp = MDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), 0.9, available=[[True, False], [True, True]])
    with pytest.raises(ModelError, match="takes action=1 in state=0, where it does not exist"):
        TablePolicy([[0.5, 0.5], [1.0, 0.0]]).value(mdp)
    with pytest.raises(ModelError, match=r"the policy is for \(1, 2\)"):
        TablePolicy([[0.5, 0.5]]).value(mdp)


def test_an_unknown_state_is_refused_or_gets_the_default():
    policy = TablePolicy([[1.0, 0.0], [0.0, 1.0]], Labels([(1, "a"), (2, "b")], ("x", "y")), ["left", "right"])
    assert policy.act({"x": 2, "y": "b"}, default="wait") == "right"
    assert policy.act({"x": 3, "y": "b"}, default="wait") == "wait"
    with pytest.raises(LogError, match=r"no x and y \(3, 'b'\)"):
        policy.act({"x": 3, "y": "b"})
    with pytest.raises(LogError, match="give x and y, and nothing else; got x"):
        policy.act({"x": 2}, default="wait")


def test_the_table_has_the_labels_and_only_what_is_done():
    policy = TablePolicy([[0.25, 0.75], [0.0, 1.0]], Labels([(1, "a"), (2, "b")], ("x", "y")), ["left", "right"])
    assert policy.table().to_pydict() == {
        "x": [1, 1, 2],
        "y": ["a", "a", "b"],
        "action": ["left", "right", "right"],
        "probability": [0.25, 0.75, 1.0],
    }
