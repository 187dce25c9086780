"""`mt evaluate`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli import options
from cli.codes import MISSED
from cli.draw import draw
from mt.scoring.config import METRIC_NAMES
from mt.scoring.tokenizers import TOKENIZERS

if TYPE_CHECKING:
    from mt.scoring.report import Evaluation


@click.command()
@click.argument("run", metavar="[RUN]", required=False)
@click.option(
    "--hyp", "hypotheses", type=options.path, multiple=True, metavar="FILE", help="Translations; a FILE a system."
)
@click.option("--ref", "references", type=options.path, multiple=True, metavar="FILE", help="References; a FILE a set.")
@click.option("--tgt-lang", metavar="CODE", help="With --hyp: language of the text, which chooses BLEU's tokenizer.")
@click.option(
    "--metric", "metrics", multiple=True, type=click.Choice(METRIC_NAMES), help="Score; may be given several times."
)
@click.option(
    "--tokenize", type=click.Choice(list(TOKENIZERS)), help="Tokenizer of BLEU.  [default: by target language]"
)
@click.option("--lowercase", is_flag=True, help="Disregard case.")
@click.option("--confidence", type=click.IntRange(min=0), metavar="N", help="95 % intervals from N bootstrap samples.")
@click.option(
    "--paired", type=click.Choice(["bootstrap", "randomization", "none"]), help="Test of the first against others."
)
@options.check_expect
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of tables.")
@options.checkpoint
@options.overrides
@options.machine
def evaluate(
    run: str | None,
    hypotheses: Sequence[Path],
    references: Sequence[Path],
    tgt_lang: str | None,
    metrics: Sequence[str],
    tokenize: str | None,
    lowercase: bool,
    confidence: int | None,
    paired: str | None,
    check_expect: bool,
    as_json: bool,
    checkpoint: str | None,
    overrides: Sequence[str],
    device: str,
    threads: int | None,
) -> int:
    """Score the test sets of the run folder RUN, or files of translations, through sacreBLEU.

    Each score comes with its signature. Several --hyp are systems, each tested for significance against the first;
    several --ref are reference sets. Files are plain text, not tokenised, one sentence a line.

    \b
    Examples:
        mt evaluate runs/quickstart --check-expect
        mt evaluate --hyp system.de --ref reference.de --tgt-lang de
        mt evaluate --hyp a.de --hyp b.de --ref A.de --ref B.de --metric bleu --json
    """
    keys = {
        "evaluate.metrics": f"[{', '.join(metrics)}]" if metrics else None,
        "evaluate.tokenize": tokenize,
        "evaluate.lowercase": "true" if lowercase else None,
        "evaluate.confidence": confidence,
        "evaluate.paired": paired,
    }
    settings = [*overrides, *options.as_overrides(keys)]
    if (run is None) == (not hypotheses):
        raise click.UsageError("give a run folder, or --hyp and --ref")
    if run is not None and (references or tgt_lang):
        raise click.UsageError("--ref and --tgt-lang go with --hyp; a run's recipe names its own")
    if run is None and (check_expect or checkpoint):
        raise click.UsageError("--check-expect and --checkpoint go with a run folder")
    if run is None and (device != "auto" or threads is not None):
        raise click.UsageError("--device and --threads go with a run folder; nothing is computed with --hyp")
    if paired in ("bootstrap", "randomization") and len(hypotheses) < 2:
        raise click.UsageError(f"--paired {paired} compares systems with the first; give --hyp at least twice")
    from mt.scoring.report import table

    if run is None:
        found = _files(hypotheses, references, settings, tgt_lang)
    else:
        found = _run(run, settings, device, threads, checkpoint, check_expect)
    click.echo(json.dumps(found.to_json(), ensure_ascii=False, indent=2) if as_json else table(found))
    return 0 if found.kept else MISSED


def _files(
    hypotheses: Sequence[Path], references: Sequence[Path], settings: list[str], language: str | None
) -> Evaluation:
    from mt.evaluate import evaluate_files
    from mt.recipe import load_evaluate_config

    return draw(evaluate_files(hypotheses, references, load_evaluate_config(settings), language))


def _run(
    run: str, settings: list[str], device: str, threads: int | None, checkpoint: str | None, check: bool
) -> Evaluation:
    from mt.checks import check_recipe
    from mt.recipe import load_run_recipe

    recipe = load_run_recipe(run, settings)
    check_recipe(recipe, "evaluate", check)
    from mt.device import pick_device
    from mt.evaluate import evaluate_run

    return draw(evaluate_run(recipe, draw(pick_device(device, threads)), checkpoint, check))
