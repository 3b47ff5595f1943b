"""Limits where states are made of numbers: the dual price of a cost.

Problem   the most that a policy can earn while its cost c, on average per step from the start, is at most the bound
Dual      for a price p >= 0, learn on r - p c: the dearer the cost, the less of it the learned policy has
Search    p = 0; then from the spread of rewards over that of the cost, doubled while the cost is too high; then halved
          in ratio between the last that was too high and the first that was not. Within: estimate + 1.96 errors.
          A price at which the policy goes where the log never was is a wall: what is tried next lies before it.
Gives     the policy of the lowest price that is within. Its costs are estimates: nothing is promised.
          Each policy of a learner is searched by itself: a price may be a wall for the best action and none for the
          dual policy, which stays near to what was done.

Several limits have a price each: all that are exceeded are raised together, and the halving is along the line between.
A limit from below is one on -c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dualq.base import InfeasibleError, LogError, few
from dualq.logs import NumberRows
from dualq.model import Words, parse
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.limited.parsing import LimitsGiven
from dualq.offline.limited.search import TWO_ERRORS

Array = np.ndarray
Learned = TypeVar("Learned")

MARGIN = TWO_ERRORS
DOUBLINGS, HALVINGS = 8, 3
FEW_EVENTS = 30.0  # of a cost, among the rows that count for a policy: fewer are rare


@dataclass(frozen=True)
class PricedLimit:
    """A limit on a cost, and what became of it."""

    name: str
    sense: str  # "<=" or ">="
    bound: float
    estimate: Estimate  # of the recommended policy, on average per step
    logged: Estimate
    price: float  # what one unit of the cost is taken to be worth
    proven: bool = False  # of a table of cells, and if these lose nothing

    @property
    def text(self) -> str:
        """As a user writes it."""
        return f"{self.name} {self.sense} {self.bound:g}"

    @property
    def kept(self) -> bool:
        """Whether it is guaranteed, as of tables: nothing of a function of numbers is but of cells, by their proof."""
        return self.proven

    @property
    def expected(self) -> bool:
        """Whether it is expected to be kept, with the margin; nothing is promised."""
        return excess(self.sense, self.bound, self.estimate) <= 0.0

    def basis(self, withheld: bool) -> str:
        """What it rests on: "proven", where what is proven is not withheld; "estimated"; or "missed"."""
        if self.proven and not withheld:
            return "proven"
        return "estimated" if excess(self.sense, self.bound, Estimate(self.estimate.value, 0.0)) <= 0.0 else "missed"

    def summary(self, withheld: bool) -> dict[str, object]:
        """As plain values."""
        return {
            "name": self.name,
            "text": self.text,
            "bound": self.bound,
            "estimate": self.estimate.value,
            "standard_error": self.estimate.standard_error,
            "logged": self.logged.value,
            "price": self.price,
            "kept": self.basis(withheld) == "proven",
            "basis": self.basis(withheld),
        }


def excess(sense: str, bound: float, cost: Estimate) -> float:
    """How far a cost is beyond its bound, with the margin; infinite where it has no error."""
    if cost.standard_error is None:
        return np.inf
    sign = 1.0 if sense == "<=" else -1.0
    return sign * (cost.value - bound) + MARGIN * cost.standard_error


def no_surer_than_counted(cost: Estimate, paid: Array, rows: float) -> Estimate:
    """A cost per step within what it ever was; where it is rare, no surer than a count in so many rows would be.

    With p its share of the range R: error^2 >= R^2 p (1 - p) / rows, where fewer than FEW_EVENTS are expected, and p is
    at least 1 / rows. Few of the rows that count for a policy show a rare failure, and an error that is estimated from
    what these few left over is too small; at worst none shows it, and there is nothing to estimate it from.
    """
    low, high = float(paid.min()), float(paid.max())
    value = min(max(cost.value, low), high)
    if cost.standard_error is None or low == high:
        return Estimate(value, cost.standard_error)
    p = min(max((value - low) / (high - low), 1.0 / rows), 1.0 - 1.0 / rows)
    rare = min(p, 1.0 - p) * rows < FEW_EVENTS
    counted = (high - low) * np.sqrt(p * (1.0 - p) / rows) if rare else 0.0
    return Estimate(value, max(cost.standard_error, float(counted)))


def limits_on(rows: NumberRows, limits: LimitsGiven) -> list[Words]:
    """Limits as a user gives them: "stockout<=0.02", {"stockout": 0.02}, or several; of costs that the log has."""
    given: Iterable[object] = [limits] if isinstance(limits, str) or not isinstance(limits, Iterable) else limits
    if isinstance(limits, Mapping):
        given = [f"{name}{'' if isinstance(bound, str) else '<='}{bound}" for name, bound in limits.items()]
    found: list[Words] = []
    for words in given:
        if not isinstance(words, str):
            right = "where states are made of numbers, a limit is on a cost of the log, such as stockout<=0.02"
            raise LogError(f"the limit {words!r} needs a table of states; {right}", argument="limits", value=words)
        found.append(parse(words))
        if (name := found[-1].name) not in rows.costs:
            known = few(list(rows.costs)) if rows.costs else "none: name them with --cost (costs=[...])"
            wrong = f"the limit is on {name!r}, which is no cost of this log; its costs are {known}"
            raise LogError(wrong, argument="limits", value=name)
    return found


def priced(rows: NumberRows, limits: Sequence[Words], prices: Array) -> NumberRows:
    """The rows where each unit of a limited cost is paid for."""
    signs = [1.0 if limit.sense == "<=" else -1.0 for limit in limits]
    paid = sum(p * sign * rows.costs[limit.name] for p, sign, limit in zip(prices, signs, limits, strict=True))
    return rows.earning(rows.r - paid)


def searched(
    rows: NumberRows,
    limits: Sequence[Words],
    learned: Callable[[Array], Learned],
    costs: Callable[[Learned], Mapping[str, Estimate]],
) -> tuple[Learned, Array]:
    """What is learned at the lowest prices that keep all limits, and these; InfeasibleError where none are found."""

    def beyond(found: Learned) -> Array:
        tried.append(costs(found))
        return np.array([excess(limit.sense, limit.bound, tried[-1][limit.name]) for limit in limits])

    tried: list[Mapping[str, Estimate]] = []
    low, found = np.zeros(len(limits)), learned(np.zeros(len(limits)))
    over = beyond(found)
    if (over <= 0.0).all():
        return found, low
    first, wall, judged = _first(rows, limits), None, np.isfinite(over).all()
    high = np.where(over > 0.0, first, 0.0)
    for _ in range(DOUBLINGS):
        found = learned(high)
        over = beyond(found)
        if (over <= 0.0).all():
            return _lowest(learned, beyond, low, high, found)
        if judged and not np.isfinite(over).all():
            wall = high
        else:
            low, high, judged = high, np.where(over > 0.0, np.maximum(2.0 * high, first), high), np.isfinite(over).all()
        high = high if wall is None else _between(low, wall)
    raise _infeasible(limits, tried)


def check_kept(limits: Sequence[PricedLimit], withheld: bool) -> None:
    """InfeasibleError where one of them is neither guaranteed nor expected to be kept."""
    if not all(limit.expected or limit.basis(withheld) == "proven" for limit in limits):
        asked = [Words(limit.name, limit.sense, limit.bound) for limit in limits]
        raise _infeasible(asked, [{limit.name: limit.estimate for limit in limits}])


def _infeasible(limits: Sequence[Words], tried: Sequence[Mapping[str, Estimate]]) -> InfeasibleError:
    """With what came nearest, among the policies that can be judged."""

    def farthest(costs: Mapping[str, Estimate]) -> float:
        beyond = [excess(limit.sense, limit.bound, costs[limit.name]) for limit in limits]
        return max(x / max(abs(limit.bound), 1e-12) for x, limit in zip(beyond, limits, strict=True))

    nearest = min(tried, key=farthest)
    reached = {limit.name: nearest[limit.name].value for limit in limits}
    if np.isfinite(farthest(nearest)):
        why = f"the nearest that was found has {', '.join(f'{name} {nearest[name]}' for name in reached)}"
    else:
        why = "what was learned goes where the log never was, so that its costs cannot be told"
    asked = few([f"{x.name}{x.sense}{x.bound:g}" for x in limits])
    return InfeasibleError(
        f"no policy was found that is expected to keep {asked} with a margin of two errors; {why}",
        conflict=tuple(reached),
        least=reached,
    )


def _lowest(
    learned: Callable[[Array], Learned],
    beyond: Callable[[Learned], Array],
    low: Array,
    high: Array,
    found: Learned,
) -> tuple[Learned, Array]:
    for _ in range(HALVINGS):
        middle = _between(low, high)
        between = learned(middle)
        if (beyond(between) <= 0.0).all():
            found, high = between, middle
        else:
            low = middle
    return found, high


def _between(low: Array, high: Array) -> Array:
    """In ratio; half of it from 0 on."""
    return np.where(low > 0.0, np.sqrt(low * high), high / 2.0)


def _first(rows: NumberRows, limits: Sequence[Words]) -> Array:
    """A price at which reward and cost count about alike."""
    spread = np.array([max(float(rows.costs[limit.name].std()), 1e-12) for limit in limits])
    return max(float(rows.r.std()), 1e-12) / spread
