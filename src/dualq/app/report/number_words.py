"""What is said of a fit whose states are made of numbers; the vocabulary is that of `words`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.app.report.words import (
    amounts_from,
    because,
    estimate,
    in_one_line,
    listed,
    number,
    percent,
    provided,
    said,
    sentence,
    small,
)
from dualq.base import count

if TYPE_CHECKING:
    from dualq.base import Labels, StateColumns
    from dualq.logs import NumberRows
    from dualq.offline import Candidate, Estimate, NumberFacts, NumberFit, PricedLimit, Read

MOST_NAMED = 10  # columns, labels: of longer lists the first
LEARNERS = {
    "partition": "partition (a table of cells)",
    "linear": "linear (features)",
    "neural": "neural (small networks)",
    "vote": "vote (of policies that are better)",
    "clone": "clone (imitates what was done so far)",
}
KINDS = {
    "dual": "does what was done so far, but takes an action more often the more it gains",
    "iterated": "takes the best action by fitted Q-iteration",
    "supported": "takes the best of the actions that are not rare so far in such a state",
    "tilted": "weighs what an action gains against how often it was taken, and takes the best",
}
CHANGE = (
    "To get a guarantee, cut the numbers into bins (--bins auto){}: then the policy is a table, and its bounds hold if "
    "the cells lose nothing that matters."
)
SO_FAR_WHOLE = "What was done so far is the average of what the log really earned. "
SO_FAR_CUT = (
    "What was done so far is what the log really earned, and an estimate of what came after its recordings stopped. "
)
CELLS = " or cells (--approximation partition)"
KEPT = {"proven": "guaranteed", "estimated": "expected, not guaranteed", "missed": "no"}
CHOSEN = (
    "How one is chosen: in every state, the policies whose gain exceeds its standard error (±) vote, if they are three "
    "or more. Each vote counts as much as its gain minus half a standard error. The vote is recommended if its own "
    "gain exceeds two standard errors. If it does not: of the policies whose gain exceeds two, the one with the "
    "largest gain minus half a standard error. If there is none, dualq recommends what was done so far, or one to try "
    "if no policy can be judged."
)


def verdict(fit: NumberFit) -> str:
    """The verdict and the numbers it rests on."""
    word = fit.verdict.capitalize()
    if fit.contradicted:
        found = listed([f"that {reason}" for reason in fit.withheld[: len(fit.contradicted)]])
        return f"{word}. The log shows {found}, so the numbers below cannot be trusted."
    if fit.approximation == "clone":
        earned = f"which earned {estimate(fit.logged)}"
        return f"{word}. No learned policy is clearly better than what was done so far, {earned}."
    both = f"The new policy is expected to earn {estimate(fit.expected)}; what was done so far earned "
    both += f"{estimate(fit.logged)}."
    if fit.gain.standard_error is None:
        return f"{word}. {both} No error can be given: {fit.chosen.doubt}."
    return f"{word}. {both} The difference is {number(fit.gain.value)} ± {small(fit.gain.standard_error)}."


def guarantees(fit: NumberFit) -> list[str]:
    """What is guaranteed; of a function of numbers, that nothing is, and what would change that."""
    promise = fit.certificate
    if promise is None or fit.withheld:
        change = CHANGE.format("" if fit.asked == "partition" else CELLS)
        return [because("Nothing is guaranteed", fit.withheld), *([change] if fit.cells is None else [])]
    if not promise.informative:
        return ["Nothing useful is guaranteed yet: the log has too few rows."]
    sure = percent(fit.confidence)
    return [
        f"Guaranteed ({sure}): the new policy earns at least {number(promise.lower)} (and at most "
        f"{number(promise.policy_upper)}){provided(fit.conditions)}"
    ]


def brief(fit: NumberFit) -> str:
    """The fit in two lines."""
    first = f"NumberFit: {fit.verdict}. Expected {estimate(fit.expected)} ({fit.approximation}), "
    return f"{first}so far {estimate(fit.logged)}.\n  {in_one_line(guarantees(fit)[0])}"


def heading(fit: NumberFit) -> str:
    """Of the part that says what to do."""
    return "What to do" if fit.verdict in ("better", "no worse") else "What the new policy would do"


def summary_words(fit: NumberFit) -> str:
    """What the rules are."""
    share = 100.0 * fit.rules.fidelity
    return (
        f"A summary in a few rules: it gives the new policy's action in {share:.0f}% of the log's states. The policy "
        "itself uses all columns; to ask it: dualq act."
    )


CANDIDATES = ("policy", "expected", "gain over so far", "rows that count", "")


def candidate_rows(fit: NumberFit) -> list[list[str]]:
    """Every policy that was tried, the recommended one first."""
    order = sorted(fit.candidates, key=lambda one: (one is not fit.chosen, -one.expected.value))
    return [_cells(fit, one) for one in order] + [["what was done so far", estimate(fit.logged), "", "", ""]]


def _cells(fit: NumberFit, one: Candidate) -> list[str]:
    learner, _, which = one.name.partition(", ")
    name = LEARNERS.get(learner, learner) + (f", {which}" if which else "")
    remark = "recommended" if one is fit.chosen else (one.doubt or "")
    return [name, estimate(one.expected), estimate(one.gain), percent(one.effective_size), remark]


def candidates_words(fit: NumberFit) -> list[str]:
    """What the table of candidates shows, and how one was chosen."""
    return [
        "rows that count: the share of the log's rows that say something about this policy (effective sample size). "
        "Below 2% the policy goes where the log never was, and no error is given.",
        *_kinds(fit),
        *([] if fit.limits else [CHOSEN]),
        fit.reason,
    ]


def _kinds(fit: NumberFit) -> list[str]:
    """What the kinds of policies are that a learner gives, where it gives several."""
    kinds = dict.fromkeys(one.name.partition(", ")[2] for one in fit.candidates)
    named = [f"{kind}: {KINDS[kind]}" for kind in kinds if kind in KINDS]
    return [f"{'; '.join(named)}."] if named else []


def earned(fit: NumberFit) -> str:
    """What the amounts are."""
    return amounts_from(fit.where, fit.discount, SO_FAR_WHOLE if fit.whole else SO_FAR_CUT)


def limit_rows(fit: NumberFit) -> tuple[list[str], list[list[str]]]:
    """What became of every limit."""
    rows = [
        [limit.text, _short(limit.estimate), _kept(limit, bool(fit.withheld)), _short(limit.logged)]
        for limit in fit.limits
    ]
    return ["limit", "expected", "kept?", "so far"], rows


def _kept(limit: PricedLimit, withheld: bool) -> str:
    basis = limit.basis(withheld)
    return (
        "expected by less than two errors, not guaranteed"
        if basis == "estimated" and not limit.expected
        else KEPT[basis]
    )


def limit_words(fit: NumberFit) -> list[str]:
    """What limits rest on, and what they cost."""
    bases = {limit.basis(bool(fit.withheld)) for limit in fit.limits}
    words = "What is expected to be kept is so by two standard errors; it is estimated, and not guaranteed."
    words = words if bases != {"proven"} else ""
    confidence = f"What is guaranteed holds with {percent(fit.confidence)} confidence"
    sure = f"{confidence}{provided(fit.conditions)}" if "proven" in bases else ""
    each = "decision" if fit.discount == 0.0 else "step"
    return [line for line in (words, sure) if line] + [
        f"One unit of {limit.name} less, on average per {each}, costs about {number(limit.price)} per {each}."
        for limit in fit.limits
        if limit.price > 0.0
    ]


def cost_rows(fit: NumberFit) -> tuple[list[str], list[list[str]]]:
    """What the new policy costs, for costs without a limit."""
    limited = {limit.name for limit in fit.limits}
    return ["cost", "new policy"], [[name, _short(e)] for name, e in fit.costs.items() if name not in limited]


def _short(e: Estimate) -> str:
    return f"{e.value:.3g}" if e.standard_error is None else f"{e.value:.3g} ± {small(e.standard_error)}"


def read(fit: NumberFit) -> list[tuple[str, str]]:
    """What was read: a fact a line."""
    return facts_read(fit.read, fit.columns, fit.actions, fit.rows, fit.left_out)


def rows_read(opened: Read, rows: NumberRows, left_out: tuple[int, int]) -> list[tuple[str, str]]:
    """The same of rows that nothing was learned from."""
    return facts_read(opened, rows.columns, rows.actions, len(rows), left_out)


def facts_read(
    opened: Read, columns: StateColumns, actions: Labels, rows: int, left_out: tuple[int, int]
) -> list[tuple[str, str]]:
    """What was read: a fact a line."""
    labels = [f"{name} ({count(len(labels), 'label')})" for name, labels in columns.categories.items()]
    facts = [
        ("rows", f"{rows:,} from {opened.source}"),
        ("numbers", listed(_short_list(list(columns.numbers))) if columns.numbers else "none"),
        *([("categories", listed(_short_list(labels)))] if labels else []),
        ("actions", listed(_short_list([said(actions.named(a)) for a in range(len(actions))]))),
    ]
    dropped, skipped = left_out
    if dropped:
        facts.append(("left out", f"{count(dropped, 'row')} without a next state"))
    if skipped:
        facts.append(("set aside", f"{count(skipped, 'bad row')}, listed in {opened.quarantine}"))
    for part, names in opened.guessed.items():
        facts.append((part.replace("_", " "), f"{listed(list(names))}, recognised by name"))
    return facts


def _short_list(names: list[str]) -> list[str]:
    """The first of them, and how many more there are."""
    return names if len(names) <= MOST_NAMED else [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]


def tests(fit: NumberFit) -> list[str]:
    """What the log itself says of the way it was read."""
    inside = [] if fit.inside is None else [fit.inside]
    found = [sentence(finding.words) for finding in (*fit.findings, *inside)]
    return found or ["Nothing could be tested: the rows have no order in time."]


def explained(fit: NumberFit, facts: NumberFacts) -> tuple[list[str], list[str], list[list[str]], list[str]]:
    """What `dualq explain` says of a state: lines, the table's header and rows, and lines below."""
    far = facts["distance"] > facts["usual_distance"]
    first = (
        f"The {facts['nearest']} nearest rows of the log are up to {small(facts['distance'])} standard deviations away"
    )
    first += f"; for 99% of the log's states it is at most {small(facts['usual_distance'])}."
    body = [
        [
            said(row["action"]),
            f"{row['rows']:,}",
            percent(row["logged_share"]),
            number(row["value"]),
            percent(row["recommended"]) if row["recommended"] else "",
        ]
        for row in facts["actions"]
    ]
    matters = [f"{name} ({percent(share)})" for name, share in facts["matters"].items() if share > 0.0]
    later = "" if fit.discount == 0.0 else ", if the new policy decides afterwards"
    below = [
        f"earns: what this decision is expected to earn{later}. An estimate from the whole log, without an error of "
        "its own.",
        f"Columns that matter here (the share of their usual values that would change the decision): {listed(matters)}."
        if matters
        else "No column would change the decision by itself.",
    ]
    taken, most = (max(facts["actions"], key=lambda row, by=by: row[by]) for by in ("recommended", "value"))
    if most["value"] > taken["value"]:
        below.insert(
            1,
            f"By this estimate {said(most['action'])} would earn more here. It is not what the policy was learned "
            "from: where the two disagree, neither is sure.",
        )
    lines = [first, "The log hardly knows states like this one: do not rely on the numbers below."] if far else [first]
    return lines, ["action", "nearest rows", "so far", "earns", "new policy"], body, below
