"""update: old counts and new rows together are what one log of all rows teaches; what differs is named."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import dualq
from dualq.app.cli import run as command
from dualq.base import Labels, LogError
from dualq.logs import between
from dualq.offline.joined import joined_labels

SHOPS = {
    "state": ["stock", "season"],
    "action": "order",
    "reward": "profit",
    "episode": "shop",
    "time": "day",
    "costs": ["late"],
    "terminal": False,
    "truncated": False,
}


def shops(days: int = 120, shops: int = 12, seed: int = 0) -> dict[str, np.ndarray]:
    """Rows of shops, day by day: all numbers are small whole ones, so that sums are the same in any order."""
    rng = np.random.default_rng(seed)
    rows = {name: [] for name in ("shop", "day", "stock", "season", "order", "profit", "late")}
    for shop in range(shops):
        stock = 2
        for day in range(days):
            order = int(rng.integers(0, 3))
            season = "winter" if day % 40 < 20 else "summer"
            if day >= days - 10 and shop == 0:
                season = "sale"  # only the last days have it
            sold = int(min(stock + order, rng.integers(0, 4)))
            for name, value in zip(rows, (shop, day, stock, season, order, 3 * sold - order, sold == 0), strict=True):
                rows[name].append(value)
            stock = min(5, stock + order - sold)
    return {name: np.array(values) for name, values in rows.items()}


def part(rows: dict[str, np.ndarray], keep: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[keep] for name, values in rows.items()}


@pytest.fixture(scope="module")
def three() -> tuple[dualq.Fit, dualq.Fit, dualq.Fit]:
    """Learned from the early days, saved and loaded; updated with the late ones; learned from all."""
    rows = shops()
    early, late = (part(rows, keep) for keep in (rows["day"] < 70, rows["day"] >= 70))
    words = {"limits": {"late": 0.3}, "margin": "none"}
    old = dualq.learn(early, **SHOPS, **words)
    return old, dualq.update(old, late), dualq.learn(rows, **SHOPS, **words)


@pytest.fixture(scope="module")
def plain() -> dualq.Fit:
    """The early days without a proof, which takes longest."""
    rows = shops()
    return dualq.learn(part(rows, rows["day"] < 70), **SHOPS, certificate=None)


def test_counts_policy_and_estimates_are_those_of_all_rows_at_once(three):
    old, new, at_once = three
    assert new.counts.digest() == at_once.counts.digest()  # the row before the border of each shop is linked too
    assert len(new.counts.states) > len(old.counts.states)
    for name in ("reward_sum", "reward_square_sum"):
        np.testing.assert_array_equal(getattr(new.counts, name), getattr(at_once.counts, name))
    np.testing.assert_array_equal(new.policy.matrix, at_once.policy.matrix)
    np.testing.assert_array_equal(new.start, at_once.start)
    np.testing.assert_array_equal(new.careful.mdp.rewards, at_once.careful.mdp.rewards)
    assert new.careful.expected.value == at_once.careful.expected.value
    assert new.careful.logged.value == at_once.careful.logged.value
    assert new.coverage.dropped == at_once.coverage.dropped
    assert [limit.estimate for limit in new.limits] == [limit.estimate for limit in at_once.limits]


def test_what_depends_on_order_stays_near_and_is_not_lost(three):
    old, new, at_once = three
    assert sum(block.total for block in new.blocks) == at_once.counts.total
    assert len(new.blocks) > 2
    assert new.returns.value == pytest.approx(old.returns.value)  # no episode began among the new rows
    assert new.careful.expected.standard_error == pytest.approx(at_once.careful.expected.standard_error, rel=0.5)
    assert new.certificate.lower == pytest.approx(
        at_once.certificate.lower, abs=0.25 * np.ptp(new.certificate.behaviour)
    )


def test_changes_name_state_actions_and_rows(three):
    old, new, _ = three
    changed = {tuple(c["state"].values()): c for c in new.updated["changes"]}
    for s, label in enumerate(new.counts.states):
        known = label in old.counts.states
        same = known and np.abs(old.policy.matrix[old.counts.states.index(label)] - new.policy.matrix[s]).sum() < 0.02
        assert (label in changed) == (not same)
        if label in changed:
            a = int(new.policy.matrix[s].argmax())
            assert changed[label]["after"] == {"order": new.counts.actions[a]}
            assert changed[label]["rows_after"] == new.counts.visits[s, a]
            assert (changed[label]["before"] is None) == (not known)
    assert new.updated["old_rows"] + new.updated["new_rows"] + 12 == new.counts.total  # 12 shops: the links


def test_saved_in_between_and_once_more_it_is_the_same(plain, tmp_path):
    rows = shops()
    new = dualq.update(plain, part(rows, rows["day"] >= 70))
    plain.save(tmp_path / "a")
    half = dualq.update(dualq.load(tmp_path / "a"), part(rows, (rows["day"] >= 70) & (rows["day"] < 100)))
    half.save(tmp_path / "b")
    whole = dualq.update(dualq.load(tmp_path / "b"), part(rows, rows["day"] >= 100))
    assert whole.counts.digest() == new.counts.digest()
    np.testing.assert_array_equal(whole.policy.matrix, new.policy.matrix)
    np.testing.assert_array_equal(whole.start, new.start)
    assert dualq.load(tmp_path / "b").updated == half.updated


def test_since_forgets_all_old_rows_or_none(plain):
    rows = shops()
    late = part(rows, rows["day"] >= 70)
    forgotten = dualq.update(plain, late, since=70)
    alone = dualq.learn(late, **SHOPS, certificate=None)
    assert forgotten.counts.digest() == alone.counts.digest()
    np.testing.assert_array_equal(forgotten.policy.matrix, alone.policy.matrix)
    assert dualq.update(plain, late, since=-5).counts.total == 12 * 119
    with pytest.raises(LogError, match="since is 30, and the run's rows are from 0 to 69: their counts cannot be cut"):
        dualq.update(plain, late, since=30)


def test_what_does_not_fit_is_named(plain):
    old = plain
    rows = shops(days=20)
    with pytest.raises(LogError, match=r"profit.*there is no such column"):
        dualq.update(old, {("gain" if name == "profit" else name): x for name, x in rows.items()})
    other = dualq.read_log(rows, **(SHOPS | {"state": ["stock"]}))
    with pytest.raises(LogError, match="the state is stock, and that of the run is stock, season"):
        dualq.update(old, other)
    with pytest.raises(LogError, match="the costs are none, and those of the run are late"):
        dualq.update(old, dualq.read_log(rows, **(SHOPS | {"costs": []})))
    online = dualq.learn(dualq.problems.two_state().record(200), solver="online")
    with pytest.raises(LogError, match="learned with the solver 'online'"):
        dualq.update(online, dualq.problems.two_state().record(200))


def test_rows_that_overlap_are_said(plain):
    rows = shops()
    again = dualq.update(plain, part(rows, rows["day"] >= 60))
    assert any("begins before the old one ends" in words for words in again.warnings)


def test_looks_are_paid_for_after_an_update_too():
    rows = shops(days=60)
    early, late = (part(rows, keep) for keep in (rows["day"] < 40, rows["day"] >= 40))
    old = dualq.learn(early, **SHOPS, looks=5)
    new = dualq.update(old, late)
    assert new.proven.looks == 5
    assert new.ledger.delta == pytest.approx(old.ledger.delta)


def test_rows_that_were_learned_from_prove_nothing_a_second_time(plain):
    again = dualq.update(plain, part(shops(), shops()["day"] < 70))
    assert "rows that were learned from before may have been counted again" in again.withheld
    assert not again.promised


def test_bins_stay_and_new_ones_are_in_their_order():
    rng = np.random.default_rng(0)
    rows = {"wear": rng.normal(size=800), "do": rng.integers(0, 2, 800), "pay": rng.integers(0, 5, 800)}
    rows |= {"t": np.arange(800)}
    words = {
        "state": "wear",
        "action": "do",
        "reward": "pay",
        "time": "t",
        "bins": {"wear": [-1.0, 0.0, 1.0, 9.0, 10.0]},
    }
    calm = part(rows, (rows["t"] < 400) & (rows["wear"] < 0.0))
    old, late = dualq.learn(calm, **words, certificate=None), part(rows, rows["t"] >= 400)
    new = dualq.update(old, late)
    assert list(new.counts.states) == ["< -1", "[-1, 0)", "[0, 1)", "[1, 9)"]
    two = (dualq.read_log(one, **words).counts() for one in (calm, late))
    visits = sum(
        np.array([c.visits[c.states.index(x)] if x in c.states else [0, 0] for x in new.counts.states]) for c in two
    )
    links = new.counts.visits - visits
    assert links.sum() == 1  # the last calm row, and what followed it
    assert links.min() == 0


def test_labels_without_an_order_are_put_after_the_old_ones():
    assert list(joined_labels(Labels(["wait", "go"], "a"), Labels(["halt", "go"], "a"), {})) == ["wait", "go", "halt"]
    assert list(joined_labels(Labels([1, 5], "a"), Labels([3], "a"), {})) == [1, 3, 5]
    assert list(joined_labels(Labels([1, "x"], "a"), Labels([3], "a"), {})) == [1, "x", 3]


def test_tests_between_two_logs_find_changes_and_seldom_find_none():
    """At level 0.05 for dynamics and rewards together, 60 pairs of like logs: more than 10 have probability 6e-5."""
    two = dualq.problems.two_state()
    alarms = 0
    for seed in range(60):
        old, new = two.record(2000, seed=2 * seed).counts(), two.record(300, seed=2 * seed + 1).counts()
        found = between(old, new, 0.05)
        alarms += found["dynamics"].found or found["rewards"].found
    assert alarms <= 10
    other = dataclasses.replace(
        new, reward_sum=new.reward_sum + new.n, reward_square_sum=new.reward_square_sum + 5 * new.n
    )
    assert between(old, other, 0.01)["rewards"].found
    moved = dualq.problems.garnet(2, 2, 2, seed=5).record(2000).counts()
    assert between(old, dataclasses.replace(moved, states=old.states, actions=old.actions), 0.01)["dynamics"].found


def test_the_command_writes_a_run_and_says_what_changed(tmp_path, capsys):
    rows = shops()
    pa.csv.write_csv(pa.table(part(rows, rows["day"] >= 70)), tmp_path / "new.csv")
    dualq.learn(part(rows, rows["day"] < 70), **SHOPS, certificate=None).save(tmp_path / "run")
    words = ["update", str(tmp_path / "run"), str(tmp_path / "new.csv"), "--out", str(tmp_path / "run2")]
    assert command(words) == 0
    said = capsys.readouterr().out
    assert "What the new rows changed" in said
    assert "Decisions change in" in said
    assert "What the new rows changed" in (tmp_path / "run2" / "report.html").read_text()
    assert command([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"] == 12 * 119
    assert facts["updated"]["new_rows"] == 12 * 49
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    assert command([*words[:2], str(tmp_path / "bad.csv")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_old_rows_that_count_only_now_are_said(three):
    from dualq.app.report.update_words import updated_words

    _, new, _ = three
    assert new.updated["linked_rows"] == 12
    assert "12 more old rows count only now: the last of their episodes" in updated_words(new, new.updated)[0]


def test_what_was_found_in_the_old_rows_is_said_to_be_of_them(plain):
    """A finding among the old rows is kept with its words, said once however often one updates; the others are not."""
    rows, found = (
        shops(),
        dataclasses.replace(plain.modelled.returns_check, found=True, words="the model is off (p = 0)"),
    )
    doubted = dataclasses.replace(plain.modelled, returns_check=found)
    solved = dataclasses.replace(plain.proven.solved, modelled=doubted)
    fit = dataclasses.replace(plain, proven=dataclasses.replace(plain.proven, solved=solved))
    for days in ((70, 100), (100, 120)):
        fit = dualq.update(fit, part(rows, (rows["day"] >= days[0]) & (rows["day"] < days[1])))
        assert fit.modelled.returns_check.found
        assert fit.modelled.returns_check.words.count("found in the rows before the update") == 1
    assert not any("before the update" in one.words for one in fit.coverage.checks if not one.found)


def test_a_run_is_not_written_over_itself(plain, tmp_path, capsys):
    plain.save(tmp_path / "run")
    before = (tmp_path / "run" / "policy.csv").read_bytes()
    assert command(["update", str(tmp_path / "run"), "new.csv", "--out", f"{tmp_path}/run/"]) == 2
    assert "is the run itself, and would be overwritten" in capsys.readouterr().err
    assert (tmp_path / "run" / "policy.csv").read_bytes() == before
