"""What leaves the studio: a policy as text that other systems run, and policies judged side by side by one log.

Both are the library's (`dualq.offline.export`, `dualq.offline.compare`), asked through its face, where it has them:
`compared.offered` says so, and the page shows only what is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from dualq import offline
from dualq.app.studio.log_tasks import typed
from dualq.base import LogError, write_whole

if TYPE_CHECKING:
    from dualq.app.studio.worker import Begin

ENDINGS = {"json": "policy.json", "sql": "policy.sql", "python": "policy.py"}


class Judged(Protocol):
    """A comparison, as far as it is needed here."""

    verdict: str

    def report(self, path: Path) -> None:
        """Write its page."""
        ...

    def save(self, folder: Path) -> list[str]:
        """Write its numbers."""
        ...


def do_export(begin: Begin, given: Mapping[str, object]) -> dict[str, object]:
    """Write the policy of a run into its folder, for another system."""
    written = cast("Callable[..., str]", getattr(offline, "export"))  # noqa: B009
    run, to = str(given["run"]), str(given["to"])
    more = {"dialect": str(given["dialect"])} if to == "sql" else {}
    text = written(run, to, **more, approximate=bool(given["approximate"]))
    write_whole(Path(run) / ENDINGS[to], text.encode())
    return {"name": ENDINGS[to]}


def do_judge(begin: Begin, given: Mapping[str, object]) -> dict[str, object]:
    """Judge rules and runs by one log, and write the report of the comparison."""
    judge = cast("Callable[..., Judged]", getattr(offline, "compare"))  # noqa: B009
    begin("Reading the log")
    rules, runs = (cast("dict[str, str]", given[name]) for name in ("rules", "runs"))
    for name, rule in rules.items():
        if "=" not in rule or Path(rule).exists():  # what is written on the page is never a path
            raise LogError(f"{name}: write a rule, such as order = 6 if stock <= 1 else 0")
    columns, part = typed(cast("dict[str, object]", given["columns"])), Path(str(given["part"]))
    found = judge(str(given["path"]), {**rules, **runs}, **columns, progress=begin)
    begin("Writing")
    found.save(part)
    found.report(part / "report.html")
    os.rename(part, str(given["folder"]))
    return {"verdict": found.verdict}
