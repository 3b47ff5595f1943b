"""Limits on a policy that is learned from a log: what must be kept clear of each, so that the true process keeps it.

Problem   the best policy in the careful model (careful/model.py) whose costs are under their limits b in the true
          process, of which only the log is known
Family    programs with all bounds shifted alike by u (programs.py). Two of them: `plain`, with the estimated costs c~,
          and `charged`, with costs that hold each pair's doubt (proof/costs.py), whose tightest member has the lowest
          ceiling that any policy has.
Certified the largest u, by bisection, for which the ceilings of the program's own policy, by the certificate, are under
          b; of the two families the better policy. The search looks at the same log as the ceilings: that is allowed,
          as they hold for all policies at once (docs/limits.md proves it).
Shares    delta = 1 - confidence: half for the value's certificate, half for the limits, each limit alike; all of it
          for the limits where no certificate is asked for. The ledger hands it out (proof/ledger.py).
Not kept  If no member of a family has its ceilings under the limits, the limits are not promised. Then
          * the lowest ceiling is recommended, if it is at least half of the way from the worst that the range of the
            cost allows to the limit; else it is next to no promise at all, and costs dear, and
          * the largest u is taken for which estimate + q standard errors are under b in the plain family (q the
            quantile of the normal distribution, each limit its share): estimated to be kept, not proven; and
          * where there is none such, the lowest estimate that can be had.
Expected  the last two of these at once, with two standard errors: for cells of which nothing is promised.
None      without the margin u = 0 in the plain family: on the log's frequencies the cost is at the limit where that
          binds, and half of the time, or more, the truth is beyond it.

Limits on the chance of actions in each state hold by themselves, whatever the process. A distance from another policy
is one between occupancies on the careful model; it is kept there, and nothing is promised of the true process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from dualq.base import LogError
from dualq.logs import Counts
from dualq.model import ROUNDING, ActionCap, Limit, TablePolicy
from dualq.offline.limited.asked import Asked
from dualq.offline.limited.estimates import Estimates
from dualq.offline.limited.programs import Family, moved_family, pair_frequencies
from dualq.proof import AverageBounds, Ledger, Wanted, on_grid, prior_of
from dualq.solvers import LimitedSolution, solve

Array = np.ndarray

HALF = 0.5  # of the way from the worst possible to the limit: a ceiling that comes less far says too little to act on
SHARE_OF_VALUE = 0.5  # of delta, for the certificate of the value
TWO_ERRORS = 1.96  # standard errors: the margin of what is expected
MARGINS = ("certified", "none")  # that a user may ask for


@dataclass(frozen=True)
class LimitOutcome:
    """What became of a limit, under the recommended policy."""

    name: str
    text: str  # "stockout <= 0.02"
    sense: str
    bound: float
    estimate: float
    error: float  # standard error of the estimate
    low: float | None  # floor and ceiling, proven; None where none can be proven
    high: float | None
    price: float  # what one unit of the bound is worth, in reward per step
    kept: bool  # promised: the ceiling (for >= the floor) is within the bound, or it holds by itself
    basis: str  # "proven"; "exact": by itself; "model", "frequencies": on the log's model; "estimated"; "missed"
    solved_for: float  # the bound that the program was given
    greedy: float  # what argmax Q reaches, as estimated
    free: float  # what the best policy without limits reaches, as estimated
    logged: float  # what the logged behaviour reaches, as estimated
    rows_needed: int | None = None  # about how many rows like these would let it be promised; None where unknown


class Limited(NamedTuple):
    """The policy under limits, and what is known of them."""

    solution: LimitedSolution
    policy: TablePolicy  # the solution's; where limits are promised, with chances on a grid
    limits: tuple[LimitOutcome, ...]
    reason: str
    wanted: tuple[Wanted, ...]  # pairs where more rows would lower the ceilings; none where all is promised


class Search:
    """All that is known of the limits of one log: estimates, proven bounds, and the families."""

    def __init__(
        self,
        estimates: Estimates,
        asked: Sequence[Asked],
        blocks: Sequence[Counts],
        ledger: Ledger,
        measured: str = "given",
    ):
        self.measured = measured
        self.estimates, self.asked, self.blocks = estimates, tuple(asked), list(blocks)
        self.mdp, self.nu = estimates.careful.mdp, estimates.nu
        self.bounded = [one for one in asked if one.bounded]
        names = [one.name for one in self.bounded]
        self.accounts = dict(zip(names, ledger.alike(*names), strict=True))
        self.distribution = pair_frequencies(estimates)
        self.support = estimates.counts.support

    @cached_property
    def proven(self) -> dict[str, AverageBounds]:
        """The bounds of every limit that can be bounded."""
        discount, start = self.mdp.discount, self.estimates.start
        prior = prior_of(self.blocks, self.estimates.counts, discount)
        return {
            one.name: one.bounds(self.blocks, discount, start, self.accounts[one.name], prior, self.measured)
            for one in self.bounded
        }

    @cached_property
    def plain(self) -> Family:
        """With the costs as estimated, moved so that a policy near the limits costs what it is estimated to cost."""
        first = self._moved(self.estimates.careful.policy)
        at_limit = first.at(0.0)
        return self._moved((first.tightest[1] if at_limit is None else at_limit).dual_policy)

    def _moved(self, policy: TablePolicy) -> Family:
        return moved_family(self.estimates, self.asked, policy, self.distribution)

    @cached_property
    def charged(self) -> Family:
        """With costs that hold every pair's doubt."""
        limits = {one.name: one.limit for one in self.asked}
        for one in self.bounded:
            limit = limits[one.name]
            cost = one.scale * self.proven[one.name].charged(self.mdp)
            paid = cost[self.mdp.available]
            if np.ptp(paid) <= ROUNDING * np.abs(paid).max():  # nothing can be told of any pair: all are alike
                cost = np.full(cost.shape, paid[0])
            limits[one.name] = Limit(limit.name, cost, limit.sense, limit.bound)
        return Family(self.mdp, self.nu, limits, self.distribution)

    # ---- what a policy reaches

    def interval(self, one: Asked, policy: TablePolicy) -> tuple[float, float]:
        """Floor and ceiling of a limit's cost, proven."""
        low, high = self.proven[one.name].of(self.support.to_log(policy.matrix))
        return one.scale * low, one.scale * high

    def promised(self, policy: TablePolicy) -> bool:
        """Whether the proven end of every cost is within its limit, of the policy as it is or as `priced`."""
        return self.keeping(policy) is not None

    def keeping(self, policy: TablePolicy) -> TablePolicy | None:
        """The policy, or else the nearest one with a price, if every limit is proven to be kept."""
        for one in (policy, priced(policy)):
            if one is not policy and not self._within_caps(one):
                continue  # what holds by itself, or in the model, holds of the policy as it was solved for
            ends = ((limit.limit, self.end(limit, one)) for limit in self.bounded)
            if all(limit.sign * end <= limit.sign * limit.bound + 1e-12 for limit, end in ends):
                return one
        return None

    def nearest(self, policy: TablePolicy) -> TablePolicy:
        """The policy as it is, or with its chances on the grid: that whose ends come nearest to the limits."""
        other = priced(policy)
        if not self._within_caps(other):
            return policy

        def over(one: TablePolicy) -> float:
            return max(a.limit.sign * (self.end(a, one) - a.limit.bound) / a.span for a in self.bounded)

        return min((policy, other), key=over)

    def _within_caps(self, policy: TablePolicy) -> bool:
        """Whether a policy keeps all limits that no bound is needed for; False where there are others than caps."""
        alone = [one.limit for one in self.asked if not one.bounded]
        return all(
            isinstance(cap, ActionCap) and (policy.matrix * cap.pairs).sum(axis=1).max() <= cap.bound + 1e-9
            for cap in alone
        )

    def end(self, one: Asked, policy: TablePolicy) -> float:
        """The proven end that the limit reckons with: the ceiling for <=, the floor for >=."""
        return one.scale * self.proven[one.name].end(self.support.to_log(policy.matrix))

    def estimated(self, policy: TablePolicy) -> bool:
        """Whether every estimate is within its limit by the quantile of standard errors that its share of delta has."""
        quantiles = {one.name: float(ndtri(1.0 - self.accounts[one.name].delta)) for one in self.bounded}
        return all(self._over(one, policy, quantiles[one.name]) <= 1e-9 * one.span for one in self.bounded)

    def expects(self, policy: TablePolicy) -> bool:
        """Whether every estimate is within its limit by two standard errors."""
        return all(self._over(one, policy, TWO_ERRORS) <= 0.0 for one in self.bounded)

    def _over(self, one: Asked, policy: TablePolicy, errors: float) -> float:
        """How far an estimate with so many errors is beyond its limit."""
        found = self.estimates.of(one, policy)
        return one.limit.sign * (found.value - one.limit.bound) + errors * found.error_or_nan

    def claimed(self, policy: TablePolicy, asked: Sequence[Asked] = ()) -> bool:
        """Whether costs, all if none are named, are within their limits on the log's own frequencies."""
        return all(
            one.limit.sign * (self.estimates.claimed(one, policy).value - one.limit.bound) <= 1e-9 * one.span
            for one in asked or self.bounded
        )

    def says_something(self, policy: TablePolicy) -> bool:
        """Whether every proven end comes at least half of the way from the worst possible to the limit."""
        for one in self.bounded:
            limit, worst = one.limit, one.scale * self.proven[one.name].worst
            if limit.sign * (worst - self.end(one, policy)) < HALF * limit.sign * (worst - limit.bound):
                return False
        return True

    # ---- the policy

    def certified(self) -> tuple[LimitedSolution, str]:
        """The best policy that is promised to keep the limits; else the next best thing, and its name."""
        if not self.bounded:
            return self.unmargined()
        free = self.estimates.careful.policy
        families = [family for family in (self.charged, self.plain) if family.exists]
        found = [family.largest(free, self.promised) for family in families]
        promised = [solution for solution in found if solution is not None]
        if promised:
            return max(promised, key=lambda solution: solution.objective), "proven"
        if self.charged.exists and self.says_something(self.charged.tightest[1].dual_policy):
            return self.charged.tightest[1], "lowest ceiling"
        solution = self.plain.largest(free, self.estimated)
        if solution is not None:
            return solution, "estimated"
        return self.plain.tightest[1], "lowest estimate"

    def expected(self) -> tuple[LimitedSolution, str]:
        """The best policy that is expected to keep the limits; no proof is looked for."""
        if not self.bounded:
            return self.unmargined()
        solution = self.plain.largest(self.estimates.careful.policy, self.expects)
        return (self.plain.tightest[1], "lowest estimate") if solution is None else (solution, "estimated")

    def unmargined(self) -> tuple[LimitedSolution, str]:
        """The limits as they are, with the costs as the log has them."""
        if not self.bounded:
            return self._alone(), "none"
        solution = self.plain.largest(self.estimates.careful.policy, self.claimed)
        return (self.plain.tightest[1], "lowest estimate") if solution is None else (solution, "none")

    def _alone(self) -> LimitedSolution:
        """Limits that no estimate enters, as they are."""
        limits = {one.name: one.limit for one in self.asked}
        solution = solve(self.mdp, self.nu, limits=limits, distribution=self.distribution)
        assert isinstance(solution, LimitedSolution)
        return solution

    def outcomes(self, solution: LimitedSolution, policy: TablePolicy, more: bool) -> tuple[LimitOutcome, ...]:
        """What became of every limit; `more`: whether to ask how many rows would let it be promised."""
        return tuple(self._outcome(one, solution, policy, more) for one in self.asked)

    def _outcome(self, one: Asked, solution: LimitedSolution, policy: TablePolicy, more: bool) -> LimitOutcome:
        limit, estimates = one.limit, self.estimates
        found = estimates.of(one, policy)
        low = high = needed = None
        reached = limit.sign * (found.value - limit.bound) <= 1e-6 * max(1.0, abs(limit.bound))
        if one.bounded:
            low, high = self.interval(one, policy)
            kept = limit.sign * self.end(one, policy) <= limit.sign * limit.bound + 1e-12
            basis = "proven" if kept else "estimated" if reached else "missed"
            if not kept and not more and self.claimed(policy, [one]):
                basis = "frequencies"
            if not kept and more:
                needed = self.proven[one.name].rows_needed(limit.bound / one.scale)
        elif isinstance(limit, ActionCap):
            chance = (policy.matrix * limit.pairs).sum(axis=1)  # in every state, visited by the model or not
            kept = bool(chance.max() <= limit.bound + 1e-6)
            basis = "exact" if kept else "model" if reached else "missed"
        else:
            kept, basis = False, "model" if reached else "missed"
        return LimitOutcome(
            name=one.name,
            text=str(limit),
            sense=limit.sense,
            bound=limit.bound,
            estimate=found.value,
            error=found.error_or_nan,
            low=low,
            high=high,
            price=solution.prices[one.name],
            kept=kept,
            basis=basis,
            solved_for=solution.limits[one.name].bound,
            greedy=estimates.of(one, solution.primal_policy).value,
            free=estimates.of(one, estimates.careful.policy).value,
            logged=estimates.of(one, estimates.careful.behaviour).value,
            rows_needed=needed,
        )

    def wanted(self, policy: TablePolicy, limits: Sequence[LimitOutcome], most: int = 10) -> tuple[Wanted, ...]:
        """The pairs where more rows would lower the ceiling of the limit that is furthest from its promise."""
        missing = [one for one, limit in zip(self.asked, limits, strict=True) if one.bounded and not limit.kept]
        if not missing:
            return ()
        worst = max(missing, key=lambda one: one.limit.sign * (self.end(one, policy) - one.limit.bound) / one.span)
        occupancy = self.support.to_log(policy.occupancy(self.mdp, self.nu))
        found = self.proven[worst.name].wanted(self.support.to_log(policy.matrix), occupancy, most)
        return tuple(replace(pair, raises=worst.scale * pair.raises) for pair in found)


WAYS = {"certified": Search.certified, "expected": Search.expected, "none": Search.unmargined}


def keep(
    estimates: Estimates,
    asked: Sequence[Asked],
    blocks: Sequence[Counts],
    ledger: Ledger,
    margin: str,
    measured: str = "given",
) -> Limited:
    """The policy under limits, promised on what the ledger has; `measured`: where the start comes from.

    InfeasibleError where not even the plug-in model has one that keeps them.
    """
    if margin not in WAYS:
        raise LogError(f"margin is {margin!r}; it must be one of {', '.join(MARGINS)}")
    _check_plug_in(estimates, asked)
    search = Search(estimates, asked, blocks, ledger, measured)
    solution, how = WAYS[margin](search)
    kept = search.keeping(solution.dual_policy) if how == "proven" else None
    policy = solution.dual_policy if kept is None else kept
    policy = search.nearest(policy) if how == "lowest ceiling" else policy
    limits = search.outcomes(solution, policy, more=margin != "none")
    reason = _reason(solution, policy, limits, how, estimates)
    return Limited(solution, policy, limits, reason, search.wanted(policy, limits))


def priced(policy: TablePolicy) -> TablePolicy:
    """The policy with its chances on the grid of those that have a price in a proof."""
    return TablePolicy(on_grid(policy.matrix), policy.states, policy.actions)


def program_gap(solution: LimitedSolution) -> float | None:
    """What the program's own dual leaves open, in the units of the value; None with limits that are no averages."""
    limits = solution.limits.values()
    if not all(isinstance(limit, Limit) for limit in limits):
        return None
    paid = sum(solution.prices[limit.name] * limit.sign * limit.bound for limit in limits) / (
        1.0 - solution.mdp.discount
    )
    eta = solution.weights
    return abs(float(eta @ solution.V) + float(eta.sum()) * paid - solution.objective)


def _check_plug_in(estimates: Estimates, asked: Sequence[Asked]) -> None:
    """Raise what explains limits that no policy keeps, on the frequencies of the log as they are."""
    solve(estimates.plug_in, estimates.nu, limits=[one.limit for one in asked])


HOW = {
    "proven": "It is the best policy found whose bounds on the limited costs stay within the limits.",
    "lowest ceiling": "No policy was found whose bounds stay within the limits, so they are not guaranteed: this "
    "policy has the lowest bounds.",
    "estimated": "This log can prove next to nothing about these costs, so the limits are not guaranteed: the policy "
    "is the best one that is expected to keep them, with a margin of standard errors.",
    "lowest estimate": "No policy was found that is expected to keep the limits with a margin of standard errors, so "
    "they are not guaranteed: this policy comes closest.",
    "model": "The limits are kept in the model of the log; they are not guaranteed.",
    "none": "The limits are kept in the log's own averages, with no margin, so they are not guaranteed: the truth may "
    "well be beyond them.",
    "none, but proven": "No margin was asked for, but the bounds stay within the limits anyway.",
    "by themselves": "These limits need no estimate.",
}


def _reason(
    solution: LimitedSolution, policy: TablePolicy, limits: Sequence[LimitOutcome], how: str, estimates: Estimates
) -> str:
    on_log = estimates.counts.support.to_log
    acted = estimates.counts.visits.any(axis=1)
    mixed = on_log(policy.matrix).max(axis=1) < 1.0 - 1e-9
    mixed &= acted & (on_log(solution.occupancy).sum(axis=1) > 0.0)
    count = int(mixed.sum())
    random = f"chooses at random in {count:,} of {int(acted.sum()):,} states" if count else "never chooses at random"
    if all(limit.basis in ("exact", "model") for limit in limits):
        how = "by themselves" if all(limit.kept for limit in limits) else "model"
    elif how == "none" and all(limit.kept for limit in limits):
        how = "none, but proven"
    texts = " and ".join(limit.text for limit in limits)
    return (
        f"The new policy is chosen for {texts}, and earns the most it can on top. Rarely tried actions are judged "
        f"cautiously. It {random}. {HOW[how]}"
    )
