"""Networks of agents: rounds, bytes and time of every way of sharing, and whether any failure goes unseen.

uv run --group bench python benchmarks/networks.py [--runs 1000] [--only rounds]

rounds    Bellman tracking, rounds until every agent's own Q is within 1e-6 of the exact Q of the pooled log, counted
          from the moment when the summed visits are known to all; beside what another implementation needed
equal     counts and masked counts against the pooled log on five graphs, 30% loss, one agent that leaves and returns
unseen    random models and networks: how often tracking gave an answer, how often it said that it has none, and how
          often an answer was wrong by more than 1e-5
back      rounds until every agent is within 1e-9 again, after one was killed and restored, and began anew with nothing,
          while messages are lost, doubled, and up to 5 rounds late; the worst of some seeds
alone     what agents lose that learn from their own log alone, in the true model
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import argparse
import time

import numpy as np
from common import markdown, publish

import dualq
from dualq.offline.together.agents import Task
from dualq.offline.together.agreement import common_of
from dualq.offline.together.simulation import Simulation
from dualq.offline.together.tables import House
from dualq.offline.together.tracking import TrackingAgent

THEIRS = {
    ("two_state", "ring", 5): (42, 45, 55),
    ("garnet .9", "ring", 10): (156, 168, 203),
    ("garnet .9", "star", 10): (58, 62, 74),
    ("garnet .99", "ring", 10): (186, 199, 240),
}
PROBLEMS = {
    "two_state": dualq.problems.two_state(),
    "garnet .9": dualq.problems.garnet(20, 4, 3, discount=0.9, seed=0),
    "garnet .99": dualq.problems.garnet(20, 4, 3, discount=0.99, seed=0),
}


def pooled(logs):
    """All rows in one log."""
    names = ("state", "action", "reward", "next_state")
    join = [np.concatenate([getattr(log, name) for log in logs]) for name in names]
    return dualq.ArrayLog(*join, logs[0].states, logs[0].actions, reward_range=logs[0].reward_range)


def tracking(problem, network, tolerance=1e-9, rows=2000, seed=0):
    """Agents ready to run, and the exact Q of the pooled log."""
    logs = [problem.record(steps=rows, seed=100 * seed + k) for k in range(network.size)]
    exact = dualq.solve(pooled(logs).counts().mdp(problem.mdp.discount)).Q
    task = Task(network.size, problem.mdp.discount, "iterates", tolerance=tolerance)
    agents = [TrackingAgent(k, House.of(log), common_of(log), task, bytes([k + 1]) * 32) for k, log in enumerate(logs)]
    return Simulation(network, agents), agents, exact


def rounds_to(problem, network, error=1e-6, most=3000):
    """Rounds from known visits to an error, of the worst agent; None where it is not reached."""
    simulation, agents, exact = tracking(problem, network, tolerance=0.0)
    known, began = np.isfinite(exact), None
    while simulation.round < most:
        simulation.step()
        if began is None and all(agent.visits is not None for agent in agents):
            began = simulation.round
        if began is not None and max(np.abs(agent.own() - exact)[known].max() for agent in agents) < error:
            return simulation.round - began, began
    return None, began


def rounds():
    """The table of rounds."""
    table = []
    for (name, shape, size), theirs in THEIRS.items():
        for loss, other in zip((0.0, 0.1, 0.3), theirs, strict=True):
            found, before = rounds_to(PROBLEMS[name], getattr(dualq.Network, shape)(size, loss=loss))
            table.append([name, f"{shape} of {size}", f"{loss:.0%}", found, other, before])
    return markdown(
        ["problem", "network", "loss", "rounds", "another implementation", "rounds before, for visits"], table
    )


def microseconds():
    """CPU time of a round and agent in the simulation, N = 10, once visits are known."""
    table = []
    for name in ("two_state", "garnet .9"):
        simulation, _, _ = tracking(PROBLEMS[name], dualq.Network.ring(10), tolerance=0.0)
        for _ in range(40):
            simulation.step()
        best = np.inf
        for _ in range(5):
            began = time.process_time()
            for _ in range(100):
                simulation.step()
            best = min(best, (time.process_time() - began) / 1000 * 1e6)
        table.append([name, f"{best:.0f}"])
    return markdown(["problem", "microseconds a round and agent"], table)


def equal():
    """Counts and masked counts against the pooled log."""
    away = {1: [(2, 30)]}
    graphs = {
        "ring": dualq.Network.ring(6, loss=0.3, away=away),
        "star": dualq.Network.star(6, loss=0.3, away=away),
        "grid": dualq.Network.grid(2, 3, loss=0.3, away=away),
        "complete": dualq.Network.complete(6, loss=0.3, away=away),
        "random": dualq.Network.random(6, 0.4, seed=1, loss=0.3, away=away),
    }
    logs = [PROBLEMS["two_state"].record(steps=500, seed=k) for k in range(6)]
    wanted = dualq.learn(pooled(logs), discount=0.9, certificate=None).solution.Q
    table = []
    for share in ("counts", "masked counts"):
        for name, graph in graphs.items():
            found = dualq.learn_together(logs, graph, share=share, discount=0.9, certificate=None)
            error = max(np.abs(fit.solution.Q - wanted).max() for fit in found.fits)
            table.append([share, name, f"{error:g}", found.rounds, found.messages, found.bytes])
    return markdown(["share", "graph", "Q error", "rounds", "messages", "bytes"], table)


def unseen(runs):
    """Answers, refusals and wrong answers of random runs."""
    answered = wrong = refused = 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        states, discount = int(rng.integers(2, 12)), float(rng.choice([0.9, 0.99]))
        problem = dualq.problems.garnet(
            states, 2, int(rng.integers(1, min(4, states + 1))), discount=discount, seed=seed
        )
        size = int(rng.integers(2, 7))
        shape = dualq.Network.random(size, 0.5, seed=seed).with_failures(loss=float(rng.choice([0.0, 0.1, 0.3])))
        simulation, agents, exact = tracking(problem, shape, rows=int(rng.integers(20, 400)), seed=seed)
        if not simulation.run(600):
            refused += 1
            continue
        answered += 1
        known = np.isfinite(exact)
        wrong += np.abs(agents[0].found().Q[known] - exact[known]).max() > 1e-5
    return markdown(
        ["runs", "answered", "said that there is no answer", "wrong answers"], [[runs, answered, refused, wrong]]
    )


def back(seeds=5):
    """Rounds to 1e-9 after a kill, and after a blank restart."""
    table = []
    for name, shape, size in (("two_state", "ring", 5), ("garnet .9", "star", 10), ("garnet .9", "ring", 10)):
        for kind in ("killed, restored", "begins anew"):
            graph = getattr(dualq.Network, shape)(size, loss=0.1, delay=5, reordering=True, duplication=0.1)
            found = [_back(PROBLEMS[name], graph, kind == "begins anew", seed) for seed in range(seeds)]
            table.append([name, f"{shape} of {size}", kind, int(np.median(found)), max(found)])
    return markdown(["problem", "network", "agent 2", "rounds to 1e-9, median", f"worst of {seeds} seeds"], table)


def _back(problem, graph, blank, seed, most=2000):
    network = graph.with_failures(seed=seed)
    simulation, agents, exact = tracking(problem, network, tolerance=0.0, seed=seed)
    for _ in range(60):
        simulation.step()
    old = agents[2]
    new = TrackingAgent(2, old.house, old.reading, old.task, bytes([99 if blank else 3]) * 32, life=int(blank))
    if not blank:
        new.restore(old.state())
    simulation.agents[2] = agents[2] = new
    known, began = np.isfinite(exact), simulation.round
    while simulation.round < began + most:
        simulation.step()
        ready = all(agent.visits is not None for agent in agents)
        if ready and max(np.abs(agent.own() - exact)[known].max() for agent in agents) < 1e-9:
            break
    return simulation.round - began


def alone():
    """Policy loss in the true model, from the start: own log, and all together."""
    table = []
    problem = PROBLEMS["garnet .9"]
    best = dualq.solve(problem.mdp).V
    logs = [problem.record(steps=150, seed=k) for k in range(10)]
    own = [dualq.learn(log, discount=0.9, certificate=None).policy for log in logs]
    shared = dualq.learn_together(logs, dualq.Network.ring(10), discount=0.9, certificate=None).fits[0].policy
    losses = [float((best - policy.value(problem.mdp)).mean()) for policy in own]
    together = float((best - shared.value(problem.mdp)).mean())
    table.append(["garnet .9, 10 agents, 150 rows each", f"{np.mean(losses):.3f}", f"{together:.3f}"])
    return markdown(["problem", "loss alone, mean over agents", "loss together"], table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--only", choices=["rounds", "microseconds", "equal", "unseen", "back", "alone"])
    asked = parser.parse_args()
    parts = {
        "rounds": rounds,
        "microseconds": microseconds,
        "equal": equal,
        "unseen": lambda: unseen(asked.runs),
        "back": back,
        "alone": alone,
    }
    text = "\n\n".join(part() for name, part in parts.items() if asked.only in (None, name))
    if asked.only is None:
        publish("Networks of agents (benchmarks/networks.py)", text)
    else:
        print(text)
