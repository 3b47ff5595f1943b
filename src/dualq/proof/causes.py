"""Where the width of a certificate comes from: what each pair takes off the floor, and the regret by cause."""

from __future__ import annotations

import numpy as np

from dualq.proof.confidence_sets import ConfidenceSet
from dualq.proof.floors import Bound, mixed_chain, solved_chain

Array = np.ndarray


def taken_off(model: ConfidenceSet, eta: Array, unknown: float, bound: Bound, sign: float) -> tuple[Array, Array]:
    """What each pair takes off the plug-in value, and the rewards' part of it (pairs,).

    A floor V falls short of the empirical model by d = r^ + alpha P^ V - (its own bound) in every pair; so it is below
    the plug-in value of the same policy by the sum of d over the empirical occupancy, exactly.
    """
    ev = model.evidence
    V = np.append(bound.value, 0.0)
    expected = np.where(
        model.n > 0, sign * model.r + model.alpha * ev.per_pair(model.p * V[ev.columns]), sign * unknown
    )
    nothing, nowhere = np.zeros(model.n.size), np.zeros(model.n.size, np.int64)
    chain = mixed_chain(ev, bound.choice, model.p, nothing, nowhere, model.n == 0)
    weight = (solved_chain(chain, model.alpha, eta, transpose=True)[:, None] * bound.choice).ravel()
    short = np.where(weight > 0.0, expected - bound.pairs, 0.0)
    from_rewards = np.where(weight > 0.0, np.clip(short, 0.0, bound.noise), 0.0) * model.reward_part
    return weight * short, weight * from_rewards * (model.n > 0)


def causes_of(
    model: ConfidenceSet,
    eta: Array,
    unknown: float,
    floor: tuple[Array, Bound],
    best: tuple[Array, Bound],
    ends: tuple[float, float, float],
) -> dict[str, float]:
    """The regret by cause: how far floor and ceiling are from their plug-in values, and these from each other.

    ends   floor, ceiling over logged pairs, and ceiling at the start, where more is known than the bounds of pairs say:
           their parts of it are less
    """
    lower, supported, upper = ends
    causes: dict[str, float] = dict.fromkeys(("thin pairs", "reward noise", "unsupported pairs"), 0.0)
    for (value, bound), sign in ((floor, 1.0), (best, -1.0)):
        costs, rewards = taken_off(model, eta, unknown, bound, sign)
        unseen = float(costs[model.n == 0].sum())
        shares = np.array([float(costs.sum() - rewards.sum()) - unseen, float(rewards.sum()), unseen])
        width = float(eta @ value[:-1]) - lower if sign > 0.0 else supported - float(eta @ value[:-1])
        # the ceiling may belong to a policy that the empirical model thinks worse
        shares *= width / total if (total := float(shares.sum())) > 0.0 else 0.0
        for cause, share in zip(causes, shares, strict=True):
            causes[cause] += float(share)
    causes["unsupported pairs"] += upper - supported
    causes["estimated distance to the best policy"] = float(eta @ (best[0] - floor[0])[:-1])
    return causes
