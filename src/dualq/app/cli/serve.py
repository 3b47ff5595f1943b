"""`dualq serve`: the policy of a run as a small HTTP service."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from dualq.app.cli.logs import Run
from dualq.base import LogError, pip_install

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    run: Run,
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Where to listen; other computers can ask only if it is not loopback."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="The port.")] = 8000,
) -> None:
    """Serve a policy over HTTP: POST /act, POST /act_many, GET /policy, GET /health; GET /docs shows how.

    If the run is replaced, the next request uses the new one. Only this computer can ask, unless --host says
    otherwise; there is no password.
    """
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise LogError(f"this needs the package {missing[0]}; install it with: {pip_install('studio')}")
    import uvicorn

    from dualq.app.service import application
    from dualq.offline import doubt_of

    app = application(run)
    if doubt := doubt_of(run):
        print(f"dualq: {doubt}", file=sys.stderr)
    if host not in LOOPBACK:
        print(f"dualq: everybody who reaches {host} can ask; there is no password", file=sys.stderr)
    print(f"Serving {run} at http://{host}:{port}/docs; Ctrl-C stops.", flush=True)
    uvicorn.run(app, host=host, port=port, log_level="warning")
