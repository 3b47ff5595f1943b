"""Shown: what shows itself to people: in two lines, in a notebook, as a page. The pages are those of `app`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Protocol

from dualq.base import door, write_whole


class PagesOf(Protocol):
    """Something as people see it."""

    def brief(self) -> str:
        """Two lines, for those who print it."""
        ...

    def notebook(self) -> str:
        """A piece of HTML for a notebook."""
        ...

    def report(self) -> str:
        """The whole report: one HTML page that needs no network."""
        ...


@door
class Shown(ABC):
    """What shows itself."""

    @property
    @abstractmethod
    def _pages(self) -> PagesOf:
        """Its pages."""

    def __repr__(self) -> str:
        return self._pages.brief()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self._pages.notebook()

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the report: one HTML page that needs no network."""
        write_whole(path, self._pages.report().encode())
