"""Two updates of every kind of model by several ranks, as `python -m tests.training.ranks_and_models FILE`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from mt.data.batching import Batch
from mt.models.config import ModelConfig
from mt.objectives.cross_entropy import CrossEntropy
from mt.place import Place
from mt.training.distributed import ALONE, Group, joined
from mt.training.noise import Noise
from mt.training.parallel import spread
from mt.training.precision import Precision
from mt.training.state import TrainingState
from mt.training.update import Updater
from tests.models.laws import CONFIGS, build, random_batch
from tests.training.ranks_at_work import CPU, share

MODELS = {**CONFIGS, "layers left out": replace(CONFIGS["transformer_base"], layer_drop=0.5)}


def losses(group: Group, sharding: str, config: ModelConfig) -> list[float]:
    """Loss a token and gradient norm of two updates, of three micro-batches each: one rank has one fewer."""
    model, batch = build(config), random_batch()
    half = Batch(*(tensor[:2] for tensor in (batch.src, batch.src_mask, batch.tgt_in, batch.tgt_out, batch.tgt_mask)))
    layout = spread(model, partial(CrossEntropy(0.1), model), group, sharding)
    adam = torch.optim.Adam(model.parameters(), eps=1e-2)
    updater = Updater(model, layout, adam, Precision(CPU, torch.float32), Noise.on(CPU, 1), 1.0, group)
    found: list[float] = []
    for _ in range(2):
        done = updater(share([batch, half, batch], group), 0.1, TrainingState())
        assert done is not None
        found += [float(done.loss) / done.tokens, float(done.grad_norm)]
    return found


def main(file: Path) -> None:
    """Write what differs from one process."""
    wrong = []
    with joined(Place.of(), CPU) as group:
        for name, config in MODELS.items():
            expected = torch.tensor(losses(ALONE, "none", config))
            for sharding in ("none",) if config.layer_drop else ("none", "full"):
                found = torch.tensor(losses(group, sharding, config))
                wrong += [] if torch.allclose(found, expected, 1e-4, 1e-5) else [f"{name}, {sharding}"]
        if group.leads:
            file.write_text(json.dumps(wrong), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
