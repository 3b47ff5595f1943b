"""dualq look: parts of columns whose truth is known, facts that a plain loop finds too, and a line that works."""

from __future__ import annotations

import json
import shlex
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import dualq
from dualq.app import cli
from dualq.worlds import sample_log as shipped


def shops(names=None, seed=0):
    """Five shops, sixty days; the names of the columns tell nothing unless they are given."""
    rng = np.random.default_rng(seed)
    columns = {
        "k": np.repeat(np.arange(10, 15), 60),
        "u": np.tile(np.arange(60), 5),
        "kind": rng.choice(["plain", "fancy"], 300),
        "w": rng.choice(["one", "two", "no"], 300),
        "z": rng.normal(size=300).round(3),
    }
    return pd.DataFrame({(names or {}).get(name, name): column for name, column in columns.items()})


# ---- parts


def test_the_shipped_log_is_understood_by_itself():
    seen = dualq.look(shipped.path())
    parts = {part: names[0] if part not in ("state", "costs") else sorted(names) for part, names in seen.parts.items()}
    assert parts == {**shipped.COLUMNS, "state": ["season", "stock"]}
    assert seen.unsure == ("state",)  # that these two are known before the decision, no table can tell
    assert seen.suspicious == ()
    assert (seen.episodes.count, seen.episodes.shortest, seen.episodes.longest) == (
        shipped.SHOPS,
        shipped.DAYS,
        shipped.DAYS,
    )
    assert seen.episodes.at_the_end == shipped.SHOPS
    assert (seen.clock.step, seen.clock.gaps, seen.copies) == (1.0, 0, 0)


def test_the_line_to_copy_reads_the_same_log(tmp_path, capsys):
    frame = shops({"k": "the shop", "u": "day", "w": "order", "z": "profit [$]"})
    frame.to_csv(tmp_path / "my log.csv", index=False)
    assert cli.run(["look", str(tmp_path / "my log.csv"), "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    program, *words = shlex.split(seen["command"])
    assert program == "dualq"
    assert cli.run([*words, "--certificate", "none", "--json"]) == 0
    fit = json.loads(capsys.readouterr().out)
    assert fit["coverage"]["rows"] == 300 - 5  # the last row of each shop has no successor
    log = dualq.read_log(frame, state="kind", action="order", reward="profit [$]", episode="the shop", time="day")
    assert fit["coverage"]["states"] == len(log.states) == 2


def test_columns_whose_names_tell_nothing_are_told_by_their_values():
    seen = dualq.look(shops())
    assert seen.parts == {"state": ("kind",), "action": ("w",), "reward": ("z",), "episode": ("k",), "time": ("u",)}
    assert set(seen.unsure) == {"state", "action", "reward"}
    assert "once per k" in seen.why["u"]
    assert seen.part("kind") == "state?"
    assert seen.part("u") == "time"


@pytest.mark.parametrize(
    ("names", "taken", "sure"),
    [
        (["order", "kind"], "order", True),
        (["mode", "kind"], "mode", False),
        (["kind", "unitPrice"], "unitPrice", False),
        (["price", "mode"], "price", False),
        (["mode", "decision_no"], "decision_no", True),
        (["treatment", "offer"], "treatment", False),
    ],
)
def test_an_action_is_sure_if_one_name_says_what_was_decided(names, taken, sure):
    """A price or a mode may be given just as well."""
    frame = shops({"kind": names[0], "w": names[1], "k": "shop", "u": "day", "z": "profit"})
    seen = dualq.look(frame)
    assert seen.parts["action"] == (taken,)
    assert seen.part(taken) == ("action" if sure else "action?")
    asked = f"action is only a guess: {taken}. Is it what was decided? Correct it with --action"
    assert (asked in seen.doubts()) is not sure
    assert dualq.look(frame, action=taken).part(taken) == "action"


def test_what_is_given_is_taken_and_what_is_not_is_found():
    seen = dualq.look(shops(), state="w", action="kind", episode=False, time="row")
    assert seen.parts["state"] == ("w",)
    assert seen.parts["action"] == ("kind",)
    assert "episode" not in seen.parts
    assert seen.why["w"] == "as given"
    with pytest.raises(dualq.LogError, match="state is 'kinds', but there is no such column; did you mean 'kind'"):
        dualq.look(shops(), state="kinds")


def test_next_columns_tell_the_state():
    frame = shops().drop(columns=["k", "u"])
    frame["level"], frame["next_level"] = np.arange(300) % 4, (np.arange(300) + 1) % 4
    seen = dualq.look(frame)
    assert seen.parts["state"] == ("level",)
    assert seen.parts["next_state"] == ("next_level",)
    assert "state" not in seen.unsure


def machines(flag_early=False):
    """A flag without a telling name, that holds in the last row of each machine."""
    rng = np.random.default_rng(1)
    rows = []
    for machine in range(40):
        life = int(rng.integers(3, 30))
        for t in range(life):
            rows.append((machine, t, int(rng.integers(0, 5)), "ab"[int(rng.integers(0, 2))], 1.5, "yn"[t < life - 1]))
    if flag_early:
        rows[0] = (*rows[0][:-1], "y")
    return pd.DataFrame(rows, columns=["machine", "step", "wear", "action", "reward", "xx"])


def test_a_column_that_is_true_only_in_last_rows_is_the_flag():
    seen = dualq.look(machines())
    assert seen.parts["terminal"] == ("xx",)
    assert seen.why["xx"] == "true only in last rows of episodes (40 of 40)"
    assert seen.episodes.flagged == 40
    assert "terminal" not in dualq.look(machines(flag_early=True)).parts


def test_a_guess_by_name_that_no_two_rows_share_is_no_episode():
    frame = shops().assign(id=np.arange(300))
    assert dualq.look(frame).parts["episode"] == ("k",)


# ---- facts


def test_episodes_and_their_ends_are_counted_as_a_plain_loop_counts_them():
    frame = machines().drop(columns="xx")
    lengths = sorted(Counter(frame["machine"]).values())
    seen = dualq.look(frame)
    assert (seen.episodes.count, seen.episodes.shortest, seen.episodes.longest) == (40, lengths[0], lengths[-1])
    assert seen.episodes.median == np.median(lengths)
    assert seen.episodes.flagged is None
    assert seen.episodes.at_the_end == lengths.count(lengths[-1])
    early = 40 - lengths.count(lengths[-1])
    words = f"{early} of 40 episodes without a flag stop before the last step. Say --terminal last"
    assert any(doubt.startswith(words) for doubt in seen.doubts())


@pytest.mark.parametrize("part", ["terminal", "truncated"])
def test_what_the_user_says_of_last_rows_is_taken(part, tmp_path):
    machines().drop(columns="xx").to_csv(tmp_path / "log.csv", index=False)
    seen = dualq.look(tmp_path / "log.csv", **{part: "last"})
    assert seen.last == part
    assert f"--{part} last" in seen.command
    assert not any("without a flag" in doubt for doubt in seen.doubts())
    assert not any("would stop" in words for words in seen.suspicious)


def test_columns_are_described_as_pandas_describes_them(tmp_path):
    frame = shops()
    frame.loc[[3, 4, 9], "kind"] = None
    frame["on"] = frame["u"] > 30
    frame["when"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(300), unit="h")
    frame.to_parquet(tmp_path / "log.parquet")
    for source in (frame, tmp_path / "log.parquet"):
        seen = {column.name: column for column in dualq.look(source).columns}
        for name in frame:
            assert seen[name].different == frame[name].nunique()
            assert seen[name].missing == frame[name].isna().sum()
        assert [seen[name].kind for name in frame] == ["integer", "integer", "text", "text", "number", "yes/no", "date"]
        assert (seen["z"].low, seen["z"].high) == (frame["z"].min(), frame["z"].max())
        assert seen["w"].examples == ("no", "one", "two")


def test_gaps_and_copies_are_counted():
    frame = shops({"k": "shop", "u": "day"})
    frame = frame[~frame["day"].isin([20, 21])]
    frame = frame[~((frame["shop"] == 11) & frame["day"].between(40, 46))]
    seen = dualq.look(frame)
    assert (seen.clock.step, seen.clock.gaps, seen.clock.longest) == (1.0, 6, 8.0)
    assert "day goes on by 1, with 6 gaps; the longest is 8" in seen.facts()
    again = dualq.look(pd.concat([frame, frame.iloc[:7]]))
    assert again.copies == 7
    assert any("7 rows repeat another row exactly" in words for words in again.suspicious)


def test_a_clock_of_dates_is_said_in_days():
    frame = shops({"k": "shop"}).drop(columns="u")
    frame["date"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.tile(np.arange(60) * 7, 5), unit="D")
    assert "date goes on by 7 days, without gaps" in dualq.look(frame).facts()
    assert "date goes on by 7 days, with 1 gap; the longest is 14 days" in dualq.look(frame[frame.index != 30]).facts()


# ---- what is suspicious


def suspicious(frame, **words):
    return " | ".join(dualq.look(frame, **words).suspicious)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.assign(kind=["n/a", *f["kind"][1:]]), "kind: 'n/a' in 1 row was read as a label"),
        (lambda f: f.assign(kind=["Plain", *f["kind"][1:]]), "'Plain' (1 row) and 'plain'"),
        (lambda f: f.assign(z=[-999.0, *f["z"][1:]]), "z: it is -999 in 1 row, far from all others"),
        (lambda f: f.assign(z=[None, *f["z"][1:]]), "z: values are missing in 1 row"),
        (lambda f: f.assign(z=[float("inf"), *f["z"][1:]]), "would stop here: pandas frame: row 0"),
        (lambda f: f.assign(kind=[None, *f["kind"][1:]]), "kind is missing; every row needs its state"),
        (lambda f: f.assign(u=[1, *f["u"][1:]]), "in more rows than one; a time must not repeat"),
    ],
)
def test_what_is_wrong_is_said(change, message):
    assert message in suspicious(change(shops()), episode="k", time="u", reward="z", state="kind", action="w")


def test_the_reward_under_another_name_is_no_state():
    frame = shops().assign(copy=shops()["z"])
    assert "copy: it is the same as z in every row" in suspicious(frame, state="copy", action="w", reward="z")


def test_a_file_without_a_header_is_asked_for_names(tmp_path):
    shops().to_csv(tmp_path / "bare.csv", index=False, header=False)
    assert "is the first line of the file a row already? Then name the columns" in suspicious(tmp_path / "bare.csv")
    seen = dualq.look(tmp_path / "bare.csv", columns=["shop", "day", "kind", "choice", "profit"])
    assert (seen.rows, seen.suspicious) == (300, ())
    assert seen.command.endswith("--columns shop,day,kind,choice,profit")


def test_nothing_is_said_of_a_tidy_log():
    assert suspicious(shops()) == ""


def test_bins_are_proposed_where_numbers_have_many_values(tmp_path):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"day": np.arange(3000), "load": rng.normal(size=3000), "price": rng.uniform(1, 2, 3000)})
    frame["profit"] = (frame["load"] > 0) + 0.1 * rng.normal(size=3000)
    frame.to_csv(tmp_path / "log.csv", index=False)
    seen = dualq.look(tmp_path / "log.csv")
    assert seen.bins == {"load": "auto", "price": 5}
    assert seen.numbers == ("load",)
    assert "load is a number, and no label: few values come again" in seen.facts()
    assert seen.command.endswith("--time day --bins price=5")
    assert seen.commands["Or, with numbers cut into bins"].endswith("--bins load=auto --bins price=5")
    assert seen.suspicious == ()
    asked = dualq.look(tmp_path / "log.csv", action_bins=[1.25, 1.5], numbers=["load"])
    assert (asked.bins, asked.numbers, asked.suspicious) == ({}, ("load",), ())
    assert asked.command.endswith("--action-bins 1.25,1.5 --numbers load")
    assert dualq.look(frame, action_bins=3).command.endswith("time='day', action_bins=3, numbers='auto'))")
    assert dualq.look(tmp_path / "log.csv", bins={"load": 2, "price": 2}).bins == {"load": 2, "price": 2}


@pytest.mark.parametrize("followed", [False, True])
def test_a_column_that_predicts_nothing_has_a_line_without_it(followed, tmp_path, capsys):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"day": np.arange(3000), "warmth": rng.normal(size=3000), "humidity": rng.normal(size=3000)})
    frame["vent"] = rng.choice(["open", "shut"], 3000)
    frame["profit"] = (frame["warmth"] > 0) + 0.1 * rng.normal(size=3000)
    words = ["--state", "humidity,warmth", "--action", "vent", "--reward", "profit", "--time", "day", "--bins", "auto"]
    if followed:
        frame = frame.assign(next_h=frame["humidity"].shift(-1), next_w=frame["warmth"].shift(-1)).dropna()
        words += ["--next-state", "next_h,next_w"]
    frame.to_csv(tmp_path / "log.csv", index=False)
    assert cli.run(["look", str(tmp_path / "log.csv"), *words, "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert any("leave humidity out of the state" in note for note in seen["notes"])
    assert "--state humidity,warmth" in seen["command"]
    line = seen["commands"]["Or, without humidity"]
    assert line == seen["command"].replace("humidity,", "").replace("next_h,", "")
    assert cli.run([*shlex.split(line)[1:], "--certificate", "none", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bins"].keys() == {"warmth", *(["next_w"] if followed else [])}


# ---- lines to copy


def shop_days(dates, lengths, kinds=("low", "high")):
    """A row per shop and day."""
    rng = np.random.default_rng(0)
    rows = [(f"s{k}", dates[d]) for k, length in enumerate(lengths) for d in range(length)]
    shop, day = zip(*rows, strict=True)
    return pd.DataFrame(
        {
            "shop": shop,
            "day": day,
            "level": rng.choice(kinds, len(rows)),
            "order": rng.choice(["none", "some"], len(rows)),
            "profit": rng.random(len(rows)),
        }
    )


UNCLEAR = [f"{d:02d}/{m:02d}/2024" for m in (1, 2, 3, 4) for d in range(1, 13)]
ENDS = ["--terminal last", "--terminal early", "--truncated last"]
LOGS = {
    "dates": (shop_days(UNCLEAR, [48] * 8), [["--day-first"], ["--month-first"]]),
    "ends": (shop_days(range(40), [40, 30, 20, 10] * 3), [[end] for end in ENDS]),
    "both": (
        shop_days(UNCLEAR, [48, 40, 30] * 3),
        [[end, order] for order in ("--day-first", "--month-first") for end in ENDS],
    ),
    "bad": (shop_days(range(40), [40] * 5).assign(profit=lambda f: f.profit.where(f.profit < 0.9)), [["--skip-bad"]]),
    "alone": (shop_days(range(40), [40] * 5).drop(columns=["shop", "day"]), [[], ["--terminal row", "--discount 0"]]),
}


@pytest.mark.parametrize("name", LOGS)
def test_every_line_runs_as_it_is_printed(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where bad rows are written
    frame, wanted = LOGS[name]
    frame.to_csv(tmp_path / "log.csv", index=False)
    assert cli.run(["look", str(tmp_path / "log.csv")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("dualq learn ")]
    assert len(lines) == len(wanted)
    for line, words in zip(lines, wanted, strict=True):
        assert all(word in line for word in words)
        assert cli.run([*shlex.split(line)[1:], "--certificate", "none", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["coverage"]["rows"] > 0


def test_dates_that_may_be_read_in_two_ways_are_shown_as_they_are_written(tmp_path):
    frame = LOGS["dates"][0]
    frame.to_csv(tmp_path / "log.csv", index=False)
    seen = dualq.look(str(tmp_path / "log.csv"))
    (day,) = (column for column in seen.columns if column.name == "day")
    assert day.values.startswith("01/01/2024, 01/02/2024")
    assert seen.clock is None  # no gaps are told of days that nobody can order
    said = dualq.look(str(tmp_path / "log.csv"), day_first=True)
    assert (said.clock.gaps, len(said.commands)) == (8 * 3, 1)  # in 8 shops, from the 13th to the end of three months
    assert said.command.endswith("--day-first")


# ---- pages


def test_what_cannot_be_guessed_is_asked_for():
    frame = pd.DataFrame({"note": [f"n{i}" for i in range(50)], "day": np.arange(50)})
    seen = dualq.look(frame)
    assert {"state", "action", "reward"} <= set(seen.unsure)
    assert "no column looks like the action: name it with --action" in seen.doubts()
    assert not seen.commands  # no line would run


def test_the_page_prints_labels_as_they_are(tmp_path, capsys):
    shops({"kind": "[red]kind"}).to_csv(tmp_path / "log.csv", index=False)
    assert cli.run(["look", str(tmp_path / "log.csv")]) == 0
    page = capsys.readouterr().out
    assert "[red]kind" in page
    assert "dualq learn " in page
    assert "Nothing suspicious was found." in page


def test_the_same_in_json_and_as_text(tmp_path, capsys):
    shops().to_csv(tmp_path / "log.csv", index=False)
    assert cli.run(["look", str(tmp_path / "log.csv"), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    seen = dualq.look(str(tmp_path / "log.csv"))
    assert printed == json.loads(json.dumps(seen.summary(), default=str))
    lines = str(seen).splitlines()
    assert lines[0] == "log.csv: 300 rows"
    assert lines[-1] == seen.command
    assert [line.split()[0] for line in lines[3:8]] == ["k", "u", "kind", "w", "z"]


def test_a_frame_gets_a_line_of_python():
    seen = dualq.look(shops())
    assert seen.command.startswith("dualq.learn(dualq.read_log(log, state=['kind'], action=['w'], reward='z'")


def test_a_file_that_cannot_be_opened_is_one_line(tmp_path, capsys):
    assert cli.run(["look", str(tmp_path / "none.csv")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# ---- rows that stand apart


def told(frame, tmp_path, **columns):
    """What `look` and `read_log` say of a CSV file."""
    frame.to_csv(tmp_path / "log.csv", index=False)
    return dualq.look(tmp_path / "log.csv", **columns)


def shop_log(seed=0):
    names = {"k": "shop", "u": "day", "w": "order", "z": "profit"}
    return shops(names, seed).assign(stock=np.random.default_rng(seed).integers(0, 5, 300))


READ = {"state": ["kind", "stock"], "action": "order", "reward": "profit", "episode": "shop", "time": "day"}


def test_one_reward_far_from_all_others_is_named_with_its_row(tmp_path):
    frame = shop_log()
    frame.loc[123, "profit"] = 1000 * frame.profit.abs().max()
    seen = told(frame, tmp_path)
    assert [words for words in seen.suspicious if words.startswith("in profit, row 124 (line 125) has")]
    log = dualq.read_log(tmp_path / "log.csv", **READ)
    assert [words for words in log.warnings if "row 124 (line 125)" in words and "far from all others" in words]
    assert "row 124" in " ".join(dualq.learn(log, discount=0.9, certificate=None).warnings)
    vouched = dualq.read_log(tmp_path / "log.csv", **READ, reward_range=(-10, 1e6))
    assert not vouched.warnings  # somebody says what rewards can be


def test_rare_rewards_are_no_slips():
    """Of 300 rows each, 5 logs: rewards of a usual kind are never called far."""
    from dualq.logs.reading.odd_values import far_words
    from dualq.logs.reading.open_source import open_source

    for seed in range(5):
        rng = np.random.default_rng(seed)
        rare = (rng.random(300) < 0.01) * 500.0
        drawn = {"normal": rng.normal(size=300), "exponential": rng.exponential(size=300), "sparse": rare}
        assert [far_words(open_source(drawn), name) for name in drawn] == [[], [], []]


def test_the_sums_never_hide_a_value_that_is_far():
    """The shortcut by sums against the rows themselves, on logs that have up to five such values on one side."""
    from dualq.logs import Counts
    from dualq.logs.reading.odd_values import FAR, may_be_far

    rng = np.random.default_rng(0)
    for many in range(1, 6):
        for n in (100, 1_000, 20_000):
            r = rng.uniform(0, 1, n)
            r[:many] = 1.0 + 1.01 * FAR * rng.uniform(1, 3, many)
            rows = dualq.base.Rows(*(np.zeros(n, int),) * 2, r, np.zeros(n, int), np.zeros(n, bool))
            assert may_be_far(Counts.from_arrays(*rows, states=1, actions=1))


def test_a_word_among_numbers_is_named_with_its_row(tmp_path):
    frame = shop_log().astype({"stock": object})
    frame.loc[7, "stock"] = "none left"
    seen = told(frame, tmp_path)
    said = [words for words in seen.suspicious if "row 8 (line 9) has 'none left', which is no number" in words]
    assert len(said) == 1
    log = dualq.read_log(tmp_path / "log.csv", **READ)
    assert [words for words in log.warnings if "row 8 (line 9) has 'none left'" in words]
    frame["stock"] = frame.stock.where(frame.stock != 4, "4+")  # a label, not a slip: it comes again and again
    assert not [
        words for words in dualq.read_log(frame.assign(stock=frame.stock.astype(str)), **READ).warnings if "4+" in words
    ]


@pytest.mark.parametrize("copies", [0, 3])
def test_an_id_of_rows_of_which_a_few_were_recorded_twice_is_no_episode(tmp_path, copies):
    """Rows that repeat others exactly belong to no episode that the others would not have."""
    frame = shop_log()
    frame.insert(0, "id", np.arange(len(frame)))
    twice = pd.concat([frame, frame.sample(copies, random_state=0)], ignore_index=True)
    assert copies <= 0.01 * len(twice)
    seen = told(twice, tmp_path)
    assert seen.parts["episode"] == told(frame, tmp_path).parts["episode"] == ("shop",)
    assert "every row has a value of its own" in seen.why["id"]
    words = {"state": "stock", "action": "order", "reward": "profit", "time": "moment", "quarantine": tmp_path / "bad"}
    log = dualq.read_log(twice.assign(moment=twice["id"]).drop(columns="shop"), **words, skip_bad=True)
    assert "id: no two rows have the same, so it is no episode" in log.coverage().notes


def test_numbers_with_words_in_some_rows_are_named_with_the_first_of_them(tmp_path):
    """More words than slips, in a column with too many values for labels: decimal commas, and a broken sensor."""
    rng = np.random.default_rng(3)
    temp = [f"{x:.3f}" for x in rng.normal(20.0, 5.0, 300)]
    odd = np.sort(rng.choice(300, 20, replace=False))
    for i in odd:
        temp[i] = "broken" if i % 2 else temp[i].replace(".", ",")
    seen = told(shop_log().assign(temp=temp), tmp_path)
    [said] = [words for words in seen.suspicious if words.startswith("in temp, ")]
    assert said.startswith(f"in temp, row {odd[0] + 1} (line {odd[0] + 2}) has {temp[odd[0]]!r}, ")
    assert "and so have 17 rows more, which are no numbers" in said
    assert seen.why["temp"] == "numbers but for 20 rows"
    named = [f"k{i % 250}" if i % 3 else str(i) for i in range(300)]  # names, of which some are numbers
    assert not [words for words in told(shop_log().assign(temp=named), tmp_path).suspicious if "in temp" in words]


def test_a_word_in_the_reward_is_named_and_the_reward_stays_the_reward(tmp_path):
    frame = shop_log().astype({"profit": object})
    frame.loc[5, "profit"], frame.loc[9, "profit"] = "n/a?", 1e6
    seen = told(frame, tmp_path)
    assert seen.parts["reward"] == ("profit",)
    assert "row 6 has 'n/a?'" in seen.suspicious[0]
    assert seen.command.endswith("--skip-bad")
    assert any("row 10 (line 11) has '1000000.0', far from all others" in words for words in seen.suspicious)


def test_a_date_in_another_style_is_a_bad_row(tmp_path):
    frame = shop_log()
    frame["day"] = pd.Timestamp("2023-01-01") + pd.to_timedelta(frame.day, unit="D")
    frame["day"] = frame.day.dt.strftime("%Y-%m-%d").astype(object)
    frame.loc[44, "day"] = "Feb 14, 2023"
    seen = told(frame, tmp_path)
    assert (
        "row 45 (line 46): day is 'Feb 14, 2023'; every row needs its time, a date as 2024-02-29" in seen.suspicious[0]
    )
    log = dualq.read_log(tmp_path / "log.csv", **READ, skip_bad=True, quarantine=tmp_path / "bad")
    assert log.skipped == 1
    assert log.counts().total == 300 - 1 - 5 - 1  # the bad one, the last of each shop, and the one before the bad one


def test_a_propensity_is_not_taken_for_the_reward(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"segment": rng.choice(["new", "old"], 400), "offer": rng.choice(["A", "B"], 400)})
    frame["p"], frame["won"] = np.where(frame.offer == "A", 0.3, 0.7), rng.integers(0, 2, 400)
    seen = told(frame, tmp_path)
    assert (seen.parts["propensity"], seen.parts["reward"]) == (("p",), ("won",))
    assert "propensity" in seen.unsure
    assert "--propensity p" in seen.command
    assert dualq.look(frame.rename(columns={"p": "pscore"})).parts["propensity"] == ("pscore",)
    assert "propensity" not in dualq.look(frame.assign(p=5 * frame.p)).parts  # 3.5 is no probability
    assert "propensity" not in told(frame, tmp_path, propensity=False).parts


def test_a_recommender_s_log_is_told_by_its_propensity():
    """What is something about a user is no episode; what was shown is the action; rows may be cases of their own."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"timestamp": pd.date_range("2024-01-01", periods=300, freq="min")})
    frame["item_id"], frame["position"] = rng.integers(0, 9, 300), rng.integers(1, 4, 300)
    frame["click"], frame["propensity_score"] = rng.integers(0, 2, 300), rng.choice([0.1, 0.2], 300)
    frame["user_feature"] = rng.choice(["a", "b"], 300)
    seen = dualq.look(frame)
    assert seen.parts["action"] == ("item_id",)
    assert "episode" not in seen.parts
    assert set(seen.parts["state"]) == {"position", "user_feature"}
    assert any("discount=0" in line for line in seen.commands.values())


def test_one_copy_repeats():
    frame = shop_log()
    seen = dualq.look(pd.concat([frame, frame[:1]]))
    assert seen.parts["episode"] == ("shop",)  # a copy of a row does not hide which rows belong together
    said = seen.suspicious
    assert any("1 row repeats another row exactly: was it recorded twice?" in words for words in said)
