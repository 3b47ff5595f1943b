"""Workers: tasks done in processes of their own, one at a time in each lane, in the order in which they came.

A lane has one process at most. It is started when it is first needed, keeps what it has loaded for the next task, and
is ended after a while without any. Whoever cancels ends the process: the task really stops, and the next one starts
anew. A process that falls over takes its task with it, and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from dualq.base import DualqError, Json

LONGEST = 1 << 28  # bytes of an answer
PACKAGES = Path(__file__).parents[3]  # the folder that holds dualq: the process finds the same one
PATIENCE = 2.0  # seconds for a process to end by itself


class TaskError(DualqError):
    """Why a task has no answer, in one line."""


class Cancelled(DualqError):
    """Somebody stopped the task."""


class Crashed(DualqError):
    """The process ended without an answer."""


class Lane:
    """One process at most, and a queue before it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder  # folder: where the process runs, and may leave what it spills
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._stopped = False
        self.used = time.monotonic()

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one."""
        return None if self._process is None else self._process.pid

    @property
    def busy(self) -> bool:
        """Whether a task is being done."""
        return self._turn.locked()

    async def ask(
        self, what: str, arguments: Mapping[str, object], begin: Callable[[str], None] | None = None
    ) -> dict[str, Json]:
        """Do a task when it is its turn; begin is told each stage."""
        async with self._turn:
            self._stopped = False
            try:
                return await self._ask(what, arguments, begin or (lambda stage: None))
            except asyncio.CancelledError:  # whoever asked has gone, and the process would answer to nobody
                await self._end()
                raise
            finally:
                self.used = time.monotonic()

    async def _ask(self, what: str, arguments: Mapping[str, object], begin: Callable[[str], None]) -> dict[str, Json]:
        process = await self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(ConnectionError):
            process.stdin.write(json.dumps({"do": what, "with": dict(arguments)}).encode() + b"\n")
            await process.stdin.drain()
        while line := await process.stdout.readline():
            said: dict[str, Json] = json.loads(line)
            if "stage" in said:
                begin(str(said["stage"]))
            elif isinstance(answer := said.get("answer"), dict):
                return answer
            else:
                raise TaskError(str(said.get("error")))
        await self._end()
        if self._stopped:
            raise Cancelled("stopped")
        raise Crashed("the work ended unexpectedly; nothing was changed, and the studio goes on. Try it again")

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "dualq.app.studio.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                cwd=self.folder,
                limit=LONGEST,
                env=os.environ | {"PYTHONPATH": str(PACKAGES), "PYTHONSAFEPATH": "1"},
            )
        return self._process

    async def stop(self) -> None:
        """End the process; a task that is being done ends with it, and raises Cancelled."""
        self._stopped = True
        await self._end()

    async def _end(self) -> None:
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), PATIENCE)
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if self._process is process:
            self._process = None

    async def end_if_idle(self, seconds: float) -> None:
        """End the process where nobody has asked for so long: its memory is given back."""
        if self._process is not None and not self.busy and time.monotonic() - self.used > seconds:
            await self._end()
