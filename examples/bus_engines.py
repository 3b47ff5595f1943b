"""When should a bus get a new engine? A simulated twin of a famous log.

Rust ("Optimal Replacement of GMC Bus Engines: An Empirical Model of Harold Zurcher", Econometrica 55, 1987, pages 999
to 1033) studied ten years of monthly decisions by the superintendent of maintenance of the bus company of Madison,
Wisconsin: keep an engine, or replace it. His log is not ours to ship. This one is simulated from the model that he
estimated, with his numbers (Table IX, all bus groups), rounded:

    state    miles since the last replacement, in bins of 5,000
    month    adds 0, 1 or 2 bins, with probabilities .35, .64 and .01
    costs    .0026 for each bin of mileage, 9.76 for a new engine (the unit is the size of what only Zurcher saw)
    Zurcher  weighs these costs and what he alone sees, so that his decisions look random to us: a logit

As the costs are in the log, we can ask: what would be cheapest by mileage alone, and how sure is that?
"""

import altair as alt
import numpy as np

import dualq

BINS, BUSES, MONTHS, DISCOUNT = 90, 400, 120, 0.99
MILEAGE, STEPS = np.arange(BINS), [0.35, 0.64, 0.01]

# The model: P[s, a, s'] and costs[s, a], where action 0 keeps the engine and action 1 replaces it.
P = np.zeros((BINS, 2, BINS))
for bins, probability in enumerate(STEPS):
    np.add.at(P[:, 0], (MILEAGE, np.minimum(MILEAGE + bins, BINS - 1)), probability)
    P[:, 1, bins] = probability
costs = np.stack([0.0026 * MILEAGE, np.full(BINS, 9.76)], axis=1)


def zurcher(patience: float = 0.9999) -> np.ndarray:
    """The probability that he replaces, by mileage: he adds what only he sees to the costs of either choice."""
    value = np.zeros(BINS)
    for _ in range(5000):
        choices = -costs + patience * (P @ value)
        value = np.logaddexp(choices[:, 0], choices[:, 1])
        value -= value[0]  # only differences matter
    return 1 / (1 + np.exp(choices[:, 0] - choices[:, 1]))


# Ten years of 400 buses.
rng = np.random.default_rng(1987)
replaces, rows, at = zurcher(), [], np.zeros(BUSES, int)
for month in range(MONTHS):
    new = rng.random(BUSES) < replaces[at]
    rows.append((np.arange(BUSES), np.full(BUSES, month), at, np.where(new, "replace", "keep"), -costs[at, new * 1]))
    at = np.minimum(np.where(new, 0, at) + rng.choice(3, BUSES, p=STEPS), BINS - 1)
names = ["bus", "month", "mileage", "decision", "reward"]
log = dualq.read_log(
    {name: np.concatenate(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)},
    state="mileage",
    action="decision",
    episode="bus",
    time="month",
    reward_range=(-9.76, 0.0),
)

fit = dualq.learn(log, discount=DISCOUNT)
print(fit)

# The truth, which only a simulation knows: what a rule costs from a new engine on, by one linear system.
rule = np.array([fit.act(mileage, default="keep") == "replace" for mileage in MILEAGE.tolist()])


def cost_of(chance: np.ndarray) -> float:
    """The discounted costs of replacing with this chance at each mileage."""
    weights = np.stack([1 - chance, chance], axis=1)
    chain = np.einsum("sa,sat->st", weights, P)
    return float(np.linalg.solve(np.eye(BINS) - DISCOUNT * chain, (weights * costs).sum(axis=1))[0])


print(f"truth: Zurcher's rule costs {cost_of(replaces):.2f}, the learned one {cost_of(rule * 1.0):.2f}")

# The picture: how much the log knows at each mileage, and how often engines were replaced there.
points = [
    {"miles": 5 * mileage, "months": int(keep + new), "share": float(new / max(keep + new, 1))}
    for mileage, (keep, new) in zip(log.states, log.counts().visits, strict=True)
]
miles = alt.X("miles:Q", title="thousand miles on the engine", scale=alt.Scale(domain=[0, 450]))
base = alt.Chart(alt.Data(values=points), width=560, height=130).encode(x=miles)
rows = base.mark_bar(width=5).encode(y=alt.Y("months:Q", title="months in the log"))
shares = base.mark_point().encode(y=alt.Y("share:Q", title="share replaced", axis=alt.Axis(format="%")))
(rows & shares).save("bus_engines.svg")
