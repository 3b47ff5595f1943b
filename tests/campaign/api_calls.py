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
import warnings
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


def later_calls(folder: Path) -> list[Call]:
    """What is done with a fit, with several policies, and with states of numbers."""
    two = dualq.problems.two_state()
    log, more = two.record(steps=300, seed=0), two.record(steps=100, seed=1)
    fit, mdp, uniform = dualq.learn(log, discount=0.9), two.mdp, dualq.TablePolicy.uniform(two.mdp)
    judged = {"discount": 0.9, "confidence": 0.9, "start": "log", "otherwise": None, "certificate": "proven"}
    judged |= {"limits": None, "value_range": None, "assume": (), "progress": None}
    evaluation = dualq.evaluate(log, uniform, discount=0.9)
    comparison = dualq.compare(log, {"a": uniform, "b": fit.policy}, discount=0.9)
    rng = np.random.default_rng(0)
    rows = {"x": rng.random(200), "action": rng.integers(0, 2, 200), "reward": rng.random(200), "time": np.arange(200)}
    told = {"state": ["x"], "action": "action", "reward": "reward", "time": "time", "numbers": ["x"]}
    fast = {"approximation": "linear", "certificate": None}
    numbers = dualq.learn(rows, **told, **fast)
    assert isinstance(numbers, dualq.NumberFit)
    blocks = dualq.counts_in_blocks(log)
    columns = {"state": [0, 1, 0], "action": [0, 1, 1], "reward": [1.0, 0.0, 2.0], "next_state": [1, 0, 1]}
    limit = dualq.limits.share_of(mdp, [mdp.actions[0]], "<=", 0.5)
    walk = {"step_size": dualq.inverse_sqrt(2.0), "weights": 1.5, "zeta": 0.08, "start": "zeros", "average_power": 0.0}
    return [
        Call("evaluate", dualq.evaluate, {"log": log, "policy": uniform, **judged}),
        Call("compare", dualq.compare, {"log": log, "policies": {"a": uniform}, "learned": True, **judged}),
        Call("check", dualq.check, {"fit": fit, "log": more, "since": None}),
        Call("update", dualq.update, {"fit": fit, "log": more, "since": None, "progress": None}),
        Call(
            "export",
            dualq.export,
            {
                "fit": fit,
                "to": "sql",
                "dialect": "duckdb",
                "table": "cases",
                "case": None,
                "otherwise": None,
                "approximate": True,
            },
        ),
        Call("evaluation.save", evaluation.save, {"folder": folder / "judged"}),
        Call("evaluation.report", evaluation.report, {"path": folder / "judged.html"}),
        Call("comparison.over", comparison.over, {"name": "a"}),
        Call("comparison.save", comparison.save, {"folder": folder / "compared"}),
        Call(
            "learn numbers",
            dualq.learn,
            {"log": rows, **told, **fast, "discount": 0.9, "start": "log", "features": None},
        ),
        Call(
            "read numbers",
            dualq.read_log,
            {
                "source": rows,
                **told,
                "bins": None,
                "action_bins": None,
                "until": None,
                "since": None,
                "clock": None,
                "day_first": None,
                "cost_ranges": None,
                "propensity": None,
                "quarantine": None,
                "delimiter": None,
            },
        ),
        Call("numbers.act", numbers.act, {"state": {"x": 0.5}, "seed": 0, "default": None, "case": None}),
        Call(
            "numbers.act_many", numbers.act_many, {"table": {"x": [0.1, 0.9]}, "seed": 0, "default": None, "case": None}
        ),
        Call("numbers.explain", numbers.explain, {"state": {"x": 0.5}}),
        Call("numbers.save", numbers.save, {"folder": folder / "numbers"}),
        Call("numbers.frontier", numbers.frontier, {"cost": "x"}),
        Call("check numbers", dualq.check, {"fit": numbers, "log": rows, "since": None}),
        Call("export numbers", dualq.export, {"fit": numbers, "to": "python", "approximate": True, "otherwise": None}),
        Call(
            "cost_bounds",
            dualq.cost_bounds,
            {
                "counts": blocks,
                "policy": uniform,
                "cost": "reward",
                "discount": 0.9,
                "start": 1.0,
                "confidence": 0.9,
                "sense": "<=",
            },
        ),
        Call("counts_in_blocks", dualq.counts_in_blocks, {"log": log}),
        Call(
            "ArrayLog",
            dualq.ArrayLog,
            {
                **columns,
                "states": 2,
                "actions": 2,
                "ended": None,
                "time": None,
                "reward_range": None,
                "episode": None,
                "costs": None,
                "cost_ranges": None,
            },
        ),
        Call("Labels", dualq.Labels, {"values": ["a", "b"], "names": "state"}),
        Call("Regret", dualq.Regret, {"most": 1.0, "confidence": 0.9}),
        Call("settling", dualq.settling, {"to": uniform, "rate": 0.5}),
        Call("wandering", dualq.wandering, {"to": uniform, "rate": 1.0}),
        Call("visits", dualq.visits, {"power": 0.8, "scale": 1.0}),
        Call("linear", dualq.linear, {"scale": 1.0}),
        Call("PDHG", dualq.PDHG, {"weights": None, "every": 100, "iterations": 20}),
        Call("PrimalDual", dualq.PrimalDual, {**walk, "average_from": 0, "distribution": None}),
        Call("SPDQLinear", dualq.SPDQLinear, {**walk, "features": np.eye(2)}),
        Call("SafeSPDQ", dualq.SafeSPDQ, {**walk, "limits": limit, "price_bound": 1.0, "price_scale": 1.0}),
        Call("SPDRL", dualq.SPDRL, walk),
        Call("NetworkedSPDQ", dualq.NetworkedSPDQ, {**walk, "edges": [(0, 1)], "shares": None}),
        Call(
            "QDLearning",
            dualq.QDLearning,
            {"edges": [(0, 1)], "shares": None, "consensus": 0.2, "consensus_power": 0.1},
        ),
        Call(
            "Simulator",
            dualq.Simulator,
            {
                "mdp": mdp,
                "behaviour": uniform,
                "start": np.array([1.0, 0.0]),
                "source": "x",
                "reward_low": None,
                "reward_high": None,
                "drift": None,
                "episodic": True,
            },
        ),
        Call("numbers.grid", numbers.grid, {"x": "x", "y": "x", "points": 3}),
        Call("numbers.dependence", numbers.dependence, {"column": "x", "points": 3}),
        Call("comparison.at_least", comparison.at_least, {"name": "a"}),
        Call("evaluation.changes", evaluation.changes, {"most": 3}),
        Call("evaluation.better_than", evaluation.better_than, {"other": evaluation}),
        Call(
            "limits.share_of",
            dualq.limits.share_of,
            {"mdp": mdp, "actions": [mdp.actions[0]], "sense": "<=", "share": 0.5},
        ),
        Call(
            "limits.time_in", dualq.limits.time_in, {"mdp": mdp, "states": [mdp.states[0]], "sense": "<=", "share": 0.5}
        ),
        Call(
            "limits.total",
            dualq.limits.total,
            {"mdp": mdp, "cost": np.ones((2, 2)), "sense": "<=", "bound": 0.5, "name": "x"},
        ),
        Call("limits.cap", dualq.limits.cap, {"mdp": mdp, "actions": [mdp.actions[0]], "bound": 0.5, "states": None}),
        Call("limits.forbid", dualq.limits.forbid, {"mdp": mdp, "states": [mdp.states[0]], "name": None}),
        Call("limits.near", dualq.limits.near, {"reference": uniform, "distance": 0.5, "name": "x"}),
        Call("policy.greedy", dualq.TablePolicy.greedy, {"Q": np.ones((2, 2)), "states": None, "actions": None}),
        Call(
            "policy.act_many",
            fit.policy.act_many,
            {"table": {"state": [fit.policy.states[0]]}, "seed": 0, "case": None},
        ),
        Call("limits.parse", dualq.limits.parse, {"text": "cost<=0.5"}),
        Call("write_policy", dualq.models.write_policy, {"path": folder / "policy.csv", "policy": uniform}),
        Call("write_model", dualq.models.write_model, {"path": folder / "model.npz", "mdp": mdp}),
        Call("read_model", dualq.models.read_model, {"path": folder / "model.npz", "discount": 0.9}),
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
            with warnings.catch_warnings():
                warnings.filterwarnings("error", "invalid value", RuntimeWarning)  # a number that is none went on
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
        found = 0
        for fault in faults([*calls(Path(name)), *later_calls(Path(name))], number, seed):
            print(fault.call, {name: repr(value)[:60] for name, value in fault.arguments.items()}, fault.what[:300])
            found += 1
    print(f"{number:,} calls, {found} of them answered wrongly")
