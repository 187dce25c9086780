"""Writes the reference pages: docs/cli.md from the help texts, docs/recipes.md from the declared keys.

python -m cli.reference docs
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cli.main import COMMANDS, mt
from mt import reference as recipes

HEAD = """\
# The command line

`mt COMMAND --help` prints what stands here; `python -m cli.reference docs` writes this page from it, and a test
keeps the two equal.
"""


def reference() -> str:
    """The help of `mt` and of each command, as Markdown."""
    top = click.Context(
        mt, info_name="mt", help_option_names=["-h", "--help"], terminal_width=WIDTH, max_content_width=WIDTH
    )
    parts = [HEAD, _section("mt", mt.get_help(top))]
    for name in COMMANDS:
        command = mt.get_command(top, name)
        assert command is not None
        context = click.Context(command, parent=top, info_name=name, terminal_width=WIDTH)
        parts.append(_section(f"mt {name}", command.get_help(context)))
        for inner, subcommand in getattr(command, "commands", {}).items():
            below = click.Context(subcommand, parent=context, info_name=inner, terminal_width=WIDTH)
            parts.append(_section(f"mt {name} {inner}", subcommand.get_help(below)))
    return "\n".join(parts)


WIDTH = 100
"""Columns, so that the page is the same whatever the terminal."""


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n```text\n{text}\n```\n"


def write(folder: Path) -> None:
    """Write the pages into `folder`."""
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8", newline="\n")


PAGES = {"cli.md": reference, "recipes.md": recipes.reference}

if __name__ == "__main__":
    write(Path(sys.argv[1]))
