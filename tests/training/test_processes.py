"""A training that goes on in another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mt.events import finish
from mt.prepare import prepare
from mt.recipe import Recipe, load_recipe
from mt.train import train
from tests.tiny import write_task

ROOT = Path(__file__).resolve().parents[2]
TOKENIZERS = {
    "bpe": "tokenizer={type: bpe, vocab_size: 60, shared: true, dropout: 0.2}",
    "unigram": "tokenizer={type: unigram, vocab_size: 60, shared: true, soft_vocab_limit: true, alpha: 0.2}",
}


def recipe_of(folder: Path, type: str, run: str) -> Recipe:
    """A recipe of 12 updates that segments anew and drops out."""
    settings = ["model.tie=all", "model.dropout=0.3", "train.max_steps=12", "train.batch_tokens=60"]
    places = [f"data.dir={folder / 'data'}", f"model_dir={folder / run}"]
    return load_recipe(folder / "recipe.yaml", [*places, *settings, TOKENIZERS[type]])


def train_for(folder: Path, type: str, run: str, updates: int) -> None:
    """Train until the end, or for some updates."""
    asked = iter(range(updates))
    finish(train(recipe_of(folder, type, run), should_stop=lambda: next(asked, None) is None))


def in_another_process(folder: Path, type: str, run: str, updates: int) -> None:
    call = f"train_for(Path({str(folder)!r}), {type!r}, {run!r}, {updates})"
    script = f"from pathlib import Path; from tests.training.test_processes import train_for; {call}"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


@pytest.mark.parametrize("type", TOKENIZERS)
def test_it_equals_an_uninterrupted_training_bit_for_bit(tmp_path: Path, type: str) -> None:
    write_task(tmp_path)
    finish(prepare(recipe_of(tmp_path, type, "whole"), workers=1))
    in_another_process(tmp_path, type, "whole", 100)
    in_another_process(tmp_path, type, "parts", 5)
    assert not (tmp_path / "parts" / "model.safetensors").exists()
    in_another_process(tmp_path, type, "parts", 100)
    whole, parts = ((tmp_path / run / "model.safetensors").read_bytes() for run in ("whole", "parts"))
    assert parts == whole
