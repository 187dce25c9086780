"""The engine of a translator: a model and its searches, from ids to ids, in batches of like lengths."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mt.data.batching import Ids, Ints, by_length, collate, collate_source, longest_sides
from mt.device import is_out_of_memory
from mt.ensemble import decoding_of, reach_of, width_of
from mt.errors import ConfigError, RunError
from mt.models.encoder_decoder import EncoderDecoder
from mt.models.fast import Decoding
from mt.models.reach import Reach
from mt.search.config import BATCH_TOKENS, DecodeConfig
from mt.search.hypothesis import Hypothesis, Symbols
from mt.search.options import LineOptions, numbered
from mt.search.searches import SEARCHES
from mt.text.tokenizer import Tokenizers

LOGITS = 2**24
"""Most logits that are held at once where given targets are scored: 64 MiB."""

BATCH_NUMBERS = 2**19
"""Tokens of a batch times the width of the model, at most, on a CPU: what a step reads then stays near its caches."""

Result = TypeVar("Result")


class Engine(Protocol):
    """What a translator asks of whatever computes; sources and targets are ids without begin and end marks."""

    reach: Reach
    """How much text it can hold; no longer source is given to it."""
    without_wishes: str | None
    """Why no line can have wishes, as a sentence; None where each can."""

    def search(
        self, sources: Sequence[list[int]], config: DecodeConfig, lines: Sequence[LineOptions] = ()
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first; none of the sources is empty.

        `lines` are the wishes that go with each, in target ids; a source has no hypothesis where they cannot be met.
        """
        ...

    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """The natural log-probability of each piece of each target and, last, of its end mark."""
        ...

    def attention(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[NDArray[np.float32]]:
        """For each pair the attention (T, S) with which each of T target pieces was generated, to S source pieces.

        Raises:
            ConfigError: the model has none.
        """
        ...


class TorchEngine:
    """The engine of this project's own models."""

    without_wishes: str | None = None

    def __init__(self, model: EncoderDecoder, tokenizers: Tokenizers, device: torch.device | str = "cpu") -> None:
        """The model must be on `device` already."""
        self.model = model
        self.tokenizers = tokenizers
        self.device = torch.device(device)
        self.reach = reach_of(model)
        self._made: tuple[object, Decoding] | None = None
        self._memory: dict[Hashable, _Memory] = {}
        suiting = BATCH_NUMBERS // width_of(model) if self.device.type == "cpu" else BATCH_TOKENS
        self._budget = min(max(suiting, 1), BATCH_TOKENS)

    def search(
        self, sources: Sequence[list[int]], config: DecodeConfig, lines: Sequence[LineOptions] = ()
    ) -> list[list[Hypothesis]]:
        """As `Engine`; of the size of the batches nothing shows in what is found."""
        wishes = [
            replace(line, source_length=len(ids) + 1, min_length=config.shortest(len(ids)))
            for line, ids in zip(numbered(lines, len(sources)), sources, strict=True)
        ]

        def search(numbers: Sequence[int]) -> list[list[Hypothesis]]:
            return self._search([sources[n] for n in numbers], config, [wishes[n] for n in numbers])

        kind = config.search, config.beam_size, config.samples
        return self._in_batches(kind, sources, sources, config.batch_tokens or self._budget, search)

    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """As `Engine`, by one pass over the whole target."""
        budget = max(1, LOGITS // len(self.tokenizers.tgt))

        def score(numbers: Sequence[int]) -> list[list[float]]:
            tgt = self.tokenizers.tgt  # its marks have the ids of the source's
            chosen = [targets[number] for number in numbers]
            batch = collate([sources[number] for number in numbers], chosen, tgt.pad, tgt.bos, tgt.eos)
            batch = batch.to(self.device)
            scores = self.model(batch).float().log_softmax(-1).gather(2, batch.tgt_out[..., None]).squeeze(2).tolist()
            return [row[: len(ids) + 1] for row, ids in zip(scores, chosen, strict=True)]

        return self._in_batches("score", sources, targets, budget, score)

    def attention(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[NDArray[np.float32]]:
        """As `Engine`, step by step through the targets."""

        def attend(numbers: Sequence[int]) -> list[NDArray[np.float32]]:
            chosen = [targets[number] for number in numbers]
            weights = self._attend([sources[number] for number in numbers], chosen).cpu().numpy()
            sizes = [(len(targets[number]), len(sources[number])) for number in numbers]
            return [row[:length, :width].copy() for row, (length, width) in zip(weights, sizes, strict=True)]

        return self._in_batches("attend", sources, targets, BATCH_TOKENS, attend)

    def _attend(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> Tensor:
        """Attention (B, T, S) of a batch, T and S with the end marks."""
        tgt = self.tokenizers.tgt
        batch = collate(sources, targets, tgt.pad, tgt.bos, tgt.eos).to(self.device)
        state = self.model.start(batch.src, batch.src_mask, attention=True)
        looked: list[Tensor] = []
        for tokens in batch.tgt_in.unbind(1):
            _, state = self.model.step(tokens, state)
            if state.attention is None:
                raise ConfigError(
                    "word alignments, and the words that decode.unknown copy takes, are read from attention to the "
                    "source, and this model has none: do without."
                )
            looked.append(state.attention)
        return torch.stack(looked, 1)

    def _in_batches(
        self,
        kind: Hashable,
        sources: Sequence[Ids],
        targets: Sequence[Ids],
        budget: int,
        work: Callable[[Sequence[int]], Sequence[Result]],
    ) -> list[Result]:
        """`work` on batches of like lengths, as lists of positions; its results in the order of the sources.

        Work of one `kind` takes as much memory for batches of one size.
        """
        found: dict[int, Result] = {}
        src_lengths, tgt_lengths = (np.array([len(ids) for ids in side], np.int64) for side in (sources, targets))
        memory = self._memory.setdefault(kind, _Memory())
        longest = longest_sides(src_lengths, tgt_lengths)
        as_asked = torch.autocast(self.device.type, enabled=False)  # the config says the precision
        with torch.inference_mode(), as_asked, evaluating(self.model):
            for batch in by_length(src_lengths, tgt_lengths, budget) if len(sources) else ():
                for part, results in memory.in_halves(work, batch.tolist(), longest):
                    if results is None:
                        raise RunError(_too_large(len(sources[part[0]])))
                    found.update(zip(part, results, strict=True))
        return [found[number] for number in range(len(sources))]

    def _search(
        self, sources: Sequence[list[int]], config: DecodeConfig, lines: Sequence[LineOptions]
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source of a batch."""
        src, mask = collate_source(sources, self.tokenizers.src.pad, self.tokenizers.src.eos)
        most = [config.limit(len(ids), self.reach.translation(len(ids))) for ids in sources]
        limits = torch.tensor(most, device=self.device)
        tgt = self.tokenizers.tgt
        symbols = Symbols(tgt.bos, tgt.eos, tgt.pad, len(tgt))
        # Two hypotheses may spell one text; more than asked for are kept, so that enough different texts remain.
        config = replace(config, n_best=config.candidates)
        decoding = self._decoding(config.precision)
        state = decoding.start(src.to(self.device), mask.to(self.device), attention=config.coverage_penalty > 0)
        return SEARCHES[config.search](decoding.step, state, limits, symbols, config, lines)

    def _decoding(self, precision: str) -> Decoding:
        """The fastest form of the model, made again where its weights have changed since."""
        weights = tuple((weight.data_ptr(), weight._version) for weight in self.model.parameters())
        if self._made is None or self._made[0] != (precision, weights):
            self._made = (precision, weights), decoding_of(self.model, precision)
        return self._made[1]


class _Memory:
    """What is known of the batches that fit: of those of `size` positions, padding included, one did not."""

    def __init__(self) -> None:
        self.size = math.inf

    def in_halves(
        self, work: Callable[[Sequence[int]], Sequence[Result]], numbers: Sequence[int], longest: Ints
    ) -> Iterator[tuple[Sequence[int], Sequence[Result] | None]]:
        """`numbers` and the results of `work` on them; or on halves of them, and of those, where memory holds no more.

        `longest` has the positions of each number's longer side. None of a single one that does not fit.
        """
        size = len(numbers) * int(longest[numbers].max())
        if size < self.size or len(numbers) == 1:
            try:
                yield numbers, work(numbers)
                return
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
        # Here nothing holds any more what the attempt had made.
        if len(numbers) == 1:
            yield numbers, None
            return
        self.size = min(self.size, size)
        middle = len(numbers) // 2
        yield from self.in_halves(work, numbers[:middle], longest)
        yield from self.in_halves(work, numbers[middle:], longest)


def _too_large(pieces: int) -> str:
    return (
        f"A line, or a part of one, of {pieces} pieces does not fit into memory even alone: let "
        "decode.max_source_length split it, lower decode.beam_size, or take a larger device."
    )


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """The model without dropout, and afterwards as it was, whatever happens in between."""
    if not model.training:  # to tell all its modules so takes as long as a step
        yield
        return
    model.eval()
    try:
        yield
    finally:
        model.train()
