"""Products in bfloat16 whose sizes are rounded: what they give, and how few sizes they take."""

from __future__ import annotations

import pytest
import torch

from mt.nn.products import has_bf16_kernels
from mt.nn.small_products import SHORT, heads_laid_out, length_for, multiply_heads, operand_dtype


@pytest.mark.parametrize("count", [1, 2, 3, 24, 600])
def test_many_products_are_each_ones(count: int) -> None:
    """For any number of matrices, the last of which are multiplied with some before them."""
    torch.manual_seed(count)
    x, y = torch.randn(1, count, 3, 4).bfloat16(), torch.randn(1, count, 5, 4).bfloat16().transpose(-2, -1)
    torch.testing.assert_close(multiply_heads(x, y).float(), x.float() @ y.float(), rtol=0.01, atol=0.01)


def test_what_is_added_to_lengths_is_zero() -> None:
    x = torch.randn(2, 21, 3, 4).transpose(1, 2)
    rows = heads_laid_out(x, torch.bfloat16)
    assert rows.shape == (2, 3, 24, 4)
    assert rows.is_contiguous()
    assert torch.equal(rows[:, :, :21], x.bfloat16())
    assert not rows[:, :, 21:].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_operands_are_laid_out_as_they_are_read(dtype: torch.dtype) -> None:
    """Of either type, those that need no conversion too."""
    x = torch.randn(2, 20, 3, 4, dtype=dtype).transpose(1, 2)
    assert heads_laid_out(x, torch.float32).is_contiguous()
    assert torch.equal(heads_laid_out(x, torch.float32), x.float())


def test_there_are_few_lengths_and_none_is_much_longer() -> None:
    lengths = range(SHORT, 1025)
    rounded = [length_for(length, torch.bfloat16) for length in lengths]
    assert len(set(rounded)) == 25
    assert all(length <= more <= 1.25 * length for length, more in zip(lengths, rounded, strict=True))
    assert [length_for(length, torch.float32) for length in lengths] == list(lengths)


def test_short_sequences_and_others_types_stay_in_float32() -> None:
    """So does all where the processor does not multiply bfloat16."""
    long, short = torch.zeros(1, 1, SHORT, 1).bfloat16(), torch.zeros(1, 1, SHORT - 1, 1).bfloat16()
    assert operand_dtype(long, long) == (torch.bfloat16 if has_bf16_kernels() else torch.float32)
    assert operand_dtype(long, short) == operand_dtype(short, long) == torch.float32
    assert operand_dtype(long.double(), long.double()) == torch.float32
