"""Logs with a known truth, many at a time: one walk each, all logs step by step together."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualq.logs.trace import Trace

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


def switching_logs(seed: int, logs: int, rows: int, cost: float = 1.0) -> list[dict[str, np.ndarray]]:
    """A change of action costs something, and the action before is not in the state."""
    found = markov_logs(seed, logs, rows)
    for log in found:
        log["r"] = log["r"] - cost * np.append(0, log["a"][1:] != log["a"][:-1])
    return found


def cycle_logs(seed: int, logs: int, rows: int, period: int = 5, gain: float = 1.0) -> list[dict[str, np.ndarray]]:
    """Which action pays depends on the place in a cycle, which the planner knows and the state lacks."""
    found = markov_logs(seed, logs, rows)
    rng = np.random.default_rng(seed + 1)
    for log in found:
        good = (np.arange(rows) % period < period // 2).astype(int)
        P = rng.dirichlet(np.ones(4), (4, 2))
        s = 0
        for k in range(rows):
            a = good[k] if rng.random() < 0.8 else 1 - good[k]
            log["s"][k], log["a"][k] = s, a
            s = log["s_next"][k] = rng.choice(4, p=P[s, a])
        log["r"] = gain * (log["a"] == good) + rng.normal(size=rows)
    return found


def changed_logs(seed: int, logs: int, rows: int, part: float = 0.04, what: str = "dynamics") -> list[dict[str, Any]]:
    """The last part of the rows is of another system: rewards fall by 1, or next states are of another model."""
    one, other = markov_logs(seed, logs, rows), markov_logs(seed + 1, logs, rows)
    since = rows - int(part * rows)
    for log, new in zip(one, other, strict=True):
        if what == "rewards":
            log["r"][since:] -= 1.0
        else:
            for name in ("s", "a", "r", "s_next"):
                log[name][since:] = new[name][: rows - since]
            log["s_next"][since - 1] = log["s"][since]
    return found_order(one)


def found_order(logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return logs
