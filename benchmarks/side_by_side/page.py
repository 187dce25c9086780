"""The page that tells what was run, with which budget, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from benchmarks.side_by_side.claims import CLAIMS, Found
from benchmarks.side_by_side.models import MODELS
from benchmarks.side_by_side.results import Result, length_classes
from benchmarks.side_by_side.speed import Speeds
from mt.errors import plural
from mt.recipe import Recipe
from mt.text.files import write_text

HEAD = "# Architectures side by side"
COLUMNS = ("parameters", "updates", "epochs", "training, tokens/s", "training, minutes", "decoding, sentences/s")
CAUTION = (
    "Of quality a verdict asks for p < 0.05 in a paired bootstrap over the test's sentences, which knows nothing of "
    "what another seed of the training would give; of speed, that all rounds agree on 5 % at least."
)


def write_page(target: Path, found: Found, pictures: dict[str, Path], command: str, day: date) -> None:
    """Write the page; `pictures` are titles and files below the page's folder, `command` what was called."""
    sections = [_head(found, command, day), _table(found), _claims(found)]
    sections += [
        f"## {title}\n\n![{title}]({path.relative_to(target.parent).as_posix()})" for title, path in pictures.items()
    ]
    sections.append(_lengths(list(found.results.values())))
    write_text(target, "\n\n".join(sections) + "\n")


def _head(found: Found, command: str, day: date) -> str:
    results = list(found.results.values())
    recipe = results[0].recipe
    missing = [name for name in MODELS if name not in found.results]
    lines = [
        f"{HEAD}\n",
        f"Written on {day} by\n\n    {command}\n",
        f"which trains on `{recipe.data.train[0].src.name}` and its translation with {_budget(recipe)}. Models differ "
        "in their `model` block, where the recipes say so in the learning rate, and in the number of updates, which "
        "the recipes choose so that all take about the same time. Everything below is computed from the run folders.",
    ]
    if found.speeds is not None:
        count = max(map(len, found.speeds.turns.values()))
        rounds = f"{count} {plural(count, 'round')}"
        lines.append(f"Speeds are medians of {rounds} in which the models took turns, on {found.speeds.machine}.")
    if missing:
        lines.append(f"Not trained: {', '.join(missing)}.")
    for result in _different(results):
        lines.append(f"Another budget: {result.name} with {_budget(result.recipe)}.")
    return "\n".join(lines)


def _different(results: Sequence[Result]) -> Iterator[Result]:
    """Those whose budget is not that of the first."""
    yield from (result for result in results if _budget(result.recipe) != _budget(results[0].recipe))


def _budget(recipe: Recipe) -> str:
    """What must be the same for a fair comparison; of the time the recipes take care."""
    train, pieces = recipe.train, recipe.tokenizer
    shared = "shared " if pieces.shared else ""
    limit = f"at most {train.max_time} of training, " if train.max_time is not None else ""
    return (
        f"{pieces.vocab_size:,} {shared}pieces ({pieces.type}), batches of {train.batch_tokens} tokens, {limit}"
        f"schedule {train.schedule.name}, beam {recipe.decode.beam_size}, seed {recipe.seed}"
    )


def _table(found: Found) -> str:
    rows = [
        f"| model | BLEU | chrF | {' | '.join(COLUMNS)} |",
        "| --- " + "| ---: " * (2 + len(COLUMNS)) + "|",
    ]
    for name, result in found.results.items():
        scores = (f"{result.scores[metric].value:.2f}" for metric in ("bleu", "chrf"))
        last = result.trained
        counts = f"{result.parameters:,}", f"{last['update']:,}", f"{last['epoch']:.1f}"
        rows.append(f"| {' | '.join([name, *scores, *counts, *_pace(found.speeds, name, last['tokens'])])} |")
    first = next(iter(found.results.values()))
    test = next(iter(first.recipe.data.test))
    signatures = "\n".join(f"    {score.signature}" for score in first.scores.values())
    return "\n".join([f"## Results on {test}\n", *rows, "", f"{signatures}"])


def _pace(speeds: Speeds | None, name: str, tokens: int) -> Iterator[str]:
    """How fast a model trains, how long that takes for `tokens`, and how fast it translates."""
    if speeds is None or name not in speeds.turns:
        yield from ("", "", "")
        return
    train = speeds.median(name, "train")
    yield f"{train:,.0f}"
    yield f"{tokens / train / 60:.1f}"
    yield f"{speeds.median(name, 'decode'):,.0f}"


def _claims(found: Found) -> str:
    rows = ["## Do the papers' claims show?\n", "| claim | at this size | evidence |", "| --- | --- | --- |"]
    for claim in CLAIMS:
        finding = claim.finding(found)
        rows.append(f"| {claim.text} ({claim.source}) | **{finding.verdict}** | {finding.evidence} |")
    return "\n".join([*rows, "", CAUTION])


def _lengths(results: Sequence[Result]) -> str:
    classes = length_classes(results[0].lengths)
    rows = [
        f"| words of the source | {' | '.join(classes)} |",
        "| --- " + "| ---: " * len(classes) + "|",
        f"| sentences | {' | '.join(str(chosen.sum()) for chosen in classes.values())} |",
    ]
    for result in results:
        values = (f"{result.bleu_of(chosen):.2f}" for chosen in classes.values())
        rows.append(f"| {result.name} | {' | '.join(values)} |")
    return "\n".join(["## BLEU by the length of the source, in numbers\n", *rows])
