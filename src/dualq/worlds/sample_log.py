"""The log that ships with dualq: two simulated years of a chain of shops. Everything in it is simulated.

Each morning every shop looks at its stock and the season, and a planner orders; in the evening the books show the
profit, and whether the shelf ended empty. The model is a small `problems.inventory`: state (stock, season), action
order. A season lasts 20 days on average, so that it can be part of a Markov state.

    shop       1 to SHOPS: an episode each
    day        0 to DAYS - 1
    season     winter or summer: spells of random length, a shop's own
    stock      units in the morning, at most 6
    order      units ordered, 0, 2, 4 or 6, delivered at once; a delivery costs a fee
    profit     of the day
    stockout   1 where the shelf was empty in the evening, else 0

The planner's habits drift. On the first day: as much as fits, every morning, whatever a delivery costs. On the last:
two units, once the shelf is empty. In between the one habit gives way to the other, a little every day. Planners also
err, mostly by one lot, seldom by more; but they hardly ever leave an empty shelf empty: there the log is thin.

The true optimum is known, which is why a simulated log ships and not a real one: what is promised can be compared with
what is true. `python -m dualq.worlds.sample_log` writes the file anew, the same rows each time.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dualq.base import write_whole

if TYPE_CHECKING:
    from dualq.worlds.simulator import Simulator

Array = np.ndarray

SHOPS, DAYS, SEED = 68, 730, 20180319
COLUMNS: dict[str, str | list[str]] = {
    "state": ["stock", "season"],
    "action": "order",
    "reward": "profit",
    "episode": "shop",
    "time": "day",
    "costs": ["stockout"],
}


def path() -> Path:
    """Where the shipped log lies."""
    return Path(str(files("dualq.worlds"))) / "data" / "orders.parquet"


def truth() -> Simulator:
    """The model that the shipped log was drawn from."""
    from dualq.worlds import problems  # whoever asks where the log lies needs no compiler

    return problems.inventory(capacity=6, lot=2, demand={"winter": 1.0, "summer": 3.0}, order_fee=5.0)


def stockout_rate(shop: Simulator) -> Array:
    """(S, A) the probability that the shelf is empty in the evening: the expected cost `stockout`."""
    stock = np.array(shop.mdp.states.columns()["stock"])
    rates = shop.mdp.transitions @ (stock == 0).astype(float)
    return rates.reshape(shop.mdp.rewards.shape)


def habits(shop: Simulator) -> tuple[Array, Array]:
    """(S, A) twice: what the planner does on the first day and on the last."""
    mdp = shop.mdp
    stock, orders = np.array(mdp.states.columns()["stock"]), np.array(list(mdp.actions))
    fill = (stock.max() - stock) // orders[1]
    top_up = np.where(stock == 0, 1, 0)
    return _with_errors(fill, stock, mdp.available), _with_errors(top_up, stock, mdp.available)


def _with_errors(rule: Array, stock: Array, available: Array) -> Array:
    """The rule, missed by one lot in a fifth of the days, though not to leave it empty, and by anything in 1 %."""
    lots = np.arange(available.shape[1])
    off = np.abs(lots - rule[:, None])
    by_one = np.where(available & (off == 1) & ((stock[:, None] > 0) | (lots > 0)), 1.0, 0.0)
    anything = np.where(available, 1.0, 0.0)
    theta = 0.79 * (off == 0) + 0.20 * by_one / by_one.sum(axis=1, keepdims=True).clip(1.0)
    theta += 0.01 * anything / anything.sum(axis=1, keepdims=True)
    return theta / theta.sum(axis=1, keepdims=True)


def draw(seed: int = SEED) -> dict[str, Array]:
    """The rows of the shipped log, by column; shops in order, days in order. Other seeds give logs like it."""
    shop = truth()
    mdp, (first, last) = shop.mdp, habits(shop)
    P = np.cumsum(mdp.transitions.toarray(), axis=1)
    profit = np.zeros(P.shape)
    profit[np.repeat(np.arange(P.shape[0]), np.diff(mdp.indptr)), mdp.indices] = shop.reward_low
    rng = np.random.Generator(np.random.PCG64(seed))

    s = _draw(np.cumsum(shop.start)[None, :].repeat(SHOPS, axis=0), rng)
    days = []
    for day in range(DAYS):
        theta = first + (last - first) * (day / (DAYS - 1))
        a = _draw(np.cumsum(theta, axis=1)[s], rng)
        pair = s * mdp.num_actions + a
        s_next = _draw(P[pair], rng)
        days.append((s, a, profit[pair, s_next], s_next))
        s = s_next
    s, a, r, s_next = (np.stack(column, axis=1).ravel() for column in zip(*days, strict=True))  # shop by shop

    stock, season = (np.array(column) for column in mdp.states.columns().values())
    return {
        "shop": np.repeat(np.arange(1, SHOPS + 1), DAYS),
        "day": np.tile(np.arange(DAYS), SHOPS),
        "season": season[s],
        "stock": stock[s],
        "order": np.array(list(mdp.actions))[a],
        "profit": r,
        "stockout": (stock[s_next] == 0).astype(int),
    }


def _draw(cumulated: Array, rng: np.random.Generator) -> Array:
    """One place per row, by the row's cumulated probabilities."""
    u = rng.random(len(cumulated)) * cumulated[:, -1]
    return (cumulated <= u[:, None]).sum(axis=1)


def write() -> None:
    """Write the shipped log."""
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {"shop": pa.int16(), "day": pa.int16(), "stock": pa.int16(), "order": pa.int16(), "stockout": pa.int8()}
    table = pa.table({name: pa.array(column, kinds.get(name)) for name, column in draw().items()})
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    write_whole(path(), sink.getvalue().to_pybytes())


if __name__ == "__main__":
    write()
