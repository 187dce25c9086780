"""`mt run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cli import options
from cli.codes import MISSED
from cli.draw import draw
from cli.together import together
from cli.training import stoppable, training_lines
from mt.errors import plural
from mt.events import finish

if TYPE_CHECKING:
    from mt.pipeline import RunReport


@click.command()
@options.recipe
@options.overrides
@options.workers
@options.machine
@options.check_expect
@options.dry_run
def run(
    recipe: str,
    overrides: Sequence[str],
    workers: int | None,
    device: str,
    threads: int | None,
    check_expect: bool,
    dry_run: bool,
) -> int:
    """Fetch, prepare, train, translate and evaluate, in a row.

    RECIPE is a YAML file or the name of a shipped recipe. A stage whose inputs and settings are unchanged is skipped.
    In the end the scores with their signatures, and ten held-out samples side by side.

    \b
    Examples:
        mt run quickstart
        mt run recipe.yaml -o seed=2 -o model_dir=runs/seed2
        torchrun --nproc-per-node 4 -m mt run recipe.yaml
    """
    from mt.recipe import load_recipe

    loaded = load_recipe(recipe, overrides)
    if dry_run:
        from cli.dry_run import show

        show(loaded, "run", check_expect)
        return 0
    from mt.pipeline import run as run_pipeline
    from mt.pipeline import take_part

    with stoppable() as signals, together(device, threads) as (group, chosen):
        if not group.leads:
            trained = finish(take_part(loaded, chosen, signals.request, group))
            return 0 if trained.finished and not signals.request.asked else signals.exit_code
        work = run_pipeline(loaded, chosen, workers, signals.request, check_expect, group)
        report = draw(work, training_lines())
    for text in _lines(report):
        click.echo(text)
    if not report.trained.finished or signals.request.asked:
        return signals.exit_code
    return 0 if report.evaluation is None or report.evaluation.kept else MISSED


def _lines(report: RunReport) -> list[str]:
    """Scores, then samples side by side."""
    from mt.scoring.report import table

    lines = [] if report.evaluation is None else [table(report.evaluation)]
    if report.samples:
        lines.append(f"\n{len(report.samples)} held-out {plural(len(report.samples), 'sample')}")
    for sample in report.samples:
        lines.append(
            f"\nsource       {sample.source}\nreference    {sample.reference}\ntranslation  {sample.translation}"
        )
    return lines
