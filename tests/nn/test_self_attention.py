"""What a layer does with its own sequence: at once, step by step, with few heads of keys, and in a window."""

from __future__ import annotations

import pytest
import torch

from mt.nn.attend import _attend_fused, _attend_plainly
from mt.nn.attention import MultiHeadAttention
from mt.nn.masks import causal_mask
from mt.nn.places import Places
from mt.nn.positions import POSITIONS, Sizes
from mt.nn.self_attention import SelfAttention

B, T, D, H = 2, 7, 24, 4
CPU = torch.device("cpu")


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("window", [None, 2])
def test_step_by_step_is_at_once(positions: str, window: int | None) -> None:
    torch.manual_seed(0)
    hooks = POSITIONS[positions].in_attention(Sizes(D, H, 10_000.0, 16, bidirectional=False))
    attention = SelfAttention(D, H, kv_heads=2, positions=hooks, window=window)
    x, past = torch.randn(B, T, D), None
    expected, _ = attention(x, Places.following(0, T, CPU), causal_mask(T, CPU))
    for t in range(T):
        here, places = Places.following(t, 1, CPU), Places.following(0, t + 1, CPU)
        found, past = attention.step(x[:, [t]], past, here, places)
        torch.testing.assert_close(found[:, 0], expected[:, t], rtol=0, atol=1e-6)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("kernel", [_attend_plainly, _attend_fused])
def test_heads_in_groups_share_keys_and_values(groups: int, kernel: object) -> None:
    """Ainslie et al. 2023: as if each head of keys stood there for each head of queries in its group."""
    assert callable(kernel)
    torch.manual_seed(0)
    query, (key, value) = torch.randn(B, H, 3, 6), torch.randn(2, B, groups, 5, 6)
    mask, bias = torch.rand(B, 1, 3, 5) > 0.4, torch.randn(H, 3, 5)
    found = kernel(query, key, value, mask, 0.0, bias)
    whole_key, whole_value = (x.repeat_interleave(H // groups, 1) for x in (key, value))
    expected = _attend_plainly(query, whole_key, whole_value, mask, 0.0, bias)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kernel", [_attend_plainly, _attend_fused])
def test_a_bias_is_added_to_scores(kernel: object) -> None:
    """Of -inf it is a mask."""
    assert callable(kernel)
    torch.manual_seed(0)
    query, key, value = torch.randn(3, B, H, T, 6)
    mask = causal_mask(T, CPU)
    bias = torch.zeros(T, T).masked_fill(~mask, -1e9)
    torch.testing.assert_close(kernel(query, key, value, None, 0.0, bias), kernel(query, key, value, mask, 0.0, None))


def test_few_heads_of_keys_have_few_parameters_and_biases_can_be_left_out() -> None:
    assert MultiHeadAttention(D, H, kv_heads=1).key_value.weight.shape == (2 * D // H, D)
    assert not [name for name, _ in MultiHeadAttention(D, H, bias=False).named_parameters() if name.endswith("bias")]


def test_a_window_hides_what_is_far() -> None:
    torch.manual_seed(0)
    attention, places = SelfAttention(D, H, window=2), Places.following(0, T, CPU)
    x = torch.randn(1, T, D)
    before, _ = attention(x, places, causal_mask(T, CPU))
    x[:, 1] += 1
    after, _ = attention(x, places, causal_mask(T, CPU))
    changed = [t for t in range(T) if not torch.allclose(before[0, t], after[0, t])]
    assert changed == [1, 2, 3]
