"""What dropout draws: a pure function of the recipe's seed and of the micro-batch's place in the training.

So a resumed training needs no generator's state, whatever else draws (validation, other code) moves nothing, and the
ranks of a distributed training draw together what one process would.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Noise:
    """Seeds `generators`, from which dropout draws, anew for each micro-batch: about 20 us."""

    seed: int
    generators: tuple[torch.Generator, ...]

    @classmethod
    def on(cls, device: torch.device, seed: int) -> Noise:
        """The noise of a model on `device`; some of its masks are drawn on the CPU wherever it is."""
        generators = [torch.default_generator]
        if device.type == "cuda":
            generators.append(torch.cuda.default_generators[device.index or 0])
        return cls(seed, tuple(generators))

    def begin(self, epoch: int, batch: int) -> None:
        """Go to micro-batch number `batch` (the first is 0) of `epoch`, counted over all ranks."""
        (state,) = np.random.SeedSequence([self.seed, epoch, batch]).generate_state(1, np.uint64)
        for generator in self.generators:
            generator.manual_seed(int(state))
