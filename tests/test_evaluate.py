"""evaluate, compare: values against dense matrices, errors against many logs, bounds against `certificate_of`."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dualq
from dualq import TablePolicy, problems
from dualq.base.errors import LogError
from dualq.logs import start_weights
from dualq.offline.careful.given import Given
from dualq.offline.careful.pooling import Rows
from dualq.offline.careful.selection_bias import Estimate

DISCOUNT = 0.9


@pytest.fixture(scope="module")
def world():
    return problems.garnet(5, 3, 2, discount=DISCOUNT, seed=3)


@pytest.fixture(scope="module")
def log(world):
    return world.record(steps=3000, seed=1)


@pytest.fixture(scope="module")
def shop():
    """A log of labels: what is in stock and the season, with a cost."""
    rng, rows = np.random.default_rng(0), []
    stock, season = 2, "summer"
    for day in range(4000):
        order = int(rng.choice([0, 2, 4])) if stock <= 2 else 0
        demand = rng.poisson(1.5 if season == "summer" else 0.8)
        sold = min(stock + order, demand)
        rows.append((day, stock, season, order, 3.0 * sold - order - (order > 0), float(demand > stock + order)))
        stock = min(stock + order - sold, 5)
        season = season if rng.random() < 0.9 else "winter" if season == "summer" else "summer"
    names = ("day", "stock", "season", "order", "profit", "short")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


WORDS = {"state": ["stock", "season"], "action": "order", "reward": "profit", "time": "day", "costs": ["short"]}


@pytest.fixture(scope="module")
def shop_log(shop):
    return dualq.read_log(shop, **WORDS)


def dense_value(log, matrix, discount):
    """start'(I - alpha P_pi)^-1 R_pi with frequencies counted row by row."""
    S, A = len(log.states), len(log.actions)
    n, paid = np.zeros((S, A, S)), np.zeros((S, A))
    for s, a, r, s_next in zip(log.state, log.action, log.reward, log.next_state, strict=True):
        n[s, a, s_next] += 1
        paid[s, a] += r
    visits = n.sum(axis=2)
    P = np.einsum("sa,sat->st", matrix, n / visits[:, :, None])
    start = visits.sum(axis=1) / visits.sum()
    return float(start @ np.linalg.solve(np.eye(S) - discount * P, (matrix * paid / visits).sum(axis=1)))


# ---- values


def test_a_value_is_that_of_the_log_s_own_frequencies(log):
    rng = np.random.default_rng(0)
    matrix = rng.dirichlet(np.ones(3), size=5)
    e = dualq.evaluate(log, TablePolicy(matrix), discount=DISCOUNT, certificate=None)
    assert e.expected.value == pytest.approx(dense_value(log, matrix, DISCOUNT), rel=1e-9)
    visits = log.counts().visits
    usual = dense_value(log, visits / visits.sum(axis=1, keepdims=True), DISCOUNT)
    assert e.logged.value == pytest.approx(usual, rel=1e-9)
    assert e.difference.value == pytest.approx(e.expected.value - e.logged.value)


def test_errors_are_those_of_many_logs(world):
    """Deviations over 120 logs are known to 6.5%: a right error is within .75 to 1.3 of them, by 4 of those."""
    rng = np.random.default_rng(5)
    policy = TablePolicy(0.5 * rng.dirichlet(np.ones(3), size=5) + 0.5 / 3.0)
    start, found = np.full(5, 0.2), []
    usual = world.behaviour
    truth = [float(start @ one.value(world.mdp)) for one in (policy, usual)]
    for seed in range(120):
        known = Given(Rows.of(world.record(steps=1500, seed=seed).counts(), DISCOUNT), start)
        one, other = known.valued(policy), known.valued(usual)
        value, apart = known.estimate(one, other), known.difference(one, other)
        found.append((value.value, value.standard_error, apart.value, apart.standard_error))
    value, error, apart, paired = np.array(found).T
    assert value.mean() == pytest.approx(truth[0], abs=4.0 * value.std() / np.sqrt(120))
    assert apart.mean() == pytest.approx(truth[0] - truth[1], abs=4.0 * apart.std() / np.sqrt(120))
    assert 0.75 < np.median(error) / value.std() < 1.3
    assert 0.75 < np.median(paired) / apart.std() < 1.3
    assert np.median(paired) < 0.9 * np.hypot(np.median(error), np.median(error))  # it is the error of the difference


def test_what_was_logged_differs_by_nothing(log):
    visits = log.counts().visits
    e = dualq.evaluate(log, TablePolicy(visits / visits.sum(axis=1, keepdims=True)), discount=DISCOUNT)
    assert (e.difference.value, e.difference.standard_error) == (0.0, 0.0)
    assert e.expected == e.logged
    assert e.verdict == "no worse"
    assert e.share_changed == 0.0


def test_two_policies_that_differ_little_are_told_apart_by_rows_they_share(log):
    one = np.full((5, 3), 1.0 / 3.0)
    other = one.copy()
    other[0] = 0.2, 0.4, 0.4
    c = dualq.compare(log, {"one": TablePolicy(one), "other": TablePolicy(other)}, discount=DISCOUNT, learned=False)
    apart = c["one"].better_than(c["other"])
    assert apart.standard_error < 0.3 * np.hypot(c["one"].expected.standard_error, c["other"].expected.standard_error)
    assert apart.value == pytest.approx(c["one"].expected.value - c["other"].expected.value)
    back = c["other"].better_than(c["one"])
    assert (back.value, back.standard_error) == pytest.approx((-apart.value, apart.standard_error))


# ---- bounds


def test_bounds_are_those_of_the_certificate(log):
    policy = dict.fromkeys(range(5), 0)
    e = dualq.evaluate(log, policy, discount=DISCOUNT)
    start = start_weights(log)
    right = dualq.certificate_of(
        dualq.counts_in_blocks(log), TablePolicy(np.tile([1.0, 0.0, 0.0], (5, 1))), DISCOUNT, start, 0.95
    )
    assert (e.certificate.lower, e.certificate.upper) == pytest.approx((right.lower, right.policy_upper))
    assert e.certificate.any_policy == pytest.approx(right.upper)
    low, high = right.behaviour
    assert e.certificate.improvement == pytest.approx((right.lower - high, right.policy_upper - low))
    assert e.promised
    assert e.conditions


def test_a_decision_that_was_never_seen_has_no_promise_and_is_named(world):
    rows = world.record(steps=2000, seed=4)
    keep = ~((rows.state == 2) & (rows.action == 1))  # the log never took action 1 in state 2
    columns = (column[keep] for column in (rows.state, rows.action, rows.reward, rows.next_state))
    log = dualq.ArrayLog(*columns, states=5, actions=3, reward_range=(0.0, 1.0))
    seen = dualq.evaluate(log, {0: 0, 1: 0, 2: 0, 3: 0, 4: 0}, discount=DISCOUNT)
    e = dualq.evaluate(log, {0: 0, 1: 0, 2: 1, 3: 0, 4: 0}, discount=DISCOUNT)
    assert seen.unsupported == 0.0
    assert seen.never_seen() == []
    (named,) = e.never_seen()
    assert named["state"] == {"state": 2}
    assert named["action"] == {"action": 1}
    assert named["time_share"] == pytest.approx(e.unsupported) == pytest.approx(e.time_share[2])
    # it is valued as the state's average, with an error that the log cannot shrink
    assert e.expected.standard_error > 2.0 * seen.expected.standard_error
    # a floor of a policy that does so is the worst that rewards allow, from there on
    assert e.certificate.whole.per_state["lower"][2] == pytest.approx(e.certificate.whole.value_range[0])


def test_a_policy_of_guesses_is_not_called_better(shop_log):
    e = dualq.evaluate(shop_log, lambda state: 4, discount=0.9)  # also where the log never ordered
    assert e.unsupported > 0.05
    assert e.verdict in ("cannot tell", "do not use")
    assert any("the log never saw" in line for line in e.warnings) == (e.unsupported > 0.2)


# ---- luck


def test_what_was_learned_here_has_its_luck_taken_off(log, tmp_path):
    fit = dualq.learn(log, discount=DISCOUNT)
    fit.save(tmp_path / "run")
    for policy in (fit, tmp_path / "run", tmp_path / "run" / "policy.csv"):
        e = dualq.evaluate(log, policy, discount=DISCOUNT, certificate=None)
        assert e.learned_here
        assert (e.expected.value, e.expected.standard_error) == pytest.approx(
            (fit.expected.value, fit.expected.standard_error)
        )


# ---- kinds of policies


def decide(state):
    return 4 if state["stock"] <= 1 and state["season"] == "summer" else 2 if state["stock"] <= 1 else 0


RULE = 'order = (4 if season == "summer" else 2) if stock <= 1 else 0'


def test_every_kind_of_policy_is_the_same_policy(shop_log, tmp_path):
    reference = dualq.evaluate(shop_log, decide, discount=0.9, certificate=None)
    states = shop_log.states
    table = {label: decide(states.named(s)) for s, label in enumerate(states)}
    reference.save(tmp_path / "e")
    sure = tmp_path / "sure.csv"
    sure.write_text("order,stock,season\n" + "".join(f"{a},{s},{k}\n" for (s, k), a in table.items()))
    named = tmp_path / "named.json"
    named.write_text(json.dumps({json.dumps(label): action for label, action in table.items()}))
    listed = tmp_path / "listed.json"
    listed.write_text(json.dumps([{"stock": s, "season": k, "order": a} for (s, k), a in table.items()]))
    kinds = {
        "rule": RULE,
        "labels": table,
        "chances": {label: {action: 1.0} for label, action in table.items()},
        "policy": reference.policy,
        "csv": tmp_path / "e" / "policy.csv",
        "folder": str(tmp_path / "e"),
        "csv without probabilities": sure,
        "json": named,
        "json rows": listed,
    }
    for name, policy in kinds.items():
        e = dualq.evaluate(shop_log, policy, discount=0.9, certificate=None)
        assert np.array_equal(e.policy.matrix, reference.policy.matrix), name


def test_probabilities_are_taken(shop_log):
    both = {label: {0: 0.5, 2: 0.5} if label[0] <= 2 else 0 for label in shop_log.states}
    e = dualq.evaluate(shop_log, both, discount=0.9, certificate=None)
    s = shop_log.states.index((1, "summer"))
    assert e.policy.matrix[s].tolist() == [0.5, 0.5, 0.0]


def test_a_rule_over_bins_decides_alike_in_a_bin_or_is_refused(shop):
    log = dualq.read_log(shop, **WORDS, bins={"stock": [2, 4]})
    e = dualq.evaluate(log, "order = 2 if stock < 2 else 0", discount=0.9, certificate=None)
    names = [label[0] for label in log.states]
    assert {names[s]: int(row.argmax()) for s, row in enumerate(e.policy.matrix)} == {"< 2": 1, "[2, 4)": 0, ">= 4": 0}
    with pytest.raises(LogError, match=r"decides both 2 and 0 in stock='\[2, 4\)'.*cut the bins where the rule does"):
        dualq.evaluate(log, "order = 2 if stock < 3 else 0", discount=0.9)


def lines(**changes):
    rows = {(s, k): (0, 1.0) for s in range(6) for k in ("summer", "winter")}
    rows |= changes.get("rows", {})
    return "stock,season,order,probability\n" + "".join(f"{s},{k},{a},{p}\n" for (s, k), (a, p) in rows.items())


WRONG = {
    "an unknown state": (
        lines(rows={(9, "summer"): (0, 1.0)}),
        r"row 13 \(line 14\): .*\('9', 'summer'\); known are 0",
    ),
    "an unknown action": (lines(rows={(1, "winter"): (3, 1.0)}), r"row 4 \(line 5\): no order '3'; known are 0, 2, 4"),
    "a sum": (lines(rows={(1, "winter"): (2, 0.7)}), r"in stock=1, season='winter' the probabilities sum to 0.7"),
    "a probability": (lines(rows={(1, "winter"): (2, 1.7)}), r"row 4 .*the probability of 2 is '1.7'; .* 0 and 1"),
    "missing states": (
        lines()[: -len("5,winter,0,1.0\n")],
        r"no decision for 1 state of the log: stock=5, season='winter'",
    ),
    "a column": (lines().replace("season", "saison"), r"no column 'season'; did you mean 'saison'\?"),
    "nothing": ("stock,season,order\n", "has no rows"),
    "a row twice": (lines() + "5,winter,0,1.0\n", "row 13 .* has stock=5, season='winter', order=0 once more"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_with_a_file_is_one_line(shop_log, tmp_path, what):
    text, words = WRONG[what]
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(LogError, match=words) as error:
        dualq.evaluate(shop_log, path, discount=0.9)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("nosuch.csv", "no such file or run"),
        (lambda state: 7, "in stock=0, season='summer' it takes an action that the log does not have: no order 7"),
        (lambda state: state["colour"], "the function failed in stock=0.*KeyError"),
        ({(0, "summer"): 0}, 'no decision for 11 states.*otherwise="logged"'),
        ({"x": 0}, "the policy: no stock and season 'x'"),
        (TablePolicy([[1.0, 0.0]]), "its states have the columns state, and the log's stock, season"),
        (3, "the policy is a int; it must be"),
    ],
)
def test_what_is_wrong_with_a_policy_is_one_line(shop_log, policy, words):
    with pytest.raises(LogError, match=words) as error:
        dualq.evaluate(shop_log, policy, discount=0.9)
    assert "\n" not in str(error.value)


def test_states_that_a_policy_does_not_name(shop_log):
    some = {(0, "summer"): 4, (0, "winter"): 2}
    logged = dualq.evaluate(shop_log, some, discount=0.9, otherwise="logged", certificate=None)
    n = shop_log.counts().visits
    others = np.arange(len(shop_log.states)) > 1
    assert np.allclose(logged.policy.matrix[others], (n / n.sum(axis=1, keepdims=True))[others])
    assert len(logged.given.missing) == 10
    nothing = dualq.evaluate(shop_log, some, discount=0.9, otherwise=0, certificate=None)
    assert (nothing.policy.matrix[others, 0] == 1.0).all()
    with pytest.raises(LogError, match="otherwise is 9; it must be"):
        dualq.evaluate(shop_log, some, discount=0.9, otherwise=9)


# ---- costs and limits


def test_costs_and_limits_of_a_policy(shop_log):
    e = dualq.evaluate(shop_log, RULE, discount=0.9, limits={"short": 0.9})
    (limit,) = e.limits
    cost = e.costs["short"]
    assert limit.estimate == cost.policy
    assert limit.kept
    assert limit.basis == "proven"
    assert e.limits_kept
    counts = dualq.counts_in_blocks(shop_log)
    low, high = dualq.cost_bounds(counts, e.policy, "short", 0.9, start_weights(shop_log), 1.0 - 0.025)
    assert (limit.low, limit.high) == pytest.approx((low, high))
    assert low < cost.policy.value < high
    tight = dualq.evaluate(shop_log, RULE, discount=0.9, limits={"short": cost.policy.value / 2.0})
    assert tight.limits[0].basis == "missed"
    assert not tight.limits_kept


# ---- what speaks against it


def test_a_log_that_speaks_against_its_reading_promises_nothing(world):
    rows = world.record(steps=4000, seed=2)
    r = np.where(np.arange(4000) < 2000, rows.reward, rows.reward + 3.0)  # rewards changed
    log = dualq.ArrayLog(rows.state, rows.action, r, rows.next_state, time=np.arange(4000), states=5, actions=3)
    e = dualq.evaluate(log, dict.fromkeys(range(5), 0), discount=DISCOUNT)
    fit = dualq.learn(log, discount=DISCOUNT)
    assert e.contradicted == fit.contradicted != ()
    assert not e.promised
    assert e.withheld
    assert e.verdict == "do not use"
    assert e.expected.standard_error is None
    assert e.difference.standard_error is None


# ---- several


def test_compare_says_of_each_what_evaluate_says(log):
    policies = {"zero": dict.fromkeys(range(5), 0), "two": dict.fromkeys(range(5), 2)}
    c = dualq.compare(log, policies, discount=DISCOUNT)
    assert set(c.names) == {"zero", "two", "so far", "learned"}
    values = [c[name].expected.value for name in c.names]
    assert values == sorted(values, reverse=True)
    for name, policy in policies.items():
        alone = dualq.evaluate(log, policy, discount=DISCOUNT)
        assert c[name].expected == alone.expected
        assert c[name].difference == alone.difference
        assert (c[name].certificate.lower, c[name].certificate.upper) == (
            alone.certificate.lower,
            alone.certificate.upper,
        )
    assert c["learned"].expected == dualq.learn(log, discount=DISCOUNT).expected
    assert c["learned"].learned_here
    assert c["so far"].difference.value == 0.0
    rows = {row["name"]: row for row in c.table()}
    assert rows[c.best]["behind_best"] is None
    worst = c.names[-1]
    gain = c.over(worst)
    assert c.at_least(worst) == pytest.approx(gain.value - c.quantile * gain.standard_error)
    assert c.behind_proven == pytest.approx(
        max(0.0, max(c[n].certificate.upper for n in c.names[1:]) - c.first.certificate.lower)
    )


def test_bounds_of_all_policies_rest_on_events_that_know_no_policy():
    """That is why they hold together, and why choosing among them is covered."""
    import inspect

    from dualq.proof.confidence_sets import confidence_sets

    assert not any("policy" in name or "ask" in name for name in inspect.signature(confidence_sets).parameters)


@pytest.mark.slow
def test_the_best_of_many_alike_is_not_called_clear():
    """Seven policies with the same truth: that one is clearly better is said in 5% of logs at most, of 25.

    More than 6 of 25 where each has 5% happens in one test of two thousand.
    """
    world = problems.garnet(8, 3, 2, discount=0.5, seed=1)
    rng, clear = np.random.default_rng(0), 0
    for seed in range(25):
        rows = world.record(steps=600, seed=seed)
        r = rng.normal(size=600)  # nothing matters
        log = dualq.ArrayLog(rows.state, rows.action, r, rows.next_state, states=8, actions=3)
        names = {str(i): {s: int(rng.integers(3)) for s in range(8)} for i in range(6)}
        c = dualq.compare(log, names, discount=0.5, learned=False, certificate=None)
        clear += c.clear
    assert clear <= 6


def test_names_in_a_comparison_are_checked(log):
    with pytest.raises(LogError, match="'so far', which is in the comparison anyway"):
        dualq.compare(log, {"so far": {0: 0}}, discount=0.9)
    with pytest.raises(LogError, match=r"needs \{name: policy\}"):
        dualq.compare(log, {}, discount=0.9)


def test_policies_that_decide_alike_are_said_to(log):
    """A rule that is typed is not called learned; two that are the same differ by nothing, and do not hide the best."""
    from dualq.app.report.comparison_pages import standings, verdict
    from dualq.app.report.evaluation_words import luck_words

    fit = dualq.learn(log, discount=DISCOUNT, certificate=None)
    typed = {s: fit.policy.act(s) for s in range(5)}
    same = dualq.evaluate(log, typed, discount=DISCOUNT, certificate=None)
    assert same.learned_here
    assert luck_words(same).startswith("This policy decides as the one that dualq learns from this log does.")
    assert "learned from this very log" in luck_words(dualq.evaluate(log, fit, discount=DISCOUNT, certificate=None))
    c = dualq.compare(log, {"mine": typed}, discount=DISCOUNT, certificate=None)
    assert sorted([c.best, *c.alike]) == ["learned", "mine"]
    assert c.over(c.alike[0]) == Estimate(0.0, 0.0)
    assert c.verdict == "clear"
    assert c.at_least("so far") > 0.0
    assert "takes the same decisions" in verdict(c)
    assert [row[3] for row in standings(c)[1]][1] == "the same decisions"
    usual = {s: dict(zip(range(3), row, strict=True)) for s, row in enumerate(c["so far"].policy.matrix.tolist())}
    alone = dualq.compare(log, {"mine": usual}, discount=DISCOUNT, certificate=None, learned=False)
    assert (alone.verdict, alone.alike, alone.behind) == ("alike", [alone.names[1]], 0.0)
    assert verdict(alone).startswith("No difference. All of them decide alike")


def test_what_is_learned_within_limits_has_its_luck_taken_off_too(shop_log):
    c = dualq.compare(shop_log, {"none": "order = 0"}, limits={"short": 0.3}, certificate=None)
    assert c["learned"].learned_here


@pytest.mark.parametrize("limits", [None, {"short": 0.3}])
def test_costs_of_what_was_learned_and_logged_are_those_that_learn_gives(shop, limits):
    """In a thin log too, where the error of a chosen policy is larger than its rows say, for its luck."""
    thin = dualq.read_log({name: column[:250] for name, column in shop.items()}, **WORDS)
    fit = dualq.learn(thin, limits=limits)
    c = dualq.compare(thin, {"none": "order = 0 if stock > 2 else 2"}, limits=limits)
    learned, logged = c["learned"].costs["short"], c["none"].costs["short"].logged
    assert learned.policy == fit.costs["short"]["recommended"]
    assert learned.logged == logged == c["so far"].costs["short"].policy == fit.costs["short"]["logged"]
    assert learned.difference.value == pytest.approx(learned.policy.value - logged.value)
    assert c["so far"].costs["short"].difference == Estimate(0.0, 0.0)
    if limits is not None:
        (limit,), (outcome,) = c["learned"].limits, fit.limits
        assert (limit.estimate.value, limit.estimate.standard_error) == (outcome.estimate, outcome.error)


def test_bounds_that_say_nothing_are_not_called_guaranteed(shop):
    """Floors below what any policy could earn: one line says so, and no bound is shown."""
    from dualq.app.report.comparison_pages import comparison_report, guarantees, standings

    thin = dualq.read_log({name: column[:250] for name, column in shop.items()}, **WORDS, reward_range=(-5.0, 15.0))
    c = dualq.compare(thin, {"some": "order = 0 if stock > 2 else 2"})
    assert c.promised
    assert not any(e.certificate.informative for e in c)
    (line,) = guarantees(c)
    assert line.startswith("Nothing useful is guaranteed of any of them")
    assert not any("bounds" in name for name in standings(c)[0])
    assert "Guaranteed" not in comparison_report(c)


def test_what_the_others_may_earn_more_is_said_plainly(shop, shop_log):
    from dualq.app.report.comparison_pages import guarantees, verdict

    clear = dualq.compare(shop_log, {"none": "order = 0"}, discount=0.5)
    (sure,) = guarantees(clear)
    behind = "" if clear.behind_proven == 0.0 else f" by more than {clear.behind_proven:.4g}"
    assert f"None of the others earns more than what dualq learns{behind}." in sure
    thin = dualq.read_log({name: column[:250] for name, column in shop.items()}, **WORDS)
    near = dualq.compare(thin, {"a": "order = 4 if stock <= 0 else 0"}, certificate=None)
    assert near.verdict == "cannot tell"
    assert f"If you choose it and another one is better, you lose at most {near.behind:.4g} (95%" in verdict(near)


def test_a_reward_that_is_rare_has_an_honest_error():
    """Clicks in 1% of rows, 100 rows of the action: four logs in ten show none. Two errors miss in 5% of logs: more
    than 3 of 12 with probability 2e-3."""
    missed = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        a = rng.integers(0, 10, 1000)
        rows = {"s": np.zeros(1000, int), "a": a, "r": (rng.random(1000) < 0.01).astype(float)}
        log = dualq.read_log(rows, state="s", action="a", reward="r", terminal="row", reward_range=(0.0, 1.0))
        e = dualq.evaluate(log, {0: 3}, discount=0.0, certificate=None)
        missed += abs(e.expected.value - 0.01) > 2.0 * e.expected.standard_error
    assert missed <= 3


@pytest.mark.parametrize("key", ["0", "null", '"u"', "1.5"])
def test_a_json_policy_whose_states_lack_a_column_is_refused_in_one_line(key, tmp_path):
    rows = {"a": [1, 2, 1, 2], "b": ["u", "v", "v", "u"], "x": ["go", "stay", "go", "stay"], "r": [1, 2, 1, 0]}
    path = tmp_path / "given.json"
    path.write_text(json.dumps({key: "go"}))
    with pytest.raises(LogError, match=r"no a and b .*; give 2 values: a and b") as refused:
        dualq.evaluate({**rows, "t": range(4)}, path, state=["a", "b"], action="x", reward="r", time="t")
    assert len(str(refused.value).splitlines()) == 1
