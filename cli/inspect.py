"""`mt inspect`."""

from __future__ import annotations

from pathlib import Path

import click

from cli import options


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def inspect() -> None:
    """Look into a trained model.

    \b
    Examples:
        mt inspect model runs/quickstart
        mt inspect attention runs/quickstart "The house is small." -o attention.html
    """


@inspect.command()
@click.argument("run", metavar="RUN")
@options.checkpoint
def model(run: str, checkpoint: str | None) -> None:
    """Print the modules of the model in the run folder RUN, the shapes of their parameters, and how many there are.

    A module's number holds those inside it; matrices that are tied count once.
    """
    from mt.inspection import inspect_model

    rows = inspect_model(run, checkpoint)
    wide = max(len(row.name) for row in rows)
    kinds = max(len(row.kind) for row in rows)
    for row in rows:
        click.echo(
            f"{row.parameters:>13,}  {row.kind:{kinds}}  {row.name or '(all)':{wide}}  {', '.join(row.shapes)}".rstrip()
        )


@inspect.command()
@click.argument("run", metavar="RUN")
@click.argument("sentence")
@click.option(
    "-o",
    "--output",
    type=options.path,
    metavar="FILE",
    default=Path("attention.html"),
    show_default=True,
    help="The page, HTML with the pictures in it.",
)
@click.option("--target", metavar="TEXT", help="Look at this translation.  [default: the model's own]")
@options.checkpoint
@options.device
def attention(run: str, sentence: str, output: Path, target: str | None, checkpoint: str | None, device: str) -> None:
    """Draw where the model in the run folder RUN looks while it translates SENTENCE, word by word.

    All layers and heads: of the encoder, of the decoder on its own words, and of the decoder on the source. The
    translation goes to standard output.
    """
    from mt.inspection import inspect_attention

    click.echo(inspect_attention(run, sentence, output, target, checkpoint, device))
