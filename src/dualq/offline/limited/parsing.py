"""Limits as a user gives them, and what they mean in one log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np

from dualq.base import LogError, nearest
from dualq.logs import Counts
from dualq.model import MDP, ActionCap, AnyLimit, Limit, Near, TablePolicy, Words, as_limits, near, parse
from dualq.offline.limited.asked import Asked
from dualq.offline.limited.estimates import Estimates

Array = np.ndarray
LimitsGiven: TypeAlias = str | AnyLimit | Mapping[str, str | float | AnyLimit] | Iterable[str | AnyLimit]

TOTAL, DISTANCE = "total ", "distance"  # "total stockout": the discounted total; "distance": from the logged policy


def asked_for(limits: LimitsGiven, estimates: Estimates) -> tuple[Asked, ...]:
    """Limits as a user gives them, for this log.

    A name is a cost of the log, "total " and a cost for its discounted total, or "distance" for the total variation
    from the logged behaviour.
    """
    counts, careful = estimates.counts, estimates.careful
    scales = {**dict.fromkeys(counts.cost_sums, 1.0)}
    scales |= {TOTAL + column: 1.0 / (1.0 - careful.mdp.discount) for column in counts.cost_sums}
    columns = {name: name.removeprefix(TOTAL) if name not in counts.cost_sums else name for name in scales}
    given = _read(limits, careful.behaviour, tuple(scales))
    costs = {name: scales[name] * estimates.means(columns[name]) for name in _names(given) & scales.keys()}
    found = as_limits(given, costs)
    words = {word.name for word in given if isinstance(word, Words)}
    asked = []
    for name, limit in found.items():
        if name in words and name in scales:
            _check_varies(columns[name], counts)
            asked.append(Asked(limit, columns[name], scales[name]))
        else:
            asked.append(Asked(_fitted(limit, careful.mdp, counts.over)))
        asked[-1].limit.check_fits(careful.mdp)
    return tuple(asked)


def _read(limits: LimitsGiven, behaviour: TablePolicy, costs: tuple[str, ...]) -> list[AnyLimit | Words]:
    """One list of limits and words, where words name a cost of the log."""
    read: list[AnyLimit | Words] = []
    for limit in _listed(limits):
        words = parse(limit) if isinstance(limit, str) else limit
        if isinstance(words, Words) and words.name not in costs:
            if not (words.name == DISTANCE and words.sense == "<="):
                raise LogError(_unknown(words.name, costs))
            words = near(behaviour, words.bound, DISTANCE)
        read.append(words)
    return read


def _listed(limits: LimitsGiven) -> Iterable[str | AnyLimit | Words]:
    """The limits one by one; {"late": 0.1} and {"late": "<=0.1"} as words."""
    if isinstance(limits, str | Limit | ActionCap | Near):
        return [limits]
    if not isinstance(limits, Mapping):
        return limits
    return [
        value if isinstance(value, Limit | ActionCap | Near)
        else parse(f"{name}{value}") if isinstance(value, str) else parse(f"{name}<={value}")
        for name, value in limits.items()
    ]  # fmt: skip


def _unknown(name: str, costs: tuple[str, ...]) -> str:
    if not costs:
        return f"a limit on {name!r}, but the log has no costs; name its columns: costs=[{name!r}], or --cost {name}"
    close = nearest(name, costs)
    there = (
        f"did you mean {close!r}?"
        if close is not None
        else f"its costs: {', '.join(c for c in costs if TOTAL not in c)}"
    )
    return f"the log has no cost {name!r}; {there}"


def _names(given: list[AnyLimit | Words]) -> set[str]:
    return {words.name for words in given if isinstance(words, Words)}


def _fitted(limit: AnyLimit, mdp: MDP, over: Array) -> AnyLimit:
    """A limit on the log's states, on the model's, which may have "(end)" as one more; after the end nothing is paid.

    A cost per transition was averaged over the log's own frequencies and is known no better than these: refused.
    """
    short = (mdp.num_states - 1, mdp.num_actions)
    if isinstance(limit, ActionCap):
        pairs = np.vstack([limit.pairs, np.zeros((1, short[1]), bool)]) if limit.pairs.shape == short else limit.pairs
        limit = ActionCap(limit.name, pairs, limit.bound)
        limit.check_fits(mdp)
        return ActionCap(limit.name, pairs & ~over[:, None], limit.bound)
    if not isinstance(limit, Limit):
        return limit
    if limit.averaged:
        raise LogError(
            f"the limit {limit.name!r} has a cost per transition; give the log that cost as a column, costs=[...]"
        )
    cost = np.vstack([limit.cost, np.zeros((1, short[1]))]) if limit.cost.shape == short else limit.cost
    limit = Limit(limit.name, cost, limit.sense, limit.bound)
    limit.check_fits(mdp)
    cost = np.where(over[:, None], 0.0, limit.on(mdp))
    if cost.any() < limit.on(mdp).any():
        raise LogError(f"the limit {limit.name!r} is on ends of episodes alone, and after the end nothing is counted")
    return Limit(limit.name, cost, limit.sense, limit.bound)


def _check_varies(column: str, counts: Counts) -> None:
    """A LogError where a cost is the same in every row and nobody said what else it can be."""
    low, high = counts.cost_ranges[column]
    if low == high and column not in counts.cost_ranges_known:
        raise LogError(
            f"the cost {column!r} is {low:g} in every row, which tells nothing of a limit on it; say what it can be: "
            f"cost_ranges={{{column!r}: (low, high)}}"
        )
