"""The budget of a batch that is found: by trying, or by a rule."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from mt.data.batching import Batch
from mt.errors import ConfigError
from mt.objectives.cross_entropy import Loss
from mt.training import budget
from mt.training.budget import MOST, STEP, UNKNOWN, estimated, largest, tried
from mt.training.memory import PairTooLargeError
from mt.training.precision import Precision
from mt.training.units import Budget

CPU = Precision(torch.device("cpu"), torch.float32)


@pytest.mark.parametrize("fitting", [250, 251, 3000, 20_001, 32_767, 32_768, 10**9])
def test_the_largest_that_fits_is_found(fitting: int) -> None:
    asked: list[int] = []

    def fits(value: int) -> bool:
        asked.append(value)
        return value <= fitting

    found = largest(fits, least=250)
    assert min(fitting, MOST) - STEP <= found <= min(fitting, MOST)
    assert fits(found)
    assert len(asked) < 20
    assert max(asked) <= MOST


def test_nothing_is_found_where_not_even_one_pair_fits() -> None:
    assert largest(lambda _: False, least=250) == 0


class Device(nn.Module):
    """A model on a device with room for batches of so many positions a side."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self.weight = nn.Parameter(torch.ones(1))
        self.shapes: list[tuple[int, ...]] = []

    def loss(self, batch: Batch) -> Loss:
        self.shapes.append(tuple(batch.src.shape))
        assert batch.src.shape == batch.tgt_in.shape
        assert batch.src_mask.all()
        if batch.src.numel() > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return Loss(self.weight.sum(), self.weight.sum().detach(), batch.src.numel())


def test_it_is_tried_with_the_longest_pairs() -> None:
    device = Device(room=10_000)
    found = tried(device.loss, device, CPU, longest=100, state_size=2, pad=3)
    assert found % STEP == 0
    assert 0.8 * 10_000 < found <= 0.9 * 10_000
    assert {length for _, length in device.shapes} == {100}
    assert device.weight.grad is None
    assert device.weight.item() == 1


def test_a_pair_alone_always_fits_the_budget() -> None:
    device = Device(room=1100)
    assert tried(device.loss, device, CPU, longest=1000, state_size=2, pad=3) == 1000


def test_the_longest_pair_is_refused_where_it_does_not_fit() -> None:
    device = Device(room=99)
    with pytest.raises(PairTooLargeError, match="A pair of 100 source and 100 target tokens does not fit into memory"):
        tried(device.loss, device, CPU, longest=100, state_size=2, pad=3)


@pytest.mark.parametrize(
    ("available", "expected"), [(None, UNKNOWN), (10**7, 1536), (10**12, MOST), (10**6, STEP), (0, STEP)]
)
def test_on_a_cpu_half_of_the_memory_holds_it(
    monkeypatch: pytest.MonkeyPatch, available: int | None, expected: int
) -> None:
    monkeypatch.setattr(budget, "available_memory", lambda: available)
    assert estimated(token_bytes=2500, state_bytes=10**6) == expected


def test_this_machine_says_how_much_memory_it_has() -> None:
    found = budget.available_memory()
    assert found is None or found > 10**7


def test_a_budget_is_read_and_written() -> None:
    assert [str(Budget.parse(text)) for text in ("auto", "4096")] == ["auto", "4096"]
    assert (Budget.parse("auto").tokens, Budget.parse("1").tokens) == (None, 1)


@pytest.mark.parametrize("text", ["0", "-1", "4k", "1.5", "AUTO", "", "9" * 30])
def test_another_text_is_no_budget(text: str) -> None:
    with pytest.raises(ConfigError, match="is no budget; write a whole number of tokens, at least 1, or auto"):
        Budget.parse(text)


def test_meminfo_is_not_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    found = budget.available_memory()
    assert found is None or found > 10**6
