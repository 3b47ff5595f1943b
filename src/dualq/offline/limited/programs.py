"""Families of programs with limits: all bounds shifted alike, for a search over how far inside them to stay.

For a shift u, in units of how far a limit's costs are apart, the program (solvers/limited/program.py)
    max d'R~   s.t.   z c_i'd <= z b_i + u span_i
u < 0 tightens all limits alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from dualq.base import DualqError
from dualq.model import MDP, AnyLimit, Limit, TablePolicy, frequencies
from dualq.offline.limited.asked import Asked
from dualq.offline.limited.estimates import Estimates
from dualq.solvers import LimitedSolution, least_shift, solve

Array = np.ndarray

STEPS = 12  # of a bisection
PROBES = 8  # shifts that are tried where the tightest limit is not found to be kept
DUST = 1e-7  # of a span: room that a program is given at the tightest bound that it can meet


class Family:
    """The program with all bounds shifted alike; costs may be others than those that are bounded in the end."""

    def __init__(
        self,
        mdp: MDP,
        nu: Array,
        limits: Mapping[str, AnyLimit],
        distribution: Array,
        moving: Sequence[str] | None = None,
    ):
        """moving: the limits that are shifted; all on averages, if not given."""
        self.mdp, self.nu, self.limits, self.distribution = mdp, nu, dict(limits), distribution
        averages = {name: limit for name, limit in limits.items() if isinstance(limit, Limit)}
        self.averages = {name: averages[name] for name in (averages if moving is None else moving)}

    def bound(self, limit: Limit, u: float) -> float:
        """The bound, shifted by u spans."""
        return limit.bound + limit.sign * u * limit.span(self.mdp)

    def at(self, u: float) -> LimitedSolution | None:
        """The best policy with the bounds shifted by u spans; None where no policy can keep them."""
        moved = {name: limit.loosened(self.bound(limit, u)) for name, limit in self.averages.items()}
        shifted = self.limits | moved
        try:
            solution = solve(self.mdp, self.nu, limits=shifted, distribution=self.distribution)
        except DualqError:  # it has no policy, or lies on the edge of having none: a search goes elsewhere
            return None
        assert isinstance(solution, LimitedSolution)
        return solution

    @cached_property
    def tightest(self) -> tuple[float, LimitedSolution]:
        """The smallest u that can be kept, and its policy."""
        if len(self.limits) == 1:
            (limit,) = self.averages.values()
            low = self._excess(limit, self._least(limit))
        else:
            low = least_shift(self.mdp, self.limits, self.averages, self.nu)
        for dust in (DUST, 10.0 * DUST, 1000.0 * DUST):
            solution = self.at(low + dust)
            if solution is not None:
                return low + dust, solution
        raise DualqError(
            "the program at the tightest limits that can be kept was not solved; loosen the limits a little"
        )

    @cached_property
    def exists(self) -> bool:
        """Whether the tightest program has an answer: with costs that are equal but for rounding it may have none."""
        try:
            return self.tightest is not None
        except DualqError:
            return False

    def _least(self, limit: Limit) -> float:
        """The best that a limit can reach alone."""
        mdp = self.mdp
        alone = MDP(mdp.transitions, -limit.sign * limit.on(mdp), mdp.discount, available=mdp.available)
        return -limit.sign * (1.0 - mdp.discount) * float(self.nu @ solve(alone).V)

    def _excess(self, limit: Limit, value: float) -> float:
        """How far a value is beyond the bound, in spans."""
        return limit.sign * (value - limit.bound) / limit.span(self.mdp)

    def loosest(self, free: TablePolicy) -> float:
        """A shift at which no limit stands in the way of a policy."""
        d = (1.0 - self.mdp.discount) * free.occupancy(self.mdp, self.nu)
        return max(self._excess(limit, limit.value(self.mdp, d, self.nu)) for limit in self.averages.values())

    def largest(self, free: TablePolicy, kept: Callable[[TablePolicy], bool]) -> LimitedSolution | None:
        """The program of the largest shift whose policy is found to keep the limits; None where the tightest is not."""
        low, best = self.tightest
        high = max(self.loosest(free) + DUST, 0.0, low)  # with dust, as the price is anything at the very edge
        if not kept(best.dual_policy):  # it may be far from all that can be promised cheaply
            between = ((u, self.at(u)) for u in np.linspace(low, high, PROBES)[1:-1])
            found = [(float(u), one) for u, one in between if one is not None and kept(one.dual_policy)]
            if not found:
                return None
            low, best = found[-1]
        for u in (high, 0.0):
            solution = self.at(u)
            if solution is not None and kept(solution.dual_policy):
                low, best = u, solution
                break
        if low == high:
            return best
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            solution = self.at(middle)
            if solution is not None and kept(solution.dual_policy):
                low, best = middle, solution
            else:
                high = middle
        return best


def moved_family(
    estimates: Estimates,
    asked: Sequence[Asked],
    policy: TablePolicy,
    distribution: Array,
    moving: Sequence[str] | None = None,
) -> Family:
    """The family whose costs are as estimated, exactly so for a policy."""
    limits = {one.name: one.limit for one in asked}
    for name, limit in limits.items():
        if isinstance(limit, Limit):
            limits[name] = estimates.moved(limit, policy)
    return Family(estimates.careful.mdp, estimates.nu, limits, distribution, moving)


def pair_frequencies(estimates: Estimates) -> Array:
    """M (S, A): how often the log has each pair of the model."""
    counts = estimates.counts
    return frequencies(counts.support.to_model(counts.visits), counts.total)
