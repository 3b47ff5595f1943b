"""What a saved policy over numbers is made of, and the rows that it is asked about: a stable tag for every rule.

NumPy only, so that `act` needs no more.
"""

from __future__ import annotations

from dualq.base import StateColumns, States
from dualq.logs import NumberRows
from dualq.model import FunctionPolicy, Kind, dataclass_kind
from dualq.offline.approximate.features import Features
from dualq.offline.approximate.inputs import Inputs
from dualq.offline.approximate.networks import Network, SoftmaxRule, SupportedRule, TiltedRule
from dualq.offline.approximate.own_features import OwnFeatures, Splines, not_saved
from dualq.offline.approximate.rules import CellRule, DualRule, LinearRule, LogisticRule, VoteRule
from dualq.offline.approximate.tree import Tree

RULE_KINDS = (
    dataclass_kind("function policy", FunctionPolicy),
    dataclass_kind("state columns", StateColumns),
    dataclass_kind("states", States),
    dataclass_kind("number rows", NumberRows),
    dataclass_kind("inputs", Inputs),
    dataclass_kind("features", Features),
    dataclass_kind("splines", Splines),
    Kind("own features", "OwnFeatures", not_saved, OwnFeatures),
    dataclass_kind("tree", Tree),
    dataclass_kind("cell rule", CellRule),
    dataclass_kind("logistic rule", LogisticRule),
    dataclass_kind("linear rule", LinearRule),
    dataclass_kind("dual rule", DualRule),
    dataclass_kind("vote rule", VoteRule),
    dataclass_kind("network", Network),
    dataclass_kind("softmax rule", SoftmaxRule),
    dataclass_kind("supported rule", SupportedRule),
    dataclass_kind("tilted rule", TiltedRule),
)
