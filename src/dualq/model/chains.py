"""The linear systems of one policy: x = b + alpha P x for a Markov chain P, and the same with P transposed.

With P = P_pi and b = R_pi the solution is the policy's value; with P_pi transposed and b = eta it is its discounted
occupancy per state (the paper's lambda, summed over actions). I - alpha P is an M-matrix, so elimination without
pivoting is stable and Gauss-Seidel converges; what differs between models is how fast.

Method    states stand in a good order (reverse Cuthill-McKee here; a caller may know a better one);
          where that makes the matrix narrow (queues, chains), elimination within the band: O(n) and exact;
          else BiCGSTAB on the Gauss-Seidel sweep: each product costs one pass over the rows;
          where that is slow, and a caller's order is one in which the chain moves, incomplete elimination
          (elimination.py); where it stalls, SciPy's sparse LU;
          few states: a dense inverse, which takes no longer and has nothing to compile.
Stops     each answer is refined until the residual b + alpha P x - x is below the tolerance, or at rounding.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dualq.base import kernel, unsigned
from dualq.model.elimination import Factors, eliminated

Array = np.ndarray

NARROW = 8  # half bandwidth up to which elimination within the band is tried first
SMALL = 64  # states up to which systems are dense
LARGE = 2_000  # states from which on an order is looked for only where there can be a good one ...
FEW_STEPS = 12  # ... which there cannot, where so many steps lead to half of all states
FEW_BITS = 2**32  # states up to which their numbers need four bytes
REFINEMENTS = 8
SWEEPS = 400  # Gauss-Seidel sweeps that BiCGSTAB may spend on one correction
AT_A_TIME = 20_000_000  # entries, of which as many are swept between two moments at which somebody may stop the program
GOING, DONE, BROKEN = 0, 1, 2


def solve_chain(
    P: sp.csr_array,
    discount: float,
    b: Array,
    transpose: bool = False,
    tolerance: float = 0.0,
    guess: Array | None = None,
) -> Array:
    """Solve x = b + alpha P x (with P' if transpose) to rounding, or till x changes by a tolerance only."""
    if transpose:
        P = sp.csr_array(P.T)
    if b.size <= SMALL:
        return solve_dense(P.toarray(), discount, b)
    return solve_ordered(P, discount, b, good_order(P), np.zeros(b.size) if guess is None else guess, tolerance)


def good_order(P: sp.csr_array) -> Array:
    """An order of the states in which P is narrow, if there is one; good for chains with about the same transitions."""
    states = P.indptr.size - 1
    if states > LARGE and _reaches_all(P.indptr, P.indices):
        return np.arange(states)
    both = sp.csr_array(P + P.T)
    if states > LARGE and _reaches_all(both.indptr, both.indices):
        return np.arange(states)
    from scipy.sparse.csgraph import reverse_cuthill_mckee  # small models need none of these

    return reverse_cuthill_mckee(both, symmetric_mode=True)


@kernel
def _reaches_all(ptr, idx):
    """Whether a few steps from the busiest state lead to half of all: then no order is narrow."""
    n = ptr.size - 1
    order, seen = np.empty(n, np.int64), np.zeros(n, np.bool_)
    busiest = 0
    for t in range(n):
        if ptr[t + 1] - ptr[t] > ptr[busiest + 1] - ptr[busiest]:
            busiest = t
    order[0], seen[busiest] = busiest, True
    begin, end = 0, 1
    for _ in range(FEW_STEPS):
        reached = end
        for i in range(begin, end):
            for j in range(ptr[order[i]], ptr[order[i] + 1]):
                u = idx[j]
                if not seen[u]:
                    seen[u] = True
                    order[reached] = u
                    reached += 1
        begin, end = end, reached
    return 2 * end > n


def solve_ordered(
    P: sp.csr_array, discount: float, b: Array, order: Array, start: Array, tolerance: float = 0.0
) -> Array:
    """Solve x = b + alpha P x from a start, states in an order; to rounding, or till x changes by a tolerance only."""
    if not np.array_equal(order, np.arange(b.size)):
        P = _in_order(P, order)
    indptr = unsigned(P.indptr)
    system = Ordered(indptr[:-1], indptr[1:], unsigned(P.indices), P.data, discount)
    x = np.empty(b.size)
    x[order] = system.solve(b[order], start[order], tolerance)
    return x


def _in_order(P: sp.csr_array, order: Array) -> sp.csr_array:
    """P with its states in an order."""
    place = np.empty(order.size, P.indices.dtype)
    place[order] = np.arange(order.size)
    rows = sp.csr_array(P[order])
    return sp.csr_array((rows.data, place[rows.indices], rows.indptr), shape=P.shape)


def solve_dense(P: Array, discount: float, b: Array) -> Array:
    """Solve x = b + alpha P x to rounding, P an array."""
    total = P.sum(axis=1)
    leak = 1.0 - discount * np.where(np.abs(total - 1.0) < 1e-12, 1.0, total)
    inverse = np.linalg.inv(np.eye(b.size) - discount * P)
    x = best = np.zeros(b.size)
    best_norm = np.inf
    for _ in range(REFINEMENTS):
        steps = x - x[:, None]  # from state s to state t x changes by steps[s, t]: less rounding, as in Ordered
        residual = b - leak * x + discount * (P * steps).sum(axis=1)
        terms = np.abs(b) + np.abs(leak * x) + discount * (P * np.abs(steps)).sum(axis=1) + 2.0 * np.abs(x)
        norm, progress = np.abs(residual).max(), np.abs(residual).max() < 0.5 * best_norm
        if norm < best_norm:
            best, best_norm = x, norm
        if norm <= 1.2e-16 * terms.max() or not progress:
            break
        x = x + inverse @ residual
    return best


class Ordered:
    """The matrix I - alpha P of a chain whose states stand in a good order, ready to be solved."""

    def __init__(self, begin: Array, end: Array, indices: Array, probabilities: Array, discount: float):
        """Row s of P is `indices[begin[s]:end[s]]` (unsigned) with the probabilities beside them."""
        nonzeros = int((end - begin).sum(dtype=np.int64))
        # Row t of (I - alpha P) x = b is diagonal[t] (x - C x)[t] = b[t], and also, with less rounding,
        # leak[t] x[t] - diagonal[t] sum_u C[t, u] (x[u] - x[t]) = b[t].
        self.diagonal = np.empty(begin.size)
        self.leak = np.empty(begin.size)  # 1 - alpha (sum of row t): 1 - alpha for a stochastic row
        self.ptr = np.empty(begin.size + 1, np.uint64)
        self.idx = np.empty(nonzeros, np.uint32 if begin.size <= FEW_BITS else np.uint64)
        self.C = np.empty(nonzeros)
        rows = self.diagonal, self.leak, self.ptr, self.idx, self.C
        self.bandwidth = _divide_by_diagonal(begin, end, indices, probabilities, discount, *rows)
        self.products = 0.0  # passes over all entries, or over as many
        self.stalled = False  # whether the last solve was left, as it would have taken too long
        self._band: Array | None = None
        self._factors: Factors | None = None

    def eliminate(self) -> bool:
        """Solve by incomplete elimination from now on, where that pays; whether it does."""
        self._factors = eliminated(self.ptr, self.idx, self.C)
        self.products += 1.0 if self._factors is None else self._factors.entries / self.C.size
        return self._factors is not None

    def solve(
        self, b: Array, start: Array, tolerance: float = 0.0, reduction: float = 1e-10, sweeps: int | None = None
    ) -> Array:
        """Solve x = b + alpha P x from a start, until max |b + alpha P x - x| is at rounding.

        With a positive tolerance it may end earlier: at the tolerance, or when the residual fell by `reduction`. With
        a number of `sweeps` it gives up, and is `stalled`, where a correction would take more of them.
        """
        x, residual = start.copy(), np.empty(b.size)
        best, best_norm, target = start, np.inf, tolerance
        for attempt in range(REFINEMENTS):
            norm, rounding = _residual(self.ptr, self.idx, self.C, self.diagonal, self.leak, b, x, residual)
            self.products += 1.0
            if attempt == 0 and tolerance > 0.0:
                target = max(tolerance, reduction * norm)
            progress = norm < 0.5 * best_norm
            if norm < best_norm:
                best, best_norm = x, norm
            if norm <= max(target, rounding) or not progress:
                break
            correction = self._correction(residual / self.diagonal, reduction if tolerance > 0.0 else 1e-8, sweeps)
            self.stalled = correction is None
            if correction is None:
                break
            x = x + correction
        return best

    def _correction(self, residual: Array, reduction: float, sweeps: int | None) -> Array | None:
        if self.bandwidth <= NARROW:
            if self._band is None:
                self._band = _factor_band(self.ptr, self.idx, self.C, self.bandwidth)
            self.products += 1.0
            return _solve_band(self._band, residual)
        if self._factors is not None:
            self.products += self._factors.entries / self.C.size
            return self._factors.solve(residual)
        x = np.zeros(residual.size)
        most = SWEEPS if sweeps is None else sweeps
        done, made = _bicgstab(self.ptr, self.idx, self.C, residual, x, reduction, most)
        self.products += made
        if done:
            return x
        return self._direct().solve(residual) if sweeps is None else None

    def _direct(self):
        from scipy.sparse.linalg import splu  # as above

        n, used = self.diagonal.size, int(self.ptr[-1])
        C = sp.csr_array((self.C[:used], self.idx[:used].astype(np.int64), self.ptr.astype(np.int64)), shape=(n, n))
        return splu(sp.csc_array(sp.eye_array(n) - C))


@kernel
def _divide_by_diagonal(begin, end, indices, probabilities, alpha, diagonal, leak, ptr, idx, C):
    """Fill in the parts of I - alpha P; the half bandwidth."""
    k, bandwidth = np.uint64(0), np.int64(0)
    for t in range(begin.size):
        ptr[t] = k
        d, total = 1.0, 0.0
        for j in range(begin[t], end[t]):
            u = indices[j]
            total += probabilities[j]
            if u == t:
                d -= alpha * probabilities[j]
            else:
                idx[k] = u
                C[k] = alpha * probabilities[j]
                k += np.uint64(1)
                bandwidth = max(bandwidth, abs(np.int64(u) - t))
        for j in range(ptr[t], k):
            C[j] /= d
        diagonal[t] = d
        leak[t] = 1.0 - alpha * (1.0 if abs(total - 1.0) < 1e-12 else total)
    ptr[begin.size] = k
    return bandwidth


@kernel
def _residual(ptr, idx, C, diagonal, leak, b, x, residual):
    """residual = b + alpha P x - x; its largest entry, and how much of that may be rounding."""
    norm, rounding = 0.0, 0.0
    for t in range(b.size):
        flow, size = 0.0, 0.0
        for j in range(ptr[t], ptr[t + 1]):
            step = x[idx[j]] - x[t]
            flow += C[j] * step
            size += C[j] * abs(step)
        residual[t] = b[t] - leak[t] * x[t] + diagonal[t] * flow
        norm = max(norm, abs(residual[t]))
        # the unit of x[t] itself moves the residual by as much as twice that
        rounding = max(rounding, abs(b[t]) + abs(leak[t] * x[t]) + diagonal[t] * size + 2.0 * abs(x[t]))
    return norm, 1.2e-16 * rounding


@kernel
def _factor_band(ptr, idx, C, w):
    """LU factors of I - C, a matrix of half bandwidth w, without pivoting; row t holds columns t-w .. t+w."""
    n = ptr.size - 1
    band = np.zeros((n, 2 * w + 1))
    for t in range(n):
        band[t, w] = 1.0
        for j in range(ptr[t], ptr[t + 1]):
            band[t, np.int64(idx[j]) - t + w] -= C[j]
    for t in range(n):
        for i in range(t + 1, min(t + w + 1, n)):
            if band[i, t - i + w] != 0.0:
                band[i, t - i + w] /= band[t, w]
                factor = band[i, t - i + w]
                for c in range(t + 1, min(t + w + 1, n)):
                    band[i, c - i + w] -= factor * band[t, c - t + w]
    return band


@kernel
def _solve_band(band, b):
    n, w = band.shape[0], band.shape[1] // 2
    x = b.copy()
    for t in range(n):
        for c in range(max(0, t - w), t):
            x[t] -= band[t, c - t + w] * x[c]
    for t in range(n - 1, -1, -1):
        for c in range(t + 1, min(t + w + 1, n)):
            x[t] -= band[t, c - t + w] * x[c]
        x[t] /= band[t, w]
    return x


@kernel
def _sweep(ptr, idx, C, x, out):
    """out = x - G x, with G one Gauss-Seidel sweep of the homogeneous system."""
    for t in range(x.size):
        out[t] = x[t]
    for t in range(x.size):  # in place: what stands before t is new and what stands after it old, and nobody asks which
        flow = 0.0
        for j in range(ptr[t], ptr[t + 1]):
            flow += C[j] * out[idx[j]]
        out[t] = flow
    for t in range(x.size):
        out[t] = x[t] - out[t]


@kernel
def _dot(x, y):
    # Four sums side by side, because BLAS would start threads for this.
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = x.size // 4 * 4
    for i in range(0, whole, 4):
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
    for i in range(whole, x.size):
        a += x[i] * y[i]
    return (a + b) + (c + d)


def _bicgstab(ptr: Array, idx: Array, C: Array, b: Array, x: Array, reduction: float, most: int) -> tuple[bool, int]:
    """BiCGSTAB (van der Vorst, 1992) on (I - G) x = g from x = 0; whether the residual fell by `reduction`; sweeps."""
    r = np.zeros(b.size)  # g, the first sweep from zero
    _first_sweep(ptr, idx, C, b, r)
    target = reduction * np.abs(r).max()
    vectors = x, r, r.copy(), np.zeros(b.size), np.zeros(b.size), np.empty(b.size)
    numbers, sweeps, state = np.ones(3), 1, GOING
    some = max(AT_A_TIME // max(idx.size, 1), 1)
    while sweeps < most and state == GOING:  # between two calls somebody may stop the program
        steps = min(some, (most - sweeps + 1) // 2)
        state, made = _bicgstab_steps(ptr, idx, C, *vectors, numbers, target, steps)
        sweeps += 2 * made
    return state == DONE, sweeps


@kernel
def _first_sweep(ptr, idx, C, b, r):
    """One Gauss-Seidel sweep from r = 0."""
    for t in range(b.size):
        flow = b[t]
        for j in range(ptr[t], ptr[t + 1]):
            flow += C[j] * r[idx[j]]
        r[t] = flow


@kernel
def _bicgstab_steps(ptr, idx, C, x, r, shadow, p, v, q, numbers, target, steps):
    """So many steps of it at most, of two sweeps each, in place; GOING, DONE or BROKEN, and how many were taken."""
    rho, step, omega = numbers[0], numbers[1], numbers[2]
    for made in range(steps):
        rho_before, rho = rho, _dot(shadow, r)
        if rho == 0.0 or omega == 0.0:
            return BROKEN, made
        beta = rho / rho_before * step / omega
        for t in range(x.size):
            p[t] = r[t] + beta * (p[t] - omega * v[t])
        _sweep(ptr, idx, C, p, v)
        step = rho / _dot(shadow, v)
        for t in range(x.size):
            r[t] -= step * v[t]
        _sweep(ptr, idx, C, r, q)
        size = _dot(q, q)
        omega = _dot(q, r) / size if size > 0.0 else 0.0
        norm = 0.0
        for t in range(x.size):
            x[t] += step * p[t] + omega * r[t]
            r[t] -= omega * q[t]
            norm = max(norm, abs(r[t]))
        if not abs(step) + abs(omega) < np.inf or not norm < np.inf:  # a breakdown: max would let its NaN pass
            return BROKEN, made + 1
        if norm <= target:
            return DONE, made + 1
    numbers[0], numbers[1], numbers[2] = rho, step, omega
    return GOING, steps
