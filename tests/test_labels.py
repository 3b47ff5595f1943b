"""Labels: places, types, and what is said when one is not there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualq.base.errors import ModelError
from dualq.base.labels import Labels, as_labels
from dualq.base.wording import nearest, sentence


@given(st.lists(st.one_of(st.integers(), st.text()), unique=True))
def test_index_and_getitem_are_inverse(values):
    labels = Labels(values)
    assert [labels.index(value) for value in values] == list(range(len(values)))
    assert [labels[i] for i in range(len(values))] == values
    assert [type(v) for v in labels] == [type(v) for v in values]


def test_types_are_kept_apart():
    labels = Labels(["3", 3, "winter"])
    assert (labels.index("3"), labels.index(3)) == (0, 1)
    assert 3 in labels
    assert "4" not in labels


def test_numpy_values_become_plain():
    labels = Labels(np.array([5, 7]))
    assert [type(v) for v in labels] == [int, int]
    assert labels.index(np.int64(7)) == 1
    assert Labels([(np.int32(1), np.str_("a"))], ("x", "y")).index([1, "a"]) == 0


def test_a_count_stands_for_0_1_2():
    labels = Labels(4, "state")
    assert list(labels) == [0, 1, 2, 3]
    assert labels.index(3) == 3
    assert labels.index({"state": 2}) == 2
    assert labels == Labels([0, 1, 2, 3], "state")
    assert hash(labels) == hash(Labels([0, 1, 2, 3], "state"))
    with pytest.raises(ModelError, match="no state 4"):
        labels.index(4)


def test_several_columns():
    labels = Labels([(0, "winter"), (1, "winter"), (0, "summer")], ("stock", "season"))
    assert labels.index((0, "summer")) == labels.index({"season": "summer", "stock": 0}) == 2
    assert labels.columns() == {"stock": [0, 1, 0], "season": ["winter", "winter", "summer"]}
    assert labels.describe(1) == "stock=1, season='winter'"
    with pytest.raises(ModelError, match="give stock and season, and nothing else; got stock"):
        labels.index({"stock": 0})


def test_no_labels_of_several_columns_have_these_columns():
    assert Labels([], ("stock", "season")).columns() == {"stock": [], "season": []}


def test_one_column_is_bare():
    labels = Labels(["a", "b"], "mood")
    assert labels.index({"mood": "b"}) == labels.index("b") == labels.index(("b",)) == 1
    assert labels.columns() == {"mood": ["a", "b"]}
    assert labels.describe(0) == "mood='a'"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("wintr", r"no season 'wintr'; did you mean 'winter'\?"),
        ("monsoon", r"no season 'monsoon'; known are 'winter', 'spring', 'summer'$"),
    ],
)
def test_an_unknown_label_is_answered_with_a_near_one(asked, message):
    with pytest.raises(ModelError, match=message):
        Labels(["winter", "spring", "summer"], "season").index(asked)


def test_the_hint_keeps_the_type():
    with pytest.raises(ModelError, match=r"no state '3'; did you mean 3\?"):
        Labels(10).index("3")


def test_a_hint_is_given_only_where_names_are_alike():
    two = Labels([(3, "winter"), (30, "summer")], ("stock", "season"))
    for asked, message in (
        ((99, "winter"), r"known are 3, 30 for stock$"),  # 99 is not like 9, nor 30 like 3
        ((3, "wintr"), r"did you mean season 'winter'\?$"),
        ((3, "july"), r"known are 'winter', 'summer' for season$"),
        ((3, "summer"), r"known are \(3, 'winter'\), \(30, 'summer'\)$"),  # both exist, and never together
        ((None, "summer"), "; stock is missing$"),
        (7, "no stock and season 7; give 2 values: stock and season$"),
    ):
        with pytest.raises(ModelError, match=message):
            two.index(asked)
    many = Labels([(s, t) for s in (2, 5, 0, 7, 40, 6) for t in "abc" if (s, t) != (7, "b")], ("stock", "shift"))
    with pytest.raises(ModelError, match=r"; stock is known from 0 to 40, and 40 is the nearest$"):
        many.index((30, "a"))
    with pytest.raises(ModelError, match=r"known are \(2, 'b'\), \(5, 'b'\), \(0, 'b'\), \(7, 'a'\), \(7, 'c'\), "):
        many.index((7, "b"))  # those that differ in one column come first
    assert nearest("date", ["state", "stage"]) is None
    assert nearest("Profits", ["shop", "profit"]) == "profit"
    assert nearest("time", ["shop", "timestamp"]) == "timestamp"


def test_bad_labels_are_refused():
    with pytest.raises(ModelError, match="state label 'a' appears twice; labels must be distinct"):
        Labels(["a", "b", "a"])
    with pytest.raises(
        ModelError, match=r"label \(1, 2, 3\) at place 1 has 3 entries; 2 are needed, one per column x, y"
    ):
        Labels([(1, 2), (1, 2, 3)], ("x", "y"))
    with pytest.raises(ModelError, match="2 action labels were given for 3 actions"):
        as_labels(["a", "b"], 3, "action")


def test_labels_of_other_columns_differ():
    assert Labels(3, "state") != Labels(3, "action")
    assert Labels([0, 1]) != Labels([1, 0])
    assert repr(Labels(["a", "b"], "mood")) == "Labels(2 of mood: 'a', 'b')"


def test_a_sentence_begins_with_a_capital_unless_it_begins_with_a_name():
    assert sentence("no sign") == "No sign."
    assert sentence("is it so?") == "Is it so?"
    assert sentence("s: 'NA' in 2 rows", ["t", "s"]) == "s: 'NA' in 2 rows."
    assert sentence("step is a count", ["s", "step"]) == "step is a count."
    assert sentence("some rows are bad", ["s"]) == "Some rows are bad."
