"""Sweeps of T and of T_pi over a whole model, all states from the same h: in parts, on as many threads as there are.

Update    (T h)(s) = max_a R(s,a) - gain + alpha sum_s' P(s'|s,a) h(s'), with the rows of the greedy policy pi;
          (T_pi h)(s) from these rows alone
Threads   no state waits for another, and of all states together only the least and the greatest change are asked for:
          with any number of parts the bits are the same. Kernels hold no lock, so Python's threads will do. Where
          OMP_NUM_THREADS says how many, that many; models of fewer than PART states a thread have one part.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dualq.base import kernel, threads, unsigned
from dualq.model import MDP

Array = np.ndarray

PART = 50_000  # states, for which a thread is worth its while


class Part(NamedTuple):
    """Some states one after another, and where the rows of the greedy policy in them begin and end."""

    first: int
    ptr: Array


class Sweeps:
    """T and T_pi of one model."""

    def __init__(self, mdp: MDP):
        """Room for the chain of any policy: what is not used is not touched."""
        self.mdp = mdp
        S, A, longest = mdp.num_states, mdp.num_actions, int(np.diff(mdp.indptr).max())
        integer = unsigned(mdp.indices).dtype
        cuts = np.linspace(0, S, min(threads(), S // PART) + 1 if S >= 2 * PART else 2).astype(int).tolist()
        self.parts = [Part(first, np.zeros(last - first + 1, integer)) for first, last in pairwise(cuts)]
        for part in self.parts:  # no policy has more entries than that in the states before
            part.ptr[0] = min(longest * part.first, int(mdp.indptr[part.first * A]))
        most = min(longest * S, mdp.indices.size)
        self.rows = np.empty(most, integer), np.empty(most), np.empty(S)  # indices, probabilities, rewards
        self.pool = ThreadPoolExecutor(len(self.parts)) if len(self.parts) > 1 else None

    def improve(self, gain: float, h: Array, Th: Array) -> tuple[float, float]:
        """Th = T h, and the rows of the greedy policy; the least and the greatest entry of Th - h."""
        model = *self.mdp.rows, self.mdp.rewards.ravel(), self.mdp.num_actions, self.mdp.discount
        return self._least_and_greatest(lambda part: _improve(*model, gain, h, Th, *part, *self.rows))

    def evaluate(
        self, gain: float, h: Array, Th: Array, target: float, most: int, probe: int, hopeless: float
    ) -> tuple[Array, Array, int, float]:
        """Sweep h <- T_pi h, from Th = T_pi h, until the span of T_pi h - h is at most `target`, or seen to be slow.

        most       sweeps at most
        hopeless   the span after `probe` sweeps, beyond which there is no use in more
        """
        sweeps = 0
        while True:
            h, Th = Th, h
            lo, hi = self._followed(gain, h, Th)
            sweeps += 1
            if hi - lo <= target or sweeps >= most or (sweeps == probe and hi - lo > hopeless):
                return Th, h, sweeps, hi - lo

    def _followed(self, gain: float, h: Array, Th: Array) -> tuple[float, float]:
        """Th = T_pi h; the least and the greatest entry of Th - h."""
        alpha = self.mdp.discount
        return self._least_and_greatest(lambda part: _evaluate(*self.rows, alpha, gain, h, Th, *part))

    def _least_and_greatest(self, sweep: Callable[[Part], tuple[float, float]]) -> tuple[float, float]:
        if self.pool is None:
            return sweep(self.parts[0])
        lows, highs = zip(*self.pool.map(sweep, self.parts), strict=True)
        return min(lows), max(highs)


@kernel
def _improve(indptr, indices, P, R, num_actions, alpha, gain, h, Th, first, ptr, idx, p, r):
    """T in the states of one part, and the rows of the greedy policy; the least and the greatest entry of Th - h."""
    lo, hi = np.inf, -np.inf
    row = first * num_actions
    end = indptr[row]
    k = ptr[0]
    for i in range(ptr.size - 1):
        s = first + i
        best = -np.inf
        best_begin = end
        best_end = end
        best_reward = 0.0
        for _ in range(num_actions):
            begin = end
            end = indptr[row + 1]
            if begin != end:
                flow = 0.0
                for j in range(begin, end):
                    flow += P[j] * h[indices[j]]
                q = R[row] + alpha * flow
                if q > best:
                    best, best_begin, best_end, best_reward = q, begin, end, R[row]
            row += 1
        for j in range(best_begin, best_end):
            idx[k] = indices[j]
            p[k] = P[j]
            k += 1
        ptr[i + 1] = k
        r[s] = best_reward
        Th[s] = best - gain
        lo = min(lo, Th[s] - h[s])
        hi = max(hi, Th[s] - h[s])
    return lo, hi


@kernel
def _evaluate(idx, p, r, alpha, gain, h, Th, first, ptr):
    """Th = T_pi h in the states of one part; the least and the greatest entry of Th - h."""
    lo, hi = np.inf, -np.inf
    for i in range(ptr.size - 1):
        s = first + i
        flow = 0.0
        for j in range(ptr[i], ptr[i + 1]):
            flow += p[j] * h[idx[j]]
        Th[s] = r[s] - gain + alpha * flow
        lo = min(lo, Th[s] - h[s])
        hi = max(hi, Th[s] - h[s])
    return lo, hi
