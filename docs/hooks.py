"""What the documentation site takes from elsewhere in the project. MkDocs calls the functions `on_...` while it builds.

* the command line's help, and pages that stand at the root of the project;
* `<!-- mathematics: online/spd_q.py -->` on a page becomes the docstring of that module, as it is written.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
PAGES = {  # page of the site: file of the project
    "measured.md": "benchmarks/RESULTS.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
LINKS = {  # as the project writes them: as they are on the site
    "](../benchmarks/RESULTS.md": "](measured.md",
    "](reproduced/)": "](reproduced/summary.json)",
}


def on_files(files, config):
    """Add the pages that are no files of docs/."""
    for page, source in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    files.append(File.generated(config, "reference/cli.md", content=command_line()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links that leave docs/ lead to the site's own page; docstrings of modules stand where they are asked for."""
    for written, here in LINKS.items():
        markdown = markdown.replace(written, here)
    return re.sub(r"<!-- mathematics: (\S+) -->", mathematics, markdown)


def mathematics(match: re.Match[str]) -> str:
    """The docstring of a module as text, folded away."""
    text = ast.get_docstring(ast.parse((ROOT / "src" / "dualq" / match[1]).read_text())) or ""
    lines = ["```text", *text.splitlines(), "```"]
    return "\n".join([f'??? abstract "The mathematics of {match[1]}"', "", *(f"    {line}" for line in lines)])


def command_line() -> str:
    """Every command with its options, as `--help` has them."""
    import typer

    from dualq.app.cli import app

    group = typer.main.get_command(app)
    lines = ["# The command line", "", "Every option of every command, as `dualq COMMAND --help` shows it.", ""]
    with group.make_context("dualq", ["learn"], resilient_parsing=True) as parent:
        for name, command in group.commands.items():
            with command.make_context(name, [], parent=parent, resilient_parsing=True) as context:
                about = [line.strip() for line in (command.help or "").splitlines()]
                lines += [f"## dualq {name}", "", *about, "", *options(command, context)]
    return "\n".join(lines) + "\n"


def options(command, context) -> list[str]:
    """How a command is called, and a table of its arguments and options."""
    rows = []
    for parameter in command.get_params(context):
        words, text = parameter.get_help_record(context) or ("", parameter.help or "")
        if parameter.param_type_name == "argument":
            words = parameter.metavar or parameter.name.upper()
        words, text = (" ".join(part.split()).replace("|", "\\|") for part in (words, text))
        rows.append(f"| `{words}` | {text} |")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    return ["```", usage, "```", "", "| option | what it does |", "|---|---|", *rows, ""]
