"""Who may attend to whom."""

from __future__ import annotations

import torch

from mt.nn.masks import causal_mask, mask_bias, padding_mask, permuted, prefix_mask, window_mask
from mt.nn.places import Places

CPU = torch.device("cpu")


def test_a_causal_mask_lets_see_oneself_and_what_came_before() -> None:
    assert causal_mask(3, CPU).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_a_prefix_is_seen_by_all() -> None:
    """Raffel et al. 2020, figure 3, on the right."""
    assert prefix_mask(4, 2, CPU).int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


def test_a_window_reaches_to_both_sides_and_combines_with_the_past() -> None:
    places = Places.following(0, 4, CPU)
    window = window_mask(places, places, 1)
    assert window[0].int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    both = window & causal_mask(4, CPU)
    assert both[0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    rows = Places(torch.tensor([[3], [0]]), 4)
    assert window_mask(rows, places, 1)[:, 0, 0].int().tolist() == [[0, 0, 1, 1], [1, 1, 0, 0]]


def test_a_permuted_mask_is_p_m_p_inverse() -> None:
    """Yang et al. 2019, figure 1: the order 3 -> 2 -> 4 -> 1, in which position 4 sees 3 and 2 and itself."""
    order = torch.tensor([2, 1, 3, 0])
    found = permuted(causal_mask(4, CPU), order)
    assert found.int().tolist() == [[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 1, 0], [0, 1, 1, 1]]
    matrix = torch.eye(4)[order].T  # P: column i has its 1 at order[i]
    assert torch.equal(found.float(), matrix @ causal_mask(4, CPU).float() @ matrix.inverse())
    assert torch.equal(permuted(causal_mask(4, CPU), torch.arange(4)), causal_mask(4, CPU))


def test_padding_is_seen_by_nobody() -> None:
    real = torch.tensor([[True, True, False]])
    assert (padding_mask(real) & causal_mask(3, CPU))[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]


def test_the_bias_of_a_mask_is_finite() -> None:
    assert mask_bias(torch.tensor([True, False])).tolist() == [0.0, torch.finfo(torch.float32).min]
