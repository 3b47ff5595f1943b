"""Files are whole or not there, changed bytes are noticed, and nothing is unpickled."""

from __future__ import annotations

import hashlib
import os
import pickle

import numpy as np
import pytest

from dualq.base import files
from dualq.base.errors import CheckpointError
from dualq.base.files import as_json_array, from_json_array, load_arrays, save_arrays, write_whole

ARRAYS = {
    "numbers": np.arange(12.0).reshape(3, 4),
    "transposed": np.arange(12, dtype=np.int32).reshape(3, 4).T,
    "scalar": np.array(0.1),
    "nothing": np.zeros((0, 5)),
    "mask": np.array([True, False]),
    "words": np.array(["spring", "été"]),
}


def test_arrays_come_back_as_they_were(tmp_path):
    save_arrays(tmp_path / "a.npz", ARRAYS)
    back = load_arrays(tmp_path / "a.npz")
    assert back.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name].reshape(array.shape), array)


def test_the_digest_is_the_one_the_format_describes(tmp_path):
    save_arrays(tmp_path / "a.npz", {"b": np.array([1, 2], np.int64), "a": np.array(0.5)})
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        a, b, kept = file["a"], file["b"], file["sha256"]
    text = b"".join(f"{n} {x.dtype.str} {x.shape}\n".encode() + x.tobytes() for n, x in (("a", a), ("b", b)))
    assert kept.tobytes() == hashlib.sha256(text).digest()


def test_json_survives():
    value = {"names": ["stock", "season"], "values": [[3, "été"], [4, None], [True, 0.1]]}
    assert from_json_array(as_json_array(value)) == value


def test_every_flipped_byte_of_the_data_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    data = np.arange(16, dtype=np.uint8) + 100
    save_arrays(path, {"data": data})
    content = path.read_bytes()
    start = content.index(data.tobytes())
    for place in range(start, start + data.size):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(CheckpointError, match=r"a\.npz: "):
            load_arrays(path)


def test_a_file_that_is_whole_but_changed_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    save_arrays(path, {"data": np.arange(3), "more": np.arange(2)})
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    for changed in (
        {**arrays, "data": np.array([0, 1, 3])},
        {**arrays, "data": np.arange(3, dtype=np.int32)},
        {**arrays, "extra": np.zeros(1)},
        {name: array for name, array in arrays.items() if name != "more"},
        {name: array for name, array in arrays.items() if name != "sha256"},
    ):
        np.savez(path, **changed)
        with pytest.raises(CheckpointError, match="the SHA-256 does not match"):
            load_arrays(path)


def test_a_cut_off_file_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    save_arrays(path, ARRAYS)
    content = path.read_bytes()
    for length in [0, 1, 4, 100, len(content) // 2, len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match=r"a\.npz: "):
            load_arrays(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"none\.npz: no such file"):
        load_arrays(tmp_path / "none.npz")


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def test_nothing_is_unpickled(tmp_path):
    victim = tmp_path / "victim"
    np.savez(tmp_path / "a.npz", data=np.array([Bomb(victim)], object), allow_pickle=True)
    with pytest.raises(CheckpointError):
        load_arrays(tmp_path / "a.npz")
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Bomb(victim)))
    with pytest.raises(CheckpointError):
        load_arrays(tmp_path / "b.npz")
    assert not victim.exists()


def test_an_object_array_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        save_arrays(tmp_path / "a.npz", {"data": np.array([{}], object)})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_write_that_dies_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, call, error):
    path = tmp_path / "a.txt"
    write_whole(path, b"old")

    def die(*_):
        raise error

    monkeypatch.setattr(files.os, call, die)
    with pytest.raises(error):
        write_whole(path, b"new and longer")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_what_is_written_in_pieces_is_whole_and_ctrl_c_between_them_leaves_the_old_file(tmp_path, monkeypatch):
    path, content, brought = tmp_path / "a.bin", np.random.default_rng(0).bytes(3 * 7 + 2), []
    monkeypatch.setattr(files, "PIECE", 7)
    monkeypatch.setattr(files.os, "fsync", lambda file: brought.append(os.fstat(file).st_size))
    write_whole(path, content)
    assert path.read_bytes() == content
    assert brought == [7, 14, 21, 23]

    def interrupted(file):
        if os.fstat(file).st_size > 7:
            raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, content[::-1])
    assert path.read_bytes() == content
    write_whole(tmp_path / "empty", b"")
    assert (tmp_path / "empty").read_bytes() == b""


def test_folders_are_made_and_the_file_is_readable_as_any_other(tmp_path):
    path = tmp_path / "new" / "folder" / "a.txt"
    write_whole(path, b"content")
    assert path.read_bytes() == b"content"
    (tmp_path / "plain").touch()
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode  # not the private mode of a temporary file
    assert os.listdir(path.parent) == ["a.txt"]
