"""The batch saddle problem in linear features: a rule from rows, by one convex problem.

Problem   min over theta of (1 - alpha) phi_0'theta + tau mean_i f*(e_i / tau)              v = phi'theta
          e_i = psi_i' S^-1 mean_j psi_j (r_j + alpha live_j phi(s'_j)'theta - phi(s_j)'theta)
          f*(y) = exp(y) - 1 below 0, y + y^2/2 above: the conjugate of a softened chi-square
Why       e is the advantage r + alpha P v - v of a pair as psi sees it; the projection on psi takes the expectation
          over s' before f* is applied, so that f* does not see the noise of single rows (the double-sampling bias).
          As tau -> 0 the program is the linear program: least v with e <= 0.
Dual      w_i = f*'(e_i / tau) is the density of the policy's occupancy against the rows. Its mass, and with it any
          normaliser, follows from the flow through phi; where episodes end it is not 1, so none is added.
Path      Newton, from the value of who acted, tau halved until the effective size of w is 1/A + (1 - 1/A)/5: a policy
          that is certain among A actions that were all tried alike keeps 1/A of the rows.
Noise     S has the ridge of shrinkage.py, and (phi(s'), r) are quiet (news.py): both are found from the rows
Gives     the action of the largest advantage among those that who acted took with probability 3% or more, as the mean
          of three draws of the waves sees it; the same of fitted iteration (iteration.py); and the dual itself, which
          draws a with probabilities proportional to clone(a|s) f*'(e(s,a) / t). It stays near to what was done, so that
          the rows can tell what it is worth where they cannot of a policy that is certain. t is a quarter of the last
          tau of the path: the policy gains more than at tau, and the rows tell it nearly as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize

from dualq.base import States
from dualq.logs import NumberRows
from dualq.model import Rule
from dualq.offline.approximate.design import Design
from dualq.offline.approximate.evaluation import RIDGE_S, ROWS_PER_FEATURE, effective_size
from dualq.offline.approximate.features import Features, Phi, joined
from dualq.offline.approximate.iteration import iterated
from dualq.offline.approximate.news import News
from dualq.offline.approximate.own_features import FeaturesGiven, features_given
from dualq.offline.approximate.psi import (
    by_action,
    chunks,
    features_of,
    followed,
    per_action,
    ridge,
    squared,
    squares_by_action,
    total,
    with_shared,
)
from dualq.offline.approximate.rules import DualRule, LinearRule, LogisticRule, density, log_softmax
from dualq.offline.approximate.shrinkage import LEAST, SHARED

Array = np.ndarray

KEPT = 0.2  # how far above 1/A the effective size stays
COOLING = 0.5
COOLEST = 1e-6  # of the first temperature
NEWTON_STEPS = 50
TOLERANCE = 1e-6  # of the squared Newton decrement, in temperatures
ON_THE_WAY = 1e-4  # the same where the next temperature follows
FEATURES = 40  # of v: more bend the policy after the noise of the rows
COOLER = 0.25  # of the last temperature: the dual policy's
DRAWS = 3  # of the waves: one draw may suit a problem by luck
SHRINKINGS = 2
MOST_ROWS = 200_000
CLONE_RIDGE = 1.0  # sum of squares against the log-likelihood of all rows


def learned_linear(rows: NumberRows, discount: float, seed: int = 0) -> dict[str, Rule]:
    """The rules of the saddle problem, primal and dual, and of fitted iteration; and the clone of who acted."""
    behaviour, rows = clone(rows, seed), followed(_some(rows, seed))
    drawn = [few_features(rows, seed + i) for i in range(DRAWS)]
    phi, saddles, q = joined(drawn), [], []
    for news, each in zip(_news(rows, drawn), drawn, strict=True):
        saddles.append(shrunk_saddle(news, each, discount))
        q.append(iterated(news, discount, behaviour))
    e, tau = _mean([one.advantage for one in saddles], drawn), float(np.mean([one.tau for one in saddles]))
    return {
        "linear": LinearRule(phi, e, behaviour),
        "dual": DualRule(phi, e, behaviour, COOLER * tau),
        "iterated": LinearRule(phi, _mean(q, drawn), behaviour),
        "clone": behaviour,
    }


def learned_quickly(
    rows: NumberRows, discount: float, seed: int = 0, given: FeaturesGiven | None = None
) -> dict[str, Rule]:
    """The rules of the saddle problem as it is, by one draw of the waves: for a search that learns many times."""
    behaviour, rows = clone(rows, seed), followed(_some(rows, seed))
    phi = few_features(rows, seed) if given is None else features_given(given, rows)
    start = rows.starts if len(rows.starts) else rows.state
    found = Saddle.of(rows, phi, discount, start).down_the_path()
    return {
        "linear": LinearRule(phi, found.advantage, behaviour),
        "dual": DualRule(phi, found.advantage, behaviour, COOLER * found.tau),
    }


def learned_in(given: FeaturesGiven, rows: NumberRows, discount: float, seed: int = 0) -> dict[str, Rule]:
    """The same rules in the user's own features; who acted, and what is news, are known by waves."""
    behaviour, rows = clone(rows, seed), followed(_some(rows, seed))
    phi = features_given(given, rows)
    news = News.of(Design.of(rows, few_features(rows, seed))).beside(Design.of(rows, phi))
    found = shrunk_saddle(news, phi, discount)
    return {
        "linear": LinearRule(phi, found.advantage, behaviour),
        "dual": DualRule(phi, found.advantage, behaviour, COOLER * found.tau),
        "iterated": LinearRule(phi, iterated(news, discount, behaviour), behaviour),
        "clone": behaviour,
    }


def _news(rows: NumberRows, drawn: Sequence[Features]) -> Iterator[News]:
    """In the features of each draw, one after another, since each is large; found once."""
    news = News.of(Design.of(rows, drawn[0]))
    yield news
    for phi in drawn[1:]:
        news = news.beside(Design.of(rows, phi))
        yield news


def _some(rows: NumberRows, seed: int) -> NumberRows:
    """At most so many of the rows, drawn at random: enough for so few features."""
    if len(rows) <= MOST_ROWS:
        return rows
    return rows.at(np.sort(np.random.default_rng(seed).choice(len(rows), MOST_ROWS, replace=False)))


def _mean(found: Sequence[Array], drawn: Sequence[Features]) -> Array:
    """(1 + inputs + all waves, A) the mean of what several draws of waves say, as coefficients of all of them."""
    plain = 1 + drawn[0].inputs.width
    return np.vstack([sum(q[:plain] for q in found), *(q[plain:] for q in found)]) / len(found)


def shrunk_saddle(news: News, phi: Phi, discount: float) -> Found:
    """The saddle problem without the news that no action has a hand in, and with the ridge that the rows ask for."""
    design = news.design
    start = design.rows.starts if len(design.rows.starts) else design.rows.state
    onward = news.quiet(np.column_stack([design.x_next * design.rows.live[:, None], design.rows.r]))
    phi_0, ridge = phi(start).mean(axis=0), np.where(design.groups < 0, SHARED, LEAST)
    for _ in range(SHRINKINGS):
        found = Saddle.seen(design, onward, phi_0, discount, ridge).down_the_path()
        ridge = design.ridge(onward @ np.append(discount * found.theta, 1.0))
    return Saddle.seen(design, onward, phi_0, discount, ridge).down_the_path()


def few_features(rows: NumberRows, seed: int = 0) -> Features:
    """As many features as a rule may have that these rows teach."""
    most = len(rows) // (2 * ROWS_PER_FEATURE * (len(rows.actions) + 1))
    return Features.of(rows, min(FEATURES, most), seed)


# ---- who acted, as a function of the state


def clone(rows: NumberRows, seed: int = 0) -> LogisticRule:
    """Multinomial logistic regression of the action on the features of the state.

    W'x is sought as U'z of x = L z, L L' = mean x x' + ridge: every direction is then about as steep as the others, and
    a few dozen steps are enough, where W itself takes hundreds.
    """
    phi, rows = few_features(rows, seed), _some(rows, seed)
    A, n, x = len(rows.actions), len(rows), phi(rows.state)
    L = np.linalg.cholesky((x.T @ x + CLONE_RIDGE * np.eye(x.shape[1])) / n)
    z = solve_triangular(L, x.T, lower=True, overwrite_b=True)  # (D, n), in the place of x
    taken = (np.arange(A)[:, None] == rows.a).astype(float)

    def weights(flat: Array) -> Array:
        return solve_triangular(L, flat.reshape(A, -1).T, lower=True, trans=1)  # (D, A)

    def loss(flat: Array) -> tuple[float, Array]:
        W = weights(flat)
        log_pi = log_softmax(flat.reshape(A, -1) @ z)
        slack = W * CLONE_RIDGE
        slack[0] = 0.0
        value = -(taken * log_pi).sum() + 0.5 * (slack * W).sum()
        slope = (np.exp(log_pi) - taken) @ z.T + solve_triangular(L, slack, lower=True).T
        return value / n, slope.ravel() / n

    found = minimize(loss, np.zeros(A * len(z)), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return LogisticRule(phi, np.ascontiguousarray(weights(found.x)))


# ---- the convex problem


class Found(NamedTuple):
    """The solution at one temperature."""

    theta: Array  # (D,) of v
    advantage: Array  # (D, A) of e
    w: Array  # (n,)
    tau: float
    value: float  # phi_0'theta


@dataclass(frozen=True, eq=False)
class Saddle:
    """e = e_0 - E theta at the rows, and what it costs to start where episodes start."""

    E: Array  # (n, D)
    e_0: Array  # (n,)
    phi_0: Array  # (D,)
    discount: float
    actions: int
    K_S: Array  # (p, D) S^-1 K, K = mean psi (phi - alpha live phi')'
    b_S: Array  # (p,)

    @classmethod
    def of(
        cls,
        rows: NumberRows,
        phi: Phi,
        discount: float,
        start: States,
        ridges: tuple[float, float, float] = RIDGE_S,
    ) -> Saddle:
        """From rows and features."""
        A, n = len(rows.actions), len(rows)
        outer = total(squares_by_action(x, a, A) for x, a in features_of(phi, rows)) / n
        onward = total(
            by_action(phi(part.state), np.column_stack([phi(part.next_state) * part.live[:, None], part.r]), part.a, A)
            for part in map(rows.at, chunks(n))
        )
        S = squared(outer) + np.diag(ridge(ridges, A, outer.shape[1]))
        K, b = with_shared(outer) - discount * with_shared(onward[:, :, :-1]) / n, with_shared(onward[:, :, -1:]) / n
        K_S, b_S = np.split(cho_solve(cho_factor(S), np.hstack([K, b])), [K.shape[1]], axis=1)
        both = np.hstack([K_S, b_S]).reshape(A + 1, -1, K.shape[1] + 1)
        E = np.vstack([_at_rows(x, a, both) for x, a in features_of(phi, rows)])
        phi_0 = total(phi(start.at(at)).sum(axis=0) for at in chunks(len(start))) / len(start)
        return cls(E[:, :-1], E[:, -1], phi_0, discount, A, K_S, b_S[:, 0])

    @classmethod
    def seen(cls, design: Design, onward: Array, phi_0: Array, discount: float, ridge: Array) -> Saddle:
        """From the rows in features, where (phi(s'), r) are these (n, D + 1)."""
        D, K = phi_0.size, design.onto_psi(onward)
        K[:, :D] = design.S[:, :D] - discount * K[:, :D]  # the first D columns of S are mean psi phi'
        both = cho_solve(cho_factor(design.S + np.diag(ridge)), K)
        E = design.at_rows(both)
        return cls(E[:, :-1], E[:, -1], phi_0, discount, design.actions, both[:, :-1], both[:, -1])

    def down_the_path(
        self, until: float | None = None, coolest: float = COOLEST, tolerance: float = TOLERANCE
    ) -> Found:
        """Newton at one temperature after another, until the effective size of w is so small, or tau is."""
        until = 1.0 / self.actions + KEPT * (1.0 - 1.0 / self.actions) if until is None else until
        theta = np.linalg.lstsq(self.E, self.e_0, rcond=1e-10)[0]
        first = tau = float(np.abs(self.e_0 - self.E @ theta).max()) + np.finfo(float).tiny
        found = self._found(theta, tau)
        while tau > coolest * first:
            theta, tau = self._newton(theta, tau, ON_THE_WAY), tau * COOLING
            found = self._found(theta, tau / COOLING)
            if effective_size(found.w) <= until:
                break
        return self._found(self._newton(theta, found.tau, tolerance), found.tau)

    def _found(self, theta: Array, tau: float) -> Found:
        advantage = per_action(self.b_S - self.K_S @ theta, self.actions)
        w = density((self.e_0 - self.E @ theta) / tau)
        return Found(theta, advantage, w, tau, float(self.phi_0 @ theta))

    def _objective(self, theta: Array, tau: float) -> float:
        y = (self.e_0 - self.E @ theta) / tau
        return float((1.0 - self.discount) * self.phi_0 @ theta + tau * _conjugate(y).mean())

    def _curved(self, root: Array) -> Array:
        """(D, D) sum of root^2 E E', some rows at a time: they stay near the processor."""
        weighed = (self.E[at] * root[at, None] for at in chunks(len(root)))
        return total(x.T @ x for x in weighed)

    def _newton(self, theta: Array, tau: float, tolerance: float) -> Array:
        """The minimum at this temperature; steps are halved until the objective falls as a convex one must."""
        n, D = self.E.shape
        at = self._objective(theta, tau)
        for _ in range(NEWTON_STEPS):
            y = (self.e_0 - self.E @ theta) / tau
            gradient = (1.0 - self.discount) * self.phi_0 - self.E.T @ density(y) / n
            hessian = self._curved(np.exp(0.5 * np.minimum(y, 0.0))) / (tau * n)
            hessian[np.diag_indices(D)] += 1e-10 * np.trace(hessian) / D + np.finfo(float).tiny
            step = np.linalg.solve(hessian, gradient)
            fall, size = float(gradient @ step), 1.0
            while (new := self._objective(theta - size * step, tau)) > at - 0.25 * size * fall and size > 1e-8:
                size /= 2.0
            if not new < at:
                break
            theta, at = theta - size * step, new
            if fall <= tolerance * tau:
                break
        return theta


def _at_rows(x: Array, a: Array, blocks: Array) -> Array:
    """(n, k) psi_i' times blocks (A + 1, D, k)."""
    out = x @ blocks[0]
    for b in range(len(blocks) - 1):
        out[a == b] += x[a == b] @ blocks[b + 1]
    return out


def _conjugate(y: Array) -> Array:
    below = np.minimum(y, 0.0)
    return np.where(y < 0.0, np.expm1(below), y + y**2 / 2.0)
