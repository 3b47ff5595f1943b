"""The charts of the report: SVG and HTML that need no network and no script, and print as they look.

`intervals`, `bars` and `policy_map` are as wide as the text around them, on any screen: positions are shares of the
width, letters keep their size. `curve` is an SVG of its own, for a file too. Colours are attributes, for files, and
classes, so that the page's style can turn them for dark screens. What colours show is also written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

INK, ACCENT, SURE, MUTED, PALE = "#1f2933", "#1f5fa8", "#2f7d4f", "#7b8794", "#e4e7eb"
FONT = "Helvetica, Arial, sans-serif"
WIDE, NARROW = 720, 340  # pixels of a curve: as wide as the text, and as a telephone
MOST_LABELLED = 40  # columns of a policy map, above which its cells are too small for words
COLOURS = (
    *("#8dd3c7", "#fdb462", "#bebada", "#fb8072", "#80b1d3", "#b3de69", "#fccde5", "#ffed6f", "#c79fc8", "#d9d9d9"),
)  # of categories, pale enough for dark letters; ColorBrewer's Set3, one of them paler

Rows = list[dict[str, Any]]


def palette(count: int) -> list[str]:
    """A colour for each category: the named ones, or hues at equal distances where there are more."""
    if count <= len(COLOURS):
        return list(COLOURS[:count])
    return [f"hsl({round(360 * i / count)} 60% {78 if i % 2 else 68}%)" for i in range(count)]


def intervals(rows: Rows) -> str:
    """A bar from `low` to `high` per row below its `name`, a dot at `value`; those that are `sure` in another ink."""
    low, high, ticks = _axis([x for row in rows for x in (row["low"], row["high"], row.get("value")) if x is not None])

    def at(x: float) -> str:
        return f"{2.0 + 96.0 * (x - low) / ((high - low) or 1.0):.2f}%"

    height = 44 * len(rows)
    parts = [_line(at(x), at(x), 0, height, "grid", PALE) for x in ticks]
    for i, row in enumerate(rows):
        ink, colour, y = ("sure", SURE, 44 * i) if row.get("sure") else ("accent", ACCENT, 44 * i)
        parts.append(_text("0", y + 16, str(row["name"]), "ink", INK))
        wide = 8 if row.get("sure") else 2
        x1, x2 = at(row["low"]), at(row["high"])
        parts.append(
            f'<line class="{ink}" x1="{x1}" x2="{x2}" y1="{y + 30}" y2="{y + 30}" stroke="{colour}" '
            f'stroke-width="{wide}"/>'
        )
        if row.get("value") is not None:
            dot = f'cx="{at(row["value"])}" cy="{y + 30}" r="5" fill="{colour}"'
            parts.append(f'<circle class="{ink}" {dot}/>')
    parts += [_text(at(x), height + 16, _tick(x, ticks), "muted", MUTED, "middle") for x in ticks]
    return _svg("100%", height + 24, parts)


def bars(rows: Rows) -> str:
    """One bar per row, from `name` to `number`, which stands at its end; in the order of the rows."""
    most = max(row["number"] for row in rows) or 1
    parts = []
    for i, row in enumerate(rows):
        width = 60.0 * row["number"] / most
        parts += [
            _text("0", 24 * i + 16, str(row["name"]), "ink", INK),
            f'<rect class="accent" x="24%" y="{24 * i + 3}" width="{width:.2f}%" height="17" fill="{ACCENT}"/>',
            _text(f"{24.8 + width:.2f}%", 24 * i + 16, f"{row['number']:,}", "ink", INK),
        ]
    return _svg("100%", 24 * len(rows) + 4, parts)


def policy_map(panels: Sequence[tuple[str, Rows]], across: str, down: str, actions: Sequence[str]) -> str:
    """What is done: a table per panel of (name, rows), with a cell per state; rows have `x`, `y`, `action`, `rows`.

    A cell has the colour of its action, and its name. Cells with few rows are hatched, states without rows are empty.
    """
    colour = dict(zip(actions, palette(len(actions)), strict=True))
    used = [action for action in actions if any(row["action"] == action for _, rows in panels for row in rows)]
    key = [
        f'<span><span class="swatch" style="background:{colour[action]}"></span>{escape(action)}</span>'
        for action in used
    ]
    key.append('<span><span class="swatch thin"></span>fewer than 10 rows</span>')
    tables = "".join(_map(name, rows, across, down, colour) for name, rows in panels)
    return f'<div class="maps">{tables}</div><div class="key">{"".join(key)}</div>'


def _map(name: str, rows: Rows, across: str, down: str, colour: dict[str, str]) -> str:
    xs, ys = ([*dict.fromkeys(row[axis] for row in rows)] for axis in ("x", "y"))
    cells = {(row["x"], row["y"]): row for row in rows}
    bare = len(xs) > MOST_LABELLED
    head = "".join(f"<th>{escape(str(x))}</th>" for x in xs)
    body = "".join(
        f"<tr><th>{escape(str(y))}</th>{''.join(_cell(cells.get((x, y)), colour, bare) for x in xs)}</tr>" for y in ys
    )
    top = f'<tr><th></th><th colspan="{len(xs)}">{escape(across)}</th></tr>' if across else ""
    return (
        f'<div class="scroll"><table class="map"><caption>{escape(name)}</caption><thead>{top}'
        f"<tr><th>{escape(down)}</th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(row: dict[str, Any] | None, colour: dict[str, str], bare: bool) -> str:
    if row is None:
        return "<td></td>"
    thin = ' class="thin"' if row["rows"] < 10 else ""
    words = escape(row["action"])
    said = f'title="{words}: {row["rows"]:,} rows"'
    return f'<td{thin} style="background-color:{colour[row["action"]]}" {said}>{"" if bare else words}</td>'


def curve(
    rows: Rows,
    x_title: str,
    y_title: str,
    band: bool,
    marked: float | None,
    chosen: dict[str, float],
    width: int = NARROW,
) -> str:
    """`value` over `limit` with a standard error on both sides; `low` to `high` behind it, and a line at `marked`.

    chosen: the recommended policy, a diamond at its `cost` and `value`, with a standard error on all sides.
    """
    rows = [row | {"below": row["value"] - row["error"], "above": row["value"] + row["error"]} for row in rows]
    own = {k: (chosen[k] - chosen[e], chosen[k] + chosen[e]) for k, e in (("value", "error"), ("cost", "cost_error"))}
    ends = ("low", "high", "below", "above") if band else ("below", "above")
    x_low, x_high, x_ticks = _axis([*(row["limit"] for row in rows), *own["cost"], *([marked] if marked else [])], 5)
    y_low, y_high, y_ticks = _axis([*(row[end] for row in rows for end in ends), *own["value"]])
    left, right, bottom, height = 56, width - 14, 250, 300

    def x(value: float) -> float:
        return left + (right - left) * (value - x_low) / ((x_high - x_low) or 1.0)

    def y(value: float) -> float:
        return bottom - (bottom - 12) * (value - y_low) / ((y_high - y_low) or 1.0)

    def area(low: str, high: str, name: str, style: str) -> str:
        there = [(x(row["limit"]), y(row[high])) for row in rows]
        return f'<polygon class="{name}" points="{_points([*there, *_back(rows, x, y, low)])}" {style}/>'

    parts = [_line(left, right, y(t), y(t), "grid", PALE) for t in y_ticks]
    if band:
        parts.append(area("low", "high", "pale", f'fill="{SURE}" fill-opacity="0.15"'))
    parts.append(area("below", "above", "halo", f'fill="{ACCENT}" fill-opacity="0.25"'))
    line = _points((x(row["limit"]), y(row["value"])) for row in rows)
    parts.append(f'<polyline class="accent" points="{line}" fill="none" stroke="{ACCENT}" stroke-width="2"/>')
    if marked is not None:
        parts.append(_line(x(marked), x(marked), 12, bottom, "muted", MUTED, 'stroke-dasharray="4 3" stroke-width="2"'))
    cx, cy = x(chosen["cost"]), y(chosen["value"])
    parts.append(_line(x(own["cost"][0]), x(own["cost"][1]), cy, cy, "ink", INK))
    parts.append(_line(cx, cx, y(own["value"][0]), y(own["value"][1]), "ink", INK))
    diamond = _points([(cx, cy - 7), (cx + 7, cy), (cx, cy + 7), (cx - 7, cy)])
    parts.append(f'<polygon class="ink" points="{diamond}" fill="{INK}"/>')
    side, dx = ("end", -12) if cx > (left + right) / 2 else ("start", 12)
    parts.append(_text(f"{cx + dx:.1f}", cy + 20, "new policy", "ink", INK, side, "bold"))
    parts += [_text(f"{left - 6}", y(t) + 4, _tick(t, y_ticks), "muted", MUTED, "end") for t in y_ticks]
    parts += [_text(f"{x(t):.1f}", bottom + 18, _tick(t, x_ticks), "muted", MUTED, "middle") for t in x_ticks]
    parts.append(_text(f"{(left + right) / 2}", height - 10, x_title, "ink", INK, "middle"))
    turned = f'transform="translate(14 {bottom / 2}) rotate(-90)"'
    parts.append(_text("0", 0, y_title, "ink", INK, "middle", extra=turned))
    return _svg(str(width), height, parts)


def _back(rows: Rows, x: Any, y: Any, low: str) -> list[tuple[float, float]]:
    return [(x(row["limit"]), y(row[low])) for row in reversed(rows)]


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def png(svg: str) -> bytes:
    """A drawing for those who need pixels."""
    import vl_convert

    return vl_convert.svg_to_png(svg, scale=2.0)


def _axis(values: Sequence[float], count: int = 6) -> tuple[float, float, list[float]]:
    """From where to where an axis goes, and about `count` round numbers on it."""
    low, high = min(values), max(values)
    if not high > low:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(k * power for k in (1.0, 2.0, 2.5, 5.0, 10.0) if k * power >= raw)
    first = math.ceil(low / step - 1e-9)
    return low, high, [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _tick(x: float, ticks: Sequence[float]) -> str:
    """A number of an axis, with as many digits as its steps need."""
    step = ticks[1] - ticks[0] if len(ticks) > 1 else abs(x) or 1.0
    digits = max(0, -math.floor(math.log10(step) + 1e-9) + (1 if f"{step:.1e}".startswith("2.5") else 0))
    return f"{x + 0.0:,.{digits}f}" if 1e-6 < step < 1e9 else f"{x:.3g}"


def _line(x1: Any, x2: Any, y1: Any, y2: Any, name: str, colour: str, extra: str = "") -> str:
    return f'<line class="{name}" x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}" stroke="{colour}" {extra}/>'


def _text(
    x: str, y: float, words: str, name: str, colour: str, anchor: str = "start", weight: str = "normal", extra: str = ""
) -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="13" fill="{colour}"'
    return f'<text class="{name}" x="{x}" y="{y:g}" {style} {extra}>{escape(words)}</text>'


def _svg(width: str, height: float, parts: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{width}" height="{height:g}" '
        f'font-family="{FONT}">{"".join(parts)}</svg>'
    )
