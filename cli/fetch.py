"""`mt fetch`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from cli import options
from cli.draw import draw


@click.command()
@options.recipe
@options.overrides
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Take the files to download from this folder instead of the network.",
)
def fetch(recipe: str, overrides: Sequence[str], source: Path | None) -> None:
    """Download, split or generate the text that a recipe names.

    RECIPE is a YAML file or the name of a shipped recipe. Downloads are checked against their SHA-256 and go on where
    they were cut off; what is there already is not fetched again.

    \b
    Example:
        mt fetch multi30k-en-de
    """
    from mt.fetch import fetch as fetch_corpora
    from mt.recipe import load_recipe

    click.echo(str(draw(fetch_corpora(load_recipe(recipe, overrides), source))))
