"""What columns show to be wrong: each check beside a table in which the same is right."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dualq
from dualq.app import cli
from dualq.app.cli.columns import bins_of
from dualq.app.report.rules import rules_of
from dualq.app.report.words import named, said

WORDS = {"state": "level", "action": "do", "reward": "pay", "time": "day"}


def table(n=2000, seed=0):
    """One episode: a level by name, an amount beside it, three actions."""
    rng = np.random.default_rng(seed)
    amount = rng.uniform(0, 10, n)
    return {
        "day": np.arange(n),
        "level": np.where(amount < 3, "low", "high").tolist(),
        "amount": amount,
        "do": rng.integers(0, 3, n),
        "pay": rng.integers(0, 5, n).astype(float),
    }


def written(folder, columns, name="log.csv"):
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


# ---- actions


def test_a_continuous_action_is_refused_before_anything_is_counted(monkeypatch):
    log = table() | {"do": np.random.default_rng(1).uniform(0, 1, 2000)}
    monkeypatch.setattr("dualq.logs.reading.read_log.count_table", lambda *log: pytest.fail("it was counted"))
    with pytest.raises(
        dualq.LogError, match=r"the action 'do' has 2,000 different numbers in 2,000 rows; .*--action-bins 5"
    ):
        dualq.read_log(log, **WORDS)


def test_the_bins_that_are_advised_for_an_action_are_right():
    log = table() | {"do": np.random.default_rng(1).uniform(0, 1, 2000)}
    assert len(dualq.read_log(log, **WORDS, bins={"do": 5}).actions) == 5


@pytest.mark.parametrize(
    ("kinds", "rows", "fine"),
    [(200, 2000, True), (201, 2000, False), (500, 60_000, True), (500, 40_000, False)],
)
def test_whole_numbers_may_be_actions_where_each_has_rows(kinds, rows, fine):
    log = table(rows) | {"do": np.arange(rows) % kinds}
    if fine:
        assert len(dualq.read_log(log, **WORDS).actions) == kinds
        return
    with pytest.raises(dualq.LogError, match=f"{kinds} different numbers in {rows:,} rows; .*write them as text"):
        dualq.read_log(log, **WORDS)


@pytest.mark.parametrize(("step", "fine"), [(0.05, True), (0.001, False)])
def test_fractions_may_be_actions_where_there_are_few(step, fine):
    do = np.round(np.random.default_rng(2).uniform(0, 1, 2000) / step) * step
    if fine:
        assert len(dualq.read_log(table() | {"do": do}, **WORDS).actions) == np.unique(do).size == 21
        return
    with pytest.raises(dualq.LogError, match="the action 'do' has"):
        dualq.read_log(table() | {"do": do}, **WORDS)


# ---- states


def test_numbers_that_make_a_state_of_every_row_are_refused_before_anything_is_counted(monkeypatch):
    monkeypatch.setattr("dualq.logs.reading.read_log.count_table", lambda *log: pytest.fail("it was counted"))
    with pytest.raises(dualq.LogError) as error:
        dualq.read_log(table(), **WORDS | {"state": ["level", "amount"]})
    assert "2,000 different states in 2,000 rows" in str(error.value)
    assert "--bins amount=8 (bins={'amount': 8})" in str(error.value)
    assert "--bins auto" in str(error.value)


def test_a_small_log_of_such_states_is_only_warned_of():
    log = dualq.read_log(table(900), **WORDS | {"state": "amount"})
    assert any("occur in one row only" in warning for warning in log.coverage().warnings)


@pytest.mark.parametrize("digits", [0, 1])
def test_numbers_of_which_most_occur_again_are_read(digits):
    amount = np.round(table()["amount"], digits)
    log = dualq.read_log(table() | {"amount": amount}, **WORDS | {"state": "amount"})
    assert len(log.states) == np.unique(amount).size


def test_many_states_with_many_rows_are_read_although_the_first_rows_show_each_once(monkeypatch):
    monkeypatch.setattr(
        "dualq.logs.reading.columns.FIRST", 1000
    )  # 1,500 states, in turn: the first 1,000 rows are all different
    rows = 30_000
    log = table(rows) | {"amount": np.arange(rows) % 1500}
    assert len(dualq.read_log(log, **WORDS | {"state": "amount"}).states) == 1500


# ---- rewards and costs where they cannot be


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"state": ["level", "pay"]},
            "the column 'pay' is the reward and in the state; a state is what is known before",
        ),
        ({"action": "pay"}, "the column 'pay' is the reward and in the action; an action is what was decided"),
        ({"state": ["level", "amount"], "costs": ["amount"]}, "the column 'amount' is the cost and in the state"),
    ],
)
def test_what_is_known_only_afterwards_is_no_state(change, message):
    with pytest.raises(dualq.LogError, match=message):
        dualq.read_log(table(), **WORDS | change)


# ---- labels


def warnings_of(log, **words):
    return dualq.read_log(log, **WORDS | words).coverage().warnings


@pytest.mark.parametrize("word", ["NA", "n/a", "null", "NaN", "none", "-", "?", "N/A ", ""])
def test_a_label_that_may_mean_missing_is_named_with_its_rows(word):
    level = ["low", "high"] * 50
    level[7::10] = [word] * 10
    said = [w for w in warnings_of(table(100) | {"level": level}) if "was read as a label" in w]
    assert len(said) == 1
    assert said[0].startswith(f"level: {word!r} in {level.count(word)} rows was read as a label")


def test_labels_that_differ_only_in_case_or_spaces_are_named_with_their_rows(tmp_path):
    level = ["mid", "high"] * 50
    level[10], level[20], level[30] = "mid ", "mid ", "Mid"
    log = table(100) | {"level": level}
    for source in (log, written(tmp_path, log)):
        said = [w for w in warnings_of(source) if "different labels" in w]
        assert said == [
            "level: 'Mid' (1 row) and 'mid' (47 rows) and 'mid ' (2 rows) were read as different labels; "
            "if they mean the same, write them alike"
        ]


def test_labels_that_differ_in_spaces_are_told_apart_where_they_are_shown():
    assert [said({"level": label}) for label in ("mid", "mid ", "", 3)] == ["mid", "'mid '", "''", "3"]
    assert named({"level": "mid ", "season": "dry"}) == "level 'mid ', season dry"
    mass = np.array([[1.0, 0.0], [0.0, 1.0]]) / 2.0
    conditions = {rule.conditions for rule in rules_of({"level": ["mid", "mid "]}, mass, {}).rules}
    assert conditions in ({("level is mid",), ("level is not mid",)}, {("level is 'mid '",), ("level is not 'mid '",)})


def test_plain_labels_raise_no_warning():
    assert warnings_of(table(400)) == []
    assert warnings_of(table(400) | {"do": ["none", "order"] * 200}) == []  # to do nothing is an action


# ---- dates


def dated(pattern, days):
    """A row per day, from the first of January 2024 on, where `days` of each month are used."""
    dates = [(month, day) for month in range(1, 13) for day in range(1, days + 1)]
    return table(len(dates)) | {"day": [pattern.format(m=month, d=day) for month, day in dates]}


@pytest.mark.parametrize("pattern", ["{d:02d}/{m:02d}/2024", "{m:02d}/{d:02d}/2024", "{d:02d}-{m:02d}-2024"])
def test_dates_that_may_be_read_in_two_ways_are_refused(pattern, tmp_path):
    with pytest.raises(
        dualq.LogError, match=r"the date '.*2024' in the column 'day': it may be day/month or month/day"
    ):
        dualq.read_log(written(tmp_path, dated(pattern, 12)), **WORDS)


@pytest.mark.parametrize(
    ("pattern", "order"),
    [("{d:02d}/{m:02d}/2024", "day, month, year"), ("{m:02d}/{d:02d}/2024", "month, day, year")],
)
def test_dates_with_a_day_above_twelve_are_clear(pattern, order, tmp_path):
    log = dualq.read_log(written(tmp_path, dated(pattern, 13)), **WORDS)
    assert any(f"were read as {order}" in note for note in log.coverage().notes)
    plain = dualq.read_log(written(tmp_path, dated("2024-{m:02d}-{d:02d}", 13), "plain.csv"), **WORDS)
    assert log.digest() == plain.digest()  # the rows follow each other in the same order
    assert not any("were read as" in note for note in plain.coverage().notes)


@pytest.mark.parametrize("pattern", ["{one}/{two}/2024", "{one}.{two}.2024", "{one}-{two}-2024 07:30"])
@pytest.mark.parametrize("day_first", [True, False])
def test_which_of_day_and_month_stands_first_can_be_said(pattern, day_first, tmp_path):
    one, two = ("{d:02d}", "{m:02d}") if day_first else ("{m:02d}", "{d:02d}")
    columns = dated(pattern.replace("{one}", one).replace("{two}", two), 12)
    plain = dualq.read_log(written(tmp_path, dated("2024-{m:02d}-{d:02d}", 12), "plain.csv"), **WORDS)
    frame = pd.DataFrame(columns)
    for source in (written(tmp_path, columns), frame):
        log = dualq.read_log(source, **WORDS, day_first=day_first)
        assert log.digest() == plain.digest()  # the rows follow each other in the same order
        other = dualq.read_log(source, **WORDS, day_first=not day_first)
        assert other.digest() != plain.digest()


def test_what_is_said_of_dates_must_be_possible(tmp_path):
    path = written(tmp_path, dated("{d:02d}/{m:02d}/2024", 13))
    with pytest.raises(dualq.LogError, match=r"'day' has dates such as .* above 12 with --month-first; .* --day-first"):
        dualq.read_log(path, **WORDS, day_first=False)
    assert dualq.read_log(path, **WORDS, day_first=True).digest() == dualq.read_log(path, **WORDS).digest()
    with pytest.raises(dualq.LogError, match=r"its year has two digits"):
        dualq.read_log(written(tmp_path, dated("{d:02d}.{m:02d}.24", 12)), **WORDS, day_first=True)


def test_years_of_two_digits_are_refused(tmp_path):
    with pytest.raises(dualq.LogError, match=r"its year has two digits.*write dates as 2024-02-29"):
        dualq.read_log(written(tmp_path, dated("{d:02d}.{m:02d}.24", 12)), **WORDS)


# ---- times that repeat


def test_times_that_repeat_are_refused_with_and_without_an_episode(tmp_path):
    log = table(100) | {"day": np.arange(100) // 2}
    with pytest.raises(dualq.LogError, match=r"row 1 \(line 2\): day is 0 in more rows than one; .* give episode="):
        dualq.read_log(written(tmp_path, log), **WORDS)
    log |= {"shop": np.arange(100) % 2}
    dualq.read_log(written(tmp_path, log), **WORDS, episode="shop")
    log["day"][5] = log["day"][3]
    with pytest.raises(
        dualq.LogError, match="shop is 1 and day is 1 in more rows than one; a time must not repeat within"
    ):
        dualq.read_log(written(tmp_path, log), **WORDS, episode="shop")


# ---- bins at the command line


@pytest.mark.parametrize(
    ("words", "bins"),
    [
        (["a=4,b=4"], {"a": 4, "b": 4}),
        (["a=4", "b=5"], {"a": 4, "b": 5}),
        (["a=0,10,50"], {"a": [0.0, 10.0, 50.0]}),
        (["a=0,10,50,b=4"], {"a": [0.0, 10.0, 50.0], "b": 4}),
        (["a=auto,b=4"], {"a": "auto", "b": 4}),
        (["a=b=4"], {"a=b": 4}),
        (["auto"], "auto"),
        ([], {}),
    ],
)
def test_bins_in_words(words, bins):
    assert bins_of(words) == bins


@pytest.mark.parametrize("words", [["a"], ["=4"], ["a="], ["a=2.5"], ["a=x"], ["a,b=4"], ["auto", "a=4"], ["a=inf,3"]])
def test_bins_that_cannot_be_understood_are_refused(words):
    with pytest.raises(dualq.LogError, match=r"^--bins "):
        bins_of(words)


def test_two_columns_of_bins_in_one_option(tmp_path, capsys):
    path = written(tmp_path, table() | {"more": np.random.default_rng(5).uniform(0, 1, 2000)})
    columns = ["--state", "amount,more", "--action", "do", "--reward", "pay", "--time", "day", "--certificate", "none"]
    assert cli.run(["learn", str(path), *columns, "--bins", "amount=4,more=2", "--json"]) == 0
    assert '"states": 8' in capsys.readouterr().out
