"""Finding: what one test says of a log, in a sentence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """What a test says of the log."""

    what: str  # one word: "behaviour", "dynamics", "rewards", "memory", or one of checks/
    found: bool
    p_value: float
    tested: int  # groups with rows enough; 0: nothing could be tested
    period: tuple[str, str] | None  # from when to when it was otherwise, as far as periods can tell
    words: str  # one sentence
