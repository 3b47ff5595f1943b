"""The skeleton of docs/algorithms.md, taken from the page as it stands: it learns, resumes, records, is refused."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import dualq
from dualq.base import CheckpointError, ModelError

PAGE = (Path(__file__).parent.parent / "docs" / "algorithms.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
TWO = dualq.problems.two_state()


@pytest.fixture(scope="module")
def skeleton(tmp_path_factory):
    """The first block of the page as a module of its own."""
    path = tmp_path_factory.mktemp("mine") / "expected_sarsa.py"
    path.write_text(BLOCKS[0], encoding="utf-8")
    spec = importlib.util.spec_from_file_location("expected_sarsa", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["expected_sarsa"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["expected_sarsa"]


def naive(rows, mdp, power):
    """Expected SARSA of the uniform policy, row by row, with dictionaries."""
    Q, visits = {}, {}
    for s, a, r, s_next, ended in zip(*(column.tolist() for column in rows), strict=True):
        actions = [b for b in range(mdp.num_actions) if mdp.available[s_next, b]]
        future = 0.0 if ended else sum(Q.get((s_next, b), 0.0) for b in actions) / len(actions)
        visits[s, a] = visits.get((s, a), 0) + 1
        old = Q.get((s, a), 0.0)
        Q[s, a] = old + (r + mdp.discount * future - old) / visits[s, a] ** power
    return np.array([[Q.get((s, a), 0.0) for a in range(mdp.num_actions)] for s in range(mdp.num_states)])


def test_the_skeleton_is_as_short_as_promised():
    code = [line for line in BLOCKS[0].split('"""')[2].splitlines() if line.strip()]
    assert len(code) <= 45


def test_it_does_what_its_mathematics_says(skeleton):
    log = TWO.record(steps=3000, seed=4)
    found = dualq.train(skeleton.ExpectedSARSA(power=0.7), log, 3000, discount=0.9).solution
    np.testing.assert_allclose(found.Q, naive(log.rows, TWO.mdp, 0.7), rtol=1e-12)


def test_it_finds_the_value_of_the_uniform_policy(skeleton):
    """Against the linear equations of that policy, which share no code with it.

    Values are around 17. Of 200 other seeds none had an error above 0.241 at 400,000 steps, so that fewer than 1.5% of
    all seeds are above 0.25 (95% sure), and six of 12 with a chance below 1e-7. The optimum is 2.4 away.
    """
    runs = dualq.train(skeleton.ExpectedSARSA(), TWO, 400_000, seeds=range(12))
    P = TWO.mdp.transitions.toarray().reshape(2, 2, 2)
    V = np.linalg.solve(np.eye(2) - 0.9 * P.mean(axis=1), TWO.mdp.rewards.mean(axis=1))
    errors = [np.abs(run.solution.Q - (TWO.mdp.rewards + 0.9 * P @ V)).max() for run in runs]
    assert np.median(errors) < 0.25
    assert np.median([np.abs(run.solution.V - V).max() for run in runs]) < 0.25


def test_checkpoints_seeds_and_records_leave_every_bit_as_it_is(skeleton, tmp_path):
    algorithm, words = skeleton.ExpectedSARSA(), {"seeds": [3, 5], "record": [100, 700]}
    whole = dualq.train(algorithm, TWO, 5000, **words)
    dualq.train(algorithm, TWO, 700, checkpoint=tmp_path / "run.ckpt", **words)
    resumed = dualq.train(algorithm, TWO, 5000, checkpoint=tmp_path / "run.ckpt", every=123, **words)
    alone = dualq.train(algorithm, TWO, 5000, seed=5)
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one.solution.Q, other.solution.Q)
        assert one.history.equals(other.history)
        assert one.history["step"].to_pylist() == [100, 700]
    np.testing.assert_array_equal(alone.solution.Q, whole[1].solution.Q)
    assert not np.array_equal(whole[0].solution.Q, whole[1].solution.Q)
    # the metrics are those of its Q, against the optimum
    exact, last = dualq.solve(TWO.mdp).Q, dualq.train(algorithm, TWO, 700, seed=3).solution.Q
    assert whole[0].history["q_error"].to_pylist()[1] == pytest.approx(np.abs(exact - last).max(axis=0).sum())
    assert "true_gap" not in whole[0].history.column_names  # it has no dual
    with pytest.raises(CheckpointError, match=r"written with power = 0\.8, asked to go on with 0\.9"):
        dualq.train(skeleton.ExpectedSARSA(0.9), TWO, 5000, checkpoint=tmp_path / "run.ckpt", **words)


def test_it_plays_and_shows_its_progress(skeleton, capfd, monkeypatch):
    """The second block of the page, but for its size; and a bar where one is wanted."""
    monkeypatch.setattr("dualq.online.training.SHOW_AFTER", 0.0)
    monkeypatch.chdir(Path(skeleton.__file__).parent)
    names = {}
    exec(BLOCKS[1].replace("200_000", "2_000"), names)
    assert [run.seed for run in names["runs"]] == [0, 1, 2, 3, 4]
    assert Path("run.ckpt.4").exists()
    monkeypatch.setenv("FORCE_COLOR", "1")  # Rich draws a bar on terminals only
    dualq.train(skeleton.ExpectedSARSA(), TWO, 200_000, progress=True)
    assert "steps/s" in capfd.readouterr().err


def test_the_file_knows_it_by_its_tag(skeleton, tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    dualq.train(skeleton.ExpectedSARSA(), TWO, 300, checkpoint=path)

    @dataclass(frozen=True, eq=False)
    class Renamed(skeleton.ExpectedSARSA):
        pass

    run = dualq.train(Renamed(), TWO, 900, checkpoint=path)
    np.testing.assert_array_equal(run.solution.Q, dualq.train(skeleton.ExpectedSARSA(), TWO, 900).solution.Q)
    monkeypatch.setattr(skeleton.ExpectedSARSA, "tag", "another")
    with pytest.raises(CheckpointError, match="written with algorithm = 'ExpectedSARSA', asked to go on with 'ano"):
        dualq.train(skeleton.ExpectedSARSA(), TWO, 900, checkpoint=path)


def test_what_a_checkpoint_cannot_hold_is_said(skeleton, tmp_path):
    @dataclass(frozen=True)
    class Rule:
        scale: float = 1.0

    @dataclass(frozen=True, eq=False)
    class WithARule(skeleton.ExpectedSARSA):
        rule: Rule = Rule()
        tag: ClassVar[str] = "WithARule"

    assert dualq.train(WithARule(), TWO, 10).steps == 10
    with pytest.raises(CheckpointError, match="Rule has no tag to stand in a file; give it one"):
        dualq.train(WithARule(), TWO, 10, checkpoint=tmp_path / "run.ckpt")


@pytest.mark.parametrize("wrong", [dualq.QLearning, "Q-learning", object()])
def test_what_is_no_algorithm_is_refused(wrong):
    with pytest.raises(ModelError, match="is not an algorithm; give one with its choices"):
        dualq.train(wrong, TWO, 10)


def test_a_checkpoint_of_another_format_is_refused_and_of_another_version_read(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    monkeypatch.setattr("dualq.online.checkpoints.__version__", "0.0.9")
    dualq.train(dualq.QLearning(), TWO, 100, checkpoint=path)
    monkeypatch.undo()
    assert dualq.train(dualq.QLearning(), TWO, 200, checkpoint=path).steps == 200
    monkeypatch.setattr("dualq.online.checkpoints.FORMAT", 2)
    with pytest.raises(CheckpointError, match="is of the format 1; this version of dualq reads 2"):
        dualq.train(dualq.QLearning(), TWO, 300, checkpoint=path)
