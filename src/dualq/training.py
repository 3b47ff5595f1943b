"""The one loop around every algorithm: chunks of rows, history, checkpoints, resuming, many seeds.

    rows <- stream;  algorithm.advance(state, problem, rows, k)        until the next step where something is to be done

The rows come from a generator of their own and every sum is kept in the algorithm's state, so the same seed gives the
same bits whatever the size of the chunks, whether or not anything is recorded, and however often the run was stopped.

Metrics   recorded where the model is known, of the averaged solution against the exact one:
          q_error                sum_a max_s |Q*_a(s) - Q_a(s)|                              the paper's Figure 1
          primal_policy_error    sum_s max_a |pi*_s(a) - pi_s(a)|, pi greedy in Q            Figure 3
          dual_policy_error      the same with pi read from the occupancy                    Figure 2
          primal_value_loss, dual_value_loss   max_s V*(s) - V^pi(s)
          average_reward         mean expected reward of the primal policy over eight steps  Figure 4
          bellman_residual       max_(s,a) |R + alpha P max_b Q - Q|
          pseudo_gap, true_gap   D and the duality gap, where the algorithm has a dual
Checkpoint   one file: the algorithm's state, the stream's, the history, and the settings; written whole or not at all,
          with a SHA-256. Calling `train` again with the same words goes on from it; other words are refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import operator
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualq._version import __version__
from dualq.algorithms.known import KNOWN, uniform_pairs
from dualq.errors import CheckpointError, LogError, ModelError
from dualq.exact import solve
from dualq.files import as_json_array, from_json_array, load_arrays, save_arrays
from dualq.labels import Labels
from dualq.logs.counts import END, Counts
from dualq.logs.log import Log
from dualq.mdp import MDP
from dualq.policy import Policy
from dualq.saddle.gaps import duality_gap, pseudo_gap
from dualq.simulator import Simulator
from dualq.solution import Solution
from dualq.streams import Counted, Played, Recorded, Rows, Simulated, UniformPairs

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray

CHUNK = 1 << 15  # rows at a time: they stay in the second-level cache
MODEL_CHUNK = 1 << 10  # steps at a time of an algorithm that reads the model
SHOW_AFTER = 2.0  # seconds without a progress bar
AVERAGED_STEPS = 8  # of average_reward
STREAMS = {"trajectory": Simulated, "iid": partial(Simulated, iid=True), "uniform": UniformPairs}


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """What a training run gave: `solution` (averaged iterates), `last` (the last ones), `history` (a table)."""

    solution: Solution
    last: Solution
    history: pa.Table = dataclasses.field(repr=False)
    steps: int
    seed: int
    reason: str  # why it ended: "steps", "target gap", or "end of the rows"


def train(
    algorithm: Any,
    source: Any,
    steps: int,
    *,
    seed: int = 0,
    seeds: Sequence[int] | None = None,
    sampling: str | None = None,
    discount: float | None = None,
    behaviour: Any = "uniform",
    reward_range: tuple[float, float] | None = None,
    record: Sequence[int] = (),
    target_gap: float | None = None,
    checkpoint: str | os.PathLike | None = None,
    every: int = 10_000_000,
    jobs: int = -1,
    progress: bool | None = None,
) -> Any:
    """Run an algorithm on a source of transitions; a Run, or a list of Runs where `seeds` are given.

    source      a Simulator; a Log, read once in its order; a Gymnasium environment with discrete spaces, played by
                `behaviour` (a function, a Policy, or "uniform") while it is learned from; or an MDP, for an algorithm
                that needs no transitions
    sampling    of a Simulator: "trajectory" (one walk; the default), "iid" ((s, a) ~ tau_k afresh for every k), or
                "uniform" (every pair equally likely, whatever the behaviour: the only one for SPDRLUniform)
    discount    for a Log or an environment, which do not know it
    reward_range   (low, high) of an environment's rewards: the primal-dual methods need it, and zeta, beforehand
    record      steps at which the metrics are written to the history
    target_gap  stop at the first recorded step where the true gap is at most this
    checkpoint  a file to resume from and to write every `every` steps, when interrupted, and at the end
    jobs        how many seeds run at once: -1 for one per core
    """
    if isinstance(algorithm, type) or not hasattr(algorithm, "advance"):
        raise ModelError(f"{algorithm!r} is not an algorithm; give one with its choices, such as SPDQ(weights=0.1)")
    steps = _whole("steps", steps, 1)
    options = _Options(steps, _checked_record(record, steps), target_gap, _whole("every", every, 1), progress)
    if target_gap is not None and not (options.record and hasattr(algorithm, "weights")):
        raise ModelError("target_gap needs an algorithm with a dual, and steps to look at it: give record")
    all_seeds = tuple(_whole("seed", s, 0) for s in ([seed] if seeds is None else seeds))
    if len(set(all_seeds)) != len(all_seeds):
        raise ModelError("a seed was given twice; its runs would be the same")
    sampling = _checked_sampling(algorithm, source, sampling)
    algorithm = _told(algorithm, source, sampling)
    if _is_environment(source):
        if checkpoint is not None:
            raise CheckpointError(
                "an environment cannot be put back, so its run cannot be resumed; leave out checkpoint"
            )
        jobs = 1  # there is one environment: the seeds play it one after the other
        task = _task_of_environment(algorithm, source, behaviour, discount, reward_range)
    elif reward_range is not None:
        raise ModelError(f"reward_range is for an environment; {type(source).__name__} has its own")
    else:
        task = source if isinstance(source, Task) else task_of(source, sampling, discount)
    with _interrupts() as interrupted:
        if seeds is None:
            path = None if checkpoint is None else Path(checkpoint)
            return _train(algorithm, task, options, all_seeds[0], path, interrupted)
        from joblib import Parallel, delayed

        paths = {s: None if checkpoint is None else Path(f"{checkpoint}.{s}") for s in all_seeds}
        # Threads, because the kernels hold no lock: nothing is copied, and a seed's run does not know of the others.
        return Parallel(n_jobs=jobs, prefer="threads")(
            delayed(_train)(algorithm, task, options, s, paths[s], interrupted) for s in all_seeds
        )


def _checked_sampling(algorithm: Any, source: Any, sampling: str | None) -> str:
    """The sampling asked for, where the algorithm and the source allow it."""
    needed = getattr(algorithm, "sampling", None)
    if needed is not None and (sampling not in (None, needed) or not isinstance(source, Simulator)):
        name = type(algorithm).__name__
        raise ModelError(f"{name} needs a Simulator with sampling={needed!r}; other rows lead it to another answer")
    if sampling is not None and not isinstance(source, Simulator):
        raise ModelError(
            f"sampling={sampling!r} is for a Simulator; the rows of {type(source).__name__} are as they are"
        )
    return sampling or needed or "trajectory"


def _told(algorithm: Any, source: Any, sampling: str) -> Any:
    """The algorithm with the M_k of the simulator, where it asks to know it."""
    if not (isinstance(getattr(algorithm, "distribution", None), str) and algorithm.distribution == KNOWN):
        return algorithm
    if not isinstance(source, Simulator):
        raise ModelError(
            f"distribution is {KNOWN!r}, but {type(source).__name__} does not know its M_k; leave it out to estimate it"
        )
    return dataclasses.replace(algorithm, distribution=uniform_pairs(source.mdp) if sampling == "uniform" else source)


# ---- what is trained on


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A stream of rows, the model (or its shell), and what is known of it."""

    stream: Any  # None for a model alone
    mdp: MDP
    known: bool  # whether the model is the truth, so that errors can be measured
    zeta: float  # estimate of the least probability of a pair
    start: Array  # (S,) where average_reward starts
    identity: str  # a digest of all that the rows depend on
    silent: Array | None = None  # (S,) states in which no row acts: their value is the model's, and not learned
    rewards_in: tuple[float, float] | None = None  # what rewards may be, where it is not the model's range

    def model(self) -> tuple[MDP, Array | None]:
        """The model and its silent states, at the end of a run."""
        return self.mdp, self.silent


@dataclasses.dataclass(frozen=True, eq=False)
class _PlayedTask(Task):
    """An environment: sizes are known beforehand, the model of what was seen at the end."""

    def model(self) -> tuple[MDP, Array | None]:
        counts = self.stream.counts
        seen = counts.mdp(self.mdp.discount)
        if seen.num_states < self.mdp.num_states:  # no row ended
            seen = _with_end(seen, self.mdp)
        return seen, _silent(counts, seen.num_states)


def task_of(source: Any, sampling: str = "trajectory", discount: float | None = None) -> Task:
    """A task from a Simulator, a Log or an MDP."""
    if isinstance(source, Log):
        return _task_of_log(source, discount)
    if isinstance(source, MDP):
        uniform = np.full(source.num_states, 1.0 / source.num_states)
        return Task(None, source, True, 1.0, uniform, _digest(source))
    if not isinstance(source, Simulator):
        what = "a Simulator, a Log, a Gymnasium environment or an MDP"
        raise ModelError(f"cannot train on {type(source).__name__}; give {what}")
    if discount is not None:
        raise ModelError(f"discount is {discount!r}, but the model has its own, {source.mdp.discount:g}; leave it out")
    if sampling not in STREAMS:
        raise ModelError(f"sampling is {sampling!r}; it must be one of {', '.join(STREAMS)}")
    stream = STREAMS[sampling](source)
    mdp, identity = source.mdp, f"{sampling} {_digest(source)}"
    uniform = 1.0 / (mdp.num_states * mdp.available.sum(axis=1).max())
    zeta = uniform if sampling == "uniform" else _least_frequency(source)
    # No row of a walk acts where an episode has ended.
    silent = source.ends if source.ends.any() and sampling != "uniform" else None
    return Task(stream, mdp, True, float(zeta), source.start, identity, silent)


def _task_of_log(log: Log, discount: float | None) -> Task:
    """The rows of a log, with its empirical model: the sizes, the range of rewards, and what was seen."""
    discount = _checked_log_discount(discount)
    if len(log) == 0:
        raise LogError("the log has no rows")
    counts = log.counts()
    mdp = counts.mdp(discount)
    seen = counts.visits[counts.visits > 0]
    start = np.full(mdp.num_states, 1.0 / mdp.num_states)
    identity = _sha256(f"{discount!r} {mdp.reward_range!r}", *log.rows)
    silent = _silent(counts, mdp.num_states)
    # What no row leaves pays 0 for ever in the empirical model, as if the row that leads there had ended: so it counts
    # while learning too, where nothing would ever be learned of its value.
    rows = log.rows._replace(ended=log.rows.ended | silent[log.rows.s_next])
    return Task(Recorded(*rows), mdp, False, float(seen.min() / len(log)), start, identity, silent)


def _checked_log_discount(discount: float | None) -> float:
    if discount is None:
        raise ModelError("a log or an environment does not know its discount; give one, such as discount=0.95")
    return discount


def _is_environment(source: Any) -> bool:
    return hasattr(source, "observation_space") and hasattr(source, "action_space")


def _silent(counts: Counts, num_states: int) -> Array:
    """(S,) the states in which no row acts, the end among them."""
    silent = np.ones(num_states, bool)
    silent[: len(counts.states)] = ~(counts.visits > 0).any(axis=1)
    return silent


def _task_of_environment(algorithm: Any, env: Any, behaviour: Any, discount: float | None, reward_range: Any) -> Task:
    """The rows of an environment as it is played. Of its model the sizes are known, and the range if somebody said."""
    discount = _checked_log_discount(discount)
    if getattr(algorithm, "needs_bounds", False):
        name = type(algorithm).__name__
        if reward_range is None:
            raise ModelError(f"{name} must know what rewards can be before the first; give reward_range=(low, high)")
        if algorithm.zeta is None:
            raise ModelError(
                f"{name} must know how rare a pair can be before the first row; give zeta, rather too small"
            )
    if reward_range is not None:
        reward_range = _checked_reward_range(reward_range)
    played = Played(env, behaviour)
    stream = Counted(played, played.states, played.actions, reward_range)
    states = Labels([*played.states, END], played.states.names)
    S, A = len(states), len(played.actions)
    low, high = (0.0, 0.0) if reward_range is None else (min(0.0, reward_range[0]), max(0.0, reward_range[1]))
    loops = sp.csr_array((np.ones(S * A), np.repeat(np.arange(S), A), np.arange(S * A + 1)), shape=(S * A, S))
    shell = MDP(loops, np.zeros((S, A)), discount, (low, high), states=states, actions=played.actions)
    start, rewards_in = np.full(S, 1.0 / S), reward_range or (-np.inf, np.inf)
    return _PlayedTask(stream, shell, False, 1.0, start, "", rewards_in=rewards_in)


def _with_end(seen: MDP, shell: MDP) -> MDP:
    """A model with one state more, as the shell has it, to which nothing leads."""
    S, A = shell.rewards.shape
    indptr = np.concatenate([seen.indptr, seen.indptr[-1] + np.arange(1, A + 1)])
    indices = np.concatenate([seen.indices, np.full(A, S - 1, seen.indices.dtype)])
    P = sp.csr_array((np.concatenate([seen.probabilities, np.ones(A)]), indices, indptr), shape=(S * A, S))
    available = np.concatenate([seen.available, np.ones((1, A), bool)])
    rewards = np.concatenate([seen.rewards, np.zeros((1, A))])
    low, high = seen.reward_range
    bound = min(low, 0.0), max(high, 0.0)
    return MDP(P, rewards, seen.discount, bound, states=shell.states, actions=shell.actions, available=available)


def _least_frequency(simulator: Simulator) -> float:
    """The least probability of an available pair in the long run, among those that have any."""
    try:
        M = simulator.stationary()
    except ModelError:  # several classes, or a behaviour that never settles: the average of many steps must serve
        M, v = np.zeros(simulator.mdp.rewards.shape), simulator.start
        for k in range(1000):
            tau = v[:, None] * simulator.behaviour_at(k)
            M += tau / 1000
            v = simulator.moved(tau)
    unseen = simulator.mdp.available & ~(M > 0.0) & ~simulator.ends[:, None]
    if unseen.any():
        s, a = (int(i) for i in np.argwhere(unseen)[0])
        mdp = simulator.mdp
        warnings.warn(
            f"{int(unseen.sum())} pairs of state and action are never seen in the long run, the first of them "
            f"({mdp.states.describe(s)}, {mdp.actions.describe(a)}); nothing is learned of them",
            stacklevel=4,
        )
    return float(M[M > 0.0].min())


# ---- the loop


@dataclasses.dataclass(frozen=True)
class _Options:
    steps: int
    record: tuple[int, ...]
    target_gap: float | None
    every: int
    progress: bool | None


def _train(algorithm: Any, task: Task, options: _Options, seed: int, path: Path | None, interrupted: Any) -> Run:
    zeta = _checked_zeta(algorithm, task)
    problem = algorithm.problem(task.mdp, zeta)
    state, stream = algorithm.init(task.mdp, seed, zeta), task.stream
    walk = Rows.empty(0) if stream is None else stream.init(seed)
    metrics = _Metrics(algorithm, task) if options.record else None
    history: list[dict[str, float]] = []
    settings = _settings(algorithm, task, options, seed) if path is not None else {}
    if path is not None and path.exists():
        history = _resume(path, settings, state, walk)
        if state.k[0] > options.steps:
            raise CheckpointError(f"{path}: stands at step {state.k[0]}, beyond the {options.steps} asked for")
    stream = stream if getattr(algorithm, "needs_rows", True) else None
    if stream is None and getattr(algorithm, "needs_rows", True):
        raise ModelError(
            f"{type(algorithm).__name__} learns from transitions; give a Simulator or a Log, not a model alone"
        )
    size = min(CHUNK, getattr(stream, "chunk", CHUNK))
    rows = Rows.empty(size)
    reason = "target gap" if _reached(history, options) else "steps"
    with _Progress(options, int(state.k[0])) as bar:
        saved = k = int(state.k[0])
        while k < options.steps and reason == "steps":
            count = min(size, _next_stop(k, options, path) - k)
            if stream is not None:
                chunk = rows.first(count)
                count = stream.fill(walk, chunk)
                if count == 0:
                    reason = "end of the rows"
                    break
                chunk = chunk.first(count)
                _check_rewards(chunk.r, task, k)
                algorithm.advance(state, problem, chunk, k)
            else:
                count = min(count, MODEL_CHUNK)
                algorithm.advance(state, problem, count, k)
            k += count
            bar.moved(k)
            if metrics is not None and k in options.record:
                history.append(metrics.at(state, k))
                if _reached(history, options):
                    reason = "target gap"
            if path is not None and (k % options.every == 0 or interrupted()):
                _save(path, settings, state, walk, history)
                saved = k
            if interrupted():
                _say_how_to_resume(path, k)
                raise KeyboardInterrupt
        if path is not None and saved != k:
            _save(path, settings, state, walk, history)
    mdp, silent = task.model()
    solution, last = algorithm.solution(state, mdp), algorithm.last(state, mdp)
    if silent is not None:
        for found in (solution, last):
            _fill_silent(found, mdp, silent)
    return Run(solution, last, _table(history), k, seed, reason)


def _reached(history: list[dict[str, float]], options: _Options) -> bool:
    return bool(history) and options.target_gap is not None and history[-1]["true_gap"] <= options.target_gap


def _fill_silent(solution: Solution, mdp: MDP, silent: Array) -> None:
    """No row says anything of these states; in the empirical model they are never left."""
    Q = np.where(mdp.available[silent], mdp.rewards[silent] / (1.0 - mdp.discount), -np.inf)
    solution.V[silent] = Q.max(axis=1)  # before Q, which may be read off V
    solution.Q[silent] = Q


def _next_stop(k: int, options: _Options, path: Path | None) -> int:
    """The next step at which a chunk must end."""
    stops = [step for step in options.record if step > k][:1]
    if path is not None:
        stops.append((k // options.every + 1) * options.every)
    return min([options.steps, *stops])


def _check_rewards(r: Array, task: Task, k: int) -> None:
    low, high = task.rewards_in or task.mdp.reward_range
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    bad = ~((r >= low - slack) & (r <= high + slack))  # NaN too
    if bad.any():
        i = int(bad.argmax())
        raise LogError(f"the reward at step {k + i} is {r[i]:g}; rewards must lie in [{low:g}, {high:g}]")


def _table(history: list[dict[str, float]]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist(history) if history else pa.table({"step": pa.array([], pa.int64())})


# ---- metrics


class _Metrics:
    """The distance of a state's solution from the exact one."""

    def __init__(self, algorithm: Any, task: Task):
        self.algorithm, self.task = algorithm, task
        self.has_dual = hasattr(algorithm, "weights")
        self.exact = solve(task.mdp, getattr(algorithm, "weights", None)) if task.known else None

    def at(self, state: Any, k: int) -> dict[str, float]:
        """The metrics at step k."""
        if self.exact is None:
            return {"step": k}
        mdp, exact = self.task.mdp, self.exact
        found: Solution = self.algorithm.solution(state, mdp)
        if self.task.silent is not None:
            _fill_silent(found, mdp, self.task.silent)
        primal, best, exists = found.primal_policy, exact.primal_policy.matrix, mdp.available
        difference = np.abs(np.where(exists, found.Q, 0.0) - np.where(exists, exact.Q, 0.0))
        residual = np.abs(np.where(exists, mdp.q_values(found.Q.max(axis=1)), 0.0) - np.where(exists, found.Q, 0.0))
        metrics = {
            "step": k,
            "q_error": difference.max(axis=0).sum(),
            "primal_policy_error": np.abs(primal.matrix - best).max(axis=1).sum(),
            "primal_value_loss": (exact.V - primal.value(mdp)).max(),
            "average_reward": _average_reward(primal, mdp, self.task.start),
            "bellman_residual": residual.max(),
        }
        if self.has_dual:
            dual = found.dual_policy
            metrics |= {
                "dual_policy_error": np.abs(dual.matrix - best).max(axis=1).sum(),
                "dual_value_loss": (exact.V - dual.value(mdp)).max(),
                "pseudo_gap": pseudo_gap(mdp, found, exact=exact),
                "true_gap": duality_gap(mdp, found),
            }
        return {name: int(x) if name == "step" else float(x) for name, x in metrics.items()}


def _average_reward(policy: Policy, mdp: MDP, start: Array) -> float:
    P, R = policy.chain(mdp)
    v, total = start, 0.0
    for _ in range(AVERAGED_STEPS):
        total += v @ R
        v = P.T @ v
    return float(total) / AVERAGED_STEPS


# ---- checkpoints


def _settings(algorithm: Any, task: Task, options: _Options, seed: int) -> dict[str, Any]:
    """All that a run's bits depend on, in words that can be compared and named."""
    return {
        "dualq": __version__,
        "algorithm": type(algorithm).__name__,
        **{field.name: _words(getattr(algorithm, field.name)) for field in dataclasses.fields(algorithm)},
        "source": task.identity,
        "seed": seed,
        "record": list(options.record),
        "target_gap": options.target_gap,
    }


def _words(value: Any) -> Any:
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Simulator):
        return _digest(value)
    if dataclasses.is_dataclass(value):
        parts = {field.name: _words(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **parts}
    if isinstance(value, Mapping):
        return {str(name): _words(part) for name, part in value.items()}
    array = np.ascontiguousarray(value)
    if array.size <= 8:
        return array.tolist()
    return hashlib.sha256(f"{array.shape}".encode() + array.tobytes()).hexdigest()


def _digest(source: Simulator | MDP) -> str:
    """A digest of all numbers of a model or a simulator."""
    if isinstance(source, MDP):
        words = f"{source.discount!r} {source.reward_range!r}"
        return _sha256(words, source.indptr, source.indices, source.probabilities, source.rewards)
    drift = source.drift
    arrays = [source.behaviour.matrix, source.start, source.reward_low, source.reward_high, drift and drift.to.matrix]
    words = f"{_digest(source.mdp)} {drift and (drift.kind, drift.rate)} {source.episodic}"
    return _sha256(words, *(array for array in arrays if array is not None))


def _sha256(words: str, *arrays: Array) -> str:
    digest = hashlib.sha256(words.encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _save(path: Path, settings: dict, state: Any, walk: Any, history: list[dict[str, float]]) -> None:
    arrays = {f"state.{name}": array for name, array in state._asdict().items()}
    arrays |= {f"stream.{name}": array for name, array in walk._asdict().items()}
    columns = {name: np.array([row[name] for row in history]) for name in (history[0] if history else ())}
    arrays |= {f"history.{name}": column for name, column in columns.items()}
    save_arrays(path, {**arrays, "settings": as_json_array(settings)})


def _resume(path: Path, settings: dict, state: Any, walk: Any) -> list[dict[str, float]]:
    """Put a checkpoint's numbers in place; its history."""
    arrays = load_arrays(path)
    if "settings" not in arrays:
        raise CheckpointError(f"{path}: not a checkpoint of a training run")
    before = from_json_array(arrays["settings"])
    for name in sorted({*before, *settings}):
        if before.get(name) != settings.get(name):
            if name == "source":
                raise CheckpointError(f"{path}: written on another source of rows; use the same, or another file")
            difference = f"written with {name} = {before.get(name)!r}, asked to go on with {settings.get(name)!r}"
            raise CheckpointError(f"{path}: {difference}; use the same, or another file")
    for kind, target in (("state", state), ("stream", walk)):
        for name, array in target._asdict().items():
            array[...] = arrays[f"{kind}.{name}"]
    names = [name.removeprefix("history.") for name in arrays if name.startswith("history.")]
    columns = [arrays[f"history.{name}"].tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


@contextmanager
def _interrupts() -> Iterator[Any]:
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


def _whole(name: str, number: Any, least: int) -> int:
    try:
        whole = operator.index(number)
    except TypeError:
        whole = least - 1
    if whole < least:
        raise ModelError(f"{name} is {number!r}; it must be a whole number, at least {least}")
    return whole


def _checked_reward_range(reward_range: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in reward_range)
    except (TypeError, ValueError):
        low, high = np.inf, -np.inf
    if not -np.inf < low <= high < np.inf:
        raise ModelError(f"reward_range is {reward_range!r}; it must be two finite numbers, the smaller one first")
    return low, high


def _checked_record(record: Any, steps: int) -> tuple[int, ...]:
    if not np.iterable(record):
        raise ModelError(f"record is {record!r}; it must list the steps to record")
    wanted = tuple(sorted({_whole("a step to record", step, 1) for step in record}))
    if wanted and not (wanted[0] >= 1 and wanted[-1] <= steps):
        raise ModelError(f"record has the steps {wanted[0]} to {wanted[-1]}; they must lie in 1 to {steps}")
    return wanted


def _checked_zeta(algorithm: Any, task: Task) -> float:
    zeta = getattr(algorithm, "zeta", None)
    # An algorithm that is told M knows better than the rows, which it does not read.
    least = algorithm.least_frequency(task.mdp) if hasattr(algorithm, "least_frequency") else task.zeta
    if zeta is None:
        return 0.5 * least  # too small does no harm, too large does
    if zeta > least * (1.0 + 1e-9):
        warnings.warn(
            f"zeta is {zeta:g}, but some pair is seen with probability {least:.4g} in the long run: "
            "mu* may lie outside of its set, and the iterates may not converge",
            stacklevel=4,
        )
    return zeta
