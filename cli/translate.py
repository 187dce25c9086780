"""`mt translate`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli import options
from cli.draw import draw
from cli.together import device_of
from mt.lines.formats import FORMATS
from mt.lines.request import INPUTS, Request
from mt.place import Place

if TYPE_CHECKING:
    from mt.lines.answer import Answering
    from mt.search.config import DecodeConfig

BACKENDS = ("torch", "ctranslate2")


@click.command()
@click.argument("run", metavar="RUN")
@click.option("-i", "--input", "source", type=options.path, metavar="FILE", help="Source text.  [default: stdin]")
@click.option("-o", "--output", "target", type=options.path, metavar="FILE", help="Translations.  [default: stdout]")
@click.option("--beam-size", type=click.IntRange(min=1), help="Hypotheses kept a step.  [default: the recipe's]")
@click.option("--n-best", type=click.IntRange(min=1), help="Translations a line.  [default: the recipe's]")
@click.option(
    "--format",
    "style",
    type=click.Choice(tuple(FORMATS)),
    default="text",
    show_default=True,
    help="text: a line for each translation, n of them with --n-best; jsonl: a JSON object for each source "
    "line, with all there is to say of it.",
)
@click.option(
    "--input-format",
    type=click.Choice(tuple(INPUTS)),
    default="text",
    show_default=True,
    help="text: lines; jsonl: a JSON object a line, with text and perhaps prefix, constraints, banned, options.",
)
@click.option("--alignments", is_flag=True, help="With jsonl: which source word each word comes from.")
@click.option("--prefix", default="", metavar="TEXT", help="What each translation begins with.")
@click.option("--constraint", "constraints", multiple=True, metavar="TEXT", help="A phrase that each one holds.")
@click.option("--ban", "banned", multiple=True, metavar="TEXT", help="A phrase that none of them holds.")
@click.option("--interactive", is_flag=True, help="Answer each line by itself, as soon as it is there.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Processes on the CPU, among which the threads are split.",
)
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="torch",
    show_default=True,
    help="What computes. ctranslate2 runs RUN as mt export writes it (RUN may be an exported folder), and exports it "
    "to RUN/ctranslate2 where that was not done.",
)
@click.option(
    "--ensemble",
    "others",
    multiple=True,
    metavar="RUN",
    help="Another run with the same tokenizer, whose model decides together with the first (mean of probabilities).",
)
@options.checkpoint
@options.long_overrides
@options.machine
def translate(
    run: str,
    source: Path | None,
    target: Path | None,
    beam_size: int | None,
    n_best: int | None,
    style: str,
    input_format: str,
    alignments: bool,
    prefix: str,
    constraints: Sequence[str],
    banned: Sequence[str],
    interactive: bool,
    workers: int,
    backend: str,
    others: Sequence[str],
    checkpoint: str | None,
    overrides: Sequence[str],
    device: str,
    threads: int | None,
) -> None:
    """Translate lines of text with the model in the run folder RUN.

    N lines in give N lines out, in order; a blank line stays blank. Lines leave as soon as they are translated. A file
    is read compressed or not, and FILE of --output has its name only when it is whole: until then what is done is kept
    in FILE.part, and the same command goes on from there.

    \b
    Examples:
        echo "Good morning." | mt translate runs/quickstart
        mt translate runs/quickstart -i test.en -o test.de --beam-size 8
        mt translate runs/quickstart --n-best 3 --format jsonl < test.en
        mt translate runs/one --ensemble runs/two < test.en
        mt translate runs/quickstart --input-format jsonl --format jsonl < requests.jsonl
    """
    if alignments and style != "jsonl":
        raise click.UsageError("--alignments goes with --format jsonl; plain text has no place for them")
    if interactive and (source or target or workers > 1):
        raise click.UsageError("--interactive answers standard input by one process: leave out -i, -o and --workers")
    if workers > 1 and device.startswith("cuda"):
        raise click.UsageError("--workers are of the CPU; on several GPUs: torchrun --nproc-per-node N -m mt translate")
    common = Request("", prefix, tuple(constraints), tuple(banned))
    if backend != "torch" and (others or alignments or common.wishes):
        raise click.UsageError("--ensemble, --alignments, --prefix, --constraint and --ban are for the backend torch")
    from mt.recipe import load_run_recipe

    keys = {"decode.beam_size": beam_size, "decode.n_best": n_best}
    decode = load_run_recipe(run, [*overrides, *options.as_overrides(keys)]).decode
    if constraints and decode.search == "sample" and input_format == "text":  # lines of JSON may choose another
        raise click.UsageError("--constraint needs another decode.search than sample, which cannot require phrases")
    import torch

    from mt.text.streams import is_file
    from mt.training.distributed import joined
    from mt.translate import Style, check_paths, translate_stream

    text, out = source or options.binary(sys.stdin), target or options.binary(sys.stdout)
    check_paths(text, target)
    place = Place.of()
    if place.size > 1 and not (is_file(text) and is_file(out)):
        raise click.UsageError("several processes share files: torchrun needs --input and --output, no pipe or device")
    how = Style(style, input_format, common, alignments)
    runs = [run, *others]
    with (
        joined(place, torch.device("cpu")) as group,
        _answering(backend, runs, checkpoint, decode, device, threads, workers) as translator,
    ):
        if source is None and sys.stdin.isatty():
            click.echo("Each line that you type is translated; Ctrl-D ends.", err=True)
        work = translate_stream(translator, text, out, how, interactive=interactive, group=group)
        draw(work, bars=target is not None or not sys.stdout.isatty())


def _answering(
    backend: str,
    runs: Sequence[str],
    checkpoint: str | None,
    decode: DecodeConfig,
    device: str,
    threads: int | None,
    workers: int,
) -> AbstractContextManager[Answering]:
    """What translates: this process, in which CTranslate2 has threads of its own, or several that share its threads."""
    import torch

    several = workers > 1 and backend == "torch"
    chosen = device_of("cpu" if several else device, threads, Place.of())
    each = max(1, torch.get_num_threads() // workers)
    if backend == "ctranslate2":
        from mt.export import load_exported

        return nullcontext(draw(load_exported(runs[0], checkpoint, decode, str(chosen), workers, each)))
    if several:
        from mt.workers import Loading, Workers

        return Workers(Loading(Path(runs[0]), checkpoint, decode, tuple(map(Path, runs[1:]))), workers, each)
    from mt.translate import load

    return nullcontext(load(runs[0], checkpoint, chosen, decode, others=runs[1:]))
