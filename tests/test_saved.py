"""Fits that an earlier version saved (tests/golden/saved_1) load, and answer as they did on that day.

answers.json holds what each fit answered then; fit.json its summary. The log is of 40 machines that wear and break:
`free` with a binned number in the state, `limited` with a limit on the noise.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dualq
from dualq.model.solution import load_solution
from dualq.offline import decider_of

SAVED = Path(__file__).parent / "golden" / "saved_1"
ARRAYS = ("policy", "primal_policy", "dual_policy", "behaviour")
# Estimates of what a limited policy earns and costs are computed when they are asked for, by the version that is asked.
ESTIMATED = {"free": {"costs"}, "limited": {"costs", "expected", "verdict"}}


@pytest.fixture(params=["free", "limited"])
def saved(request):
    folder = SAVED / request.param
    answers = json.loads((folder / "answers.json").read_text())
    return request.param, folder, dualq.load(folder), answers


def close(found, expected):
    np.testing.assert_allclose(np.array(found, float), np.array(expected, float), rtol=1e-12, atol=1e-12)


def test_an_old_fit_has_the_numbers_that_it_had(saved):
    _, _, fit, answers = saved
    for name in ARRAYS:
        close(getattr(fit, name).matrix, answers[name])
    for name in ("Q", "V", "occupancy"):
        close(getattr(fit.solution, name), answers[name])
    for name in ("values", "errors", "time_share"):
        close(getattr(fit, name), answers[name])
    bounds = {name: column for name, column in answers["per_state"].items() if name not in fit.counts.states.names}
    for name, column in bounds.items():
        close(fit.certificate.per_state[name], column)
    wanted = [[w.state, w.action, w.visits, w.rows, w.raises] for w in fit.certificate.wanted(3)]
    assert _same(json.loads(json.dumps(wanted)), answers["wanted"])


def test_an_old_fit_answers_as_it_did(saved):
    _, folder, fit, answers = saved
    decider = decider_of(folder)
    for one in answers["act"]:
        assert fit.act(one["state"], seed=0) == decider.act(one["state"], seed=0) == one["action"]
    for state, told in zip(answers["states"], answers["explain"], strict=True):
        assert _same(fit.explain(state), told)


def test_an_old_fit_sums_itself_up_as_it_did(saved):
    name, folder, fit, _ = saved
    then, now = json.loads((folder / "fit.json").read_text()), json.loads(json.dumps(fit.summary(), default=str))
    for key in then.keys() - {"format", "dualq", "sha256"} - ESTIMATED[name]:
        assert _same(now[key], then[key]), key


def test_an_old_fit_saved_again_is_the_same(saved, tmp_path):
    _, _, fit, answers = saved
    fit.save(tmp_path)
    again = dualq.load(tmp_path)
    close(again.policy.matrix, answers["policy"])
    close(again.values, answers["values"])
    assert again.settings == fit.settings
    assert again.counts.states == fit.counts.states


def test_an_old_solution_is_read():
    arrays, facts = load_solution(SAVED / "solution" / "solution.npz")
    solution = dualq.solve(dualq.problems.two_state().mdp)
    for name in ("Q", "V", "occupancy", "ratio", "weights"):
        close(arrays[name], getattr(solution, name))
    assert facts["states"] == solution.mdp.states
    assert facts["method"] == solution.method


def _same(now, then) -> bool:
    """Equal, numbers to rounding; what is there in addition now does not matter."""
    if isinstance(then, dict):
        return isinstance(now, dict) and all(key in now and _same(now[key], then[key]) for key in then)
    if isinstance(then, list):
        return len(now) == len(then) and all(map(_same, now, then))
    if isinstance(then, float):
        return now == pytest.approx(then, rel=1e-9, abs=1e-12, nan_ok=True)
    return now == then


def test_the_solution_of_a_fit_is_read_like_any_other(saved, tmp_path):
    _, _, fit, _ = saved
    fit.save(tmp_path)
    arrays, facts = load_solution(tmp_path / "solution.npz")
    close(arrays["V"], fit.solution.V)
    assert facts["states"] == fit.solution.mdp.states
    assert facts["discount"] == fit.solution.mdp.discount
