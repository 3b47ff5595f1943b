"""The one decorator of every compiled kernel.

Numba's on-disk cache looks only at the file of the kernel itself: a kernel that calls a helper in another file is
served stale when the helper changes. So the cache lives in a folder named after a hash of all sources that have
kernels; a kernel uses nothing of dualq that is written elsewhere (`tests/test_kernels.py` looks). Where that folder is,
and why what lies there can be trusted, is said in kernel_cache.py.

Index arrays are passed to kernels as unsigned views (`unsigned(indices)`): Numba then leaves out the test for
negative indices, which makes the sparse loops about 1.5 times as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import config

from dualq.base.kernel_cache import KernelCache, can_be_kept

Array = np.ndarray
Compiled = TypeVar("Compiled", bound=Callable[..., object])

_config: Any = config  # its attributes are made at run time


def kernel(function: Compiled) -> Compiled:
    """Compile on first call and keep the machine code on disk; division follows IEEE rules, as in NumPy."""
    compiled: Any = numba.njit(error_model="numpy", nogil=True)(function)
    if not _config.DISABLE_JIT and can_be_kept(function):  # without JIT it is the plain function, to be stepped through
        compiled._cache = KernelCache(function)
    return compiled


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
