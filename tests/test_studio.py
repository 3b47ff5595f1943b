"""The studio's server: who may ask, what may be sent, what stays inside the workspace, and work that can be stopped.

A real server on a real socket answers; what it says of logs and runs is compared with the library.
"""

from __future__ import annotations

import csv
import http.client
import itertools
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import dualq
from dualq.app import cli
from dualq.app.cli.studio import _stop_later
from dualq.app.report import charts
from dualq.base import InfeasibleError
from dualq.logs.reading.options import READING

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")

from dualq.app.studio import asked  # noqa: E402
from dualq.app.studio.fit_tasks import do_curve, do_limits, do_open, do_state, table_facts  # noqa: E402
from dualq.app.studio.guard import POLICY, REPORT_POLICY, hosts_of, key_of  # noqa: E402
from dualq.app.studio.log_tasks import do_look, do_preview, do_tell  # noqa: E402
from dualq.app.studio.page_words import on_page  # noqa: E402
from dualq.app.studio.server import PAGE, application  # noqa: E402
from dualq.app.studio.worker import plain  # noqa: E402
from dualq.app.studio.workspace import NotHere, Workspace  # noqa: E402

TOKEN = "a-token-of-the-tests"
LIMIT = 200_000  # bytes that may be uploaded
NASTY = "<img src=x onerror=alert(1)>"


# ---- a server, and how it is asked


@dataclass
class Served:
    """A studio that runs in a thread of this process."""

    space: Workspace
    port: int = 0
    server: object = field(default=None)

    def ask(self, method: str, path: str, body: object = None, **headers: str | None):
        """(status, headers, content); a header that is None is left out."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"Authorization": f"Bearer {TOKEN}"} | {k.replace("_", "-"): v for k, v in headers.items()}
        content = json.dumps(body).encode() if isinstance(body, dict | list) else body
        if isinstance(body, dict | list):
            sent["Content-Type"] = "application/json"
        try:
            line.putrequest(method, path, skip_host="Host" in sent)
            for name, value in sent.items():
                if value is not None:
                    line.putheader(name, value)
            if content is not None and "Content-Length" not in sent:
                line.putheader("Content-Length", str(len(content)))
            line.endheaders(content)
            answer = line.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            line.close()

    def json(self, method: str, path: str, body: object = None, **headers: str | None):
        """(status, what was said)."""
        status, _, content = self.ask(method, path, body, **headers)
        return status, json.loads(content)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    import socket

    listening = socket.create_server(("127.0.0.1", 0))
    studio = Served(Workspace.at(tmp_path_factory.mktemp("studio")), listening.getsockname()[1])
    app = application(studio.space, TOKEN, hosts_of(studio.port), LIMIT, warm=False)
    studio.server = server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    until(lambda: server.started)
    yield studio
    server.should_exit = True
    thread.join(20)
    assert not thread.is_alive(), "the server must stop, and its processes with it"


def test_a_second_studio_leaves_the_work_of_the_first_alone(tmp_path):
    space = Workspace.at(tmp_path)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    for name in (str(other.pid), "upload-of-an-older-version"):
        (space.parts.parent / name).mkdir()
    assert sorted(path.name for path in Workspace.at(tmp_path).parts.parent.iterdir()) == sorted(
        [str(os.getpid()), str(other.pid)]
    )
    other.communicate(b"\n")
    assert [path.name for path in Workspace.at(tmp_path).parts.parent.iterdir()] == [str(os.getpid())]


def until(holds, seconds: float = 60.0):
    """Wait for something that must come to hold."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


@pytest.fixture(scope="module")
def orders(tmp_path_factory) -> Path:
    """A log with a cost: ordering keeps the shelf full, and costs."""
    drawn, rows = random.Random(5), []
    for shop in range(8):
        stock = 2
        for day in range(120):
            order = drawn.choice([0, 2])
            sold = min(stock + order, drawn.choice([0, 1, 2, 3]))
            rows.append([shop, day, stock, NASTY if order else "wait", round(3 * sold - order, 1), int(stock == 0)])
            stock = min(4, stock + order - sold)
    path = tmp_path_factory.mktemp("logs") / "orders.csv"
    with path.open("w", newline="") as out:
        csv.writer(out).writerows([["shop", "day", "stock", "order", "profit", "stockout"], *rows])
    return path


COLUMNS = {
    "state": ["stock"],
    "action": ["order"],
    "reward": "profit",
    "episode": ["shop"],
    "time": "day",
    "costs": ["stockout"],
}


@pytest.fixture(scope="module")
def fit(orders):
    return dualq.learn(orders, **COLUMNS)


@pytest.fixture(scope="module")
def run(served, fit) -> str:
    """A run in the workspace, as `learn --out` writes it."""
    folder = served.space.runs / "by-hand"
    fit.save(folder)
    fit.report(folder / "report.html")
    return "by-hand"


# ---- who may ask


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": f"Bearer {TOKEN}x"}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Host": "127.0.0.1.evil.example:PORT"}, 403),
        ({"Host": "localhost:PORT"}, 200),
        ({"Origin": "http://127.0.0.1:PORT"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://127.0.0.1:PORT"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
    ],
)
def test_only_this_page_may_ask(served, headers, status):
    said = {name: value and value.replace("PORT", str(served.port)) for name, value in headers.items()}
    for method, path, body in (("GET", "/api/runs", None), ("POST", "/api/compare", {"runs": ["none"]})):
        found, answer, _ = served.ask(method, path, body, **said)
        assert found == (404 if status == 200 and method == "POST" else status)
        assert answer["content-security-policy"] == POLICY
        assert "access-control-allow-origin" not in answer


def test_every_answer_has_its_headers_and_the_page_needs_no_token(served):
    for path, status in (("/", 200), ("/main.js", 200), ("/vendor/vega.min.js", 200), ("/no-such-file", 404)):
        found, headers, _ = served.ask("GET", path, Authorization=None)
        assert (found, headers["content-security-policy"]) == (status, POLICY)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert served.ask("GET", "/../server.py", Authorization=None)[0] == 404
    assert served.ask("GET", "/..%2fserver.py", Authorization=None)[0] == 404


def test_the_policy_of_the_page_holds_in_its_files():
    """No inline script or style, no other host, and text never becomes markup."""
    page = (PAGE / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|javascript:|\sstyle=", page) == []
    sources = {path.name: path.read_text() for path in PAGE.glob("*.js")}
    assert len(sources) > 10
    for name, text in sources.items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            name
        )
        assert set(re.findall(r"https?://[^\s\"'`]+", text)) <= {
            "http://www.w3.org/2000/svg",
            "https://vega.github.io/schema/vega-lite/v6.json",
        }, name
    assert "unsafe" not in POLICY
    assert "script-src" not in REPORT_POLICY
    own = [path for path in PAGE.rglob("*") if path.is_file() and "vendor" not in path.parts]
    assert sum(path.stat().st_size for path in own) < 1_000_000


def test_the_page_turns_every_ink_of_the_charts():
    style = (PAGE / "studio.css").read_text()
    for ink in (charts.INK, charts.ACCENT, charts.SURE, charts.MUTED, charts.PALE):
        assert f'[fill="{ink}"]' in style
        assert f'[stroke="{ink}"]' in style
    script = (PAGE / "chart.js").read_text()
    assert all(ink in script for ink in (charts.INK, charts.ACCENT, charts.SURE, charts.MUTED, charts.PALE))


def test_the_page_may_say_of_a_log_what_read_log_takes():
    ours = {"available", "quarantine"}  # for Python only, and where the studio itself writes
    assert set(asked.Columns.model_fields) == set(READING) - ours
    page = (PAGE / "mapping.js").read_text()
    parts = re.findall(r'^  \["(\w+)", "', page, flags=re.MULTILINE)
    assert set(parts) == {option.name for option in READING.values() if option.is_column} | {"costs"}


def test_what_was_chosen_of_a_log_is_kept_with_it(served, orders, tmp_path):
    """Another tab asks the server, and finds it; of another log under the same name it is not taken."""
    log = served.json("POST", "/api/logs", orders.read_bytes(), X_File_Name="orders.csv")[1]["id"]
    parts = {"state": ["stock"], "time": ["row"]}
    chosen = {"edited": True, "parts": parts, "bins": {"stock": [1, 2.5]}, "numbers": None}
    chosen |= {"more": {"skip_bad": True}, "learning": {"reward_range": [-5, 9], "assume": ["set aside"]}}
    assert served.json("POST", f"/api/logs/{log}/choose", chosen) == (200, {})
    found = {one["id"]: one["chosen"] for one in served.json("GET", "/api/logs")[1]}
    assert found[log] == chosen
    assert served.space.chosen(replace(served.space.log(log), path="elsewhere.csv")) is None
    given = replace(served.space.log(log), id="given", kind="given")  # named when the studio was started: no folder yet
    space = Workspace.at(tmp_path, (given,))
    space.choose(given, chosen)
    assert space.chosen(given) == chosen
    assert space.all_logs() == [given]
    assert served.json("POST", f"/api/logs/{log}/choose", {"more": {"pickle": 1}})[0] == 422
    assert served.json("POST", "/api/logs/none/choose", chosen)[0] == 404
    assert served.json("DELETE", f"/api/logs/{log}")[0] == 200
    assert not (served.space.logs / log).exists()


def test_advice_names_places_of_the_pages_and_no_options(tmp_path):
    """Of a log with few rows, some of them set aside, and a cost; lines that are meant for a terminal stay."""
    said = [
        ("If so, add --reward-range=-20,20.", "If so, give -20 and 20 as the reward range on the page Learn."),
        ("too few rows: say it with --reward-range (reward_range=)", "too few rows: say it on the page Learn"),
        ("set bad rows aside with skip_bad=True (--skip-bad)", "set bad rows aside on the page Columns"),
        ("one side only (--since, --until)", "one side only (at the command line: --since, --until)"),
    ]
    for words, right in said:
        assert on_page(words) == right
    rows = {"s": [0, 1] * 8, "a": [0, 0, 1, 1] * 4, "r": [*range(14), None, 3], "t": list(range(16)), "c": [0, 1] * 8}
    columns = {"state": "s", "action": "a", "reward": "r", "time": "t", "costs": "c", "skip_bad": True}
    found = table_facts(dualq.learn(rows, **columns, quarantine=tmp_path / "bad.csv", discount=0.5))
    sentences = [*found["guarantees"], *found["warnings"], *found["why"]["lines"], found["costs"]["words"]]
    assert any("reward range on the page Learn" in words for words in sentences)
    assert any("say so on the page Learn" in words for words in sentences)
    assert not [words for words in sentences if re.search("--[a-z]", words)]


def test_what_is_not_understood_is_said_in_one_line(served):
    for body in ({"columns": {"state": 3}}, {"columns": {"pickle": "x"}}, {"columns": {"bins": {"x": 1}}}, [1]):
        status, said = served.json("POST", "/api/logs/example/look", body)
        assert status == 422
        assert "\n" not in said["error"]
    assert served.json("POST", "/api/logs/none/look", {})[0] == 404
    assert served.json("POST", "/api/jobs", {"log": "none"}) == (
        404,
        {"error": "there is no such log in the workspace"},
    )


# ---- what may be sent


def test_a_log_is_streamed_to_disk_under_a_name_of_ours(served, orders):
    content = orders.read_bytes()
    status, log = served.json("POST", "/api/logs", content, X_File_Name="..%2F..%2F%3Cb%3Eevil%3C%2Fb%3E.csv")
    assert (status, log["name"], log["size"]) == (200, ".._.._<b>evil<_b>.csv", len(content))
    assert "path" not in log
    kept = served.space.log(log["id"])
    assert Path(kept.path).read_bytes() == content
    assert Path(kept.path).parent.parent == served.space.logs
    assert Path(kept.path).name == "b_evil__b.csv"  # what of its name is safe: reports say where rows came from
    assert served.json("DELETE", f"/api/logs/{log['id']}")[0] == 200
    assert not Path(kept.path).exists()


def test_uploads_that_are_refused_leave_nothing(served):
    def chunks(size: int) -> bytes:
        return b"%x\r\n" % size + b"x" * size + b"\r\n0\r\n\r\n"

    refused = [
        (b"a,b\n", {"X_File_Name": "log.exe"}, "must end in one of"),
        (b"a,b\n", {"X_File_Name": ""}, "must end in one of"),
        (b"", {"X_File_Name": "log.csv", "Content_Length": "0"}, "empty"),
        (b"x" * (LIMIT + 1), {"X_File_Name": "log.csv"}, "larger than"),
        # it does not say how long it is: counted while it comes
        (
            chunks(LIMIT + 1),
            {"X_File_Name": "log.csv", "Transfer_Encoding": "chunked", "Content_Length": None},
            "larger than",
        ),
    ]
    for content, headers, words in refused:
        status, said = served.json("POST", "/api/logs", content, **headers)
        assert status == 422
        assert words in said["error"]
    assert list(served.space.parts.iterdir()) == []
    assert list(served.space.logs.iterdir()) == []


# ---- what stays inside


def test_names_never_lead_out_of_the_workspace(served, run, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "fit.json").write_text("{}")
    (served.space.runs / "link").symlink_to(outside)
    for name in ("..", "%2e%2e", "..%2f..", "link", "a%00b", "x" * 300):
        assert served.ask("GET", f"/api/runs/{name}")[0] == 404
        assert served.ask("DELETE", f"/api/runs/{name}")[0] in (404, 405)
    assert (outside / "fit.json").exists()
    for name in ("../fit.json", "..", "report.html/../fit.json"):
        with pytest.raises(NotHere):
            served.space.file(run, name)
    with pytest.raises(NotHere):
        served.space.run("link")
    (served.space.runs / "link").unlink()


def test_a_file_opens_with_its_own_key_only(served, run):
    path, key = f"{run}/report.html", key_of(TOKEN, f"{run}/report.html")
    status, headers, content = served.ask("GET", f"/files/{path}?key={key}", Authorization=None)
    assert (status, headers["content-security-policy"]) == (200, REPORT_POLICY)
    assert content == (served.space.runs / path).read_bytes()
    saved = served.ask("GET", f"/files/{path}?key={key}&save=1", Authorization=None)[1]
    assert "attachment" in saved["content-disposition"]
    for other in (f"/files/{path}", f"/files/{path}?key={key[:-1]}", f"/files/{run}/fit.json?key={key}"):
        assert served.ask("GET", other, Authorization=None)[0] == 404
    assert TOKEN not in key


# ---- what is said is what the library says


def no_stage(stage: str) -> None:
    """Nobody listens."""


def test_the_decision_is_the_fits_own(served, run, fit):
    from dualq.app.report import limit_words, words

    said = do_open(no_stage, {"run": str(served.space.run(run))})
    assert said["word"] + ". " + said["rest"] == words.verdict(fit)
    assert said["guarantees"] == limit_words.guarantees(fit)
    assert said["expected"]["value"] == pytest.approx(fit.expected.value)
    assert said["changes"]["rows"] == [
        [*map(str, row["state"].values()), *words.change_cells(row)] for row in fit.changes(200)
    ]
    for state in said["policy"]["states"]:
        label = fit.counts.states[state["place"]]
        chosen = fit.policy.matrix[state["place"]].argmax()
        assert state["label"] == [label]
        assert said["policy"]["actions"][state["do"]] == str(fit.counts.actions[chosen])
        assert state["rows"] == fit.counts.visits[state["place"], chosen]


def test_a_state_is_explained_with_what_came_after(served, run, fit, orders):
    said = do_state(no_stage, {"run": str(served.space.run(run)), "place": 1})
    facts = fit.explain({"stock": fit.counts.states[1]})
    assert [row["value"] for row in facts["actions"]] == [mid for _, mid, _ in said["intervals"]]
    rows = list(csv.DictReader(orders.read_text().splitlines()))
    pairs = [(a, b) for a, b in itertools.pairwise(rows) if a["shop"] == b["shop"]]
    for action, after in zip(said["actions"], said["successors"], strict=True):
        here = [b for a, b in pairs if a["stock"] == str(fit.counts.states[1]) and a["order"] == action["said"]]
        for one in after:
            assert one["rows"] == sum(b["stock"] == one["words"] for b in here)


def test_a_curve_and_a_moved_limit_are_the_fits_own(served, run, fit, monkeypatch):
    monkeypatch.setattr("dualq.app.studio.fit_tasks.POINTS", 5)
    folder = str(served.space.run(run))
    curve = do_curve(no_stage, {"run": folder, "cost": "stockout"})
    own = fit.frontier("stockout", len(curve["points"])).rows()
    assert [point["value"] for point in curve["points"]] == pytest.approx([row["value"] for row in own])
    bound = own[len(own) // 2]["limit"]
    moved = do_limits(no_stage, {"run": folder, "limits": {"stockout": bound}, "margin": "none"})
    other = fit.with_limits({"stockout": bound}, "none")
    assert moved["expected"]["value"] == pytest.approx(other.expected.value)
    with pytest.raises(InfeasibleError) as error:
        fit.with_limits({"stockout": -1.0})
    said = do_limits(no_stage, {"run": folder, "limits": {"stockout": -1.0}, "margin": "none"})
    assert said == {"infeasible": str(error.value), "nearest": error.value.nearest}


def test_a_log_is_looked_at_as_dualq_does(orders):
    given = {"path": str(orders), "columns": {}}
    seen, own = do_look(no_stage, given), dualq.look(orders)
    assert {part: tuple(names) for part, names in seen["parts"].items()} == dict(own.parts)
    assert seen["commands"] == dict(own.commands)
    assert do_preview(no_stage, given)["rows"][0][:3] == [0, 0, 2]
    told = do_tell(no_stage, given | {"columns": COLUMNS})
    counts = dualq.read_log(orders, **COLUMNS).counts()
    assert told["pairs"]["rows"] == counts.visits.tolist()
    assert told["rows"] == counts.total
    assert [f["words"] for f in told["findings"]] == [
        f.words for f in dualq.read_log(orders, **COLUMNS).coverage().evidence
    ]


def test_numbers_that_hardly_come_again_stay_numbers(tmp_path):
    drawn = random.Random(2)
    rows = [[m, t, drawn.random(), drawn.choice("ab"), drawn.random()] for m in range(5) for t in range(60)]
    with (tmp_path / "wear.csv").open("w", newline="") as out:
        csv.writer(out).writerows([["machine", "day", "wear", "repair", "profit"], *rows])
    given = {"path": str(tmp_path / "wear.csv"), "columns": {}}
    seen = do_look(no_stage, given)
    assert seen["proposed"]["numbers"] == ["wear"]
    told = do_tell(no_stage, given | {"columns": seen["proposed"]})
    assert (told["numbers"], "pairs" in told) == (("wear",), False)
    cut = do_look(no_stage, given | {"columns": {"bins": {"wear": 3}}})
    assert "numbers" not in cut["proposed"]
    assert cut["edges"] == {"wear": list(dualq.read_log(tmp_path / "wear.csv", **cut["proposed"]).bins["wear"].edges)}
    assert len(cut["edges"]["wear"]) == 2


def test_answers_are_json_whatever_they_hold():
    held = {"x": float("nan"), 3: [float("inf"), (1, None)], "when": object}
    assert json.loads(json.dumps(plain(held), allow_nan=False)) == {
        "x": None,
        "3": [None, [1, None]],
        "when": str(object),
    }


def test_runs_are_listed_and_compared(served, run, fit):
    (found,) = served.json("GET", "/api/runs")[1]
    assert (found["id"], found["verdict"]) == (run, fit.verdict)
    table = dict(served.json("POST", "/api/compare", {"runs": [run, run]})[1]["lines"])
    assert table["expected"] == [found["expected"]] * 2
    assert found["expected"].split(" ± ")[0] == f"{fit.expected.value:,.4g}"


# ---- work that can be stopped


def jobs(served) -> dict[str, dict]:
    return {job["id"]: job for job in served.json("GET", "/api/jobs")[1]}


def test_jobs_run_one_at_a_time_stop_fail_and_crash_without_taking_the_server_along(served, orders):
    log = served.json("POST", "/api/logs", orders.read_bytes(), X_File_Name="orders.csv")[1]["id"]
    wanted = {"log": log, "columns": COLUMNS}
    lane = served.server.config.app.state.studio.jobs.lane

    first, second, wrong, third = (
        served.json("POST", "/api/jobs", wanted | more)[1]["id"]
        for more in ({"name": NASTY}, {}, {"columns": COLUMNS | {"reward": "profits"}}, {})
    )
    until(lambda: jobs(served)[first]["stages"])
    assert [jobs(served)[one]["status"] for one in (first, second, third)] == ["running", "queued", "queued"]
    process = lane.pid
    assert served.json("DELETE", f"/api/jobs/{second}")[1]["status"] == "stopped"  # it never began
    assert served.json("DELETE", f"/api/jobs/{first}")[1]["status"] == "stopped"
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    until(lambda: jobs(served)[wrong]["status"] == "failed")
    assert "did you mean 'profit'" in jobs(served)[wrong]["error"]
    until(lambda: jobs(served)[third]["stages"])
    os.kill(lane.pid, 9)
    until(lambda: jobs(served)[third]["status"] == "failed")
    assert "unexpectedly" in jobs(served)[third]["error"]
    assert list(served.space.parts.glob("run-*")) == []
    assert not any((served.space.runs / one).exists() for one in (first, second, wrong, third))
    assert served.json("GET", "/api/session")[0] == 200


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("--max-upload", "inf"), "--max-upload inf: must be a number of gigabytes above 0"),
        (("--stop-after", "nan"), "--stop-after nan: must be a number of seconds, 0 or more"),
    ],
)
def test_numbers_that_no_studio_can_use_are_refused(words, wrong, capsys):
    assert cli.run(["studio", "--no-browser", *words]) == 2
    assert capsys.readouterr().err == f"dualq: {wrong}\n"


def test_a_studio_that_stops_after_forever_does_not_stop():
    class Server:
        should_exit = False

    server, before = Server(), {*threading.enumerate()}
    _stop_later(server, float("inf"))
    (timer,) = {*threading.enumerate()} - before
    timer.join(0.1)  # with a time that no clock reaches it would have ended by now, with a traceback
    assert timer.is_alive()
    assert not server.should_exit
    timer.cancel()
