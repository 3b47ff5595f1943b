"""The saddle problem without Q, as hybrid gradient methods see it: pdhg.py, and limited/pdhg_prices.py with limits.

              L(V, lambda) = eta'V + lambda'(R - K V),   K = E - alpha P, one row per pair that exists
              lambda in D = { lambda >= 0,  sum lambda = B },   B = ||eta||_1 / (1 - alpha)

Here are its parts: the arrays in the kernels' units (rewards in [-1, 1], weights that sum to one), the products with K
and K', the projection onto D, exact evaluation of a policy, and what is proven of a V.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dualq.base import copy_into, kernel, unsigned
from dualq.model import MDP, solve_chain

Array = np.ndarray

NEWTON = 100  # passes of a projection; two or three are usual
LEAST_VALUE = 1e-3  # part of B (max R - min R)


class BilinearModel(NamedTuple):
    """The saddle problem: the pairs that exist, state by state, in the kernel's units; read-only."""

    first: Array  # (S + 1,) where each state's pairs begin
    ptr: Array  # (pairs + 1,) where each pair's successors begin
    idx: Array  # (nonzeros,) successors
    P: Array  # (nonzeros,) probabilities
    R: Array  # (pairs,)
    eta: Array  # (S,)
    tau: Array  # (S,)
    sigma: Array  # (pairs,)
    alpha: float
    mass: float  # B
    unit: float  # rounding of a row's residual, and of a sum over all rows, relative to the size of their terms

    def residual(self, V: Array) -> Array:
        """R - K V."""
        r, d = np.empty(self.R.size), np.empty(self.eta.size)
        residual_of(self, V, r, d)
        return r

    def transitions(self, pairs: Array) -> sp.csr_array:
        """The rows of P at these pairs."""
        arrays = self.P, self.idx.view(f"i{self.idx.itemsize}"), self.ptr.view(f"i{self.ptr.itemsize}")
        return sp.csr_array(arrays, shape=(self.R.size, self.eta.size))[pairs]


class Units(NamedTuple):
    """Between the user's units and the kernel's: rewards in [-1, 1], weights that sum to one."""

    centre: float  # of the rewards
    value: float  # half the range of the rewards: one unit of R and V
    shift: float  # centre / (1 - alpha)
    weight: float  # ||eta||_1: one unit of eta and lambda
    eta: Array  # (S,) in the kernel's units

    @classmethod
    def of(cls, mdp: MDP, eta: Array) -> Units:
        """The units of a model: its range of rewards, its weights."""
        low, high = mdp.reward_range
        centre = 0.5 * low + 0.5 * high
        return cls(centre, 0.5 * (high - low) or 1.0, centre / (1.0 - mdp.discount), eta.sum(), eta / eta.sum())

    def total(self, lower: float, upper: float) -> tuple[float, float]:
        """Bounds on eta'V* in the user's units."""
        low, high = (self.weight * (self.value * float(bound) + self.shift) for bound in (lower, upper))
        return float(low), float(high)


class Target(NamedTuple):
    """The gap at which to stop, in the kernel's units."""

    tolerance: float
    zero: float  # how much larger eta'V is in the user's units
    worst: float  # eta'V of the worst reward for ever
    least: float  # size of eta'V below which the gap is not measured relative to it

    @classmethod
    def of(cls, model: BilinearModel, units: Units, tolerance: float) -> Target:
        """The target of a known model."""
        least = LEAST_VALUE * model.mass * float(np.ptp(model.R))
        return cls(tolerance, units.shift / units.value, model.mass * float(model.R.min()), least)


def model_of(mdp: MDP, units: Units) -> BilinearModel:
    """The saddle problem of a known model, over the pairs that exist."""
    pairs = np.flatnonzero(mdp.available)
    ptr = np.append(mdp.indptr[pairs], mdp.indptr[-1])
    R = (mdp.rewards.ravel()[pairs] - units.centre) / units.value
    return packed(mdp.available.sum(axis=1), ptr, mdp.indices, mdp.probabilities, R, units.eta, mdp.discount)


def packed(counts: Array, ptr: Array, indices: Array, P: Array, R: Array, eta: Array, alpha: float) -> BilinearModel:
    """The saddle problem, with its preconditioner."""
    first = np.concatenate([[0], np.cumsum(counts)])
    idx = unsigned(np.ascontiguousarray(indices))
    ptr = unsigned(np.ascontiguousarray(ptr, indices.dtype))
    tau, sigma = np.empty(eta.size), np.empty(R.size)
    _precondition(first, ptr, idx, P, alpha, tau, sigma)
    # the worst case of a row, the usual one of n terms, sqrt n
    unit = 0.5 * np.finfo(float).eps * (int(np.diff(ptr).max()) + 4 + np.sqrt(R.size))
    return BilinearModel(first, ptr, idx, P, R, eta, tau, sigma, alpha, float(eta.sum()) / (1.0 - alpha), unit)


# ---- policies and values


class Evaluated(NamedTuple):
    """A policy and its exact values."""

    chosen: Array  # (S,) its pairs
    V: Array  # (S,)
    value: float  # eta'V


def evaluated(model: BilinearModel, r: Array, last: Evaluated | None) -> Evaluated:
    """The policy that takes the largest r in each state."""
    chosen = np.empty(model.eta.size, np.int64)
    _greedy(model.first, r, chosen)
    if last is not None and np.array_equal(chosen, last.chosen):
        return last
    V = solve_chain(model.transitions(chosen), model.alpha, model.R[chosen])
    return Evaluated(chosen, V, float(model.eta @ V))


def feasible_values(model: BilinearModel, V: Array) -> tuple[Array, Array]:
    """V = max_a Q, and Q = R + alpha P (V + c) per pair, c = max (R - K V) / (1 - alpha)."""
    r = model.residual(V)
    q = r + np.repeat(V, np.diff(model.first)) + model.alpha * (r.max() / (1.0 - model.alpha))
    return np.maximum.reduceat(q, model.first[:-1]), q


def proven_bound(model: BilinearModel, V: Array) -> float:
    """|V - V*| <= max |T V - V| / (1 - alpha), rounding included."""
    residual = np.abs(np.maximum.reduceat(model.residual(V), model.first[:-1])).max()
    size = np.abs(model.R).max() + 2.0 * np.abs(V).max()
    return float((residual + model.unit * size) / (1.0 - model.alpha))


# ---- kernels


@kernel
def _precondition(first, ptr, idx, P, alpha, tau, sigma):
    """tau and sigma: one over the sums of |K| along columns and rows. A successor may be listed twice."""
    tau[:] = 0.0
    for s in range(tau.size):
        for i in range(first[s], first[s + 1]):
            stay, total = 0.0, 0.0
            for j in range(ptr[i], ptr[i + 1]):
                total += P[j]
                if idx[j] == s:
                    stay += P[j]
                else:
                    tau[idx[j]] += alpha * P[j]
            tau[s] += 1.0 - alpha * stay
            sigma[i] = 1.0 / (1.0 - alpha * stay + alpha * (total - stay))
    for s in range(tau.size):
        tau[s] = 1.0 / tau[s]


@kernel
def residual_of(model, V, r, d):
    """r = R - K V, d its maximum in each state."""
    first, ptr, idx, P, R, alpha = model.first, model.ptr, model.idx, model.P, model.R, model.alpha
    for s in range(V.size):
        best = -np.inf
        for i in range(first[s], first[s + 1]):
            flow = 0.0
            for j in range(ptr[i], ptr[i + 1]):
                flow += P[j] * V[idx[j]]
            r[i] = R[i] + alpha * flow - V[s]
            best = max(best, r[i])
        d[s] = best


@kernel
def gradient_of(model, lambda_, g):
    """g = eta - K'lambda."""
    first, ptr, idx, P, alpha = model.first, model.ptr, model.idx, model.P, model.alpha
    copy_into(g, model.eta)
    for s in range(g.size):
        for i in range(first[s], first[s + 1]):
            x = lambda_[i]
            if x != 0.0:
                g[s] -= x
                for j in range(ptr[i], ptr[i + 1]):
                    g[idx[j]] += alpha * P[j] * x


@kernel
def project_mass(x, sigma, mass, nu):
    """x onto { x >= 0, sum x = mass } in the norm |x|_{1/sigma}, in place: x_i <- max(x_i - sigma_i nu, 0); nu.

    Newton on sum_i max(x_i - sigma_i nu, 0) = mass, convex in nu, from the last nu. The entries above zero are those
    with x_i / sigma_i > nu, so equal numbers of them are equal sets, and then nu is exact.
    """
    count = -1
    for _ in range(NEWTON):
        total, weight, left = 0.0, 0.0, 0
        for i in range(x.size):
            keep = x[i] > sigma[i] * nu
            total += x[i] if keep else 0.0
            weight += sigma[i] if keep else 0.0
            left += keep
        if left == 0:  # too far to the right: a nu at which one entry alone has the mass is on the left
            nu = -np.inf
            for i in range(x.size):
                nu = max(nu, (x[i] - mass) / sigma[i])
            continue
        if left == count:
            break
        nu, count = (total - mass) / weight, left
    for i in range(x.size):
        x[i] = max(x[i] - sigma[i] * nu, 0.0)
    return nu


@kernel
def small_enough(lower, upper, target):
    """Whether the gap is within the tolerance."""
    size = min(max(abs(lower + target.zero), abs(upper + target.zero)), upper - target.worst)
    return upper - lower <= target.tolerance * max(size, target.least)


@kernel
def _greedy(first, r, chosen):
    """The pair with the largest r in each state; among equals the first."""
    for s in range(chosen.size):
        chosen[s] = first[s]
        for i in range(first[s], first[s + 1]):
            if r[i] > r[chosen[s]]:
                chosen[s] = i
