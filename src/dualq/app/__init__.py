"""What a person meets: the command line, the report and the studio.

cli      thin: parse, call, print
report   the page on the terminal, the HTML file, what a notebook shows; one vocabulary for all
studio   the main job in a browser, on this machine
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.base.faces import face

if TYPE_CHECKING:
    from dualq.app.report.pages import ComparisonPages as ComparisonPages
    from dualq.app.report.pages import EvaluationPages as EvaluationPages
    from dualq.app.report.pages import NumberPages as NumberPages
    from dualq.app.report.pages import Pages as Pages
    from dualq.app.report.pages import frontier_chart as frontier_chart

__getattr__, __dir__, __all__ = face(__name__, __file__)
