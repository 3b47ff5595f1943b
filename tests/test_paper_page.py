"""docs/paper.md says what is so: its numbers, its verdicts, and every file, function, test and command that it cites.

A number of the page that has a source is followed by a comment with its name: `0.772<!-- =spdrl estimated -->`. It must
equal the number of that name here (VALUES, computed by dualq) or in docs/reproduced/summary.json, at the digits shown.
A claim is cut into parts, each of which holds or does not (PARTS); the verdict follows: reproduced if all hold, in part
if some do, not if none does, not tested if there are none.

`uv run --all-extras python tests/test_paper_page.py` writes the numbers into the page anew, at the digits it has.
"""

import ast
import dataclasses
import itertools
import json
import math
import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import test_saddle_theory
from naive import dense_transitions
from scipy.optimize import linprog
from scipy.stats import binom
from test_saddle_theory import Naive, chain_of
from typer.testing import CliRunner

import dualq
from dualq.app.cli import app
from dualq.base.transitions import Rows
from dualq.model.policy import TablePolicy
from dualq.model.saddle.lagrangian import gradients_M, lagrangian_I, lagrangian_M
from dualq.model.saddle.sets import Sets
from dualq.model.solution import Solution
from dualq.paper import theory
from dualq.paper.experiments import NAMES
from dualq.paper.experiments.curves import median_interval
from dualq.paper.experiments.verdicts import below, judged
from dualq.solvers.gaps import duality_gap, pseudo_gap
from dualq.solvers.programs import solve_lp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "paper.md"
TWO, GRID = dualq.problems.two_state(), dualq.problems.grid_world()
GARNET = dualq.problems.garnet(5, 3, 3, seed=2)
M = TWO.stationary()
ZETA, BETA_0 = 0.0856, 0.818  # the paper's zeta, and ||M_0^-1 - M_1^-1||_2
SLOW = chain_of([[0.95, 0.05], [0.02, 0.98]], [0.9, 0.1])
SPREADING = chain_of([[0.9, 0.0, 0.1], [0.0, 0.9, 0.1], [0.25, 0.25, 0.5]], [0.375, 0.375, 0.25])
SUMMARY = json.loads((ROOT / "docs" / "reproduced" / "summary.json").read_text())["experiments"]
SCALES = (1, 2, 3, 4)


# ---- what the page's numbers are


VALUES: dict[str, object] = {}  # name -> number, or a function that computes it


def value(name):
    """Register the function that computes a number of the page."""

    def register(function):
        VALUES[name] = cache(function)
        return VALUES[name]

    return register


@cache
def constants():
    """The constants of the theorems on the two-state example, with the paper's zeta."""
    return theory.bounds(TWO, 2.0, 0.1, 0.1, zeta=ZETA, beta_0=BETA_0)


@cache
def printed_solution():
    """The solution of Section 6.1: eta = 0.1, the program with M."""
    return solve_lp(TWO.mdp, 0.1, M, program="M-dual")


def _constants():
    for reading, found in (("printed", constants().printed), ("corrected", constants())):
        for field in dataclasses.fields(theory.Constants):
            if field.name != "numbers":
                yield f"{reading} {field.name}", getattr(found, field.name)


def _section_6():
    found, without_m = printed_solution(), solve_lp(TWO.mdp, 0.1, program="Q-dual")
    for s, a in itertools.product((1, 2), repeat=2):
        yield f"Q{a}({s})", found.Q[s - 1, a - 1]
        yield f"lambda{a}({s})", found.occupancy[s - 1, a - 1]
        yield f"mu{a}({s})", found.ratio[s - 1, a - 1]
        yield f"mu{a}({s}) without M", without_m.ratio[s - 1, a - 1]
        yield f"M{a}({s})", M[s - 1, a - 1]
        yield f"lambda{a}({s}) at 1.5", dualq.solve(TWO.mdp).occupancy[s - 1, a - 1]
    for s in (1, 2):
        yield f"V({s})", found.V[s - 1]
        yield f"v({s})", M.sum(axis=1)[s - 1]
    for s, t in itertools.product((1, 2), repeat=2):
        yield f"P_theta({s},{t})", TWO.behaviour.chain(TWO.mdp)[0].toarray()[s - 1, t - 1]


VALUES |= {f"{name}": number for name, number in itertools.chain(_constants(), _section_6())}
VALUES |= {
    "zeta at 0": theory.zeta_of(TWO),
    "zeta from 1": theory.zeta_of(TWO, first=1),
    "grid zeta at 0": theory.zeta_of(GRID),
    "grid zeta from 2": theory.zeta_of(GRID, first=2),
    "beta_0 least": theory.least_beta_0(TWO),
    "second eigenvalue": theory.example_3(TWO, ZETA).second_eigenvalue,
    "example 3 c": theory.example_3(TWO, ZETA).c,
    "example 3 d": theory.example_3(TWO, ZETA).d,
    "slow d": theory.example_3(SLOW, 0.1).d,
    "slow d least": max((k + 1) * 0.93**k for k in range(1000)),
    "spreading movement": theory.movement(SPREADING, 0),
    "spreading beta printed": theory.beta_printed(SPREADING, 0, theory.zeta_of(SPREADING)),
    "spreading beta": theory.beta(SPREADING, 0, theory.zeta_of(SPREADING)),
    "K1 at .08": theory.K1(theory.bounds(TWO).numbers),
    "K2 at .08": theory.K2(theory.bounds(TWO).numbers),
    # the corner that test_no_stochastic_gradient_is_longer_than_K1_and_K2 finds to be the longest, at zeta = .08
    "longest x": math.sqrt(120.0**2 + 375.0**2 + 117.0**2 + 337.5**2),
    "longest y": 30.0 * math.sqrt(17.0),
    "occupancy sum": printed_solution().occupancy.sum(),
    "ratio sum": printed_solution().ratio.sum(),
    "complexity ratio": 2**2 * 2**2 / ZETA**4,
    "printed kappa2 at 1": theory.kappa2_printed(dataclasses.replace(constants().numbers, gamma_0=1.0)),
    "corrected kappa2 at 1": theory.kappa2(dataclasses.replace(constants().numbers, gamma_0=1.0)),
    "error of Q = 0": printed_solution().Q.max(axis=0).sum(),
}


@value("zeta exponent")
def zeta_exponent():
    """d log T1 / d log zeta as zeta falls, the steps fixed."""
    return _exponent(lambda m: theory.T1_printed(m, _kappa_printed(m)))


@value("zeta exponent, best steps")
def zeta_exponent_best():
    """The same with the gamma_0 that makes T1 least."""
    scales = 10.0 ** np.linspace(-2, 8, 4001)
    return _exponent(
        lambda m: min(
            theory.T1_printed(m, _kappa_printed(m))
            for m in (dataclasses.replace(m, gamma_0=float(scale)) for scale in scales)
        )
    )


def _kappa_printed(m):
    return max(theory.kappa1_printed(m), theory.kappa2_printed(m))


def _exponent(T):
    m = constants().numbers
    return math.log10(T(dataclasses.replace(m, zeta=1e-5)) / T(dataclasses.replace(m, zeta=1e-6)))


@value("T2 shortfall")
def T2_shortfall():
    """How many times more than the printed theorem 2 its own proof asks for, with large steps and a rare pair."""
    m = dataclasses.replace(constants().numbers, gamma_0=100.0, zeta=0.00125, beta_0=0.01)
    finer = m.h_min * m.u * m.epsilon
    needed = max(theory.Psi1(theory.a(m), theory.b(m), finer, m.delta), theory.Psi2(theory.C0(m), finer, m.delta))
    return needed / theory.T2(m, _kappa_printed(m))


def simulated(name, runs):
    """Register a median over seeds, and the ends of its 95% interval; `runs` gives one number per seed."""
    VALUES[name] = lambda: np.median(runs())
    VALUES[f"{name} low"] = lambda: median_interval(np.asarray(runs()))[0]
    VALUES[f"{name} high"] = lambda: median_interval(np.asarray(runs()))[1]


@cache
def _modified_spdrl(scale):
    """The dual policy error of the modified SPD-RL at 1e5 steps, its dual read in three ways; 50 seeds."""
    algorithm = dualq.SPDRL(step_size=dualq.inverse_sqrt(float(scale)), weights=1.5, zeta=ZETA)
    best = dualq.solve(TWO.mdp).primal_policy.matrix
    found = {"estimated": [], "true": [], "without": []}
    for run in dualq.train(algorithm, TWO, 100_000, seeds=range(50)):
        mu = run.solution.ratio
        for name, dual in (("estimated", run.solution.occupancy), ("true", M * mu), ("without", mu)):
            found[name].append(np.abs(TablePolicy.from_occupancy(dual).matrix - best).max(axis=1).sum())
    return found


for _name, _scale in itertools.product(("estimated", "true", "without"), SCALES):
    simulated(f"spdrl {_name} {_scale}", lambda name=_name, scale=_scale: _modified_spdrl(scale)[name])


@cache
def _behaviours():
    """{policy: value losses at 1e5 steps, 20 seeds} under the behaviour, of three, where the median loss is largest."""
    algorithm = dualq.SPDQ(step_size=dualq.inverse_sqrt(2.0), weights=0.1, zeta=0.05)
    losses = {"primal": [], "dual": []}
    for matrix in (TWO.behaviour.matrix, [[0.5, 0.5], [0.5, 0.5]], [[0.7, 0.3], [0.4, 0.6]]):
        simulator = dualq.Simulator(TWO.mdp, TablePolicy(matrix), TWO.start, "test")
        runs = dualq.train(algorithm, simulator, 100_000, seeds=range(20), record=[100_000])
        for kind, found in losses.items():
            found.append([run.history[f"{kind}_value_loss"][-1].as_py() for run in runs])
    return {kind: max(found, key=np.median) for kind, found in losses.items()}


for _kind in ("primal", "dual"):
    simulated(f"behaviours {_kind} loss", lambda kind=_kind: _behaviours()[kind])


@cache
def _independent():
    """D and the loss of the dual policy at 1e5 steps with independent pairs, as the theorems ask; 50 seeds."""
    algorithm = dualq.SPDQ(step_size=dualq.inverse_sqrt(2.0), weights=1.5, zeta=ZETA)
    runs = dualq.train(algorithm, TWO, 100_000, seeds=range(50), record=[100_000], sampling="iid")
    return {name: [run.history[name][-1].as_py() for run in runs] for name in ("pseudo_gap", "dual_value_loss")}


simulated("gap at 1e5", lambda: _independent()["pseudo_gap"])
simulated("loss at 1e5", lambda: _independent()["dual_value_loss"])
VALUES["gap promised at 1e5"] = lambda: constants().gap(100_000)
VALUES["loss promised at 1e5"] = lambda: constants().policy_loss(100_000)


@cache
def _deterministic():
    """The true gap of the deterministic iteration with M after 500 and 8,000 steps, relative to eta'V*."""
    algorithm = dualq.PrimalDual(step_size=dualq.inverse_sqrt(10.0), weights=0.1, distribution=M, zeta=0.08)
    worth = 0.1 * dualq.solve(TWO.mdp).V.sum()
    runs = [dualq.train(algorithm, TWO.mdp, steps) for steps in (500, 8_000)]
    return [duality_gap(TWO.mdp, run.solution, distribution=M, zeta=0.08) / worth for run in runs]


VALUES["deterministic early"] = lambda: _deterministic()[0]
VALUES["deterministic late"] = lambda: _deterministic()[1]


@cache
def _drifting():
    """{kind: {metric: (20 seeds, at 1e4 and 1e5 steps)}} while the behaviour changes; eta = 0.1."""
    algorithm = dualq.SPDQ(step_size=dualq.inverse_sqrt(2.0), weights=0.1, zeta=0.05)
    to, found = TablePolicy([[0.7, 0.3], [0.4, 0.6]]), {}
    drifts = {"still": None, "slow": dualq.settling(to, 0.25), "never": dualq.wandering(to, 1.0)}
    for kind, drift in drifts.items():
        simulator = dataclasses.replace(TWO, drift=drift)
        runs = dualq.train(algorithm, simulator, 100_000, seeds=range(20), record=[10_000, 100_000])
        tables = [run.history.to_pydict() for run in runs]
        found[kind] = {name: np.array([table[name] for table in tables]) for name in tables[0]}
    return found


for _kind, (_name, _place) in itertools.product(("still", "slow", "never"), (("1e4", 0), ("1e5", 1))):
    simulated(f"changing {_kind} {_name}", lambda kind=_kind, at=_place: _drifting()[kind]["q_error"][:, at])


@cache
def _readings():
    """Largest error of Q* where the printed rewards are read as (s, s') and as (s, a)."""
    P, r = dense_transitions(TWO.mdp), np.array([[3.0, 1.0], [2.0, 1.0]])
    readings = {"(s, s')": np.repeat(r[:, None, :], 2, axis=1), "(s, a)": r}
    Q = {name: dualq.solve(dualq.MDP(P, rewards, 0.9, reward_bound=3.0)).Q for name, rewards in readings.items()}
    return {name: np.abs(one - printed_solution().Q).max() for name, one in Q.items()}


VALUES["rewards as (s, s')"] = lambda: _readings()["(s, s')"]
VALUES["rewards as (s, a)"] = lambda: _readings()["(s, a)"]


@cache
def _limited():
    """(Value, share of the limited pair) of the dual program on two states where pair (2, 2) may have 30% at most."""
    P, eta = dense_transitions(TWO.mdp), np.array([0.5, 0.5])
    E = np.repeat(np.eye(2), 2, axis=0)
    flow = (E - 0.9 * P.reshape(4, 2)).T
    share = [[0.0, 0.0, 0.0, 0.1]]  # (1 - alpha) lambda: eta sums to one
    found = linprog(-TWO.mdp.rewards.ravel(), A_ub=share, b_ub=[0.3], A_eq=flow, b_eq=eta)
    policy = TablePolicy.from_occupancy(found.x.reshape(2, 2))
    return eta @ policy.value(TWO.mdp), 0.1 * policy.occupancy(TWO.mdp, eta)[1, 1]


VALUES["limited value"] = lambda: _limited()[0]
VALUES["limited share"] = lambda: _limited()[1]
VALUES["unlimited value"] = lambda: float(dualq.solve(TWO.mdp).V.mean())
VALUES["unlimited share"] = lambda: 0.1 * dualq.solve(TWO.mdp, weights=0.5).occupancy[1, 1]


def measured(experiment, key):
    """A number of the simulations, with its interval."""
    return SUMMARY[experiment]["numbers"][key]


def number(name: str) -> float:
    """The number behind a name of the page; NaN where the simulations did not reach it."""
    kind, _, rest = name.partition(" ")
    if kind in ("claim", "erratum"):
        return float(places()[name])
    if kind in NAMES:
        key, end = rest, "value"
        for word in ("low", "high"):
            if rest.endswith(f" {word}"):
                key, end = rest.removesuffix(f" {word}"), word
        found = measured(kind, key)[end]
        return math.nan if found is None else float(found)
    found = VALUES[name]
    return float(found() if callable(found) else found)


# ---- which parts of a claim hold


PARTS = {}


def claim(slug):
    """Register the parts of a claim: a function that gives a list of truths."""

    def register(function):
        PARTS[slug] = cache(function)
        return function

    return register


def same(found, wanted, atol=1e-8):
    return bool(np.allclose(found, wanted, rtol=0.0, atol=atol))


def holds(test, *arguments):
    """Whether a test of another file passes: it is what the page cites."""
    try:
        test(*arguments)
    except AssertionError:
        return False
    return True


def verdict(parts):
    """The word for a claim: the rule of the experiments, and "not tested" where there are no parts."""
    return judged(parts) if parts else "not tested"


def brute_force(mdp):
    """V* by trying every deterministic policy."""
    S, A = mdp.rewards.shape
    policies = itertools.product(range(A), repeat=S)
    return np.max([TablePolicy.deterministic(np.array(choice), A).value(mdp) for choice in policies], axis=0)


BOTH = ((TWO.mdp, M), (GARNET.mdp, GARNET.stationary()))


@claim("any-behaviour")
def claim_any_behaviour():
    reads_no_propensity = Rows._fields == ("s", "a", "r", "s_next", "ended")
    return [
        reads_no_propensity,
        number("behaviours primal loss") < 1e-9,
        number("behaviours dual loss") < 0.05 * number("V(2)"),
    ]


@claim("order")
def claim_order():
    m = constants().numbers
    finer = dataclasses.replace(m, epsilon=m.epsilon / 10)
    in_epsilon = theory.T1_printed(finer, 1.0) / theory.T1_printed(m, 1.0)
    return [round(number("zeta exponent")) == -4, math.isclose(in_epsilon, 100.0)]


@claim("primal-lp")
def claim_primal_lp():
    return [same(solve_lp(mdp, program="primal").V, brute_force(mdp)) for mdp, _ in BOTH]


@claim("strong-duality")
def claim_strong_duality():
    values = [(solve_lp(mdp, program="primal"), solve_lp(mdp, program="dual")) for mdp, _ in BOTH]
    return [math.isclose(p.weights @ p.V, (d.occupancy * d.mdp.rewards).sum(), rel_tol=1e-9) for p, d in values]


@claim("dual-lp")
def claim_dual_lp():
    parts = []
    for mdp, _ in BOTH:
        found = solve_lp(mdp, program="dual")
        parts.append(same(found.occupancy, TablePolicy.greedy(mdp.q_values(brute_force(mdp))).occupancy(mdp)))
    tie = dualq.MDP(np.ones((1, 2, 1)), [[1.0, 1.0]], 0.9)  # two actions that are alike
    worth = {float((TablePolicy([[p, 1.0 - p]]).occupancy(tie) * tie.rewards).sum()) for p in (0.0, 1.0)}
    unique = len(worth) > 1
    return [*parts, unique]


@claim("dual-policy")
def claim_dual_policy():
    return [same(solve_lp(mdp, program="dual").dual_policy.value(mdp), brute_force(mdp)) for mdp, _ in BOTH]


@claim("corollary")
def claim_corollary():
    parts = []
    for mdp, _ in BOTH:
        found = solve_lp(mdp, program="dual")
        P, _R = found.dual_policy.chain(mdp)
        visits = found.occupancy.sum(axis=1)
        parts.append(same(visits - mdp.discount * (P.T @ visits), found.weights))
    return parts


@claim("bounds-1")
def claim_bounds_1():
    parts = []
    for mdp, _ in BOTH:
        found = solve_lp(mdp)
        V, lambda_, total = found.V, found.occupancy, found.weights.sum() / (1 - mdp.discount)
        U = mdp.reward_bound / (1 - mdp.discount)
        parts += [np.abs(V).max() <= U, np.linalg.norm(V) <= math.sqrt(V.size) * U]
        parts += [np.linalg.norm(lambda_) <= lambda_.sum() <= total * (1 + 1e-9)]
        parts += [(lambda_.sum(axis=1) >= found.weights - 1e-9).all()]
    return [bool(part) for part in parts]


@claim("saddle-point")
def claim_saddle_point():
    rng, exact, eta = np.random.default_rng(0), solve_lp(TWO.mdp, 0.1), np.full(2, 0.1)
    L = lambda x, y: lagrangian_I(TWO.mdp, eta, *x, *y)  # noqa: E731
    x_star, y_star = (exact.Q, exact.V), (exact.occupancy, exact.occupancy)
    parts = []
    for _ in range(100):
        x = 30 * rng.random((2, 2)), 30 * rng.random(2)
        y = 2 * rng.random((2, 2)), 4 * rng.random((2, 2)) - 2
        parts.append(L(x_star, y) - 1e-9 <= L(x_star, y_star) <= L(x, y_star) + 1e-9)
    return parts


@claim("lp-with-m")
def claim_lp_with_m():
    P, eta = dense_transitions(TWO.mdp).reshape(4, 2), np.full(2, 0.1)
    E = np.repeat(np.eye(2), 2, axis=0)
    rows = M.ravel()[:, None] * (0.9 * P - E)  # alpha M P V - M V <= - M R
    found = linprog(eta, A_ub=rows, b_ub=-M.ravel() * TWO.mdp.rewards.ravel(), bounds=(None, None))
    exact, dual = printed_solution(), -found.ineqlin.marginals.reshape(2, 2)
    differs = not same(dual, exact.occupancy, 1e-3)
    fails = not same(TablePolicy.from_occupancy(dual).matrix, exact.dual_policy.matrix)
    return [same(found.x, exact.V), same(dual, exact.occupancy / M) and differs, fails]


@claim("q-function")
def claim_q_function():
    parts = []
    for mdp, _ in BOTH:
        V = brute_force(mdp)
        Q = mdp.rewards + mdp.discount * np.einsum("sat,t->sa", dense_transitions(mdp), V)
        parts += [same(Q.max(axis=1), V), same(TablePolicy.greedy(Q).value(mdp), V)]
    return parts


@claim("q-lp")
def claim_q_lp():
    found = [(solve_lp(mdp, program="Q-primal"), brute_force(mdp)) for mdp, _ in BOTH]
    return [same(one.V, V) and same(one.Q, one.mdp.q_values(V)) for one, V in found]


@claim("q-strong-duality")
def claim_q_strong_duality():
    values = [(solve_lp(mdp, program="Q-primal"), solve_lp(mdp, program="Q-dual")) for mdp, _ in BOTH]
    return [math.isclose(p.weights @ p.V, (d.ratio * d.mdp.rewards).sum(), rel_tol=1e-9) for p, d in values]


@claim("q-dual")
def claim_q_dual():
    parts = []
    for mdp, _ in BOTH:
        found, wanted = solve_lp(mdp, program="Q-dual"), solve_lp(mdp, program="dual").occupancy
        parts += [same(found.occupancy, wanted), same(found.ratio, wanted)]
    return parts


@claim("m-primal")
def claim_m_primal():
    found = [(solve_lp(mdp, None, D, "M-primal"), solve_lp(mdp, program="Q-primal")) for mdp, D in BOTH]
    return [same(one.V, other.V) and same(one.Q, other.Q) for one, other in found]


@claim("m-dual")
def claim_m_dual():
    parts = []
    for mdp, D in BOTH:
        found, wanted = solve_lp(mdp, None, D, "M-dual"), solve_lp(mdp, program="Q-dual").occupancy
        parts += [same(found.occupancy, wanted), same(found.ratio, wanted / D, 1e-6)]
    return parts


@claim("bounds-2")
def claim_bounds_2():
    return [holds(test_saddle_theory.test_solutions_keep_their_bounds, simulator) for simulator in (TWO, GARNET)]


@claim("compact-sets")
def claim_compact_sets():
    exact, sets = printed_solution(), Sets.of(TWO.mdp, 0.1, ZETA)
    inside = (
        same(sets.project_V(exact.V), exact.V)
        and same(sets.project_Q(exact.Q), exact.Q)
        and same(sets.project_lambda(exact.occupancy), exact.occupancy)
        and same(sets.project_mu(exact.ratio), exact.ratio)
    )
    Q = np.array(exact.Q)
    Q[0, 1] = 20.0  # up to V*(1) = 20.069, and not Q* = 19.441
    other = Solution(TWO.mdp, exact.V, Q=Q, occupancy=exact.occupancy, ratio=exact.ratio, weights=0.1, distribution=M)
    identical = duality_gap(TWO.mdp, other, distribution=M) > 1e-9
    return [inside, identical]


@claim("deterministic")
def claim_deterministic():
    return [number("deterministic late") < 0.25 * number("deterministic early")]


@claim("gradients")
def claim_gradients():
    rng, eta = np.random.default_rng(0), np.full(2, 1.5)
    point = [rng.random((2, 2)), rng.random(2), rng.random((2, 2)), rng.random((2, 2))]
    parts = []
    for i, gradient in enumerate(gradients_M(TWO.mdp, eta, M, *point)):
        move = rng.random(gradient.shape)
        ahead = [x + move if i == j else x for j, x in enumerate(point)]
        difference = lagrangian_M(TWO.mdp, eta, M, *ahead) - lagrangian_M(TWO.mdp, eta, M, *point)
        parts.append(math.isclose(difference, (gradient * move).sum(), rel_tol=1e-9))  # L is linear in each
    return parts


@claim("example-1")
def claim_example_1():
    settles = [same(sim.distribution(200), sim.stationary()) for sim in (TWO, GRID)]
    positive = [theory.zeta_of(sim) > 0.0 for sim in (TWO, GRID)]
    return [*settles, *positive]


def _mean_gradient(naive, x, y, outcomes):
    found = [(p, naive.gradients(x, y, outcome)) for p, outcome in outcomes]
    return [sum(p * gradients[i] for p, gradients in found) for i in (0, 1)]


def _exact_gradient(naive, x, y, tau):
    g = gradients_M(TWO.mdp, naive.eta, tau, *naive.split(x, y))
    return [np.concatenate([g.Q.ravel(), g.V]), np.concatenate([g.lambda_.ravel(), g.mu.ravel()])]


@cache
def _gradients_are_unbiased():
    """(For independent pairs, for a walk whose state is known): the mean of the stochastic gradients is the exact."""
    naive, rng, tau = Naive(TWO, 0.08), np.random.default_rng(0), TWO.distribution(3)
    x, y = naive.random_point(rng, corner=False)
    exact = _exact_gradient(naive, x, y, tau)
    walk = np.zeros((2, 2))
    walk[0] = TWO.behaviour.matrix[0]  # given the past, the walk is in state 1
    return tuple(
        all(same(found, wanted) for found, wanted in zip(mean, exact, strict=True))
        for mean in (_mean_gradient(naive, x, y, naive.outcomes(t)) for t in (tau, walk))
    )


@claim("unbiased")
def claim_unbiased():
    return [_gradients_are_unbiased()[0]]


@claim("example-2")
def claim_example_2():
    two = all(theory.movement(TWO, k) <= theory.beta_printed(TWO, k, 0.08) + 1e-12 for k in range(20))
    return [two, number("spreading movement") <= number("spreading beta printed")]


@claim("example-3")
def claim_example_3():
    parts = []
    for sim in (TWO, SLOW):
        zeta = theory.zeta_of(sim)
        second, c, _, d, _ = theory.example_3(sim, zeta)
        parts += [theory.beta(sim, k, zeta) <= c * second**k + 1e-10 for k in range(100)]
        parts += [second**k <= d / (k + 1) for k in range(1000)]
    return parts


@claim("gap-means-convergence")
def claim_gap_means_convergence():
    exact = solve_lp(TWO.mdp, 0.1)
    wrong = Solution(TWO.mdp, np.zeros(2), Q=np.zeros((2, 2)), occupancy=3 * exact.occupancy, weights=0.1)
    assert same(pseudo_gap(TWO.mdp, wrong), 0.0)  # nothing of the point is right, and D = 0
    return [same(wrong.Q, exact.Q), same(wrong.occupancy, exact.occupancy)]


@claim("theorem-1")
def claim_theorem_1():
    found = constants()
    return [found.T_gap <= found.printed.T1, found.T_gap <= found.T1]


@claim("theorem-2")
def claim_theorem_2():
    found = constants()
    return [number("T2 shortfall") <= 1.0, found.T_policy <= found.T2]


@claim("comparison")
def claim_comparison():
    # |S|^6|A|^4/(zeta^4 u^6 eps^2) against |S|^4|A|^2/(u^6 eps^2) and |S||A|/(u^8 eps^4), zeta at most 1/(|S||A|)
    against_spd_rl = number("complexity ratio") >= 1.0
    u, epsilon = 0.001, 0.001
    against_delayed = 2**6 * 2**4 / (0.25**4 * u**6 * epsilon**2) >= 2 * 2 / (u**8 * epsilon**4)
    return [against_spd_rl, against_delayed]


@claim("iterate-relations")
def claim_iterate_relations():
    rng, U = np.random.default_rng(0), 30.0
    inside = []
    for _ in range(200):
        v, x, g = U * rng.random(2), U * rng.random(2), 100 * rng.normal(size=2)
        inside.append(_relation(v, x, g))
    outside = _relation(np.array([U, U]), np.array([3 * U, 3 * U]), np.array([-U, -U]))
    return [all(inside), outside]


def _relation(v, x, g):
    after = Sets.of(TWO.mdp).project_V(v - g)
    return bool(((after - x) ** 2).sum() <= ((v - x) ** 2).sum() + (g**2).sum() - 2 * g @ (v - x) + 1e-9)


@claim("k1-k2")
def claim_k1_k2():
    return [number("longest x") <= number("K1 at .08"), number("longest y") <= number("K2 at .08")]


@claim("gap-bound")
def claim_gap_bound():
    return [holds(test_saddle_theory.test_a_run_obeys_every_line_of_the_proof, 0, 2.0)]


@claim("phi")
def claim_phi():
    few, many = (_phi_1_at_worst(A) for A in (3, 4))
    return [few, many, holds(test_saddle_theory.test_Phi2_holds_though_its_proof_does_not)]


def _phi_1_at_worst(A):
    """Far from x* until the last step: Phi_1 is then E/(2 gamma_{T-1}), E the square of the width of X."""
    m, T = dataclasses.replace(constants().numbers, A=A), 9
    return m.S * (A + 1) * (m.sigma / m.u) ** 2 * math.sqrt(T) / (2 * m.gamma_0) <= theory.Phi1_printed(m, T)


@claim("duality-bound")
def claim_duality_bound():
    T, m = 100, constants().numbers
    gammas = (m.gamma_0 / np.sqrt(np.arange(T) + 1)).sum()
    return [gammas <= theory.step_sum(m, T), gammas <= theory.step_sum_printed(m, T)]


@claim("martingale")
def claim_martingale():
    return list(_gradients_are_unbiased())


@claim("bernstein")
def claim_bernstein():
    # sums of T independent steps: 1 - p with probability p, -p otherwise; exact tails
    parts = []
    for T, p, x in itertools.product((10, 100, 1000), (0.5, 0.1), (0.02, 0.1, 0.3)):
        a, b = p * (1 - p), 1 - p
        tail = binom.sf(math.ceil(T * (p + x) - 1e-9) - 1, T, p)
        parts.append(bool(tail <= math.exp(-T * x**2 / (2 * (a + b * x / 3)))))
    return parts


@claim("difference-bound")
def claim_difference_bound():
    return [holds(test_saddle_theory.test_martingale_differences_keep_a_and_b, 0.1, 100.0)]


@claim("variance-bound")
def claim_variance_bound():
    return [holds(test_saddle_theory.test_martingale_differences_keep_a_and_b, 0.1, None)]


@claim("gap-identity")
def claim_gap_identity():
    rng, exact, parts = np.random.default_rng(0), solve_lp(TWO.mdp, 0.1), []
    for _ in range(50):
        lambda_ = rng.random((2, 2)) + 0.1
        point = Solution(TWO.mdp, 30 * rng.random(2), Q=30 * rng.random((2, 2)), occupancy=lambda_, weights=0.1)
        policy = point.dual_policy
        worse = exact.V - policy.value(TWO.mdp)
        P, _R = policy.chain(TWO.mdp)
        wanted = lambda_.sum(axis=1) @ (worse - 0.9 * (P @ worse))
        D = pseudo_gap(TWO.mdp, point, exact=exact)
        parts += [same(D, wanted, 1e-10), bool(np.abs(worse).max() <= D / (0.1 * 0.1) + 1e-9)]
    return parts


PARTS["policy-loss"] = PARTS["gap-identity"]  # every second part is the inequality


def printed(digits, numbers):
    """Whether each named number rounds to what the paper prints."""
    return [f"{number(name):.{digits}f}" == shown for name, shown in numbers.items()]


@claim("chain")
def claim_chain():
    exact = {"P_theta(1,1)": "0.4400", "P_theta(1,2)": "0.5600", "P_theta(2,1)": "0.4200", "P_theta(2,2)": "0.5800"}
    rest = {"v(1)": "0.4286", "v(2)": "0.5714", "M1(1)": "0.0857", "M1(2)": "0.4000", "M2(1)": "0.3429"}
    return printed(4, {**exact, **rest, "M2(2)": "0.1714"})


@claim("zeta")
def claim_zeta():
    return printed(4, {"zeta from 1": "0.0856", "zeta at 0": "0.0856"})


@claim("primal-values")
def claim_primal_values():
    Q = {"Q1(1)": "20.0690", "Q1(2)": "18.1931", "Q2(1)": "19.4414", "Q2(2)": "18.6897"}
    return printed(4, {**Q, "V(1)": "20.0690", "V(2)": "18.6897"})


@claim("lambda-values")
def claim_lambda_values():
    return printed(4, {"lambda1(1)": "0.9379", "lambda1(2)": "0.0000", "lambda2(2)": "1.0621"})


@claim("mu-values")
def claim_mu_values():
    with_m = printed(4, {"mu1(1)": "10.9425", "mu2(2)": "6.1954"})
    without_m = printed(4, {"mu1(1) without M": "10.9425", "mu2(2) without M": "6.1954"})
    return [*with_m, *without_m, same(printed_solution().dual_policy.matrix, np.eye(2))]


def _errors(experiment, metric, method, step=100_000):
    """The medians of a metric, one per gamma_0."""
    word = f"{method} " if method else ""
    return [measured(experiment, f"{metric}/{word}gamma0={scale}/{step}") for scale in SCALES]


def _all_below(ones, others):
    return [below(one, other) for one, other in zip(ones, others, strict=True)]


@claim("fig1")
def claim_fig1():
    early, middle, late = (_errors("fig1", "q_error", "", step) for step in (1_000, 10_000, 100_000))
    falls = all(_all_below(late, middle) + _all_below(middle, early))
    return [falls, all(error["high"] < number("error of Q = 0") / 4 for error in late)]


@claim("fig2-similar")
def claim_fig2_similar():
    """Both fall; and at the end neither error is more than a quarter larger than the other."""
    ends = [[_errors("fig2", "dual_policy_error", method, step) for step in (100_000, 1_000)] for method in METHODS]
    ours, theirs = ([error["value"] for error in late] for late, _ in ends)
    alike = [0.8 <= one / other <= 1.25 for one, other in zip(ours, theirs, strict=True)]
    return [*(all(_all_below(late, early)) for late, early in ends), *alike]


METHODS = ("SPD-Q", "SPD-RL")


@claim("fig2-better")
def claim_fig2_better():
    return _all_below(*(_errors("fig2", "dual_policy_error", method) for method in METHODS))


@claim("fig3-faster")
def claim_fig3_faster():
    return _all_below(*(_errors("fig3", f"{kind}_policy_error", "SPD-Q") for kind in ("primal", "dual")))


@claim("fig3-worse")
def claim_fig3_worse():
    parts = _all_below(*(_errors("fig3", "q_error", method) for method in ("Q-learning", "SPD-Q")))
    for scale in SCALES:
        ours, theirs = (measured("fig3", f"right_from/{m} gamma0={scale}")["value"] for m in ("SPD-Q", "Q-learning"))
        parts.append(theirs is not None and (ours is None or theirs <= ours))
    return parts


@claim("fig4")
def claim_fig4():
    parts = []
    for reading, start in itertools.product(("next", "current"), ("zero", "random")):
        panel = f"mean/average_reward/reward on {reading} state, {start} start"
        first, ours = (measured("fig4", f"{panel}/SPD-Q/{step}")["value"] for step in (1_000, 5_000))
        parts.append(ours > 0.9 * measured("fig4", f"{panel}/Q-learning/5000")["value"] and ours > first)
    return parts


@claim("drift")
def claim_drift():
    parts = []
    for runs in _drifting().values():
        found = {name: np.median(values, axis=0) for name, values in runs.items()}
        parts += [found["q_error"][1] < 0.3 * found["q_error"][0], found["primal_policy_error"][1] == 0.0]
        parts += [found["true_gap"][1] < 0.4 * found["true_gap"][0]]
    return [bool(part) for part in parts]


@claim("fig2-reason")
def claim_fig2_reason():
    """The true M makes the error smaller by a hundredth at least, one part per gamma_0."""
    return [number(f"spdrl estimated {scale}") - number(f"spdrl true {scale}") > 0.01 for scale in SCALES]


@claim("dual-is-occupancy")
def claim_dual_is_occupancy():
    exact = solve_lp(TWO.mdp, 0.1)
    wanted = exact.primal_policy.occupancy(TWO.mdp, 0.1)
    share = exact.occupancy / exact.occupancy.sum()
    return [same(exact.occupancy, wanted), math.isclose(share.sum(), 1.0)]


@claim("constraints")
def claim_constraints():
    return [same(number("limited share"), 0.3), number("limited value") < number("unlimited value")]


@claim("approximation")
def claim_approximation():
    """With features it loses less than with a table, and than what was done; less with more rows; no more than all rows
    at once: for each number of features.
    """
    parts, done = [], measured("approximation", "value_loss/what was done")
    for panel in ("9 features", "25 features", "81 features"):
        few, mine, table = (
            measured("approximation", f"value_loss/{panel}/{curve}")
            for curve in (
                "Algorithm 1, features/1000",
                "Algorithm 1, features/100000",
                "Algorithm 1, table/100000",
            )
        )
        whole = measured("approximation", f"value_loss/{panel}/all rows at once/10000")
        parts += [below(mine, table) and below(mine, done), below(mine, few), not below(whole, mine)]
    return parts


for _slug in ("distributed", "first"):
    PARTS[_slug] = list


# ---- the page


SOURCE = re.compile(r"(?P<shown>-?[\d,]+(?:\.\d+)?(?:e-?\d+)?|not reached)<!-- =(?P<name>[^>]+?) -->")
HEADING = re.compile(r"^### (?P<number>\d+)\. (?P<title>.+?) <!-- (?P<slug>[\w-]+) -->$", re.M)
ERRATUM = re.compile(r"^(?P<number>\d+)\. \*\*.+?\*\*.*?<!-- erratum (?P<slug>[\w-]+) -->", re.M)
GLANCE = re.compile(r"(?<=<!-- glance -->\n).*?(?=<!-- /glance -->)", re.S)
CITED = re.compile(r"`([^`\n]+)`")
LABELS = ("assump:", "corollary:", "def:", "eq:", "ex:", "fig:", "intro:", "lemma:", "proposition:", "algo:")


@cache
def page():
    return PAGE.read_text(encoding="utf-8")


def blocks(text):
    """{slug: text} of the claims."""
    heads = list(HEADING.finditer(text))
    ends = [text.find("\n## ", head.end()) for head in heads]
    nexts = [head.start() for head in heads[1:]] + [len(text)]
    return {
        head["slug"]: text[head.end() : min(end if end > 0 else len(text), after)]
        for head, end, after in zip(heads, ends, nexts, strict=True)
    }


@cache
def places():
    """{"claim slug" or "erratum slug": number}."""
    found = {f"claim {head['slug']}": int(head["number"]) for head in HEADING.finditer(page())}
    return found | {f"erratum {item['slug']}": int(item["number"]) for item in ERRATUM.finditer(page())}


def as_shown(x, like):
    """A number in the form, and at the digits, of one on the page."""
    if math.isnan(x):
        return "not reached"
    if like == "not reached":
        return f"{x:.3g}"
    mantissa, e, _ = like.partition("e")
    digits = len(mantissa.partition(".")[2])
    if e:
        found, _, exponent = f"{x:.{digits}e}".partition("e")
        return f"{found}e{int(exponent)}"
    return f"{x + 0.0:{',' if ',' in like or abs(x) >= 10_000 else ''}.{digits}f}"


def verdict_shown(block):
    return re.match(r"\n\*\*(.+?)\*\* · ", block)[1]


def glance(text):
    """The table at the top, from the claims below it."""
    word = {slug: verdict_shown(block) for slug, block in blocks(text).items()}
    heads = list(HEADING.finditer(text))
    titles = [head["title"].replace("|", "\\|") for head in heads]
    rows = [f"| {head['number']} | {title} | {word[head['slug']]} |" for head, title in zip(heads, titles, strict=True)]
    counts = ", ".join(
        f"{list(word.values()).count(one)} {one}" for one in ("reproduced", "in part", "not", "not tested")
    )
    return "\n".join(
        [f"\nOf {len(heads)} claims: {counts}.\n", "| | Claim | Verdict |", "|---|---|---|", *rows, "", ""]
    )


def written(text):
    """The page with its numbers and its table as they should be."""
    text = SOURCE.sub(lambda m: f"{as_shown(number(m['name']), m['shown'])}<!-- ={m['name']} -->", text)
    return GLANCE.sub(lambda _: glance(text), text)


def test_every_number_is_that_of_its_source():
    names = [(m["name"], m["shown"]) for m in SOURCE.finditer(page())]
    assert len(names) > 100
    wrong = [(name, shown, number(name)) for name, shown in names if shown != as_shown(number(name), shown)]
    assert not wrong


def test_every_comment_of_a_source_follows_a_number():
    assert len(SOURCE.findall(page())) == page().count("<!-- =")


def test_what_was_found_has_sources():
    """No number with decimals stands in a "Found" without one; settings stand between backticks."""
    for slug, block in blocks(page()).items():
        found = re.search(r"^- Found:(.*?)(?=^- )", block, re.S | re.M)[1]
        bare = re.sub(r"`[^`]*`", "", SOURCE.sub("", found))
        assert not re.findall(r"\d*\.\d+", bare), slug


def test_claims_and_errata_are_numbered_in_order():
    for pattern in (HEADING, ERRATUM):
        numbers = [int(m["number"]) for m in pattern.finditer(page())]
        assert numbers == list(range(1, len(numbers) + 1))
        slugs = [m["slug"] for m in pattern.finditer(page())]
        assert len(set(slugs)) == len(slugs)
    assert GLANCE.search(page())[0] == glance(page())


def test_every_claim_has_parts_and_the_other_way_round():
    assert set(blocks(page())) == set(PARTS)


@pytest.mark.parametrize("slug", PARTS)
def test_the_verdict_follows_from_the_parts(slug):
    assert verdict_shown(blocks(page())[slug]) == verdict(list(PARTS[slug]()))


@pytest.mark.parametrize("name", SUMMARY)
def test_the_verdicts_of_the_summary_follow_from_its_checks(name):
    assert SUMMARY[name]["verdict"] == judged(check["holds"] for check in SUMMARY[name]["checks"])


def test_the_summary_agrees_with_the_parts():
    """The checks of the figures were made from the runs; the parts here are made from the numbers that are kept."""
    fall, better = PARTS["fig2-similar"]()[:2], PARTS["fig2-better"]()
    for name, parts in {"fig1": PARTS["fig1"](), "fig2": [*fall, *better], "fig4": PARTS["fig4"]()}.items():
        assert [check["holds"] for check in SUMMARY[name]["checks"]] == parts


# ---- what the page cites


def names_in(path):
    """The functions, classes, methods and constants of a file."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def cited():
    return [word for word in CITED.findall(page()) if ".py" in word.split("::")[0].split()[0] and " " not in word]


def test_every_file_function_and_test_exists():
    assert len(cited()) > 150
    missing = []
    for word in dict.fromkeys(cited()):
        file, _, name = word.partition("::")
        path = ROOT / file if file.startswith("tests/") else ROOT / "src" / "dualq" / file
        if not path.exists() or (name and name not in names_in(path)):
            missing.append(word)
    assert not missing


def test_every_command_exists():
    commands = [word for word in CITED.findall(page()) if word.startswith("uv run")]
    help_text = CliRunner().invoke(app, ["reproduce", "--help"]).output
    assert len(commands) >= 10
    for command in commands:
        words = [word for word in command.split() if word != "--all-extras"]
        if words[2:4] == ["dualq", "reproduce"]:
            assert words[4] in (*NAMES, "all"), command
            assert "--out" in words, command
            assert all(word in help_text for word in words[5:] if word.startswith("--")), command
        else:
            assert words[2] in ("pytest", "python"), command
            assert (ROOT / words[3].partition("::")[0]).exists(), command


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", page()):
        file, _, anchor = target.partition("#")
        assert not file or (PAGE.parent / file).exists(), target
        heads = [
            re.sub(r"[^\w -]", "", head.lower()).strip().replace(" ", "-")
            for head in re.findall(r"^## (.+)$", page(), re.M)
        ]
        assert not anchor or anchor in heads, target


def test_every_claim_says_where_what_and_how():
    for slug, block in blocks(page()).items():
        for part in ("\n- Claim:", "\n- Found:", "\n- Check:", "Code:"):
            assert part in block, (slug, part)


if __name__ == "__main__":
    PAGE.write_text(written(page()), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} has the numbers of today", file=sys.stderr)
