"""softmax(Q K^T / sqrt(K) + bias) V: scaled dot-product attention (Vaswani et al. 2017, section 3.2.1).

Masks are boolean, True = may attend, and broadcast to (B, H, T, S).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from mt.nn.dropout import dropout
from mt.nn.masks import mask_bias
from mt.nn.small_products import heads_laid_out, length_for, multiply_heads, operand_dtype

WIDE = 16
"""Numbers that torch's vector units hold: over fewer, its softmax takes ten times as long."""


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    p: float,
    training: bool,
    bias: Tensor | None = None,
) -> Tensor:
    """softmax(Q K^T / sqrt(K) + bias) V: query (B, H, T, K), key and value (B, G, S, K) -> (B, H, T, K).

    H / G heads of queries share one of keys and values (Ainslie et al. 2023). A row that may attend nowhere gets zeros,
    and no gradient. `p` is the dropout on the attention weights. On a CPU it is computed in float32 at most.
    """
    kernel = _attend_plainly if query.is_cpu else _attend_fused
    return kernel(query, key, value, mask, p if training else 0.0, bias)


def _attend_fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float, bias: Tensor | None = None
) -> Tensor:
    options: dict[str, Any] = {"dropout_p": p, "enable_gqa": query.size(1) != key.size(1)}
    added = None if bias is None else bias.to(query.dtype).expand(*query.shape[:3], key.size(2))
    if mask is None:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=added, **options)
    # torch's kernels disagree about rows that may attend nowhere: let these attend everywhere, and drop what they get.
    rows = mask.any(dim=-1, keepdim=True)
    allowed = mask | ~rows
    if added is not None:
        allowed = added.masked_fill(~allowed, torch.finfo(added.dtype).min)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed, **options) * rows


def _attend_plainly(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float, bias: Tensor | None = None
) -> Tensor:
    out: Tensor = _Attention.apply(query, key, value, mask, p, bias)  # type: ignore[no-untyped-call]
    return out


class _Attention(torch.autograd.Function):
    """On a CPU at a sentence's lengths the plain products are several times faster than torch's fused kernel.

    Operands are laid out once as products read them, which autograd would not: on views of (B, T, H x K) they are up to
    six times slower. What that adds to their lengths is masked, and cut off results.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float, bias: Tensor | None
    ) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            ctx.bias_shape, ctx.lengths = None if bias is None else bias.shape, (query.size(2), key.size(2))
            result, dtype = query.dtype, operand_dtype(query, key)
            query, key, value = (heads_laid_out(x, dtype) for x in (query, key, value))
            allowed = _lengthened(mask, ctx.lengths, dtype)
            weights = _weights(query, key, allowed, bias)
            if mask is not None and allowed is not None and not bool(mask.any(-1).all()):
                weights = weights * allowed.any(-1, keepdim=True)
            kept = dropout(weights, p, training=True).to(dtype)
            ctx.save_for_backward(query, key, value, weights, kept)
            out = multiply_heads(_by_group(kept, key.size(1)), value).view(query.shape)
            return out[:, :, : ctx.lengths[0]].to(result)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, kept = ctx.saved_tensors
        groups, grad, (queries, keys) = key.size(1), heads_laid_out(grad, kept.dtype), ctx.lengths
        # Softmax's gradient is w (m d - the sum of w m d), with dropout's mask m and d = grad V^T; w m are `kept`.
        scores = multiply_heads(_by_group(grad, groups), value.transpose(-2, -1)).view(kept.shape).float().mul_(kept)
        scores.addcmul_(weights, scores.sum(-1, keepdim=True), value=-1)
        grad_bias = None if ctx.bias_shape is None else scores[:, :, :queries, :keys].sum_to_size(ctx.bias_shape)
        grad_value = multiply_heads(_by_group(kept, groups).transpose(-2, -1), _by_group(grad, groups))
        scores = _by_group((scores * query.size(-1) ** -0.5).to(kept.dtype), groups)
        grad_query = multiply_heads(scores, key).view(query.shape)
        grad_key = multiply_heads(scores.transpose(-2, -1), _by_group(query, groups))
        return grad_query[:, :, :queries], grad_key[:, :, :keys], grad_value[:, :, :keys], None, None, grad_bias


def attention_weights(query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """(B, H, T, S) float32: the softmax of scores."""
    return _weights(heads_laid_out(query, torch.float32), heads_laid_out(key, torch.float32), mask, bias)


def _weights(query: Tensor, key: Tensor, mask: Tensor | None, bias: Tensor | None) -> Tensor:
    """Of operands as they are laid out, with `mask` lengthened, but not `bias`."""
    scores = multiply_heads(_by_group(query, key.size(1)), key.transpose(-2, -1))
    scores = scores.view(*query.shape[:3], key.size(2)).float().mul_(1 / math.sqrt(query.size(-1)))
    if bias is not None:
        scores[..., : bias.size(-2), : bias.size(-1)] += bias
    if mask is not None:
        scores += mask_bias(mask)
    return _softmax(scores)


def _lengthened(mask: Tensor | None, lengths: tuple[int, int], dtype: torch.dtype) -> Tensor | None:
    """`mask` (..., T or 1, S), or None, for operands laid out in `dtype`: nobody attends to what those have more."""
    queries, keys = lengths
    more_queries, more_keys = length_for(queries, dtype) - queries, length_for(keys, dtype) - keys
    if more_queries == more_keys == 0:
        return mask
    if mask is None:
        mask = torch.ones(1, keys, dtype=torch.bool)
    return F.pad(mask, (0, more_keys, 0, more_queries if mask.size(-2) > 1 else 0))


def _softmax(scores: Tensor) -> Tensor:
    """Over the last dimension, made at least `WIDE` for it."""
    missing = WIDE - scores.size(-1)
    if missing <= 0:
        return scores.softmax(dim=-1)
    wide = F.pad(scores, (0, missing), value=torch.finfo(scores.dtype).min)
    return wide.softmax(dim=-1)[..., :-missing]


def _by_group(x: Tensor, groups: int) -> Tensor:
    """(B, H, T, ...) -> (B, G, H / G x T, ...): heads that share keys lie together."""
    count, heads, length, width = x.shape
    return x if heads == groups else x.reshape(count, groups, heads // groups * length, width)
