"""The policy of a run as a small HTTP service: what to do in one state, or in many.

    POST /act        {"state": {...}, "case": 17}               -> {"action": ...}
    POST /act_many   {"states": {column: [...]}, "case": [...]} -> {"actions": [...], "unknown": 0}
    GET  /policy     the policy as JSON (`dualq export --to json`)
    GET  /health     which run is served, and since when
    GET  /docs       a page that needs nothing from elsewhere;  /openapi.json for programs

A run that is replaced is loaded at the next request, whole or not at all: while its files do not fit together, the
policy before it goes on deciding. A state that is not known: 422, with the reason in one line.
This module needs the extra `studio` (FastAPI); `dualq serve` says so where it is missing.
"""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from numpy.typing import ArrayLike
from pydantic import BaseModel, Field

from dualq._version import __version__
from dualq.app.report.page import facts, page, section, text
from dualq.base import DualqError, Label, LogError
from dualq.model import FunctionPolicy
from dualq.offline import Decider, decider_of, doubt_of, export

Value = str | int | float | bool | None
NUMBERS = "fit.json"  # written last: with it a run is whole


class ActRequest(BaseModel):
    """One state."""

    state: dict[str, Value] = Field(description="{column: value}", examples=[{"stock": 3, "season": "winter"}])
    case: int | None = Field(
        None, description="the number of the case: a random policy always gives it the same action"
    )
    default: Value | list[Value] = Field(None, description="the answer for a state that is not in the log")


class ActManyRequest(BaseModel):
    """Many states, as a table."""

    states: dict[str, list[Value]] = Field(description="{column: values}", examples=[{"stock": [3, 0]}])
    case: list[int] | None = Field(None, description="the number of each case; without it, the number of the row")
    default: Value | list[Value] = Field(None, description="the answer for a state that is not in the log")


class ActAnswer(BaseModel):
    """What to do; of an action with several columns, a list."""

    action: Value | list[Value]


class ActManyAnswer(BaseModel):
    """What to do in each row; null where the log never had the state."""

    actions: list[Value | list[Value]]
    unknown: int


@dataclass
class Served:
    """The run that is served, loaded again when it is replaced."""

    run: Path
    policy: Decider | FunctionPolicy = field(init=False)
    doubt: str = field(init=False, default="")
    since: str = field(init=False, default="")
    _seen: tuple[int, int, int] = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self):
        self._load(self._stamp())

    def _stamp(self) -> tuple[int, int, int]:
        found = (self.run / NUMBERS).stat()
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _load(self, stamp: tuple[int, int, int]) -> None:
        policy, doubt = decider_of(self.run), doubt_of(self.run)
        self.policy, self.doubt, self._seen = policy, doubt, stamp
        self.since = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")

    def now(self) -> Decider | FunctionPolicy:
        """The policy, as it is on disk if that is whole."""
        with self._lock:
            try:
                stamp = self._stamp()
                if stamp != self._seen:
                    self._load(stamp)
            except (DualqError, OSError):
                pass  # half written, or gone for a moment: the one before goes on
            return self.policy


def application(run: Path) -> FastAPI:
    """The service for a run."""
    if not (run / NUMBERS).is_file():
        raise LogError(f"{run}: no fit was saved here; there is no {NUMBERS}")
    served = Served(run)
    app = FastAPI(title="dualq", version=__version__, docs_url=None, redoc_url=None, description=__doc__ or "")

    @app.exception_handler(DualqError)
    def refused(request: Request, error: DualqError) -> JSONResponse:
        return JSONResponse({"detail": " ".join(str(error).split())}, 422)

    @app.exception_handler(RequestValidationError)
    def misread(request: Request, error: RequestValidationError) -> JSONResponse:
        first, kind = error.errors()[0], request.headers.get("content-type", "")
        if request.method == "POST" and not kind.startswith("application/json"):
            sent = f"the body came as {kind or 'nothing that is named'}"
            return JSONResponse({"detail": f"{sent}; send JSON, with the header Content-Type: application/json"}, 422)
        where = ".".join(str(part) for part in first["loc"])
        return JSONResponse({"detail": f"{where}: {first['msg']}"}, 422)

    @app.post("/act", summary="What to do in one state")
    def act(asked: ActRequest) -> ActAnswer:
        action = served.now().act(asked.state, None, _label(asked.default), asked.case)
        return ActAnswer(action=_plain(action))

    @app.post("/act_many", summary="What to do in many states")
    def act_many(asked: ActManyRequest) -> ActManyAnswer:
        sizes = {name: len(values) for name, values in asked.states.items()}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise LogError(f"the columns have different numbers of rows: {listed}")
        table: Mapping[str, ArrayLike] = asked.states  # pyright: ignore[reportAssignmentType]
        actions = served.now().act_many(table, None, None, asked.case)
        default = _plain(_label(asked.default))
        unknown = sum(action is None for action in actions)
        return ActManyAnswer(actions=[default if a is None else _plain(a) for a in actions], unknown=unknown)

    @app.get("/policy", summary="The policy, as JSON")
    def policy() -> Response:
        return Response(export(served.now(), "json"), media_type="application/json")

    @app.get("/health", summary="Which run is served, and since when")
    def health() -> dict[str, str | None]:
        served.now()
        return {
            "status": "ok",
            "run": str(served.run),
            "since": served.since,
            "doubt": served.doubt or None,
            "dualq": __version__,
        }

    @app.get("/docs", include_in_schema=False)
    @app.get("/", include_in_schema=False)
    def shown() -> HTMLResponse:
        return HTMLResponse(_page(served, app.openapi()))

    # FastAPI keeps them; nothing else in this function calls them
    del refused, misread, act, act_many, policy, health, shown
    return app


def _label(value: Value | list[Value]) -> Label:
    return tuple(value) if isinstance(value, list) else value


def _plain(label: Label) -> Value | list[Value]:
    """An action as JSON has it."""
    if isinstance(label, tuple):
        return [part if isinstance(part, str | int | float) else str(part) for part in label]  # pyright: ignore
    return label if isinstance(label, str | int | float | None) else str(label)


def _page(served: Served, schema: dict[str, object]) -> str:
    """What can be asked, with a line to try it."""
    names = served.policy.names if isinstance(served.policy, Decider) else served.policy.columns.names
    state = json.dumps(dict.fromkeys(names, "..."), ensure_ascii=False)
    paths: dict[str, dict[str, dict[str, str]]] = schema["paths"]  # pyright: ignore[reportAssignmentType]
    listed = [(f"{verb.upper()} {path}", what["summary"]) for path, of in paths.items() for verb, what in of.items()]
    states = json.dumps({name: ["...", "..."] for name in names}, ensure_ascii=False)
    bodies = {"act": f'{{"state": {state}}}', "act_many": f'{{"states": {states}}}'}
    lines = [f"curl -H 'Content-Type: application/json' -d '{body}' http://HOST:PORT/{p}" for p, body in bodies.items()]
    return page(
        "dualq: a policy in use",
        "<h1>A policy in use</h1>",
        text(f"{served.run}, loaded {served.since}. {served.doubt}"),
        section("What can be asked", facts(listed), text("For programs: /openapi.json")),
        section("Try it", *map(text, lines)),
    )
