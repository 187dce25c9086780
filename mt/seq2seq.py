"""The waist: what search and objectives know of a model.

Letters of shapes, here and everywhere: B rows of a batch, S source positions, T target positions, N hypotheses (rows of
a search), V entries of the target vocabulary, D model width, F feed-forward width, H heads, K = D / H.

Law: stepping through a target gives what the full forward gives, for each model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from torch import Tensor, nn

from mt.data.batching import Batch

StateT = TypeVar("StateT", bound="State")


class State(Protocol):
    """What a model remembers between two steps, one row a hypothesis."""

    def select(self: StateT, rows: Tensor) -> StateT:
        """Keep `rows` (N',) int64, in that order; a row may come often (expand), once (reorder) or never (drop)."""
        ...


class Attentive(State, Protocol):
    """A state that can tell where the model looked."""

    @property
    def attention(self) -> Tensor | None:
        """(N, S) float32: the attention to each source position with which the last step was taken.

        A row sums to at most 1 and is 0 at padding; before the first step all is 0. None where `start` was not asked
        for it, and in models that have no attention to the source.
        """
        ...


# tokens (N,) int64 and a state of N rows -> log-probabilities (N, V) float32 of the next token, which are the caller's
# to change, and the state after it.
Step = Callable[[Tensor, StateT], "tuple[Tensor, StateT]"]


class Seq2Seq(Protocol[StateT]):
    """A translation model, and the kind of state that it keeps."""

    output: nn.Linear
    """The output layer: hidden states (..., D) -> logits (..., V)."""

    def hidden(self, batch: Batch) -> Tensor:
        """Decoder states (B, T, D) before the output layer, for objectives that fuse the two."""
        ...

    def __call__(self, batch: Batch) -> Tensor:
        """Logits (B, T, V) of each next target token."""
        ...

    def start(self, src: Tensor, src_mask: Tensor, attention: bool = False) -> StateT:
        """Encode `src` (B, S) int64 with `src_mask` (B, S) bool, True at real tokens; a state of B rows.

        With `attention` the state is `Attentive`: each step also says where it looked.
        """
        ...

    def step(self, tokens: Tensor, state: StateT) -> tuple[Tensor, StateT]:
        """Log-probabilities (N, V) float32 after reading `tokens` (N,), and the state after them."""
        ...
