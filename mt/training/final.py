"""The final model of a run: the mean of the checkpoints that the recipe names, as one file in the run folder.

Translation needs `model.safetensors` alone. `model.json` tells people what that is the mean of, and, by being there,
that training came to its end; nothing reads what is in it.
"""

from __future__ import annotations

import os
from pathlib import Path

from safetensors import SafetensorError

from mt.errors import RunError
from mt.text.files import write_json
from mt.training.checkpoint import WEIGHTS, Checkpoints
from mt.training.config import AverageConfig
from mt.training.weights import average, write_tensors

DESCRIPTION = "model.json"


def write_final(run: Path, config: AverageConfig) -> list[int]:
    """Write `model.safetensors`, the mean of checkpoints, and `model.json`, which names them; return their updates.

    Without any validation the best are the last. Where there are fewer than `config.n`, all there are.

    Raises:
        RunError: it could not be written; a final model that was there before is untouched.
    """
    checkpoints = Checkpoints(run)
    last = checkpoints.updates()[-config.n :]
    updates = (checkpoints.best(config.n) or last) if config.of == "best" else last
    aside = run / f".{WEIGHTS}.aside"
    try:
        write_tensors(aside, average([checkpoints.path(update) / WEIGHTS for update in updates]))
        with aside.open("rb+") as file:
            os.fsync(file.fileno())
        aside.replace(run / WEIGHTS)
    except (OSError, SafetensorError) as error:
        aside.unlink(missing_ok=True)
        raise RunError(f"{run / WEIGHTS} could not be written ({error}): make room there and train again.") from error
    write_json(run / DESCRIPTION, {"mean_of": [checkpoints.path(update).name for update in sorted(updates)]})
    return sorted(updates)
