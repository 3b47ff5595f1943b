"""What the log itself earned: its own returns, never those of a model of who acted.

Value     v = phi'theta of whoever acted, by the rows alone: the evaluation of evaluation.py where there is one action
Episodes  G_e = sum_t alpha^t r_t + alpha^T v(s_T), the last part only where the recording stopped before the end, or a
          row does not lead to the one after it. With delta = r + alpha live v(s') - v(s) this is
              mean G = mean v(s_0) + sum alpha^t delta / N,
          the estimate of evaluation.py with mu_i = n alpha^t_i / N: differences from other rules can be paired.
Otherwise one long recording, or other start states: mu as evaluation.py finds it, from the rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dualq.base import Labels, States
from dualq.logs import NumberRows
from dualq.offline.approximate.evaluation import Evaluation, Evaluator, effective_size, error_of
from dualq.offline.approximate.features import Features

Array = np.ndarray

FEATURES = 60  # of v: what the log earned needs it only where a recording stopped


@dataclass(frozen=True, eq=False)
class Logged:
    """What the log earned, and how much of that is its own returns."""

    evaluation: Evaluation
    filled: float  # the weight of what v had to fill in; 1 where there are no returns

    @property
    def value(self) -> float:
        """From the start states."""
        return self.evaluation.value

    @property
    def standard_error(self) -> float:
        """Of the value."""
        return self.evaluation.error


def logged(rows: NumberRows, discount: float, start: States, seed: int = 0) -> Logged:
    """The discounted return of the log's episodes; of whoever acted, where there are none or values start elsewhere."""
    alike = replace(rows, a=np.zeros(len(rows), np.int64), actions=Labels([0]))
    phi = Features.of(rows, min(FEATURES, max(2, len(rows) // 33)), seed)
    found = Evaluator.of(alike, discount, start, seed, phi).weighed(_one).earning(rows.r)
    if not (rows.has_episodes and rows.first[0] and _same(start, rows.starts)):
        return Logged(replace(found, rows=rows), 1.0)
    episode, weight, last = _weights(rows, discount)
    mu = weight * len(rows) / (episode[-1] + 1)
    z = np.bincount(rows.clusters, mu * found.delta) / len(rows)
    filled = float((discount * weight * last * rows.live).sum() / (episode[-1] + 1))
    value, error = float(found.start_values.mean() + z.sum()), error_of(z, found.start_values)
    size = effective_size(mu)
    return Logged(
        replace(found, value=value, error=error, effective_size=size, z=z, mu=mu, each=mu * found.delta, rows=rows),
        filled,
    )


def _one(states: States) -> Array:
    return np.ones((len(states), 1))


def _same(some: States, others: States) -> bool:
    return np.array_equal(some.numbers, others.numbers) and np.array_equal(some.categories, others.categories)


def _weights(rows: NumberRows, discount: float) -> tuple[Array, Array, Array]:
    """The episode of each row; alpha^t, 0 behind a row that did not lead to the next; whether it is the last."""
    episode, begins = np.cumsum(rows.first) - 1, np.flatnonzero(rows.first)
    columns = ((rows.state.numbers, rows.next_state.numbers), (rows.state.categories, rows.next_state.categories))
    follows = np.logical_and(*((now[1:] == then[:-1]).all(axis=1) for now, then in columns))
    broken = np.append(False, ~(follows & ~rows.ended[:-1])) & ~rows.first
    heard = np.cumsum(broken) == np.cumsum(broken)[begins][episode]
    last = heard & np.append(~heard[1:] | rows.first[1:], True)
    return episode, np.where(heard, discount ** (np.arange(len(rows)) - begins[episode]), 0.0), last
