"""`mt inspect`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from cli import options

TARGET = click.argument("target", metavar="RUN|RECIPE")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def inspect() -> None:
    """Look into a model.

    \b
    Examples:
        mt inspect model multi30k-tok-gnmt
        mt inspect attention runs/quickstart "January 5, 2021" -o attention.html
    """


@inspect.command()
@TARGET
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How it is printed.",
)
def model(target: str, style: str) -> None:
    """Print the modules of a model, the shapes of their parameters, and how many there are, as a tree.

    The model is that of a run folder or of a recipe, which needs neither text nor training. A module's number holds
    those inside it; what is tied counts once. Alike modules in a row are shown once in text, all in JSON.
    """
    from mt.inspection import inspect_model
    from mt.module_tree import tree_lines

    root = inspect_model(target)
    if style == "json":
        click.echo(json.dumps(root.to_json(), indent=1))
        return
    for line in tree_lines(root):
        click.echo(line)


@inspect.command()
@TARGET
@click.argument("sentence")
@click.option(
    "-o",
    "--output",
    type=options.path,
    metavar="FILE",
    default=Path("attention.html"),
    show_default=True,
    help="The page, .html; or a picture, .svg or .png, which needs the extra plots.",
)
@click.option("--target", "translation", metavar="TEXT", help="Look at this translation.  [default: the model's own]")
@click.option(
    "--kind",
    type=click.Choice(["cross", "encoder", "decoder"]),
    help="Of the decoder to the source, or of either side to itself.  [default: all]",
)
@click.option("--layer", type=click.IntRange(min=1), help="Of one layer.  [default: all]")
@click.option("--head", type=click.IntRange(min=1), help="Of one head.  [default: all, and their mean]")
@click.option("--pieces", is_flag=True, help="Rows and columns are subword pieces, not words.")
@options.checkpoint
@options.device
def attention(
    target: str,
    sentence: str,
    output: Path,
    translation: str | None,
    kind: str | None,
    layer: int | None,
    head: int | None,
    pieces: bool,
    checkpoint: str | None,
    device: str,
) -> None:
    """Draw where the model in a run folder looks while it translates SENTENCE, word by word.

    Rows are the words that look, columns those that are looked at. The translation goes to standard output.

    \b
    Examples:
        mt inspect attention runs/mine "The house is small."
        mt inspect attention runs/mine "The house is small." --kind cross --layer 3 -o layer3.png
    """
    from mt.inspection import Choice, inspect_attention

    choice = Choice(kind, layer, head, pieces)
    click.echo(inspect_attention(target, sentence, output, translation, choice, checkpoint, device))
