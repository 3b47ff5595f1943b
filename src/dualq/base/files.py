"""Files that dualq writes and reads back: whole or not at all, checked by SHA-256, and never unpickled.

Arrays are kept in NumPy's .npz format with one entry more, `sha256`: the digest of every other entry's name, type,
shape and bytes. Text (labels, settings) is kept as JSON in an array of bytes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import re
import shutil
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dualq.base.errors import CheckpointError

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None

Array = np.ndarray
PIECE = 1 << 24  # bytes that are written and brought to the disk at a time: Ctrl-C waits for one call to end
LEFT_OVER_AFTER = 60.0  # seconds: a process of another machine that shares the folder may still write

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


@runtime_checkable
class Tagged(Protocol):
    """A class that stands in files by a tag, which stays when the class is renamed."""

    tag: ClassVar[str]


def write_whole(path: str | os.PathLike[str], content: bytes | memoryview) -> None:
    """Write a file so that whoever opens it sees the old content or the new, never a part.

    A device or a pipe has no parts to hide, and is written to as it is; of a link, the file that it leads to.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; give the name of a file", str(path))
    with _named(path):
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            _replace(path, content)


@contextlib.contextmanager
def _named(path: Path) -> Generator[None, None, None]:
    """A full disk does not say of which file: its error does."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _replace(path: Path, content: bytes | memoryview) -> None:
    with written_aside(path) as part, open(part, "wb") as file:
        for i in range(0, len(content), PIECE):
            file.write(content[i : i + PIECE])
            file.flush()
            os.fsync(file.fileno())


@contextlib.contextmanager
def written_aside(path: str | os.PathLike[str]) -> Generator[Path, None, None]:
    """A place beside a file for what is written a part at a time, and takes the place of the file when all of it is."""
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_left_over(path.parent, path.name)
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{os.getpid()}.")
    os.close(descriptor)
    try:
        yield Path(part)
        os.chmod(part, 0o666 & ~_UMASK)
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def written_together(folder: str | os.PathLike[str], last: str) -> Generator[Path, None, None]:
    """A place for several files, which take theirs in the folder when all are written: at once, one of them last.

    Two that write into one folder take turns, so that what is there in the end is all of one or all of the other.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder}: is a file; give a folder to write into")
    with _named(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _remove_left_over(folder, "saving")
        part = Path(tempfile.mkdtemp(dir=folder, prefix=f".saving.{os.getpid()}."))
        try:
            yield part
            with locked(folder):
                for path in sorted(part.iterdir(), key=lambda path: path.name == last):
                    os.replace(path, folder / path.name)
        finally:
            shutil.rmtree(part, ignore_errors=True)


@contextlib.contextmanager
def locked(folder: Path, shared: bool = False) -> Generator[None, None, None]:
    """Alone with a folder of saved files, or with others who read; where there are no such locks, not."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems have none
            fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove_left_over(folder: Path, name: str) -> None:
    """Parts of this name that a process left when it was killed: it is gone, and wrote nothing for a minute."""
    known = re.compile(rf"\.{re.escape(name)}\.(\d+)\.\w+")
    for part in folder.iterdir():
        writer = known.fullmatch(part.name)
        if writer and not is_running(int(writer[1])):
            with contextlib.suppress(OSError):  # somebody else was quicker
                if time.time() - part.stat().st_mtime > LEFT_OVER_AFTER:
                    shutil.rmtree(part) if part.is_dir() else part.unlink()


def is_running(process: int) -> bool:
    """Whether there is a process with this number."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def save_arrays(path: str | os.PathLike[str], arrays: Mapping[str, ArrayLike], small: bool = False) -> None:
    """Write named arrays (anything NumPy can hold without objects) with their digest; `small` takes longer."""
    named = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    named["sha256"] = np.frombuffer(_digest(named), np.uint8)
    method, buffer = zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED, io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method, compresslevel=1) as packed:  # higher levels: 3 times as long, 5% smaller
        for name, array in named.items():
            with packed.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
    write_whole(path, buffer.getbuffer())


def load_arrays(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Read what `save_arrays` wrote; `CheckpointError` if the file is missing, cut off or changed."""
    return verified(path, arrays_in(path))


def verified(path: str | os.PathLike[str], arrays: dict[str, Array]) -> dict[str, Array]:
    """The arrays of a file without their digest, which must be right."""
    digest = arrays.pop("sha256", None)
    if digest is None or digest.tobytes() != _digest(arrays):
        why = "the SHA-256 does not match; the file was changed or not written by dualq"
        raise CheckpointError(f"{path}: {why}", path=str(path))
    return arrays


def arrays_in(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays of any .npz file, whoever wrote it; `CheckpointError` where it cannot be read, or is a trap."""
    try:
        with open(path, "rb") as stream, zipfile.ZipFile(stream) as packed:
            _check_sizes(packed, os.fstat(stream.fileno()).st_size)
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file", path=str(path)) from None
    except _UNREADABLE as error:
        raise CheckpointError(f"{path}: not a whole .npz file ({error})", path=str(path)) from None


_UNREADABLE = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    MemoryError,
    RuntimeError,  # zipfile's, of encrypted entries; NotImplementedError, of methods and versions that it does not know
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
LARGE = 2**30  # bytes
DENSEST = 100  # times as large as the file: arrays that people save are not packed as densely


def _check_sizes(packed: zipfile.ZipFile, size: int) -> None:
    """A ValueError for a file that says of itself that it unpacks to far more than it is."""
    unpacked = sum(entry.file_size for entry in packed.infolist())
    if unpacked > max(LARGE, DENSEST * size):
        raise ValueError(f"its {size:,} bytes would unpack to {unpacked:,}")


def as_json_array(value: object) -> Array:
    """A JSON text as an array of bytes."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def from_json_array(array: Array) -> Any:
    """What `as_json_array` kept."""
    return json.loads(array.tobytes().decode())


def _digest(arrays: Mapping[str, Array]) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.digest()


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


_UMASK = _umask()  # read once: it can be read only by setting it, for all threads
