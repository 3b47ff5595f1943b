"""IterateFit: what agents know that shared iterates: Q of the pooled log, and no table to prove anything from."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dualq.base import LogError
from dualq.logs import Start
from dualq.model import TablePolicy
from dualq.offline.together.tracking import TrackingAgent

Array = np.ndarray

REASON = (
    "The policy is greedy in the Q of all rows together, taken at face value: agents that share iterates have no "
    "table, so nothing is said of errors, and nothing is proven."
)


@dataclass(frozen=True, eq=False)
class IterateFit:
    """The answer of Bellman tracking; the same for every agent.

    Attributes
    ----------
    Q : array, (S, A)
        Of the pooled log's empirical model; -inf where no agent has seen the pair.
    V : array, (S,)
        max_a Q.
    policy : TablePolicy
        Greedy in Q; undecided where no agent has acted.
    expected : float
        Its value in that model at the start.
    start : array, (S,)
        Where value is measured.
    error_bound : float
        How far Q can be from the exact one, by what the agents have seen of each other.
    """

    Q: Array = field(repr=False)
    V: Array = field(repr=False)
    policy: TablePolicy = field(repr=False)
    expected: float
    start: Array = field(repr=False)
    discount: float
    error_bound: float
    residual: float
    reason: str = REASON
    certificate: None = None


def iterate_fit(agent: TrackingAgent, start: Start = None) -> IterateFit:
    """What a tracking agent has found, in the log's own states."""
    found, visits, common = agent.found(), agent.visits, agent.common
    assert visits is not None
    S, A = len(common.states), len(common.actions)
    Q = found.Q[:S]  # without "(end)"
    undecided = ~visits.d.reshape(S, A).any(axis=1)
    best = np.eye(A)[Q.argmax(axis=1)]
    best[undecided] = 1.0 / A
    policy, V = TablePolicy(best, common.states, common.actions, undecided), Q.max(axis=1)
    weights = _start(start, visits.starts, visits.d.reshape(S, A).sum(axis=1), common.episodes)
    return IterateFit(
        Q,
        V,
        policy,
        float(weights @ V),
        weights,
        agent.task.discount,
        found.bound,
        found.residual,
    )


def _start(start: Start, first: Array, left: Array, episodes: bool) -> Array:
    """(S,) where value is measured: first states of episodes where the logs know them, else the states of all rows."""
    word = ("episodes" if episodes else "log") if start is None else start
    known = {"log": left, "uniform": (left > 0).astype(int)} | ({"episodes": first} if episodes else {})
    if not isinstance(word, str) or word not in known:
        raise LogError(f"start is {start!r}; agents that share iterates know {', '.join(known)}", argument="start")
    return known[word] / known[word].sum()
