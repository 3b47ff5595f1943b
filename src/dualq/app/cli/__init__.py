"""The command line: parse, call, print. What is heavy is imported by the command that needs it.

Standard output has the answer (with --json, one JSON object and nothing else), standard error has progress and errors.
Exit codes: 0 done, 2 bad input (one line, no traceback), 3 a policy that should not just be kept (check), 130
interrupted, 141 nobody reads on (as after `| head`).
"""

from __future__ import annotations

import _thread
import gc
import io
import os
import sys
import threading
from copy import copy
from typing import TYPE_CHECKING, Annotated

import typer

from dualq._version import __version__
from dualq.app.cli import (
    act,
    agent,
    check,
    evaluate,
    export,
    frontier,
    logs,
    look,
    models,
    one_engine,
    paper,
    serve,
    studio,
    update,
)
from dualq.base import DualqError

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

app = typer.Typer(
    name="dualq",
    help="Learn a better policy from the log you already have, and say how good it is.",
    no_args_is_help=True,
    add_completion=True,  # --install-completion, --show-completion
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: in half the time
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line and exit with its code."""
    gc.set_threshold(1_000_000)  # a command makes many objects and few cycles: looking for these took a sixth of it
    sys.unraisablehook = not_lost
    one_engine.load_what_is_asked()
    os.environ.setdefault("NPROC", "1")  # threads of XLA: on one, small networks take a quarter less time
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # 2^4 ticks; else every idle thread of it spins for 30 ms
    sys.stdout, sys.stderr = (stream or io.StringIO() for stream in (sys.stdout, sys.stderr))  # closed by >&-
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError as error:  # nobody reads on, or the disk is full; Python would say so once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or _fail_to_print(error)
    if code == 130 and any(not thread.daemon for thread in threading.enumerate()[1:]):
        sys.stderr.flush()
        os._exit(code)  # who has interrupted does not wait until threads are where they can stop
    gc.freeze()  # nor does Python look for them on the way out, among all that was ever imported: as long again
    sys.exit(code)


def not_lost(ignored: UnraisableHookArgs) -> None:
    """Python ignores what is raised while an object goes; if that is Ctrl-C, it comes once more, a moment later."""
    if isinstance(ignored.exc_value, KeyboardInterrupt):
        threading.Timer(0.05, _thread.interrupt_main).start()  # what is raised here would be ignored too
    else:
        sys.__unraisablehook__(ignored)


def run(arguments: list[str]) -> int:
    """Run the command line; the exit code."""
    try:
        code = _asked(arguments)(arguments or ["--help"], prog_name="dualq", standalone_mode=False) or 0
    except DualqError as error:
        return _fail(str(error))
    except OSError as error:
        if error.filename is None:
            return _fail_to_print(error)
        return _fail(f"{error.filename}: {error.strerror}")
    except MemoryError:
        return _fail("there is not enough memory for this")
    except ImportError as error:
        if "failed to map" not in str(error):
            raise
        return _fail(f"there is not enough memory for this ({error})")
    except SystemExit as end:
        if end.code != 1:  # of Typer, which completes a word
            raise
        return 141  # of Rich: nobody reads on
    except KeyboardInterrupt:
        return _interrupted()
    except Exception as error:
        if "Query interrupted" in str(error) or isinstance(error.__cause__, KeyboardInterrupt):
            return _interrupted()  # Ctrl-C, in the words of DuckDB; or while a compiled kernel was called
        # Typer's complaints about arguments know how to say themselves; anything else is a bug, and shows itself.
        words = getattr(error, "format_message", None)
        if words is None:
            raise
        command = getattr(getattr(error, "ctx", None), "command_path", "dualq")
        return _fail(f"{words().rstrip('.')}; see {command} --help")
    return _interrupted() if code == 130 else code


def _asked(arguments: list[str]) -> typer.Typer:
    """`app` with the one command that is named, where one is: Typer prepares every command that it has, for 20 ms."""
    one = copy(app)
    named = [known for known in app.registered_commands if known.callback and known.callback.__name__ in arguments[:1]]
    one.registered_commands = named or app.registered_commands
    return one


def _interrupted() -> int:
    print("dualq: interrupted", file=sys.stderr)
    return 130


def _fail_to_print(error: OSError) -> int:
    """A reader who has gone away, as `head` does, has seen enough: no word, and the code of its shell."""
    return 141 if isinstance(error, BrokenPipeError) else _fail(str(error.strerror or error))


def _fail(message: str) -> int:
    print(f"dualq: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _version(asked: bool) -> None:
    if asked:
        print(f"dualq {__version__}")
        raise typer.Exit


@app.callback()
def _dualq(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    pass


app.command(short_help="Learn a policy from a log, and say how good it is.")(logs.learn)
app.command(short_help="Look at a log: its columns, what is suspicious, how to learn.")(look.look)
app.command(short_help="Explain one state: every action, its rows and what it earns.")(logs.explain)
app.command(short_help="Say what to do in one state, or in every row of a file.")(act.act)
app.command(short_help="Check a policy in use: keep it, learn again, or stop.")(check.check)
app.command(short_help="Update a run: learn from its rows and new ones together.")(update.update)
app.command(short_help="Write the policy as JSON, SQL or Python, to run without dualq.")(export.export)
app.command(short_help="Judge a policy of your own by a log.")(evaluate.evaluate)
app.command(short_help="Compare several policies by one log.")(evaluate.compare)
app.command(short_help="Serve a policy over HTTP.")(serve.serve)
app.command(short_help="Show what a limit on a cost costs.")(frontier.frontier)
app.command(short_help="Solve a known model exactly.")(models.solve)
app.command(short_help="Write a simulated log.")(models.simulate)
app.command(short_help="Write the log that ships with dualq, to try the commands with.")(models.example)
app.command(short_help="Open the studio: learn from a log in a browser, on this machine.")(studio.studio)
app.command(short_help="Learn with the owners of other logs: one agent of a network.")(agent.agent)
app.command(short_help="Measure whether the claims of the paper hold.")(paper.reproduce)
