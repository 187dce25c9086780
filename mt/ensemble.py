"""Several models as one: what an engine asks of a model, answered by an ensemble (mt/search/ensemble.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from mt.data.batching import Batch
from mt.errors import RunError
from mt.models.encoder_decoder import EncoderDecoder
from mt.models.fast import Decoding, for_decoding
from mt.models.reach import Reach
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
        return _start([cast(Decoding, model) for model in self.models], src, src_mask, attention)

    def forward(self, batch: Batch) -> Tensor:
        """Log-probabilities (B, T, V) of each next target token."""
        return log_mean(torch.stack([model(batch).float().log_softmax(-1) for model in self.models]))


class _Together:
    """Forms of the models of an ensemble for decoding, which decide together."""

    def __init__(self, members: Sequence[Decoding]) -> None:
        self.step = ensemble([member.step for member in members])
        self.start = partial(_start, members)


def _start(members: Sequence[Decoding], src: Tensor, src_mask: Tensor, attention: bool = False) -> EnsembleState:
    return EnsembleState(tuple(member.start(src, src_mask, attention) for member in members))


def decoding_of(model: nn.Module, precision: str = "fp32") -> Decoding:
    """The fastest form of a model, or of each model of an ensemble: see `mt.models.fast.for_decoding`."""
    if isinstance(model, Ensemble):
        return _Together([for_decoding(member, precision) for member in model.models])
    return for_decoding(model, precision)


def reach_of(model: nn.Module) -> Reach:
    """How much text a model, or each model of an ensemble, can hold."""
    if isinstance(model, Ensemble):
        return Reach.least(map(reach_of, model.models))
    return Reach.of(model.config) if isinstance(model, EncoderDecoder) else Reach()


def width_of(model: nn.Module) -> int:
    """D of a model, or the largest of an ensemble's."""
    if isinstance(model, Ensemble):
        return max(map(width_of, model.models))
    return model.config.dim if isinstance(model, EncoderDecoder) else 1


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
