"""`mt train`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cli import options
from cli.draw import draw


@click.command()
@options.recipe
@options.overrides
@options.machine
@options.dry_run
def train(recipe: str, overrides: Sequence[str], device: str, threads: int | None, dry_run: bool) -> None:
    """Train a model on a prepared corpus, or go on with a training that was stopped.

    RECIPE is a YAML file or the name of a shipped recipe. The same command again resumes from the last checkpoint.

    \b
    Examples:
        mt train recipe.yaml
        mt train recipe.yaml -o train.lr=3e-4 --device cuda:0
        mt train wmt14-en-de-base --dry-run
    """
    from mt.recipe import load_recipe

    loaded = load_recipe(recipe, overrides)
    if dry_run:
        from cli.dry_run import show

        show(loaded)
        return
    from mt.train import train as train_model

    from mt.device import pick_device

    report = draw(train_model(loaded, device=draw(pick_device(device, threads))))
    click.echo(str(report))
