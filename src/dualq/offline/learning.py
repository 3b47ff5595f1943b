"""The main job, on one page: log -> counts -> coverage -> careful model -> solution -> certificate -> Fit.

    counts        what the log says of a model that does not change with time
    coverage      what the log cannot tell
    careful       the empirical model, pooled and penalised where the log is thin (careful/model.py)
    solution      its saddle point: Q, V, lambda, mu
    limits        what the policy must keep: the program with limits, at a margin that lets it be promised (limited/)
    certificate   what can be promised of the policy, and of any policy

No propensities and no simulator are needed: whatever behaviour left the log, however it drifted, its rows are enough.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dualq._version import __version__
from dualq.base import LogError, few
from dualq.logs import ROW, Counts, Log, counts_in_blocks, read_log, returns_of, start_weights
from dualq.model import Solution, TablePolicy, frequencies
from dualq.offline.careful.clusters import shared_factor
from dualq.offline.careful.model import Careful, careful_model
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.fit import Fit
from dualq.offline.limited.estimates import Estimates
from dualq.offline.limited.parsing import asked_for
from dualq.offline.limited.search import SHARE_OF_VALUE, keep, program_gap
from dualq.offline.trust import ASSUMPTIONS
from dualq.online import SPDQ, inverse_sqrt, train
from dualq.proof import Ledger, certified, check_confidence, check_method, merged_counts, paid_at_the_end, question_of
from dualq.solvers import duality_gap, solve

Array = np.ndarray

SPREAD = 0.01  # the part of the weights eta that lies on all states alike: eta must be positive, a start need not be


def learn(
    log: Any,
    *,
    discount: float = 0.95,
    confidence: float = 0.95,
    start: Any = None,
    pessimism: float | None = None,
    certificate: str | None = "proven",
    solver: str = "exact",
    limits: Any = None,
    margin: str = "certified",
    value_range: tuple[float, float] | None = None,
    assume: Any = (),
    progress: Callable[[str], None] | None = None,
    **columns: Any,
) -> Fit:
    """Learn a policy from a log, and say how good it is.

    log           a Log, or anything that `read_log` reads when its columns have common names
    discount      what a reward one step later is worth
    confidence    of the certificate and of the intervals
    start         where value is measured: "episodes", "log", "uniform", or {state label: weight}; by default
                  "episodes" where the log has episodes or ends, else "log"
    pessimism     strength of the penalty for thin pairs: 1 is the default, 0 the plug-in
    certificate   "proven", "bootstrap" (approximate), or None
    solver        "exact" (dynamic programming), "pdhg", or "online" (Algorithm 1 on the rows in their order; what
                  was logged is recommended where that is clearly better than what it reached: `reason` says so)
    limits        what the policy must keep, one or several: {"stockout": 0.02}, "stockout<=0.02", ">=" too: a cost of
                  the log on average per step from the start, "total stockout" its discounted total, "distance" the
                  total variation from the logged behaviour; or limits from dualq.limits, on log.counts().mdp(discount)
    margin        "certified": the ceilings of the limited costs are within the limits, where the log can prove it;
                  "none": their estimates are, and nothing is promised
    value_range   what values can be, if more is known than rewards say: (0, 1) where only the end of an episode pays 1
    assume        what you vouch for where the log cannot tell: "set aside" (the rows set aside are like the others)
    progress      called with the name of each stage when it begins
    columns       of `read_log`, where `log` is not opened yet: state=..., action=..., reward=..., ...
    """
    begin = progress or (lambda stage: None)
    if solver not in SOLVERS:
        raise LogError(f"solver is {solver!r}; it must be one of {', '.join(SOLVERS)}")
    check_confidence(confidence)
    if certificate is not None:
        check_method(certificate)
    assumed = [assume] if isinstance(assume, str) else list(assume)
    for word in assumed:
        if word not in ASSUMPTIONS:
            raise LogError(f"assume is {word!r}; it must be one of {few(ASSUMPTIONS)}")
    if limits is not None and solver != "exact":
        raise LogError(f"solver is {solver!r}; with limits it must be exact")
    log = _opened(log, columns, discount)
    if start is None and discount == 0.0:
        start = "log"  # every decision counts alike, not only the first of an episode
    begin("Counting the log's rows")
    log.check_ends()
    counts, coverage = log.counts(), log.coverage()
    weights = start_weights(log, start)

    begin("Learning (the first run also compiles)")
    careful = _with_groups(log, careful_model(counts, discount, weights, pessimism), weights)
    ledger = Ledger(1.0 - confidence)
    estimates = Estimates(counts, careful, weights)
    asked = () if limits is None else asked_for(limits, estimates)
    blocks = [counts] if certificate is None and not asked else counts_in_blocks(log)
    more: dict[str, Any] = {"blocks": tuple(blocks)} if counts.cost_sums else {}  # a trade-off is proven from them
    if asked:
        begin("Looking for a policy whose limits can be promised")
        share = 1.0 - SHARE_OF_VALUE if certificate is not None else 1.0
        found = keep(estimates, asked, blocks, ledger.take("limits", share), margin)
        solution, policy, reason = found.solution, _on_log(found.solution.dual_policy, counts), found.reason
        more = {"limits": found.limits, "asked": asked, "limits_wanted": found.wanted, "blocks": tuple(blocks)}
        gap = program_gap(solution)
    else:
        solution, policy, reason = SOLVERS[solver](log, counts, careful, weights)
        gap = duality_gap(careful.mdp, solution)
    promise = None
    if certificate is not None:
        begin("Proving floor and ceiling")
        account = ledger.take("value", SHARE_OF_VALUE if asked else 1.0)
        values = value_range or paid_at_the_end(counts)
        merged = merged_counts(blocks)
        ask = question_of(merged, policy, discount, weights, 1.0 - account.delta, log.available, values)
        promise = dataclasses.replace(certified(blocks, merged, ask, certificate, account), ledger=ledger)
    returns, agrees, filled = _returns(log, counts, careful, coverage.level)
    return Fit(
        counts=counts,
        careful=careful,
        solution=solution,
        policy=policy,
        reason=reason,
        start=weights,
        confidence=confidence,
        certificate=promise,
        ledger=ledger,
        coverage=coverage,
        returns=returns,
        returns_check=agrees,
        settings={
            "source": log.source,
            "columns": {part: list(names) for part, names in log.columns.items()},
            "discount": discount,
            "pessimism": careful.pessimism,
            "start": _where(log, start),
            "set_aside": str(log.quarantine) if coverage.skipped else None,
            "bins": {column: list(bins.edges) for column, bins in log.bins.items()},
            "assumed": assumed,
            "returns_filled": filled,
            "guessed": {part: list(names) for part, names in log.guessed.items()},
            "solver": solver,
            "gap": gap,
            "margin": margin if asked else None,
            "version": __version__,
        },
        **more,
    )


def _opened(log: Any, columns: dict[str, Any], discount: float) -> Log:
    """The log; where nothing that comes later counts, and no word was said of it, every row is a case of its own."""
    if not isinstance(log, Log):
        later = (columns.get(part) for part in ("next_state", "time", "episode", "terminal", "truncated"))
        if discount == 0.0 and all(part in (None, False) for part in later):
            columns = columns | {"terminal": ROW}
        return read_log(log, **columns)
    if columns:
        raise LogError(f"the log is open already; give {', '.join(columns)} to read_log")
    return log


def _with_groups(log: Log, careful: Careful, start: Array) -> Careful:
    """The errors as they are where rows of one moment, or of one episode, err together (clusters.py)."""
    trace = log.trace()
    if trace is None or not trace.has_episodes:
        return careful
    used, mdp, counts = trace.used, careful.mdp, log.counts()
    shared = not trace.restarts and np.isfinite(trace.t).all()
    moment = np.unique(trace.t[used], return_inverse=True)[1] if shared else None
    rows = (trace.s[used], trace.a[used], trace.r[used], np.maximum(trace.s_next[used], 0), trace.ended[used])
    eta = counts.support.to_model(start) + np.finfo(float).tiny

    def grouped(estimate: Estimate, policy: TablePolicy) -> Estimate:
        V, occupancy = policy.value(mdp), policy.occupancy(mdp, eta)
        factor = shared_factor(*rows, (moment, trace.episode[used]), V, occupancy, mdp.discount)
        return Estimate(estimate.value, factor * estimate.error_or_nan)

    expected = grouped(careful.expected, careful.policy)
    return dataclasses.replace(careful, expected=expected, logged=grouped(careful.logged, careful.behaviour))


def _returns(log: Log, counts: Counts, careful: Careful, level: float) -> tuple[Estimate | None, Any, float]:
    """What the log's own episodes earned, whether its own model agrees, and what part of it the model filled in."""
    trace = log.trace()
    if trace is None:
        return None, None, 0.0
    mdp, on_log = counts.mdp(careful.mdp.discount), counts.support.to_log
    V = careful.behaviour.value(mdp)
    onward = np.where(counts.visits > 0, on_log(mdp.q_values(V) - mdp.rewards), 0.0)
    found = returns_of(trace, on_log(V), on_log(mdp.rewards), onward, mdp.discount, level)
    if found is None:
        return None, None, 0.0
    return Estimate(found.value, found.standard_error), found.finding, found.filled


def _where(log: Any, start: Any) -> str:
    """Where value is measured, in a word."""
    if start is None:
        return "episodes" if log.has_episodes else "log"
    return start if isinstance(start, str) else "as given"


def _exact(log: Any, counts: Counts, careful: Careful, start: Array) -> tuple[Solution, TablePolicy, str]:
    """The careful model's saddle point by dynamic programming."""
    return _solution(counts, careful, start, "dynamic"), _on_log(careful.policy, counts), careful.reason


def _pdhg(log: Any, counts: Counts, careful: Careful, start: Array) -> tuple[Solution, TablePolicy, str]:
    """The careful model's saddle point by PDHG."""
    solution = _solution(counts, careful, start, "pdhg")
    return solution, _on_log(solution.primal_policy, counts), careful.reason


def _online(log: Any, counts: Counts, careful: Careful, start: Array) -> tuple[Solution, TablePolicy, str]:
    """Algorithm 1, one pass over the rows; it knows no pessimism. What was logged, where that is clearly better."""
    discount, rows = careful.mdp.discount, int(counts.total)
    solution = train(SPDQ(step_size=inverse_sqrt(2.0)), log, rows, discount=discount).solution
    order = "in their order" if log.has_order else "as they stand (the log has no time column)"
    how = f"Algorithm 1 after one pass over {rows:,} rows, {order}"
    policy = _on_log(solution.primal_policy, counts)
    reached = Estimates(counts, careful, start).value(counts.support.policy_to_model(policy, careful.policy))
    if careful.logged.value - reached.value <= math.hypot(reached.error_or_nan, careful.logged.error_or_nan):
        return solution, policy, f"The policy is greedy in the averaged Q of {how}."
    reason = (
        f"What was logged is recommended: the policy that is greedy in the averaged Q of {how}, is expected to earn "
        f"{reached}, less than what was logged, {careful.logged}. The exact solver, which is the default, comes from "
        f"the same rows to a policy with {careful.expected}."
    )
    return solution, _on_log(careful.behaviour, counts), reason


SOLVERS = {"exact": _exact, "pdhg": _pdhg, "online": _online}


def _solution(counts: Counts, careful: Careful, start: Array, method: str) -> Solution:
    mdp = careful.mdp
    to_model = counts.support.to_model
    eta = SPREAD / mdp.num_states + to_model((1.0 - SPREAD) * start)
    return solve(mdp, method=method, weights=eta, distribution=frequencies(to_model(counts.visits), counts.total))


def _on_log(policy: TablePolicy, counts: Counts) -> TablePolicy:
    """The policy in the log's states, and undecided where the log never acted."""
    return counts.support.policy_to_log(policy, counts.visits.sum(axis=1) == 0)
