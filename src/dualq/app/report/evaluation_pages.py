"""The pages of a policy from outside that was judged by a log: terminal, report and notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import NormalDist
from typing import TYPE_CHECKING

from dualq._version import __version__
from dualq.app.report import charts, number_words
from dualq.app.report import evaluation_words as words
from dualq.app.report.page import LINES, facts, figure, heading, listed, note, note_below, page, section, table, text
from dualq.app.report.page import verdict as verdict_box
from dualq.app.report.words import estimate, number, percent, read, really_earned, sentence, tests
from dualq.app.report.words import warnings as log_warnings
from dualq.base import visible

if TYPE_CHECKING:
    from rich.console import Console

    from dualq.app.report.evaluation_words import AnyEvaluation
    from dualq.offline import Estimate, Evaluation, PolicyCertificate


def warnings(e: AnyEvaluation) -> list[str]:
    """What must be read before any number."""
    return log_warnings(e) if words.is_table(e) else [sentence(line) for line in e.warnings]


def print_evaluation(e: AnyEvaluation, console: Console) -> None:
    """Print the page."""
    from dualq.app.report.terminal import SURE, Page

    out = Page(console)
    out.line(words.verdict(e), "bold")
    out.gap()
    for line in words.guarantees(e):
        out.line(line, SURE if line.startswith("Guaranteed") else None)
    out.lines((f"Warning: {line}" for line in warnings(e)), "bold")
    out.heading("What it earns")
    out.table(*words.worth_table(e))
    out.gap()
    out.lines(_earns(e))
    if words.is_table(e):
        _print_decisions(e, out)
    for title, (header, rows) in (("Limits", words.limit_table(e)), ("Costs", words.cost_table(e))):
        if rows:
            out.heading(title)
            out.table(header, rows)
    out.heading("Details")
    out.facts(_read(e))
    out.listed("Tested in the log", _tests(e))


def _print_decisions(e: Evaluation, out: object) -> None:
    from dualq.app.report.terminal import Page

    assert isinstance(out, Page)
    out.heading("What the log has seen of it")
    out.lines([words.unseen_words(e), *words.filled_words(e)])
    header, rows = words.unseen_table(e)
    if rows:
        out.gap()
        out.table(header, rows)
    out.heading("What it does otherwise")
    out.line(words.changed(e))
    if e.changes():
        out.gap()
        out.table(*_changes(e))
        out.gap()
        out.line(words.CHANGES_EXPLAINED, "dim")


def _earns(e: AnyEvaluation) -> list[str]:
    """The sentences below the table of what is earned."""
    if words.is_table(e):
        return [words.amounts(e), *really_earned(e), *words.weighted_words(e), words.luck_words(e)]
    support = [words.support_words(e)] if words.is_of_numbers(e) else []
    return [words.amounts(e), *support, *words.weighted_words(e), words.luck_words(e)]


def _changes(e: Evaluation) -> tuple[list[str], list[list[str]]]:
    body = [[*map(visible, row["state"].values()), *words.change_cells(row)] for row in e.changes()]
    return [*e.counts.states.names, *words.CHANGES], body


def _read(e: AnyEvaluation) -> list[tuple[str, str]]:
    if words.is_table(e):
        return [("policy", e.given.source), *read(e)]
    rows = number_words.rows_read(e.read, e.judge.rows, e.judge.left_out) if words.is_of_numbers(e) else []
    return [("policy", words.source_of(e)), *rows]


def _tests(e: AnyEvaluation) -> list[str]:
    if words.is_table(e):
        return tests(e)
    found = [sentence(finding.words) for finding in e.judge.findings] if words.is_of_numbers(e) else []
    return found or ["Nothing could be tested: the rows have no order in time."]


# ---- the report


def evaluation_report(e: AnyEvaluation) -> str:
    """One HTML page."""
    title = f"{e.verdict.capitalize()}: {words.source_of(e)}, judged by {e.read.source}"
    sure = words.useful(e) is not None or words.by_weights(e) is not None
    return page(
        title,
        f'<p class="muted">{escape(words.source_of(e))}, judged by {escape(e.read.source)}</p>',
        verdict_box(e.verdict, words.verdict(e), words.guarantees(e), sure),
        *(note(line, warn=True) for line in warnings(e)),
        drawn(worth_rows(e), e.confidence, e.promised),
        section("What it earns", table(*words.worth_table(e), stack=True), *map(text, _earns(e))),
        *(_decisions(e) if words.is_table(e) else []),
        *_tables(e),
        section("Details", heading("What was read"), facts(_read(e)), heading("What was tested"), listed(_tests(e))),
        f'<p class="muted">Written by dualq {__version__}.</p>',
    )


def _decisions(e: Evaluation) -> list[str]:
    header, rows = words.unseen_table(e)
    unseen = [table(header, rows)] if rows else []
    changes = [table(*_changes(e)), note_below(words.CHANGES_EXPLAINED)] if e.changes() else []
    return [
        section(
            "What the log has seen of it",
            text(words.unseen_words(e)),
            *unseen,
            *map(text, words.filled_words(e)),
        ),
        section("What it does otherwise", text(words.changed(e)), *changes),
    ]


def _tables(e: AnyEvaluation) -> list[str]:
    parts = (("Limits", words.limit_table(e)), ("Costs", words.cost_table(e)))
    return [section(title, table(header, rows, stack=True)) for title, (header, rows) in parts if rows]


def worth_rows(e: AnyEvaluation) -> list[charts.Interval]:
    """The policy and what was done so far: expected, and guaranteed where it is."""
    promise = words.useful(e)
    found = interval_rows("this policy", e.expected, promise, e.confidence)
    usual = None if promise is None else promise.behaviour
    found += interval_rows("what was done so far", e.logged, None, e.confidence, usual)
    if e.weighted is not None:
        ends = e.weighted.low, e.weighted.high
        name = f"this policy, by the logged propensities: {number(ends[0])} to {number(ends[1])}"
        found.append(charts.Interval(name, *ends, value=None if e.weighted.hopeless else e.weighted.value))
    return found


def interval_rows(
    name: str,
    e: Estimate,
    promise: PolicyCertificate | None,
    confidence: float,
    ends: tuple[float, float] | None = None,
) -> list[charts.Interval]:
    """A line for what is expected, and one for what is guaranteed."""
    error = quantile(confidence) * (e.standard_error or 0.0)
    rows = [charts.Interval(f"{name}, expected: {estimate(e)}", e.value - error, e.value + error, value=e.value)]
    ends = (promise.lower, promise.upper) if promise is not None else ends
    if ends is not None:
        said = f"{name}, guaranteed ({percent(confidence)}): {number(ends[0])} to {number(ends[1])}"
        rows.append(charts.Interval(said, *ends, sure=True))
    return rows


def quantile(confidence: float) -> float:
    """How many standard errors an interval with this confidence reaches to each side."""
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def drawn(rows: Sequence[charts.Interval], confidence: float, promised: bool) -> str:
    """The picture on top."""
    wide, narrow = (charts.intervals(rows, width) for width in (charts.WIDE, charts.NARROW))
    caption = f"Dots: expected; thin lines: {quantile(confidence):.3g} standard errors on both sides."
    if promised and any(row.sure for row in rows):
        caption += " Thick bars: guaranteed, on the conditions above."
    return figure(wide, caption, narrow)


def evaluation_fragment(e: AnyEvaluation) -> str:
    """What a notebook shows."""
    word, _, rest = words.verdict(e).partition(". ")
    lines = "".join(f"<p style='{LINES}'>{escape(line)}</p>" for line in (*words.guarantees(e), *warnings(e)))
    return f"<div style='max-width:48em'><b style='font-size:1.3em'>{escape(word)}</b><br>{escape(rest)}{lines}</div>"
