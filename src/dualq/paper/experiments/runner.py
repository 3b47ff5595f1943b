"""The one loop around every experiment: measure what is missing, keep it, judge, draw, write.

A curve's numbers are kept in `out/curves` when all of its seeds are done, so a run that was stopped goes on where it
stood when the same command is given again. Nothing that is written depends on whether it was stopped, nor on time.
"""

from __future__ import annotations

import json
import os
import platform
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from dualq._version import __version__
from dualq.base import Json, ModelError, checked_whole, csv_text, nearest, write_whole
from dualq.paper.experiments import LONG, NAMES, Experiment, experiment, plots
from dualq.paper.experiments.curves import CONFIDENCE, Curve, Measured, Results, Row
from dualq.paper.experiments.verdicts import Entry

if TYPE_CHECKING:
    from rich.progress import Progress

FORMAT = 1
PACKAGES = ("numpy", "scipy", "numba")
COLUMNS = ("panel", "curve", "metric", "x", "median", "low", "high", "mean", "seeds")

# What an experiment does on purpose: a zeta that is too large, pairs that are never seen.
KNOWN_WARNINGS = (r"zeta is ", r"\d+ pairs of state and action are never seen")


class Summed(Entry):
    """The entry of an experiment in summary.json."""

    title: str
    claim: str
    settings: Mapping[str, Json]
    files: list[str]


class Summary(TypedDict):
    """summary.json."""

    format: int
    dualq: str
    versions: dict[str, str]
    seeds: int
    confidence: float
    experiments: dict[str, Summed]


def reproduce(
    names: Sequence[str] = ("all",),
    out: str | os.PathLike[str] = "reproduced",
    seeds: int = 50,
    *,
    progress: bool = False,
    said: Callable[[str, Summed], None] | None = None,
) -> Summary:
    """Run experiments with the seeds 0, ..., seeds - 1 and write what they show into the folder `out`; the summary.

    names      of experiments, or "all" for every one but the long ones
    progress   show a bar on standard error
    said       called with the name and the entry of the summary of each experiment that is done
    """
    wanted = checked_names(names)
    seeds = checked_whole("seeds", seeds, 1)
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ModelError(f"{folder}: is a file; give the folder to write into")
    summary = _summary(folder, seeds)
    modules = {name: experiment(name) for name in wanted}
    curves = {name: module.curves() for name, module in modules.items()}
    with _known_warnings(), _Bar(progress, _to_do(curves, folder, seeds)) as bar:
        for name, module in modules.items():
            results = {}
            for curve in curves[name]:
                bar.at(f"{name}: {curve.panel + ', ' if curve.panel else ''}{curve.name}")
                results[curve.panel, curve.name] = _measured(curve, folder, seeds, bar)
            bar.at(f"{name}: drawing")
            entry = _written(module, results, folder)
            summary["experiments"][name] = entry
            summary["experiments"] = {n: summary["experiments"][n] for n in NAMES if n in summary["experiments"]}
            write_whole(folder / "summary.json", _json(summary))
            if said is not None:
                said(name, entry)
    return summary


def checked_names(names: Sequence[str]) -> list[str]:
    """The experiments that are asked for, each once; "all" stands for every one but the long ones."""
    known = (*NAMES, "all")
    for name in names:
        if name not in known:
            close = nearest(name.replace("figure", "fig"), known)  # as the paper calls them
            hint = f"did you mean {close}? " if close is not None else ""
            raise ModelError(f"no experiment {name!r}; {hint}known are {', '.join(known)}")
    every = [name for name in NAMES if name not in LONG]
    return list(dict.fromkeys(one for name in names for one in (every if name == "all" else [name])))


def _measured(curve: Curve, folder: Path, seeds: int, bar: _Bar) -> Measured:
    """The curve's numbers: from its file, or measured now and kept."""
    saved = curve.load(folder, seeds)
    if saved is not None:
        return saved
    # Threads: the kernels hold no lock. A seed's run does not know of the others, so their order does not matter.
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        runs = []
        for run in pool.map(curve.measure, range(seeds)):
            runs.append(run)
            bar.moved()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # where it was interrupted: no further seed is begun
    measured = Measured.of(runs)
    curve.save(folder, seeds, measured)
    return measured


def _to_do(curves: dict[str, list[Curve]], folder: Path, seeds: int) -> int:
    """How many runs are still to be made."""
    files = {curve.file(folder, seeds) for listed in curves.values() for curve in listed}
    return seeds * sum(not path.exists() for path in files)


def _written(module: Experiment, results: Results, folder: Path) -> Summed:
    """Write the table and the plots of an experiment; its entry in the summary."""
    name, rows = module.NAME, module.rows(results)
    chart = module.plot(rows)
    write_whole(folder / f"{name}.csv", _csv(rows))
    write_whole(folder / f"{name}.svg", plots.svg(chart))
    write_whole(folder / f"{name}.png", plots.png(chart))
    return {
        "title": module.TITLE,
        "claim": module.CLAIM,
        "settings": module.SETTINGS,
        **module.verdict(results).as_json(),
        "files": [f"{name}.csv", f"{name}.svg", f"{name}.png"],
    }


def _csv(rows: Sequence[Row]) -> bytes:
    return csv_text(COLUMNS, ([row[name] for name in COLUMNS] for row in map(dict, rows))).encode()


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _summary(folder: Path, seeds: int) -> Summary:
    """The summary to add to: that of the folder where it was made with the same seeds and versions, else a new one."""
    head: Summary = {
        "format": FORMAT,
        "dualq": __version__,
        "versions": {"python": platform.python_version(), **{package: version(package) for package in PACKAGES}},
        "seeds": seeds,
        "confidence": CONFIDENCE,
        "experiments": {},
    }
    try:
        before = json.loads((folder / "summary.json").read_text())
        if all(before[name] == value for name, value in head.items() if name != "experiments"):
            head["experiments"] = dict(before["experiments"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return head


@contextmanager
def _known_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        for message in KNOWN_WARNINGS:
            warnings.filterwarnings("ignore", message=message)
        yield


class _Bar:
    """How many runs are done, on standard error."""

    def __init__(self, wanted: bool, total: int):
        self.progress: Progress | None = None
        if wanted:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            self.progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self.task = self.progress.add_task("", total=total)

    def __enter__(self) -> _Bar:
        if self.progress:
            self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.progress:
            self.progress.stop()

    def at(self, words: str) -> None:
        """Say what is being run."""
        if self.progress:
            self.progress.update(self.task, description=words)

    def moved(self) -> None:
        """One more run is done."""
        if self.progress:
            self.progress.advance(self.task)
