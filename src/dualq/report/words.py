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
    """A share of one in percent: a digit more where it is small, and no more than that where it is next to nothing."""
    if 0.0 < share < 1e-4:
        return "< 0.01%"
    return f"{100.0 * share:.0f}%" if share >= 0.0995 or share == 0.0 else f"{100.0 * share:.2g}%"


def said(label: Mapping[str, Any]) -> str:
    """A label without its column where there is but one."""
    if len(label) == 1:
        return str(next(iter(label.values())))
    return named(label)


def named(label: Mapping[str, Any]) -> str:
    """A label with the names of its columns."""
    return ", ".join(f"{name} {value}" for name, value in label.items())


def about(rows: int) -> str:
    """A number of rows to two digits: `6,100,000`. More would look more certain than it is."""
    return f"{round(rows, 2 - len(str(rows))):,}"


def recommended(row: Mapping[str, Any]) -> str:
    """The action of a row of `changes`, and its probability where it is taken at random."""
    action, share = said(row["recommended"]), row["probability"]
    if share > 1.0 - 1e-9:
        return action
    return f"{action} (over 99%)" if share >= 0.995 else f"{action} ({percent(share)})"


def changed(fit: Any, shown: int) -> str:
    """How much changes, before the table of changes; all there is to say where the table has no rows."""
    if not fit.num_changes:
        return "Nothing: in every state the policy prefers what the log did most often."
    states = int(fit.counts.visits.any(axis=1).sum())
    how_many = f"In {fit.num_changes:,} of {count(states, 'state')}"
    first = f"{how_many} the policy prefers another action than the log did most often."
    if not shown:
        return f"{first} It practically never sees them."
    most = "one" if shown == 1 else shown
    which = "All of them:" if shown == fit.num_changes else f"The {most} where most time is spent:"
    rows = fit.changes(shown)
    doubtful = sum(abs(row["gain"]) <= row["gain_error"] for row in rows)
    losses = sum(row["gain"] < -row["gain_error"] for row in rows)

    def where(states: int, words: str) -> str:
        return "" if not states else f" It {words}." if shown == 1 else f" In {states} of these {shown} it {words}."

    sake = ", for the sake of the limits" if fit.limits else ""
    return (
        f"{first} {which} gain is what the change is worth at one such decision, with its standard error."
        f"{where(doubtful, 'is within that error: the log does not tell whether it is one')}"
        f"{where(losses, f'is a loss{sake}')}"
    )


FOUND = {"dynamics": "the system changed", "rewards": "rewards changed", "memory": "the state misses something"}


def found_against(fit: Any) -> str:
    """What the log says against the assumptions of estimates and promises; nothing where it says nothing."""
    return "the log says that " + " and ".join(FOUND[what] for what in fit.contradicted) if fit.contradicted else ""


def not_promised(fit: Any) -> str:
    """A sentence for pages with proven numbers, where the log speaks against what these rest on."""
    if not fit.contradicted:
        return ""
    return (
        "Nothing here is promised, and the estimates are in doubt too: all of it takes it that nothing changes with "
        f"time and that the state says all that matters, and {found_against(fit)}."
    )


def promises(fit: Any) -> list[str]:
    """What is expected, and what can be promised."""
    against = found_against(fit)
    same = f" They take it that nothing changes with time and that the state says all that matters; {against}."
    words = [
        f"From the start the recommended policy is expected to earn {number(fit.expected.value)} "
        f"(standard error {number(fit.expected.error)}), and what was logged {number(fit.logged.value)} "
        f"(standard error {number(fit.logged.error)}). These are estimates, not promises.{same if against else ''}"
        f"{_doubt(fit)}"
    ]
    promise = fit.certificate
    if promise is None:
        return [*words, "No certificate was asked for."]
    sure = f"with {percent(fit.confidence)} confidence, all of it together"
    if promise.method != "proven":
        sure += ", approximately (by the bootstrap, which may break its promise)"
    if not promise.informative:
        needed = promise.rows_needed
        more = f"; about {about(needed)} rows like these would be needed" if needed and not against else ""
        why = f"; and {against}, so that more rows like these would not help" if against else ""
        low, high = promise.value_range
        held = f"what is proven of the policy is {number(promise.lower)} to {number(promise.upper)}"
        allowed = f"what rewards alone allow is {number(low)} to {number(high)}"
        return [*words, f"Nothing useful can be promised yet {sure}: {held}, and {allowed}{more}{why}.", *_width(fit)]
    begin = f"Promised {sure}"
    if against:
        begin = f"Nothing is promised, as {against}. Were it not so, this would be promised {sure}"
    words.append(
        f"{begin}: the recommended policy earns at least {number(promise.lower)}; no policy earns more than "
        f"{number(promise.upper)}, and none that keeps to what was logged more than {number(promise.upper_supported)}; "
        f"the logged behaviour, as a policy, earns between {number(promise.behaviour[0])} and "
        f"{number(promise.behaviour[1])}."
    )
    if promise.improvement > 0.0:
        hedge = "" if promise.method == "proven" else "Approximately: "
        better = "would then be" if against else "is"
        words.append(
            f"{hedge}The policy {better} better than what was logged, by at least {number(promise.improvement)}."
        )
    else:
        words.append("Whether the policy is better than what was logged cannot be promised from this log.")
    return [*words, *_width(fit)]


CAUSES = {
    "thin pairs": "few rows of some pairs of state and action",
    "reward noise": "noise in the rewards",
    "unsupported pairs": "pairs that were never logged, of which nothing is known",
    "estimated distance to the best policy": "the policy's own distance from the best, as estimated",
}


def _width(fit: Any) -> list[str]:
    """Why floor and ceiling are as far apart as they are, and which rows would raise the floor."""
    if fit.contradicted:  # more rows would not mend it
        return []
    promise = fit.certificate
    parts = [
        f"{number(part)} is due to {CAUSES[cause]}"
        for cause, part in sorted(promise.causes.items(), key=lambda item: -item[1])
        if part > 0.005 * promise.regret
    ]
    words = [f"Floor and ceiling are {number(promise.regret)} apart: {', '.join(parts)}."] if parts else []
    wanted = [
        f"{about(pair.rows)} more of {_pair(fit, pair)}: about {pair.raises:.2g} more" for pair in promise.wanted(3)
    ]
    if wanted:
        words.append(f"What would raise the floor most, to log {'; '.join(wanted)}.")
    return words


def _doubt(fit: Any) -> str:
    """What to say where the policy is not clearly better than the log. The error is that of independent estimates."""
    gain = fit.expected.value - fit.logged.value
    error = math.hypot(fit.expected.error, fit.logged.error)
    if gain > error:
        return ""
    if gain < -error:
        why = ": that is the price of the limits" if fit.limits else ""
        less = f"by {number(-gain)} (standard error {number(error)})"
        return f" It is expected to earn less than what was logged, {less}{why}."
    if fit.as_logged:
        return " The policy is what was logged."
    if fit.num_changes == 0:
        return " The policy does what was logged most often, everywhere."
    return (
        f" The difference, {number(gain)}, is within its error of {number(error)}: this log does not tell whether the "
        "policy is better."
    )


COSTS = (
    "What a step costs on average from the start, with standard errors: estimates, not promises. A limit (--limit) "
    "keeps a cost within bounds."
)


def cost_table(fit: Any) -> tuple[list[str], list[list[str]]]:
    """What the two policies cost, for the costs that have no limit: the names of the columns, and a row each."""
    limited = {one.column for one in fit.asked}
    rows = [
        [name, *(f"{both[which].value:.3g} ± {both[which].error:.2g}" for which in ("logged", "recommended"))]
        for name, both in fit.costs.items()
        if name not in limited
    ]
    return ["cost", "logged", "recommended"], rows


BASES = {
    "proven": "promised",
    "exact": "kept in every state, whatever the process",
    "model": "kept on the log's own model",
    "frequencies": "kept on the log's frequencies, not proven",
    "estimated": "not proven; the estimate is within the limit",
    "missed": "not kept, not even by estimate",
}


def basis(fit: Any, kept: Any) -> str:
    """What the keeping of a limit rests on."""
    if fit.contradicted and kept.basis == "proven":
        return f"not promised: {found_against(fit)}; were it not so, it would be"
    apart = abs(kept.bound - kept.estimate)
    if kept.basis != "estimated" or not kept.error:
        return BASES[kept.basis]
    errors = (
        f"by {apart / kept.error:.2g} of its standard errors" if apart >= 0.1 * kept.error else "by next to nothing"
    )
    return f"{BASES[kept.basis]}, {errors}"


def limit_table(fit: Any) -> tuple[list[str], list[list[str]]]:
    """What became of every limit: the names of the columns, and a row each."""
    header = ["limit", "estimate", "proven", "kept?", "argmax Q", "without limits", "logged"]
    return header, [
        [
            kept.text,
            f"{kept.estimate:.3g}" + (f" ± {kept.error:.2g}" if kept.error else ""),
            "" if kept.low is None else f"{kept.low:.3g} to {kept.high:.3g}",
            basis(fit, kept),
            *(f"{x:.3g}" for x in (kept.greedy, kept.free, kept.logged)),
        ]
        for kept in fit.limits
    ]


def limit_words(fit: Any) -> list[str]:
    """What the limits cost, what each policy makes of them, and what a promise would need."""
    words = [sentence for kept in fit.limits for sentence in (_price(fit, kept), *_others(kept), _needed(fit, kept))]
    if fit.contradicted:
        words.insert(0, not_promised(fit))
    elif fit.limits_wanted:
        names = [_pair(fit, pair) for pair in fit.limits_wanted[:3]]
        words.append(f"More rows would help most where: {'; '.join(names)}.")
    return [sentence for sentence in words if sentence]


def limit_assumptions(fit: Any) -> str:
    """What the proven bounds of the costs rest on, beside what those of the value do."""
    counts, columns = fit.counts, dict.fromkeys(one.column for one in fit.asked if one.column is not None)
    ranges = [
        f"{column} is in [{low:g}, {high:g}] ({'known' if column in counts.cost_ranges_known else 'as observed'})"
        for column in columns
        for low, high in (counts.cost_ranges[column],)
    ]
    sure = f"{'Proven, were it not so' if fit.contradicted else 'Proven'}: with {percent(fit.confidence)} confidence, "
    sure += "all of it together"
    if fit.certificate is not None:
        left = percent(1.0 - fit.confidence)
        halves = "half is spent on the bounds of the value and half on those of the limits"
        sure += f" (of the {left} that leaves open, {halves})"
    return "; ".join([sure, *ranges]) + "."


def chosen_under(fit: Any) -> str:
    """What a reader of single decisions must know of a policy with limits; nothing where there are none."""
    if not fit.limits:
        return ""
    limits = " and ".join(kept.text for kept in fit.limits)
    return (
        f"The policy was chosen under {limits}: an action may be worth less and be taken for the limit's sake. Values "
        "are those of keeping to this policy later."
    )


def _price(fit: Any, kept: Any) -> str:
    """What a little less of it costs, at the rate that holds at the policy; prices are in reward per step."""
    step = _step(kept.bound)
    cost, later = step * kept.price, step * kept.price / (1.0 - fit.settings["discount"])
    if not later > 1e-6 * max(1.0, abs(fit.expected.value)):
        if _beyond(kept, kept.free) > 0.0:
            return f"{kept.name}: the limit costs nothing, as the other limits see to it."
        return f"{kept.name}: the limit costs nothing; as far as the log can tell, the best policy keeps it anyway."
    less = f"{step:g} {'less' if kept.sense == '<=' else 'more'}"
    if step == 0.01:
        less = f"one point {'less' if kept.sense == '<=' else 'more'} (0.01)"
    return (
        f"{kept.name}: at the recommended policy, {less} costs about {cost:.3g} of reward a step, {later:.3g} of the "
        "value from the start, at this rate."
    )


def _step(bound: float) -> float:
    """One point where the bound is a share of some size, else a power of ten that is at most a tenth of the bound."""
    size = abs(bound)
    if 0.1 <= size <= 1.0 or size == 0.0:
        return 0.01
    return 10.0 ** math.floor(math.log10(size / 10.0))


def _others(kept: Any) -> list[str]:
    """What other policies would make of a limit: argmax Q, and the best without limits."""
    words = []
    if (free := _beyond(kept, kept.free)) > 0.0 and kept.price > 0.0:
        words.append(f"{kept.name}: without limits the best policy would break it by {free:.3g}.")
    if (greedy := _beyond(kept, kept.greedy)) > 0.0:
        words.append(
            f"{kept.name}: the greedy policy of the same Q, which cannot mix actions, would break it by {greedy:.3g}, "
            f"at {kept.greedy:.3g}."
        )
    elif words:
        words.append(
            f"{kept.name}: the greedy policy of the same Q, which cannot mix actions, is at {kept.greedy:.3g}."
        )
    return words


def _beyond(kept: Any, value: float) -> float:
    """How far a value is beyond the bound; nothing, but for rounding, where it is within."""
    beyond = (1.0 if kept.sense == "<=" else -1.0) * (value - kept.bound)
    return beyond if beyond > 1e-9 + 1e-6 * abs(kept.bound) else 0.0


def _needed(fit: Any, kept: Any) -> str:
    if kept.kept or kept.low is None or fit.contradicted:  # more such rows would not help
        return ""
    end = f"at most {kept.high:.3g}" if kept.sense == "<=" else f"at least {kept.low:.3g}"
    known = f"{kept.name}: what is proven is only that it is {end}"
    if kept.rows_needed is None:
        return f"{known}; the limit is not promised."
    return f"{known}; about {about(kept.rows_needed)} rows like these would let some policy promise the limit."


def _pair(fit: Any, pair: Any) -> str:
    counts = fit.counts
    state = named(counts.states.named(counts.states.index(pair.state)))
    action = named(counts.actions.named(counts.actions.index(pair.action)))
    return f"{state}, {action} ({count(pair.visits, 'row')} so far)"


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
