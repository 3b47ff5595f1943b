"""What a saved fit over numbers is made of, beside its rules and what a table is made of."""

from __future__ import annotations

from dualq.model import Kind, dataclass_kind
from dualq.offline.approximate.candidates import Candidate, Choice
from dualq.offline.approximate.evaluation import ActionValues
from dualq.offline.approximate.kinds import RULE_KINDS
from dualq.offline.approximate.price_search import PricedLimit
from dualq.offline.fit import Fit
from dualq.offline.saved.kinds import KINDS

NUMBER_FIT = "number fit"  # the tag of the whole
NUMBER_KINDS = (
    *KINDS,
    *RULE_KINDS,
    Kind("cells", "Fit", lambda fit: {"proven": fit.proven}, Fit),
    dataclass_kind("candidate", Candidate),
    dataclass_kind("choice", Choice),
    dataclass_kind("action values", ActionValues),
    dataclass_kind("priced limit", PricedLimit),
)
