"""learn over numbers, from a file to a saved run: what is said of it is true, and bad input is one line."""

import csv
import gc
import importlib.util
import json
import re
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dualq
from dualq.app.cli import app
from dualq.app.cli import run as command
from dualq.logs import Trace
from dualq.offline import surroundings_of
from dualq.offline.approximate.evaluation import Evaluator, Weighed
from dualq.offline.approximate.learning import MISSING
from dualq.worlds import continuous

SHOP, CLINIC = continuous.Inventory(), continuous.Dosing()
COLUMNS = {
    "state": ["stock", "level", "weekday"],
    "action": "action",
    "reward": "reward",
    "episode": "episode",
    "time": "step",
    "truncated": "last",
}
DOSES = {
    "state": ["severity", "concentration"],
    "action": "action",
    "reward": "reward",
    "episode": "episode",
    "time": "step",
    "terminal": "done",
    "truncated": "last",
    "approximation": "linear",
}
HERE = {"stock": 3.0, "level": 2.5, "weekday": "Fri"}


def shop(rows, seed=0):
    return continuous.to_table(continuous.record(SHOP, rows, seed))


def learned(table, **more):
    return dualq.learn(table, **{**COLUMNS, "approximation": "linear", **more})


@pytest.fixture(scope="module")
def table():
    return shop(1_500)


@pytest.fixture(scope="module")
def fit(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return learned(table, costs="stockout")


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    """With a limit, cells are recommended in any case; 50 of 2,000 rows have no reward."""
    table = continuous.to_table(continuous.record(CLINIC, 2_000, seed=0))
    table["reward"] = np.where(np.arange(2_000) % 40 == 7, np.nan, table["reward"])
    words = {**DOSES, "approximation": "partition", "costs": "side_effect", "limits": "side_effect<=0.9"}
    aside = tmp_path_factory.mktemp("aside") / "bad.csv"
    known = {"reward_range": (-5.0, 5.0), "value_range": (-60.0, 5.0), "cost_ranges": {"side_effect": (0.0, 1.0)}}
    return dualq.learn(table, **words, **known, skip_bad=True, quarantine=aside)


@pytest.fixture(scope="module")
def run(fit, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    fit.save(folder)
    return folder


# ---- what is said is true


def test_the_truth_is_within_two_errors():
    """Six logs of patients; a normal error is beyond 2 deviations in 4.6% of logs: 3 or more of 6 in 0.2%."""
    beyond = judged = 0
    for seed in range(6):
        rows = continuous.record(CLINIC, 1_500, 100 + seed)
        best = dualq.learn(continuous.to_table(rows), **DOSES).candidates[0]
        if best.usable:
            truth = continuous.returns(CLINIC, best.rule, seed=seed, episodes=1_000, start=rows.starts).mean()
            judged += 1
            beyond += abs(best.expected.value - truth) > 2 * best.expected.standard_error
    assert judged >= 4
    assert beyond <= 2


def test_a_functions_value_is_never_promised_and_cells_say_on_which_condition(fit, cells):
    assert not fit.promised
    assert fit.certificate is None
    assert "no bound of such a policy can be proven" in fit.withheld[-1]
    assert cells.approximation == "partition"
    assert cells.conditions[0] == "the cells lose nothing that matters"
    assert cells.inside.found
    assert "the cells lose information" in cells.withheld
    assert not cells.promised


def test_what_a_user_knows_reaches_the_table_of_the_cells(cells):
    counts = cells.cells.counts
    assert counts.reward_range == (-5.0, 5.0)
    assert counts.range_known
    assert counts.cost_ranges_known == {"side_effect"}
    assert cells.certificate.value_range == (-60.0, 5.0)
    assert not any("no reward lies outside" in words for words in cells.conditions)


def test_rows_set_aside_withhold_the_promise_of_cells_until_somebody_vouches_for_them(cells):
    assert cells.left_out[1] == 50
    vouched = replace(cells, cells=type(cells.cells)(replace(cells.cells.proven, assumed=("set aside",))))
    doubt = "2.5% of the rows were set aside, and nothing says that they are like the others"
    assert set(cells.withheld) - set(vouched.withheld) == {doubt}
    assert "the 50 rows set aside are like the others" in vouched.conditions


def test_a_limit_of_cells_is_proven_only_where_their_proof_holds(cells):
    proven = replace(cells, limits=(replace(cells.limits[0], proven=True),))
    assert proven.withheld
    assert not proven.limits_kept
    assert proven.summary()["limits"][0]["basis"] == "estimated"
    (limit,) = proven.limits
    assert limit.basis(withheld=False) == "proven"
    assert replace(limit, proven=False).basis(withheld=False) == "estimated"
    assert replace(limit, proven=False, bound=0.01).basis(withheld=False) == "missed"


def test_policies_are_judged_one_at_a_time_and_the_log_lets_go_of_what_it_was_checked_by(table, monkeypatch):
    """Each of these is as large as the rows, or larger: of a long log no two are to be there together."""

    def alive(kind):
        gc.collect()
        return sum(type(one) is kind for one in gc.get_objects())

    traces, weighed, before = [], [], Evaluator.weighed
    held = alive(Trace), alive(Weighed)  # by other tests

    def counted(self, rule):
        traces.append(alive(Trace) - held[0])
        weighed.append(alive(Weighed) - held[1])
        return before(self, rule)

    monkeypatch.setattr(Evaluator, "weighed", counted)
    fit = learned(table, approximation="linear")
    assert len(fit.candidates) == 4
    assert len(weighed) >= 3 * 4
    assert max(weighed) <= 3 + 1  # by all rows and by either half; and what the log earned
    assert max(traces) == 0


def test_the_clone_is_always_a_candidate_and_the_chosen_one_is_clearly_better(fit, cells):
    for one in (fit, cells):
        assert [c.name for c in one.candidates].count("clone") == 1
    if fit.approximation == "clone":
        assert fit.verdict == "no worse"
    else:
        assert fit.gain.value > 2 * fit.gain.standard_error
        assert fit.verdict == "better"


def test_a_log_that_contradicts_itself_has_no_error_and_is_not_to_be_used():
    """In the last fifth all rewards are another shop's."""
    table = shop(3_000)
    late = np.arange(3_000) >= 2_400
    table["reward"] = np.where(late, 20.0 - table["reward"], table["reward"])
    found = learned(table)
    assert found.contradicted
    assert found.verdict == "do not use"
    assert found.expected.standard_error is None
    assert repr(found).startswith("NumberFit: do not use.")


def test_a_limit_is_kept_in_the_true_problem():
    """The truth is beyond the bound with a chance of 2.5% by the normal law: the margin is 1.96 errors."""
    table, costs = continuous.to_table(continuous.record(CLINIC, 3_000, seed=2)), {"costs": "side_effect"}
    free = dualq.learn(table, **DOSES, **costs, limits={"side_effect": 1.0}).candidates[0].costs["side_effect"]
    bound = round(free.value + free.standard_error, 3)  # without a price, it is not within
    found = dualq.learn(table, **DOSES, **costs, limits={"side_effect": bound})
    (limit,) = found.limits
    assert limit.expected
    assert limit.price > 0.0
    assert limit.estimate.value + 1.96 * limit.estimate.standard_error <= bound
    assert not found.limits_kept  # expected, not promised
    truth, _ = continuous.true_cost(CLINIC, found.policy, "side_effect", episodes=1_000)
    assert truth <= bound


def test_a_limit_on_rare_failures_is_kept_and_its_error_is_one():
    """Failures in 0.7% of the rows. The truth is beyond two errors of one log in 4.6%, of both in 0.2%, by the normal
    law; without what a count in as many rows would err, it was so in both.
    """
    machine, beyond = continuous.Maintenance(), 0
    words = {**DOSES, "state": ["wear", "heat", "load"], "costs": "failure"}
    for seed in (0, 1):
        found = dualq.learn(
            continuous.to_table(continuous.record(machine, 4_000, seed)), **words, limits="failure<=0.03"
        )
        (limit,) = found.limits
        assert limit.expected
        assert 0.0 <= limit.estimate.value + 1.96 * limit.estimate.standard_error <= 0.03
        assert found.summary()["limits"][0]["basis"] == "estimated"
        truth, _ = continuous.true_cost(machine, found.policy, "failure", seed=seed, episodes=1_000)
        assert truth <= 0.03
        beyond += abs(truth - limit.estimate.value) > 2.0 * limit.estimate.standard_error
    assert beyond <= 1


def test_the_dual_policy_keeps_a_limit_of_which_the_best_action_cannot_be_told():
    """Two thirds of the logged failures, in 8,000 rows; the truth is beyond the bound with a chance of 2.5%."""
    machine = continuous.Maintenance()
    words = {**DOSES, "state": ["wear", "heat", "load"], "costs": "failure", "discount": machine.discount}
    log = continuous.to_table(continuous.record(machine, 8_000, seed=1))
    found = dualq.learn(log, **words, limits="failure<=0.004")
    (limit,) = found.limits
    assert found.chosen.name == "linear, dual"
    assert limit.price > 0.0
    assert limit.expected
    truth, error = continuous.true_cost(machine, found.policy, "failure", episodes=2_000)
    assert truth <= 0.004
    assert limit.logged.value - 2.0 * limit.logged.standard_error > 0.004
    gain, error = continuous.true_gain(machine, found.policy, machine.behaviour, 0, 1_000)
    assert gain > 4.0 * error


def test_a_limit_out_of_reach_is_refused(table):
    with pytest.raises(dualq.InfeasibleError, match="stockout<=1e-05"):
        learned(table, costs="stockout", limits="stockout<=0.00001")


MACHINE = {**DOSES, "state": ["wear", "heat", "load"], "costs": "failure", "approximation": "partition"}


@pytest.fixture(scope="module")
def machine():
    return continuous.to_table(continuous.record(continuous.Maintenance(), 2_000, seed=0))


@pytest.fixture(scope="module")
def wide(machine):
    """Cells with a limit that is far from binding, and of which nothing can be guaranteed."""
    return dualq.learn(machine, **MACHINE, limits="failure<=0.08")


def test_cells_that_miss_a_limit_are_refused_and_others_keep_it_in_the_true_problem(machine, wide):
    """Whatever the log's rule and its cells do, failures are far more common than one in ten thousand."""
    with pytest.raises(dualq.InfeasibleError, match=r"no policy was found .* to keep 'failure<=0.0001'") as e:
        dualq.learn(machine, **MACHINE, limits="failure<=0.0001")
    assert "\n" not in str(e.value)
    assert e.value.conflict == ("failure",)
    truth, error = continuous.true_cost(continuous.Maintenance(), wide.policy, "failure", episodes=1_000)
    assert truth <= 0.08
    assert e.value.least["failure"] > 0.0001
    assert truth - 3.0 * error > 0.0001


def test_a_limit_of_cells_that_cannot_be_guaranteed_costs_nothing_where_it_does_not_bind(machine, wide):
    """The policy is that of the same cells without any limit."""
    assert wide.withheld
    assert wide.limits[0].price == 0.0
    free = next(one for one in dualq.learn(machine, **MACHINE).candidates if one.name == "partition")
    assert np.array_equal(wide.chosen.rule(wide.sample.state), free.rule(wide.sample.state))


def test_a_cost_has_one_estimate_and_a_limit_is_kept_where_it_is_guaranteed(wide):
    said = wide.summary()
    (limit,) = said["limits"]
    assert said["costs"]["failure"] == {"value": limit["estimate"], "standard_error": limit["standard_error"]}
    assert (limit["kept"], limit["basis"], said["limits_kept"]) == (False, "estimated", False)
    assert wide.limits[0].expected
    best = max(wide.candidates, key=lambda one: one.expected.value)
    assert ("to earn the most of those that were tried" in wide.reason) == (best is wide.chosen)


# ---- asked


def test_many_are_asked_as_one_by_one_in_every_kind_of_frame(fit, table):
    import pandas
    import polars
    import pyarrow

    some = {name: np.asarray(table[name])[:60] for name in COLUMNS["state"]}
    chances = fit.policy.rule(fit.columns.coded(some))
    sure = np.flatnonzero(chances.max(axis=1) == 1.0)
    one_by_one = [fit.act({name: some[name][i].item() for name in some}) for i in sure]
    frames = [some, pandas.DataFrame(some), polars.DataFrame(some), pyarrow.table(some)]
    for many in (fit.act_many(frame, seed=0) for frame in frames):
        assert [many[i] for i in sure] == one_by_one
    learner = dualq.PolicyLearner(**COLUMNS, approximation="linear").fit(pandas.DataFrame(table))
    for frame in frames:
        assert np.array_equal(learner.predict_proba(frame), chances)
        assert learner.predict(frame).tolist() == [fit.actions[a] for a in chances.argmax(axis=1)]


def test_the_score_is_the_value_by_another_log(fit):
    """By 3,000 fresh rows: roughly the truth by simulation, and the same in both shapes."""
    import pandas

    fresh = shop(3_000, seed=9)
    learner = dualq.PolicyLearner(**COLUMNS, approximation="linear", costs="stockout").fit(
        pandas.DataFrame(shop(1_500))
    )
    truth, _ = continuous.true_value(SHOP, fit.policy, episodes=1_000)
    assert fit.score(fresh, **COLUMNS) == pytest.approx(truth, rel=0.3)
    assert learner.score(fresh) == pytest.approx(fit.score(fresh, **COLUMNS))


def test_explain_is_what_plain_loops_give(fit):
    facts = fit.explain(HERE)
    numbers = fit.sample.state.numbers
    mean, deviation = numbers.mean(axis=0), numbers.std(axis=0)
    here = fit.columns.state(HERE)

    def distance(i):
        z = [(numbers[i, j] - here.numbers[0, j]) / deviation[j] for j in range(2)]  # none is 6 deviations out
        other = fit.sample.state.categories[i, 0] != here.categories[0, 0]
        return (sum(x * x for x in z) + (2.0 if other else 0.0)) ** 0.5

    assert np.abs((numbers - mean) / deviation).max() < 6.0
    order = sorted(range(len(numbers)), key=distance)[:100]
    assert facts["distance"] == pytest.approx(distance(order[-1]))
    for row in facts["actions"]:
        assert row["rows"] == sum(fit.actions[fit.sample.a[i]] == row["action"]["action"] for i in order)
    usual = fit.chosen.rule(here)[0].argmax()
    days = fit.columns.categories["weekday"]
    changed = [fit.chosen.rule(fit.columns.state({**HERE, "weekday": day}))[0].argmax() != usual for day in days]
    assert facts["matters"]["weekday"] == pytest.approx(np.mean(changed))


def test_a_state_far_from_all_rows_is_told_from_one_of_the_log(fit):
    from dualq.app.report.number_words import explained

    far = explained(fit, fit.explain({"stock": 500.0, "level": 2.5, "weekday": "Fri"}))[0]
    near = explained(fit, fit.explain(HERE))[0]
    assert any("hardly knows" in line for line in far)
    assert not any("hardly knows" in line for line in near)


@pytest.mark.parametrize("stock", [500.0, 1e9, -1e308])
def test_how_far_a_state_is_from_all_rows_is_said_however_far_it_is(fit, stock):
    """Learners see numbers within 6 deviations; what is said of the distance is not cut off there."""
    from dualq.app.report.number_words import explained

    state = {**HERE, "stock": stock}
    facts = fit.explain(state)
    numbers = fit.sample.state.numbers
    apart = np.sort(np.abs(numbers[:, 0] - stock) / numbers[:, 0].std())  # all else is small beside it
    farthest = min(apart[facts["nearest"] - 1], 1e100)
    assert facts["distance"] == pytest.approx(farthest, rel=0.02)
    said = explained(fit, facts)[0][0]
    told = float(said.split(" up to ")[1].split(" ")[0].replace(",", ""))
    assert told == pytest.approx(farthest, rel=0.06)


def test_an_action_that_is_estimated_to_earn_more_than_the_one_taken_is_named(fit):
    from dualq.app.report.number_words import explained

    facts = fit.explain(HERE)
    best = max(facts["actions"], key=lambda row: row["value"])
    for chosen in facts["actions"]:
        rows = [{**row, "recommended": float(row is chosen)} for row in facts["actions"]]
        below = explained(fit, {**facts, "actions": rows})[3]
        named = [line for line in below if f"By this estimate {best['action']['action']} would earn more" in line]
        assert len(named) == (chosen is not best)


def test_rules_name_each_stretch_of_a_number_once(fit):
    """No two leaves side by side say the same."""
    tree, answer = fit.rules.tree, fit.rules.answer
    assert tree.joined(answer).leaves == tree.leaves
    assert len(fit.leaves) == tree.leaves
    assert sum(leaf.share for leaf in fit.leaves) == pytest.approx(1.0)


def test_rules_have_the_same_words_on_every_page(fit):
    """Of a policy that draws its actions: "mostly" in fit.json, on the terminal, in the report and in a notebook."""
    import io
    from html import unescape

    from rich.console import Console

    from dualq.app.report.number_pages import number_report, print_number_fit

    clone = next(i for i, one in enumerate(fit.candidates) if one.name == "clone")
    drawn = replace(fit, choice=replace(fit.choice, place=clone))
    sentences = drawn.summary()["rules"]["sentences"]
    actions = [words.partition(": ")[2] for words in sentences]
    assert any(words.startswith("mostly ") for words in actions)
    terminal = io.StringIO()
    print_number_fit(drawn, Console(file=terminal, width=200))
    for words in sentences:
        assert f"  {words} (" in terminal.getvalue()
    for page in (number_report(drawn), drawn._repr_html_()):
        text = unescape(re.sub("<[^>]*>", "", page))
        assert "`" not in text
        assert all(re.search(f"{words} \\([0-9.]+% of the log's states", text) for words in actions)


# ---- saved


def test_a_saved_fit_is_the_same_after_load(fit, run, table):
    again = dualq.load(run)
    assert again.summary() == fit.summary()
    for row, known in zip(again.explain(HERE)["actions"], fit.explain(HERE)["actions"], strict=True):
        assert row == {**known, "value": pytest.approx(known["value"], rel=1e-9)}
    assert again.act_many(table, seed=3) == fit.act_many(table, seed=3)
    kept = json.loads((run / "fit.json").read_text())
    assert kept["expected"] == fit.summary()["expected"]


def test_cells_are_saved_with_their_certificate(cells, tmp_path):
    cells.save(tmp_path)
    assert dualq.load(tmp_path).summary() == cells.summary()


def test_act_needs_neither_scipy_nor_numba_nor_jax(run, fit):
    code = (
        "import sys; from dualq.offline import decider_of, surroundings_of\n"
        f"print(decider_of({str(run)!r}).act({HERE!r}, seed=0), surroundings_of({str(run)!r}).is_far({HERE!r}))\n"
        "print(sorted({'scipy', 'numba', 'jax', 'ibis', 'pandas', 'duckdb', 'numpy.ma'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    assert said[:2] == [f"{fit.act(HERE, seed=0)} False", "[]"]


def test_act_warns_of_states_that_are_far_from_the_log_and_of_no_others(run, fit, tmp_path, capsys):
    """One by one and in a file, on standard error alone; by distances that are worked out one after another."""
    numbers, days, rng = fit.sample.state.numbers, fit.columns.categories["weekday"], np.random.default_rng(0)
    mean, deviation, labels = numbers.mean(axis=0), numbers.std(axis=0), fit.sample.state.categories[:, 0]
    Z = np.c_[(numbers - mean) / deviation, np.eye(len(days))[labels]]

    def distance(z):
        return np.sort(np.linalg.norm(Z - z, axis=1))[99]

    own = sorted(distance(z) for z in Z[:: len(Z) // 400])
    usual = min(d for d in own if np.mean([other <= d for other in own]) >= 0.99)
    rows = rng.integers(0, len(numbers), 400)
    there = numbers[rows] + deviation * rng.normal(size=(400, 2)) * rng.choice([0.0, 0.3, 1.0, 3.0], (400, 1))
    there[0] = 1e90  # and no warning of NumPy
    far = [
        distance(np.r_[(x - mean) / deviation, np.eye(len(days))[labels[i]]]) > usual
        for x, i in zip(there, rows, strict=True)
    ]
    assert 20 < sum(far) < 300
    table = {"stock": there[:, 0].tolist(), "level": there[:, 1].tolist(), "weekday": [days[i] for i in labels[rows]]}
    found = surroundings_of(run)
    states = [dict(zip(table, state, strict=True)) for state in zip(*table.values(), strict=True)]
    assert [found.is_far(state) for state in states] == far
    assert not found.is_far({**states[0], "weekday": "Holiday"})  # no policy decides there

    for known in (True, False):
        place = far.index(not known)
        assert command(["act", str(run), "--state", json.dumps(states[place]), "--case", "3"]) == 0
        said = capsys.readouterr()
        assert json.loads(said.out) == fit.act(states[place], case=3)
        assert said.err.count("\n") == (not known)
        assert ("the log hardly knows states like this one" in said.err) is not known

    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([table, *zip(*table.values(), strict=True), ["", 1.0, "Fri"], [1e9, 1.0, "Holiday"]])
    assert command(["act", str(run), "--log", str(tmp_path / "new.csv"), "--out", str(tmp_path / "out.csv")]) == 0
    said = capsys.readouterr()
    assert f"states that the log hardly knows: {sum(far)} of 402 (" in said.err
    assert "hardly knows" not in said.out
    near = ["stock,level,weekday", *(",".join(map(str, s.values())) for s, f in zip(states, far, strict=True) if not f)]
    (tmp_path / "new.csv").write_text("\n".join(near))
    assert command(["act", str(run), "--log", str(tmp_path / "new.csv"), "--out", str(tmp_path / "out.csv")]) == 0
    assert "hardly knows" not in capsys.readouterr().err


# ---- bad input is one line


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"approximation": "nonsense"}, "approximation is 'nonsense'; it must be one of auto, table, partition"),
        ({"approximation": "table"}, "so hardly any is seen twice; cut the numbers into bins"),
        ({"start": "uniform"}, "start is 'uniform'"),
        ({"start": {"stock": 3.0}}, "level is missing"),
        ({"pessimism": 2.0}, "pessimism is 2.0, and needs a table of states"),
        ({"solver": "online"}, "solver is 'online', and needs a table of states"),
        (
            {"reward_range": (-99.0, 99.0)},
            "reward_range is (-99.0, 99.0), and needs a table of states; leave it out, or",
        ),
        ({"value_range": (0.0, 9.0), "approximation": "neural"}, "value_range is (0.0, 9.0), and needs a table"),
        ({"value_range": (9.0, 0.0), "approximation": "auto"}, "value_range"),
        ({"assume": "set aside"}, "assume is 'set aside', and needs a table of states; leave it out, or learn with"),
        ({"looks": 2, "approximation": "auto", "limits": "level<=0.1"}, "looks is 2, and needs a table of states"),
        ({"limits": "stockout<=0.1"}, "its costs are none"),
        ({"state": ["stock", "note"]}, "'note' has 1,500 different labels in 1,4"),
        ({"discount": 1.0}, "discount is 1"),
        ({"action": "huge"}, "different numbers in 1,500 rows; make steps of it: --action-bins"),
        ({"state": ["stock", "picture"]}, "a column holds arrays; give their parts as columns"),
        ({"reward": "huge"}, "the reward is 1e+300 somewhere; numbers beyond 1e+100 must be"),
        ({"state": ["huge", "level"], "numbers": ["huge", "level"]}, "huge is 1e+300 somewhere"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(table, more, said):
    notes = np.array([f"note {i}" for i in range(1_500)])
    unlike = {"note": notes, "huge": np.where(np.arange(1_500) == 5, 1e300, table["stock"])}
    if "picture" in more.get("state", ()):
        unlike["picture"] = [np.zeros((2, 2))] * 1_500
    with pytest.raises(dualq.DualqError) as e:
        learned({**table, **unlike}, **more)
    assert said in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("rows", "said"), [(2, "1 row with a known next state: too few"), (30, "cells need about 1,600 rows")]
)
def test_too_few_rows_are_named(rows, said):
    few = {name: values[:rows] for name, values in shop(100).items()}
    with pytest.raises(dualq.LogError, match=said):
        learned(few, approximation="linear" if rows == 2 else "partition")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({**HERE, "weekday": "Someday"}, "no weekday 'Someday'; known are"),
        ({**HERE, "stock": "x"}, "stock is 'x'; it must be a finite number"),
        ({**HERE, "stock": float("nan")}, "stock is nan; it must be a finite number"),
        ({"stock": 1.0}, "a state needs the columns stock, level, weekday; got stock"),
        (3, "has 1 parts; it needs 3"),
    ],
)
def test_states_that_cannot_be_are_named(fit, state, said):
    with pytest.raises(dualq.DualqError, match=said):
        fit.act(state)


def test_a_new_label_has_a_default_and_is_marked_in_a_table(fit):
    assert fit.act({**HERE, "weekday": "Someday"}, default="ask") == "ask"
    rows = [HERE, {**HERE, "weekday": "Someday"}, {**HERE, "stock": float("nan")}]
    table = {name: [row[name] for row in rows] for name in HERE}
    assert fit.act_many(table) == [fit.act(HERE, case=0), None, None]
    assert fit.act_many(table, default="ask")[1:] == ["ask", "ask"]


MESSY = {
    "a number that never changes": lambda t: t | {"level": np.full(len(t["level"]), 3.25)},
    "an outlier": lambda t: t | {"stock": np.where(np.arange(len(t["stock"])) == 5, 1e6, t["stock"])},
    "one action": lambda t: t | {"action": np.full(len(t["stock"]), "go")},
    "one long recording": lambda t: t | {"episode": np.zeros(len(t["stock"]), int), "step": np.arange(len(t["stock"]))},
    "thirty rows": lambda t: {name: values[:30] for name, values in t.items()},
}


@pytest.mark.parametrize("kind", MESSY)
def test_messy_logs_give_a_verdict_without_a_warning(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = learned(MESSY[kind](shop(600)), numbers=["stock", "level"])
        assert np.isfinite(found.expected.value)
        assert found.verdict in ("better", "no worse", "cannot tell", "do not use")
        if kind in ("one action", "thirty rows"):  # there is nothing to gain, or nothing to learn it from
            assert found.verdict == "no worse"
        assert found._repr_html_().startswith("<div")


def test_one_decision_per_case_is_measured_over_all_rows(table):
    found = learned(table, discount=0.0)
    used = np.append(np.diff(table["episode"]) == 0, False)  # the last row of a recording has no successor
    assert found.where == "log"
    assert found.logged.value == pytest.approx(table["reward"][used].mean(), abs=2 * found.logged.standard_error)


def test_with_discount_0_words_are_of_one_decision_as_of_tables(table):
    from dualq.app.report.number_words import earned, explained
    from dualq.app.report.words import earned as earned_in_table

    found, coarse = (learned(table, discount=0.0, **more) for more in ({}, {"bins": "auto", "approximation": "table"}))
    assert earned(found).replace("What was done so far is the average of what the log really earned. ", "") == (
        earned_in_table(coarse)
    )
    below = explained(found, found.explain(HERE))[3]
    assert not any("afterwards" in line for line in below)
    assert any("afterwards" in line for line in explained(replace(found, discount=0.95), found.explain(HERE))[3])


def test_nobody_is_advised_to_do_what_was_just_done(fit):
    from dualq.app.report.number_words import guarantees

    assert "--approximation partition" in guarantees(fit)[-1]
    tried = guarantees(replace(fit, asked="partition"))  # and the clone, or another, was recommended
    assert "--bins auto" in tried[-1]
    assert not any("partition" in line for line in tried)


def test_auto_without_jax_says_what_it_would_add(table, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "jax" else find(name, *more))
    found = learned(table, approximation="auto")
    assert MISSING in found.warnings
    assert {one.learner for one in found.candidates} == {"linear", "clone"}  # and 1,500 rows are too few for cells
    assert any("1,600 rows" in words for words in found.warnings)


def test_the_page_on_numbers_makes_its_file_and_reads_it(tmp_path, monkeypatch):
    """Block by block: the last one writes machine.csv, the second reads it; learners take both forms of the log."""
    page = (Path(__file__).parents[1] / "docs" / "continuous.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {"dualq": dualq}
    for block in (blocks[-1], blocks[1]):
        exec(block, names)
    rows = names["log"].number_rows()
    assert rows.columns.numbers == ("wear", "heat", "load")
    drawn = np.stack([names["columns"][name] for name in rows.columns.numbers], axis=1)
    assert {tuple(row) for row in rows.state.numbers.round(9)} <= {tuple(row) for row in drawn.round(9)}
    assert 0.98 * len(drawn) <= len(rows) <= len(drawn)
    given = {"state": ["wear", "heat", "load"], "episode": "episode", "time": "step", "terminal": "done"}
    assert len(dualq.read_log(names["columns"], **given, numbers="auto").number_rows()) == len(rows)


# ---- command line


def test_the_command_line_from_a_file_to_an_action(tmp_path, table):
    path, out = tmp_path / "shop.csv", tmp_path / "run"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*(np.asarray(values).tolist() for values in table.values()), strict=True))
    told = "--state stock,level,weekday --action action --reward reward --episode episode --time step --truncated last"
    words = [str(path), *told.split(), "--cost", "stockout", "--approximation", "linear"]

    def dualq_(*arguments):
        return CliRunner().invoke(app, list(arguments))

    done = dualq_("learn", *words, "--out", str(out), "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    wanted = {"approximation", "asked", "candidates", "contradicted", "costs", "expected", "gain", "limits", "logged"}
    assert wanted | {"numbers", "promised", "reason", "rules", "verdict", "warnings", "withheld", "files"} <= set(said)
    assert said["numbers"] == ["stock", "level"]
    assert said["costs"]["stockout"]["value"] == pytest.approx(dualq.load(out).costs["stockout"].value)
    page = dualq_("learn", *words)
    assert page.stdout.startswith(said["verdict"].capitalize())
    report = (out / "report.html").read_text()
    assert report.index("<h1>") < report.index("<h2>What to do") < report.index("<h2>Why") < report.index("<h2>Details")
    acted = dualq_("act", str(out), "--state", json.dumps(HERE), "--seed", "0")
    assert json.loads(acted.stdout) == dualq.load(out).act(HERE, seed=0)
    facts = json.loads(dualq_("explain", str(out), "--state", json.dumps(HERE), "--json").stdout)
    assert {row["action"]["action"] for row in facts["actions"]} == {0, 2, 4, 8}
    assert facts["distance"] == pytest.approx(dualq.load(out).explain(HERE)["distance"])
    refused = dualq_("frontier", str(out), "--limit", "stockout")
    assert refused.exit_code != 0
    assert "needs a table of states" in str(refused.exception)


def test_pages_of_twenty_columns_stay_short():
    table = shop(400)
    rng = np.random.default_rng(0)
    more = {f"sensor {i}": rng.normal(size=400) for i in range(20)}
    found = learned(table | more, state=["stock", *more])
    from dualq.app.report.number_words import read

    facts = dict(read(found))
    assert facts["numbers"].endswith("and 12 more")
    assert found._repr_html_().count("<li>") <= 8


def test_the_reports_tree_asks_each_question_once(fit):
    """Leaves are in the order of the tree, so that those which begin alike stand together."""
    for depth in range(1, 8):
        begun = [leaf.path[:depth] for leaf in fit.leaves if len(leaf.path) >= depth]
        together = [path for i, path in enumerate(begun) if i == 0 or path != begun[i - 1]]
        assert len(together) == len(set(together))
    states = fit.sample.state.at(np.arange(200))
    for leaf in fit.leaves:  # both ways of saying it hold for the same states
        numbers = dict(zip(fit.columns.numbers, states.numbers.T, strict=True))
        days = np.array(fit.columns.categories["weekday"])[states.categories[:, 0]]

        def holds(words, numbers=numbers, days=days):
            if words.startswith("weekday = "):
                return days == words.removeprefix("weekday = ")
            if words.startswith("weekday not "):
                return ~np.isin(days, words.removeprefix("weekday not ").split(" or "))
            parts = words.split(" ")
            if len(parts) == 5:
                low, name, high = parts[0], parts[2], parts[4]
            elif parts[1] == "<":
                low, name, high = "-inf", parts[0], parts[2]
            else:
                low, name, high = parts[2], parts[0], "inf"
            return (numbers[name] >= float(low)) & (numbers[name] < float(high))

        both = [np.all([holds(words) for words in said], axis=0) for said in (leaf.conditions, leaf.path) if said]
        assert all(np.array_equal(both[0], other) for other in both)


def test_a_state_that_misses_something_has_no_error():
    """Without the stock, the row before tells what follows: nothing that is expected may be believed."""
    table = continuous.to_table(continuous.record(SHOP, 6_000, 1))
    table["tick"] = np.random.default_rng(0).random(len(table["reward"]))
    found = dualq.learn(table, **(COLUMNS | {"state": "tick"}), approximation="linear", discount=0.95)
    linear = next(one for one in found.candidates if one.name == "linear")
    assert linear.expected.standard_error is None
    assert "the state misses something" in linear.doubt
    assert found.approximation == "clone"


def test_where_rows_are_too_few_for_the_features_no_error_is_given():
    found = dualq.learn(continuous.to_table(continuous.record(SHOP, 1_000, 2)), **COLUMNS, approximation="linear")
    assert {one.doubt for one in found.candidates} == {"the log has too few rows"}
    assert found.approximation == "clone"


def test_a_vote_is_judged_saved_and_asked_as_what_its_members_say(tmp_path):
    """Three rules of the linear learner; what each says of a state is added up by hand."""
    rows = continuous.record(CLINIC, 2_500, 1)
    fit = dualq.learn(continuous.to_table(rows), **DOSES)
    voting = {c.name: c for c in fit.candidates if c.gain.value > c.gain.standard_error and c.learner == "linear"}
    vote = voting.pop("linear, vote")
    assert fit.chosen is vote
    assert set(voting) == {"linear", "linear, dual", "linear, iterated"}
    assert [c.name for c in fit.candidates][-1] == "clone"
    weights = [one.gain.value - one.gain.standard_error / 2 for one in voting.values()]
    votes = sum(w * one.rule(rows.state) for w, one in zip(weights, voting.values(), strict=True))
    sure = np.sort(votes)[:, -1] - np.sort(votes)[:, -2] > 1e-9  # no tie
    assert sure.mean() > 0.9
    assert vote.rule(rows.state).argmax(axis=1)[sure].tolist() == votes.argmax(axis=1)[sure].tolist()
    truth = continuous.returns(CLINIC, vote.rule, seed=1, episodes=1_000, start=rows.starts).mean()
    assert abs(vote.expected.value - truth) < 3 * vote.expected.standard_error  # one log: by chance in 0.3%
    fit.save(tmp_path / "run")
    again = {c.name: c for c in dualq.load(tmp_path / "run").candidates}["linear, vote"]
    assert again.rule(rows.state).tolist() == vote.rule(rows.state).tolist()
