"""Every kind of file that dualq writes, damaged: it is refused in one line, or the damage changed nothing."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest
from dualq.errors import DualqError

import dualq
from dualq.base import arrays_in, write_whole

TWO = dualq.problems.two_state()


def model(folder: Path):
    path = folder / "model.npz"
    dualq.models.write_model(path, TWO.mdp)
    return path, lambda: dualq.solve(dualq.models.read_model(path)).Q.tobytes()


def checkpoint(folder: Path):
    path = folder / "run.ckpt"

    def resumed() -> bytes:
        run = dualq.train(dualq.SPDQ(weights=1.5, zeta=0.08), TWO, steps=40, seed=0, checkpoint=path)
        return run.solution.Q.tobytes()

    resumed()
    return path, resumed


def saved_fit(folder: Path):
    fit = dualq.learn(TWO.record(steps=200, seed=0), discount=0.9)
    fit.save(folder / "run")
    (path,) = (folder / "run").glob("*.npz")

    def opened() -> bytes:
        back = dualq.load(folder / "run")
        return back.policy.matrix.tobytes() + repr(back.expected).encode()

    return path, opened


FILES = {make.__name__: make for make in (model, checkpoint, saved_fit)}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("flips", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_noticed_or_does_no_harm(tmp_path, kind, flips):
    path, opened = FILES[kind](tmp_path)
    whole, right, rng = path.read_bytes(), opened(), random.Random(flips)
    silent, refused = [], 0
    for _ in range(flips):
        place, bit = rng.randrange(len(whole)), 1 << rng.randrange(8)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        try:
            if opened() != right:
                silent.append((place, bit))
        except DualqError:
            refused += 1
    print(f"{kind}: {flips} flips, {refused} refused, {len(silent)} silent")
    assert silent == []
    assert refused > flips / 2


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_was_cut_off_is_refused(tmp_path, kind):
    path, opened = FILES[kind](tmp_path)
    whole = path.read_bytes()
    for part in (0, 1, 40, len(whole) // 2, len(whole) - 1):
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
        TWO.record(10).to_parquet(tmp_path)
    assert os.listdir(tmp_path) == []


def test_arrays_of_others_come_back(tmp_path):
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros(10**6))
    assert arrays_in(tmp_path / "zeros.npz")["x"].shape == (10**6,)
