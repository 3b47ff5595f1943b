"""The page that `dualq learn` prints: what a manager asks, in that order, on one screen or two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dualq.report.words import (
    COSTS,
    changed,
    cost_table,
    limit_assumptions,
    limit_table,
    limit_words,
    percent,
    promises,
    read,
    recommended,
    said,
    unknown,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_fit(fit: Any, console: Console) -> None:
    """Print the page."""
    from rich.markup import escape

    def heading(words: str) -> None:
        console.print(f"\n{words}\n", style="bold")

    console.print(f"What to do, learned from {escape(fit.settings['source'])}", style="bold", soft_wrap=True)
    heading("What was read")
    _facts(console, read(fit))
    heading("What the log cannot tell")
    _facts(console, unknown(fit))
    for words in fit.coverage.warnings:
        console.print(f"Warning: {escape(words)}", style="bold")
    heading("What changes")
    rows = fit.changes()
    console.print(changed(fit, len(rows)))
    if rows:
        console.print()
        _changes(console, fit, rows)
    if fit.limits:
        heading("Limits")
        _limits(console, fit)
    header, costs = cost_table(fit)
    if costs:
        heading("Costs")
        console.print(COSTS + "\n")
        console.print(_columns(header, costs))
    heading("What is expected, and how sure that is")
    for words in promises(fit):
        console.print(escape(words))
    console.print(f"\n{escape(fit.reason)}")


def plain_table(padding: int = 2) -> Table:
    """A table without lines."""
    from rich.table import Table

    return Table(box=None, header_style="bold", padding=(0, padding))


def names_and_values() -> Table:
    """A table of two columns, the first in bold."""
    pairs = plain_table()
    pairs.show_header = False
    pairs.add_column(style="bold", no_wrap=True)
    pairs.add_column()
    return pairs


def _changes(console: Console, fit: Any, rows: list[dict]) -> None:
    from rich.markup import escape

    table = plain_table(padding=1)
    for name in fit.counts.states.names:
        numeric = all(isinstance(row["state"][name], int | float) for row in rows)
        table.add_column(escape(name), justify="right" if numeric else "left", no_wrap=True)
    for name in ("time", "logged most", "recommended", "rows", "gain"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            *(escape(str(value)) for value in row["state"].values()),
            percent(row["time_share"]),
            escape(f"{said(row['logged'])} ({percent(row['logged_share'])})"),
            escape(recommended(row)),
            f"{row['recommended_rows']:,}",
            f"{row['gain']:.3g} ± {row['gain_error']:.2g}",
        )
    console.print(table)


def _columns(header: list[str], rows: list[list[str]]) -> Table:
    """Names at the left, and what is said of each at the right of its column."""
    from rich.markup import escape

    table = plain_table()
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if i else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _limits(console: Console, fit: Any) -> None:
    from rich.markup import escape

    header, rows = limit_table(fit)
    for row in rows:
        console.print(escape(row[0]), style="bold")
        _facts(console, [(name, words) for name, words in zip(header[1:], row[1:], strict=True) if words])
    console.print()
    for words in (*limit_words(fit), limit_assumptions(fit)):
        console.print(escape(words))


def _facts(console: Console, facts: list[tuple[str, str]]) -> None:
    from rich.markup import escape

    table = names_and_values()
    for name, words in facts:
        table.add_row(escape(name), escape(words))
    console.print(table)
