"""How sure is what is expected: hard cases, in which the truth is known.

uv run --group bench python benchmarks/calibration.py [--logs 200] [--first 1000] [--only "30 actions"] [--rows 1000]

Each case is a known model with random rewards and costs, walked by a known behaviour in several shops at once, 50 days
or more each. Every log is learned from; the policy that comes out, and the logged behaviour at the frequencies of the
log, are evaluated exactly in the known model from the same start. Counted is how often the truth lies within 1.96 of
the stated standard errors.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import sys
import time
from dataclasses import dataclass, field

import joblib
import numpy as np
from common import markdown, publish

from dualq import MDP, TablePolicy, problems
from dualq.logs.counts import Counts
from dualq.model.limits import average
from dualq.offline.careful.clusters import shared_factor
from dualq.offline.careful.model import careful_model
from dualq.offline.limited.asked import Asked
from dualq.offline.limited.estimates import Estimates


@dataclass
class Case:
    """A model, what is drawn around it, and who walked in it."""

    P: np.ndarray  # (S, A, S)
    R: np.ndarray  # (S, A) expected rewards
    behaviour: np.ndarray  # (S, A)
    discount: float
    noise: float | None = 0.0  # deviation of normal noise in rewards; None: a success of chance R pays 1
    costs: dict = field(default_factory=dict)  # {name: (S, A) the chance that it is 1}
    shock: float = 0.0  # deviation of a shock in the rewards of a day, all shops alike
    shops: int = 10
    start: np.ndarray | None = None  # uniform if None

    def __post_init__(self):
        S = self.R.shape[0]
        self.start = np.full(S, 1.0 / S) if self.start is None else self.start
        self.mdp = MDP(self.P, self.R, self.discount, available=self.P.any(axis=2))

    def rows(self, count, seed):
        """s, a, r, s', day, shop, {cost: values}."""
        rng = np.random.default_rng([seed, count, *self.R.shape])  # cases of one seed do not share their draws
        shops = min(self.shops, count // 50)
        days = count // shops
        acts, steps = np.cumsum(self.behaviour, axis=1), np.cumsum(self.P, axis=2)
        s = rng.choice(self.start.size, size=shops, p=self.start)
        S, A = self.R.shape
        found = []
        for day in range(days):
            a = np.minimum((acts[s] < rng.random((shops, 1))).sum(axis=1), A - 1)
            s_next = np.minimum((steps[s, a] < rng.random((shops, 1))).sum(axis=1), S - 1)
            found.append((s, a, s_next, np.full(shops, day), np.arange(shops)))
            s = s_next
        s, a, s_next, day, shop = (np.concatenate(column) for column in zip(*found, strict=True))
        if self.noise is None:
            r = (rng.random(s.size) < self.R[s, a]).astype(float)
        else:
            r = self.R[s, a] + self.noise * rng.normal(size=s.size)
        r = r + self.shock * rng.normal(size=days)[day]
        costs = {name: (rng.random(s.size) < chance[s, a]).astype(float) for name, chance in self.costs.items()}
        return s, a, r, s_next, day, shop, costs

    def counts(self, count, seed):
        s, a, r, s_next, _, _, costs = self.rows(count, seed)
        S, A = self.R.shape
        ranges = dict.fromkeys(costs, (0.0, 1.0))
        return Counts.from_arrays(s, a, r, s_next, states=S, actions=A, costs=costs, cost_ranges=ranges)

    def truth(self, matrix, start):
        """The value from the start, and {cost: per step}; actions that are not possible are not taken."""
        matrix = np.where(self.mdp.available, matrix[: self.R.shape[0]], 0.0)
        policy = TablePolicy(matrix / matrix.sum(axis=1, keepdims=True))
        d = policy.occupancy(self.mdp, np.maximum(start, np.finfo(float).tiny))
        costs = {name: (1.0 - self.discount) * float((d * chance).sum()) for name, chance in self.costs.items()}
        return float((d * self.R).sum()), costs


def random_model(S, A, branching, discount, seed, **more):
    """Garnet, with random rewards, costs and a behaviour that prefers some actions."""
    simulator, rng = problems.garnet(S, A, branching, discount=discount, seed=seed), np.random.default_rng([seed, 1])
    P = simulator.mdp.transitions.toarray().reshape(S, A, S)
    words = {"behaviour": rng.dirichlet(np.full(A, 2.0), size=S), "R": simulator.mdp.rewards} | more
    return Case(P, discount=discount, **words)


def many_actions(noise=1.0, spread=0.3, seed=0):
    """Ten states, thirty actions, uniformly taken; what tells actions apart is small beside the noise."""
    rng = np.random.default_rng(seed)
    R = rng.normal(0.0, spread, (10, 30))
    return random_model(10, 30, 3, 0.9, seed, R=R, noise=noise, behaviour=np.full((10, 30), 1 / 30))


def shop(rare, discount=0.95):
    """dualq's inventory, with a cost that is 1 rarely: `rare` when the evening's shelf is empty."""
    simulator = problems.inventory(capacity=6, lot=2, demand={"low": 1.0, "high": 2.0}, discount=discount)
    mdp = simulator.mdp
    S, A = mdp.rewards.shape
    P = mdp.transitions.toarray().reshape(S, A, S)
    empty = np.array([label[0] == 0 for label in mdp.states])
    chance = rare * P[:, :, empty].sum(axis=2)
    return Case(P, mdp.rewards, simulator.behaviour.matrix, discount, 1.0, {"complaint": chance}, start=simulator.start)


def rare_costs(scale, seed=0, S=10, A=4):
    """Costs of 0 or 1 whose chances are exponential with this mean."""
    rng = np.random.default_rng([seed, 2])
    chance = np.minimum(rng.exponential(scale, (S, A)), 1.0)
    return random_model(S, A, 3, 0.9, seed, noise=0.5, costs={"harm": chance})


def avoided(chance, seed, S, A, discount=0.9):
    """The log avoids what is dangerous: chances of a cost differ widely, and actions are taken by their inverse."""
    rng = np.random.default_rng([seed, 3])
    chances = np.minimum(chance * np.exp(1.5 * rng.normal(size=(S, A))), 0.9)
    usual = 1.0 / chances
    usual = 0.9 * usual / usual.sum(axis=1, keepdims=True) + 0.1 / A
    return random_model(S, A, 3, discount, seed, noise=0.5, costs={"harm": chances}, behaviour=usual)


def machine(chance):
    """A machine wears in eight steps, fails more and more often, and is repaired early."""
    S = 8
    P, R, costs, usual = np.zeros((S, 2, S)), np.zeros((S, 2)), np.zeros((S, 2)), np.zeros((S, 2))
    for s in range(S):
        P[s, 0, s] = 0.4
        P[s, 0, min(s + 1, S - 1)] += 0.6
        P[s, 1, 0] = 1.0
        R[s] = 1.0 - 0.05 * s, -0.6
        costs[s, 0] = chance * (s + 1) ** 2 / S**2
        usual[s] = (0.95, 0.05) if s < 4 else (0.3, 0.7)
    return Case(P, R, usual, 0.95, 0.5, {"failure": costs})


def panel(shock, shops, discount=0.9):
    rng = np.random.default_rng(5)
    return random_model(8, 3, 3, discount, 5, R=rng.normal(0.0, 0.5, (8, 3)), noise=0.5, shock=shock, shops=shops)


CASES = {
    "30 actions": many_actions,
    "30 actions, clear": lambda: many_actions(1.0, 1.0, 1),
    "30 actions, coins": lambda: random_model(
        10, 30, 3, 0.9, 2, R=np.random.default_rng(2).uniform(0.3, 0.7, (10, 30)), noise=None
    ),
    "30 actions, one step": lambda: random_model(
        10, 30, 3, 0.0, 3, R=np.random.default_rng(3).normal(0, 0.3, (10, 30)), noise=1.0
    ),
    "sparse 200 x 5": lambda: random_model(200, 5, 3, 0.9, 4, noise=0.5),
    "sparse 60 x 6, coins": lambda: random_model(60, 6, 3, 0.95, 7, noise=None),
    "sparse 500 x 3": lambda: random_model(500, 3, 2, 0.9, 6, noise=0.2),
    "rare costs .01": lambda: rare_costs(0.01),
    "rare costs .002": lambda: rare_costs(0.002, 1),
    "rare costs .01, 40 x 5": lambda: rare_costs(0.01, 2, 40, 5),
    "rare complaints": lambda: shop(0.02),
    "stock-outs": lambda: shop(1.0),
    "avoided danger .02": lambda: avoided(0.02, 21, 15, 4),
    "avoided danger .005": lambda: avoided(0.005, 22, 25, 3, 0.95),
    "machine .2": lambda: machine(0.2),
    "machine .02": lambda: machine(0.02),
    "plenty": lambda: random_model(8, 3, 3, 0.9, 8, noise=0.5, costs={"c": np.full((8, 3), 0.3)}),
    "panel, 20 shops": lambda: panel(0.3, 20),
    "panel, no shock": lambda: panel(0.0, 20),
    "equal actions": lambda: random_model(20, 8, 3, 0.9, 9, R=np.zeros((20, 8)), noise=1.0),
}


def estimates(case, count, seed):
    """{what: (value, error, truth)} of one log."""
    counts = case.counts(count, seed)
    start = np.where(counts.visits.any(axis=1), case.start, 0.0)  # where the log never was, nothing can be known
    start /= start.sum()
    fit = careful_model(counts, case.discount, start)
    truth, costs = case.truth(fit.policy.matrix, start)
    usual, usual_costs = case.truth(fit.behaviour.matrix, start)
    found = {
        "expected": (fit.expected.value, fit.expected.standard_error, truth),
        "logged": (fit.logged.value, fit.logged.standard_error, usual),
    }
    known = Estimates(counts, fit, start)
    for name in case.costs:
        asked = Asked(average(fit.mdp, known.means(name), "<=", 1.0, name), name)
        for which, policy, true in (("cost", fit.policy, costs), ("logged cost", fit.behaviour, usual_costs)):
            estimate = known.of(asked, policy)
            found[which] = (estimate.value, estimate.standard_error, true[name])
    return found, fit


def shared(case, count, seed):
    """As `estimates`, of a panel whose rows share their days and their shops, as `learn` allows for."""
    s, a, r, s_next, day, shop_, _ = case.rows(count, seed)
    S, A = case.R.shape
    counts = Counts.from_arrays(s, a, r, s_next, states=S, actions=A)
    start = case.start
    fit = careful_model(counts, case.discount, start)
    pooled = MDP(fit.mdp.transitions, fit.mdp.rewards + fit.penalty, case.discount, available=fit.mdp.available)
    found, ended = {}, np.zeros(s.size, bool)
    for which, policy, model, estimate in (
        ("expected", fit.policy, pooled, fit.expected),
        ("logged", fit.behaviour, counts.mdp(case.discount), fit.logged),
    ):
        V, occupancy = policy.value(model), policy.occupancy(model, start)
        factor = shared_factor(s, a, r, s_next, ended, (day, shop_), V, occupancy, case.discount)
        true = case.truth(policy.matrix, start)[0]
        found[which] = (estimate.value, factor * estimate.standard_error, true)
    return found, fit


def summary(found):
    """Share within 1.96 errors, mean of the difference and its deviation, median error."""
    value, error, truth = np.array(found).T
    off = value - truth
    held = np.abs(off) <= 1.96 * error + 1e-9
    return [f"{held.mean():.3f}", f"{off.mean():+.4f}", f"{off.std():.4f}", f"{np.median(error):.4f}"]


def one_log(name, count, seed):
    """The estimates of one log, and the CPU seconds they took."""
    begun, case = time.process_time(), CASES[name]()
    found = (shared if name.startswith("panel") else estimates)(case, count, seed)[0]
    return found, time.process_time() - begun


def hard(cases, sizes, seeds, jobs):
    table = []
    for name in cases:
        for count in sizes:
            asked = (joblib.delayed(one_log)(name, count, seed) for seed in seeds)
            logs, seconds = zip(*joblib.Parallel(n_jobs=jobs, batch_size=10)(asked), strict=True)
            for which in logs[0]:
                row = [name, f"{count:,}", which, *summary([log[which] for log in logs]), f"{np.mean(seconds):.2f}"]
                table.append(row)
                print(*row, sep=" | ", file=sys.stderr, flush=True)
    header = ["case", "rows", "estimate of", "within 1.96", "off by", "deviation", "median error", "CPU s"]
    note = (
        f"{len(seeds)} simulated logs each; the estimate less its truth in the known model: mean "
        "and deviation over logs, and the median of the stated standard errors. Errors of panels allow for shared "
        "days, as `learn` does. Asked for: .90 or more within 1.96."
    )
    return markdown(header, table) + "\n\n" + note


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--only", help="cases whose name has this in it")
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000, 10_000])
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--dry", action="store_true", help="print, and leave RESULTS.md as it is")
    options = parser.parse_args()
    cases = [name for name in CASES if options.only is None or options.only in name]
    text = hard(cases, options.rows, range(options.first, options.first + options.logs), options.jobs)
    if not options.dry:
        publish("How sure is what is expected: hard cases", text)


if __name__ == "__main__":
    main()
