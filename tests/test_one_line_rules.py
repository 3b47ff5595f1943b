"""Rules in one line: what they decide is what Python would, and nothing else can be written."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dualq.base.errors import LogError
from dualq.offline.one_line_rules import is_rule, parsed

COLUMNS = {"stock": list(range(6)), "season": ["winter", "summer"]}
STATES = [dict(zip(COLUMNS, values, strict=True)) for values in itertools.product(*COLUMNS.values())]
TABLE = {name: np.array([state[name] for state in STATES], object) for name in COLUMNS}

RULES = [
    "6 if stock <= 1 else 0",
    "6 - stock if stock < 6 and not season == 'summer' else 0",
    "12 // stock if stock > 0 else 0",
    "12 / stock if stock and 12 / stock > 3 else -1",
    "stock * 2 % 5 if 1 < stock <= 4 else stock + 1",
    "4 if season in ('winter', 'spring') else 2 if stock not in (1, 3) else 0",
    "1 if stock == 0 or 6 / stock > 2 else +stock",
    "season",
    "3",
    "stock != 2",
]


@pytest.mark.parametrize("expression", RULES)
def test_a_rule_decides_as_python_does(expression):
    rule = parsed(f"order = {expression}", tuple(COLUMNS), ("order",))
    assert rule(TABLE).tolist() == [eval(expression, {}, state) for state in STATES]


ODD = ("stock level", "season/year", "a=b", "it's", "if")
NAMED = {name: np.array([i + j for j in range(4)], object) for i, name in enumerate(ODD)}


@pytest.mark.parametrize(
    ("rule", "expression"),
    [
        ("order = 6 if `stock level` <= 1 else 0", "6 if x[0] <= 1 else 0"),
        ("`order` = `a=b` * 2 - `stock level` if `it's` > 4 else `if`", "x[2] * 2 - x[0] if x[3] > 4 else x[4]"),
        (
            "order = '`stock level`' if `season/year` != 2 else _01",
            "'`stock level`' if x[1] != 2 else _01",
        ),
    ],
)
def test_a_name_in_backticks_may_have_spaces_and_signs(rule, expression):
    names = (*ODD, "_01")
    found = parsed(rule, names, ("order",))
    columns = NAMED | {"_01": np.array([70, 71, 72, 73], object)}
    rows = [[column[j] for column in columns.values()] for j in range(4)]
    assert found(columns).tolist() == [eval(expression, {}, {"x": row, "_01": row[5]}) for row in rows]
    assert is_rule(rule)
    assert is_rule("`a/b` = 3")


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("order = 6 if stock level <= 1 else 0", r"cannot be read .* \(write `stock level`, in backticks\)"),
        ("order = 6 if stock_level <= 1 else 0", r"at letter 14, .*did you mean `stock level`, in backticks\?"),
        ("order = 6 if `stok level` <= 1 else 0", r"names 'stok level' at letter 14, .*did you mean `stock level`"),
        ("order = 6 if `stock level <= 1 else 0", "cannot be read at letter 14"),
        ("order = 6 if 'ü' in ('Frühling',) else lager", "names 'lager' at letter 40"),
        ("order = `stock level` + " + 40 * "_", "at letter 25, which is no column"),
        ("order = 6 if `stock level`() <= 1 else 0", r"'`stock level`\(\) <= 1' at letter 14, which is not allowed"),
    ],
)
def test_what_is_wrong_about_an_odd_name_is_said_at_its_place(rule, said):
    with pytest.raises(LogError, match=said) as caught:
        parsed(rule, ODD, ("order",))
    assert "\n" not in str(caught.value)


REFUSED = {
    "order = max(0, 6 - stock)": "'max\\(0, 6 - stock\\)' at letter 9.*functions cannot be called",
    "order = __import__('os').system('ls')": "at letter 9, which is not allowed",
    "order = stock.real": "a dot is only for decimals",
    "order = stock[0]": "no indices",
    "order = 9 ** 9 ** 9": "no powers",
    "order = [x for x in (1,)]": "which is not allowed",
    "order = (lambda: 1)": "write the expression itself",
    "order = 3 if stock is 3 else 0": "compare with ==",
    "order = f'{stock}'": "which is not allowed",
    "order = stok": "names 'stok' at letter 9.*did you mean 'stock'",
    "order = 3 if season == winter else 0": "names 'winter' at letter 24.*text stands in quotes",
    "order = 6 if stock <= 1": "an `if` needs its `else`",
    "order = (": "cannot be read at letter 9.*It may have columns of the state, numbers, text in quotes",
    "order = 6 if stock = 1 else 0": "compare with ==",
    "order = 6 if stock < 1 && season == 'winter' else 0": "write `and`",
    "order = 6 if stock < 1 || season == 'a&b' else 0": "write `or`",
    "order := 6": "with one =, and no colon",
    "ordr = 3": "the log's action is 'order'",
    "order = " + "-" * 60 + "1": "nested more than 50 deep",
    "order = " + "1 + " * 300 + "1": "letters",
}


@pytest.mark.parametrize("words", REFUSED)
def test_whatever_else_is_refused_with_its_place(words):
    with pytest.raises(LogError, match=REFUSED[words]) as error:
        parsed(words, tuple(COLUMNS), ("order",))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("order = season * 99999999", "counts with text"),
        ("order = '%99999999d' % stock", "counts with text"),
        ("order = 6 / (stock - stock)", "divides by zero"),
        ("order = 1 if season < 3 else 0", "text and numbers"),
    ],
)
def test_what_cannot_be_computed_is_said(words, why):
    with pytest.raises(LogError, match=why):
        parsed(words, tuple(COLUMNS), ("order",))(TABLE)


def test_a_path_is_no_rule():
    assert is_rule("order = 6 if stock <= 1 else 0")
    assert is_rule("order=stock")
    assert not any(map(is_rule, ("mine.csv", "run/", "runs/a=3/policy.csv", "x == 3")))


LABELS = {
    "order = 4 if season == 'sumer' else 0": "'sumer' at letter 24, which the log never has; did you mean 'summer'",
    "order = 4 if season in ('winter', 'july') else 0": "'july' at letter 35.*known are 'winter', 'summer'",
    "order = 4 if 'Winter' != season else 0": "did you mean 'winter'",
    "order = 4 if stock == '2' else 0": "it holds values such as 0, no text; leave out the quotes",
    "order = 4 if season < 2 else 0": "it holds text, such as 'winter'; put text in quotes",
}


@pytest.mark.parametrize("words", LABELS)
def test_a_value_that_a_column_never_has_is_refused(words):
    with pytest.raises(LogError, match=LABELS[words]):
        parsed(words, tuple(COLUMNS), ("order",), COLUMNS)


def test_numbers_that_the_log_never_had_may_be_compared_with():
    rule = parsed("order = 4 if stock == 99 or season >= 't' else 0", tuple(COLUMNS), ("order",), COLUMNS)
    assert rule(TABLE).tolist() == [4 if state["season"] == "winter" else 0 for state in STATES]
