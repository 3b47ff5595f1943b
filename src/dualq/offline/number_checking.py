"""check where states are numbers: the questions of checking.py, asked of a policy that is a function.

Earning    With q(s, a) what the fit says of each action, pi the policy and v(s) = sum_a pi(a|s) q(s, a), each new row
           whose action the policy may take gives
               X = r + alpha v(s') - q(s, a),        E(X | s, a) = 0 where q is right
           and  expected + mean(X) / (1 - alpha)  is what it earns. Where q is off by b(s), X has the mean of
           b(s) - alpha b(s'): over rows that the policy itself brings about that is (1 - alpha) E b, so the estimate
           is right whatever q is, as far as the policy is in the same states as from the start. The mean of X is
           bounded at every number of rows at once (proof/anytime.py): X is at most  high + alpha max v - q(s, a),
           known before r and s' are; rows come in KINDS of it. It is compared with what was expected, and with what was
           done before, less z errors each, as for tables; of a floor nothing is known.
Change     Rows that the fit keeps, beside the new ones (logs/checks/between_numbers.py), at FIRST, 2 FIRST, ... rows.
Following  the share of decisions to which the policy gives a chance of SELDOM or more;  unknown: rows with a label or
           an action that the old ones never had, or with a number beyond theirs by more than MARGIN of their range

What new rows could teach is not asked: they would have to be learned from with the old ones, which are not there.
Rewards beyond the range of the rows that the fit keeps, by more than MARGIN of it, are not allowed for; nor are rows of
one day or episode that share their luck.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dualq.base import Labels, LogError, States
from dualq.logs import Finding, Log, NumberRows, between_numbers
from dualq.offline.approximate.fit import NumberFit
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.shapes import Elsewhere
from dualq.proof import RunningMean

Array = np.ndarray

KINDS = 6
MARGIN = 0.25  # of a range, by which it may be exceeded
SELDOM = 0.01  # chances below it are none
FEWEST = 30  # rows from which a variance can be told


@dataclass(frozen=True, eq=False)
class NewRows:
    """The rows of a new log that speak of a policy, in the order of time as far as it is known."""

    rows: NumberRows  # with labels, actions and numbers that the policy knows
    total: int  # rows of the log

    @classmethod
    def of(cls, fit: NumberFit, log: Log) -> NewRows:
        """From a log that was read as that of the fit was."""
        trace, found = log.trace(), log.number_rows()  # a log of numbers is read once for both
        if trace is not None and not trace.restarts and int(trace.used.sum()) == len(found):
            found = found.at(np.argsort(trace.t[trace.used], kind="stable"))
        taken = np.array([label in fit.actions for label in found.actions], bool)
        known = found.at(taken[found.a]) if not taken.all() else found
        if not taken.all():
            place = np.cumsum(taken) - 1
            labels = Labels([label for label in found.actions if label in fit.actions], found.actions.names)
            known = replace(known, a=place[known.a], actions=labels)
        rows = known.coded_as(fit.columns, fit.actions)
        return cls(rows.at(inside(fit.sample.state, rows.state)), len(found))

    @property
    def unknown(self) -> float:
        """The share of rows whose state or action the policy does not know."""
        return 1.0 - len(self.rows) / max(self.total, 1)


def inside(old: States, new: States) -> Array:
    """(rows,) whether all labels are known, and all numbers about where those of the old rows are."""
    low, high = old.numbers.min(axis=0), old.numbers.max(axis=0)
    beyond = MARGIN * (high - low)
    within = (new.numbers >= low - beyond) & (new.numbers <= high + beyond)
    return within.all(axis=1) & (new.categories >= 0).all(axis=1)


@dataclass(frozen=True, eq=False)
class NumberEarning:
    """What is known of X before any new row comes."""

    fit: NumberFit
    v: tuple[float, float]  # the least and the largest v of the old rows
    edges: Array  # (KINDS,) q from which each kind begins, ascending
    upper: RunningMean  # of X
    lower: RunningMean  # of -X

    @classmethod
    def of(cls, fit: NumberFit, looks: float, effect: float) -> NumberEarning:
        """Of a fit.

        looks    the chance that either bound ever fails
        effect   a loss, as a share of what is expected, that should be found soon
        """
        old, alpha = fit.sample, fit.discount
        taken, q, v = _values(fit, old.state, old.a)
        ends = float(v.min()), float(v.max())
        width = float(np.ptp(q)) or 1.0
        edges = np.append(q.min() - 2.0 * MARGIN * width, np.quantile(q, np.arange(1, KINDS) / KINDS))
        last = float(q.max()) + 2.0 * MARGIN * width
        spread = MARGIN * float(np.ptp(old.r))
        tops = float(old.r.max()) + spread + alpha * max(ends[1], 0.0) - edges
        bottoms = np.append(edges[1:], last) - (float(old.r.min()) - spread) - alpha * min(ends[0], 0.0)
        X = cls._of_rows(fit, old, q, ends)
        mine = X[taken] if taken.sum() >= FEWEST else X
        known = {
            "variance": float(mine.var()) or 1e-12,
            "effect": 0.5 * effect * (1.0 - alpha) * abs(fit.chosen.expected.value) or 1e-6,
            "delta": looks,
        }
        both = (RunningMean(np.maximum(top, 1e-9), **known) for top in (tops, bottoms))
        return cls(fit, ends, edges, *both)

    @staticmethod
    def _of_rows(fit: NumberFit, rows: NumberRows, q: Array, ends: tuple[float, float]) -> Array:
        """(rows,) X."""
        after = _values(fit, rows.next_state, rows.a)[2]
        return rows.r + fit.discount * rows.live * np.clip(after, *ends) - q

    def told_by(self, rows: NumberRows) -> tuple[Array, int, float, tuple[float, float]]:
        """Which rows follow the policy; rows from which earnings are told, their mean of X, and its bounds."""
        taken, q, _ = _values(self.fit, rows.state, rows.a)
        use = taken & (q >= self.edges[0])
        X = self._of_rows(self.fit, rows, q, self.v)[use]
        kind = np.searchsorted(self.edges, q[use], side="right") - 1
        n, squares = (np.bincount(kind, w, KINDS).reshape(-1, 1) for w in (None, X**2))
        total = np.array([X.sum()])
        high = float(self.upper.at_most(n, total, squares)[0])
        low = -float(self.lower.at_most(n, -total, squares)[0])
        return taken, X.size, float(X.mean()) if X.size else 0.0, (low, high)


def _values(fit: NumberFit, state: States, a: Array) -> tuple[Array, Array, Array]:
    """(rows,) whether the policy may take the action, q of it, and v of the state."""
    chances, q = fit.chosen.rule(state), fit.chosen.values(state)
    at = np.arange(a.size), a
    return chances[at] >= SELDOM, q[at], (chances * q).sum(axis=1)


def elsewhere(fit: NumberFit, rows: NumberRows, taken: Array, most: int) -> tuple[Elsewhere, ...]:
    """Which action was taken instead of which, where the policy was not followed; the most frequent first."""
    off = rows.at(~taken)
    if not len(off):
        return ()
    wanted, A = fit.chosen.rule(off.state).argmax(axis=1), len(fit.actions)
    many, every = np.bincount(wanted * A + off.a, minlength=A * A), fit.chosen.rule(rows.state).argmax(axis=1)
    size = np.bincount(every, minlength=A)
    return tuple(
        Elsewhere(
            state={},
            rows=int(size[pair // A]),
            not_followed=int(many[pair]),
            policy=fit.actions.named(int(pair // A)),
            instead=fit.actions.named(int(pair % A)),
        )
        for pair in np.argsort(-many, kind="stable")[:most]
        if many[pair]
    )


def changes(fit: NumberFit, rows: NumberRows, first: int, level: float) -> dict[str, Finding]:
    """Of each kind the test that found most, at first, 2 first, ... rows; the levels add up to the one given."""
    found: dict[str, Finding] = {}
    k = 0
    while first * 2**k <= len(rows):
        part = rows.at(np.arange(first * 2**k))
        for what, one in between_numbers(fit.sample, part, level / ((k + 1) * (k + 2))).items():
            before = found.get(what)
            if before is None or (one.found, -one.p_value) > (before.found, -before.p_value):
                found[what] = one
        k += 1
    return found


def stated(fit: NumberFit) -> Estimate:
    """What the report says is expected."""
    if not fit.chosen.usable:
        raise LogError(
            f"the run has no expectation to check against: {fit.chosen.doubt or 'its value has no error'}; "
            "evaluate the policy by the new rows, or learn from both logs"
        )
    return fit.chosen.expected
