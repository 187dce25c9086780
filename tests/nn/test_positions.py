"""Sinusoidal positions (faults 73 and 111)."""

from __future__ import annotations

import math

import pytest
import torch

from mt.nn.positions import POSITIONS, SinusoidalPositions, sinusoids


@pytest.mark.parametrize("dim", [1, 2, 4, 5, 7, 16])
@pytest.mark.parametrize("base", [10_000.0, 50.0])
def test_the_table_is_the_papers_formula(dim: int, base: float) -> None:
    """Vaswani et al. 2017, section 3.5, in Python's float64; an odd width ends with a sine."""
    table = sinusoids(600, dim, base)
    assert table.dtype == torch.float32
    for position in (0, 1, 2, 99, 599):
        for place in range(dim):
            angle = position / base ** (2 * (place // 2) / dim)
            expected = math.cos(angle) if place % 2 else math.sin(angle)
            assert float(table[position, place]) == pytest.approx(expected, abs=1e-7)


def test_sine_and_cosine_are_interleaved_and_positions_begin_at_zero() -> None:
    """Faults 73 and 111, the values of width 4."""
    assert sinusoids(2, 4)[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    expected = [0.8414709848, 0.5403023059, 0.0099998333, 0.9999500004]
    assert sinusoids(2, 4)[1].tolist() == pytest.approx(expected, abs=1e-7)


def test_a_step_is_a_rotation_that_does_not_depend_on_the_place() -> None:
    """What the paper chose sinusoids for: f(t + d) is a linear function of f(t)."""
    dim, step = 8, 5
    table = sinusoids(100, dim).double().view(100, dim // 2, 2)
    for k in range(dim // 2):
        angle = step / 10_000 ** (2 * k / dim)
        rotation = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]).double()
        torch.testing.assert_close(table[step:, k], table[:-step, k] @ rotation.T, rtol=0, atol=1e-6)


@pytest.mark.parametrize("positions", POSITIONS.values())
@pytest.mark.parametrize("dim", [4, 5])
def test_any_length_and_any_offset(positions: type[SinusoidalPositions], dim: int) -> None:
    """Fault 73: just below, at and beyond the table's end, again and again."""
    embedder, expected = positions(dim), sinusoids(5000, dim)
    for offset, length in [(0, 255), (0, 256), (0, 257), (256, 1), (511, 1), (512, 1), (2000, 3000), (0, 1), (5, 0)]:
        found = embedder.embed(torch.zeros(2, length, dim), offset)
        assert torch.equal(found, expected[offset : offset + length].expand(2, -1, -1))


def test_positions_are_added_in_the_type_of_the_embeddings() -> None:
    positions = SinusoidalPositions(4)
    for dtype in (torch.bfloat16, torch.float64):
        assert positions.embed(torch.zeros(1, 300, 4, dtype=dtype)).dtype == dtype


def test_the_table_is_not_saved_and_stays_on_its_device() -> None:
    positions = SinusoidalPositions(4).to("meta")
    assert not positions.state_dict()
    assert positions.embed(torch.zeros(1, 300, 4, device="meta")).device.type == "meta"
    assert positions.table.shape == (512, 4)
