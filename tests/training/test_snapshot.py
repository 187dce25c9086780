from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from mt.training.checkpoint import Checkpoints
from mt.training.config import OptimizerConfig
from mt.training.noise import Noise
from mt.training.optim import set_learning_rate
from mt.training.snapshot import restore, take
from mt.training.state import TrainingState


class Training:
    """A training small enough to read: noisy data, dropout, Adam, tied layers."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.last.weight = self.first.weight
        self.model = nn.Sequential(self.first, nn.Dropout(0.5), self.last)
        self.optimizer = OptimizerConfig().build(self.model.parameters())
        self.noise = Noise.on(torch.device("cpu"), 7)
        self.state = TrainingState()

    def run(self, updates: int) -> list[float]:
        losses = []
        for _ in range(updates):
            self.noise.begin(self.state.epoch, self.state.batch)
            loss = self.model(torch.randn(3, 4)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            set_learning_rate(self.optimizer, 0.01)
            self.optimizer.step()
            self.state = self.state.after_batches(1, 3, 12, 30)
            losses.append(loss.item())
        return losses


def test_resumed_is_uninterrupted_bit_for_bit(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    whole = Training(seed=7)
    expected = whole.run(10)
    first = Training(seed=7)
    assert first.run(4) == expected[:4]
    checkpoints.save(take(first.state, first.model, first.optimizer))
    second = Training(seed=99)
    saved, _ = checkpoints.newest()
    assert saved is not None
    second.state = restore(saved, second.model, second.optimizer, tmp_path)
    assert second.run(6) == expected[4:]
    assert second.state == whole.state
    assert torch.equal(second.first.weight, whole.first.weight)
    assert second.first.weight is second.last.weight


def test_the_same_seed_gives_the_same_training() -> None:
    """Fault 69."""
    assert Training(7).run(20) == Training(7).run(20) != Training(8).run(20)


def test_an_early_checkpoint_with_the_state_of_a_generator_is_resumed(tmp_path: Path) -> None:
    first = Training(7)
    first.run(2)
    saved = take(first.state, first.model, first.optimizer)
    early = {**saved.optimizer, "generator/cpu": torch.get_rng_state()}
    Checkpoints(tmp_path).save(replace(saved, optimizer=early))
    second = Training(8)
    restore(Checkpoints(tmp_path).load(2), second.model, second.optimizer, tmp_path)
    assert torch.equal(second.first.weight, first.first.weight)
