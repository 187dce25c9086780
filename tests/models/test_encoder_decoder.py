"""What a built model is made of: sizes, ties, scales, the waist, the meta device."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from mt.data.batching import collate
from mt.errors import ConfigError
from mt.models.config import TIES, ModelConfig
from mt.models.embedding import PositionedEmbedding, token_table
from mt.models.encoder_decoder import DecoderState, EncoderDecoder
from mt.seq2seq import Seq2Seq, State
from tests.models.laws import BOS, CONFIGS, EOS, PAD, VOCAB, build, changed, preset, random_batch, shrunk, small


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def by_hand(config: ModelConfig, vocab: int) -> int:
    """Matrices, biases, gains of a post-norm ReLU Transformer whose three vocabulary matrices are one."""
    attention = 4 * (config.dim + 1) * config.dim
    feed_forward = (config.dim + 1) * config.ffn_dim + (config.ffn_dim + 1) * config.dim
    encoder = attention + feed_forward + 2 * 2 * config.dim
    decoder = 2 * attention + feed_forward + 3 * 2 * config.dim
    return vocab * config.dim + config.encoder.layers * encoder + config.decoder.layers * decoder


@pytest.mark.parametrize(
    ("name", "vocab", "millions"),
    [
        ("transformer_tiny", 8000, 2.35),
        ("transformer_small", 8000, 35.6),
        # Vaswani et al. 2017, table 3: 65 and 213 million; their shared vocabulary has "about 37000" entries.
        ("transformer_base", 37000, 63.1),
        ("transformer_big", 37000, 214.2),
    ],
)
def test_presets_have_the_published_sizes(name: str, vocab: int, millions: float) -> None:
    config = preset(name)
    with torch.device("meta"):
        model = config.build(vocab, vocab, PAD)
    assert parameters(model) == by_hand(config, vocab)
    assert parameters(model) / 1e6 == pytest.approx(millions, abs=0.05)


def test_the_lstm_of_the_first_paper_has_its_size() -> None:
    """Sutskever et al. 2014, section 3.4: 384 million parameters, 64 of them recurrent connections."""
    with torch.device("meta"):
        model = preset("seq2seq_lstm").build(160_000, 80_000, PAD)
    assert parameters(model) / 1e6 == pytest.approx(384, abs=0.5)
    assert (parameters(model.encoder) + parameters(model.decoder)) / 1e6 == pytest.approx(64, abs=0.5)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_it_builds_on_the_meta_device(config: ModelConfig) -> None:
    """Where no memory is taken: shapes are computed. tests/test_estimate.py counts the parameters there."""
    with torch.device("meta"):
        model = config.build(VOCAB, VOCAB, PAD)
    assert {tensor.device.type for tensor in (*model.parameters(), *model.buffers())} == {"meta"}
    assert model(random_batch().to("meta")).shape == (4, 7, VOCAB)


@pytest.mark.parametrize("tie", TIES)
def test_tied_matrices_are_one_parameter(tie: str) -> None:
    model = small(tie=tie).build(VOCAB, VOCAB, PAD)
    source, target = model.src_embedding.tokens.weight, model.tgt_embedding.tokens.weight
    assert (target is model.output.weight) == (tie in ("output", "all"))
    assert (source is target) == (tie in ("src_tgt", "all"))
    vocabularies = {"none": 3, "output": 2, "src_tgt": 2, "all": 1}[tie]
    inside = parameters(model.encoder) + parameters(model.decoder)
    assert parameters(model) == inside + vocabularies * VOCAB * 12


@pytest.mark.parametrize("tie", ["none", "output"])
def test_vocabularies_may_have_two_sizes(tie: str) -> None:
    model = small(tie=tie).build(11, 29, PAD)
    batch = collate([[10, 4]], [[28, 5]], PAD, BOS, EOS)
    assert model(batch).shape == (1, 3, 29)


@pytest.mark.parametrize("tie", ["src_tgt", "all"])
def test_vocabularies_that_are_one_have_one_size(tie: str) -> None:
    """Fault 29's kind; that the contents are the same is for whoever reads the recipe to see."""
    with pytest.raises(ConfigError) as caught:
        small(tie=tie).build(11, 29, PAD)
    assert str(caught.value) == (
        f"model.tie {tie} makes the embeddings of source and target one, but the source vocabulary has 11 entries and "
        "the target vocabulary 29: train one shared vocabulary, or set model.tie to output or none."
    )


def test_the_width_must_divide_into_heads() -> None:
    with pytest.raises(ConfigError, match=r"model\.dim \(12\) must be a multiple of model\.heads \(5\)\."):
        small(heads=5)


@pytest.mark.parametrize("positions", [0, 3])
def test_an_embedding_is_the_scaled_row_plus_its_position(positions: int) -> None:
    """Vaswani et al. 2017, sections 3.4 and 3.5. Fault 112: the scale is sqrt(512) = 22.627417, once."""
    torch.manual_seed(0)
    config = replace(small(), dim=512, heads=8)
    embedding = PositionedEmbedding(config, token_table(config, VOCAB, PAD))
    assert embedding.scale == pytest.approx(22.627417, abs=1e-6)
    found = embedding(torch.tensor([[5, 6, PAD]]), positions)
    for column, token in enumerate((5, 6, PAD)):
        angles = [(positions + column) / 10_000 ** (2 * (place // 2) / 512) for place in range(512)]
        places = [math.cos(angle) if place % 2 else math.sin(angle) for place, angle in enumerate(angles)]
        expected = embedding.tokens.weight[token] * 22.627417 + torch.tensor(places)
        torch.testing.assert_close(found[0, column], expected, rtol=0, atol=1e-5)


def test_embeddings_begin_of_the_size_of_positions() -> None:
    """Normal with variance 1 / D, so that times sqrt(D) it is 1; the padding row is 0 (fault 66)."""
    torch.manual_seed(0)
    for tie in TIES:
        model = small(dim=64, heads=1, tie=tie).build(3000, 3000, PAD)
        for weight in (model.src_embedding.tokens.weight, model.tgt_embedding.tokens.weight, model.output.weight):
            assert float(weight.detach().var()) * 64 == pytest.approx(1, rel=0.02)
        assert not model.src_embedding.tokens.weight[PAD].any()
        assert not model.tgt_embedding.tokens.weight[PAD].any()


def test_dropout_falls_on_the_sum_of_embedding_and_position() -> None:
    """Vaswani et al. 2017, section 5.4: zeros, not positions alone."""
    torch.manual_seed(0)
    model = small(dropout=0.5).build(VOCAB, VOCAB, PAD)
    embedded = model.src_embedding(torch.full((20, 20), 5))
    assert float((embedded == 0).double().mean()) == pytest.approx(0.5, abs=5 * 0.5 / 4800**0.5)


@pytest.mark.parametrize("name", ["rnnsearch", "hybrid", "prefix_lm", "modern"])
def test_word_dropout_takes_whole_tokens_of_both_sides(name: str) -> None:
    """In training, with the mean kept; what is read otherwise does not change."""
    torch.manual_seed(0)
    model = changed(shrunk(name), word_dropout=0.25, positions="none").build(VOCAB, VOCAB, PAD)
    tokens = torch.randint(4, VOCAB, (60, 80))
    for embedding in (model.src_embedding, model.tgt_embedding):
        whole = embedding.eval()(tokens)
        read = embedding.train()(tokens)
        gone = (read == 0).all(-1)
        assert float(gone.double().mean()) == pytest.approx(0.25, abs=5 * (0.25 * 0.75 / 4800) ** 0.5)
        torch.testing.assert_close(read, whole / 0.75 * ~gone.unsqueeze(-1))


def test_the_same_seed_builds_the_same_model() -> None:
    models = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        models.append(small().build(VOCAB, VOCAB, PAD).state_dict())
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
    assert not all(torch.equal(models[0][name], models[2][name]) for name in models[0])


def test_it_is_a_seq2seq() -> None:
    """mypy checks this test's types: the model is what search and objectives ask for."""
    model: Seq2Seq[DecoderState] = build(small())
    batch = random_batch()
    state: State = model.start(batch.src, batch.src_mask)
    assert state.select(torch.tensor([0])) is not state
    assert isinstance(model, EncoderDecoder)
    assert model.hidden(batch).shape == (4, 7, 12)


def test_save_and_load_change_nothing() -> None:
    """The positions are computed, not saved."""
    model, batch = build(small()), random_batch([(300, 2), (1, 5)])
    other = build(small(), seed=1)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(batch), model(batch))
