"""The page that `dualq learn` prints: the verdict, what to do, why, and the details.

Guarantees are green, estimates are not; both say what they are, for those who see no colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dualq.app.report.limit_words import bounds_words, cost_table, cost_words, guarantees, limit_table, limit_words
from dualq.app.report.update_words import UPDATED, updated_explained, updated_table, updated_words
from dualq.app.report.words import (
    CHANGES,
    RESTS,
    assumptions,
    ceilings,
    change_cells,
    changed,
    changes_explained,
    changes_heading,
    covered,
    more_rows,
    read,
    tests,
    verdict,
    warnings,
    why,
    worth_table,
)
from dualq.base import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from dualq.offline import Fit

SURE = "green"  # the ink of guarantees


def print_fit(fit: Fit, console: Console) -> None:
    """Print the page."""
    page = Page(console)
    page.line(verdict(fit), "bold")
    page.gap()
    for words in guarantees(fit):
        page.line(words, SURE if words.startswith("Guaranteed") else None)
    page.lines((f"Warning: {words}" for words in warnings(fit)), "bold")

    if fit.updated is not None:
        page.heading(UPDATED)
        page.lines(updated_words(fit, fit.updated))
        if fit.updated["changes"]:
            page.gap()
            page.table(*updated_table(fit, fit.updated))
            page.gap()
            page.line(updated_explained(), "dim")
    page.heading(changes_heading(fit))
    rows = fit.changes()
    page.line(changed(fit, len(rows)))
    if rows:
        page.gap()
        names = fit.counts.states.names
        page.table([*names, *CHANGES], [[*map(visible, row["state"].values()), *change_cells(row)] for row in rows])
        page.gap()
        page.line(changes_explained(fit), "dim")

    page.heading("Why")
    page.table(*worth_table(fit))
    page.gap()
    page.lines(why(fit))
    if fit.limits:
        page.heading("Limits")
        page.limits(fit)
    header, costs = cost_table(fit)
    if costs:
        page.heading("Costs")
        page.lines([cost_words(fit), ""])
        page.table(header, costs)

    page.heading("Details")
    page.facts([*read(fit), *covered(fit)])
    page.listed("Tested in the log", tests(fit))
    page.listed("Bounds", [*ceilings(fit), *more_rows(fit)])
    page.listed(RESTS, assumptions(fit))


class Page:
    """What is printed, a part at a time; no text is taken for markup."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def line(self, words: str, style: str | None = None) -> None:
        """A paragraph."""
        self.console.print(words, style=style, markup=False)

    def lines(self, words: Iterable[str], style: str | None = None) -> None:
        """Several."""
        for one in words:
            self.line(one, style)

    def gap(self) -> None:
        """An empty line."""
        self.console.print()

    def heading(self, words: str) -> None:
        """A heading, in bold."""
        self.console.print(f"\n{words}\n", style="bold")

    def listed(self, name: str, words: Sequence[str]) -> None:
        """A list under a name; nothing where it is empty."""
        if words:
            self.console.print(f"\n{name}")
            table = names_and_values()
            for one in words:
                table.add_row("-", _literal(one))
            self.console.print(table)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table."""
        self.console.print(columns(header, rows))

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Names and values."""
        table = names_and_values()
        for name, words in facts:
            table.add_row(_literal(name), _literal(words))
        self.console.print(table)

    def limits(self, fit: Fit) -> None:
        """What became of each limit."""
        header, rows = limit_table(fit)
        for row in rows:
            self.line(row[0], "bold")
            self.facts([(name, words) for name, words in zip(header[1:], row[1:], strict=True) if words])
        self.gap()
        self.lines([*limit_words(fit), bounds_words(fit)])


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table; columns in which every cell begins with a digit or a sign stand at the right."""
    table = plain_table(padding=1)
    for i, name in enumerate(header):
        numbers = all(not row[i] or row[i][0] in "-+<0123456789" for row in rows)
        table.add_column(_literal(name), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_literal, row))
    return table


def plain_table(padding: int = 2) -> Table:
    """A table without lines."""
    from rich.table import Table

    return Table(box=None, header_style="bold", padding=(0, padding))


def names_and_values() -> Table:
    """A table of two columns, the first in bold."""
    pairs = plain_table()
    pairs.show_header = False
    pairs.add_column(style="bold", no_wrap=True)
    pairs.add_column(overflow="fold")
    return pairs


def _literal(words: str) -> str:
    from rich.markup import escape

    return escape(words)
