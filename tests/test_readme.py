"""README.md as a newcomer meets it: every block runs as it is written, and what it shows is what comes out."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import dualq
from dualq.app import cli
from dualq.app.report.guarantee_words import guarantee
from dualq.app.report.words import verdict
from dualq.worlds import sample_log as shipped

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()
PROSE = " ".join(re.sub(r"^>", "", TEXT, flags=re.MULTILINE).split())
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
TESTS = "uv run --all-extras pytest"


def commands(block: str) -> list[str]:
    """The commands of a block, without what only prepares the machine, and without comments."""
    lines = block.replace("\\\n", " ").strip().splitlines()
    return [shlex.join(shlex.split(line.removeprefix("pip install uv && "), comments=True)) for line in lines]


def run(command: str) -> str:
    """What a command prints."""
    assert command.startswith("uv run dualq "), command
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert cli.run(shlex.split(command)[3:]) == 0, command
    return said.getvalue()


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The whole README followed in an empty folder: (folder, {command or Python block: printed}, Python's names)."""
    folder, printed, scope = tmp_path_factory.mktemp("readme"), {}, {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for language, block in BLOCKS:
            if language == "csv":
                Path("machine.csv").write_text(block)
            elif language == "bash":
                printed |= {command: run(command) for command in commands(block) if command != TESTS}
            else:
                assert language == "python", block
                with contextlib.redirect_stdout(io.StringIO()) as said:
                    exec(block, scope)
                printed[block] = said.getvalue()
    return folder, printed, scope


def test_the_tests_are_started_as_ci_starts_them():
    """The one command of the README that is not run here, as this is such a run."""
    assert TESTS in commands(BLOCKS[0][1])
    assert re.search(rf"^{TESTS} ", (ROOT / ".ci" / "run").read_text(), flags=re.MULTILINE)


def test_the_first_page_is_the_one_that_the_readme_quotes(followed):
    _, printed, scope = followed
    (guaranteed,) = (" ".join(words.split()) for words in guarantee(scope["fit"]))
    for text in (PROSE, " ".join(printed["uv run dualq learn"].split())):
        assert verdict(scope["fit"]) in text
        assert guaranteed in text


def test_a_log_of_your_own(followed):
    folder, printed, scope = followed
    fit = scope["fit"]
    pages = {command.split()[3]: page for command, page in printed.items() if command.startswith("uv run")}
    assert "dualq learn orders.parquet" in pages["look"]
    assert str(fit.act({"stock": 3, "season": "winter"})) == pages["act"].split()[0]
    assert {path.name for path in (folder / "run").iterdir()} >= {"report.html", "policy.csv"}
    assert dualq.load(folder / "run").certificate.lower == pytest.approx(fit.certificate.lower, rel=1e-9)
    assert (folder / "curve.svg").read_text().startswith("<svg")
    assert (folder / "report.html").stat().st_size > 10_000


def test_a_model_of_your_own(followed):
    folder, printed, scope = followed
    working = (10 - 0.095 * 30) / (1 - 0.855 - 0.095 * 0.95)  # by hand: run while it works, repair when it does not
    np.testing.assert_allclose(scope["best"].V, [working, 0.95 * working - 30], atol=1e-8)
    block = BLOCKS[3][1]
    assert printed[block].splitlines()[1] == "repair"
    assert f"# {working:.2f} and {0.95 * working - 30:.2f}" in block
    assert (folder / "answer" / "policy.csv").read_text().split()[1:] == ["working,run,1.0", "broken,repair,1.0"]


def test_the_papers_algorithm(followed):
    run = followed[2]["run"]
    np.testing.assert_array_equal(run.solution.primal_policy.matrix, np.eye(2))  # as the paper prints it
    assert run.history.column("q_error").to_pylist()[-1] < 1.0


def test_the_truth_about_the_shipped_log():
    shop = shipped.truth()
    rows = shipped.draw()
    best = shop.start @ dualq.solve(shop.mdp).V
    assert f"is worth {logged_value(shop, rows):.1f}, the best policy {best:.1f}" in PROSE


def logged_value(shop, rows):
    places = {label: place for place, label in enumerate(shop.mdp.states)}
    s = np.array([places[label] for label in zip(rows["stock"].tolist(), rows["season"].tolist(), strict=True)])
    n = np.zeros(shop.mdp.rewards.shape)
    np.add.at(n, (s, rows["order"] // 2), 1.0)
    return shop.start @ dualq.TablePolicy(n / n.sum(axis=1, keepdims=True)).value(shop.mdp)
