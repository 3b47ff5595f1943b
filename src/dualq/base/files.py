"""Files that dualq writes and reads back: whole or not at all, checked by SHA-256, and never unpickled.

Arrays are kept in NumPy's .npz format with one entry more, `sha256`: the digest of every other entry's name, type,
shape and bytes. Text (labels, settings) is kept as JSON in an array of bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dualq.base.errors import CheckpointError

Array = np.ndarray
Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"


@runtime_checkable
class Tagged(Protocol):
    """A class that stands in files by a tag, which stays when the class is renamed."""

    tag: ClassVar[str]


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file so that whoever opens it sees the old content or the new, never a part."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_UMASK)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def save_arrays(path: str | os.PathLike[str], arrays: Mapping[str, ArrayLike]) -> None:
    """Write named arrays (anything NumPy can hold without objects) with their digest."""
    named = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, sha256=np.frombuffer(_digest(named), np.uint8), **named)
    write_whole(path, buffer.getvalue())


def load_arrays(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Read what `save_arrays` wrote; `CheckpointError` if the file is missing, cut off or changed."""
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file", path=str(path)) from None
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise CheckpointError(f"{path}: not a whole .npz file ({error})", path=str(path)) from None
    digest = arrays.pop("sha256", None)
    if digest is None or digest.tobytes() != _digest(arrays):
        why = "the SHA-256 does not match; the file was changed or not written by dualq"
        raise CheckpointError(f"{path}: {why}", path=str(path))
    return arrays


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
