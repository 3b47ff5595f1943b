"""Fitted Q-iteration in linear features, shrunk, and without the news that no action has a hand in.

Problem    q(s, a) = E[r + alpha max_b q(s', b) | s, a],   b among the actions that who acted took with 3% or more
Iteration  q = psi'beta;   beta <- (S + ridge)^-1 mean psi y,   y = r + alpha live max_b q(s', b), quiet (news.py)
           with the ridge of shrinkage.py, found anew while q still changes much
Why        the saddle problem (linear.py) bounds v from above; where few rows are, nothing holds it down. This fits it.
Gives      the coefficients of q; the largest among the supported actions is the rule.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve

from dualq.model import Rule
from dualq.offline.approximate.news import News
from dualq.offline.approximate.psi import per_action
from dualq.offline.approximate.rules import supported

Array = np.ndarray

ITERATIONS, ADAPTED, EVERY = 100, 40, 10
SETTLED = 1e-3  # deviations of the reward


def iterated(news: News, discount: float, behaviour: Rule) -> Array:
    """(D, A) coefficients of q."""
    design, rows = news.design, news.design.rows
    barred = np.where(supported(behaviour(rows.next_state)), 0.0, -np.inf).T
    centre = 0.0 if rows.ended.any() else float(rows.r.mean())  # a constant is worth the same everywhere
    r = rows.r - centre
    lowest, highest = min(r.min(), 0.0) / (1.0 - discount), max(r.max(), 0.0) / (1.0 - discount)
    beta, factor = np.zeros(len(design.S)), None
    for k in range(ITERATIONS):
        q = np.ascontiguousarray((design.x_next @ per_action(beta, design.actions)).T) + barred
        y = (r + discount * rows.live * np.clip(q.max(axis=0), lowest, highest))[:, None]
        if factor is None or (k < ADAPTED and k % EVERY == 0):
            factor = design.factor(design.ridge(news.quiet(y)[:, 0]))
        new = cho_solve(factor, news.quiet_onto_psi(y)[:, 0])
        step, beta = np.abs(design.at_rows((new - beta)[:, None])).max(), new
        if step <= SETTLED * r.std():
            break
    return per_action(beta, design.actions)
