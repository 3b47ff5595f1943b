"""The certificate of docs/certificate.md once more: one row after another, plain loops, nothing of dualq.

A log is a list of blocks, a block a list of rows (s, a, r, s_next, ended). The end is the state S, worth 0. Functions
of the states are lists of S + 1 numbers, whose last is 0.
"""

from __future__ import annotations

import math


class Row:
    def __init__(self, s, a, r, s_next, ended):
        self.s, self.a, self.r, self.ended = s, a, r, ended
        self.entered = s_next


class Naive:
    """A log, and what holds of it with probability 1 - delta."""

    def __init__(self, blocks, S, A, alpha, delta, reward_range=None, value_range=None, known=None):
        """known: {(s, a): reward}, where the reward is known exactly and only the successors are random."""
        self.blocks = [[Row(*row) for row in block] for block in blocks]
        self.rows = [row for block in self.blocks for row in block]
        self.S, self.A, self.alpha, self.delta, self.known = S, A, alpha, delta, known
        self.sorted, self.averages = {}, {}
        self.pairs = [(s, a) for s in range(S) for a in range(A)]
        if known is not None:
            for row in self.rows:
                row.r = known[row.s, row.a]
            reward_range = (min(known.values()), max(known.values()))
        self.reward_range = reward_range or (min(row.r for row in self.rows), max(row.r for row in self.rows))
        self.ends = any(row.ended for row in self.rows)
        self.places = self.possible()
        self.anywhere = [*range(S), S] if self.ends else [*range(S)]  # which states only end may be seen late
        self.low, self.high = self.range_of_values(value_range)
        self.references = {"optimal": [], "behaviour": []}
        for e in range(len(self.blocks)):
            best, usual = self.plug_in_values([row for block in self.blocks[:e] for row in block])
            self.references["optimal"].append(best)
            self.references["behaviour"].append(usual)
        self.balls = {pair: self.ball(pair) for pair in self.pairs}
        self.noise = {
            (name, side): {pair: self.boundary(pair, name, side) for pair in self.pairs}
            for name in self.references
            for side in (1, -1)
        }

    # ---- what is assumed

    def range_of_values(self, given):
        low, high = (end / (1.0 - self.alpha) for end in self.reward_range)
        if self.ends:  # an episode that ended earns nothing more
            low, high = min(low, 0.0), max(high, 0.0)
        return (low, high) if given is None else (max(low, given[0]), min(high, given[1]))

    def successor(self, row):
        return self.S if row.ended else row.entered

    def possible(self):
        """Where a row can lead: not to states that were entered only to end; to the end, if some row ended."""
        found = [self.S] if self.ends else []
        for s in range(self.S):
            into = [row.ended for row in self.rows if row.entered == s]
            if not into or not all(into):
                found.append(s)
        return found

    def of(self, pair, block=None):
        if (pair, block) not in self.sorted:
            rows = self.rows if block is None else self.blocks[block]
            self.sorted[pair, block] = [row for row in rows if (row.s, row.a) == pair]
        return self.sorted[pair, block]

    # ---- references

    def plug_in_values(self, past):
        """(best, behaviour): plug-in values of what is past; 0 while there are fewer than 20 rows per logged pair."""
        S, A, nothing = self.S, self.A, [0.0] * (self.S + 1)
        logged = {(row.s, row.a) for row in past}
        if not past or len(past) < 20 * len(logged):
            return nothing, nothing
        average = sum(row.r for row in past) / len(past)
        stuck = {}  # states that were never left pay the average for ever, or nothing, if all that entered them ended
        for s in range(S):
            if not any((s, a) in logged for a in range(A)):
                into = [row.ended for row in past if row.entered == s]
                stuck[s] = 0.0 if into and all(into) else average / (1.0 - self.alpha)

        def backed_up(V, pair):
            rows = [row for row in past if (row.s, row.a) == pair]
            return sum(row.r + self.alpha * V[self.successor(row)] for row in rows) / len(rows)

        def iterate(worth):
            V = nothing
            for _ in range(math.ceil(math.log(1e-15) / math.log(self.alpha))):
                q = {pair: backed_up(V, pair) for pair in logged}
                V = [stuck[s] if s in stuck else worth(s, q) for s in range(S)] + [0.0]
            return V

        def best(s, q):
            return max(q[s, a] for a in range(A) if (s, a) in logged)

        def usual(s, q):
            rows = [row for row in past if row.s == s]
            return sum(q[row.s, row.a] for row in rows) / len(rows)

        return iterate(best), iterate(usual)

    # ---- event 1

    def boundary(self, pair, name, side):
        """B (side 1) or B' (side -1): how far the sum of X - E X can be."""
        references, share = self.references[name], {"optimal": 0.8, "behaviour": 0.1}[name]
        if self.known is not None and not any(x != 0.0 for f in references for x in f):
            return 0.0  # nothing is random
        level = math.log(2 * self.S * self.A / (share * self.delta))
        reward, (low, high) = (lambda row: row.r), self.reward_range
        if self.known is not None:  # the reward is no noise: X = alpha f(s'), which varies by less
            half = 0.5 * (high - low) or 1.0
            reward, low, high = (lambda row: 0.0), -half, half
        scales, spreads = [], []
        for e, f in enumerate(references):
            here = self.of(pair, e)
            if not here:
                continue
            could = [self.alpha * f[s] for s in self.anywhere]
            bottom, top = low + min(could), high + max(could)
            before = [reward(row) + self.alpha * f[self.successor(row)] for b in range(e) for row in self.of(pair, b)]
            m = 0.5 * (bottom + top)
            if e > 0:
                m = min(max((sum(before) + m) / (len(before) + 1), bottom), top)
            scales.append(m - bottom if side > 0 else top - m)
            spreads.append(sum((reward(row) + self.alpha * f[self.successor(row)] - m) ** 2 for row in here))
        if not scales:
            return math.inf
        rates, weights = self.prior(level, low, high)
        terms = []  # (log weight - sum_e psi(lambda R_e) Q_e / R_e^2, lambda)
        for rate, weight in zip(rates, weights, strict=True):
            if all(rate * R < 1.0 for R in scales):
                paid = sum(rate**2 * psi_ratio(rate * R) * Q for R, Q in zip(scales, spreads, strict=True))
                terms.append((weight - paid, rate))
        if not terms:
            return math.inf
        above = 1.0
        while log_sum([c + rate * above for c, rate in terms]) < level:
            above *= 2.0
        return bisect(lambda x: log_sum([c + rate * x for c, rate in terms]) - level, 0.0, above)

    def prior(self, level, low, high):
        """A Cauchy density of log lambda in steps of .15, around the rate for 700 rows of a pair."""
        unit = max(high - low, 1e-3 * max(abs(low), abs(high))) or 1.0
        centre = 0.5 * math.log(2.0 * (level + 2.0) / 700.0) - math.log(0.25 * unit)
        reach = math.log(4.0 / (1.0 - self.alpha)) + 0.5 * math.log(1e7 / 700.0)
        steps = [-reach + 0.15 * k for k in range(math.ceil((2.0 * reach + 0.15) / 0.15))]
        density = [1.0 / (1.0 + u**2) for u in steps]
        return [math.exp(centre + u) for u in steps], [math.log(x / sum(density)) for x in density]

    # ---- event 2

    def ball(self, pair):
        """(centre, radius): of all rows or of those after the first part alone, whichever is smaller."""
        begins = [(0, 1.0)] if len(self.blocks) == 1 else [(0, 1.0), self.first_part()]
        best = {}, math.inf
        for begin, weight in begins:
            past = [self.successor(row) for b in range(begin) for row in self.of(pair, b)]
            now = [self.successor(row) for b in range(begin, len(self.blocks)) for row in self.of(pair, b)]
            if not now:
                continue
            level = math.log(self.S * self.A / (weight * 0.1 * self.delta / len(begins)))
            frequencies = {s: now.count(s) / len(now) for s in now}
            likelihood = sum(math.log(frequencies[s]) for s in now)
            radius = (level + likelihood - self.code(past, now)) / len(now)
            if radius < best[1]:
                best = frequencies, radius
        return best

    def first_part(self):
        """(blocks, weight): what may be foreseen from ends after 64 x 8^k rows, each with its weight."""
        ends = [sum(map(len, self.blocks[: e + 1])) for e in range(len(self.blocks) - 1)]
        grid = {round(8 ** (j / 2)) for j in range(19)} | {round(2 ** (i / 4)) for i in range(24, 109)}
        if all(end in grid for end in ends):
            rows = max(k for k in (64, 512, 4096) if 6 * k <= len(self.rows))
            return ends.index(rows) + 1, {64: 0.08, 512: 0.18, 4096: 0.32}[rows]
        return min(range(1, len(self.blocks)), key=lambda e: abs(math.log(8 * ends[e - 1] / len(self.rows)))), 1.0

    def code(self, past, now):
        """log q: six Dirichlet priors, alike likely, each predicts every successor from those before it."""
        m, logs = len(self.anywhere), []
        for trust in (1.0, 0.25):
            for base in (0.5, 1.0 / m, 0.03 / m):
                weight = {s: base + trust * past.count(s) for s in {*past, *now}}
                total, log_q = m * base + trust * len(past), 0.0
                for s in now:
                    log_q += math.log(weight[s] / total)
                    weight[s] += 1.0
                    total += 1.0
                logs.append(log_q)
        return log_sum(logs) - math.log(len(logs))

    # ---- floors and ceilings

    def pair_floor(self, pair, V, name, sign):
        """X^ - B/n + alpha inf P (V - f^) of the reward times sign."""
        X, anchor = self.means(pair, name)
        gaps = {s: sign * anchor[s] - V[s] for s in self.places}
        centre, radius = self.balls[pair]
        most = worst_mean(centre, gaps, radius)  # of P (f^ - V); the infimum of P (V - f^) is minus that
        return sign * X - self.noise[name, sign][pair] / len(self.of(pair)) - self.alpha * most

    def means(self, pair, name):
        """X^ and f^: of r + alpha f_e(s') and of f_e over the rows of a pair."""
        if (pair, name) not in self.averages:
            rows, X, anchor = self.of(pair), 0.0, [0.0] * (self.S + 1)
            for e, f in enumerate(self.references[name]):
                for row in self.of(pair, e):
                    X += (row.r + self.alpha * f[self.successor(row)]) / len(rows)
                    anchor = [x + y / len(rows) for x, y in zip(anchor, f, strict=True)]
            self.averages[pair, name] = X, anchor
        return self.averages[pair, name]

    def bound(self, name, sign, policy=None, allowed=None):
        """The fixed point: floors of V^pi (sign 1), or minus the ceilings; without a policy, of the best action."""
        worst = self.low if sign > 0 else -self.high
        logged = {pair for pair in self.pairs if self.of(pair)}
        V = [worst] * self.S + [0.0]
        while True:
            q = {
                pair: max(self.pair_floor(pair, V, name, sign), worst) if pair in logged else worst
                for pair in self.pairs
                if allowed is None or allowed[pair[0]][pair[1]]
            }
            if policy is not None:
                new = [sum(policy[s][a] * q[s, a] for a in range(self.A)) for s in range(self.S)]
            else:  # sign is -1: the best action has the least of minus its value
                new = [min(x for (state, _), x in q.items() if state == s) for s in range(self.S)]
            moved = max(abs(x - y) for x, y in zip(new, V[:-1], strict=True))
            V = [*new, 0.0]
            if moved <= 1e-13 * (abs(self.low) + abs(self.high)):
                return V[:-1]

    def floor(self, policy, start):
        """Of a policy from the start: with the better reference."""
        return max(dot(start, self.bound(name, 1, policy)) for name in self.references)

    def ceiling(self, policy, start):
        return min(-dot(start, self.bound(name, -1, policy)) for name in self.references)

    def interval(self, policy):
        """Floor and ceiling in every state, each with the better reference there."""
        lows = [self.bound(name, 1, policy) for name in self.references]
        highs = [self.bound(name, -1, policy) for name in self.references]
        return [max(x) for x in zip(*lows, strict=True)], [-max(x) for x in zip(*highs, strict=True)]

    def best_ceiling(self, allowed):
        """Of every policy that keeps to what is allowed."""
        return [-x for x in self.bound("optimal", -1, allowed=allowed)]

    def thick(self, k):
        """Pairs with at least k rows; in states that have none, any action."""
        found = [[len(self.of((s, a))) >= k for a in range(self.A)] for s in range(self.S)]
        return [row if any(row) else [True] * self.A for row in found]

    def behaviour(self):
        """n(s, a) / n(s); uniform where a state was never left."""
        policy = []
        for s in range(self.S):
            n = [len(self.of((s, a))) for a in range(self.A)]
            policy.append([x / sum(n) for x in n] if sum(n) else [1.0 / self.A] * self.A)
        return policy


def dot(weights, values):
    return sum(w * x for w, x in zip(weights, values, strict=True))


def log_sum(logs):
    """log sum exp."""
    top = max(logs)
    return top + math.log(sum(math.exp(x - top) for x in logs))


def psi_ratio(z):
    """psi(z) / z^2 with psi(z) = -log(1 - z) - z, by its series where that is exact and the logarithm is not."""
    if z < 0.05:
        return sum(z**k / (k + 2) for k in range(20))
    return (-math.log1p(-z) - z) / z**2


def bisect(f, low, high):
    """The root of an increasing function."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if f(middle) < 0.0 else (low, middle)
    return high


def worst_mean(centre, d, radius):
    """sup {P d : KL(centre || P) <= radius}: the least of nu - exp(mean of log(nu - d) - radius) over nu >= max d."""
    top, span = max(d.values()), max(d.values()) - min(d.values())
    if not centre or span == 0.0:
        return top

    def scale(t):
        return math.exp(sum(p * math.log(top + t - d[s]) for s, p in centre.items()) - radius)

    def slope(t):
        return 1.0 - scale(t) * sum(p / (top + t - d[s]) for s, p in centre.items())

    t = bisect(slope, 1e-14 * span, span * (2.0 + 2.0 / radius))
    return min(top, top + t - scale(t))
