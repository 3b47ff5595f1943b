"""The pages of a fit whose states are made of numbers: terminal, report and notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dualq._version import __version__
from dualq.app.report import charts
from dualq.app.report import number_words as words
from dualq.app.report.page import (
    LINES,
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
)
from dualq.app.report.page import verdict as verdict_box
from dualq.app.report.words import estimate, percent, said, sentence

if TYPE_CHECKING:
    from rich.console import Console

    from dualq.offline import Estimate, NumberFit

HARDLY = 0.005  # of the decisions: a column on which fewer rest is not drawn
MOST_COLUMNS = 6  # whose influence is drawn
GRID = 12  # values of each column in a map of two


def print_number_fit(fit: NumberFit, console: Console) -> None:
    """Print the page."""
    from dualq.app.report.terminal import SURE, Page

    page = Page(console)
    page.line(words.verdict(fit), "bold")
    page.gap()
    for line in words.guarantees(fit):
        page.line(line, SURE if line.startswith("Guaranteed") else None)
    page.lines((f"Warning: {sentence(line)}" for line in fit.warnings), "bold")
    page.heading(words.heading(fit))
    for conditions, action in number_rules(fit):
        page.line(f"  {'if ' + ' and '.join(conditions) if conditions else 'always'}: {action}")
    page.gap()
    page.line(words.summary_words(fit), "dim")
    page.heading("Why")
    page.table(words.CANDIDATES, words.candidate_rows(fit))
    page.gap()
    page.lines([*words.candidates_words(fit), words.earned(fit)])
    if fit.limits:
        page.heading("Limits")
        page.table(*words.limit_rows(fit))
        page.gap()
        page.lines(words.limit_words(fit))
    header, rows = words.cost_rows(fit)
    if rows:
        page.heading("Costs")
        page.table(header, rows)
    page.heading("Details")
    page.facts(words.read(fit))
    page.listed("Tested in the log", words.tests(fit))


def number_report(fit: NumberFit) -> str:
    """The report: one HTML page."""
    source = f"What to do, learned from {escape(fit.read.source)}: {fit.rows:,} decisions"
    return page(
        f"{fit.verdict.capitalize()}: what to do, learned from {fit.read.source}",
        f'<p class="muted">{source}</p>',
        verdict_box(fit.verdict, words.verdict(fit), words.guarantees(fit), fit.promised),
        *(note(sentence(line), warn=True) for line in fit.warnings),
        _worth(fit),
        section(words.heading(fit), _tree(fit), note_below(words.summary_words(fit)), *_maps(fit), *_dependence(fit)),
        section("Why", table(words.CANDIDATES, words.candidate_rows(fit), stack=True), *_why(fit)),
        *([section("Limits", table(*words.limit_rows(fit)), *map(text, words.limit_words(fit)))] if fit.limits else []),
        *([section("Costs", table(*words.cost_rows(fit)))] if words.cost_rows(fit)[1] else []),
        section(
            "Details",
            heading("What was read"),
            facts(words.read(fit)),
            heading("What was tested"),
            listed(words.tests(fit)),
        ),
        f'<p class="muted">Written by dualq {__version__}.</p>',
    )


def number_fragment(fit: NumberFit) -> str:
    """What a notebook shows."""
    word, _, rest = words.verdict(fit).partition(". ")
    lines = "".join(f"<p style='{LINES}'>{escape(line)}</p>" for line in words.guarantees(fit))
    rules = "".join(
        f"<li>{escape(' and '.join(conditions) or 'always')}: <b>{escape(action)}</b></li>"
        for conditions, action in number_rules(fit)
    )
    top = f"<b style='font-size:1.3em'>{escape(word)}</b><br>{escape(rest)}{lines}"
    return f"<div style='max-width:48em'>{top}<ul>{rules}</ul><p>{escape(words.summary_words(fit))}</p></div>"


def number_rules(fit: NumberFit) -> list[tuple[tuple[str, ...], str]]:
    """(conditions, action) of each rule of the summary; "mostly" where others are drawn as well, as in `fit.rules`."""
    taken = [f"{'mostly ' if leaf.mostly else ''}{said(fit.actions.named(leaf.action))}" for leaf in fit.leaves]
    each = zip(fit.leaves, taken, strict=True)
    return [(leaf.conditions, f"{action} ({percent(leaf.share)} of the log's states)") for leaf, action in each]


def _tree(fit: NumberFit) -> str:
    rules = [(leaf.path, action) for leaf, (_, action) in zip(fit.leaves, number_rules(fit), strict=True)]
    return text(f"Always {rules[0][1]}.") if len(rules) == 1 else tree(rules)


def _why(fit: NumberFit) -> list[str]:
    return [*map(text, words.candidates_words(fit)), note_below(words.earned(fit))]


def worth(fit: NumberFit) -> list[charts.Interval]:
    """Every policy's expectation, the recommended one first, and what was done so far."""
    order = sorted(fit.candidates, key=lambda one: (one is not fit.chosen, -one.expected.value))
    named = [(f"{one.name}{', recommended' if one is fit.chosen else ''}", one.expected) for one in order]
    return [_interval(name, e) for name, e in [*named, ("what was done so far", fit.logged)]]


def _worth(fit: NumberFit) -> str:
    rows = worth(fit)
    wide, narrow = (charts.intervals(rows, width) for width in (charts.WIDE, charts.NARROW))
    return figure(wide, "What each policy is expected to earn. Lines: two standard errors on both sides.", narrow)


def _interval(name: str, e: Estimate) -> charts.Interval:
    error = 2.0 * (e.standard_error or 0.0)
    return charts.Interval(f"{name}: {estimate(e)}", e.value - error, e.value + error, value=e.value)


def _maps(fit: NumberFit) -> list[str]:
    """The recommended action over the two columns of numbers that matter most, the others at their medians."""
    numbers = [name for name, x in fit.importance.items() if name in fit.columns.numbers and x >= HARDLY][:2]
    if len(numbers) < 2:
        return []
    x, y = numbers
    found = fit.grid(x, y, GRID)
    actions = [said(fit.actions.named(a)) for a in range(len(fit.actions))]
    cells = [charts.Cell(f"{cell.x:.3g}", f"{cell.y:.3g}", actions[cell.action], cell.rows) for cell in found]
    caption = (
        f"The action by {x} and {y}, where all other columns have their usual values. Hatched: fewer than 10 of "
        f"{len(fit.sample):,} rows of the log have {x} and {y} like this."
    )
    return [heading(f"By {x} and {y}"), figure(charts.policy_map([("new policy", cells)], x, y, actions), caption)]


def _dependence(fit: NumberFit) -> list[str]:
    """How the recommendation depends on each column, those first that matter most."""
    actions = [said(fit.actions.named(a)) for a in range(len(fit.actions))]
    drawn: list[str] = []
    for name, share in list(fit.importance.items())[:MOST_COLUMNS]:
        if share < HARDLY:
            continue
        found = fit.dependence(name)
        wide, narrow = (
            charts.svg(charts.shares_spec(found.at, found.shares.tolist(), actions, name, width))
            for width in (charts.WIDE, charts.NARROW)
        )
        caption = f"How often each action is taken as {name} varies, all other columns as logged: {percent(share)} of "
        drawn.append(figure(wide, f"{caption}decisions rest on it.", narrow))
    return [heading("What the decision depends on"), *drawn] if drawn else []
