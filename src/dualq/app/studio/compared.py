"""Runs side by side: what the files of each say of it, in the words of the report; and what else may be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from dualq.app.report.words import number, percent, small
from dualq.base import Json

Numbers = Mapping[str, Json]


def run_facts(said: Numbers, task: Numbers) -> dict[str, Json]:
    """A run in a few words, from fit.json and studio.json."""
    promise = said.get("certificate") if said.get("promised") else None
    ends = f"{number(_of(promise, 'lower'))} to {number(_of(promise, 'policy_upper'))}" if promise else ""
    limits = [str(_text(limit, "text")) for limit in cast("list[Json]", said.get("limits") or [])]
    columns = cast("Mapping[str, list[str]]", said.get("columns") or {})
    return {
        "id": said["id"],
        "title": task.get("title") or said["id"],
        "written": said["written"],
        "source": said.get("source"),
        "rows": said.get("rows"),
        "verdict": said.get("verdict"),
        "expected": estimate_words(said["expected"]),
        "logged": estimate_words(said["logged"]),
        "guaranteed": ends,
        "confidence": percent(float(cast("float", said.get("confidence") or 0.0))),
        "limits": list[Json](limits),
        "discount": said.get("discount"),
        "state": ", ".join(columns.get("state", [])),
        "action": ", ".join(columns.get("action", [])),
        "value": _of(said["expected"], "value"),
        "error": _text(said["expected"], "standard_error"),
        "logged_value": _of(said["logged"], "value"),
        "low": _of(promise, "lower") if promise else None,
        "high": _of(promise, "policy_upper") if promise else None,
        "costs": {
            name: estimate_words(_text(both, "recommended") if isinstance(_text(both, "recommended"), dict) else both)
            for name, both in cast("Mapping[str, Json]", said.get("costs") or {}).items()
        },
    }


def compared(runs: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """The runs, and a table of them: a column for each run, a line for each fact."""
    costs = dict.fromkeys(name for run in runs for name in cast("Mapping[str, Json]", run["costs"]))
    lines: list[tuple[str, list[Json]]] = [
        ("verdict", [run["verdict"] for run in runs]),
        ("expected", [run["expected"] for run in runs]),
        ("guaranteed", [run["guaranteed"] or "nothing" for run in runs]),
        ("what was done so far", [run["logged"] for run in runs]),
        *(
            (f"cost: {name}", [cast("Mapping[str, Json]", run["costs"]).get(name, "") for run in runs])
            for name in costs
        ),
        ("limits", [", ".join(map(str, cast("list[Json]", run["limits"]))) or "none" for run in runs]),
        ("log", [run["source"] for run in runs]),
        ("rows", [f"{run['rows']:,}" for run in runs]),
        ("state", [run["state"] for run in runs]),
        ("action", [run["action"] for run in runs]),
        ("discount", [run["discount"] for run in runs]),
    ]
    alike = len({(run["source"], run["discount"]) for run in runs}) == 1
    words = (
        ""
        if alike
        else (
            "These runs have different logs or discounts: their amounts are not of the same thing; do not compare them."
        )
    )
    return {"runs": [dict(run) for run in runs], "lines": [[name, cells] for name, cells in lines], "warning": words}


def estimate_words(said: Json) -> str:
    """`39.9 ± 0.4`."""
    error = _text(said, "standard_error")
    value = number(_of(said, "value"))
    return value if not isinstance(error, int | float) else f"{value} ± {small(error)}"


def _of(said: Json, name: str) -> float:
    found = _text(said, name)
    return float(found) if isinstance(found, int | float) else float("nan")


def _text(said: Json, name: str) -> Json:
    return said.get(name) if isinstance(said, dict) else None
