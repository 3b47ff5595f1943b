"""What a notebook shows of a fit: the verdict, the numbers, and the changes worth most; styles are in the tags."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dualq.app.report.limit_words import guarantees
from dualq.app.report.page import LINES
from dualq.app.report.words import CHANGES, change_cells, changed, estimate, number, percent, relied_on, verdict
from dualq.base import visible

if TYPE_CHECKING:
    from dualq.offline import Fit

MOST = 5  # changes that are shown
CELL = "padding:.2em .8em .2em 0;text-align:left;border-bottom:1px solid #8884"
TILE = "display:inline-block;border:1px solid #8888;border-radius:.4em;padding:.4em .8em;margin:0 .5em .5em 0"


def fragment(fit: Fit) -> str:
    """A self-contained piece of HTML."""
    word, _, rest = verdict(fit).partition(". ")
    parts = [f"<b style='font-size:1.3em'>{escape(word)}</b><br>{escape(rest)}"]
    parts += [f"<p style='{LINES}'>{escape(words)}</p>" for words in guarantees(fit)]
    parts.append("".join(_tile(*cell) for cell in _tiles(fit)))
    rows = fit.changes(MOST)
    parts.append(f"<p style='margin:.5em 0'>{escape(changed(fit, len(rows)))}</p>")
    if rows:
        body = [[*map(visible, row["state"].values()), *change_cells(row)] for row in rows]
        parts.append(_table([*fit.counts.states.names, *CHANGES], body))
    return f"<div style='max-width:48em'>{''.join(parts)}</div>"


def _tiles(fit: Fit) -> list[tuple[str, str]]:
    cells = [
        ("new policy, expected", estimate(fit.expected)),
        ("so far, expected", estimate(fit.logged)),
        ("decisions that change", percent(fit.share_changed)),
    ]
    if promise := relied_on(fit):
        cells.append(("new policy, at least (on the conditions above)", number(promise.lower)))
    return cells


def _tile(name: str, words: str) -> str:
    return f"<span style='{TILE}'><small>{escape(name)}</small><br><b>{escape(words)}</b></span>"


def _table(header: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th style='{CELL}'>{escape(name)}</th>" for name in header)
    body = "".join(
        f"<tr>{''.join(f'<td style={chr(39)}{CELL}{chr(39)}>{escape(x)}</td>' for x in row)}</tr>" for row in rows
    )
    return f"<table style='border-collapse:collapse'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
