"""Q-learning against its slow twin, closed forms, and the exact solution."""

import numpy as np
import pytest
from naive import SplitMix64, all_rows, masked_model, q_learning, run, scattered

from dualq import problems
from dualq.base.errors import ModelError
from dualq.base.kernels import generator_state
from dualq.model.mdp import MDP
from dualq.online.q_learning import QLearning, linear, visits
from dualq.online.step_sizes import inverse_sqrt
from dualq.solvers.exact import solve
from dualq.worlds.streams import Recorded, Simulated

STEPS = 10_000

CASES = {
    "two states": lambda: (problems.two_state().mdp, Simulated(problems.two_state())),
    "masked": lambda: (masked_model(), scattered(masked_model(), STEPS)),
    "garnet": lambda: (
        problems.garnet(6, 3, 2, seed=1).mdp,
        Simulated(problems.garnet(6, 3, 2, seed=1), iid=True),
    ),
}

# the rule, and the same as a function of the step, the visits and the discount
RULES = {
    "visits": (visits(0.8), lambda k, n, alpha: n**-0.8),
    "scaled": (visits(0.5, 0.7), lambda k, n, alpha: 0.7 * n**-0.5),
    "linear": (linear(0.9), lambda k, n, alpha: 0.9 / (1 + (1 - alpha) * n)),
    "constant": (0.1, lambda k, n, alpha: 0.1),
    "inverse_sqrt": (inverse_sqrt(0.8, 2.0), lambda k, n, alpha: 0.8 / (k + 2) ** 0.5),
    "listed": (1.0 / np.arange(1, STEPS + 1), lambda k, n, alpha: 1.0 / (k + 1)),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_table_is_that_of_the_twin(name, double, rule):
    mdp, stream = CASES[name]()
    step_size, step = RULES[rule]
    algorithm = QLearning(step_size=step_size, double=double)
    state = run(algorithm, mdp, stream, STEPS)
    generator = SplitMix64(generator_state(0, 1)[0]) if double else None
    Q = q_learning(mdp, all_rows(stream, STEPS), lambda k, n: step(k, n, mdp.discount), generator)
    scale = max(1.0, np.abs(Q).max())
    np.testing.assert_allclose(state.Q[:, mdp.available], Q[:, mdp.available], rtol=0.0, atol=1e-12 * scale)
    assert state.k[0] == STEPS
    assert state.visits.sum() == STEPS
    solution = algorithm.solution(state, mdp)
    np.testing.assert_allclose(solution.Q[mdp.available], Q.mean(axis=0)[mdp.available], rtol=0.0, atol=1e-12 * scale)
    np.testing.assert_array_equal(solution.V, solution.Q.max(axis=1))
    assert (solution.Q[~mdp.available] == -np.inf).all()


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("rule", ["visits", "linear", "inverse_sqrt"])
@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_whatever_the_chunks(name, rule, double):
    mdp, stream = CASES[name]()
    algorithm = QLearning(step_size=RULES[rule][0], double=double)
    states = [run(algorithm, mdp, stream, 3000, chunk=chunk) for chunk in (1, 7, 1000)]
    for state in states[1:]:
        for field, one, other in zip(state._fields, states[0], state, strict=True):
            assert one.tobytes() == other.tobytes(), field


def test_without_a_future_it_is_the_mean_of_the_rewards():
    mdp = MDP([[[1.0]]], [[0.5]], 0.0, reward_bound=(-10.0, 10.0))
    r = np.random.default_rng(0).normal(size=1000)
    nothing = np.zeros(r.size, int)
    state = run(QLearning(step_size=visits(1.0), start=99.0), mdp, Recorded(nothing, nothing, r, nothing), r.size)
    assert state.Q[0, 0, 0] == pytest.approx(r.mean(), abs=1e-13)


def test_a_sure_loop_has_a_closed_form():
    """One state, reward 1: the error is multiplied by 1 - g (1 - alpha) at each step."""
    mdp = MDP([[[1.0]]], [[1.0]], 0.9)
    nothing = np.zeros(50, int)
    state = run(QLearning(step_size=0.5), mdp, Recorded(nothing, nothing, np.ones(50), nothing), 50)
    assert state.Q[0, 0, 0] == pytest.approx(10.0 * (1.0 - (1.0 - 0.5 * 0.1) ** 50), rel=1e-13)


def test_nothing_follows_an_end():
    mdp = problems.two_state().mdp
    rows = Recorded([0, 1], [1, 0], [3.0, 1.0], [0, 0], [True, False])
    state = run(QLearning(step_size=1.0, start=5.0), mdp, rows, 2)
    assert state.Q[0].tolist() == [[5.0, 3.0], [1.0 + 0.9 * 5.0, 5.0]]


@pytest.mark.parametrize(
    ("step_size", "double"),
    [
        (linear(), False),
        (visits(0.6), False),
        (inverse_sqrt(1.0), False),
        (visits(0.6), True),
        (inverse_sqrt(2.0), True),
    ],
)
def test_it_finds_the_exact_q_of_two_states(step_size, double):
    """Q error (summed over actions) at 1e5 steps, median of 20 seeds. An independent program has .08 to .16; seen here:

    .08, .12, .13, .18, .14. Seeded; the bound is beyond the median by several times its standard error.
    """
    sim = problems.two_state()
    exact = solve(sim.mdp)
    algorithm = QLearning(step_size=step_size, double=double)
    states = [run(algorithm, sim.mdp, Simulated(sim), 100_000, seed, chunk=100_000) for seed in range(20)]
    solutions = [algorithm.solution(state, sim.mdp) for state in states]
    assert np.median([np.abs(solution.Q - exact.Q).max(axis=0).sum() for solution in solutions]) < 0.3
    for solution in solutions:
        np.testing.assert_array_equal(solution.primal_policy.matrix, exact.primal_policy.matrix)


@pytest.mark.parametrize(
    ("step_size", "message"),
    [
        (-0.1, "the scale -0.1; it must be positive"),
        ([0.5, 0.0], "step size 1 is 0; step sizes must be positive"),
    ],
)
def test_bad_step_sizes_are_refused(step_size, message):
    with pytest.raises(ModelError, match=message):
        QLearning(step_size=step_size)


@pytest.mark.parametrize(
    "make", [lambda: visits(1.5), lambda: visits(-0.1), lambda: visits(0.8, 0.0), lambda: linear(2.0)]
)
def test_bad_rules_are_refused(make):
    with pytest.raises(ModelError, match="the step size has the power"):
        make()
