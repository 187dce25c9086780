"""Positions that attention sees as distances: rotations of queries and keys, and biases of scores."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mt.nn.places import Places, Positions
from mt.nn.sinusoids import Sinusoids
from mt.nn.small_products import product_of_any_size


class RotaryPositions(Positions):
    """Each pair of a query's and a key's numbers is turned by an angle in proportion to its place (Su et al. 2021).

    Pair k of K / 2 turns by t base^(-2k/K) at position t, so that a product of the two depends on their distance alone
    (section 3.2.2, equation 34).
    """

    def __init__(self, dim: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.table = Sinusoids(dim, base)

    def rotate(self, x: Tensor, places: Places) -> Tensor:
        """Turn `x` (B, H, T, K), K even."""
        table: Tensor = self.table(places).to(x.dtype)
        sin, cos = table[..., 0::2], table[..., 1::2]  # (T, K / 2) or (B, T, K / 2)
        if places.at.dim() == 2:
            sin, cos = sin.unsqueeze(1), cos.unsqueeze(1)
        first, second = x[..., 0::2], x[..., 1::2]
        return torch.stack((first * cos - second * sin, first * sin + second * cos), -1).flatten(-2)


class AlibiPositions(Positions):
    """Scores fall in proportion to the distance, each head by a slope of its own (Press et al. 2022, section 3).

    In an encoder what comes later falls by the slope of the head counted from the other end: were both sides alike, a
    sentence could not be told from its reverse.
    """

    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(alibi_slopes(heads)), persistent=False)

    def bias(self, query: Tensor, places: Places, keys: Places) -> Tensor:  # noqa: ARG002
        """-slope x distance: (H, T, S), or (B, H, T, S)."""
        distance = places.distance(keys).unsqueeze(-3)
        before, after = self.slopes[:, None, None], self.slopes.flip(0)[:, None, None]
        return torch.where(distance < 0, before * distance, -after * distance)


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8 i / n) for i = 1 to n heads; between powers of 2 every other one of the next power's is added."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    return slopes + [2 ** (-8 * i / (2 * power)) for i in range(1, 2 * (heads - power), 2)]


class RelativePositions(Positions):
    """A learned vector for each distance up to 16 is added to the keys (Shaw et al. 2018, section 3.2, equation 4).

    Heads share them, layers do not. Those that would be added to values are left out: they bought nothing (section
    4.3).
    """

    clip = 16

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(2 * self.clip + 1, head_dim))
        nn.init.xavier_uniform_(self.vectors)

    def bias(self, query: Tensor, places: Places, keys: Places) -> Tensor:
        """q . a / sqrt(K): (B, H, T, S)."""
        products = product_of_any_size(query, self.vectors.t()) / math.sqrt(query.size(-1))  # (B, H, T, 33)
        index = places.distance(keys).clamp(-self.clip, self.clip) + self.clip
        index = index.view(-1, 1, *index.shape[-2:])  # (1 or B, 1, T, S)
        return products.gather(3, index.expand(*products.shape[:3], -1))


class BucketPositions(Positions):
    """A learned number a head for each of 32 buckets of distances (Raffel et al. 2020, section 2.1).

    Half of a direction's buckets hold one distance each, the others grow logarithmically up to 128, and the last has
    all beyond. An encoder has half the buckets for each direction. Each layer has its own numbers (T5's share those of
    the first).
    """

    buckets, farthest = 32, 128

    def __init__(self, heads: int, bidirectional: bool) -> None:
        super().__init__()
        self.bidirectional = bidirectional
        self.numbers = nn.Parameter(torch.empty(self.buckets, heads))
        nn.init.normal_(self.numbers, std=0.02)

    def bias(self, query: Tensor, places: Places, keys: Places) -> Tensor:  # noqa: ARG002
        """(H, T, S), or (B, H, T, S)."""
        bucket = self.bucket(places.distance(keys))
        return self.numbers[bucket].movedim(-1, -3)

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket, 0 to 31, of `distance` (...) int64."""
        count = self.buckets // 2 if self.bidirectional else self.buckets
        side = torch.where(distance > 0, count, 0) if self.bidirectional else 0
        far = distance.abs() if self.bidirectional else (-distance).clamp(min=0)
        exact = count // 2
        ratio = (far.clamp(min=exact) / exact).log() / math.log(self.farthest / exact)
        rough = (exact + (ratio * (count - exact)).long()).clamp(max=count - 1)
        return side + torch.where(far < exact, far, rough)
