"""Workspace: the folder in which the studio keeps logs and runs.

    logs/ID/orders.csv    a log that was dropped, by its name, of which letters, digits, - and _ are kept;
                          logs/ID/log.json has the name as it came, logs/ID/chosen.json what was chosen of its columns
    judged/ID/            policies judged by a log: report.html and comparison.json
    runs/NAME/            what `dualq learn --out` writes, and studio.json: which log it was learned from, and how
    .part/PROCESS/        what one studio is writing; it is moved into its place when it is whole. Several studios may
                          share a workspace: each clears what those left that run no longer

Names that the page sends are never paths: an id is letters, digits, dashes and dots, and what it names must lie, links
followed, inside the workspace.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dualq.base import DualqError, Json, LogError, is_running, write_whole
from dualq.logs import without_password

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
KINDS = (
    *(".csv.gz", ".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".jsonl", ".ndjson", ".json", ".xlsx"),
    *(".duckdb", ".sqlite", ".db"),
)
NUMBERS, TASK, CHOSEN = "fit.json", "studio.json", "chosen.json"
SHOWN = (".html", ".csv", ".json", ".npz", ".sql", ".py", ".onnx", ".xlsx", ".md", ".txt", ".zip", ".js", ".pmml")


class NotHere(DualqError):
    """A name that the workspace does not have."""


@dataclass(frozen=True)
class LogFile:
    """A log that may be looked at: one of the workspace, or one that was named when the studio was started."""

    id: str
    name: str  # as it was called where it came from; for people
    path: str
    size: int
    kind: str  # "dropped", "given", or "example"
    columns: Mapping[str, Json] = field(default_factory=dict[str, Json])  # which part they play, where that is known

    def facts(self, chosen: Json = None) -> dict[str, Json]:
        """What the page is told: not where it lies; and what was chosen of its columns."""
        known = dict(self.columns)
        own = {"id": self.id, "name": self.name, "size": self.size, "kind": self.kind}
        return {**own, "columns": known, "chosen": chosen}


@dataclass(frozen=True)
class Workspace:
    """Logs and runs below one folder."""

    folder: Path
    given: tuple[LogFile, ...] = ()  # logs from outside, named at the command line

    @classmethod
    def at(cls, folder: Path, given: tuple[LogFile, ...] = ()) -> Workspace:
        """A workspace that exists, without what was left half written."""
        space = cls(folder.resolve(), given)
        for left in space.parts.parent.glob("*"):
            if left == space.parts or not (left.name.isdecimal() and is_running(int(left.name))):
                shutil.rmtree(left, ignore_errors=True)
        for each in (space.logs, space.runs, space.judged, space.parts):
            each.mkdir(parents=True, exist_ok=True)
        return space

    @property
    def logs(self) -> Path:
        """Where logs lie."""
        return self.folder / "logs"

    @property
    def runs(self) -> Path:
        """Where runs lie."""
        return self.folder / "runs"

    @property
    def judged(self) -> Path:
        """Where comparisons lie."""
        return self.folder / "judged"

    @property
    def parts(self) -> Path:
        """What this studio is writing."""
        return self.folder / ".part" / str(os.getpid())

    # ---- logs

    def all_logs(self) -> list[LogFile]:
        """Those given at the start first, then the newest."""
        dropped = [log for path in self.logs.iterdir() if (log := self._log(path)) is not None]
        return [*self.given, *sorted(dropped, key=lambda log: log.id, reverse=True)]

    def log(self, name: str) -> LogFile:
        """A log by its id."""
        found = next((log for log in self.given if log.id == name), None)
        found = found or (self._log(self.logs / name) if ID.fullmatch(name) else None)
        if found is None:
            raise NotHere("there is no such log in the workspace")
        return found

    def _log(self, folder: Path) -> LogFile | None:
        try:
            said = json.loads((folder / "log.json").read_text())
            path = inside(folder / str(said.get("file", f"data{said['kind']}")), folder)
            return LogFile(folder.name, str(said["name"]), str(path), path.stat().st_size, "dropped")
        except (OSError, ValueError, KeyError, TypeError, NotHere):
            return None

    def keep_log(self, part: Path, name: str) -> LogFile:
        """Move a file that was written whole to its place; name: as it was called, of which the kind is used."""
        kind, log = kind_of(name), new_id("log")
        file = f"{plain_name(name[: -len(kind)])}{kind}"
        write_whole(self.logs / log / "log.json", json.dumps({"name": name, "kind": kind, "file": file}).encode())
        os.replace(part, self.logs / log / file)
        return self.log(log)

    def chosen(self, log: LogFile) -> Json:
        """What was chosen of a log's columns; None where nothing was, or the log was another one then."""
        try:
            said = json.loads((self.logs / log.id / CHOSEN).read_text())
            return said["chosen"] if said["path"] == without_password(log.path) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def choose(self, log: LogFile, chosen: Mapping[str, object]) -> None:
        """Keep what was chosen of a log's columns."""
        said = {"path": without_password(log.path), "chosen": chosen}
        write_whole(inside(self.logs / log.id / CHOSEN, self.logs), json.dumps(said).encode())

    def drop_log(self, name: str) -> None:
        """Delete a log that was dropped; one that was given is only forgotten by the next start."""
        if self.log(name).kind == "dropped":
            shutil.rmtree(inside(self.logs / name, self.logs))

    # ---- runs

    def all_runs(self) -> list[str]:
        """The names of the folders that hold a whole run, the newest first."""
        found = [path for path in self.runs.iterdir() if ID.fullmatch(path.name) and (path / NUMBERS).is_file()]
        return [path.name for path in sorted(found, key=lambda p: (p / NUMBERS).stat().st_mtime, reverse=True)]

    def run(self, name: str) -> Path:
        """The folder of a run."""
        if not ID.fullmatch(name) or not (self.runs / name / NUMBERS).is_file():
            raise NotHere("there is no such run in the workspace")
        return inside(self.runs / name, self.runs)

    def file(self, run: str, name: str) -> Path:
        """A file of a run."""
        path = inside(self.run(run) / name, self.run(run))
        if not ID.fullmatch(name) or not path.is_file():
            raise NotHere("the run has no such file")
        return path

    def comparison(self, name: str) -> Path:
        """The report of a comparison."""
        path = inside(self.judged / name / "report.html", self.judged)
        if not ID.fullmatch(name) or not path.is_file():
            raise NotHere("there is no such comparison in the workspace")
        return path

    def files(self, run: str) -> list[Path]:
        """The files of a run that people may take away."""
        return sorted(path for path in self.run(run).iterdir() if path.is_file() and path.suffix in SHOWN)

    def numbers(self, run: str) -> dict[str, Json]:
        """fit.json of a run, and when it was written."""
        path = self.run(run) / NUMBERS
        try:
            said: dict[str, Json] = json.loads(path.read_text())
        except ValueError:
            raise LogError(f"{run}: {NUMBERS} was not written by dualq, or was changed") from None
        return said | {"id": run, "written": path.stat().st_mtime}

    def task(self, run: str) -> dict[str, Json]:
        """Which log a run was learned from, and how; empty where the studio did not learn it."""
        try:
            return json.loads((self.run(run) / TASK).read_text())
        except (OSError, ValueError):
            return {}

    def drop_run(self, name: str) -> None:
        """Delete a run."""
        shutil.rmtree(self.run(name))

    def part(self, name: str) -> Path:
        """Where something is written before it is whole."""
        return self.parts / name


def inside(path: Path, folder: Path) -> Path:
    """A path with its links followed, which must not lead out of a folder."""
    found = path.resolve()
    if not found.is_relative_to(folder.resolve()):
        raise NotHere("there is no such file in the workspace")
    return found


def kind_of(name: str) -> str:
    """The end of a file's name that says what it is."""
    found = next((kind for kind in KINDS if name.lower().endswith(kind)), None)
    if found is None:
        raise LogError(f"{name[:80]}: a log must end in one of {', '.join(KINDS)}")
    return found


def plain_name(name: str) -> str:
    """What of a file's name is safe on any disk and on any page."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:60] or "data"


def new_id(what: str) -> str:
    """A name that nothing has yet, and that sorts by time."""
    return f"{what}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def given_log(path: str, name: str, kind: str, columns: Mapping[str, Json] | None = None) -> LogFile:
    """A log that was named when the studio was started, or the one that ships with dualq."""
    size = os.path.getsize(path) if os.path.isfile(path) else 0
    return LogFile(kind, name, path, size, kind, columns or {})


def plain_task(log: LogFile, columns: Mapping[str, object], learning: Mapping[str, object]) -> dict[str, object]:
    """What studio.json keeps of a run."""
    return {
        "log": asdict(log) | {"path": without_password(log.path)},
        "columns": dict(columns),
        "learning": dict(learning),
    }
