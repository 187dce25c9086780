from __future__ import annotations

from itertools import product

import torch

from mt.nn.dropout import dropout
from mt.training.noise import Noise


def mask(noise: Noise, epoch: int, batch: int) -> list[float]:
    noise.begin(epoch, batch)
    return dropout(torch.ones(64), 0.5, training=True).tolist()


def test_a_micro_batch_drops_the_same_whatever_was_drawn_before() -> None:
    """Fault 69."""
    noise = Noise.on(torch.device("cpu"), 3)
    first = mask(noise, 2, 5)
    mask(noise, 2, 6)
    torch.rand(7)
    assert mask(noise, 2, 5) == first


def test_micro_batches_epochs_and_seeds_drop_differently() -> None:
    masks = [
        mask(Noise.on(torch.device("cpu"), seed), epoch, batch) for seed, epoch, batch in product(range(3), repeat=3)
    ]
    assert len({tuple(each) for each in masks}) == 27
