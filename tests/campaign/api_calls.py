"""Calls of the public functions with one argument, or two, that nobody should give.

`python tests/campaign/api_calls.py 10000 [seed]` makes so many, and prints what was answered wrongly.
"""

from __future__ import annotations

import datetime
import inspect
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from dualq.errors import DualqError

import dualq


class Odd:
    """Nothing that anything expects."""

    def __repr__(self) -> str:
        return "Odd()"


ODD = [
    None,
    True,
    -1,
    0,
    3,
    10**30,
    0.5,
    -0.0,
    float("nan"),
    float("inf"),
    1e308,
    1 + 2j,
    "",
    "x",
    "a\nb",
    b"bytes",
    [],
    [0],
    [None],
    [[1], [1, 2]],
    (),
    (1, 2, 3),
    {},
    {0: [0]},
    {"state": {}},
    {None: None},
    set(),
    object,
    Odd(),
    np.array([]),
    np.array([np.nan]),
    np.zeros((2, 2, 2)),
    np.array(["a"], object),
    datetime.date(2024, 2, 29),
    lambda *_: None,
    range(3),
    Exception("x"),
]


@dataclass(frozen=True)
class Call:
    """A function and arguments that it takes."""

    name: str
    function: Callable[..., object]
    good: Mapping[str, object]


def calls(folder: Path) -> list[Call]:
    """What users call, each with arguments that are right."""
    two = dualq.problems.two_state()
    log = two.record(steps=300, seed=0)
    fit = dualq.learn(log, discount=0.9)
    mdp, exact = two.mdp, dualq.solve(two.mdp)
    state = fit.policy.states[0]
    table = log.table()
    read = {"state": "state", "action": "action", "reward": "reward", "next_state": "next_state", "time": "time"}
    numbers = {"bins": {}, "costs": [], "reward_range": (0, 1), "skip_bad": False, "available": None}
    rng = np.random.default_rng(0)
    return [
        Call("read_log", dualq.read_log, {"source": table, **read, **numbers, "episode": None, "terminal": None}),
        Call("look", dualq.look, {"source": table}),
        Call(
            "learn",
            dualq.learn,
            {
                "log": log,
                "discount": 0.9,
                "confidence": 0.9,
                "start": "log",
                "pessimism": 1.0,
                "certificate": "proven",
                "solver": "exact",
                "limits": None,
                "margin": "certified",
                "value_range": None,
                "assume": (),
                "approximation": "auto",
                "progress": None,
            },
        ),
        Call("solve", dualq.solve, {"mdp": mdp, "weights": None, "method": "lp", "distribution": None}),
        Call(
            "duality_gap",
            dualq.duality_gap,
            {"mdp": mdp, "solution": exact, "weights": None, "distribution": None, "zeta": None},
        ),
        Call("pseudo_gap", dualq.pseudo_gap, {"mdp": mdp, "solution": exact, "weights": None}),
        Call(
            "train",
            dualq.train,
            {
                "algorithm": dualq.SPDQ(step_size=dualq.inverse_sqrt(2.0), weights=1.5, zeta=0.08),
                "source": two,
                "steps": 100,
                "seed": 0,
                "record": [10],
                "checkpoint": None,
                "every": 50,
            },
        ),
        Call(
            "MDP",
            dualq.MDP,
            {
                "P": np.full((2, 2, 2), 0.5),
                "rewards": np.ones((2, 2)),
                "discount": 0.9,
                "reward_bound": None,
                "states": None,
                "actions": None,
            },
        ),
        Call(
            "TablePolicy",
            dualq.TablePolicy,
            {"matrix": np.full((2, 2), 0.5), "states": ["a", "b"], "actions": ["x", "y"]},
        ),
        Call("SPDQ", dualq.SPDQ, {"step_size": dualq.inverse_sqrt(2.0), "weights": 1.5, "zeta": 0.08}),
        Call("QLearning", dualq.QLearning, {}),
        Call("inverse_sqrt", dualq.inverse_sqrt, {"scale": 2.0, "offset": 1}),
        Call("constant", dualq.constant, {"scale": 0.1}),
        Call("load", dualq.load, {"folder": folder / "run"}),
        Call("theory.bounds", dualq.theory.bounds, {"problem": two, "step_scale": 2.0, "epsilon": 0.1, "delta": 0.1}),
        Call("problems.grid_world", dualq.problems.grid_world, {"size": 2, "discount": 0.9}),
        Call(
            "problems.garnet",
            dualq.problems.garnet,
            {"states": 4, "actions": 2, "branching": 2, "discount": 0.9, "seed": 0},
        ),
        Call("problems.chain", dualq.problems.chain, {"states": 4, "discount": 0.9, "slip": 0.1}),
        Call("problems.maze", dualq.problems.maze, {"size": 4, "walls": 0.2, "slip": 0.2, "discount": 0.9, "seed": 0}),
        Call("problems.queue", dualq.problems.queue, {}),
        Call("problems.inventory", dualq.problems.inventory, {}),
        Call("problems.machine_replacement", dualq.problems.machine_replacement, {}),
        Call("problems.gym", dualq.problems.gym, {"name": "Taxi-v4"}),
        Call("Network.ring", dualq.Network.ring, {"size": 4, "loss": 0.1}),
        Call("Network.random", dualq.Network.random, {"size": 4, "p": 0.9, "seed": 0}),
        Call("Network.of", dualq.Network.of, {"edges": [(0, 1), (1, 2)]}),
        Call("Network.grid", dualq.Network.grid, {"rows": 2, "columns": 2}),
        Call(
            "learn_together",
            dualq.learn_together,
            {
                "logs": [log, log],
                "network": dualq.Network.complete(2),
                "share": "counts",
                "reward": "pooled",
                "discount": 0.9,
                "seed": 0,
                "engine": "simulation",
            },
        ),
        Call("record", two.record, {"steps": 10, "seed": 0, "costs": None}),
        Call("log.coverage", log.coverage, {"level": 0.01}),
        Call("log.to_parquet", log.to_parquet, {"path": folder / "log.parquet"}),
        Call("log.counts_between", log.counts_between, {"cuts": [10]}),
        Call("fit.act", fit.act, {"state": state, "seed": 0}),
        Call("fit.act_many", fit.act_many, {"table": {"state": [state]}, "seed": 0}),
        Call("fit.explain", fit.explain, {"state": state}),
        Call("fit.changes", fit.changes, {"most": 3}),
        Call("fit.frontier", fit.frontier, {"cost": "x", "points": 3}),
        Call("fit.report", fit.report, {"path": folder / "report.html"}),
        Call("fit.save", fit.save, {"folder": folder / "saved"}),
        Call("fit.with_limits", fit.with_limits, {"limits": None, "margin": None}),
        Call("policy.act", fit.policy.act, {"state": state, "seed": 0, "default": None}),
        Call("policy.probabilities", fit.policy.probabilities, {"state": state}),
        Call("policy.value", exact.primal_policy.value, {"mdp": mdp}),
        Call("policy.occupancy", exact.primal_policy.occupancy, {"mdp": mdp, "weights": None}),
        Call("certificate.wanted", fit.certificate.wanted, {"most": 3}),
        Call("solution.save", exact.save, {"path": folder / "solution.npz"}),
        Call("step", two.step, {"s": 0, "a": 0, "rng": rng}),
        Call("PolicyLearner", lambda **k: dualq.PolicyLearner(**k).fit(table), {"discount": 0.9, "state": "state"}),
        Call(
            "certificate_of",
            dualq.certificate_of,
            {
                "counts": log.counts(),
                "policy": fit.policy,
                "discount": 0.9,
                "start": 1.0,
                "confidence": 0.9,
                "available": None,
                "method": "proven",
                "value_range": None,
                "seed": 0,
            },
        ),
    ]


def wrong(call: Call, rng: random.Random) -> dict[str, object]:
    """The arguments of a call, one or two of them odd."""
    names = list(call.good) or list(inspect.signature(call.function).parameters)
    arguments = dict(call.good)
    for name in rng.sample(names, min(len(names), rng.choice((1, 1, 1, 2)))):
        arguments[name] = rng.choice(ODD)
    return arguments


@dataclass(frozen=True)
class Fault:
    """What came out of a call, and should not have."""

    call: str
    arguments: dict[str, object]
    what: str


def faults(found: list[Call], number: int, seed: int) -> Iterator[Fault]:
    """All answers that are neither a result nor one line of ours; unknown arguments are Python's to refuse."""
    rng = random.Random(seed)
    for _ in range(number):
        call = rng.choice(found)
        arguments = wrong(call, rng)
        try:
            call.function(**arguments)
        except DualqError as error:
            if len(str(error).splitlines()) != 1:
                yield Fault(call.name, arguments, f"several lines: {error}")
        except OSError as error:  # a file that cannot be had is what Python says
            if len(str(error).splitlines()) != 1:
                yield Fault(call.name, arguments, f"several lines: {error}")
        except Exception as error:
            if arguments.get("progress") is object:  # it can be called, though not so: what it says is its caller's
                continue
            yield Fault(call.name, arguments, f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    number, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        found = list(faults(calls(Path(name)), number, seed))
    for fault in found:
        print(fault.call, {name: repr(value)[:60] for name, value in fault.arguments.items()}, fault.what[:300])
    print(f"{number:,} calls, {len(found)} of them answered wrongly")
