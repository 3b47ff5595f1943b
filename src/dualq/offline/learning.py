"""The main job, on one page: log -> counts -> careful model -> saddle point -> certificate -> Fit.

    read      opens the log: which column is what, and what was understood of it
    count     counts it, and says what it cannot tell
    model     the empirical model, pooled and penalised where the log is thin (careful/model.py)
    solve     its saddle point: Q, V, lambda, mu; with limits, inside them as far as a promise needs (limited/)
    prove     what can be promised of the policy, and of any policy (docs/certificate.md)

Each makes a frozen value from the one before (stages.py). No propensities and no simulator are needed: whatever
behaviour left the log, however it drifted, its rows are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from dualq.base import LogError, door
from dualq.logs import Argument, Start
from dualq.offline.approximate.asked import Asked as NumberTask
from dualq.offline.approximate.asked import Known, check_approximation, check_is_for_numbers, is_of_numbers
from dualq.offline.approximate.own_features import FeaturesGiven, check_features
from dualq.offline.fit import Fit
from dualq.offline.limited.parsing import LimitsGiven
from dualq.offline.stages import check_words, count, model, prove, read, solve
from dualq.proof import Ledger, one_of

if TYPE_CHECKING:
    from dualq.offline.approximate.fit import NumberFit


@door
def learn(
    log: object,
    *,
    discount: float = 0.95,
    confidence: float = 0.95,
    start: Start = None,
    pessimism: float | None = None,
    certificate: str | None = "proven",
    solver: str = "exact",
    limits: LimitsGiven | None = None,
    margin: str = "certified",
    value_range: tuple[float, float] | None = None,
    looks: int = 1,
    assume: str | Iterable[str] = (),
    approximation: str = "auto",
    features: FeaturesGiven | None = None,
    progress: Callable[[str], None] | None = None,
    **columns: Argument,
) -> Fit | NumberFit:
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
    looks         how often you look at this log in all, with other discounts, periods, columns or bins: one certificate
                  does not cover several looks, and each of so many gets its part of 1 - confidence
    assume        what you vouch for where the log cannot tell: "set aside" (the rows set aside are like the others)
    approximation what to do where columns of the state are numbers that hardly come again: "table" (they must be cut
                  into bins), "partition" (cells that dualq finds), "linear" (features), "neural" (small networks), or
                  "auto" (all of these, the best is chosen; a table where states are labels or bins). All but a table
                  give a `NumberFit`
    features      of the state, for the linear learner: "waves" (random Fourier features, the default), "splines" (each
                  number bends by itself), a function of {column: values} that gives numbers for each row, or a
                  transformer with fit and transform; with the last two a fit cannot be saved
    progress      called with the name of each stage when it begins, and of its parts where the log is large; what it
                  raises stops the work there, and nothing is left half done
    columns       of `read_log`, where `log` is not opened yet: state=..., action=..., reward=..., ...
    """
    begin = progress or (lambda stage: None)
    assumed = [assume] if isinstance(assume, str) else list(assume)
    check_words(solver, confidence, certificate, limits, assumed, pessimism)
    one_of(looks, Ledger(1.0 - confidence))
    check_approximation(approximation)
    given = check_features(features)
    opened = read(log, discount, approximation, **columns)
    if is_of_numbers(opened, approximation):
        other = {"solver": None if solver == "exact" else solver, "margin": None if margin == "certified" else margin}
        check_is_for_numbers(pessimism=pessimism, **other)
        known = Known(value_range, looks, tuple(assumed))
        asked = NumberTask(approximation, discount, confidence, start, limits, certificate, known, given)
        asked.check_features()
        asked.check_known(columns.get("reward_range"), columns.get("cost_ranges"))
        from dualq.offline.approximate.learning import learn_numbers  # tables need none of it

        return learn_numbers(opened, asked, begin)
    if given is not None:
        raise LogError("features is for states made of numbers, and this log's are labels; leave it out")
    begin("Counting the log's rows")
    counted = count(opened, start, discount)
    begin("Learning (the first run also compiles)")
    modelled = model(counted, discount, pessimism, begin)
    if limits is not None:
        begin("Looking for a policy whose limits can be promised")
    solved = solve(modelled, solver, limits, margin, confidence, certificate, looks)
    if certificate is not None:
        begin("Proving floor and ceiling")
    return Fit(prove(solved, confidence, certificate, value_range, assumed, looks, begin))
