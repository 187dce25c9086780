"""What the trainings left in their run folders, read again: nothing else is kept of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.side_by_side.models import run_folder
from mt.curves import RunLog, read_runs
from mt.estimate import parameter_shapes
from mt.evaluate import SCORES_FILE
from mt.recipe import Recipe, load_run_recipe
from mt.scoring.formulas import FloatArray, bleu
from mt.scoring.metrics import Score
from mt.text.files import read_lines
from mt.text.tokenizer import Tokenizers
from mt.translate import translations_file

LENGTHS = (8, 11, 14, 18)
"""Words of a source up to which the classes of the picture go; the last is longer."""


@dataclass(frozen=True)
class Result:
    """A trained model on the recipe's first test set."""

    name: str
    recipe: Recipe
    parameters: int
    log: RunLog
    scores: dict[str, Score]
    statistics: FloatArray
    """(lines, 10): what BLEU counts in each sentence."""
    lengths: NDArray[np.int64]
    """(lines,): words of each source."""

    @property
    def trained(self) -> dict[str, Any]:
        """How far the training came: update and seconds at its end, and epoch at the last line of means before."""
        return {**self.log.of("trained")[-1], **self.log.of("stopped")[-1]}

    @property
    def bleu(self) -> float:
        return self.scores["bleu"].value

    def bleu_of(self, chosen: NDArray[np.bool_]) -> float:
        """BLEU of some sentences."""
        return float(bleu(self.statistics[chosen].sum(0, keepdims=True))[0])


def read(names: Sequence[str], runs: Path) -> dict[str, Result]:
    """The models of `names` that are trained and scored, in that order."""
    return {name: _read(name, runs) for name in names if (run_folder(name, runs) / SCORES_FILE).is_file()}


def _read(name: str, runs: Path) -> Result:
    folder = run_folder(name, runs)
    recipe = load_run_recipe(folder)
    tokenizers = Tokenizers.load(folder / "tokenizer")
    shapes = parameter_shapes(recipe.model, len(tokenizers.src), len(tokenizers.tgt))
    (log,) = read_runs([folder])
    test_name, test = next(iter(recipe.data.test.items()))
    hypotheses = list(read_lines(translations_file(recipe, test_name)))
    references = [list(read_lines(file)) for file in test.tgt]
    scorers = {metric: recipe.evaluate.build(metric, references, recipe.data.tgt_lang) for metric in ("bleu", "chrf")}
    statistics = {metric: scorer.statistics(hypotheses) for metric, scorer in scorers.items()}
    return Result(
        name,
        recipe,
        sum(map(math.prod, shapes)),
        log,
        {metric: scorer.score(statistics[metric]) for metric, scorer in scorers.items()},
        statistics["bleu"],
        np.array([len(line.split(" ")) for line in read_lines(test.src)], np.int64),
    )


def length_classes(lengths: NDArray[np.int64]) -> dict[str, NDArray[np.bool_]]:
    """Name -> which sentences (lines,), shortest first; classes that no sentence is of are left out."""
    lows, highs = (1, *(limit + 1 for limit in LENGTHS)), (*LENGTHS, None)
    classes = {}
    for low, high in zip(lows, highs, strict=True):
        chosen = lengths >= low if high is None else (lengths >= low) & (lengths <= high)
        if chosen.any():
            classes[f"{low}+" if high is None else f"{low} to {high}"] = chosen
    return classes
