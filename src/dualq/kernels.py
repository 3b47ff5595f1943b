"""The one decorator of every compiled kernel.

Numba's on-disk cache looks only at the file of the kernel itself: a kernel that calls a helper in another file is
served stale when the helper changes. So the cache lives in a folder named after a hash of all of dualq's sources.

Index arrays are passed to kernels as unsigned views (`unsigned(indices)`): Numba then leaves out the test for
negative indices, which makes the sparse loops about 1.5 times as fast.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import config

_PACKAGE = Path(__file__).parent
_config: Any = config  # its attributes are made at run time


def _cache_dir() -> str:
    digest = hashlib.sha256()
    for source in sorted(_PACKAGE.rglob("*.py")):
        digest.update(source.read_bytes())
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return str(Path(base) / "dualq" / digest.hexdigest()[:16])


_CACHE_DIR = _cache_dir()


def kernel(function: Callable) -> Any:
    """Compile on first call and keep the machine code on disk; division follows IEEE rules, as in NumPy."""
    # The folder is read when the function is decorated, and other users of Numba must not see ours.
    before, _config.CACHE_DIR = _config.CACHE_DIR, _CACHE_DIR
    try:
        return numba.njit(cache=True, error_model="numpy", nogil=True)(function)
    finally:
        _config.CACHE_DIR = before


def unsigned(array: np.ndarray) -> np.ndarray:
    """The same bytes as unsigned integers."""
    return array.view(np.uint32 if array.dtype.itemsize == 4 else np.uint64)
