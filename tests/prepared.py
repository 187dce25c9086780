"""Recipes over small texts, for tests of preparation and of what reads a prepared corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mt.data.config import DataConfig, ParallelText
from mt.recipe import Recipe
from mt.text.config import TokenizerConfig
from mt.training.config import TrainConfig

WORD = TokenizerConfig(type="word", vocab_size=1000)


def write_pair(folder: Path, src: bytes, tgt: bytes, name: str = "train") -> ParallelText:
    """Write two files of text."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{name}.src", folder / f"{name}.tgt"
    for path, data in zip(paths, (src, tgt), strict=True):
        path.write_bytes(data)
    return ParallelText(*paths)


def recipe_of(
    folder: Path,
    *train: ParallelText,
    valid: ParallelText | None = None,
    tokenizer: TokenizerConfig = WORD,
    **data: Any,
) -> Recipe:
    """A recipe that prepares `train` and `valid` in folder/run/data; `data` are further keys of its data block."""
    config = DataConfig("en", "de", train, valid=valid, **data)
    return Recipe("test", folder / "run", data=config, tokenizer=tokenizer, train=TrainConfig(max_steps=1))


def simple(folder: Path, src: bytes, tgt: bytes, tokenizer: TokenizerConfig = WORD, **data: Any) -> Recipe:
    """A recipe over one corpus of that text."""
    return recipe_of(folder, write_pair(folder, src, tgt), tokenizer=tokenizer, **data)
