"""The words of every page: one vocabulary, for the terminal, the report and the notebook.

    policy                 which action to take in each state
    the new policy         the one that is recommended (fit.policy)
    what was done so far   the policy that left the log (fit.behaviour); in tables: so far
    state, action          what was known when a decision was made, and what was decided
    decision               one row of the log; "how often" is a share of the policy's decisions
    earns                  rewards from the start on, added up, later ones counting less; with discount 0, per decision
    expected               an estimate; ± is one standard error. It may be wrong by chance
    guaranteed (95%)       a bound with a proof. It stands in one sentence with the conditions that no test can see
    rows                   decisions in the log: what an estimate rests on
    the model              what the log says about where actions lead and what they earn

Estimates and guarantees never share a sentence without saying which is which. Where something speaks against a
guarantee (fit.withheld), the page says "Nothing is guaranteed", why, and what to do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dualq.base import count, number, outwards, p_value, sentence, small, visible, with_error

if TYPE_CHECKING:
    from dualq.base import Label
    from dualq.offline import Change, Estimate, Evaluation, Fit
    from dualq.proof import Certificate, Wanted

MANY = 0.05  # the part of a log's rows without a next state, above which it is asked whether episodes end there
HARDLY = 0.005  # of the decisions: fewer that change are next to none
FEW_ROWS = (
    "too few rows to know how low or high a reward can be"  # how the reason begins that a reward range would remove
)
START = {
    "episodes": "where episodes begin",
    "log": "in the states of the log, each as often as it occurs there",
    "uniform": "in any state, all equally likely",
    "as given": "in the states that you gave",
}


# ---- numbers and names


def estimate(e: Estimate) -> str:
    """A value and its standard error, which has two digits; the value alone where no error can be given."""
    return with_error(e.value, e.standard_error)


def percent(share: float) -> str:
    """A share of one in percent: a digit more where it is small, and no more than that where it is next to nothing."""
    if 0.0 < share < 1e-4:
        return "< 0.01%"
    return f"{100.0 * share:.0f}%" if share >= 0.0995 or share == 0.0 else f"{100.0 * share:.2g}%"


def said(label: Mapping[str, Label]) -> str:
    """A label without its column where there is but one."""
    if len(label) == 1:
        return visible(next(iter(label.values())))
    return named(label)


def named(label: Mapping[str, Label]) -> str:
    """A label with the names of its columns."""
    return ", ".join(f"{name} {visible(value)}" for name, value in label.items())


def about(rows: int) -> str:
    """A number of rows to two digits: `6,100,000`. More would look more certain than it is."""
    return f"{round(rows, 2 - len(str(rows))):,}"


def listed(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def provided(clauses: Sequence[str]) -> str:
    """The end of a sentence that promises something: its conditions, a line each, those on ranges first."""
    if len(clauses) == 1:
        return f", if {clauses[0]}."
    ordered = sorted(clauses, key=lambda clause: "lies outside" not in clause)
    return ", if all of this is true:\n" + ";\n".join(f"- {clause}" for clause in ordered) + "."


def in_one_line(words: str) -> str:
    """The same sentence with its conditions one after another."""
    return " ".join(words.replace("\n- ", " ").split())


def noted(fit: Fit | Evaluation, words: str) -> str:
    """A remark as a sentence."""
    return sentence(words, [name for columns in fit.read.columns.values() for name in columns])


def one_shot(fit: Fit | Evaluation) -> bool:
    """Whether only the next reward counts: one decision per case, as in an experiment or a bandit."""
    return fit.modelled.discount == 0.0


def per(fit: Fit | Evaluation) -> str:
    """What follows an amount that is earned: nothing, or `per decision`."""
    return " per decision" if one_shot(fit) else ""


# ---- the verdict


def verdict(fit: Fit) -> str:
    """The verdict and the numbers it rests on."""
    word = fit.verdict.capitalize()
    if fit.contradicted:
        found = listed([f"that {reason}" for reason in distinct(fit.withheld[: len(fit.contradicted)])])
        return f"{word}. The log shows {found}, so the numbers below cannot be trusted."
    both = f"The new policy is expected to earn {estimate(fit.expected)}{per(fit)}"
    both += f"; what was done so far earns {estimate(fit.logged)}."
    return f"{word}{_unless(fit)}. {both}{_but(fit)}"


def _unless(fit: Fit) -> str:
    return ", unless you need the limits" if fit.verdict == "do not use" and fit.limits else ""


def _but(fit: Fit) -> str:
    """What to add to the two numbers: why they give this verdict."""
    mine, logged = fit.expected.standard_error, fit.logged.standard_error
    if mine is None or logged is None:
        return f" No error can be given: {no_error(fit)}."
    gain = fit.expected.value - fit.logged.value
    difference = f"The difference, {number(gain)} ± {small(math.hypot(mine, logged))},"
    if fit.verdict == "do not use":
        return f" {difference} is a loss{', the price of the limits' if fit.limits else ''}."
    if fit.verdict == "cannot tell":
        return f" {difference} is too uncertain to tell which is better."
    if fit.verdict == "no worse":
        return " They are the same policy." if fit.as_logged else " At worst you lose next to nothing."
    return ""


def no_error(fit: Fit | Evaluation) -> str:
    """Why an estimate has no standard error."""
    if fit.contradicted:
        return fit.withheld[0]
    low, high = fit.counts.reward_range
    if low == high:
        return "all rows earned the same, so nothing tells how much others may differ"
    return "the log has too few rows, or its bins hide too much"


def brief(fit: Fit) -> str:
    """The fit in two lines, for those who print it."""
    first = f"Fit: {fit.verdict}. Expected {estimate(fit.expected)}{per(fit)}, so far {estimate(fit.logged)}."
    promise = fit.certificate
    if promise is None or fit.withheld:
        return f"{first}\n  {because('Nothing is guaranteed', fit.withheld)}"
    if not promise.informative:
        return f"{first}\n  Nothing useful is guaranteed yet: too few rows."
    sure = percent(fit.confidence)
    ends = f"{number(promise.lower)} to {number(promise.policy_upper)}"
    return f"{first}\n  Guaranteed ({sure}), under fit.conditions: {ends}."


# ---- what is guaranteed


def relied_on(fit: Fit) -> Certificate | None:
    """The certificate, where nothing speaks against it and it says more than the range of rewards."""
    promise = fit.certificate
    return promise if promise is not None and promise.informative and not fit.withheld else None


def distinct(reasons: Sequence[str]) -> list[str]:
    """Without those that only say more precisely what another one says: that the system changed, near the end."""
    return [one for one in reasons if not any(one != other and one.startswith(other) for other in reasons)]


def because(nothing: str, withheld: Sequence[str]) -> str:
    """`Nothing is guaranteed: why.` Several reasons are told apart."""
    reasons = [FEW_ROWS if reason.startswith(FEW_ROWS) else reason for reason in distinct(withheld)]
    if len(reasons) == 1:
        return f"{nothing}: {reasons[0]}."
    each = "; ".join(f"({i}) {reason}" for i, reason in enumerate(reasons, 1))
    return f"{nothing}, for {len(reasons)} reasons: {each}."


def remedies(fit: Fit | Evaluation) -> list[str]:
    """What the log says against a guarantee in full, and what would help; a change is told once."""
    against = {
        what for what in fit.contradicted if what != "recent" or not {"dynamics", "rewards"} & {*fit.contradicted}
    }
    words = [sentence(check.words) for check in fit.evidence if check.found and check.what in against]
    if any(reason.startswith(FEW_ROWS) for reason in fit.withheld):
        ends = outwards(*fit.counts.reward_range)
        low, high = ends.split(",")
        words.append(f"If you know that rewards always lie between, say, {low} and {high}, add --reward-range={ends}.")
    if any("were set aside, and" in reason for reason in fit.withheld):
        words.append('If you know that the rows set aside are like the others, say so: --assume "set aside".')
    return words


def warnings(fit: Fit | Evaluation) -> list[str]:
    """What else must be read before any number: warnings that are not among the reasons given already."""
    told = {check.words for check in fit.evidence}
    return [noted(fit, words) for words in fit.warnings if not any(words.startswith(w) for w in told)]


# ---- what to do


def recommended(row: Change) -> str:
    """The action of a row of `changes`, and its probability where it is taken at random."""
    action, share = said(row["recommended"]), row["probability"]
    if share > 1.0 - 1e-9:
        return action
    return f"{action} (over 99%)" if share >= 0.995 else f"{action} ({percent(share)})"


def changed(fit: Fit, shown: int) -> str:
    """How much changes, before the table of changes; all there is to say where the table has no rows."""
    share = fit.share_changed
    if not fit.num_changes and share < HARDLY:
        return "Nothing changes: the new policy decides as was done so far."
    states = int(fit.counts.visits.any(axis=1).sum())
    how_much = f"{sentence(percent(share))[:-1]} of decisions change"
    if not fit.num_changes:
        return f"{how_much}: a few in many states, less than 1% in each."
    first = f"{how_much}, in {fit.num_changes:,} of {count(states, 'state')}."
    if share < HARDLY:
        first = f"Next to nothing changes. {first}"
    if not shown:
        return f"{first} The new policy hardly ever meets these states."
    which = "" if shown == fit.num_changes else f"The {'one' if shown == 1 else shown} worth most: "
    explained = (
        "gain is how much more a decision in this state earns on average, counting those that stay the same; worth is "
        "gain times how often the state comes up"
    )
    rows = fit.changes(shown)
    doubtful = sum(abs(row["gain"]) <= row["gain_error"] for row in rows)
    losses = sum(row["gain"] < -row["gain_error"] for row in rows)
    sake = ", for the sake of the limits" if fit.limits else ""
    return (
        f"{first} {sentence(which + explained)}"
        f"{_in_some(doubtful, shown, 'is within its error, so it may be none')}"
        f"{_in_some(losses, shown, f'is a loss{sake}')}"
    )


def _in_some(states: int, shown: int, words: str) -> str:
    where = "In all of these" if states == shown else f"In {states} of these {shown}"
    return "" if not states else f" The gain {words}." if shown == 1 else f" {where} it {words}."


def changes_heading(fit: Fit) -> str:
    """Not a call to action where the policy is not to be used, or nobody can tell."""
    return "What to do" if fit.verdict in ("better", "no worse") else "What the new policy would change"


CHANGES = ("do", "so far", "changed", "how often", "gain", "worth", "rows")  # the columns, after those of the state


def change_cells(row: Change) -> list[str]:
    """A row of the table of changes, without the state."""
    return [
        recommended(row),
        f"{said(row['logged'])} ({percent(row['logged_share'])})",
        percent(row["share"]),
        percent(row["time_share"]),
        f"{row['gain']:.3g} ± {small(row['gain_error'])}",
        f"{row['worth']:.2g}",
        f"{row['recommended_rows']:,}",
    ]


def changes_explained(fit: Fit) -> str:
    """What the columns of the table of changes are."""
    early = "" if one_shot(fit) else " of the new policy, early ones counting more"
    return f"""\
do: the new policy's action. so far: the most frequent action in the log, and its share. changed: the share of \
decisions in this state that change. how often: the share of all decisions{early}. rows: how often the log tried this \
action in this state."""


# ---- why


def worth_table(fit: Fit) -> tuple[list[str], list[list[str]]]:
    """What each policy is expected to earn, what the log really earned, and what is guaranteed."""
    promise = fit.certificate
    header, rows = (
        ["", "expected"],
        [["the new policy", estimate(fit.expected)], ["what was done so far", estimate(fit.logged)]],
    )
    if fit.returns is not None:
        rows.append([returned(fit), estimate(fit.returns)])
    if promise is not None and promise.informative:
        sure = percent(fit.confidence)
        header.append(f"bounds, {sure}, not guaranteed" if fit.withheld else f"guaranteed ({sure}), as said above")
        ends = ((promise.lower, promise.policy_upper), promise.behaviour)
        for row, (low, high) in zip(rows, ends, strict=False):
            row.append(f"{number(low)} to {number(high)}")
    return header, [[*row, *[""] * (len(header) - len(row))] for row in rows]


def returned(fit: Fit | Evaluation) -> str:
    """What the log's own returns are called."""
    if fit.modelled.counted.read.reading.get("terminal") == "row":
        return "what the log's cases really earned"
    if fit.modelled.returns_filled < HARDLY:
        return "what the log's episodes really earned"
    return "the log's episodes, continued where they were cut off"


USUALLY = "About 19 times in 20 the truth is within twice the ±."


def earned(fit: Fit | Evaluation) -> str:
    """What the amounts are."""
    return amounts_from(fit.modelled.counted.where, fit.modelled.discount)


def amounts_from(where: str, discount: float, so_far: str = "") -> str:
    """The same by where value is measured; `so_far`: what is said of what was done so far."""
    if discount == 0.0:
        over = "" if where == "log" else f", {START[where]}"
        what = f"All amounts are average rewards of one decision{over}."
    else:
        steps = about(round(1.0 / (1.0 - discount)))
        what = (
            f"All amounts are rewards added up over time, starting {START[where]}; each step later, a reward counts "
            f"{discount:g} times as much, so about the next {steps} steps count (--discount)."
        )
    return f"{what} {so_far}± is one standard error. {USUALLY}"


def really_earned(fit: Fit | Evaluation) -> list[str]:
    """What the log really earned, beside what the model says."""
    check = fit.returns_check
    if fit.returns is None or check is None:
        return []
    if check.found or not check.tested:
        few = "There are too few episodes to compare what they really earned with the model."
        return [sentence(check.words) if check.found else few]
    begun = fit.modelled.counted.where == "episodes"
    what = "the estimate for what was done so far" if begun else "the model of the log"
    return [f"What the log's episodes earned agrees with {what} ({p_value(check.p_value)})."]


def why(fit: Fit) -> list[str]:
    """What stands below the table of what is earned."""
    return [earned(fit), *really_earned(fit), fit.reason, *hidden_cause(fit)]


def hidden_cause(fit: Fit) -> list[str]:
    """How strong something that the state lacks would have to be; no test of a log sees it."""
    found = fit.sensitivity
    if fit.verdict != "better" or found is None:
        return []
    none = "by any factor up to 100, there would still be a gain"
    gone = none if found.gone is None else f"by a factor of {found.gone:.3g}, there might be no gain"
    less = "" if found.unproven is None else f"by a factor of {found.unproven:.3g}, the gain might not be proven; "
    return [f"Decisions may have been based on something that the state lacks. If it changed their odds {less}{gone}."]


# ---- details


RESTS = "What the bounds rest on: all of this must be true"


def ceilings(fit: Fit) -> list[str]:
    """What no policy can earn, and why that is not closer to the floor; nothing where nothing is guaranteed."""
    promise = relied_on(fit)
    if promise is None:
        return []
    words = [f"No policy at all earns more than {number(promise.upper)}"]
    rows, ceiling = promise.useful_ceiling or (0, math.inf)
    if number(ceiling) != number(promise.upper) and ceiling < promise.upper:
        what = f"combinations of state and action with at least {count(rows, 'row')}"
        words.append(f"no policy that keeps to {what} earns more than {number(ceiling)}")
    return [f"On the same conditions: {'; '.join(words).lower()}.", *_apart(promise)]


CAUSES = {
    "thin pairs": "some actions have few rows in their state",
    "reward noise": "rewards vary by chance",
    "unsupported pairs": "some actions were never tried in their state",
    "estimated distance to the best policy": "the new policy is not the best one, as far as we know",
}


def _apart(promise: Certificate) -> list[str]:
    parts = [
        f"{number(part)} because {CAUSES[cause]}"
        for cause, part in sorted(promise.causes.items(), key=lambda item: -item[1])
        if part > 0.0 and number(promise.regret - part) != number(promise.regret)  # who adds them up would miss it
    ]
    apart = f"Could another policy be better? By at most {number(promise.regret)}, as far as the log can tell"
    return [f"{apart}: {listed(parts)}."] if parts else []


def more_rows(fit: Fit) -> list[str]:
    """Which rows would raise what is guaranteed."""
    promise = fit.certificate
    if fit.withheld or promise is None:  # there is no bound to raise, or more rows of the same kind would not help
        return []
    wanted = [f"{about(one.rows)} more of {pair(fit, one)}, by {one.raises:.2g}" for one in promise.wanted(3)]
    return [f"These rows would raise the new policy's lower bound most: {'; '.join(wanted)}."] if wanted else []


def pair(fit: Fit, one: Wanted) -> str:
    """A state and an action, and the rows they have."""
    counts = fit.counts
    state = named(counts.states.named(counts.states.index(one.state)))
    action = named(counts.actions.named(counts.actions.index(one.action)))
    return f"{state}, {action} ({count(one.visits, 'row')} so far)"


def read(fit: Fit | Evaluation) -> list[tuple[str, str]]:
    """What was read: a fact a line."""
    counts, opened = fit.counts, fit.read
    low, high = counts.reward_range
    known = "as you said" if counts.range_known else "as seen in the log"
    facts = [
        ("rows", f"{counts.total:,} from {opened.source}"),
        ("states", f"{len(counts.states):,}: {listed(counts.states.names)}"),
        ("actions", f"{len(counts.actions):,}: {listed(counts.actions.names)}"),
        ("rewards", f"{number(low)} to {number(high)}, {known}"),
    ]
    for column, edges in opened.bins.items():
        facts.append(("bins", f"{column}, cut at {listed([f'{edge:g}' for edge in edges])}"))
    if fit.coverage.skipped:
        facts.append(("set aside", f"{count(fit.coverage.skipped, 'bad row')}, listed in {opened.quarantine}"))
    for part, columns in opened.guessed.items():
        facts.append((f"{part.replace('_', ' ')}", f"{listed(columns)}, guessed from its name or its values"))
    return facts


def covered(fit: Fit | Evaluation) -> list[tuple[str, str]]:
    """What the log covers and what it does not, and what was tested: a fact a line."""
    visits, coverage = fit.counts.visits, fit.coverage
    pairs, seen = visits.size, int((visits > 0).sum())
    alone = int(((visits > 0).sum(axis=1) == 1).sum())
    few = f", {coverage.thin:,} of them in fewer than 10 rows" if coverage.thin else ""
    facts = [("covered", f"{seen:,} of {count(pairs, 'combination')} of state and action{few}")]
    if alone:
        facts.append(
            ("no choice", f"in {count(alone, 'state')} only one action was ever tried; the new policy keeps it")
        )
    dropped = coverage.dropped
    if dropped > MANY * (dropped + coverage.rows) and not one_shot(fit):
        facts.append(("ends?", "many rows have no next state. If episodes end there, name the column with --terminal"))
    return [*facts, *(("note", noted(fit, words)) for words in coverage.notes)]


P_EXPLAINED = (
    "p: how often chance alone would look like this. There are several tests, so a p just below 0.01 is not yet a sign."
)


def tests(fit: Fit | Evaluation) -> list[str]:
    """What the log itself says of the assumptions, as far as it was tested."""
    told = {"returns", "dynamics", "memory"} if one_shot(fit) else {"returns"}  # elsewhere, or of no concern
    found = [check for check in fit.evidence if check.found or check.what not in told]
    words = [sentence(check.words) for check in found if check.words not in fit.coverage.notes]
    if words:
        words.append(P_EXPLAINED)
    return words or ["The rows have no time order, so nobody can test whether the system changed with time."]


def assumptions(fit: Fit) -> list[str]:
    """What all bounds rest on, where some are guaranteed; with the bootstrap, first that it is none."""
    promise, held = fit.certificate, any(limit.basis == "proven" for limit in fit.limits)
    if promise is None or fit.withheld or not (promise.informative or held or fit.alternatives):
        return []
    return [sentence(words) for words in promise.assumptions[1 if promise.method == "proven" else 0 :]]
