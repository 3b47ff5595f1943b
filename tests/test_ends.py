"""How episodes end: what last rows are, what is asked, what is recognised; simulated truth, and plain loops."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dualq
from dualq.app import cli
from dualq.base.transitions import Rows
from dualq.logs.blocks import counts_in_blocks
from dualq.logs.checks.ends import ends
from dualq.logs.checks.trace import Trace

DISCOUNT = 0.9
WEAR, RUN, REPAIR = 5, "run", "repair"
COLUMNS = {"state": "wear", "action": "what", "reward": "profit", "episode": "machine", "time": "step"}


def breaks(wear: int) -> float:
    return 0.03 * wear


def machines(count: int = 400, seed: int = 0, horizon: int = 10_000) -> dict[str, list]:
    """Machines that run until they break, which costs 500: that is their last row. Wear grows by 1 half of the time."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list] = {name: [] for name in ("machine", "step", "wear", "what", "profit", "broken")}
    for machine in range(count):
        wear, broken, step = 0, False, 0
        while not broken and step < horizon:
            what = RUN if rng.random() < 0.7 else REPAIR
            profit, following = float(10 + rng.integers(-2, 3)), min(wear + int(rng.random() < 0.5), WEAR)
            if what == RUN:
                broken = rng.random() < breaks(wear)
                profit = -500.0 if broken else profit
            else:
                profit, following = -8.0, 0
            for name, value in zip(rows, (machine, step, wear, what, profit, broken), strict=True):
                rows[name].append(value)
            wear, step = following, step + 1
    return rows


def value_of(act: dict[int, str]) -> float:
    """What a machine earns from new, by the equations of its six states."""
    P, r = np.zeros((WEAR + 1, WEAR + 1)), np.zeros(WEAR + 1)
    for wear in range(WEAR + 1):
        if act[wear] == REPAIR:
            P[wear, 0], r[wear] = 1.0, -8.0
            continue
        q = breaks(wear)
        r[wear] = (1 - q) * 10.0 - q * 500.0
        P[wear, wear] += (1 - q) * 0.5
        P[wear, min(wear + 1, WEAR)] += (1 - q) * 0.5
    return float(np.linalg.solve(np.eye(WEAR + 1) - DISCOUNT * P, r)[0])


def without(rows: dict[str, list], *names: str) -> dict[str, list]:
    return {name: column for name, column in rows.items() if name not in names}


def recommended(fit) -> dict[int, str]:
    return {wear: fit.policy.act(wear) for wear in range(WEAR + 1)}


# ---- machines that break


def test_episodes_that_stop_early_are_asked_about():
    rows = without(machines(), "broken")
    log = dualq.read_log(rows, **COLUMNS)
    assert log.dropped == 400  # reading and counting still work
    assert log.reward_range == (-500.0, 12.0)  # of all rows, those that are dropped too
    with pytest.raises(dualq.LogError) as error:
        dualq.learn(log, discount=DISCOUNT)
    words = str(error.value)
    assert "399 of 400 episodes stop before the end" in words  # the longest is where the recording may have stopped
    assert "-500 in profit" in words
    assert "--terminal last" in words
    assert "--truncated last" in words
    assert "\n" not in words


def test_episodes_that_ended_with_their_last_rows():
    for seed in range(3):
        log = dualq.read_log(without(machines(seed=seed), "broken"), **COLUMNS, terminal="last")
        fit = dualq.learn(log, discount=DISCOUNT)
        truth = value_of(recommended(fit))
        assert log.dropped == 0
        assert not fit.contradicted
        assert fit.certificate.lower <= truth <= fit.certificate.upper  # false in at most 5% of logs
        assert abs(fit.expected.value - truth) <= 4 * fit.expected.standard_error  # 1 of 10,000 logs if it is normal


def test_recordings_that_stopped_because_of_what_happened_are_told():
    fit = dualq.learn(dualq.read_log(without(machines(), "broken"), **COLUMNS, truncated="last"), discount=DISCOUNT)
    assert "ends" in fit.contradicted
    assert not fit.promised
    words = next(check.words for check in fit.coverage.checks if check.what == "ends")
    assert "-500 in profit on average" in words


def test_a_column_that_holds_only_in_last_rows_is_the_flag():
    rows = machines(horizon=60)
    said = dualq.read_log(rows, **COLUMNS, terminal="broken")
    found = dualq.read_log(rows, **COLUMNS)
    assert found.guessed["terminal"] == ("broken",)
    assert any("broken is true only in last rows" in remark for remark in found.remarks)
    assert found.digest() == said.digest()
    assert found.dropped == said.dropped == 400 - sum(rows["broken"])
    text = rows | {"broken": [" Yes" if flag else "no" for flag in rows["broken"]]}
    assert dualq.read_log(text, **COLUMNS).digest() == said.digest()
    assert "terminal" not in dualq.read_log(rows, **COLUMNS, terminal=False).guessed
    named = {("timeout" if name == "broken" else name): column for name, column in rows.items()}
    assert dualq.read_log(named, **COLUMNS, truncated=None).schema.truncated == "timeout"  # by its name
    named = {("censored" if name == "broken" else name): column for name, column in rows.items()}
    log = dualq.read_log(named, **COLUMNS)
    assert log.schema.truncated == "censored"
    assert log.schema.terminal is None
    assert any("censored is true only in last rows" in remark for remark in log.remarks)


def test_what_is_not_the_flag():
    rows = machines(horizon=60)
    rng = np.random.default_rng(1)
    first = [step == 0 for step in rows["step"]]
    odd = rows | {"broken": (rng.random(len(first)) < 0.1).tolist(), "first": first}
    assert "terminal" not in dualq.read_log(odd, **COLUMNS).guessed
    # true once, in a last row: with episodes of 10 rows that happens by chance
    once = [False] * len(first)
    once[rows["step"].index(0, 1) - 1] = True
    assert "terminal" not in dualq.read_log(rows | {"broken": once}, **COLUMNS).guessed
    panel = {
        "shop": np.repeat(np.arange(50), 20),
        "day": np.tile(np.arange(20), 50),
        "state": rng.integers(0, 3, 1000),
        "action": rng.integers(0, 2, 1000),
        "reward": rng.random(1000),
        "stop": np.tile(np.arange(20) == 19, 50),
    }
    log = dualq.read_log(panel, episode="shop", time="day")
    assert log.schema.terminal is None
    assert log.dropped == 50
    assert any("stop is true in all last rows" in remark for remark in log.remarks)
    two = rows | {"ruined": rows["broken"]}
    log = dualq.read_log(two, **COLUMNS)
    assert log.schema.terminal is None
    assert any("broken and ruined" in remark for remark in log.remarks)


def test_the_command_line_asks_and_takes_the_answer(tmp_path):
    path, rows = tmp_path / "machines.csv", without(machines(), "broken")
    pd.DataFrame(rows).to_csv(path, index=False)
    words = [x for part, column in COLUMNS.items() for x in (f"--{part}", column)]
    words = ["learn", str(path), *words, "--discount", str(DISCOUNT), "--clock", "episode", "--json"]
    with pytest.raises(dualq.LogError, match="399 of 400 episodes stop before the end"):
        CliRunner().invoke(cli.app, words, catch_exceptions=False)
    answer = CliRunner().invoke(cli.app, [*words, "--terminal", "last"], catch_exceptions=False)
    fit = dualq.learn(dualq.read_log(rows, **COLUMNS, terminal="last"), discount=DISCOUNT)
    assert json.loads(answer.stdout)["certificate"]["lower"] == pytest.approx(fit.certificate.lower, rel=1e-9)


# ---- terminal="last" beside a plain loop


def random_log(seed: int, next_state: bool) -> dict[str, list]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, 40)
    episode = np.repeat([f"e{i}" for i in range(40)], sizes)
    rows = {
        "episode": episode,
        "day": np.concatenate([rng.integers(0, 30) + np.cumsum(rng.integers(1, 4, n)) for n in sizes]),
        "state": rng.integers(0, 3, episode.size),
        "action": rng.choice(["a", "b"], episode.size),
        "reward": rng.integers(0, 9, episode.size).astype(float),
        "cut": rng.random(episode.size) < 0.1,
    }
    if next_state:
        rows["next_state"] = rng.integers(0, 3, episode.size)
    order = rng.permutation(episode.size)
    return {name: column[order].tolist() for name, column in rows.items()}


def looped(rows: dict[str, list], last: str, flagged: bool, until: int | None = None) -> tuple[dict, int]:
    """{(s, a, s', ended): [rows, reward]}, and how many rows have no successor."""
    found, dropped = {}, 0
    for name in set(rows["episode"]):
        places = sorted((i for i, e in enumerate(rows["episode"]) if e == name), key=rows["day"].__getitem__)
        for i, j in zip(places, [*places[1:], None], strict=True):
            if until is not None and rows["day"][i] >= until:
                continue
            cut = flagged and rows["cut"][i]
            ended = last == "terminal" and j is None and not cut
            seen = j is not None and (until is None or rows["day"][j] < until)
            following = (
                rows["next_state"][i] if "next_state" in rows else rows["state"][j] if seen and not cut else None
            )
            if ended:
                following = "end"
            if following is None:
                dropped += 1
                continue
            key = (rows["state"][i], rows["action"][i], following)
            n, total = found.get(key, (0, 0.0))
            found[key] = (n + 1, total + rows["reward"][i])
    return found, dropped


def tallied(log) -> dict:
    counts, found = log.counts(), {}
    for s, a, s_next, ended, n, r in zip(
        counts.s, counts.a, counts.s_next, counts.ended, counts.n, counts.reward_sum, strict=True
    ):
        key = (counts.states[int(s)], counts.actions[int(a)], "end" if ended else counts.states[int(s_next)])
        rows, total = found.get(key, (0, 0.0))
        found[key] = (rows + int(n), total + float(r))
    return found


@pytest.mark.parametrize("until", [None, 25])
@pytest.mark.parametrize("flagged", [False, True])
@pytest.mark.parametrize("next_state", [False, True])
def test_last_rows_are_those_of_a_loop(next_state, flagged, until):
    rows = random_log(1, next_state)
    words = {"time": "day", "episode": "episode", "truncated": "cut" if flagged else False, "until": until}
    log = dualq.read_log(rows, **words, terminal="last")
    expected, dropped = looped(rows, "terminal", flagged, until)
    assert tallied(log) == expected
    assert log.dropped == dropped
    chunk = log.trace()
    assert int(chunk.ended.sum()) == sum(n for key, (n, _) in expected.items() if key[2] == "end")
    stream, seen = log.stream(), Rows.empty(10_000)
    n = stream.fill(stream.init(0), seen)
    assert n == len(log)
    assert int(seen.ended[:n].sum()) == int(chunk.ended.sum())
    blocks = counts_in_blocks(log)
    assert sum(block.total for block in blocks) == len(log)
    assert sum(int(block.n[block.ended].sum()) for block in blocks) == int(chunk.ended.sum())


def test_recordings_that_stopped_at_last_rows_are_those_of_a_loop():
    rows = random_log(2, False)
    log = dualq.read_log(rows, time="day", truncated="last", terminal=False)
    expected, dropped = looped(rows, "truncated", False)
    assert tallied(log) == expected
    assert log.dropped == dropped
    assert int(log.trace().cut.sum()) == 40


def test_the_order_of_the_rows_is_an_order_too():
    rows = random_log(3, False)
    order = sorted(range(len(rows["day"])), key=rows["day"].__getitem__)
    rows = {name: [column[i] for i in order] for name, column in rows.items()}
    log = dualq.read_log(rows, time="row", terminal="last", truncated=False)
    assert tallied(log) == looped(rows, "terminal", False)[0]


def test_last_needs_episodes_and_an_order():
    rows = random_log(4, True)
    with pytest.raises(dualq.LogError, match='terminal="last" needs which rows belong together'):
        dualq.read_log(rows, time="day", episode=False, terminal="last")
    with pytest.raises(dualq.LogError, match='truncated="last" needs an order'):
        dualq.read_log(rows, time=False, truncated="last")
    with pytest.raises(dualq.LogError, match="need a time column"):
        dualq.read_log(rows, time="row", terminal="last", until=20)
    with pytest.raises(dualq.LogError, match='terminal is "last" and truncated "last"'):
        dualq.read_log(rows, time="day", terminal="last", truncated="last")


def test_a_column_called_last_wins():
    rows = random_log(5, False)
    rows["last"] = rows.pop("cut")
    log = dualq.read_log(rows, time="day", terminal="last")
    assert log.schema.terminal == "last"
    assert any("the column last" in remark for remark in log.remarks)
    assert int(log.counts().n[log.counts().ended].sum()) == sum(rows["last"])


# ---- what is asked, and what is not


def panel(seed: int, shops: int = 30, days: int = 40) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    n = shops * days
    return {
        "shop": np.repeat([f"shop {i}" for i in range(shops)], days),
        "day": np.tile(np.arange(days), shops),
        "state": rng.integers(0, 3, n),
        "action": rng.integers(0, 2, n),
        "reward": rng.normal(size=n),
    }


def keep(rows: dict[str, np.ndarray], mask: np.ndarray) -> dict[str, np.ndarray]:
    return {name: column[mask] for name, column in rows.items()}


def learned(rows, **words):
    return dualq.learn(rows, certificate=None, **({"episode": "shop", "time": "day"} | words))


def test_a_common_end_need_not_be_said():
    rows = panel(0)
    assert learned(rows).coverage.dropped == 30
    late = keep(rows, ~((rows["shop"] == "shop 3") & (rows["day"] < 10)))
    assert learned(late).coverage.dropped == 30
    cohorts = rows | {"day": rows["day"] + np.repeat(np.arange(30) % 7, 40)}  # everyone is seen for 40 days
    assert learned(cohorts).coverage.dropped == 30


def test_one_early_end_must_be_said():
    rows = keep(panel(1), ~((panel(1)["shop"] == "shop 3") & (panel(1)["day"] > 30)))
    with pytest.raises(dualq.LogError, match="1 of 30 episodes stops before the end"):
        learned(rows)
    assert learned(rows, truncated="last").coverage.dropped == 30
    flags = rows | {"cut": (rows["shop"] == "shop 3") & (rows["day"] == 30)}
    assert learned(flags, truncated="cut").coverage.dropped == 30  # the others stop at the common end


def test_the_latest_episode_of_a_counter_may_be_under_way():
    rows = panel(2)
    rows = rows | {"shop": np.repeat(np.arange(30), 40), "step": rows["day"]}
    del rows["day"]
    words = {"time": "step"}
    assert learned(keep(rows, (rows["shop"] < 29) | (rows["step"] < 12)), **words).coverage.dropped == 30
    with pytest.raises(dualq.LogError, match="1 of 30"):
        learned(keep(rows, (rows["shop"] != 7) | (rows["step"] < 12)), **words)


def test_next_states_say_where_an_episode_went_on():
    rows = panel(3)
    rng = np.random.default_rng(0)
    rows["next_state"] = rng.integers(0, 3, rows["state"].size)
    length = np.repeat(rng.integers(10, 40, 30), 40)
    rows = keep(rows, rows["day"] < length)
    length = length[panel(3)["day"] < length]
    assert learned(rows).coverage.dropped == 0  # tests of level 0.01: seeded
    dead = rows | {"next_state": np.where(rows["day"] == length - 1, 9, rows["next_state"])}
    with pytest.raises(dualq.LogError, match="episodes stop before the end"):
        learned(dead)
    assert learned(dead, terminal="last").counts.ended.any()


# ---- the test of last rows


def trace_of(seed: int, episodes: int = 60, length: int = 30, common: bool = True, shock: float = 0.0) -> Trace:
    """Episodes of a system of 3 states and 2 actions, with rewards far from normal; all stop regardless of it."""
    rng = np.random.default_rng(seed)
    sizes = np.full(episodes, length) if common else rng.integers(5, 2 * length, episodes)
    n = int(sizes.sum())
    episode = np.repeat(np.arange(episodes), sizes)
    t = np.concatenate([np.arange(size) for size in sizes]).astype(float)
    s, a = rng.integers(0, 3, n), rng.integers(0, 2, n)
    r = (s + a) * rng.exponential(size=n) - 20.0 * (rng.random(n) < 0.02) + shock * rng.normal(size=200)[t.astype(int)]
    last = np.append(np.diff(episode) != 0, True)
    s_next = np.where(last, -1, np.append(s[1:], -1))
    no = np.zeros(n, bool)
    return Trace(s, a, r, s_next, no, no, no, episode, t, (3, 2), has_episodes=True, restarts=not common)


@pytest.mark.parametrize(("common", "shock"), [(True, 0.0), (False, 0.0), (True, 1.0)])
def test_last_rows_that_are_like_the_others_raise_few_alarms(common, shock):
    # 300 logs at the level 0.02: more than 14 alarms have a probability of 0.001 where the level is kept
    alarms = sum(ends(trace_of(seed, common=common, shock=shock), 0.02).found for seed in range(300))
    assert alarms <= 14


def test_last_rows_that_differ_are_found():
    found = 0
    for seed in range(20):
        trace = trace_of(seed)
        trace.r[trace.last] += 3.0
        found += ends(trace, 0.01).found
    assert found == 20
    ended = trace_of(0)
    trace = Trace(**{**vars_of(ended), "ended": ended.last})
    assert ends(trace, 0.01) is None  # where episodes ended last rows may differ


def vars_of(trace: Trace) -> dict:
    return {name: getattr(trace, name) for name in Trace.__dataclass_fields__}


# ---- some ended, and the recording stopped the others


def test_early_counts_what_stopped_before_the_last_time_as_ended_and_nothing_of_that_time():
    rows = machines(60, seed=3, horizon=12)
    counts = dualq.read_log(without(rows, "broken"), **COLUMNS, terminal="early").counts()
    frame = pd.DataFrame(rows)
    ended = [last.wear for _, m in frame.groupby("machine") if (last := m.iloc[-1]).step < 11]
    assert 0 < len(ended) < 60
    assert frame[frame.step == 11].broken.any()  # that looks like the others of this time, and is not counted
    assert counts.n[counts.ended].sum() == len(ended)
    assert counts.total == (frame.step < 11).sum()
    by_wear = {wear: counts.n[counts.ended & (counts.s == i)].sum() for i, wear in enumerate(counts.states.values)}
    assert by_wear == {wear: ended.count(wear) for wear in by_wear}


def test_early_finds_the_truth_where_neither_last_does():
    rows = without(machines(500, seed=4, horizon=25), "broken")
    fit = dualq.learn(rows, **COLUMNS, terminal="early", discount=DISCOUNT)
    assert not fit.contradicted
    truth = value_of({wear: fit.act(wear) for wear in range(WEAR + 1)})
    # The error is normal enough that 4 standard errors have 1e-4; seeded.
    assert abs(fit.expected.value - truth) <= 4.0 * fit.expected.standard_error
    for other in ({"terminal": "last"}, {"truncated": "last"}):
        assert dualq.learn(rows, **COLUMNS, **other, discount=DISCOUNT, certificate=None).contradicted


def test_early_needs_a_clock_and_is_not_said_beside_last():
    rows = without(machines(20, horizon=12), "broken", "step")
    with pytest.raises(dualq.LogError, match='terminal="early" needs a time column'):
        dualq.read_log(rows, **COLUMNS | {"time": "row"}, terminal="early")
    rows = without(machines(20, horizon=12), "broken")
    with pytest.raises(dualq.LogError, match='terminal is "early" and truncated "last"'):
        dualq.read_log(rows, **COLUMNS, terminal="early", truncated="last")


def test_explain_says_first_that_a_policy_is_not_to_be_used(tmp_path):
    rows = without(machines(200, seed=5, horizon=25), "broken")
    for word, begins in (("truncated", "Do not use. The log shows"), ("terminal", "wear 2")):
        fit = dualq.learn(rows, **COLUMNS, **{word: "last" if word == "truncated" else "early"}, discount=DISCOUNT)
        fit.save(tmp_path / word)
        said = CliRunner().invoke(cli.app, ["explain", str(tmp_path / word), "--state", "2"])
        assert said.output.startswith(begins)
