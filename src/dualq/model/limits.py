"""Limits: what a policy may do, as linear conditions on its discounted occupancy from the start.

With d = (1 - alpha) lambda / ||eta||_1 the occupancy as probabilities of the pairs (s, a), eta the start's weights,

    kind        means                                                              built by
    Limit       sum d c <= bound, or >= bound: the average of c per step           average, time_in, forbid, share_of
                with c / (1 - alpha) in place of c: the discounted total           total
    ActionCap   d(s, a) <= bound sum_b d(s, b) in every state s, a in a set        cap
    Near        1/2 sum |d - d'| <= bound: the total variation from d'             near

Rows      Every kind is linear in d, where need be with the help of variables u >= 0 of its own:

              on_pairs d + on_extra u <= upper                                     (a limit ">=" is turned by its sign)

          Limit is one row, ActionCap one per state. Near is d(s,a) - u(s,a) <= d'(s,a) per pair and sum u <= bound:
          d and d' both sum to one, so the parts where d is larger are half of the 1-norm. The distance is the one on
          occupancies, not on policies state by state: a state that is hardly visited hardly counts.
Prices    The multipliers of the rows. The price of a limit is what one unit of its bound is worth, in reward per step.
Loosened  When limits cannot all be kept, bounds must give: by `gives` t, with t >= 0 as small as possible, in units of
          how far the costs of a limit are apart, so that limits of different sizes can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, SupportsFloat, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from dualq.base import LabelLike, ModelError, door, nearest
from dualq.model.mdp import MDP, Sparse
from dualq.model.policy import TablePolicy

Array = np.ndarray

ROUNDING = 1e-9  # of the largest cost: costs that are less apart are equal
SIGNS = {"<=": 1.0, ">=": -1.0}


class Rows(NamedTuple):
    """The rows of a limit: (on_pairs + moved 1') d + on_extra u <= upper + moved + gives t, u >= 0 and t >= 0.

    As d sums to one, `moved` changes nothing; it moves the middle of large costs to zero, for the sake of the solver.
    """

    on_pairs: Sparse  # (rows, S*A)
    on_extra: Sparse  # (rows, extra variables)
    upper: Array  # (rows,)
    gives: Sparse  # (rows, ways to loosen it)
    moved: Array  # (rows,)


@dataclass(frozen=True, eq=False)
class Limit:
    """The average of `cost` per step is at most (sense "<=") or at least (">=") `bound`."""

    name: str
    cost: Array  # (S, A)
    sense: str
    bound: float
    averaged: bool = False  # over the model's successors: known no better than the model is
    tag: ClassVar[str] = "Limit"

    def __post_init__(self):
        if self.sense not in SIGNS:
            raise ModelError(f"limit {self.name!r} has the sense {self.sense!r}; it must be '<=' or '>='")
        object.__setattr__(self, "bound", _finite(f"the bound of limit {self.name!r}", self.bound))
        cost = np.array(self.cost, dtype=float)
        if cost.ndim != 2:
            raise ModelError(f"the cost of limit {self.name!r} has shape {cost.shape}; it must be (S, A)")
        cost.flags.writeable = False
        object.__setattr__(self, "cost", cost)

    @property
    def sign(self) -> float:
        """1 for "<=", -1 for ">=": sign * cost is what must be small."""
        return SIGNS[self.sense]

    def check_fits(self, mdp: MDP) -> None:
        """Refuse a model of another size, or a cost that is not a number where an action exists."""
        if self.cost.shape != mdp.rewards.shape:
            raise ModelError(
                f"the cost of limit {self.name!r} has shape {self.cost.shape}; it must be {mdp.rewards.shape}"
            )
        bad = mdp.available & ~np.isfinite(self.cost)
        if bad.any():
            s, a = (int(i) for i in np.argwhere(bad)[0])
            place = f"({mdp.states.describe(s)}, {mdp.actions.describe(a)})"
            value = float(self.cost[s, a])
            words = f"the cost of limit {self.name!r} at {place} is {value:g}; it must be finite"
            raise ModelError(words, argument="limits", state=mdp.states[s], action=mdp.actions[a], value=value)

    def on(self, mdp: MDP) -> Array:
        """The cost, zero where an action does not exist."""
        return np.where(mdp.available, self.cost, 0.0)

    def span(self, mdp: MDP) -> float:
        """How far the costs of the model's pairs are apart; 1 where they are all equal but for rounding."""
        paid = self.cost[mdp.available]
        apart = float(np.ptp(paid))
        return apart if apart > ROUNDING * float(np.abs(paid).max()) else 1.0

    def rows(self, mdp: MDP, start: Array) -> Rows:
        """One row."""
        paid = self.cost[mdp.available]
        middle = 0.5 * (paid.min() + paid.max())
        centred = np.where(mdp.available, self.sign * (self.cost - middle), 0.0)
        upper, moved = np.array([self.sign * (self.bound - middle)]), np.array([self.sign * middle])
        return Rows(_row(centred), _nothing(1), upper, sp.csr_array([[self.span(mdp)]]), moved)

    def charged(self, mdp: MDP, multipliers: Array) -> Array:
        """What the price takes from the reward of each pair (S, A)."""
        return self.sign * multipliers[0] * self.on(mdp)

    def price(self, mdp: MDP, multipliers: Array, d: Array) -> float:
        """What one unit of the bound is worth."""
        return float(multipliers[0])

    def value(self, mdp: MDP, d: Array, start: Array) -> float:
        """The average cost of an occupancy d of probabilities."""
        return float(np.sum(d * self.on(mdp)))

    def loosened(self, bound: float) -> Limit:
        """The same with another bound."""
        return Limit(self.name, self.cost, self.sense, bound)

    def __str__(self) -> str:
        return f"{self.name} {self.sense} {self.bound:.6g}"


@dataclass(frozen=True, eq=False)
class ActionCap:
    """In every state the actions of a set together have a probability of at most `bound`."""

    name: str
    pairs: Array  # (S, A) boolean: which actions count, and where
    bound: float
    sense = "<="
    sign = 1.0

    def __post_init__(self):
        bound = _share(f"the bound of limit {self.name!r}", self.bound)
        object.__setattr__(self, "bound", bound)

    def check_fits(self, mdp: MDP) -> None:
        """Refuse a model of another size."""
        if self.pairs.shape != mdp.rewards.shape:
            raise ModelError(
                f"the pairs of limit {self.name!r} have shape {self.pairs.shape}; they must be {mdp.rewards.shape}"
            )

    def rows(self, mdp: MDP, start: Array) -> Rows:
        """A row per state in which the cap can act."""
        counted = self.pairs & mdp.available
        where = np.flatnonzero(counted.any(axis=1))
        s, a = np.nonzero(mdp.available[where])
        value = counted[where][s, a] - self.bound
        rows = sp.csr_array((value, (s, where[s] * mdp.num_actions + a)), shape=(where.size, mdp.rewards.size))
        zeros = np.zeros(where.size)
        return Rows(rows, _nothing(where.size), zeros, sp.csr_array(sp.eye_array(where.size)), zeros)

    def charged(self, mdp: MDP, multipliers: Array) -> Array:
        """Nothing: a cap belongs to one state, where it says what may be mixed and not what it is worth."""
        return np.zeros(mdp.rewards.shape)

    def price(self, mdp: MDP, multipliers: Array, d: Array) -> float:
        """What it would be worth to raise the cap in every state: the rows are d(s,a) - bound d(s) <= 0."""
        visits = d.sum(axis=1)[(self.pairs & mdp.available).any(axis=1)]
        return float(multipliers @ visits)

    def value(self, mdp: MDP, d: Array, start: Array) -> float:
        """The largest probability of the set in a state that is visited."""
        visits = d.sum(axis=1)
        seen = visits > 1e-9
        counted = np.where(self.pairs & mdp.available, d, 0.0).sum(axis=1)
        return float((counted[seen] / visits[seen]).max())

    def loosened(self, bound: float) -> ActionCap:
        """The same with another bound."""
        return ActionCap(self.name, self.pairs, bound)

    def __str__(self) -> str:
        return f"{self.name} <= {self.bound:.6g}"


@dataclass(frozen=True, eq=False)
class Near:
    """The total variation between the occupancy and a given one is at most `bound`."""

    name: str
    reference: TablePolicy | Array  # a policy, or an occupancy (S, A) that sums to one
    bound: float
    sense = "<="
    sign = 1.0

    def __post_init__(self):
        object.__setattr__(self, "bound", _share(f"the bound of limit {self.name!r}", self.bound))

    def check_fits(self, mdp: MDP) -> None:
        """Refuse a model of another size, or one where an action of the policy does not exist."""
        if isinstance(self.reference, TablePolicy):
            self.reference.check_fits(mdp)
        elif self.reference.shape != mdp.rewards.shape:
            raise ModelError(
                f"the occupancy of limit {self.name!r} has shape {self.reference.shape}; it must be {mdp.rewards.shape}"
            )

    def target(self, mdp: MDP, start: Array) -> Array:
        """d', as probabilities of the pairs."""
        if isinstance(self.reference, TablePolicy):
            return (1.0 - mdp.discount) * self.reference.occupancy(mdp, start)
        return self.reference

    def rows(self, mdp: MDP, start: Array) -> Rows:
        """d - u <= d' at every pair that exists, and sum u <= bound."""
        pairs = np.flatnonzero(mdp.available)
        n = pairs.size
        pick = sp.csr_array((np.ones(n), (np.arange(n), pairs)), shape=(n + 1, mdp.rewards.size))
        extra = sp.csr_array(sp.vstack([-sp.eye_array(n), sp.csr_array(np.ones((1, n)))]))
        upper = np.append(self.target(mdp, start).ravel()[pairs], self.bound)
        gives = sp.csr_array(([1.0], ([n], [0])), shape=(n + 1, 1))
        return Rows(pick, extra, upper, gives, np.zeros(n + 1))

    def charged(self, mdp: MDP, multipliers: Array) -> Array:
        """What each pair pays for every visit beyond those of d'."""
        charged = np.zeros(mdp.rewards.shape)
        charged[mdp.available] = multipliers[:-1]
        return charged

    def price(self, mdp: MDP, multipliers: Array, d: Array) -> float:
        """What one unit of the distance is worth."""
        return float(multipliers[-1])

    def value(self, mdp: MDP, d: Array, start: Array) -> float:
        """The total variation of an occupancy d from the given one."""
        return float(0.5 * np.abs(d - self.target(mdp, start)).sum())

    def loosened(self, bound: float) -> Near:
        """The same with another bound."""
        return Near(self.name, self.reference, bound)

    def __str__(self) -> str:
        return f"{self.name} <= {self.bound:.6g}"


class Words(NamedTuple):
    """A limit as it is written: "stockout <= 0.02"."""

    name: str
    sense: str
    bound: float


AnyLimit: TypeAlias = Limit | ActionCap | Near
LimitLike: TypeAlias = AnyLimit | Words | str | float  # made; or in words; or, by name, at most so much
LimitsLike: TypeAlias = AnyLimit | str | Iterable[LimitLike] | Mapping[str, LimitLike] | None


# ---- ways to make one


@door
def average(mdp: MDP, cost: ArrayLike, sense: str, bound: float, name: str = "cost") -> Limit:
    """The average cost per step; `cost` is (S, A), one number per pair, or (S, A, S), one per transition.

    Examples
    --------
    >>> import dualq
    >>> mdp = dualq.problems.two_state().mdp
    >>> limit = dualq.limits.average(mdp, [[0.0, 1.0], [0.0, 1.0]], "<=", 0.3, "overtime")
    >>> found = dualq.solve(mdp, [0.5, 0.5], limits=limit)
    >>> round(found.values["overtime"], 6), round(found.prices["overtime"], 3)
    (0.3, 0.661)
    """
    return Limit(name, _expected(mdp, cost, name), sense, bound, np.ndim(cost) == 3)


@door
def total(mdp: MDP, cost: ArrayLike, sense: str, bound: float, name: str = "total cost") -> Limit:
    """The expected discounted total of a cost, from the start."""
    return Limit(name, _expected(mdp, cost, name) / (1.0 - mdp.discount), sense, bound, np.ndim(cost) == 3)


@door
def time_in(mdp: MDP, states: Iterable[LabelLike], sense: str, share: float, name: str | None = None) -> Limit:
    """The share of time in a set of states, given by their labels.

    Examples
    --------
    >>> import dualq
    >>> mdp = dualq.problems.two_state().mdp
    >>> found = dualq.solve(mdp, [0.5, 0.5], limits=dualq.limits.time_in(mdp, [1], "<=", 0.5))
    >>> round(found.values["time in 1"], 6) <= 0.5
    True
    """
    labels = list(states)
    cost = np.zeros(mdp.rewards.shape)
    cost[[mdp.states.index(label) for label in labels]] = 1.0
    return Limit(name or f"time in {_few(labels)}", cost, sense, _share("a share of time", share))


@door
def forbid(mdp: MDP, states: Iterable[LabelLike], name: str | None = None) -> Limit:
    """A set of states is never entered."""
    return time_in(mdp, states, "<=", 0.0, name)


@door
def share_of(mdp: MDP, actions: Iterable[LabelLike], sense: str, share: float, name: str | None = None) -> Limit:
    """The share of steps at which one of these actions, given by their labels, is taken."""
    labels = list(actions)
    cost = np.zeros(mdp.rewards.shape)
    cost[:, [mdp.actions.index(label) for label in labels]] = 1.0
    return Limit(name or f"share of {_few(labels)}", cost, sense, _share("a share of actions", share))


@door
def cap(
    mdp: MDP,
    actions: Iterable[LabelLike],
    bound: float,
    states: Iterable[LabelLike] | None = None,
    name: str | None = None,
) -> ActionCap:
    """In each of the states (all, if not given) the actions together have a probability of at most `bound`.

    Examples
    --------
    >>> import dualq
    >>> mdp = dualq.problems.two_state().mdp
    >>> found = dualq.solve(mdp, [0.5, 0.5], limits=dualq.limits.cap(mdp, [1], 0.2))
    >>> round(found.dual_policy.probabilities(1)[1], 6)
    0.2
    """
    labels = list(actions)
    where = slice(None) if states is None else [mdp.states.index(label) for label in states]
    pairs = np.zeros(mdp.rewards.shape, bool)
    rows = np.zeros(mdp.num_states, bool)
    rows[where] = True
    for label in labels:
        pairs[rows, mdp.actions.index(label)] = True
    return ActionCap(name or f"chance of {_few(labels)}", pairs, bound)


@door
def near(reference: TablePolicy | ArrayLike, distance: float, name: str = "distance") -> Near:
    """A trust region: the total variation (0 to 1) from the occupancy of a policy, or from an occupancy (S, A).

    The occupancy of a policy is the one from the same start. An occupancy given as an array is scaled to sum to one.

    Examples
    --------
    >>> import dualq
    >>> two = dualq.problems.two_state()
    >>> found = dualq.solve(two.mdp, [0.5, 0.5], limits=dualq.limits.near(two.behaviour, 0.1))
    >>> round(found.values["distance"], 6)
    0.1
    """
    if isinstance(reference, TablePolicy):
        return Near(name, reference, distance)
    d = np.array(reference, dtype=float)
    if d.ndim != 2 or not np.isfinite(d).all() or d.min() < 0.0 or not d.sum() > 0.0:
        raise ModelError("the occupancy to stay near to must be (S, A), finite, not negative and not all zero")
    return Near(name, d / d.sum(), distance)


# ---- limits in words

FORM = re.compile(r"\s*(?P<name>.*?)\s*(?P<sense><=|>=|≤|≥)\s*(?P<bound>[^%]*?)\s*(?P<percent>%?)\s*")


@door
def parse(text: str) -> Words:
    """The parts of "stockout<=0.02", "stockout >= .1" or "stockout <= 2%"."""
    right = "write NAME<=NUMBER or NAME>=NUMBER, such as stockout<=0.02"
    match = FORM.fullmatch(text)
    if match is None:
        raise ModelError(f"the limit {text!r} has no <= or >=; {right}", argument="limits", value=text)
    name, sense = match["name"], {"≤": "<=", "≥": ">="}.get(match["sense"], match["sense"])
    if not name:
        raise ModelError(f"the limit {text!r} names nothing; {right}", argument="limits", value=text)
    try:
        bound = _finite("", float(match["bound"]))
    except ValueError:  # ModelError is one
        wrong = f"the limit {text!r} has the bound {match['bound']!r}, which is no number"
        raise ModelError(f"{wrong}; {right}", argument="limits", value=text) from None
    return Words(name, sense, bound / 100.0 if match["percent"] else bound)


def as_limits(limits: LimitsLike, costs: Mapping[str, Array] | None = None) -> dict[str, AnyLimit]:
    """Limits as a user gives them, by name.

    One limit or several: made by the functions above; in words, "stockout<=0.02"; or a mapping {"stockout": 0.02} (at
    most so much) or {"stockout": ">=0.02"}. Words need the costs (S, A) that they name.
    """
    found: dict[str, AnyLimit] = {}
    for limit in _listed(limits):
        if isinstance(limit, str):
            limit = parse(limit)
        if isinstance(limit, Words):
            limit = Limit(limit.name, _named(costs or {}, limit.name), limit.sense, limit.bound)
        if not isinstance(limit, Limit | ActionCap | Near):
            right = "make one with dualq.limits, such as limits.average(...)"
            raise ModelError(f"{limit!r} is no limit; {right}", argument="limits", value=limit)
        if limit.name in found:
            words = f"two limits are named {limit.name!r}; give each a name of its own"
            raise ModelError(words, argument="limits", value=limit.name)
        found[limit.name] = limit
    return found


def _listed(limits: LimitsLike) -> Iterable[LimitLike]:
    """One limit or several, as a list."""
    if isinstance(limits, Mapping):
        return [_of_pair(str(name), value) for name, value in limits.items()]
    if isinstance(limits, str | Limit | ActionCap | Near):
        return [limits]
    return limits or ()


def _of_pair(name: str, value: LimitLike) -> AnyLimit | Words:
    if isinstance(value, Limit | ActionCap | Near | Words):
        return value
    if isinstance(value, str):
        return parse(f"{name} {value}")
    return Words(str(name), "<=", _finite(f"the bound of limit {name!r}", value))


def _named(costs: Mapping[str, Array], name: str) -> Array:
    if name in costs:
        return costs[name]
    close = nearest(name, costs)
    known = f"did you mean {close!r}?" if close is not None else f"known are {', '.join(map(repr, costs)) or 'none'}"
    raise ModelError(f"no cost is named {name!r}; {known}", argument="limits", value=name)


# ---- small things


def _expected(mdp: MDP, cost: ArrayLike, name: str) -> Array:
    """Costs per pair, from costs per pair or per transition."""
    cost = np.asarray(cost, dtype=float)
    shape = mdp.rewards.shape
    if cost.shape == shape:
        return cost
    if cost.shape != (*shape, mdp.num_states):
        raise ModelError(
            f"the cost of limit {name!r} has shape {cost.shape}; it must be {shape} or {(*shape, mdp.num_states)}"
        )
    flat = cost.reshape(-1, mdp.num_states)
    pair = np.repeat(np.arange(flat.shape[0]), np.diff(mdp.indptr))
    return np.bincount(pair, mdp.probabilities * flat[pair, mdp.indices], flat.shape[0]).reshape(shape)


def _row(values: Array) -> sp.csr_array:
    return sp.csr_array(values.reshape(1, -1))


def _nothing(rows: int) -> sp.csr_array:
    return sp.csr_array((rows, 0))


def _few(labels: Sequence[LabelLike]) -> str:
    if not labels:
        raise ModelError("a limit on a set of states or actions needs at least one label")
    return ", ".join(map(str, labels[:3])) + (", ..." if len(labels) > 3 else "")


def _finite(what: str, number: SupportsFloat | str) -> float:
    try:
        value = float(number)
    except (TypeError, ValueError):
        raise ModelError(f"{what} is {number!r}; it must be a number", argument="limits", value=number) from None
    if not np.isfinite(value):
        raise ModelError(f"{what} is {value:g}; it must be finite", argument="limits", value=value)
    return value


def _share(what: str, number: SupportsFloat | str) -> float:
    value = _finite(what, number)
    if not 0.0 <= value <= 1.0:
        raise ModelError(f"{what} is {value:g}; it must be from 0 to 1", argument="limits", value=value)
    return value
