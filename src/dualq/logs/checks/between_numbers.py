"""Two logs whose states are numbers, compared: did the same decision in nearly the same state pay or lead elsewhere?

    cells     of the rows of both together (number_cells.py): nearly like states, what their numbers say taken out
    rewards   rows of one cell and action, new beside old: do they pay the same?
    dynamics  and does the next state have the same numbers?

States and actions may come up as often as they like: a policy that was put to use changes that, and not the system. It
also moves rows within their cell, where what is left of the bend of a function then looks like a change. So a change
must be large too: MATTERS of the deviation that rows of one cell and action have among themselves.
"""

from __future__ import annotations

import numpy as np

from dualq.base import p_value
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.marked import difference_in
from dualq.logs.checks.number_cells import cells_of
from dualq.logs.checks.trace import Trace
from dualq.logs.number_rows import NumberRows

Array = np.ndarray

MATTERS = 0.25
WHAT = {"rewards": "rewards", "dynamics": "the system"}


def between_numbers(old: NumberRows, new: NumberRows, level: float) -> dict[str, Finding]:
    """What changed from old rows to new, of the same columns and actions; each kind at the same level.

    Nothing where rows are too few, or numbers explain what they pay so well that nothing is left to compare.
    """
    trace = _both(old, new)
    cells = cells_of(trace)
    if cells is None:
        return {}
    trace, marked = cells.trace, np.arange(len(old) + len(new)) >= len(old)
    numbers = {"rewards": {"reward": trace.r} if "reward" not in cells.untested else {}, "dynamics": trace.costs}
    return {what: _compared(what, trace, marked, found, level) for what, found in numbers.items() if found}


def _both(old: NumberRows, new: NumberRows) -> Trace:
    """The rows of both one after another; next numbers stand in columns of their own."""

    def each(name: str) -> Array:
        return np.concatenate([getattr(old, name), getattr(new, name)])

    names, n = old.columns.numbers, len(old) + len(new)
    here, there = ([getattr(rows, part) for rows in (old, new)] for part in ("state", "next_state"))
    categories = np.concatenate([states.categories for states in here])
    s = np.unique(categories, axis=0, return_inverse=True)[1].reshape(-1) if categories.shape[1] else np.zeros(n, int)
    s = np.where((categories >= 0).all(axis=1), s, -1)
    raw, after = (np.concatenate([states.numbers for states in part]) for part in (here, there))
    over = each("ended")
    return Trace(
        s=s,
        a=each("a"),
        r=each("r"),
        s_next=np.where(over, -1, 0),
        ended=over,
        cut=np.zeros(n, bool),
        bad=np.zeros(n, bool),
        episode=np.arange(n),
        t=np.full(n, np.nan),
        shape=(int(s.max(initial=0)) + 1, len(old.actions)),
        raw={name: raw[:, j] for j, name in enumerate(names)},
        raw_next={name: after[:, j] for j, name in enumerate(names)},
        restarts=True,
    )


def _compared(what: str, trace: Trace, marked: Array, numbers: dict[str, Array], level: float) -> Finding:
    found = {name: difference_in(trace, marked, ~marked, y) for name, y in numbers.items()}
    p = min(1.0, len(found) * min(one.p_value for one in found.values()))
    tested = max(one.tested for one in found.values())
    large = {
        name: abs(one.marked - one.others) > MATTERS * _deviation(trace, numbers[name]) for name, one in found.items()
    }
    found = {name: one for name, one in found.items() if large[name] and len(numbers) * one.p_value <= level}
    if not found:
        return Finding(
            what,
            False,
            p,
            tested,
            None,
            f"no sign that {WHAT[what]} changed between the old rows and the new ({p_value(p)})",
        )
    first = min(found, key=lambda name: found[name].p_value)
    words = found[first].words("the new rows", first)
    return Finding(what, True, p, tested, None, f"{WHAT[what]} changed since the policy was learned: {words}")


def _deviation(trace: Trace, y: Array) -> float:
    """Of numbers around the mean of their cell and action."""
    use = (trace.s >= 0) & (trace.a >= 0) & np.isfinite(y)
    pair, y = trace.pair[use], y[use]
    many = np.maximum(np.bincount(pair), 1)
    return float((y - (np.bincount(pair, y) / many)[pair]).std()) if y.size else 0.0
