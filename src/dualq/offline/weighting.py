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
    unbalanced whether the mean of W is more than FAR of its errors from 1: the propensities are wrong, or rows of large
               W are missing

All of it is of a policy that these rows did not choose: one that was learned from them is not weighed by them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dualq.logs import Log, NumberRows, TableLog
from dualq.model import Rule
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.summary import estimate_summary
from dualq.proof import Ledger, weighted_bounds

Array = np.ndarray

FEWEST = 30.0  # episodes of equal weight
FAR = 4.0  # errors of the mean weight
LEARNED_HERE = "this policy was learned from these rows, which flatter it; a later log would tell"


@dataclass(frozen=True)
class Weighted:
    """The value of a policy by the log's own returns, weighed."""

    value: float  # sum W G / sum W: far steadier than the mean of W G
    plain: float  # the mean of W G itself, of which nothing is divided away: right on average
    error: float
    low: float  # betting interval
    high: float
    confidence: float  # of the interval, by itself
    mean_weight: float  # 1 but for luck, if propensities are right
    mean_weight_error: float
    effective_size: float  # episodes of equal weight that would tell as much
    episodes: int
    longest: int  # steps of an episode
    unit: str  # "row" or "episode"
    range_known: bool  # whether somebody said what rewards can be
    reward_range: tuple[float, float]  # what they can be, or else what they were
    returns_range: tuple[float, float]  # what a return can be

    @property
    def hopeless(self) -> bool:
        """Whether the weights are so uneven that next to nothing is told."""
        return self.effective_size < FEWEST

    @property
    def unbalanced(self) -> bool:
        """Whether weights are far from what they are on average, if the propensities are right and rows not too few."""
        return not self.hopeless and abs(self.mean_weight - 1.0) > FAR * self.mean_weight_error

    @property
    def estimate(self) -> Estimate:
        """With its error, where weights are good for one and not all rows that count were worth the same."""
        return Estimate(self.value, None if self.hopeless or self.unbalanced or self.error == 0.0 else self.error)


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
    if why := _why_not(discount, where, trace.not_whole):
        return why
    used = ~trace.bad  # all of them, unless every row is a case of its own
    first = trace.first[used] | _by_rows(discount, where)
    taken = policy[trace.s[used], trace.a[used]]
    cases = Cases(taken, trace.propensity[used], trace.r[used], first)
    return _weighed(cases, discount, confidence, reward_range, range_known)


def weighted_rule(
    rows: NumberRows, rule: Rule, discount: float, where: str, confidence: float
) -> Weighted | str | None:
    """The same of a rule where states are made of numbers."""
    if rows.propensity is None:
        return None
    if why := _why_not(discount, where, rows.not_whole):
        return why
    known = rows.reward_range
    taken = rule(rows.state)[np.arange(len(rows)), rows.a]
    cases = Cases(taken, rows.propensity, rows.r, rows.first | _by_rows(discount, where))
    seen = float(rows.r.min()), float(rows.r.max())
    return _weighed(cases, discount, confidence, known or seen, known is not None)


def doubts(weighted: Weighted | str | None, expected: float) -> list[str]:
    """What the log's own returns say against themselves, or against what the model expects."""
    if not isinstance(weighted, Weighted):
        return []
    if weighted.hopeless:
        return [
            f"the logged propensities are next to no use here: {weighted.episodes:,} {weighted.unit}s count as "
            f"{weighted.effective_size:.3g} of equal weight, since the log hardly ever did what the policy does"
        ]
    found = []
    if weighted.unbalanced:
        mean = f"{weighted.mean_weight:.3g} ± {weighted.mean_weight_error:.2g}"
        found.append(
            f"the weights of the logged propensities have the mean {mean}, and should have 1: the propensities are "
            "wrong, or too few rows show what this policy does; nothing is guaranteed by them"
        )
    if not weighted.low <= expected <= weighted.high:
        found.append(
            f"the log's own returns, weighed by the propensities, say {weighted.low:.4g} to {weighted.high:.4g} "
            f"({weighted.confidence:.0%}), and the model {expected:.4g}: the state may miss something "
            "that decisions were based on, or the propensities are wrong"
        )
    return found


def weighted_summary(weighing: Weighted | str | None) -> dict[str, object] | None:
    """The fields, as plain values."""
    if not isinstance(weighing, Weighted):
        return None
    return dataclasses.asdict(weighing) | {
        "hopeless": weighing.hopeless,
        "unbalanced": weighing.unbalanced,
        **estimate_summary(weighing.estimate),
    }


class Cases(NamedTuple):
    """Rows whose propensity was recorded, (n,) each; those of one episode stand together."""

    taken: Array  # the probability with which the policy takes the logged action
    propensity: Array
    r: Array
    first: Array  # whether a row is the first of its episode


def _by_rows(discount: float, where: str) -> bool:
    """Whether every row is a case of its own."""
    return discount == 0.0 and where == "log"


def _why_not(discount: float, where: str, not_whole: str | None) -> str | None:
    if _by_rows(discount, where):
        return None
    return not_whole if where == "episodes" else "value is not measured where episodes begin (start)"


def _weighed(
    cases: Cases, discount: float, confidence: float, reward_range: tuple[float, float], range_known: bool
) -> Weighted:
    begin, episode = np.flatnonzero(cases.first), np.cumsum(cases.first) - 1
    step = np.arange(episode.size) - begin[episode]
    W = np.multiply.reduceat(cases.taken / cases.propensity, begin)
    G = np.bincount(episode, discount**step * cases.r)
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
        mean_weight=float(W.mean()),
        mean_weight_error=float(W.std() / np.sqrt(W.size)),
        effective_size=total**2 / squares if squares > 0.0 else 0.0,
        episodes=int(W.size),
        longest=longest,
        unit="row" if longest == 1 else "episode",
        range_known=range_known,
        reward_range=reward_range,
        returns_range=(low, high),
    )


def _range(reward_range: tuple[float, float], discount: float, longest: int) -> tuple[float, float]:
    """What the return of an episode of 1 to so many steps can be."""
    steps = float(np.sum(discount ** np.arange(longest))) if discount > 0.0 else 1.0
    low, high = reward_range
    return min(low, low * steps), max(high, high * steps)
