"""Which dose helps most, if side effects must stay rare? Learning with a limit, from a clinic's (simulated) log.

Every week a patient's illness is graded from 0 (well) to 4 (severe), a dose is chosen, and the next week shows what it
did. A stronger dose helps more often, and harms more often. The doctors of this log chose by habit.
"""

import numpy as np

import dualq

GRADES, DOSES = 5, ["none", "low", "high"]
BETTER, WORSE, HARM = np.array([0.10, 0.30, 0.50]), np.array([0.40, 0.20, 0.10]), np.array([0.01, 0.05, 0.25])
PATIENTS, WEEKS, LIMIT = 400, 52, 0.10

# The log: 400 patients, a year each.
rng = np.random.default_rng(7)
habit = np.array([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.2, 0.4, 0.4], [0.1, 0.4, 0.5]])
grade, rows = rng.integers(0, GRADES, PATIENTS), []
for week in range(WEEKS):
    dose = (rng.random((PATIENTS, 1)) > habit[grade].cumsum(axis=1)).sum(axis=1)
    harmed, luck = rng.random(PATIENTS) < HARM[dose], rng.random(PATIENTS)
    rows.append((np.arange(PATIENTS), np.full(PATIENTS, week), grade, np.array(DOSES)[dose], 4.0 - grade, harmed * 1))
    step = np.where(luck < BETTER[dose], -1, np.where(luck > 1 - WORSE[dose], 1, 0))
    grade = np.clip(grade + step, 0, GRADES - 1)
names = ["patient", "week", "grade", "dose", "wellbeing", "side_effect"]
log = dualq.read_log(
    {name: np.concatenate(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)},
    state="grade",
    action="dose",
    reward="wellbeing",
    episode="patient",
    time="week",
    costs=["side_effect"],
    reward_range=(0, 4),
    cost_ranges={"side_effect": (0, 1)},
)

# The most wellbeing, with a side effect in at most one week in ten.
fit = dualq.learn(log, discount=0.9, limits={"side_effect": LIMIT})
print(fit)
(limit,) = fit.limits
print(f"side effects: expected in {limit.estimate:.1%} of weeks, guaranteed in at most {limit.high:.1%}")
for grade in range(GRADES):
    doses = {dose: p for dose, p in fit.policy.probabilities(grade).items() if p > 0.005}
    print(f"grade {grade}:", ", ".join(f"{dose} ({p:.0%})" for dose, p in doses.items()))

# What the limit costs: the best expected wellbeing for every limit, and the policy above.
with open("clinic_doses.svg", "w") as picture:
    picture.write(fit.frontier("side_effect", points=12).chart(marked=LIMIT))
