"""What a fit shows of itself: all that `Fit`, `Frontier`, `Evaluation` and `Comparison` ask of this room.

A fit lies below the pages that show it: these are its only calls upwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dualq.app.report.charts import Row
    from dualq.offline import Comparison, Evaluation, Fit, Frontier, NumberEvaluation, NumberFit


@dataclass(frozen=True)
class Pages:
    """A fit as people see it."""

    fit: Fit

    def brief(self) -> str:
        """Two lines, for those who print it."""
        from dualq.app.report.words import brief

        return brief(self.fit)

    def notebook(self) -> str:
        """A piece of HTML for a notebook."""
        from dualq.app.report.notebook import fragment

        return fragment(self.fit)

    def report(self) -> str:
        """The whole report: one HTML page that needs no network."""
        from dualq.app.report.html import report_html

        return report_html(self.fit)


@dataclass(frozen=True)
class NumberPages:
    """A fit over states of numbers, as people see it."""

    fit: NumberFit

    def brief(self) -> str:
        """Two lines, for those who print it."""
        from dualq.app.report.number_words import brief

        return brief(self.fit)

    def notebook(self) -> str:
        """A piece of HTML for a notebook."""
        from dualq.app.report.number_pages import number_fragment

        return number_fragment(self.fit)

    def report(self) -> str:
        """The whole report: one HTML page that needs no network."""
        from dualq.app.report.number_pages import number_report

        return number_report(self.fit)


@dataclass(frozen=True)
class EvaluationPages:
    """A policy from outside, judged by a log, as people see it."""

    evaluation: Evaluation | NumberEvaluation

    def brief(self) -> str:
        """Two lines, for those who print it."""
        from dualq.app.report.evaluation_words import brief

        return brief(self.evaluation)

    def notebook(self) -> str:
        """A piece of HTML for a notebook."""
        from dualq.app.report.evaluation_pages import evaluation_fragment

        return evaluation_fragment(self.evaluation)

    def report(self) -> str:
        """The whole report: one HTML page that needs no network."""
        from dualq.app.report.evaluation_pages import evaluation_report

        return evaluation_report(self.evaluation)


@dataclass(frozen=True)
class ComparisonPages:
    """Several policies, judged by one log, as people see them."""

    comparison: Comparison

    def brief(self) -> str:
        """Two lines, for those who print it."""
        from dualq.app.report.comparison_pages import brief

        return brief(self.comparison)

    def notebook(self) -> str:
        """A piece of HTML for a notebook."""
        from dualq.app.report.comparison_pages import comparison_fragment

        return comparison_fragment(self.comparison)

    def report(self) -> str:
        """The whole report: one HTML page that needs no network."""
        from dualq.app.report.comparison_pages import comparison_report

        return comparison_report(self.comparison)


def frontier_chart(frontier: Frontier, band: bool, marked: float | None, width: int | None) -> str:
    """A trade-off as SVG."""
    from dualq.app.report.charts import svg

    return svg(frontier_spec(frontier, band, marked, width))


def frontier_spec(frontier: Frontier, band: bool, marked: float | None, width: int | None) -> Row:
    """A trade-off as a Vega-Lite specification."""
    from dualq.app.report.charts import WIDE, curve_spec

    titles = f"{frontier.name}, on average", "expected to earn"
    return curve_spec(frontier.rows(), *titles, band, marked, frontier.chosen, width or WIDE)
