"""What a policy learned from N rows loses where the state is made of numbers: all four variables linear in features.

Claim     The saddle problem can be combined with linear approximation of the primal and the dual variables (the paper's
          third open direction)
Setting   Dosing (worlds/continuous.py: severity and concentration, four doses, discount .95) on a fine grid of 21 x 19
          points, which is then a finite model whose best policy is known exactly; rows along trajectories of its
          behaviour. Features are the 3 x 3, 5 x 5 or 9 x 9 points of a coarser grid, between which one interpolates:
          weights of sum 1.
Methods   Algorithm 1 with Q, V, lambda, mu linear in the features (online/spd_q_linear.py), eta = sigma/|S|, its primal
          and its dual policy with gamma_0 = .1, .3, 1: at each N the best of these six, with the true model at hand.
          The same with a feature for every state, which is the table, in every panel.
          All rows at once: the same saddle problem in the same features, solved on all N rows (the linear learner of
          `learn`); nothing tuned.
Measured  V*(start) - V^pi(start) on the fine grid (value_loss); what was done so far loses about 4
Checks    per number of features, of Algorithm 1 with features at N = 100,000: it loses less than its table, and than
          what was done; less than at N = 1,000; no more than all rows at once do at N = 10,000
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from dualq.base import Rows, States
from dualq.logs import NumberRows
from dualq.model import MDP, Solution, TablePolicy
from dualq.offline import learned_quickly
from dualq.online import SPDQLinear, inverse_sqrt, task_of, train
from dualq.paper.experiments import plots
from dualq.paper.experiments.curves import Curve, Results, Row, code_words, exactly, median, source_words, summary_row
from dualq.paper.experiments.efficiency import tuned
from dualq.paper.experiments.methods import rows_of
from dualq.paper.experiments.verdicts import Check, Verdict, below, shown
from dualq.solvers import solve
from dualq.worlds import Simulator, continuous, gridded

Array = np.ndarray

NAME = "approximation"
TITLE = "What a policy loses, learned from N rows of states made of numbers"
CLAIM = "The saddle problem can be combined with linear approximation of the primal and the dual variables."
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
AT_ONCE = SIZES[:3]
SIDES = (3, 5, 9)
SCALES = (0.1, 0.3, 1.0)
ZETA = 1e-4  # rarer pairs are as good as never seen
SEVERITY, CONCENTRATION = np.linspace(0.0, 10.0, 21), np.linspace(0.0, 9.0, 19)
STARTS = 4096  # drawn, for the weights of the grid's points
LINEAR, TABLE, WHOLE, LOGGED = "Algorithm 1, features", "Algorithm 1, table", "all rows at once", "what was done"
SETTINGS = {
    "problem": "Dosing on a grid of 21 x 19 points, discount .95",
    "sampling": "trajectory",
    "features": [f"{side} x {side} points, interpolated" for side in SIDES],
    "rows": list(SIZES),
    "rows at once": list(AT_ONCE),
    "tuned": {LINEAR: [f"gamma0={scale:g}, {which}" for scale in SCALES for which in ("primal", "dual")]},
}


# ---- the problem


def clinic(points: int | None = None) -> gridded.Grid:
    """The fine grid, or so many points on each side."""
    axes = {"severity": SEVERITY, "concentration": CONCENTRATION}
    coarse = {name: np.linspace(axis[0], axis[-1], points or axis.size) for name, axis in axes.items()}
    return gridded.Grid.of(continuous.Dosing(), coarse)


@cache
def source() -> Simulator:
    """Who behaved, on the fine grid; its last state is the end."""
    problem, fine = continuous.Dosing(), clinic()
    mdp = fine.model(problem, log2_draws=6)
    begun = fine.weights(problem.start(np.random.default_rng(0), STARTS)).mean(axis=0)
    return Simulator(mdp, on_grid(mdp, problem.behaviour), np.append(begun, 0.0), "Dosing on a grid")


def on_grid(mdp: MDP, rule: Callable[[States], Array]) -> TablePolicy:
    """A rule over numbers, at the grid's points; at the end nothing matters."""
    actions = len(mdp.actions)
    return TablePolicy(
        np.vstack([rule(clinic().points), np.full((1, actions), 1.0 / actions)]), mdp.states, mdp.actions
    )


@cache
def best() -> Solution:
    """The exact solution of the fine grid."""
    return solve(source().mdp)


def lost(policy: TablePolicy) -> float:
    """V*(start) - V^pi(start)."""
    start = np.asarray(source().start)
    return float(start @ (best().V - policy.value(source().mdp)))


# ---- the two ways


def features(side: int | None) -> Array:
    """(S, D) weights of a coarser grid's points, and one feature for the end; None: one for every state."""
    if side is None:
        return np.eye(source().mdp.num_states)
    weights = clinic(side).weights(clinic().points).toarray()
    return np.block([[weights, np.zeros((len(weights), 1))], [np.zeros((1, weights.shape[1])), np.ones((1, 1))]])


def step_by_step(side: int | None, scale: float, N: int, seed: int) -> Solution:
    """Algorithm 1 with features, after the first N rows."""
    mdp = source().mdp
    algorithm = SPDQLinear(
        step_size=inverse_sqrt(scale), weights=mdp.reward_bound / mdp.num_states, zeta=ZETA, features=features(side)
    )
    return train(algorithm, source(), N, seed=seed, sampling="trajectory", progress=False).solution


def at_once(side: int, rows: Rows, seed: int) -> TablePolicy:
    """The saddle problem in the same features, on all rows."""
    coarse = clinic(side)

    def weights(table: Mapping[str, ArrayLike]) -> Array:
        x = np.stack([np.asarray(values, float) for values in table.values()], axis=1)
        return coarse.weights(States(x, np.empty((len(x), 0), np.int64))).toarray()[:, 1:]  # an intercept is added

    rule = learned_quickly(numbers_of(rows), source().mdp.discount, seed, weights)["linear"]
    return on_grid(source().mdp, rule)


def numbers_of(rows: Rows) -> NumberRows:
    """Rows of the grid's points as rows of numbers."""
    problem, points = continuous.Dosing(), clinic().points
    s, a, r, s_next, _ = rows
    ended = s_next == len(points)
    begins = np.append(True, ended[:-1])
    after = points.at(np.where(ended, s, s_next))
    episode = np.cumsum(begins) - 1
    return NumberRows(problem.columns, problem.actions, points.at(s), a.astype(np.int64), r, after, ended, episode)


# ---- the experiment


def curves() -> list[Curve]:
    """Three per number of features; the table, and what was done, are the same in every panel."""
    return [curve for side in SIDES for curve in _panel(side)]


def _panel(side: int) -> list[Curve]:
    task = task_of(source(), "trajectory")
    words = {"code": code_words(__file__), "source": source_words(source())}

    def stepping(name: str, how: int | None) -> Curve:
        def measure(seed: int) -> dict[str, Array]:
            found = {"step": np.array(SIZES)}
            for scale in SCALES:
                runs = [step_by_step(how, scale, N, seed) for N in SIZES]
                for which, policies in (
                    ("primal", [run.primal_policy for run in runs]),
                    ("dual", [run.dual_policy for run in runs]),
                ):
                    found[f"value_loss {which} gamma0={scale:g}"] = np.array([lost(policy) for policy in policies])
            return found

        return Curve(name, panel, {**words, "way": "step by step", "side": how, "sizes": list(SIZES)}, measure)

    def whole(seed: int) -> dict[str, Array]:
        rows = rows_of(task, seed, AT_ONCE[-1]).rows
        losses = [lost(at_once(side, rows.first(N), seed)) for N in AT_ONCE]
        return {"step": np.array(AT_ONCE), "value_loss": np.array(losses)}

    panel = f"{side**2} features"
    return [
        stepping(LINEAR, side),
        stepping(TABLE, None),
        Curve(WHOLE, panel, {**words, "way": "at once", "side": side, "sizes": list(AT_ONCE)}, whole),
    ]


def rows(results: Results) -> list[Row]:
    """The tidy table."""
    found, logged = [], lost(source().behaviour)
    for (panel, curve), measured in results.items():
        values = tuned(measured, "value_loss")
        assert values is not None, "every curve has losses"
        steps = measured.steps.tolist()
        found += [summary_row(panel, curve, "value_loss", N, x) for N, x in zip(steps, values.T, strict=True)]
        if curve == WHOLE:
            found += [summary_row(panel, LOGGED, "value_loss", N, np.full(len(values), logged)) for N in SIZES]
    return found


def verdict(results: Results) -> Verdict:
    """What features gain, and what steps lose."""
    numbers = {f"value_loss/{LOGGED}": exactly(lost(source().behaviour))}
    for (panel, curve), measured in results.items():
        values = tuned(measured, "value_loss")
        assert values is not None, "every curve has losses"
        numbers |= {
            f"value_loss/{panel}/{curve}/{int(N)}": median(x) for N, x in zip(measured.steps, values.T, strict=True)
        }
    checks, last = [], SIZES[-1]
    for panel in dict.fromkeys(panel for panel, _ in results):
        mine, table = (numbers[f"value_loss/{panel}/{curve}/{last}"] for curve in (LINEAR, TABLE))
        few = numbers[f"value_loss/{panel}/{LINEAR}/{SIZES[0]}"]
        whole, done = numbers[f"value_loss/{panel}/{WHOLE}/{AT_ONCE[-1]}"], numbers[f"value_loss/{LOGGED}"]
        because = f"median loss at {last:,} rows {shown(mine)} against {shown(table)}, and {shown(done)} so far"
        better = below(mine, table) and below(mine, done)
        checks.append(Check(f"{panel}: Algorithm 1 loses less than its table, and than what was done", better, because))
        because = f"{shown(mine)} at {last:,} rows against {shown(few)} at {SIZES[0]:,}"
        checks.append(Check(f"{panel}: it loses less the more rows it has", below(mine, few), because))
        because = f"{shown(mine)} at {last:,} rows against {shown(whole)} at {AT_ONCE[-1]:,}"
        checks.append(Check(f"{panel}: it loses no more than all rows at once", not below(whole, mine), because))
    return Verdict(checks, numbers)


def plot(rows: list[Row]) -> plots.Chart:
    """A panel per number of features."""
    note = "Algorithm 1 is tuned at each size; the table has a feature for each of 400 states."
    axes = {"value_loss": "value lost"}
    return plots.over_steps(rows, TITLE, axes, x="rows", zero=True, columns=3, subtitle=note)
