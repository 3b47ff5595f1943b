"""The pages of a comparison: terminal, report and notebook, and what they say."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dualq._version import __version__
from dualq.app.report import evaluation_words as words
from dualq.app.report.charts import Interval
from dualq.app.report.evaluation_pages import drawn, interval_rows, warnings
from dualq.app.report.page import heading, listed, note, note_below, page, section, table, text
from dualq.app.report.page import verdict as verdict_box
from dualq.app.report.words import because, distinct, number, percent, provided, remedies, small
from dualq.app.report.words import estimate as said
from dualq.app.report.words import listed as joined

if TYPE_CHECKING:
    from rich.console import Console

    from dualq.app.report.evaluation_words import AnyEvaluation
    from dualq.offline import Comparison

CALLED = {"so far": "what was done so far", "learned": "what dualq learns"}
KINDS = {
    "clear": "better",
    "alike": "no worse",
    "cannot tell": "cannot tell",
    "do not use": "do not use",
}  # the colours of verdicts


def called(name: str) -> str:
    """A policy by its name."""
    return CALLED.get(name, name)


def verdict(c: Comparison) -> str:
    """Which is best, and how clearly."""
    if c.verdict == "do not use":
        first = c.first
        found = joined([f"that {reason}" for reason in distinct(first.withheld[: len(first.contradicted)])])
        return f"Do not use. The log shows {found}, so the numbers below cannot be trusted."
    best = called(c.best)
    if c.verdict == "alike":
        return f"No difference. All of them decide alike, and are expected to earn {said(c.first.expected)}."
    same = [called(name) for name in c.alike]
    same = f" {_capital(joined(same))} {'takes' if len(same) == 1 else 'take'} the same decisions." if same else ""
    others = [name for name in c.names[1:] if name not in c.alike]
    if c.clear:
        behind = min(c.at_least(name) or 0.0 for name in others)
        return (
            f"{_capital(best)} is best. It is expected to earn {said(c.first.expected)}, at least {number(behind)} "
            f"more than any of the others ({percent(c.confidence)}, approximately, for all of them together).{same}"
        )
    near = [called(name) for name in others if (c.at_least(name) or 0.0) <= 0.0]
    judged = " of those with an error" if any(e.expected.standard_error is None for e in c) else ""
    return (
        f"Cannot tell. {_capital(best)} has the highest estimate{judged}, {said(c.first.expected)}, but is not clearly "
        f"better than {joined(near) if near else 'the others'}.{_short_of(c)}{same}"
    )


def _short_of(c: Comparison) -> str:
    values = [e.expected.value for e in c]
    if c.behind is None or c.behind > max(values) - min(values):  # more than all of them are apart: no bound to go by
        return ""
    sure = f"{percent(c.confidence)}, approximately, for all of them together"
    return f" If you choose it and another one is better, you lose at most {number(c.behind)} ({sure})."


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:] if words in CALLED.values() else words


def guarantees(c: Comparison) -> list[str]:
    """What holds for all policies together."""
    table_like = [e for e in c if words.is_table(e)]
    if not table_like:  # the interval of propensities is of one policy, which was not picked as the best of several
        return [because("Nothing is guaranteed", c.first.withheld)]
    if c.first.certificate is None:
        return words.guarantees(c.first)[:1]
    if not c.promised:
        return [because("Nothing is guaranteed of all of them", c.withheld), *remedies(table_like[0])]
    if not any(map(words.useful, c)):
        return [
            "Nothing useful is guaranteed of any of them: the log has too few rows to say more than the range of "
            "rewards does."
        ]
    together = provided(table_like[0].conditions)
    first = f"Guaranteed ({percent(c.confidence)}): all the bounds below hold together{together}"
    last = "Choosing the best of them by these bounds costs nothing: they hold for all at once."
    return [f"{first}\n\n{' '.join([*_safest(c), *_proven_best(c), last])}"]


def _safest(c: Comparison) -> list[str]:
    promise = None if c.safest is None else words.useful(c[c.safest])
    if c.safest is None or promise is None:
        return []
    return [f"The highest floor is that of {called(c.safest)}, {number(promise.lower)}."]


def _proven_best(c: Comparison) -> list[str]:
    """What the others can earn more than the best at most; nothing where that is no bound to go by."""
    if c.behind_proven is None or not all(map(words.useful, c)):
        return []
    best = called(c.best)
    if c.behind_proven <= 0.0:
        return [f"None of the others earns more than {best}."]
    return [f"None of the others earns more than {best} by more than {number(c.behind_proven)}."]


HEADER = ("policy", "expected", "over so far", "behind the best")
EXPLAINED = (
    "over so far: what the policy is expected to earn more than what was done so far. behind the best: what the first "
    "policy earns more. Both have the error of the difference, which is smaller than the two errors would say: all "
    "policies are judged by the same rows. "
)
COVERED = {  # the last column, where states are labels, and where they are numbers
    True: ("never seen", "the share of its time in decisions that the log never saw."),
    False: ("rows that count", "the share of the log's rows that say something about the policy."),
}


def standings(c: Comparison) -> tuple[list[str], list[list[str]]]:
    """A row for each policy, the best first."""
    costs = list(c.first.costs)
    bounds = any(e.certificate is not None and e.certificate.informative for e in c)  # guaranteed or not
    sure = f"bounds, {percent(c.confidence)}" + ("" if c.promised else ", not guaranteed")
    limits = bool(c.first.limits)
    last, _ = COVERED[words.is_table(c.first)]
    header = [*HEADER, *([sure] if bounds else []), *costs, *(["limits"] if limits else []), last]
    return header, [_row(c, e, costs, bounds, limits) for e in c]


def explained(c: Comparison) -> str:
    """What the columns show."""
    return EXPLAINED + ": ".join(COVERED[words.is_table(c.first)])


def _row(c: Comparison, e: AnyEvaluation, costs: list[str], bounds: bool, limits: bool) -> list[str]:
    promise, best = e.certificate, e is c.first
    ends = "nothing useful"
    if promise is not None and promise.informative:
        ends = f"{number(promise.lower)} to {number(promise.upper)}"
    kept = "guaranteed" if e.limits_kept else ("expected" if all(x.basis != "missed" for x in e.limits) else "missed")
    return [
        called(e.name),
        said(e.expected),
        "" if e.name == "so far" else said(e.difference),
        "" if best else "the same decisions" if e.name in c.alike else said(c.over(e.name)),
        *([ends] if bounds else []),
        *(_cost(e, name) for name in costs),
        *([kept] if limits else []),
        _covered(e),
    ]


def _covered(e: AnyEvaluation) -> str:
    if words.is_of_numbers(e):
        return "" if e.rule is None else percent(e.effective_size)
    return "" if e.unsupported is None else percent(e.unsupported)


def _cost(e: AnyEvaluation, name: str) -> str:
    one = e.costs[name].policy
    return f"{one.value:.3g}" if one.standard_error is None else f"{one.value:.3g} ± {small(one.standard_error)}"


def brief(c: Comparison) -> str:
    """A line or two, for those who print it."""
    return f"Comparison: {verdict(c)}\n  {', '.join(f'{e.name} {said(e.expected)}' for e in c)}"


def all_warnings(c: Comparison) -> list[str]:
    """Of all policies, each once; of one alone, with its name."""
    every = {e.name: warnings(e) for e in c}
    shared = [line for line in every[c.best] if all(line in lines for lines in every.values())]
    own = [f"{called(name)}: {line[:1].lower()}{line[1:]}" for name, lines in every.items() for line in lines]
    return [*shared, *(line for line in own if not any(line.endswith(one[1:]) for one in shared))]


def print_comparison(c: Comparison, console: Console) -> None:
    """Print the page."""
    from dualq.app.report.terminal import SURE, Page

    out = Page(console)
    out.line(verdict(c), "bold")
    out.gap()
    for line in guarantees(c):
        out.line(line, SURE if line.startswith("Guaranteed") else None)
    out.lines((f"Warning: {line}" for line in all_warnings(c)), "bold")
    out.heading("All policies, the best first")
    out.table(*standings(c))
    out.gap()
    out.line(explained(c), "dim")
    out.heading("What they are")
    out.facts([(called(e.name), words.source_of(e)) for e in c if e.name not in CALLED])
    out.gap()
    out.line(words.amounts(c.first))


def comparison_report(c: Comparison) -> str:
    """One HTML page."""
    source = c.first.read.source
    given = [f"{e.name}: {words.source_of(e)}" for e in c if e.name not in CALLED]
    rows: list[Interval] = []
    for e in c:
        rows += interval_rows(called(e.name), e.expected, words.useful(e), c.confidence)
    return page(
        f"Policies compared by {source}",
        f'<p class="muted">{len(c.names)} policies, judged by {escape(source)}</p>',
        verdict_box(KINDS[c.verdict], verdict(c), guarantees(c), c.promised and any(map(words.useful, c))),
        *(note(line, warn=True) for line in all_warnings(c)),
        drawn(rows, c.confidence, c.promised),
        section("All policies, the best first", table(*standings(c), stack=True), note_below(explained(c))),
        section("What they are", listed(given), heading("The amounts"), text(words.amounts(c.first))),
        f'<p class="muted">Written by dualq {__version__}.</p>',
    )


def comparison_fragment(c: Comparison) -> str:
    """What a notebook shows."""
    word, _, rest = verdict(c).partition(". ")
    top = f"<b style='font-size:1.3em'>{escape(word)}</b><br>{escape(rest)}"
    return f"<div style='max-width:60em'>{top}{table(*standings(c))}</div>"
