"""The linear systems of one policy: x = b + alpha P x for a Markov chain P, and the same with P transposed.

With P = P_pi and b = R_pi the solution is the policy's value; with P_pi transposed and b = eta it is its discounted
occupancy per state (the paper's lambda, summed over actions). I - alpha P is an M-matrix, so elimination without pivoting is
stable and Gauss-Seidel converges; what differs between models is how fast.

Method    states are put in the order given (the caller knows which way values flow);
          where that makes the matrix narrow (queues, chains), elimination within the band: O(n) and exact;
          else BiCGSTAB on the Gauss-Seidel sweep: a product with the preconditioned matrix costs one pass over the rows;
          where that stalls, SciPy's sparse LU.
Stops     each answer is refined until the residual b + alpha P x - x is below the tolerance, or at rounding.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import MatrixRankWarning, splu

from dualq.kernels import kernel, unsigned

Array = np.ndarray

NARROW = 8  # half bandwidth up to which elimination within the band is tried first
REFINEMENTS = 8
SWEEPS = 400  # Gauss-Seidel sweeps that BiCGSTAB may spend on one correction


def solve_chain(P: sp.csr_array, discount: float, b: Array, transpose: bool = False) -> Array:
    """Solve x = b + alpha P x (with P' if transpose) to rounding."""
    if transpose:
        P = sp.csr_array(P.T)
    order = reverse_cuthill_mckee(sp.csr_array(P + P.T), symmetric_mode=True)
    system = Ordered(unsigned(P.indptr), unsigned(P.indices), P.data, discount, order)
    return system.solve(b, np.zeros(b.size))


class Ordered:
    """The matrix I - alpha P with states in a given order, ready to be solved with many right-hand sides."""

    def __init__(self, indptr: Array, indices: Array, probabilities: Array, discount: float, order: Array):
        self.order = order
        place = np.empty(order.size, np.uint32)
        place[order] = np.arange(order.size, dtype=np.uint32)
        # Row t of x = diagonal b + C x, the diagonal of I - alpha P divided out.
        self.diagonal = np.empty(order.size)
        self.ptr = np.empty(order.size + 1, np.uint32 if indptr.dtype.itemsize == 4 else np.uint64)
        self.idx = np.empty(indices.size, np.uint32)
        self.C = np.empty(indices.size)
        self.bandwidth = _reorder(
            indptr, indices, probabilities, discount, order, place, self.diagonal, self.ptr, self.idx, self.C
        )
        self._band: Array | None = None

    def solve(self, b: Array, start: Array, tolerance: float = 0.0, reduction: float = 1e-10) -> Array:
        """Solve x = b + alpha P x from a start until max |b + alpha P x - x| <= tolerance, or rounding, or
        until `reduction` of the first residual where that comes earlier and tolerance is not zero."""
        b, x = b[self.order], start[self.order]
        residual = np.empty(b.size)
        best, best_norm, first = x.copy(), np.inf, 0.0
        for attempt in range(REFINEMENTS):
            norm, rounding = _residual(self.ptr, self.idx, self.C, self.diagonal, b, x, residual)
            first = first or norm
            if not norm < 0.5 * best_norm and attempt > 0:
                break  # no further progress: rounding, or a method that fails; keep the better of the two
            best[:], best_norm = x, norm
            if norm <= max(tolerance, rounding) or (tolerance > 0.0 and norm <= reduction * first):
                break
            x += self._correction(residual / self.diagonal, reduction if tolerance > 0.0 else 1e-8)
        if norm < best_norm:
            best, best_norm = x, norm
        answer = np.empty(b.size)
        answer[self.order] = best
        return answer

    def _correction(self, residual: Array, reduction: float) -> Array:
        if self.bandwidth <= NARROW:
            if self._band is None:
                self._band = _factor_band(self.ptr, self.idx, self.C, self.bandwidth)
            return _solve_band(self._band, residual)
        x = np.zeros(residual.size)
        if not _bicgstab(self.ptr, self.idx, self.C, residual, x, reduction, SWEEPS):
            x = self._direct().solve(residual)
        return x

    def _direct(self):
        n = self.order.size
        C = sp.csr_array((self.C[: self.ptr[-1]], self.idx[: self.ptr[-1]].view(np.int32), self.ptr.view(
            np.int32 if self.ptr.itemsize == 4 else np.int64)), shape=(n, n))
        with warnings.catch_warnings():
            warnings.simplefilter("error", MatrixRankWarning)
            return splu(sp.csc_array(sp.eye_array(n) - C))


@kernel
def _reorder(indptr, indices, probabilities, alpha, order, place, diagonal, ptr, idx, C):
    """Fill the rows of C in the given order; the half bandwidth."""
    k, bandwidth = np.uint64(0), np.int64(0)
    for t in range(order.size):
        ptr[t] = k
        s = order[t]
        d = 1.0
        for j in range(indptr[s], indptr[s + 1]):
            u = place[indices[j]]
            if u == t:
                d -= alpha * probabilities[j]
            else:
                idx[k] = u
                C[k] = alpha * probabilities[j]
                k += np.uint64(1)
                bandwidth = max(bandwidth, abs(np.int64(u) - np.int64(t)))
        for j in range(ptr[t], k):
            C[j] /= d
        diagonal[t] = d
    ptr[order.size] = k
    return bandwidth


@kernel
def _residual(ptr, idx, C, diagonal, b, x, residual):
    """residual = b + alpha P x - x; its largest entry, and how much of that may be rounding."""
    norm, rounding = 0.0, 0.0
    for t in range(b.size):
        flow, size = 0.0, 0.0
        for j in range(ptr[t], ptr[t + 1]):
            flow += C[j] * x[idx[j]]
            size += C[j] * abs(x[idx[j]])
        residual[t] = b[t] + diagonal[t] * (flow - x[t])
        norm = max(norm, abs(residual[t]))
        rounding = max(rounding, abs(b[t]) + diagonal[t] * (size + abs(x[t])))
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
        flow = 0.0
        for j in range(ptr[t], ptr[t + 1]):
            u = idx[j]
            flow += C[j] * (out[u] if u < t else x[u])
        out[t] = flow
    for t in range(x.size):
        out[t] = x[t] - out[t]


@kernel
def _bicgstab(ptr, idx, C, b, x, reduction, max_sweeps):
    """BiCGSTAB (van der Vorst, 1992) on (I - G) x = g from x = 0; whether the residual fell to reduction * its start."""
    n = b.size
    r = np.empty(n)  # g, the first sweep from zero
    for t in range(n):
        flow = b[t]
        for j in range(ptr[t], ptr[t + 1]):
            if idx[j] < t:
                flow += C[j] * r[idx[j]]
        r[t] = flow
    target = reduction * np.abs(r).max()
    shadow, p, v, q = r.copy(), np.zeros(n), np.zeros(n), np.empty(n)
    rho, step, omega = 1.0, 1.0, 1.0
    for _ in range(max_sweeps // 2):
        rho_before, rho = rho, np.dot(shadow, r)
        if rho == 0.0 or omega == 0.0:
            return False
        beta = rho / rho_before * step / omega
        for i in range(n):
            p[i] = r[i] + beta * (p[i] - omega * v[i])
        _sweep(ptr, idx, C, p, v)
        step = rho / np.dot(shadow, v)
        for i in range(n):
            r[i] -= step * v[i]
        _sweep(ptr, idx, C, r, q)
        size = np.dot(q, q)
        omega = np.dot(q, r) / size if size > 0.0 else 0.0
        norm = 0.0
        for i in range(n):
            x[i] += step * p[i] + omega * r[i]
            r[i] -= omega * q[i]
            norm = max(norm, abs(r[i]))
        if norm <= target:
            return True
        if not norm < np.inf:
            return False
    return False
