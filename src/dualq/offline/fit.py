"""Fit: what was learned from a log, for people to read, ask and keep.

    fit.policy                     the recommended policy;  fit.reason  one sentence: why this one
    fit.primal_policy, dual_policy as the solution has them: argmax Q, and the occupancy normalised
    fit.behaviour                  what the log did: n(s, a) / n(s)
    fit.expected, fit.logged       estimates of the two policies' value at the start, with standard errors
    fit.costs                      estimates of what the two policies cost per step, for each cost of the log
    fit.certificate                floor and ceiling that hold with the asked confidence
    fit.verdict                    "better", "no worse", "cannot tell" or "do not use", in one word
    fit.returns                    what the log's own episodes earned on average, where it has episodes
    fit.contradicted               the assumptions of all that which the log itself speaks against; () is good
    fit.alternatives               policies that can be certified, where the certificate says too little of this one
    fit.promised, fit.withheld     may the certificate be relied on, under fit.conditions?  if not, why
    fit.warnings                   what to know before trusting any of it
    fit.explain(state)             for one state: every action with its rows, its estimated value, what is recommended
    fit.limits                     what became of each limit: estimate, bounds, price;  fit.limits_kept  all promised?
    fit.frontier("stockout")       value against a limit on a cost: the trade-off, as table and chart
    fit.changes()                  where the policy differs from the log most, by how much time is spent there
    fit.save("run/")               policy.csv for a colleague, fit.json for a program, solution.npz for `load`

Arrays are (S,) or (S, A) in the log's own states and actions. The solution's model may have one state more, "(end)".
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from dualq.base import Label, LabelLike, door, write_whole, written_together
from dualq.model import Cases, Seed, TablePolicy, write_policy, write_saved
from dualq.offline.alternatives import Alternative, alternatives_of
from dualq.offline.careful.model import Estimate, pair_errors
from dualq.offline.careful.pooling import Rows
from dualq.offline.deciding import Decider
from dualq.offline.learned import Learned
from dualq.offline.limited.estimates import Estimates
from dualq.offline.limited.parsing import LimitsGiven
from dualq.offline.limited.trade_off import Frontier, frontier_of
from dualq.offline.saved.kinds import KINDS
from dualq.offline.saved.opening import ARRAYS, NUMBERS, POLICY, write_numbers
from dualq.offline.sensitivity import LARGE, Sensitivity, sensitivity
from dualq.offline.shapes import Change, FitSummary, StateFacts, Updated
from dualq.offline.stages import prove, solve
from dualq.offline.summary import alternative_summary, certificate_summary, estimate_summary, limit_summary
from dualq.offline.trust import verdict
from dualq.offline.trusted import Trusted

Array = np.ndarray

SELDOM = 0.01  # of the decisions in a state: fewer that change are none
NEVER = 1e-4  # of the time in the state where most is spent: less is practically never


@door
@dataclass(frozen=True, eq=False)
class Fit(Learned, Trusted):
    """What was learned: the last of five stages, which holds the others; the top of this file says how to ask it."""

    updated: Updated | None = None  # what `update` added and changed

    def with_limits(self, limits: LimitsGiven, margin: str | None = None) -> Fit:
        """The same fit with other limits, or None: the log is not counted again, and its model is not fitted again."""
        proven, confidence = self.proven, self.confidence
        method = None if proven.certificate is None else proven.certificate.method
        margin = margin or self.solved.margin or "certified"
        solved = solve(self.modelled, "exact", limits, margin, confidence, method, proven.looks)
        return Fit(prove(solved, confidence, method, proven.value_range, proven.assumed, proven.looks), self.updated)

    approximation = "table"  # states are labels, or bins

    @property
    def set_aside(self) -> str | None:
        """The file of the rows that were set aside, if there are some."""
        return self.settings["set_aside"]

    @property
    def limits_kept(self) -> bool:
        """Whether every limit is promised, with the asked confidence; True where there are none.

        Nothing is promised by a proof whose assumptions are in doubt, as `withheld` says.
        """
        return all(limit.kept and not (limit.basis == "proven" and self._doubts) for limit in self.limits)

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the user vouches for."""
        return self.proven.assumed

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

    @property
    def verdict(self) -> str:
        """One of "better", "no worse", "cannot tell" and "do not use" (trust.py says when)."""
        return verdict(
            self.expected,
            self.logged,
            contradicted=bool(self.contradicted),
            promised_gain=self.certificate.proven_more if self.promised and self.certificate else 0.0,
            as_logged=self.as_logged,
        )

    @property
    def primal_policy(self) -> TablePolicy:
        """argmax_a Q[s, a] of the solution."""
        return self.counts.support.policy_to_log(self.solution.primal_policy)

    @property
    def dual_policy(self) -> TablePolicy:
        """The solution's occupancy, normalised in each state."""
        return self.counts.support.policy_to_log(self.solution.dual_policy)

    @property
    def behaviour(self) -> TablePolicy:
        """What the log did."""
        return self.counts.support.policy_to_log(self.careful.behaviour)

    @property
    def as_logged(self) -> bool:
        """Whether what is recommended is what was logged."""
        return np.array_equal(self.policy.matrix, self.behaviour.matrix)

    @cached_property
    def expected(self) -> Estimate:
        """The recommended policy's value at the start: an estimate, not a promise; no error where `contradicted`."""
        return self._in_doubt(self._expected())

    def _expected(self) -> Estimate:
        if np.array_equal(self.policy.matrix, self.counts.support.to_log(self.careful.policy.matrix)):
            return self.careful.expected
        if self.as_logged:
            return self.careful.logged
        if self.limits:
            return self._estimates.value(self._everywhere)
        # Another policy than the careful one (Algorithm 1's): in the same model, without the penalty.
        policy, mdp, start = self._everywhere, self.careful.mdp, self._start_everywhere
        occupancy = policy.occupancy(mdp, start)
        paid = float((occupancy * (mdp.rewards + self.careful.penalty))[policy.matrix > 0.0].sum())
        error = np.where(np.isfinite(self.careful.error), self.careful.error, 0.0)
        return Estimate(paid, float(np.sqrt((occupancy**2 * error**2).sum())))

    @property
    def _estimates(self) -> Estimates:
        return self.modelled.estimates

    @cached_property
    def _everywhere(self) -> TablePolicy:
        """The recommended policy in the states of the model, which may have one more."""
        return self.counts.support.policy_to_model(self.policy, self.careful.policy)

    @property
    def _start_everywhere(self) -> Array:
        return self.counts.support.to_model(self.start)

    @property
    def logged(self) -> Estimate:
        """The logged behaviour's value at the start; no error where `contradicted`."""
        return self._in_doubt(self.careful.logged)

    @cached_property
    def costs(self) -> dict[str, dict[str, Estimate]]:
        """{cost: {"logged": ..., "recommended": ...}}: what a step costs on average, from the start."""
        estimates, found = self._estimates, {}
        for name in self.counts.cost_sums:
            cost = estimates.asked(name)
            policies = {"logged": self.careful.behaviour, "recommended": self._everywhere}
            found[name] = {which: self._in_doubt(estimates.of(cost, policy)) for which, policy in policies.items()}
        return found

    @cached_property
    def values(self) -> Array:
        """(S, A) what each decision is worth, with values after it as estimated: no penalty; nan where never logged.

        Later the best is done; under limits, what the recommended policy does.
        """
        Q = self.careful.mdp.q_values(self._later) + self.careful.penalty
        return np.where(self.counts.visits > 0, self.counts.support.to_log(Q), np.nan)

    @cached_property
    def errors(self) -> Array:
        """(S, A) standard errors of `values` for the next step alone; inf where a pair was never logged."""
        careful, on_log = self.careful, self.counts.support.to_log
        if not self.limits:
            return on_log(careful.error)
        return on_log(pair_errors(Rows.of(self.counts, careful.mdp.discount), self._later, careful.weight))

    @cached_property
    def _later(self) -> Array:
        """What the states of the model are worth where `values` go on."""
        return self._everywhere.value(self.careful.mdp) if self.limits else self.careful.V

    @cached_property
    def time_share(self) -> Array:
        """(S,) the share of (discounted) time that the recommended policy spends in each state, from the start."""
        occupancy = self._everywhere.occupancy(self.careful.mdp, self._start_everywhere)
        occupancy = self.counts.support.to_log(occupancy.sum(axis=1))
        return occupancy / occupancy.sum()

    @cached_property
    def sensitivity(self) -> Sensitivity | None:
        """By which factor something hidden must have changed the odds of decisions before it could explain the gain.

        None for logs that are so large that this takes longer than learning.
        """
        if self.counts.n.size > LARGE:
            return None
        gain, promise = self.expected.value - self.logged.value, self.certificate
        proven = promise.improvement if promise is not None and self.promised else None
        return sensitivity(self.counts, self.policy.matrix, self.start, self.modelled.discount, gain, proven)

    @cached_property
    def alternatives(self) -> tuple[Alternative, ...]:
        """Policies of which the log can promise more, where it promises too little of the recommended one; often none.

        Their bounds hold together with the certificate's.
        """
        return alternatives_of(self.proven, self.expected) if self.promised else ()

    # ---- questions

    def label(self, state: LabelLike) -> LabelLike:
        """A state as the log has it: numbers of columns that were cut into bins find their bins, dates may be text."""
        return self._decider.label(state)

    def act(self, state: LabelLike, seed: Seed = None, default: Label = None, case: int | None = None) -> Label:
        """The label of an action in a state, drawn where the policy is random; numbers find their bins."""
        return self._decider.act(state, seed, default, case)

    def act_many(
        self, table: Mapping[str, ArrayLike], seed: Seed = None, default: Label = None, case: Cases = None
    ) -> list[Label]:
        """The label of an action for each row of a table or frame, as `act` says; None, or `default`, where unknown.

        case   of each row, by which a random policy draws: a column of the table, or whole numbers; without one, the
               number of the row, from 0
        """
        return self._decider.act_many(table, seed, default, case)

    @property
    def _decider(self) -> Decider:
        return Decider(self.policy, self.read.bins)

    def explain(self, state: LabelLike) -> StateFacts:
        """All that is known of one state: each action with its rows, its value and interval, and what is recommended.

        The intervals are for comparing these actions with each other: of what a decision is worth when every later
        state is worth what was estimated, each with the asked confidence, approximately. The error of the values of
        later states is common to all actions and not in them. They are not the certificate.
        """
        s = self.counts.states.index(self.label(state))
        visits, z = self.counts.visits[s], float(ndtri(0.5 + self.confidence / 2.0))
        actions: list[dict[str, Any]] = []
        for a in sorted(range(visits.size), key=lambda a: (-self.policy.matrix[s, a], -visits[a])):
            value, error = float(self.values[s, a]), float(self.errors[s, a])
            known = visits[a] > 0
            actions.append(
                {
                    **self.counts.actions.named(a),
                    "rows": int(visits[a]),
                    "logged_share": float(visits[a] / max(1, visits.sum())),
                    "value": value if known else None,
                    "low": value - z * error if known else None,
                    "high": value + z * error if known else None,
                    "recommended": float(self.policy.matrix[s, a]),
                }
            )
        return {
            "state": self.counts.states.named(s),
            "rows": int(visits.sum()),
            "time_share": float(self.time_share[s]),
            "undecided": bool(self.policy.undecided[s]),
            "intervals": "of one decision, with the values of later states as estimated; not a certificate",
            "actions": actions,
        }

    def changes(self, most: int = 10) -> list[Change]:
        """The states where the policy decides otherwise than the log did, those first where that is worth most.

        share   of the decisions in the state that change;  gain   what the policy earns there with one decision over
        what the log did there on average, with its standard error;  worth   gain times the share of time
        Not those that the policy practically never sees; `num_changes` counts them too.
        """
        visits = self.counts.visits
        usual, chosen = visits.argmax(axis=1), self.policy.matrix.argmax(axis=1)
        apart = self.policy.matrix - self.behaviour.matrix
        gain = np.where(apart != 0.0, apart * np.nan_to_num(self.values), 0.0).sum(axis=1)
        error = np.linalg.norm(apart * np.where(np.isfinite(self.errors), self.errors, 0.0), axis=1)
        worth = self.time_share * gain
        differ = self._differs & (self.time_share >= NEVER * self.time_share.max())
        places = [s for s in np.lexsort((-self.time_share, -np.abs(worth))) if differ[s]][:most]
        return [
            {
                "state": self.counts.states.named(s),
                "time_share": float(self.time_share[s]),
                "share": float(0.5 * np.abs(apart[s]).sum()),
                "logged": self.counts.actions.named(usual[s]),
                "logged_share": float(visits[s, usual[s]] / visits[s].sum()),
                "recommended": self.counts.actions.named(chosen[s]),
                "probability": float(self.policy.matrix[s, chosen[s]]),
                "recommended_rows": int(visits[s, chosen[s]]),
                "gain": float(gain[s]),
                "gain_error": float(error[s]),
                "worth": float(worth[s]),
            }
            for s in places
        ]

    @cached_property
    def _differs(self) -> Array:
        """(S,) whether the policy decides otherwise than the log did, in a decision of a hundred at least."""
        apart = 0.5 * np.abs(self.policy.matrix - self.behaviour.matrix).sum(axis=1)
        return (apart >= SELDOM) & ~self.policy.undecided

    @property
    def num_changes(self) -> int:
        """In how many states the policy decides otherwise than the log did."""
        return int(self._differs.sum())

    @property
    def share_changed(self) -> float:
        """The share of the policy's decisions that the log would have taken otherwise."""
        apart = 0.5 * np.abs(self.policy.matrix - self.behaviour.matrix).sum(axis=1)
        return float(self.time_share @ np.where(self.policy.undecided, 0.0, apart))

    def frontier(self, cost: str, points: int | None = None) -> Frontier:
        """The trade-off: the best value for every limit on a cost, with errors and what is proven.

        points   limits to try; by default 20, or 8 where there are many states
        """
        confidence = 1.0 - (1.0 - self.confidence) / self.proven.looks
        return frontier_of(self._estimates, self.asked, self.blocks, self._everywhere, confidence, cost, points)

    def summary(self) -> FitSummary:
        """The settings and the numbers, as plain values: what --json prints and fit.json keeps."""
        counts, promise = self.counts, self.certificate
        return {
            **self.settings,
            "rows": counts.total,
            "states": len(counts.states),
            "actions": len(counts.actions),
            "reason": self.reason,
            "expected": estimate_summary(self.expected),
            "logged": estimate_summary(self.logged),
            "confidence": self.confidence,
            "certificate": None if promise is None else certificate_summary(promise),
            "ledger": None if self.ledger is None else self.ledger.summary(),
            "verdict": self.verdict,
            "returns": None if self.returns is None else estimate_summary(self.returns),
            "promised": self.promised,
            "withheld": list(self.withheld),
            "conditions": list(self.conditions),
            "contradicted": list(self.contradicted),
            "warnings": self.warnings,
            "limits": [limit_summary(limit) for limit in self.limits],
            "limits_kept": self.limits_kept,
            "limits_wanted": [dataclasses.asdict(pair) for pair in self.limits_wanted],
            "costs": {
                name: {w: estimate_summary(cost) for w, cost in both.items()} for name, both in self.costs.items()
            },
            "costs_per_row": {name: float(x.sum() / counts.total) for name, x in counts.cost_sums.items()},
            "changes": self.changes(),
            "num_changes": self.num_changes,
            "share_changed": self.share_changed,
            "coverage": self.coverage.summary(),
            "updated": self.updated,
            "alternatives": [alternative_summary(one) for one in self.alternatives],
            "sensitivity": None if self.sensitivity is None else dataclasses.asdict(self.sensitivity),
        }

    def __repr__(self) -> str:
        from dualq.app import Pages

        return Pages(self).brief()

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, the numbers and the changes worth most."""
        from dualq.app import Pages

        return Pages(self).notebook()

    # ---- what leaves the room

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the report: one HTML page that needs no network."""
        from dualq.app import Pages

        write_whole(path, Pages(self).report().encode())

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Write policy.csv, solution.npz and, last, fit.json into a folder; their paths. With fit.json it is whole."""
        roots = {"solution": self.solution, "policy": self.policy, "bins": dict(self.read.bins), "fit": self.proven}
        roots |= {"updated": self.updated}
        with written_together(folder, last=NUMBERS) as part:
            write_saved(part / ARRAYS, KINDS, **roots)
            write_policy(part / POLICY, self.policy)
            write_numbers(part, self.summary())
        return [str(Path(folder, name)) for name in (POLICY, NUMBERS, ARRAYS)]
