"""A fast form is the trained model: the laws of every model, held against the plain modules."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from mt.errors import ConfigError
from mt.models.config import ModelConfig
from mt.models.encoder_decoder import EncoderDecoder
from mt.models.fast import Decoding, PackedModel, fast_form, for_decoding
from mt.models.fast_model import FastModel
from mt.models.slots import ROOM
from tests.models.laws import BOS, CONFIGS, PAD, build, changed, pairs, preset, random_batch, shrunk, small

OTHERS = {name: config for name, config in CONFIGS.items() if fast_form(build(config)) is None}
FAST = {name: config for name, config in CONFIGS.items() if fast_form(build(config)) is not None}
every_fast = pytest.mark.parametrize("config", FAST.values(), ids=FAST.keys())
close = partial(torch.testing.assert_close, rtol=0.0, atol=1e-5)


every_kind = pytest.mark.parametrize(
    "config", [small(), shrunk("modern"), shrunk("prefix_lm")], ids=["transformer", "modern", "language model"]
)


def fast_of(model: EncoderDecoder, precision: str = "fp32") -> FastModel:
    found = for_decoding(model, precision)
    assert isinstance(found, FastModel)
    return found


def both(config: ModelConfig) -> tuple[EncoderDecoder, FastModel]:
    model = build(config).eval()
    return model, fast_of(model)


def test_transformers_whose_attention_is_known_are_fast() -> None:
    assert {"transformer_base", "deep_shallow", "post, gelu, target tied", "pre, swiglu, nothing tied"} <= FAST.keys()
    assert {"modern", "decoder_only", "prefix_lm", "decoder only, rotary positions"} <= FAST.keys()
    assert {"alibi, geglu", "deep_shallow_ssru", "hybrid", "rnnsearch"} <= OTHERS.keys()
    assert fast_form(nn.Linear(2, 2)) is None


def _search_in(model: EncoderDecoder, fast: Decoding, atol: float) -> None:
    """Sentences branch, reorder, shrink, are dropped, repeated and mixed, longer than the first slots."""
    batch = random_batch(((5, 3), (2, 6), (17, 1), (1, 4)))
    plain_state = model.start(batch.src, batch.src_mask, True)
    state = fast.start(batch.src, batch.src_mask, True)
    width = batch.src.size(1)
    tokens = torch.full((4,), BOS)
    draw = torch.Generator().manual_seed(1)
    selections = [
        [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
        *[[1, 0, 0, 3, 5, 4, 8, 8, 8, 9, 10, 11]] * 5,
        [0, 1, 2, 6, 7, 8, 9, 10, 11],
        *[[1, 0, 0, 5, 4, 3, 6, 6, 8]] * 5,
        [0, 1, 4, 5, 6, 8],
        [1, 0, 2, 3],
        [3, 0, 1, 1, 2],
        [4],
        [0, 0, 0],
    ]
    for rows in selections:
        expected, plain_state = model.step(tokens, plain_state)
        found, state = fast.step(tokens, state)
        close(found, expected, atol=atol)
        assert plain_state.attention is not None
        assert state.attention is not None
        assert state.attention.shape == (len(tokens), width)
        close(state.attention, plain_state.attention, atol=atol)
        chosen = torch.tensor(rows)
        plain_state, state = plain_state.select(chosen), state.select(chosen)
        tokens = torch.randint(4, 17, (len(rows),), generator=draw)


@every_fast
@torch.inference_mode()
def test_a_search_sees_the_same_model(config: ModelConfig) -> None:
    """Fault 80."""
    _search_in(*both(config), atol=1e-5)


@pytest.mark.parametrize(("precision", "error"), [("bf16", 0.1), ("int8", 0.25)])
@pytest.mark.parametrize("name", ["transformer_base", "modern", "prefix_lm"])
@torch.inference_mode()
def test_a_search_in_less_precision_sees_nearly_the_same_model(name: str, precision: str, error: float) -> None:
    model = changed(shrunk(name), dim=64, ffn_dim=128, heads=4).build(17, 17, PAD).eval()
    _search_in(model, fast_of(model, precision), atol=error)


@every_kind
@torch.inference_mode()
def test_a_beam_may_be_wider_than_the_room_for_it(config: ModelConfig) -> None:
    model, fast = both(config)
    batch = random_batch(((5, 3), (2, 6)))
    tokens, rows = torch.full((2,), BOS), torch.arange(2).repeat_interleave(3 * ROOM)
    plain_state, state = model.start(batch.src, batch.src_mask), fast.start(batch.src, batch.src_mask)
    for _ in range(3):
        expected, plain_state = model.step(tokens, plain_state)
        found, state = fast.step(tokens, state)
        close(found, expected)
        plain_state, state = plain_state.select(rows), state.select(rows)
        tokens, rows = torch.arange(len(rows)) % 13 + 4, torch.arange(len(rows))


@every_kind
@torch.inference_mode()
def test_a_state_can_be_gone_on_from_twice(config: ModelConfig) -> None:
    """What is written in place is never what another state still reads."""
    _, fast = both(config)
    batch = random_batch()
    _, state = fast.step(torch.full((4,), BOS), fast.start(batch.src, batch.src_mask))
    first, _ = fast.step(torch.tensor([4, 5, 6, 7]), state)
    _, other = fast.step(torch.tensor([8, 8, 8, 8]), state)
    fast.step(torch.tensor([9, 9, 9, 9]), other)
    again, _ = fast.step(torch.tensor([4, 5, 6, 7]), state)
    close(again, first, atol=0.0)


@every_kind
@torch.inference_mode()
def test_the_places_of_dropped_sentences_are_idle_until_many_are(config: ModelConfig) -> None:
    """Or until the past is copied anyway."""
    model, fast = both(config)
    batch = random_batch([(number % 5 + 1, 1) for number in range(8)])
    plain_state, state = model.start(batch.src, batch.src_mask), fast.start(batch.src, batch.src_mask)
    tokens, lying = torch.full((8,), BOS), []
    for dropped in (3, 0, 4, 4, *[None] * 2 * ROOM):
        expected, plain_state = model.step(tokens, plain_state)
        found, state = fast.step(tokens, state)
        close(found, expected)
        rows = torch.tensor([row for row in range(len(tokens)) if row != dropped])
        plain_state, state = plain_state.select(rows), state.select(rows)
        tokens = (tokens[rows] + 5) % 17
        lying.append(len(state.past.mask))
    assert lying[:4] == [8, 8, 5, 5]
    assert lying[-1] == 4


@every_kind
@torch.inference_mode()
def test_nothing_is_copied_while_all_sentences_go_on(config: ModelConfig) -> None:
    """However many hypotheses of each there are from now on."""
    _, fast = both(config)
    batch = random_batch()
    _, state = fast.step(torch.full((4,), BOS), fast.start(batch.src, batch.src_mask))
    for rows in ([0, 0, 1, 1, 2, 2, 3, 3], [1, 1, 3, 2, 5, 4, 6, 7], [0, 2, 5, 7]):
        after = state.select(torch.tensor(rows))
        assert after.source is state.source
        assert after.past.slots is state.past.slots
        state = after


@every_kind
@torch.inference_mode()
def test_batch_mates_change_nothing(config: ModelConfig) -> None:
    _, fast = both(replace(config, norm_position="pre"))
    together = random_batch(((5, 3), (2, 6), (17, 1), (1, 4)))
    state = fast.start(together.src, together.src_mask)
    found, _ = fast.step(torch.full((4,), BOS), state)
    sources, _ = pairs([(5, 3), (2, 6), (17, 1), (1, 4)])
    for number, source in enumerate(sources):
        src = torch.tensor([[*source, 2]])
        alone, _ = fast.step(torch.tensor([BOS]), fast.start(src, torch.ones_like(src, dtype=torch.bool)))
        close(alone[0], found[number])


def _after(fast: Decoding, tokens: list[int]) -> Tensor:
    batch = random_batch(((6, 2),))
    state, found = fast.start(batch.src, batch.src_mask), torch.empty(0)
    for token in tokens:
        found, state = fast.step(torch.tensor([token]), state)
    return found


@pytest.mark.parametrize(("precision", "error"), [("bf16", 0.15), ("int8", 0.4)])
@pytest.mark.parametrize("name", ["transformer_base", "modern", "prefix_lm"])
@torch.inference_mode()
def test_less_precision_is_close(name: str, precision: str, error: float) -> None:
    config = changed(shrunk(name), dim=64, ffn_dim=128, heads=4)
    model = config.build(17, 17, PAD).eval()
    exact, found = (_after(fast_of(model, kind), [BOS, 5, 6]) for kind in ("fp32", precision))
    assert found.dtype == torch.float32
    assert 0 < float((exact - found).abs().max()) < error


def test_less_precision_is_refused_where_it_cannot_be_had() -> None:
    with pytest.raises(ConfigError) as error:
        for_decoding(nn.Linear(2, 2), "int8")
    assert str(error.value) == "decode.precision int8 is for models on a CPU; leave it at fp32."


@pytest.mark.parametrize("config", OTHERS.values(), ids=OTHERS.keys())
@torch.inference_mode()
def test_any_other_model_is_the_same_with_packed_weights(config: ModelConfig) -> None:
    model = build(config).eval()
    packed = for_decoding(model)
    assert isinstance(packed, PackedModel)
    batch = random_batch(((5, 3), (2, 6), (17, 1), (1, 4)))
    plain_state, state = model.start(batch.src, batch.src_mask), packed.start(batch.src, batch.src_mask)
    for tokens, rows in (([BOS] * 4, [0, 0, 0, 1, 2]), ([4, 5, 6, 7, 8], [3, 1]), ([9, 4], [])):
        expected, plain_state = model.step(torch.tensor(tokens), plain_state)
        found, state = packed.step(torch.tensor(tokens), state)
        close(found, expected)
        chosen = torch.tensor(rows, dtype=torch.int64)
        plain_state, state = plain_state.select(chosen), state.select(chosen)


every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


def _stepped(decoding: Decoding, src: Tensor, mask: Tensor) -> Tensor:
    """After two tokens that each row reads."""
    count = len(src)
    _, state = decoding.step(torch.full((count,), BOS), decoding.start(src, mask))
    found, _ = decoding.step(torch.full((count,), 5), state)
    return found


@every_config
@torch.inference_mode()
def test_what_the_padding_row_holds_cannot_matter(config: ModelConfig) -> None:
    """Fault 66 (b). Where the row is a row of the output layer too, it is the score of the piece pad, and only that."""
    model, batch = build(config).eval(), random_batch(((5, 3), (2, 6), (17, 1), (1, 4)))
    found = []
    for value in (0.0, 20.0):
        for embedding in (model.src_embedding, model.tgt_embedding):
            embedding.tokens.weight[PAD] = value
        log_probs = _stepped(for_decoding(model), batch.src, batch.src_mask)
        log_probs[:, PAD] = -torch.inf
        found.append(log_probs.log_softmax(-1).exp())
    close(found[1], found[0], atol=1e-4)


@every_config
@torch.inference_mode()
def test_a_source_that_is_all_padding_stays_finite_and_by_itself(config: ModelConfig) -> None:
    """Fault 64."""
    model, batch = build(config).eval(), random_batch(((5, 3), (2, 6), (4, 1)))
    batch.src[1], batch.src_mask[1] = PAD, False
    decoding = for_decoding(model)
    found = _stepped(decoding, batch.src, batch.src_mask)
    assert found.isfinite().all()
    others = torch.tensor([0, 2])
    close(found[others], _stepped(decoding, batch.src[others], batch.src_mask[others]))


@pytest.mark.parametrize(("precision", "error"), [("bf16", 0.15), ("int8", 0.4)])
@pytest.mark.parametrize("name", ["rnnsearch", "luong_local", "hybrid"])
@torch.inference_mode()
def test_less_precision_of_any_other_model_is_close(name: str, precision: str, error: float) -> None:
    config = changed(preset(name, dropout=0.0), dim=64, ffn_dim=128, heads=4)
    model = config.build(17, 17, PAD).eval()
    exact, found = (_after(for_decoding(model, kind), [BOS, 5, 6]) for kind in ("fp32", precision))
    assert found.dtype == torch.float32
    assert 0 < float((exact - found).abs().max()) < error


@every_config
def test_it_needs_no_word_to_go_without_gradients(config: ModelConfig) -> None:
    decoding, batch = for_decoding(build(config).eval()), random_batch()
    found, _ = decoding.step(torch.full((4,), BOS), decoding.start(batch.src, batch.src_mask))
    assert not found.requires_grad


def test_a_model_without_a_fast_form_is_searched_as_it_is() -> None:
    model: object = for_decoding(nn.Identity())
    assert isinstance(model, nn.Identity)
