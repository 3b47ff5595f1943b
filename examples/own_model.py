"""When should a machine be serviced? A model of your own, solved exactly, and the picture of what happens under it.

No log here: you know what wears and what it costs. The machine's wear goes from 0 (new) to 5 (broken). Each week you
run it, service it (three steps back) or replace it.
"""

import altair as alt
import numpy as np

import dualq

WEAR = ["new", "good", "fair", "worn", "bad", "broken"]
RUN, SERVICE, REPLACE = range(3)
S = len(WEAR)

P = np.zeros((S, 3, S))  # P[s, a, s']: where the machine is a week later
rewards = np.zeros((S, 3))
for s in range(S):
    P[s, RUN, s] += 0.6  # running wears it by one step in 3 weeks of 10, by two in 1
    P[s, RUN, min(s + 1, S - 1)] += 0.3
    P[s, RUN, min(s + 2, S - 1)] += 0.1
    P[s, SERVICE, max(s - 3, 0) if s < S - 1 else s] = 1.0  # no service mends a broken one
    P[s, REPLACE, 0] = 1.0
    rewards[s] = [[100, 98, 94, 86, 72, 0][s], -200, -500]

mdp = dualq.MDP(P, rewards, discount=0.98, states=WEAR, actions=["run", "service", "replace"])
best = dualq.solve(mdp)
start = np.eye(S)[0]  # a new machine
for state in WEAR:
    print(f"{state:>6}: {best.primal_policy.act(state)}")
print(f"a new machine earns {start @ best.V:.1f}")

# The dual: how often each decision is taken, from a new machine on. As a share of (discounted) time:
share = best.primal_policy.occupancy(mdp, weights=start) * (1 - mdp.discount)

# The same with a limit: the machine may be bad or broken at most 2% of the time.
rare = dualq.limits.time_in(mdp, ["bad", "broken"], "<=", 0.02)
careful = dualq.solve(mdp, start, limits=[rare])
kept = careful.dual_policy
print(f"bad or broken in {share[4:].sum():.1%} of the time; at most 2% costs {start @ (best.V - kept.value(mdp)):.1f}")

shares = {"without a limit": share, "bad or broken at most 2%": kept.occupancy(mdp, weights=start) * (1 - mdp.discount)}
points = [
    {"policy": name, "wear": wear, "decision": action, "share": float(table[s, a])}
    for name, table in shares.items()
    for s, wear in enumerate(WEAR)
    for a, action in enumerate(mdp.actions)
]
chart = (
    alt.Chart(alt.Data(values=points), width=220, height=180)
    .mark_bar()
    .encode(
        x=alt.X("wear:O", sort=WEAR, title=None, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("sum(share):Q", title="share of time", axis=alt.Axis(format="%")),
        color=alt.Color("decision:N", title=None, legend=alt.Legend(orient="bottom")),
        column=alt.Column("policy:N", title=None, sort=list(shares)),
    )
)
chart.save("own_model.svg")
