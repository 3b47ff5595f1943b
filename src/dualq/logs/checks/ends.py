"""Ends: are last rows of episodes like the others, and does anything say how episodes end?

Asked    An episode whose end is not flagged may have ended with its last row, or only its recording may have stopped
         there: the one is worth nothing from then on, the other goes on, and no row tells which. Nothing need be asked
         where all recordings stop together: at the last time of the log, or after the same number of rows (with a
         counter of steps the latest 3% of episodes may be shorter: they were under way). Nor where some end is flagged:
         the others are then cut off. Nor where a next_state column says that every episode went on in a state which
         other rows leave, and last rows earn what others do and lead where others lead. Else `learn` stops and asks.
Finding  Rows at which a recording stopped, beside rows that were followed by another: do they earn, or cost, otherwise
         in the same state and action (marked.py)? Then recordings stopped because of what happened, or the last row
         of an episode is of another kind: what was learned from the others does not hold there. The false alarms of all
         comparisons together are at most `level`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dualq.base import Labels, LogError, count, p_value
from dualq.logs.checks.findings import Finding
from dualq.logs.checks.marked import Difference, difference_in, other_choices
from dualq.logs.checks.trace import Trace
from dualq.logs.counts import Counts
from dualq.logs.reading.counting import Counted
from dualq.logs.reading.engines import reading, whole_number
from dualq.logs.reading.episodes import Episodes, clock_of, per_episode
from dualq.logs.reading.expressions import Kind, differ
from dualq.logs.reading.queries import Questions
from dualq.logs.reading.schema import ROW

Array = np.ndarray

LEVEL = 0.01  # of what is named when the question is asked
FEWEST = 5  # last rows
UNDER_WAY = 0.03  # of the episodes, the latest: they may be shorter than the others


def ends(trace: Trace, level: float) -> Finding | None:
    """Whether rows at which recordings stopped are like the others; None where there are none."""
    last, others = _last(trace), _others(trace)
    if last.sum() < FEWEST:
        return None
    found = _differences(trace, last, others)
    p = min(1.0, len(found) * min(one.p_value for one in found.values()))
    tested = max(one.tested for one in found.values())
    if not tested:
        return Finding("ends", False, 1.0, 0, None, "ends: too few last rows to compare them with the others")
    named = [one.words("last rows", c) for c, one in found.items() if one.p_value <= level / len(found)]
    if not named:
        words = f"no sign that recordings stopped because of what happened ({p_value(p)})"
        return Finding("ends", False, p, tested, None, words)
    words = (
        f"{'; '.join(named)}: recordings stopped because of what happened, or episodes ended there (--terminal last)"
    )
    return Finding("ends", True, p, tested, None, words)


def _last(trace: Trace) -> Array:
    """Rows at which a recording stopped; not for the clock's sake alone, where ends in that moment look the same."""
    last = trace.last & ~trace.ended & ~trace.bad
    return last & (trace.t < trace.t.max()) if trace.early else last


def _others(trace: Trace) -> Array:
    return ~trace.last & ~trace.ended & ~trace.bad


def _differences(trace: Trace, last: Array, others: Array) -> dict[str, Difference]:
    numbers = {trace.names.get("reward", "reward"): trace.r, **trace.costs}
    return {column: difference_in(trace, last, others, x) for column, x in numbers.items()}


# ---- the question


def check_said(name: str, counted: Counted, facts: Episodes | None, traced: Callable[[], Trace | None]) -> None:
    """A LogError where episodes stop early, and nothing says whether they ended there; of a log in an engine."""
    q = counted.questions
    if not q.e or q.schema.time is None or q.last is not None or counted.counts.ended.any():
        return
    if facts is None or facts.count < 2 or facts.last[0] == facts.last[1] or facts.lengths[0] == facts.lengths[1]:
        return
    with reading(name):
        early = _early(q, facts)
    trace = traced() if early else None
    if trace is None:
        return
    last = _last(trace) & ~trace.cut
    labelled = not q.kept  # where numbers are left out of states, these say nothing of how episodes end
    named = _named(counted.counts.states, trace, last) if labelled else []
    if labelled and q.schema.next_state and not named and not _dead_ends(counted.counts, trace, last):
        return
    many = f"{early:,} of {count(facts.count, 'episode')} {'stops' if early == 1 else 'stop'}"
    why = f" ({'; '.join(named)})" if named else ""
    unsaid = f"before the end of the recording, and no column says whether they ended there{why}"
    ended, stopped = 'terminal="last" (--terminal last)', 'truncated="last" (--truncated last)'
    ended += " if they did" + ("" if q.schema.time == ROW else ' ("early" if the others did not)')
    right = f"give {ended}, or {stopped} if only the recording did"
    raise LogError(f"{name}: {many} {unsaid}; {right}")


def _early(q: Questions, facts: Episodes) -> int:
    """How many episodes stop before the end of the recording, and are not flagged as cut off."""
    more = {"cut_at": lambda table: clock_of(table.t).max(where=table.cut)} if q.schema.truncated is not None else {}
    per = per_episode(q, **more)
    before = per["last"] < (facts.rows - facts.count if q.schema.time == ROW else facts.last[1])
    early = per.filter(before & (per["rows"] < facts.lengths[1]))
    if more:
        early = early.filter(differ(early["cut_at"], early["last"]).fill_null(True))
    stopped = whole_number(early.count())
    kind = per[q.e[0]].type()
    if q.counter and 0 < stopped <= max(1, UNDER_WAY * facts.count) and len(q.e) == 1 and _runs(kind):
        since = early[q.e[0]].min().to_pyarrow().as_py()
        if whole_number(per.filter(per[q.e[0]] >= since).count()) <= max(1, UNDER_WAY * facts.count):
            return 0
    return stopped


def _runs(kind: Kind) -> bool:
    return kind.is_numeric() or kind.is_temporal()


def _dead_ends(counts: Counts, trace: Trace, last: Array) -> bool:
    """Whether some last row leads to a state that no row leaves, or last rows lead elsewhere than others do."""
    after, pairs = trace.s_next[last], trace.shape[0] * trace.shape[1]
    left = np.asarray(counts.visits.any(axis=1))
    if (after < 0).any() or not left[after].all():
        return True
    return other_choices(last, _others(trace), np.where(trace.a >= 0, trace.pair, -1), trace.s_next, pairs) <= LEVEL


def _named(states: Labels, trace: Trace, last: Array) -> list[str]:
    """What differs in last rows: rewards and costs in the same state and action, states, actions in the same state."""
    others = _others(trace)
    found = _differences(trace, last, others)
    level = LEVEL / (len(found) + 2)
    named = [one.words("last rows", column) for column, one in found.items() if one.p_value <= level]
    nowhere = np.zeros(len(trace), np.int64)
    p = other_choices(last, others, nowhere, trace.s, 1)
    if p <= level:
        here, there = (np.bincount(trace.s[rows & (trace.s >= 0)], minlength=trace.shape[0]) for rows in (last, others))
        most = int((here / max(here.sum(), 1) - there / max(there.sum(), 1)).argmax())
        shares = f"{here[most] / here.sum():.0%} of last rows, {there[most] / max(there.sum(), 1):.0%} of the others"
        named.append(f"they stop in other states, such as {states.describe(most)}: {shares} ({p_value(p)})")
    p = other_choices(last, others, trace.s, trace.a, trace.shape[0])
    if p <= level:
        named.append(f"last rows have other actions in the same states ({p_value(p)})")
    return named
