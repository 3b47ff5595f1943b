"""The nouns of a decision problem: MDP, Policy, Limit, Solution, and the mathematics of the saddle point.

A model is checked once, when it is made, and is read-only after that; nothing behind it checks again.

mdp, policy, limits, solution   the nouns
chains                          the linear systems of one policy
models                          models and policies on disk
saddle                          the Lagrangians L_M and L_I, their gradients, the compact sets and their projections
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.base.faces import face

if TYPE_CHECKING:
    from dualq.model import limits as limits
    from dualq.model import models as models
    from dualq.model.chains import SMALL as SMALL
    from dualq.model.chains import Ordered as Ordered
    from dualq.model.chains import good_order as good_order
    from dualq.model.chains import solve_chain as solve_chain
    from dualq.model.chains import solve_dense as solve_dense
    from dualq.model.chains import solve_ordered as solve_ordered
    from dualq.model.draws import PRIME as PRIME
    from dualq.model.draws import SHIFTS as SHIFTS
    from dualq.model.draws import Cases as Cases
    from dualq.model.draws import Seed as Seed
    from dualq.model.draws import cases_of as cases_of
    from dualq.model.draws import named_actions as named_actions
    from dualq.model.draws import thresholds as thresholds
    from dualq.model.function_policy import FunctionPolicy as FunctionPolicy
    from dualq.model.function_policy import Rule as Rule
    from dualq.model.limits import ROUNDING as ROUNDING
    from dualq.model.limits import SIGNS as SIGNS
    from dualq.model.limits import ActionCap as ActionCap
    from dualq.model.limits import AnyLimit as AnyLimit
    from dualq.model.limits import Limit as Limit
    from dualq.model.limits import LimitsLike as LimitsLike
    from dualq.model.limits import Near as Near
    from dualq.model.limits import Words as Words
    from dualq.model.limits import as_limits as as_limits
    from dualq.model.limits import near as near
    from dualq.model.limits import parse as parse
    from dualq.model.mdp import MDP as MDP
    from dualq.model.mdp import Sparse as Sparse
    from dualq.model.mdp import checked_discount as checked_discount
    from dualq.model.models import read_model as read_model
    from dualq.model.models import write_policy as write_policy
    from dualq.model.packing import FORMAT as FORMAT
    from dualq.model.packing import NOUNS as NOUNS
    from dualq.model.packing import Kind as Kind
    from dualq.model.packing import Tree as Tree
    from dualq.model.packing import dataclass_kind as dataclass_kind
    from dualq.model.packing import fields_of as fields_of
    from dualq.model.packing import read_saved as read_saved
    from dualq.model.packing import unpacked as unpacked
    from dualq.model.packing import write_saved as write_saved
    from dualq.model.policy import Policy as Policy
    from dualq.model.policy import TablePolicy as TablePolicy
    from dualq.model.saddle.lagrangian import gradients_M as gradients_M
    from dualq.model.saddle.lagrangian import lagrangian_I as lagrangian_I
    from dualq.model.saddle.sets import Sets as Sets
    from dualq.model.saddle.sets import project_state as project_state
    from dualq.model.solution import Solution as Solution
    from dualq.model.solution import checked_distribution as checked_distribution
    from dualq.model.solution import frequencies as frequencies
    from dualq.model.solution import solution_parts as solution_parts

__getattr__, __dir__, __all__ = face(__name__, __file__)
