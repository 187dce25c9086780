"""Each architecture learns to copy and to reverse digits; what has no order, or no attention, differs as it should."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mt.data.batching import Batch, collate
from mt.models.config import ModelConfig
from mt.models.encoder_decoder import EncoderDecoder
from mt.models.presets import PRESETS
from mt.objectives.cross_entropy import CrossEntropy
from tests.models.laws import BOS, EOS, OF_ONE_DESIGN, PAD, changed, layered, preset

VOCAB = 14  # ten digits from 4 on
ORDERED = [name for name in PRESETS if name not in (*OF_ONE_DESIGN, "decomposable")]

pytestmark = pytest.mark.slow


def small(config: ModelConfig) -> ModelConfig:
    depth = 2 if config.decoder.type == "language_model" else 1
    sizes = {"dim": 48, "ffn_dim": 96, "heads": 4, "kv_heads": config.kv_heads and 2, "dropout": 0.0}
    return changed(layered(config, 1, depth), init="parts", **sizes)


def digits(task: str, rows: int, longest: int, generator: torch.Generator) -> Batch:
    lengths = torch.randint(1, longest + 1, (rows,), generator=generator).tolist()
    sources = [torch.randint(4, VOCAB, (length,), generator=generator).tolist() for length in lengths]
    return collate(sources, [row[::-1] if task == "reverse" else row for row in sources], PAD, BOS, EOS)


def losses(config: ModelConfig, task: str, updates: int, longest: int = 5) -> tuple[EncoderDecoder, float]:
    """The model after training, stopped early when it is sure, and its last loss a token."""
    torch.manual_seed(1)
    model = config.build(VOCAB, VOCAB, PAD)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    objective, generator, average = CrossEntropy(0.0), torch.Generator().manual_seed(1), 3.0
    for _ in range(updates):
        optimizer.zero_grad()
        loss = objective(model, digits(task, 32, longest, generator))
        torch.autograd.backward(loss.total / loss.tokens)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average = 0.95 * average + 0.05 * float(loss.nll) / loss.tokens
        if average < 0.02:
            break
    return model.eval(), average


@torch.no_grad()
def greedy(model: EncoderDecoder, batch: Batch) -> Tensor:
    """(B, T): the likeliest tokens, one after another."""
    state, tokens, found = model.start(batch.src, batch.src_mask), batch.tgt_in[:, 0], []
    for _ in range(batch.tgt_out.size(1)):
        log_probs, state = model.step(tokens, state)
        tokens = log_probs.argmax(1)
        found.append(tokens)
    return torch.stack(found, 1)


@pytest.mark.parametrize("task", ["copy", "reverse"])
@pytest.mark.parametrize("name", ORDERED)
def test_it_learns_digits(name: str, task: str) -> None:
    model, _ = losses(small(preset(name)), task, updates=1500)
    test = digits(task, 200, 5, torch.Generator().manual_seed(2))
    right = (greedy(model, test) == test.tgt_out) | ~test.tgt_mask
    assert float(right.all(1).double().mean()) > 0.8


@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_without_order_digits_cannot_be_put_in_order(task: str) -> None:
    """Which digits there are it knows: far better than chance, and far from right."""
    _, loss = losses(small(preset("decomposable")), task, updates=500)
    assert 0.4 < loss < 1.8


def test_attention_beats_the_fixed_vector_and_reversing_helps_it() -> None:
    """Sutskever et al. 2014, section 3.3, and Bahdanau et al. 2014, on copies of up to 12 digits."""
    lstm = preset("seq2seq_lstm")
    forwards = replace(lstm, encoder=replace(lstm.encoder, reverse_source=False))
    (_, reversed_), (_, plain), (_, attending) = (
        losses(small(config), "copy", updates=600, longest=12) for config in (lstm, forwards, preset("luong_global"))
    )
    assert attending < 0.5 * reversed_
    assert reversed_ < 0.95 * plain
