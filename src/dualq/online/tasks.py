"""Tasks: what an algorithm is trained on, a stream of rows and what is known of the model behind them.

Simulator     its rows; the model is the truth, so errors can be measured
Log           its rows in their order; the empirical model
environment   its rows as it is played; beforehand the sizes alone, at the end the model of what was seen
MDP           no rows: for an algorithm that reads the model
"""

from __future__ import annotations

import dataclasses
import warnings
from functools import partial
from typing import Any, Generic

import numpy as np
import scipy.sparse as sp

from dualq.base import LogError, ModelError, PlaceT, Rows, Stream, checked_range
from dualq.logs import ArrayLog, Counts, Log, with_end
from dualq.model import MDP, Solution
from dualq.online.algorithm import Algorithm, ProblemT, StateT
from dualq.online.checkpoints import digest, sha256
from dualq.worlds import Behaviour, Counted, Environment, Played, Simulated, Simulator, UniformPairs

Array = np.ndarray

PLAYED_CHUNK = 1 << 10  # rows at a time of an environment, which may be slow, and somebody may be watching

STREAMS = {"trajectory": Simulated, "iid": partial(Simulated, iid=True), "uniform": UniformPairs}


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A stream of rows, the model (or its shell), and what is known of it."""

    stream: Stream[Any] | None  # None for a model alone
    mdp: MDP
    known: bool  # whether the model is the truth, so that errors can be measured
    zeta: float  # estimate of the least probability of a pair
    start: Array  # (S,) where average_reward starts
    identity: str  # a digest of all that the rows depend on
    silent: Array | None = None  # (S,) states in which no row acts: their value is the model's, and not learned
    rewards_in: tuple[float, float] | None = None  # what rewards may be, where it is not the model's range
    chunk: int | None = None  # rows at a time, where it matters

    def model(self) -> tuple[MDP, Array | None]:
        """The model and its silent states, at the end of a run."""
        return self.mdp, self.silent


@dataclasses.dataclass(frozen=True, eq=False)
class _PlayedTask(Task):
    """An environment: sizes are known beforehand, the model of what was seen at the end."""

    def model(self) -> tuple[MDP, Array | None]:
        assert isinstance(self.stream, Counted)
        counts = self.stream.counts
        seen = counts.mdp(self.mdp.discount)
        if seen.num_states < self.mdp.num_states:  # no row ended
            seen = _with_end(seen, self.mdp)
        return seen, _silent(counts, seen.num_states)


def task_of(source: object, sampling: str = "trajectory", discount: float | None = None) -> Task:
    """A task from a Simulator, a Log or an MDP."""
    if isinstance(source, Log):
        return _task_of_log(source, discount)
    if isinstance(source, MDP):
        uniform = np.full(source.num_states, 1.0 / source.num_states)
        return Task(None, source, True, 1.0, uniform, digest(source))
    if not isinstance(source, Simulator):
        what = "a Simulator, a Log, a Gymnasium environment or an MDP"
        raise ModelError(f"cannot train on {type(source).__name__}; give {what}")
    if discount is not None:
        raise ModelError(f"discount is {discount!r}, but the model has its own, {source.mdp.discount:g}; leave it out")
    if sampling not in STREAMS:
        raise ModelError(f"sampling is {sampling!r}; it must be one of {', '.join(STREAMS)}")
    stream = STREAMS[sampling](source)
    mdp, identity = source.mdp, f"{sampling} {digest(source)}"
    uniform = 1.0 / (mdp.num_states * mdp.available.sum(axis=1).max())
    zeta = uniform if sampling == "uniform" else _least_frequency(source)
    # No row of a walk acts where an episode has ended.
    silent = source.ends if source.ends.any() and sampling != "uniform" else None
    return Task(stream, mdp, True, float(zeta), source.start, identity, silent)


def _task_of_log(log: Log, discount: float | None) -> Task:
    """The rows of a log, with its empirical model: the sizes, the range of rewards, and what was seen."""
    discount = _checked_log_discount(discount)
    counts = log.counts()
    if counts.total == 0:
        raise LogError("the log has no rows")
    mdp = counts.mdp(discount)
    seen = counts.visits[counts.visits > 0]
    start = np.full(mdp.num_states, 1.0 / mdp.num_states)
    order = log.rows if isinstance(log, ArrayLog) else ()  # what lies in an engine is known by its counts
    identity = sha256(f"{discount!r} {mdp.reward_range!r} {counts.digest()}", *order)
    silent = _silent(counts, mdp.num_states)
    return Task(_Closed(log.stream(), silent), mdp, False, float(seen.min() / counts.total), start, identity, silent)


class _Closed(Generic[PlaceT]):
    """The rows of a log, where one that leads to a state that no row leaves has ended.

    Such a state pays 0 for ever in the empirical model, as if the row that leads there had ended: so it counts while
    learning too, where nothing would ever be learned of its value.
    """

    def __init__(self, stream: Stream[PlaceT], silent: Array):
        self.stream, self.silent = stream, silent

    def init(self, seed: int) -> PlaceT:
        return self.stream.init(seed)

    def fill(self, state: PlaceT, rows: Rows) -> int:
        count = self.stream.fill(state, rows)
        rows.ended[:count] |= self.silent[rows.s_next[:count]]
        return count


def _checked_log_discount(discount: float | None) -> float:
    if discount is None:
        raise ModelError("a log or an environment does not know its discount; give one, such as discount=0.95")
    return discount


def _silent(counts: Counts, num_states: int) -> Array:
    """(S,) the states in which no row acts, the end among them."""
    silent = np.ones(num_states, bool)
    counts.support.to_log(silent)[:] = ~(counts.visits > 0).any(axis=1)
    return silent


def task_of_environment(
    algorithm: Algorithm[StateT, ProblemT],
    env: Environment,
    behaviour: Behaviour,
    discount: float | None,
    reward_range: tuple[float, float] | None,
) -> Task:
    """The rows of an environment as it is played. Of its model the sizes are known, and the range if somebody said."""
    discount, traits = _checked_log_discount(discount), algorithm.traits()
    if traits.needs_bounds:
        name = type(algorithm).__name__
        if reward_range is None:
            raise ModelError(f"{name} must know what rewards can be before the first; give reward_range=(low, high)")
        if traits.zeta is None:
            raise ModelError(
                f"{name} must know how rare a pair can be before the first row; give zeta, rather too small"
            )
    if reward_range is not None:
        reward_range = checked_range("reward_range", reward_range, argument="reward_range")
    played = Played(env, behaviour)
    stream = Counted(played, played.states, played.actions, reward_range)
    states = with_end(played.states)
    S, A = len(states), len(played.actions)
    low, high = (0.0, 0.0) if reward_range is None else (min(0.0, reward_range[0]), max(0.0, reward_range[1]))
    loops = sp.csr_array((np.ones(S * A), np.repeat(np.arange(S), A), np.arange(S * A + 1)), shape=(S * A, S))
    shell = MDP(loops, np.zeros((S, A)), discount, (low, high), states=states, actions=played.actions)
    start, rewards_in = np.full(S, 1.0 / S), reward_range or (-np.inf, np.inf)
    return _PlayedTask(stream, shell, False, 1.0, start, "", rewards_in=rewards_in, chunk=PLAYED_CHUNK)


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


def fill_silent(solution: Solution, mdp: MDP, silent: Array) -> None:
    """No row says anything of these states; in the empirical model they are never left."""
    Q = np.where(mdp.available[silent], mdp.rewards[silent] / (1.0 - mdp.discount), -np.inf)
    solution.V[silent] = Q.max(axis=1)  # before Q, which may be read off V
    solution.Q[silent] = Q


# ---- checks


def check_rewards(r: Array, task: Task, k: int) -> None:
    """Refuse rewards out of their range, the first of them that of step k."""
    low, high = task.rewards_in or task.mdp.reward_range
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    bad = ~((r >= low - slack) & (r <= high + slack))  # NaN too
    if bad.any():
        i = int(bad.argmax())
        raise LogError(f"the reward at step {k + i} is {r[i]:g}; rewards must lie in [{low:g}, {high:g}]")


def checked_zeta(algorithm: Algorithm[StateT, ProblemT], task: Task) -> float:
    """The zeta that the user gave, with a warning where it looks too large; else half of the least frequency."""
    zeta, known = algorithm.traits().zeta, algorithm.least_frequency(task.mdp)
    # An algorithm that is told M knows better than the rows, which it does not read.
    least = task.zeta if known is None else known
    if zeta is None:
        return 0.5 * least  # too small does no harm, too large does
    if zeta > least * (1.0 + 1e-9):
        warnings.warn(
            f"zeta is {zeta:g}, but some pair is seen with probability {least:.4g} in the long run: "
            "mu* may lie outside of its set, and the iterates may not converge",
            stacklevel=3,
        )
    return zeta
