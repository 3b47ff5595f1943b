"""Event 2: the successors of each pair, n KL(P^ || P) <= beta at every n, and the worst P that this allows.

beta is the regret of a mixture of Dirichlet codes plus the level (docs/certificate.md, event 2); the supremum of P d
over the ball of its radius beta / n is found by its dual, any point of which is a bound.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, logsumexp

from dualq.kernels import kernel
from dualq.proof.evidence import Evidence

Array = np.ndarray


def divergence(evidence: Evidence, past: Array, n: Array, level: float) -> Array:
    """beta / n (pairs,) for rows n (entries,) that came after the rows `past`.

    The regret of a mixture of Dirichlet codes, plus the level. A code begins with what the past has shown, taken at its
    word or at a quarter of it; with no past these are the same.
    """
    m = float(evidence.possible.sum())
    total, before = evidence.per_pair(n), evidence.per_pair(past)
    logs = []
    for trust in (1.0, 0.25):
        for base in (0.5, 1.0 / m, 0.03 / m):
            a, sum_a = trust * past + base, trust * before + m * base
            seen = np.where(n > 0, gammaln(n + a) - gammaln(a), 0.0)
            logs.append(gammaln(sum_a) - gammaln(total + sum_a) + evidence.per_pair(seen))
    code = logsumexp(np.array(logs), axis=0) - np.log(len(logs))
    share = n / np.maximum(total, 1.0)[evidence.pair]
    best = evidence.per_pair(n * np.log(np.where(n > 0, share, 1.0)))
    return np.where(total > 0, (level + best - code) / np.maximum(total, 1.0), np.inf)


def balls_of(ev: Evidence, delta: float) -> tuple[Array, Array]:
    """Centre (entries,) and radius (pairs,) of a ball of successors: of all rows, or of the last block if smaller."""
    begins = sorted({0, len(ev.n) - 1})
    level = np.log(ev.shape[0] * ev.shape[1] * len(begins) / delta)
    around, eps = np.zeros(ev.columns.size), np.full(ev.indptr.size - 1, np.inf)
    for begin in begins:
        past, n = ev.n[:begin].sum(axis=0), ev.n[begin:].sum(axis=0)
        radius = divergence(ev, past, n, level)
        smaller = radius < eps
        eps = np.where(smaller, radius, eps)
        around = np.where(smaller[ev.pair], n / np.maximum(ev.per_pair(n), 1.0)[ev.pair], around)
    return around, eps


@kernel
def largest_gap(n, V, references, possible, wanted, top, most):
    """max of f^ - V over all possible places, per pair, and where it is; n (blocks, pairs)."""
    for i in range(top.size):
        top[i], most[i] = 0, 0.0
        total = n[:, i].sum()
        if not wanted[i] or total == 0.0:
            continue
        most[i] = -np.inf
        for s in range(V.size):
            if possible[s]:
                d = -V[s]
                for e in range(n.shape[0]):
                    d += n[e, i] / total * references[e, s]
                if d > most[i]:
                    top[i], most[i] = s, d


@kernel
def sup_over_ball(indptr, columns, p, eps, anchor, V, wanted, largest, weights, rest):
    """sup {P (f^ - V) : KL(p || P) <= eps} per pair, by its dual, any point of which is a bound; the P that attains it.

    P is `weights` on the entries, and `rest` on the place where f^ - V is largest.
    """
    most = largest.copy()
    for i in range(indptr.size - 1):
        begin, end, M = indptr[i], indptr[i + 1], largest[i]
        rest[i] = 1.0
        least = M
        for j in range(begin, end):
            weights[j] = 0.0
            M = max(M, anchor[j] - V[columns[j]])  # the same as its largest, but for rounding
            least = min(least, anchor[j] - V[columns[j]])
        most[i] = M
        span = M - least
        if not wanted[i] or not eps[i] < np.inf or not span > 0.0:
            continue
        # The dual is M + t - exp(p log(M + t - d) - eps), convex in t >= 0; its slope's sign is that of eps - h(t).
        lower, upper = np.log(1e-13 * span), np.log(span * (2.0 + 2.0 / eps[i]))
        best, best_t, best_scale = M, 0.0, 0.0
        for step in range(48):
            u = lower if step == 0 else 0.5 * (lower + upper)
            t = np.exp(u)
            mean_log, mean_inverse = 0.0, 0.0
            for j in range(begin, end):
                x = M - anchor[j] + V[columns[j]] + t
                mean_log += p[j] * np.log(x)
                mean_inverse += p[j] / x
            scale = np.exp(mean_log - eps[i])
            if M + t - scale < best:
                best, best_t, best_scale = M + t - scale, t, scale
            if mean_log + np.log(mean_inverse) > eps[i]:
                lower = u
            elif step == 0:
                break
            else:
                upper = u
            if step > 0 and upper - lower < 1e-7:
                break
        # with what rounding may do to the dual's own terms
        most[i] = min(M, best + 4e-15 * (abs(M) + best_t + span) * (end - begin + 4))
        if best_t > 0.0:
            total = 0.0
            for j in range(begin, end):
                weights[j] = best_scale * p[j] / (M - anchor[j] + V[columns[j]] + best_t)
                total += weights[j]
            if total > 1.0:
                for j in range(begin, end):
                    weights[j] /= total
            rest[i] = max(0.0, 1.0 - total)
    return most
