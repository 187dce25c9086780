"""This project, from text to text: `precision`, `workers` processes and `threads` of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.peers.decoding import Decode, Task, serve
from mt.lines.answer import Answering, Style
from mt.recipe import load_run_recipe
from mt.text.files import Block
from mt.translator import Translator, load
from mt.workers import Loading, Workers


def make(task: Task, settings: dict[str, Any]) -> Decode:
    """Load the run."""
    torch.set_num_threads(settings["threads"])
    recipe = load_run_recipe(task.run).decode
    config = replace(recipe, beam_size=task.beam_size, n_best=1, precision=settings["precision"])
    config = replace(config, min_length=task.shortest, max_length=task.limit)
    if settings["workers"] > 1:
        workers = Workers(Loading(Path(task.run), None, config), settings["workers"], settings["threads"])
        return lambda count, _: _translate(workers, task.lines[:count])
    translator = load(task.run, device="cpu", decode=config)
    return lambda count, singly: (_singly if singly else _translate)(translator, task.lines[:count])


def _translate(answering: Answering, lines: list[str]) -> list[str]:
    size = answering.block_lines
    parts = [lines[start : start + size] for start in range(0, len(lines), size)]
    blocks = (Block(Path("lines"), "".join(f"{line}\n" for line in part).encode(), 1, 0) for part in parts)
    return b"".join(answer.data for answer in answering.answers(blocks, Style())).decode().split("\n")[:-1]


def _singly(translator: Translator, lines: list[str]) -> list[str]:
    return [next(translator.translate([line])).text for line in lines]


if __name__ == "__main__":
    serve(make)
