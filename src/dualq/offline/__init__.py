"""The main job: from a log to a policy, with what may be said of it.

learning, learner   learn on one page, and the same in the shape of scikit-learn
fit, trust          what was learned; what may be promised of it, and under which conditions
evaluation          what a policy from outside earns by a log; comparison: several of them, together
approximate         states made of numbers: cells, linear features, networks; candidates judged alike
careful             the model that does not believe thin rows: shrinkage, penalties, the winner's curse
limited             limits kept: estimates of costs, the search inside them, the trade-off
together            many logs, none of which leaves its owner: networks of agents
saved               a fit on disk, and a saved policy asked without what learned it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.base.faces import face

if TYPE_CHECKING:
    from dualq.offline.alternatives import Alternative as Alternative
    from dualq.offline.approximate.candidates import Candidate as Candidate
    from dualq.offline.approximate.fit import NumberFacts as NumberFacts
    from dualq.offline.approximate.fit import NumberFit as NumberFit
    from dualq.offline.approximate.linear import learned_quickly as learned_quickly
    from dualq.offline.approximate.price_search import PricedLimit as PricedLimit
    from dualq.offline.careful.selection_bias import Estimate as Estimate
    from dualq.offline.checking import Check as Check
    from dualq.offline.checking import check as check
    from dualq.offline.comparison import Comparison as Comparison
    from dualq.offline.comparison import compare as compare
    from dualq.offline.deciding import Decider as Decider
    from dualq.offline.deciding import decide_file as decide_file
    from dualq.offline.evaluating import evaluate as evaluate
    from dualq.offline.evaluation import Evaluation as Evaluation
    from dualq.offline.exported.writing import export as export
    from dualq.offline.fit import Fit as Fit
    from dualq.offline.judging import CostOf as CostOf
    from dualq.offline.judging import GivenLimit as GivenLimit
    from dualq.offline.judging import PolicyCertificate as PolicyCertificate
    from dualq.offline.learner import PolicyLearner as PolicyLearner
    from dualq.offline.learning import learn as learn
    from dualq.offline.limited.search import LimitOutcome as LimitOutcome
    from dualq.offline.limited.trade_off import Frontier as Frontier
    from dualq.offline.number_evaluation import NumberEvaluation as NumberEvaluation
    from dualq.offline.saved.loading import load as load
    from dualq.offline.saved.opening import decider_of as decider_of
    from dualq.offline.saved.opening import doubt_of as doubt_of
    from dualq.offline.saved.opening import surroundings_of as surroundings_of
    from dualq.offline.shapes import Change as Change
    from dualq.offline.shapes import Otherwise as Otherwise
    from dualq.offline.shapes import PolicyChange as PolicyChange
    from dualq.offline.shapes import StateFacts as StateFacts
    from dualq.offline.shapes import Updated as Updated
    from dualq.offline.stages import Read as Read
    from dualq.offline.together.course import course as course
    from dualq.offline.together.iterated import IterateFit as IterateFit
    from dualq.offline.together.leak import Leak as Leak
    from dualq.offline.together.leak import attack as attack
    from dualq.offline.together.learning import Together as Together
    from dualq.offline.together.learning import learn_together as learn_together
    from dualq.offline.together.mail import Plan as Plan
    from dualq.offline.together.mail import run_agent as run_agent
    from dualq.offline.together.network import Network as Network
    from dualq.offline.updating import update as update
    from dualq.offline.weighting import Weighted as Weighted

__getattr__, __dir__, __all__ = face(__name__, __file__)
