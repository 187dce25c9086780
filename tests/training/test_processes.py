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


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a training `parts` of each type that another process began."""
    folder = tmp_path_factory.mktemp("processes")
    for type in TOKENIZERS:
        write_task(folder / type)
        finish(prepare(recipe_of(folder / type, type, "whole"), workers=1))
    work = f"[train_for(Path({str(folder)!r}) / type, type, 'parts', 5) for type in TOKENIZERS]"
    script = f"from pathlib import Path; from tests.training.test_processes import TOKENIZERS, train_for; {work}"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)
    return folder


@pytest.mark.parametrize("type", TOKENIZERS)
def test_it_equals_an_uninterrupted_training_bit_for_bit(begun: Path, type: str) -> None:
    whole, parts = (begun / type / run / "model.safetensors" for run in ("whole", "parts"))
    assert not parts.exists()
    for run in ("whole", "parts"):
        train_for(begun / type, type, run, 100)
    assert parts.read_bytes() == whole.read_bytes()
