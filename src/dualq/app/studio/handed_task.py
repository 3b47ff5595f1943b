"""What leaves the studio: a policy as text that other systems run, and policies judged side by side by one log.

Both are the library's own: `export` and `compare`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dualq.app.studio.log_tasks import typed
from dualq.base import LogError, write_whole
from dualq.offline import compare, export

if TYPE_CHECKING:
    from dualq.app.studio.worker import Begin

ENDINGS = {"json": "policy.json", "sql": "policy.sql", "python": "policy.py"}


def do_export(begin: Begin, given: Mapping[str, object]) -> dict[str, object]:
    """Write the policy of a run into its folder, for another system."""
    run, to = str(given["run"]), str(given["to"])
    more = {"dialect": str(given["dialect"])} if to == "sql" else {}
    text = export(run, to, **more, approximate=bool(given["approximate"]))
    write_whole(Path(run) / ENDINGS[to], text.encode())
    return {"name": ENDINGS[to]}


def do_judge(begin: Begin, given: Mapping[str, object]) -> dict[str, object]:
    """Judge rules and runs by one log, and write the report of the comparison."""
    begin("Reading the log")
    rules, runs = (cast("dict[str, str]", given[name]) for name in ("rules", "runs"))
    for name, rule in rules.items():
        if "=" not in rule or Path(rule).exists():  # what is written on the page is never a path
            raise LogError(f"{name}: write a rule, such as order = 6 if stock <= 1 else 0")
    columns, part = typed(cast("dict[str, object]", given["columns"])), Path(str(given["part"]))
    found = compare(str(given["path"]), {**rules, **runs}, **columns, progress=begin)
    begin("Writing")
    found.save(part)
    found.report(part / "report.html")
    os.rename(part, str(given["folder"]))
    return {"verdict": found.verdict}
