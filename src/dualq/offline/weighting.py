"""What a policy earns, by weighing the log's own returns: where it was recorded how likely each logged action was.

    rho_t = pi(a_t | s_t) / p_t          p_t the recorded probability (propensity) of the action that was taken
    W     = prod_t rho_t                 of an episode, or of a row where every row is a case of its own
    G     = sum_t alpha^t r_t            what it earned

E[W] = 1 and E[W G] is the policy's value, whatever came before a decision mattered or not: nothing is assumed of the
state. The price is variance: W is a product, so this is for single decisions and short episodes.

    value      sum W G / sum W, the self-normalised mean;  its error sqrt(sum W^2 (G - value)^2) / sum W
    low, high  a betting interval for E[W G] (proof/betting.py), with G between what returns can be: no bound of W is
               needed, and it holds for any number of episodes
    size       (sum W)^2 / sum W^2: as many episodes of equal weight would tell as much. With less than FEWEST the
               weights are hopeless, and no error is given
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dualq.base import LogError
from dualq.logs import Log, TableLog, Trace
from dualq.offline.careful.selection_bias import Estimate
from dualq.proof import Ledger, weighted_bounds

Array = np.ndarray

FEWEST = 30.0  # episodes of equal weight


@dataclass(frozen=True)
class Weighted:
    """The value of a policy by the log's own returns, weighed."""

    value: float  # sum W G / sum W: far steadier than the mean of W G
    plain: float  # the mean of W G itself, of which nothing is divided away: right on average
    error: float
    low: float  # betting interval
    high: float
    confidence: float  # of the interval, by itself
    effective_size: float  # episodes of equal weight that would tell as much
    episodes: int
    longest: int  # steps of an episode
    unit: str  # "row" or "episode"
    range_known: bool  # whether somebody said what rewards can be
    returns_range: tuple[float, float]  # what a return can be

    @property
    def hopeless(self) -> bool:
        """Whether the weights are so uneven that next to nothing is told."""
        return self.effective_size < FEWEST

    @property
    def estimate(self) -> Estimate:
        """With its error, where the weights are not hopeless and not all rows that count were worth the same."""
        return Estimate(self.value, None if self.hopeless or self.error == 0.0 else self.error)


def weighted_value(
    log: Log | None,
    policy: Array,
    discount: float,
    where: str,
    confidence: float,
    reward_range: tuple[float, float],
    range_known: bool = False,
) -> Weighted | str | None:
    """Of a policy (S, A) over the log's states; in words why not, where it cannot be; None without propensities."""
    trace = log.propensity_rows() if isinstance(log, TableLog) else None
    if trace is None or trace.propensity is None:
        return None
    single = discount == 0.0 and where == "log"
    try:
        episode = np.arange(len(trace)) if single else _episodes(trace, where)
    except LogError as why:
        return str(why)
    used = ~trace.bad if single else np.ones(len(trace), bool)
    return _weighed(trace, policy, discount, episode, used, confidence, reward_range, range_known)


def _episodes(trace: Trace, where: str) -> Array:
    """The number of each row's episode, where all of them are whole; why not, where they are not."""
    if where != "episodes":
        raise LogError("value is not measured where episodes begin (start)")
    if not trace.whole:
        raise LogError("the log is too long to be read row by row")
    if trace.bad.any():
        raise LogError("rows were set aside, so some episodes are not whole")
    if not trace.ended[trace.last].all():
        raise LogError("some episodes were cut off before they ended")
    return np.cumsum(trace.first) - 1


def _weighed(
    trace: Trace,
    policy: Array,
    discount: float,
    episode: Array,
    used: Array,
    confidence: float,
    reward_range: tuple[float, float],
    range_known: bool,
) -> Weighted:
    episode = np.unique(episode[used], return_inverse=True)[1]
    s, a, r = trace.s[used], trace.a[used], trace.r[used]
    assert trace.propensity is not None
    rho = policy[s, a] / trace.propensity[used]
    first = np.append(True, np.diff(episode) != 0)
    step = np.arange(episode.size) - np.flatnonzero(first)[episode]
    W = np.multiply.reduceat(rho, np.flatnonzero(first))
    G = np.bincount(episode, discount**step * r)
    longest = int(step.max()) + 1
    low, high = _range(reward_range, discount, longest)
    Y = np.clip((G - low) / (high - low), 0.0, 1.0) if high > low else np.zeros(G.size)
    ends = weighted_bounds(W, Y, Ledger(1.0 - confidence)) if high > low else (0.0, 0.0)
    total, squares = float(W.sum()), float(W @ W)
    value = float(W @ G / total) if total > 0.0 else 0.5 * (low + high)  # no row tells anything
    error = float(np.sqrt(W**2 @ (G - value) ** 2) / max(total, np.finfo(float).tiny))
    return Weighted(
        value=value,
        plain=float(W @ G / W.size),
        error=error,
        low=low + ends[0] * (high - low),
        high=low + ends[1] * (high - low),
        confidence=confidence,
        effective_size=total**2 / squares if squares > 0.0 else 0.0,
        episodes=int(W.size),
        longest=longest,
        unit="row" if longest == 1 else "episode",
        range_known=range_known,
        returns_range=(low, high),
    )


def _range(reward_range: tuple[float, float], discount: float, longest: int) -> tuple[float, float]:
    """What the return of an episode of 1 to so many steps can be."""
    steps = float(np.sum(discount ** np.arange(longest))) if discount > 0.0 else 1.0
    low, high = reward_range
    return min(low, low * steps), max(high, high * steps)
