"""The studio's application: its addresses, and what each answers.

Heavy work is done elsewhere (workers.py), so that this process stays small, answers at once, and goes on whatever
becomes of a task. What the page sends is checked here, once, by the types of asked.py.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, unquote

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles

from dualq._version import __version__
from dualq.app.studio import asked
from dualq.app.studio.compared import compared, run_facts
from dualq.app.studio.guard import REPORT_POLICY, Guard, key_of, opens
from dualq.app.studio.jobs import Jobs
from dualq.app.studio.page_words import on_page
from dualq.app.studio.workers import Crashed, Lane
from dualq.app.studio.workspace import LogFile, NotHere, Workspace, kind_of, plain_task
from dualq.base import DualqError, Json, LogError

PAGE = Path(__file__).parent / "page"
IDLE = 300.0  # seconds after which a process that nobody asks is ended
KEPT = 16  # answers about runs: some are a few megabytes
GIGABYTE = 1 << 30
Answer = dict[str, Json]


@dataclass
class Studio:
    """What the addresses share."""

    space: Workspace
    token: str
    max_upload: int  # bytes
    logs: Lane = field(init=False)  # questions about logs
    fits: Lane = field(init=False)  # questions about runs
    jobs: Jobs = field(init=False)
    warming: dict[str, asyncio.Task[Answer]] = field(default_factory=dict[str, "asyncio.Task[Answer]"])
    answers: dict[tuple[str, ...], Answer] = field(default_factory=dict[tuple[str, ...], Answer])

    def __post_init__(self) -> None:
        self.logs, self.fits, learn = (Lane(name, self.space.parts) for name in ("logs", "fits", "learn"))
        self.jobs = Jobs(self.space, learn)

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """All processes that there may be."""
        return self.logs, self.fits, self.jobs.lane

    async def tidy(self) -> None:
        """End processes that nobody has asked for a while."""
        while True:
            await asyncio.sleep(IDLE / 10)
            for lane in self.lanes:
                await lane.end_if_idle(IDLE)

    async def close(self) -> None:
        """End everything."""
        for warming in self.warming.values():
            warming.cancel()
        await self.jobs.stop_all()
        for lane in self.lanes:
            await lane.stop()
        shutil.rmtree(self.space.parts, ignore_errors=True)

    def warm(self, lane: Lane, what: str) -> None:
        """Start a process before it is asked: somebody has opened the page."""
        if lane.pid is None and not lane.busy:
            warming = self.warming[what] = asyncio.create_task(lane.ask(what, {}))
            warming.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def of_run(self, what: str, run: str, **more: Json) -> Answer:
        """Ask about a run; an answer is kept as long as the run is the same."""
        folder = self.space.run(run)
        key = (what, run, str((folder / "fit.json").stat().st_mtime_ns), repr(sorted(more.items())))
        if key not in self.answers:
            answer = await self.fits.ask(what, {"run": str(folder), **more})
            while len(self.answers) >= KEPT:
                self.answers.pop(next(iter(self.answers)))
            self.answers[key] = answer
        return self.answers[key]


def studio_of(request: Request) -> Studio:
    """The studio that an address belongs to."""
    return request.app.state.studio


Here = Annotated[Studio, Depends(studio_of)]
api = APIRouter(prefix="/api")
files = APIRouter()


def application(
    space: Workspace, token: str, hosts: frozenset[str], max_upload: int = 2 * GIGABYTE, warm: bool = True
) -> FastAPI:
    """The application; warm: whether processes are started when a page is opened, before they are asked."""
    studio = Studio(space, token, max_upload)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncGenerator[None]:
        tidying = asyncio.create_task(studio.tidy())
        yield
        tidying.cancel()
        await studio.close()

    app = FastAPI(
        title="dualq studio", lifespan=life, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
    )
    app.state.studio, app.state.warm = studio, warm
    app.add_middleware(Guard, token=token, hosts=hosts)
    app.include_router(api)
    app.include_router(files)
    app.mount("/", StaticFiles(directory=PAGE))
    app.add_exception_handler(DualqError, _refuse)
    app.add_exception_handler(RequestValidationError, _not_understood)
    return app


def _refuse(request: Request, error: Exception) -> Response:
    """One line, and the status that fits."""
    status = 404 if isinstance(error, NotHere) else 500 if isinstance(error, Crashed) else 422
    return JSONResponse({"error": on_page(str(error))}, status)


def _not_understood(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"][1:])
    return JSONResponse({"error": f"{where or 'the request'}: {first['msg']}"}, 422)


# ---- the session


@api.get("/session")
async def session(here: Here, request: Request) -> Response:
    """What the page must know to begin; what the first question needs is loaded meanwhile."""
    if request.app.state.warm:
        here.warm(here.logs, "warm")
        if here.space.all_runs():
            here.warm(here.fits, "ready")
    facts = {"version": __version__, "max_upload": here.max_upload, "workspace": str(here.space.folder)}
    return JSONResponse(facts)


# ---- logs


@api.get("/logs")
def all_logs(here: Here) -> Response:
    """The logs that may be looked at."""
    return JSONResponse([log.facts(here.space.chosen(log)) for log in here.space.all_logs()])


@api.post("/logs")
async def drop_log(here: Here, request: Request) -> Response:
    """A log, streamed to disk; the limit is enforced while it comes, and nothing is kept in memory."""
    name = unquote(request.headers.get("x-file-name", ""))[-200:].replace("/", "_").replace("\\", "_")
    kind_of(name)
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > here.max_upload:
        raise _too_large(here)
    part = here.space.part(f"upload-{secrets.token_hex(8)}")
    try:
        with part.open("wb") as file:
            size = 0
            async for chunk in request.stream():
                size += len(chunk)
                if size > here.max_upload:
                    raise _too_large(here)
                await asyncio.to_thread(file.write, chunk)
        if size == 0:
            raise LogError(f"{name}: the file is empty; a log needs column names and rows below them")
        return JSONResponse(here.space.keep_log(part, name).facts())
    finally:
        part.unlink(missing_ok=True)


def _too_large(here: Studio) -> LogError:
    limit = f"{here.max_upload / GIGABYTE:.3g} GB"
    return LogError(f"the file is larger than {limit}; start with --max-upload, or give its path: dualq studio LOG")


@api.delete("/logs/{log}")
def delete_log(here: Here, log: str) -> Response:
    """Forget a log that was dropped."""
    here.space.drop_log(log)
    return JSONResponse({})


@api.post("/logs/{log}/choose")
def choose(here: Here, log: str, chosen: asked.Chosen) -> Response:
    """Keep what was chosen of a log, with the log: another tab, or another day, finds it."""
    here.space.choose(here.space.log(log), chosen.said())
    return JSONResponse({})


@api.post("/logs/{log}/{what}")
async def of_log(here: Here, log: str, what: str, question: asked.OfLog) -> Response:
    """The first rows of a log (preview), its columns (look), or what it can tell (tell)."""
    if what not in ("preview", "look", "tell"):
        raise NotHere("there is no such question")
    found = here.space.log(log)
    return JSONResponse(await here.logs.ask(what, _named(found, question.columns)))


def _named(log: LogFile, columns: asked.Columns) -> dict[str, object]:
    said = columns.said()
    return {"path": log.path, "columns": said}


# ---- jobs


@api.get("/jobs")
async def all_jobs(here: Here) -> Response:
    """Every job, the newest first."""
    return JSONResponse([job.facts() for job in here.jobs.all()])


@api.post("/jobs")
async def add_job(here: Here, job: asked.NewJob) -> Response:
    """A run to be learned."""
    log, columns, learning = here.space.log(job.log), job.columns.said(), job.learning.said()
    arguments = {"path": log.path, "columns": columns, "learning": learning}
    task = plain_task(log, columns, learning) | {"title": job.name or log.name}
    return JSONResponse(here.jobs.add(job.name or log.name, "learn", arguments | {"task": task}).facts())


@api.delete("/jobs/{job}")
async def stop_job(here: Here, job: str) -> Response:
    """Stop a job, or take it out of the queue."""
    return JSONResponse((await here.jobs.stop(job)).facts())


# ---- runs


@api.get("/runs")
def all_runs(here: Here) -> Response:
    """The runs of the workspace, in a few words each."""
    found: list[Answer] = []
    for name in here.space.all_runs():
        with suppress(DualqError, OSError, KeyError, TypeError):
            found.append(run_facts(here.space.numbers(name), here.space.task(name)))
    return JSONResponse(found)


@api.get("/runs/{run}")
async def decision(here: Here, run: str) -> Response:
    """The decision."""
    task = here.space.task(run)
    kept = {name: task.get(name) for name in ("title", "columns", "learning", "line")}
    links: list[Json] = [_link(here, run, path) for path in here.space.files(run)]
    return JSONResponse({**await here.of_run("open", run), "id": run, "task": kept, "files": links})


def _link(here: Studio, run: str, path: Path) -> Json:
    at = f"{run}/{path.name}"
    address = f"/files/{quote(at)}?key={key_of(here.token, at)}"
    return {"name": path.name, "size": path.stat().st_size, "address": address}


@api.delete("/runs/{run}")
def delete_run(here: Here, run: str) -> Response:
    """Delete a run."""
    here.space.drop_run(run)
    return JSONResponse({})


@api.post("/runs/{run}/state")
async def state(here: Here, run: str, place: asked.Place) -> Response:
    """All that is known of one state."""
    return JSONResponse(await here.of_run("state", run, place=place.place, state=dict(place.state or {})))


@api.post("/runs/{run}/rows")
async def rows_behind(here: Here, run: str, behind: asked.Behind) -> Response:
    """The rows of the log behind a state, where the log is still there."""
    task = here.space.task(run)
    log = task.get("log")
    if not isinstance(log, dict) or not os.path.exists(str(log.get("path"))):
        raise NotHere("the log that this run was learned from is not here any more")
    columns = task.get("columns")
    asked_for = {"path": log["path"], "columns": columns, "state": behind.state, "action": behind.action}
    return JSONResponse(await here.logs.ask("rows", asked_for))


@api.get("/runs/{run}/curve")
async def curve(here: Here, run: str, cost: str) -> Response:
    """The trade-off of a cost."""
    return JSONResponse(await here.of_run("curve", run, cost=cost))


@api.post("/runs/{run}/limits")
async def limits(here: Here, run: str, wanted: asked.Limits) -> Response:
    """The run with other limits, solved exactly."""
    return JSONResponse(await here.of_run("limits", run, limits=dict(wanted.limits), margin=wanted.margin))


@api.post("/runs/{run}/keep")
async def keep(here: Here, run: str, wanted: asked.Limits) -> Response:
    """The run with other limits, as a run of its own."""
    task = here.space.task(run)
    title = f"{task.get('title') or run} with " + ", ".join(f"{name}<={x:g}" for name, x in wanted.limits.items())
    arguments = {"run": str(here.space.run(run)), "limits": wanted.limits, "margin": wanted.margin}
    return JSONResponse(here.jobs.add(title, "keep", {**arguments, "task": task | {"title": title}}).facts())


@api.post("/compare")
def compare(here: Here, wanted: asked.Compare) -> Response:
    """Runs, side by side."""
    return JSONResponse(compared([run_facts(here.space.numbers(run), here.space.task(run)) for run in wanted.runs]))


@api.post("/runs/{run}/export")
async def export(here: Here, run: str, wanted: asked.Export) -> Response:
    """The policy of a run for another system, as a file among the others of the run."""
    folder = here.space.run(run)
    made = await here.fits.ask("export", {"run": str(folder), **wanted.model_dump()})
    return JSONResponse(_link(here, run, here.space.file(run, str(made["name"]))))


@api.post("/judge")
async def judge(here: Here, wanted: asked.Judge) -> Response:
    """Policies judged by one log: a job, whose report can be opened when it is done."""
    log, titles = here.space.log(wanted.log), {run: here.space.task(run).get("title") or run for run in wanted.runs}
    runs = {str(titles[run]): str(here.space.run(run)) for run in wanted.runs}
    if not wanted.rules and not runs:
        raise LogError("there is no policy to judge; write a rule, or choose a run")
    arguments = {"path": log.path, "columns": wanted.columns.said(), "rules": wanted.rules, "runs": runs}
    return JSONResponse(here.jobs.add(f"Policies judged by {log.name}", "judge", arguments).facts())


@api.get("/judged/{name}")
def judged(here: Here, name: str) -> Response:
    """Where the report of a comparison is."""
    here.space.comparison(name)
    return JSONResponse({"address": f"/judged/{quote(name)}/report.html?key={key_of(here.token, f'judged/{name}')}"})


# ---- files


@files.get("/judged/{name}/report.html")
def comparison(here: Here, name: str, key: str = "") -> Response:
    """The report of a comparison, for whoever has its key."""
    if not opens(here.token, f"judged/{name}", key):
        raise NotHere("there is no such file")
    return _report(here.space.comparison(name))


@files.get("/")
def page() -> Response:
    """The page."""
    return FileResponse(PAGE / "index.html", media_type="text/html")


@files.get("/files/{run}/{name}")
def file(here: Here, run: str, name: str, key: str = "", save: bool = False) -> Response:
    """A file of a run, for whoever has its key; the report is shown, all others are saved."""
    if not opens(here.token, f"{run}/{name}", key):
        raise NotHere("there is no such file")
    path = here.space.file(run, name)
    if path.suffix == ".html" and not save:
        return _report(path)
    return FileResponse(path, media_type="application/octet-stream", filename=path.name)


def _report(path: Path) -> Response:
    """A page of its own, which runs no script at all."""
    return FileResponse(path, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})
