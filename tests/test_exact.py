"""dualq.solve: every method gives the same saddle point, and the saddle point is the paper's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import distributions_for, mdps, weights_for

import dualq
from dualq.base.errors import CheckpointError, ModelError
from dualq.model.solution import load_solution
from dualq.solvers.exact import METHODS


@pytest.mark.parametrize("method", METHODS)
def test_the_papers_two_state_numbers(method):
    two = dualq.problems.two_state()
    exact = dualq.solve(two.mdp, weights=0.1, method=method, distribution=two.stationary())
    np.testing.assert_allclose(exact.Q, [[20.0690, 19.4414], [18.1931, 18.6897]], atol=5e-5)
    np.testing.assert_allclose(exact.V, [20.0690, 18.6897], atol=5e-5)
    np.testing.assert_allclose(exact.occupancy, [[0.9379, 0.0], [0.0, 1.0621]], atol=5e-5)
    np.testing.assert_allclose(exact.ratio, [[10.9425, 0.0], [0.0, 6.1954]], atol=5e-5)
    for policy in (exact.primal_policy, exact.dual_policy):
        np.testing.assert_allclose(policy.matrix, np.eye(2), atol=1e-9)
    np.testing.assert_allclose(dualq.solve(two.mdp, method=method).occupancy.sum(axis=1), [14.069, 15.931], atol=5e-4)


@given(data=st.data())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_dynamic_programming_and_the_linear_program_agree(data):
    mdp = data.draw(mdps())
    eta, M = data.draw(weights_for(mdp)), data.draw(distributions_for(mdp))
    dynamic = dualq.solve(mdp, eta, distribution=M)
    lp = dualq.solve(mdp, eta, "lp", distribution=M)
    scale = max(1.0, np.abs(dynamic.V).max())
    np.testing.assert_allclose(lp.V, dynamic.V, atol=1e-6 * scale)
    # Optimal occupancies need not be unique: they agree in value, in flow and in being read as optimal policies.
    for solution in (dynamic, lp):
        value = (solution.occupancy * mdp.rewards).sum()
        np.testing.assert_allclose(value, eta @ dynamic.V, atol=1e-6 * scale * eta.sum())
        np.testing.assert_allclose(solution.occupancy.sum(), eta.sum() / (1 - mdp.discount), rtol=1e-7)
        np.testing.assert_allclose(solution.dual_policy.value(mdp), dynamic.V, atol=1e-5 * scale / (1 - mdp.discount))
        exists = mdp.available
        np.testing.assert_allclose(solution.ratio[exists], solution.occupancy[exists] / M[exists])


def test_what_is_not_read_is_not_computed():
    exact = dualq.solve(dualq.problems.two_state().mdp)
    assert not {"Q", "occupancy", "ratio"} & set(vars(exact))


def test_a_saved_solution_comes_back_and_a_damaged_one_does_not(tmp_path):
    exact = dualq.solve(dualq.problems.inventory().mdp)
    path = tmp_path / "solution.npz"
    exact.save(path)
    arrays, facts = load_solution(path)
    for name in ("Q", "V", "occupancy", "ratio"):
        np.testing.assert_array_equal(arrays[name], getattr(exact, name))
    np.testing.assert_array_equal(arrays["policy"], exact.primal_policy.matrix)
    assert facts["states"] == exact.mdp.states
    assert facts["error_bound"] == exact.error_bound
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"solution\.npz"):
        load_solution(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "magic"}, "no method 'magic'; there are dynamic, mpi, krylov, lp"),
        ({"tolerance": 0.0}, r"tolerance is 0\.0; it must be a positive number"),
        ({"method": ""}, "no method ''"),
        ({"weights": [1.0, -1.0]}, "weight of state=1 is -1; weights must be finite and not negative"),
        ({"distribution": [[0.5, 0.5], [0.0, 0.0]]}, r"distribution at \(state=1, action=0\) is 0; it must be pos"),
        ({"distribution": [0.5, 0.5]}, r"distribution has shape \(2,\); it must be \(2, 2\)"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    P = np.full((2, 2, 2), 0.5)
    with pytest.raises(ModelError, match=message):
        dualq.solve(dualq.MDP(P, np.ones((2, 2)), 0.9), **arguments)


def test_a_simulator_is_not_a_model():
    with pytest.raises(ModelError, match=r"solve takes an MDP, not a Simulator; give its \.mdp"):
        dualq.solve(dualq.problems.two_state())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_the_units_of_the_rewards_do_not_matter(method, scale, offset):
    # The same model in other units has the same best policy, and values in these units.
    mdp = dualq.problems.maze(6, discount=0.95, seed=1).mdp
    plain = dualq.solve(mdp, tolerance=1e-10)
    other = dualq.solve(dualq.MDP(mdp.transitions, scale * (mdp.rewards + offset), 0.95), method=method)
    expected = scale * (plain.V + offset / (1.0 - 0.95))
    rounding = np.finfo(float).eps * 4 * offset / (1.0 - 0.95)  # of the rewards, as they were given
    np.testing.assert_allclose(other.V, expected, rtol=0.0, atol=scale * (1e-7 + rounding))
    np.testing.assert_allclose(other.primal_policy.value(mdp), plain.V, atol=1e-5)
