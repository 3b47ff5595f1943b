"""What docs/certificate.md proves: bounds that hold with a stated confidence, from the counts of a finite log.

ledger                        delta, handed out once
evidence, noise, successors   the two events, and the counts they rest on
confidence_sets, floors       all that the log does not exclude, and the least that every pair is worth in it
proving, certificate, costs   floor of a policy, ceiling of all policies, bounds of costs, and what they rest on
betting                       the mean of importance-weighted returns, where propensities were logged
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.base.faces import face

if TYPE_CHECKING:
    from dualq.proof.anytime import RunningMean as RunningMean
    from dualq.proof.betting import weighted_bounds as weighted_bounds
    from dualq.proof.certificate import Certificate as Certificate
    from dualq.proof.certificate import Wanted as Wanted
    from dualq.proof.certificate import says_something as says_something
    from dualq.proof.costs import AverageBounds as AverageBounds
    from dualq.proof.costs import cost_bounds as cost_bounds
    from dualq.proof.costs import cost_column as cost_column
    from dualq.proof.costs import known_cost as known_cost
    from dualq.proof.evidence import centre_of as centre_of
    from dualq.proof.evidence import merged_counts as merged_counts
    from dualq.proof.evidence import paid_at_the_end as paid_at_the_end
    from dualq.proof.evidence import paying_counts as paying_counts
    from dualq.proof.ledger import Ledger as Ledger
    from dualq.proof.own_value import prior_of as prior_of
    from dualq.proof.prior import Prior as Prior
    from dualq.proof.prior import on_grid as on_grid
    from dualq.proof.proving import LADDER as LADDER
    from dualq.proof.proving import certificate_of as certificate_of
    from dualq.proof.proving import certified as certified
    from dualq.proof.proving import check_method as check_method
    from dualq.proof.proving import proven as proven
    from dualq.proof.questions import check_confidence as check_confidence
    from dualq.proof.questions import one_of as one_of
    from dualq.proof.questions import question_of as question_of

__getattr__, __dir__, __all__ = face(__name__, __file__)
