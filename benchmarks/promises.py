"""How often the certificate's promises hold, on problems with a known truth, and how wide they are.

uv run --all-extras --group bench python benchmarks/promises.py [--replications 1000] [--only PART] [--first 0]
                                                                [--kept FILE]

PART is sharp, widths, coverage, reading or bins. With --kept coverage writes what each log said to a file, a line a
log, and the table after each case; the same command goes on where it was stopped.

Each replication records a new log, takes the plug-in optimum of that log as the policy, and asks for floor and ceiling.
"Broken" counts replications where any of the certificate's bounds (floor, ceilings, the behaviour's interval; at the
start, in every state, and where the log's decisions were taken) was wrong. Beside it, how often
the plug-in value promised too much, and how often the bootstrap's floor or ceiling at the start was wrong (on fewer
replications, it is slow).

sharp: the bars of the policy's own value: the shipped log, logs like it, limits, adaptive logs, and the martingale
itself, whose mean at the truth is at most 1.

reading: logs that are easily misread (tests/misread.py), read as a new user would: is anything promised that is false,
and is the right warning given? bins: numbers cut into bins, how often the truth is within two of the errors that are
printed.
"""

import argparse
import functools
import json
import sys
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
from common import markdown, publish
from scipy.stats import binom

import dualq
from dualq import problems
from dualq.proof.evidence import evidence_of, merged_counts
from dualq.proof.martingale import log_martingale
from dualq.proof.own_rows import own_rows
from dualq.proof.own_value import aims_of, decided_start, foresighted
from dualq.proof.questions import question_of
from dualq.worlds import sample_log

sys.path.append(str(Path(__file__).parent.parent / "tests"))
import misread

DELTA = 0.05
ALARM = 1e-3  # one-sided binomial


def noisy(simulator, width=0.1):
    """The same problem with rewards uniform on +-width around their means."""
    mdp = simulator.mdp
    means = np.repeat(mdp.rewards.ravel(), np.diff(mdp.indptr))
    bound = (mdp.reward_range[0] - width, mdp.reward_range[1] + width)
    wider = dualq.MDP(mdp.transitions, mdp.rewards, mdp.discount, reward_bound=bound)
    return dualq.Simulator(wider, simulator.behaviour, simulator.start, simulator.source, means - width, means + width)


def drifting(simulator, drift):
    return dualq.Simulator(
        simulator.mdp,
        simulator.behaviour,
        simulator.start,
        simulator.source,
        simulator.reward_low,
        simulator.reward_high,
        drift,
    )


def greedy(counts, mdp):
    matrix = dualq.solve(counts.mdp(mdp.discount)).primal_policy.matrix[: mdp.num_states] * mdp.available
    # in states that the log never left the empirical model has every action, the true one may not
    matrix = np.where(matrix.any(axis=1, keepdims=True), matrix, mdp.available)
    return dualq.TablePolicy(matrix / matrix.sum(axis=1, keepdims=True), mdp.states, mdp.actions)


def two_state():
    return problems.two_state()


def two_state_wandering():
    base = two_state()
    return drifting(base, dualq.wandering(dualq.TablePolicy([[0.9, 0.1], [0.05, 0.95]]), 2.0))


def garnet():
    return noisy(problems.garnet(20, 4, 5, discount=0.9, seed=0))


def garnet_settling():
    base = garnet()
    skewed = np.tile([0.7, 0.1, 0.1, 0.1], (20, 1))
    return drifting(base, dualq.settling(dualq.TablePolicy(skewed), 0.3))


def frozen_lake():
    return problems.gym("FrozenLake-v1", discount=0.9)


def inventory():
    return problems.inventory(capacity=4, lot=2, demand={"low": 1.0, "high": 3.0}, discount=0.9)


def inventory_84():
    return problems.inventory()


def icu_sepsis():
    return problems.icu_sepsis()


class Adaptive:
    """Rows of two_state by someone who leaves an action alone as soon as it has paid less than the other so far."""

    def __init__(self):
        base = problems.two_state()
        self.mdp, self.start = base.mdp, np.full(2, 0.5)

    def record(self, rows, seed):
        mdp, rng = self.mdp, np.random.default_rng(seed)
        P, s = mdp.transitions.toarray().reshape(2, 2, 2), 0
        paid, tried, found = np.zeros((2, 2)), np.ones((2, 2)), []
        for _ in range(rows):
            a = int(np.argmax(paid[s] / tried[s])) if rng.random() < 0.8 else int(rng.integers(2))
            to = int(rng.random() < P[s, a, 1])
            r = float(mdp.rewards[s, a]) + (to - P[s, a, 1])  # a reward that tells what came next
            paid[s, a] += r
            tried[s, a] += 1.0
            found.append((s, a, r, to))
            s = to
        columns = (np.array(column) for column in zip(*found, strict=True))
        return dualq.ArrayLog(*columns, 2, 2, reward_range=(0.0, 4.0))


def adaptive():
    return Adaptive()


class Stopped(Adaptive):
    """The same, and whoever records it stops when an action has paid most above what it pays in truth."""

    def record(self, rows, seed):
        log = super().record(rows, seed)
        over = np.cumsum(log.reward - self.mdp.rewards[log.state, log.action]) / np.sqrt(np.arange(1, rows + 1))
        end = rows // 2 + int(np.argmax(over[rows // 2 :])) + 1
        columns = (column[:end] for column in (log.state, log.action, log.reward, log.next_state))
        return dualq.ArrayLog(*columns, 2, 2, reward_range=(0.0, 4.0))


def stopped():
    return Stopped()


# what is known of values beyond the rewards' range: only the end pays, and it pays 1
KNOWN = {frozen_lake: (0.0, 1.0), icu_sepsis: (0.0, 1.0)}

CASES = [
    (two_state, (100, 3_000, 100_000), 1),
    (two_state_wandering, (30_000,), 1),
    (garnet, (300, 10_000, 100_000), 1),
    (garnet_settling, (30_000,), 1),
    (frozen_lake, (300, 3_000, 30_000), 1),
    (inventory, (300, 3_000, 30_000), 1),
    (adaptive, (3_000,), 1),
    (stopped, (6_000,), 1),
    (icu_sepsis, (100_000,), 100),
]


@functools.cache
def _truth(problem):
    simulator = problem()
    return simulator, dualq.solve(simulator.mdp).V


def replication(problem, size, seed, bootstrap):
    """What one log promised and whether it was true."""
    simulator, best = _truth(problem)
    mdp, eta = simulator.mdp, simulator.start
    log = simulator.record(size, seed)
    blocks = dualq.counts_in_blocks(log)
    counts = merged_counts(blocks)
    policy = greedy(counts, mdp)
    ask = (policy, mdp.discount, eta)
    given = {"value_range": KNOWN.get(problem), "available": mdp.available}
    certificate = dualq.certificate_of(blocks, *ask, **given)
    value = policy.value(mdp)
    n = np.where(counts.visits.any(axis=1, keepdims=True), counts.visits, mdp.available)
    usual = dualq.TablePolicy(n / n.sum(axis=1, keepdims=True), mdp.states, mdp.actions).value(mdp)
    table, rounding = certificate.per_state, 1e-7 * np.abs(best).max()
    low, high = certificate.behaviour
    broken_floor = certificate.lower > eta @ value + rounding
    broken_ceiling = certificate.upper < eta @ best - rounding
    joint = (
        broken_floor
        or broken_ceiling
        or certificate.policy_upper < eta @ value - rounding
        or _over(certificate, counts, mdp, value) > rounding
        or not low - rounding <= eta @ usual <= high + rounding
        or (table["lower"] > value + rounding).any()
        or (table["upper"] < best - rounding).any()
        or (table["behaviour_low"] > usual + rounding).any()
        or (table["behaviour_high"] < usual - rounding).any()
    )
    result = [
        broken_floor,
        broken_ceiling,
        joint,
        certificate.estimate > eta @ value + rounding,
        certificate.regret,
        eta @ value - certificate.lower,
        certificate.informative,
        np.nan,
        np.nan,
    ]
    if bootstrap:
        second = dualq.certificate_of(counts, *ask, **given, method="bootstrap", seed=seed)
        result[-2] = second.lower > eta @ value + rounding or second.upper < eta @ best - rounding
        result[-1] = second.regret
    return result


AT_ONCE = 20  # logs, after which they are kept


class Kept:
    """What was found of each log, in a file that the same command goes on with; in memory alone where there is none."""

    def __init__(self, path):
        self.path, self.found = path, {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                case, size, seed, *outcome = json.loads(line)
                self.found[case, size, seed] = outcome

    def add(self, case, size, seeds, outcomes):
        new = {(case, size, seed): [float(x) for x in outcome] for seed, outcome in zip(seeds, outcomes, strict=True)}
        self.found |= new
        if self.path is not None:
            with self.path.open("a") as file:
                file.writelines(json.dumps([*key, *outcome]) + "\n" for key, outcome in new.items())


def coverage(seeds, jobs, bootstraps=100, kept=None):
    rows, begun, store = [], time.process_time(), Kept(kept)
    side_by_side = joblib.Parallel(n_jobs=jobs, backend="multiprocessing" if jobs > 1 else "sequential")
    for problem, sizes, fewer in CASES:
        mine = seeds[: max(len(seeds) // fewer, 1)]
        with_bootstrap = set(mine[: min(len(mine), 2 if fewer > 1 else bootstraps)])
        for size in sizes:
            name = problem.__name__
            todo = [seed for seed in mine if (name, size, seed) not in store.found]
            for some in (todo[i : i + AT_ONCE] for i in range(0, len(todo), AT_ONCE)):
                asked = (joblib.delayed(replication)(problem, size, s, s in with_bootstrap) for s in some)
                store.add(name, size, some, side_by_side(asked))
            rows.append(_covered(name, size, np.array([store.found[name, size, seed] for seed in mine])))
            print(f"{time.process_time() - begun:5.0f} CPU s", *rows[-1], sep=" | ", file=sys.stderr, flush=True)
            if kept is not None:
                _publish_coverage(rows)
    _publish_coverage(rows)


def _covered(name, size, outcomes):
    """A row of the table."""
    broken = outcomes[:, :3].sum(axis=0).astype(int)
    most = int(binom.isf(ALARM, len(outcomes), DELTA))  # more than this would be evidence against 1 - delta
    boots = outcomes[~np.isnan(outcomes[:, 7])]
    return (
        name,
        f"{size:,}",
        len(outcomes),
        *broken,
        f"{most}: {'kept' if broken[2] <= most else 'BROKEN'}",
        f"{outcomes[:, 3].mean():.0%}",
        f"{boots[:, 7].mean():.0%} of {len(boots)}" if len(boots) else "",
        f"{np.median(outcomes[:, 4]):.3g}",
        f"{np.median(outcomes[:, 5]):.3g}",
        f"{np.median(boots[:, 8]):.3g}" if len(boots) else "",
        f"{outcomes[:, 6].mean():.0%}",
    )


def _publish_coverage(rows):
    header = (
        "problem",
        "rows",
        "logs",
        "floor broken",
        "ceiling broken",
        "any bound broken",
        f"allowed at delta = {DELTA}",
        "plug-in promised too much",
        "bootstrap broken",
        "regret, median",
        "truth - floor, median",
        "bootstrap's regret",
        "informative",
    )
    text = (
        "Simulated logs with a known truth, confidence .95, the policy is the plug-in optimum of the same log.\n"
        "`allowed` is how many broken logs a one-sided binomial test at 1e-3 would still accept; `any bound` counts\n"
        "floor, ceilings and the behaviour's interval, at the start and in every state, and the floor where the log's\n"
        "decisions were taken. FrozenLake and ICU-Sepsis are given the value range [0, 1]. adaptive: two_state, by\n"
        "one who leaves an action alone as soon as it has paid less; stopped: the same, ended by looking when rewards\n"
        "were luckiest.\n\n"
    )
    publish("The certificate: how often its promises hold", text + markdown(header, rows))


# ---- widths


def weissman(counts, policy, mdp, eta):
    """The plain robust regret bound: an L1 ball around every row of P^ (Weissman et al., 2003), Hoeffding for rewards.

    At the final counts, as if they were not random: in favour of this bound.
    """
    S, A = counts.shape
    n = counts.visits.astype(float)
    low, high = counts.reward_range
    level = np.log(4.0 * S * A / DELTA)
    reward_radius = (high - low) * np.sqrt(level / (2.0 * n))
    radius = np.sqrt(2.0 * (level + S * np.log(2.0)) / n)
    model = counts.mdp(mdp.discount)
    P, R = model.transitions.toarray().reshape(S, A, S), model.rewards

    def worst(V):  # move radius/2 of the mass from the best states to the worst one
        order = np.argsort(-V)
        before = np.cumsum(P[:, :, order], axis=2)
        kept = np.maximum(before - radius[:, :, None] / 2.0, 0.0)
        taken = np.minimum(radius / 2.0, before[:, :, -1])
        q = np.diff(kept, axis=2, prepend=0.0) @ V[order] + taken * V.min()
        return q

    def fixed_point(backup):
        V = np.zeros(S)
        for _ in range(int(30.0 / (1.0 - mdp.discount))):
            V = backup(V)
        return V

    floor = fixed_point(lambda V: (policy.matrix * (R - reward_radius + mdp.discount * worst(V))).sum(axis=1))
    ceiling = fixed_point(lambda V: (R + reward_radius - mdp.discount * worst(-V)).max(axis=1))
    limits = (low / (1.0 - mdp.discount), high / (1.0 - mdp.discount))
    return float(eta @ np.clip(ceiling, *limits) - eta @ np.clip(floor, *limits))


def widths():
    def garnets(discount):
        return [noisy(problems.garnet(20, 4, 5, discount=discount, seed=seed)) for seed in range(5)]

    groups = [
        ("two_state", [two_state()], (10_000, 100_000, 1_000_000), {100_000: 0.5}),
        ("Garnet .9", garnets(0.9), (100_000, 1_000_000), {1_000_000: 0.2}),
        ("Garnet .99", garnets(0.99), (100_000, 1_000_000), {1_000_000: 2.0}),
    ]
    rows = []
    for name, simulators, sizes, targets in groups:
        for size in sizes:
            found = []
            for seed, simulator in enumerate(simulators if len(simulators) > 1 else simulators * 5):
                mdp, eta = simulator.mdp, simulator.start
                log = simulator.record(size, seed)
                counts, blocks = log.counts(), dualq.counts_in_blocks(log)
                policy = greedy(counts, mdp)
                full = dualq.certificate_of(blocks, policy, mdp.discount, eta)
                single = dualq.certificate_of(counts, policy, mdp.discount, eta)
                plain = weissman(counts, policy, mdp, eta)
                error = eta @ policy.value(mdp) - full.lower
                found.append((full.regret, error, single.regret, plain, plain / full.regret))
            regret, error, single, plain, ratio = np.median(found, axis=0)
            spread = f"{min(f[0] for f in found):.3g} to {max(f[0] for f in found):.3g}"
            target = targets.get(size, "")
            rows.append(
                (
                    name,
                    f"{size:,}",
                    f"{regret:.3g} ({spread})",
                    target,
                    f"{error:.3g}",
                    f"{single:.3g}",
                    f"{plain:.3g}",
                    f"{ratio:.1f}",
                )
            )
    header = ("problem", "rows", "regret", "target", "truth - floor", "one block", "L1 (Weissman)", "L1 / regret")
    publish(
        "The certificate: how wide it is",
        "Trajectories, uniform behaviour on Garnet(20, 4, 5) with reward noise uniform on ±.1; medians over five\n"
        "(seeds 0 to 4 of the model; on two_state five logs), with their range. One block: from plain counts.\n\n"
        + markdown(header, rows),
    )


# ---- the policy's own value


def like_the_shipped_one(seed):
    """(floor, ceiling, truth, floor less truth where decisions were taken, gain) of a log like the shipped one."""
    log = dualq.read_log(sample_log.draw(seed), **sample_log.COLUMNS)
    fit = dualq.learn(log)
    c, decided = fit.certificate, decided_start(fit.counts, fit.modelled.discount).e
    over = c.lower_decided - _true_value(fit, fit.policy.matrix, decided)
    return c.lower, c.policy_upper, _true_value(fit, fit.policy.matrix), over, c.gain


def _over(found, counts, mdp, value):
    """How far the floor where decisions were taken is above the truth: never, in 1 - delta of logs."""
    decided = decided_start(counts, mdp.discount)
    return -1.0 if decided is None else found.lower_decided - float(decided.e @ value)


def _true_value(fit, matrix, start=None):
    """Of a policy on a log's states, in the model that the shipped log was drawn from."""
    mdp = sample_log.truth().mdp
    states = [list(fit.counts.states).index(label) for label in mdp.states]
    actions = [list(fit.counts.actions).index(label) for label in mdp.actions]
    policy = np.where(mdp.available, matrix[np.ix_(states, actions)], 0.0)
    return float((fit.start if start is None else start)[states] @ dualq.TablePolicy(policy).value(mdp))


def simulated_case(problem, size, seed):
    simulator, _ = _truth(problem)
    blocks = dualq.counts_in_blocks(simulator.record(size, seed))
    counts = merged_counts(blocks)
    policy = greedy(counts, simulator.mdp)
    found = dualq.certificate_of(
        blocks, policy, simulator.mdp.discount, simulator.start, value_range=KNOWN.get(problem)
    )
    value = policy.value(simulator.mdp)
    over = _over(found, counts, simulator.mdp, value)
    return found.lower, found.policy_upper, float(simulator.start @ value), over, found.regret


def at_the_truth(problem, size, seed):
    """M of the best policy, at its true value."""
    simulator, V = _truth(problem)
    mdp = simulator.mdp
    log = simulator.record(size, seed)
    policy = dualq.solve(mdp).primal_policy.matrix
    ask = question_of(log.counts(), dualq.TablePolicy(policy), mdp.discount, simulator.start, 0.95)
    parts = foresighted(dualq.counts_in_blocks(log))
    ev = evidence_of(parts, log.counts())
    rows = own_rows(ev, policy, simulator.start, mdp.discount)
    q = mdp.q_values(V).ravel()[rows.pairs]
    decided = decided_start(log.counts(), mdp.discount).start
    aims = aims_of(ask, parts[0], decided, beside=True)
    known = (aims, mdp.reward_range, ev.possible, np.append(V, 0.0), q)
    return float(np.exp(log_martingale(rows, *known, -np.log(0.02))))


def certifiable(problem, size, start="log"):
    """Of the policy that is certified best: the rows of its pairs, floor, truth; and the careful policy's floor."""
    simulator = problem()
    log = simulator.record(size, 0)
    ask = {"discount": simulator.mdp.discount, "start": start, "value_range": KNOWN.get(problem)}
    fit = dualq.learn(log, **ask)
    one = max(fit.alternatives, key=lambda one: one.lower)
    truth = fit.start @ dualq.TablePolicy(one.policy.matrix).value(simulator.mdp)
    first = "" if one.first is None else f" of the first {one.first:,}"
    return f"pairs >= {one.rows} rows{first}: {one.lower:.4g}, {truth:.4g}; {fit.certificate.lower:.4g}"


def sharp(seeds, jobs):
    fit = dualq.learn(str(sample_log.path()), **sample_log.COLUMNS)
    limited = fit.with_limits({"stockout": 0.20})
    promise = fit.certificate
    worth = _true_value(fit, limited.policy.matrix)
    rows = [
        ("shipped log: floor", f"{promise.lower:.2f}", ">= 36"),
        ("shipped log: the policy's ceiling", f"{promise.policy_upper:.2f}", "<= 45"),
        ("shipped log: ceiling over pairs with >= 30 rows", f"{promise.ceilings['30']:.2f}", "<= 52"),
        ("shipped log: proven to be more than the log earned", f"{promise.gain:.2f}", ">= 15"),
        ("shipped log: proven to be more than n(s, a) / n(s) as a policy", f"{promise.improvement:.2f}", ""),
        ("shipped log: stockout <= .20 promised, true value", f"{worth:.2f}, {limited.limits_kept}", ">= 39"),
    ]

    what = "inventory_84, 1,000,000 rows: best certified policy, its truth; the careful one's floor"
    rows.append((what, certifiable(inventory_84, 1_000_000), ">= 120"))
    what = "icu_sepsis, 1,000,000 rows: best certified policy, its truth; the careful one's floor"
    rows.append((what, certifiable(icu_sepsis, 1_000_000, None), ">= .6"))

    def side_by_side(what, asked):
        found = np.array(joblib.Parallel(n_jobs=jobs, batch_size=5)(asked))
        wrong = (found[:, 0] > found[:, 2]) | (found[:, 1] < found[:, 2]) | (found[:, 3] > 0.0)
        broken = int(wrong.sum())
        rows.append((f"{what}: broken", f"{broken} of {len(found)}", f"<= {int(binom.isf(ALARM, len(found), DELTA))}"))
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
        return found

    found = side_by_side("logs like the shipped one", (joblib.delayed(like_the_shipped_one)(10_000 + s) for s in seeds))
    rows.append(("logs like the shipped one: floor, median", f"{np.median(found[:, 0]):.2f}", ">= 35"))
    rows.append(("logs like the shipped one: ceiling, truth, medians",
                 f"{np.median(found[:, 1]):.2f}, {np.median(found[:, 2]):.2f}", ""))  # fmt: skip
    rows.append(("logs like the shipped one: more than the log earned, median", f"{np.median(found[:, 4]):.2f}", ""))
    for problem, size in ((garnet, 100_000), (two_state, 100_000), (garnet_settling, 30_000), (inventory, 30_000)):
        found = side_by_side(
            f"{problem.__name__}, {size:,} rows", (joblib.delayed(simulated_case)(problem, size, s) for s in seeds)
        )
        off, regret = np.median(found[:, 2] - found[:, 0]), np.median(found[:, 4])
        bar = {garnet: "truth - floor <= .08", two_state: "regret <= .32"}.get(problem, "")
        rows.append((f"{problem.__name__}, {size:,} rows: truth - floor, regret", f"{off:.3g}, {regret:.3g}", bar))
    for problem, size in ((adaptive, 3_000), (stopped, 6_000)):
        asked = (joblib.delayed(simulated_case)(problem, size, s) for s in seeds)
        side_by_side(f"{problem.__name__}, {size:,} rows", asked)
    for problem, size in ((two_state_wandering, 3_000), (garnet_settling, 30_000)):
        M = joblib.Parallel(n_jobs=jobs, batch_size=5)(joblib.delayed(at_the_truth)(problem, size, s) for s in seeds)
        error = np.std(M) / np.sqrt(len(M))
        rows.append(
            (f"M at the truth, {problem.__name__}, {size:,} rows: mean", f"{np.mean(M):.2f} +- {error:.2f}", "<= 1")
        )
    text = "Confidence .95, policies learned from the same log; M: of the best policy, which is fixed.\n\n"
    publish("The policy's own value", text + markdown(("what", "found", "bar"), rows))


# ---- how a log is read


def told(way, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return misread.outcome(misread.WAYS[way](seed))


def reading(seeds, jobs):
    rows = []
    for way in misread.WAYS:
        found = joblib.Parallel(n_jobs=jobs, batch_size=5)(joblib.delayed(told)(way, seed) for seed in seeds)
        promised = [o for o in found if o.floor is not None]
        above = [o for o in promised if o.floor > o.truth]
        broken = [o for o in above if not o.conditional]
        named = sum(o.named for o in found) / len(found)
        kept = len(broken) <= 0.05 * len(found) and named >= 0.95
        doc = (misread.WAYS[way].__doc__ or "").split(".")[0]
        rows.append((doc, len(found), len(promised), len(above), len(broken), f"{named:.1%}", "yes" if kept else "NO"))
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    header = ("the log", "logs", "promised", "floor above the truth", "and no condition says so", "warned", "bar held")
    text = (
        "Simulated logs, each wrong in one way that a reader may miss (tests/misread.py), read as a new user would.\n"
        "A promise whose own sentence names what is wrong as its condition (a cause that the state lacks, a loss that\n"
        "the log never showed, rows that are missing) is counted apart: no test can see these. Bar: at most 5% of\n"
        "logs with a floor above the truth and no condition that says so, the right warning in at least 95%. For\n"
        "these three the warning is the condition itself, which always stands there: its 100% is no measurement.\n\n"
    )
    publish("Logs that are easily misread", text + markdown(header, rows))


def binned(name, seed, rows):
    return misread.outcome(misread.numbers(misread.PROBLEMS[name], seed, rows))


def bins(seeds, jobs):
    rows = []
    for name in misread.PROBLEMS:
        for size in (1_000, 10_000, 100_000):
            asked = (joblib.delayed(binned)(name, seed, size) for seed in seeds)
            found = joblib.Parallel(n_jobs=jobs, batch_size=5)(asked)
            printed = [o for o in found if o.error is not None]
            off = np.array([abs(o.expected - o.truth) for o in found])
            within = np.mean([abs(o.expected - o.truth) <= 2.0 * o.error for o in printed]) if printed else np.nan
            above = sum(o.floor is not None and o.floor > o.truth for o in found)
            named = np.mean([o.error is None for o in found])
            held = f"{within:.0%} of {len(printed)}" if printed else "none is printed"
            rows.append((name, f"{size:,}", len(found), f"{named:.0%}", held,
                         f"{np.median(off):.3g}", above))  # fmt: skip
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    header = (
        "problem",
        "rows",
        "logs",
        "no error given",
        "truth within two errors",
        "off, median",
        "floor above truth",
    )
    publish("Numbers cut into bins", markdown(header, rows))


PARTS = {"sharp": sharp, "widths": lambda seeds, jobs: widths(), "coverage": coverage, "reading": reading, "bins": bins}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--replications", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument(
        "--bootstraps", type=int, default=100, help="logs of each case for which the bootstrap is asked"
    )
    parser.add_argument("--kept", type=Path, help="where coverage keeps what it found, and goes on from")
    options = parser.parse_args()
    PARTS["coverage"] = functools.partial(coverage, bootstraps=options.bootstraps, kept=options.kept)
    for part in [options.only] if options.only else PARTS:
        PARTS[part](range(options.first, options.first + options.replications), options.jobs)
