"""A password is never printed or stored, and reading a log asks no network."""

from __future__ import annotations

import contextlib
import json
import socket

import postgres_server
import pytest
from dualq.errors import LogError

import dualq
from dualq.app.cli import run
from dualq.app.studio.workspace import given_log, plain_task
from dualq.logs.reading import engines
from dualq.logs.reading.urls import hushed, split_table, without_password

SECRET = "hunter2"
PASSWORDS = [
    SECRET,
    f"{SECRET}/x",
    f"x?{SECRET}",
    f"x@{SECRET}",
    f"x::{SECRET}",
    f"x#{SECRET}",
    f":{SECRET}:",
    f"%40{SECRET}",
]


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("kind", ["postgres", "postgresql", "mysql"])
def test_a_password_is_in_no_message(capsys, kind, password):
    url = f"{kind}://someone:{password}@127.0.0.1:1/shop::orders"
    with pytest.raises(LogError) as refused:
        dualq.read_log(url)
    assert SECRET not in f"{refused.value} {vars(refused.value)}"
    assert len(str(refused.value).splitlines()) == 1
    for command in ("learn", "look"):
        assert run([command, url]) == 2
        assert SECRET not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://a:b@h:1/d", "postgres://a@h:1/d"),
        ("postgres://h/d?user=a&password=b&x=1", "postgres://h/d?user=a&x=1"),
        ("postgres://h/d?password=b", "postgres://h/d"),
        ("postgres://a@h/d?sslpassword=b", "postgres://a@h/d"),
        ("postgres://h/d", "postgres://h/d"),
        ("a:b@c.csv", "a:b@c.csv"),
    ],
)
def test_what_is_shown_of_a_url(url, shown):
    assert without_password(url) == shown


def test_a_table_is_what_stands_behind_the_address():
    assert split_table("postgres://u:a::b@[::1]/d::orders") == ("postgres://u:a::b@[::1]/d", "orders")
    assert split_table("postgres://u:a::b@[::1]/d") == ("postgres://u:a::b@[::1]/d", "")
    assert split_table("shop.duckdb::orders") == ("shop.duckdb", "orders")


def test_words_that_hold_the_password_are_left_out():
    url = "postgres://someone:a%2Fhunter2@h/d"
    assert hushed("no such host h", url) == "no such host h"
    assert SECRET not in hushed("cannot parse a/hunter2", url)


@pytest.mark.slow
@pytest.mark.skipif(postgres_server.programs() is None, reason="there is no PostgreSQL")
def test_a_password_is_in_nothing_that_is_printed_or_written(tmp_path, capsys):
    import psycopg

    with postgres_server.server() as url:
        with psycopg.connect(url, autocommit=True) as con:
            con.execute("CREATE TABLE log (state INT, action TEXT, reward FLOAT8, time INT)")
            con.execute("INSERT INTO log SELECT i % 3, CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END, i % 5, i FROM "
                        "generate_series(1, 300) AS i")  # fmt: skip
        given = url.replace("dualq@", f"dualq:{SECRET}@") + "::log"
        out = tmp_path / "run"
        for line in (["look", given], ["learn", given, "--out", str(out)], ["learn", given, "--json"]):
            assert run(line) == 0, capsys.readouterr().err
        for line in (["check", str(out), given], ["update", str(out), given, "--out", str(tmp_path / "again")]):
            run(line)
        run(["evaluate", given, "--policy", str(out), "--out", str(tmp_path / "evaluated")])
        said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 4
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in json.dumps(plain_task(given_log(given, "log", "given"), {}, {}))


def test_engines_load_nothing_and_ask_no_network(tmp_path, monkeypatch):
    """Every engine that is started to read a log, of whatever kind, has its doors closed; no socket is opened."""
    made = []
    before = engines.by_itself
    monkeypatch.setattr("dualq.logs.reading.engines.by_itself", lambda con: made.append(con) or before(con))
    monkeypatch.setattr("dualq.logs.reading.databases.by_itself", lambda con: made.append(con) or before(con))
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("asked the network"))
    import duckdb
    import ibis

    opened, connect = [], ibis.duckdb.connect
    monkeypatch.setattr(ibis.duckdb, "connect", lambda *a, **k: opened.append(connect(*a, **k)) or opened[-1])
    log = dualq.problems.two_state().record(60, seed=0)
    log.to_parquet(tmp_path / "log.parquet")
    with contextlib.closing(duckdb.connect(str(tmp_path / "log.duckdb"))) as con:
        con.execute(f"CREATE TABLE log AS FROM '{tmp_path}/log.parquet'")
        con.execute(f"COPY log TO '{tmp_path}/log.csv'")
        con.execute(f"COPY log TO '{tmp_path}/log.json'")
    for name in ("log.parquet", "log.csv", "log.json", "log.duckdb"):
        assert dualq.read_log(tmp_path / name).counts().visits.sum() == 60
    dualq.read_log(log.table())
    assert len(opened) >= 5
    assert made == opened
    for con in opened:
        for setting in ("autoinstall_known_extensions", "autoload_known_extensions"):
            assert con.raw_sql(f"SELECT current_setting('{setting}')").fetchall() == [(False,)]


def test_a_database_of_somebody_reads_no_other_file(tmp_path):
    import duckdb

    (tmp_path / "private.csv").write_text(
        "state,action,reward,time\n" + "".join(f"{i % 3},a,1,{i}\n" for i in range(9))
    )
    with contextlib.closing(duckdb.connect(str(tmp_path / "theirs.duckdb"))) as con:
        con.execute(f"CREATE VIEW log AS FROM '{tmp_path}/private.csv'")
    with pytest.raises(LogError, match=r"theirs\.duckdb: cannot be read"):
        dualq.read_log(tmp_path / "theirs.duckdb").counts()
