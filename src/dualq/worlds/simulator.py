"""Simulator: a model, the policy that behaves in it, where it starts, and how rewards are drawn.

    paper                              here
    theta_s(a)                         behaviour.matrix[s, a]
    v_0                                start
    P_theta(s, s')                     chain()
    v_k = (P_theta')^k v_0             state_distribution(k)
    tau_k(s, a) = v_k(s) theta_s(a)    distribution(k), the diagonal of the paper's M_k
    v_infinity(s) theta_s(a)           stationary(), the diagonal of M_infinity

The model holds expected rewards; the simulator holds the rewards as drawn. Each transition (s, a) -> s' pays a reward
uniform on [reward_low, reward_high], two arrays that lie beside the model's `indices` and `probabilities`, one number
per nonzero. Where they are left out, (s, a) always pays its expected reward and nothing is stored. A row may list a
successor twice, with different rewards: the reward is then random given s'.

Episodes. An absorbing state that pays nothing is the end of an episode, and what follows is of no use to anybody. A
walk that enters one says so (`ended`) and begins anew, s ~ start. So P_theta above, v_k, tau_k are those of the chain
that begins anew: what leads to an end leads to the start. The model keeps its absorbing states: value is counted up to
the end. `episodic=False` lets the walk stay where it is.

`reset`, `behave` and `step` draw one number at a time, with NumPy's generator. `Simulated` is the stream of rows that
algorithms read, drawn by the kernels in `walks.py`, and `record` keeps such rows as an ArrayLog.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from dualq.base import WALK_STREAM, ModelError, Rows, checked_weights, checked_whole, door, generator_state
from dualq.logs import ArrayLog
from dualq.model import MDP, TablePolicy, solve_chain
from dualq.worlds.walks import (
    NO_DRIFT,
    POWER,
    WAVE,
    Tables,
    WalkState,
    behaviour_weight,
    cumulated_rows,
    draw_iid,
    walk,
)

Array = np.ndarray

TOLERANCE = 1e-8  # of sums to one, and of the drawn rewards' mean against the model's, relative to the rewards' size
POWER_STEPS = 1000  # of a chain, before its stationary distribution is left to a linear solver


@dataclass(frozen=True, eq=False)
class Drift:
    """A behaviour that changes with time: theta_k = w_k theta + (1 - w_k) to.

    settling(to, rate)   w_k = (k + 1)^-rate: it settles at `to`, and theta_{k+1} - theta_k falls as k^-(rate + 1)
    wandering(to, rate)  w_k = (1 + cos(rate log(k + 1))) / 2: ever slower, by 1/k a step, but it never settles
    """

    to: TablePolicy
    kind: int
    rate: float

    def __post_init__(self):
        if not self.rate > 0.0:
            raise ModelError(f"the drift has the rate {self.rate:g}; it must be positive")

    def weight(self, k: int) -> float:
        """w_k, the part of the first policy at step k."""
        return float(behaviour_weight(self.kind, self.rate, k))


@door
def settling(to: TablePolicy, rate: float) -> Drift:
    """A drift that ends at the policy `to`."""
    return Drift(to, POWER, float(rate))


@door
def wandering(to: TablePolicy, rate: float = 1.0) -> Drift:
    """A drift back and forth between two policies that slows down and never ends."""
    return Drift(to, WAVE, float(rate))


@door
@dataclass(frozen=True, eq=False)
class Simulator:
    """Draws states, actions and rewards from a known model; checked once, read-only after.

    Parameters
    ----------
    mdp
        the model, with expected rewards
    behaviour
        the policy that acts in it
    start
        (S,) distribution of the first state
    source
        one line: where the problem comes from
    reward_low, reward_high
        (nonzeros,) or None: range of the reward of each transition, in the order of mdp.indices
    drift
        how the behaviour changes with time, or None
    episodic
        whether a walk begins anew where the model has an end (see above)

    Examples
    --------
    >>> import dualq
    >>> two = dualq.problems.two_state()
    >>> two.behaviour.probabilities(0)
    {0: 0.2, 1: 0.8}
    >>> log = two.record(steps=1000, seed=0)
    >>> len(log), log.counts().total
    (1000, 1000)
    """

    mdp: MDP
    behaviour: TablePolicy
    start: Array = field(repr=False)
    source: str
    reward_low: Array | None = field(default=None, repr=False)
    reward_high: Array | None = field(default=None, repr=False)
    drift: Drift | None = None
    episodic: bool = True

    def __post_init__(self):
        self.behaviour.check_fits(self.mdp)
        if self.drift is not None:
            self.drift.to.check_fits(self.mdp)
        object.__setattr__(self, "start", _checked_start(self.start, self.mdp))
        if (self.reward_low is None) != (self.reward_high is None):
            raise ModelError("reward_low and reward_high must be given together, or both left out")
        if self.reward_low is not None and self.reward_high is not None:
            low, high = (np.array(end, dtype=float) for end in (self.reward_low, self.reward_high))
            _check_rewards(low, high, self.mdp)
            for name, end in (("reward_low", low), ("reward_high", high)):
                end.flags.writeable = False
                object.__setattr__(self, name, end)

    # ---- one step at a time

    def reset(self, rng: np.random.Generator) -> int:
        """A first state, s ~ start."""
        return _draw(self._start_cumulated, rng)

    def behave(self, s: int, rng: np.random.Generator, k: int = 0) -> int:
        """The action that the behaviour takes in state s at step k, a ~ theta_s."""
        return _draw(np.cumsum(self.behaviour_at(k)[s]), rng)

    def behaviour_at(self, k: int) -> Array:
        """theta_k (S, A): the behaviour at step k, which changes only where there is a drift."""
        if self.drift is None:
            return self.behaviour.matrix
        w = self.drift.weight(k)
        return w * self.behaviour.matrix + (1.0 - w) * self.drift.to.matrix

    def step(self, s: int, a: int, rng: np.random.Generator) -> tuple[float, int]:
        """(r, s') with s' ~ P(. | s, a) and r uniform in its range; a second number is drawn only where r is random."""
        begin, end = self._row(s, a)
        j = begin + _draw(np.cumsum(self.mdp.probabilities[begin:end]), rng)
        if self.reward_low is None or self.reward_high is None:
            reward = self.mdp.rewards[s, a]
        else:
            reward, width = self.reward_low[j], self.reward_high[j] - self.reward_low[j]
            if width > 0.0:
                reward += width * rng.random()
        return float(reward), int(self.mdp.indices[j])

    def _row(self, s: int, a: int) -> tuple[int, int]:
        mdp = self.mdp
        if not (0 <= s < mdp.num_states and 0 <= a < mdp.num_actions):
            known = f"states are 0 to {mdp.num_states - 1}, actions 0 to {mdp.num_actions - 1}"
            raise ModelError(f"no state {s} with action {a}; {known}")
        row = s * mdp.num_actions + a
        begin, end = int(mdp.indptr[row]), int(mdp.indptr[row + 1])
        if begin == end:
            raise ModelError(f"{mdp.actions.describe(a)} does not exist in {mdp.states.describe(s)}")
        return begin, end

    @cached_property
    def _start_cumulated(self) -> Array:
        return np.cumsum(self.start)

    def record(self, steps: int, seed: int = 0, costs: Mapping[str, ArrayLike] | None = None) -> ArrayLog:
        """A log of one walk, held in arrays: the same rows that a training run with the same seed sees.

        Parameters
        ----------
        costs
            {name: (S, A) or (S, A, S)}: what each row costs, by its pair or by its transition; recorded beside it
        """
        steps, seed = checked_whole("steps", steps, 1), checked_whole("seed", seed, 0)
        stream, rows = Simulated(self), Rows.empty(steps)
        stream.fill(stream.init(seed), rows)
        mdp = self.mdp
        episode = np.cumsum(rows.ended) - rows.ended if self.ends.any() else None
        paid = {name: _checked_cost(name, cost, mdp) for name, cost in (costs or {}).items()}
        return ArrayLog(
            *rows[:4],
            mdp.states,
            mdp.actions,
            rows.ended,
            reward_range=mdp.reward_range,
            source=f"simulated: {self.source}",
            episode=episode,
            costs={name: cost[rows.s, rows.a, rows.s_next if cost.shape[2] > 1 else 0] for name, cost in paid.items()},
            cost_ranges={name: (cost[mdp.available].min(), cost[mdp.available].max()) for name, cost in paid.items()},
        )

    # ---- where the behaviour goes

    @cached_property
    def ends(self) -> Array:
        """(S,) whether an episode ends in a state: it is absorbing, pays nothing, and the simulator has episodes."""
        mdp = self.mdp
        paid = (mdp.rewards != 0.0).any(axis=1)
        if self.reward_low is not None and self.reward_high is not None:
            state_of = np.repeat(np.arange(mdp.num_states), np.diff(mdp.indptr[:: mdp.num_actions]))
            paid[state_of[(self.reward_low != 0.0) | (self.reward_high != 0.0)]] = True
        return mdp.absorbing & ~paid & self.episodic

    def chain(self, k: int = 0) -> sp.csr_array:
        """P_theta_k (S, S): where the walk goes from each state; what leads to an end leads to the start."""
        P, _ = TablePolicy(self.behaviour_at(k)).chain(self.mdp)
        if not self.ends.any():
            return P
        goes_on = sp.diags_array(np.where(self.ends, 0.0, 1.0))
        anew = sp.csr_array((P @ self.ends.astype(float))[:, None]) @ sp.csr_array(self.start[None])
        return sp.csr_array(P @ goes_on + anew)

    def moved(self, tau: Array) -> Array:
        """v_{k+1} (S,) from tau_k (S, A)."""
        v = self.mdp.transitions.T @ tau.ravel()
        if self.ends.any():
            ended = v[self.ends].sum()
            v[self.ends] = 0.0
            v += ended * self.start
        return v

    def state_distribution(self, k: int) -> Array:
        """v_k = (P_theta')^k v_0 (S,): the distribution of the state after k steps."""
        k = operator.index(k)
        if k < 0:
            raise ModelError(f"k is {k}; the number of steps must not be negative")
        v = self.start
        for step in range(k):
            v = (self._flow if self.drift is None else self._flow_at(step)) @ v
        return v.copy() if k == 0 else v

    def distribution(self, k: int) -> Array:
        """tau_k (S, A): the distribution of (s, a) after k steps, v_k(s) theta_s(a)."""
        return self.state_distribution(k)[:, None] * self.behaviour_at(k)

    def stationary(self) -> Array:
        """M_infinity as an array (S, A): v(s) theta_s(a) with v = P_theta' v, sum v = 1.

        v is unique when the chain ends up in the same class of states from everywhere; a ModelError if it does not.
        Where the behaviour drifts, this is the distribution at the end of the drift.
        """
        if self.drift is not None:
            if self.drift.kind != POWER:
                raise ModelError("the behaviour never settles, so there is no stationary distribution")
            return dataclasses.replace(self, behaviour=self.drift.to, drift=None).stationary()
        P = sp.csr_array(self._flow.T)
        states = _only_recurrent_class(P, self.mdp)
        v = np.zeros(self.mdp.num_states)
        v[states] = _stationary(sp.csr_array(P[states][:, states]))
        return v[:, None] * self.behaviour.matrix

    @cached_property
    def tables(self) -> Tables:
        """The simulator as its kernels read it (walks.py)."""
        mdp, drift = self.mdp, self.drift
        indptr, indices, probabilities = mdp.rows
        policies = [self.behaviour.matrix, *([] if drift is None else [drift.to.matrix])]
        behaviours = cumulated_rows(np.arange(len(policies) * mdp.num_states + 1) * mdp.num_actions, np.ravel(policies))
        nothing = np.empty(0)
        return Tables(
            indptr,
            indices,
            cumulated_rows(indptr, probabilities),
            behaviours.reshape(len(policies), *mdp.rewards.shape),
            np.cumsum(self.start),
            mdp.rewards,
            nothing if self.reward_low is None else self.reward_low,
            nothing if self.reward_high is None else self.reward_high,
            NO_DRIFT if drift is None else drift.kind,
            0.0 if drift is None else drift.rate,
            policies[0],
            policies[-1],
            self.start,
            self.ends if self.ends.any() else np.empty(0, bool),
        )

    @cached_property
    def _flow(self) -> sp.csr_array:
        """P_theta transposed: v_{k+1} = _flow v_k."""
        return self._flow_at(0)

    def _flow_at(self, k: int) -> sp.csr_array:
        return sp.csr_array(self.chain(k).T)


def _checked_cost(name: str, cost: ArrayLike, mdp: MDP) -> Array:
    """A cost as (S, A, S), or (S, A, 1) where it does not depend on the next state."""
    array = np.asarray(cost, dtype=float)
    pairs = mdp.rewards.shape
    if array.shape not in (pairs, (*pairs, mdp.num_states)):
        right = f"{pairs}, one per pair, or {(*pairs, mdp.num_states)}, one per transition"
        raise ModelError(f"the cost {name!r} has shape {array.shape}; it must be {right}")
    if not np.isfinite(array[mdp.available]).all():
        raise ModelError(f"the cost {name!r} is not finite everywhere; it must be")
    return array.reshape(*pairs, -1)


def _draw(cumulated: Array, rng: np.random.Generator) -> int:
    """The first place where the cumulated probabilities exceed a uniform number; one number is drawn."""
    # Rounding can leave the total just under one; the last place of positive probability takes the difference.
    u = min(rng.random(), np.nextafter(cumulated[-1], 0.0))
    return int(np.searchsorted(cumulated, u, side="right"))


def _only_recurrent_class(P: sp.csr_array, mdp: MDP) -> Array:
    """The states of the one closed class of a chain."""
    count, class_of = connected_components(P, connection="strong")
    leaves = np.zeros(count, bool)
    from_, to = class_of[np.repeat(np.arange(class_of.size), np.diff(P.indptr))], class_of[P.indices]
    leaves[from_[from_ != to]] = True
    closed = np.flatnonzero(~leaves)
    if closed.size > 1:
        one, other = (mdp.states.describe(int(np.argmax(class_of == c))) for c in closed[:2])
        raise ModelError(
            f"the behaviour's stationary distribution is not unique: {closed.size} sets of states are never left, "
            f"among them those of {one} and of {other}; use distribution(k) instead"
        )
    return np.flatnonzero(class_of == closed[0])


def _stationary(P: sp.csr_array) -> Array:
    """v = P'v, sum v = 1, of an irreducible chain: by its powers if it mixes fast, else by a sparse linear system."""
    n = P.indptr.size - 1
    flow = sp.csr_array(P.T)
    v = np.full(n, 1.0 / n)
    for _ in range(POWER_STEPS):
        moved = flow @ v
        if np.abs(moved - v).sum() <= 1e-15:
            return moved / moved.sum()
        v = (v + moved) / 2.0  # half a step: a chain that goes in circles settles too
    # Between two visits to a state i the chain spends x(j) = 1{j = i} + sum_s x(s) P(s, j) 1{j != i} steps in each j,
    # and v = x / sum x. With x measured in visits to i, a state i that is hardly ever visited would make x overflow:
    # take the largest of a discounted occupancy, which is always well scaled.
    i = int(np.argmax(solve_chain(P, 1.0 - 1e-6, v, transpose=True)))
    once = np.zeros(n)
    once[i] = 1.0
    P.data[P.indices == i] = 0.0
    x = np.maximum(solve_chain(P, 1.0, once, transpose=True), 0.0)
    return x / x.sum()


# ---- its rows, a chunk at a time


class Simulated:
    """The rows of a simulator, as a walk or independent of each other."""

    def __init__(self, simulator: Simulator, iid: bool = False):
        self.simulator, self.iid, self._tables = simulator, iid, simulator.tables

    def init(self, seed: int) -> WalkState:
        """Before the first row."""
        v = self.simulator.start.copy() if self.iid else np.empty(0)
        none = np.full(1, -1, np.int64)
        return WalkState(np.zeros(1, np.int64), none, v, np.zeros(1, bool), generator_state(seed, WALK_STREAM))

    def fill(self, state: WalkState, rows: Rows) -> int:
        """Draw one row per place of the chunk."""
        if self.iid:
            draw_iid(self._tables, self.simulator.mdp.probabilities, state, rows)
        else:
            walk(self._tables, state, rows)
        return rows.s.size


# ---- checks at the border


def _checked_start(given: Array, mdp: MDP) -> Array:
    start = checked_weights("start", given, mdp.states)
    total = start.sum()
    if not abs(total - 1.0) <= TOLERANCE:
        raise ModelError(f"start sums to {total:.10g}; it must sum to 1", argument="start", value=float(total))
    start /= total
    start.flags.writeable = False
    return start


def _check_rewards(low: Array, high: Array, mdp: MDP) -> None:
    """The reward ranges fit the model's transitions, its reward range, and its expected rewards."""
    row_of = np.repeat(np.arange(mdp.indptr.size - 1), np.diff(mdp.indptr))

    def place(row: int) -> str:
        return f"({mdp.states.describe(row // mdp.num_actions)}, {mdp.actions.describe(row % mdp.num_actions)})"

    for name, end in (("reward_low", low), ("reward_high", high)):
        if end.shape != mdp.indices.shape:
            right = f"{mdp.indices.shape}, one number per transition in mdp.indices"
            raise ModelError(f"{name} has shape {end.shape}; it must be {right}")
    least, most = mdp.reward_range
    bad = (mdp.probabilities > 0.0) & ~((least <= low) & (low <= high) & (high <= most))  # NaN fails too
    if bad.any():
        j = int(bad.argmax())
        raise ModelError(
            f"rewards of {place(int(row_of[j]))} to {mdp.states.describe(int(mdp.indices[j]))} are drawn from "
            f"[{low[j]:g}, {high[j]:g}]; that must be a range within the model's reward_bound, [{least:g}, {most:g}]"
        )
    middle = np.where(mdp.probabilities > 0.0, low + high, 0.0) / 2.0
    drawn = np.bincount(row_of, mdp.probabilities * middle, mdp.indptr.size - 1)
    wrong = np.abs(drawn - mdp.rewards.ravel()) > TOLERANCE * max(1.0, -least, most)
    if wrong.any():
        row = int(wrong.argmax())
        raise ModelError(
            f"rewards drawn in {place(row)} are {drawn[row]:.10g} on average; "
            f"the model's expected reward there is {mdp.rewards.flat[row]:.10g}"
        )
