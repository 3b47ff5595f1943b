"""update: a fit that has learned from more rows; of the old ones their counts are enough.

    counts of both -> careful model -> saddle point -> certificate        as `learn` does with one log of all rows

The model, the policy and the estimates are those of one log of all rows: counts are all that they need. So is the
start, where first states were counted. What needs the order of rows, or who shared a day, is put together from both
parts (joined.py): tests, blocks of the certificate, by how much errors of rows that share something are too small (the
larger of the two factors), what episodes really earned (the mean over the episodes of both).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np

from dualq.base import LogError, door
from dualq.logs import Argument, Log, Moment, Start, read_log, returns_of
from dualq.model import AnyLimit
from dualq.offline.approximate.fit import NumberFit
from dualq.offline.careful.clusters import Groups
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.fit import SELDOM, Fit
from dualq.offline.joined import JoinedLog, check_alike, found_before, recodings
from dualq.offline.limited.asked import Asked
from dualq.offline.shapes import PolicyChange, Updated
from dualq.offline.stages import Counted, Modelled, count, model, prove, read, shared_factors, solve, with_shared_errors
from dualq.offline.summary import estimate_summary
from dualq.offline.together.iterated import SHARE_COUNTS, IterateFit

Array = np.ndarray

MOST_CHANGES = 20  # states that are listed


@door
def update(
    fit: Fit | NumberFit | IterateFit,
    log: object,
    *,
    since: Moment | None = None,
    progress: Callable[[str], None] | None = None,
    **columns: Argument,
) -> Fit:
    """Learn on: the old rows of a fit, of which it keeps the counts, and the rows of a new log together.

    Parameters
    ----------
    fit : Fit
        What was learned before, or `dualq.load("run/")`. Discount, confidence, limits and start stay as they were.
    log : Log, or anything that `read_log` reads
        The new rows, later than the old ones. They are read as the old ones were: the same columns, the same bins.
    since : number, date or str, optional
        Forget rows before this time. All old rows are forgotten if they are earlier, and none if they are later; a
        time among them is refused, as their counts cannot be cut.
    progress : callable, optional
        Called with the name of each stage when it begins.
    columns
        Of `read_log`, where the new log is written otherwise than the old one.

    Returns
    -------
    Fit
        With `fit.updated`: in which states the policy changed, and why.

    Examples
    --------
    >>> import dualq
    >>> two = dualq.problems.two_state()
    >>> old, new = (two.record(steps=500, seed=seed) for seed in (1, 2))
    >>> fit = dualq.update(dualq.learn(old, discount=0.9), new)
    >>> fit.counts.total
    1000
    """
    begin = progress or (lambda stage: None)
    old = _table_of(fit)
    begin("Reading the new log")
    new = opened_like(old, log, **columns, since=since)
    check_alike(old.counted, new)
    begin("Counting both")
    if since is not None and _forgotten(old.counted, new, since):
        counted = count(read(new), _start_of(old), old.modelled.discount)
        modelled = model(counted, old.modelled.discount, old.careful.pessimism)
    else:
        joined = JoinedLog(old.counted, new, recodings(old.counts, new.counts(), old.read.bins))
        both = dataclasses.replace(read(joined), reading=old.read.reading)
        counted = count(both, _start_of(old), old.modelled.discount)
        words = {"span": _span(old.counted, new), "where": old.counted.where, "open_ends": joined.open_ends}
        counted = dataclasses.replace(counted, **words)
        begin("Learning")
        modelled = _modelled(old.modelled, counted, joined)
    return _solved(old, modelled, new, begin)


def opened_like(fit: Fit | NumberFit, log: object, **columns: Argument) -> Log:
    """A log opened with the columns, bins and ranges with which the log of a fit was read."""
    if isinstance(log, Log):
        if given := [name for name, value in columns.items() if value is not None]:
            raise LogError(f"the log is open already; give {', '.join(given)} to read_log")
        return log
    told = {name: value for name, value in columns.items() if value is not None}
    if not fit.read.reading and "reward" not in told:
        unknown = "the run does not say how its log was read: it was learned from arrays, or saved by an older version"
        raise LogError(f"{unknown}; open the new log with read_log, or learn the run once more")
    return read_log(log, **{**fit.read.reading, **told})


def _table_of(fit: Fit | NumberFit | IterateFit) -> Fit:
    if isinstance(fit, NumberFit):
        raise LogError(
            "the states of this run are numbers, and of those no counts are kept to add to; learn from both logs "
            "together: `dualq learn` takes a folder or a glob, such as 'logs/*.csv'"
        )
    if isinstance(fit, IterateFit):
        raise LogError(f"a policy from iterates has no counts to add to; {SHARE_COUNTS}")
    if fit.solved.solver != "exact":
        raise LogError(
            f"the run was learned with the solver {fit.solved.solver!r}, row by row; learn again from both logs"
        )
    return fit


def _start_of(fit: Fit) -> Start:
    """Where value is measured, as before."""
    if fit.counted.where != "as given":
        return fit.counted.where
    return {label: float(w) for label, w in zip(fit.counts.states, fit.start, strict=True) if w > 0.0}


def _span(old: Counted, new: Log) -> tuple[float, float] | None:
    """From the first old row to the last new one."""
    trace = new.trace()
    spans = [span for span in (old.span, None if trace is None else trace.span) if span is not None]
    return (min(low for low, _ in spans), max(high for _, high in spans)) if len(spans) == 2 else None


def _forgotten(old: Counted, new: Log, since: Moment) -> bool:
    """Whether all old rows are earlier than this; a LogError where some are and some are not."""
    trace = new.trace()
    if old.span is None or trace is None or trace.clock is None:
        raise LogError("since: nothing says when the old rows were recorded; learn from both logs with since=...")
    moment = _moment(since, trace.clock.kind == "dates")
    low, high = old.span
    if low < moment <= high:
        ends = [_written(x, trace.clock.kind == "dates") for x in (low, high)]
        words = (
            f"since is {since}, and the run's rows are from {ends[0]} to {ends[1]}: their counts cannot be cut there"
        )
        raise LogError(f"{words}; learn from the logs themselves with since=..., or give a time after {ends[1]}")
    return moment > high


def _moment(value: Moment, dates: bool) -> float:
    try:
        if not dates:
            return float(str(value))
        moment = datetime.fromisoformat(str(value))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        right = "a date, such as 2024-02-29" if dates else "a number, such as 600"
        raise LogError(f"since is {value!r}; it must be {right}", argument="since", value=value) from None


def _written(moment: float, dates: bool) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M}" if dates else f"{moment:.10g}"


# ---- what needs more than counts


def _modelled(before: Modelled, counted: Counted, joined: JoinedLog) -> Modelled:
    """The careful model of all counts; errors and returns with what both parts say of them."""
    modelled = model(counted, before.discount, before.careful.pessimism)  # a joined log has no rows: nothing of them
    trace, place = joined.new.trace(), joined.recoded[1]
    counts, careful = counted.counts, modelled.careful
    shared = before.shared
    if trace is not None and trace.has_episodes:
        (s, a, r, s_next, ended), groups = Groups.of(trace).rows, Groups.of(trace).groups
        rows = Groups((place.s[s], place.a[a], r, place.s[s_next], ended), groups)
        now = shared_factors(careful, rows, counts.support.to_model(counted.start))
        shared = max(shared[0], now[0]), max(shared[1], now[1])
    modelled = dataclasses.replace(modelled, careful=with_shared_errors(careful, shared), shared=shared)
    if trace is None:
        return modelled
    mdp, to_log = counts.mdp(before.discount), counts.support.to_log
    V = careful.behaviour.value(mdp)
    rewards, onward = to_log(mdp.rewards), np.where(counts.visits > 0, to_log(mdp.q_values(V) - mdp.rewards), 0.0)
    pairs = np.ix_(place.s, place.a)
    begun = trace.without(trace.episode[joined.going_on[1]])
    found = returns_of(begun, to_log(V)[place.s], rewards[pairs], onward[pairs], mdp.discount, counted.coverage.level)
    if before.returns is None or before.counted.first is None:
        return modelled
    if found is None:
        kept = {name: getattr(before, name) for name in ("returns", "returns_filled")}
        check = before.returns_check
        return dataclasses.replace(modelled, **kept, returns_check=None if check is None else found_before(check))
    n = np.array([before.counted.first.sum(), found.episodes], float)
    both = (before.returns, Estimate(found.value, found.standard_error))
    value = float(n @ [one.value for one in both] / n.sum())
    error = math.hypot(*(k * one.error_or_nan for k, one in zip(n, both, strict=True))) / n.sum()
    old = None if before.returns_check is None else found_before(before.returns_check)
    new = found.finding
    finding = old if old is not None and (new is None or old.found or old.p_value < new.p_value) else new
    filled = float(n @ [before.returns_filled, found.filled] / n.sum())
    earned = Estimate(value, float(error) if math.isfinite(error) else None)
    return dataclasses.replace(modelled, returns=earned, returns_check=finding, returns_filled=filled)


def _solved(old: Fit, modelled: Modelled, new: Log, begin: Callable[[str], None]) -> Fit:
    """Solve and prove as before, and say what changed."""
    proven = old.proven
    method = None if proven.certificate is None else proven.certificate.method
    limits = [_limit_again(one) for one in old.asked] or None
    solved = solve(modelled, "exact", limits, old.solved.margin or "certified", old.confidence, method, proven.looks)
    if method is not None:
        begin("Proving floor and ceiling")
    fit = Fit(prove(solved, old.confidence, method, proven.value_range, proven.assumed, proven.looks))
    changes, new_rows = policy_changes(old, fit), new.counts().total
    return dataclasses.replace(
        fit,
        updated=Updated(
            before=old.read.source,
            after=new.source,
            old_rows=old.counts.total,
            new_rows=new_rows,
            linked_rows=max(fit.counts.total - old.counts.total - new_rows, 0),
            expected_before=estimate_summary(old.expected),
            changes=changes[:MOST_CHANGES],
            num_changes=len(changes),
        ),
    )


def _limit_again(asked: Asked) -> str | AnyLimit:
    """A limit as a user writes it, where it speaks of the log; one on a model's pairs as it is."""
    limit = asked.limit
    if asked.column is not None or limit.name == "distance":
        return f"{limit.name}{limit.sense}{limit.bound!r}"
    return limit


# ---- what changed


def policy_changes(old: Fit, new: Fit) -> list[PolicyChange]:
    """The states of the new fit where its policy decides otherwise than the old one, those first where it matters most.

    gain     what the new action is worth over the old one, as estimated now; gain_before: as it was estimated then
    """
    states, actions = new.counts.states, new.counts.actions
    found: list[tuple[float, PolicyChange]] = []
    for s, label in enumerate(states):
        known = label in old.counts.states
        t = old.counts.states.index(label) if known else -1
        after = int(new.policy.matrix[s].argmax())
        if known:
            row = np.zeros(len(actions))
            row[[actions.index(a) for a in old.counts.actions]] = old.policy.matrix[t]
            if 0.5 * np.abs(row - new.policy.matrix[s]).sum() < SELDOM:
                continue
        before = actions.index(old.counts.actions[int(old.policy.matrix[t].argmax())]) if known else None
        change = _change(old, new, s, t, before, after)
        found.append((new.time_share[s] * abs(change["gain"] or 0.0), change))
    return [change for _, change in sorted(found, key=lambda each: -each[0])]


def _change(old: Fit, new: Fit, s: int, t: int, before: int | None, after: int) -> PolicyChange:
    """One state: s in the new fit, t in the old one (-1: it is new); places of actions in the new one."""
    actions = new.counts.actions

    def then(a: int) -> tuple[int, float]:
        label = actions[a]
        if t < 0 or label not in old.counts.actions:
            return 0, math.nan
        place = old.counts.actions.index(label)
        return int(old.counts.visits[t, place]), float(old.values[t, place])

    gain = None if before is None else float(new.values[s, after] - new.values[s, before])
    gain_before = None if before is None else then(after)[1] - then(before)[1]
    return {
        "state": new.counts.states.named(s),
        "time_share": float(new.time_share[s]),
        "before": None if before is None else actions.named(before),
        "after": actions.named(after),
        "rows_before": then(after)[0],
        "rows_after": int(new.counts.visits[s, after]),
        "gain_before": _finite(gain_before),
        "gain": _finite(gain),
        "state_rows_before": int(old.counts.visits[t].sum()) if t >= 0 else 0,
        "state_rows_after": int(new.counts.visits[s].sum()),
    }


def _finite(x: float | None) -> float | None:
    return None if x is None or not math.isfinite(x) else x
