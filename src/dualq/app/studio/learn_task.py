"""A run is made: learned from a log, or from a run with other limits; written as `dualq learn --out` does.

The folder is written beside the others and moved into its place when it is whole, so that a run that was stopped leaves
nothing behind that looks like one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dualq.app.studio.log_tasks import typed
from dualq.app.studio.workspace import TASK
from dualq.base import LogError, write_whole
from dualq.offline import Fit, learn, load

if TYPE_CHECKING:
    from dualq.app.studio.worker import Begin
    from dualq.offline import NumberFit


def do_learn(begin: Begin, given: Mapping[str, object]) -> dict[str, object]:
    """Learn from a log, and write the run."""
    begin("Reading the log")
    columns, learning = (typed(cast("dict[str, object]", given[name])) for name in ("columns", "learning"))
    part = Path(str(given["part"]))
    part.mkdir(parents=True)
    aside: dict[str, str] = {"quarantine": str(part / "bad_rows.csv")} if columns.get("skip_bad") else {}
    fit = learn(str(given["path"]), **columns, **aside, **learning, progress=begin)
    return _written(fit, part, given, begin)


def do_keep(begin: Begin, given: Mapping[str, object]) -> dict[str, object]:
    """A run with other limits, kept as a run of its own."""
    begin("Looking for a policy whose limits can be promised")
    fit = load(str(given["run"]))
    if not isinstance(fit, Fit):
        raise LogError("other limits need a table of states; learn again with the limits")
    limits = cast("dict[str, float]", given["limits"])
    return _written(fit.with_limits(limits, str(given["margin"])), Path(str(given["part"])), given, begin)


def _written(fit: Fit | NumberFit, part: Path, given: Mapping[str, object], begin: Begin) -> dict[str, object]:
    begin("Writing")
    fit.save(part)
    fit.report(part / "report.html")
    write_whole(part / TASK, json.dumps(given["task"], indent=2).encode())
    os.rename(part, str(given["folder"]))
    return {"verdict": fit.verdict}
