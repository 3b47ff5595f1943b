"""The trade-off between value and one cost: the best policy for each limit on the cost, from the least that can be
reached to where the limit stands in nobody's way.

Points    limits at equal distances; each is a program on the careful model (programs.py). Other limits of the fit are
          kept as they were given, on their estimates. Costs are moved (estimates.py): exact at the fit's policy.
Columns   limit               the bound on the cost
          value, error        what the policy is expected to earn from the start, and the standard error
          low, high           of that value, proven
          cost, cost_error    what it is estimated to cost;  cost_low, cost_high  proven
          careful             the program's optimum, less the penalties: concave in the limit, and monotone
          price               what one unit of the limit is worth there, in reward per step
Chosen    the fit's own policy, estimated as the points are: cost and value, with their errors. It need not lie on the
          curve: with a margin it is inside.
Band      half of delta for the value, half for the cost. The bounds of all points hold together, as they do for all
          policies. They rest on the blocks of the log that the fit has; where these do not count the cost, on all
          rows as one block, which is as valid, and wider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dualq.base import LogError
from dualq.logs import Counts
from dualq.model import TablePolicy
from dualq.offline.limited.asked import Asked
from dualq.offline.limited.estimates import Estimates
from dualq.offline.limited.parsing import asked_for
from dualq.offline.limited.programs import DUST, Family, moved_family, pair_frequencies
from dualq.proof import AverageBounds, Ledger
from dualq.solvers import LimitedSolution

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray

POINTS, FEW_POINTS = 20, 8  # of a curve, and where each of them takes a while:
MANY_PAIRS = 1_000  # of states and actions


@dataclass(frozen=True, eq=False)
class Frontier:
    """Value against the limit on a cost, point by point; the top of this file says what the columns are."""

    name: str
    sense: str
    confidence: float
    blocks: int  # of the log, that the proven columns rest on
    columns: dict[str, Array] = field(repr=False)
    chosen: dict[str, float]  # value, error, cost, cost_error of the fit's own policy
    ledger: Ledger = field(repr=False)  # what 1 - confidence was spent on

    def table(self) -> pa.Table:
        """The columns as an Arrow table."""
        import pyarrow as pa

        return pa.table(self.columns)

    def rows(self) -> list[dict[str, float]]:
        """The points, a dictionary each."""
        return [
            dict(zip(self.columns, map(float, row), strict=True)) for row in zip(*self.columns.values(), strict=True)
        ]

    def chart(self, band: bool = True, marked: float | None = None, width: int | None = None) -> str:
        """The curve as SVG, and the fit's policy; `band` with what is proven, `marked` with a line at a limit."""
        from dualq.app import frontier_chart

        return frontier_chart(self, band, marked, width)


def frontier_of(
    estimates: Estimates,
    asked: Sequence[Asked],
    blocks: Sequence[Counts],
    policy: TablePolicy,
    confidence: float,
    name: str,
    points: int | None = None,
) -> Frontier:
    """The trade-off for one cost; policy: the fit's, over the model's states."""
    if points is None:
        points = POINTS if estimates.counts.visits.size <= MANY_PAIRS else FEW_POINTS
    if not (isinstance(points, int) and points >= 2):
        raise LogError(f"points is {points!r}; a curve needs at least 2")
    mine = next((one for one in asked if one.name == name), None)
    if mine is None:
        (mine,) = asked_for({name: 0.0}, estimates)
        asked = (*asked, mine)
    if not mine.bounded:
        raise LogError(f"the limit {name!r} is no average of a cost; a trade-off needs one")
    counted = mine.column is None or all(mine.column in block.cost_sums for block in blocks)
    used = list(blocks) if counted else [estimates.counts]
    ledger = Ledger(1.0 - confidence)
    bounds = _bounds(mine, used, estimates, ledger)
    family = moved_family(estimates, asked, policy, pair_frequencies(estimates), (name,))
    found = [_point(u, solution, mine, family, estimates, bounds) for u, solution in _solved(family, estimates, points)]
    columns = {key: np.array([point[key] for point in found]) for key in found[0]}
    value, cost = estimates.value(policy), estimates.of(mine, policy)
    own = {"value": value.value, "error": value.error_or_nan, "cost": cost.value, "cost_error": cost.error_or_nan}
    return Frontier(name, mine.limit.sense, confidence, len(used), columns, own, ledger)


class Bounds(NamedTuple):
    """What is proven of any policy, and so of every point: both together, with the trade-off's confidence."""

    values: AverageBounds
    costs: AverageBounds


def _bounds(mine: Asked, blocks: Sequence[Counts], estimates: Estimates, ledger: Ledger) -> Bounds:
    alpha, start = estimates.careful.mdp.discount, estimates.start
    of_values, of_costs = ledger.alike("values", "costs")
    ledger.cover("every point of the curve, and every other policy")
    return Bounds(AverageBounds(blocks, alpha, start, of_values), mine.bounds(blocks, alpha, start, of_costs))


def _solved(family: Family, estimates: Estimates, points: int) -> list[tuple[float, LimitedSolution]]:
    """(shift, program solved there) from the tightest limit to one that stands in nobody's way."""
    low, first = family.tightest
    high = max(family.loosest(estimates.careful.policy), low) + DUST  # at the very edge the price is anything
    shifts = [float(u) for u in np.linspace(low, high, points)]
    solved = [(shifts[0], first), *((u, family.at(u)) for u in shifts[1:])]
    # a program at the edge that the solver could not keep is left out: its neighbours say enough
    return [(u, solution) for u, solution in solved if solution is not None]


def _point(
    u: float, solution: LimitedSolution, mine: Asked, family: Family, estimates: Estimates, bounds: Bounds
) -> dict[str, float]:
    """The columns of one point."""
    chosen, alpha = solution.dual_policy, estimates.careful.mdp.discount
    value, cost = estimates.value(chosen), estimates.of(mine, chosen)
    on_log = estimates.counts.support.to_log(chosen.matrix)
    value_low, value_high = bounds.values.of(on_log)
    cost_low, cost_high = (mine.scale * end for end in bounds.costs.of(on_log))
    return {
        "limit": family.bound(family.averages[mine.name], u),
        "value": value.value,
        "error": value.error_or_nan,
        "low": value_low / (1.0 - alpha),
        "high": value_high / (1.0 - alpha),
        "cost": cost.value,
        "cost_error": cost.error_or_nan,
        "cost_low": cost_low,
        "cost_high": cost_high,
        "careful": solution.objective,
        "price": solution.prices[mine.name],
    }
