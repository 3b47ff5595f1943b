"""Algorithm 1 with linear features: the table where there is one feature per state, and a plain loop elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import dualq
from dualq.base import Rows, advance, below, generator_state
from dualq.base.errors import CheckpointError, ModelError
from dualq.model import Sets
from dualq.online import SPDQLinear

PROBLEMS = {
    "two states": dualq.problems.two_state,
    "queue": lambda: dualq.problems.queue(capacity=5, discount=0.9),  # a full queue has one action
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_with_one_feature_per_state_it_is_the_table_bit_for_bit(name):
    simulator = PROBLEMS[name]()
    choices = {"step_size": dualq.inverse_sqrt(2.0), "zeta": 0.01, "average_power": 1.0}
    table = dualq.train(dualq.SPDQ(**choices), simulator, steps=5_000, seed=3)
    linear = dualq.train(SPDQLinear(features=np.eye(simulator.mdp.num_states), **choices), simulator, 5_000, seed=3)
    for one, other in ((table.solution, linear.solution), (table.last, linear.last)):
        for part in ("Q", "V", "occupancy", "ratio"):
            assert np.array_equal(getattr(one, part), getattr(other, part)), part
    assert (table.solution.occupancy > 0.0).any()
    assert np.ptp(table.solution.V) > 0.0


def naive(mdp, phi, rows, gamma, seed, zeta):
    """Algorithm 1 along phi, with whole matrices; each of lambda's rows is projected by the sets of the table."""
    sets = Sets.of(mdp, None, zeta)
    (S, D), A, alpha, eta = phi.shape, mdp.rewards.shape[1], mdp.discount, sets.eta
    Q, V, mu = np.zeros((D, A)), np.zeros(D), np.zeros((D, A))
    lambda_ = project(np.zeros((D, A)), eta[0], sets.occupancy_bound)
    sums = [np.zeros_like(Q), np.zeros_like(V), np.zeros_like(lambda_)]
    x = generator_state(seed, 1)[0]
    for i in range(rows.s.size):
        x = np.uint64(advance(x))
        s_hat = int(below(x, np.uint64(S)))
        x = np.uint64(advance(x))
        a_hat = int(below(x, np.uint64(A)))
        sums = [total + now for total, now in zip(sums, (Q, V, lambda_), strict=True)]
        here, there, hat = phi[rows.s[i]], phi[rows.s_next[i]], phi[s_hat]
        e, e_hat, g = np.eye(A)[rows.a[i]], np.eye(A)[a_hat], gamma[i]
        mu_k, lambda_hat = here @ mu @ e, hat @ lambda_ @ e_hat
        td_error = rows.r[i] + mdp.reward_shift + alpha * there @ V - here @ Q @ e
        rise = S * A * (hat @ Q @ e_hat - hat @ V)
        Q_new = Q + g * (mu_k * np.outer(here, e) - S * A * lambda_hat * np.outer(hat, e_hat))
        V_new = V - g * ((S * eta[s_hat] - S * A * lambda_hat) * hat + alpha * mu_k * there)
        lambda_ = project(lambda_ + g * rise * np.outer(hat, e_hat), eta[0], sets.occupancy_bound)
        mu = np.clip(mu + g * td_error * np.outer(here, e), 0.0, sets.ratio_bound)
        Q, V = np.clip(Q_new, 0.0, sets.value_bound), np.clip(V_new, 0.0, sets.value_bound)
    return sums[0] / rows.s.size, sums[1] / rows.s.size, sums[2] / rows.s.size


def project(lambda_, least, bound):
    """Onto rows in [0, bound] of sum at least `least`: shifted up evenly until they are, by bisection."""
    out = np.clip(lambda_, 0.0, bound)
    for j, row in enumerate(lambda_):
        low, high = 0.0, bound + np.abs(row).max()
        while out[j].sum() < least - 1e-14 and high - low > 1e-15:
            middle = (low + high) / 2.0
            total = np.clip(row + middle, 0.0, bound).sum()
            low, high = (middle, high) if total < least else (low, middle)
        if high < bound + np.abs(row).max():
            out[j] = np.clip(row + high, 0.0, bound)
    return out


def test_equal_to_whole_matrices_where_features_overlap():
    """Three features for five states, each state between two of them."""
    simulator = dualq.problems.garnet(5, 2, 3, discount=0.8, seed=1)
    mdp, zeta = simulator.mdp, 0.02
    phi = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.3, 0.7], [0.0, 0.0, 1.0]])
    log = simulator.record(steps=300, seed=2)
    rows = Rows(log.state, log.action, log.reward, log.next_state, np.zeros(300, bool))
    algorithm = SPDQLinear(features=phi, step_size=dualq.inverse_sqrt(1.0))
    state = algorithm.init(mdp, 4, zeta)
    algorithm.advance(state, algorithm.problem(mdp, zeta), rows, 0)
    found = algorithm.solution(state, mdp)
    Q, V, lambda_ = naive(mdp, phi, rows, 1.0 / np.sqrt(np.arange(300) + 1.0), 4, zeta)
    assert found.Q + mdp.value_shift == pytest.approx(phi @ Q, abs=1e-9)
    assert found.V + mdp.value_shift == pytest.approx(phi @ V, abs=1e-9)
    assert found.occupancy == pytest.approx(phi @ lambda_, abs=1e-9)


def test_a_run_is_resumed_where_it_stood(tmp_path):
    simulator = dualq.problems.two_state()
    algorithm = dualq.SPDQLinear(features=np.eye(2), zeta=0.05)
    whole = dualq.train(algorithm, simulator, steps=2_000, seed=1)
    dualq.train(algorithm, simulator, steps=700, seed=1, checkpoint=tmp_path / "run.ckpt")
    again = dualq.train(algorithm, simulator, steps=2_000, seed=1, checkpoint=tmp_path / "run.ckpt")
    assert np.array_equal(again.solution.Q, whole.solution.Q)
    other = dualq.SPDQLinear(features=[[0.5, 0.5], [0.0, 1.0]], zeta=0.05)
    with pytest.raises(CheckpointError):
        dualq.train(other, simulator, steps=3_000, seed=1, checkpoint=tmp_path / "run.ckpt")


@pytest.mark.parametrize("phi", [[[0.5, 0.4]], [[1.5, -0.5]], [[]]])
def test_features_that_are_no_weights_are_refused(phi):
    with pytest.raises(ModelError, match="at least 0 and sum to 1"):
        SPDQLinear(features=phi)
