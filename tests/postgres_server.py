"""A PostgreSQL server for the tests alone: in a folder of its own, on a free port of this machine, gone afterwards."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator


def programs() -> str | None:
    """The folder that holds initdb and pg_ctl; Debian puts them aside from PATH."""
    places = [os.path.dirname(os.path.realpath(found)) for found in [shutil.which("pg_ctl")] if found]
    places += sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    return next((p for p in places if all(os.access(f"{p}/{x}", os.X_OK) for x in ("initdb", "pg_ctl"))), None)


def _owner() -> str | None:
    """Who runs the server: PostgreSQL refuses to be run by root. None: whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    known = {user.pw_name for user in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in known), None)


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The URL of a server that is stopped at the end."""
    bin_ = programs()
    assert bin_ is not None
    folder, owner = tempfile.mkdtemp(prefix="dualq-postgres-"), _owner()
    if owner is not None:
        os.chown(folder, pwd.getpwnam(owner).pw_uid, -1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(program: str, *words: str) -> None:
        command = [f"{bin_}/{program}", "-D", f"{folder}/data", *words]
        said = f"{folder}/{program}.txt"  # not a pipe: the server would keep it open
        with open(said, "w") as out:
            code = subprocess.run(command, user=owner, cwd=folder, stdout=out, stderr=out, timeout=120).returncode
        with open(said) as text:
            assert code == 0, text.read()

    try:
        run("initdb", "-U", "dualq", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        words = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        run("pg_ctl", "-w", "-l", f"{folder}/server.txt", "-o", words, "start")
        try:
            yield f"postgres://dualq@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
