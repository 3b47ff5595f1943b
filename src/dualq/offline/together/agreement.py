"""Do the logs of several agents fit together? What they have in common, or which agent's log differs, and in what."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dualq.base import Labels, LogError, few
from dualq.logs import Log
from dualq.offline.together.agents import Common


def common_to(logs: Sequence[Log | None]) -> Common:
    """What all logs that have rows share; a LogError that names the first agent whose log differs."""
    there = {agent: log for agent, log in enumerate(logs) if log is not None and len(log)}
    if not there:
        raise LogError("no agent has a row; at least one must", argument="logs")
    first, *others = there
    wanted = common_of(there[first])
    for agent in others:
        _compare(agent, common_of(there[agent]), first, wanted)
    return wanted


def common_of(log: Log) -> Common:
    """What must be the same in all logs, of one."""
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


def _compare(agent: int, found: Common, first: int, wanted: Common) -> None:
    theirs, ours = found.words(), wanted.words()
    for what in ("columns", "costs", "bins"):
        if theirs[what] != ours[what]:
            _refuse(agent, f"its {what} are {theirs[what]}", f"those of agent {first} are {ours[what]}", what)
    for kind, a, b in (("state", found.states, wanted.states), ("action", found.actions, wanted.actions)):
        if a != b:
            _refuse(agent, *_other_labels(kind, a, b, first), kind)
    if found.reward_range != wanted.reward_range:
        _refuse(
            agent, f"its reward range is {_said(found.reward_range)}", _range_of(first, wanted.reward_range), "reward"
        )
    for cost in wanted.costs:
        mine, others = found.cost_ranges.get(cost), wanted.cost_ranges.get(cost)
        if mine != others:
            _refuse(agent, f"its range of the cost {cost!r} is {_said(mine)}", _range_of(first, others), cost)
    if found.episodes != wanted.episodes:
        has, has_not = "it knows where episodes begin", "it does not know where episodes begin"
        _refuse(
            agent, has if found.episodes else has_not, f"agent {first} {'does' if wanted.episodes else 'does not'}", ""
        )
    if theirs["available"] != ours["available"]:
        _refuse(agent, "other actions are available", f"in the log of agent {first}", "available")


def _refuse(agent: int, found: str, wanted: str, column: str) -> None:
    right = "read all logs with the same columns, labels and ranges"
    raise LogError(f"agent {agent}: {found}; {wanted}: {right}", argument="logs", value=agent, column=column)


def _other_labels(kind: str, found: Labels, wanted: Labels, first: int) -> tuple[str, str]:
    """The labels that one has and the other lacks."""
    more, less = ([x for x in a if x not in b] for a, b in ((found, wanted), (wanted, found)))
    if not more and not less:
        return f"its {kind}s are in another order", f"agent {first} has {few(list(wanted), 5)}"
    has = f"it has the {kind} {few(more, 5)}, which agent {first} has not" if more else ""
    lacks = f"it lacks the {kind} {few(less, 5)}, which agent {first} has" if less else ""
    how = "name the labels that a log lacks with available={state: [actions]} when it is read"
    return "; ".join(words for words in (has, lacks) if words), how


def _said(ends: tuple[float, float] | None) -> str:
    return "not given" if ends is None else f"{ends[0]:g} to {ends[1]:g}"


def _range_of(agent: int, ends: tuple[float, float] | None) -> str:
    return f"that of agent {agent} is {_said(ends)}"


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
