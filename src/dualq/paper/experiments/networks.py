"""Agents on sparse networks that lose messages: disagreement and value, round after round.

Claim     the paper's second open direction, distributed learning with local rows and rewards on sparse and random
          networks: agents that share iterates, and no table, come to the Q that one pooled log would give
Setting   Bellman tracking (docs/networks.md) by 10 agents with 200 rows each of a Garnet problem (20 states, 4 actions,
          3 successors, discount .9); five graphs, of which 0, 10 and 30% of the messages are lost. Rounds are counted
          from the moment when the summed visits are known to all.
Measured  the largest difference between two agents' Q (disagreement), the distance of the worst agent's Q from the
          exact Q of the pooled log (q_error), and mean_s V*(s) - V^pi(s) in the true model of the policies that are
          greedy in the agents' Q, averaged over the agents (value_loss); beside them that of the pooled log, and of
          each agent's own log alone
Checks    per graph: with every loss and seed all agents are within 1e-6 of the pooled log's Q at the last round; their
          policies then lose as much as its policy, and less than agents alone by more than their uncertainty; a loss of
          30% costs at most twice the rounds
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from dualq.logs import ArrayLog
from dualq.model import TablePolicy
from dualq.offline import Network, course
from dualq.paper.experiments import plots
from dualq.paper.experiments.curves import (
    Array,
    Curve,
    Measured,
    Results,
    Row,
    by_step,
    code_words,
    decades,
    median,
    source_words,
)
from dualq.paper.experiments.verdicts import Check, Number, Verdict, below, listed, value_of
from dualq.solvers import solve
from dualq.worlds import Simulator, problems

NAME = "networks"
TITLE = "Ten agents that share iterates, on five graphs"
CLAIM = "Agents on sparse networks that lose messages come to what one pooled log says, and share no table."
AGENTS, LOG_ROWS, ROUNDS = 10, 200, 400
MARKS = (10, 100, ROUNDS)
RECORD = tuple(sorted({*decades(1, ROUNDS, 20), *MARKS}))
METRICS = ("disagreement", "q_error", "value_loss")
LOSSES = {"no loss": 0.0, "10% lost": 0.1, "30% lost": 0.3}
COLUMNS = ("state", "action", "reward", "next_state")
POOLED, ALONE = "pooled log", "alone"
CLOSE = 1e-6
SETTINGS = {
    "problem": "garnet(20, 4, 3, discount=0.9)",
    "agents": AGENTS,
    "rows of each": LOG_ROWS,
    "rounds": ROUNDS,
    "loss": list(LOSSES.values()),
}


@cache
def problem() -> Simulator:
    """The problem, made once."""
    return problems.garnet(20, 4, 3, discount=0.9, seed=0)


@cache
def graphs() -> dict[str, Network]:
    """The five graphs."""
    return {
        "ring": Network.ring(AGENTS),
        "star": Network.star(AGENTS),
        "grid": Network.grid(2, AGENTS // 2),
        "complete": Network.complete(AGENTS),
        "random": Network.random(AGENTS, 0.3, seed=1),
    }


def curves() -> list[Curve]:
    """Per graph one for each loss, and the two that it is compared with."""
    return [curve for graph in graphs() for curve in (*(_tracked(graph, loss) for loss in LOSSES), *_compared(graph))]


def _tracked(graph: str, loss: str) -> Curve:
    def measure(seed: int) -> dict[str, Array]:
        logs, mdp = _logs(seed), problem().mdp
        exact = solve(_pooled(logs).counts().mdp(mdp.discount)).Q
        assert exact is not None
        network = graphs()[graph].with_failures(loss=LOSSES[loss], seed=seed)
        run = course(logs, network, mdp.discount, RECORD, seed)
        losses = [np.mean([_lost(Q) for Q in agents]) for agents in run.Q]
        values = (run.disagreement, run.distance(exact), np.array(losses))
        return {"step": run.rounds, **dict(zip(METRICS, values, strict=True))}

    return Curve(loss, graph, {**_words(), "graph": graph, "loss": loss}, measure)


def _compared(graph: str) -> list[Curve]:
    """What the pooled log's policy loses, and what agents lose alone: the same in every round."""

    def pooled(seed: int) -> dict[str, Array]:
        return _constant(_lost_by([_pooled(_logs(seed))]))

    def alone(seed: int) -> dict[str, Array]:
        return _constant(_lost_by(_logs(seed)))

    return [Curve(name, graph, {**_words(), "of": name}, of) for name, of in ((POOLED, pooled), (ALONE, alone))]


def _words() -> dict[str, str]:
    return {"code": code_words(__file__), "source": source_words(problem())}


def _constant(value: float) -> dict[str, Array]:
    return {"step": np.array(RECORD), "value_loss": np.full(len(RECORD), value)}


def _logs(seed: int) -> list[ArrayLog]:
    return [problem().record(steps=LOG_ROWS, seed=1000 * seed + agent) for agent in range(AGENTS)]


def _pooled(logs: list[ArrayLog]) -> ArrayLog:
    """All rows in one log."""
    s, a, r, t = (np.concatenate([getattr(log, name) for log in logs]) for name in COLUMNS)
    return ArrayLog(s, a, r, t, logs[0].states, logs[0].actions, reward_range=logs[0].reward_range)


def _lost_by(logs: list[ArrayLog]) -> float:
    """What policies lose that are greedy in the exact Q of one log each, on average."""
    mdp = problem().mdp
    return float(np.mean([_lost(solve(log.counts().mdp(mdp.discount)).Q) for log in logs]))


def _lost(Q: Array | None) -> float:
    """mean_s V*(s) - V^pi(s) in the true model, pi greedy in Q."""
    assert Q is not None
    return _lost_with(tuple(Q.argmax(axis=1).tolist()))


@lru_cache(1 << 16)  # agents come to the same policy long before they come to the same Q
def _lost_with(actions: tuple[int, ...]) -> float:
    mdp = problem().mdp
    policy = TablePolicy(np.eye(mdp.num_actions)[list(actions)])
    return float((_best() - policy.value(mdp)).mean())


@cache
def _best() -> Array:
    return solve(problem().mdp).V


# ---- what comes of it


def rows(results: Results) -> list[Row]:
    """The tidy table."""
    return by_step(results, METRICS)


def verdict(results: Results) -> Verdict:
    """Whether agents come to the pooled log's Q, on every graph."""
    numbers: dict[str, Number] = {}
    for (graph, curve), measured in results.items():
        for metric in measured.values:
            numbers |= {f"{metric}/{graph}/{curve}/{x}": median(measured.at(metric, x)) for x in MARKS}
        if curve in LOSSES:
            numbers[f"rounds/{graph}/{curve}"] = median(_rounds_to(measured))
    return Verdict([check for graph in graphs() for check in _checks(graph, results, numbers)], numbers)


def _rounds_to(measured: Measured) -> Array:
    """(seeds,) the first recorded round from which on the worst agent is close; infinite where it is not reached."""
    close = measured.values["q_error"] <= CLOSE
    stays = np.logical_and.accumulate(close[:, ::-1], axis=1)[:, ::-1]
    return np.where(stays.any(axis=1), measured.steps[stays.argmax(axis=1)], np.inf)


def _checks(graph: str, results: Results, numbers: dict[str, Number]) -> list[Check]:
    worst = max(float(results[graph, loss].at("q_error", ROUNDS).max()) for loss in LOSSES)
    rounds = [numbers[f"rounds/{graph}/{loss}"] for loss in LOSSES]
    ends = [numbers[f"value_loss/{graph}/{name}/{ROUNDS}"] for name in (*LOSSES, POOLED, ALONE)]
    same = all(value_of(end) == value_of(ends[-2]) for end in ends[:-2])
    better = all(below(end, ends[-1]) for end in ends[:-2])
    lost = f"{listed(ends[:-2])} against {listed(ends[-2:-1])} pooled and {listed(ends[-1:])} alone"
    return [
        Check(f"{graph}: all agents have the pooled log's Q", worst <= CLOSE, f"farthest of all seeds {worst:.1g}"),
        Check(f"{graph}: their policies lose what its policy loses, and less than alone", same and better, lost),
        Check(
            f"{graph}: a loss of 30% costs at most twice the rounds",
            value_of(rounds[-1]) <= 2.0 * value_of(rounds[0]),
            f"rounds to 1e-6: {listed(rounds)} at 0, 10 and 30%",
        ),
    ]


def plot(rows: list[Row]) -> plots.Chart:
    """A row per graph: disagreement, and the value that is lost."""
    axes = {"disagreement": "largest disagreement about Q", "value_loss": "value lost, mean over states"}
    shown = [row for row in rows if row["metric"] in axes]
    note = f"{POOLED}, {ALONE}: what the policy of all rows loses, and those of each agent's own rows."
    return plots.in_rows(shown, TITLE, axes, x="round", linear=("value_loss",), least=1e-9, note=note)
