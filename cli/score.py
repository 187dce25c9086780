"""`mt score`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from cli import options
from cli.draw import draw

FORMATS = ("text", "jsonl")


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--src", "source", type=options.path, metavar="FILE", help="Source text.")
@click.option("--tgt", "target", type=options.path, metavar="FILE", help="Its translations, line for line.")
@click.option(
    "--jsonl",
    "translations",
    type=options.path,
    metavar="FILE",
    help="In place of both: what `mt translate --format jsonl` wrote, scored with its very pieces.",
)
@click.option("-o", "--output", type=options.path, metavar="FILE", help="Scores.  [default: stdout]")
@click.option(
    "--format",
    "style",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="text: log-probability, tab, log-probability divided by the length penalty; jsonl: a JSON object a line, "
    "with the log-probability of each piece.",
)
@options.checkpoint
@options.long_overrides
@options.machine
def score(
    run: str,
    source: Path | None,
    target: Path | None,
    translations: Path | None,
    output: Path | None,
    style: str,
    checkpoint: str | None,
    overrides: Sequence[str],
    device: str,
    threads: int | None,
) -> None:
    """Tell how probable the model in the run folder RUN finds given translations.

    The score of line k is the natural logarithm of the probability of line k of --tgt, its end mark included, given
    line k of --src: what `mt translate` says of its own translations. Nothing is split or cut; two blank lines score 0.

    \b
    Examples:
        mt score runs/quickstart --src test.en --tgt test.de
        mt score runs/quickstart --jsonl translated.jsonl --format jsonl -o scored.jsonl
    """
    if bool(translations) == bool(source or target) or bool(source) != bool(target):
        raise click.UsageError("give --src and --tgt, or --jsonl")
    from mt.recipe import load_run_recipe

    decode = load_run_recipe(run, overrides).decode
    from mt.device import pick_device
    from mt.score import score_files, score_translations
    from mt.translate import check_paths, load

    for path in filter(None, (source, target, translations)):
        check_paths(path, output)
    translator = load(run, checkpoint, draw(pick_device(device, threads)), decode)
    place = output or options.binary(sys.stdout)
    if translations:
        work = score_translations(translator, translations, place, style)
    else:
        assert source
        assert target
        work = score_files(translator, source, target, place, style)
    draw(work, bars=output is not None or not sys.stdout.isatty())
