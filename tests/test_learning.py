"""The main job: what is learned is what the log says, and what is kept can be read again."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import dualq
from dualq import problems
from dualq.base.errors import CheckpointError, LogError
from dualq.logs.blocks import counts_in_blocks
from dualq.worlds import sample_log as shipped


@pytest.fixture(scope="module")
def two():
    return problems.two_state().record(20_000, seed=1)


@pytest.fixture(scope="module")
def fit(two):
    return dualq.learn(two, discount=0.9)


# In `left`, going pays 1 and waiting 0; in `right`, 2 and 0. Going changes the side, waiting does not.
TINY = {
    "side": ["left", "right", "left", "left", "right", "right", "left", "right"],
    "do": ["go", "go", "wait", "go", "wait", "go", "go", "go"],
    "pay": [1.0, 2.0, 0.0, 1.0, 0.0, 2.0, 1.0, 2.0],
    "then": ["right", "left", "left", "right", "right", "left", "right", "left"],
    "t": list(range(8)),
}
COLUMNS = {"state": "side", "action": "do", "reward": "pay", "next_state": "then"}


def tiny(**more):
    return dualq.learn(dualq.read_log(TINY, **COLUMNS, time="t"), discount=0.5, **more)


def test_without_pessimism_it_is_the_exact_solution_of_the_empirical_model(two):
    fit = dualq.learn(two, discount=0.9, pessimism=0.0, certificate=None)
    exact = dualq.solve(two.counts().mdp(0.9))
    np.testing.assert_allclose(fit.solution.V, exact.V, atol=1e-6)
    np.testing.assert_array_equal(fit.policy.matrix, exact.primal_policy.matrix)
    np.testing.assert_array_equal(fit.primal_policy.matrix, fit.dual_policy.matrix)
    assert fit.careful.claimed == pytest.approx(float(fit.start @ exact.V), abs=1e-6)


def test_the_stages_are_named_as_they_begin():
    named = []
    tiny(progress=named.append)
    assert [name.split()[0] for name in named] == ["Counting", "Learning", "Proving"]


def test_by_hand():
    # Going for ever pays 1, 2, 1, 2, ...: V(left) = (1 + .5 * 2) / (1 - .25) = 8/3, V(right) = (2 + .5) / .75 = 10/3.
    fit = tiny(pessimism=0.0)
    np.testing.assert_allclose(fit.solution.V, [8 / 3, 10 / 3], atol=1e-9)
    facts = fit.explain({"side": "left"})
    assert facts["state"] == {"side": "left"}
    assert facts["rows"] == 4
    go, wait = facts["actions"]
    assert (go["do"], go["rows"], go["logged_share"], go["recommended"]) == ("go", 3, 0.75, 1.0)
    assert (wait["do"], wait["rows"], wait["logged_share"], wait["recommended"]) == ("wait", 1, 0.25, 0.0)
    assert go["value"] == pytest.approx(8 / 3)
    assert wait["value"] == pytest.approx(4 / 3)  # nothing now, and half of V(left)
    assert fit.act("right") == fit.policy.act({"side": "right"}) == "go"
    # The log went most often too; but a quarter of its decisions change, in either state: V(go) - V(wait) each.
    assert fit.share_changed == pytest.approx(0.25)
    worth = {row["state"]["side"]: row["gain"] for row in fit.changes()}
    assert worth == pytest.approx({"left": (8 / 3 - 4 / 3) / 4, "right": (10 / 3 - 5 / 3) / 4})
    assert [row["state"]["side"] for row in fit.changes()] == ["right", "left"]  # what is worth more comes first
    # From left and right alike: time is spent in both alike.
    np.testing.assert_allclose(fit.time_share, [0.5, 0.5])


def test_changes_are_where_the_log_did_otherwise():
    rows = {**TINY, "do": ["wait" if d == "go" else "go" for d in TINY["do"]]}
    fit = dualq.learn(dualq.read_log(rows, **COLUMNS, time="t"), discount=0.5, pessimism=0.0)
    # Now waiting is what pays and changes sides, and it is what the log did most: three times of four.
    assert [row["share"] for row in fit.changes()] == pytest.approx([0.25, 0.25])
    worse = {name: column + 3 * [column[2]] for name, column in TINY.items()} | {"t": list(range(11))}
    fit = dualq.learn(dualq.read_log(worse, **COLUMNS, time="t"), discount=0.5, pessimism=0.0)
    change = max(fit.changes(), key=lambda row: row["share"])
    assert change["state"] == {"side": "left"}
    assert change["logged"] == {"do": "wait"}
    assert change["logged_share"] == pytest.approx(4 / 7)
    assert change["recommended"] == {"do": "go"}
    assert change["share"] == pytest.approx(4 / 7)
    assert change["gain"] == pytest.approx(4 / 7 * (8 / 3 - 4 / 3))


def test_a_table_and_arrays_with_the_same_rows_give_the_same(two, fit, tmp_path):
    two.to_parquet(tmp_path / "log.parquet")
    other = dualq.learn(dualq.read_log(tmp_path / "log.parquet"), discount=0.9)
    np.testing.assert_array_equal(other.policy.matrix, fit.policy.matrix)
    assert other.expected.value == pytest.approx(fit.expected.value, rel=1e-12)
    assert other.certificate.lower == pytest.approx(fit.certificate.lower, rel=1e-9)
    assert other.certificate.upper == pytest.approx(fit.certificate.upper, rel=1e-9)


def test_training_on_a_table_is_training_on_its_rows(two, tmp_path):
    two.to_parquet(tmp_path / "log.parquet")
    algorithm = dualq.SPDQ(weights=0.1, zeta=0.05)
    table = dualq.read_log(tmp_path / "log.parquet")
    one, other = (dualq.train(algorithm, log, 20_000, discount=0.9).solution for log in (two, table))
    np.testing.assert_array_equal(one.Q, other.Q)
    np.testing.assert_array_equal(one.occupancy, other.occupancy)


@pytest.mark.parametrize("held", ["arrays", "table"])
def test_blocks_are_the_log_in_time_order(two, held, tmp_path):
    two.to_parquet(tmp_path / "log.parquet")
    blocks = counts_in_blocks(two if held == "arrays" else dualq.read_log(tmp_path / "log.parquet"))
    assert len(blocks) == 7 + 22  # up to 512 rows, and then 22 times a quarter of a doubling
    merged = blocks[0]
    for block in blocks[1:]:
        merged = merged.merge(block)
    counts = two.counts()
    np.testing.assert_array_equal(merged.n, counts.n)
    np.testing.assert_allclose(merged.reward_sum, counts.reward_sum)
    first = blocks[0].total
    np.testing.assert_array_equal(
        blocks[0].visits, np.bincount(two.state[:first] * 2 + two.action[:first], minlength=4).reshape(2, 2)
    )


def test_the_blocks_of_a_table_carry_its_costs(two, tmp_path):
    rng = np.random.default_rng(3)
    frame = {
        "state": two.state, "action": two.action, "reward": two.reward, "next_state": two.next_state,
        "time": np.arange(two.state.size), "fuel": rng.random(two.state.size),
    }  # fmt: skip
    log = dualq.read_log({name: np.asarray(column) for name, column in frame.items()}, costs=["fuel"])
    begin = 0
    for block in counts_in_blocks(log):
        np.testing.assert_allclose(block.cost_sums["fuel"].sum(), frame["fuel"][begin : begin + block.total].sum())
        begin += block.total
    assert begin == two.state.size


def test_the_other_solvers_agree_with_the_exact_one(two, fit):
    by_pdhg = dualq.learn(two, discount=0.9, solver="pdhg", certificate=None)
    low, high = by_pdhg.solution.bounds
    exact = float(fit.solution.weights @ fit.solution.V)
    assert low - 1e-9 <= exact <= high + 1e-9
    np.testing.assert_array_equal(by_pdhg.policy.matrix, fit.policy.matrix)
    # Algorithm 1 after 300,000 rows has the right greedy policy (it has after 100,000 in 49 of 50 seeds).
    long = problems.two_state().record(300_000, seed=2)
    online = dualq.learn(long, discount=0.9, solver="online", certificate=None)
    np.testing.assert_array_equal(online.policy.matrix, problems_best())
    assert "Algorithm 1" in online.reason


def problems_best():
    return dualq.solve(problems.two_state().mdp).primal_policy.matrix


def test_the_certificate_holds_for_the_recommended_policy(two, fit):
    # A promise with confidence .95; this seed keeps it.
    mdp = problems.two_state().mdp
    true, best = float(fit.start @ fit.policy.value(mdp)), float(fit.start @ dualq.solve(mdp).V)
    assert fit.certificate.lower <= true <= best + 1e-8
    assert best <= fit.certificate.upper


def test_a_fit_is_what_it_was_after_saving(fit, tmp_path):
    files = fit.save(tmp_path / "run")
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["fit.json", "policy.csv", "solution.npz"]
    assert len(files) == 3
    again = dualq.load(tmp_path / "run")
    np.testing.assert_array_equal(again.policy.matrix, fit.policy.matrix)
    np.testing.assert_array_equal(again.solution.Q, fit.solution.Q)
    np.testing.assert_array_equal(again.counts.n, fit.counts.n)
    assert again.summary() == fit.summary()
    assert again.explain(0) == fit.explain(0)
    assert again.certificate.wanted(3) == fit.certificate.wanted(3)
    numbers = json.loads((tmp_path / "run" / "fit.json").read_text())
    assert numbers["certificate"]["lower"] == fit.certificate.lower


def test_labels_keep_their_types_on_disk(tmp_path):
    day = datetime.date(2024, 2, 29)
    rows = {
        "day": [day, datetime.date(2024, 3, 1)] * 3,
        "n": [3, -1] * 3,
        "code": ["007", 'é, "x"'] * 3,
        "act": [True, False] * 3,
        "r": [1.0, 0.0] * 3,
    }
    log = dualq.read_log(rows, state=["day", "n", "code"], action="act", reward="r", time="row")
    fit = dualq.learn(log, discount=0.5)
    fit.save(tmp_path)
    again = dualq.load(tmp_path)
    assert list(again.counts.states) == list(fit.counts.states)
    assert {type(part) for label in again.counts.states for part in label} == {datetime.date, int, str}
    assert again.policy.act({"day": day, "n": 3, "code": "007"}) is True


def test_what_was_changed_or_is_missing_is_refused(fit, tmp_path):
    fit.save(tmp_path / "run")
    with pytest.raises(CheckpointError, match="no fit was saved here"):
        dualq.load(tmp_path)
    arrays = tmp_path / "run" / "solution.npz"
    whole = arrays.read_bytes()
    arrays.write_bytes(whole[:-100])
    with pytest.raises(CheckpointError, match=r"solution\.npz"):
        dualq.load(tmp_path / "run")
    tiny().save(tmp_path / "other")
    arrays.write_bytes((tmp_path / "other" / "solution.npz").read_bytes())
    with pytest.raises(CheckpointError, match="different fits"):
        dualq.load(tmp_path / "run")
    (tmp_path / "run" / "fit.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not written by dualq"):
        dualq.load(tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="is a file"):
        fit.save(tmp_path / "file")


def test_a_state_that_the_log_does_not_know(fit):
    with pytest.raises(LogError, match="no state 7"):
        fit.policy.act(7)
    assert fit.policy.act(7, default="wait") == "wait"
    with pytest.raises(LogError, match="no state 7"):
        fit.explain(7)


def test_a_saved_fit_acts_as_the_fit_does_without_what_learned_it(tmp_path):
    rng = np.random.default_rng(0)
    days, going = [datetime.date(2024, 2, 28), datetime.date(2024, 2, 29)], rng.integers(0, 2, 400)
    rows = {
        "day": [days[i] for i in rng.integers(0, 2, 400)],
        "level": rng.uniform(0.0, 8.0, 400),
        "act": [["wait", "go"][i] for i in going],
        "r": 1.0 * going,
        "cost": 1.0 * going,
    }
    columns = {"state": ["day", "level"], "action": "act", "reward": "r", "time": "row", "costs": ["cost"]}
    log = dualq.read_log(rows, **columns, bins={"level": [2.0, 4.0]})
    free = dualq.learn(log, discount=0.5, certificate=None)
    fit = dualq.learn(log, discount=0.5, limits={"cost": 0.6}, margin="none", certificate=None)
    assert free.policy.is_deterministic
    assert not fit.policy.is_deterministic  # somewhere it draws
    states = [{"day": str(day), "level": level} for day in days for level in (1.0, 3.0, 5.0)]
    for i, one in enumerate((free, fit)):
        one.save(tmp_path / str(i))
        wanted = [one.act(state, seed) for state in states for seed in range(10)]
        code = f"""
            import sys
            from dualq.offline.saved.opening import decider_of
            decide = decider_of({str(tmp_path / str(i))!r}).act
            print([decide(state, seed) for state in {states} for seed in range(10)])
            print(sorted({{"scipy", "numba", "highspy", "ibis", "duckdb", "altair", "pandas"}} & set(sys.modules)))
        """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == [str(wanted), "[]"]


def test_numbers_find_their_bins():
    rng = np.random.default_rng(0)
    level = rng.uniform(0.0, 10.0, 2000)
    action = rng.integers(0, 2, 2000)
    rows = {"level": level, "act": action, "r": np.where(level < 4.0, action, 1 - action).astype(float)}
    log = dualq.read_log(rows, state="level", action="act", reward="r", time="row", bins={"level": [4.0]})
    fit = dualq.learn(log, discount=0.5)
    assert [fit.act(x) for x in (0.1, 3.999, 4.0, 9.0)] == [1, 1, 0, 0]
    assert fit.explain({"level": 9.0})["state"] == {"level": ">= 4"}


def test_choices_that_do_not_exist_are_refused(two):
    for words, message in (
        ({"solver": "magic"}, "solver is 'magic'; it must be one of exact, pdhg, online"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"start": "nowhere"}, "start is 'nowhere'"),
        ({"pessimism": -1.0}, "pessimism is -1.0"),
        ({"discount": 1.0}, "discount"),
    ):
        with pytest.raises(dualq.errors.DualqError, match=message):
            dualq.learn(two, **({"discount": 0.9} | words))


def test_where_value_is_measured():
    everywhere = tiny(start="uniform")
    there = tiny(start={"right": 1.0})
    assert there.start.tolist() == [0.0, 1.0]
    assert everywhere.start.tolist() == [0.5, 0.5]
    assert there.expected.value > everywhere.expected.value


def test_what_is_expected_is_expected_of_the_recommended_policy():
    # Algorithm 1 after a few rows recommends something else; its value is that of its own policy in the same model.
    log = problems.inventory(capacity=6, lot=3).record(3_000, seed=4)
    exact, online = (dualq.learn(log, discount=0.9, certificate=None, solver=s) for s in ("exact", "online"))
    assert not np.array_equal(exact.policy.matrix, online.policy.matrix)
    mdp = exact.careful.mdp
    pooled = dualq.MDP(mdp.transitions, mdp.rewards + exact.careful.penalty, 0.9, available=mdp.available)
    assert online.expected.value == pytest.approx(float(online.start @ online.policy.value(pooled)))
    assert online.expected.value < exact.careful.claimed  # which is the best in this model, nearly
    visits = online.policy.occupancy(mdp, online.start).sum(axis=1)
    np.testing.assert_allclose(online.time_share, visits / visits.sum())


def test_what_was_logged_is_recommended_where_algorithm_1_reached_less(tmp_path):
    # One pass over the shipped log is too short for Algorithm 1: on the log's own frequencies it earns less.
    log = dualq.read_log(shipped.path(), **shipped.COLUMNS)
    fit = dualq.learn(log, certificate=None, solver="online")
    mdp = log.counts().mdp(0.95)
    reached, logged = (float(fit.start @ one.value(mdp)) for one in (fit.primal_policy, fit.behaviour))
    assert reached < logged
    assert fit.as_logged
    np.testing.assert_array_equal(fit.policy.matrix, fit.behaviour.matrix)
    assert fit.expected == fit.logged
    assert fit.reason.startswith("What was logged is recommended: the policy that is greedy in the averaged Q")
    assert f"less than what was logged, {fit.logged}" in fit.reason
    fit.save(tmp_path / "run")
    assert dualq.load(tmp_path / "run").as_logged


def test_numbers_and_an_end_are_kept_on_disk(tmp_path):
    rows = {
        "n": [1, 2, 3, 1, 2, 3],
        "a": [0, 1, 0, 1, 0, 1],
        "r": [0.0, 1.0, 2.0] * 2,
        "done": [False, False, True] * 2,
    }
    fit = dualq.learn(
        dualq.read_log(rows, state="n", action="a", reward="r", time="row", terminal="done"), discount=0.5
    )
    assert fit.solution.mdp.num_states == 4
    fit.save(tmp_path)
    again = dualq.load(tmp_path)
    assert list(again.solution.mdp.states) == [1, 2, 3, "(end)"]
    assert again.summary() == fit.summary()


def test_a_start_given_by_labels_can_be_reported_and_kept(tmp_path):
    fit = tiny(start={"right": 2.0, "left": 1.0})
    fit.report(tmp_path / "report.html")
    fit.save(tmp_path)
    np.testing.assert_allclose(dualq.load(tmp_path).start, [1 / 3, 2 / 3])


def test_dates_may_be_written_as_text():
    days = [datetime.date(2024, 1, d) for d in (1, 2)]
    rows = {"day": days * 6, "a": [0, 1] * 6, "r": [0.0, 1.0] * 6}
    fit = dualq.learn(dualq.read_log(rows, state="day", action="a", reward="r", time="row"), discount=0.5)
    assert fit.act("2024-01-02") == fit.act(days[1]) == 1
    with pytest.raises(LogError, match="write a date as"):
        fit.act("tomorrow")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), None])
def test_what_is_no_number_has_no_bin(number):
    rows = {"x": [0.1, 0.9] * 10, "a": [0, 1] * 10, "r": [0.0, 1.0] * 10}
    log = dualq.read_log(rows, state="x", action="a", reward="r", time="row", bins={"x": [0.5]})
    with pytest.raises(LogError, match="has no bin"):
        dualq.learn(log, discount=0.5, certificate=None).act({"x": number})


def test_flags_that_never_hold_do_not_make_one_episode():
    rows = {**TINY, "done": [False] * 8}
    log = dualq.read_log(rows, **COLUMNS, time="t", terminal="done")
    assert dualq.learn(log, discount=0.5, certificate=None).settings["start"] == "log"


def test_rows_without_a_time_are_one_block():
    log = dualq.read_log(TINY | {"t": [0] * 8}, **COLUMNS, time=False)
    assert len(counts_in_blocks(log)) == 1
