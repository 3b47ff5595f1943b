"""Curves: what is run with every seed, and the numbers that come of it.

A curve is a name, the panel of the plot it belongs to, the words that its numbers depend on, and a function that
measures one seed. Its numbers are kept in one file when all seeds are done, and read back where the words are the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypedDict

import numpy as np

from dualq._version import __version__
from dualq.base import CheckpointError, Json, as_json_array, from_json_array, load_arrays, save_arrays
from dualq.online import Algorithm, ProblemT, StateT, task_of, train
from dualq.paper.experiments.verdicts import Number
from dualq.worlds import Simulator

Array = np.ndarray

CONFIDENCE = 0.95
PACKAGE = Path(__file__).parents[2]
LOOKS = ("app", "paper")  # what may change without changing a number, this file and what a curve names aside


class Row(TypedDict):
    """A row of the tidy table."""

    panel: str
    curve: str
    metric: str
    x: float
    median: float
    low: float
    high: float
    mean: float
    seeds: int


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """What is run with every seed."""

    name: str
    panel: str
    words: Mapping[str, Json]  # all that its numbers depend on, the seeds aside
    measure: Callable[[int], Mapping[str, Array]]  # seed -> {"step": (K,), metric: (K,), ...}

    def file(self, folder: Path, seeds: int) -> Path:
        """Where its numbers are kept."""
        return folder / "curves" / f"{_digest(self._settings(seeds))}.npz"

    def _settings(self, seeds: int) -> dict[str, Json]:
        return {"dualq": __version__, "sources": _sources(), "seeds": seeds, **self.words}

    def save(self, folder: Path, seeds: int, measured: Measured) -> None:
        """Keep the numbers, whole or not at all."""
        words = as_json_array(self._settings(seeds))
        save_arrays(self.file(folder, seeds), {"words": words, "step": measured.steps, **measured.values})

    def load(self, folder: Path, seeds: int) -> Measured | None:
        """The numbers, if they are there and whole."""
        path = self.file(folder, seeds)
        if not path.exists():
            return None
        try:
            arrays = load_arrays(path)
        except CheckpointError:
            return None  # it is measured again, and written anew
        if from_json_array(arrays.pop("words")) != json.loads(json.dumps(self._settings(seeds))):
            return None
        return Measured(arrays.pop("step"), arrays)


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """The numbers of a curve: metric -> (seeds, steps)."""

    steps: Array
    values: Mapping[str, Array]

    @staticmethod
    def of(runs: Sequence[Mapping[str, Array]]) -> Measured:
        """The runs of all seeds, in their order."""
        metrics = [name for name in runs[0] if name != "step"]
        return Measured(np.asarray(runs[0]["step"]), {m: np.stack([run[m] for run in runs]) for m in metrics})

    def at(self, metric: str, step: float) -> Array:
        """One number per seed, at a step that was recorded."""
        where = np.flatnonzero(self.steps == step)
        if where.size == 0:
            raise KeyError(f"step {step} was not recorded")
        return self.values[metric][:, where[0]]


Key = tuple[str, str]  # panel, curve
Results = Mapping[Key, Measured]


def trained(
    name: str,
    algorithm: Algorithm[StateT, ProblemT],
    source: Simulator,
    steps: int,
    record: Sequence[int],
    metrics: Sequence[str],
    panel: str = "",
    sampling: str | None = None,
) -> Curve:
    """A curve of `dualq.train`: the metrics of its history."""
    wanted = tuple(dict.fromkeys(metrics))

    def measure(seed: int) -> dict[str, Array]:
        run = train(algorithm, source, steps, seed=seed, record=record, sampling=sampling, progress=False)
        return {column: run.history[column].to_numpy() for column in ("step", *wanted)}

    how = sampling or algorithm.traits().sampling or "trajectory"
    words = {
        "algorithm": type(algorithm).__name__,
        "choices": {name: repr(choice) for name, choice in vars(algorithm).items()},
        "source": source_words(source, how),
        "steps": steps,
        "record": [int(step) for step in record],
        "metrics": list(wanted),
    }
    return Curve(name, panel, words, measure)


def source_words(source: Simulator, sampling: str = "trajectory") -> str:
    """A digest of all that the rows of a simulator depend on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pairs that are never seen; said again when it is run
        return task_of(source, sampling).identity


def decades(first: int, last: int, per_decade: int = 8) -> list[int]:
    """Steps that are evenly spaced on a logarithmic axis, with every power of ten."""
    low, high = math.log10(first), math.log10(last)
    exponents = np.linspace(low, high, round((high - low) * per_decade) + 1)
    return sorted({round(10.0**x) for x in exponents} | {first, last})


def _digest(words: object) -> str:
    return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:24]


def code_words(file: str) -> str:
    """A digest of a source file, for the words of a curve that is measured by code in it."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:24]


@cache
def _sources() -> str:
    """A digest of the sources that any curve's numbers can depend on: resuming never mixes two programs."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] not in LOOKS:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


# ---- statistics over the seeds


def median_interval(values: Array, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Two order statistics between which the true median lies with this confidence, whatever the distribution.

    The rank-th least of n numbers is above the median only if fewer than `rank` are below it: Binomial(n, 1/2).
    Where even the least and the greatest do not reach the confidence (fewer than six numbers), they are given.
    """
    ordered, n = np.sort(values), values.size
    tail, rank = 0.0, 0
    while tail + math.comb(n, rank) / 2**n <= 0.5 * (1.0 - confidence):
        tail += math.comb(n, rank) / 2**n
        rank += 1
    place = max(rank - 1, 0)
    return float(ordered[place]), float(ordered[n - 1 - place])


def median(values: Array) -> Number:
    """The median with its interval; infinite ends become None, as JSON has no infinity."""
    low, high = median_interval(values)
    return {"value": _finite(float(np.median(values))), "low": _finite(low), "high": _finite(high)}


def mean(values: Array) -> Number:
    """The mean with its interval by Student's t."""
    from scipy.special import stdtrit

    n, centre = values.size, float(np.mean(values))
    half = stdtrit(n - 1, 0.5 + 0.5 * CONFIDENCE) * float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return {"value": centre, "low": _finite(centre - half), "high": _finite(centre + half)}


def exactly(value: float) -> Number:
    """A number that is not estimated."""
    return {"value": _finite(value), "low": _finite(value), "high": _finite(value)}


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


# ---- the tidy table


def by_step(results: Results, metrics: Iterable[str]) -> list[Row]:
    """One row per panel, curve, metric and step."""
    wanted = list(metrics)
    return [
        summary_row(panel, curve, metric, x, column)
        for (panel, curve), measured in results.items()
        for metric in wanted
        if metric in measured.values
        for x, column in zip(measured.steps.tolist(), measured.values[metric].T, strict=True)
    ]


def summary_row(panel: str, curve: str, metric: str, x: float, values: Array) -> Row:
    """One row of the tidy table."""
    low, middle, high = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
    return {
        "panel": panel,
        "curve": curve,
        "metric": metric,
        "x": x,
        "median": middle,
        "low": low,
        "high": high,
        "mean": float(values.mean()),
        "seeds": int(values.size),
    }
