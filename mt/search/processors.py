"""Processors: what changes the log-probabilities of the next token, given what each row has read.

Each is made from the recipe's `decode` block and the wishes of the lines, once a batch, and works on all rows at once.
None says anything about the end mark but `min_length`, so that where all else is banned a hypothesis ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mt.search.config import DecodeConfig
from mt.search.hypothesis import Hypothesis, Symbols
from mt.search.options import LineOptions, impossible
from mt.search.phrases import Phrase


@dataclass(frozen=True)
class Read:
    """What the rows of a state have read."""

    tokens: Tensor
    """(N, 1 + T) int64: bos, and the T tokens generated."""
    lines: Tensor
    """(N,) int64: which line of the batch a row is a translation of."""

    @classmethod
    def start(cls, count: int, device: torch.device) -> Read:
        """Of `count` lines, one a row, of which nothing is read."""
        return cls(torch.empty(count, 0, dtype=torch.int64, device=device), torch.arange(count, device=device))

    @property
    def length(self) -> int:
        """T."""
        return self.tokens.size(1) - 1

    def select(self, rows: Tensor) -> Read:
        """Keep `rows` (N',), in that order."""
        return Read(self.tokens[rows], self.lines[rows])

    def append(self, tokens: Tensor) -> Read:
        """Read `tokens` (N,) more."""
        return Read(torch.cat((self.tokens, tokens[:, None]), 1), self.lines)


Processor = Callable[[Tensor, Read], Tensor]
"""log-probabilities (N, V) of the next token, what the rows have read -> other log-probabilities (N, V)."""


@dataclass(frozen=True)
class Asked:
    """What a batch of lines asks of a search."""

    config: DecodeConfig
    symbols: Symbols
    lines: Sequence[LineOptions]
    limits: Tensor
    """(B,) int64, on the device of the search."""

    def possible(self) -> list[int]:
        """The lines whose wishes can be met."""
        most = self.limits.tolist()
        lines = enumerate(self.lines)
        return [row for row, line in lines if impossible(line, most[row], self.symbols, self.config) is None]

    def of(self, rows: Sequence[int]) -> Asked:
        """The lines `rows` alone."""
        return replace(self, lines=[self.lines[row] for row in rows], limits=self.limits[list(rows)])


Maker = Callable[[Asked], "Processor | None"]
"""Makes the processor of a batch; None where nothing asks for it."""


def repetition_penalty(asked: Asked) -> Processor | None:
    """Log-probabilities of tokens that were generated already, times the penalty (Keskar et al. 2019, section 4.1).

    The paper divides the positive logits; log-probabilities are never positive, so that all are multiplied.
    """
    penalty = asked.config.repetition_penalty
    if penalty == 1:
        return None

    def process(log_probs: Tensor, read: Read) -> Tensor:
        there = log_probs.gather(1, read.tokens)
        return log_probs.scatter(1, read.tokens, there * penalty)

    return process


def unpenalised(found: Hypothesis, config: DecodeConfig, prefix: Phrase) -> Hypothesis:
    """`found` with the model's own log-probabilities: the repetition penalty taken out again."""
    if config.repetition_penalty == 1:
        return found
    own = [
        log_prob / config.repetition_penalty if place >= len(prefix) and token in found.tokens[:place] else log_prob
        for place, (token, log_prob) in enumerate(zip((*found.tokens, None), found.token_log_probs, strict=False))
    ]
    return replace(found, log_prob=math.fsum(own), token_log_probs=tuple(own))


def min_length(asked: Asked) -> Processor | None:
    """No end mark before a line's fewest tokens."""
    longest = max((line.min_length for line in asked.lines), default=0)
    if longest == 0:
        return None
    fewest = torch.tensor([line.min_length for line in asked.lines], device=asked.limits.device)

    def process(log_probs: Tensor, read: Read) -> Tensor:
        if read.length >= longest:
            return log_probs
        early = (fewest[read.lines] > read.length).nonzero().squeeze(1)
        return banned(log_probs, early, torch.full_like(early, asked.symbols.eos))

    return process


def no_repeat_ngram(asked: Asked) -> Processor | None:
    """No token that would complete an n-gram for the second time (Paulus et al. 2018, section 2.5)."""
    size = asked.config.no_repeat_ngram_size
    if size is None:
        return None

    def process(log_probs: Tensor, read: Read) -> Tensor:
        tokens = read.tokens[:, 1:]
        if read.length < size:
            return log_probs
        grams = tokens.unfold(1, size, 1)  # (N, T - n + 1, n)
        last = tokens[:, read.length - size + 1 :]  # (N, n - 1)
        rows, places = (grams[:, :, :-1] == last[:, None]).all(2).nonzero(as_tuple=True)
        return banned(log_probs, rows, grams[rows, places, -1])

    return process


def forbidden(asked: Asked) -> Processor | None:
    """No token that would complete a forbidden phrase of its line."""
    phrases = sorted(
        {phrase for line in asked.lines for phrase in line.forbidden}, key=lambda phrase: (len(phrase), phrase)
    )
    if not phrases:
        return None
    heads = [torch.tensor(phrase[:-1], dtype=torch.int64, device=asked.limits.device) for phrase in phrases]
    wanted = [[phrase in line.forbidden for line in asked.lines] for phrase in phrases]
    asking = torch.tensor(wanted, device=asked.limits.device)  # (phrases, B)

    def process(log_probs: Tensor, read: Read) -> Tensor:
        for phrase, head, lines in zip(phrases, heads, asking, strict=True):
            if read.length >= len(head):
                tail = read.tokens[:, read.tokens.size(1) - len(head) :]
                rows = ((tail == head).all(1) & lines[read.lines]).nonzero().squeeze(1)
                log_probs = banned(log_probs, rows, torch.full_like(rows, phrase[-1]))
        return log_probs

    return process


def banned(log_probs: Tensor, rows: Tensor, tokens: Tensor) -> Tensor:
    """Without `tokens` (M,) in `rows` (M,)."""
    never = torch.tensor(-math.inf, device=log_probs.device)
    return log_probs.index_put((rows, tokens), never)


PROCESSORS: dict[str, Maker] = {
    "repetition_penalty": repetition_penalty,
    "min_length": min_length,
    "no_repeat_ngram_size": no_repeat_ngram,
    "forbidden": forbidden,
}
"""In the order in which they work. A forced prefix stands above them all: see `Prefix`."""


@dataclass(frozen=True)
class Prefix:
    """What each line's translation begins with; there the tokens keep the model's own log-probabilities."""

    tokens: Tensor
    """(B, P), padded."""
    lengths: Tensor
    """(B,)"""

    @classmethod
    def of(cls, asked: Asked) -> Prefix | None:
        """None where no line has one."""
        longest = max((len(line.prefix) for line in asked.lines), default=0)
        if longest == 0:
            return None
        device = asked.limits.device
        rows = [[*line.prefix, *[0] * (longest - len(line.prefix))] for line in asked.lines]
        lengths = [len(line.prefix) for line in asked.lines]
        return cls(torch.tensor(rows, device=device), torch.tensor(lengths, device=device))

    def force(self, own: Tensor, changed: Tensor, read: Read) -> Tensor:
        """`changed` (N, V), but inside a prefix its next token alone, as the model has it in `own` (N, V)."""
        if read.length >= self.tokens.size(1):
            return changed
        token = self.tokens[read.lines, read.length][:, None]
        alone = torch.full_like(own, -math.inf).scatter(1, token, own.gather(1, token))
        return torch.where((self.lengths[read.lines] > read.length)[:, None], alone, changed)
