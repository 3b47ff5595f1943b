"""Rows that are missing: nothing is linked across them. Chains whose true transitions are known, and plain loops."""

import datetime
import sqlite3

import numpy as np
import pytest

import dualq
from dualq.logs.checks.gaps import gaps
from dualq.logs.checks.trace import Trace

CYCLE = 7
WORDS = {"state": "state", "action": "action", "reward": "reward", "episode": "who", "time": "day"}


def chains(seed: int, regular: bool = True, episodes: int = 10, length: int = 28) -> dict[str, np.ndarray]:
    """The next state is the state and 1, modulo 7: whatever else is counted is a false transition."""
    rng = np.random.default_rng(seed)
    n = episodes * length
    steps = np.ones((episodes, length)) if regular else rng.integers(1, 30, (episodes, length))
    return {
        "who": np.repeat([f"e{i}" for i in range(episodes)], length),
        "day": (rng.integers(0, 9, (episodes, 1)) + np.cumsum(steps, axis=1)).ravel(),
        "state": ((rng.integers(0, CYCLE, (episodes, 1)) + np.arange(length)) % CYCLE).ravel(),
        "action": rng.integers(0, 2, n),
        "reward": rng.normal(size=n),
    }


def links(log) -> tuple[int, int]:
    """True and false transitions that are counted."""
    counts = log.counts()
    s, s_next = (np.array([counts.states[int(i)] for i in x]) for x in (counts.s, counts.s_next))
    true = s_next == (s + 1) % CYCLE
    return int(counts.n[true].sum()), int(counts.n[~true].sum())


def unknown(rows: dict[str, np.ndarray], column: str, places) -> dict[str, list]:
    values = rows[column].tolist()
    return {
        **{k: v.tolist() for k, v in rows.items()},
        column: [None if i in places else v for i, v in enumerate(values)],
    }


def kept(rows: dict[str, np.ndarray], gone) -> int:
    """True transitions between rows that stand next to each other and are both there, by a loop."""
    who = rows["who"]
    return sum(who[i] == who[i + 1] and i not in gone and i + 1 not in gone for i in range(who.size - 1))


def gone_from(rows, seed: int, count: int = 29) -> set[int]:
    return set(np.random.default_rng(seed).choice(rows["who"].size, count, replace=False).tolist())


# ---- rows that have no place in time


@pytest.mark.parametrize("column", ["day", "who"])
@pytest.mark.parametrize("regular", [True, False])
def test_no_row_is_linked_across_one_without_a_place(tmp_path, regular, column):
    for seed in range(5):
        rows = chains(seed, regular)
        gone = gone_from(rows, seed)
        log = dualq.read_log(unknown(rows, column, gone), **WORDS, skip_bad=True, quarantine=tmp_path / "bad")
        assert links(log) == (kept(rows, gone), 0)
        assert log.skipped == 29
        where = "the gaps in day show where" if regular else "the order of the rows shows where"
        assert any(where in remark for remark in log.remarks)
        assert int(log.starts().sum()) == len(set(np.delete(rows["who"], list(gone))))


def test_where_nothing_tells_where_they_stood_their_episodes_have_no_links(tmp_path):
    rows = chains(1, regular=False)
    gone = {3, 40}  # of the first and the second episode
    order = np.random.default_rng(0).permutation(rows["who"].size)
    messy = {name: [column[i] for i in order] for name, column in unknown(rows, "day", gone).items()}
    log = dualq.read_log(messy, **WORDS, skip_bad=True, quarantine=tmp_path / "bad")
    assert links(log) == (8 * 27, 0)
    assert any("no row of their episodes has a known successor" in remark for remark in log.remarks)
    messy = {name: [column[i] for i in order] for name, column in unknown(rows, "who", gone).items()}
    with pytest.raises(dualq.LogError, match="2 rows without an episode, and nothing tells"):
        dualq.read_log(messy, **WORDS, skip_bad=True, quarantine=tmp_path / "bad")


def test_an_engine_without_an_order_of_rows(tmp_path):
    for regular, column, expected in ((True, "who", None), (False, "day", 9 * 27)):
        rows = chains(2, regular)
        gone = gone_from(rows, 2) if regular else {30}
        path = tmp_path / f"{column}.sqlite"
        with sqlite3.connect(path) as con:
            con.execute("create table log (who text, day real, state integer, action integer, reward real)")
            con.executemany(
                "insert into log values (?, ?, ?, ?, ?)", zip(*unknown(rows, column, gone).values(), strict=True)
            )
        con.close()
        log = dualq.read_log(f"{path}::log", **WORDS, skip_bad=True, quarantine=tmp_path / "bad")
        assert links(log) == (expected or kept(rows, gone), 0)


# ---- gaps in a regular clock


@pytest.mark.parametrize("dates", [False, True])
def test_rows_before_gaps_have_no_known_successor(dates):
    for seed in range(5):
        rows = chains(seed, episodes=20)
        gone = gone_from(rows, seed, 15)
        left = {name: np.delete(column, list(gone)) for name, column in rows.items()}
        if dates:
            left["day"] = [datetime.date(2024, 1, 1) + datetime.timedelta(days=int(day)) for day in left["day"]]
        log = dualq.read_log(left, **WORDS)
        assert links(log) == (kept(rows, gone), 0)
        before = len(log) + 20
        assert log.dropped == 20 + int(log.trace().gap.sum())
        number = left["who"].size - before
        assert any(f"{number} rows are followed by a gap in day" in note for note in log.coverage().notes)
        # the test of memory leaves out what follows a gap, and so does the trace
        previous = log.questions.by_previous().to_pyarrow().to_pylist()
        assert all((row["p0"] + 1) % CYCLE == row["s0"] for row in previous)
        trace = log.trace()
        assert ((trace.s[:-1] + 1) % CYCLE == trace.s[1:])[trace.follows[1:]].all()


def test_an_irregular_clock_has_no_gaps():
    log = dualq.read_log(chains(0, regular=False), **WORDS)
    assert links(log) == (10 * 27, 0)
    assert not log.remarks


def test_a_clock_that_pauses_for_all_has_gaps():
    rows = chains(0) | {"day": np.tile(np.concatenate([np.arange(14), np.arange(20, 34)]), 10)}
    log = dualq.read_log(rows, **WORDS)
    assert any("10 rows are followed by a gap" in remark for remark in log.remarks)
    assert links(log) == (10 * 26, 0)
    assert not any(check.what == "gaps" for check in log.coverage().checks)  # the recording paused: nothing to compare


def test_where_next_states_are_known_gaps_are_a_note():
    rows = chains(0, episodes=20)
    rows["next"] = (rows["state"] + 1) % CYCLE
    left = {name: np.delete(column, [5, 40, 41, 100]) for name, column in rows.items()}
    log = dualq.read_log(left, **WORDS, next_state="next")
    assert links(log) == (left["who"].size, 0)
    assert "3 rows are followed by a gap in day" in log.remarks


# ---- the test of rows before gaps


def trace_of(seed: int, lost: str, episodes: int = 60, length: int = 60) -> Trace:
    """A system of 3 states and 2 actions, the state leans towards the action; 3% of the rows are lost, at random or
    by what they showed: nearly all in state 2 with a reward below 0."""
    rng = np.random.default_rng(seed)
    n = episodes * length
    a, noise, draw = rng.integers(0, 2, n), rng.exponential(size=n), rng.random(n)
    s = np.zeros(n, int)
    for i in range(1, n):
        s[i] = (0 if draw[i] < 0.5 else 1) if a[i - 1] == 0 else (1 if draw[i] < 0.5 else 2)
    after = np.append(s[1:], 0)
    r = s * noise - 20.0 * (rng.random(n) < 0.02) + (after == 2)
    gone = rng.random(n) < 0.03
    if lost == "by what they showed":
        gone = (s == 2) & (rng.random(n) < 0.12)
    t = np.tile(np.arange(length), episodes).astype(float)
    episode = np.repeat(np.arange(episodes), length)
    s, a, r, t, episode = (x[~gone] for x in (s, a, r, t, episode))
    last = np.append(np.diff(episode) != 0, True)
    gap = ~last & (np.diff(t, append=0.0) > 1.0)
    s_next = np.where(last | gap, -1, np.append(s[1:], -1))
    no = np.zeros(s.size, bool)
    return Trace(s, a, r, s_next, no, no, no, episode, t, (3, 2), gap=gap, has_episodes=True)


def test_rows_lost_at_random_raise_few_alarms():
    # 300 logs at the level 0.02: more than 14 alarms have a probability of 0.001 where the level is kept
    assert sum(gaps(trace_of(seed, "at random"), 0.02).found for seed in range(300)) <= 14


def test_rows_lost_by_what_they_showed_are_told():
    findings = [gaps(trace_of(seed, "by what they showed"), 0.01) for seed in range(20)]
    assert all(finding.found for finding in findings)
    assert "rows may be missing because of what they showed" in findings[0].words
