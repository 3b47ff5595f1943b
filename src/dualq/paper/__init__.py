"""The paper, claim by claim: every bound of its lemmas and theorems, and every figure.

theory        the bounds, as printed and as corrected
experiments   the paper's figures and ours, one file each: `dualq reproduce`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualq.base.faces import face

if TYPE_CHECKING:
    from dualq.paper import theory as theory
    from dualq.paper.experiments.runner import Summed as Summed
    from dualq.paper.experiments.runner import reproduce as reproduce

__getattr__, __dir__, __all__ = face(__name__, __file__)
