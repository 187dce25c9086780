"""Attention of several heads against torch's own."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from mt.nn.attention import MultiHeadAttention, Projections
from mt.nn.masks import causal_mask
from tests.nn.test_attend import B, S, T, masks


def with_weights_of(theirs: nn.MultiheadAttention) -> MultiHeadAttention:
    """Our attention with the weights of torch's, whose one matrix holds query, key and value."""
    ours = MultiHeadAttention(theirs.embed_dim, theirs.num_heads)
    copy_attention(theirs, ours)
    return ours


def copy_attention(theirs: nn.MultiheadAttention, ours: Projections) -> None:
    """Copy torch's weights into ours; its biases, which begin as 0, become random first."""
    dim = theirs.embed_dim
    assert theirs.in_proj_weight is not None
    with torch.no_grad():
        theirs.in_proj_bias.normal_()
        theirs.out_proj.bias.normal_()
        ours.query.weight.copy_(theirs.in_proj_weight[:dim])
        ours.query.bias.copy_(theirs.in_proj_bias[:dim])
        ours.key_value.weight.copy_(theirs.in_proj_weight[dim:])
        ours.key_value.bias.copy_(theirs.in_proj_bias[dim:])
        ours.out.load_state_dict(theirs.out_proj.state_dict())


@pytest.mark.parametrize("heads", [1, 2, 6])
@pytest.mark.parametrize("kind", ["self", "causal", "source"])
def test_attention_is_torchs(heads: int, kind: str) -> None:
    """`torch.nn.MultiheadAttention` with copied weights: output and every gradient."""
    torch.manual_seed(heads)
    theirs = nn.MultiheadAttention(12, heads, batch_first=True)
    ours = with_weights_of(theirs)
    x, memory = torch.randn(3, 4, 12, requires_grad=True), torch.randn(3, 5, 12, requires_grad=True)
    source = memory if kind == "source" else x
    length = source.size(1)
    mask = torch.arange(length) < torch.tensor([2, length, 1])[:, None]
    causal = causal_mask(4, x.device) if kind == "causal" else None
    expected, _ = theirs(
        x, source, source, None if kind == "causal" else ~mask, attn_mask=None if causal is None else ~causal
    )
    found = ours(x, ours.keys_values(source), mask[:, None, None, :] if causal is None else causal)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)

    inputs = (x, memory) if kind == "source" else (x,)
    weights = torch.randn_like(expected)
    assert theirs.in_proj_weight is not None
    their_gradients = torch.autograd.grad(
        (expected * weights).sum(), (*inputs, theirs.in_proj_weight, theirs.in_proj_bias, theirs.out_proj.weight)
    )
    our_gradients = torch.autograd.grad(
        (found * weights).sum(),
        (*inputs, ours.query.weight, ours.key_value.weight, ours.query.bias, ours.key_value.bias, ours.out.weight),
    )
    stacked = (torch.cat(our_gradients[-5:-3]), torch.cat(our_gradients[-3:-1]), our_gradients[-1])
    for ours_, theirs_ in zip((*our_gradients[:-5], *stacked), their_gradients, strict=True):
        torch.testing.assert_close(ours_, theirs_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", masks())
def test_weights_are_those_it_attends_with(name: str) -> None:
    torch.manual_seed(0)
    attention, mask = MultiHeadAttention(6, 3), masks()[name]
    x, memory = torch.randn(B, T, 6), attention.keys_values(torch.randn(B, S, 6))
    weights = attention.weights(x, memory, mask)
    assert weights.shape == (B, 3, T, S)
    values = (weights @ memory.value).transpose(1, 2).flatten(2)
    torch.testing.assert_close(attention.out(values), attention(x, memory, mask), rtol=0, atol=1e-6)
    if mask is not None:
        assert not weights[~mask.expand_as(weights)].any()


def test_keys_and_values_grow_and_are_selected_by_row() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(6, 2)
    x = torch.randn(3, 4, 6)
    whole = attention.keys_values(x)
    grown = attention.keys_values(x[:, :3]).append(attention.keys_values(x[:, 3:]))
    torch.testing.assert_close(grown.key, whole.key)
    torch.testing.assert_close(grown.value, whole.value)
    chosen = whole.select(torch.tensor([2, 0, 2, 2]))
    assert torch.equal(chosen.key, whole.key[[2, 0, 2, 2]])
    assert torch.equal(chosen.value, whole.value[[2, 0, 2, 2]])
    none = whole.select(torch.tensor([], dtype=torch.int64))
    assert none.key.shape == (0, 2, 4, 3)


def test_weights_begin_as_those_of_torch() -> None:
    """Query, key and value are drawn as one D x 3D matrix, uniform within sqrt(6 / 4D); the output within sqrt(6 / 2D).

    Biases are 0.
    """
    torch.manual_seed(0)
    attention = MultiHeadAttention(128, 4)
    bounds = [(weight, 6 / 512) for weight in (attention.query.weight, *attention.key_value.weight.chunk(2))]
    for weight, square in [*bounds, (attention.out.weight, 6 / 256)]:
        assert float(weight.detach().abs().max()) <= math.sqrt(square)
        assert float(weight.detach().var()) == pytest.approx(square / 3, rel=0.05)
    assert not attention.key_value.bias.any()
