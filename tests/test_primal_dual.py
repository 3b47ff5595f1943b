"""The deterministic iteration against its slow twin, and its convergence."""

import dataclasses

import numpy as np
import pytest
from naive import Paper, distributions, masked_model, primal_dual

from dualq import problems
from dualq.base import Rows
from dualq.base.errors import ModelError
from dualq.model.policy import TablePolicy
from dualq.online.primal_dual import PrimalDual
from dualq.online.step_sizes import inverse_sqrt
from dualq.solvers.exact import solve
from dualq.solvers.gaps import duality_gap
from dualq.worlds.simulator import Simulator, settling, wandering

STEPS = 5_000


def masked():
    mdp = masked_model()
    return Simulator(mdp, TablePolicy.uniform(mdp), np.full(4, 0.25), "test")


def drifting(drift):
    sim = problems.two_state()
    return dataclasses.replace(sim, drift=drift(TablePolicy([[0.9, 0.1], [0.4, 0.6]]), 0.7))


def some_M(mdp):
    M = np.where(mdp.available, np.random.default_rng(3).uniform(0.5, 1.5, mdp.rewards.shape), 0.0)
    return M / M.sum()


# name: simulator, M (None: I; "simulator": tau_k), step size, eta, zeta
CASES = {
    "two states, M": lambda: (problems.two_state(), "some", 3.0, 1.5, 1.0),
    "two states, I": lambda: (problems.two_state(), None, 1.0, 1.5, 1.0),
    "two states, tau_k": lambda: (problems.two_state(), "simulator", 3.0, 1.5, 1.0),
    "two states, settling": lambda: (drifting(settling), "simulator", 3.0, 1.5, 1.0),
    "two states, wandering": lambda: (drifting(wandering), "simulator", 3.0, 1.5, 1.0),
    "masked, M": lambda: (masked(), "some", 3.0, 0.5, 1.0),
    "masked, tau_k": lambda: (masked(), "simulator", 3.0, 0.5, 1.0),
    "garnet, M": lambda: (problems.garnet(6, 3, 2, discount=0.8, seed=1), "some", 3.0, np.linspace(0.1, 0.3, 6), 1.0),
}


@pytest.fixture(scope="module", params=CASES)
def case(request):
    sim, kind, scale, eta, zeta = CASES[request.param]()
    mdp = sim.mdp
    M = {None: None, "some": some_M(mdp), "simulator": sim}[kind]
    choices = {"distribution": M, "step_size": inverse_sqrt(scale), "weights": eta, "zeta": zeta}
    if kind == "simulator":
        Ms = distributions(sim, STEPS)
    else:
        Ms = [np.where(mdp.available, 1.0, 0.0) if M is None else M] * STEPS
    paper = Paper(mdp, eta, zeta)
    iterates = primal_dual(paper, Ms, [scale / np.sqrt(k + 1) for k in range(STEPS)])
    return mdp, choices, paper, Ms, iterates


def run(algorithm, mdp, steps, zeta=0.05, chunk=1000):
    state, problem = algorithm.init(mdp, 0, zeta), algorithm.problem(mdp, zeta)
    for k in range(0, steps, chunk):
        algorithm.advance(state, problem, Rows.empty(min(chunk, steps - k)), k)
    return state


def test_the_iterates_and_averages_are_those_of_the_paper(case):
    mdp, choices, paper, Ms, iterates = case
    algorithm = PrimalDual(**choices)
    assert not algorithm.traits().needs_rows
    state = run(algorithm, mdp, STEPS)
    bounds = {"Q": paper.value_bound, "V": paper.value_bound}
    bounds |= {"lambda_": paper.occupancy_bound, "mu": paper.ratio_bound}
    for name, bound in bounds.items():
        np.testing.assert_allclose(getattr(state, name), iterates[name][-1], rtol=0.0, atol=1e-12 * bound)

    solution = algorithm.solution(state, mdp)
    mean = {name: x[:-1].mean(axis=0) for name, x in iterates.items()}
    M_mu = (np.array(Ms) * iterates["mu"][:-1]).mean(axis=0)
    exists, shift = mdp.available, paper.shift / (1 - mdp.discount)
    np.testing.assert_allclose((solution.Q + shift)[exists], mean["Q"][exists], atol=1e-12 * paper.value_bound)
    np.testing.assert_allclose(solution.V + shift, mean["V"], atol=1e-12 * paper.value_bound)
    np.testing.assert_allclose(solution.occupancy, mean["lambda_"], atol=1e-12 * paper.occupancy_bound)
    M = 1.0 if solution.distribution is None else solution.distribution
    np.testing.assert_allclose(M * solution.ratio, M_mu, atol=1e-12 * paper.ratio_bound)
    assert solution.iterations == STEPS


def test_the_projections_act(case):
    assert {"Q", "V", "mu", "Xi"} <= case[2].active


def test_every_side_of_the_sets_is_reached_somewhere():
    """From far outside, with large steps."""
    sim = problems.two_state()
    M = some_M(sim.mdp)
    paper = Paper(sim.mdp, 1.5, 1.0)
    iterates = primal_dual(paper, [M] * 300, [30.0] * 300)
    assert {"Q", "V", "mu", "L", "Xi", "Q from above", "V from above", "mu from above"} <= paper.active
    state = run(PrimalDual(distribution=M, step_size=30.0, weights=1.5, zeta=1.0), sim.mdp, 300)
    np.testing.assert_allclose(state.Q, iterates["Q"][-1], atol=1e-12 * paper.value_bound)
    np.testing.assert_allclose(state.lambda_, iterates["lambda_"][-1], atol=1e-12 * paper.occupancy_bound)


@pytest.mark.parametrize(("power", "average_from"), [(0.0, 250), (2.5, 30)])
def test_weighted_averages(case, power, average_from):
    mdp, choices, paper, Ms, iterates = case
    steps = 1000
    algorithm = PrimalDual(**choices, average_power=power, average_from=average_from)
    solution = algorithm.solution(run(algorithm, mdp, steps), mdp)
    weights = np.array([(k + 1.0) ** power if k >= average_from else 0.0 for k in range(steps)])
    V = np.average(iterates["V"][:steps], axis=0, weights=weights) - paper.shift / (1 - mdp.discount)
    M_mu = np.average(np.array(Ms[:steps]) * iterates["mu"][:steps], axis=0, weights=weights)
    np.testing.assert_allclose(solution.V, V, atol=1e-12 * paper.value_bound)
    M = 1.0 if solution.distribution is None else solution.distribution
    np.testing.assert_allclose(M * solution.ratio, M_mu, atol=1e-12 * paper.ratio_bound)
    before = run(algorithm, mdp, average_from)  # nothing averaged yet
    np.testing.assert_array_equal(algorithm.solution(before, mdp).V, algorithm.last(before, mdp).V)


def test_the_same_bits_whatever_the_chunks(case):
    mdp, choices, _, _, _ = case
    states = [run(PrimalDual(**choices, average_power=1.5), mdp, 500, chunk=chunk) for chunk in (1, 7, 1000)]
    for state in states[1:]:
        for name, one, other in zip(state._fields, states[0], state, strict=True):
            assert one.tobytes() == other.tobytes(), name


def test_a_start_at_the_saddle_point_stays_there():
    sim = problems.two_state()
    M = sim.stationary()
    exact = solve(sim.mdp, weights=0.1)
    start = {"Q": exact.Q, "V": exact.V, "occupancy": exact.occupancy, "ratio": exact.occupancy / M}
    algorithm = PrimalDual(distribution=M, weights=0.1, start=start)
    state = run(algorithm, sim.mdp, 100, zeta=float(M.min()))
    np.testing.assert_allclose(state.V, exact.V, atol=1e-8)
    np.testing.assert_allclose(state.mu, start["ratio"], atol=1e-8)


@pytest.mark.parametrize("kind", ["fixed", "time-varying", "settling"])
def test_the_true_gap_falls_as_one_over_the_square_root_of_the_steps(kind):
    """The gap of the averages on two states: T times 16 brings a quarter, or less (seen: a tenth)."""
    sim = drifting(settling) if kind == "settling" else problems.two_state()
    M = sim.stationary()
    zeta = 0.08 if kind != "settling" else 0.02
    algorithm = PrimalDual(
        distribution=M if kind == "fixed" else sim, weights=0.1, step_size=inverse_sqrt(10.0), zeta=zeta
    )
    gaps = []
    for steps in (500, 8_000):
        solution = algorithm.solution(run(algorithm, sim.mdp, steps), sim.mdp)
        gaps.append(duality_gap(sim.mdp, solution, distribution=M, zeta=zeta))
    assert 0.0 < gaps[1] < gaps[0] / 4.0, gaps


def test_a_pair_without_probability_leaves_mu_as_m_mu():
    sim = dataclasses.replace(problems.two_state(), start=np.array([1.0, 0.0]))
    algorithm = PrimalDual(distribution=sim)
    solution = algorithm.solution(algorithm.init(sim.mdp, 0, 0.1), sim.mdp)
    assert solution.distribution is None
    assert not solution.ratio.any()
    assert algorithm.solution(run(algorithm, sim.mdp, 3), sim.mdp).distribution is not None


def test_random_starts_are_in_the_sets():
    mdp = masked_model()
    algorithm = PrimalDual(start="random")
    state, problem = algorithm.init(mdp, 1, 0.1), algorithm.problem(mdp, 0.1)
    np.testing.assert_array_equal(state.V, problem.sets.project_V(state.V))
    np.testing.assert_allclose(state.lambda_, problem.sets.project_lambda(state.lambda_), rtol=1e-13)
    np.testing.assert_array_equal(state.mu, problem.sets.project_mu(state.mu))
    assert not state.Q[~mdp.available].any()
    assert not np.array_equal(state.V, algorithm.init(mdp, 2, 0.1).V)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"zeta": 0.0}, "zeta is 0; it must be above 0 and at most 1"),
        ({"step_size": -1.0}, "the scale -1; it must be positive"),
        ({"average_power": -1.0}, "average_power is -1"),
        ({"average_from": -5}, "average_from is -5"),
        ({"start": "ones"}, "start is 'ones'"),
        ({"start": {"R": 1.0}}, "start has 'R'; this method starts from Q, V, occupancy, ratio"),
        ({"start": {"V": [1.0]}}, r"V of the start has shape \(1,\); it must be \(2,\)"),
        ({"start": {"V": [0.0, np.inf]}}, "V of the start has values that are not finite"),
        ({"distribution": [[0.5, 0.5]]}, r"distribution has shape \(1, 2\)"),
        ({"distribution": [[0.5, 0.0], [0.2, 0.3]]}, r"distribution at \(state=0, action=1\) is 0"),
        ({"distribution": problems.queue(capacity=5)}, r"the simulator has \(6, 2\) states and actions"),
    ],
)
def test_bad_choices_are_refused(choices, message):
    mdp = problems.two_state().mdp
    with pytest.raises(ModelError, match=message):
        run(PrimalDual(**choices), mdp, 1)
