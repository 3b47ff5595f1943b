"""The parts of a page: headings, tables, figures, notes; all text is escaped here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light; --ink: #1f2933; --muted: #616e7c; --line: #e4e7eb; --accent: #1f5fa8; --warn: #8a4b08; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 60rem; color: var(--ink); background: white;
  font: 16px/1.55 Helvetica, Arial, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 46rem; }
.muted { color: var(--muted); font-size: .9rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: .75rem; margin: 1.25rem 0; }
.tile { border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem; }
.tile b { display: block; font-size: 1.45rem; line-height: 1.3; }
.note { border-left: 4px solid var(--accent); background: #f3f7fb; padding: .5rem 1rem; margin: 1rem 0;
  max-width: 46rem; }
.note.warn { border-color: var(--warn); background: #fdf6ec; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .75rem 0; font-size: .92rem; }
td, th { overflow-wrap: normal; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
li { max-width: 46rem; }
figure { margin: 1rem 0; }
svg { max-width: 100%; height: auto; }
figcaption { color: var(--muted); font-size: .9rem; max-width: 46rem; }
@media screen and (max-width: 46rem) {
  svg { max-width: none; }
  .stack thead { display: none; }
  .stack tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
  .stack td { display: grid; grid-template-columns: 8rem 1fr; border: 0; padding: .1rem 0;
    text-align: left; }
  .stack td::before { content: attr(data-name); color: var(--muted); }
}
@media print { body { max-width: none; padding: 0; } h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""


def page(title: str, *parts: str) -> str:
    """A whole HTML page that needs nothing from anywhere."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>"
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>{head}\n<style>{STYLE}</style></head>\n<body>\n'
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def title(words: str, below: str = "") -> str:
    """The heading of the page, and a line below it."""
    return f"<h1>{escape(words)}</h1>" + (f'<p class="muted">{escape(below)}</p>' if below else "")


def section(heading: str, *parts: str) -> str:
    """A part of the page under a heading of its own."""
    return f"<section>\n<h2>{escape(heading)}</h2>\n" + "\n".join(part for part in parts if part) + "\n</section>"


def text(words: str) -> str:
    """A paragraph."""
    return f"<p>{escape(words)}</p>"


def note_below(words: str) -> str:
    """What a table shows, in small letters."""
    return f'<p class="muted">{escape(words)}</p>'


def note(words: str, warn: bool = False) -> str:
    """A paragraph that must not be overlooked."""
    return f'<div class="note{" warn" if warn else ""}">{escape(words)}</div>'


def tiles(pairs: Iterable[tuple[str, str, str]]) -> str:
    """The few numbers that matter: (name, number, what it means)."""
    cells = (
        f'<div class="tile"><span class="muted">{escape(name)}</span><b>{escape(number)}</b>'
        f'<span class="muted">{escape(meaning)}</span></div>'
        for name, number, meaning in pairs
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, a row each."""
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in pairs)
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], stack: bool = False) -> str:
    """A table; numbers stand at the right. On a narrow screen it scrolls, or its cells stand below each other."""
    rows = [list(row) for row in rows]
    number = [all(isinstance(row[i], int | float) for row in rows) and bool(rows) for i in range(len(header))]

    def cell(tag: str, i: int, value: Any) -> str:
        words = f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
        named = f' data-name="{escape(header[i])}"' if stack and tag == "td" else ""
        return f"<{tag}{' class=number' if number[i] else ''}{named}>{escape(words)}</{tag}>"

    head = "".join(cell("th", i, name) for i, name in enumerate(header))
    body = "".join(f"<tr>{''.join(cell('td', i, value) for i, value in enumerate(row))}</tr>" for row in rows)
    kind = " class=stack" if stack else ""
    return f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def listed(items: Iterable[str]) -> str:
    """A list, an item a line."""
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def figure(svg: str, caption: str) -> str:
    """A drawing, which is not escaped, and what it shows."""
    return f'<figure><div class="scroll">{svg}</div><figcaption>{escape(caption)}</figcaption></figure>'
