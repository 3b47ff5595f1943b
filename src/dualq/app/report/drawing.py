"""The two drawings that every report has, as SVG: `intervals` and `bars`, without an engine for charts.

They are what Vega draws of `charts.intervals_spec` and `charts.bars_spec`, which the studio's page shows; starting that
engine would take longer than learning from a short log. A number x of a scale from `low` to `high` stands at

    left + (x - low) / (high - low) (right - left)

The numbers below a scale are multiples of 1, 2 or 5 times a power of ten: the step is the one of these that is nearest,
in ratio, to the range divided by the number of marks that there is room for. Every second one is left out where they
would touch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from dualq.app.report.charts import ACCENT, FONT, INK, LETTERS, MUTED, PALE, SURE, WIDE, Bar, Interval

AROUND = 2  # pixels
ASIDE = 10  # pixels from the ends of a scale to what is drawn
ROW, BELOW = 44, 21  # pixels of an interval with its name; of the numbers below
MIDDLE = 4  # pixels from the middle of letters to their foot
WIDTHS = {",.:;'!|()[]iljtfI ": 0.278, "r-": 0.333, "mMW%@": 0.83, "ABCDEFGHKNOPQRSTUVXYZw&": 0.7}  # of the height
_WIDTHS = {letter: width for letters, width in WIDTHS.items() for letter in letters}
DOT = "M4.472,0A4.472,4.472,0,1,1,-4.472,0A4.472,4.472,0,1,1,4.472,0"
_LETTERS = f'font-family="{FONT}" font-size="{LETTERS}px"'


class Scale(NamedTuple):
    """From numbers to pixels."""

    low: float
    high: float
    left: float
    right: float

    def at(self, x: float) -> float:
        """Where a number stands; in the middle, where there is but one."""
        part = (x - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.left + part * (self.right - self.left)

    def marks(self, count: int) -> tuple[list[float], int]:
        """About so many round numbers, and how many digits they have behind the point."""
        if not self.high > self.low:
            return [self.low], 2
        power = 10.0 ** math.floor(math.log10((self.high - self.low) / count))
        rest = (self.high - self.low) / count / power
        step = power * (10 if rest >= 50**0.5 else 5 if rest >= 10**0.5 else 2 if rest >= 2**0.5 else 1)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)], max(0, -math.floor(math.log10(step) + 1e-9))


def intervals(rows: Sequence[Interval], width: int = WIDE) -> str:
    """A bar from `low` to `high` per row below its `name`, a dot at `value`; those that are `sure` in another ink."""
    numbers = [x for row in rows for x in (row.low, row.high, row.value) if x is not None]
    low, high, height = min(numbers), max(numbers), ROW * len(rows) + 24
    deep, inside = height - 2 * AROUND - BELOW, width - 2 * AROUND
    out = _Axis(low, high, inside, width).sticking_out  # the drawing makes room for its numbers
    axis = _Axis(low, high, inside - sum(out), width)
    lines: list[str] = []
    names: list[str] = []
    dots: list[str] = []
    for i, row in enumerate(rows):
        y, ink = (i + 0.5) * deep / len(rows), SURE if row.sure else ACCENT
        left, right = axis.scale.at(row.low), axis.scale.at(row.high)
        line = f'x2="{right - left:.6g}" y2="0" stroke="{ink}" stroke-width="{8 if row.sure else 2}"'
        lines.append(f'<line transform="translate({left:.6g},{y + 8:g})" {line}/>')
        names.append(_text(row.name, 0, y - 8 + MIDDLE))
        if row.value is not None:
            place = f"translate({axis.scale.at(row.value):.6g},{y + 8:g})"
            dots.append(f'<path transform="{place}" d="{DOT}" fill="{ink}"/>')
    return _svg(width, height, AROUND + out[0], [axis.drawn(deep), _hidden(lines), *names, _hidden(dots)])


def bars(rows: Sequence[Bar], width: int = WIDE) -> str:
    """One bar per row, from `name` to `number`, which stands at its end; in the order of the rows."""
    height = 24 * len(rows)
    left = AROUND + math.ceil(max(_length(row.name) for row in rows) + 6)
    step, room = (height - 2 * AROUND) / len(rows), 1.25 * (max(row.number for row in rows) or 1)
    scale = Scale(0.0, room, 0.0, width - AROUND - left)
    drawn: list[str] = []
    words: list[str] = []
    for i, row in enumerate(rows):
        y, long = (i + 0.5) * step, scale.at(row.number)
        words.append(_text(row.name, -5.5, y + MIDDLE, "end"))
        words.append(_text(f"{row.number:,}", long + 5, y + MIDDLE, said=f"number: {row.number}; name: {row.name}"))
        drawn.append(f'<path d="M0,{y - 8.5:g}h{long:.6g}v17h{-long:.6g}Z" fill="{ACCENT}"/>')
    return _svg(width, height, left, [_hidden(drawn), *words])


class _Word(NamedTuple):
    """A word below a scale."""

    text: str
    x: float
    anchor: str  # which part of it stands there: its "start", "middle" or "end"

    @property
    def left(self) -> float:
        """Where it begins."""
        return self.x - _length(self.text) * {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]

    @property
    def right(self) -> float:
        """Where it ends."""
        return self.left + _length(self.text)


class _Axis:
    """A scale that goes on to both edges of a drawing, with round numbers below."""

    def __init__(self, low: float, high: float, inside: float, width: int):
        beyond = ASIDE / max(inside - 2 * ASIDE, 1) * (high - low)
        self.scale = Scale(low - beyond, high + beyond, 0.0, inside)
        self.ends = f"{low:.4g} to {high:.4g}"
        marks, digits = self.scale.marks(max(5, width // 90))
        self.lines = [round(self.scale.at(x)) + 0.5 for x in marks]
        said = [f"{x:,.{digits}f}".replace("-", "\N{MINUS SIGN}") for x in marks]
        self.words = [_Word(word, self.scale.at(x) + 0.5, self._anchor(x)) for word, x in zip(said, marks, strict=True)]
        while any(one.right > other.left for one, other in itertools.pairwise(self.words)):
            self.words = self.words[::2]

    def _anchor(self, x: float) -> str:
        """Words stand around their place, and at the very edges beside it."""
        from_left, from_right = self.scale.at(x) - self.scale.left, self.scale.right - self.scale.at(x)
        return "start" if from_left < 1.0 else "end" if from_right < 1.0 else "middle"

    @property
    def sticking_out(self) -> tuple[int, int]:
        """How many pixels the first and the last number take beyond the edges."""
        left, right = -self.words[0].left, self.words[-1].right - self.scale.right
        return max(0, math.ceil(left)), max(0, math.ceil(right))

    def drawn(self, deep: float) -> str:
        """Lines that go so far up, and the numbers."""
        up = f'x2="0" y2="{-deep:g}" stroke="{PALE}" stroke-width="1"'
        lines = [f'<line transform="translate({x:g},{deep + 0.5:g})" {up}/>' for x in self.lines]
        shown = (_text(word.text, word.x, deep + 18.5, word.anchor, MUTED) for word in self.words)
        return f'{_hidden(lines)}<g role="graphics-symbol" aria-label="a scale from {self.ends}">{"".join(shown)}</g>'


def _text(words: str, x: float, y: float, anchor: str = "start", ink: str = INK, said: str | None = None) -> str:
    label = "" if said is None else f' role="graphics-symbol" aria-label="{escape(said)}"'
    place = f'text-anchor="{anchor}" transform="translate({x:.6g},{y:.6g})"'
    return f'<text{label} {place} {_LETTERS} fill="{ink}">{escape(words)}</text>'


def _length(words: str) -> float:
    """About how many pixels words take."""
    return LETTERS * sum(_WIDTHS.get(letter, 0.556) for letter in words)


def _hidden(parts: Sequence[str]) -> str:
    """Parts that say nothing to those who listen."""
    return f'<g aria-hidden="true">{"".join(parts)}</g>'


def _svg(width: int, height: int, left: float, parts: Sequence[str]) -> str:
    box = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" version="1.1" class="chart" {box}>'
        f'<rect width="{width}" height="{height}" fill="white"/>'
        f'<g fill="none" stroke-miterlimit="10" transform="translate({left:g},{AROUND})">{"".join(parts)}</g></svg>'
    )
