"""The scripts in examples/: what each says is compared with the truth of the problem that it tells of."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import dualq
from dualq.worlds import sample_log

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
SHOWN = ROOT / "docs" / "examples"


def run(name: str, folder: Path) -> dict:
    """The names that a script made, run in a folder; what it printed and drew is what the site shows."""
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as said:
        names = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    assert said.getvalue() == (SHOWN / f"{name}.txt").read_text()
    drawn, shown = ((place / f"{name}.svg").read_text() for place in (folder, SHOWN))
    assert words(drawn) == words(shown)
    assert len(words(drawn)) > 10
    return names


def words(svg: str) -> list[str]:
    """The texts of a picture."""
    return re.findall(r"<text[^>]*>([^<]+)", svg)


def start_value(mdp: dualq.MDP, policy: dict, start: np.ndarray) -> float:
    """What a policy {state: {action: probability}} earns from the start, by one linear system."""
    theta = np.array([[policy[state].get(action, 0.0) for action in mdp.actions] for state in mdp.states])
    P = np.einsum("sa,sat->st", theta, mdp.transitions.toarray().reshape(*mdp.rewards.shape, -1))
    return float(start @ np.linalg.solve(np.eye(mdp.num_states) - mdp.discount * P, (theta * mdp.rewards).sum(axis=1)))


def test_every_script_is_short_and_tested():
    assert [path.stem for path in SCRIPTS] == ["bus_engines", "clinic_doses", "own_model", "shop_orders"]
    assert all(len(path.read_text().splitlines()) <= 100 for path in SCRIPTS)


def test_a_shops_orders(tmp_path):
    (tmp_path / "orders.parquet").write_bytes(sample_log.path().read_bytes())
    fit = run("shop_orders", tmp_path)["fit"]
    mdp = sample_log.truth().mdp
    rows = sample_log.draw()
    first = [(int(s), str(w)) for s, w, d in zip(rows["stock"], rows["season"], rows["day"], strict=True) if d == 0]
    start = np.array([first.count(state) / len(first) for state in mdp.states])
    truth = start_value(mdp, {state: fit.policy.probabilities(state) for state in mdp.states}, start)
    assert fit.certificate.lower <= truth <= fit.certificate.policy_upper
    assert abs(fit.expected.value - truth) < 3 * fit.expected.standard_error
    assert truth > 0.99 * start @ dualq.solve(mdp).V


def test_bus_engines(tmp_path):
    made = run("bus_engines", tmp_path)
    fit, cost_of = made["fit"], made["cost_of"]
    best = dualq.solve(dualq.MDP(made["P"], -made["costs"], discount=made["DISCOUNT"]))
    learned, zurcher = cost_of(made["rule"] * 1.0), cost_of(made["replaces"])
    assert -best.V[0] <= learned < zurcher
    # One log with one seed: three standard errors are a false alarm in 0.3% of the logs that might have been drawn.
    assert abs(fit.expected.value + learned) < 3 * fit.expected.standard_error
    assert abs(fit.logged.value + zurcher) < 3 * fit.logged.standard_error
    assert fit.verdict == "better"  # and it is


def test_a_clinics_doses(tmp_path):
    made = run("clinic_doses", tmp_path)
    fit, better, worse, harm = made["fit"], made["BETTER"], made["WORSE"], made["HARM"]
    P = np.zeros((5, 3, 5))
    for s, a in itertools.product(range(5), range(3)):
        for step, chance in [(-1, better[a]), (1, worse[a]), (0, 1 - better[a] - worse[a])]:
            P[s, a, min(max(s + step, 0), 4)] += chance
    mdp = dualq.MDP(P, np.repeat(4.0 - np.arange(5.0)[:, None], 3, axis=1), discount=0.9, actions=made["DOSES"])
    first = np.bincount(made["rows"][0][2], minlength=5) / made["PATIENTS"]
    policy = {s: fit.policy.probabilities(s) for s in range(5)}
    harms = dualq.MDP(P, np.tile(harm, (5, 1)), discount=0.9, actions=made["DOSES"])
    truth, harmed = start_value(mdp, policy, first), 0.1 * start_value(harms, policy, first)
    assert fit.certificate.lower <= truth <= fit.certificate.policy_upper
    assert abs(fit.expected.value - truth) < 3 * fit.expected.standard_error
    (limit,) = fit.limits
    assert limit.low <= harmed <= limit.high <= made["LIMIT"]
    assert fit.limits_kept


def test_a_model_of_ones_own(tmp_path):
    made = run("own_model", tmp_path)
    mdp, best = made["mdp"], made["best"]
    every = itertools.product(range(3), repeat=6)  # 729 policies, each by one linear system
    values = {}
    for rule in every:
        chain, paid = made["P"][np.arange(6), rule], made["rewards"][np.arange(6), rule]
        values[rule] = np.linalg.solve(np.eye(6) - mdp.discount * chain, paid)
    rule = max(values, key=lambda rule: values[rule].sum())  # of one state alone, rules tie elsewhere
    assert np.abs(best.V - values[rule]).max() < 1e-8
    assert [mdp.actions[a] for a in rule] == [best.primal_policy.act(state) for state in mdp.states]
    assert made["shares"]["bad or broken at most 2%"][4:].sum() == pytest.approx(0.02, abs=1e-9)
    assert made["share"].sum() == pytest.approx(1.0)
