"""The one loop around every algorithm: chunks of rows, history, checkpoints, resuming, many seeds.

    rows <- stream;  algorithm.advance(state, problem, rows, k)        until the next step where something is to be done

The rows come from a generator of their own and every sum is kept in the algorithm's state, so the same seed gives the
same bits whatever the size of the chunks, whether or not anything is recorded, and however often the run was stopped.

Checkpoint   one file: the algorithm's state, the stream's, the history, and the settings; written whole or not at all,
          with a SHA-256. Calling `train` again with the same words goes on from it; other words are refused.
"""

from __future__ import annotations

import dataclasses
import operator
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias, overload

import numpy as np

from dualq.base import CheckpointError, ModelError, Rows, door
from dualq.logs import Log
from dualq.model import MDP, Solution
from dualq.online.algorithm import Algorithm, ProblemT, StateT
from dualq.online.checkpoints import Settings, resume, save, settings_of
from dualq.online.metrics import metrics_of
from dualq.online.stopping import Regret
from dualq.online.tasks import Task, check_rewards, checked_zeta, fill_silent, task_of, task_of_environment
from dualq.proof import Certificate
from dualq.worlds import Behaviour, Environment, Simulator

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray

Source: TypeAlias = "Simulator | Log | Environment | MDP | Task"

CHUNK = 1 << 15  # rows at a time: they stay in the second-level cache
MODEL_CHUNK = 1 << 10  # steps at a time of an algorithm that reads the model
SHOW_AFTER = 2.0  # seconds without a progress bar


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """What a training run gave: `solution` (averaged iterates), `last` (the last ones), `history` (a table)."""

    solution: Solution
    last: Solution
    history: pa.Table = dataclasses.field(repr=False)
    steps: int
    seed: int
    reason: str  # why it ended: "steps", "target gap", "regret", or "end of the rows"
    certificate: Certificate | None = None  # of the last look, where `stop` was given
    promises: tuple[tuple[int, float], ...] = ()  # of every look: after how many rows, and the regret promised then


@overload
def train(
    algorithm: Algorithm[StateT, ProblemT],
    source: Source,
    steps: int,
    *,
    seed: int = 0,
    seeds: None = None,
    sampling: str | None = None,
    discount: float | None = None,
    behaviour: Behaviour = "uniform",
    reward_range: tuple[float, float] | None = None,
    record: Sequence[int] = (),
    target_gap: float | None = None,
    stop: Regret | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 10_000_000,
    jobs: int = -1,
    progress: bool | None = None,
) -> Run: ...


@overload
def train(
    algorithm: Algorithm[StateT, ProblemT],
    source: Source,
    steps: int,
    *,
    seed: int = 0,
    seeds: Sequence[int],
    sampling: str | None = None,
    discount: float | None = None,
    behaviour: Behaviour = "uniform",
    reward_range: tuple[float, float] | None = None,
    record: Sequence[int] = (),
    target_gap: float | None = None,
    stop: Regret | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 10_000_000,
    jobs: int = -1,
    progress: bool | None = None,
) -> list[Run]: ...


@door
def train(
    algorithm: Algorithm[StateT, ProblemT],
    source: Source,
    steps: int,
    *,
    seed: int = 0,
    seeds: Sequence[int] | None = None,
    sampling: str | None = None,
    discount: float | None = None,
    behaviour: Behaviour = "uniform",
    reward_range: tuple[float, float] | None = None,
    record: Sequence[int] = (),
    target_gap: float | None = None,
    stop: Regret | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 10_000_000,
    jobs: int = -1,
    progress: bool | None = None,
) -> Run | list[Run]:
    """Run an algorithm on a source of transitions; a Run, or a list of Runs where `seeds` are given.

    Parameters
    ----------
    source
        a Simulator; a Log, read once in its order; a Gymnasium environment with discrete spaces, played by
        `behaviour` (a function, a Policy, or "uniform") while it is learned from; or an MDP, for an algorithm that
        needs no transitions
    sampling
        of a Simulator: "trajectory" (one walk; the default), "iid" ((s, a) ~ tau_k afresh for every k), or
        "uniform" (every pair equally likely, whatever the behaviour: the only one for SPDRLUniform)
    discount
        for a Log or an environment, which do not know it
    reward_range
        (low, high) of an environment's rewards: the primal-dual methods need it, and zeta, beforehand
    record
        steps at which the metrics are written to the history
    target_gap
        stop at the first recorded step where the true gap is at most this
    stop
        Regret(0.5, confidence=0.95): stop when the certificate of the primal policy, from the run's own rows,
        promises that no policy is better by more than 0.5 at the start; of a Simulator, without checkpoint
    checkpoint
        a file to resume from and to write every `every` steps, when interrupted, and at the end
    jobs
        how many seeds run at once: -1 for one per core

    Examples
    --------
    >>> import dualq
    >>> two = dualq.problems.two_state()
    >>> run = dualq.train(dualq.QLearning(), two, steps=20_000, seed=0, record=[1_000, 20_000])
    >>> run.solution.primal_policy.probabilities(0)
    {0: 1.0}
    >>> run.history["step"].to_pylist()
    [1000, 20000]

    Many seeds at once, each the same run as alone:

    >>> runs = dualq.train(dualq.QLearning(), two, steps=20_000, seeds=range(3))
    >>> bool((runs[0].solution.Q == run.solution.Q).all())
    True
    """
    if isinstance(algorithm, type) or not isinstance(algorithm, Algorithm):
        raise ModelError(f"{algorithm!r} is not an algorithm; give one with its choices, such as SPDQ(weights=0.1)")
    steps = _whole("steps", steps, 1)
    options = _Options(steps, _checked_record(record, steps), target_gap, stop, _whole("every", every, 1), progress)
    if stop is not None and (not isinstance(source, Simulator) or checkpoint is not None):
        raise ModelError("stop is for a run on a Simulator without a checkpoint; of a log, ask for its certificate")
    traits = algorithm.traits()
    if target_gap is not None and not (options.record and traits.has_dual and traits.limits is None):
        raise ModelError(
            "target_gap needs an algorithm with a dual and no limits, and steps to look at it: give record"
        )
    all_seeds = tuple(_whole("seed", s, 0) for s in ([seed] if seeds is None else seeds))
    if len(set(all_seeds)) != len(all_seeds):
        raise ModelError("a seed was given twice; its runs would be the same")
    sampling = _checked_sampling(algorithm, source, sampling)
    algorithm = algorithm.told(source, sampling)
    if isinstance(source, Environment):
        if checkpoint is not None:
            raise CheckpointError(
                "an environment cannot be put back, so its run cannot be resumed; leave out checkpoint"
            )
        jobs = 1  # there is one environment: the seeds play it one after the other
        task = task_of_environment(algorithm, source, behaviour, discount, reward_range)
    elif reward_range is not None:
        raise ModelError(f"reward_range is for an environment; {type(source).__name__} has its own")
    else:
        task = source if isinstance(source, Task) else task_of(source, sampling, discount)
    _check_length(traits.longest, min(steps, len(source)) if isinstance(source, Log) else steps)
    zeta = checked_zeta(algorithm, task)
    with _interrupts() as interrupted:
        if seeds is None:
            path = None if checkpoint is None else Path(checkpoint)
            return _train(algorithm, task, zeta, options, all_seeds[0], path, interrupted)
        from joblib import Parallel, delayed

        paths = {s: None if checkpoint is None else Path(f"{checkpoint}.{s}") for s in all_seeds}
        # Threads, because the kernels hold no lock: nothing is copied, and a seed's run does not know of the others.
        runs = Parallel(n_jobs=jobs, prefer="threads")(
            delayed(_train)(algorithm, task, zeta, options, s, paths[s], interrupted) for s in all_seeds
        )
        return [run for run in runs if isinstance(run, Run)]


def _checked_sampling(algorithm: Algorithm[StateT, ProblemT], source: Source, sampling: str | None) -> str:
    """The sampling asked for, where the algorithm and the source allow it."""
    needed = algorithm.traits().sampling
    if needed is not None and (sampling not in (None, needed) or not isinstance(source, Simulator)):
        name = type(algorithm).__name__
        raise ModelError(f"{name} needs a Simulator with sampling={needed!r}; other rows lead it to another answer")
    if sampling is not None and not isinstance(source, Simulator):
        raise ModelError(
            f"sampling={sampling!r} is for a Simulator; the rows of {type(source).__name__} are as they are"
        )
    return sampling or needed or "trajectory"


# ---- the loop


@dataclasses.dataclass(frozen=True)
class _Options:
    steps: int
    record: tuple[int, ...]
    target_gap: float | None
    stop: Regret | None
    every: int
    progress: bool | None


def _train(
    algorithm: Algorithm[StateT, ProblemT],
    task: Task,
    zeta: float,
    options: _Options,
    seed: int,
    path: Path | None,
    interrupted: Callable[[], bool],
) -> Run:
    problem = algorithm.problem(task.mdp, zeta)
    state, stream = algorithm.init(task.mdp, seed, zeta), task.stream
    walk = Rows.empty(0) if stream is None else stream.init(seed)
    metrics = metrics_of(algorithm, task) if options.record else None
    watch = None if options.stop is None else options.stop.watch(task.mdp, task.start)
    history: list[dict[str, float]] = []
    settings: Settings = {}
    if path is not None:
        said = {"seed": seed, "target_gap": options.target_gap}
        settings = settings_of(algorithm, source=task.identity, record=list(options.record), **said)
    if path is not None and path.exists():
        history = resume(path, settings, state, walk)
        if state.k[0] > options.steps:
            raise CheckpointError(f"{path}: stands at step {state.k[0]}, beyond the {options.steps} asked for")
    needs_rows = algorithm.traits().needs_rows
    if stream is None and needs_rows:
        raise ModelError(
            f"{type(algorithm).__name__} learns from transitions; give a Simulator or a Log, not a model alone"
        )
    size = min(CHUNK, task.chunk or CHUNK if needs_rows else MODEL_CHUNK)
    rows = Rows.empty(size)
    reason = "target gap" if _reached(history, options) else "steps"
    with _Progress(options, int(state.k[0])) as bar:
        saved = k = int(state.k[0])
        while k < options.steps and reason == "steps":
            count = min(size, _next_stop(k, options, path) - k)
            if watch is not None:
                count = min(count, watch.due - k)
            chunk = rows.first(count)
            if stream is not None and needs_rows:
                count = stream.fill(walk, chunk)
                if count == 0:
                    reason = "end of the rows"
                    break
                chunk = chunk.first(count)
                check_rewards(chunk.r, task, k)
            algorithm.advance(state, problem, chunk, k)
            if watch is not None:
                watch.see(chunk)
            k += count
            bar.moved(k)
            if metrics is not None and k in options.record:
                history.append(metrics.at(state, k))
                if _reached(history, options):
                    reason = "target gap"
            if watch is not None and k == watch.due and watch.met(algorithm.solution(state, task.mdp).primal_policy):
                reason = "regret"
            if path is not None and (k % options.every == 0 or interrupted()):
                save(path, settings, state, walk, history)
                saved = k
            if interrupted():
                _say_how_to_resume(path, k)
                raise KeyboardInterrupt
        if path is not None and saved != k:
            save(path, settings, state, walk, history)
    mdp, silent = task.model()
    solution, last = algorithm.solution(state, mdp), algorithm.last(state, mdp)
    if silent is not None:
        for found in (solution, last):
            fill_silent(found, mdp, silent)
    certificate, promises = (None, ()) if watch is None else (watch.certificate, tuple(watch.promises))
    return Run(solution, last, _table(history), k, seed, reason, certificate, promises)


def _reached(history: list[dict[str, float]], options: _Options) -> bool:
    return bool(history) and options.target_gap is not None and history[-1]["true_gap"] <= options.target_gap


def _next_stop(k: int, options: _Options, path: Path | None) -> int:
    """The next step at which a chunk must end."""
    stops = [step for step in options.record if step > k][:1]
    if path is not None:
        stops.append((k // options.every + 1) * options.every)
    return min([options.steps, *stops])


def _table(history: list[dict[str, float]]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist(history) if history else pa.table({"step": pa.array([], pa.int64())})


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, asked between two chunks, when everything is in place to be saved."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    before = signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _say_how_to_resume(path: Path | None, k: int) -> None:
    saved = f"saved in {path}; call train again with the same words to go on"
    print(f"dualq: interrupted after {k:,} steps, {saved if path else 'nothing was saved'}", file=sys.stderr)


class _Progress:
    """A bar on standard error, once a run has taken two seconds, where that is a terminal or where it is asked for."""

    def __init__(self, options: _Options, k: int):
        self.options, self.first, self.began, self.bar = options, k, time.monotonic(), None
        self.wanted = sys.stderr.isatty() if options.progress is None else options.progress

    def __enter__(self) -> _Progress:
        return self

    def moved(self, k: int) -> None:
        """Show that k steps are done."""
        if self.bar is None:
            if not self.wanted or time.monotonic() - self.began < SHOW_AFTER:
                return
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn()
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self.bar.start()
            self.id = self.bar.add_task("", total=self.options.steps, rate="")
        rate = (k - self.first) / (time.monotonic() - self.began)
        shown = f"{rate / 1e6:.1f} million" if rate >= 1e5 else f"{rate:,.0f}"
        self.bar.update(self.id, completed=k, rate=f"{shown} steps/s")

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()


# ---- checks at the border


def _check_length(longest: int | None, steps: int) -> None:
    """Refuse a list of step sizes that ends before the run does."""
    if longest is not None and longest < steps:
        raise ModelError(f"step sizes were given for {longest} steps; {steps} are to be taken")


def _whole(name: str, number: object, least: int) -> int:
    whole = operator.index(number) if isinstance(number, SupportsIndex) else least - 1
    if not least <= whole < 2**62:
        raise ModelError(f"{name} is {number!r}; it must be a whole number, at least {least} and below 2^62")
    return whole


def _checked_record(record: object, steps: int) -> tuple[int, ...]:
    if not isinstance(record, Iterable):
        raise ModelError(f"record is {record!r}; it must list the steps to record")
    wanted = tuple(sorted({_whole("a step to record", step, 1) for step in record}))
    if wanted and not (wanted[0] >= 1 and wanted[-1] <= steps):
        raise ModelError(f"record has the steps {wanted[0]} to {wanted[-1]}; they must lie in 1 to {steps}")
    return wanted
