"""Fitting the careful model of some rows: of all of them, or of a half that is asked about the other's choices.

Update    V -> pooling, penalty -> model (P~, R~ - penalty) -> its optimal V, until V does not move. Pooling is settled
          in the first rounds. The model of the last round is an ordinary MDP: its saddle point is what is reported.
Unknown   pairs never seen are not available. A state never left has no known future: it is worth what the states of the
          log are worth on average, so that nothing is drawn to it nor away from it. That average rises with its own
          value, so it is the u with  mean V = u,  where mean V is linear in u while the policy stays.
Policy    optimal in that model. Where actions tie (where there was but one, always), as logged among them. Where the
          log never was, the log's actions over all states, and `undecided`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dualq.base import Begin, silent
from dualq.model import MDP, TablePolicy, solve_chain
from dualq.offline.careful.pooling import Lean, Rows, bernstein_penalty, leaning, pooling_shares, row_variance
from dualq.solvers import solve_dynamic

Array = np.ndarray

STRENGTH = 0.5  # z at pessimism 1
POOLING_ROUNDS = 2  # rounds in which the pooling still follows V
ROUNDS = 12
NEAR = 1e-12  # how exactly the chance of an unknown state is found
SETTLED = 1e-5  # movement of V, relative to how far values differ, at which the rounds end


@dataclass(frozen=True, eq=False)
class Fitted:
    """The careful model of some rows, the policy that is best in it, and what it was made with."""

    rows: Rows = field(repr=False)
    mdp: MDP  # pooled, less the penalty
    pooled: MDP  # without the penalty
    policy: TablePolicy
    V: Array = field(repr=False)  # optimal in mdp
    penalty: Array = field(repr=False)  # (S, A)
    shares: Array = field(repr=False)  # n / (n + k) (S, A)
    sigma2: Array = field(repr=False)  # variance of y (S, A)
    unknown_value: float  # of states never left
    moved: float  # how far V still moved in the last round


def fitted(
    rows: Rows, pessimism: float, pooling: float = 1.0, begin: Begin = silent, whose: str = "all rows"
) -> Fitted:
    """The careful model of these rows; with nothing to pool nor to charge, the plug-in. `begin` hears of each round."""
    z, k_scale = pessimism * STRENGTH, pessimism * pooling
    if z == 0.0 and k_scale == 0.0:
        return _plug_in(rows)
    V = rows.behaviour.value(rows.plug_in)
    lean, sigma2, penalty = alone(rows), np.zeros(rows.n.shape), np.zeros(rows.n.shape)
    shares, mdp, moved = lean.own, rows.plug_in, np.inf
    model = pooled = rows.plug_in
    unknown_value, reached = 0.0, _reached(rows, rows.plug_in, rows.behaviour)
    for round_ in range(ROUNDS):
        begin(f"Learning from {whose}, round {round_ + 1}")
        moments = rows.moments(V)
        if round_ < POOLING_ROUNDS and k_scale > 0.0:
            shares = pooling_shares(rows, moments, k_scale)
            lean = leaning(rows, moments, shares, row_variance(rows, moments, shares))
        sigma2 = row_variance(rows, moments, shares)
        penalty = bernstein_penalty(rows.n, rows.total, shares, sigma2, moments.spread, z)
        # The average that it is itself a part of, while the policy stays.
        chance, mean = (float(rows.total @ x) / rows.total.sum() for x in (reached, V))
        unknown_value = (mean - chance * unknown_value) / (1.0 - chance)
        if round_ < POOLING_ROUNDS:  # from then on the pooling stays
            model = rows.pooled(lean)
        pooled = rows.worth(model, unknown_value)
        mdp = pooled.paying(pooled.rewards - penalty)
        V_before, V = V, _optimal(mdp, V)
        moved = float(np.abs(V - V_before).max())
        if round_ + 1 >= POOLING_ROUNDS and moved <= SETTLED * np.ptp(V):
            break
        greedy = TablePolicy.greedy(mdp.q_values(V), mdp.states, mdp.actions)
        reached = _reached(rows, pooled, greedy, reached)
    policy = _policy(rows, mdp, V)
    return Fitted(rows, mdp, pooled, policy, V, penalty, shares, sigma2, unknown_value, moved)


def _plug_in(rows: Rows) -> Fitted:
    """The frequencies as they are."""
    mdp, shares = rows.plug_in, alone(rows).own
    V = _optimal(mdp)
    sigma2 = row_variance(rows, rows.moments(V), shares)
    policy = TablePolicy.greedy(mdp.q_values(V), mdp.states, mdp.actions)
    return Fitted(rows, mdp, mdp, policy, V, np.zeros(sigma2.shape), shares, sigma2, 0.0, 0.0)


def alone(rows: Rows) -> Lean:
    """Every pair for itself."""
    nothing = np.zeros(rows.n.shape)
    return Lean(rows.supported.astype(float), nothing, nothing.astype(int))


def _reached(rows: Rows, mdp: MDP, policy: TablePolicy, guess: Array | None = None) -> Array:
    """By how much the value of each state rises with what states never left are worth."""
    if not rows.unknown.any():
        return np.zeros(mdp.num_states)
    P, _ = policy.chain(mdp)
    b = np.where(rows.unknown, 1.0 - mdp.discount, 0.0)
    return solve_chain(P, mdp.discount, b, tolerance=NEAR, guess=guess)


def _optimal(mdp: MDP, guess: Array | None = None) -> Array:
    """V*."""
    differences = float(np.ptp(mdp.rewards[mdp.available])) / (1.0 - mdp.discount) or 1.0
    return solve_dynamic(mdp, 1e-8 * min(1.0, differences), guess).V


def _policy(rows: Rows, mdp: MDP, V: Array) -> TablePolicy:
    """Optimal in the careful model; as logged among actions that tie."""
    Q = mdp.q_values(V)
    best = Q.max(axis=1, keepdims=True)
    ties = best - Q <= 1e-7 * (np.ptp(V) or np.ptp(mdp.rewards[rows.supported]))
    matrix = np.where(rows.seen[:, None], rows.habit * ties, rows.habit)
    return TablePolicy(matrix / matrix.sum(axis=1, keepdims=True), mdp.states, mdp.actions, ~rows.seen)
