"""Training speed and memory of this project beside other tools, on the same batches, in turns: see README.md.

python -m benchmarks.training --src train.en --tgt train.de --cache FOLDER
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch

from benchmarks.peers.protocol import Batch, Shape, write_task
from benchmarks.peers.worker import ROOT, TORCH, Tool, Worker, environment
from mt.data.store import Store
from mt.data.training_data import Elsewhere, TrainingData
from mt.events import finish
from mt.prepare import prepare
from mt.recipe import load_recipe

OURS = Tool("benchmarks.peers.ours")
PRODUCTS = Tool("benchmarks.peers.products")
SHAPES = {"tiny": Shape(), "base": Shape(layers=6, dim=512, ffn_dim=2048, heads=8, dropout=0.1)}
PEERS = {
    "opennmt": Tool(
        "benchmarks.peers.opennmt",
        (
            (TORCH, "configargparse", "ctranslate2", "pyahocorasick", "pyonmttok", "pyyaml", "rapidfuzz", "sacrebleu"),
            ("six", "tensorboard", "setuptools<81"),
            ("--no-deps", "OpenNMT-py==3.5.1"),  # it asks for an older torch, and runs with this one
        ),
    ),
    "eole": Tool("benchmarks.peers.eole", ((TORCH, "eole==0.6.4", "aiohttp"),)),
    "marian": Tool("benchmarks.peers.marian", ((TORCH, "transformers==5.24.0"),)),
}


@dataclass(frozen=True)
class Turn:
    """What a worker measured in one turn."""

    tokens: int
    seconds: float
    processor_seconds: float
    """Of all threads."""
    peak_bytes: int

    def by(self, clock: str) -> Turn:
        """This turn, with `seconds` of the clock `wall` or `processor`."""
        return self if clock == "wall" else replace(self, seconds=self.processor_seconds)

    @property
    def speed(self) -> float:
        """Target tokens a second."""
        return self.tokens / self.seconds


def make_batches(src: Path, tgt: Path, folder: Path, vocab_size: int, budget: int, count: int) -> list[Batch]:
    """The first `count` batches of the first epoch, as `mt train` sees them; prepared in `folder`."""
    recipe = load_recipe(
        ROOT / "recipes" / "quickstart.yaml",
        [
            f"model_dir={folder}",
            "data.generate=null",
            "data.valid=null",
            "data.test={}",
            f"data.train=[{{src: {src.resolve()}, tgt: {tgt.resolve()}}}]",
            f"tokenizer.vocab_size={vocab_size}",
        ],
    )
    finish(prepare(recipe))
    store = Store.open(recipe.data_dir)
    with TrainingData(store.split("train"), store.tokenizers, recipe.tokenizer, budget, recipe.seed) as data:
        return [
            Batch(batch.src.numpy(), torch.cat([batch.tgt_in[:, :1], batch.tgt_out], 1).numpy())
            for batch in islice(data.epoch(0), count)
            if not isinstance(batch, Elsewhere)
        ]


def report(ours: Sequence[Turn], products: Sequence[Turn], peers: dict[str, list[Turn]]) -> None:
    """Print speed, ratios and memory."""
    speed = statistics.median(turn.speed for turn in ours)
    print(f"{'ours':10} {speed:8.0f} target tokens/s, peak {ours[-1].peak_bytes / 2**30:.2f} GiB")
    shares = [mine.speed / bare.speed for mine, bare in zip(ours, products, strict=True)]
    spread = f"{min(shares):.0%} to {max(shares):.0%}"
    print(f"  the time of its bare matrix products: {statistics.median(shares):.0%} of its own ({spread})")
    for name, turns in peers.items():
        ratios = [mine.speed / other.speed for mine, other in zip(ours, turns, strict=True)]
        memory = ours[-1].peak_bytes / turns[-1].peak_bytes
        speed = statistics.median(turn.speed for turn in turns)
        print(f"{name:10} {speed:8.0f} target tokens/s, peak {turns[-1].peak_bytes / 2**30:.2f} GiB")
        spread = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds"
        print(f"  ours / {name}: speed {statistics.median(ratios):.2f} ({spread}), memory {memory:.2f}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--src", type=Path, required=True, help="source text")
    parser.add_argument("--tgt", type=Path, required=True, help="target text")
    parser.add_argument("--cache", type=Path, required=True, help="folder for the peers' environments and the batches")
    parser.add_argument("--peers", default=",".join(PEERS), help="some of %(default)s")
    parser.add_argument("--shape", default="tiny", choices=tuple(SHAPES))
    parser.add_argument("--rounds", type=int, default=5, help="that count, after one that does not")
    parser.add_argument("--updates", type=int, default=20, help="of each tool in each round")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="rows x longest side")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--clock",
        default="wall",
        choices=("wall", "processor"),
        help="what seconds are; on a busy machine compare the processor time of one thread",
    )
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"), help="of ours, eole and marian")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = parse()
    shape = replace(SHAPES[options.shape], threads=options.threads, precision=options.precision)
    batches = make_batches(
        options.src,
        options.tgt,
        options.cache / "prepared",
        shape.vocab_size,
        options.batch_tokens,
        min(60, 1 + (options.rounds + 1) * options.updates),
    )
    task = options.cache / "task.npz"
    write_task(task, shape, batches)
    tools = {"ours": OURS, "products": PRODUCTS} | {name: PEERS[name] for name in options.peers.split(",") if name}
    workers = [
        Worker(name, environment(options.cache / name, tool), options.threads, tool.module, task)
        for name, tool in tools.items()
    ]
    turns: dict[str, list[Turn]] = {name: [] for name in tools}
    for number in range(options.rounds + 1):
        for worker in workers:
            turn = Turn(**worker.ask(options.updates)).by(options.clock)
            if number:  # in the first round kernels are built for the sizes that come, and the heap grows
                turns[worker.name].append(turn)
            print(f"round {number}: {worker.name} {turn.speed:.0f}", file=sys.stderr)
    for worker in workers:
        worker.close()
    report(turns.pop("ours"), turns.pop("products"), turns)


if __name__ == "__main__":
    main()
