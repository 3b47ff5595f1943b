"""Advice in the studio's own words: what the command line calls by an option has a place on some page.

Sentences come from the report and from the log, where they name options (`--reward-range`). Here each is turned into
where a person finds the same on the pages; an option that no page has is left, and said to be the command line's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

PLACES: tuple[tuple[str, str], ...] = (
    (r"add --reward-range=(\S+?),(\S+?)\.", r"give \1 and \2 as the reward range on the page Learn."),
    (r"say it with --reward-range \(reward_range=\)", "say it on the page Learn"),
    (r'say so: --assume "set aside"', "say so on the page Learn"),
    (r"with skip_bad=True \(--skip-bad\)", "on the page Columns"),
    (r"aside \(--skip-bad\)", "aside on the page Columns"),
    (r"\(--discount\)", "(the discount, on the page Learn)"),
    (r"use --limit\b", "give a limit on the page Learn, or move one on the page Limits"),
    (r"name the column with --terminal", "give the column the part Ended on the page Columns"),
    (r"[Cc]orrect it with --[a-z-]+", "Correct it above"),
    (r"name it with --[a-z-]+(?: \([a-z_]+=\.\.\.\))?", "give a column that part above"),
    (r"Say --day-first or --month-first", "Say below which it is"),
    (
        r"Say --terminal last if they ended there.*?, --truncated last if only the recording did",
        "Say below which it is",
    ),
    (r"add --terminal row --discount 0", "say so below"),
    (r"cut the numbers into bins \(--bins(?: auto)?\)", "cut the numbers into bins on the page Columns"),
    (r"or cells \(--approximation partition\)", "or choose cells on the page Learn"),
    (r"bins \(--bins [^)]*\)", "bins on the page Columns"),
    (r"other edges \(--bins [^)]*\)", "other edges on the page Columns"),
    (r"\((?=--[a-z])", "(at the command line: "),
)


def on_page(words: str) -> str:
    """A sentence as the pages say it."""
    for wrong, right in PLACES:
        words = re.sub(wrong, right, words)
    return words


def all_on_page(sentences: Iterable[str]) -> list[str]:
    """The same of several."""
    return [on_page(words) for words in sentences]
