"""The one decorator of every compiled kernel.

Numba's on-disk cache looks only at the file of the kernel itself: a kernel that calls a helper in another file is
served stale when the helper changes. So the cache lives in a folder named after a hash of all sources that have
kernels; a kernel uses nothing of dualq that is written elsewhere (`tests/test_kernels.py` looks).

Numba numbers the files of a kernel's machine code, so two processes that fill the cache at the same time can write
different code under one name, and whoever loads it crashes. Here each file has a name of its own: what the index names
is what was compiled for it, and the worst that can happen is that something is compiled twice.

Index arrays are passed to kernels as unsigned views (`unsigned(indices)`): Numba then leaves out the test for
negative indices, which makes the sparse loops about 1.5 times as fast.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import config

Array = np.ndarray
Compiled = TypeVar("Compiled", bound=Callable[..., object])

_PACKAGE = Path(__file__).parents[1]
_config: Any = config  # its attributes are made at run time


def _cache_dir() -> str:
    digest = hashlib.sha256()
    for text in (source.read_bytes() for source in sorted(_PACKAGE.rglob("*.py"))):
        digest.update(text if b"@kernel" in text else b"")
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return str(Path(base) / "dualq" / digest.hexdigest()[:16])


_CACHE_DIR = _cache_dir()


def kernel(function: Compiled) -> Compiled:
    """Compile on first call and keep the machine code on disk; division follows IEEE rules, as in NumPy."""
    # The folder is read when the function is decorated, and other users of Numba must not see ours.
    before, _config.CACHE_DIR = _config.CACHE_DIR, _CACHE_DIR
    try:
        compiled: Any = numba.njit(cache=True, error_model="numpy", nogil=True)(function)
        if not _config.DISABLE_JIT:  # else it is the plain function, which is slow and can be stepped through
            compiled._cache._cache_file._data_name_pattern = _NamesOfTheirOwn(function.__qualname__)
        return compiled
    finally:
        _config.CACHE_DIR = before


class _NamesOfTheirOwn:
    """In place of Numba's pattern `name.{number}.nbc`: every file of machine code has a name that no other has."""

    def __init__(self, stem: str) -> None:
        self._stem = stem

    def format(self, number: int) -> str:
        """The name of a file that does not exist yet."""
        return f"{self._stem}.{uuid.uuid4().hex}.nbc"


def unsigned(array: np.ndarray) -> np.ndarray:
    """The same bytes as unsigned integers."""
    return array.view(np.uint32 if array.dtype.itemsize == 4 else np.uint64)


@kernel
def copy_into(to: Array, source: Array) -> None:
    """to[i] = source[i]; for `to[:] = source` Numba compiles sentences about shapes as well, which takes 2 seconds."""
    for i in range(to.size):
        to[i] = source[i]


# ---- random numbers inside kernels
#
# SplitMix64 (Steele, Lea and Flood, 2014): the state is one 64-bit counter, which a kernel keeps in a register. Numba's
# own generator halves the speed of the kernels. A draw is `x = advance(x)` and then one of the three readings of x.

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@kernel
def advance(x: np.uint64) -> np.uint64:
    """The next state of the generator."""
    return x + _GOLDEN


@kernel
def bits(x: np.uint64) -> np.uint64:
    """The 64 random bits of a state."""
    z = (x ^ (x >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@kernel
def uniform(x: np.uint64) -> np.float64:
    """A state's number in [0, 1), on a grid of 2^-53."""
    return np.float64(bits(x) >> np.uint64(11)) * 1.1102230246251565e-16


@kernel
def below(x: np.uint64, n: int | np.integer) -> np.int64:
    """A state's number in 0, ..., n - 1, for n below 2^32; no value is likelier than another by more than n 2^-32."""
    return np.int64(((bits(x) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


def generator_state(seed: int, stream: int) -> Array:
    """The first state (1,) of one of several independent streams of a seed."""
    return np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64)
