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

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dualq.base import one_by_one, silent, together
from dualq.model import good_order, solve_chain, solve_ordered
from dualq.proof.confidence_sets import ConfidenceSet
from dualq.proof.evidence import Evidence
from dualq.proof.successors import largest_gap, sup_over_ball, undominated

Array = np.ndarray

DENSE = 300  # states up to which linear systems are solved as dense ones
PRECISION = 1e-7  # of values, relative; what is missing is subtracted
ROUNDS = 30  # of the iteration at most
FIRST_ROUNDS = 8  # in which pairs are given up with every step: that takes few of them, or goes in circles
MANY_ENTRIES = 50_000  # of counts, from which on a thread is worth its while


class Bound(NamedTuple):
    """A floor in every state, and what it is made of."""

    value: Array  # (S,)
    pairs: Array  # (pairs,) r + alpha P V is at least this
    choice: Array  # (S, A) actions and their weights
    noise: Array  # (pairs,) B / n


Asked = tuple[ConfidenceSet, Array, float, Array, Array | None, float]  # what `floor_of` takes


def floors_of(groups: list[list[Asked]]) -> list[list[Bound]]:
    """The floors of several groups; of many entries side by side."""
    asked = [one for group in groups for one in group]
    side_by_side = together if asked[0][0].p.size >= MANY_ENTRIES else one_by_one
    found = iter(side_by_side([lambda _, one=one: floor_of(*one) for one in asked], silent))
    return [[next(found) for _ in group] for group in groups]


def floor_of(model: ConfidenceSet, V: Array, worst: float, allowed: Array, policy: Array | None, sign: float) -> Bound:
    """The floor of sign * V^pi, of a policy, or with the worst of the allowed actions (policy None), from a guess V.

    For sign = -1 it is minus a ceiling: the guess and the range's end `worst` are those of -V already. A pair whose own
    floor is under the end of the range is given up for the latter. Policy iteration: the adversary chooses P (and
    actions) until nothing changes; then pairs are given up or taken back; each round raises the floor. The first
    rounds do both at once, which leaves little to do. The last step checks the inequality V <= T V itself and pays for
    what is missing.
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
        for _ in range(FIRST_ROUNDS if outer == 0 else ROUNDS):
            q, top = backed_up(V, wanted if outer == 0 else wanted & ~lost)
            lost = ~(q >= worst) if outer == 0 else lost
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
        if (outer > 0 and (give_up == lost)[wanted].all()) or outer == ROUNDS:
            q = np.maximum(q, worst)
            target, choice = _choose(q, policy, allowed)
            missing = max(float((V[:S] - target).max()), 0.0) + 1e-13 * (np.abs(V).max() + abs(worst))
            taken = missing / (1.0 - alpha)
            return Bound(np.maximum(V[:S] - taken, worst), np.maximum(q - alpha * taken, worst), choice, noise)
        lost = give_up
    raise AssertionError("unreachable")


def pair_floors(model: ConfidenceSet, V: Array, worst: float) -> Array:
    """(S, A) the floors of r + alpha P V for a V (S,) of logged pairs; the worst, where nothing is known."""
    ev, logged = model.evidence, model.n > 0
    V = np.append(V, 0.0)
    weights, rest = np.empty(ev.columns.size), np.empty(logged.size)
    share = model.visits / np.maximum(model.n, 1.0)
    _, largest = largest_gap(share, V, model.references, undominated(V, model.references, ev.possible))
    sup = sup_over_ball(ev.indptr, ev.columns, model.around, model.eps, model.anchor, V, logged, largest, weights, rest)
    q = np.where(logged, model.centre - model.noise[0] / np.maximum(model.n, 1.0) - model.alpha * sup, worst)
    return np.maximum(q, worst).reshape(ev.shape)


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


def plug_in_value(model: ConfidenceSet, policy: Array, unknown: float) -> Array:
    """f (S + 1,): the value of a policy on the frequencies, where pairs never logged are worth `unknown`."""
    lost = model.n == 0
    nowhere = np.zeros(model.n.size, np.int64)
    chain = mixed_chain(model.evidence, policy, model.p, np.zeros(model.n.size), nowhere, lost)
    gain = (policy * np.where(lost, unknown, model.r).reshape(policy.shape)).sum(axis=1)
    return np.append(solved_chain(chain, model.alpha, gain), 0.0)
