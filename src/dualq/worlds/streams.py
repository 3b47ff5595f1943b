"""Transitions as they come, a chunk of rows at a time: every place where they may come from, by name.

    Simulated      a simulator's walk, or rows drawn independently of each other from tau_k (simulator.py, walks.py)
    UniformPairs   pairs (s, a) drawn uniformly from a simulator
    Recorded       arrays of transitions, in their order (base/transitions.py)
    Played         a Gymnasium environment with discrete spaces and a behaviour; its clock is wall time
    Counted        any of them, its rows counted as they pass: at the end it is known what was seen, and no row is kept

`base/transitions.py` says what a stream is, and what it means that a row has ended.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, SupportsFloat, SupportsIndex, TypeAlias, runtime_checkable

import numpy as np

from dualq.base import (
    WALK_STREAM,
    CheckpointError,
    Labels,
    LogError,
    ModelError,
    PlaceT,
    Recorded,
    RecordedState,
    Rows,
    Stream,
    advance,
    below,
    bits,
    door,
    generator_state,
    kernel,
    uniform,
)
from dualq.logs import ArrayLog, Counts
from dualq.model import Policy, TablePolicy
from dualq.worlds.simulator import Simulated, Simulator
from dualq.worlds.walks import WalkState, behaviour_weight, find, follow

__all__ = [
    "WALK_STREAM",
    "Counted",
    "Played",
    "PlayedState",
    "Recorded",
    "RecordedState",
    "Rows",
    "Simulated",
    "Stream",
    "UniformPairs",
    "UniformState",
    "WalkState",
    "behaviour_weight",
    "play",
]

Array = np.ndarray


class UniformState(NamedTuple):
    """Where a stream of uniform pairs stands."""

    k: Array  # (1,) rows drawn
    rng: Array  # (1,)


class UniformPairs:
    """(s, a) drawn afresh for every row: s uniform over the states, a uniform over its actions, s' ~ P(. | s, a).

    It takes a simulator that can be put into any state, and is no walk: the behaviour and the start play no part.
    """

    def __init__(self, simulator: Simulator):
        self.simulator = simulator
        self._tables = simulator.tables

    def init(self, seed: int) -> UniformState:
        """Before the first row."""
        return UniformState(np.zeros(1, np.int64), generator_state(seed, WALK_STREAM))

    def fill(self, state: UniformState, rows: Rows) -> int:
        """Draw one row per place of the chunk."""
        _draw_uniform(self._tables, self.simulator.mdp.available, state, rows)
        return rows.s.size


@kernel
def _draw_uniform(tables, available, state, rows):
    """(s, a) uniform, independent of every other row."""
    x = state.rng[0]
    num_states, num_actions = available.shape
    for i in range(rows.s.size):
        x = advance(x)
        s = below(x, num_states)
        x = advance(x)
        nth = below(x, available[s].sum())  # of the actions that exist
        a = 0
        for b in range(num_actions):
            if available[s, b]:
                a = b
                if nth == 0:
                    break
                nth -= 1
        r, s_next, x = follow(tables, s, a, x)
        rows.s[i], rows.a[i], rows.r[i], rows.s_next[i], rows.ended[i] = s, a, r, s_next, False
    state.k[0] += rows.s.size
    state.rng[0] = x


@runtime_checkable
class Discrete(Protocol):
    """The whole numbers `start` to `start + n - 1`, as Gymnasium's Discrete space has them."""

    @property
    def n(self) -> int | np.integer:
        """How many."""
        ...

    @property
    def start(self) -> int | np.integer:
        """The first."""
        ...

    @property
    def shape(self) -> tuple[int, ...] | None:
        """() for a single number."""
        ...


@runtime_checkable
class Environment(Protocol):
    """What is asked of a Gymnasium environment."""

    @property
    def observation_space(self) -> object:
        """What can be seen."""
        ...

    @property
    def action_space(self) -> object:
        """What can be done."""
        ...

    def reset(self, *, seed: int | None = None) -> tuple[object, object]:
        """(observation, info) at the begin of an episode."""
        ...

    def step(self, action: int, /) -> tuple[object, SupportsFloat, bool, bool, object]:
        """(observation, reward, terminated, truncated, info)."""
        ...


Behaviour: TypeAlias = "Callable[[int], int] | Policy | str"


class PlayedState(NamedTuple):
    """Where a game stands; the environment itself cannot be put on paper."""

    k: Array  # (1,) rows played
    s: Array  # (1,) the state it is in, -1 where it must be reset first
    rng: Array  # (1,) of the behaviour


class Played:
    """The rows of a Gymnasium environment with discrete observations and actions.

    env         anything with reset, step, observation_space and action_space as Gymnasium has them
    behaviour   a function from an observation to an action, a Policy, or "uniform"

    A terminated episode ended; a truncated one was cut off, and its last state has a value like any other. Both are
    followed by a reset. The environment is seeded once, by `init`, and the behaviour draws from a generator of its own
    (a function may have one itself). An environment cannot be put back: only the state that stands where it stands can
    go on. States and actions have the environment's own numbers as labels.
    """

    def __init__(self, env: Environment, behaviour: Behaviour = "uniform"):
        self.env = env
        self.states = _discrete(env.observation_space, "observation", "state")
        self.actions = _discrete(env.action_space, "action", "action")
        self._first_state, self._first_action = _first(self.states), _first(self.actions)
        shape = len(self.states), len(self.actions)
        self._function, self._policy, self._theta = None, None, np.empty((0, 0))
        if isinstance(behaviour, TablePolicy):
            if behaviour.matrix.shape != shape:
                here = f"{behaviour.matrix.shape} states and actions, the environment has {shape}"
                raise ModelError(f"the behaviour is for {here}")
            self._theta = np.cumsum(behaviour.matrix, axis=1)
        elif isinstance(behaviour, str) and behaviour == "uniform":
            self._theta = np.tile(np.arange(1.0, shape[1] + 1.0), (shape[0], 1))
        elif isinstance(behaviour, Policy):
            self._policy = behaviour
        elif callable(behaviour):
            self._function = behaviour
        else:
            right = 'a function from an observation to an action, a Policy, or "uniform"'
            raise ModelError(f"the behaviour is {behaviour!r}; it must be {right}")
        self._played = -1  # rows, -1 before the first reset

    def init(self, seed: int) -> PlayedState:
        """Reset the environment with this seed."""
        first, _ = self.env.reset(seed=int(seed))
        self._played = 0
        s = np.full(1, self._place(self.states, first, "observation", 0), np.int64)
        return PlayedState(np.zeros(1, np.int64), s, generator_state(seed, WALK_STREAM))

    def fill(self, state: PlayedState, rows: Rows) -> int:
        """Play one row per place of the chunk."""
        if state.k[0] != self._played:
            here = f"the run stands at step {state.k[0]} and the environment at {max(self._played, 0)}"
            raise CheckpointError(f"{here}; an environment cannot be put back, so begin again")
        for i in range(rows.s.size):
            k, s = int(state.k[0]), int(state.s[0])
            if s < 0:
                s = self._place(self.states, self.env.reset()[0], "observation", k)
            a = self._act(s, k, state.rng)
            observation, reward, terminated, truncated, _ = self.env.step(self._first_action + a)
            self._played += 1
            r = float(reward)
            if not np.isfinite(r):
                raise LogError(f"step {k}: reward is {r:g}; rewards must be finite numbers")
            s_next = self._place(self.states, observation, "observation", k)
            rows.s[i], rows.a[i], rows.r[i], rows.s_next[i], rows.ended[i] = s, a, r, s_next, terminated
            state.k[0], state.s[0] = k + 1, -1 if terminated or truncated else s_next
        return rows.s.size

    def _act(self, s: int, k: int, rng: Array) -> int:
        if self._function is not None:
            return self._place(self.actions, self._function(self._first_state + s), "action", k)
        if self._policy is not None:
            rng[0] = advance(rng[0])
            return self._place(self.actions, self._policy.act(self.states[s], seed=int(bits(rng[0]))), "action", k)
        return int(_choose(self._theta, s, rng))

    @staticmethod
    def _place(labels: Labels, number: object, name: str, k: int) -> int:
        first = _first(labels)
        place = operator.index(number) - first if isinstance(number, SupportsIndex) else -1
        if not 0 <= place < len(labels):
            known = f"a whole number from {first} to {first + len(labels) - 1}"
            raise LogError(f"step {k}: {name} is {number!r}; it must be {known}")
        return place


@door
def play(env: Environment, steps: int, behaviour: Behaviour = "uniform", seed: int = 0) -> ArrayLog:
    """A Log of a Gymnasium environment with discrete spaces, played for some steps; its episodes are numbered."""
    stream, rows, episode = Played(env, behaviour), Rows.empty(int(steps)), np.zeros(int(steps), np.int64)
    state = stream.init(seed)
    for i in range(int(steps)):
        episode[i] = episode[i - 1] + (state.s[0] < 0) if i else 0
        stream.fill(state, Rows(*(column[i : i + 1] for column in rows)))
    return ArrayLog.from_rows(rows, stream.states, stream.actions, source=f"{env}, played", episode=episode)


def _discrete(space: object, kind: str, name: str) -> Labels:
    """The numbers of a discrete space."""
    if not isinstance(space, Discrete) or space.shape != ():
        raise ModelError(f"the {kind} space is {space}; it must be discrete: the whole numbers 0 to n - 1")
    n, first = int(space.n), int(space.start)
    return Labels(n if first == 0 else range(first, first + n), name)


def _first(labels: Labels) -> int:
    """The first of the whole numbers that are the labels of a space."""
    first = labels[0]
    assert isinstance(first, int)
    return first


@kernel
def _choose(theta, s, rng):
    """a ~ theta(. | s), by the cumulated theta."""
    rng[0] = advance(rng[0])
    return find(theta[s], 0, theta.shape[1], uniform(rng[0]) * theta[s, -1])


class Counted(Generic[PlaceT]):
    """The rows of another stream, counted as they pass; a game that is played again is counted anew."""

    BUFFER = 1 << 16  # rows that are kept before they are counted

    def __init__(
        self, stream: Stream[PlaceT], states: Labels, actions: Labels, reward_range: tuple[float, float] | None = None
    ):
        self.stream, self.states, self.actions, self.reward_range = stream, states, actions, reward_range
        self._forget()

    def _forget(self) -> None:
        self._counts: Counts | None = None
        self._kept: list[Rows] = []

    def init(self, seed: int) -> PlaceT:
        """As the stream has it."""
        self._forget()
        return self.stream.init(seed)

    def fill(self, state: PlaceT, rows: Rows) -> int:
        """Fill the chunk, and count it."""
        count = self.stream.fill(state, rows)
        self._kept.append(Rows(*(column[:count].copy() for column in rows)))
        if sum(part.s.size for part in self._kept) >= self.BUFFER:
            self._count()
        return count

    @property
    def counts(self) -> Counts:
        """What has passed."""
        self._count()
        assert self._counts is not None
        return self._counts

    def _count(self) -> None:
        rows = Rows(*map(np.concatenate, zip(Rows.empty(0), *self._kept, strict=True)))
        drawn = (float(rows.r.min()), float(rows.r.max())) if rows.r.size else (0.0, 0.0)
        known = self.reward_range is not None
        found = Counts.from_rows(rows, self.states, self.actions, self.reward_range or drawn, known)
        self._counts = found if self._counts is None else self._counts.merge(found)
        self._kept = []
