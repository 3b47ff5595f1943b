"""The policy's own value of docs/certificate.md once more: row by row, plain loops, nothing of dualq.

A log is a list of blocks, the first of which is what all is foreseen from; a block is a list of rows (s, a, r, s'), of
which those that are alike are counted together.
The end is the state S. NumPy only inverts matrices and finds largest eigenvalues.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
from naive_proof import log_sum, psi_ratio

X = [0.5 * k for k in range(-9, 10)]
SPREADS = [(1.0, 0.10), (0.3, 0.10), (0.03, 0.08)]
KINDS = [
    (3.0, 0.35, 0.05),
    (2.0, 0.35, 0.08),
    (1.3, 0.35, 0.10),
    (0.8, 0.35, 0.06),
    (0.4, 0.35, 0.04),
    (0.15, 0.35, 0.02),
    (0.06, 0.35, 0.01),
]
FLAT = [0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0]
TIMES = [math.exp(-1.0 + 2.5 * k / 15) for k in range(16)]


class NaiveOwn:
    """Bounds of V^pi at a level, from a box that holds already: V {s: (low, high)}, q {(s, a): (low, high)}."""

    def __init__(
        self, blocks, S, policy, start, foreseen_start, alpha, reward_range, places, V, q, level, parts=(1.0, 1.0),
        shrunk=True,
    ):  # fmt: skip
        blocks = [[(*row, n) for row, n in Counter(block).items()] for block in blocks]
        self.first, self.blocks, self.S, self.alpha = blocks[0], blocks[1:], S, alpha
        self.start, self.foreseen_start, self.level, self.parts = start, foreseen_start, level, parts
        self.pi = {(s, a): x for s, row in enumerate(policy) for a, x in enumerate(row) if x > 0.0}
        self.pairs, self.places = sorted(self.pi), places
        self.lo, self.hi = reward_range
        self.V, self.q, self.reaches = dict(V) | {S: (0.0, 0.0)}, dict(q), {}
        self.foresee()
        if shrunk:
            self.shrink()

    def aim(self, start, foreseen_start, parts):
        """Another start: its directions have a part of the weights, the box is the one that was found."""
        self.start, self.foreseen_start, self.parts = start, foreseen_start, parts
        self.foresee()

    # ---- models

    def model(self, blocks, u, worth):
        """Total, r, P, V, q of pi on rows weighted by u[e][pair]; pairs without rows are worth what they are given."""
        total, r, P = {}, {}, {}
        for p in self.pairs:
            mine = [(u[e][p] * row[4], row) for e, block in enumerate(blocks) for row in block if row[:2] == p]
            total[p] = sum(x for x, _ in mine)
            if total[p] > 0.0:
                r[p] = sum(x * row[2] for x, row in mine) / total[p]
                P[p] = [sum(x for x, row in mine if row[3] == s) / total[p] for s in range(self.S + 1)]
        chain, gain = np.eye(self.S), [0.0] * self.S
        for (s, a), chance in self.pi.items():
            gain[s] += chance * (r[s, a] if (s, a) in r else worth[s, a])
            for to in range(self.S if (s, a) in r else 0):
                chain[s, to] -= self.alpha * chance * P[s, a][to]
        inverse = np.linalg.inv(chain)
        V = [sum(inverse[s, x] * gain[x] for x in range(self.S)) for s in range(self.S)] + [0.0]
        q = {p: self.backed_up(r[p], P[p], V) if p in r else worth[p] for p in self.pairs}
        return total, P, V, q, inverse

    def backed_up(self, r, P, V):
        return r + self.alpha * sum(x * v for x, v in zip(P, V, strict=True))

    def noises(self, total, P, inverse):
        """G, G_q of pairs with rows, and what pairs without rows add per unit of their worth; by state, by pair."""
        into = {(s, p): float(inverse[s, p[0]]) * self.pi[p] if s < self.S else 0.0
                for s in range(self.S + 1) for p in self.pairs}  # fmt: skip
        G = {(s, p): x / total[p] if total[p] > 0.0 else 0.0 for (s, p), x in into.items()}
        reach = {(s, p): 0.0 if total[p] > 0.0 else x for (s, p), x in into.items()}
        both = []
        for one in (G, reach):
            onward = {}
            for p in self.pairs:
                for k in self.pairs:
                    known = range(self.S + 1 if total[p] > 0.0 else 0)
                    onward[p, k] = self.alpha * sum(P[p][s] * one[s, k] for s in known)
            both.append(onward)
        for p in self.pairs:
            both[0][p, p] += 1.0 / total[p] if total[p] > 0.0 else 0.0
        return G, both[0], reach, both[1]

    # ---- foresight

    def size(self, block):
        return sum(row[4] for row in block)

    def visits(self, block, p):
        return sum(row[4] for row in block if row[:2] == p)

    def foresee(self):
        all_blocks = [self.first, *self.blocks]
        recent = {p: float(self.visits(self.first, p)) for p in self.pairs}
        size = so_far = first = float(self.size(self.first))
        self.seen = []
        for e, block in enumerate(self.blocks):
            past = all_blocks[: e + 1]
            ones = [dict.fromkeys(self.pairs, 1.0)] * len(past)
            mine = [row for b in past for row in b if row[:2] in self.pi]
            middle = sum(row[4] * row[2] for row in mine) / max(self.size(mine), 1) / (1.0 - self.alpha)
            total, _, V, q, inverse = self.model(past, ones, dict.fromkeys(self.pairs, middle))
            occupancy = {
                p: self.pi[p] * sum(self.foreseen_start[s] * inverse[s, p[0]] for s in range(self.S))
                for p in self.pairs
            }
            squares = dict.fromkeys(self.pairs, 0.0)
            for row in mine:
                squares[row[:2]] += row[4] * (row[2] + self.alpha * V[row[3]] - q[row[:2]]) ** 2
            pooled = sum(squares.values()) / max(self.size(mine), 1)
            variance = {p: (squares[p] + 2.0 * pooled) / (total[p] + 2.0) for p in self.pairs}
            anywhere = [*range(self.S), *([self.S] if self.S in self.places else [])]  # which only end is seen later
            least, most = min(V[s] for s in anywhere), max(V[s] for s in anywhere)
            tiny = 1e-9 * (self.hi - self.lo)
            reach = [{p: max(q[p] - self.lo - self.alpha * least, tiny) for p in self.pairs},
                     {p: max(self.hi + self.alpha * most - q[p], tiny) for p in self.pairs}]  # fmt: skip
            plan = max(16.0 * first, 1.25 * so_far)  # rows that there will be
            to_come = {p: max((recent[p] + 0.5) / size * (plan - so_far), 1.0) for p in self.pairs}
            wanted = {p: occupancy[p] * (plan - first) / (15.0 * first) for p in self.pairs}
            self.seen.append((occupancy, variance, reach, to_come, wanted))
            for p in self.pairs:
                recent[p] = 0.6 * recent[p] + self.visits(block, p)
            size, so_far = 0.6 * size + self.size(block), so_far + self.size(block)

    def quotas(self, tau, side):
        given, u = dict.fromkeys(self.pairs, 0.0), []
        for (_, _, reach, to_come, wanted), block in zip(self.seen, self.blocks, strict=True):
            u.append(
                {p: min(max(wanted[p] - given[p], 0.0) / to_come[p], 0.4 / (tau * reach[side][p])) for p in self.pairs}
            )
            for p in self.pairs:
                given[p] += u[-1][p] * self.visits(block, p)
        return u

    # ---- all directions

    def rows_of(self, p):
        return [row for block in self.blocks for row in block if row[:2] == p]

    def shrink(self):
        ones = [dict.fromkeys(self.pairs, 1.0)] * len(self.blocks)
        worth = {p: 0.5 * sum(self.q[p]) for p in self.pairs}
        total, P, V, q, inverse = self.model(self.blocks, ones, worth)
        self.plain = total, V, q
        G, G_q, reach, reach_q = self.plain_noise = self.noises(total, P, inverse)
        half = {p: 0.0 if total[p] > 0.0 else 0.5 * (self.q[p][1] - self.q[p][0]) for p in self.pairs}
        self.beside = {(p, s): sum(abs(self.alpha * reach[s, k] - reach_q[p, k]) * half[k] for k in self.pairs)
                       for p in self.pairs for s in range(self.S + 1)}  # fmt: skip
        Q, error, aside = {}, {}, {}
        for p in self.pairs:
            Q[p] = sum(row[4] * (row[2] + self.alpha * V[row[3]] - q[p]) ** 2 for row in self.rows_of(p))
            off = 0.0
            for row in self.rows_of(p):
                (low, high), (q_low, q_high) = self.V[row[3]], self.q[p]
                up = self.alpha * (high - V[row[3]]) - (q_low - q[p])
                down = (q_high - q[p]) - self.alpha * (low - V[row[3]])
                off += row[4] * max(up, down, 0.0) ** 2
            error[p] = math.sqrt(off)
            aside[p] = math.sqrt(sum(row[4] * self.beside[p, row[3]] ** 2 for row in self.rows_of(p)))
        self.sets, s0 = [], max(self.pairs, key=lambda p: self.occupancy(inverse, self.start, p))[0]
        for _ in range(8):
            sets = [one for one in (self.ellipsoid(c, w, Q, error) for c, w in SPREADS) if one is not None]
            if not sets:
                break
            self.sets, smaller, tiny = sets, {}, 1e-10 * max(map(abs, V))
            for p in self.pairs:
                A = [
                    [math.sqrt(row[4]) * (self.alpha * G[row[3], k] - G_q[p, k]) for k in self.pairs]
                    for row in self.rows_of(p)
                ]
                smaller[p] = min(self.norm(one, A) for one in sets) + aside[p]

            def radius(a, b, sets=sets):
                """Of h = a Z + b (q - middle)."""
                return min(self.norm(one, [a]) for one in sets) + sum(
                    abs(x) * half[k] for x, k in zip(b, self.pairs, strict=True)
                )

            rows = {s: ([G[s, k] for k in self.pairs], [reach[s, k] for k in self.pairs]) for s in range(self.S + 1)}
            rows_q = {p: ([G_q[p, k] for k in self.pairs], [reach_q[p, k] for k in self.pairs]) for p in self.pairs}

            def less(one, other, factor=1.0):
                return [[x - factor * y for x, y in zip(a, b, strict=True)] for a, b in zip(one, other, strict=True)]

            for s in range(self.S + 1):
                r = radius(*rows[s]) + tiny
                self.V[s] = max(self.V[s][0], V[s] - r), min(self.V[s][1], V[s] + r)
            V_off = {s: radius(*less(rows[s], rows[s0])) for s in self.places}
            least, most = min(V[s] - V_off[s] for s in self.places), max(V[s] + V_off[s] for s in self.places)
            for p in self.pairs:
                off = radius(*less(rows_q[p], rows[s0], self.alpha))
                self.reaches[p] = (q[p] - self.alpha * least - self.lo + off, self.hi + self.alpha * most - q[p] + off)
                if total[p] > 0.0:
                    r = radius(*rows_q[p]) + tiny
                    self.q[p] = max(self.q[p][0], q[p] - r), min(self.q[p][1], q[p] + r)
            gained = any(smaller[p] < 0.97 * error[p] for p in self.pairs)
            error = {p: min(error[p], smaller[p]) for p in self.pairs}
            if not gained:
                break

    def occupancy(self, inverse, start, p):
        return self.pi[p] * sum(start[s] * inverse[s, p[0]] for s in range(self.S))

    def reach(self, p):
        if not self.rows_of(p):
            return 0.0, 0.0
        down = self.q[p][1] - self.lo - self.alpha * min(self.V[s][0] for s in self.places)
        up = self.hi + self.alpha * max(self.V[s][1] for s in self.places) - self.q[p][0]
        return (down, up) if p not in self.reaches else (min(down, self.reaches[p][0]), min(up, self.reaches[p][1]))

    def ellipsoid(self, c, weight, Q, error):
        _, variance, reach, to_come, _ = self.seen[0]
        log_x = [-0.5 * x * x - log_sum([-0.5 * y * y for y in X]) for x in X]
        found = {}
        for p in self.pairs:
            scale = min(math.sqrt(c / max(variance[p] * to_come[p], 1e-300)), 0.25 / max(reach[0][p], reach[1][p]))
            most, R = (math.sqrt(Q[p]) + error[p]) ** 2, self.reach(p)
            terms = []
            for x, log_w in zip(X, log_x, strict=True):
                theta = x * scale
                z = abs(theta) * (R[0] if theta > 0.0 else R[1])
                if z < 1.0:
                    terms.append((theta, log_w - theta**2 * psi_ratio(z) * most))
            if max(x for x, _ in terms) <= 0.0 or min(x for x, _ in terms) >= 0.0:
                return None
            found[p] = self.table(terms, most + 1.0 / scale**2)
        return self.level - math.log(weight), found

    def table(self, terms, kappa):
        """kappa, the steepest slope, and the largest of L* - kappa y^2 / 2 up to 40 caps of it."""
        sides = []
        for sign in (1.0, -1.0):
            top, points = max(sign * theta for theta, _ in terms), []
            for k in range(49):
                x = k / 48
                Z = sign * kappa * top * x * (1.0 + 4.0 * x**3)
                L = log_sum([log_w + theta * Z for theta, log_w in terms])
                y = sum(math.exp(log_w + theta * Z - L) * theta for theta, log_w in terms)
                points.append((sign * y, y * Z - L - 0.5 * kappa * y * y))
            sides.append(points)
        cap = min(points[-1][0] for points in sides)
        caps = []
        for k in range(1, 41):
            worst = -math.inf
            for points in sides:
                worst = max(worst, points[0][1])
                for (y, b), (y_next, b_next) in pairwise(points):
                    worst = max(worst, max(b, b_next) + kappa * (y_next - y) ** 2 / 8.0)
                    if y_next >= cap * k / 40:
                        break
            caps.append(worst)
        return kappa, cap, caps

    def norm(self, one, A):
        """How large |A Z| can be."""
        level, found = one
        K = [found[p] for p in self.pairs]
        columns = [math.sqrt(sum(row[k] ** 2 for row in A)) for k in range(len(K))]
        B = np.array([[x * math.sqrt(k[0]) for x, k in zip(row, K, strict=True)] for row in A])
        largest = float(np.linalg.eigvalsh(B.T @ B)[-1]) if A else 0.0
        begin = max(
            [0.3 * math.sqrt(max(0.5 * largest, 0.0) / level), *(c / k[1] for c, k in zip(columns, K, strict=True))]
        )
        if begin == 0.0:
            return 0.0
        t, best = begin * (1.0 + 1e-12), math.inf
        for _ in range(36):
            total = level
            for c, (_, cap, caps) in zip(columns, K, strict=True):
                total += caps[min(max(math.ceil(c / (t * cap) * 40) - 1, 0), 39)]
            best = min(best, t * total + 0.5 * largest / t)
            t *= 1.12
        return best

    # ---- one direction

    def end(self, side):
        sign = (1.0, -1.0)[side]
        kinds = [self.direction(kind, side) for kind in KINDS]
        kinds = sorted(kinds, key=lambda one: one["expected"][0] - sign * one["value"])
        ends = [-math.inf]
        for one in kinds[:2]:
            if one["expected"][0] < math.inf:
                ends += [sign * one["value"] - self.radius(one, x * one["expected"][1], sign) for x in (0.9, 1.0, 1.1)]
        box = sum(x * sign * self.V[s][side] for s, x in enumerate(self.start))
        return sign * max(*ends, box)

    def direction(self, kind, side):
        part, width, weight = kind
        level = self.level - math.log(weight * self.parts[side])
        occupancy, variance, reach, to_come, _ = self.seen[0]
        error = math.sqrt(sum(occupancy[p] ** 2 * variance[p] / to_come[p] for p in self.pairs))
        tau = part * math.sqrt(2.0 * level) / max(error, 1e-9 * max(max(r.values()) for r in reach))
        u = self.quotas(tau, side)
        total, P, V, q, inverse = self.model(self.blocks, u, {p: self.q[p][side] for p in self.pairs})
        narrow = [0.5 * k for k in range(-6, 7)]
        mass = sum(math.exp(-0.5 * x * x) for x in narrow)
        g = [(1.0 + width * x, math.log(0.97 * math.exp(-0.5 * x * x) / mass)) for x in narrow]
        g = [(x, w) for x, w in [*g, *((x, math.log(0.03 / 9)) for x in FLAT)] if x >= 0.0]
        one = {"level": level, "u": u, "model": (total, V, q), "g": g, "tau": tau, "side": side}
        one["noise"] = self.noises(total, P, inverse)
        one["value"] = sum(x * V[s] for s, x in enumerate(self.start))
        one["v"] = {p: self.occupancy(inverse, self.start, p) / total[p] if total[p] > 0.0 else 0.0 for p in self.pairs}
        known = [p for p in self.pairs if total[p] > 0.0]
        one["short"] = sum(one["v"][p] * total[p] for p in known) / sum(total[p] for p in known)
        one["Q"] = [dict.fromkeys(self.pairs, 0.0) for _ in self.blocks]
        for e, block in enumerate(self.blocks):
            for row in block:
                if row[:2] in self.pi:
                    one["Q"][e][row[:2]] += row[4] * (row[2] + self.alpha * V[row[3]] - q[row[:2]]) ** 2
        one["expected"], best = (math.inf, 1.0), max(range(len(g)), key=lambda j: g[j][1])
        for x in TIMES:
            t = one["short"] * x / (tau * g[best][0]) if g[best][0] > 0.0 else math.inf
            a = self.shares(one, {p: one["v"][p] / t for p in self.pairs})
            if a is not None:
                used = sum(self.omega(one, a, e, p) * one["Q"][e][p] for e in range(len(u)) for p in self.pairs)
                one["expected"] = min(one["expected"], (t * (level + self.paid(one, a) + 1.6 * used), t))
        return one

    def psi(self, one, j, e, p):
        """psi(theta R) / R^2; infinite where the rate is dead."""
        known = one.setdefault("psi", {})
        if (j, e, p) not in known:
            known[j, e, p] = self.new_psi(one, j, e, p)
        return known[j, e, p]

    def new_psi(self, one, j, e, p):
        theta = one["tau"] * one["g"][j][0] * one["u"][e][p]
        z = theta * self.reach(p)[one["side"]]
        return theta**2 * psi_ratio(z) if z < 1.0 else math.inf

    def terms(self, one, p):
        """(j, theta, log w - phi) of the rates that live, with Q as it is expected."""
        found = []
        for j, (g, log_w) in enumerate(one["g"]):
            psis = [self.psi(one, j, e, p) for e in range(len(self.blocks))]
            if max(psis) < math.inf:
                phi = 1.6 * sum(x * one["Q"][e][p] for e, x in enumerate(psis))
                found.append((j, one["tau"] * g, log_w - phi))
        return found

    def shares(self, one, y):
        """Weights over the g_j with mean slope y, those that cost least."""
        found = {}
        for p in self.pairs:
            if one["model"][0][p] <= 0.0:
                found[p] = {}
                continue
            if "terms" not in one:
                one["terms"] = {}
            if p not in one["terms"]:
                one["terms"][p] = self.terms(one, p)
            terms = one["terms"][p]
            if not min(x for _, x, _ in terms) <= y[p] <= max(x for _, x, _ in terms):
                return None

            def at(Z, terms=terms):
                top = log_sum([c + theta * Z for _, theta, c in terms])
                return {j: math.exp(c + theta * Z - top) for j, theta, c in terms}

            def slope(Z, terms=terms, at=at):
                a = at(Z)
                return sum(a[j] * theta for j, theta, _ in terms)

            left, right = -1.0, 1.0
            for _ in range(300):
                if slope(left) <= y[p]:
                    break
                left *= 2.0
            for _ in range(300):
                if slope(right) >= y[p]:
                    break
                right *= 2.0
            for _ in range(70):
                middle = 0.5 * (left + right)
                left, right = (middle, right) if slope(middle) < y[p] else (left, middle)
            found[p] = at(right)
        return found

    def omega(self, one, a, e, p):
        return sum(x * self.psi(one, j, e, p) for j, x in a[p].items())

    def paid(self, one, a):
        return sum(x * (math.log(x) - one["g"][j][1]) for p in self.pairs for j, x in a[p].items() if x > 0.0)

    def radius(self, one, t, sign):
        """t (level + sum a log(a / w) + omega' Q^ + N)."""
        total, V, q = one["model"]
        G, G_q, reach, reach_q = one["noise"]
        d = dict.fromkeys(self.pairs, 0.0)
        for _ in range(100):
            a = self.shares(one, {p: one["v"][p] / t + d[p] for p in self.pairs})
            if a is None:
                return math.inf
            omega = [{p: self.omega(one, a, e, p) for p in self.pairs} for e in range(len(self.blocks))]
            crossed = {}
            for e, block in enumerate(self.blocks):
                for row in block:
                    if (p := row[:2]) in self.pi and total[p] > 0.0:
                        x = row[4] * omega[e][p] * (row[2] + self.alpha * V[row[3]] - q[p])
                        crossed[p, row[3]] = crossed.get((p, row[3]), 0.0) + x
            new = {
                k: -2.0 * sign * sum(x * (self.alpha * G[s, k] - G_q[p, k]) for (p, s), x in crossed.items())
                for k in self.pairs
            }
            moved = max(abs(new[k] - d[k]) for k in self.pairs)
            d = new
            if moved == 0.0:
                break
        _, plain_V, plain_q = self.plain
        P_G, P_G_q, _, _ = self.plain_noise
        rows, beside, offset = [], 0.0, 0.0
        for e, block in enumerate(self.blocks):
            for row in block:
                if (p := row[:2]) in self.pi and (x := row[4] * omega[e][p]) > 0.0:
                    rows.append([math.sqrt(x) * (self.alpha * P_G[row[3], k] - P_G_q[p, k]) for k in self.pairs])
                    beside += x * self.beside[p, row[3]] ** 2
                    offset += x * (self.alpha * (plain_V[row[3]] - V[row[3]]) - (plain_q[p] - q[p])) ** 2
        N = (min(self.norm(ellipse, rows) for ellipse in self.sets) + math.sqrt(beside) + math.sqrt(offset)) ** 2
        most = 0.0
        for k in self.pairs:
            if total[k] <= 0.0:
                linear = (
                    2.0 * sign * sum(x * (self.alpha * reach[s, k] - reach_q[p, k]) for (p, s), x in crossed.items())
                )
                most += max(linear, 0.0) * (self.q[k][1] - self.q[k][0])
        used = sum(omega[e][p] * one["Q"][e][p] for e in range(len(self.blocks)) for p in self.pairs)
        return t * (one["level"] + self.paid(one, a) + used + most + N) + 1e-10 * max(map(abs, V))

    # ---- one direction, where the box stays wide

    def thin_end(self, side):
        """The best of all kinds at t = 1.1 / tau, in units of what v is on the whole, and of the best two near it."""
        sign = (1.0, -1.0)[side]
        kinds = [self.direction(kind, side) for kind in KINDS]
        units = [1.1 * one["short"] / (one["tau"] * max(one["g"], key=lambda g: g[1])[0]) for one in kinds]
        ends = [sign * one["value"] - self.thin_radius(one, t, sign) for one, t in zip(kinds, units, strict=True)]
        order = sorted(range(len(kinds)), key=lambda i: ends[i], reverse=True)
        tried = [(kinds[i], x * units[i]) for i in order[:2] for x in (0.75, 0.85, 0.93, 1.07, 1.25)]
        return sign * max(ends[order[0]], *(sign * one["value"] - self.thin_radius(one, t, sign) for one, t in tried))

    def thin_radius(self, one, t, sign):
        """t (level + what the weights cost + what rows vary: known, and the most of what is unknown)."""
        total, V, q = one["model"]
        rho, cost = {}, one["level"]
        for p in self.pairs:
            rho[p] = 0.0
            if total[p] > 0.0:
                rho[p], paid = self.thin_pair(one, p, one["v"][p] / t, sign)
                cost += paid
        square, linear = dict.fromkeys(range(self.S + 1), 0.0), dict.fromkeys(range(self.S + 1), 0.0)
        for e, block in enumerate(self.blocks):
            for row in block:
                if (p := row[:2]) in self.pi:
                    weight, x = rho[p] * row[4] * one["u"][e][p], row[2] + self.alpha * V[row[3]] - q[p]
                    cost += weight * x * x
                    linear[row[3]] += 2.0 * self.alpha * weight * x
                    square[row[3]] += self.alpha**2 * weight
        for p, chance in self.pi.items():
            b, c = chance * linear[p[0]], chance * square[p[0]] - rho[p] * total[p]
            low, high = self.q[p][0] - q[p], self.q[p][1] - q[p]
            places = [low, high, *([-b / (2.0 * c)] if c < 0.0 and low < -b / (2.0 * c) < high else [])]
            cost += max(b * h + c * h * h for h in places)
        return t * cost + 1e-10 * max(map(abs, V))

    def thin_pair(self, one, p, y, sign):
        """rho that is enough at both ends of h, and the cost of the weights at the dearer of them."""
        q, (low, high) = one["model"][2][p], self.q[p]
        least = most = 0.0
        for e, block in enumerate(self.blocks):
            for row in block:
                if row[:2] == p:
                    least += one["u"][e][p] * row[4] * (row[2] + self.alpha * self.V[row[3]][0] - high)
                    most += one["u"][e][p] * row[4] * (row[2] + self.alpha * self.V[row[3]][1] - low)
        least, most = sorted((sign * least, sign * most))
        ends = sorted((sign * (low - q), sign * (high - q)))
        first = self.thin_need(one, p, self.tilted(one, p, y, least, most)[0])
        shift = 2.0 * first * max(map(abs, ends))
        part = 1.0 if shift <= 0.18 * y else 0.18 * y / shift
        for _ in range(6):
            rho = 1.02 * part**2 * first
            for _ in range(20):
                needed, paid = 0.0, -math.inf
                for h in ends:
                    a, slope = self.tilted(one, p, part * y - 2.0 * rho * h, least, most)
                    missing = y - 2.0 * rho * h - slope
                    cost = sum(x * (math.log(x) - one["g"][j][1]) for j, x in a.items() if x > 0.0)
                    paid = max(paid, cost + max(missing * least, missing * most))
                    needed = max(needed, self.thin_need(one, p, a))
                if needed <= rho:
                    return rho, paid
                rho = 1.02 * needed
            part *= 0.7
        return 0.0, math.inf

    def thin_need(self, one, p, a):
        blocks = [e for e in range(len(self.blocks)) if one["u"][e][p] > 0.0]
        return max(sum(x * self.psi(one, j, e, p) for j, x in a.items()) / one["u"][e][p] for e in blocks)

    def tilted(self, one, p, y, low, high):
        """Weights exp(log w - phi + theta Z) with mean slope y, or those of the end of [low, high] that is nearest."""
        known = one.setdefault("terms", {})
        terms = known[p] = known.get(p) or self.terms(one, p)
        for _ in range(50):
            Z = 0.5 * (low + high)
            top = log_sum([c + theta * Z for _, theta, c in terms])
            a = {j: math.exp(c + theta * Z - top) for j, theta, c in terms}
            slope = sum(a[j] * theta for j, theta, _ in terms)
            if abs(slope - y) <= 1e-7 * abs(y):
                break
            low, high = (Z, high) if slope < y else (low, Z)
        return a, slope
