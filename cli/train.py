"""`mt train`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from cli import options
from cli.draw import draw
from cli.together import together
from cli.training import stoppable, training_lines


@click.command()
@options.recipe
@options.overrides
@options.machine
@click.option("--overwrite", is_flag=True, help="Begin anew where the run folder holds another training.")
@options.dry_run
def train(
    recipe: str, overrides: Sequence[str], device: str, threads: int | None, overwrite: bool, dry_run: bool
) -> int:
    """Train a model on a prepared corpus, or go on with a training that was stopped.

    RECIPE is a YAML file or the name of a shipped recipe. The same command again resumes from the last checkpoint.
    Ctrl-C, SIGTERM and SIGHUP save a checkpoint and stop, also in the middle of a validation; a second one stops at
    once. SIGTERM then ends with exit code 0, Ctrl-C with 130.

    \b
    Examples:
        mt train recipe.yaml
        mt train recipe.yaml -o train.lr=3e-4 --device cuda:0
        mt train wmt14-en-de-base --dry-run
        torchrun --nproc-per-node 4 -m mt train recipe.yaml
    """
    from mt.recipe import load_recipe

    loaded = load_recipe(recipe, overrides)
    if dry_run:
        from cli.dry_run import show

        show(loaded, "train")
        return 0
    from mt.train import train as train_model

    with stoppable() as signals, together(device, threads) as (group, chosen):
        report = draw(train_model(loaded, chosen, signals.request, overwrite, group), training_lines())
        if group.leads:
            click.echo(f"{loaded.model_dir}: {report.reason}, update {report.state.update}")
    return 0 if report.finished else signals.exit_code
