"""Positions of every kind against their formulas (faults 73 and 111)."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mt.errors import DataError
from mt.nn.places import Places, Positions
from mt.nn.positions import POSITIONS, LearnedPositions, SinusoidalPositions, Sizes
from mt.nn.relative_positions import (
    AlibiPositions,
    BucketPositions,
    RelativePositions,
    RotaryPositions,
    alibi_slopes,
)
from mt.nn.sinusoids import sinusoids


def places(count: int, offset: int = 0) -> Places:
    return Places.following(offset, count, torch.device("cpu"))


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


@pytest.mark.parametrize("dim", [4, 5])
def test_any_length_and_any_offset(dim: int) -> None:
    """Fault 73: just below, at and beyond the table's end, again and again."""
    embedder, expected = SinusoidalPositions(dim), sinusoids(5000, dim)
    for offset, length in [(0, 255), (0, 256), (0, 257), (256, 1), (511, 1), (512, 1), (2000, 3000), (0, 1), (5, 0)]:
        found = embedder.embed(torch.zeros(2, length, dim), places(length, offset))
        assert torch.equal(found, expected[offset : offset + length].expand(2, -1, -1))


def test_positions_are_added_in_the_type_of_the_embeddings() -> None:
    positions = SinusoidalPositions(4)
    for dtype in (torch.bfloat16, torch.float64):
        assert positions.embed(torch.zeros(1, 300, 4, dtype=dtype), places(300)).dtype == dtype


def test_the_table_is_not_saved_and_stays_on_its_device() -> None:
    positions = SinusoidalPositions(4).to("meta")
    assert not positions.state_dict()
    here = Places.following(0, 300, torch.device("meta"))
    assert positions.embed(torch.zeros(1, 300, 4, device="meta"), here).device.type == "meta"
    assert positions.table.table.shape == (512, 4)


def test_learned_positions_end_with_a_sentence() -> None:
    """Fault 73: refused by name, never an index outside the table."""
    positions = LearnedPositions(6, 8)
    x = torch.zeros(1, 8, 6)
    assert torch.equal(positions.embed(x, places(8))[0], positions.vectors)
    assert torch.equal(positions.embed(x[:, :2], places(2, 5))[0], positions.vectors[5:7])
    with pytest.raises(DataError) as caught:
        positions.embed(torch.zeros(1, 9, 6), places(9))
    assert str(caught.value) == (
        "A sentence of 9 positions is longer than model.max_positions (8): filter or split such sentences, limit "
        "decode.max_source_length and decode.max_length, or train with more positions."
    )


HEADS, K = 4, 6
SIZES = Sizes(dim=HEADS * K, heads=HEADS, base=10_000.0, count=32, bidirectional=True)
RELATIVE = ("rotary", "alibi", "relative", "buckets")


def scores(positions: Positions, query: Tensor, key: Tensor, query_places: Places, key_places: Places) -> Tensor:
    """Of `query` and `key` (B, H, T, K): what attention's softmax sees."""
    turned, keys = positions.rotate(query, query_places), positions.rotate(key, key_places)
    plain = turned @ keys.transpose(-2, -1) / math.sqrt(K)
    bias = positions.bias(turned, query_places, key_places)
    return plain if bias is None else plain + bias


@pytest.mark.parametrize("name", RELATIVE)
def test_scores_depend_on_differences_only(name: str) -> None:
    torch.manual_seed(0)
    positions = POSITIONS[name].in_attention(SIZES)
    query, key = torch.randn(2, HEADS, 1, K).expand(-1, -1, 9, -1), torch.randn(2, HEADS, 1, K).expand(-1, -1, 9, -1)
    found = scores(positions, query, key, places(9), places(9))
    moved = scores(positions, query, key, places(9, 700), places(9, 700))
    torch.testing.assert_close(moved, found, rtol=0, atol=1e-4)
    for shift in range(-8, 9):
        diagonal = found.diagonal(shift, 2, 3)
        torch.testing.assert_close(diagonal, diagonal[..., :1].expand_as(diagonal), rtol=0, atol=1e-5)
    assert not torch.allclose(found[..., 0, 0], found[..., 0, 3], atol=1e-3)


@pytest.mark.parametrize("name", RELATIVE)
def test_rows_may_stand_at_places_of_their_own(name: str) -> None:
    """(B, T) places give each row what it gets alone."""
    torch.manual_seed(0)
    positions = POSITIONS[name].in_attention(SIZES)
    query, key = torch.randn(2, HEADS, 3, K), torch.randn(2, HEADS, 5, K)
    queries, keys = torch.tensor([[4, 5, 6], [2, 3, 9]]), torch.tensor([[0, 1, 2, 3, 4], [7, 1, 3, 2, 5]])
    found = scores(positions, query, key, Places(queries, 10), Places(keys, 10))
    for row in range(2):
        alone = scores(positions, query[[row]], key[[row]], Places(queries[row], 10), Places(keys[row], 10))
        torch.testing.assert_close(found[[row]], alone)


def test_rotations_are_the_papers_formula() -> None:
    """Su et al. 2021, equation 34, in Python's float64; position 0 is left as it is."""
    torch.manual_seed(0)
    x = torch.randn(1, 1, 40, K)
    found = RotaryPositions(K).rotate(x, places(40))
    assert torch.equal(found[0, 0, 0], x[0, 0, 0])
    for position in (1, 7, 39):
        for pair in range(K // 2):
            angle = position / 10_000 ** (2 * pair / K)
            first, second = x[0, 0, position, 2 * pair : 2 * pair + 2].tolist()
            turned = [
                first * math.cos(angle) - second * math.sin(angle),
                first * math.sin(angle) + second * math.cos(angle),
            ]
            assert found[0, 0, position, 2 * pair : 2 * pair + 2].tolist() == pytest.approx(turned, abs=1e-5)


def test_slopes_are_the_papers() -> None:
    """Press et al. 2022, section 3: 8 heads 1/2 to 1/256; 12 heads have every other one of 16 heads' beside them."""
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(12) == [2.0**-i for i in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    bias = AlibiPositions(2).bias(torch.zeros(1, 2, 1, 4), places(1, 2), places(4))
    assert bias.tolist() == [[[-2 / 16, -1 / 16, 0.0, -1 / 256]], [[-2 / 256, -1 / 256, 0.0, -1 / 16]]]


def test_relative_vectors_are_clipped_and_depend_on_the_query() -> None:
    """Shaw et al. 2018, equations 4 and 5, against a loop in float64."""
    torch.manual_seed(0)
    positions = RelativePositions(K)
    query = torch.randn(1, 1, 25, K)
    found = positions.bias(query, places(25), places(25))
    for i, j in [(0, 0), (0, 24), (24, 0), (3, 9), (20, 2)]:
        vector = positions.vectors[max(-16, min(16, j - i)) + 16].tolist()
        dot = sum(a * b for a, b in zip(query[0, 0, i].tolist(), vector, strict=True))
        assert float(found[0, 0, i, j].detach()) == pytest.approx(dot / math.sqrt(K), abs=1e-5)


def t5_bucket(distance: int, bidirectional: bool) -> int:
    """Of a key at `distance` (negative: before), as Raffel et al. 2020, section 2.1, and their code have it."""
    count, side = (16, 16 if distance > 0 else 0) if bidirectional else (32, 0)
    far = abs(distance) if bidirectional else max(-distance, 0)
    exact = count // 2
    if far < exact:
        return side + far
    rough = exact + int(math.log(far / exact) / math.log(128 / exact) * (count - exact))
    return side + min(rough, count - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_are_those_of_t5(bidirectional: bool) -> None:
    positions = BucketPositions(2, bidirectional)
    distances = [d for d in range(-140, 141) if abs(d) not in (16, 32, 64)]  # exact powers hang on a rounding
    found = positions.bucket(torch.tensor(distances)).tolist()
    assert found == [t5_bucket(d, bidirectional) for d in distances]
    assert set(found) <= set(range(32))


def test_kinds_that_only_one_place_knows() -> None:
    """Embeddings or attention: the other one is left as it is."""
    x, here = torch.randn(1, 4, 8), places(4)
    for name in ("rotary", "alibi", "relative", "buckets", "none"):
        assert POSITIONS[name].on_embeddings(SIZES).embed(x, here) is x
    for name in ("sinusoidal", "learned", "none"):
        positions = POSITIONS[name].in_attention(SIZES)
        assert positions.rotate(x, here) is x
        assert positions.bias(x, here, here) is None
