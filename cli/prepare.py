"""`mt prepare`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cli import options
from cli.draw import draw


@click.command()
@options.recipe
@options.overrides
@options.workers
@click.option("--overwrite", is_flag=True, help="Replace a corpus that a training in the run folder was begun on, too.")
def prepare(recipe: str, overrides: Sequence[str], workers: int | None, overwrite: bool) -> None:
    """Turn raw text into a subword model and a binarised corpus.

    RECIPE is a YAML file or the name of a shipped recipe. The report says what was read, kept and left out, and why.
    When neither text nor settings have changed, nothing is done again.

    \b
    Example:
        mt prepare recipe.yaml --workers 4
    """
    from mt.checks import check_recipe
    from mt.prepare import prepare as prepare_corpus
    from mt.recipe import load_recipe

    loaded = load_recipe(recipe, overrides)
    check_recipe(loaded, "prepare")
    for line in draw(prepare_corpus(loaded, workers, overwrite)).lines():
        click.echo(line)
