"""A translation task of seconds: numbers from English to German, a word for a word."""

from __future__ import annotations

import random
from pathlib import Path

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf", "six": "sechs"}

RECIPE = """\
name: tiny
model_dir: run
data:
  src_lang: en
  tgt_lang: de
  train:
    - {src: train.en, tgt: train.de}
  valid: {src: valid.en, tgt: valid.de}
  test:
    held_out: {src: test.en, tgt: test.de}
tokenizer: {type: word, vocab_size: 20, shared: false, soft_vocab_limit: true}
model: {encoder: {layers: 1}, decoder: {layers: 1}, dim: 16, ffn_dim: 16, heads: 2, tie: none}
train: {batch_tokens: 400, lr: 1e-3, schedule: {warmup: 10}, max_steps: 4, valid_every: 4, save_every: 4}
decode: {beam_size: 2, max_length: 8}
"""


def write_task(folder: Path, pairs: int = 60) -> Path:
    """Write the texts and the recipe, and return the recipe's file."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    for part, count in (("train", pairs), ("valid", 6), ("test", 12)):
        lines = [draw.choices(list(WORDS), k=draw.randint(1, 4)) for _ in range(count)]
        _write(folder / f"{part}.en", [" ".join(line) for line in lines])
        _write(folder / f"{part}.de", [" ".join(WORDS[word] for word in line) for line in lines])
    recipe = folder / "recipe.yaml"
    recipe.write_text(RECIPE, encoding="utf-8")
    return recipe


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
