"""Export: a trained run as a folder that another engine runs, checked to translate as this project does.

Another engine is a module in mt/interop and a line in `ENGINES`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mt.data.store import Store
from mt.engine import Engine
from mt.errors import BusyError, DataError, RunError
from mt.events import Event, Notice, Progress
from mt.interop.ctranslate2 import (
    COMPUTE_TYPES,
    NOTE,
    CTranslate2Engine,
    check_decode,
    folder_aside,
    read_note,
    require,
    write_model,
    write_note,
)
from mt.interop.ctranslate2_model import check_model
from mt.recipe import RECIPE_FILE, Recipe, load_run_recipe, save_recipe
from mt.search.config import DecodeConfig
from mt.text.folders import locked
from mt.text.tokenizer import Tokenizers
from mt.training.checksum import DamagedError, check_file, checksum
from mt.translator import Translator, lengths_of, load, weights_file

TOLERANCE = 1e-4
"""Most that the log-probability of a piece may differ."""
PAUSE = 0.1
"""Seconds between two looks whether another process has ended."""


@dataclass(frozen=True)
class Exported:
    """What was written, and how it compares."""

    folder: Path
    sentences: int
    """How many were translated by both."""
    difference: float
    """The greatest difference of a piece's log-probability."""


def export(
    run: str | Path,
    folder: Path,
    to: str = "ctranslate2",
    checkpoint: str | None = None,
    sentences: int = 32,
    overrides: Sequence[str] = (),
) -> Generator[Event, None, Exported]:
    """Write a run's model to `folder` for the engine `to`, one of `ENGINES`, with tokenizer and decode defaults.

    Before `folder` has its name, `sentences` are translated greedily there and here, and scored there and here: of the
    run's validation text where it is at hand, else random pieces. `overrides` (`decode.KEY=VALUE`) change the defaults.

    Raises:
        ConfigError: the engine cannot run the model, or cannot follow the recipe's `decode` block; MissingExtraError;
        RunError: there is no model, or the check failed; DataError: `folder` holds something else.
    """
    return (
        yield from ENGINES[to](load_run_recipe(run, overrides), Path(run).expanduser(), folder, checkpoint, sentences)
    )


def _to_ctranslate2(
    recipe: Recipe, run: Path, folder: Path, checkpoint: str | None, sentences: int
) -> Generator[Event, None, Exported]:
    check_model(recipe.model)
    check_decode(recipe.decode)
    require()
    translator = load(run, checkpoint, "cpu")
    with folder_aside(folder) as aside:
        write_model(aside, translator.model, recipe.model, translator.tokenizers)
        save_recipe(replace(recipe, model_dir=aside), aside / RECIPE_FILE)
        if translator.lengths is not None:
            translator.lengths.save(aside)
        yield Progress("checking", 0, sentences, "sentences")
        sources = _sentences(recipe, translator.tokenizers, sentences)
        difference = _compare(translator.engine, CTranslate2Engine(aside, translator.tokenizers), sources)
        yield Progress("checking", sentences, sentences, "sentences")
        checked = {"sentences": len(sources), "greatest_difference": difference}
        write_note(aside, translator.weights, checked, _checksums(aside))
    return Exported(folder, len(sources), difference)


def _checksums(folder: Path) -> dict[str, dict[str, Any]]:
    """Of all files but the recipe, whose decode block may be edited."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name: checksum(folder / name) for name in files if name != RECIPE_FILE}


ENGINES: dict[str, Callable[[Recipe, Path, Path, str | None, int], Generator[Event, None, Exported]]] = {
    "ctranslate2": _to_ctranslate2
}


def _sentences(recipe: Recipe, tokenizers: Tokenizers, count: int) -> list[list[int]]:
    """Sources to compare with: validation text, or random pieces of lengths from 1 to 64."""
    try:
        lines = list(islice(Store.open(recipe.data_dir).reference_lines("valid", "src"), count))
    except DataError:
        lines = []
    texts = [ids for ids in tokenizers.src.encode_batch(lines) if ids]
    draw = np.random.default_rng(1)
    marks = (tokenizers.src.bos, tokenizers.src.eos, tokenizers.src.pad)
    plain = [number for number in range(len(tokenizers.src)) if number not in marks]
    lengths = [1 + number * 64 // count for number in range(count)]
    return texts or [draw.choice(plain, length).tolist() for length in lengths]


def _compare(here: Engine, there: Engine, sources: Sequence[list[int]]) -> float:
    """The greatest difference of a piece's log-probability between the two.

    Raises:
        RunError: it is more than `TOLERANCE`, or a greedy translation is another one.
    """
    greedy = DecodeConfig(beam_size=1)
    ours = [list(found[0].tokens) for found in here.search(sources, greedy)]
    theirs = [list(found[0].tokens) for found in there.search(sources, greedy)]
    scores = zip(here.log_probs(sources, ours), there.log_probs(sources, ours), strict=True)
    difference = max(abs(a - b) for mine, other in scores for a, b in zip(mine, other, strict=True))
    if not difference <= TOLERANCE:  # NaN is no agreement
        raise RunError(
            f"The exported model does not compute what this one does: the log-probability of a piece differs by "
            f"{difference:.2g}, more than {TOLERANCE:g}; nothing was written. Please report this with the recipe."
        )
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True), 1):
        if mine != other and not _tied(here, sources[number - 1], mine, other):
            raise RunError(
                f"The exported model does not translate as this one does: sentence {number} of {len(sources)} differs; "
                "nothing was written. Please report this with the recipe."
            )
    return difference


def _tied(engine: Engine, source: list[int], first: list[int], second: list[int]) -> bool:
    """Whether two greedy outputs part where both pieces are equally likely."""
    pairs = enumerate(zip(first, second, strict=False))
    parting = next((place for place, (a, b) in pairs if a != b), min(len(first), len(second)))
    one, other = engine.log_probs([source, source], [first, second])
    return math.isclose(one[parting], other[parting], abs_tol=TOLERANCE)


def load_exported(
    run: str | Path,
    checkpoint: str | None = None,
    decode: DecodeConfig | None = None,
    device: str = "cpu",
    workers: int = 1,
    threads: int = 0,
) -> Generator[Event, None, Translator]:
    """A translator with CTranslate2 as its engine, of a run folder or of a folder that was exported.

    Args:
        device: `cpu`, `cuda` or `cuda:N`.
        workers, threads: batches that are computed at once, and threads of each; 0: as many as there are.

    Raises:
        ConfigError: `decode` asks for what the engine cannot do; as `exported`.
    """
    run = Path(run).expanduser()
    recipe = load_run_recipe(run)
    config = decode or recipe.decode
    check_decode(config)
    folder = yield from exported(run, checkpoint)
    tokenizers = Tokenizers.load(folder / "tokenizer")
    engine = CTranslate2Engine(folder, tokenizers, device, workers, threads, COMPUTE_TYPES[config.precision])
    return Translator(engine, tokenizers, config, device, lengths_of(recipe, run), read_note(folder).get("weights"))


def exported(run: str | Path, checkpoint: str | None = None) -> Generator[Event, None, Path]:
    """The folder to give to the engine: `run` itself if it is an export, else its folder ctranslate2, made if need be.

    Where another process makes it, such as one that torchrun started with this one, that is waited for.

    Raises:
        RunError, DataError: an export is damaged (a run's own is made again); as `export`.
    """
    run = Path(run).expanduser()
    if (run / NOTE).is_file():
        _check_given(run, checkpoint)
        return run
    folder, weights = run / "ctranslate2", weights_file(run, checkpoint)
    while (why := _stale(folder, weights.sha256)) is not None:
        yield Notice(f"{why}Converting the model to {folder}.")
        try:
            yield from export(run, folder, checkpoint=checkpoint)
            break
        except BusyError:
            yield Notice(f"Another process is converting it to {folder}: waiting until it has ended.")
            _await(folder)
    return folder


def _check_given(folder: Path, checkpoint: str | None) -> None:
    """Refuse an exported folder that is damaged, or of which a checkpoint is wanted. Raises RunError, DataError."""
    if checkpoint is not None:
        raise RunError(f"{folder} holds an exported model, which has no checkpoints: leave {checkpoint} out.")
    try:
        _check(folder)
    except DamagedError as error:
        raise RunError(f"{error} Export the model again: mt export RUN --to ctranslate2 {folder}.") from error


def _stale(folder: Path, weights: str) -> str | None:
    """Why `folder` is no whole export of the weights with that SHA-256, '' where it is not there; None if it is one."""
    try:
        _check(folder)
        return None if read_note(folder).get("weights") == weights else ""
    except (DamagedError, DataError) as error:
        return f"{error} "


def _await(folder: Path) -> None:
    """Return when nobody writes `folder`."""
    while True:
        try:
            with locked(folder, "mt export"):
                return
        except BusyError:
            time.sleep(PAUSE)


def _check(folder: Path) -> None:
    """Compare the files of an exported folder with their checksums; early ones have none.

    Raises:
        DamagedError: a file is missing or was changed; DataError: the note with the checksums is damaged.
    """
    for name, expected in read_note(folder).get("files", {}).items():
        check_file(folder / name, expected)
