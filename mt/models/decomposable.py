"""An encoder without order: attention over feed-forward encodings."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mt.models.config import ModelConfig
from mt.models.embedding import Embedding
from mt.models.encoded import Encoded
from mt.models.parts import feed_forward
from mt.nn.dropout import dropout
from mt.nn.linear import Linear
from mt.nn.masks import mask_bias
from mt.nn.small_products import product_of_any_size


class DecomposableLayer(nn.Module):
    """Each word beside the words that it attends to: G([x; sum_j softmax_j(F(x) . F(x_j)) x_j]).

    Intra-sentence attention and comparison of Parikh et al. 2016, sections 3.4 and 3.2, without the bias of distance.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attended = feed_forward(config)
        self.join = Linear(2 * config.dim, config.dim)
        self.compared = feed_forward(config)
        self.dropout, self.attention_dropout = config.dropout, config.attention_dropout
        nn.init.xavier_uniform_(self.join.weight)
        nn.init.zeros_(self.join.bias)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """`x` (B, S, D) with `mask` (B, S) -> (B, S, D)."""
        weights = dropout(self.weights(x, mask), self.attention_dropout, self.training).to(x.dtype)
        joined = self.join(torch.cat((x, product_of_any_size(weights, x)), -1)).relu()
        return dropout(self.compared(joined), self.dropout, self.training)

    def weights(self, x: Tensor, mask: Tensor) -> Tensor:
        """The weights (B, S, S) float32 with which `forward` attends, before dropout."""
        features = self.attended(x)
        scores = product_of_any_size(features, features.transpose(1, 2))  # (B, S, S)
        return (scores.float() + mask_bias(mask.unsqueeze(1))).softmax(dim=-1)


class DecomposableEncoder(nn.Module):
    """A stack of such layers over plain word vectors: any order of the words gives each the same encoding."""

    embedding = Embedding

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecomposableLayer(config) for _ in range(config.encoder.layers))

    def forward(self, x: Tensor, mask: Tensor) -> Encoded:
        """Embedded source `x` (B, S, D) with `mask` (B, S)."""
        for layer in self.layers:
            x = layer(x, mask)
        return Encoded(x, mask)
