"""Logged propensities: refused where they are none, and what they say of a policy beside the model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

import dualq
from dualq.app.report.comparison_pages import guarantees as guarantees_of_all
from dualq.app.report.comparison_pages import standings
from dualq.app.report.evaluation_words import guarantees, weighted_words
from dualq.base.errors import LogError
from dualq.offline.weighting import weighted_value

CHANCE = np.array([0.2, 0.5, 0.8])  # of action 1 in each segment
PAYS = np.array([[0.4, 0.3], [0.4, 0.5], [0.4, 0.9]])
WORDS = {"state": "segment", "action": "act", "reward": "paid", "propensity": "p", "reward_range": (0.0, 1.0)}
ONE_STEP = {**WORDS, "terminal": "row", "discount": 0.0}


def bandit(rows, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, rows)
    a = (rng.random(rows) < CHANCE[x]).astype(int)
    p = np.where(a == 1, CHANCE[x], 1.0 - CHANCE[x])
    return {"segment": x, "act": a, "paid": (rng.random(rows) < PAYS[x, a]).astype(float), "p": p}


def test_one_step_values_are_those_of_a_loop():
    log = bandit(800, 0)
    e = dualq.evaluate(log, {0: 1, 1: 1, 2: 0}, certificate=None, **ONE_STEP)
    target = [1, 1, 0]
    W = [(a == target[x]) / p for x, a, p in zip(log["segment"], log["act"], log["p"], strict=True)]
    value = sum(w * r for w, r in zip(W, log["paid"], strict=True)) / sum(W)
    w = e.weighted
    assert w.value == pytest.approx(value)
    assert w.effective_size == pytest.approx(sum(W) ** 2 / sum(x * x for x in W))
    assert (w.episodes, w.longest, w.unit, w.hopeless) == (800, 1, "row", False)
    assert w.low < value < w.high
    assert abs(w.value - e.expected.value) < 3.0 * w.error  # the model is right here: both say the same


def fixed_steps(episodes, seed, steps=3):
    """Episodes of three steps, and a reward that depends on the step, which the state does not tell."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(episodes):
        s = 0
        for t in range(steps):
            p = 0.3 + 0.4 * (s == 1)
            a = int(rng.random() < p)
            r = float(rng.random() < (0.2 + 0.3 * t if a else 0.4))
            rows.append((episode, t, s, a, r, p if a else 1.0 - p, t == steps - 1))
            s = (s + a) % 2
    names = ("episode", "t", "s", "a", "r", "p", "done")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


EPISODES = {"state": "s", "action": "a", "reward": "r", "episode": "episode", "time": "t", "terminal": "done"}
ALWAYS = sum(0.9**t * (0.2 + 0.3 * t) for t in range(3))  # what action 1 earns, whatever the state


def test_episodes_are_weighed_by_their_products():
    log = fixed_steps(600, 1)
    told = {**EPISODES, "propensity": "p", "reward_range": (0.0, 1.0), "discount": 0.9, "certificate": None}
    e = dualq.evaluate(log, {0: 1, 1: 1}, **told)
    W, G = np.ones(600), np.zeros(600)
    for episode, t, a, r, p in zip(*(log[name] for name in ("episode", "t", "a", "r", "p")), strict=True):
        W[episode] *= (a == 1) / p
        G[episode] += 0.9**t * r
    assert e.weighted.value == pytest.approx(float(W @ G / W.sum()))
    assert e.weighted.plain == pytest.approx(float(np.mean(W * G)))
    assert (e.weighted.longest, e.weighted.unit, e.weighted.episodes) == (3, "episode", 600)
    assert e.weighted.returns_range == pytest.approx((0.0, 1.0 + 0.9 + 0.81))
    assert e.weighted.low <= ALWAYS <= e.weighted.high
    assert e.contradicted  # the model is wrong here, and says so; the weights do not need it
    assert e.expected.standard_error is None
    assert "assume nothing of the state" in weighted_words(e)[0]


@pytest.mark.slow
def test_the_interval_of_a_policy_misses_no_more_often_than_said():
    """95%: of 60 logs, 10 or more misses happen to a valid interval in less than one test of a thousand."""
    truth = float(np.mean([PAYS[x, 1] for x in range(3)]))
    missed = 0
    for seed in range(60):
        log = dualq.read_log(bandit(150, seed), **WORDS, terminal="row")
        w = weighted_value(log, np.tile([0.0, 1.0], (3, 1)), 0.0, "log", 0.95, (0.0, 1.0))
        missed += not w.low <= truth <= w.high
    assert missed <= binom.ppf(0.999, 60, 0.05)


def test_weights_that_are_hopeless_are_said():
    log = bandit(300, 3)
    rare = log["segment"] == 0
    log["p"] = np.where(rare & (log["act"] == 1), 1e-4, log["p"])
    e = dualq.evaluate(log, {0: 1, 1: 1, 2: 1}, certificate=None, **ONE_STEP)
    assert e.weighted.hopeless == (e.weighted.effective_size < 30.0)
    assert e.weighted.estimate.standard_error is None
    assert any("next to no use" in line for line in e.warnings)


def test_a_model_that_the_weights_exclude_is_doubted():
    log = bandit(3000, 4)
    log["p"] = 0.6 * log["p"]  # the propensities are wrong
    e = dualq.evaluate(log, {0: 1, 1: 1, 2: 1}, certificate=None, **ONE_STEP)
    assert any("or the propensities are wrong" in line for line in e.warnings)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"start": "log"}, "value is not measured where episodes begin"),
        ({"terminal": None, "truncated": "last"}, "some episodes were cut off"),
    ],
)
def test_why_returns_cannot_be_weighed(told, why):
    words = {**EPISODES, "propensity": "p", "discount": 0.9, "certificate": None, **told}
    log = fixed_steps(60, 2)
    log.pop("done") if "truncated" in told else None
    e = dualq.evaluate(log, {0: 1, 1: 1}, **words)
    assert e.weighted is None
    assert weighted_words(e)[0].startswith(f"The logged propensities were not used: {why}")
    assert e.summary()["not_weighted"].startswith(why)


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.2, np.nan, None])
def test_a_propensity_that_is_none_is_refused_with_its_row(wrong, tmp_path):
    log = {name: values.tolist() for name, values in bandit(50, 0).items()}
    log["p"][7] = wrong
    shown = "p is missing" if wrong is None else f"p is {wrong:g}"
    with pytest.raises(LogError, match=f"row 7.*{shown}; .* more than 0, and at most 1") as error:
        dualq.read_log(log, **WORDS, terminal="row")
    assert (error.value.row, error.value.column) == (7, "p")
    kept = dualq.read_log(log, **WORDS, terminal="row", skip_bad=True, quarantine=tmp_path / "bad.csv")
    assert (len(kept), kept.skipped) == (49, 1)


def test_without_propensities_nothing_is_weighed():
    e = dualq.evaluate(bandit(50, 0), {0: 1, 1: 1, 2: 1}, certificate=None, **ONE_STEP | {"propensity": None})
    assert e.weighted is None
    assert weighted_words(e) == []


# ---- states made of numbers: the same weights, of a rule


def continuous_bandit(rows, seed):
    """A number decides how likely action 1 is, and what it pays."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    chance = 1.0 / (1.0 + np.exp(-x))
    a = (rng.random(rows) < chance).astype(int)
    paid = (rng.random(rows) < np.where(a == 1, 0.4 + 0.3 * (x > 0.0), 0.5)).astype(float)
    return {"x": x, "act": a, "paid": paid, "p": np.where(a == 1, chance, 1.0 - chance)}


NUMBERS = {**ONE_STEP, "state": "x", "numbers": "x"}
RULE = "act = 1 if x > 0.3 else 0"


def test_rules_over_numbers_are_weighed_as_a_loop_does():
    log = continuous_bandit(900, 0)
    e = dualq.evaluate(log, RULE, **NUMBERS)
    W = [(a == int(x > 0.3)) / p for x, a, p in zip(log["x"], log["act"], log["p"], strict=True)]
    value = sum(w * r for w, r in zip(W, log["paid"], strict=True)) / sum(W)
    assert e.weighted.value == pytest.approx(value)
    assert (e.weighted.episodes, e.weighted.unit, e.weighted.range_known) == (900, "row", True)
    low, high = e.weighted.low, e.weighted.high
    bounds = f"Guaranteed (95%): this policy earns {low:.4g} to {high:.4g}, by the logged propensities"
    assert guarantees(e)[0].startswith(bounds)
    assert e.summary()["weighted"]["low"] == low


def test_episodes_of_numbers_are_weighed_as_those_of_labels_are():
    """The same rows, read as labels and as numbers: weights do not ask what a state is."""
    log, told = fixed_steps(400, 5), {**EPISODES, "propensity": "p", "reward_range": (0.0, 1.0), "discount": 0.9}
    labels = dualq.evaluate(log, {0: 1, 1: 0}, certificate=None, **told).weighted
    numbers = dualq.evaluate(log, "a = 1 if s < 0.5 else 0", numbers="s", **told).weighted
    assert numbers == pytest.approx(labels) if isinstance(numbers, float) else numbers == labels


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"start": "log"}, "value is not measured where episodes begin"),
        ({"terminal": None, "truncated": "last"}, "some episodes were cut off"),
        ({"skip_bad": True}, "rows were set aside"),
    ],
)
def test_why_returns_of_numbers_cannot_be_weighed(told, why):
    log = fixed_steps(60, 2)
    if "skip_bad" in told:
        log["r"] = np.where(np.arange(180) == 7, np.nan, log["r"])
    log.pop("done") if "truncated" in told else None
    words = {**EPISODES, "propensity": "p", "discount": 0.9, "numbers": "s", **told}
    e = dualq.evaluate(log, "a = 1", **words)
    assert e.weighted is None
    assert why in e.summary()["not_weighted"]
    assert why in weighted_words(e)[0]
    assert guarantees(e)[0].startswith("Nothing is guaranteed")


@pytest.mark.parametrize("words", [ONE_STEP, {**NUMBERS, "approximation": "linear"}], ids=["labels", "numbers"])
def test_rows_that_chose_a_policy_do_not_weigh_it(words):
    rows = bandit(600, 1) if words["state"] == "segment" else continuous_bandit(600, 1)
    later = bandit(600, 2) if words["state"] == "segment" else continuous_bandit(600, 2)
    reading = {name: told for name, told in words.items() if name not in ("discount", "approximation")}
    log, discount = dualq.read_log(rows, **reading), {"discount": words["discount"]}
    fit = dualq.learn(log, **discount, **{k: v for k, v in words.items() if k == "approximation"})
    here = dualq.evaluate(log, fit, **discount)
    there = dualq.evaluate(dualq.read_log(later, **reading), fit, **discount)
    assert here.learned_here
    assert here.weighted is None
    assert "learned from these rows" in weighted_words(here)[0]
    assert there.weighted is not None


def test_a_fit_over_numbers_is_known_by_its_rows_and_not_by_how_many_they_are():
    words = {name: told for name, told in NUMBERS.items() if name not in ("discount", "propensity")}
    logs = [dualq.read_log(continuous_bandit(600, seed), **words) for seed in (1, 2)]
    fit = dualq.learn(logs[0], discount=0.0, approximation="linear")
    here, there = (dualq.evaluate(log, fit, discount=0.0) for log in logs)
    assert here.learned_here
    assert here.expected == fit.expected
    again = dualq.evaluate(logs[1], fit.policy, discount=0.0)  # of a policy nobody knows where it was learned
    assert not there.learned_here
    assert there.expected == again.expected


def test_the_best_of_several_rules_gets_no_guarantee_of_one():
    log = dualq.read_log(continuous_bandit(600, 3), **{k: v for k, v in NUMBERS.items() if k != "discount"})
    c = dualq.compare(log, {"one": RULE, "other": "act = 1"}, discount=0.0, learned=False)
    assert guarantees(c["one"])[0].startswith("Guaranteed")
    assert guarantees_of_all(c)[0].startswith("Nothing is guaranteed")
    header, rows = standings(c)
    assert header[-1] == "rows that count"
    assert {row[0]: row[-1] for row in rows}["one"] == f"{100 * c['one'].effective_size:.2g}%"


@pytest.mark.parametrize("wrong", [1.0, "shuffled"])
def test_propensities_that_do_not_belong_to_their_actions_guarantee_nothing(wrong):
    log = continuous_bandit(900, 7)
    log["p"] = np.random.default_rng(0).permutation(log["p"]) if wrong == "shuffled" else np.ones(900)
    e = dualq.evaluate(log, RULE, **NUMBERS)
    W = [(a == int(x > 0.3)) / p for x, a, p in zip(log["x"], log["act"], log["p"], strict=True)]
    assert abs(np.mean(W) - 1.0) > 4.0 * np.std(W) / 30.0
    assert e.weighted.unbalanced
    assert any("and should have 1: the propensities are wrong" in line for line in e.warnings)
    assert guarantees(e)[0].startswith("Nothing is guaranteed")


def test_right_propensities_have_balanced_weights():
    """Of 60 logs none; weights are skewed, so that 4 errors are off in about one of a thousand logs of this size."""
    for seed in range(60):
        log = dualq.read_log(bandit(3_000, seed), **WORDS, terminal="row")
        assert not weighted_value(log, np.tile([0.0, 1.0], (3, 1)), 0.0, "log", 0.95, (0.0, 1.0)).unbalanced


def test_a_log_with_some_rows_that_chose_a_policy_is_no_new_log():
    words = {name: told for name, told in NUMBERS.items() if name != "discount"}
    old, new = continuous_bandit(600, 1), continuous_bandit(600, 2)
    fit = dualq.learn(dualq.read_log(old, **words), discount=0.0, approximation="linear")
    both = {name: np.concatenate([old[name][:100], new[name]]) for name in old}
    mixed = dualq.evaluate(dualq.read_log(both, **words), fit, discount=0.0)
    assert mixed.weighted is None
    assert "learned from these rows" in weighted_words(mixed)[0]
    assert not mixed.learned_here  # its value by this log is not that of `learn`


def test_two_logs_of_few_values_are_told_apart_by_what_they_earned():
    """All rows of the one are rows of the other, too: steps of one and rewards of 0 and 1."""
    words = {name: told for name, told in NUMBERS.items() if name != "discount"}
    tables = [continuous_bandit(600, seed) for seed in (1, 2)]
    logs = [dualq.read_log({**table, "x": np.clip(np.rint(table["x"]), -1, 1)}, **words) for table in tables]
    fit = dualq.learn(logs[0], discount=0.0, approximation="linear")
    here, there = (dualq.evaluate(log, fit, discount=0.0) for log in logs)
    assert here.learned_here
    assert not there.learned_here
    assert there.weighted is not None
    assert there.logged.value == pytest.approx(tables[1]["paid"].mean())
