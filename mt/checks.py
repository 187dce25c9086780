"""A recipe is checked whole before a stage starts: what its blocks promise one another, and what lies on the disk.

What a single block can tell is checked where that block is declared.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from math import isinf
from pathlib import Path

import numpy as np

from mt.data.store import ParallelIds, Store
from mt.errors import ConfigError, DataError, plural
from mt.models.keys import attends
from mt.models.reach import Reach
from mt.recipe import Recipe
from mt.scoring.tokenizers import tokenizer_for
from mt.training import board

PARTS = {"train": "training", "valid": "validation"}
_NAME = re.compile(r"\w[\w.+-]*")


def check_recipe(recipe: Recipe, stage: str, promises: bool = False) -> None:
    """Raise ConfigError or DataError, one sentence with place and key path, for what would fail in `stage` or later.

    `promises`: the scores are to be compared with those that `evaluate.expect` promises.
    """
    check_names(recipe)
    check_ties(recipe)
    check_objective(recipe)
    check_attention(recipe)
    check_validation(recipe)
    check_expected(recipe, promises)
    check_parts(recipe)
    check_folder(recipe, "model_dir", recipe.model_dir)
    if recipe.data.dir is not None:
        check_folder(recipe, "data.dir", recipe.data.dir)
    if computes_bleu(recipe, stage):
        tokenizer_for(recipe.data.tgt_lang, recipe.evaluate.tokenize)  # its package may be missing
    if recipe.train.tensorboard and stage in ("train", "run"):
        board.check_installed()
    if stage == "prepare" or (stage == "run" and not can_fetch(recipe)):
        check_files(recipe)


def computes_bleu(recipe: Recipe, stage: str) -> bool:
    """Validation always does, whatever `train.metric` is; tests where `evaluate.metrics` has it."""
    validates = stage in ("train", "run") and recipe.data.valid is not None
    tests = stage in ("evaluate", "run") and bool(recipe.data.test)
    return validates or (tests and "bleu" in recipe.evaluate.metrics)


def can_fetch(recipe: Recipe) -> bool:
    """Whether `mt fetch` brings or makes text for this recipe."""
    return bool(recipe.data.download or recipe.data.split or recipe.data.generate)


def text_files(recipe: Recipe) -> Iterator[tuple[str, Path]]:
    """Key path and file of all text: training, validation, tests."""
    for index, text in enumerate(recipe.data.train):
        yield f"data.train.{index}.src", text.src
        yield f"data.train.{index}.tgt", text.tgt
    if recipe.data.valid is not None:
        yield "data.valid.src", recipe.data.valid.src
        yield "data.valid.tgt", recipe.data.valid.tgt
    for name, test in recipe.data.test.items():
        yield f"data.test.{name}.src", test.src
        yield from ((f"data.test.{name}.tgt.{index}", path) for index, path in enumerate(test.tgt))


def check_files(recipe: Recipe) -> None:
    """Every text is there, validation and tests too: not found out after hours of training."""
    for key, path in text_files(recipe):
        if path.is_dir():
            raise DataError(f"{_at(recipe, key)}: {_written(recipe, key, path)}: is a folder, not a file.")
        if not path.exists():
            hint = "; mt fetch brings it" if can_fetch(recipe) else ""
            raise DataError(f"{_at(recipe, key)}: {_written(recipe, key, path)}: there is no such file{hint}.")
        if not path.is_file():
            raise DataError(
                f"{_at(recipe, key)}: {_written(recipe, key, path)}: is a pipe or a device, but text is read several "
                "times; name a file."
            )
        if not os.access(path, os.R_OK):
            raise DataError(f"{_at(recipe, key)}: {_written(recipe, key, path)}: it may not be read.")


def check_names(recipe: Recipe) -> None:
    """Test sets and languages name files of the run folder."""
    named = [("data.src_lang", recipe.data.src_lang), ("data.tgt_lang", recipe.data.tgt_lang)]
    named += [(f"data.test.{name}", name) for name in recipe.data.test]
    for key, name in named:
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{_at(recipe, key)}: '{name}' becomes part of a file's name; use letters, digits and _ - + ."
            )
    if not recipe.data.train:
        raise ConfigError(f"{_at(recipe, 'data.train')} is an empty list; name at least one corpus.")


def check_ties(recipe: Recipe) -> None:
    """Matrices of two vocabularies cannot be one, even where their sizes are equal."""
    tie = recipe.model.tie
    if tie in ("src_tgt", "all") and not recipe.tokenizer.shared:
        other = "" if recipe.model.decoder.type == "language_model" else ", or model.tie to output or none"
        raise ConfigError(
            f"{recipe.origin.cite('model.tie', 'tokenizer.shared')}model.tie {tie} makes the embeddings of source and "
            f"target one, but tokenizer.shared is false: set tokenizer.shared to true{other}."
        )


def check_objective(recipe: Recipe) -> None:
    """Only a causal language model predicts its source."""
    decoder = recipe.model.decoder
    if recipe.train.objective == "language_model" and (decoder.type, decoder.prefix) != ("language_model", "causal"):
        raise ConfigError(
            f"{recipe.origin.cite('train.objective', 'model.preset')}train.objective language_model needs "
            "model.decoder.type language_model with model.decoder.prefix causal, but they are "
            f"{decoder.type} and {decoder.prefix}."
        )


def check_attention(recipe: Recipe) -> None:
    """Translations, those of validation among them, can only ask attention of a model that has it."""
    if attends(recipe.model):
        return
    decode = recipe.decode
    needs = {
        "decode.coverage_penalty": (decode.coverage_penalty > 0, decode.coverage_penalty),
        "decode.unknown": (decode.unknown == "copy", decode.unknown),
    }
    for key, (needed, value) in needs.items():
        if needed:
            raise ConfigError(
                f"{recipe.origin.cite(key, 'model.preset')}{key} {value} needs a model that attends to its source, but "
                f"model.decoder.context is {recipe.model.decoder.context}: leave {key} out."
            )


def check_validation(recipe: Recipe) -> None:
    """What needs a validation text has one."""
    if recipe.data.valid is not None:
        return
    train = recipe.train
    needs = {
        "train.metric": (train.metric != "loss", train.metric),
        "train.patience": (train.patience is not None, train.patience),
        "train.schedule.name": (train.schedule.name == "plateau", train.schedule.name),
        "train.average.of": (train.average.of == "best" and train.average.n > 1, train.average.of),
    }
    for key, (needed, value) in needs.items():
        if needed:
            raise ConfigError(f"{_at(recipe, key)} {value} needs a validation text: give data.valid.")


def check_positions(recipe: Recipe, store: Store) -> None:
    """The model can hold each pair that it is to learn or to be validated on: not found out after hours of training."""
    reach = Reach.of(recipe.model)
    if reach == Reach():
        return
    count = recipe.model.max_positions
    room = f"{count - 1} pieces a side" if isinf(reach.both) else f"{reach.both:.0f} pieces of both sides"
    advice = {"train": "let data.filters.max_length leave them out and prepare again", "valid": "take them out"}
    for name in store.manifest["splits"]:
        split = store.split(name)
        if beyond := _beyond(split, reach):
            text = store.tokenizers.src.decode(split.src[beyond[0]].tolist())
            raise DataError(
                f"{_at(recipe, 'model.max_positions')} {count} has room for {room}, but {len(beyond)} "
                f"{plural(len(beyond), 'pair')} of the {PARTS[name]} text need more, the first of which begins "
                f"'{text[:60]}': {advice[name]}, or raise model.max_positions."
            )


def _beyond(pairs: ParallelIds, reach: Reach) -> list[int]:
    """The numbers of those that a model of this reach cannot hold."""
    found = (first + np.flatnonzero(~reach.holds(src, tgt)) for first, src, tgt in pairs.windows())
    return [int(row) for rows in found for row in rows]


def check_precision(recipe: Recipe, device: str) -> None:
    """Validation on a `device` (cpu, cuda, cuda:1) can translate as the recipe wants."""
    precision = recipe.decode.precision
    if recipe.data.valid is not None and precision != "fp32" and device != "cpu":
        raise ConfigError(
            f"{_at(recipe, 'decode.precision')} {precision} is for models on a CPU, but training validates on "
            f"{device}: leave it at fp32, and give it to mt translate by --set."
        )


def check_expected(recipe: Recipe, promises: bool) -> None:
    """Each test that a score is expected of is there; and a score is, where `promises` are to be kept."""
    if promises and not recipe.evaluate.expect:
        raise ConfigError(
            f"{_at(recipe, 'evaluate.expect')} promises no score to compare with: promise one there, or leave "
            "--check-expect out."
        )
    for name in recipe.evaluate.expect:
        if name not in recipe.data.test:
            known = ", ".join(recipe.data.test) or "none"
            key = f"evaluate.expect.{name}"
            raise ConfigError(f"{_at(recipe, key)} names no test set; data.test has {known}.")


def check_parts(recipe: Recipe) -> None:
    """Text that is trained on is neither validation nor test text."""
    trained = {os.path.realpath(path): key for key, path in text_files(recipe) if key.startswith("data.train.")}
    for key, path in text_files(recipe):
        same = trained.get(os.path.realpath(path))
        if same is not None and not key.startswith("data.train."):
            raise ConfigError(
                f"{_at(recipe, key)} and {same} are the same file ({path}): a score on text that was trained on "
                "tells nothing."
            )


def check_folder(recipe: Recipe, key: str, folder: Path) -> None:
    """The folder is there or can be made, and can be written into."""
    shown = _written(recipe, key, folder)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{_at(recipe, key)}: {shown}: it is a file, but must be a folder or absent.")
    parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not parent.is_dir():
        raise ConfigError(f"{_at(recipe, key)}: {shown}: it cannot be made, {parent} is a file.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{_at(recipe, key)}: {shown}: it cannot be written, {parent} is protected.")


def _at(recipe: Recipe, key: str) -> str:
    """Place and key path; of a single reference without brackets, the place of its list."""
    return f"{recipe.origin.cite(key, key.rpartition('.')[0])}{key}"


def _written(recipe: Recipe, key: str, path: Path) -> str:
    """A path as it was written, and where that leads."""
    written = recipe.origin.get(key) or recipe.origin.get(key.rpartition(".")[0])
    text = written.text if written and written.text else str(path)
    resolved = str(path.resolve())
    return f"'{text}'" if text == resolved else f"'{text}' ({resolved})"
