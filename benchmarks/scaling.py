"""How training starts, and what its data costs, as the corpus grows from thousands to millions of pairs: see README.md.

python -m benchmarks.scaling
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mt.data.assembly import SplitWriter
from mt.data.batching import Batch
from mt.data.config import DataConfig, ParallelText
from mt.data.encoding import Encoded, EncodedPairs, SideCounts
from mt.data.store import MANIFEST, Store
from mt.data.training_data import TrainingData
from mt.events import finish
from mt.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mt.prepare import prepare
from mt.recipe import Recipe
from mt.text.config import TokenizerConfig
from mt.text.files import read_json, write_aside, write_json
from mt.train import train
from mt.training.config import TrainConfig
from mt.training.meter import Trained

VOCAB = 8000
BUDGET = 4096
"""Tokens of a batch."""
BLOCK = 500_000
"""Pairs written at a time."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pairs", default="10000,100000,1000000,10000000", help="sizes of the corpora")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)  # one corpus, in a process of its own
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return
    print("pairs       first step   anonymous memory then   an epoch's batches   for each pair   memory then")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        finish(prepare(recipe_of(folder / "text", write_text(folder))))
        for pairs in map(int, given.pairs.split(",")):
            write_corpus(folder / "text", folder / "ids", pairs)
            command = (sys.executable, "-m", "benchmarks.scaling", "--measure", folder)
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            print(line(pairs, found), flush=True)


def line(pairs: int, found: dict[str, float]) -> str:
    """A row of the table."""
    step, memory, epoch = f"{found['first_step']:.2f} s", f"{found['memory'] / 1e6:.0f} MB", found["epoch"]
    return (
        f"{pairs:10,}{step:>13}{memory:>24}{epoch:19.2f} s{epoch / pairs * 1e6:13.2f} us"
        f"{found['epoch_memory'] / 1e6:12.0f} MB"
    )


def write_text(folder: Path) -> Path:
    """Words for a vocabulary; the corpora have ids only."""
    words = ["".join(letters) for letters in np.random.default_rng(1).choice(list("abcdefghij"), (20_000, 5))]
    with write_aside(folder / "text.txt") as file:
        file.writelines(" ".join(words[start : start + 10]).encode() + b"\n" for start in range(0, len(words), 10))
    return folder / "text.txt"


def recipe_of(data: Path, text: Path) -> Recipe:
    """A model that costs next to nothing, over the corpus in `data`."""
    return Recipe(
        "scaling",
        data.parent / "run",
        data=DataConfig("en", "de", (ParallelText(text, text),), dir=data),
        tokenizer=TokenizerConfig(vocab_size=VOCAB),
        model=ModelConfig(
            encoder=EncoderConfig(layers=1), decoder=DecoderConfig(layers=1), dim=16, ffn_dim=16, heads=1
        ),
        train=TrainConfig(max_steps=1),
    )


def write_corpus(text: Path, folder: Path, pairs: int) -> None:
    """A prepared folder of `pairs` pairs of random ids, 4 to 24 a side, with the vocabulary of `text`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    store, random = Store.open(text), np.random.default_rng(pairs)
    shutil.copytree(text / "tokenizer", folder / "tokenizer")
    manifest: dict[str, Any] = read_json(text / MANIFEST)
    with SplitWriter(folder, "train", store.tokenizers, manifest["corpus"], with_text=False) as writer:
        for start in range(0, pairs, BLOCK):
            size = min(BLOCK, pairs - start)
            src, tgt = random_side(random, size), random_side(random, size)
            writer.append(EncodedPairs(src, tgt, size, {}, np.zeros(0, np.uint64)))
        files = writer.close()
    write_json(folder / MANIFEST, manifest | {"splits": {"train": {"pairs": pairs}}, "files": files})


def random_side(random: np.random.Generator, size: int) -> Encoded:
    """`size` sequences of 4 to 24 ids, none of them a special token."""
    lengths = random.integers(4, 25, size)
    ids: NDArray[np.unsignedinteger] = random.integers(4, VOCAB, int(lengths.sum()), dtype=np.uint16)
    return Encoded(ids, lengths, np.zeros(0, np.uint8), np.zeros(0, np.int64), SideCounts())


def measure(folder: Path) -> dict[str, float]:
    """Seconds from the call of `train` to the end of its first update, then of all batches of an epoch; bytes held."""
    recipe, start = recipe_of(folder / "ids", folder / "text.txt"), time.perf_counter()
    with closing(train(recipe, overwrite=True)) as events:
        while not isinstance(next(events), Trained):
            pass
        found = {"first_step": time.perf_counter() - start, "memory": anonymous_bytes()}
    store = Store.open(folder / "ids")
    corpus = store.split("train")
    with TrainingData(corpus, store.tokenizers, recipe.tokenizer, BUDGET, recipe.seed, ahead=0) as data:
        start = time.perf_counter()
        pairs = sum(len(batch.src) for batch in data.epoch(0) if isinstance(batch, Batch))
        found |= {"epoch": time.perf_counter() - start, "epoch_memory": anonymous_bytes()}
    assert pairs == len(corpus)
    return found


def anonymous_bytes() -> int:
    """Memory that this process holds for itself; pages of the mapped corpus are the system's, which takes them back."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


if __name__ == "__main__":
    main()
