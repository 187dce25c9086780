"""What a worker of benchmarks/training.py is: a process that trains one tool's model on batches it is given.

The driver writes the task once (`write_task`), starts each worker with its path, and then alternates: it writes a
number of updates to one worker's standard input and waits for that worker's line of JSON, while the others sleep. This
module runs in the environments of all tools, so it imports numpy alone.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

UNK, BOS, EOS, PAD = range(4)
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """The model and its training, in words that all tools know."""

    vocab_size: int = 8000
    layers: int = 4
    dim: int = 128
    ffn_dim: int = 256
    heads: int = 4
    dropout: float = 0.3
    label_smoothing: float = 0.1
    lr: float = 5e-4
    warmup: int = 4000
    clip_norm: float = 1.0
    precision: str = "fp32"
    threads: int = 2


@dataclass(frozen=True)
class Batch:
    """`src` (B, S): pieces, eos, padding. `tgt` (B, T + 1): bos, pieces, eos, padding."""

    src: Ids
    tgt: Ids

    @property
    def tokens(self) -> int:
        """Target tokens that are predicted: pieces and eos, no padding."""
        return int((self.tgt[:, 1:] != PAD).sum())


@dataclass(frozen=True)
class Task:
    """What every tool is given."""

    shape: Shape
    batches: tuple[Batch, ...]


def write_task(path: Path, shape: Shape, batches: Sequence[Batch]) -> None:
    """Write the task as `path` (.npz)."""
    arrays: dict[str, Any] = {"shape": np.array(json.dumps(asdict(shape)))}
    for number, batch in enumerate(batches):
        arrays |= {f"src{number}": batch.src, f"tgt{number}": batch.tgt}
    np.savez(path, **arrays)


def read_task(path: Path) -> Task:
    """Read what `write_task` wrote."""
    with np.load(path) as arrays:
        count = len(arrays.files) // 2
        batches = tuple(Batch(arrays[f"src{number}"], arrays[f"tgt{number}"]) for number in range(count))
        return Task(Shape(**json.loads(str(arrays["shape"]))), batches)


def cycle(count: int, start: int, updates: int) -> Iterator[int]:
    """Numbers of the batches of `updates` updates from update `start` on, round and round over `count` batches."""
    return (number % count for number in range(start, start + updates))


def serve(make: Callable[[Task], Callable[[Sequence[int]], None]]) -> None:
    """Build the tool's trainer, then train as many updates as each line of standard input says.

    `make(task)` gives a function that trains one update on each of the batches whose numbers it is given. The first
    answer comes after one update, so that what a tool builds lazily is built.
    """
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever a tool prints stays out of the answers
    task = read_task(Path(sys.argv[1]))
    train = make(task)
    train([0])
    done = 0
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        numbers = list(cycle(len(task.batches), done, int(line)))
        start, used = time.perf_counter(), time.process_time()
        train(numbers)
        seconds, processor = time.perf_counter() - start, time.process_time() - used
        done += len(numbers)
        tokens = sum(task.batches[number].tokens for number in numbers)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        answer = {"tokens": tokens, "seconds": seconds, "processor_seconds": processor, "peak_bytes": peak}
        print(json.dumps(answer), file=answers, flush=True)
