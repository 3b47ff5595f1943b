"""Logs with a known truth, many at a time: one walk each, all logs step by step together."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualq.logs.checks.trace import Trace
from dualq.logs.reading.schema import Bins

NOISES = {
    "normal": lambda rng, size: rng.normal(size=size),
    "none": lambda rng, size: np.zeros(size),
    "heavy": lambda rng, size: rng.lognormal(0.0, 2.0, size),
    "rare": lambda rng, size: -50.0 * (rng.random(size) < 0.02),
    "coin": lambda rng, size: (rng.random(size) < 0.3).astype(float),
}


def drawn(rng: np.random.Generator, chances: Any) -> np.ndarray:
    """One place for each row of chances."""
    return np.minimum(
        (rng.random((len(chances), 1)) > np.cumsum(chances, axis=1)).sum(axis=1), np.shape(chances)[1] - 1
    )


def markov_logs(
    seed: int,
    logs: int,
    rows: int,
    S: int = 4,
    A: int = 2,
    noise: str = "normal",
    drift: bool = False,
    stay: float = 0.0,
) -> list[dict[str, np.ndarray]]:
    """Logs in which every assumption holds, each of its own model: columns s, a, r, s_next."""
    rng = np.random.default_rng(seed)
    here = np.arange(logs)
    P = rng.dirichlet(np.ones(S), (logs, S, A)) * (1 - stay) + stay * np.eye(S)[None, :, None, :]
    theta, other = rng.dirichlet(np.ones(A) * 3, (2, logs, S))
    mean = rng.normal(size=(logs, S, A, S))
    s, columns = np.zeros(logs, np.int64), []
    for k in range(rows):
        weight = k / rows if drift else 0.0
        a = drawn(rng, (1 - weight) * theta[here, s] + weight * other[here, s])
        s_next = drawn(rng, P[here, s, a])
        columns.append((s, a, mean[here, s, a, s_next] + NOISES[noise](rng, logs), s_next))
        s = s_next
    s, a, r, s_next = (np.array(x).T for x in zip(*columns, strict=True))
    return [{"s": s[i], "a": a[i], "r": r[i], "s_next": s_next[i], "shape": (S, A)} for i in range(logs)]


def trace_of(log: dict[str, Any], length: int | None = None, restarts: bool = False, **more: Any) -> Trace:
    """The rows of a log; `length` cuts it into recordings of that many rows each."""
    rows = log["s"].size
    k = np.arange(rows)
    length = length or rows
    cut = np.zeros(rows, bool)
    parts: dict[str, Any] = {
        "ended": np.zeros(rows, bool),
        "cut": cut,
        "bad": np.zeros(rows, bool),
        "episode": k // length,
        "t": (k % length if restarts else k).astype(float),
        "has_episodes": length < rows,
        "restarts": restarts,
        **log,
        **more,
    }
    return Trace(**parts)


# ---- what is broken


def switching_logs(seed: int, logs: int, rows: int, cost: float = 1.0) -> list[dict[str, Any]]:
    """A change of action costs something, and the action before is not in the state."""
    found = markov_logs(seed, logs, rows)
    for log in found:
        log["r"] = log["r"] - cost * np.append(0, log["a"][1:] != log["a"][:-1])
    return found


def cycle_logs(seed: int, logs: int, rows: int, period: int = 5, gain: float = 1.0) -> list[dict[str, Any]]:
    """Which action pays depends on the place in a cycle, which the planner knows and the state lacks."""
    rng, here = np.random.default_rng(seed), np.arange(logs)
    P = rng.dirichlet(np.ones(4), (logs, 4, 2))
    s, columns = np.zeros(logs, np.int64), []
    for k in range(rows):
        good = int(k % period < period // 2)
        a = np.where(rng.random(logs) < 0.8, good, 1 - good)
        s_next = drawn(rng, P[here, s, a])
        columns.append((s, a, gain * (a == good) + rng.normal(size=logs), s_next))
        s = s_next
    s, a, r, s_next = (np.array(x).T for x in zip(*columns, strict=True))
    return [{"s": s[i], "a": a[i], "r": r[i], "s_next": s_next[i], "shape": (4, 2)} for i in range(logs)]


def changed_logs(seed: int, logs: int, rows: int, part: float = 0.04, what: str = "dynamics") -> list[dict[str, Any]]:
    """The last part of the rows is of another system: rewards are less by .5, or next states of another model."""
    found, since = markov_logs(seed, logs, rows), rows - int(part * rows)
    for log, new in zip(found, markov_logs(seed + 1, logs, rows), strict=True):
        if what == "rewards":
            log["r"][since:] -= 0.5
        else:
            for name in ("s", "a", "s_next"):
                log[name][since:] = new[name][: rows - since]
            log["s_next"][since - 1] = log["s"][since]
    return found


# ---- numbers in bins


def in_bins(x: np.ndarray, a: np.ndarray, r: np.ndarray, bins: int = 8) -> Trace:
    """The rows of one walk of a number, x one longer than the others, read with quantile bins."""
    edges = tuple(np.unique(np.quantile(x[:-1], np.arange(1, bins) / bins)))
    s = np.searchsorted(edges, x, "right")
    log = {"s": s[:-1], "a": a, "r": r, "s_next": s[1:], "shape": (len(edges) + 1, int(a.max()) + 1)}
    return trace_of(log, raw={"x": x[:-1]}, bins={"x": Bins(edges)})


def wear(rng: np.random.Generator, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Maintenance: wear grows, a late repair is made by its number."""
    a = (rng.random(x.size) < 0.1 + 0.8 / (1 + np.exp(9 - 1.5 * x))).astype(int)
    failed = (rng.random(x.size) < 0.02 * np.exp(0.25 * x)) & (a == 0)
    r = 10 - 0.5 * x - 8.0 * a - 30.0 * failed + rng.normal(size=x.size)
    return a, r, np.where((a == 1) | failed, 0.0, x + rng.exponential(1.0, x.size))


def stock(rng: np.random.Generator, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Inventory: orders of 10, by the stock as a number."""
    a = np.clip(np.rint((20 - x) / 10 + 0.5 * rng.normal(size=x.size)), 0, 2).astype(int)
    there, demand = x + 10 * a, rng.gamma(4.0, 2.0, x.size)
    sold = np.minimum(there, demand)
    return a, 3 * sold - 10.0 * a - 0.1 * (there - sold), there - sold


def reference(rng: np.random.Generator, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Pricing: a reference price that moves slowly, and prices that follow it."""
    a = drawn(rng, np.exp(x[:, None] * [0.0, 0.5, 1.0]) / np.exp(x[:, None] * [0.0, 0.5, 1.0]).sum(1, keepdims=True))
    bought = rng.random(x.size) < 1 / (1 + np.exp(a - x))
    return a, bought * (1.0 + a), 0.8 * x + 0.6 * rng.normal(size=x.size) - 0.1 * (a - 1)


def offer(rng: np.random.Generator, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """A number that is drawn anew every time, and the planner chooses by it."""
    a = (rng.random(x.size) < 0.2 + 0.6 * x).astype(int)
    return a, np.where(a == 1, 4 * x, 2.0) + rng.normal(size=x.size), rng.random(x.size)


def number_logs(step: Any, seed: int, logs: int, rows: int) -> list[Trace]:
    """Logs of a number in bins."""
    rng, x, columns = np.random.default_rng(seed), np.zeros(logs), []
    for _ in range(rows):
        a, r, following = step(rng, x)
        columns.append((x, a, r))
        x = following
    xs, a, r = (np.array(column).T for column in zip(*columns, strict=True))
    return [in_bins(np.append(xs[i], x[i]), a[i], r[i]) for i in range(logs)]
