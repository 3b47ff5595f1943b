"""Confidence sets: all that the log does not exclude, given the two events, and what it costs to say so.

A set holds with the chance that its ledger hands out (docs/certificate.md, how delta is spent): event 1 with each of
two references, event 2 once for both. The references f_e of a block are plug-in values on the blocks before it.

    docs      here
    X^        centre
    f^        anchor
    f_e       references
    B, B'     noise
    beta / n  eps
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dualq.logs import Counts
from dualq.model import MDP, TablePolicy
from dualq.proof.evidence import Evidence, evidence_of
from dualq.proof.ledger import Ledger
from dualq.proof.noise import noise_of
from dualq.proof.successors import balls_of
from dualq.solvers import solve

Array = np.ndarray
Noise = Callable[[Array, Ledger], tuple[Array, Array]]  # of references, with an account: B and B', the rewards' part

SHARES = {"optimal": 0.8, "behaviour": 0.1, "successors": 0.1}  # of delta: event 1 with two references, and event 2
ENOUGH = 20  # rows per logged pair, on average, before a reference is tried


class ConfidenceSet(NamedTuple):
    """Everything that holds with probability 1 - delta, for one reference."""

    evidence: Evidence
    alpha: float
    n: Array  # (pairs,)
    visits: Array  # (blocks, pairs)
    p: Array  # (entries,) P^
    r: Array  # (pairs,) r^
    around: Array  # (entries,) the centre of the ball of successors ...
    eps: Array  # (pairs,) ... and its radius beta / n
    references: Array  # (blocks, S + 1) f_e
    anchor: Array  # (entries,) f^ of the pair at the successor
    centre: Array  # (pairs,) X^
    noise: Array  # (2, pairs) B, for floors, and B', for ceilings
    reward_part: Array  # (pairs,) of the noise


def confidence_sets(
    blocks: Sequence[Counts], merged: Counts, alpha: float, ledger: Ledger, shown: Array | None = None
) -> dict[str, ConfidenceSet]:
    """One set per reference that differs, all valid together with probability 1 - delta of the ledger.

    shown   (2, pairs) which of the floors and ceilings are computed, all if not given; the event is that of all pairs
    """
    ev = evidence_of(blocks, merged)
    N = ev.per_pair(ev.n).sum(axis=0)
    r = np.clip(ev.per_pair(ev.r.sum(axis=0)) / np.maximum(N, 1.0), *merged.reward_range)

    def noise(references: Array, account: Ledger) -> tuple[Array, Array]:
        level = account.level(sides=2, pairs=N.size)
        return noise_of(ev, references, alpha, merged.reward_range, level, shown)

    return _sets(ev, alpha, r, references_of(blocks, ev, alpha), noise, ledger)


def known_confidence_sets(
    blocks: Sequence[Counts], merged: Counts, alpha: float, ledger: Ledger, rho: Array
) -> dict[str, ConfidenceSet]:
    """The same for a reward rho (S, A) that is known: only the successors are random."""
    ev = evidence_of(blocks, merged)
    quiet = ev._replace(r=np.zeros_like(ev.r), scatter=np.zeros_like(ev.scatter))
    half = 0.5 * float(np.ptp(rho)) or 1.0

    def noise(references: Array, account: Ledger) -> tuple[Array, Array]:
        if not references.any():
            return np.zeros((2, rho.size)), np.zeros(rho.size)
        level = account.level(sides=2, pairs=rho.size)
        return noise_of(quiet, references, alpha, (-half, half), level)[0], np.zeros(rho.size)

    return _sets(ev, alpha, rho.ravel(), references_of(blocks, ev, alpha), noise, ledger)


def _sets(
    ev: Evidence, alpha: float, r: Array, references: dict[str, Array], noise: Noise, ledger: Ledger
) -> dict[str, ConfidenceSet]:
    visits, n = ev.per_pair(ev.n), ev.n.sum(axis=0)
    N = visits.sum(axis=0)
    share, p = visits / np.maximum(N, 1.0), n / np.maximum(N, 1.0)[ev.pair]
    accounts = {name: ledger.take(f"event 1, {name} reference", SHARES[name]) for name in references}
    around, eps = balls_of(ev, ledger.take("event 2, successors", SHARES["successors"]))
    if np.array_equal(references["optimal"], references["behaviour"]):  # its smaller share of delta adds nothing
        accounts["behaviour"].level(sides=2, pairs=N.size)
        references = {"optimal": references["optimal"]}
    found = {}
    for name, f in references.items():
        B, part = noise(f, accounts[name])
        anchor = (share[:, ev.pair] * f[:, ev.columns]).sum(axis=0)
        centre = r + alpha * ev.per_pair((ev.n * f[:, ev.columns]).sum(axis=0)) / np.maximum(N, 1.0)
        found[name] = ConfidenceSet(ev, alpha, N, visits, p, r, around, eps, f, anchor, centre, B, part)
    return found


def references_of(blocks: Sequence[Counts], ev: Evidence, alpha: float) -> dict[str, Array]:
    """f_e of every block, from the blocks before it: the plug-in value of the best policy, and of the behaviour."""
    S = ev.shape[0]
    best, behaviour = np.zeros((len(blocks), S + 1)), np.zeros((len(blocks), S + 1))
    past = None
    for e, counts in enumerate(blocks[:-1], 1):
        past = counts if past is None else past.merge(counts)
        if past.total < ENOUGH * (past.visits > 0).sum():
            continue  # plug-in values of so few rows are wild, and a wild reference costs more than none
        mdp = plug_in(past, alpha)
        best[e, :S] = past.support.to_log(solve(mdp).V)
        behaviour[e, :S] = past.support.to_log(TablePolicy(logged_policy(past, mdp)).value(mdp))
    return {"optimal": best, "behaviour": behaviour}


def plug_in(counts: Counts, alpha: float) -> MDP:
    """The empirical model; where nothing is known, the average reward."""
    return counts.mdp(alpha, never_left_reward=float(counts.reward_sum.sum() / max(counts.total, 1)))


def logged_policy(counts: Counts, mdp: MDP) -> Array:
    """n(s, a) / n(s), uniform where a state was never left, in the states of the empirical model."""
    n = np.ones((mdp.num_states, mdp.num_actions))
    seen = np.flatnonzero(counts.visits.any(axis=1))
    n[seen] = counts.visits[seen]
    return n / n.sum(axis=1, keepdims=True)
