"""What a rule is worth, from rows alone: the dual of the saddle problem with the rule held fixed.

Problem   V(pi) = E sum_t alpha^t r_t from the start states, where actions follow pi
Features  psi(s,a) = (phi(s), phi(s) x e_a): what all actions share, and what each adds
          psi_pi(s) = sum_a pi(a|s) psi(s,a);   psi_0 the mean of psi_pi over the start states
Moments   S = mean psi_i psi_i' + ridge,   M = mean psi_i (psi_i - alpha live_i psi_pi(s'_i))',   b = mean psi_i r_i
Primal    q = psi'theta:  min |M theta - b| in the norm of S^-1     theta = H^-1 M'S^-1 b,   H = M'S^-1 M + ridge
Dual      mu = psi'nu, the density of pi's occupancy against the rows:  M'nu = psi_0 of the least norm in S,
          nu = S^-1 M H^-1 psi_0
Gives     V = mean v(s_0) + mean mu delta,   delta_i = r_i + alpha live_i v(s'_i) - q(s_i, a_i),   v = psi_pi'theta
          which errs by the product of what theta and nu err (doubly robust)
Error     rows of one cluster (an episode, a block) may err together:  z_e = sum over its rows of mu delta / n,
          e^2 = sum_e (z_e - mean z)^2 + var v(s_0) / N_0

News in the next state that no action has a hand in count as often as the state comes (exogenous.py).
What may be wrong with it is measured too. The effective size of mu, (sum mu)^2 / (n sum mu^2), is small where the
rule goes where the log never was. The misfit is the share of the variance of delta that a forest on (s, a) foretells in
rows that it has not seen: more than a little, and q is no function of these features; then there is no error to state.

With S = U'U and B = U^-T M,  H = B'B + ridge,  theta = H^-1 B'U^-T b,  nu = U^-1 B H^-1 psi_0.
S depends on rows and features alone, M on the rule, b on what is earned: a cost, or another reward, of a rule that has
been weighed takes two products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from dualq.base import LogError, ModelError, States, count
from dualq.logs import NumberRows
from dualq.model import Rule, checked_discount
from dualq.offline.approximate.exogenous import Exogenous
from dualq.offline.approximate.features import Features, Phi
from dualq.offline.approximate.inputs import Inputs
from dualq.offline.approximate.psi import (
    Seen,
    by_action,
    chunks,
    followed,
    onward,
    per_action,
    ridge,
    squared,
    squares_by_action,
    total,
    with_shared,
)

if TYPE_CHECKING:
    from dualq.offline.approximate.trees import Halved

Array = np.ndarray

ROWS_PER_FEATURE = 33  # of psi
MOST_FEATURES = 900  # of psi
RIDGE_S = (1e-9, 1e-5, 1e-3)  # on the intercept, on what actions share, on what each adds
RIDGE_H = (0.0, 1e-9, 1e-7)
NEWS_FEATURES = 40  # of the state, by which the next is foretold
MOST_WITH_NEWS = 200_000  # rows: beyond, there is little noise to take out
LEAST_EFFECTIVE = 0.02  # below: the rule goes where the log never was
MOST_MISFIT = 0.05  # above: the features do not carry the values
MANY_ROWS = 20_000  # beyond, errors fall with the rows and what features leave out does not: so less of it is borne


@dataclass(frozen=True, eq=False)
class ActionValues:
    """q(s, a) = phi(s)'coefficients + offset; arrays only."""

    phi: Phi
    coefficients: Array  # (D, A)
    offset: float

    def __call__(self, states: States) -> Array:
        """(n, A)."""
        return self.phi(states) @ self.coefficients + self.offset


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The value of a rule with its error, and what it is made of."""

    value: float
    error: float  # where the features carry the values
    effective_size: float
    z: Array  # (clusters,) what each adds to the value
    start_values: Array  # (N_0,) v of the start states
    mu: Array  # (n,)
    delta: Array  # (n,)
    each: Array  # (n,) what each row adds to the mean: mu delta, less the news that no action has a hand in
    theta: Array  # (p,)
    offset: float  # what is added to psi'theta everywhere
    rows: NumberRows
    seed: int = 0
    weighed: Weighed | None = None  # the rule's density, by which other rewards are valued

    @property
    def values(self) -> ActionValues:
        """What each action is worth, if the rule decides afterwards."""
        by = self._weighed.by
        return ActionValues(by.phi, per_action(self.theta, len(by.outer)), self.offset)

    @property
    def _weighed(self) -> Weighed:
        if self.weighed is None:
            raise ModelError("this evaluation is of what was logged, and knows no actions")
        return self.weighed

    def cost(self, name: str) -> Evaluation:
        """The same of a cost in place of the reward."""
        return self._weighed.earning(self.rows.costs[name])

    @cached_property
    def misfit(self) -> float:
        """The share of the variance of delta that can be foretold from (s, a) and the row before.

        0 where the features carry the values, and the state includes what matters.
        """
        return held_out_r2(self._weighed.by.before, self.delta)

    @cached_property
    def bent(self) -> bool:
        """Whether (s, a) alone foretell most of that: the features bend too little, and the state misses nothing."""
        return held_out_r2(self._weighed.by.now, self.delta) > self.misfit / 2.0

    @property
    def standard_error(self) -> float | None:
        """None where the features do not carry the values, or rows are too few for them."""
        return self.error if self.bearable and self.carried else None

    @property
    def carried(self) -> bool:
        """Whether the features carry the values."""
        return self.misfit <= most_misfit(len(self.rows))

    @property
    def bearable(self) -> bool:
        """Whether there are rows enough for the least features that there can be."""
        A, D = len(self.rows.actions), Features.of(self.rows, 0, self.seed).width
        return len(self.rows) >= ROWS_PER_FEATURE * (A + 1) * D

    @property
    def covered(self) -> bool:
        """Whether the log has been where the rule goes."""
        return self.effective_size >= LEAST_EFFECTIVE

    def error_of_difference(self, other: Evaluation) -> float:
        """Of self.value - other.value, which share rows and start states, and so a part of their luck."""
        return error_of(self.z - other.z, self.start_values - other.start_values)


def evaluated(rows: NumberRows, rule: Rule, discount: float, start: States, seed: int = 0) -> Evaluation:
    """The value of a rule, in expectation, from rows of any behaviour."""
    return Evaluator.of(rows, discount, start, seed).weighed(rule).earning(rows.r)


Learner = Callable[[NumberRows, float, int], dict[str, Rule]]  # (rows, discount, seed) -> rules by name


@dataclass(frozen=True, eq=False)
class Honest:
    """What a learned rule is worth, without the luck of having been chosen by the rows that value it.

    Value   between two: V_full has luck in it; V_swapped has none, but is of rules that learned from half the rows, and
            often has more noise. V_swapped has the share w = e_full^2 / (e_full^2 + e_swapped^2) of the mean, and at
            most a half. Every row is in both, so the mean is an evaluation like any other, with z of its own for each
            cluster
    Error   that of the mean, and w |V_full - V_swapped| / 2 beside it. Where between the two the truth lies is not
            known, and it is no accident: the same learner may be at one end in log after log. Where both count alike,
            two errors reach either end, and two errors of the mean beyond it; squares that are added would not
    """

    rule: Rule
    full: Evaluation  # by the rows that it was learned on
    swapped: tuple[Evaluation, Evaluation]  # the rules of the halves, each by the other half
    first: Array  # (n,) whether a row is in the first half

    @property
    def swapped_value(self) -> float:
        """What rules of half the rows are worth, by rows that they have not seen."""
        return (self.swapped[0].value + self.swapped[1].value) / 2.0

    @property
    def value(self) -> float:
        """Between the two."""
        return self.full.value + self.share * (self.swapped_value - self.full.value)

    @cached_property
    def share(self) -> float:
        """Of the swapped value in the mean."""
        full, swapped = self.full.error**2, (self.swapped[0].error ** 2 + self.swapped[1].error ** 2) / 4.0
        return min(0.5, full / max(full + swapped, np.finfo(float).tiny))

    @property
    def error(self) -> float:
        """Of the value, where the features carry it."""
        return error_of(self.z, self.start_values) + self._doubt

    @property
    def standard_error(self) -> float | None:
        """None where the features do not carry the values."""
        return None if self.full.standard_error is None else self.error

    @property
    def rough_error(self) -> float | None:
        """The same though the features do not carry the values, if that is all that is wrong; else None."""
        full = self.full
        wrong = not full.bearable or full.carried or not full.covered
        return None if wrong or not full.bent else self.error

    def cost(self, name: str) -> Honest:
        """The same of a cost in place of the reward."""
        first, second = self.swapped
        return Honest(self.rule, self.full.cost(name), (first.cost(name), second.cost(name)), self.first)

    @property
    def effective_size(self) -> float:
        """The share of the rows that speak of this rule."""
        return self.full.effective_size

    def error_of_difference(self, other: Evaluation) -> float:
        """Of self.value - other.value, on the same rows and start states."""
        return error_of(self.z - other.z, self.start_values - other.start_values) + self._doubt

    @cached_property
    def z(self) -> Array:
        """(clusters,) what each adds to the value."""
        clusters, z = self.full.rows.clusters, (1.0 - self.share) * self.full.z
        for half, there in zip(self.swapped, (~self.first, self.first), strict=True):
            z = z + np.bincount(clusters[there], half.each, minlength=z.size) * self.share / (2.0 * there.sum())
        return z

    @property
    def start_values(self) -> Array:
        """(N_0,) of the start states."""
        one, other = self.swapped
        return (1.0 - self.share) * self.full.start_values + self.share * (one.start_values + other.start_values) / 2.0

    @property
    def _doubt(self) -> float:
        return self.share * abs(self.full.value - self.swapped_value) / 2.0


class Apart(NamedTuple):
    """A rule, and what the same learner makes of either half of the rows."""

    rule: Rule
    first: Rule
    second: Rule


def learned_apart(rows: NumberRows, learner: Learner, discount: float, seed: int = 0) -> dict[str, Apart]:
    """The rules of a learner, and those of the halves, which are learned once for all of them."""
    checked_discount(discount)  # before anything is learned with it
    whole = learner(rows, discount, seed)
    first, second = (learner(rows.half(one, seed), discount, seed) for one in (True, False))
    return {name: Apart(rule, first[name], second[name]) for name, rule in whole.items()}


def honest(learned: Apart, by: Judges) -> Honest:
    """A learned rule with its value."""
    whole, later, earlier = by
    full, *swapped = (
        one.weighed(rule).earning(one.rows.r) for one, rule in zip((whole, later, earlier), learned, strict=True)
    )
    return Honest(learned.rule, full, (swapped[0], swapped[1]), whole.rows.in_first_half(whole.seed))


Judges = tuple["Evaluator", "Evaluator", "Evaluator"]  # by all rows, by the second half, by the first


def judges(rows: NumberRows, discount: float, start: States, seed: int = 0) -> Judges:
    """Who values the rules of all learners: what was learned on a half is valued by the other."""
    first, second = rows.halves(seed)
    whole, later, earlier = (Evaluator.of(x, discount, start, seed).without_news() for x in (rows, second, first))
    return whole, later, earlier


def most_misfit(rows: int) -> float:
    """The misfit that so many rows bear: what it adds to a value is about sqrt(misfit rows) errors, at the worst."""
    return MOST_MISFIT * min(1.0, MANY_ROWS / rows)


def held_out_r2(rows: Halved, y: Array) -> float:
    """How much of y a forest foretells in groups that it has not seen."""
    from dualq.offline.approximate.trees import foretold  # compiled kernels, where an error is asked for

    return foretold(rows, y)


def basis_of(rows: NumberRows, seed: int = 0) -> Features:
    """As many features as these rows can bear."""
    most = min(MOST_FEATURES, len(rows) / ROWS_PER_FEATURE)
    return Features.of(rows, int(most / (len(rows.actions) + 1)), seed)


@dataclass(frozen=True, eq=False)
class Evaluator:
    """What does not depend on the rule: rows, start states, features, the factor of S."""

    rows: NumberRows
    discount: float
    start: States
    phi: Phi
    here: Seen  # features of the rows' states
    then: Seen  # of the next ones
    first: Seen  # of the start states
    outer: Array  # (A, D, D) mean of 1{a_i = a} phi phi'
    root: Array  # U, upper triangular: S = U'U
    seed: int
    news: Exogenous | None = None  # what may be left out, where it is known

    @classmethod
    def of(cls, rows: NumberRows, discount: float, start: States, seed: int = 0, phi: Phi | None = None) -> Evaluator:
        """With the features of `basis_of`, or these."""
        checked_discount(discount)
        if len(rows) < 2 or len(start) == 0:
            found = f"{count(len(rows), 'row')} and {count(len(start), 'start state')}"
            raise LogError(f"{found}: too few to value a policy with")
        basis, n = basis_of(rows, seed), len(rows)
        rows, phi, made = followed(rows), phi or basis, phi or basis.quickly
        here = Seen(made, rows.state)
        outer = total(squares_by_action(here.at(at), rows.a[at], len(rows.actions)) for at in chunks(n)) / n
        S = squared(outer) + np.diag(ridge(RIDGE_S, *outer.shape[:2]))
        then, first = Seen(made, rows.next_state), Seen(made, start)
        return cls(rows, discount, start, phi, here, then, first, outer, cholesky(S), seed)

    def without_news(self) -> Evaluator:
        """The same, where what is news to every action counts as often as its state comes."""
        return self if len(self.rows) > MOST_WITH_NEWS else replace(self, news=Exogenous.of(self.rows, self._few))

    @property
    def _few(self) -> Features:
        width = min(NEWS_FEATURES, len(self.rows) // (2 * ROWS_PER_FEATURE * (len(self.rows.actions) + 1)))
        return Features.of(self.rows, width, self.seed)

    def _pairs(self) -> Iterator[Array]:
        """The inputs of the state and the indicators of the action, (n,) each."""
        rows = self.rows
        yield from Inputs.of(rows).columns(rows.state)
        yield from ((rows.a == a).astype(float) for a in range(len(rows.actions)))

    @cached_property
    def now(self) -> Halved:
        """The state and the action, as a forest reads them."""
        return self._halved(self._pairs())

    @cached_property
    def before(self) -> Halved:
        """The same with the row before."""
        rows = self.rows
        before = (np.where(rows.first, 0.0, np.roll(x, 1)) for x in chain(self._pairs(), [rows.r]))
        return self._halved(chain(self._pairs(), [rows.first.astype(float)], before))

    def _halved(self, columns: Iterable[Array]) -> Halved:
        from dualq.offline.approximate.trees import halved

        return halved(columns, self.rows.clusters, self.seed)

    def weighed(self, rule: Rule) -> Weighed:
        """The density of where a rule goes, against the rows."""
        rows, (A, D) = self.rows, self.outer.shape[:2]
        next_pi, start_pi = self.next_actions(rule), rule(self.start)
        M = squared(self.outer) - self.discount * with_shared(self._onward(next_pi)) / len(rows)
        psi_0 = with_shared(self.first.onto(start_pi).T[:, :, None])[:, 0]
        B = solve_triangular(self.root, M, trans=1)
        H_factor = cho_factor(B.T @ B + np.diag(ridge(RIDGE_H, A, D)))  # M'S^-1 M: of B'B one half is made
        nu = solve_triangular(self.root, B @ cho_solve(H_factor, psi_0 / len(self.start)))
        return Weighed(self, rule, start_pi, B, H_factor, nu)

    def next_actions(self, rule: Rule) -> Array:
        """(n, A) what a rule does next, 0 where nothing follows; some rows at a time."""
        return np.concatenate([self._next_actions(rule, at) for at in chunks(len(self.rows))])

    def next_values(self, parts: Array, rule: Rule) -> Array:
        """(n,) what the next state is worth where actions are worth phi'parts, 0 where nothing follows."""
        each = ((self.then.at(at) @ parts * self._next_actions(rule, at)).sum(axis=1) for at in chunks(len(self.rows)))
        return np.concatenate(list(each))

    def _next_actions(self, rule: Rule, some: Array) -> Array:
        live = 1.0 - self.rows.ended[some, None]
        return rule(self.rows.next_state.at(some)) * live

    def at_rows(self, *thetas: Array) -> Array:
        """(thetas, n) psi'theta of each; some rows at a time, since all actions of all rows are many."""
        parts = np.stack([per_action(theta, len(self.outer)) for theta in thetas])
        rows = self.rows
        each = ((self.here.at(at) @ parts)[:, np.arange(at.size), rows.a[at]] for at in chunks(len(rows)))
        return np.concatenate(list(each), axis=1)

    def earned(self, r: Array) -> Array:
        """(D, A) the sum of phi r over the rows of each action."""
        actions = np.arange(len(self.outer))
        parts = (np.where(self.rows.a[at, None] == actions, r[at, None], 0.0) for at in chunks(len(r)))
        return total(self.here.at(at).T @ y for at, y in zip(chunks(len(r)), parts, strict=True))

    def _onward(self, next_pi: Array) -> Array:
        """(A, D, (A + 1) D) sum of phi psi_pi(s')': the most frequent of the next actions is what the others leave."""
        rows, rest = self.rows, int(next_pi.sum(axis=0).argmax())
        asked = np.flatnonzero(np.arange(next_pi.shape[1]) != rest)
        parts = (
            onward(self.here.at(at), rows.a[at], self.then.at(at), next_pi[np.ix_(at, asked)], len(self.outer))
            for at in chunks(len(rows))
        )
        found = np.insert(total(parts), rest, 0.0, axis=2)
        found[:, :, rest] = self._led - found.sum(axis=2)
        return np.concatenate([self._led[:, :, None], found], axis=2).reshape(*self._led.shape[:2], -1)

    @cached_property
    def _led(self) -> Array:
        """(A, D, D) sum of phi phi(s')' over the rows of each action that something follows."""
        rows, A = self.rows, len(self.outer)
        parts = (
            by_action(self.here.at(at), self.then.at(at) * rows.live[at, None], rows.a[at], A)
            for at in chunks(len(rows))
        )
        return total(parts)


@dataclass(frozen=True, eq=False)
class Weighed:
    """A rule whose density is known: whatever is earned on the rows is valued at little cost."""

    by: Evaluator
    rule: Rule  # asked again of the next states where something is valued: held, its answers would be the largest array
    start_pi: Array
    B: Array  # U^-T M
    H_factor: tuple[Array, bool]
    nu: Array

    def earning(self, rewards: Array) -> Evaluation:
        """The value of the rule where the rows earn these; times 1 - discount, an average per step."""
        by, rows = self.by, self.by.rows
        centre = 0.0 if rows.ended.any() else float(rewards.mean())  # a constant is worth centre / (1 - alpha) anywhere
        r = rewards - centre
        b = by.earned(r) / len(rows)
        b_U = solve_triangular(by.root, with_shared(b.T[:, :, None])[:, 0], trans=1)
        theta = cho_solve(self.H_factor, self.B.T @ b_U)
        parts = per_action(theta, len(by.outer))
        next_v = by.next_values(parts, self.rule)
        offset = centre / (1.0 - by.discount)
        start_v = (by.first.times(parts) * self.start_pi).sum(axis=1) + offset
        mu, q = by.at_rows(self.nu, theta)
        delta = r + by.discount * next_v - q
        each = mu * delta - (0.0 if by.news is None else by.news.uncalled(mu, delta))
        z = np.bincount(rows.clusters, each) / len(rows)
        value = float(start_v.mean() + z.sum())
        size = effective_size(mu)
        return Evaluation(
            value, error_of(z, start_v), size, z, start_v, mu, delta, each, theta, offset, rows, by.seed, self
        )


def effective_size(mu: Array) -> float:
    """The share of the rows that as many rows of equal weight would be; weights below 0 tell of places never seen."""
    return float(max(mu.sum(), 0.0) ** 2 / max(mu.size * (mu**2).sum(), np.finfo(float).tiny))


def error_of(z: Array, start_values: Array) -> float:
    """From the clusters, and from start states that were drawn."""
    clusters = ((z - z.mean()) ** 2).sum() * z.size / max(z.size - 1, 1)
    drawn = start_values.var(ddof=1) / start_values.size if start_values.size > 1 else 0.0
    return float(np.sqrt(clusters + drawn))
