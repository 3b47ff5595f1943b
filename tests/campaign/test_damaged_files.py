"""Every kind of file that dualq writes, damaged: it is refused in one line, or the damage changed nothing."""

from __future__ import annotations

import os

import numpy as np
import pytest
from damaged_files import CHECKED, KINDS, answers
from dualq.errors import DualqError

import dualq
from dualq.app import cli
from dualq.base import arrays_in, write_whole

OURS = [make.__name__ for make in CHECKED]  # the others are somebody's data
READ = ["policy", "log"]  # of which a part at least can be told from what was written


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [12, pytest.param(32, marks=pytest.mark.slow)])
def test_damage_is_noticed_or_does_no_harm(tmp_path, kind, number):
    number = number if kind in OURS + READ else number // 4
    found = answers(KINDS[kind](tmp_path), number, seed=number)
    print(f"{kind}: {found}")
    assert found.wrong == ()
    assert kind not in OURS or found.refused > number / 2
    assert kind not in READ or found.refused > number / 4


@pytest.mark.parametrize("kind", OURS)
def test_a_file_that_was_cut_off_is_refused(tmp_path, kind):
    made = KINDS[kind](tmp_path)
    path, opened = made.path, made.opened
    whole = path.read_bytes()
    for part in (0, 1, 40, len(whole) // 2, len(whole) - 2):
        path.write_bytes(whole[:part])
        with pytest.raises(DualqError):
            opened()


def test_a_file_that_would_unpack_to_far_more_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr("dualq.base.files.LARGE", 2**20)
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros(2**20))
    with pytest.raises(DualqError, match=r"bomb\.npz: .* would unpack to 8,388,736"):
        arrays_in(tmp_path / "bomb.npz")


def test_what_a_killed_process_left_behind_goes_with_the_next_write(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    dead, alive, other = (tmp_path / name for name in (".a.npz.4194303.x1", ".a.npz.1.x2", ".b.npz.4194303.x3"))
    for part in (dead, alive, other):
        part.write_bytes(b"part")
    write_whole(path, b"one")
    assert dead.exists()  # a process on another machine may write there this minute
    monkeypatch.setattr("dualq.base.files.LEFT_OVER_AFTER", -1.0)
    write_whole(path, b"two")
    assert not dead.exists()
    assert alive.exists()
    assert other.exists()
    assert path.read_bytes() == b"two"


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"is a folder; give the name of a file"):
        dualq.problems.two_state().record(10).to_parquet(tmp_path)
    assert os.listdir(tmp_path) == []


def test_arrays_of_others_come_back(tmp_path):
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros(10**6))
    assert arrays_in(tmp_path / "zeros.npz")["x"].shape == (10**6,)


def test_what_a_killed_act_left_behind_goes_with_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("dualq.base.files.LEFT_OVER_AFTER", -1.0)
    dualq.learn(dualq.problems.two_state().record(100, seed=0), discount=0.9).save(tmp_path / "run")
    (tmp_path / "log.csv").write_text("state\n0\n1\n")
    dead = tmp_path / ".out.csv.4194303.x1"
    dead.write_bytes(b"part")
    line = ["act", str(tmp_path / "run"), "--log", str(tmp_path / "log.csv"), "--out", str(tmp_path / "out.csv")]
    assert cli.run(line) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "out.csv", "run"]


def test_an_evaluation_is_saved_whole_or_stays_as_it_was(tmp_path, monkeypatch):
    log = dualq.problems.two_state().record(100, seed=0)
    dualq.evaluate(log, "action = 0", discount=0.9).save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    other = dualq.evaluate(log, "action = 1", discount=0.9)
    monkeypatch.setattr("dualq.offline.evaluation.write_summary", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        other.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_model_that_is_no_text_is_refused_and_nothing_else_is_said(tmp_path, capfd):
    """A row with a field too many, and a byte that is no UTF-8 in it."""
    dualq.models.write_model(tmp_path / "m.csv", dualq.problems.two_state().mdp)
    lines = (tmp_path / "m.csv").read_bytes().splitlines(keepends=True)
    lines[2] = b"x,\xac," + lines[2]
    (tmp_path / "m.csv").write_bytes(b"".join(lines))
    with pytest.raises(DualqError, match=r"m\.csv: is not text in UTF-8; save it as UTF-8$"):
        dualq.models.read_model(tmp_path / "m.csv", discount=0.9)
    assert capfd.readouterr() == ("", "")
