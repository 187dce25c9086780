"""`mt export`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from cli import options
from cli.draw import draw

ENGINES = ("ctranslate2",)


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("folder", metavar="DIR", type=options.path)
@click.option("--to", "engine", type=click.Choice(ENGINES), required=True, help="The engine that is to run the model.")
@click.option(
    "--sentences",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    help="How many both translate and score in the check.",
)
@options.checkpoint
@options.long_overrides
def export(
    run: str, folder: Path, engine: str, sentences: int, checkpoint: str | None, overrides: Sequence[str]
) -> None:
    """Convert the model in the run folder RUN for another engine, into the new folder DIR.

    Tokenizer and decode settings are written beside it. DIR has its name only when the engine was seen to translate
    sentences as this project does, with equal log-probabilities; what the engine cannot run is refused with the reason.

    \b
    Examples:
        mt export runs/quickstart --to ctranslate2 exported
        mt translate exported --backend ctranslate2 < test.en
    """
    from mt.export import export as export_model

    done = draw(export_model(run, folder, engine, checkpoint, sentences, overrides))
    click.echo(
        f"{done.folder}: {done.sentences} sentences translated alike, log-probabilities equal to {done.difference:.1g}"
    )
