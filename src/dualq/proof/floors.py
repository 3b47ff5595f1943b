"""Floors: the fixed point of what every pair is worth at least, for a policy or for the worst of all actions.

With X^ the mean of X and f^ = sum_e (n_e / n) f_e, both of the pair, on events 1 and 2 for any V

    r + alpha P V = E X^ + alpha P (V - f^) >= X^ - B / n + alpha inf {P (V - f^) : KL(P^ || P) <= beta / n}

and V^pi is at least the fixed point of V = sum_a pi (...), the right side. A ceiling is minus a floor of minus the
value, with the best action (docs/certificate.md, floor and ceiling).

    docs      here
    X^        centre
    f^        anchor
    f_e       references
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dualq.logs import Counts
from dualq.model import MDP, TablePolicy, good_order, solve_chain, solve_ordered
from dualq.proof.evidence import Evidence, evidence_of
from dualq.proof.noise import noise_of
from dualq.proof.successors import balls_of, largest_gap, sup_over_ball, undominated
from dualq.solvers import solve

Array = np.ndarray

SHARES = {"optimal": 0.8, "behaviour": 0.1, "transitions": 0.1}  # of delta: the two references, and event 2
ENOUGH = 20  # rows per logged pair, on average, before a reference is tried
DENSE = 300  # states up to which linear systems are solved as dense ones
PRECISION = 1e-7  # of values, relative; what is missing is subtracted
ROUNDS = 30  # of the iteration at most


class Model(NamedTuple):
    """Everything that holds with probability 1 - delta, for one reference."""

    evidence: Evidence
    alpha: float
    n: Array  # (pairs,)
    visits: Array  # (blocks, pairs)
    p: Array  # (entries,) P^
    r: Array  # (pairs,) r^
    around: Array  # (entries,) the centre of the ball of successors ...
    eps: Array  # (pairs,) ... and its radius beta / n
    references: Array  # (blocks, S + 1) f_e
    anchor: Array  # (entries,) f^ of the pair at the successor
    centre: Array  # (pairs,) X^
    noise: Array  # (2, pairs) B, for floors, and B', for ceilings
    reward_part: Array  # (pairs,) of the noise


class Bound(NamedTuple):
    """A floor in every state, and what it is made of."""

    value: Array  # (S,)
    pairs: Array  # (pairs,) r + alpha P V is at least this
    choice: Array  # (S, A) actions and their weights
    noise: Array  # (pairs,) B / n


def floor_of(model: Model, V: Array, worst: float, allowed: Array, policy: Array | None, sign: float) -> Bound:
    """The floor of sign * V^pi, of a policy, or with the worst of the allowed actions (policy None), from a guess V.

    For sign = -1 it is minus a ceiling: the guess and the range's end `worst` are those of -V already. A pair whose own
    floor is under the end of the range is given up for the latter. Policy iteration: the adversary chooses P (and
    actions) until nothing changes; then pairs are given up or taken back; each round raises the floor. The last step
    checks the inequality V <= T V itself and pays for what is missing.
    """
    ev, alpha = model.evidence, model.alpha
    S, A = ev.shape
    wanted = (allowed if policy is None else policy > 0.0).ravel()
    anchor, references = sign * model.anchor, sign * model.references
    noise = model.noise[0 if sign > 0.0 else 1] / np.maximum(model.n, 1.0)
    c = np.where(model.n > 0, sign * model.centre - noise, -np.inf)
    weights, rest = np.empty(ev.columns.size), np.empty(c.size)
    share = model.visits / np.maximum(model.n, 1.0)

    def backed_up(V: Array, wanted: Array) -> tuple[Array, Array]:
        """What each pair is worth at least, and where the rest of its successors' probability goes."""
        top, largest = largest_gap(share, V, references, undominated(V, references, ev.possible))
        sup = sup_over_ball(ev.indptr, ev.columns, model.around, model.eps, anchor, V, wanted, largest, weights, rest)
        return c - alpha * sup, top

    lost, order = ~(backed_up(V, wanted)[0] >= worst), None
    for outer in range(ROUNDS + 1):
        for _ in range(ROUNDS):
            q, top = backed_up(V, wanted & ~lost)
            target, choice = _choose(np.where(lost, worst, q), policy, allowed)
            if not np.abs(target - V[:S]).max() > PRECISION * (1.0 - alpha) * (np.abs(V).max() + abs(worst)):
                break
            chain = mixed_chain(ev, choice, weights, rest, top, lost)
            # what P (V - f^) takes off: f^ under the worst P, at the place of the rest too
            paid = ev.per_pair(weights * anchor) + rest * (share * references[:, top]).sum(axis=0)
            gain = np.where(lost, worst, c - alpha * paid)
            gain = np.where(choice > 0.0, choice * np.where(choice.ravel() > 0.0, gain, 0.0).reshape(S, A), 0.0)
            if S <= DENSE:
                V = np.append(solved_chain(chain, alpha, gain.sum(axis=1)), 0.0)
                continue
            order = good_order(chain) if order is None else order
            near = 1e-3 * PRECISION * (1.0 - alpha) * (np.abs(V).max() + abs(worst))
            V = np.append(solve_ordered(chain, alpha, gain.sum(axis=1), order, V[:S], near), 0.0)
        q, _ = backed_up(V, wanted)
        give_up = ~(q >= worst)
        if (give_up == lost)[wanted].all() or outer == ROUNDS:
            q = np.maximum(q, worst)
            target, choice = _choose(q, policy, allowed)
            missing = max(float((V[:S] - target).max()), 0.0) + 1e-13 * (np.abs(V).max() + abs(worst))
            return Bound(np.maximum(V[:S] - missing / (1.0 - alpha), worst), q, choice, noise)
        lost = give_up
    raise AssertionError("unreachable")


def _choose(q: Array, policy: Array | None, allowed: Array) -> tuple[Array, Array]:
    """The value in each state, and the weights of the actions: the policy's, or the worst allowed action."""
    q = q.reshape(allowed.shape)
    if policy is not None:
        return np.where(policy > 0.0, policy * np.where(policy > 0.0, q, 0.0), 0.0).sum(axis=1), policy
    q = np.where(allowed, q, np.inf)
    choice = np.zeros(q.shape)
    choice[np.arange(len(q)), q.argmin(axis=1)] = 1.0
    return q.min(axis=1), choice


def mixed_chain(ev: Evidence, choice: Array, weights: Array, rest: Array, top: Array, lost: Array) -> sp.csr_array:
    """The chain of the states under the chosen actions; the end, and pairs given up, lead nowhere."""
    S, A = ev.shape
    share = np.where(lost, 0.0, choice.ravel())
    pair, state = ev.pair, np.arange(S * A) // A
    inside = np.flatnonzero((ev.columns < S) & (share[pair] > 0.0))
    extra = np.flatnonzero((share * rest > 0.0) & (top < S))
    data = np.concatenate([share[pair[inside]] * weights[inside], share[extra] * rest[extra]])
    rows = np.concatenate([state[pair[inside]], state[extra]])
    return sp.csr_array((data, (rows, np.concatenate([ev.columns[inside], top[extra]]))), shape=(S, S))


def solved_chain(chain: sp.csr_array, alpha: float, b: Array, transpose: bool = False) -> Array:
    """(I - alpha chain)^-1 b, or the transposed."""
    if b.size > DENSE:
        return solve_chain(chain, alpha, b, transpose)
    matrix = np.eye(b.size) - alpha * chain.toarray()
    return np.linalg.solve(matrix.T if transpose else matrix, b)


# ---- the parts put together


def models_of(blocks: Sequence[Counts], merged: Counts, alpha: float, delta: float) -> dict[str, Model]:
    """One model per reference, all of them valid together with probability 1 - delta."""
    ev = evidence_of(blocks, merged)
    S, A = ev.shape
    visits, n = ev.per_pair(ev.n), ev.n.sum(axis=0)
    N = visits.sum(axis=0)
    around, eps = balls_of(ev, SHARES["transitions"] * delta)
    r = np.clip(ev.per_pair(ev.r.sum(axis=0)) / np.maximum(N, 1.0), *merged.reward_range)
    models = {}
    for name, references in references_of(blocks, ev, alpha).items():
        level = np.log(2.0 * S * A / (SHARES[name] * delta))
        noise, part = noise_of(ev, references, alpha, merged.reward_range, level, merged.total)
        share = visits / np.maximum(N, 1.0)
        anchor = (share[:, ev.pair] * references[:, ev.columns]).sum(axis=0)
        centre = r + alpha * ev.per_pair((ev.n * references[:, ev.columns]).sum(axis=0)) / np.maximum(N, 1.0)
        p = n / np.maximum(N, 1.0)[ev.pair]
        models[name] = Model(ev, alpha, N, visits, p, r, around, eps, references, anchor, centre, noise, part)
    return models


def references_of(blocks: Sequence[Counts], ev: Evidence, alpha: float) -> dict[str, Array]:
    """f_e of every block, from the blocks before it: the plug-in value of the best policy, and of the behaviour."""
    S = ev.shape[0]
    best, behaviour = np.zeros((len(blocks), S + 1)), np.zeros((len(blocks), S + 1))
    past = None
    for e, counts in enumerate(blocks[:-1], 1):
        past = counts if past is None else past.merge(counts)
        if past.total < ENOUGH * (past.visits > 0).sum():
            continue  # plug-in values of so few rows are wild, and a wild reference costs more than none
        mdp = plug_in(past, alpha)
        best[e, :S] = past.support.to_log(solve(mdp).V)
        behaviour[e, :S] = past.support.to_log(TablePolicy(logged_policy(past, mdp)).value(mdp))
    return {"optimal": best, "behaviour": behaviour}


def plug_in(counts: Counts, alpha: float) -> MDP:
    """The empirical model; where nothing is known, the average reward."""
    return counts.mdp(alpha, never_left_reward=float(counts.reward_sum.sum() / max(counts.total, 1)))


def logged_policy(counts: Counts, mdp: MDP) -> Array:
    """n(s, a) / n(s), uniform where a state was never left, in the states of the empirical model."""
    n = np.ones((mdp.num_states, mdp.num_actions))
    seen = np.flatnonzero(counts.visits.any(axis=1))
    n[seen] = counts.visits[seen]
    return n / n.sum(axis=1, keepdims=True)


def plug_in_value(model: Model, policy: Array, unknown: float) -> Array:
    """f (S + 1,): the value of a policy on the frequencies, where pairs never logged are worth `unknown`."""
    lost = model.n == 0
    nowhere = np.zeros(model.n.size, np.int64)
    chain = mixed_chain(model.evidence, policy, model.p, np.zeros(model.n.size), nowhere, lost)
    gain = (policy * np.where(lost, unknown, model.r).reshape(policy.shape)).sum(axis=1)
    return np.append(solved_chain(chain, model.alpha, gain), 0.0)
