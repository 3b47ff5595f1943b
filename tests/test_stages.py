"""The five stages of learning: how often one `learn` counts, models and asks; what is reused; what stopping leaves."""

from __future__ import annotations

import contextlib
from collections import Counter

import numpy as np
import pytest

import dualq
from dualq.base.labels import Labels
from dualq.logs import Counts
from dualq.model import MDP
from dualq.offline import stages
from dualq.offline.careful import fitting, model
from dualq.worlds import sample_log

COLUMNS = {
    "state": ["stock", "season"],
    "action": "order",
    "reward": "profit",
    "episode": "shop",
    "time": "day",
    "costs": ["stockout"],
}


@contextlib.contextmanager
def counted(monkeypatch):
    """How often models, labels and counts are made, careful models fitted, and the engine asked."""
    import ibis.backends.duckdb as duckdb

    made: Counter[str] = Counter()

    def count(where, name, what):
        old = getattr(where, name)

        def new(*args, **words):
            made[what] += 1
            return old(*args, **words)

        monkeypatch.setattr(where, name, new)

    for cls in (MDP, Labels, Counts):
        count(cls, "__init__", cls.__name__)
    count(model, "fitted", "fits")
    count(duckdb.Backend, "compile", "queries")  # every question is compiled, whoever asks it
    with monkeypatch.context():
        yield made


def test_one_learn_of_the_shipped_log_makes_each_thing_once(monkeypatch):
    with counted(monkeypatch) as made:
        fit = dualq.learn(dualq.read_log(sample_log.path(), **COLUMNS))
        fit.summary()
    assert made["fits"] == 3  # all rows, and two halves
    # the plug-in and two pooled models of each fit; six references, six priors and the plug-in of a proof
    assert made["MDP"] == 22
    assert made["Labels"] == 14
    assert made["Counts"] <= 60  # 17 blocks, and those that are joined from them
    assert made["queries"] <= 6


@pytest.fixture(scope="module")
def fit():
    return dualq.learn(dualq.read_log(sample_log.path(), **COLUMNS), limits={"stockout": 0.2})


def test_a_moved_limit_is_as_if_it_had_been_asked_for(fit, monkeypatch):
    with counted(monkeypatch) as made:
        moved = fit.with_limits({"stockout": 0.15})
    assert made["queries"] == made["fits"] == 0
    fresh = dualq.learn(dualq.read_log(sample_log.path(), **COLUMNS), limits={"stockout": 0.15})
    np.testing.assert_allclose(moved.policy.matrix, fresh.policy.matrix, atol=1e-6)
    assert moved.certificate.lower == pytest.approx(fresh.certificate.lower, rel=1e-6)
    assert moved.limits[0].high == pytest.approx(fresh.limits[0].high, rel=1e-6)
    assert moved.counts is fit.counts
    assert moved.careful is fit.careful


def test_without_limits_it_is_the_free_fit(fit):
    free, fresh = fit.with_limits(None), dualq.learn(dualq.read_log(sample_log.path(), **COLUMNS))
    np.testing.assert_array_equal(free.policy.matrix, fresh.policy.matrix)
    assert free.certificate.lower == pytest.approx(fresh.certificate.lower, rel=1e-9)
    assert free.limits == ()


def test_a_loaded_fit_moves_its_limits_too(fit, tmp_path):
    fit.save(tmp_path)
    here, there = fit.with_limits({"stockout": 0.15}), dualq.load(tmp_path).with_limits({"stockout": 0.15})
    np.testing.assert_allclose(there.policy.matrix, here.policy.matrix, atol=1e-9)
    assert there.certificate.lower == pytest.approx(here.certificate.lower, rel=1e-9)
    assert there.read.log is None
    with pytest.raises(dualq.LogError, match="its log was not saved"):
        stages.count(there.read)


def test_the_stages_by_hand_are_learn():
    log = dualq.problems.two_state().record(steps=2_000, seed=0)
    by_hand = stages.prove(stages.solve(stages.model(stages.count(stages.read(log)))))
    fit = dualq.learn(log)
    assert by_hand.certificate.lower == fit.certificate.lower
    np.testing.assert_array_equal(by_hand.solved.policy.matrix, fit.policy.matrix)
    # A stage is not used up: gone on from twice, it says the same twice.
    again = stages.prove(by_hand.solved)
    assert again.certificate.lower == fit.certificate.lower
    assert again.ledger.spent == by_hand.ledger.spent


class Stop(Exception):
    pass


@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_stopping_between_stages_leaves_nothing_half_done(at, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log, begun = dualq.read_log(sample_log.path(), **COLUMNS), []

    def progress(stage):
        begun.append(stage)
        if len(begun) == at + 1:
            raise Stop

    with pytest.raises(Stop):
        dualq.learn(log, limits={"stockout": 0.2}, progress=progress)
    assert len(begun) == at + 1
    assert list(tmp_path.iterdir()) == []
    if at == 3:  # the same log goes on as if nothing had happened
        np.testing.assert_allclose(
            dualq.learn(log).certificate.lower,
            dualq.learn(dualq.read_log(sample_log.path(), **COLUMNS)).certificate.lower,
            rtol=1e-9,
        )


def test_parts_of_stages_are_named_where_they_last(monkeypatch):
    """Of a log that counts as large: each round, of all rows and of either half; in any of them it can be stopped."""
    log, begun = dualq.problems.garnet(30, 3, 3, discount=0.9, seed=0).record(steps=300, seed=0), []
    monkeypatch.setattr(stages, "LASTING", 1)
    fit = dualq.learn(log, discount=0.9, progress=begun.append)
    learning = [name for name in begun if name.startswith("Learning from")]
    for whose in ("all rows", "one half of the rows", "the other half"):
        rounds = [name for name in learning if name.startswith(f"Learning from {whose}, round")]
        assert rounds == [f"Learning from {whose}, round {i + 1}" for i in range(len(rounds))]
        assert len(rounds) > 1
    last = "Proving: floors and ceilings" if fit.certificate.informative else "Proving: whether "
    assert begun[-1].startswith(last)

    def stop(stage):
        if stage == learning[-1]:
            raise Stop

    with pytest.raises(Stop):
        dualq.learn(log, discount=0.9, progress=stop)


def test_halves_are_fitted_once(monkeypatch):
    log = dualq.problems.two_state().record(steps=2_000, seed=0)
    with counted(monkeypatch) as made:
        fit = dualq.learn(log)
        fit.summary()
    assert made["fits"] == 11  # all rows, and two halves in each of five deals: there are few pairs
    one, other = fit.careful.halves
    assert one.rows.counts.total + other.rows.counts.total == log.counts().total
    # The fit of a half is that of its rows alone.
    alone = fitting.fitted(one.rows, 1.0)
    np.testing.assert_array_equal(alone.V, one.V)
