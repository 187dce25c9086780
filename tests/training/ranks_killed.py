"""A rank that is killed in mid-training, once; torchrun starts it as `python -m tests.training.ranks_killed FOLDER`."""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path

import torch

from mt.events import finish
from mt.place import Place
from mt.train import train
from mt.training.distributed import joined
from tests.training.ranks_at_work import recipe_of

AFTER = 8
"""Updates; a checkpoint was made at 5."""


def main(folder: Path) -> None:
    """Train; the second of the ranks dies at the first attempt."""
    place, asked = Place.of(), count()
    mortal = place.rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"

    def die() -> bool:
        if mortal and next(asked) == AFTER:
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    with joined(place, torch.device("cpu")) as group:
        finish(train(recipe_of(folder, "replicated", 1, "killed"), should_stop=die, group=group))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
