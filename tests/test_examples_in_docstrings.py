"""The examples in the docstrings of the public API run, and print what they say."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = {  # module: at least so many examples, so that none is lost unseen
    "model.mdp": 4,
    "model.policy": 7,
    "model.solution": 4,
    "model.limits": 12,
    "solvers.exact": 5,
    "solvers.gaps": 7,
    "online.training": 7,
    "online.step_sizes": 4,
    "online.stopping": 4,
    "online.spd_q": 4,
    "online.spd_q_limited": 5,
    "online.spd_rl": 6,
    "online.primal_dual": 4,
    "online.q_learning": 6,
    "online.pdhg": 5,
    "worlds.simulator": 5,
    "worlds.problems": 16,
    "paper.theory": 2,
}


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name):
    found = doctest.testmod(import_module(f"dualq.{name}"))
    assert found.failed == 0
    assert found.attempted >= MODULES[name]
