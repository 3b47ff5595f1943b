"""The ledger of delta: it adds up, refuses to pay twice, and says what was spent on what."""

from __future__ import annotations

import doctest
import json
import math

import numpy as np
import pytest

import dualq
from dualq.base.errors import LogError, ModelError
from dualq.base.transitions import Recorded
from dualq.offline import stages
from dualq.offline.learning import learn
from dualq.proof import ledger as module
from dualq.proof.ledger import Ledger


def leaves(account):
    """The accounts that hand on nothing."""
    return [one for _, one in account.rows() if not one.accounts]


def statements(account):
    """[a statement's chance to fail, how many there are] of every account that was spent, by hand."""
    counted = [math.prod(one.among.values()) for one in leaves(account)]
    return np.array([[one.delta / many, many] for one, many in zip(leaves(account), counted, strict=True)])


def recorded(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    s, a = rng.integers(0, 4, rows + 1), rng.integers(0, 2, rows)
    late, lost = (s[1:] == 0) * 1.0, (a == 1) * 1.0
    costs, ranges = {"late": late, "lost": lost}, {"late": (0.0, 1.0), "lost": (0.0, 1.0)}
    r = rng.random(rows)
    return dualq.ArrayLog(s[:-1], a, r, s[1:], 4, 2, reward_range=(0.0, 1.0), costs=costs, cost_ranges=ranges)


def test_the_example_of_the_docstring():
    assert doctest.testmod(module).failed == 0


def test_more_than_delta_is_refused_by_name():
    ledger = Ledger(0.1)
    ledger.take("value", 0.75)
    with pytest.raises(ModelError, match=r"'limits' asks for 0\.05 of 'everything', where 0\.025 of 0\.1 is left"):
        ledger.take("limits", 0.5)
    with pytest.raises(ModelError, match="asks for -0"):
        ledger.take("limits", -0.5)
    assert ledger.handed_on == pytest.approx(0.075)


def test_nothing_is_spent_twice():
    ledger = Ledger(0.1)
    half, other = ledger.alike("one", "other")
    assert half.level(pairs=5) == pytest.approx(math.log(5 / 0.05))
    for again in (lambda: half.level(pairs=5), lambda: half.take("more", 0.1), lambda: ledger.level(pairs=1)):
        with pytest.raises(ModelError, match="already"):
            again()
    with pytest.raises(ModelError, match="'other' already"):
        ledger.take("other", 0.0)
    assert ledger.spent == pytest.approx(0.05)
    other.level(sides=2)
    assert ledger.spent == pytest.approx(0.1)


def test_the_certificate_spends_as_its_page_says():
    # docs/certificate.md: .4 of delta on the policy's own value. Of the rest .8 and .1 on event 1, by two sides of all
    # pairs; .1 on event 2, in halves. In one block nothing can be foreseen, and the events of pairs have all of it.
    log = recorded()
    policy = dualq.TablePolicy(np.full((4, 2), 0.5))
    blocks = dualq.counts_in_blocks(log)
    ledger = dualq.certificate_of(blocks, policy, 0.9, np.full(4, 0.25), confidence=0.9).ledger
    spent = [[0.048 / 16, 16], [0.006 / 16, 16], [0.003 / 8, 8], [0.003 / 8, 8], [0.04, 1]]
    np.testing.assert_allclose(statements(ledger), spent)
    assert statements(ledger).prod(axis=1).sum() == pytest.approx(0.1)
    one = dualq.certificate_of(log.counts(), policy, 0.9, np.full(4, 0.25), confidence=0.9).ledger
    np.testing.assert_allclose(statements(one), [[0.08 / 16, 16], [0.01 / 16, 16], [0.01 / 8, 8]])


def test_value_and_limits_share_delta_and_all_of_it_is_spent(tmp_path):
    fit = learn(recorded(), discount=0.9, limits={"late": 0.9, "lost": 0.9})
    ledger = fit.certificate.ledger
    assert fit.ledger is ledger
    assert ledger.delta == pytest.approx(0.05)
    shares = {account.what: account.delta for _, account in ledger.rows() if account.what in ("value", "late", "lost")}
    assert shares == pytest.approx({"value": 0.025, "late": 0.0125, "lost": 0.0125})
    assert ledger.spent == pytest.approx(0.05)
    assert statements(ledger).prod(axis=1).sum() == pytest.approx(0.05)
    # what is written is the same, in the table, as JSON, and in the saved fit
    text = str(ledger)
    # everything, halves, limits, then of each: two accounts, the events of pairs, and what rests on them
    assert len(text.splitlines()) == 1 + 2 + 2 + 3 * (2 + 5) + 4
    assert "2 sides x 8 pairs" in text
    rows = json.loads(json.dumps(fit.summary()))["ledger"]
    assert [row["account"] for row in rows][:2] == ["everything", "everything / limits"]
    assert sum(row["delta"] for row in rows if row["among"]) == pytest.approx(0.05)
    fit.save(tmp_path)
    again = dualq.load(tmp_path)
    assert again.ledger == ledger
    assert str(again.certificate.ledger) == text


def test_without_a_certificate_the_limits_have_all_of_delta():
    fit = learn(recorded(), discount=0.9, limits={"late": 0.9}, certificate=None, confidence=0.9)
    assert fit.certificate is None
    assert fit.ledger.spent == pytest.approx(0.1)
    assert [account.what for account in fit.ledger.accounts] == ["limits"]


def test_a_stage_that_is_proven_again_keeps_the_confidence_it_says():
    modelled = stages.model(stages.count(stages.read(recorded())))
    free, limited = stages.solve(modelled), stages.solve(modelled, limits={"late": 0.9})
    for _ in range(2):  # what was solved is not changed by what is proven of it
        assert stages.prove(limited).ledger.spent == pytest.approx(0.05)
    sure = stages.prove(free, confidence=0.999)
    assert (sure.confidence, sure.certificate.confidence) == (0.999, pytest.approx(0.999))
    assert sure.ledger.delta == pytest.approx(0.001)
    with pytest.raises(LogError, match=r"confidence is 0\.999, but the limits were solved with 0\.95"):
        stages.prove(limited, confidence=0.999)
    with pytest.raises(ModelError, match=r"'value' asks for 0\.025 of 'everything', where 0 of 0\.05 is left"):
        stages.prove(stages.solve(modelled, limits={"late": 0.9}, certificate=None))


def test_a_trade_off_has_a_ledger_of_its_own():
    curve = learn(recorded(), discount=0.9).frontier("late", points=3)
    assert [(one.what, one.delta) for one in curve.ledger.accounts] == [
        ("values", pytest.approx(0.025)),
        ("costs", pytest.approx(0.025)),
    ]
    assert curve.ledger.spent == pytest.approx(0.05)


def test_a_run_that_stops_spends_a_share_on_every_look():
    rng = np.random.default_rng(0)
    mdp = dualq.MDP(rng.dirichlet(np.ones(4), size=(4, 2)), rng.random((4, 2)), 0.5)
    watch = dualq.Regret(1e-3, confidence=0.9).watch(mdp, np.full(4, 0.25))
    for size in (1024, 1024, 2048):  # looks are due after 1,024 rows, twice as many, four times as many
        s, a = rng.integers(0, 4, size + 1), rng.integers(0, 2, size)
        watch.see(Recorded(s[:-1], a, rng.random(size), s[1:]).rows)
        assert not watch.met(dualq.TablePolicy(np.full((4, 2), 0.5)))
    ledger = watch.certificate.ledger
    assert [look.delta for look in ledger.accounts] == pytest.approx([0.1 / 2, 0.1 / 6, 0.1 / 12])
    assert ledger.spent == pytest.approx(0.1 * (1 - 1 / 4))
    assert watch.certificate.confidence == 0.9
