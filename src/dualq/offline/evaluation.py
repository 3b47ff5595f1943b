"""Evaluation: what a policy from outside earns and costs by a log, and what may be promised of it.

    e.expected, e.logged           estimates of its value and of what was done so far, at the start
    e.difference                   of the two, with the error of the difference: both rest on the same rows
    e.certificate.lower, .upper    floor and ceiling of this policy's value, proven (docs/certificate.md)
    e.unsupported                  the share of its time in decisions that the log never saw; e.never_seen() names them
    e.costs, e.limits              what it costs a step; which limits it keeps
    e.weighted                     its value by the log's own returns, where propensities were recorded (weighting.py)
    e.learned_here                 whether it was learned from this very log, or decides so: then luck is taken off
    e.verdict                      "better", "no worse", "cannot tell" or "do not use", beside what was done so far
    e.promised, e.withheld, e.conditions, e.warnings    as of a Fit: the same tests of the same log (trusted.py)

A policy from outside was not chosen by this log, so that nothing is taken off for luck. Whoever tries several on one
log and keeps the best has chosen by it: that is `compare`, whose bounds hold for all of them together.
"""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from dualq._version import __version__
from dualq.base import CheckpointError, LogError, door, write_whole, written_together
from dualq.model import TablePolicy, write_policy
from dualq.offline.careful.given import MOST_UNSUPPORTED, Valued
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.given_policies import GivenPolicy
from dualq.offline.judging import CostOf, GivenLimit, Judge, PolicyCertificate, limits_kept
from dualq.offline.shapes import EvaluationSummary, Otherwise, Unseen
from dualq.offline.shown import PagesOf, Shown
from dualq.offline.stages import Modelled
from dualq.offline.summary import certificate_summary, estimate_summary
from dualq.offline.trust import verdict
from dualq.offline.trusted import Trusted
from dualq.offline.weighting import Weighted, doubts, weighted_summary

Array = np.ndarray

EVALUATION, POLICY = "evaluation.json", "policy.csv"
MOST_GUESSED = 0.05  # of its time in decisions that the log never saw: with more nobody can tell whether it is better
LEAST_SHARE = 1e-6  # of its time: less is never
ALIKE = 1e-9  # probabilities that differ by no more are the same
SELDOM = 0.01  # of the decisions in a state: fewer that differ are none


@door
@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Trusted, Shown):
    """What a log says of a policy from outside; the top of this file says how to ask it."""

    judge: Judge = field(repr=False)
    given: GivenPolicy
    certificate: PolicyCertificate | None
    reached: tuple[GivenLimit, ...] = field(default=(), repr=False)  # of every limit, as estimated and proven
    weighing: Weighted | str | None = None  # or why the log's returns cannot be weighed
    vouched: tuple[str, ...] = ()  # for what the log cannot tell
    name: str = "this policy"
    version: str = __version__

    approximation = "table"  # states are labels, or bins

    # ---- the log

    @property
    def modelled(self) -> Modelled:
        """The log, counted and modelled."""
        return self.judge.modelled

    @property
    def confidence(self) -> float:
        """Of the certificate, and of the intervals."""
        return self.judge.confidence

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the user vouches for."""
        return self.vouched

    @property
    def proof_asked(self) -> bool:
        """Whether there is a certificate."""
        return self.certificate is not None

    @property
    def _decisions(self) -> TablePolicy:
        return self.policy

    @property
    def _where(self) -> Array:
        return self.time_share

    # ---- the policy

    @property
    def policy(self) -> TablePolicy:
        """The policy that was judged, on the log's states."""
        return self.given.table

    @property
    def behaviour(self) -> TablePolicy:
        """What the log did."""
        return self.counts.support.policy_to_log(self.modelled.careful.behaviour)

    @cached_property
    def learned_here(self) -> bool:
        """Whether the policy is what is learned from this very log: chosen for its luck, and luck is taken off."""
        return self.judge.learned_here(self.given)

    @cached_property
    def _valued(self) -> Valued:
        return self.judge.valued(self.policy)

    @cached_property
    def expected(self) -> Estimate:
        """The policy's value at the start: an estimate, not a promise; no error where none can be given."""
        return self._in_doubt(self.judge.expected(self.policy, self._valued, self.learned_here))

    @property
    def logged(self) -> Estimate:
        """The logged behaviour's value at the start."""
        return self._in_doubt(self.modelled.careful.logged)

    @cached_property
    def difference(self) -> Estimate:
        """What the policy earns more than what was logged, with the error of that difference."""
        return self._in_doubt(self.judge.difference(self._valued, self.expected, self.learned_here))

    def better_than(self, other: Evaluation) -> Estimate:
        """What the policy earns more than another one on the same log, with the error of that difference."""
        if other.judge is not self.judge:
            raise LogError("the two policies were judged apart; `compare` judges several on one log")
        if self.decides_as(other):
            return Estimate(0.0, 0.0)
        paired = self.judge.known.difference(self._valued, other._valued)
        luck = [e for e in (self, other) if e.learned_here]
        error, gain = paired.standard_error, self.expected.value - other.expected.value
        if error is not None:
            lucky = (e.difference.error_or_nan**2 - self._rows_error(e) ** 2 for e in luck)
            error = float(np.sqrt(error**2 + sum(max(x, 0.0) for x in lucky)))
        return self._in_doubt(Estimate(gain, None if error is None or not np.isfinite(error) else error))

    def decides_as(self, other: Evaluation) -> bool:
        """Whether both take the same decisions in every state in which the log acted."""
        acted: Array = self.counts.visits.sum(axis=1) > 0
        return np.allclose(self.policy.matrix[acted], other.policy.matrix[acted], rtol=0.0, atol=ALIKE)

    def _rows_error(self, one: Evaluation) -> float:
        return self.judge.known.difference(one._valued, self.judge.usual).error_or_nan

    @cached_property
    def costs(self) -> dict[str, CostOf]:
        """{cost: what a step costs on average, from the start: of the policy, as logged, and the difference}."""
        return {name: CostOf(*map(self._in_doubt, of)) for name, of in self.judge.costs(self.given).items()}

    @property
    def limits(self) -> tuple[GivenLimit, ...]:
        """Which of the limits it keeps; no errors of estimates where `contradicted`."""
        return tuple(dataclasses.replace(limit, estimate=self._in_doubt(limit.estimate)) for limit in self.reached)

    @property
    def limits_kept(self) -> bool:
        """Whether every limit is promised, with the asked confidence; True where there are none."""
        return limits_kept(self.limits, bool(self._doubts))

    @property
    def weighted(self) -> Weighted | None:
        """Its value by the log's own returns, weighed; None where there are no propensities, or they are no use."""
        return self.weighing if isinstance(self.weighing, Weighted) else None

    @cached_property
    def time_share(self) -> Array:
        """(S,) the share of (discounted) time that the policy spends in each state, from the start."""
        occupancy = self.counts.support.to_log(self._valued.occupancy.sum(axis=1))
        return occupancy / occupancy.sum()

    # ---- what the log never saw

    @cached_property
    def _never(self) -> Array:
        """(S, A) the share of its time in decisions that the log never saw, in states that it knows."""
        acted: Array = self.counts.visits.sum(axis=1) > 0
        taken = self.time_share[:, None] * self.policy.matrix
        return np.where((self.counts.visits == 0) & acted[:, None], taken, 0.0)

    @property
    def unsupported(self) -> float:
        """The share of its time in decisions that the log never saw: their value is a guess, and no promise."""
        return float(self._never.sum())

    def never_seen(self, most: int = 10) -> list[Unseen]:
        """The decisions that the log never saw, those first where most time is spent."""
        places = np.argwhere(self._never > LEAST_SHARE * max(self.unsupported, LEAST_SHARE))
        order = sorted(places.tolist(), key=lambda pair: -self._never[tuple(pair)])
        return [
            {
                "state": self.counts.states.named(s),
                "action": self.counts.actions.named(a),
                "time_share": float(self._never[s, a]),
                "probability": float(self.policy.matrix[s, a]),
                "rows_of_state": int(self.counts.visits[s].sum()),
            }
            for s, a in order[:most]
        ]

    @cached_property
    def _apart(self) -> Array:
        """(S,) the share of decisions in a state that the log took otherwise."""
        apart = 0.5 * np.abs(self.policy.matrix - self.behaviour.matrix).sum(axis=1)
        return np.where(self.policy.undecided, 0.0, apart)

    @property
    def num_changes(self) -> int:
        """In how many states the policy decides otherwise than the log did."""
        return int((self._apart >= SELDOM).sum())

    @property
    def share_changed(self) -> float:
        """The share of the policy's decisions that the log would have taken otherwise."""
        return float(self.time_share @ self._apart)

    def changes(self, most: int = 10) -> list[Otherwise]:
        """The states where the policy decides otherwise than the log did, those first where most decisions differ."""
        visits, mass = self.counts.visits, self.time_share * self._apart
        places = [int(s) for s in np.argsort(-mass, kind="stable") if mass[s] > LEAST_SHARE][:most]
        usual, chosen = visits.argmax(axis=1), self.policy.matrix.argmax(axis=1)
        return [
            {
                "state": self.counts.states.named(s),
                "time_share": float(self.time_share[s]),
                "share": float(self._apart[s]),
                "logged": self.counts.actions.named(usual[s]),
                "logged_share": float(visits[s, usual[s]] / max(1, visits[s].sum())),
                "policy": self.counts.actions.named(chosen[s]),
                "probability": float(self.policy.matrix[s, chosen[s]]),
                "rows": int(visits[s, chosen[s]]),
            }
            for s in places
        ]

    # ---- what may be said of it

    @property
    def verdict(self) -> str:
        """One of "better", "no worse", "cannot tell" and "do not use" (trust.py says when).

        Nobody can tell, where more than a little of what it earns is a guess: decisions that the log never saw.
        """
        word = self._verdict
        guessed = self.unsupported > MOST_GUESSED and word in ("better", "no worse")
        return "cannot tell" if guessed else word

    @property
    def _verdict(self) -> str:
        gain = self.certificate.whole.proven_more if self.promised and self.certificate is not None else 0.0
        return verdict(
            Estimate(self.expected.value, self.difference.standard_error),  # of the difference: the rows are the same
            Estimate(self.logged.value, 0.0),
            contradicted=bool(self.contradicted),
            promised_gain=gain,
            as_logged=self.as_logged,
        )

    @property
    def as_logged(self) -> bool:
        """Whether the policy does what was logged."""
        return self.share_changed < LEAST_SHARE

    @property
    def warnings(self) -> list[str]:
        """What a reader must know before trusting any of it."""
        found = super().warnings
        if self.unsupported > MOST_UNSUPPORTED:
            found.append(
                f"the policy spends {self.unsupported:.0%} of its time in decisions that the log never saw: what it "
                "earns there is a guess, and no error is given"
            )
        found += doubts(self.weighing, self.expected.value)
        return found

    # ---- what leaves the room

    def summary(self) -> EvaluationSummary:
        """The settings and the numbers, as plain values: what --json prints and evaluation.json keeps."""
        promise, counted = self.certificate, self.modelled.counted
        return {
            "policy": self.given.source,
            "name": self.name,
            "source": self.read.source,
            "columns": dict(self.read.columns),
            "discount": self.modelled.discount,
            "start": counted.where,
            "confidence": self.confidence,
            "version": self.version,
            "rows": self.counts.total,
            "states": len(self.counts.states),
            "actions": len(self.counts.actions),
            "expected": estimate_summary(self.expected),
            "logged": estimate_summary(self.logged),
            "difference": estimate_summary(self.difference),
            "returns": None if self.returns is None else estimate_summary(self.returns),
            "certificate": None if promise is None else _bounds_summary(promise),
            "weighted": weighted_summary(self.weighing),
            "not_weighted": self.weighing if isinstance(self.weighing, str) else None,
            "verdict": self.verdict,
            "promised": self.promised,
            "withheld": list(self.withheld),
            "conditions": list(self.conditions),
            "contradicted": list(self.contradicted),
            "warnings": self.warnings,
            "learned_here": self.learned_here,
            "otherwise": self.given.otherwise,
            "filled_states": [self.counts.states.named(s) for s in self.given.missing],
            "unsupported": self.unsupported,
            "never_seen": self.never_seen(),
            "changes": self.changes(),
            "num_changes": self.num_changes,
            "share_changed": self.share_changed,
            "limits": [limit_summary(limit) for limit in self.limits],
            "limits_kept": self.limits_kept,
            "costs": {
                name: {which: estimate_summary(e) for which, e in of._asdict().items()}
                for name, of in self.costs.items()
            },
            "coverage": self.coverage.summary(),
        }

    @property
    def _pages(self) -> PagesOf:
        from dualq.app import EvaluationPages

        return EvaluationPages(self)

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write policy.csv and evaluation.json into a folder; their paths."""
        with written_together(folder, last=EVALUATION) as part:
            write_policy(part / POLICY, self.policy)
            write_summary(part / EVALUATION, self.summary())
        return [str(Path(folder, name)) for name in (POLICY, EVALUATION)]


def made_folder(folder: str | os.PathLike[str]) -> Path:
    """A folder to write into."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder}: is a file; give a folder to write into")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_summary(path: Path, summary: object) -> None:
    """Plain values as JSON."""
    text = json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False, default=str)
    write_whole(path, (text + "\n").encode())


def _bounds_summary(promise: PolicyCertificate) -> dict[str, object]:
    """Of this policy; what else the certificate says stands beside it."""
    whole = certificate_summary(promise.whole)
    return whole | {"upper": promise.upper, "any_policy": promise.any_policy, "improvement": list(promise.improvement)}


def limit_summary(limit: GivenLimit) -> dict[str, object]:
    """Whether a limit is kept, as plain values."""
    return {**dataclasses.asdict(limit), "estimate": estimate_summary(limit.estimate)}
