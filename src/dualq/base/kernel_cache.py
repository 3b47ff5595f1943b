"""Machine code on disk: kept where nobody else can write, checked before it is read, compiled anew where it is bad.

Machine code that was damaged crashes the interpreter, and the form in which Numba hands it out (a pickle) can run any
code when it is read. So a file of ours is read only if

- it and its folder are this user's, and nobody else may write into the folder;
- its first 32 bytes are the SHA-256 of all others.

Whatever else is found counts as nothing found: the kernel is compiled, and the file replaced. There is one file for
each kernel, types and processor, written whole or not at all, and no index: its name is a digest of what it was
compiled from, and inside stands the same in full. Processes that compile at the same time can only do work twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import llvmlite
import numba
from numba.core.compiler import CompileResult
from numba.core.runtime.nrt import rtsys
from numba.core.serialize import dumps

from dualq.base.files import write_whole

DIGEST = 32  # bytes of a SHA-256
VERSIONS = (sys.version, numba.__version__, llvmlite.__version__)
_PACKAGE = Path(__file__).parents[1]


def _state_of_kernels() -> str:
    """A name for what now stands in all sources that have kernels."""
    digest = hashlib.sha256()
    for text in (source.read_bytes() for source in sorted(_PACKAGE.rglob("*.py"))):
        digest.update(text if b"@kernel" in text else b"")
    return digest.hexdigest()[:16]


_STATE_OF_KERNELS = _state_of_kernels()  # of what was imported: later the files may change


def _places() -> Iterator[Path]:
    """Where the cache may be, the best place first; a user without a home has a folder among the temporary ones."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(os.environ["NUMBA_CACHE_DIR"], "dualq")
    with contextlib.suppress(RuntimeError):  # no home
        yield _user_cache() / "dualq"
    yield Path(tempfile.gettempdir(), f"dualq-{os.getuid()}" if os.name == "posix" else "dualq")


def _user_cache() -> Path:
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"])
    if os.path.isabs(os.environ.get("XDG_CACHE_HOME", "")):  # a relative one is to be ignored, says the XDG standard
        return Path(os.environ["XDG_CACHE_HOME"])
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


@lru_cache(maxsize=1)
def cache_folder() -> Path | None:
    """The folder of the present kernels, made if need be; None where there is no safe place."""
    for place in _places():
        folder = place / _STATE_OF_KERNELS
        with contextlib.suppress(OSError):
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.mkdir(exist_ok=True, mode=0o700)
            if _is_ours(found := folder.stat()) and not _others_write(found) and os.access(folder, os.R_OK | os.W_OK):
                return folder
    return None


def _is_ours(found: os.stat_result) -> bool:
    return os.name != "posix" or found.st_uid == os.geteuid()


def _others_write(found: os.stat_result) -> bool:
    return os.name == "posix" and bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


class Codegen(Protocol):
    """What of Numba's stands for a processor."""

    def magic_tuple(self) -> tuple[object, ...]:
        """Its name and what it can do."""
        ...


class Context(Protocol):
    """What of Numba's knows what code is for."""

    def codegen(self) -> Codegen:
        """What makes code for its processor."""
        ...


class Library(Protocol):
    """What of Numba's holds code."""

    has_dynamic_globals: bool


class Result(Protocol):
    """What came of compiling; Numba's CompileResult."""

    codegen: Codegen
    library: Library
    lifted: tuple[object, ...]

    def _reduce(self) -> tuple[object, ...]: ...


class KernelCache:
    """What a dispatcher of Numba asks for machine code, and gives it to, for one function."""

    def __init__(self, function: Callable[..., object]) -> None:
        code, source = function.__code__, _digest_of_file(inspect.getfile(function))
        self._name = function.__name__.strip("<>")
        self._source = (*VERSIONS, function.__module__, code.co_firstlineno, code.co_code, source)

    @property
    def cache_path(self) -> str:
        """The folder, as Numba shows it."""
        return str(cache_folder())

    def load_overload(self, sig: object, target_context: Context) -> CompileResult | None:
        """The compiled function for these types, or None."""
        rtsys.initialize(target_context)  # what arrays need; all that compiling needs would take ten times as long
        key = (sig, target_context.codegen().magic_tuple(), self._source)
        path = self._path(key)
        content = path and _content(path)
        if not content:
            return None
        with contextlib.suppress(Exception):  # whole, but not for this key or this version of anything: compile
            kept, code = pickle.loads(content)
            return CompileResult._rebuild(target_context, *code) if kept == key else None

    def save_overload(self, sig: object, data: Result) -> None:
        """Keep a compiled function; where that is impossible it is compiled again next time."""
        key = (sig, data.codegen.magic_tuple(), self._source)
        path = self._path(key)
        if path and not data.library.has_dynamic_globals and not data.lifted:
            content = dumps((key, data._reduce()))
            with contextlib.suppress(OSError):
                write_whole(path, hashlib.sha256(content).digest() + content)

    def _path(self, key: tuple[object, ...]) -> Path | None:
        folder = cache_folder()
        return folder and folder / f"{self._name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.code"

    def flush(self) -> None:
        """What is compiled anew replaces what was there."""


def can_be_kept(function: Callable[..., object]) -> bool:
    """Whether all that a function is compiled from can be told: it has a file, and nothing around it flows in."""
    return function.__closure__ is None and os.path.isfile(inspect.getfile(function))


@lru_cache
def _digest_of_file(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _content(path: Path) -> bytes | None:
    """What a file holds behind its checksum, if it is right and the file is ours."""
    try:
        with open(path, "rb") as file:
            content = file.read() if _is_ours(os.fstat(file.fileno())) else b""
    except OSError:
        return None
    return content[DIGEST:] if hashlib.sha256(content[DIGEST:]).digest() == content[:DIGEST] else None
