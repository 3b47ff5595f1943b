"""How much should a shop order? From two years of a planner's orders to a better rule, and how sure that is.

The log ships with dualq (it is simulated, so that the truth is known). Write it first:

    dualq example --out orders.parquet

Each row is a morning in one of 68 shops: the stock and the season, what was ordered, and the day's profit.
"""

import altair as alt
import pyarrow.parquet as parquet

import dualq

log = dualq.read_log(
    "orders.parquet",
    state=["stock", "season"],
    action="order",
    reward="profit",
    episode="shop",
    time="day",
    costs=["stockout"],
)
fit = dualq.learn(log, discount=0.95)
print(fit)

# What changes most, by what it is worth.
for change in fit.changes(3):
    state, old, new = change["state"], change["logged"]["order"], change["recommended"]["order"]
    print(f"stock {state['stock']} in {state['season']}: order {new}, not {old}; this earns {change['gain']:.2f} more")

# The picture: what the planner ordered on average, and what to order.
rows = parquet.read_table("orders.parquet").group_by(["stock", "season"]).aggregate([("order", "mean")]).to_pylist()
points = [
    {"stock": row["stock"], "season": row["season"], "who": who, "order": order}
    for row in rows
    for who, order in [
        ("the planner, on average", row["order_mean"]),
        ("the new policy", fit.act({"stock": row["stock"], "season": row["season"]})),
    ]
]
chart = (
    alt.Chart(alt.Data(values=points), width=260, height=200)
    .mark_line(point=True)
    .encode(
        x=alt.X("stock:O", title="stock in the morning", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("order:Q", title="units ordered"),
        color=alt.Color("who:N", title=None, legend=alt.Legend(orient="bottom")),
        column=alt.Column("season:N", title=None),
    )
)
chart.save("shop_orders.svg")
