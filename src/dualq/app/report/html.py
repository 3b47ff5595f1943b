"""The report of a fit: one HTML page, in the order in which a person asks.

the verdict, what is guaranteed, and a picture of both; what to do; why; costs and limits; the details
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from dualq._version import __version__
from dualq.app.report import charts
from dualq.app.report.limit_words import (
    bounds_words,
    cost_table,
    cost_words,
    doubtful,
    guarantees,
    limit_table,
    limit_words,
)
from dualq.app.report.page import (
    facts,
    figure,
    heading,
    listed,
    note,
    note_below,
    page,
    section,
    table,
    text,
    tree,
    verdict,
)
from dualq.app.report.rules import Rules, rules_of
from dualq.app.report.update_words import UPDATED, updated_explained, updated_table, updated_words
from dualq.app.report.words import (
    CHANGES,
    RESTS,
    START,
    assumptions,
    ceilings,
    change_cells,
    changed,
    changes_explained,
    changes_heading,
    covered,
    estimate,
    more_rows,
    number,
    one_shot,
    percent,
    read,
    relied_on,
    said,
    tests,
    warnings,
    why,
    worth_table,
)
from dualq.app.report.words import verdict as verdict_words
from dualq.base import visible

if TYPE_CHECKING:
    from dualq.offline import Fit, LimitOutcome, Updated

Row = TypeVar("Row", charts.Interval, charts.Bar)
SHOWN_STATES = 200  # rows of the policy's table; the rest is in policy.csv
MOST_CELLS = 3000  # of a policy map
SPARE = ("changed", "worth", "rows")  # columns of the changes that a narrow screen leaves out
MOST_CURVES = 3  # trade-offs that are drawn


MARGINS = {
    "certified": "certified: guaranteed where the log allows it, else with a margin of standard errors",
    "expected": "expected: with a margin of two standard errors, and not guaranteed",
    "none": "none: the limits are kept in the log's own averages, and not guaranteed",
}


def report_html(fit: Fit) -> str:
    """The whole page."""
    return page(
        f"{fit.verdict.capitalize()}: what to do, learned from {fit.settings['source']}",
        f'<p class="muted">{_source(fit)}</p>',
        verdict(fit.verdict, verdict_words(fit), guarantees(fit), relied_on(fit) is not None),
        *(note(words, warn=True) for words in warnings(fit)),
        _drawn(charts.intervals, worth(fit), worth_caption(fit)),
        *([section(UPDATED, *_updated(fit, fit.updated))] if fit.updated is not None else []),
        section(changes_heading(fit), *_changes(fit), *_policy(fit)),
        section("Why", *_why(fit)),
        *([section("Limits", *_limits(fit))] if fit.limits else []),
        *([section("Costs", text(cost_words(fit)), table(*cost_table(fit), stack=True))] if cost_table(fit)[1] else []),
        section("Details", *_details(fit)),
        f'<p class="muted">Written by dualq {__version__}.</p>',
    )


def _source(fit: Fit) -> str:
    return f"What to do, learned from {escape(str(fit.settings['source']))}: {fit.counts.total:,} decisions"


def _updated(fit: Fit, updated: Updated) -> list[str]:
    parts = [text(" ".join(updated_words(fit, updated)))]
    if updated["changes"]:
        parts += [table(*updated_table(fit, updated), stack=True), note_below(updated_explained())]
    return parts


# ---- the picture on top


def _drawn(chart: Callable[[Sequence[Row], int], str], rows: Sequence[Row], caption: str) -> str:
    """A drawing for wide and one for narrow screens."""
    wide, narrow = (chart(rows, width) for width in (charts.WIDE, charts.NARROW))
    return figure(wide, caption, narrow)


def worth(fit: Fit) -> list[charts.Interval]:
    """What both policies are expected to earn, and what is guaranteed of them: the picture on top."""
    promise = relied_on(fit)
    own, usual = (None, None) if promise is None else ((promise.lower, promise.policy_upper), promise.behaviour)
    rows: list[charts.Interval] = []
    for name, e, ends in (("the new policy", fit.expected, own), ("what was done so far", fit.logged, usual)):
        error = _quantile(fit) * (e.standard_error or 0.0)
        expected = f"{name}, expected: {estimate(e)}"
        rows.append(charts.Interval(expected, e.value - error, e.value + error, value=e.value))
        if ends is not None:
            words = f"{name}, guaranteed ({percent(fit.confidence)}): {number(ends[0])} to {number(ends[1])}"
            rows.append(charts.Interval(words, *ends, sure=True))
    return rows


def _quantile(fit: Fit) -> float:
    """How many standard errors an interval with this confidence reaches to each side."""
    return NormalDist().inv_cdf(0.5 + fit.confidence / 2.0)


def worth_caption(fit: Fit) -> str:
    """What the picture on top shows."""
    what = f"Rewards added up over time, starting {START[fit.settings['start']]}"
    if one_shot(fit):
        what = "The average reward of one decision"
    words = f"{what}. Dots: expected; thin lines: {_quantile(fit):.3g} standard errors on both sides."
    if relied_on(fit) is not None:
        words += " Thick bars: guaranteed, on the conditions above."
    return words


# ---- what to do


def _changes(fit: Fit) -> list[str]:
    rows = fit.changes()
    if not rows:
        return [text(changed(fit, 0))]
    header = [*fit.counts.states.names, *CHANGES]
    body = [[*map(visible, row["state"].values()), *change_cells(row)] for row in rows]
    return [text(changed(fit, len(rows))), table(header, body, spare=SPARE), note_below(changes_explained(fit))]


def _policy(fit: Fit) -> list[str]:
    if len(fit.counts.states.names) <= 2 and len(fit.counts.states) <= MOST_CELLS:
        caption = (
            "The action in each state; where it is random, the most probable one. Hatched: the log has tried it there "
        )
        return [heading("The policy"), figure(_map(fit), f"{caption}in fewer than 10 rows.")]
    columns = fit.policy.columns()
    if fit.policy.is_deterministic:
        columns.pop("probability")
    body = list(zip(*columns.values(), strict=True))
    words = "What to do in each state" + ("." if fit.policy.is_deterministic else ", and with which probability.")
    more = f" The first {SHOWN_STATES} of {len(body):,} rows; policy.csv has all." if len(body) > SHOWN_STATES else ""
    return [
        heading("The policy in a few rules"),
        *_rules(fit),
        heading("The whole policy"),
        text(words + more),
        table(list(columns), body[:SHOWN_STATES]),
    ]


def policy_rules(fit: Fit) -> Rules:
    """The policy as a small tree of rules, weighted by how often each state is met."""
    decided = ~fit.policy.undecided
    mass = np.where(decided[:, None], fit.time_share[:, None] * fit.policy.matrix, 0.0)
    return rules_of(fit.counts.states.columns(), mass / mass.sum(), fit.settings["bins"])


def _rules(fit: Fit) -> list[str]:
    found = policy_rules(fit)
    actions = fit.counts.actions
    if len(found.rules) == 1:
        words = f"Always {said(actions.named(found.rules[0].action))}."
        shown = text(words)
    else:
        shown = tree(
            [
                (rule.conditions, f"{said(actions.named(rule.action))} ({percent(rule.share)} of decisions)")
                for rule in found.rules
            ]
        )
    share = "all" if found.fidelity > 1.0 - 1e-9 else f"{100.0 * found.fidelity:.1f}%"
    words = f"A summary: it gives the new policy's action in {share} of its decisions."
    return [shown, note_below(words)]


def _map(fit: Fit) -> str:
    """States of one or two columns: the new policy beside what was done most often so far."""
    visits = fit.counts.visits
    labels = {
        name: [visible(x) if isinstance(x, str) else x for x in column]
        for name, column in fit.counts.states.columns().items()
    }
    names = sorted(labels, key=lambda name: -len(set(labels[name])))  # the longer column goes down the page
    usual, chosen = visits.argmax(axis=1), fit.policy.matrix.argmax(axis=1)
    acted = np.flatnonzero(visits.any(axis=1))
    actions = [said(fit.counts.actions.named(a)) for a in range(len(fit.counts.actions))]
    panels = ("new policy", chosen), ("so far, most often", usual)

    def cells(choice: np.ndarray, x: str | None) -> list[charts.Cell]:
        return [
            charts.Cell(
                x=labels[names[1]][s] if x is None else x,
                y=labels[names[0]][s],
                action=actions[int(choice[s])],
                rows=int(visits[s, choice[s]]),
            )
            for s in acted
        ]

    if len(names) == 1:  # one column goes down the page, and the two policies stand side by side
        both = [cell for x, choice in panels for cell in cells(choice, x)]
        return charts.policy_map([("", both)], "", names[0], actions)
    return charts.policy_map([(name, cells(choice, None)) for name, choice in panels], names[1], names[0], actions)


# ---- why


def _why(fit: Fit) -> list[str]:
    return [
        table(*worth_table(fit), stack=True),
        *map(text, why(fit)),
    ]


# ---- limits


def _limits(fit: Fit) -> list[str]:
    warning = (
        "" if fit.limits_kept else note("Not every limit is guaranteed; the table says what each rests on.", warn=True)
    )
    curves = [limit for limit in fit.limits if limit.low is not None][:MOST_CURVES]
    parts = [warning, table(*limit_table(fit), stack=True), *map(text, limit_words(fit)), note_below(bounds_words(fit))]
    return [*parts, *(_curve(fit, limit) for limit in curves)]


def _curve(fit: Fit, limit: LimitOutcome) -> str:
    """The trade-off, with its bounds behind it where they say something."""
    frontier = fit.frontier(limit.name)
    band = fit.certificate is not None and fit.certificate.informative and not doubtful(fit)
    behind = " The pale band: bounds on what is earned." if band else ""
    caption = (
        f"What a limit on {limit.name} costs: what the best policy for every limit is expected to earn, with one "
        "standard error on both sides. The dashed line is the limit you asked for, the diamond is the new policy "
        f"({limit.name} {limit.estimate:.3g}).{behind}"
    )
    wide, narrow = (frontier.chart(band, limit.bound, width) for width in (charts.WIDE, charts.NARROW))
    return figure(wide, caption, narrow)


# ---- details


def _details(fit: Fit) -> list[str]:
    bounds = [*ceilings(fit), *more_rows(fit)]
    rests = assumptions(fit)
    return [
        heading("What was read"),
        facts(read(fit)),
        heading("What the log covers"),
        _drawn(
            charts.bars, coverage_bars(fit), "Combinations of state and action, by how many rows of the log have them."
        ),
        facts(covered(fit)),
        heading("What was tested"),
        listed(tests(fit)),
        *([heading("Bounds"), *map(text, bounds)] if bounds else []),
        *([heading(RESTS), listed(rests)] if rests else []),
        heading("How it was done"),
        facts(how(fit)),
    ]


def coverage_bars(fit: Fit) -> list[charts.Bar]:
    """How many pairs have how many rows."""
    names = ("never", "1 to 9", "10 to 99", "100 to 999", "1,000 or more")
    place = np.searchsorted([1, 10, 100, 1000], fit.counts.visits.ravel(), side="right")
    return [charts.Bar(name, int((place == i).sum())) for i, name in enumerate(names)]


def how(fit: Fit) -> list[tuple[str, str]]:
    """How it was done: a fact a line."""
    settings = fit.settings
    gap = "" if settings["gap"] is None else f"; duality gap {settings['gap']:.2g}"
    once = (
        "0: only the next reward counts"
        if one_shot(fit)
        else f"{settings['discount']:g}: how much a reward counts one step later"
    )
    return [
        ("discount", once),
        ("start", START[settings["start"]]),
        ("pessimism", f"{settings['pessimism']:g} (1 is the default; 0 takes every average at face value)"),
        ("solved by", fit.solution.method + gap),
        *([("margin of the limits", MARGINS[settings["margin"]])] if settings["margin"] else []),
        ("confidence", percent(fit.confidence)),
    ]
