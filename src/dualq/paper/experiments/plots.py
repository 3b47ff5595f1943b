"""Plots of tidy tables: median lines and quartile bands over a logarithmic axis, readable in black and white.

A curve is told from the others by its dashes, by the shape of its points and by how dark it is, and its colour says
nothing that these do not. Altair and vl-convert are loaded when something is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, TypeAlias

from dualq.paper.experiments.curves import Row

# Dark to light, and of different hues.
COLOURS = ("#000000", "#1b4f9c", "#c4501b", "#6a9a2d", "#8a63b8", "#c99a1e", "#8f8f8f", "#5fb3c9")
DASHES = ([1, 0], [6, 3], [2, 2], [9, 3, 2, 3], [4, 2], [12, 3], [1, 3], [6, 2, 1, 2, 1, 2])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "stroke")
PANEL = {"width": 330, "height": 250}
STEP = "step (one transition each)"
POINTS = 8  # per curve, about
Chart: TypeAlias = Any  # of Altair, whose methods are made at run time
SCALE = 1.4  # of the PNG: 100 dots per inch where the SVG has 72


def svg(chart: Chart) -> bytes:
    """The chart as a vector file."""
    import vl_convert

    return vl_convert.vegalite_to_svg(chart.to_dict()).encode()


def png(chart: Chart) -> bytes:
    """The chart as a bitmap."""
    import vl_convert

    return vl_convert.vegalite_to_png(chart.to_dict(), scale=SCALE)


def over_steps(
    rows: Sequence[Row],
    title: str,
    axes: Mapping[str, str],
    *,
    x: str = STEP,
    zero: bool = False,
    points: str = "median",
    columns: int | None = None,
    least: float | None = None,
    subtitle: str = "",
) -> Chart:
    """Panels side by side: one per panel of the table and metric in `axes`, {metric: words of its axis}.

    zero     a linear axis from zero; else logarithmic, without what is not positive
    points   which column the points show; lines are medians, bands go from quartile to quartile
    least    where the axis is logarithmic: what is less, zero above all, is drawn as this
    """
    import altair as alt

    text = f"{_caption(rows, points)} {subtitle}"
    if least is not None:
        rows = [row.copy() for row in rows]
        for row in rows:
            row["low"], row["median"], row["high"] = (max(x, least) for x in (row["low"], row["median"], row["high"]))
        text = f"{text} What is below {least:g} is drawn as {least:g}."
    metrics = [metric for metric in axes if any(row["metric"] == metric for row in rows)]
    curves = list(dict.fromkeys(row["curve"] for row in rows))
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    charts = []
    for metric in metrics:
        for panel in panels:
            part = [row for row in rows if row["metric"] == metric and row["panel"] == panel]
            charts.append(_panel(alt, part, panel, axes[metric], x, zero, points, curves))
    grid: Chart = alt.concat(*charts, columns=columns or max(len(charts), 1), spacing=28)
    return finished(grid, title, text)


def _caption(rows: Sequence[Row], points: str) -> str:
    seeds = max(row["seeds"] for row in rows)
    where = "points: means" if points == "mean" else "points: to tell the lines apart"
    return f"Line: median of {seeds} seeds; band: quartiles; {where}."


def finished(chart: Chart, title: str, subtitle: str) -> Chart:
    """Title and sizes of letters, the same for all."""
    import altair as alt

    words = alt.TitleParams(
        title, subtitle=_folded(subtitle), anchor="start", fontSize=15, subtitleFontSize=11, offset=14
    )
    chart = chart.properties(title=words, background="white", padding=12)
    chart = chart.configure_axis(labelFontSize=11, titleFontSize=12, titleFontWeight="normal", gridColor="#e4e4e4")
    chart = chart.configure_legend(
        labelFontSize=11, titleFontSize=12, symbolSize=70, symbolOpacity=1.0, symbolStrokeWidth=0, labelLimit=300
    )
    return chart.configure_view(stroke="#bbbbbb")


def scales(alt: ModuleType, curves: Sequence[str], columns: int = 4) -> dict[str, Chart]:
    """Colour, dashes and shape of every curve, with one legend for the three."""
    legend = alt.Legend(title=None, orient="bottom", direction="horizontal", columns=columns)
    n = len(curves)
    return {
        "color": alt.Color("curve:N", scale=alt.Scale(domain=curves, range=list(COLOURS[:n])), legend=legend),
        "strokeDash": alt.StrokeDash("curve:N", scale=alt.Scale(domain=curves, range=list(DASHES[:n])), legend=None),
        "shape": alt.Shape("curve:N", scale=alt.Scale(domain=curves, range=list(SHAPES[:n])), legend=legend),
    }


def log_axis(alt: ModuleType, field: str, title: str, values: Sequence[float]) -> tuple[str, Chart, Chart]:
    """A logarithmic axis with powers of ten."""
    low, high = min(values), max(values)
    decade = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high < 50.0 * low else (1,)
    tens = [step * 10.0**e for e in decade for step in steps]
    expression = (
        "'1e' + round(log(datum.value) / LN10)"
        if (high >= 1e6 or low < 1e-3) and len(steps) == 1
        else "format(datum.value, '~g')"
    )
    axis = alt.Axis(values=tens, labelExpr=expression, title=title, labelOverlap=True)
    return field, alt.Scale(type="log", domain=[low, high], nice=False), axis


def _panel(
    alt: ModuleType,
    rows: Sequence[Row],
    panel: str,
    y_title: str,
    x_title: str,
    zero: bool,
    points: str,
    curves: Sequence[str],
    legend_columns: int = 4,
) -> Chart:
    """One panel: bands, lines, points."""
    shown = [row.copy() for row in rows if zero or row["median"] > 0.0]
    if not zero:  # a band that goes below zero goes to the edge
        least = min((row["low"] for row in shown if row["low"] > 0.0), default=1.0)
        for row in shown:
            row["low"] = max(row["low"], min(least, row["median"]))
    how = scales(alt, curves, legend_columns)
    field, scale, axis = log_axis(alt, "x:Q", x_title, [row["x"] for row in shown])
    x = alt.X(field, scale=scale, axis=axis)
    if zero:
        y_scale, y_axis = alt.Scale(zero=True, nice=True), alt.Axis(title=y_title)
    else:
        y_values = [row[name] for row in shown for name in ("low", "median", "high") if row[name] > 0.0]
        _, y_scale, y_axis = log_axis(alt, "", y_title, [0.9 * min(y_values), 1.1 * max(y_values)])
    base = alt.Chart(alt.Data(values=shown))
    band = base.mark_area(opacity=0.16).encode(
        x=x, y=alt.Y("low:Q", scale=y_scale, axis=y_axis), y2="high:Q", color=how["color"]
    )
    line = base.mark_line(strokeWidth=2).encode(
        x=x, y=alt.Y("median:Q", scale=y_scale, axis=y_axis), color=how["color"], strokeDash=how["strokeDash"]
    )
    dots = alt.Chart(alt.Data(values=_some(shown))).mark_point(size=42, filled=True, opacity=1.0)
    dot = dots.encode(x=x, y=alt.Y(f"{points}:Q", scale=y_scale, axis=y_axis), color=how["color"], shape=how["shape"])
    return alt.layer(band, line, dot).properties(**PANEL, **({"title": panel} if panel else {}))


def _some(rows: Sequence[Row]) -> list[Row]:
    """A few rows of each curve, at other places for each, so that points do not cover each other."""
    found = []
    for i, curve in enumerate(dict.fromkeys(row["curve"] for row in rows)):
        own = [row for row in rows if row["curve"] == curve]
        stride = max(1, len(own) // POINTS)
        found += own[i % stride :: stride]
    return found


def _folded(text: str, width: int = 110) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)


def by_panel(rows: Sequence[Row], title: str, axes: Mapping[str, str], *, columns: int) -> Chart:
    """Panels of which each has one metric; the curves have the same names in all."""
    import altair as alt

    curves = list(dict.fromkeys(row["curve"] for row in rows))
    charts = []
    for panel in dict.fromkeys(row["panel"] for row in rows):
        part = [row for row in rows if row["panel"] == panel]
        charts.append(_panel(alt, part, panel, axes[part[0]["metric"]], STEP, False, "median", curves))
    return finished(alt.concat(*charts, columns=columns, spacing=28), title, _caption(rows, "median"))


def in_rows(
    rows: Sequence[Row], title: str, axes: Mapping[str, str], *, x: str, linear: Sequence[str], least: float, note: str
) -> Chart:
    """A row for each panel of the table, in it one drawing per metric; those in `linear` with an axis from zero."""
    import altair as alt

    curves = list(dict.fromkeys(row["curve"] for row in rows))
    charts = []
    for panel in dict.fromkeys(row["panel"] for row in rows):
        for metric, words in axes.items():
            part = [row.copy() for row in rows if row["panel"] == panel and row["metric"] == metric]
            for row in part if metric not in linear else ():
                row["low"], row["median"], row["high"] = (max(row[at], least) for at in ("low", "median", "high"))
            charts.append(_panel(alt, part, panel, words, x, metric in linear, "median", curves, len(curves)))
    text = f"{_caption(rows, 'median')} {note} What is below {least:g} is drawn as {least:g}."
    return finished(alt.concat(*charts, columns=len(axes), spacing=28), title, text)


def own_legends(
    rows: Sequence[Row], title: str, metric: str, y_title: str, *, columns: int, zero: bool = False
) -> Chart:
    """Panels with different curves: a legend under each."""
    import altair as alt

    charts = []
    for panel in dict.fromkeys(row["panel"] for row in rows):
        part = [row for row in rows if row["metric"] == metric and row["panel"] == panel]
        curves = list(dict.fromkeys(row["curve"] for row in part))
        charts.append(_panel(alt, part, panel, y_title, STEP, zero, "median", curves, legend_columns=2))
    grid: Chart = alt.concat(*charts, columns=columns, spacing=28)
    grid = grid.resolve_scale(color="independent", shape="independent", strokeDash="independent")
    return finished(grid, title, _caption(rows, "median"))
