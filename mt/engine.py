"""The engine of a translator: a model and its searches, from ids to ids, in batches of like lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np
import torch

from mt.data.batching import Ids, by_length, collate, collate_source
from mt.models.encoder_decoder import EncoderDecoder
from mt.search.config import DecodeConfig
from mt.search.hypothesis import Hypothesis, Symbols
from mt.search.searches import SEARCHES
from mt.text.tokenizer import Tokenizers

LOGITS = 2**24
"""Most logits that are held at once where given targets are scored: 64 MiB."""

Result = TypeVar("Result")


class Engine(Protocol):
    """What a translator asks of whatever computes; sources and targets are ids without begin and end marks."""

    def search(self, sources: Sequence[list[int]], config: DecodeConfig) -> list[list[Hypothesis]]:
        """The hypotheses of each source, best first; none of the sources is empty."""
        ...

    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """The natural log-probability of each piece of each target and, last, of its end mark."""
        ...


class TorchEngine:
    """The engine of this project's own models."""

    def __init__(self, model: EncoderDecoder, tokenizers: Tokenizers, device: torch.device | str = "cpu") -> None:
        """The model must be on `device` already."""
        self.model = model
        self.tokenizers = tokenizers
        self.device = torch.device(device)

    def search(self, sources: Sequence[list[int]], config: DecodeConfig) -> list[list[Hypothesis]]:
        """As `Engine`; the batches are cut by `config.batch_tokens`, of which nothing shows in what is found."""
        return self._in_batches(
            sources, sources, config.batch_tokens, lambda numbers: self._search([sources[n] for n in numbers], config)
        )

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

        return self._in_batches(sources, targets, budget, score)

    def _in_batches(
        self,
        sources: Sequence[Ids],
        targets: Sequence[Ids],
        budget: int,
        work: Callable[[Sequence[int]], Sequence[Result]],
    ) -> list[Result]:
        """`work` on batches of like lengths, as lists of positions; its results in the order of the sources."""
        found: dict[int, Result] = {}
        src_lengths, tgt_lengths = (np.array([len(ids) for ids in side], np.int64) for side in (sources, targets))
        with torch.inference_mode(), evaluating(self.model):
            for batch in by_length(src_lengths, tgt_lengths, budget) if len(sources) else ():
                found.update(zip(batch.tolist(), work(batch.tolist()), strict=True))
        return [found[number] for number in range(len(sources))]

    def _search(self, sources: Sequence[list[int]], config: DecodeConfig) -> list[list[Hypothesis]]:
        """The hypotheses of each source of a batch."""
        src, mask = collate_source(sources, self.tokenizers.src.pad, self.tokenizers.src.eos)
        limits = torch.tensor([config.limit(len(ids)) for ids in sources], device=self.device)
        tgt = self.tokenizers.tgt
        symbols = Symbols(tgt.bos, tgt.eos, tgt.pad, len(tgt))
        # Two hypotheses may spell one text; more than asked for are kept, so that enough different texts remain.
        config = replace(config, n_best=config.beam_size if config.n_best > 1 else 1)
        state = self.model.start(src.to(self.device), mask.to(self.device))
        return SEARCHES[config.search](self.model.step, state, limits, symbols, config)


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """The model without dropout, and afterwards as it was, whatever happens in between."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
