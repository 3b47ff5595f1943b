"""What people look at: the page holds what was learned, needs nothing from outside, and takes any label."""

from __future__ import annotations

import dataclasses
import io
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import altair
import jsonschema
import numpy as np
import pytest
from rich.console import Console

import dualq
from dualq import problems
from dualq.app.report import charts, page
from dualq.app.report.html import policy_rules, report_html
from dualq.app.report.limit_words import guarantees
from dualq.app.report.rules import DEPTH, rules_of
from dualq.app.report.terminal import print_fit
from dualq.app.report.words import (
    about,
    because,
    brief,
    ceilings,
    changed,
    estimate,
    named,
    number,
    outwards,
    percent,
    said,
    small,
    verdict,
)
from dualq.offline.careful.selection_bias import Estimate


@pytest.fixture(scope="module")
def fit():
    return dualq.learn(problems.inventory(capacity=6, lot=3).record(60_000, seed=0), discount=0.8)


def believing(fit, careful):
    """The same fit with another opinion of what its policy earns, and no certificate."""
    modelled = dataclasses.replace(fit.modelled, careful=careful)
    solved = dataclasses.replace(fit.solved, modelled=modelled)
    return type(fit)(dataclasses.replace(fit.proven, solved=solved, certificate=None))


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
    for text in (Words(report_html(fit)).text, printed(fit)):
        assert f"By at most {number(promise.regret)}, as far as the log can tell: " in text
        assert promise.regret == pytest.approx(sum(promise.causes.values()))
        unseen = number(promise.causes["unsupported pairs"])
        assert f"{unseen} because some actions were never tried in their state" in text
        first = promise.wanted(1)[0]
        stock, season = first.state
        assert f"lower bound most: {about(first.rows)} more of stock {stock}, season {season}, " in text
    assert fit.summary()["certificate"]["wanted"][0]["rows"] == first.rows


@pytest.mark.parametrize("small_part", [0.05, 2.3e-3, 4e-4, 1e-9])
def test_the_causes_of_the_regret_add_up_as_they_are_written(fit, small_part):
    """Each number has four digits, so that three of them add up to the fourth within two units of its last digit."""
    shares = {"thin pairs": 0.87 - small_part, "unsupported pairs": 0.13, "reward noise": 0.0}
    shares["estimated distance to the best policy"] = small_part
    causes = {cause: share * 445.4 for cause, share in shares.items()}
    promise = dataclasses.replace(fit.certificate, lower=31.4, upper=476.8, causes=causes)
    [words] = [
        line for line in ceilings(type(fit)(dataclasses.replace(fit.proven, certificate=promise))) if "By at" in line
    ]
    parts = [float(part) for part in re.findall(r"([\d.]+(?:e-\d+)?) because", words)]
    assert sum(parts) == pytest.approx(445.4, abs=0.2)
    assert len(parts) == 2 + (small_part > 1e-4)
    assert "445.4" in words


def test_the_page_needs_nothing_from_outside(fit):
    text = report_html(fit)
    words = Words(text)
    assert words.outside == []
    assert "script" not in words.tags
    assert "@import" not in text
    assert not re.search(r"url\(\s*['\"]?(?!#)", text)


def test_the_page_and_the_terminal_say_the_same_numbers(fit):
    for page_of in (printed, lambda fit: Words(report_html(fit)).text):
        text = page_of(fit)
        for words in (
            f"expected to earn {estimate(fit.expected)}; what was done so far earns {estimate(fit.logged)}.",
            f"earns at least {number(fit.certificate.lower)} (and at most {number(fit.certificate.policy_upper)})",
            f"so far earns at most {number(fit.certificate.behaviour[1])}, if all of this is true:",
            f"{number(fit.certificate.behaviour[0])} to {number(fit.certificate.behaviour[1])}",
            f"{percent(fit.share_changed)} of decisions change, in {fit.num_changes} of ",
            f"No policy at all earns more than {number(fit.certificate.upper)}".lower(),
            f"{fit.counts.total:,}",
            fit.reason,
        ):
            assert words in text
        for change in fit.changes():
            gain = f"{change['gain']:.3g} ± {small(change['gain_error'])}"
            assert f"{percent(change['share'])} {percent(change['time_share'])} {gain} {change['worth']:.2g}" in text


def numbers_in(text):
    """All numbers of a text, without signs."""
    return {word.replace(",", "") for word in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?", text)}


def numbers_of(value):
    """Every number in plain values, as the pages may write it: to two to four digits, as a percentage."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        return set().union(*map(numbers_of, value)) if value else set()
    if isinstance(value, bool) or value is None:
        return set()
    if isinstance(value, str):
        return numbers_in(value)
    x = abs(float(value))
    written = [f"{x:.2g}", f"{x:.3g}", number(x), small(x), percent(x), str(value), f"{x:g}", f"{x:.0f}", f"{x:.6g}"]
    if x == int(x):
        written.append(about(int(x)))
    return set().union(*(numbers_in(word) for word in written))


def test_every_number_on_the_terminal_comes_from_the_fit(fit):
    """From the summary, but for a few that are sums and counts of it: each is named here."""
    promise, change = fit.certificate, fit.changes()
    visits = fit.counts.visits
    known = numbers_of(fit.summary()) | numbers_of([check.p_value for check in fit.evidence])
    known |= numbers_of([list(promise.value_range), fit.counts.reward_range, promise.regret, len(change)])
    known |= numbers_of([list(s.values()) for s in (row["state"] for row in change)])
    known |= numbers_of([visits.size, int((visits > 0).sum()), int(((visits > 0).sum(axis=1) == 1).sum())])
    known |= numbers_of([1.96, 10, 100, 19, 20])  # a quantile, "fewer than 10 rows", 100%, "19 times in 20"
    known |= {str(x) for x in numbers_of([int(visits.any(axis=1).sum())])}
    assert numbers_in(printed(fit)) - known == set()


def printed(fit):
    stream = io.StringIO()
    print_fit(fit, Console(file=stream, width=400))
    return " ".join(stream.getvalue().split())


def test_what_the_tests_say_of_the_assumptions_is_told(fit):
    assert {check.what for check in fit.evidence} >= {"behaviour", "dynamics", "rewards", "memory"}
    for text in (Words(report_html(fit)).text, printed(fit)):
        for check in fit.coverage.evidence:
            assert check.words[1:] in text
        for words in fit.certificate.assumptions[1:]:
            assert words[1:] in text
    assert fit.summary()["coverage"]["memory"]["p_value"] == fit.coverage.memory.p_value


def sentences(text):
    """A text cut where a sentence ends."""
    return re.split(r"(?<=[a-z\d)])\. (?=[A-Z])", text)


def test_conditions_stand_in_the_sentence_that_carries_the_guarantee(fit):
    assert fit.promised
    assert fit.certificate.informative
    assert len(fit.conditions) >= 2
    for text in (Words(report_html(fit)).text, printed(fit), Words(fit._repr_html_()).text):
        (one,) = [part for part in sentences(text) if "Guaranteed (95%):" in part]
        for clause in fit.conditions:
            assert clause in one
        assert f"at least {number(fit.certificate.lower)}" in one
    assert {f"- {clause}" for clause in fit.conditions} <= {
        line.strip(";.") for line in guarantees(fit)[0].splitlines()
    }


def swapped(late):
    """A log of two states: A leads to the good one nine times in ten, B once; from the row `late` on it is as B was."""
    rng, s, rows = np.random.default_rng(5), 0, []
    for t in range(4000):
        a = int(rng.integers(2))
        rows.append((s, a, float(s)))
        s = int(rng.random() < (0.9 if (a == 0) == (t < late) else 0.1))
    s, a, r = map(np.array, zip(*rows, strict=True))
    return dualq.ArrayLog(s[:-1], a[:-1], r[:-1], s[1:], 2, 2)


def test_nothing_is_guaranteed_where_the_log_speaks_against_what_a_guarantee_rests_on():
    drifted, steady = (dualq.learn(swapped(late), discount=0.9) for late in (2400, 4000))
    assert "dynamics" in drifted.contradicted
    assert steady.contradicted == ()  # a false alarm has a few percent; seeds are fixed
    assert drifted.summary()["contradicted"] == list(drifted.contradicted)
    # In the system as it is now the policy is worth less than the floor: the numbers hold of a system without change.
    P = np.array([[[0.9, 0.1], [0.1, 0.9]]] * 2)
    now = float(drifted.start @ drifted.policy.value(dualq.MDP(P, np.array([[0.0] * 2, [1.0] * 2]), discount=0.9)))
    assert drifted.certificate.informative
    assert now < drifted.certificate.lower
    for page_of in (printed, lambda fit: Words(report_html(fit)).text, lambda fit: Words(fit._repr_html_()).text, repr):
        words, other = page_of(drifted), page_of(steady)
        assert "Nothing is guaranteed: the system changed." in words
        assert not re.search(r"(?<!Nothing is )(?<!not )guaranteed", words, re.IGNORECASE)
        assert "Guaranteed (95%)" in other
        assert "Nothing is guaranteed" not in other
    for text in (printed(drifted), Words(report_html(drifted)).text):
        assert "The log shows that the system changed, so the numbers below cannot be trusted." in text
        assert text.index("The same action led to different states") < text.index("What the new policy would change")
        assert "bounds, 95%, not guaranteed" in text
        assert "What to do " not in text.split("Details")[0].replace("What to do, learned", "")


def test_what_bounds_rest_on_is_told_where_some_are_guaranteed(fit):
    """Not where nothing is; and how strong a hidden cause would have to be is no condition."""
    rests = "What the bounds rest on"
    cause = "Decisions may have been based on something that the state lacks"
    for page_of in (printed, lambda fit: Words(report_html(fit)).text):
        text = page_of(fit)
        assert text.index("Why") < text.index(cause) < text.index("Details") < text.index(rests)
        assert rests not in page_of(believing(fit, fit.careful))
    rows = {"s": [0, 0, 0, 1, 1], "a": [0, 1, 0, 1, 0], "r": [1.3, 2.0, 1.0, 1.6, 1.2]}
    wide = dualq.learn(rows, state="s", action="a", reward="r", time="row", reward_range=(0.0, 9.0), discount=0.5)
    assert not wide.withheld
    assert not wide.certificate.informative
    assert not wide.alternatives
    assert rests not in printed(wide)


def test_two_reasons_for_withholding_are_told_apart():
    assert because("Nothing is guaranteed", ["it rained"]) == "Nothing is guaranteed: it rained."
    found = because("Nothing is guaranteed", ["the system changed near the end", "it rained", "the system changed"])
    assert found == "Nothing is guaranteed, for 2 reasons: (1) it rained; (2) the system changed."


def test_with_few_rows_nothing_is_guaranteed_and_a_range_is_suggested():
    rows = {"s": [0, 0, 0, 1, 1], "a": [0, 1, 0, 1, 0], "r": [1.3, 2.0, 1.0, 1.6, 1.2]}
    fit = dualq.learn(dualq.read_log(rows, state="s", action="a", reward="r", time="row"), discount=0.5)
    assert not fit.promised
    for text in (printed(fit), Words(report_html(fit)).text):
        assert "Nothing is guaranteed: too few rows to know how low or high a reward can be." in text
        assert "rewards always lie between, say, 1 and 2, add --reward-range=1,2." in text
        assert not re.search(r"(?<!Nothing is )(?<!not )guaranteed", text, re.IGNORECASE)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-17.6, 23.84, "-20,25"),
        (0.0, 1.0, "0,1"),
        (1.0, 1.0, "1,1"),
        (-3.0, 1234.0, "-500,1500"),
        (0.12, 0.13, "0.12,0.13"),
    ],
)
def test_a_range_is_rounded_outwards(low, high, words):
    assert outwards(low, high) == words
    below, above = map(float, outwards(low, high).split(","))
    assert below <= low <= high <= above


def test_an_estimate_has_the_digits_that_its_error_asks_for():
    """What is left off the value is less than its error; the same words in Python as on the terminal."""
    rng = np.random.default_rng(0)
    for _ in range(2_000):
        value = float(rng.normal() * 10.0 ** rng.uniform(-3.0, 7.0))
        e = Estimate(value, abs(value) * float(10.0 ** rng.uniform(-6.0, 1.0)))
        shown, error = str(e).replace(",", "").split(" ± ")
        assert "e+" not in shown
        assert abs(float(shown) - value) <= e.standard_error
        assert float(error) == pytest.approx(e.standard_error, rel=0.06)
        assert str(e) == estimate(e)
    assert str(Estimate(20_230.4, 2.5)) == "20,230 ± 2.5"
    assert str(Estimate(1_234.567, 0.02)) == "1,234.567 ± 0.02"
    assert str(Estimate(38.914, 0.41)) == "38.91 ± 0.41"
    assert str(Estimate(38.914, None)) == "38.91"


def test_no_error_is_never_printed_as_nan(fit):
    careful = dataclasses.replace(
        fit.careful, **{name: Estimate(getattr(fit, name).value, None) for name in ("expected", "logged")}
    )
    blind = believing(fit, careful)
    for text in (printed(blind), Words(report_html(blind)).text, repr(blind), Words(blind._repr_html_()).text):
        assert "nan" not in re.findall(r"\w+", text)
    assert "No error can be given: " in verdict(blind)
    assert blind.verdict == "cannot tell"


@pytest.mark.parametrize(
    ("expected", "logged", "words"),
    [
        ((9.0, 1.0), (4.0, 1.0), "Better. The new policy is expected to earn 9 ± 1; what was done so far earns 4 ± 1."),
        ((4.5, 1.0), (4.0, 1.0), "Cannot tell. "),
        ((1.0, 1.0), (9.0, 1.0), "Do not use. "),
        ((4.0, 0.01), (4.0, 0.01), "No worse. "),
    ],
)
def test_each_verdict_has_its_sentence_and_its_numbers(fit, expected, logged, words):
    careful = dataclasses.replace(fit.careful, expected=Estimate(*expected), logged=Estimate(*logged))
    one = believing(fit, careful)
    assert verdict(one).startswith(words)
    assert f"{estimate(one.expected)}; what was done so far earns {estimate(one.logged)}" in verdict(one)
    assert printed(one).startswith(verdict(one))
    assert repr(one).startswith(
        f"Fit: {one.verdict}. Expected {estimate(one.expected)}, so far {estimate(one.logged)}."
    )
    if one.verdict == "cannot tell":
        assert f"The difference, 0.5 ± {small(np.hypot(1.0, 1.0))}, is too uncertain" in verdict(one)
    if one.verdict == "do not use":
        assert f"The difference, -8 ± {small(np.hypot(1.0, 1.0))}, is a loss." in verdict(one)


def test_no_limit_is_guaranteed_either_where_the_log_speaks_against_it():
    for late, kept in ((2400, False), (4000, True)):
        rows = swapped(late)
        costly = dualq.ArrayLog(*rows.rows[:4], 2, 2, costs={"pain": (rows.action == 0).astype(float)})
        fit = dualq.learn(costly, discount=0.9, limits={"pain": 0.8})
        assert [limit.basis for limit in fit.limits] == ["proven"]
        assert fit.limits_kept is kept
        assert fit.summary()["limits_kept"] is kept
        assert ("its pain is at most 0.8" in printed(fit)) is kept
        assert ("Not guaranteed: that pain is at most 0.8." in printed(fit)) is not kept
        if kept:
            (one,) = [part for part in sentences(" ".join(guarantees(fit))) if "Guaranteed (95%):" in part]
            assert "no pain lies outside 0 to 1" in one
            assert all(clause in one for clause in fit.conditions)


def test_a_state_that_misses_something_is_no_ground_for_a_promise():
    # 0 0 1 1 0 0 1 1 ..., with a slip now and then: what follows 0 depends on what was before it.
    rng, s = np.random.default_rng(0), [0, 0]
    while len(s) < 800:
        s.append(1 - s[-2] if rng.random() < 0.7 else int(rng.integers(2)))
    s = np.array(s)
    fit = dualq.learn(dualq.ArrayLog(s[:-1], np.zeros(799, int), s[:-1].astype(float), s[1:], 2, 1), discount=0.5)
    assert "memory" in fit.contradicted
    assert re.search(r"Do not use\. The log shows that .*the state misses something, so the numbers", printed(fit))
    assert re.search(r"Nothing is guaranteed: .*the state misses something\.", printed(fit))


def test_lines_of_nothing_are_not_shown():
    # Both actions in both states, 30 rows of each: nothing is thin, and every state has a choice.
    rows = {"s": [0, 0, 1, 1] * 30, "a": [0, 1] * 60, "r": [1.0, 0.0] * 60, "n": [0, 1, 1, 0] * 30}
    fit = dualq.learn(dualq.read_log(rows, state="s", action="a", reward="r", next_state="n"), discount=0.5)
    terminal = printed(fit)
    assert "4 of 4 combinations of state and action note" in terminal.replace("  ", " ")
    assert "no choice" not in terminal
    assert "only one action" not in terminal


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
        assert (gain <= np.hypot(fit.expected.standard_error, fit.logged.standard_error)) == doubt
        for text in (printed(fit), Words(report_html(fit)).text):
            assert ("is too uncertain to tell which is better" in text) == doubt


def test_a_clear_loss_is_called_a_loss(fit):
    """Three changes: a gain, one within its error, and a loss."""
    rows = [{"gain": gain, "gain_error": 0.1} for gain in (4.0, -0.05, -3.54)]
    fake = SimpleNamespace(changes=lambda most: rows, num_changes=3, share_changed=0.5, counts=fit.counts, limits=())
    words = changed(fake, 3)
    assert "In 1 of these 3 it is within its error, so it may be none." in words
    assert "In 1 of these 3 it is a loss." in words
    fake.limits = ("some",)
    assert "In 1 of these 3 it is a loss, for the sake of the limits." in changed(fake, 3)


def test_nothing_changes_is_said_only_where_nothing_does():
    """Mixing nine to one beats nothing else, but the most frequent action is the best one in every state."""
    rng = np.random.default_rng(3)
    a = (rng.random(400) < 0.3).astype(int)  # seven in ten: the better action already
    rows = {"s": [0] * 400, "a": a, "r": np.where(a, 0.0, 5.0)}
    words = {"state": "s", "action": "a", "reward": "r", "time": "row"}
    fit = dualq.learn(dualq.read_log(rows, **words), discount=0.5)
    assert fit.share_changed == pytest.approx(a[:-1].mean())
    assert f"{percent(a[:-1].mean())} of decisions change, in 1 of 1 state." in printed(fit)
    assert "Nothing changes" not in printed(fit)
    same = dualq.learn(dualq.read_log(rows | {"a": [0] * 400, "r": rng.normal(size=400)}, **words), discount=0.5)
    assert same.share_changed == 0.0
    assert "Nothing changes: the new policy decides as was done so far." in printed(same)


def test_states_that_are_practically_never_seen_are_not_among_the_changes():
    # 0 -> 1 -> 0 ... is what pays and what the policy does; 2 is left for 0 and entered from nowhere.
    rng = np.random.default_rng(0)
    s, a = np.tile([0, 1, 2], 200), (rng.random(600) < 0.3).astype(int)
    log = dualq.ArrayLog(s, a, a.astype(float), np.tile([1, 0, 0], 200), 3, 2)
    for weight, seen in ((0.0, [0, 1]), (0.2, [0, 1, 2])):
        fit = dualq.learn(log, discount=0.5, start={0: 1.0 - weight, 2: weight}, certificate=None)
        assert fit.num_changes == 3
        assert sorted(row["state"]["state"] for row in fit.changes()) == seen
        which = "The 2 worth most: gain" if weight == 0.0 else "Gain"
        share = percent(fit.share_changed)
        assert f"{share} of decisions change, in 3 of 3 states. {which} is how much more" in printed(fit)


def test_labels_of_people_cannot_become_markup():
    evil = "<script>alert('x')</script> [bold]&"
    rows = {"s": [evil, "b"] * 20, "a": ["<i>", "[red]"] * 20, "r": [1.0, 0.0] * 20}
    fit = dualq.learn(dualq.read_log(rows, state="s", action="a", reward="r", time="row"), discount=0.5)
    words = Words(report_html(fit))
    assert "script" not in words.tags
    assert "i" not in words.tags
    stream = io.StringIO()
    print_fit(fit, Console(file=stream, width=400))  # Rich would raise on a stray closing tag


def test_a_policy_map_has_a_cell_for_every_state_and_marks_those_with_few_rows(fit):
    html = charts.policy_map(
        [(name, [charts.Cell(x, y, str(x * y), 5 * x) for x in range(3) for y in range(4)]) for name in ("one", "two")],
        "across",
        "down",
        [str(n) for n in (0, 1, 2, 3, 4, 6)],
    )
    for action, cells in (("6", 1), ("4", 1), ("3", 1), ("2", 2), ("1", 1), ("0", 6)):
        assert len(re.findall(rf">{action}</span></td>", html)) == 2 * cells, action
    # 0 and 5 rows are few, 10 are not: two of the three columns, four states each, in both panels.
    assert html.count('class="thin"') == 2 * 2 * 4
    colours = re.findall(r"background-color:(#\w+)", html)
    assert len(set(colours)) == 6  # one for each action
    visits, chosen = fit.counts.visits, fit.policy.matrix.argmax(axis=1)
    acted = visits.any(axis=1)
    thin = sum(
        int((visits[np.arange(len(acted)), choice][acted] < 10).sum()) for choice in (chosen, visits.argmax(axis=1))
    )
    assert report_html(fit).count('class="thin"') == thin


def test_charts_are_as_wide_as_the_text_on_every_screen(fit):
    html = report_html(fit)
    style = html.split("<style>")[1].split("</style>")[0]
    assert re.search(r"svg\.chart \{[^}]* width: 100%; height: auto;", style)
    boxes = re.findall(r'<svg[^>]* class="chart"[^>]* viewBox="0 0 (\d+) (\d+)"', html)
    assert len(boxes) == html.count("<svg") == 4  # two drawings, for wide screens and for narrow ones each
    assert [int(width) for width, _ in boxes] == [charts.WIDE, charts.NARROW] * 2
    # Dark screens: every colour of a drawing is white paper or an ink, which the style turns.
    assert "prefers-color-scheme: dark" in style
    drawings = "".join(re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL))
    inks = set(re.findall(r'(?:fill|stroke)="([^"]+)"', drawings)) - {"none", "white"}
    assert inks == {charts.INK, charts.ACCENT, charts.SURE, charts.MUTED, charts.PALE}
    for ink in inks:
        assert re.search(rf'svg\.chart \[fill="{ink}"\] {{ fill: var\(--\w+\); }}', style)
        assert re.search(rf'svg\.chart \[stroke="{ink}"\] {{ stroke: var\(--\w+\); }}', style)
    assert "thead { display: table-header-group; }" in style  # the names of the columns stand on every printed page
    # On a narrow screen three columns of the changes are left out, and what is left fits.
    narrow = style.split("(max-width: 46rem) {")[1].split("@media")[0]
    assert "th.wide, td.wide { display: none; }" in narrow
    assert html.count('<th class="number wide">') == 3


def test_intervals_stand_where_their_numbers_are():
    rows = [
        charts.Interval("one", 0.0, 10.0),
        charts.Interval("two", 2.5, 7.5, value=5.0, sure=True),
    ]
    svg = charts.intervals(rows)
    line = r'<line transform="translate\(([\d.]+),[\d.]+\)" x2="([\d.]+)" y2="0" stroke="(#\w+)"'
    (first, second), dot = re.findall(line, svg), re.search(r'<path transform="translate\(([\d.]+),[^>]*"(#\w+)"', svg)
    start, width = float(first[0]), float(first[1])
    assert width > 0.9 * charts.WIDE
    assert float(second[0]) - start == pytest.approx(width / 4, abs=0.1)
    assert float(second[1]) == pytest.approx(width / 2, abs=0.1)
    assert float(dot[1]) - start == pytest.approx(width / 2, abs=0.1)
    assert (first[2], second[2], dot[2]) == (charts.ACCENT, charts.SURE, charts.SURE)  # what is sure: another ink


def test_every_specification_is_valid_by_the_schema_of_vega_lite():
    point = {"limit": 0.1, "value": 2.0, "error": 0.5, "low": 1.0, "high": 3.0}
    chosen = {"cost": 0.1, "value": 2.0, "error": 0.5, "cost_error": 0.01}
    specs = {
        "intervals": charts.intervals_spec([charts.Interval("one", 0.0, 1.0, 0.5), charts.Interval("two", 0.0, 1.0)]),
        "bars": charts.bars_spec([charts.Bar("one", 1), charts.Bar("two", 2)]),
        "curve": charts.curve_spec([point], "x", "y", True, 0.2, chosen),
        "shares of numbers": charts.shares_spec([1, 2], [[0.5, 0.5], [1.0, 0.0]], ["a", "b"], "column", 300),
        "shares of words": charts.shares_spec(["x", "y"], [[0.5, 0.5], [1.0, 0.0]], ["a", "b"], "column", 300),
    }
    for spec in specs.values():
        altair.LayerChart.from_dict(spec)  # validates, and names what is wrong
    with pytest.raises(jsonschema.ValidationError):
        altair.LayerChart.from_dict({**specs["bars"], "width": "wide"})
    assert altair.utils.schemapi.DEBUG_MODE  # whoever uses Altair beside us has it as it was


def test_columns_may_have_any_name():
    # Names with a meaning to Vega, and names that the charts use themselves.
    for names in (("a.b", "c[0]"), ("policy", "dark"), ("action", "panel")):
        rows = {names[0]: [0, 1] * 40, names[1]: ["u", "u", "v", "v"] * 20, "do": [7, 8] * 40, "r": [1.0, 0.0] * 40}
        fit = dualq.learn(dualq.read_log(rows, state=list(names), action="do", reward="r", time="row"), discount=0.5)
        words = Words(report_html(fit)).words
        for name in names:
            assert name in words  # the name of a column
        assert words.count("7") + words.count("8") >= 8 + 2  # a label for every state in both panels, and the key


def test_a_table_aligns_numbers_and_escapes_text():
    html = page.table(["name", "n"], [["<b>", 1234], ["c", 5]])
    assert "&lt;b&gt;" in html
    assert '<td class="number">1,234</td>' in html


def test_a_table_may_stack_its_cells_with_their_names():
    html = page.table(['a "b"', "n"], [["<b>", 1234]], stack=True)
    assert '<td data-name="a &quot;b&quot;">&lt;b&gt;</td><td class="number" data-name="n">1,234</td>' in html
    assert "data-name" not in page.table(["name"], [["x"]])


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
    log = dualq.ArrayLog(s, np.repeat([0, 1], 1500), np.ones(3000), (s + 1) % 1500, 1500, 2)
    fit = dualq.learn(log, discount=0.5, certificate=None)
    assert "In 1,500 of 1,500 states the log has tried more than one action" in fit.reason
    assert "1500" not in printed(fit)


def test_the_bars_count_every_pair(fit):
    words = [w for w in Words(report_html(fit)).words if w.strip()]
    bins = [(0, 0), (1, 9), (10, 99), (100, 999), (1000, np.inf)]
    for low, high in bins:
        count = int(((fit.counts.visits >= low) & (fit.counts.visits <= high)).sum())
        assert f"{count:,}" in words


# ---- rules


def test_the_rules_say_what_they_say_they_do():
    """Fidelity is a plain count of what following the rules gives; each rule is checked by reading its conditions."""
    rng = np.random.default_rng(0)
    states = [
        (age, dept, risk) for age in range(5) for dept in ("icu", "er", "ward") for risk in ("< 0", "[0, 1)", ">= 1")
    ]
    mass = rng.dirichlet(np.ones(3) * 0.2, len(states)) * rng.dirichlet(np.ones(len(states)))[:, None]
    columns = {
        name: list(values) for name, values in zip(("age", "dept", "risk"), zip(*states, strict=True), strict=True)
    }
    found = rules_of(columns, mass, {"risk": [0.0, 1.0]})
    edge = {"< 0": -0.5, "[0, 1)": 0.5, ">= 1": 1.5}

    def holds(condition, state):
        name, how, value = condition.split(" ", 2)
        x = dict(zip(("age", "dept", "risk"), state, strict=True))[name]
        x = edge[x] if name == "risk" else x
        if how == "is":
            return x != value.removeprefix("not ") if value.startswith("not ") else x == value
        return {"<=": x <= float(value), ">": x > float(value), "<": x < float(value), ">=": x >= float(value)}[how]

    right, total = 0.0, 0.0
    for s, state in enumerate(states):
        (rule,) = [rule for rule in found.rules if all(holds(condition, state) for condition in rule.conditions)]
        assert found.answer[s] == rule.action
        right += mass[s, rule.action]
        total += mass[s].sum()
    assert total == pytest.approx(1.0)
    assert found.fidelity == pytest.approx(right)
    assert found.fidelity >= mass.sum(axis=0).max()  # no worse than always the same action
    assert 1 < len(found.rules) <= 2**DEPTH
    assert sum(rule.share for rule in found.rules) == pytest.approx(1.0)


def test_a_policy_that_is_a_tree_is_found():
    states = [(x, y, z) for x in range(6) for y in "ab" for z in range(3)]
    best = np.array([2 if x > 3 else (1 if y == "b" else 0) for x, y, _ in states])
    mass = np.eye(3)[best] / len(states)
    found = rules_of(dict(zip("xyz", map(list, zip(*states, strict=True)), strict=True)), mass, {})
    assert found.fidelity == pytest.approx(1.0)
    np.testing.assert_array_equal(found.answer, best)
    assert {rule.conditions for rule in found.rules} == {("x <= 3", "y is a"), ("x <= 3", "y is not a"), ("x > 3",)}


@pytest.fixture(scope="module")
def wide():
    """Three columns, one of them with labels that would be markup."""
    rng = np.random.default_rng(1)
    n = 3_000
    x, y, z = rng.integers(0, 3, n), rng.choice(["<b>", "[red]"], n), rng.integers(0, 2, n)
    a = rng.choice(["<i>go</i>", "stay"], n)
    r = np.where((a == "stay") == (x > 1), 1.0, 0.0)
    rows = {"x<u>": x, "y": y, "z": z, "a": a, "r": r}
    log = dualq.read_log(rows, state=["x<u>", "y", "z"], action="a", reward="r", time="row")
    return dualq.learn(log, discount=0.5)


def test_more_than_two_columns_are_shown_as_rules_beside_the_table(wide):
    text = Words(report_html(wide))
    found = policy_rules(wide)
    naive = sum(
        wide.time_share[s] * wide.policy.matrix[s, found.answer[s]] for s in range(len(wide.counts.states))
    )  # all states of this log have decisions
    assert found.fidelity == pytest.approx(naive)
    share = "all" if naive == pytest.approx(1.0, abs=1e-9) else f"{100 * naive:.1f}%"
    assert f"in {share} of its decisions." in text.text
    assert "x<u> <= 1" in text.text
    assert "The whole policy" in text.text
    assert not {"u", "i", "script"} & set(text.tags)


def test_labels_of_people_are_escaped_in_a_notebook_too(wide):
    text = Words(wide._repr_html_())
    assert not {"u", "i", "script"} & set(text.tags)
    assert "<i>go</i>" in text.text
    assert verdict(wide).partition(". ")[2] in text.text
    assert text.outside == []
    assert estimate(wide.expected) in text.text


def test_a_fit_prints_in_two_lines(fit):
    assert repr(fit) == brief(fit)
    assert len(repr(fit).splitlines()) == 2
    ends = f"{number(fit.certificate.lower)} to {number(fit.certificate.policy_upper)}"
    assert f"Guaranteed (95%), under fit.conditions: {ends}." in repr(fit)


# ---- one decision per case


def test_a_bandit_has_words_of_its_own():
    rng = np.random.default_rng(4)
    n = 4_000
    kind, mail = rng.choice(["new", "old"], n), rng.choice(["mens", "womens"], n)
    bought = (rng.random(n) < np.where((kind == "new") == (mail == "mens"), 0.4, 0.1)).astype(float)
    log = dualq.read_log(
        {"kind": kind, "mail": mail, "bought": bought}, state="kind", action="mail", reward="bought", time="row"
    )
    fit = dualq.learn(log, discount=0.0)
    # The value is the average reward of one decision: by hand, from the rows.
    best = np.mean([bought[(kind == k) & (mail == m)].mean() for k, m in (("new", "mens"), ("old", "womens"))])
    assert fit.logged.value == pytest.approx(bought[:-1].mean(), abs=1e-9)
    assert fit.expected.value == pytest.approx(best, abs=0.02)
    for text in (printed(fit), Words(report_html(fit)).text):
        assert f"expected to earn {estimate(fit.expected)} per decision" in text
        assert "All amounts are average rewards of one decision." in text
        assert not re.search(r"\blater\b(?! rows)|episode|each step|per step|over time, start", text)


def test_words_of_limits_where_one_decision_counts():
    rng = np.random.default_rng(4)
    n = 3_000
    kind, mail = rng.integers(0, 2, n), rng.integers(0, 2, n)
    log = dualq.ArrayLog(kind[:-1], mail[:-1], mail[:-1] * 1.0, kind[1:], 2, 2, costs={"paper": mail[:-1] * 1.0})
    fit = dualq.learn(log, discount=0.0, limits={"paper": 0.5})
    for text in (printed(fit), Words(report_html(fit)).text):
        assert "of reward per decision, at the present rate." in text
        assert "per step" not in text
