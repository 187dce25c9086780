"""Who may attend to whom: boolean masks, True = may, that broadcast to (B, H, T, S) and combine with & and |."""

from __future__ import annotations

import torch
from torch import Tensor

from mt.nn.places import Places


def padding_mask(real: Tensor) -> Tensor:
    """(B, 1, 1, S): the real tokens, by `real` (B, S)."""
    return real[:, None, None, :]


def causal_mask(length: int, device: torch.device) -> Tensor:
    """(T, T): oneself and what came before."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def prefix_mask(length: int, prefix: int, device: torch.device) -> Tensor:
    """(T, T): the first `prefix` positions for all, and causal after them (Raffel et al. 2020, section 3.2.1)."""
    mask = causal_mask(length, device)
    mask[:, :prefix] = True
    return mask


def window_mask(queries: Places, keys: Places, reach: int) -> Tensor:
    """(1, T, S) or (B, 1, T, S): those of `keys` that are within `reach` of `queries`, on either side."""
    return (queries.distance(keys).abs() <= reach).unsqueeze(-3)


def permuted(mask: Tensor, order: Tensor) -> Tensor:
    """P M P^-1: `mask` (T, T) as if position `order[i]` (T,) came i-th (Yang et al. 2019, "XLNet", section 2.2).

    Of a causal mask: each position sees those that come before it in `order`.
    """
    place = order.argsort()
    return mask[..., place, :][..., :, place]


def mask_bias(mask: Tensor) -> Tensor:
    """What is added to scores: 0 where `mask` is True, else the least finite float, so that no row can become NaN."""
    least = torch.finfo(torch.float32).min
    return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, least)
