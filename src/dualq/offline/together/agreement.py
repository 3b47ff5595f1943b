"""Do the logs of several agents fit together? What they agree on, or which agent's log differs, and in what.

Every agent tells the others how its log was read (`Common.words`), and each finds the same answer from what all said:

    columns, costs, bins, ranges, episodes    must be the same
    labels of states and actions              may differ: houses see different ones. The labels of all are put together,
                                              in the order in which one pooled log would have them
    which actions exist in a state            put together; two houses must not contradict each other
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from dualq.base import Json, Label, Labels, LogError, few
from dualq.logs import Bins, Log

Array = np.ndarray
Range = tuple[float, float]
Words = dict[str, Any]  # JSON

KINDS = {int: "whole numbers", float: "numbers", str: "words", bool: "yes or no"}


@dataclass(frozen=True, eq=False)
class Common:
    """How a log was read; of all logs together, what they agree on."""

    states: Labels
    actions: Labels
    columns: Mapping[str, tuple[str, ...]]
    costs: tuple[str, ...] = ()
    reward_range: Range | None = None  # None: as seen
    cost_ranges: Mapping[str, Range] = field(default_factory=dict)  # those that somebody gave
    episodes: bool = False  # whether the logs know where episodes begin
    bins: Mapping[str, Bins] = field(default_factory=dict)  # how numbers were cut
    available: Array | None = None  # (S, A) which pairs exist, where somebody said so

    def words(self) -> Words:
        """The same as JSON, to be told."""
        return {
            "columns": {part: list(names) for part, names in self.columns.items()},
            "states": _labels_told(self.states),
            "actions": _labels_told(self.actions),
            "costs": list(self.costs),
            "reward_range": None if self.reward_range is None else list(self.reward_range),
            "cost_ranges": {cost: list(ends) for cost, ends in sorted(self.cost_ranges.items())},
            "episodes": self.episodes,
            "bins": {column: list(bins.edges) for column, bins in sorted(self.bins.items())},
            "available": None if self.available is None else self.available.astype(int).tolist(),
        }

    @classmethod
    def of_words(cls, words: Words) -> Common:
        """As another agent told it."""
        available = words["available"]
        return cls(
            _labels_heard(words["states"]),
            _labels_heard(words["actions"]),
            {part: tuple(names) for part, names in words["columns"].items()},
            tuple(words["costs"]),
            None if words["reward_range"] is None else _ends(words["reward_range"]),
            {cost: _ends(ends) for cost, ends in words["cost_ranges"].items()},
            words["episodes"],
            {column: Bins(tuple(edges)) for column, edges in words["bins"].items()},
            None if available is None else np.array(available, bool),
        )


def common_of(log: Log | None) -> Common | None:
    """How one log was read; None where it has no rows."""
    if log is None or not len(log):
        return None
    counts = log.counts()
    return Common(
        log.states,
        log.actions,
        {part: tuple(names) for part, names in log.columns.items()},
        tuple(counts.cost_sums),
        counts.reward_range if counts.range_known else None,
        {cost: counts.cost_ranges[cost] for cost in counts.cost_ranges_known},
        log.has_episodes,
        dict(log.bins),
        log.available,
    )


def agreed(told: Mapping[int, Words]) -> Common:
    """What the logs of these agents agree on; a LogError that names the first agent whose log does not fit."""
    if not told:
        raise LogError("no agent has a row; at least one must", argument="logs")
    logs = {agent: Common.of_words(words) for agent, words in sorted(told.items())}
    (first, wanted), *others = logs.items()
    for agent, found in others:
        _compare(agent, found, first, wanted)
    states, actions = (_together(kind, logs, wanted.bins) for kind in ("state", "action"))
    available = _available(logs, states, actions)
    same = wanted.columns, wanted.costs, wanted.reward_range, wanted.cost_ranges, wanted.episodes, wanted.bins
    return Common(states, actions, *same, available)


# ---- what must be the same


def _compare(agent: int, found: Common, first: int, wanted: Common) -> None:
    for what in ("columns", "costs"):
        theirs, ours = getattr(found, what), getattr(wanted, what)
        if theirs != ours:
            _refuse(agent, f"its {what} are {_listed(theirs)}", f"those of agent {first} are {_listed(ours)}", what)
    for column in sorted({*found.bins, *wanted.bins}):
        _compare_bins(agent, column, found.bins.get(column), first, wanted.bins.get(column))
    if found.reward_range != wanted.reward_range:
        theirs, ours = _said(found.reward_range), _said(wanted.reward_range)
        _refuse(agent, f"its reward range is {theirs}", f"that of agent {first} is {ours}", "reward")
    for cost in wanted.costs:
        theirs, ours = found.cost_ranges.get(cost), wanted.cost_ranges.get(cost)
        if theirs != ours:
            told = f"its range of the cost {cost!r} is {_said(theirs)}"
            _refuse(agent, told, f"that of agent {first} is {_said(ours)}", cost)
    if found.episodes != wanted.episodes:
        knows = f"it {'knows' if found.episodes else 'does not know'} where episodes begin"
        _refuse(agent, knows, f"agent {first} {'does' if wanted.episodes else 'does not'}", "episode")
    if (found.available is None) != (wanted.available is None):
        has = "it says which actions are available" if wanted.available is None else "no available actions are given"
        _refuse(agent, has, f"agent {first} {'does not' if wanted.available is None else 'has them'}", "available")


def _compare_bins(agent: int, column: str, found: Bins | None, first: int, wanted: Bins | None) -> None:
    theirs, ours = (None if bins is None else bins.edges for bins in (found, wanted))
    if theirs != ours:
        words = [f"cut at {few(list(edges), 5)}" if edges else "not cut into bins" for edges in (theirs, ours)]
        hint = f"give all logs the same edges, such as bins={{{column!r}: {list(theirs or ours or ())[:3]}}}"
        raise LogError(
            f"agent {agent}: its column {column!r} is {words[0]}; that of agent {first} is {words[1]}: {hint}",
            argument="bins",
            value=agent,
            column=column,
        )


def _refuse(agent: int, found: str, wanted: str, column: str) -> NoReturn:
    right = "read all logs with the same columns and ranges"
    raise LogError(f"agent {agent}: {found}; {wanted}: {right}", argument="logs", value=agent, column=column)


def _listed(told: Mapping[str, Sequence[str]] | Sequence[str]) -> str:
    if isinstance(told, Mapping):
        return ", ".join(f"{part} {'+'.join(names)}" for part, names in told.items())
    return ", ".join(told) or "none"


def _said(ends: Range | None) -> str:
    return "not given" if ends is None else f"{ends[0]:g} to {ends[1]:g}"


# ---- what is put together


def _together(kind: str, logs: Mapping[int, Common], bins: Mapping[str, Bins]) -> Labels:
    """The labels of all, in the order in which one log would have them; as they are where all have the same."""
    all_ = {agent: log.states if kind == "state" else log.actions for agent, log in logs.items()}
    (first, wanted), *others = all_.items()
    for agent, labels in others:
        _compare_types(kind, agent, labels, first, wanted)
    if all(labels == wanted for _, labels in others):
        return wanted
    if all(isinstance(labels.values, range) for labels in all_.values()):
        return Labels(max(map(len, all_.values())), wanted.names)
    places = [bins[name].labels.index if name in bins else None for name in wanted.names]

    def order(label: Label) -> tuple[Any, ...]:
        parts = label if isinstance(label, tuple) else (label,)
        return tuple(part if place is None else place(part) for part, place in zip(parts, places, strict=True))

    return Labels(sorted({label for labels in all_.values() for label in labels}, key=order), wanted.names)


def _compare_types(kind: str, agent: int, found: Labels, first: int, wanted: Labels) -> None:
    if not len(found) or not len(wanted):
        return
    for (column, theirs), ours in zip(found.columns().items(), wanted.columns().values(), strict=True):
        mine, other = type(theirs[0]), type(ours[0])
        if mine is not other:
            told = f"its {kind} column {column!r} holds {_kind(mine)} ({theirs[0]!r})"
            _refuse(agent, told, f"that of agent {first} {_kind(other)} ({ours[0]!r})", column)


def _kind(kind: type) -> str:
    return KINDS.get(kind, f"values of the type {kind.__name__}")


def _available(logs: Mapping[int, Common], states: Labels, actions: Labels) -> Array | None:
    """(S, A) which pairs exist. Where a house lists actions of a state, those that it does not name are not there."""
    if any(log.available is None for log in logs.values()):
        return None
    told = np.full((len(states), len(actions)), -1)
    for agent, log in logs.items():
        assert log.available is not None
        s, a = places_among(log.states, states), places_among(log.actions, actions)
        listed = ~log.available.all(axis=1)
        own = np.full(told.shape, -1)
        own[s[listed]] = 0
        own[np.ix_(s, a)] = log.available
        against = np.argwhere((own >= 0) & (told >= 0) & (own != told))
        if against.size:
            where, which = states.describe(int(against[0, 0])), actions.describe(int(against[0, 1]))
            _refuse(agent, f"it has another word on {which} in {where}", "another agent's available=", "available")
        told = np.maximum(told, own)
    return told != 0


def places_among(labels: Labels, all_: Labels) -> Array:
    """Where each label stands among the labels of all."""
    return np.array([all_.index(label) for label in labels], np.int64)


# ---- labels as JSON: an Arrow column each, so that 3 stays 3 and a date a date


def _labels_told(labels: Labels) -> Json:
    if isinstance(labels.values, range):
        return {"names": list(labels.names), "count": len(labels)}
    import pyarrow as pa

    table = pa.table({str(i): pa.array(column) for i, column in enumerate(labels.columns().values())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return {"names": list(labels.names), "table": base64.b64encode(sink.getvalue()).decode()}


def _labels_heard(words: Words) -> Labels:
    names = tuple(words["names"])
    if "count" in words:
        return Labels(int(words["count"]), names)
    import pyarrow as pa

    table = pa.ipc.open_stream(pa.py_buffer(base64.b64decode(words["table"]))).read_all()
    columns = [column.to_pylist() for column in table.columns]
    return Labels(columns[0] if len(columns) == 1 else list(zip(*columns, strict=True)), names)


def _ends(ends: Sequence[float]) -> Range:
    return ends[0], ends[1]


def checked_discount_of_all(discount: float | Sequence[float], size: int) -> float:
    """One discount; a LogError where agents have several."""
    given = np.atleast_1d(np.asarray(discount, float))
    if given.size not in (1, size):
        raise LogError(f"{given.size} discounts were given for {size} agents; give one", argument="discount")
    differs = np.flatnonzero(given != given[0])
    if differs.size:
        a = int(differs[0])
        two = f"agent {a}'s discount is {given[a]:g} and agent 0's {given[0]:g}"
        raise LogError(f"{two}; agents that learn together need the same", argument="discount", value=float(given[a]))
    return float(given[0])
