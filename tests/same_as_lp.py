"""Whether another method answers a program with limits as the linear program does."""

from __future__ import annotations

import numpy as np
import pytest

import dualq
from dualq.base.errors import InfeasibleError


def check_same_as_lp(mdp, start, wanted, method, within):
    """The same value as the linear program and limits that are kept, or the same refusal."""
    answers = []
    for name in ("lp", method):
        try:
            answers.append(dualq.solve(mdp, start, limits=wanted, method=name))
        except InfeasibleError as error:
            answers.append(error)
    exact, found = answers
    if isinstance(exact, InfeasibleError):
        assert isinstance(found, InfeasibleError)
        assert found.conflict == exact.conflict
        return
    size = (1.0 + np.abs(mdp.rewards).max()) * start.sum() / (1 - mdp.discount)
    assert found.objective == pytest.approx(exact.objective, abs=within * size)
    for limit in wanted:
        assert found.values[limit.name] <= limit.bound + 1e-7
