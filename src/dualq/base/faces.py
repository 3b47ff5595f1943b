"""The face of a room: what its `__init__` names, loaded when it is first used.

A room's `__init__` imports its names under TYPE_CHECKING, where type checkers and readers see them, and hands the rest
to `face`: `from dualq.model import MDP` then loads `dualq.model.mdp`, and nothing else. So importing dualq costs
nothing, and asking a saved policy needs NumPy only.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType


def face(module: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a room, from the imports under TYPE_CHECKING in its `__init__`."""
    homes = names_of(Path(file).read_text(encoding="utf-8"))

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, there = homes[name]
        if home != module and hasattr(import_module(home), there):
            return getattr(import_module(home), there)
        return import_module(f"{home}.{there}")  # a module of the room, named as such

    return load, lambda: sorted(homes), sorted(homes)


def names_of(source: str) -> dict[str, tuple[str, str]]:
    """{name: (module, its name there)} of what a source imports under TYPE_CHECKING."""
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    imports = [line for block in blocks for line in block.body if isinstance(line, ast.ImportFrom)]
    return {alias.asname or alias.name: (line.module or "", alias.name) for line in imports for alias in line.names}


class PublicModules(MetaPathFinder, Loader):
    """`import dualq.problems` for modules that the door names and that live in a room: {name: where it lives}."""

    def __init__(self, homes: dict[str, str]):
        self.homes = homes

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Only the names of `homes` are ours."""
        return ModuleSpec(name, self) if name in self.homes else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module itself, as it is in its room."""
        module = import_module(self.homes[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It was executed where it lives, and keeps the name it has there."""
        module.__spec__ = module.__spec__.loader_state if module.__spec__ else None
