"""Event 2: the successors of each pair, n KL(P^ || P) <= beta at every n, and the worst P that this allows.

beta is the regret of a mixture of Dirichlet codes plus the level (docs/certificate.md, event 2); the supremum of P d
over the ball of its radius beta / n is found by its dual, any point of which is a bound.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from scipy.special import gammaln

from dualq.base import kernel
from dualq.proof.evidence import Evidence, First, first_part
from dualq.proof.ledger import Ledger

Array = np.ndarray


def divergence(evidence: Evidence, past: Array, n: Array, level: float) -> Array:
    """beta / n (pairs,) for rows n (entries,) that came after the rows `past`.

    The regret of a mixture of Dirichlet codes, plus the level. A code begins with what the past has shown, taken at its
    word or at a quarter of it; with no past these are the same.
    """
    m = float(evidence.anywhere.sum())
    total, before = evidence.per_pair(n), evidence.per_pair(past)
    logs = []
    for trust in (1.0, 0.25) if past.any() else (0.0,):
        for base in (0.5, 1.0 / m, 0.03 / m):
            seen = _log_rising(trust * past + base if trust else base, n)
            logs.append(evidence.per_pair(seen) - _log_rising(trust * before + m * base if trust else m * base, total))
    code = reduce(np.logaddexp, logs) - np.log(len(logs))  # two at a time: no long call, and no copy of them all
    share = n / np.maximum(total, 1.0)[evidence.pair]
    best = evidence.per_pair(n * np.log(np.where(n > 0, share, 1.0)))
    return np.where(total > 0, (level + best - code) / np.maximum(total, 1.0), np.inf)


def _log_rising(a: Array | float, n: Array) -> Array:
    """log a (a + 1) ... (a + n - 1), for whole numbers n."""
    if isinstance(a, float) and n.size > (most := int(n.max(initial=0.0))):  # every number of rows once
        rows = np.arange(most + 1.0)
        return (gammaln(rows + a) - gammaln(a))[n.astype(np.int64)]
    return gammaln(n + a) - gammaln(a)


def balls_of(ev: Evidence, ledger: Ledger) -> tuple[Array, Array]:
    """Centre (entries,) and radius (pairs,) of a ball of successors: of all rows, or of those after the first part."""
    names: dict[str, First | None] = {"all rows": First(0, 0.0)}
    if len(ev.n) > 1:  # also where rows are too few for a first part: what each may fail with must not depend on that
        ends, pairs = np.cumsum(ev.n.sum(axis=1)).astype(int), int(np.count_nonzero(np.diff(ev.indptr)))
        names["after the first part"] = first_part(ends, pairs)
    around, eps = np.zeros(ev.columns.size), np.full(ev.indptr.size - 1, np.inf)
    for first, account in zip(names.values(), ledger.alike(*names), strict=True):
        level = account.level(pairs=eps.size)
        if first is None:
            continue
        past, n = ev.n[: first.blocks].sum(axis=0), ev.n[first.blocks :].sum(axis=0)
        radius = divergence(ev, past, n, level + first.price)
        smaller = radius < eps
        eps = np.where(smaller, radius, eps)
        around = np.where(smaller[ev.pair], n / np.maximum(ev.per_pair(n), 1.0)[ev.pair], around)
    return around, eps


def undominated(V: Array, references: Array, possible: Array) -> Array:
    """The possible places where f^ - V can be largest, whatever the pair; references (blocks, S + 1).

    f^ is a mean of the references; so a place where f_e - V is, for every e, at most what it is at another is none.
    """
    distinct = references[np.append(True, references[1:].any(axis=1))]  # the first is 0, as are those of few rows
    gaps = (distinct - V)[:, possible]
    order = np.argsort(-gaps.sum(axis=0), kind="stable")  # nobody is dominated by who comes later
    gaps, found = gaps[:, order], []
    while order.size:
        found.append(order[0])
        left = (gaps > gaps[:, :1]).any(axis=0)
        gaps, order = gaps[:, left], order[left]
    return np.flatnonzero(possible)[np.sort(found)]


def largest_gap(share: Array, V: Array, references: Array, places: Array) -> tuple[Array, Array]:
    """(pairs,) the place where f^ - V is largest, and how large; share n_e / n of the pair's rows, (blocks, pairs)."""
    top, most = np.full(share.shape[1], places[0]), np.full(share.shape[1], -np.inf)
    for s in places:
        gap = np.full(share.shape[1], -V[s])
        for part, f in zip(share, references[:, s], strict=True):
            if f != 0.0:
                gap += part * f
        larger = gap > most
        top[larger], most[larger] = s, gap[larger]
    return top, most


def sup_over_ball(
    indptr: Array,
    columns: Array,
    p: Array,
    eps: Array,
    anchor: Array,
    V: Array,
    wanted: Array,
    largest: Array,
    weights: Array,
    rest: Array,
) -> Array:
    """sup {P (f^ - V) : KL(p || P) <= eps} per pair, by its dual, any point of which is a bound; the P that attains it.

    P is `weights` on the entries, and `rest` on the place where f^ - V is largest.
    """
    most = largest.copy()
    _sup_over_ball(indptr, columns, p, eps, anchor, V, wanted, largest, weights, rest, most)
    return most


@kernel
def _sup_over_ball(indptr, columns, p, eps, anchor, V, wanted, largest, weights, rest, most):
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
        best, best_t, t, scale, u = M, 0.0, 0.0, 0.0, lower
        for step in range(64):
            t = np.exp(u)
            mean_log, mean_inverse, mean_square = 0.0, 0.0, 0.0
            for j in range(begin, end):
                x = M - anchor[j] + V[columns[j]] + t
                mean_log += p[j] * np.log(x)
                mean_inverse += p[j] / x
                mean_square += p[j] / (x * x)
            scale = np.exp(mean_log - eps[i])
            if M + t - scale < best:
                best, best_t = M + t - scale, t
            off = mean_log + np.log(mean_inverse) - eps[i]
            if off > 0.0:
                lower = u
            elif step == 0:
                break
            else:
                upper = u
            # Newton's step where the place is nearly known, so that P is as exact as its bound; else the middle
            slope = t * (mean_inverse - mean_square / mean_inverse)
            newton = u - off / slope if slope < 0.0 else np.inf
            if upper - lower < 1e-12 or (step > 0 and abs(newton - u) < 1e-12):
                break
            u = newton if upper - lower < 1.0 and lower < newton < upper else 0.5 * (lower + upper)
        # with what rounding may do to the dual's own terms
        most[i] = min(M, best + 4e-15 * (abs(M) + best_t + span) * (end - begin + 4))
        if best_t > 0.0:
            total = 0.0
            for j in range(begin, end):
                weights[j] = scale * p[j] / (M - anchor[j] + V[columns[j]] + t)
                total += weights[j]
            if total > 1.0:
                for j in range(begin, end):
                    weights[j] /= total
            rest[i] = max(0.0, 1.0 - total)
