"""`dualq studio`: the main job in a browser, on this machine."""

from __future__ import annotations

import math
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dualq.app.cli.shared import option
from dualq.base import LogError, pip_install

if TYPE_CHECKING:
    from dualq.base import Json

MISSING = f"dualq studio needs the extra `studio`: {pip_install('studio')}, or uv run --extra studio dualq studio"


def studio(
    log: Annotated[
        str | None,
        typer.Argument(metavar="[LOG]", help="A log to begin with; others can be dropped.", show_default=False),
    ] = None,
    workspace: Annotated[Path, typer.Option(metavar="DIR", help="Where dropped logs and runs are kept.")] = Path(
        "dualq-studio"
    ),
    port: Annotated[int, typer.Option(metavar="N", help="The port on this machine; 0 takes one that is free.")] = 0,
    max_upload: Annotated[float, typer.Option(metavar="GB", help="The largest log that may be dropped.")] = 2.0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    stop_after: Annotated[float | None, option("SECONDS", "Stop after this many seconds.")] = None,
) -> None:
    """Open the studio: drop a log, see what it can tell, learn, move limits, download the report.

    It runs on this machine and answers no other. The address that it prints has a token: whoever has it can use the
    studio as long as it runs. Runs are the folders that `dualq learn --out` writes.
    """
    try:
        import uvicorn

        from dualq.app.studio.server import GIGABYTE, application
    except ModuleNotFoundError:
        raise LogError(MISSING) from None
    from dualq.app.studio.guard import hosts_of
    from dualq.app.studio.workspace import Workspace, given_log
    from dualq.logs import split_table, without_password
    from dualq.worlds import sample_log as shipped

    if not 0.0 < max_upload < math.inf:
        raise LogError(f"--max-upload {max_upload:g}: must be a number of gigabytes above 0")
    if stop_after is not None and not stop_after >= 0.0:
        raise LogError(f"--stop-after {stop_after:g}: must be a number of seconds, 0 or more")
    given = () if log is None else (given_log(_whole(log), Path(without_password(split_table(log)[0])).name, "given"),)
    known: dict[str, Json] = {
        name: value if isinstance(value, str) else [*value] for name, value in shipped.COLUMNS.items()
    }
    example = given_log(str(shipped.path()), "The shipped example", "example", known)
    space = Workspace.at(workspace, (*given, example))
    listening = _listening(port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    app = application(space, token, hosts_of(port), int(max_upload * GIGABYTE))
    address = f"http://127.0.0.1:{port}/#token={token}"
    print(f"The studio is at {address}\nRuns are kept in {space.folder}. Press Ctrl+C to stop.", flush=True)
    if browser:
        _open_soon(address)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2))
    if stop_after is not None:
        _stop_later(server, stop_after)
    server.run(sockets=[listening])


def _whole(log: str) -> str:
    """The path of a log from anywhere; what is no path stays as it is."""
    from dualq.logs import is_url

    if is_url(log):
        return log
    path, mark, inside = log.partition("::")
    if not Path(path).exists() and not any(Path().glob(path)):
        raise LogError(f"{path}: there is no such file", path=path)
    return f"{Path(path).absolute()}{mark}{inside}"


def _listening(port: int) -> socket.socket:
    """A socket on the loopback; a port that is taken is said in one line."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1 if sys.platform != "win32" else 0)
    try:
        listening.bind(("127.0.0.1", port))
    except (OSError, OverflowError):
        raise LogError(f"--port {port}: it is taken, or no port; give another, or 0 for one that is free") from None
    listening.listen(256)
    return listening


def _open_soon(address: str) -> None:
    """Open a browser without waiting for it."""
    import threading
    import webbrowser

    threading.Timer(0.5, webbrowser.open, [address]).start()


def _stop_later(server: object, seconds: float) -> None:
    import threading

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), setattr, [server, "should_exit", True])
    timer.daemon = True
    timer.start()
