"""The charts of the report: SVG and HTML that need no network and no script, and print as they look.

`intervals`, `bars`, `curve` and `shares` are Vega-Lite specifications, built with Altair; `svg` draws them with
vl-convert, and the studio's page draws the same ones itself. That they are valid is tested, and not looked at again at
every drawing, which would take longer than making them. Each has its design width, and the page scales it to the
text. The page's style finds the inks by their values, and turns them for dark screens: no other colours here.
`policy_map` is a table of coloured cells. What colours show is also written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from html import escape
from typing import TYPE_CHECKING, NamedTuple, ParamSpec

if TYPE_CHECKING:
    import altair as alt

INK, ACCENT, SURE, MUTED, PALE = "#1f2933", "#1f5fa8", "#2f7d4f", "#7b8794", "#e4e7eb"
FONT = "Helvetica, Arial, sans-serif"
WIDE, NARROW = 720, 340  # pixels of a drawing: as wide as the text, and as a telephone
LETTERS = 13  # pixels of their height
LETTER, GAP = 7, 14  # pixels that a letter of a policy map needs, and what is around the words of a cell
COLOURS = (
    *("#8dd3c7", "#fdb462", "#bebada", "#fb8072", "#80b1d3", "#b3de69", "#fccde5", "#ffed6f", "#c79fc8", "#d9d9d9"),
)  # of categories, pale enough for dark letters; ColorBrewer's Set3, one of them paler

Row = dict[str, object]  # of a chart's data, or of its specification
Asked = ParamSpec("Asked")


class Interval(NamedTuple):
    """A line of `intervals`."""

    name: str
    low: float
    high: float
    value: float | None = None  # a dot
    sure: bool = False  # in the ink of what is guaranteed


class Bar(NamedTuple):
    """A bar of `bars`."""

    name: str
    number: int


class Cell(NamedTuple):
    """A state of a policy map: where it stands, what is done there, and on how many rows that rests."""

    x: object
    y: object
    action: str
    rows: int


def palette(count: int) -> list[str]:
    """A colour for each category: the named ones, or hues at equal distances where there are more."""
    if count <= len(COLOURS):
        return list(COLOURS[:count])
    return [f"hsl({round(360 * i / count)} 60% {78 if i % 2 else 68}%)" for i in range(count)]


def _as_it_is(spec: Callable[Asked, Row]) -> Callable[Asked, Row]:
    """A specification that Altair does not validate, part by part, while it is made."""

    @wraps(spec)
    def made(*args: Asked.args, **kwargs: Asked.kwargs) -> Row:
        from altair.utils.schemapi import debug_mode

        with debug_mode(False):
            return spec(*args, **kwargs)

    return made


@_as_it_is
def intervals_spec(rows: Sequence[Interval], width: int = WIDE) -> Row:
    """A bar from `low` to `high` per row below its `name`, a dot at `value`; those that are `sure` in another ink."""
    import altair as alt

    inks: list[Row] = [{"ink": SURE, "wide": 8} if row.sure else {"ink": ACCENT, "wide": 2} for row in rows]
    drawn = [row._asdict() | ink | {"place": i} for i, (row, ink) in enumerate(zip(rows, inks, strict=True))]

    def across(field: str) -> alt.X:
        return alt.X(field, title=None, scale=alt.Scale(zero=False, nice=False, padding=10), axis=_ticks(width))

    def base(rows: list[Row]) -> alt.Chart:
        return _chart(rows).encode(y=alt.Y("place:O", axis=None))

    ink = alt.Color("ink:N", scale=None)
    lines = (
        base(drawn)
        .mark_rule(yOffset=8, aria=False)
        .encode(across("low:Q"), ink, alt.StrokeWidth("wide:Q", scale=None), alt.X2("high:Q"))
    )
    names = (
        base(drawn)
        .mark_text(yOffset=-8, align="left", color=INK)
        .encode(alt.XValue(0), alt.Text("name:N"), alt.Description("name:N"))
    )
    dotted = [row for row in drawn if row["value"] is not None]
    dots = (
        base(dotted).mark_point(yOffset=8, aria=False, filled=True, size=80, opacity=1.0).encode(across("value:Q"), ink)
    )
    return _spec(alt.layer(lines, names, dots), width, 44 * len(rows) + 24)


@_as_it_is
def bars_spec(rows: Sequence[Bar], width: int = WIDE) -> Row:
    """One bar per row, from `name` to `number`, which stands at its end; in the order of the rows."""
    import altair as alt

    room = alt.Scale(domain=[0, 1.25 * (max(row.number for row in rows) or 1)], nice=False)  # for the last number
    bare = alt.Axis(domain=False, ticks=False, labelPadding=6, labelColor=INK, labelLimit=width / 2)
    base = _chart([row._asdict() for row in rows]).encode(
        alt.X("number:Q", scale=room, axis=None), alt.Y("name:N", sort=None, title=None, axis=bare)
    )
    numbers = base.mark_text(align="left", dx=5, color=INK).encode(text=alt.Text("number:Q", format=","))
    return _spec(base.mark_bar(color=ACCENT, height=17, aria=False) + numbers, width, 24 * len(rows))


def policy_map(panels: Sequence[tuple[str, Sequence[Cell]]], across: str, down: str, actions: Sequence[str]) -> str:
    """What is done: a table per panel of (name, cells), with a cell per state.

    A cell has the colour of its action, and its name where there is room. Cells with few rows are hatched, states
    without rows are empty. Panels that are wide stand below each other.
    """
    colour = dict(zip(actions, palette(len(actions)), strict=True))
    used = [action for action in actions if any(cell.action == action for _, cells in panels for cell in cells)]
    key = [
        f'<span><span class="swatch" style="background:{colour[action]}"></span>{escape(action)}</span>'
        for action in used
    ]
    key.append('<span><span class="swatch thin"></span>fewer than 10 rows</span>')
    tables = "".join(_map(name, cells, across, down, colour) for name, cells in panels)
    stacked = " stacked" if any(_width(cells) > WIDE // 2 for _, cells in panels) else ""
    return f'<div class="maps{stacked}">{tables}</div><div class="key">{"".join(key)}</div>'


def _width(cells: Sequence[Cell]) -> int:
    """About how many pixels a panel needs at least: words are not broken."""
    xs = list(dict.fromkeys(str(cell.x) for cell in cells))
    words = [word for cell in cells for word in cell.action.split()]
    widest = max(map(len, words), default=0)
    return sum(LETTER * max(widest, *map(len, x.split() or [x])) + GAP for x in xs)


def _map(name: str, cells: Sequence[Cell], across: str, down: str, colour: dict[str, str]) -> str:
    xs, ys = list(dict.fromkeys(cell.x for cell in cells)), list(dict.fromkeys(cell.y for cell in cells))
    at = {(cell.x, cell.y): cell for cell in cells}
    width = _width(cells)
    bare = width > WIDE
    kind = "map slim" if width > NARROW - 40 else "map"  # on a telephone its colours must do
    head = "".join(f"<th>{escape(str(x))}</th>" for x in xs)
    body = "".join(
        f"<tr><th>{escape(str(y))}</th>{''.join(_cell(at.get((x, y)), colour, bare) for x in xs)}</tr>" for y in ys
    )
    top = f'<tr><th></th><th colspan="{len(xs)}">{escape(across)}</th></tr>' if across else ""
    return (
        f'<div class="scroll"><table class="{kind}"><caption>{escape(name)}</caption><thead>{top}'
        f"<tr><th>{escape(down)}</th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell | None, colour: dict[str, str], bare: bool) -> str:
    if cell is None:
        return "<td></td>"
    thin = ' class="thin"' if cell.rows < 10 else ""
    words = escape(cell.action)
    said, inside = f'title="{words}: {cell.rows:,} rows"', "" if bare else f"<span>{words}</span>"
    return f'<td{thin} style="background-color:{colour[cell.action]}" {said}>{inside}</td>'


@_as_it_is
def curve_spec(
    rows: Sequence[dict[str, float]],
    x_title: str,
    y_title: str,
    band: bool,
    marked: float | None,
    chosen: dict[str, float],
    width: int = NARROW,
) -> Row:
    """`value` over `limit` with a standard error on both sides; `low` to `high` behind it, and a line at `marked`.

    chosen: the recommended policy, a diamond at its `cost` and `value`, with a standard error on all sides.
    """
    import altair as alt

    def x(field: str) -> alt.X:
        axis = _ticks(width, grid=False)
        return alt.X(field, title=x_title, scale=alt.Scale(zero=False, nice=False, padding=4), axis=axis)

    def y(field: str) -> alt.Y:
        return alt.Y(field, title=y_title, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6, domain=False))

    ends = [row | {"below": row["value"] - row["error"], "above": row["value"] + row["error"]} for row in rows]
    points, limit = _chart(ends), x("limit:Q")
    layers = [
        points.mark_area(aria=False, color=ACCENT, opacity=0.25).encode(limit, y("below:Q"), y2="above:Q"),
        points.mark_line(aria=False, color=ACCENT, strokeWidth=2).encode(limit, y("value:Q")),
    ]
    if band:
        layers.insert(0, points.mark_area(aria=False, color=SURE, opacity=0.15).encode(limit, y("low:Q"), y2="high:Q"))
    if marked is not None:
        dashed = _chart([{"limit": marked}]).mark_rule(aria=False, color=MUTED, strokeDash=[4, 3], strokeWidth=2)
        layers.append(dashed.encode(limit))
    own_ends = {
        f"{of}_{end}": chosen[of] + side * chosen[error]
        for of, error in (("value", "error"), ("cost", "cost_error"))
        for end, side in (("low", -1), ("high", 1))
    }
    limits = [row["limit"] for row in rows]
    left = chosen["cost"] > (min(limits) + max(limits)) / 2  # where its name has room
    own, cost, value = _chart([{**chosen, **own_ends, "name": "new policy"}]), x("cost:Q"), y("value:Q")
    name = own.mark_text(align="right" if left else "left", dx=-12 if left else 12, dy=16, fontWeight="bold", color=INK)
    layers += [
        own.mark_rule(aria=False, color=INK).encode(x("cost_low:Q"), value, x2="cost_high:Q"),
        own.mark_rule(aria=False, color=INK).encode(cost, y("value_low:Q"), y2="value_high:Q"),
        own.mark_point(aria=False, shape="diamond", filled=True, size=120, opacity=1.0, color=INK).encode(cost, value),
        name.encode(cost, value, text="name:N", description="name:N"),
    ]
    return _spec(alt.layer(*layers), width, 300)


@_as_it_is
def shares_spec(
    values: Sequence[object], parts: Sequence[Sequence[float]], actions: Sequence[str], name: str, width: int
) -> Row:
    """How often each action is taken, as a column has these values: stacked to 100%; parts[i][a] at values[i]."""
    import altair as alt

    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    x = alt.X("value:Q", title=name, scale=alt.Scale(zero=False, nice=False), axis=_ticks(width, grid=False))
    if not numeric:
        x = alt.X("value:N", title=name, sort=None, axis=alt.Axis(labelAngle=0, domain=False, ticks=False))
    rows = [
        {"value": value if numeric else str(value), "action": action, "share": part, "order": a}
        for value, row in zip(values, parts, strict=True)
        for a, (action, part) in enumerate(zip(actions, row, strict=True))
    ]
    colour = alt.Color(
        "action:N",
        sort=list(actions),
        scale=alt.Scale(domain=list(actions), range=palette(len(actions))),
        legend=alt.Legend(title=None, orient="top", labelColor=INK, labelFontSize=LETTERS, columns=4),
    )
    y = alt.Y("share:Q", title=None, stack="normalize", axis=alt.Axis(format="%", tickCount=4, domain=False))
    base = _chart(rows).encode(x, y, colour, order="order:Q")
    drawn = base.mark_area(aria=False) if numeric else base.mark_bar(aria=False)
    return _spec(alt.layer(drawn), width, 200)


def png(drawing: str) -> bytes:
    """A drawing for those who need pixels."""
    import vl_convert

    return vl_convert.svg_to_png(drawing, scale=2.0)


def _chart(rows: Sequence[Mapping[str, object]]) -> alt.Chart:
    import altair as alt

    return alt.Chart(alt.Data(values=rows))


def _ticks(width: int, grid: bool = True) -> alt.Axis:
    """The axis below a drawing, with as many numbers as there is room for."""
    import altair as alt

    return alt.Axis(tickCount=max(5, width // 90), grid=grid, domain=False, ticks=False, labelPadding=8)


def _spec(chart: alt.LayerChart | alt.FacetChart, width: int, height: int) -> Row:
    """The specification, everything around the drawing included in its size; letters and lines are the same for all."""
    axis = {"labelColor": MUTED, "titleColor": INK, "gridColor": PALE, "tickColor": PALE}
    letters = {"labelFontSize": LETTERS, "titleFontSize": LETTERS, "titleFontWeight": "normal"}
    own: Row = {
        "width": width,
        "height": height,
        "padding": 2,
        "autosize": {"type": "fit", "contains": "padding"},
        "config": {
            "font": FONT,
            "background": "white",
            "view": {"stroke": None},
            "axis": axis | letters,
            "text": {"fontSize": LETTERS},
        },
    }
    return {**chart.to_dict(validate=False), **own}


def svg(spec: Row) -> str:
    """A specification, drawn."""
    import vl_convert

    drawn = vl_convert.vegalite_to_svg(spec)
    return drawn.replace('class="marks"', 'class="chart"', 1)  # the name that the page's style goes by


def intervals(rows: Sequence[Interval], width: int = WIDE) -> str:
    """`intervals_spec`, drawn."""
    return svg(intervals_spec(rows, width))


def bars(rows: Sequence[Bar], width: int = WIDE) -> str:
    """`bars_spec`, drawn."""
    return svg(bars_spec(rows, width))
