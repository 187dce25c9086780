"""Every architecture on the same text, pieces, budget and search, and a page that compares them: see README.md.

python -m benchmarks.architectures --data FOLDER
"""

from __future__ import annotations

import argparse
import platform
import shlex
import sys
from collections.abc import Sequence
from datetime import date
from itertools import pairwise
from pathlib import Path

import torch

from benchmarks.side_by_side.claims import Found
from benchmarks.side_by_side.models import MODELS, recipe_of, run_folder
from benchmarks.side_by_side.page import write_page
from benchmarks.side_by_side.pictures import check_pictures, draw_pictures
from benchmarks.side_by_side.results import read
from benchmarks.side_by_side.speed import Speeds, measure, measured
from mt.device import pick_device
from mt.errors import MtError, plural
from mt.events import Event, Notice, finish
from mt.fetch import fetch
from mt.pipeline import run


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where the run folders lie")
    parser.add_argument("--only", type=_names, default=list(MODELS), metavar="NAMES", help="train some of the models")
    parser.add_argument("--data", type=Path, help="folder that has the text, in place of a download")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="for all")
    parser.add_argument("--page", type=Path, default=Path("docs/architectures.md"), help="what is written in the end")
    parser.add_argument("--rounds", type=int, default=3, help="of the measure of speed; 0: none")
    parser.add_argument("--updates", type=int, default=20, help="of a model in a round")
    parser.add_argument("--lines", type=int, default=500, help="that a model translates in a round")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int)
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in MODELS]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: there are {', '.join(MODELS)}")
    return names


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is not trained, measure what is not measured, and write the page."""
    options = parse(arguments)
    check_pictures()
    device = finish(pick_device(options.device, options.threads), _say)
    for name in options.only:
        recipe = recipe_of(name, options.runs, options.overrides)
        if options.data is not None:
            finish(fetch(recipe, options.data))
        finish(run(recipe, device), _say)
    speeds = _speeds(options, device)
    found = Found(read(list(MODELS), options.runs), speeds)
    pictures = draw_pictures(list(found.results.values()), options.page.with_suffix(""))
    given = sys.argv[1:] if arguments is None else arguments
    write_page(options.page, found, pictures, command_of(given), date.today())


def command_of(given: Sequence[str]) -> str:
    """What was called with these arguments, whatever folder of this machine has the text."""
    apart = [part for word in given for part in (word.split("=", 1) if word.startswith("--data=") else [word])]
    words = ["FOLDER" if before == "--data" else word for before, word in pairwise(["", *apart])]
    return shlex.join(["python", "-m", "benchmarks.architectures", *words])


def _speeds(options: argparse.Namespace, device: torch.device) -> Speeds | None:
    """What was measured, of all models that are trained: anew where one of them has joined, as only turns compare."""
    trained = {name: run_folder(name, options.runs) for name in read(list(MODELS), options.runs)}
    before = measured(options.runs)
    if options.rounds and (before is None or set(trained) != set(before.turns)):
        machine = _machine(device)
        for line in measure(trained, options.runs, machine, device, options.rounds, options.updates, options.lines):
            print(line, file=sys.stderr)
    return measured(options.runs)


def _machine(device: torch.device) -> str:
    count = torch.get_num_threads()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{count} CPU {plural(count, 'thread')}"
    return f"{name} ({platform.machine()}, PyTorch {torch.__version__}, Python {platform.python_version()})"


def _say(event: Event) -> None:
    if isinstance(event, Notice):
        print(event.text, file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except MtError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
