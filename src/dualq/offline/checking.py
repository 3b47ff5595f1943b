"""check: a policy is in use, and rows arrive. Is it followed, does it earn what was expected, did the system change?

Earning    With Q and V of the policy in the model that it was learned from, each new row (s, a, r, s') whose action the
           policy may take gives
               X = r + alpha V(s') - Q(s, a),        E(X | s, a) = 0 where the model is right
           With d the discounted time of the policy from the start, as the report has it, and f how often its pairs
           come up in the long run, both by the model, w = min(d / f, 5), and
               v + sum(w X) / sum(w) / (1 - alpha)
           is what the policy earns from the start, v what the model says, in the units of the report. Whatever states
           rows come from, their luck is taken out by V; rows of states in which the policy hardly is from the start
           (summer, where it starts in winter) count little, and where all are such nothing is known for long. A next
           state that never followed a pair is worth at most the best that did. The sum of w X is bounded at every
           number of rows at once (proof/anytime.py), w being known before X is: looking every day costs nothing. It
           is compared with
               expected   less what is luck in v, and z errors: what the old rows can be wrong by
               floor      the certificate's, where it is promised
               logged     what was done before, less z errors
           Half of LOOKS is the chance that the bound ever fails, half that the old rows are wrong by more than z
           errors. Errors grow by the factor of rows that share a day or an episode (careful/clusters.py).
Change     Counts of old and new rows are compared (logs/checks/between.py) when there are FIRST, 2 FIRST, 4 FIRST, ...
           new rows, the k-th time at the level CHANGE / (k (k + 1)): these add up to CHANGE however often one looks.
Following  the share of decisions that the policy may take;  unknown: rows whose state or action it never saw
More       the careful model of old and new rows together: does its policy earn clearly more than the one in use?

    stop          the floor does not hold, or it earns less than what was done before, or it is hardly followed
    learn again   it earns less than expected, the system changed, many states are new, or there is more to learn
    keep          else
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from dualq.base import LogError, count, door
from dualq.logs import Argument, Counts, Finding, Log, Moment, between
from dualq.model import MDP, TablePolicy, solve_chain
from dualq.offline.approximate.fit import NumberFit
from dualq.offline.careful.model import careful_model, pair_errors
from dualq.offline.careful.pooling import Rows
from dualq.offline.careful.selection_bias import Estimate
from dualq.offline.fit import Fit
from dualq.offline.joined import Recoding, check_alike, recodings
from dualq.offline.number_checking import NewRows, NumberEarning, changes, elsewhere, stated
from dualq.offline.shapes import CheckSummary, Elsewhere
from dualq.offline.summary import estimate_summary
from dualq.offline.together.iterated import SHARE_COUNTS, IterateFit
from dualq.offline.trust import NEXT_TO_NOTHING
from dualq.offline.updating import opened_like
from dualq.proof import RunningMean

Array = np.ndarray

LOOKS = 0.04  # chance of ever saying that it earns less than expected, where it does not
CHANGE = 0.01  # chance of ever saying that the system changed, where it did not
FIRST = 250  # new rows, at which change is looked for first
EFFECT = 0.2  # of what is expected: a loss that should be found soon
FOLLOWED, HARDLY = 0.9, 0.5  # of the decisions: fewer are said; fewer are no use of the policy
UNKNOWN = 0.05  # of the rows: more with unknown states or actions ask for learning again
LONG = 50.0  # times the horizon: a policy in use is watched for longer than its discount looks ahead
MOST_WEIGHT = 5.0
MOST = 5  # states that are listed
ORDER = ("stop", "learn again", "keep")
SAME = (
    "these are the rows that the policy was learned from: they say nothing of how it does in use; give those that came "
    "since"
)
Z = -float(ndtri(LOOKS / 2.0))


@door
@dataclass(frozen=True, eq=False)
class Check:
    """What the new rows say of a policy in use; `verdict` is "keep", "learn again" or "stop"."""

    verdict: str
    reasons: tuple[str, ...]  # clauses, the gravest first; what is fine comes last
    rows: int  # of the new log
    followed: float  # the share of its decisions that the policy may take, where it knows the state
    elsewhere: tuple[Elsewhere, ...]  # where it was not followed most often
    unknown: float  # the share of rows whose state or action the policy never saw
    judged: int  # rows from which earnings are told
    expected: Estimate  # what the policy should earn from the start, with its error: as the report of the run has them
    slack: float  # it is said to earn less than expected only where that is less by more than this
    earned: float | None  # what the new rows say that it earns; None where there are none
    interval: tuple[float, float] | None  # of it, however often one looks
    floor: float | None  # that was promised; None where nothing is
    logged: float  # what was done before
    drift: dict[str, Finding] = field(default_factory=dict, repr=False)  # between the old rows and the new
    gain: Estimate | None = None  # what learning again would earn more; None where that was not asked
    looks: float = LOOKS + CHANGE  # chance of a false alarm, however often one looks
    warnings: tuple[str, ...] = ()  # what to know before trusting the verdict

    @property
    def line(self) -> str:
        """The verdict in one line."""
        said = {"keep": "Keep", "learn again": "Learn again", "stop": "Stop and look"}[self.verdict]
        return f"{said}: {self.reasons[0]}."

    def summary(self) -> CheckSummary:
        """As plain values: what --json prints."""
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "rows": self.rows,
            "followed": self.followed,
            "elsewhere": list(self.elsewhere),
            "unknown": self.unknown,
            "judged": self.judged,
            "expected": estimate_summary(self.expected),
            "slack": self.slack,
            "earned": self.earned,
            "interval": None if self.interval is None else list(self.interval),
            "floor": self.floor,
            "logged": self.logged,
            "drift": {what: {"found": one.found, "p_value": one.p_value} for what, one in self.drift.items()},
            "gain": None if self.gain is None else estimate_summary(self.gain),
            "false_alarms": self.looks,
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        return "\n".join((f"Check: {self.line}", *(f"  {words}" for words in (*self.warnings, *self.reasons[1:]))))


@door
def check(fit: Fit | NumberFit | IterateFit, log: object, *, since: Moment | None = None, **columns: Argument) -> Check:
    """Whether a policy that is in use should stay: by the rows that came since.

    Parameters
    ----------
    fit : Fit
        What is in use, or `dualq.load("run/")`.
    log : Log, or anything that `read_log` reads
        The rows since then, all of them at every look; read as the log of the fit was.
    since : number, date or str, optional
        Use only rows from this time on.
    columns
        Of `read_log`, where the new log is written otherwise than the old one.

    Returns
    -------
    Check
        `.verdict`, `.reasons`, and the numbers behind them.

    Examples
    --------
    >>> import dataclasses, dualq
    >>> two = dualq.problems.two_state()
    >>> fit = dualq.learn(two.record(steps=2000, seed=1), discount=0.9)
    >>> in_use = dataclasses.replace(two, behaviour=fit.policy).record(steps=1000, seed=2)
    >>> dualq.check(fit, in_use).verdict
    'keep'
    """
    if isinstance(fit, IterateFit):
        raise LogError(f"a policy from iterates has no counts to compare with; {SHARE_COUNTS}")
    new = opened_like(fit, log, since=since, **columns)
    if isinstance(fit, NumberFit):
        found = judged_numbers(fit, NewRows.of(fit, new))
        again = new.source == fit.read.source and found.rows == fit.rows
        return dataclasses.replace(found, warnings=(SAME,) if again else ())
    check_alike(fit.counted, new)
    found = judged(fit, parts_of(new), ordered=new.has_order)
    return dataclasses.replace(found, warnings=_not_new(fit, new))


def _not_new(fit: Fit, new: Log) -> tuple[str, ...]:
    """What to say where new rows may be those that the policy was learned from: they fit it, whatever it is worth."""
    if new.counts().digest() == fit.counts.digest():
        return (SAME,)
    trace, then = new.trace(), fit.counted.span
    now = None if trace is None else trace.span
    if now is None or then is None or now[0] > then[1]:
        return ()
    words = "the new log begins before the rows end that the policy was learned from: rows of both say nothing new"
    return (f"{words}; give those that came since (--since)",)


def parts_of(log: Log) -> list[Counts]:
    """The counts of a log up to FIRST, 2 FIRST, ... rows, each without the rows before it; the rest comes last."""
    total = log.counts().total
    cuts = [FIRST * 2**k for k in range(64) if FIRST * 2**k < total]
    return log.counts_between([0, *cuts, total]) if log.has_order and cuts else [log.counts()]


def judged_numbers(fit: NumberFit, new: NewRows) -> Check:
    """The check of a policy over numbers."""
    expected, per = stated(fit), 1.0 / (1.0 - fit.discount)
    taken, judged_by, mean, (low, high) = NumberEarning.of(fit, LOOKS / 2.0, EFFECT).told_by(new.rows)
    found = Check(
        verdict="",
        reasons=(),
        rows=new.total,
        followed=float(taken.mean()) if taken.size else 0.0,
        elsewhere=elsewhere(fit, new.rows, taken, MOST),
        unknown=new.unknown,
        judged=judged_by,
        expected=expected,
        slack=Z * expected.error_or_nan,
        earned=expected.value + per * mean if judged_by else None,
        interval=(expected.value + per * low, expected.value + per * high) if judged_by else None,
        floor=None,
        logged=fit.logged.value,
        drift=changes(fit, new.rows, FIRST, CHANGE),
    )
    return _with_verdict(found)


def judged(fit: Fit, parts: Sequence[Counts], ordered: bool = True) -> Check:
    """The check, from the counts of new rows in time order, cut as `parts_of` does."""
    new = parts[0]
    for part in parts[1:]:
        new = new.merge(part)
    seen = Seen.of(fit, new)
    found = Earning.of(fit).told_by(fit, seen)
    drift, more = _changes(fit, seen, parts, ordered)
    return _with_verdict(dataclasses.replace(found, drift=drift, gain=more))


def _with_verdict(found: Check) -> Check:
    """The verdict of what was found, and its reasons, the gravest first."""
    alarms = [*_earning_reasons(found), *_following_reasons(found)]
    alarms += [("learn again", one.words) for what, one in found.drift.items() if what != "behaviour" and one.found]
    if found.unknown > UNKNOWN:
        words = f"{found.unknown:.0%} of the rows have states or actions that the policy never saw"
        alarms.append(("learn again", words))
    if found.gain is not None and _is_more(found.gain, found.expected):
        words = f"there is more to learn: about {found.gain.value:.4g} more, from old and new rows together"
        alarms.append(("learn again", words))
    verdict = next((word for word in ORDER if any(kind == word for kind, _ in alarms)), "keep")
    said = [words for word in ORDER for kind, words in alarms if kind == word]
    said = [_facts(found), *said] if verdict == "keep" else [*said, _facts(found)]
    return dataclasses.replace(found, verdict=verdict, reasons=tuple(said))


@dataclass(frozen=True, eq=False)
class Seen:
    """New counts, and where their labels stand among those of the policy; -1 for those that are new."""

    counts: Counts
    s: Array
    a: Array
    both: tuple[Recoding, Recoding]  # of the old labels and of the new, among all

    @classmethod
    def of(cls, fit: Fit, new: Counts) -> Seen:
        """Beside a fit."""
        old, now = recodings(fit.counts, new, fit.read.bins)
        return cls(new, _back(old.s, now.s, len(old.states)), _back(old.a, now.a, len(old.actions)), (old, now))


def _back(old: Array, new: Array, size: int) -> Array:
    back = np.full(size, -1, np.int64)
    back[old] = np.arange(old.size)
    return back[new]


# ---- what it earns


@dataclass(frozen=True, eq=False)
class Earning:
    """The policy's own values, and what is known of X before any new row comes."""

    V: Array  # (S,) over the log's states
    Q: Array  # (S, A) nan where the old rows never had the pair, or the policy never takes it
    best: Array  # (S, A) the largest V that followed a pair; 0 for an end
    weight: Array  # (S, A) w
    start: float  # v: the value at the start, by the model
    errors: Array  # (S, A) standard errors of r + alpha V(s')
    discount: float
    upper: RunningMean  # of w X
    lower: RunningMean  # of -w X

    @classmethod
    def of(cls, fit: Fit) -> Earning:
        """Of a fit."""
        careful, counts = fit.careful, fit.counts
        support, discount = counts.support, careful.mdp.discount
        policy = support.policy_to_model(fit.policy, careful.policy)
        model = careful.mdp.paying(np.where(careful.mdp.available, careful.mdp.rewards + careful.penalty, 0.0))
        everywhere = policy.value(model)
        errors = support.to_log(pair_errors(Rows.of(counts, discount), everywhere, careful.weight))
        taken = (counts.visits > 0) & (fit.policy.matrix > 0.0)
        V, Q = support.to_log(everywhere), np.where(taken, support.to_log(model.q_values(everywhere)), np.nan)
        best, weight = _best(counts, V), _weights(fit, policy, model)
        (low, high), factor = counts.reward_range, fit.modelled.shared[0] ** 2
        share = fit.time_share[:, None] * fit.policy.matrix * weight  # f w^2
        variance = np.where(taken, np.minimum(errors, 1e150) ** 2 * np.maximum(counts.visits, 1) * share, 0.0).sum()
        known = {
            "variance": float(variance) * factor,
            "effect": 0.5 * EFFECT * (1.0 - discount) * abs(fit.expected.value) or 1e-6,
            "delta": LOOKS / 2.0,
        }
        worst = min(0.0, discount * float(V.min()))
        tops = (weight * (high + discount * best - Q), weight * (Q - low - worst))
        upper, lower = (RunningMean(np.nan_to_num(np.maximum(top, 1e-12)).ravel(), **known) for top in tops)
        return cls(V, Q, best, weight, float(fit.start @ V), errors, discount, upper, lower)

    def sums(self, seen: Seen) -> tuple[Array, float, Array]:
        """(S, A) rows, sum of w X, and (S, A) sums of (w X)^2, over the rows whose decision the policy may take."""
        new, (S, A) = seen.counts, self.Q.shape
        s, a, s_next = seen.s[new.s], seen.a[new.a], seen.s[new.s_next]
        used = np.pad(np.isfinite(self.Q), ((0, 1), (0, 1)))[s, a]  # the place -1 is the last: nothing is known there
        s, a, s_next, ended = s[used], a[used], s_next[used], new.ended[used]
        after = np.where(s_next >= 0, np.minimum(self.V[s_next], self.best[s, a]), self.best[s, a])
        shift = np.where(ended, 0.0, self.discount * after) - self.Q[s, a]
        n, r, r2, w = new.n[used], new.reward_sum[used], new.reward_square_sum[used], self.weight[s, a]
        squares = w**2 * (r2 + 2.0 * shift * r + n * shift**2)
        rows, squares = (np.bincount(s * A + a, x, S * A).reshape(S, A) for x in (n, squares))
        return rows, float(w @ (r + n * shift)), squares

    def told_by(self, fit: Fit, seen: Seen) -> Check:
        """What is known of the policy by new rows; no verdict yet."""
        rows, total, squares = self.sums(seen)
        spread = (squares * fit.modelled.shared[0] ** 2).reshape(-1, 1)
        n, each = float(rows.sum()), rows.reshape(-1, 1)
        weight = float((rows * self.weight).sum())
        per = n / weight / (1.0 - self.discount) if weight > 0.0 else np.inf  # of the mean of w X
        high = float(self.upper.at_most(each, np.array([total]), spread)[0])
        low = -float(self.lower.at_most(each, np.array([-total]), spread)[0])
        told = n > 0 and weight > 0.0
        followed, elsewhere, unknown = _followed(fit, seen)
        return Check(
            verdict="",
            reasons=(),
            rows=seen.counts.total,
            followed=followed,
            elsewhere=elsewhere,
            unknown=unknown,
            judged=int(n),
            expected=_stated(fit),
            slack=Z * self.allowed(fit, rows).error_or_nan,
            earned=self.start + per * total / n if told else None,
            interval=(self.start + per * low, self.start + per * high) if told else None,
            floor=fit.certificate.lower if fit.promised and fit.certificate is not None else None,
            logged=fit.careful.logged.value,
        )

    def allowed(self, fit: Fit, rows: Array) -> Estimate:
        """What was expected, with the larger of two errors: as the report gives it, and for the pairs that came."""
        share = rows * self.weight
        share = share / max(float(share.sum()), np.finfo(float).tiny)
        here = np.where(rows > 0, share * np.minimum(self.errors, 1e150), 0.0)
        own = fit.modelled.shared[0] * float(np.linalg.norm(here)) / (1.0 - self.discount)
        return Estimate(fit.expected.value, max(own, _stated(fit).standard_error or 0.0))


def _stated(fit: Fit) -> Estimate:
    """What the report says is expected, with the error of the model where a doubt took that of the report away."""
    return Estimate(fit.expected.value, fit.expected.standard_error or fit.careful.expected.standard_error)


def _best(counts: Counts, V: Array) -> Array:
    """(S, A) the largest value of a state that followed the pair, or 0 where it ended."""
    best = np.full(counts.shape, -np.inf)
    np.maximum.at(best, (counts.s, counts.a), np.where(counts.ended, 0.0, V[counts.s_next]))
    return np.where(np.isfinite(best), best, V.max(initial=0.0))


def _weights(fit: Fit, policy: TablePolicy, model: MDP) -> Array:
    """(S, A) w = d / f, at most MOST_WEIGHT; 0 where the policy never is."""
    support, long = fit.counts.support, 1.0 - (1.0 - model.discount) / LONG
    P, _ = policy.chain(model)
    time = support.to_log(solve_chain(P, long, support.to_model(fit.start), transpose=True))
    time = np.where(fit.counts.visits.any(axis=1), np.maximum(time, 0.0), 0.0)
    f = time / max(time.sum(), 1e-300)
    w = np.where(f > 0.0, fit.time_share / np.where(f > 0.0, f, 1.0), 0.0)
    return np.minimum(w, MOST_WEIGHT)[:, None] * np.ones(fit.counts.shape)


def _followed(fit: Fit, seen: Seen) -> tuple[float, tuple[Elsewhere, ...], float]:
    """The share of decisions that the policy may take; where it took others; the share of unknown states or actions."""
    new, s, a, policy = seen.counts, seen.s, seen.a, fit.policy.matrix
    visits, known = new.visits.astype(float), s >= 0
    allowed = np.pad(policy > 0.0, ((0, 1), (0, 1)))[np.ix_(s, a)]
    off = np.where(allowed, 0.0, visits).sum(axis=1) * known
    elsewhere = tuple(
        Elsewhere(
            state=new.states.named(i),
            rows=int(visits[i].sum()),
            not_followed=int(off[i]),
            policy=fit.counts.actions.named(int(policy[s[i]].argmax())),
            instead=new.actions.named(int(np.where(allowed[i], -1.0, visits[i]).argmax())),
        )
        for i in np.argsort(-off, kind="stable")[:MOST]
        if off[i] > 0
    )
    rows, strange = visits[known].sum(), visits[~known].sum() + visits[known][:, a < 0].sum()
    return float(1.0 - off.sum() / rows) if rows else 0.0, elsewhere, float(strange / max(visits.sum(), 1.0))


# ---- did it change, is there more to learn?


def _changes(
    fit: Fit, seen: Seen, parts: Sequence[Counts], ordered: bool
) -> tuple[dict[str, Finding], Estimate | None]:
    """Of each kind the test that found most, at FIRST, 2 FIRST, ... rows; and what the last of these can teach.

    Rows without an order are tested all at once, at the whole level: then every look counts.
    """
    old, now = seen.both[0].counts(fit.counts), None
    found: dict[str, Finding] = {}
    for k, part in enumerate(parts):
        part = seen.both[1].counts(part)
        until = part if now is None else now.merge(part)
        if ordered and until.total != FIRST * 2**k:
            break  # rows since the last look that counts
        now = until
        for what, one in between(old, now, CHANGE / ((k + 1) * (k + 2)) if ordered else CHANGE).items():
            before = found.get(what)
            if before is None or (one.found, -one.p_value) > (before.found, -before.p_value):
                found[what] = one
    return found, None if now is None or fit.limits else _more(fit, old, now)


def _more(fit: Fit, old: Counts, new: Counts) -> Estimate:
    """What the policy of old and new rows together earns over the one in use, in their careful model."""
    both = old.merge(new)
    start = np.zeros(len(both.states))
    start[[both.states.index(label) for label in fit.counts.states]] = fit.start
    careful = careful_model(both, fit.modelled.discount, start, fit.careful.pessimism)
    model = careful.mdp.paying(np.where(careful.mdp.available, careful.mdp.rewards + careful.penalty, 0.0))
    matrix = careful.policy.matrix.copy()
    rows = [both.states.index(label) for label in fit.counts.states]
    kept = np.zeros((len(rows), len(both.actions)))
    kept[:, [both.actions.index(label) for label in fit.counts.actions]] = fit.policy.matrix
    can = model.available[rows] | (kept == 0.0)
    matrix[rows] = np.where(can.all(axis=1)[:, None], kept, matrix[rows])
    in_use = TablePolicy(matrix, model.states, model.actions)
    at = both.support.to_model(start)
    apart = careful.policy.occupancy(model, at) - in_use.occupancy(model, at)
    gain = float(at @ (careful.policy.value(model) - in_use.value(model)))
    error = float(np.linalg.norm(np.where(apart != 0.0, apart * np.minimum(careful.error, 1e150), 0.0)))
    return Estimate(max(0.0, careful.reliability) * gain, error)


def _is_more(more: Estimate, expected: Estimate) -> bool:
    return more.value > max(2.0 * more.error_or_nan, NEXT_TO_NOTHING * abs(expected.value))


# ---- in words


def _earning_reasons(found: Check) -> list[tuple[str, str]]:
    """(verdict, reason) of what it earns."""
    if found.interval is None:
        return []
    high, slack = found.interval[1], found.slack
    at_most = f"at most {high:.4g}, however often you look"
    if found.floor is not None and high < found.floor:
        return [("stop", f"the floor does not hold: it earns {at_most}, and {found.floor:.4g} was guaranteed")]
    if high < found.logged - slack and found.logged < found.expected.value:
        return [("stop", f"it earns less than what was done before: {at_most}, and that earned {found.logged:.4g}")]
    if high < found.expected.value - slack:
        said = f"{_number(found.expected)} was expected"
        return [("learn again", f"it earns less than expected: {at_most}, and {said}")]
    return []


def _following_reasons(found: Check) -> list[tuple[str, str]]:
    if found.followed >= FOLLOWED:
        return []
    words = f"only {found.followed:.0%} of {count(found.rows, 'decision')} are those of the policy"
    if found.elsewhere:
        most = found.elsewhere[0]
        wanted, taken, state = (
            ", ".join(f"{name} {value}" for name, value in most[part].items())
            for part in ("policy", "instead", "state")
        )
        words += f"; most others in {state}" if state else f"; most often {taken} was taken instead of {wanted}"
    return [("stop" if found.followed < HARDLY else "keep", words)]


def _facts(found: Check) -> str:
    """What the new rows say of the earnings."""
    if found.interval is None or found.earned is None:
        return "no new row shows what the policy earns, and none speaks against it"
    low, high = found.interval
    between_them = f"{low:.4g} to {high:.4g}, however often you look"
    expected = f"{_number(found.expected)} was expected"
    return f"judged by {found.judged:,} rows it earns {found.earned:.4g} ({between_them}), and {expected}"


def _number(e: Estimate) -> str:
    return f"{e.value:.4g}" if e.standard_error is None else f"{e.value:.4g} ± {e.standard_error:.2g}"
