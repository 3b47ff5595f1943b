"""What people look at: the page holds what was learned, needs nothing from outside, and takes any label."""

from __future__ import annotations

import dataclasses
import io
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import dualq
from dualq import problems
from dualq.report import charts, page
from dualq.report.html import report_html
from dualq.report.terminal import print_fit
from dualq.report.words import about, changed, evidence, named, number, percent, said


@pytest.fixture(scope="module")
def fit():
    return dualq.learn(problems.inventory(capacity=6, lot=3).record(5_000, seed=0), discount=0.9)


class Words(HTMLParser):
    """The text of a page, and the attributes through which it could load something."""

    def __init__(self, text):
        super().__init__()
        self.words, self.tags, self.outside = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.outside += [v for k, v in attrs if k in ("src", "href") and v and not v.startswith("#")]

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def test_the_page_says_why_floor_and_ceiling_are_apart_and_what_to_log(fit):
    promise = fit.certificate
    text = Words(report_html(fit)).text
    assert f"Floor and ceiling are {number(promise.regret)} apart" in text
    assert promise.regret == pytest.approx(sum(promise.causes.values()))
    assert f"{number(promise.causes['unsupported pairs'])} is due to pairs that were never logged" in text
    first = promise.wanted(1)[0]
    stock, season = first.state
    assert f"to log {about(first.rows)} more of stock {stock}, season {season}, " in text
    assert fit.summary()["certificate"]["wanted"][0]["rows"] == first.rows


def test_the_page_needs_nothing_from_outside(fit):
    text = report_html(fit)
    words = Words(text)
    assert words.outside == []
    assert "script" not in words.tags
    assert "@import" not in text
    assert not re.search(r"url\(\s*['\"]?(?!#)", text)


def test_the_page_and_the_terminal_say_the_same_numbers(fit):
    html = Words(report_html(fit)).text
    stream = io.StringIO()
    print_fit(fit, Console(file=stream, width=400))
    terminal = " ".join(stream.getvalue().split())
    for words in (
        number(fit.expected.value),
        number(fit.logged.value),
        number(fit.certificate.lower),
        f"{fit.counts.total:,}",
        fit.reason,
    ):
        assert words in html
        assert words in terminal
    for change in fit.changes():
        assert percent(change["time_share"]) in html
        assert percent(change["time_share"]) in terminal


def printed(fit):
    stream = io.StringIO()
    print_fit(fit, Console(file=stream, width=400))
    return " ".join(stream.getvalue().split())


def test_what_the_tests_say_of_the_assumptions_stands_beside_them(fit):
    html, terminal = Words(report_html(fit)).text, printed(fit)
    assert len(evidence(fit)) == 7  # cycle, recent, memory; behaviour, dynamics, rewards; and the state before
    for words in evidence(fit):
        assert words in html
        assert words in terminal
    assert html.index("What is proven rests on:") < html.index("What the log itself says of that:")
    assert fit.summary()["coverage"]["memory"]["p_value"] == fit.coverage.memory.p_value


def swapped(late):
    """A log of two states: A leads to the good one nine times in ten, B once; from the row `late` on it is as B was."""
    rng, s, rows = np.random.default_rng(5), 0, []
    for t in range(4000):
        a = int(rng.integers(2))
        rows.append((s, a, float(s)))
        s = int(rng.random() < (0.9 if (a == 0) == (t < late) else 0.1))
    s, a, r = map(np.array, zip(*rows, strict=True))
    return dualq.Log(s[:-1], a[:-1], r[:-1], s[1:], 2, 2)


def test_nothing_is_promised_where_the_log_speaks_against_what_a_promise_rests_on():
    drifted, steady = (dualq.learn(swapped(late), discount=0.9) for late in (2400, 4000))
    assert (drifted.contradicted, steady.contradicted) == (("dynamics",), ())  # a false alarm has 2%; seeds are fixed
    assert drifted.summary()["contradicted"] == ["dynamics"]
    # In the system as it is now the policy is worth less than the floor: the numbers hold of a system without change.
    P = np.array([[[0.9, 0.1], [0.1, 0.9]]] * 2)
    now = float(drifted.start @ drifted.policy.value(dualq.MDP(P, np.array([[0.0] * 2, [1.0] * 2]), discount=0.9)))
    assert drifted.certificate.informative
    assert now < drifted.certificate.lower
    floor = f"the recommended policy earns at least {number(drifted.certificate.lower)}"
    for page_of in (printed, lambda fit: Words(report_html(fit)).text):
        words = page_of(drifted)
        assert "Nothing is promised, as the log says that the system changed. Were it not so, this would be" in words
        assert f"would be promised with 95% confidence, all of it together: {floor}" in words
        assert "Promised" not in words
        assert "the state says all that matters; the log says that the system changed." in words  # of the estimates
        assert "Promised with 95% confidence" in page_of(steady)
        assert "Nothing is promised" not in page_of(steady)
    top = Words(report_html(drifted)).text.split("What it is worth")[0]
    assert top.index("the same action led elsewhere") < top.index("recommended policy")
    assert "floor, not promised" in top
    assert "would be 95% sure, but the log says that the system changed" in top
    assert "the policy is worth at least this" not in top
    assert "floor, 95% sure" in Words(report_html(steady)).text


def test_no_limit_is_promised_either_where_the_log_speaks_against_it():
    for late, kept in ((2400, False), (4000, True)):
        rows = swapped(late)
        costly = dualq.Log(*rows.rows[:4], 2, 2, costs={"pain": (rows.action == 0).astype(float)})
        fit = dualq.learn(costly, discount=0.9, limits={"pain": 0.8})
        assert [limit.basis for limit in fit.limits] == ["proven"]
        assert fit.limits_kept is kept
        assert fit.summary()["limits_kept"] is kept
        assert ("Proven: with 95% confidence" in printed(fit)) is kept


def test_a_state_that_misses_something_is_no_ground_for_a_promise():
    # 0 0 1 1 0 0 1 1 ..., with a slip now and then: what follows 0 depends on what was before it.
    rng, s = np.random.default_rng(0), [0, 0]
    while len(s) < 800:
        s.append(1 - s[-2] if rng.random() < 0.7 else int(rng.integers(2)))
    s = np.array(s)
    fit = dualq.learn(dualq.Log(s[:-1], np.zeros(799, int), s[:-1].astype(float), s[1:], 2, 1), discount=0.5)
    assert fit.contradicted == ("memory",)
    assert "the log says that the state misses something" in printed(fit)
    assert "Promised" not in printed(fit)


def test_lines_of_nothing_are_not_shown():
    # Both actions in both states, 30 rows of each: nothing is thin, and every state has a choice.
    rows = {"s": [0, 0, 1, 1] * 30, "a": [0, 1] * 60, "r": [1.0, 0.0] * 60, "n": [0, 1, 1, 0] * 30}
    fit = dualq.learn(dualq.read_log(rows, state="s", action="a", reward="r", next_state="n"), discount=0.5)
    terminal = printed(fit)
    assert "4 of 4 pairs of state and action were logged note" in terminal.replace("  ", " ")
    assert "no choice" not in terminal
    assert "one action only" not in terminal


def test_a_gain_within_its_error_is_said_to_be():
    rng = np.random.default_rng(2)
    a = rng.random(60) < 0.4
    r = np.where(a, 0.2, 0.0) + rng.normal(size=60)  # a hardly better action, a few rows, much noise
    words = {"state": "s", "action": "a", "reward": "r", "time": "row"}
    doubtful = dualq.learn(dualq.read_log({"s": [0] * 60, "a": a.astype(int), "r": r}, **words), discount=0.5)
    clear = dualq.learn(dualq.read_log({"s": [0] * 60, "a": a.astype(int), "r": r + 9 * a}, **words), discount=0.5)
    for fit, doubt in ((doubtful, True), (clear, False)):
        gain = fit.expected.value - fit.logged.value
        assert fit.num_changes == 1
        assert (gain <= np.hypot(fit.expected.error, fit.logged.error)) == doubt
        assert ("this log does not tell whether the policy is better" in printed(fit)) == doubt
        assert ("this log does not tell whether the policy is better" in Words(report_html(fit)).text) == doubt


def test_a_clear_loss_is_called_a_loss(fit):
    """Three changes: a gain, one within its error, and a loss."""
    rows = [{"gain": gain, "gain_error": 0.1} for gain in (4.0, -0.05, -3.54)]
    fake = SimpleNamespace(changes=lambda most: rows, num_changes=3, counts=fit.counts, limits=())
    words = changed(fake, 3)
    assert "In 1 of these 3 it is within that error: the log does not tell whether it is one." in words
    assert "In 1 of these 3 it is a loss." in words
    fake.limits = ("some",)
    assert "In 1 of these 3 it is a loss, for the sake of the limits." in changed(fake, 3)


def test_states_that_are_practically_never_seen_are_not_among_the_changes():
    # 0 -> 1 -> 0 ... is what pays and what the policy does; 2 is left for 0 and entered from nowhere.
    rng = np.random.default_rng(0)
    s, a = np.tile([0, 1, 2], 200), (rng.random(600) < 0.3).astype(int)
    log = dualq.Log(s, a, a.astype(float), np.tile([1, 0, 0], 200), 3, 2)
    for weight, seen in ((0.0, [0, 1]), (0.2, [0, 1, 2])):
        fit = dualq.learn(log, discount=0.5, start={0: 1.0 - weight, 2: weight}, certificate=None)
        assert fit.num_changes == 3
        assert sorted(row["state"]["state"] for row in fit.changes()) == seen
        which = "The 2 where most time is spent:" if weight == 0.0 else "All of them:"
        assert f"In 3 of 3 states the policy prefers another action than the log did most often. {which}" in printed(
            fit
        )


def test_labels_of_people_cannot_become_markup():
    evil = "<script>alert('x')</script> [bold]&"
    rows = {"s": [evil, "b"] * 20, "a": ["<i>", "[red]"] * 20, "r": [1.0, 0.0] * 20}
    fit = dualq.learn(dualq.read_log(rows, state="s", action="a", reward="r", time="row"), discount=0.5)
    words = Words(report_html(fit))
    assert "script" not in words.tags
    assert "i" not in words.tags
    stream = io.StringIO()
    print_fit(fit, Console(file=stream, width=400))  # Rich would raise on a stray closing tag


def test_a_heat_map_has_a_label_for_every_cell(fit):
    svg = charts.heat_map(
        [
            {"x": x, "y": y, "panel": p, "action": str(x * y)}
            for x in range(3)
            for y in range(4)
            for p in ("one", "two")
        ],
        "across",
        "down",
        [str(n) for n in (0, 1, 2, 3, 4, 6)],
    )
    labels = [w for w in Words(svg).words if w.strip()]
    for action, cells in (("6", 1), ("4", 1), ("3", 1), ("2", 2), ("1", 1), ("0", 6)):
        # A cell in each of two panels, one in the legend; and axes: x has 0..2 twice, y 0..3 once (they share it).
        axes = 2 * (action in "012") + (action in "0123")
        assert labels.count(action) == 2 * cells + 1 + axes, action


def test_labels_below_a_heat_map_do_not_run_into_each_other():
    words = ["recommended", "logged most often"]
    cells = [{"x": x, "y": y, "panel": "", "action": "run"} for x in words for y in range(3)]
    svg = charts.heat_map(cells, "", "wear", ["repair", "run"])
    places = [float(re.search(rf'translate\(([\d.]+),[\d.]+\)"[^>]*>{word}<', svg)[1]) for word in words]
    # Each stands in the middle of its cell. A letter of Helvetica is half as wide as high, on average: 5.5 pixels.
    assert places[1] - places[0] >= 5.5 * sum(map(len, words)) / 2


def test_a_narrow_page_has_drawings_at_their_own_size_and_no_wide_table(fit):
    html = report_html(fit)
    narrow = html.split("(max-width: 46rem) {")[1].split("@media")[0]
    assert "svg { max-width: none; }" in narrow
    widths = [float(width) for width in re.findall(r'<svg[^>]* width="([\d.]+)"', html)]
    worth, _, pairs = widths  # the heat map between them may be as wide as its states are many: its box scrolls
    assert max(worth, pairs) <= 420 - 2 * 20  # pixels of a telephone, less the margins of the page
    changes = html.split("<h2>What changes</h2>")[1].split("</section>")[0]
    assert "<table class=stack>" in changes
    assert 'data-name="gain"' in changes


def test_columns_may_have_any_name():
    # Names with a meaning to Vega, and names that the charts use themselves.
    for names in (("a.b", "c[0]"), ("policy", "dark"), ("action", "panel")):
        rows = {names[0]: [0, 1] * 40, names[1]: ["u", "u", "v", "v"] * 20, "do": [7, 8] * 40, "r": [1.0, 0.0] * 40}
        fit = dualq.learn(dualq.read_log(rows, state=list(names), action="do", reward="r", time="row"), discount=0.5)
        words = Words(report_html(fit)).words
        for name in names:
            assert name in words  # the title of an axis
        assert words.count("7") + words.count("8") >= 8 + 2  # a label for every state in both panels, and the legend


def test_a_table_aligns_numbers_and_escapes_text():
    html = page.table(["name", "n"], [["<b>", 1234], ["c", 5]])
    assert "&lt;b&gt;" in html
    assert "<td class=number>1,234</td>" in html


def test_a_table_may_stack_its_cells_with_their_names():
    html = page.table(['a "b"', "n"], [["<b>", 1234]], stack=True)
    assert '<td data-name="a &quot;b&quot;">&lt;b&gt;</td><td class=number data-name="n">1,234</td>' in html
    assert "data-name" not in page.table(["name"], [["x"]])


def test_a_ceiling_at_the_end_of_the_range_is_no_tile(fit):
    low, high = fit.certificate.value_range
    for share, shown in ((0.6, True), (0.995, False)):
        upper = low + share * (high - low)
        floor = min(fit.certificate.lower, upper)
        promise = dataclasses.replace(fit.certificate, upper=upper, policy_upper=floor, lower=floor)
        assert promise.informative
        html = report_html(dataclasses.replace(fit, certificate=promise))
        assert ("no policy is worth more" in html) == ("ceiling, 95% sure" in html) == shown
        assert "that bar is open to the right" in html


def test_an_open_interval_has_an_arrow_in_place_of_its_end():
    row = {"name": "one", "low": 0.0, "high": 1.0}
    closed, opened = (charts.intervals([row | {"open": is_open}], "x") for is_open in (False, True))
    ticks = [svg.count('aria-roledescription="tick"') for svg in (closed, opened)]
    assert ticks == [2, 1]


@pytest.mark.parametrize(
    ("rows", "words"), [(6_123_456, "6,100,000"), (1_960, "2,000"), (57, "57"), (4, "4"), (123, "120")]
)
def test_rows_that_are_needed_have_two_digits(rows, words):
    assert about(rows) == words


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.5, "50%"), (0.0123, "1.2%"), (0.0, "0%"), (1.0, "100%"), (0.0996, "10%"), (7.6e-7, "< 0.01%")],
)
def test_percent(share, words):
    assert percent(share) == words


def test_numbers_and_labels_in_words():
    assert number(1234.5678) == "1,235"
    assert number(-0.123456) == "-0.1235"
    assert number(123456.7) == "123,457"
    assert said({"order": 5}) == "5"
    assert said({"stock": 3, "season": "winter"}) == "stock 3, season winter"
    assert named({"glucose": ">= 57.13"}) == "glucose >= 57.13"


def test_thousands_are_written_alike_everywhere():
    s = np.arange(3000) % 1500
    log = dualq.Log(s, np.repeat([0, 1], 1500), np.ones(3000), (s + 1) % 1500, 1500, 2)
    fit = dualq.learn(log, discount=0.5, certificate=None)
    assert "of 1,500 states in the log 1,500 saw more than one action" in fit.reason
    assert "1500" not in printed(fit)


def test_the_bars_count_every_pair(fit):
    words = [w for w in Words(report_html(fit)).words if w.strip()]
    bins = [(0, 0), (1, 9), (10, 99), (100, 999), (1000, np.inf)]
    for low, high in bins:
        count = int(((fit.counts.visits >= low) & (fit.counts.visits <= high)).sum())
        assert f"{count:,}" in words
