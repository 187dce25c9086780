"""One update on models small enough to compute by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mt.data.batching import Batch, collate
from mt.errors import RunError
from mt.objectives.cross_entropy import Loss
from mt.training.loss_scale import LossScale
from mt.training.noise import Noise
from mt.training.parallel import Layout
from mt.training.precision import Precision
from mt.training.state import TrainingState
from mt.training.update import Updater

BATCH = collate([[4]], [[]], pad=3, bos=1, eos=2)  # one target token, its end mark


class Slope(nn.Module):
    """A loss of 3 x + 4 y, whose gradient is (3, 4) everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.point = nn.Parameter(torch.zeros(2))

    def loss(self, _: Batch) -> Loss:
        total = (self.point * torch.tensor([3.0, 4.0])).sum()
        return Loss(total, total.detach(), 1)


class Overflowing(torch.autograd.Function):
    """The identity, whose gradient goes through float16."""

    @staticmethod
    def forward(_: object, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(_: object, gradient: Tensor) -> Tensor:
        return gradient.half().float()


def updater_of(model: Slope, clip_norm: float | None = None) -> Updater:
    sgd = torch.optim.SGD(model.parameters())
    device = torch.device("cpu")
    return Updater(
        model, Layout(model, model.loss), sgd, Precision(device, torch.float16), Noise.on(device, 1), clip_norm
    )


def scaled(value: float) -> TrainingState:
    return TrainingState(loss_scale=LossScale(value))


@pytest.mark.parametrize("scale", [1.0, 1024.0, 65536.0])
def test_the_gradient_is_unscaled_before_it_is_clipped(scale: float) -> None:
    """Fault 65: the other way round (3, 4) would become (0.000586, 0.000781) with a scale of 1024."""
    model = Slope()
    done = updater_of(model, clip_norm=1.0)([BATCH], 1.0, scaled(scale))
    assert done is not None
    assert float(done.grad_norm) == 5
    torch.testing.assert_close(-model.point.detach(), torch.tensor([0.6, 0.8]))


def test_what_is_reported_is_not_scaled() -> None:
    model = Slope()
    updater = updater_of(model)
    updater([BATCH], 1.0, scaled(512.0))
    done = updater([BATCH, BATCH], 1.0, scaled(512.0))
    assert done is not None
    assert (float(done.loss), float(done.nll), done.tokens) == (-50, -50, 2)


def test_a_scale_that_overflows_skips_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 65."""
    model = Slope()

    def loss(_: Batch) -> Loss:
        total = Overflowing.apply(model.point.sum())  # type: ignore[no-untyped-call]
        return Loss(total, total.detach(), 1)

    monkeypatch.setattr(model, "loss", loss)
    updater = updater_of(model)
    for scale, skipped, point in ((65536.0, True, [0, 0]), (32768.0, False, [-1, -1])):
        done = updater([BATCH], 1.0, scaled(scale))
        assert done is not None
        assert done.skipped == skipped
        assert model.point.tolist() == point
    assert model.point.grad is None


def test_a_batch_that_other_ranks_wait_for_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 67: torch's gradient exchange, once it has begun, cannot begin anew."""
    model = Slope()

    def loss(_: Batch) -> Loss:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(model, "loss", loss)
    monkeypatch.setattr(Layout, "committed", True)
    with pytest.raises(RunError) as caught:
        updater_of(model)([collate([[4], [4, 4]], [[], []], pad=3, bos=1, eos=2)], 1.0, TrainingState())
    assert str(caught.value) == (
        "A batch of 2 pairs with 3 source and 1 target positions does not fit into memory, and cannot be done in "
        "halves while other processes wait for it: begin anew with a lower train.batch_tokens and a higher "
        "train.accumulate, or go on with train.sharding full or larger devices."
    )
