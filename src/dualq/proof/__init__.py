"""What docs/certificate.md proves: bounds that hold with a stated confidence, from the counts of a finite log.

evidence, noise, successors   the two events, and the counts they rest on
floors                        the fixed point of what every pair is worth at least
certificate                   floor of a policy, ceiling of all policies, and what they rest on
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.base.faces import face

if TYPE_CHECKING:
    from dualq.proof.certificate import FACTORS as FACTORS
    from dualq.proof.certificate import FIRST_ROWS as FIRST_ROWS
    from dualq.proof.certificate import Certificate as Certificate
    from dualq.proof.certificate import Wanted as Wanted
    from dualq.proof.certificate import assumptions_of as assumptions_of
    from dualq.proof.certificate import certificate_of as certificate_of
    from dualq.proof.certificate import check_confidence as check_confidence
    from dualq.proof.certificate import cost_bounds as cost_bounds
    from dualq.proof.certificate import proven as proven
    from dualq.proof.certificate import question_of as question_of
    from dualq.proof.evidence import evidence_of as evidence_of
    from dualq.proof.evidence import merged_counts as merged_counts
    from dualq.proof.evidence import paid_at_the_end as paid_at_the_end
    from dualq.proof.evidence import paying_counts as paying_counts
    from dualq.proof.evidence import scaled_counts as scaled_counts
    from dualq.proof.evidence import turned_counts as turned_counts
    from dualq.proof.evidence import value_range_of as value_range_of
    from dualq.proof.floors import ROUNDS as ROUNDS
    from dualq.proof.floors import SHARES as SHARES
    from dualq.proof.floors import Bound as Bound
    from dualq.proof.floors import Model as Model
    from dualq.proof.floors import floor_of as floor_of
    from dualq.proof.floors import models_of as models_of
    from dualq.proof.floors import plug_in_value as plug_in_value
    from dualq.proof.floors import references_of as references_of
    from dualq.proof.noise import noise_of as noise_of
    from dualq.proof.successors import balls_of as balls_of
    from dualq.proof.successors import largest_gap as largest_gap
    from dualq.proof.successors import sup_over_ball as sup_over_ball
    from dualq.proof.successors import undominated as undominated

__getattr__, __dir__, __all__ = face(__name__, __file__)
