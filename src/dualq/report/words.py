"""What is said of a fit, in sentences and short facts: the same words on the terminal and on the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dualq.plain import count

MANY = 0.05  # the part of a log's rows without a successor, above which it is asked whether episodes end there
START = {
    "episodes": "measured where episodes begin",
    "log": "measured in the states of the log, as often as they occur",
    "uniform": "measured in all states alike",
    "as given": "measured in the states that were given",
}


def number(x: float) -> str:
    """Four digits, as people write them."""
    return f"{x:,.4g}" if abs(x) < 1e4 else f"{x:,.0f}"


def percent(share: float) -> str:
    """A share of one in percent: a digit more where it is small."""
    return f"{100.0 * share:.0f}%" if share >= 0.0995 or share == 0.0 else f"{100.0 * share:.2g}%"


def said(label: Mapping[str, Any]) -> str:
    """A label without its column where there is but one."""
    if len(label) == 1:
        return str(next(iter(label.values())))
    return ", ".join(f"{name} {value}" for name, value in label.items())


def changed(fit: Any, shown: int) -> str:
    """How much changes, before the table of changes."""
    states = int(fit.counts.visits.any(axis=1).sum())
    which = "All of them:" if shown == fit.num_changes else f"The {shown} where most time is spent:"
    doubtful = sum(row["gain"] <= row["gain_error"] for row in fit.changes(shown))
    where = "It" if shown == 1 else f"In {doubtful} of these {shown} it"
    more = f" {where} is within that error: the log does not tell whether it is one."
    return (
        f"In {fit.num_changes:,} of {count(states, 'state')} the policy prefers another action than the log did most "
        f"often. {which} gain is what the change is worth at one such decision, with its standard error."
        f"{more if doubtful else ''}"
    )


def promises(fit: Any) -> list[str]:
    """What is expected, and what can be promised."""
    words = [
        f"From the start the recommended policy is expected to earn {number(fit.expected.value)} "
        f"(standard error {number(fit.expected.error)}), and what was logged {number(fit.logged.value)} "
        f"(standard error {number(fit.logged.error)}). These are estimates, not promises.{_doubt(fit)}"
    ]
    promise = fit.certificate
    if promise is None:
        return [*words, "No certificate was asked for."]
    sure = f"with {percent(fit.confidence)} confidence, all of it together"
    if promise.method != "proven":
        sure += ", approximately (by the bootstrap, which may break its promise)"
    if not promise.informative:
        needed = promise.rows_needed
        more = f"; about {needed:,} rows like these would be needed" if needed else ""
        low, high = promise.value_range
        held = f"what is proven of the policy is {number(promise.lower)} to {number(promise.upper)}"
        allowed = f"what rewards alone allow is {number(low)} to {number(high)}"
        return [*words, f"Nothing useful can be promised yet {sure}: {held}, and {allowed}{more}."]
    words.append(
        f"Promised {sure}: the recommended policy earns at least {number(promise.lower)}; no policy earns more than "
        f"{number(promise.upper)}, and none that keeps to what was logged more than {number(promise.upper_supported)}; "
        f"the logged behaviour, as a policy, earns between {number(promise.behaviour[0])} and "
        f"{number(promise.behaviour[1])}."
    )
    if promise.improvement > 0.0:
        about = "" if promise.method == "proven" else "Approximately: "
        words.append(f"{about}The policy is better than what was logged, by at least {number(promise.improvement)}.")
    else:
        words.append("Whether the policy is better than what was logged cannot be promised from this log.")
    return words


def _doubt(fit: Any) -> str:
    """What to say where the estimates do not tell the policy from the log. The error is that of independent ones."""
    gain = fit.expected.value - fit.logged.value
    error = math.hypot(fit.expected.error, fit.logged.error)
    if gain > error:
        return ""
    if fit.num_changes == 0:
        return " The policy does what was logged most often, everywhere."
    return (
        f" The difference, {number(gain)}, is within its error of {number(error)}: this log does not tell whether the "
        "policy is better."
    )


def read(fit: Any) -> list[tuple[str, str]]:
    """What was read: a fact a line."""
    counts, settings, start = fit.counts, fit.settings, fit.settings["start"]
    low, high = counts.reward_range
    known = "as was said" if counts.range_known else "as observed: taken for all that is possible"
    facts = [
        ("rows", f"{counts.total:,} from {settings['source']}"),
        ("states", f"{len(counts.states):,}, of {' and '.join(counts.states.names)}"),
        ("actions", f"{len(counts.actions):,}, of {' and '.join(counts.actions.names)}"),
        ("rewards", f"{number(low)} to {number(high)} ({known})"),
        ("value", f"rewards added up, each step later worth {settings['discount']:g} times as much; {START[start]}"),
    ]
    if settings["set_aside"]:
        facts.append(("set aside", f"{count(fit.coverage.skipped, 'bad row')}, in {settings['set_aside']}"))
    for part, columns in settings["guessed"].items():
        facts.append((f"guessed {part.replace('_', ' ')}", ", ".join(columns)))
    return facts


def unknown(fit: Any) -> list[tuple[str, str]]:
    """What the log cannot tell: a fact a line."""
    visits = fit.counts.visits
    pairs, seen = visits.size, int((visits > 0).sum())
    thin = fit.coverage.thin
    alone = int(((visits > 0).sum(axis=1) == 1).sum())
    few = f", {thin:,} of them in under 10 rows" if thin else ""
    facts = [("pairs", f"{seen:,} of {count(pairs, 'pair')} of state and action were logged{few}")]
    if alone:
        facts.append(("no choice", f"in {count(alone, 'state')} the log knows one action only: the policy keeps to it"))
    dropped = fit.coverage.dropped
    if dropped > MANY * (dropped + fit.coverage.rows):
        facts.append(
            ("ends?", "many rows have no successor: where episodes really end there, give the column terminal")
        )
    tested = [change.words for change in fit.coverage.evidence if not change.found and change.tested]
    tested += _untested(fit.coverage)
    return [*facts, *(("note", words) for words in (*fit.coverage.notes, *tested))]


def _untested(coverage: Any) -> list[str]:
    """The tests for which the log has too few rows, in one line."""
    drift = [change.what for change in coverage.drift.values() if not change.tested]
    words = [f"too few rows to tell of a change of {' or '.join(drift)}"] if drift else []
    memory = coverage.memory
    return [*words, memory.words] if memory is not None and not memory.tested else words


def evidence(fit: Any) -> list[str]:
    """What the log itself says of the assumptions that nothing changes with time, and that the state says all."""
    found = [change.words for change in fit.coverage.evidence]
    return found or ["the rows have no order, so whether the system changed, or the state before matters, is not known"]
