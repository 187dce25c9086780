"""Several models as one: what an engine asks of a model, answered by an ensemble (mt/search/ensemble.py)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mt.data.batching import Batch
from mt.errors import RunError
from mt.models.encoder_decoder import EncoderDecoder
from mt.search.ensemble import EnsembleState, ensemble, log_mean
from mt.text.tokenizer import Tokenizers


class Ensemble(nn.Module):
    """Models with the same vocabularies, of any kinds: the next token's probability is the mean of theirs."""

    def __init__(self, models: Sequence[EncoderDecoder]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.step = ensemble([model.step for model in models])

    def start(self, src: Tensor, src_mask: Tensor, attention: bool = False) -> EnsembleState:
        """As `mt.seq2seq.Seq2Seq`."""
        return EnsembleState(tuple(model.start(src, src_mask, attention) for model in self._typed()))

    def forward(self, batch: Batch) -> Tensor:
        """Log-probabilities (B, T, V) of each next target token."""
        return log_mean(torch.stack([model(batch).float().log_softmax(-1) for model in self._typed()]))

    def _typed(self) -> list[EncoderDecoder]:
        return [model for model in self.models if isinstance(model, EncoderDecoder)]


def check_vocabularies(run: object, tokenizers: Tokenizers, other: object, others: Tokenizers) -> None:
    """Refuse models whose pieces have other ids.

    Raises:
        RunError: the tokenizers differ.
    """
    if others.fingerprint != tokenizers.fingerprint:
        raise RunError(
            f"{other} and {run} have different vocabularies, so that their models cannot decide together: the models "
            "of an ensemble are trained with one tokenizer."
        )
