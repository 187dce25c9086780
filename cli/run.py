"""`mt run`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cli import options
from cli.draw import draw


@click.command()
@options.recipe
@options.overrides
@options.workers
@options.machine
@options.dry_run
def run(
    recipe: str, overrides: Sequence[str], workers: int | None, device: str, threads: int | None, dry_run: bool
) -> None:
    """Fetch, prepare, train, translate and evaluate, in a row.

    RECIPE is a YAML file or the name of a shipped recipe. A stage whose inputs and settings are unchanged is skipped.
    In the end the scores with their signatures, and ten held-out samples side by side.

    \b
    Examples:
        mt run quickstart
        mt run recipe.yaml -o seed=2 -o model_dir=runs/seed2
    """
    from mt.recipe import load_recipe

    loaded = load_recipe(recipe, overrides)
    if dry_run:
        from cli.dry_run import show

        show(loaded)
        return
    from mt.pipeline import run as run_pipeline

    from mt.device import pick_device

    report = draw(run_pipeline(loaded, device=draw(pick_device(device, threads)), workers=workers))
    click.echo(str(report))
