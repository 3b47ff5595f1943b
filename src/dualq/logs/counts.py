"""Counts: all that a log says about a model that does not change with time.

    n(s, a, s')            how often (s, a) was followed by s'
    sum r, sum r^2         over those rows; the same of every cost
    P(s' | s, a)  ~        n(s, a, s') / n(s, a)
    R(s, a)       ~        sum r / n(s, a)

One entry per (s, a, s') that occurs, in the order of s, a, s'; rows that ended an episode are counted apart from those
that reached the same s' and went on. It is one GROUP BY, so counts of two logs can be merged.

Three things that a log leaves open, and how `mdp` closes them:

* A pair (s, a) that never occurs is not available: nothing is made up about it.
* After a row that ended nothing follows. Such rows lead to one state more, labelled "(end)", which is absorbing and
  pays 0. It is there only where some row ended. A state that was entered by such rows alone pays 0 too, and nothing
  leads to it.
* A state that rows lead to and none leaves (the last of a log, often) has no known future. It is absorbing under every
  action and pays `never_left_reward`, 0 unless told otherwise, for ever. `never_left` lists these states. Where rewards
  are all negative, 0 is better than anything known: the ends of the reward range give the two extremes. States that do
  not occur at all are treated alike, but no state leads to them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypedDict, Unpack

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from dualq.base import ErrorParts, Labels, LogError, Recorded, Rows, checked_range, door
from dualq.logs.support import Support
from dualq.model import MDP, checked_discount

Array = np.ndarray
Range = tuple[float, float]  # the least and the greatest that a number can be


class Said(TypedDict):
    """What counts know beside their sums: labels, and what numbers can be."""

    states: Labels
    actions: Labels
    reward_range: Range
    range_known: bool
    cost_ranges: Mapping[str, Range]
    cost_ranges_known: frozenset[str]


@door
@dataclass(frozen=True, eq=False)
class Counts:
    """How often each transition occurs in a log, and what it paid; read-only.

    One entry per (s, a, s') that occurs; rows that ended an episode are counted apart. `log.counts()` makes them, and
    `Counts.from_arrays` from arrays.

    Attributes
    ----------
    s, a, s_next : array, (entries,)
        Places of the state, the action and the next state.
    ended : array of bool, (entries,)
        Whether these rows ended an episode.
    n : array of int, (entries,)
        How many rows there are.
    reward_sum, reward_square_sum : array, (entries,)
        Sums over them. `cost_sums` and `cost_square_sums` have the same of each cost.
    states, actions : Labels
        What the places stand for.
    reward_range : (float, float)
        What rewards can be; where nobody said so (`range_known`), what they were.

    Examples
    --------
    >>> import dualq
    >>> counts = dualq.read_log({"state": [0, 1, 0], "action": [0, 0, 1], "reward": [1, 2, 4], "t": [0, 1, 2]}).counts()
    >>> counts.visits
    array([[1, 0],
           [1, 0]])
    >>> counts.mdp(discount=0.9).rewards
    array([[1., 0.],
           [2., 0.]])
    """

    s: Array = field(repr=False)  # (entries,)
    a: Array = field(repr=False)
    s_next: Array = field(repr=False)
    ended: Array = field(repr=False)  # whether these rows ended an episode
    n: Array = field(repr=False)  # rows
    reward_sum: Array = field(repr=False)
    reward_square_sum: Array = field(repr=False)
    states: Labels
    actions: Labels
    reward_range: tuple[float, float]  # what rewards can be; where nobody said so, what they were
    range_known: bool = True
    cost_sums: Mapping[str, Array] = field(default_factory=dict, repr=False)  # {cost: (entries,)}
    cost_square_sums: Mapping[str, Array] = field(default_factory=dict, repr=False)
    cost_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # as reward_range
    cost_ranges_known: frozenset[str] = frozenset()  # the costs whose range somebody said

    def __post_init__(self):
        for column in self._columns:
            column.flags.writeable = False

    @classmethod
    def from_arrays(
        cls,
        s: ArrayLike,
        a: ArrayLike,
        r: ArrayLike,
        s_next: ArrayLike,
        ended: ArrayLike | None = None,
        *,
        states: Labels | int,
        actions: Labels | int,
        reward_range: tuple[float, float] | None = None,
        costs: Mapping[str, ArrayLike] | None = None,
        cost_ranges: Mapping[str, Range] | None = None,
    ) -> Counts:
        """Count transitions given as arrays of places 0, 1, 2, ...; labels, or how many there are of each."""
        rows = Recorded(s, a, r, s_next, ended).rows
        states = states if isinstance(states, Labels) else Labels(states, "state")
        actions = actions if isinstance(actions, Labels) else Labels(actions, "action")
        drawn = check_rows(rows, states, actions, reward_range)
        paid, ranges = check_costs(costs or {}, rows.r.size, cost_ranges or {})
        known = frozenset(cost_ranges or {})
        return cls.from_rows(
            rows, states, actions, reward_range or drawn, reward_range is not None, paid, ranges, known
        )

    @classmethod
    def from_rows(
        cls,
        rows: Rows,
        states: Labels,
        actions: Labels,
        reward_range: tuple[float, float],
        range_known: bool = True,
        costs: Mapping[str, Array] | None = None,
        cost_ranges: Mapping[str, tuple[float, float]] | None = None,
        cost_ranges_known: frozenset[str] = frozenset(),
    ) -> Counts:
        """Count rows that were checked already."""
        costs = costs or {}
        weights = [None, *(w for x in (rows.r, *costs.values()) for w in (x, x * x))]
        return cls._of_sums(
            _grouped(rows.s, rows.a, rows.s_next, rows.ended, weights, len(states), len(actions)),
            list(costs),
            states=states,
            actions=actions,
            reward_range=reward_range,
            range_known=range_known,
            cost_ranges=dict(cost_ranges or {}),
            cost_ranges_known=cost_ranges_known,
        )

    @classmethod
    def from_groups(
        cls,
        s: Array,
        a: Array,
        s_next: Array,
        ended: Array,
        sums: Sequence[Array],
        costs: Sequence[str],
        **said: Unpack[Said],
    ) -> Counts:
        """Counts of groups that an engine made; groups of the same (s, a, s', ended) are put together.

        sums    n, then sum and sum of squares of the reward, then the same of each cost, an entry per group
        said    the labels and ranges
        """
        shape = len(said["states"]), len(said["actions"])
        return cls._of_sums(_grouped(s, a, s_next, ended, sums, *shape), costs, **said)

    @classmethod
    def _of_sums(cls, groups: _Groups, costs: Sequence[str], **said: Unpack[Said]) -> Counts:
        n, reward_sum, reward_square_sum, *rest = groups.sums
        return cls(
            *groups.keys,
            n=n.astype(np.int64),
            reward_sum=reward_sum,
            reward_square_sum=reward_square_sum,
            cost_sums=dict(zip(costs, rest[::2], strict=True)),
            cost_square_sums=dict(zip(costs, rest[1::2], strict=True)),
            **said,
        )

    def merge(self, other: Counts) -> Counts:
        """The counts of both logs together; they must have the same states and actions, in the same order."""
        return all_counts([self, other])

    def where(self, kept: Array) -> Counts:
        """The counts of some entries (entries,), all others left out."""
        own = {name: getattr(self, name)[kept] for name in ("s", "a", "s_next", "ended", "n", "reward_sum")}
        sums, squares = ({cost: x[kept] for cost, x in of.items()} for of in (self.cost_sums, self.cost_square_sums))
        squared = self.reward_square_sum[kept]
        return replace(self, **own, reward_square_sum=squared, cost_sums=sums, cost_square_sums=squares)

    def _in_order(self, costs: Iterable[str]) -> Counts:
        if list(costs) == list(self.cost_sums):
            return self
        sums, squares = ({cost: of[cost] for cost in costs} for of in (self.cost_sums, self.cost_square_sums))
        return replace(self, cost_sums=sums, cost_square_sums=squares)

    @property
    def _columns(self) -> tuple[Array, ...]:
        pairs = zip(self.cost_sums.values(), self.cost_square_sums.values(), strict=True)
        costs = (column for pair in pairs for column in pair)
        return self.s, self.a, self.s_next, self.ended, self.n, self.reward_sum, self.reward_square_sum, *costs

    @property
    def shape(self) -> tuple[int, int]:
        """(|S|, |A|)."""
        return len(self.states), len(self.actions)

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.n.sum())

    @cached_property
    def visits(self) -> Array:
        """n(s, a) (S, A)."""
        visits = self.per_pair(self.n).astype(np.int64)  # exact: floats count to 2^53
        visits.flags.writeable = False
        return visits

    @cached_property
    def support(self) -> Support:
        """The log's states beside those of its model."""
        return Support(self.states, self.actions, bool(self.ended.any()))

    @cached_property
    def never_left(self) -> Array:
        """The places of the states that rows lead to, and go on from, but where no action was ever seen."""
        reached = np.zeros(len(self.states), bool)
        reached[self.s_next[~self.ended]] = True
        return np.flatnonzero(reached & ~self.visits.any(axis=1))

    @cached_property
    def over(self) -> Array:
        """Whether nothing follows in a state of the model: those that rows entered only to end, and "(end)"."""
        over = np.zeros(len(self.states), bool)
        over[self.s_next[self.ended]] = True
        over[self.s_next[~self.ended]] = False
        return self.support.to_model(over, at_end=True).astype(bool)

    def mdp(self, discount: float, never_left_reward: float = 0.0) -> MDP:
        """The empirical model: frequencies for probabilities, mean rewards for expected ones.

        The last state is "(end)" where some row ended, and only there. The top of this file says what happens to pairs
        that were never seen and states that were never left.
        """
        # Where no state waits for a word on what it pays, that word makes no difference.
        unknown = bool((~self.visits.any(axis=1) & ~self.support.to_log(self.over)).any())
        key = checked_discount(discount), float(never_left_reward) if unknown else 0.0
        if key not in self._models:
            self._models[key] = self._mdp(*key)
        return self._models[key]

    @cached_property
    def _models(self) -> dict[tuple[float, float], MDP]:
        """The models that were made already: a model is read-only, and is made once."""
        return {}

    def _mdp(self, discount: float, never_left_reward: float) -> MDP:
        support, (num_states, A) = self.support, self.support.model_shape
        visits = support.to_model(self.visits)
        stuck = np.flatnonzero(~visits.any(axis=1))
        pair = self.s.astype(np.int64) * A + self.a
        loops = (stuck[:, None] * A + np.arange(A)).ravel()
        P = sp.csr_array(
            (
                np.concatenate([self.n / visits.ravel()[pair], np.ones(loops.size)]),
                (np.concatenate([pair, loops]), np.concatenate([self.successor, loops // A])),
            ),
            shape=(num_states * A, num_states),
        )
        P.sum_duplicates()  # several states where episodes end are one (end)

        # Rounding must not carry a mean out of the range.
        low, high = self.reward_range
        rewards = support.to_model(np.clip(self.per_pair(self.reward_sum) / np.maximum(self.visits, 1), low, high))
        rewards[stuck] = np.where(self.over[stuck], 0.0, never_left_reward)[:, None]
        if stuck.size:
            low, high = min(low, rewards[stuck].min()), max(high, rewards[stuck].max())
        available = visits > 0
        available[stuck] = True
        words = {"states": support.model_states, "actions": self.actions, "available": available}
        return MDP(P, rewards, discount, (low, high), **words)

    @property
    def successor(self) -> Array:
        """(entries,) where each leads, in the model's states: rows that ended lead to "(end)"."""
        return np.where(self.ended, len(self.states), self.s_next)

    def per_pair(self, weights: Array) -> Array:
        """(S, A) sums over the entries of each pair, of n, reward_sum, a cost's sums, ..."""
        S, A = self.shape
        return np.bincount(self.s.astype(np.int64) * A + self.a, weights, S * A).reshape(S, A)

    def digest(self) -> str:
        """A SHA-256 of labels, keys, counts and the range of rewards; of sums engines differ in the last digits."""
        words = f"{list(self.states)!r} {list(self.actions)!r} {self.reward_range!r}"
        found = hashlib.sha256(words.encode())
        for column in (self.s, self.a, self.s_next, self.ended, self.n):
            found.update(np.ascontiguousarray(column).data)
        return found.hexdigest()


def check_rows(
    rows: Rows, states: Labels, actions: Labels, reward_range: tuple[float, float] | None
) -> tuple[float, float]:
    """Refuse unknown states and actions, and rewards that are not finite or out of range; the range of the rewards."""
    for name, column, labels in (
        ("state", rows.s, states),
        ("action", rows.a, actions),
        ("next_state", rows.s_next, states),
    ):
        wrong = (column < 0) | (column >= len(labels))
        if wrong.any():
            i = int(wrong.argmax())
            right = f"it must be a place from 0 to {len(labels) - 1}"
            raise LogError(f"row {i}: {name} is {column[i]}; {right}", row=i, column=name, value=int(column[i]))
    wrong = ~np.isfinite(rows.r)
    if wrong.any():
        i = int(wrong.argmax())
        found: ErrorParts = {"row": i, "column": "reward", "value": float(rows.r[i])}
        raise LogError(f"row {i}: reward is {rows.r[i]:g}; rewards must be finite numbers", **found)
    drawn = (float(rows.r.min()), float(rows.r.max())) if rows.r.size else (0.0, 0.0)
    if reward_range is None:
        return drawn
    low, high = checked_range("reward_range", reward_range, LogError, argument="reward_range")
    wrong = (rows.r < low) | (rows.r > high)
    if wrong.any():
        i = int(wrong.argmax())
        found: ErrorParts = {"row": i, "column": "reward", "value": float(rows.r[i])}
        raise LogError(f"row {i}: reward is {rows.r[i]:g}; the known range is [{low:g}, {high:g}]", **found)
    return drawn


def check_costs(
    costs: Mapping[str, ArrayLike], rows: int, cost_ranges: Mapping[str, Range]
) -> tuple[dict[str, Array], dict[str, Range]]:
    """Refuse costs that are not finite or out of range; the costs as arrays, and the range of each."""
    for cost in cost_ranges:
        if cost not in costs:
            raise LogError(
                f"a range is given for the cost {cost!r}; the costs are {', '.join(costs) or 'none'}",
                argument="cost_ranges",
                value=cost,
            )
    arrays, ranges = {}, {}
    for cost, given in costs.items():
        values = np.ascontiguousarray(given, float)
        if values.shape != (rows,):
            raise LogError(
                f"the cost {cost!r} has {values.size} values; there are {rows} rows",
                argument="costs",
                column=cost,
                value=values.size,
            )
        wrong = ~np.isfinite(values)
        drawn = (float(values.min()), float(values.max())) if rows and not wrong.any() else (0.0, 0.0)
        what = f"the range of the cost {cost!r}"
        low, high = checked_range(what, cost_ranges.get(cost, drawn), LogError, argument="cost_ranges", column=cost)
        wrong |= (values < low) | (values > high)
        if wrong.any():
            i = int(wrong.argmax())
            right = f"in [{low:g}, {high:g}]" if cost in cost_ranges else "finite numbers"
            found: ErrorParts = {"row": i, "column": cost, "value": float(values[i])}
            raise LogError(f"row {i}: the cost {cost!r} is {values[i]:g}; costs must be {right}", **found)
        arrays[cost], ranges[cost] = values, (float(low), float(high))
    return arrays, ranges


class _Groups(NamedTuple):
    keys: tuple[Array, Array, Array, Array]  # s, a, s', ended: each once, sorted
    sums: list[Array]  # of every weight


def all_counts(parts: Sequence[Counts]) -> Counts:
    """The counts of several logs together, sums in their order."""
    first = parts[0]
    for other in parts[1:]:
        for name in ("states", "actions"):
            mine, theirs = getattr(first, name), getattr(other, name)
            if mine is not theirs and mine != theirs:
                raise LogError(f"counts of different {name} cannot be merged: {mine!r} and {theirs!r}")
        if first.cost_sums.keys() != other.cost_sums.keys():
            mine, theirs = (", ".join(c.cost_sums) or "none" for c in (first, other))
            raise LogError(f"counts of different costs cannot be merged: {mine} and {theirs}")
    columns = zip(*(part._in_order(first.cost_sums)._columns for part in parts), strict=True)
    s, a, s_next, ended, *weights = (np.concatenate(column) for column in columns)
    return Counts._of_sums(
        _grouped(s, a, s_next, ended, weights, len(first.states), len(first.actions)),
        list(first.cost_sums),
        states=first.states,
        actions=first.actions,
        reward_range=_widest([(c.reward_range, c.range_known or c.n.size) for c in parts]),
        range_known=all(c.range_known for c in parts),
        cost_ranges={
            cost: _widest([(c.cost_ranges[cost], cost in c.cost_ranges_known or c.n.size) for c in parts])
            for cost in first.cost_sums
        },
        cost_ranges_known=frozenset.intersection(*(c.cost_ranges_known for c in parts)),
    )


def _grouped(
    s: Array,
    a: Array,
    s_next: Array,
    ended: Array,
    weights: Sequence[Array | None],
    num_states: int,
    num_actions: int,
) -> _Groups:
    """The keys of Counts, each (s, a, s', ended) once, sorted, and the sums of the weights; None is 1 for each row."""
    num_keys = 2 * num_actions * num_states**2
    if num_keys >= 2**63:
        raise LogError(f"{num_states} states with {num_actions} actions are too many to count")
    key = ((s.astype(np.int64) * num_actions + a) * num_states + s_next) * 2 + ended
    if num_keys <= max(4 * key.size, 1 << 16):  # a place for every key costs less than sorting
        occurs = np.zeros(num_keys, bool)
        occurs[key] = True
        groups, which = np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[key]
    else:
        groups, which = np.unique(key, return_inverse=True)
    sums = [np.bincount(which, w, groups.size) for w in weights]
    rest, last = np.divmod(groups, 2)
    pair, to = np.divmod(rest, num_states)
    from_, by = np.divmod(pair, num_actions)
    keys = from_.astype(np.int32), by.astype(np.int32), to.astype(np.int32), last.astype(bool)
    return _Groups(keys, sums)


def _widest(ranges: list[tuple[Range, int]]) -> Range:
    """The range that holds all that say something; the first, where none does."""
    saying = [r for r, says in ranges if says] or [ranges[0][0]]
    return min(low for low, _ in saying), max(high for _, high in saying)
