"""Jobs: runs that are being made, one at a time, the others in a queue; what became of each.

A job is queued, running, done, failed or stopped. Its stages are those that `learn` names when they begin.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from dualq.app.studio.page_words import on_page
from dualq.app.studio.workers import Cancelled, Lane
from dualq.app.studio.workspace import NotHere, Workspace, new_id
from dualq.base import DualqError, Json

KEPT = 100  # jobs that are remembered
MOST_WAITING = 50


@dataclass
class Job:
    """One of them."""

    id: str
    title: str
    what: str  # the task of the worker
    arguments: dict[str, object] = field(repr=False)
    status: str = "queued"
    stages: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])  # (name, when it began)
    run: str = ""  # its name, once it is done
    error: str = ""
    ended: float | None = None

    def facts(self) -> dict[str, Json]:
        """What the page shows; seconds that each stage has taken."""
        until = [*(began for _, began in self.stages[1:]), self.ended or time.time()][: len(self.stages)]
        stages: list[Json] = [
            {"name": name, "seconds": round(end - began, 2)}
            for (name, began), end in zip(self.stages, until, strict=True)
        ]
        return {
            "id": self.id,
            "title": self.title,
            "status": self.status,
            "stages": stages,
            "run": self.run,
            "error": self.error,
        }


class Jobs:
    """The queue, and what has left it."""

    def __init__(self, space: Workspace, lane: Lane) -> None:
        self.space, self.lane = space, lane
        self._jobs: dict[str, Job] = {}
        self._working: dict[str, asyncio.Task[None]] = {}

    def all(self) -> list[Job]:
        """The newest first."""
        return list(reversed(self._jobs.values()))

    def add(self, title: str, what: str, arguments: Mapping[str, object]) -> Job:
        """Put a job into the queue; its run has a name already."""
        if len(self._working) >= MOST_WAITING:
            raise DualqError(f"{MOST_WAITING} runs are waiting already; stop some of them, or wait")
        home = self.space.judged if what == "judge" else self.space.runs
        run = new_id(home.name.removesuffix("s"))
        more = {"part": str(self.space.part(run)), "folder": str(home / run)}
        job = Job(run, title, what, {**arguments, **more})
        self._jobs[run] = job
        for old in list(self._jobs)[:-KEPT]:
            if old not in self._working:
                del self._jobs[old]
        task = self._working[run] = asyncio.create_task(self._work(job))
        task.add_done_callback(lambda _: self._working.pop(run, None))
        return job

    async def _work(self, job: Job) -> None:
        def begin(stage: str) -> None:
            job.status = "running"
            job.stages.append((stage, time.time()))

        try:
            await self.lane.ask(job.what, job.arguments, begin)
            job.status, job.run = "done", job.id
        except Cancelled:
            job.status = "stopped"
        except asyncio.CancelledError:
            job.status = "stopped"
        except DualqError as error:
            job.status, job.error = "failed", on_page(str(error))
        finally:
            job.ended = time.time()
            shutil.rmtree(self.space.part(job.id), ignore_errors=True)

    async def stop(self, name: str) -> Job:
        """Take a job out of the queue, or end the process that does it."""
        job = self._jobs.get(name)
        if job is None:
            raise NotHere("there is no such job")
        working = self._working.get(name)
        if working is not None:
            working.cancel()  # the lane ends the process of a task that is cancelled
            await asyncio.wait([working])
        return job

    async def stop_all(self) -> None:
        """End everything."""
        for name in list(self._working):
            await self.stop(name)
