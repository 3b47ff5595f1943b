"""Ibis loads the compilers of twenty engines when it is asked for one: a fifteenth of a short `dualq learn`.

On the command line, where nobody else uses Ibis, each is loaded when it is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

COMPILERS = "ibis.backends.sql.compilers"  # has a module for each engine: duckdb, with DuckDBCompiler


class Asked(MetaPathFinder, Loader):
    """`COMPILERS` as a package whose names load when they are asked for."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Of that package only, where Ibis has it."""
        found = PathFinder.find_spec(name, path) if name == COMPILERS else None
        if found is None:
            return None
        spec = ModuleSpec(name, self, origin=found.origin, is_package=True)
        spec.submodule_search_locations = found.submodule_search_locations
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is loaded yet."""
        module.__dict__["__getattr__"] = compiler


def compiler(name: str) -> object:
    """A module of the package, or the class that it is for."""
    try:
        module = import_module(f"{COMPILERS}.{name.removesuffix('Compiler').lower()}")
    except ModuleNotFoundError as error:
        raise AttributeError(f"{COMPILERS} has no {name}") from error
    return getattr(module, name, module)


def load_what_is_asked() -> None:
    """From now on, in this process."""
    sys.meta_path.insert(0, Asked())
