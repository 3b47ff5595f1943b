"""What is asked of a log before anything is learned: its first rows, which part each column plays, what it can tell.

Every answer is what `dualq.look`, `dualq.read_log` and the log's own counts say; here it is only put into plain values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dualq.app.studio.page_words import all_on_page, on_page
from dualq.base import LogError, visible
from dualq.logs import READING, bad_rows, first_rows, histogram, lines_of, look, read_log, rows_behind
from dualq.worlds import sample_log

if TYPE_CHECKING:
    from dualq.app.studio.worker import Begin
    from dualq.logs import Look

PREVIEW = 50  # rows
LONG = 300  # letters of a cell that are shown
MOST_STATES = 20_000  # that are sent for the map of rows per pair
PERIODS = 24
OPENING = ("table", "delimiter", "columns")  # what must be known to open a file
LOOKED = frozenset(option.name for option in READING.values() if option.looks)

Arguments = Mapping[str, object]


def columns_in(given: Arguments) -> dict[str, object]:
    """The arguments of `read_log` among those of a task; what is not said is not there."""
    found = cast("Arguments", given.get("columns") or {})
    return {name: value for name, value in found.items() if value is not None}


def opening_in(given: Arguments) -> dict[str, object]:
    """Those that say how a file is opened."""
    return {name: value for name, value in columns_in(given).items() if name in OPENING}


def do_warm(begin: Begin, given: Arguments) -> dict[str, object]:
    """Load what the first question would have to wait for."""
    first_rows(sample_log.path(), 1)
    return {}


def do_preview(begin: Begin, given: Arguments) -> dict[str, object]:
    """The first rows."""
    found = first_rows(given["path"], PREVIEW, **typed(opening_in(given)))
    return {"names": found.names, "kinds": found.kinds, "rows": shown(found.rows)}


def do_look(begin: Begin, given: Arguments) -> dict[str, object]:
    """Which part each column plays, and why; what is wrong; the lines to copy."""
    columns, path = columns_in(given), str(given["path"])
    begin("Looking at the log")
    seen = look(path, **typed({name: value for name, value in columns.items() if name in LOOKED}))
    begin("Looking for bad rows")
    proposed = _proposed(seen, columns)
    refused = any(words.startswith("dualq learn would stop") for words in seen.suspicious)
    bad = bad_rows(path, **proposed) if refused else []
    begin("Drawing histograms")
    return {
        **seen.summary(),
        "columns": [{**asdict(c), "values": c.values, "part": seen.part(c.name).rstrip("?")} for c in seen.columns],
        "why": dict(seen.why),
        "facts": [f"{words}." for words in seen.facts()],
        "doubts": all_on_page(seen.doubts()),
        "suspicious": all_on_page(seen.suspicious),
        "notes": all_on_page(seen.notes),
        "stops": seen.stops,
        "bad": [{"words": on_page(each.words), "rows": each.rows} for each in bad],
        "histograms": _histograms(path, seen, opening_in(given)),
        "edges": _edges(path, proposed) if proposed.get("bins") and not refused else {},
        "answers": [[{"when": when, "say": said} for when, said in ways] for ways in seen.answers],
        "proposed": proposed,
        "lines": lines_of(path, proposed, {}),
    }


def do_tell(begin: Begin, given: Arguments) -> dict[str, object]:
    """What the log can tell: rows per pair, change over time, memory, episodes, rewards and costs."""
    begin("Counting the log's rows")
    log = read_log(given["path"], **typed(columns_in(given)))
    numbers = [_spread(str(given["path"]), name, opening_in(given)) for name in (log.schema.reward, *log.schema.costs)]
    facts: dict[str, object] = {
        "rows": len(log),
        "dropped": log.dropped,
        "skipped": log.skipped,
        "remarks": all_on_page(log.remarks),
        "warnings": all_on_page(log.warnings),
        "episodes": None if log.episodes is None else asdict(log.episodes),
        "spread": [each for each in numbers if each is not None],
        "numbers": log.numbers,
    }
    if log.numbers:
        return facts
    begin("Testing whether the system changed")
    coverage, over = log.coverage(), log.over_time(PERIODS)
    costs = {name: float(x.sum() / len(log)) for name, x in log.counts().cost_sums.items()}
    return facts | {
        "summary": coverage.summary(),
        "warnings": all_on_page(coverage.warnings),
        "notes": all_on_page(coverage.notes),
        "findings": [
            {"what": finding.what, "found": finding.found, "words": on_page(finding.words), "tested": finding.tested}
            for finding in coverage.evidence
        ],
        "costs": costs,
        "reward": float(log.counts().reward_sum.sum() / len(log)),
        "over": None if over is None else _over(over.edges, over.by, over.rows, over.reward, over.actions),
        "actions": [said(log.actions.named(a)) for a in range(len(log.actions))],
        "pairs": _pairs(log.counts().visits, [said(log.states.named(s)) for s in range(len(log.states))]),
    }


def do_rows(begin: Begin, given: Arguments) -> dict[str, object]:
    """The rows of the log in which a state was met."""
    log = read_log(given["path"], **typed(columns_in(given)))
    found = rows_behind(log, cast("dict[str, str]", given["state"]), cast("dict[str, str] | None", given.get("action")))
    return {"names": found.names, "kinds": found.kinds, "rows": shown(found.rows)}


# ---- plain values


def said(label: Mapping[str, object]) -> str:
    """A label in a few words."""
    parts = [visible(value) for value in label.values()]
    return parts[0] if len(parts) == 1 else ", ".join(f"{n} {p}" for n, p in zip(label, parts, strict=True))


def shown(rows: Sequence[Sequence[object]]) -> list[list[object]]:
    """Cells as they are written, not longer than anybody reads; None where there is no value."""
    return [
        [cell if cell is None or isinstance(cell, bool | int | float) else _short(cell) for cell in row] for row in rows
    ]


def _short(cell: object) -> str:
    words = str(cell)
    return words if len(words) <= LONG else f"{words[:LONG]}..."


def typed(given: Mapping[str, object]) -> dict[str, Any]:
    """Arguments from JSON, which were checked at the border (asked.py): their types are what `read_log` asks for."""
    return dict(given)


def _proposed(seen: Look, columns: Arguments) -> dict[str, object]:
    """The arguments of `read_log` that were looked with, and those that were found."""
    many = ("state", "action", "next_state", "episode", "costs")
    found: dict[str, object] = {
        part: list(names) if part in many else names[0] for part, names in seen.parts.items() if names
    }
    if seen.numbers:
        found["numbers"] = list(seen.numbers)
    elif seen.bins:
        found["bins"] = seen.bins if isinstance(seen.bins, str) else dict(seen.bins)
    return found | {name: value for name, value in columns.items() if value != [] or name == "costs"}


def _edges(path: str, columns: Mapping[str, object]) -> dict[str, object]:
    """Where bins were cut, {column: edges}."""
    try:
        return {column: list(bins.edges) for column, bins in read_log(path, **typed(columns)).bins.items()}
    except LogError:
        return {}


def _histograms(path: str, seen: Look, opening: Mapping[str, object]) -> dict[str, object]:
    """Of the numbers in the state, which may be cut into bins."""
    state = [c for c in seen.columns if c.name in seen.parts.get("state", ()) and c.is_number and c.different > 2]
    return {c.name: _spread(path, c.name, opening) for c in state}


def _spread(path: str, column: str, opening: Mapping[str, object]) -> dict[str, object] | None:
    try:
        found = histogram(path, column, **typed(opening))
    except LogError:
        return None
    return None if found is None else asdict(found)


def _over(
    edges: Sequence[str], by: str, rows: np.ndarray, reward: np.ndarray, actions: np.ndarray
) -> dict[str, object]:
    return {
        "edges": list(edges),
        "by": by,
        "rows": rows.tolist(),
        "reward": reward.tolist(),
        "actions": actions.tolist(),
    }


def _pairs(visits: np.ndarray, states: Sequence[str]) -> dict[str, object]:
    """n(s, a) of the states with the most rows, in the order of the log."""
    order = np.sort(np.argsort(-visits.sum(axis=1), kind="stable")[:MOST_STATES])
    return {"states": [_short(states[s]) for s in order], "rows": visits[order].tolist(), "of": len(states)}
