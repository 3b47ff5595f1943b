"""The parts of a page: headings, tables, figures, notes; all text is escaped here and in `charts`, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from dualq.app.report.charts import ACCENT, INK, MUTED, PALE, SURE

LINES = "margin:.5em 0;white-space:pre-line"  # a paragraph of a notebook: conditions keep a line each

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2933; --muted: #616e7c; --line: #e4e7eb;
  --accent: #1f5fa8; --sure: #2f7d4f; --warn: #8a4b08; --good-box: #eef7f1; --warn-box: #fdf6ec; --box: #f3f7fb; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #14191f; --ink: #e4e7eb; --muted: #9aa5b1;
  --line: #323f4b; --accent: #7db4ee; --sure: #7fcf9f; --warn: #f0b46a; --good-box: #16261d; --warn-box: #2a2115;
  --box: #18222d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 48.5rem; color: var(--ink); background: var(--paper);
  font: 16px/1.55 Helvetica, Arial, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.9rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .25rem; }
p { margin: .5rem 0; white-space: pre-line; }
.muted { color: var(--muted); font-size: .9rem; }
.verdict { border: 1px solid var(--line); border-left: 8px solid var(--muted); border-radius: .5rem;
  padding: 1rem 1.25rem; margin: .5rem 0 1rem; background: var(--box); }
.verdict.better, .verdict.no-worse { border-left-color: var(--sure); background: var(--good-box); }
.verdict.do-not-use { border-left-color: var(--warn); background: var(--warn-box); }
.sure { color: var(--sure); }
.note { border-left: 4px solid var(--accent); background: var(--box); padding: .5rem 1rem; margin: 1rem 0; }
.note.warn { border-color: var(--warn); background: var(--warn-box); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: .75rem 0; font-size: .92rem; }
td, th { overflow-wrap: normal; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
table.facts th { width: 8rem; }
ul.tree { list-style: none; padding-left: 0; }
ul.tree ul { list-style: none; border-left: 1px solid var(--line); padding-left: 1rem; margin: 0 0 0 .3rem; }
figure { margin: 1rem 0; }
figcaption { margin-top: .35rem; color: var(--muted); font-size: .9rem; }
svg.chart { display: block; width: 100%; height: auto; overflow: visible; }
.narrow svg.chart { max-width: 26rem; }
svg.chart > rect[fill="white"] { fill: none; }
.narrow { display: none; }
.maps { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(20rem, 100%), 1fr)); gap: 1rem; }
.maps.stacked { grid-template-columns: 1fr; }
table.map { font-size: .85rem; }
table.map caption { text-align: left; font-weight: 600; padding-bottom: .25rem; }
table.map th, table.map td { padding: .2rem .35rem; border: 0; text-align: center; font-weight: normal; }
table.map tbody th { text-align: right; color: var(--muted); width: 1%; }
table.map thead th { color: var(--muted); }
table.map td { border: 2px solid var(--paper); color: #1f2933; }
table.map td, .swatch { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.thin { background-image: repeating-linear-gradient(45deg, transparent 0 5px, rgba(255, 255, 255, .75) 5px 8px); }
.key { display: flex; flex-wrap: wrap; gap: .25rem 1rem; font-size: .85rem; color: var(--muted); margin-top: .5rem; }
.key > span { display: inline-flex; align-items: center; gap: .35rem; }
.swatch { width: 1rem; height: 1rem; border: 1px solid var(--line); }
.swatch.thin { background-color: #9aa5b1; }
@media screen and (max-width: 46rem) {
  .wide, th.wide, td.wide { display: none; }
  .narrow { display: block; }
  .stack thead { display: none; }
  .stack tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
  .stack td, .stack td.number { display: grid; grid-template-columns: 8rem 1fr; border: 0; padding: .1rem 0;
    text-align: left; white-space: normal; }
  .stack td:empty { display: none; }
  table { font-size: .85rem; }
  th, td { padding-right: .4rem; }
  .stack td::before { content: attr(data-name); color: var(--muted); }
  table.map.slim td span { display: none; }
  table.map.slim th, table.map.slim td { padding: .2rem .05rem; height: 1.4rem; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 11pt; }
  h2, h3, .key { break-after: avoid; }
  figure, tr, .verdict, .note { break-inside: avoid; }
  thead { display: table-header-group; }
  .scroll { overflow: visible; }
  table { font-size: .8rem; }
  th, td { padding-right: .5rem; }
}
"""
# What a drawing has in one of the inks follows the page, which turns them for dark screens.
INKS = "\n".join(
    f'svg.chart [{of}="{colour}"] {{ {of}: var(--{name}); }}'
    for colour, name in ((INK, "ink"), (ACCENT, "accent"), (SURE, "sure"), (MUTED, "muted"), (PALE, "line"))
    for of in ("fill", "stroke")
)


def page(title: str, *parts: str) -> str:
    """A whole HTML page that needs nothing from anywhere."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>"
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>{head}\n<style>{STYLE}{INKS}</style></head>\n<body>\n'
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def near(words: str) -> str:
    """Escaped; an estimate and its error stay on one line."""
    return escape(words).replace(" ± ", "&nbsp;±&nbsp;")


def verdict(kind: str, words: str, below: Iterable[str], sure: bool) -> str:
    """The verdict in large letters, the rest of its sentences, and what is guaranteed (in its own ink) below."""
    word, _, rest = words.partition(". ")
    ink = ' class="sure"' if sure else ""
    lines = "".join(f"<p{ink}>{near(line)}</p>" for line in below)
    return f'<div class="verdict {kind.replace(" ", "-")}"><h1>{escape(word)}</h1><p>{near(rest)}</p>{lines}</div>'


def section(heading: str, *parts: str) -> str:
    """A part of the page under a heading of its own."""
    return f"<section>\n<h2>{escape(heading)}</h2>\n" + "\n".join(part for part in parts if part) + "\n</section>"


def heading(words: str) -> str:
    """A smaller heading."""
    return f"<h3>{escape(words)}</h3>"


def text(words: str) -> str:
    """A paragraph."""
    return f"<p>{near(words)}</p>"


def note_below(words: str) -> str:
    """What a table shows, in small letters."""
    return f'<p class="muted">{escape(words)}</p>'


def note(words: str, warn: bool = False) -> str:
    """A paragraph that must not be overlooked."""
    return f'<div class="note{" warn" if warn else ""}">{escape(words)}</div>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, a row each."""
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in pairs)
    return f'<div class="scroll"><table class=facts>{"".join(rows)}</table></div>'


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], stack: bool = False, spare: Sequence[str] = ()
) -> str:
    """A table; numbers stand at the right.

    On a narrow screen it scrolls, or (stack) its cells stand below each other; columns in `spare` are left out there.
    """
    rows = [list(row) for row in rows]
    filled = [[row[i] for row in rows if row[i] != ""] for i in range(len(header))]
    number = [bool(column) and all(map(_is_number, column)) for column in filled]

    def cell(tag: str, i: int, value: object) -> str:
        words = f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
        named = f' data-name="{escape(header[i])}"' if stack and tag == "td" else ""
        kinds = " ".join(["number"] * number[i] + ["wide"] * (header[i] in spare))
        return f"<{tag}{f' class={chr(34)}{kinds}{chr(34)}' if kinds else ''}{named}>{escape(words)}</{tag}>"

    head = "".join(cell("th", i, name) for i, name in enumerate(header))
    body = "".join(f"<tr>{''.join(cell('td', i, value) for i, value in enumerate(row))}</tr>" for row in rows)
    kind = " class=stack" if stack else ""
    return f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _is_number(value: object) -> bool:
    """A number, or the text of one with what belongs to it: `1,234`, `5%`, `2.1 ± 0.3`."""
    return isinstance(value, int | float) or (not set(str(value)) - set("0123456789,.-+±%e< "))


def listed(items: Iterable[str]) -> str:
    """A list, an item a line."""
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def tree(rules: Sequence[tuple[Sequence[str], str]]) -> str:
    """Rules as nested lists: (conditions, what to do) each, in the order of the tree."""

    def below(rules: Sequence[tuple[Sequence[str], str]], depth: int) -> str:
        groups: dict[str, list[tuple[Sequence[str], str]]] = {}
        for rule in rules:
            if len(rule[0]) == depth:
                return f": <b>{escape(rule[1])}</b>"
            groups.setdefault(rule[0][depth], []).append(rule)
        items = "".join(f"<li>{escape(words)}{below(group, depth + 1)}</li>" for words, group in groups.items())
        return f"<ul{' class=tree' if depth == 0 else ''}>{items}</ul>"

    return below(rules, 0)


def figure(drawing: str, caption: str, narrow: str | None = None) -> str:
    """A drawing, which is not escaped, and what it shows; another one for narrow screens where that is given."""
    both = drawing if narrow is None else f'<div class="wide">{drawing}</div><div class="narrow">{narrow}</div>'
    return f"<figure>{both}<figcaption>{escape(caption)}</figcaption></figure>"
