"""Finding: what one test says of a log, in a sentence; and which finding explains which."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

EXPLAINED = {  # what follows from what: it is told second, and not among what the log speaks against
    "dynamics": ("bins",),
    "rewards": ("bins",),
    "recent": ("bins", "dynamics", "rewards"),
    "cycle": ("bins",),
    "memory": ("bins", "cycle", "dynamics", "rewards", "recent"),
}
AS = {"bins": "bins lose information", "cycle": "there is a cycle"}


@dataclass(frozen=True)
class Finding:
    """What a test says of the log."""

    what: str  # one word: "behaviour", "dynamics", "rewards", "memory", or one of checks/
    found: bool
    p_value: float
    tested: int  # groups with rows enough; 0: nothing could be tested
    period: tuple[str, str] | None  # from when to when it was otherwise, as far as periods can tell
    words: str  # one sentence

    def because(self, found: Iterable[str]) -> str | None:
        """What else was found that explains this, in a clause; None where nothing does."""
        cause = next((cause for cause in EXPLAINED.get(self.what, ()) if cause in found), None)
        return None if cause is None else f"as can happen where {AS.get(cause, 'the system changes')}"

    @property
    def brief(self) -> str:
        """The words up to the p-value, without what they advise."""
        told = re.match(r".*?\bp [=<] [^)]*\)", self.words)
        return told.group() if told else self.words
