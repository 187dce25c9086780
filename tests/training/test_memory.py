"""Batches that do not fit into memory: cut in halves, with the result of the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mt.data.batching import Batch, collate
from mt.errors import RunError
from mt.events import Event, Notice, finish
from mt.models.encoder_decoder import EncoderDecoder
from mt.objectives.cross_entropy import CrossEntropy, Loss
from mt.training.memory import MemoryLimit, PairTooLargeError, halves, size_of
from tests.training.test_loop import CONFIG, Batches, make_trainer, steps_of

ROWS = collate([[4], [4, 5, 6], [5], [5, 6, 7, 8], [9]], [[4, 4], [5], [6, 6, 6], [7], [8]], pad=3, bos=1, eos=2)


class Half(torch.autograd.Function):
    """The identity, whose backward pass runs out of memory."""

    @staticmethod
    def forward(_: object, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(_: object, __: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory")


def small(rows: int, backward: bool, attempts: list[int]) -> Callable[[EncoderDecoder, Batch], Loss]:
    """A loss for which more than `rows` rows are too many, in the forward or in the midst of the backward pass."""

    def loss(model: EncoderDecoder, batch: Batch) -> Loss:
        attempts.append(batch.src.size(0))
        if batch.src.size(0) > rows and not backward:
            raise torch.OutOfMemoryError("CUDA out of memory")
        found = CrossEntropy(0.1)(model, batch)
        if batch.src.size(0) <= rows:
            return found
        # The output layer has its gradient already when the rest fails.
        broken = Half.apply(model.src_embedding.tokens.weight.sum())  # type: ignore[no-untyped-call]
        return replace(found, total=found.total + 0 * broken)

    return loss


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("groups", [([0, 1, 2, 3],), ([0, 1], [2, 3]), ([0], [1, 2, 3])])
def test_an_update_in_parts_is_that_of_the_whole(
    tmp_path: Path, groups: tuple[list[int], ...], rows: int, backward: bool
) -> None:
    config = replace(CONFIG, accumulate=len(groups), max_steps=4)
    whole, expected = make_trainer(tmp_path / "whole", Batches(*groups), config)
    attempts: list[int] = []
    cut, found = make_trainer(tmp_path / "cut", Batches(*groups), config, loss=small(rows, backward, attempts))
    for step, of_whole in zip(steps_of(cut), steps_of(whole), strict=True):
        assert (step.tokens, step.state.pairs) == (of_whole.tokens, of_whole.state.pairs)
        torch.testing.assert_close(step.loss, of_whole.loss)
        torch.testing.assert_close(step.nll, of_whole.nll)
        torch.testing.assert_close(step.grad_norm, of_whole.grad_norm)
    torch.testing.assert_close(found.state_dict(), expected.state_dict())


def test_it_is_told_once_a_size_and_counted(tmp_path: Path) -> None:
    attempts: list[int] = []
    config = replace(CONFIG, max_steps=3)
    trainer, _ = make_trainer(tmp_path, Batches([0, 1, 2, 3]), config, loss=small(1, False, attempts))
    events: list[Event] = []
    finish(trainer.run(), events.append)
    assert [event.text for event in events if isinstance(event, Notice)] == [
        f"A batch of {rows} pairs with {length} source and {width} target positions does not fit into memory: it is "
        "done in halves, as are all of its size or more; a lower train.batch_tokens needs none."
        for rows, length, width in ((4, 5, 6), (2, 3, 6))
    ]
    assert trainer.state.cuts == 3 * 3
    assert attempts == [4, 2, *[1] * 4, *[1] * 8], "what is known not to fit is not tried again"


def test_a_pair_that_does_not_fit_alone_is_named(tmp_path: Path) -> None:
    trainer, _ = make_trainer(tmp_path, Batches([0], [1]), loss=small(0, False, []))
    with pytest.raises(PairTooLargeError) as caught:
        steps_of(trainer)
    assert isinstance(caught.value, RunError)
    assert caught.value.source == [4, 5, 2]
    assert str(caught.value) == (
        "A pair of 3 source and 2 target tokens does not fit into memory even alone: leave it out by "
        "data.filters.max_length and prepare again, make the model smaller, or train on a larger device."
    )


def test_another_error_is_not_taken_for_it(tmp_path: Path) -> None:
    def loss(*_: object) -> Loss:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    trainer, _ = make_trainer(tmp_path, Batches([0]), loss=loss)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        steps_of(trainer)


def test_halves_have_all_rows_and_no_needless_padding() -> None:
    first, second = halves(ROWS)
    assert first.src.tolist() == [[4, 2, 3, 3], [4, 5, 6, 2]]
    assert first.tgt_in.tolist() == [[1, 4, 4], [1, 5, 3]]
    assert second.src.tolist() == [[5, 2, 3, 3, 3], [5, 6, 7, 8, 2], [9, 2, 3, 3, 3]]
    assert second.tgt_out.tolist() == [[6, 6, 6, 2], [7, 2, 3, 3], [8, 2, 3, 3]]
    assert second.tgt_mask.sum(1).tolist() == [4, 2, 2]


def test_a_limit_only_cuts_what_is_as_large() -> None:
    limit = MemoryLimit()
    assert [part is ROWS for part in limit.parts(ROWS)] == [True]
    limit.exceeded(ROWS)
    parts = list(limit.parts(ROWS))
    assert [part.src.size(0) for part in parts] == [2, 3]
    assert all(size_of(part) < size_of(ROWS) for part in parts)
    assert [part.src.size(0) for part in limit.parts(parts[1])] == [3]
