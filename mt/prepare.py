"""`mt prepare`: raw text to a subword model and a binarised corpus.

    report = finish(prepare(recipe))

The prepared folder is written aside and takes its name when it is whole. It holds the tokenizer, the ids of both sides
(`mt.data.store`), the raw validation text, and report.json. Where neither the input files nor the settings that matter
have changed since, nothing is done again; else a notice says what has.

Training pairs pass the recipe's filters. Validation pairs never do: an empty line among them stays a pair, with nothing
before its end mark, and a notice counts it.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from mt.config import to_mapping
from mt.data.inputs import Origin, changes, look_at
from mt.data.preparation import REPORT, Preparation
from mt.data.report import PrepareReport, warnings
from mt.data.sampling import sample_lines
from mt.data.store import MANIFEST, Store
from mt.errors import DataError, MtError, RunError, plural
from mt.events import Event, Notice, Progress
from mt.recipe import Recipe
from mt.text.corpus import read_pair_blocks
from mt.text.files import read_json
from mt.text.folders import locked, write_folder_aside
from mt.text.tokenizer import Tokenizers
from mt.training.run_folder import idle

PAIRS_A_WORKER = 50_000
"""Fewer are not worth starting a process for, which takes a third of a second."""


def prepare(
    recipe: Recipe, workers: int | None = None, overwrite: bool = False
) -> Generator[Event, None, PrepareReport]:
    """Make the prepared corpus in the folder `recipe.data_dir`, or find that it is up to date.

    The result does not depend on `workers`, processes that encode (default: one a processor, none for little text).
    Raises `DataError` for text that cannot be used, `ConfigError` for settings that do not fit it, and `RunError` where
    another preparation or a training is at work, or, unless it is to `overwrite`, where the corpus would be replaced
    that the training in the run folder was begun on; the folder is as it was then.
    """
    folder = Path(recipe.data_dir)
    _refuse_foreign(folder)
    with locked(folder, "mt prepare"):
        earlier = yield from _open_earlier(folder)
        settings, tokenizers = _settings(recipe), _reused(recipe)
        if tokenizers:
            settings["tokenizer.reuse"] = tokenizers.fingerprint
        inputs = look_at(_input_files(recipe), earlier)
        _check_held_out(recipe)
        if earlier:
            if not (changed := changes(earlier, inputs, settings)):
                yield Notice(f"{folder} is up to date: neither its text nor its settings have changed")
                return _read_report(folder)
            if not overwrite:
                _refuse_trained(recipe, changed)
            yield Notice(f"preparing {folder} again: {'; '.join(changed)}")
        with idle(recipe.model_dir):
            totals = yield from _count(recipe)
            with write_folder_aside(folder) as aside:
                tokenizers = tokenizers or (yield from _learn(recipe, sum(totals)))
                work = Preparation(recipe.data, recipe.tokenizer.resamples, tokenizers, Origin(settings, inputs), aside)
                report = yield from work.run(totals, _workers(workers, sum(totals)))
    report.folder = folder
    for text in warnings(report, recipe.tokenizer.type):
        yield Notice(text)
    return report


def _refuse_foreign(folder: Path) -> None:
    """Only what an earlier preparation made is ever replaced."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; the prepared corpus needs a folder: name another one as data.dir.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise DataError(f"{folder} holds files that mt prepare did not make; name another folder as data.dir.")


def _open_earlier(folder: Path) -> Generator[Event, None, Origin | None]:
    """What the earlier preparation was made from, where there is a whole one."""
    if not (folder / MANIFEST).is_file():
        return None
    try:
        store = Store.open(folder)
        store.verify()
        _read_report(folder)
    except MtError as error:
        yield Notice(f"preparing {folder} again: {error}")
        return None
    return store.origin


def _refuse_trained(recipe: Recipe, changed: list[str]) -> None:
    """The corpus of a training that was begun is not replaced by another: it could not go on."""
    if not (recipe.model_dir / "checkpoints").is_dir():
        return
    from mt.training.checkpoint import Checkpoints  # with torch

    if Store.open(recipe.data_dir).manifest["corpus"] in Checkpoints(recipe.model_dir).corpora():
        raise RunError(
            f"{recipe.data_dir} is what the training in {recipe.model_dir} was begun on, but {'; '.join(changed)}: "
            "choose another model_dir or data.dir, or make it anew by mt prepare --overwrite, after which that "
            "training cannot go on."
        )


def _read_report(folder: Path) -> PrepareReport:
    """The report of the earlier preparation; `DataError` where it is damaged."""
    try:
        return PrepareReport.from_mapping(read_json(folder / REPORT, "run mt prepare again"), folder)
    except (KeyError, TypeError, AttributeError):
        raise DataError(f"{folder / REPORT} is damaged: entries are missing; run mt prepare again.") from None


def _settings(recipe: Recipe) -> dict[str, Any]:
    """Key path -> value of all that the prepared corpus depends on, beside the text."""
    tokenizer = to_mapping(recipe.tokenizer)
    resamples = bool(tokenizer.pop("dropout") or tokenizer.pop("alpha"))
    tokenizer.pop("alpha", None)
    if recipe.tokenizer.reuse:
        tokenizer = {key: tokenizer[key] for key in ("type", "shared", "reuse")}
    data = {"dedup": recipe.data.dedup, "invalid": recipe.data.invalid}
    return {
        **{f"tokenizer.{key}": value for key, value in tokenizer.items()},
        **{f"data.filters.{key}": value for key, value in to_mapping(recipe.data.filters).items()},
        **{f"data.{key}": value for key, value in data.items()},
        "keeping text for segmentation in training": resamples,
        "the version of sentencepiece": version("sentencepiece"),
    }


def _reused(recipe: Recipe) -> Tokenizers | None:
    reuse = recipe.tokenizer.reuse
    return Tokenizers.reuse(recipe.tokenizer, reuse) if reuse else None


def _input_files(recipe: Recipe) -> dict[str, Path]:
    """Key path -> file of all text that preparation reads."""
    files: dict[str, Path] = {}
    for index, text in enumerate(recipe.data.train):
        files |= {f"data.train.{index}.src": text.src, f"data.train.{index}.tgt": text.tgt}
    if recipe.data.valid:
        files |= {"data.valid.src": recipe.data.valid.src, "data.valid.tgt": recipe.data.valid.tgt}
    return files


def _check_held_out(recipe: Recipe) -> None:
    """Read validation and test text once: what cannot be used is refused before hours of training, not after them."""
    data = recipe.data
    texts = [("validation", data.valid.src, data.valid.tgt)] if data.valid else []
    texts += [(f"test set {name}", test.src, reference) for name, test in data.test.items() for reference in test.tgt]
    for what, src, tgt in texts:
        if not sum(len(block.lines()) for block in chain.from_iterable(read_pair_blocks(src, tgt))):
            raise DataError(f"{src} has no lines; {what} needs at least one pair.")


def _count(recipe: Recipe) -> Generator[Event, None, list[int]]:
    """Read training text once: pairs of each corpus. What cannot be used is refused here, with nothing written."""
    totals: list[int] = []
    for text in recipe.data.train:
        total = 0
        for pair in read_pair_blocks(text.src, text.tgt):
            for block in pair if recipe.data.invalid == "error" else ():
                block.lines()
            total += len(pair[0])
            yield Progress("reading", sum(totals) + total)
        totals.append(total)
    return totals


def _learn(recipe: Recipe, total: int) -> Generator[Event, None, Tokenizers]:
    config = recipe.tokenizer
    lines = min(total, config.sample_size)
    yield Notice(f"learning a {config.type} vocabulary from {lines} of {total} {plural(total, 'line')} a side")
    sides = [[text.src for text in recipe.data.train], [text.tgt for text in recipe.data.train]]
    samples = [sample_lines(paths, total, config.sample_size) for paths in sides]
    origins = [", ".join(map(str, paths)) for paths in sides]
    return Tokenizers.train(config, samples[0], samples[1], (origins[0], origins[1]))


def _workers(asked: int | None, pairs: int) -> int:
    if asked is not None:
        return max(asked, 1)
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(available, pairs // PAIRS_A_WORKER))
