"""`dualq frontier`: what a limit on a cost costs, from a saved run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dualq.app.cli.logs import Run
from dualq.app.cli.shared import Json, console, option, print_json, stages
from dualq.base import LogError, csv_text

if TYPE_CHECKING:
    from dualq.app.cli.shapes import FrontierFacts
    from dualq.offline import Fit, Frontier


def frontier(
    run: Run,
    limit: Annotated[str, option("COST", "The cost to limit: a column of the log.")],
    points: Annotated[
        int | None,
        typer.Option(metavar="N", help="How many limits to try; by default 20, or 8 where there are many states."),
    ] = None,
    out: Annotated[
        Path | None,
        option("FILE", "Write the curve: .svg, .png, or .csv for the numbers."),
    ] = None,
    as_json: Json = False,
) -> None:
    """What a limit on a cost costs: the most that can be earned for every limit, with bounds.

    RUN must have been learned with this cost: `dualq learn ... --cost COLUMN --out RUN`.
    """
    if out is not None and out.suffix not in CONTENTS:
        raise LogError(f"--out {out}: must end in {', '.join(CONTENTS)}", argument="out", value=str(out))
    with stages("Solving for every limit"):
        from dualq.base import write_whole
        from dualq.offline import Fit, load

        fit = load(run)
        if not isinstance(fit, Fit):
            fit.frontier(limit)
        curve = fit.frontier(limit, points)
        if out is not None:
            write_whole(out, CONTENTS[out.suffix](fit, curve))
    if as_json:
        facts: FrontierFacts = {
            "cost": curve.name,
            "sense": curve.sense,
            "confidence": curve.confidence,
            "blocks": curve.blocks,
            "ledger": curve.ledger.summary(),
            "recommended": curve.chosen,
            "points": curve.rows(),
            "files": [str(out)] if out else [],
        }
        print_json(facts)
        return
    from dualq.app.report.guarantee_words import guarantee
    from dualq.app.report.limit_words import doubtful
    from dualq.app.report.terminal import plain_table
    from dualq.app.report.words import one_shot, percent

    page = console()
    page.print(f"What a limit on {curve.name} costs\n", style="bold", markup=False)
    shown = plain_table()
    shown.collapse_padding, shown.pad_edge = True, False
    for name in ("limit", "earns", "bounds", "cost", "bounds"):
        shown.add_column(name, justify="right")
    for row in curve.rows():
        shown.add_row(
            f"{row['limit']:.3g}",
            f"{_short(row['value'])} ± {row['error']:.1g}",
            f"{_short(row['low'])} to {_short(row['high'])}",
            f"{row['cost']:.3g} ± {row['cost_error']:.1g}",
            f"{row['cost_low']:.2g} to {row['cost_high']:.2g}",
        )
    page.print(shown)
    own = curve.chosen
    page.print(
        f"\nThe new policy is expected to earn {_short(own['value'])} ± {own['error']:.1g} and to cost "
        f"{own['cost']:.3g} ± {own['cost_error']:.1g}."
    )
    each = "decision" if one_shot(fit) else "step"
    wider = "all lines hold at once, also the one that you choose by this table"
    blocks = "all rows together" if curve.blocks == 1 else f"the log in {curve.blocks} parts"
    page.print(
        f"\nEach line is the best policy for its limit: what it is expected to earn, and its cost per {each}, with one "
        f"standard error. The bounds hold for all lines together with {percent(curve.confidence)} confidence, on the "
        f"conditions that `dualq learn` names; they come from {blocks}. So they are wider than what `dualq learn` "
        f"guarantees, which is of one policy alone: {wider}. --json and a .csv file have all digits, and "
        "the price of the limit at each point."
    )
    if doubtful(fit):
        page.print(f"\n{guarantee(fit)[0]}", markup=False)
    if out is not None:
        page.print(f"\nWritten: {out}", markup=False, soft_wrap=True)


def _short(x: float) -> str:
    """Three digits, without an exponent below a million: a line of the table has 80 columns."""
    return f"{x:.0f}" if 1e3 <= abs(x) < 1e6 else f"{x:.3g}"


def _drawn(fit: Fit, curve: Frontier) -> str:
    """With the proven band where it says something."""
    asked = {one.name: one.limit.bound for one in fit.asked}
    informative = fit.certificate is not None and fit.certificate.informative
    return curve.chart(band=informative, marked=asked.get(curve.name))


def _svg(fit: Fit, curve: Frontier) -> bytes:
    return _drawn(fit, curve).encode()


def _png(fit: Fit, curve: Frontier) -> bytes:
    from dualq.app.report.charts import png

    return png(_drawn(fit, curve))


def _csv(fit: Fit, curve: Frontier) -> bytes:
    return csv_text(curve.columns, (row.values() for row in curve.rows())).encode()


CONTENTS = {".svg": _svg, ".png": _png, ".csv": _csv}
