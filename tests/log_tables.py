"""Random tables that are logs, and a plain loop that counts them."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import strategies as st

ODD = ["a,b", 'q"q', "é", "", "3", "NULL", " x ", "日本", "line\nbreak", "nan", "2024-01-01T00:00:00+02:00"]
TEXT = st.sampled_from(ODD)
WORDS = {"state": ["stock", "season"], "action": "order", "reward": "profit", "episode": "shop", "time": "day"}
WORDS |= {"terminal": "done", "costs": ["stockout"]}


@st.composite
def logs(draw, next_state: bool = False):
    """{column: values}, rows in any order, each (shop, day) once; sums of halves are exact in any order."""
    rows = []
    for shop in draw(st.lists(TEXT, min_size=1, max_size=3, unique=True)):
        days = draw(st.lists(st.integers(-3, 20), min_size=1, max_size=8, unique=True))
        rows += [(shop, day) for day in days]
    rows = draw(st.permutations(rows))
    stocks, seasons = st.integers(-2, 2), TEXT
    n = len(rows)

    def column(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    table = {
        "shop": [shop for shop, _ in rows],
        "day": [day for _, day in rows],
        "stock": column(stocks),
        "season": column(seasons),
        "order": column(st.sampled_from(["3", "two", ""])),
        "profit": [x / 2 for x in column(st.integers(-6, 6))],
        "done": column(st.booleans()),
        "stockout": column(st.sampled_from([0.0, 1.0])),
    }
    if next_state:
        table |= {"next_stock": column(stocks), "next_season": column(seasons)}
    return table


def counted(table):
    """({(state, action, next state or None at an end): [n, sums of r, r^2, c, c^2]}, rows without successor)."""
    found, dropped = defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0.0]), 0
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    for row in rows:
        if "next_stock" in row:
            following = (row["next_stock"], row["next_season"])
        else:
            later = [r for r in rows if r["shop"] == row["shop"] and r["day"] > row["day"]]
            after = min(later, key=lambda r: r["day"], default=None)
            following = (after["stock"], after["season"]) if after else None
            if following is None and not row["done"]:
                dropped += 1
                continue
        key = ((row["stock"], row["season"]), row["order"], None if row["done"] else following)
        r, c = row["profit"], row["stockout"]
        found[key] = [x + y for x, y in zip(found[key], (1, r, r * r, c, c * c), strict=True)]
    return dict(found), dropped


def labelled(counts):
    """Counts in the form of `counted`."""
    found = defaultdict(lambda: [0, 0.0, 0.0, 0.0, 0.0])
    costs = counts.cost_sums["stockout"], counts.cost_square_sums["stockout"]
    columns = (counts.s, counts.a, counts.s_next, counts.ended, counts.n, counts.reward_sum, counts.reward_square_sum)
    for s, a, s_next, ended, *sums in zip(*(x.tolist() for x in (*columns, *costs)), strict=True):
        key = (counts.states[s], counts.actions[a], None if ended else counts.states[s_next])
        found[key] = [x + y for x, y in zip(found[key], sums, strict=True)]
    return dict(found)
