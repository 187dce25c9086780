"""`mt plot`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from cli import options
from cli.draw import draw
from mt.curves import AXES


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=options.path)
@click.option(
    "-o",
    "--output",
    type=options.path,
    metavar="FILE",
    help="The picture, .svg or .png.  [default: plot.svg in the run folder, or of several in the current one]",
)
@click.option(
    "--along", type=click.Choice(list(AXES)), default="updates", show_default=True, help="What the curves run along."
)
def plot(runs: Sequence[Path], output: Path | None, along: str) -> None:
    """Draw loss, validation loss and BLEU, learning rate and speed of the run folders RUN.

    Several are drawn over one another on the same axes. The logs are read as they stand, so a training may still be
    running. Needs matplotlib, which the extra `plots` installs.

    \b
    Examples:
        mt plot runs/quickstart
        mt plot runs/lr1e-3 runs/lr5e-4 --along time -o learning-rates.png
    """
    from mt.plot import plot as plot_runs

    click.echo(draw(plot_runs(runs, output, along)))
