"""check of policies over numbers: X by a plain loop, verdicts in a world that is simulated, what is strange counted."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import dualq
from dualq.app.cli import run as command
from dualq.base import LogError, States
from dualq.logs import NumberRows, between_numbers
from dualq.offline.checking import judged_numbers
from dualq.offline.number_checking import NewRows, NumberEarning, changes
from dualq.offline.number_policies import _moved
from dualq.worlds import continuous

WORLD = continuous.Maintenance()
READ = {
    "state": ["wear", "heat", "load"],
    "numbers": ["wear", "heat", "load"],
    "action": "action",
    "reward": "reward",
    "episode": "episode",
    "time": "step",
    "terminal": "done",
}


@pytest.fixture(scope="module")
def fit() -> dualq.NumberFit:
    table = continuous.to_table(continuous.record(WORLD, 5_000, seed=0))
    return dualq.learn(table, **READ, discount=WORLD.discount, approximation="partition", certificate=None)


@pytest.fixture(scope="module")
def used(fit) -> NumberRows:
    """The policy in use: its own rows, in the world's own labels."""
    return continuous.record(WORLD, 4_000, 1, _moved(fit.policy, continuous.record(WORLD, 10, 0)))


def seen(fit: dualq.NumberFit, rows: NumberRows) -> NewRows:
    return NewRows(rows.coded_as(fit.columns, fit.actions), len(rows))


def test_the_mean_is_that_of_a_plain_loop(fit, used):
    rows = used.coded_as(fit.columns, fit.actions).at(np.arange(150))
    earning, policy = NumberEarning.of(fit, 0.02, 0.2), fit.policy
    taken, n, mean, (low, high) = earning.told_by(rows)
    X = []
    for i in range(150):
        here, there = rows.state.at(np.array([i])), rows.next_state.at(np.array([i]))
        chances = policy.rule(there)[0]
        after = sum(p * q for p, q in zip(chances, fit.chosen.values(there)[0], strict=True))
        after = 0.0 if rows.ended[i] else min(max(after, earning.v[0]), earning.v[1])
        if policy.rule(here)[0, rows.a[i]] >= 0.01:
            X.append(rows.r[i] + fit.discount * after - fit.chosen.values(here)[0, rows.a[i]])
    assert (taken.sum(), n) == (len(X), len(X))
    assert mean == pytest.approx(np.mean(X))
    assert low < mean < high


def test_in_use_it_is_kept_and_what_it_earns_is_the_truth(fit, used):
    """The interval fails in 4% of logs at most, the truth is known to .4; the change is looked for at 1%."""
    found = judged_numbers(fit, seen(fit, used))
    truth, error = continuous.true_value(WORLD, _moved(fit.policy, used), seed=1, episodes=1_000)
    assert (found.verdict, found.followed, found.unknown) == ("keep", 1.0, 0.0)
    assert found.interval[0] <= truth + 3 * error
    assert found.interval[1] >= truth - 3 * error
    assert found.expected == fit.chosen.expected
    assert set(found.drift) <= {"rewards", "dynamics"}


def test_a_loss_is_found(fit, used):
    loss = 0.5 * (1.0 - fit.discount) * abs(fit.expected.value)
    found = judged_numbers(fit, seen(fit, replace(used, r=used.r - loss)))
    assert found.verdict != "keep"
    assert "earns less than" in found.reasons[0]
    assert found.earned == pytest.approx(judged_numbers(fit, seen(fit, used)).earned - loss / (1.0 - fit.discount))


def test_a_change_is_found_and_a_policy_is_none(fit, used):
    """Rows of the policy beside those of the log: no change. Wear that grows faster by .6 of its spread: one."""
    rows = used.coded_as(fit.columns, fit.actions)
    assert not any(one.found for one in changes(fit, rows, 250, 0.01).values())
    wear = fit.columns.numbers.index("wear")
    spread = np.std(rows.next_state.numbers[:, wear] - rows.state.numbers[:, wear])
    after = rows.next_state.numbers.copy()
    after[:, wear] += 0.6 * spread
    moved = replace(rows, next_state=States(after, rows.next_state.categories))
    found = between_numbers(fit.sample, moved, 0.01)
    assert found["dynamics"].found
    assert "the next wear" in found["dynamics"].words


def test_what_the_policy_never_saw_is_counted(fit, used):
    rows = used.coded_as(fit.columns, fit.actions)
    far = rows.state.numbers.copy()
    far[:1_000, 0] += 10.0 * np.ptp(fit.sample.state.numbers[:, 0])
    table = continuous.to_table(replace(used, state=States(far, rows.state.categories)))
    table["action"] = np.where(np.arange(4_000) >= 3_500, "dance", table["action"])
    log = dualq.read_log(table, **READ)
    new = NewRows.of(fit, log)
    left = len(log.number_rows())
    assert new.unknown == pytest.approx(1.0 - len(new.rows) / left)
    assert 1_400 < left - len(new.rows) <= 1_500 + 2  # the rows whose next state is far are known themselves
    found = dualq.check(fit, log)
    assert found.verdict == "learn again"
    assert any("never saw" in reason for reason in found.reasons)


def test_the_command_checks_and_update_says_what_to_do(fit, used, tmp_path, capsys):
    fit.save(tmp_path / "run")
    pa.csv.write_csv(pa.table(continuous.to_table(used)), tmp_path / "new.csv")
    assert command(["check", str(tmp_path / "run"), str(tmp_path / "new.csv"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["verdict"], said["floor"], said["gain"]) == ("keep", None, None)
    other = continuous.to_table(continuous.record(WORLD, 2_000, seed=5))
    pa.csv.write_csv(pa.table(other), tmp_path / "other.csv")  # what was done before: the policy is not followed
    assert command(["check", str(tmp_path / "run"), str(tmp_path / "other.csv")]) in (0, 3)
    shown = " ".join(capsys.readouterr().out.split())
    assert "not followed" in shown
    most = dualq.check(fit, pa.csv.read_csv(tmp_path / "other.csv")).elsewhere[0]
    instead, wanted = (f"{name} {value}" for part in ("instead", "policy") for name, value in most[part].items())
    assert f"most often {instead} was taken instead of {wanted}" in shown
    assert command(["update", str(tmp_path / "run"), str(tmp_path / "new.csv")]) == 2
    assert "learn from both logs together" in capsys.readouterr().err
    with pytest.raises(LogError, match="of those no counts are kept"):
        dualq.update(fit, other)
