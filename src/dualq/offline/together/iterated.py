"""IterateFit: what agents know that shared iterates: Q of the pooled log, and no table to prove anything from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np

from dualq.base import Json, Label, LabelLike, LogError, door, written_together
from dualq.logs import Start
from dualq.model import Kind, Seed, TablePolicy, dataclass_kind, write_policy, write_saved
from dualq.offline.saved.opening import ARRAYS, NUMBERS, POLICY, Decider, write_numbers
from dualq.offline.together.tracking import TrackingAgent

Array = np.ndarray

SHARE_COUNTS = 'learn together with share="masked counts"'  # what has counts has everything else
ITERATE_FIT = "iterate fit"  # its tag in files

REASON = (
    "The policy is greedy in the Q of all rows together, taken at face value: agents that share iterates have no "
    "table, so nothing is said of errors, and nothing is proven."
)


@door
@dataclass(frozen=True, eq=False)
class IterateFit:
    """The answer of Bellman tracking; the same for every agent. `save` keeps it, and `dualq.load` has it back.

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
    bins: Mapping[str, Sequence[float]] = field(default_factory=dict, repr=False)  # {column: edges}
    reason: str = REASON
    certificate: None = None

    def act(self, state: LabelLike, seed: Seed = None, default: Label = None) -> Label:
        """What to do in a state, in the log's own words; numbers find their bins."""
        return Decider(self.policy, self.bins).act(state, seed, default)

    def explain(self, state: LabelLike) -> NoReturn:
        """There are no rows to explain a state with."""
        raise LogError(f"{_NO_TABLE} to explain a state with; `act` says what to do", argument="state", state=state)

    def frontier(self, cost: str, points: int | None = None) -> NoReturn:
        """There are no costs."""
        raise LogError(f"{_NO_TABLE} of costs; share masked counts to see what a limit costs", argument="limit")

    def summary(self) -> dict[str, Json]:
        """The numbers, as plain values."""
        numbers = {"expected": self.expected, "error_bound": self.error_bound, "residual": self.residual}
        return {"kind": ITERATE_FIT, "discount": self.discount, **numbers, "reason": self.reason}

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write policy.csv, solution.npz and, last, fit.json into a folder; their paths. With fit.json it is whole."""
        bins = {column: list(edges) for column, edges in self.bins.items()}
        with written_together(folder, last=NUMBERS) as part:
            write_saved(part / ARRAYS, [iterate_kind()], policy=self.policy, bins=bins, fit=self)
            write_policy(part / POLICY, self.policy)
            write_numbers(part, self.summary())
        return [str(Path(folder, name)) for name in (POLICY, NUMBERS, ARRAYS)]


def iterate_kind() -> Kind:
    """How it stands in files."""
    return dataclass_kind(ITERATE_FIT, IterateFit)


_NO_TABLE = "agents that share iterates have no table"


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
        {column: list(bins.edges) for column, bins in common.bins.items()},
    )


def _start(start: Start, first: Array, left: Array, episodes: bool) -> Array:
    """(S,) where value is measured: first states of episodes where the logs know them, else the states of all rows."""
    word = ("episodes" if episodes else "log") if start is None else start
    known = {"log": left, "uniform": (left > 0).astype(int)} | ({"episodes": first} if episodes else {})
    if not isinstance(word, str) or word not in known:
        raise LogError(f"start is {start!r}; agents that share iterates know {', '.join(known)}", argument="start")
    return known[word] / known[word].sum()
