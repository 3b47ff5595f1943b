"""JoinedLog: the counts of old rows, as a fit keeps them, and a log of new rows; `learn` takes both as one log.

What adds up is added up: counts, first states of episodes, rows left out. The rest is put together so:

    labels     of both; in the order in which one log of all rows would have them
    blocks     a border of the certificate's blocks that falls among the old rows moves to the nearest one that was
               kept; among the new rows it stands where it would. Only numbers of rows decide, so any proof holds. The
               old rows must have come before the new ones: where the clocks overlap, that is said
    tests      of the old rows as they were found, of the new rows as they are found now, and between the two
               (logs/checks/between.py); of each kind, that which speaks most against the log
    episodes   that went on: the last old row of each was kept, and is counted with the first new one as what followed;
               the first new one is no beginning
    lost       which old rows share a moment or an episode
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from dualq.base import Label, Labels, LogError, Rows, Stream
from dualq.logs import Bins, Counts, Coverage, Finding, Log, NumberRows, OpenEnds, Trace, between, open_ends_of
from dualq.offline.stages import Counted
from dualq.offline.trust import TWICE

Array = np.ndarray

ROWS = ("s", "a", "s_next", "ended", "n", "reward_sum", "reward_square_sum")
COSTS = ("cost_sums", "cost_square_sums")
ORDER = "the new rows must have come after the old ones"
KEPT = (
    "old rows were not read again: what was found in them is kept, and they were compared with the new ones by counts"
)
BEFORE = "This was found in the rows before the update, which were not tested again."


@dataclass(frozen=True, eq=False)
class Recoding:
    """The places that the labels of one log have among those of two."""

    states: Labels
    actions: Labels
    s: Array  # place -> place
    a: Array

    def counts(self, counts: Counts) -> Counts:
        """The same counts, in the places of both."""
        sums = [counts.n, counts.reward_sum, counts.reward_square_sum]
        sums += [x[cost] for cost in counts.cost_sums for x in (counts.cost_sums, counts.cost_square_sums)]
        return Counts.from_groups(
            self.s[counts.s],
            self.a[counts.a],
            self.s[counts.s_next],
            counts.ended,
            sums,
            list(counts.cost_sums),
            states=self.states,
            actions=self.actions,
            reward_range=counts.reward_range,
            range_known=counts.range_known,
            cost_ranges=counts.cost_ranges,
            cost_ranges_known=counts.cost_ranges_known,
        )

    def over_states(self, array: Array) -> Array:
        """(S,) an array over the states of one log, over those of both; 0 where it has no such state."""
        out = np.zeros(len(self.states), array.dtype)
        out[self.s] = array
        return out


def recodings(old: Counts, new: Counts, bins: Mapping[str, Sequence[float]]) -> tuple[Recoding, Recoding]:
    """For the labels of two logs."""
    states, actions = (joined_labels(getattr(old, kind), getattr(new, kind), bins) for kind in ("states", "actions"))
    first, second = (
        Recoding(states, actions, _places(one.states, states), _places(one.actions, actions)) for one in (old, new)
    )
    return first, second


def joined_labels(old: Labels, new: Labels, bins: Mapping[str, Sequence[float]]) -> Labels:
    """The labels of both: in their order where the old ones are in it, else the new ones after the old."""
    known = set(old)
    more = [label for label in new if label not in known]
    if not more:
        return old
    rank: dict[str, dict[Label, int]] = {
        c: {label: i for i, label in enumerate(Bins(tuple(edges)).labels)} for c, edges in bins.items()
    }

    def key(label: Label) -> tuple[Label, ...]:
        parts = label if isinstance(label, tuple) else (label,)
        return tuple(rank[c].get(part, -1) if c in rank else part for c, part in zip(old.names, parts, strict=True))

    together: Iterable[Label] = [*old, *more]
    try:
        keys = [key(label) for label in old]
        if all(a <= b for a, b in pairwise(keys)):  # pyright: ignore[reportOperatorIssue]
            together = sorted(together, key=key)  # pyright: ignore[reportArgumentType, reportCallIssue]
    except TypeError:  # labels of several types have no order
        pass
    return Labels(together, old.names)


def _places(own: Labels, all_of_them: Labels) -> Array:
    if own is all_of_them:
        return np.arange(len(own))
    return np.array([all_of_them.index(label) for label in own], np.int64)


@dataclass(frozen=True, eq=False)
class JoinedLog:
    """Old counts and new rows; it is a `Log`."""

    old: Counted
    new: Log
    recoded: tuple[Recoding, Recoding] = field(repr=False)  # of the old labels and of the new

    has_order = True  # the old rows came first
    numbers = ()

    @property
    def source(self) -> str:
        """Both."""
        return f"{self.old.read.source} and {self.new.source}"

    @property
    def states(self) -> Labels:
        """The labels of the states of both."""
        return self.recoded[0].states

    @property
    def actions(self) -> Labels:
        """The labels of the actions of both."""
        return self.recoded[0].actions

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """As in the new rows."""
        return self.new.columns

    @property
    def bins(self) -> Mapping[str, Bins]:
        """The same in both."""
        return self.new.bins

    @property
    def guessed(self) -> Mapping[str, tuple[str, ...]]:
        """What nobody named when the old rows were read."""
        return {part: tuple(names) for part, names in self.old.read.guessed.items()}

    @property
    def quarantine(self):
        """The file of the new rows that are bad."""
        return self.new.quarantine

    @cached_property
    def available(self) -> Array | None:
        """(S, A) which pairs exist: what was said of the old rows or is said of the new ones; None: nobody did."""
        said = [
            (one, exists)
            for one, exists in zip(self.recoded, (self.old.available, self.new.available), strict=True)
            if exists is not None
        ]
        if not said:
            return None
        found = self.counts().visits > 0
        for one, exists in said:
            found[np.ix_(one.s, one.a)] |= exists
        unsaid = np.ones(len(self.states), bool)
        for one, _ in said:
            unsaid[one.s] = False
        found[unsaid] = True
        return found

    @property
    def has_episodes(self) -> bool:
        """Whether both know where episodes begin."""
        return self.old.first is not None and self.new.has_episodes

    @property
    def left_out(self) -> tuple[int, int]:
        """Rows without a successor, and rows set aside, in both."""
        old, new = self.old.coverage, self.new.left_out
        return old.dropped + new[0] - self.links.total, old.skipped + new[1]

    def __len__(self) -> int:
        return self.counts().total

    def counts(self) -> Counts:
        """Of both together."""
        return self._both

    @cached_property
    def _both(self) -> Counts:
        return _sum_of([self.parts[0], self.links, self.parts[1]])

    @cached_property
    def going_on(self) -> tuple[Array, Array]:
        """The old episodes that go on (places among the open ones), and the new rows with which they do."""
        ends = self.old.open_ends
        none = np.zeros(0, np.int64)
        return (none, none) if ends is None else ends.going_on(self.new.trace())

    @cached_property
    def links(self) -> Counts:
        """The old rows that were not counted because what followed them stands in the new log."""
        (mine, there), ends, later = self.going_on, self.old.open_ends, self.new.trace()
        counts, (old, new) = self.parts[0], self.recoded
        if ends is None or later is None:
            return replace(counts, **{name: getattr(counts, name)[:0] for name in ROWS}, **_none_of(counts))
        linked = ends.linked(mine, later, there)
        mine, there = mine[linked], there[linked]
        rows = Rows(
            old.s[ends.s[mine]], old.a[ends.a[mine]], ends.r[mine], new.s[later.s[there]], np.zeros(mine.size, bool)
        )
        costs = {cost: ends.costs[cost][mine] for cost in counts.cost_sums}
        known = counts.reward_range, counts.range_known, costs, counts.cost_ranges, counts.cost_ranges_known
        return Counts.from_rows(rows, self.states, self.actions, *known)

    @cached_property
    def parts(self) -> tuple[Counts, Counts]:
        """The counts of the old rows and of the new."""
        old, new = self.recoded
        return old.counts(self.old.counts), new.counts(self.new.counts())

    @property
    def open_ends(self) -> OpenEnds | None:
        """The episodes that may go on once more: those of the new log, and old ones that have no new row."""
        now, then = open_ends_of(self.new), self.old.open_ends
        if now is None or then is None:
            return now
        left = np.setdiff1d(np.arange(len(then.names)), self.going_on[0])
        (old, new), both = self.recoded, ("r", "t", "uncounted")
        return OpenEnds(
            [*(then.names[i] for i in left.tolist()), *now.names],
            np.concatenate([old.s[then.s[left]], new.s[now.s]]),
            np.concatenate([old.a[then.a[left]], new.a[now.a]]),
            **{name: np.concatenate([getattr(then, name)[left], getattr(now, name)]) for name in both},
            costs={cost: np.concatenate([then.costs[cost][left], now.costs[cost]]) for cost in now.costs},
            step=now.step,
        )

    def counts_between(self, cuts: Sequence[int]) -> list[Counts]:
        """The counts between borders; one among the old rows moves to the nearest that was kept."""
        pieces = [*(self.recoded[0].counts(block) for block in self.old.blocks), self.links]
        kept = np.cumsum([0, *(piece.total for piece in pieces)])
        size = int(kept[-1])
        inside = [cut - size for cut in cuts if size < cut < len(self)] if self.new.has_order else []
        rows = [0, *inside, len(self) - size]
        later = [self.new.counts()] if not inside else self.new.counts_between(rows)
        pieces += [self.recoded[1].counts(piece) for piece in later]
        ends = np.cumsum([0, *(piece.total for piece in pieces)])
        borders = sorted({0, int(ends[-1]), *(_nearest(ends, kept, size, cut) for cut in cuts)})
        return [
            _sum_of([piece for piece, e in zip(pieces, ends[1:], strict=True) if begin < e <= end])
            for begin, end in pairwise(borders)
        ]

    def starts(self) -> Array:
        """(S,) how often each state is the first of an episode."""
        if self.old.first is None:
            raise LogError("the old rows do not say where episodes begin, or the run was saved before that was kept")
        (old, new), trace = self.recoded, self.new.trace()
        begun = self.new.starts()
        if trace is not None:
            begun = begun - np.bincount(trace.s[self.going_on[1]], minlength=begun.size)
        return old.over_states(self.old.first) + new.over_states(begun)

    def coverage(self, level: float = 0.01) -> Coverage:
        """What both can tell and what they cannot."""
        old, new = self.old.coverage, self.new.coverage(level)
        then = {what: found_before(one) for what, one in old.drift.items()}
        drift = {
            what: _worst([*(one[what] for one in (then, new.drift) if what in one), found])
            for what, found in between(*self.parts, level).items()
        }
        checks: dict[str, list[Finding]] = {}
        for check in (*map(found_before, old.checks), *new.checks):
            checks.setdefault(check.what, []).append(check)
        memory = [found_before(old.memory)] if old.memory is not None else []
        memory += [new.memory] if new.memory is not None else []
        return Coverage(
            self.counts(),
            len(self),
            *self.left_out,
            jumps=None if old.jumps is None or new.jumps is None else old.jumps + new.jumps,
            drift=drift,
            drift_by=new.drift_by or old.drift_by,
            level=level,
            memory=_worst(memory) if memory else None,
            remarks=tuple(dict.fromkeys((*old.remarks, *new.remarks, KEPT))),
            checks=tuple(_worst(found) for found in checks.values()),
            doubts=tuple(dict.fromkeys((*old.doubts, *new.doubts, *self._overlap))),
        )

    @property
    def _overlap(self) -> tuple[str, ...]:
        """What to say where the new rows begin before the old ones end."""
        trace = self.new.trace()
        then, now = self.old.span, None if trace is None else trace.span
        if then is None or now is None or now[0] > then[1]:
            return ()
        return (f"the new log begins before the old one ends: {ORDER}, and {TWICE}",)

    def trace(self) -> Trace | None:
        """None: the old rows are not there."""
        return None

    def check_ends(self) -> None:
        """The old rows were looked at when they were counted."""
        self.new.check_ends()

    def stream(self) -> Stream:
        """The old rows are not there."""
        raise LogError("the old rows were not saved, only their counts; what reads row after row needs both logs")

    def number_rows(self) -> NumberRows:
        """The old rows are not there."""
        raise LogError("the old rows were not saved, only their counts; states of numbers are learned from both logs")


def check_alike(old: Counted, new: Log) -> None:
    """A LogError where the new log is of another kind: other columns, bins or costs."""
    for part, names in (("state", new.states.names), ("action", new.actions.names)):
        then = getattr(old.counts, f"{part}s").names
        if then != names:
            raise LogError(
                f"{new.source}: the {part} is {', '.join(names)}, and that of the run is {', '.join(then)}; "
                "a run can be asked about rows of the same columns only",
                argument=part,
                value=names,
            )
    then, now = set(old.counts.cost_sums), set(new.counts().cost_sums)
    if then != now:
        said = [", ".join(sorted(names)) or "none" for names in (now, then)]
        raise LogError(f"{new.source}: the costs are {said[0]}, and those of the run are {said[1]}", argument="costs")
    for column in {*old.read.bins, *new.bins} & {*new.states.names, *new.actions.names}:
        edges = tuple(new.bins[column].edges) if column in new.bins else ()
        if edges != tuple(old.read.bins.get(column, ())):
            right = f"read it with bins={{{column!r}: {list(old.read.bins.get(column, ()))}}}"
            raise LogError(f"{new.source}: {column} is cut into other bins than in the run; {right}", argument="bins")


def _nearest(ends: Array, kept: Array, size: int, cut: int) -> int:
    """The border that a cut becomes."""
    among = kept if cut <= size else ends
    return int(among[np.abs(among - cut).argmin()])


def _none_of(counts: Counts) -> dict[str, dict[str, Array]]:
    """Sums of costs over no rows."""
    return {x: {cost: values[:0] for cost, values in getattr(counts, x).items()} for x in COSTS}


def _sum_of(pieces: Sequence[Counts]) -> Counts:
    total = pieces[0]
    for piece in pieces[1:]:
        total = total.merge(piece)
    return total


def found_before(finding: Finding) -> Finding:
    """What a test found in the old rows, said so: it was not tested again, since the rows are not there."""
    if not finding.found or finding.words.endswith(BEFORE):
        return finding
    return replace(finding, words=f"{finding.words.rstrip('.')}. {BEFORE}")


def _worst(findings: Sequence[Finding]) -> Finding:
    """That which speaks most against the log; every one of them was tested at its own level."""
    worst = min(findings, key=lambda finding: (not finding.found, finding.p_value))
    return replace(worst, tested=sum(finding.tested for finding in findings))
