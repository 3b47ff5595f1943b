"""The paper's own claim: Algorithm 1 converges while the behaviour changes, so long as every pair keeps being seen.

The runs are seeded, so the figures are the same every time; the bounds leave a factor of two to what was measured.
"""

import dataclasses

import numpy as np
import pytest

import dualq

TWO = dualq.problems.two_state()
OTHER = dualq.TablePolicy([[0.7, 0.3], [0.4, 0.6]])
NEVER = dualq.TablePolicy([[0.0, 1.0], [0.7, 0.3]])  # never takes the best action of state 0
ALGORITHM = dualq.SPDQ(step_size=dualq.inverse_sqrt(2.0), weights=0.1, zeta=0.05)


def medians(simulator, sampling="trajectory"):
    """Medians over 20 seeds of a metric at 10,000 and at 100,000 steps."""
    runs = dualq.train(ALGORITHM, simulator, 100_000, seeds=range(20), record=[10_000, 100_000], sampling=sampling)
    tables = [run.history.to_pydict() for run in runs]
    return {name: np.median([table[name] for table in tables], axis=0) for name in tables[0]}


@pytest.mark.parametrize("sampling", ["trajectory", "iid"])
@pytest.mark.parametrize(
    "drift",
    [None, dualq.settling(OTHER, 1.0), dualq.settling(OTHER, 0.25), dualq.wandering(OTHER, 1.0)],
    ids=["fixed", "settling", "settling slowly", "never settling"],
)
def test_algorithm_1_converges_under_drift(drift, sampling):
    found = medians(dataclasses.replace(TWO, drift=drift), sampling)
    assert found["q_error"][1] < 0.9
    assert found["q_error"][1] < 0.3 * found["q_error"][0]
    assert found["true_gap"][1] < 0.4 * found["true_gap"][0]
    assert found["dual_policy_error"][1] < 0.6 * found["dual_policy_error"][0]
    assert found["primal_policy_error"][1] == 0.0


@pytest.mark.filterwarnings("ignore:1 pairs of state and action are never seen", "ignore:zeta is")
def test_it_does_not_where_a_pair_ceases_to_be_seen():
    # zeta = 0: the assumption fails, and Q of the pair that is not seen any more stays wrong
    found = medians(dataclasses.replace(TWO, drift=dualq.settling(NEVER, 1.0)))
    assert found["q_error"][1] > 10.0
    assert found["primal_policy_error"][1] == 1.0


@pytest.mark.parametrize("drift", [dualq.settling(OTHER, 0.5), dualq.wandering(OTHER, 2.0)])
def test_the_distribution_of_a_drifting_walk_is_the_product_of_its_steps(drift):
    simulator = dataclasses.replace(TWO, drift=drift)
    v = TWO.start
    for k in range(30):
        w = (k + 1) ** -0.5 if drift.to is OTHER and drift.rate == 0.5 else (1 + np.cos(2 * np.log(k + 1))) / 2
        theta = w * TWO.behaviour.matrix + (1 - w) * OTHER.matrix
        np.testing.assert_allclose(simulator.distribution(k), v[:, None] * theta, rtol=1e-12)
        P = TWO.mdp.transitions.toarray().reshape(2, 2, 2)
        v = np.einsum("s,sa,sat->t", v, theta, P)


def test_what_settles_has_the_stationary_distribution_of_where_it_settles():
    settled = dualq.Simulator(TWO.mdp, OTHER, TWO.start, "test").stationary()
    np.testing.assert_allclose(dataclasses.replace(TWO, drift=dualq.settling(OTHER, 0.3)).stationary(), settled)
    with pytest.raises(dualq.errors.ModelError, match="never settles"):
        dataclasses.replace(TWO, drift=dualq.wandering(OTHER)).stationary()
    with pytest.raises(dualq.errors.ModelError, match="rate 0; it must be positive"):
        dualq.settling(OTHER, 0.0)
