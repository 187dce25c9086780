"""No tool, but what none can beat: the bare matrix products of the same updates, by torch.matmul, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from benchmarks.peers.protocol import Batch, Shape, Task, serve

Sizes = tuple[int, int, int, int]
"""(products in one, M, K, N): that many times (M, K) @ (K, N)."""


def forward_products(shape: Shape, batch: Batch) -> Iterator[Sizes]:
    """Those of one forward pass: linear layers, attention, and the output layer on real target tokens."""
    (rows, src), tgt = batch.src.shape, batch.tgt.shape[1] - 1
    for _ in range(shape.layers):
        for length, reads in ((src, (src,)), (tgt, (tgt, src))):
            for memory in reads:
                yield 1, rows * length, shape.dim, shape.dim  # queries
                yield 1, rows * memory, shape.dim, 2 * shape.dim  # keys and values
                yield rows * shape.heads, length, shape.dim // shape.heads, memory  # scores
                yield rows * shape.heads, length, memory, shape.dim // shape.heads  # their means of the values
                yield 1, rows * length, shape.dim, shape.dim
            yield 1, rows * length, shape.dim, shape.ffn_dim
            yield 1, rows * length, shape.ffn_dim, shape.dim
    yield 1, batch.tokens, shape.dim, shape.vocab_size


def all_products(sizes: Sizes) -> Iterator[Sizes]:
    """A product, and the two of its gradients."""
    count, rows, inner, columns = sizes
    yield sizes
    yield count, rows, columns, inner
    yield count, inner, rows, columns


class Operands:
    """Memory for operands and results, taken once, so that only products are timed."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._memory: dict[str, Tensor] = {}

    def take(self, name: str, *size: int) -> Tensor:
        """A tensor of `size` in the memory called `name`."""
        needed = torch.Size(size).numel()
        if name not in self._memory or self._memory[name].numel() < needed:
            self._memory[name] = torch.full((needed,), 0.01, dtype=self._dtype)
        return self._memory[name][:needed].view(size)

    def multiply(self, sizes: Sizes) -> None:
        """Multiply once."""
        count, rows, inner, columns = sizes
        left, right = self.take("left", count, rows, inner), self.take("right", count, inner, columns)
        result = self.take("result", count, rows, columns)
        if count == 1:
            torch.mm(left[0], right[0], out=result[0])
        else:
            torch.bmm(left, right, out=result)


def make(task: Task) -> Callable[[Sequence[int]], None]:
    """A function that does the products of an update on each batch it is given the number of."""
    shape = task.shape
    torch.set_num_threads(shape.threads)
    operands = Operands(torch.bfloat16 if shape.precision == "bf16" else torch.float32)

    def train(numbers: Sequence[int]) -> None:
        for number in numbers:
            for forward in forward_products(shape, task.batches[number]):
                for sizes in all_products(forward):
                    operands.multiply(sizes)

    # Take the memory, and let oneDNN build its kernels, one for each size.
    for sizes in {
        size for batch in task.batches for one in forward_products(shape, batch) for size in all_products(one)
    }:
        operands.multiply(sizes)
    return train


if __name__ == "__main__":
    serve(make)
