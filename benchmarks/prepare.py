"""Speed of `mt prepare` beside bare SentencePiece with as many workers, and how its memory grows: see README.md.

python -m benchmarks.prepare --src train.en.gz --tgt train.de.gz
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import sentencepiece

from mt.data.config import DataConfig, ParallelText
from mt.data.store import Store
from mt.events import Progress
from mt.prepare import prepare
from mt.recipe import Recipe
from mt.text.config import TokenizerConfig
from mt.text.files import read_lines, write_aside
from mt.training.config import TrainConfig

BATCH = 4096  # lines that bare SentencePiece encodes a call


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--src", type=Path, required=True)
    parser.add_argument("--tgt", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=1_500_000, help="the text is repeated until it has so many")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prepare", type=Path, help=argparse.SUPPRESS)  # one preparation, for the measure of memory
    given = parser.parse_args()
    if given.prepare:
        for _ in prepare(recipe_of(given.prepare, given.src, given.tgt), given.workers):
            pass
        return
    with tempfile.TemporaryDirectory() as folder:
        large = repeat(given.src, given.tgt, given.pairs, Path(folder) / "large")
        small = repeat(given.src, given.tgt, given.pairs // 10, Path(folder) / "small")
        compare_memory(small, large, given.pairs, given.workers, Path(folder))
        compare_speed(large, given.pairs, given.workers, given.rounds, Path(folder))


def repeat(src: Path, tgt: Path, pairs: int, folder: Path) -> ParallelText:
    """The text of both files, again and again until there are `pairs` lines."""
    folder.mkdir()
    for name, path in (("src", src), ("tgt", tgt)):
        lines = [line.encode() + b"\n" for line in read_lines(path)]
        with write_aside(folder / name) as file:
            file.writelines(islice(chain.from_iterable(lines for _ in iter(int, 1)), pairs))
    return ParallelText(folder / "src", folder / "tgt")


def recipe_of(folder: Path, src: Path, tgt: Path, tokenizer: TokenizerConfig | None = None) -> Recipe:
    """The default settings over one corpus."""
    data = DataConfig("en", "de", (ParallelText(src, tgt),), dir=folder)
    return Recipe(
        "benchmark", folder, data=data, tokenizer=tokenizer or TokenizerConfig(), train=TrainConfig(max_steps=1)
    )


def compare_speed(text: ParallelText, pairs: int, workers: int, rounds: int, folder: Path) -> None:
    """Both in turns, on the same lines with the same vocabulary, which is learned before."""
    first = recipe_of(folder / "first", text.src, text.tgt)
    for _ in prepare(first, workers):
        pass
    model = folder / "first" / "tokenizer" / "shared.model"
    recipe = recipe_of(folder / "again", text.src, text.tgt, replace(first.tokenizer, reuse=folder / "first"))
    ratios: dict[str, list[float]] = {"encoding": [], "all": [], "processor time": []}
    for turn in range(rounds):
        bare_time, bare_processor = bare_seconds(model, text, workers)
        encoding_time, whole_time, processor = prepare_seconds(recipe, workers)
        bare, encoding, whole = (2 * pairs / seconds for seconds in (bare_time, encoding_time, whole_time))
        ratios["encoding"].append(encoding / bare)
        ratios["all"].append(whole / bare)
        ratios["processor time"].append(bare_processor / processor)
        print(
            f"round {turn + 1}: bare SentencePiece {bare:,.0f} lines/s, mt prepare's encoding {encoding:,.0f} "
            f"({encoding / bare:.0%}), with counting and checksums {whole:,.0f} ({whole / bare:.0%}); "
            f"processor time {bare_processor:.0f} s and {processor:.0f} s ({bare_processor / processor:.0%})",
            flush=True,
        )
        recipe = replace(recipe, data=replace(recipe.data, dir=folder / f"again{turn}"))
    for name, values in ratios.items():
        print(f"median of {name}: {statistics.median(values):.0%} ({min(values):.0%} to {max(values):.0%})")
    Store.open(folder / "again").verify()


def prepare_seconds(recipe: Recipe, workers: int) -> tuple[float, float, float]:
    """Time from the first worker's start to the whole folder, time of all, and processor time of all its processes."""
    used = processor_seconds()
    begin = counted = time.perf_counter()
    for event in prepare(recipe, workers):
        if isinstance(event, Progress) and event.label == "reading":
            counted = time.perf_counter()
    end = time.perf_counter()
    return end - counted, end - begin, processor_seconds() - used


def processor_seconds() -> float:
    """Processor time of this process and of all its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def bare_seconds(model: Path, text: ParallelText, workers: int) -> tuple[float, float]:
    """Time that processes of SentencePiece take for lines which they hold already, and their processor time."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(workers)
    with ProcessPoolExecutor(workers, context, _start, (model, text, barrier)) as pool:
        times = list(pool.map(_encode, [(part, workers) for part in range(workers)]))
    return max(seconds for seconds, _ in times), sum(used for _, used in times)


_state: tuple[Any, ParallelText, Any]


def _start(model: Path, text: ParallelText, barrier: object) -> None:
    global _state
    _state = sentencepiece.SentencePieceProcessor(model_file=str(model)), text, barrier


def _encode(task: tuple[int, int]) -> tuple[float, float]:
    part, workers = task
    processor, text, barrier = _state
    lines = [line for number, line in enumerate(_all_lines(text)) if number // BATCH % workers == part]
    barrier.wait()
    begin, used = time.perf_counter(), time.process_time()
    for start in range(0, len(lines), BATCH):
        processor.encode(lines[start : start + BATCH], num_threads=1)
    return time.perf_counter() - begin, time.process_time() - used


def _all_lines(text: ParallelText) -> Iterator[str]:
    yield from read_lines(text.src)
    yield from read_lines(text.tgt)


def compare_memory(small: ParallelText, large: ParallelText, pairs: int, workers: int, folder: Path) -> None:
    """Peaks of the memory of a preparation of a tenth of the text and of all."""
    peaks = [peak_bytes(text, workers, folder / f"memory{part}") for part, text in enumerate((small, large))]
    print(
        f"peak memory of mt prepare and its {workers} workers together: {peaks[0] / 1e6:.0f} MB for {pairs // 10:,} "
        f"pairs, {peaks[1] / 1e6:.0f} MB for {pairs:,} ({peaks[1] / peaks[0] - 1:+.1%})",
        flush=True,
    )


def peak_bytes(text: ParallelText, workers: int, folder: Path) -> int:
    """Largest sum of the resident memory of a preparation's processes, looked at every 20 ms."""
    command: Sequence[str | Path] = (
        *(sys.executable, "-m", "benchmarks.prepare", "--prepare", folder),
        *("--src", text.src, "--tgt", text.tgt, "--workers", str(workers)),
    )
    process = subprocess.Popen(command)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(_resident, _family(process.pid))))
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit(process.returncode)
    return peak


def _family(pid: int) -> list[int]:
    """A process and all below it."""
    try:
        children = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return [pid]
    return [pid, *(member for child in chain.from_iterable(children) for member in _family(int(child)))]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    main()
