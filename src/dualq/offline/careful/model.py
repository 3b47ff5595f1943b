"""Careful learning: from counts to a model that does not promise more than the log can tell, and its policy.

Problem   the plug-in model (frequencies for probabilities) has a best policy that is best at finding lucky pairs:
          of many thin pairs some look good by chance, and its value is a promise that nobody keeps.
Pooling   thin pairs lean on their state's average and on what the action does elsewhere, P~ and R~, and are charged a
Penalty   penalty for the doubt that choosing them adds (`pooling`).
Unknown   pairs never seen are not available. A state never left has no known future: it is worth what the states of the
          log are worth on average, so that nothing is drawn to it nor away from it. That average rises with its own
          value, so it is the u with  mean V = u,  where mean V is linear in u while the policy stays.
Update    V -> pooling, penalty -> model (P~, R~ - penalty) -> its optimal V, until V does not move. Pooling is settled
          in the first rounds. The model of the last round is an ordinary MDP: its saddle point is what is reported.
Policy    optimal in that model. Where actions tie (where there was but one, always), as logged among them. Where the
          log never was, the log's actions over all states, and `undecided`.
Claims    `claimed` is the policy's value in (P~, R~), without the penalty; `expected` is what is left of it without
          luck, with its standard error (`luck`).

`pessimism` multiplies z and k. 0 is the plug-in; 1 the default, which needs no tuning (benchmarks/offline.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dualq.base import LogError
from dualq.logs import Counts
from dualq.model import MDP, TablePolicy
from dualq.offline.careful.pooling import Fitted, Lean, Rows, bernstein_penalty, leaning, pooling_shares, row_variance
from dualq.offline.careful.selection_bias import Estimate, expect, log_variance, part_kept
from dualq.solvers import solve_dynamic

Array = np.ndarray

STRENGTH = 0.5  # z at pessimism 1
POOLING_ROUNDS = 2  # rounds in which the pooling still follows V
ROUNDS = 12
SETTLED = 1e-5  # movement of V, relative to how far values differ, at which the rounds end


@dataclass(frozen=True, eq=False)
class Careful:
    """What a log supports: a model, the policy that is best in it, and what that policy may be expected to earn.

    Arrays are (S, A) in the model's states: those of the log, and "(end)" where some row ended.
    """

    mdp: MDP  # pairs that were logged; pooled, less the penalty
    policy: TablePolicy  # the recommended one
    behaviour: TablePolicy  # n(s, a) / n(s); over all states' actions, and undecided, where the log never was
    V: Array = field(repr=False)  # optimal in mdp
    penalty: Array = field(repr=False)  # taken off the rewards of mdp
    weight: Array = field(repr=False)  # w = n / (n + k): what the pair's own rows count for
    error: Array = field(repr=False)  # standard error of r + alpha V(s') of a pair; inf where it was never seen
    expected: Estimate  # value of the policy from the start, without what is luck in `claimed`
    logged: Estimate  # value of the logged behaviour from the start
    claimed: float  # value of the policy from the start in the pooled model
    careful: float  # the same with the penalties taken off
    kept: (
        float  # the part of claimed - logged that is not luck, by asking one half of the rows about the other's choices
    )
    pessimism: float
    moved: float  # how far V still moved in the last round
    reason: str


def careful_model(
    counts: Counts, discount: float, start: Any = None, pessimism: float | None = None, *, pooling: float = 1.0
) -> Careful:
    """A model that is careful where the log is thin, and the policy that is best in it.

    start       (S,) weights of the states where value is measured; how often the log left each state, if not given
    pessimism   0: the plug-in; 1: the default; more: closer to what the log did
    pooling     multiplies k once more; 0 leaves pairs apart (for studies: there is no need to set it)
    """
    pessimism = 1.0 if pessimism is None else _not_negative("pessimism", pessimism)
    k_scale, z = pessimism * _not_negative("pooling", pooling), pessimism * STRENGTH
    rows = Rows.of(counts, discount)
    start = _checked_start(start, rows)
    fit, policy, moved = _fit(rows, z, k_scale)
    behaviour = TablePolicy(rows.habit, rows.plug_in.states, rows.plug_in.actions, ~rows.seen)
    apart = rows.pooled_model(_alone(rows), fit.unknown_value)  # on average the log needs no pooling
    gain = float(start @ (policy.value(fit.pooled) - behaviour.value(apart)))
    kept = part_kept(counts, discount, start, lambda half: _fit(half, z, k_scale)[:2], gain)
    expected, logged, claimed = expect(rows, fit.pooled, apart, policy, behaviour, start, kept)
    return Careful(
        mdp=fit.mdp,
        policy=policy,
        behaviour=behaviour,
        V=fit.V,
        penalty=fit.penalty,
        weight=fit.shares,
        error=pair_errors(rows, fit.V, fit.shares),
        expected=expected,
        logged=logged,
        claimed=claimed,
        careful=float(start @ policy.value(fit.mdp)),
        kept=kept.value,
        pessimism=pessimism,
        moved=moved,
        reason=_reason(rows, policy, pessimism),
    )


def _fit(rows: Rows, z: float, k_scale: float) -> tuple[Fitted, TablePolicy, float]:
    """The model, the policy, and how far V still moved; with nothing to pool nor to charge, the plug-in."""
    if z == 0.0 and k_scale == 0.0:
        mdp, V = rows.plug_in, _optimal(rows.plug_in)[0]
        lean = _alone(rows)
        sigma2 = row_variance(rows, rows.moments(V), lean.own)
        fit = Fitted(mdp, mdp, V, np.zeros(sigma2.shape), lean.own, lean, sigma2, 0.0)
        return fit, TablePolicy.greedy(mdp.q_values(V), mdp.states, mdp.actions), 0.0
    fit, moved = _rounds(rows, z, k_scale)
    return fit, _policy(rows, fit), moved


def _rounds(rows: Rows, z: float, k_scale: float) -> tuple[Fitted, float]:
    """Iterate V -> pooling and penalty -> model -> V; the last round, and how far V moved in it."""
    V = TablePolicy(rows.habit).value(rows.plug_in)
    lean, fit, moved = _alone(rows), None, np.inf
    unknown_value, chance = 0.0, _chance_unknown(rows, rows.plug_in, TablePolicy(rows.habit))
    shares = lean.own
    for round_ in range(ROUNDS):
        moments = rows.moments(V)
        if round_ < POOLING_ROUNDS and k_scale > 0.0:
            shares = pooling_shares(rows, moments, k_scale)
            lean = leaning(rows, moments, shares, row_variance(rows, moments, shares))
        sigma2 = row_variance(rows, moments, shares)
        penalty = bernstein_penalty(rows.n, rows.total, shares, sigma2, moments.spread, z)
        # The average that it is itself a part of, while the policy stays.
        unknown_value = (float(rows.total @ V) / rows.total.sum() - chance * unknown_value) / (1.0 - chance)
        pooled = rows.pooled_model(lean, unknown_value)
        mdp = _less(pooled, penalty)
        V_before, (V, _) = V, _optimal(mdp)
        fit = Fitted(mdp, pooled, V, penalty, shares, lean, sigma2, unknown_value)
        chance = _chance_unknown(rows, pooled, TablePolicy.greedy(mdp.q_values(V), mdp.states, mdp.actions))
        moved = float(np.abs(V - V_before).max())
        if round_ + 1 >= POOLING_ROUNDS and moved <= SETTLED * np.ptp(V):
            break
    assert fit is not None
    return fit, moved


def _chance_unknown(rows: Rows, mdp: MDP, policy: TablePolicy) -> float:
    """By how much the log's average value rises with what states never left are worth."""
    if not rows.unknown.any():
        return 0.0
    ends = np.where(rows.unknown[:, None], 1.0 - mdp.discount, 0.0) * np.ones(rows.n.shape)
    model = MDP(mdp.transitions, ends, mdp.discount, states=mdp.states, actions=mdp.actions, available=mdp.available)
    return float(rows.total @ TablePolicy(policy.matrix).value(model)) / rows.total.sum()


def _alone(rows: Rows) -> Lean:
    """Every pair for itself."""
    nothing = np.zeros(rows.n.shape)
    return Lean(rows.supported.astype(float), nothing, nothing.astype(int))


def _less(mdp: MDP, penalty: Array) -> MDP:
    return MDP(
        mdp.transitions,
        mdp.rewards - penalty,
        mdp.discount,
        states=mdp.states,
        actions=mdp.actions,
        available=mdp.available,
    )


# ---- the answer


def _optimal(mdp: MDP) -> tuple[Array, float]:
    """V* and the proven bound on its error."""
    differences = float(np.ptp(mdp.rewards[mdp.available])) / (1.0 - mdp.discount) or 1.0
    V, error_bound, *_ = solve_dynamic(mdp, 1e-8 * min(1.0, differences))
    return V, error_bound


def _policy(rows: Rows, fit: Fitted) -> TablePolicy:
    """Optimal in the careful model; as logged among actions that tie."""
    Q = fit.mdp.q_values(fit.V)
    best = Q.max(axis=1, keepdims=True)
    ties = best - Q <= 1e-7 * (np.ptp(fit.V) or np.ptp(fit.mdp.rewards[rows.supported]))
    matrix = np.where(rows.seen[:, None], rows.habit * ties, rows.habit)
    return TablePolicy(matrix / matrix.sum(axis=1, keepdims=True), fit.mdp.states, fit.mdp.actions, ~rows.seen)


def pair_errors(rows: Rows, V: Array, shares: Array) -> Array:
    """Standard error of the mean of y in a pair: sqrt(sigma^2 / (n + k)); inf where the pair was never seen."""
    moments = rows.moments(V)
    sigma2 = row_variance(rows, moments, shares, log_variance(rows, moments))
    return np.where(rows.supported, np.sqrt(sigma2 * shares / np.maximum(rows.n, 1.0)), np.inf)


def _reason(rows: Rows, policy: TablePolicy, pessimism: float) -> str:
    """How the policy was chosen."""
    choices = rows.supported.sum(axis=1) > 1
    chosen, usual = policy.matrix.argmax(axis=1), rows.n.argmax(axis=1)
    changed = int((choices & (chosen != usual)).sum())
    care = "Averages of the log are taken at face value, however few rows they have (pessimism 0)."
    if pessimism > 0.0:
        care = "Rarely tried actions are judged cautiously."
    some = f"{changed:,}" if changed else "none"
    return (
        f"In {int(choices.sum()):,} of {int(rows.seen.sum()):,} states the log has tried more than one action; in "
        f"{some} of these the new policy prefers another action than the most frequent one. {care}"
    )


# ---- checks at the border


def _not_negative(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not 0.0 <= number < np.inf:
        raise LogError(f"{name} is {value!r}; it must be a finite number, not negative (1 is the default)")
    return number


def _checked_start(start: Any, rows: Rows) -> Array:
    """Weights of the model's states, summing to one."""
    if start is None:
        return rows.total / rows.total.sum()
    given = np.asarray(start, dtype=float)
    S = rows.counts.shape[0]
    if given.shape != (S,):
        raise LogError(f"start has shape {given.shape}; it must have a weight for each of {S} states")
    if not (np.isfinite(given).all() and (given >= 0.0).all() and given.sum() > 0.0):
        raise LogError("start must be weights that are finite and not negative, some of them positive")
    return rows.counts.support.to_model(given / given.sum())
