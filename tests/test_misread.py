"""Logs that are easily misread (misread.py): nothing false is promised of them, and the right warning is given."""

from __future__ import annotations

import misread
import pytest

LOGS = [range(2), pytest.param(range(2, 5), marks=pytest.mark.slow)]


@pytest.mark.parametrize("seeds", LOGS, ids=str)
@pytest.mark.parametrize("way", misread.WAYS)
def test_nothing_false_is_promised_and_the_right_warning_is_given(way, seeds):
    # In benchmarks/promises.py --only reading each of these holds in 95% of 200 logs or more; here in all of a few.
    found = [misread.outcome(misread.WAYS[way](seed)) for seed in seeds]
    broken = [o for o in found if o.floor is not None and o.floor > o.truth and not o.conditional]
    assert broken == []
    assert all(o.named for o in found)


@pytest.mark.parametrize("seeds", LOGS, ids=str)
@pytest.mark.parametrize("problem", misread.PROBLEMS)
def test_where_bins_lose_information_no_error_is_printed_that_is_too_small(problem, seeds):
    found = [misread.outcome(misread.numbers(misread.PROBLEMS[problem], seed)) for seed in seeds]
    assert all(o.error is None or abs(o.expected - o.truth) <= 3.0 * o.error for o in found)
    assert not any(o.floor is not None and o.floor > o.truth for o in found)


def test_the_machines_that_break_are_worth_what_they_are_worth_once_their_end_is_said():
    situation = misread.failure_ends(0, "terminal")
    told = misread.outcome(situation)
    assert abs(told.expected - told.truth) <= 4.0 * told.error
    assert told.floor is None or told.floor <= told.truth
