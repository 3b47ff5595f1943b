"""The charts of the report, as SVG: they need no network, no script, and print as they look.

Each takes plain rows (a list of dictionaries) and gives the text of an SVG. Colours are readable without colour: the
shade says the same as the label beside it. All but heat maps are narrow enough for a telephone, at their own size.
"""

from __future__ import annotations

import json
from typing import Any

INK, ACCENT, MUTED, PALE = "#1f2933", "#1f5fa8", "#7b8794", "#e4e7eb"
FONT = "Helvetica, Arial, sans-serif"
CELL = 24  # pixels of a heat map's cell
LETTER = 6.2  # pixels of a letter of a heat map, about
WIDE = 340  # pixels of a drawing with its labels, about: a narrow page
LABELLED_CELLS = 400  # above this the cells of a heat map are too small for their labels

Rows = list[dict[str, Any]]


def heat_map(rows: Rows, x: str, y: str, actions: list[str]) -> str:
    """What is done; rows have `x`, `y`, `action` and `panel`: a picture for each of its values. x, y: titles."""
    import altair as alt

    xs, ys, panels = ([*dict.fromkeys(row[axis] for row in rows)] for axis in ("x", "y", "panel"))
    half = (len(actions) - 1) / 2.0
    rows = [row | {"dark": actions.index(row["action"]) >= half} for row in rows]
    size = max(CELL, min(56, 320 // max(1, len(xs))))
    longest = LETTER * max(len(str(word)) for word in (*xs, *actions)) + 8
    if longest * len(xs) <= WIDE:  # else labels stand aslant, and words that do not fit into their cells are cut
        size = max(size, longest)
    level = LETTER * max(len(str(word)) for word in xs) <= size
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("x:O", title=x, sort=xs, axis=alt.Axis(labelAngle=0 if level else -60)),
        y=alt.Y("y:O", title=y, sort=ys),
    )
    cells = base.mark_rect(stroke="white", strokeWidth=1).encode(
        color=alt.Color(
            "action:O",
            title="action",
            sort=actions,
            scale=alt.Scale(domain=actions, range=_shades(len(actions))),
            legend=alt.Legend(orient="bottom", columns=4),
        )
    )
    layers: list[Any] = [cells]
    if len(xs) * len(ys) <= LABELLED_CELLS:
        shown = alt.condition("datum.dark", alt.value("white"), alt.value(INK))
        layers.append(base.mark_text(fontSize=10, limit=size).encode(text="action:N", color=shown))
    chart = alt.layer(*layers).properties(width=size * len(xs), height=(CELL - 6) * len(ys))
    return _svg(chart.facet(alt.Facet("panel:N", title=None, sort=panels), columns=2) if len(panels) > 1 else chart)


def bars(rows: Rows, x_title: str, y_title: str) -> str:
    """One bar per row, from `name` to `number`, which stands at its end; in the order of the rows."""
    import altair as alt

    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("name:N", sort=None, title=y_title),
        x=alt.X("number:Q", title=x_title, axis=alt.Axis(format="~s", tickCount=5)),
    )
    labels = base.mark_text(align="left", dx=4, color=INK).encode(text=alt.Text("number:Q", format=","))
    return _svg((base.mark_bar(color=ACCENT) + labels).properties(width=WIDE - 120, height=22 * len(rows)))


def intervals(rows: Rows, x_title: str) -> str:
    """One line per row from `low` to `high`, a dot at `value` where it is given, and `name` above it.

    A row that is `open` has an arrow at the right in place of an end.
    """
    import altair as alt

    above = alt.Axis(
        labelAlign="left", labelPadding=0, labelOffset=-16, labelFontSize=12, labelLimit=WIDE, ticks=False, domain=False
    )
    base = alt.Chart(alt.Data(values=rows)).encode(y=alt.Y("name:N", sort=None, title=None, axis=above))
    line = base.mark_rule(strokeWidth=3, color=MUTED).encode(
        x=alt.X("low:Q", title=x_title, scale=alt.Scale(zero=False)), x2="high:Q"
    )
    closed = base.transform_filter("!datum.open")
    ends = [
        rows_shown.mark_tick(thickness=3, size=14, color=MUTED).encode(x=f"{end}:Q")
        for rows_shown, end in ((base, "low"), (closed, "high"))
    ]
    arrow = base.transform_filter("datum.open").mark_point(
        shape="triangle-right", filled=True, size=110, opacity=1.0, color=MUTED
    )
    ends.append(arrow.encode(x="high:Q"))
    dots = (
        base.transform_filter("isValid(datum.value)").mark_point(filled=True, size=90, color=ACCENT).encode(x="value:Q")
    )
    return _svg(alt.layer(line, *ends, dots).properties(width=WIDE, height=48 * len(rows)))


def curve(rows: Rows, x_title: str, y_title: str, band: bool, marked: float | None, chosen: dict[str, float]) -> str:
    """`value` over `limit` with a standard error on both sides; `low` to `high` behind it, and a line at `marked`.

    chosen: the recommended policy, a diamond at its `cost` and `value`, with a standard error on all sides.
    """
    import altair as alt

    rows = [row | {"below": row["value"] - row["error"], "above": row["value"] + row["error"]} for row in rows]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("limit:Q", title=x_title, scale=alt.Scale(zero=False, nice=False), axis=alt.Axis(tickCount=6))
    )
    scale = alt.Scale(zero=False)
    layers: list[Any] = []
    if band:
        layers.append(base.mark_area(color=PALE).encode(y=alt.Y("low:Q", title=y_title, scale=scale), y2="high:Q"))
    error = base.mark_area(color=ACCENT, opacity=0.2)
    layers.append(error.encode(y=alt.Y("below:Q", title=y_title, scale=scale), y2="above:Q"))
    line = base.mark_line(color=ACCENT, strokeWidth=2, point=alt.OverlayMarkDef(size=24, color=ACCENT))
    layers.append(line.encode(y=alt.Y("value:Q", title=y_title, scale=scale)))
    if marked is not None:
        line = alt.Chart(alt.Data(values=[{"limit": marked}])).mark_rule(color=MUTED, strokeDash=[4, 3], strokeWidth=2)
        layers.append(line.encode(x="limit:Q"))
    layers += _cross(chosen)
    return _svg(alt.layer(*layers).properties(width=WIDE - 60, height=210))


def _cross(chosen: dict[str, float]) -> list[Any]:
    """A point with its errors in both directions, and its name."""
    import altair as alt

    ends = {
        f"{of}_{end}": chosen[of] + side * chosen[error]
        for of, error in (("value", "error"), ("cost", "cost_error"))
        for end, side in (("low", -1), ("high", 1))
    }
    base = alt.Chart(alt.Data(values=[chosen | ends | {"name": "recommended"}])).encode(x="cost:Q", y="value:Q")
    return [
        base.mark_rule(color=INK).encode(y="value_low:Q", y2="value_high:Q"),
        base.mark_rule(color=INK).encode(x="cost_low:Q", x2="cost_high:Q"),
        base.mark_point(shape="diamond", filled=True, size=120, opacity=1.0, color=INK),
        base.mark_text(dy=18, fontSize=11, fontWeight="bold", color=INK).encode(text="name:N"),
    ]


def png(svg: str) -> bytes:
    """A drawing for those who need pixels."""
    import vl_convert

    return vl_convert.svg_to_png(svg, scale=2.0)


def _shades(count: int) -> list[str]:
    """From pale to dark, one per action: an order that survives a black and white printer."""
    low, high = (222, 235, 247), (8, 48, 107)
    parts = [i / max(1, count - 1) for i in range(count)]
    return ["#" + "".join(f"{round(a + (b - a) * p):02x}" for a, b in zip(low, high, strict=True)) for p in parts]


def _svg(chart: Any) -> str:
    import vl_convert

    styled = (
        chart.configure(font=FONT, background="white")
        .configure_view(stroke=None)
        .configure_axis(
            labelFontSize=11,
            titleFontSize=12,
            labelColor=INK,
            titleColor=INK,
            gridColor=PALE,
            domainColor=MUTED,
            tickColor=MUTED,
        )
        .configure_legend(labelFontSize=11, labelColor=INK, titleColor=INK)
        .configure_header(labelColor=INK, labelFontSize=13, labelFontWeight="bold")
    )
    return vl_convert.vegalite_to_svg(json.loads(styled.to_json()))
