"""What `--dry-run` prints: the effective recipe on standard output, the estimate of its cost on standard error."""

from __future__ import annotations

import click

from mt.recipe import Recipe


def show(recipe: Recipe, stage: str, promises: bool = False) -> None:
    """Print the effective recipe as YAML, and what training it would take; `stage` is the command.

    Raises, after both are printed, what `check_recipe` does.
    """
    from mt.checks import check_recipe
    from mt.estimate import estimate
    from mt.recipe import effective

    click.echo(effective(recipe), nl=False)
    click.echo(str(estimate(recipe)), err=True)
    check_recipe(recipe, stage, promises)
