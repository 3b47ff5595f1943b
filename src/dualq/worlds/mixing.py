"""How often a simulator visits every pair, step by step: zeta, and how fast that settles.

tau_k(s, a)   the probability of the pair at step k; M_k = diag(tau_k)
zeta          the least of them, over pairs and steps                       assump:time-varying-distribution
beta_k        ||M_k^-1 - M_{k+1}^-1||_2 <= beta_k <= beta_0/(k+1)           assump:distribution-convergence
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dualq.base import ModelError
from dualq.worlds.simulator import Simulator

Array = np.ndarray

SETTLED = 1e-14  # ||tau_{k+1} - tau_k||_1 below which a distribution has come to rest
MOST_STEPS = 100_000  # of a fixed behaviour, before it is said not to settle
DRIFT_STEPS = 10_000  # of a drifting one that are looked at: it never comes to rest
WORST_CONDITION = 1e7  # of the eigenvectors of P_theta; rounding splits a double root by 1e-8, which makes 1e8


def zeta_of(simulator: Simulator, first: int = 0) -> float:
    """The largest zeta of assump:time-varying-distribution: inf of tau_k(s, a) over available pairs and k >= first.

    first=1 leaves out the start, as the paper's own 0.0856 does (at k = 0 its example has 0.08). The limit M_infinity
    counts too. Exact to rounding: the steps are followed until tau_k has come to rest (or, where the behaviour drifts,
    for DRIFT_STEPS steps).
    """
    return _least_pair(simulator, first)[0]


def _least_pair(simulator: Simulator, first: int = 0) -> tuple[float, str, int]:
    """(least probability, when, which pair)."""
    available = simulator.mdp.available

    def least(tau: Array, when: str) -> tuple[float, str, int]:
        tau = np.where(available, tau, np.inf)
        return float(tau.min()), when, int(tau.argmin())

    found = least(simulator.stationary(), "in the long run")
    for k, tau in enumerate(_distributions(simulator)):
        if k >= first:
            found = min(found, least(tau, f"at step {k}"), key=lambda one: one[0])
    return found


def positive_zeta(simulator: Simulator) -> float:
    """zeta, or why there is none."""
    zeta, when, pair = _least_pair(simulator)
    if not zeta > 0.0:
        mdp = simulator.mdp
        s, action = divmod(pair, mdp.num_actions)
        where = f"({mdp.states.describe(s)}, {mdp.actions.describe(action)})"
        raise ModelError(
            f"zeta is 0: {where} has probability 0 {when}, and the paper assumes that every pair is always possible; "
            "give zeta and beta_0, or another start or behaviour"
        )
    return zeta


def movement(simulator: Simulator, k: int) -> float:
    """||M_k^-1 - M_{k+1}^-1||_2 = max |1/tau_k - 1/tau_{k+1}|, the left side of assump:distribution-convergence."""
    return _movement(simulator, simulator.distribution(k), simulator.distribution(k + 1))


def _movement(simulator: Simulator, tau: Array, tau_next: Array) -> float:
    tau, tau_next = tau[simulator.mdp.available], tau_next[simulator.mdp.available]
    if min(tau.min(), tau_next.min()) <= 0.0:
        return math.inf
    return float((np.abs(tau_next - tau) / tau / tau_next).max())


def least_beta_0(simulator: Simulator) -> float:
    """The least beta_0 with ||M_k^-1 - M_{k+1}^-1||_2 <= beta_0/(k+1) at every k; infinite where some tau_k is 0.

    Every k until tau_k has come to rest; where the behaviour drifts, the first DRIFT_STEPS.
    """
    pairs = itertools.pairwise(_distributions(simulator))
    return max((k + 1) * _movement(simulator, tau, tau_next) for k, (tau, tau_next) in enumerate(pairs))


def beta(simulator: Simulator, k: int, zeta: float) -> float:
    """Beta_k of Example 2: zeta^-2 max_s |v_{k+1}(s) - v_k(s)|."""
    return float(np.abs(_state_movement(simulator, k)).max()) / zeta**2


def beta_printed(simulator: Simulator, k: int, zeta: float) -> float:
    """Beta_k of Example 2 as printed: without the absolute values."""
    return float(_state_movement(simulator, k).max()) / zeta**2


def _state_movement(simulator: Simulator, k: int) -> Array:
    _check_fixed(simulator)
    return simulator.state_distribution(k + 1) - simulator.state_distribution(k)


def _check_fixed(simulator: Simulator) -> None:
    if simulator.drift is not None:
        raise ModelError("the behaviour drifts, and the paper's Examples 2 and 3 have a fixed one; use least_beta_0")


class Example3(NamedTuple):
    """Proposition ex3: beta_k <= c |lambda_2|^k <= c d/(k+1)."""

    second_eigenvalue: float  # |lambda_2|
    c: float
    k_star: int
    d: float
    beta_0: float  # c d


def example_3(simulator: Simulator, zeta: float) -> Example3:
    """c and d of Example 3, from the eigenvalues of P_theta; ModelError where it is not diagonalizable, or periodic."""
    _check_fixed(simulator)
    values, U = np.linalg.eig(simulator.chain().toarray().T)
    order = np.argsort(-np.abs(values), kind="stable")
    values, U = values[order], U[:, order]
    if not np.linalg.cond(U) <= WORST_CONDITION:
        raise ModelError("P_theta is not diagonalizable, as Example 3 assumes; use least_beta_0")
    second = float(np.abs(values[1])) if values.size > 1 else 0.0
    if second > 1.0 - 1e-12:
        raise ModelError("the second eigenvalue of P_theta has modulus 1: the behaviour does not settle")
    coordinates = np.linalg.solve(U, simulator.start.astype(U.dtype))  # v_0 = sum_j c_j u_j
    terms = np.abs(U[:, 1:] * (coordinates * (values - 1.0))[1:])
    c = float(terms.sum(axis=1).max()) / zeta**2
    k_star = _k_star(second)
    # d = |lambda_2|^-k*, by way of the logarithm: in chains that mix slowly it is beyond the largest double
    exponent = -k_star * math.log(second) if k_star > 0 else 0.0
    d = math.exp(exponent) if exponent < 700.0 else math.inf
    return Example3(second, c, k_star, d, c * d if c > 0.0 else 0.0)


def _k_star(second: float) -> int:
    """The k from which |lambda_2|^k <= 1/(k+1), by the first terms of the exponential series."""
    if second == 0.0:
        return 0
    log = math.log(second)
    return max(0, math.ceil((2.0 * log + 2.0) / log**2))


def _distributions(simulator: Simulator) -> Iterator[Array]:
    """tau_0, tau_1, ... until they no longer move; DRIFT_STEPS of them where the behaviour drifts."""
    drifts = simulator.drift is not None
    v, tau = simulator.start, None
    for k in range(DRIFT_STEPS if drifts else MOST_STEPS):
        before, tau = tau, v[:, None] * simulator.behaviour_at(k)
        yield tau
        if before is not None and not drifts and np.abs(tau - before).sum() <= SETTLED:
            return
        v = simulator.moved(tau)
    if not drifts:
        raise ModelError(
            f"the state distribution still moves after {MOST_STEPS} steps: the behaviour goes in circles or mixes too "
            "slowly; give zeta and beta_0"
        )
