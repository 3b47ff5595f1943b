"""Checks of a log whose state has numbers: those that make sense without labels, on cells of nearly like rows.

ends        rows at which recordings stopped, beside the others (ends.py)
gaps        rows before a gap in a regular clock, beside the others
set aside   rows that were set aside and can still be read, beside the others
cycle       a rhythm in time (cycles.py), among rows that did not end: not by ranks but by means, in standard deviations
            of each small cell. Where steps are counted in each episode, states are elsewhere early and late in it. The
            mean of what is left is 0 wherever a state is; but noise that is skewed, such as a rare failure, has other
            ranks where it is rarer, and these would look like a rhythm. What is left of the function would too: a
            rhythm must come back in turn after turn (turns.py)
recent      the end of the log against all before (recent.py), among the same rows, by means too: where a blow now and
            then is nearly all of the noise, a bend that nobody notices beside it decides the ranks of all other rows

Each compares what is left of rewards, costs and next numbers once the numbers of the state are taken out
(number_cells.py). Whether actions or labels differ is not asked, since they depend on numbers; nor whether bins lose
something, there are none, or rows before matter. Together they share one level.
"""

from __future__ import annotations

import numpy as np

from dualq.base import few, p_value
from dualq.logs.checks.cycles import cycle
from dualq.logs.checks.ends import ends
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.gaps import before_gaps
from dualq.logs.checks.marked import difference_in
from dualq.logs.checks.number_cells import cells_of
from dualq.logs.checks.recent import recent
from dualq.logs.checks.trace import Trace
from dualq.logs.checks.turns import comes_again

Array = np.ndarray

CHECKS = 5


def number_checks(trace: Trace | None, level: float = 0.01) -> tuple[Finding, ...]:
    """What the checks say; nothing where rows have no order, or are too few."""
    cells = cells_of(trace) if trace is not None and trace.raw else None
    if cells is None:
        return ()
    share = level / CHECKS
    asked = (
        ends(cells.trace, share),
        _gaps(cells.trace, share),
        _set_aside(cells.trace, share),
        cycle(cells.going, share, _as_it_is, comes_again),
        recent(cells.going, share, _as_it_is),
    )
    untested = [_untested(cells.untested)] if cells.untested else []
    return (*(finding for finding in asked if finding is not None), *untested)


def _as_it_is(pair: Array, e: Array) -> Array:
    return e


def _gaps(trace: Trace, level: float) -> Finding | None:
    if trace.gap is None:
        return None
    before, others = before_gaps(trace)
    whose = f"rows before gaps in {trace.names.get('time', 'time')}"
    return _marked("gaps", trace, before, others, level, whose, "rows may be missing because of what they showed")


def _set_aside(trace: Trace, level: float) -> Finding | None:
    if not trace.bad.any():
        return None
    return _marked(
        "set aside", trace, trace.bad, ~trace.bad, level, "the rows set aside", "they are not missing by chance"
    )


def _marked(what: str, trace: Trace, marked: Array, others: Array, level: float, whose: str, means: str) -> Finding:
    """Whether marked rows are like the others in rewards, costs and next numbers."""
    numbers = {trace.names.get("reward", "reward"): trace.r, **trace.costs}
    found = {column: difference_in(trace, marked, others, y) for column, y in numbers.items()}
    p = min(1.0, len(found) * min(one.p_value for one in found.values()))
    tested = max(one.tested for one in found.values())
    if not tested:
        return Finding(what, False, 1.0, 0, None, f"{what}: {whose} are too few to compare them with the others")
    named = [one.words(whose, column) for column, one in found.items() if one.p_value <= level / len(found)]
    if not named:
        return Finding(what, False, p, tested, None, f"{what}: {whose} are like the others ({p_value(p)})")
    return Finding(what, True, p, tested, None, f"{'; '.join(named)}: {means}")


def _untested(names: tuple[str, ...]) -> Finding:
    words = f"whether {few(names, 5)} changed was not tested: what is left of it once numbers are taken out is no noise"
    return Finding("numbers", False, 1.0, 0, None, words)
