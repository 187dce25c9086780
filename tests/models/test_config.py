"""Combinations that make no model are refused in one sentence, and no key is ignored."""

from __future__ import annotations

from typing import Any

import pytest

from mt.config import keys_of
from mt.errors import ConfigError
from mt.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mt.models.encoder_decoder import DECODERS, ENCODERS
from mt.models.keys import DECODER_KEYS, ENCODER_KEYS
from mt.models.presets import PRESETS
from mt.nn.feed_forward import ACTIVATIONS
from mt.nn.initialisation import INITS
from mt.nn.norms import NORMS
from mt.nn.positions import POSITIONS
from mt.nn.scores import SCORES
from mt.nn.windows import WINDOWS
from tests.models.laws import PAD, VOCAB, preset, random_batch, recurrent

LSTM = {"encoder": EncoderConfig("lstm"), "decoder": DecoderConfig("lstm")}
WITHOUT_ENCODER = {"encoder": EncoderConfig("none"), "decoder": DecoderConfig("language_model")}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({**LSTM, "norm_position": "pre"},
         "model.norm_position pre is not for an encoder of type lstm and a decoder of type lstm: leave it at post, or "
         "choose another model.encoder.type or model.decoder.type."),
        ({**WITHOUT_ENCODER, "encoder": EncoderConfig("none", layers=4)},
         "model.encoder.layers 4 is not for an encoder of type none and a decoder of type language_model: leave it at "
         "6, or choose another model.encoder.type or model.decoder.type."),
        ({"encoder": EncoderConfig(bidirectional="all")},
         "model.encoder.bidirectional all is not for an encoder of type transformer and a decoder of type transformer: "
         "leave it at none, or choose another model.encoder.type or model.decoder.type."),
        ({"decoder": DecoderConfig(residual=True)},
         "model.decoder.residual true is not for an encoder of type transformer and a decoder of type transformer: "
         "leave it at false, or choose another model.encoder.type or model.decoder.type."),
        ({**LSTM, "attention_dropout": 0.1},
         "model.attention_dropout 0.1 is not for an encoder of type lstm and a decoder of type lstm: leave it at 0.0, "
         "or choose another model.encoder.type or model.decoder.type."),
        ({"encoder": EncoderConfig("gru", bidirectional="first"), "decoder": DecoderConfig("gru"), "dim": 7},
         "model.dim (7) must be even with model.encoder.bidirectional first: each direction has half of it."),
        ({"encoder": EncoderConfig("gru", layers=2), "decoder": DecoderConfig("lstm", layers=3, initial="state")},
         "model.decoder.initial state needs an encoder of the decoder's type and layers, but model.encoder has 2 of "
         "gru and model.decoder 3 of lstm: make them alike, or set model.decoder.initial to summary."),
        ({"dim": 16, "decoder": DecoderConfig("lstm", context="top", attention="dot", heads=5)},
         "model.dim (16) must be a multiple of model.decoder.heads (5)."),
        ({"heads": 4, "kv_heads": 3}, "model.heads (4) must be a multiple of model.kv_heads (3)."),
        ({"dim": 12, "heads": 4, "positions": "rotary"},
         "model.positions rotary turns pairs: model.dim / model.heads (3) must be even."),
        ({"encoder": EncoderConfig("gru"), "decoder": DecoderConfig("ssru"), "attention_window": 5},
         "model.attention_window 5 is not for an encoder of type gru and a decoder of type ssru: leave it at null, or "
         "choose another model.encoder.type or model.decoder.type."),
        ({"max_positions": 99},
         "model.max_positions 99 belongs to model.positions learned, but that is sinusoidal: change model.positions, "
         "or leave model.max_positions out."),
        ({"positions": "alibi", "position_base": 50.0},
         "model.position_base 50.0 belongs to model.positions sinusoidal or rotary, but that is alibi: change "
         "model.positions, or leave model.position_base out."),
        ({"encoder": EncoderConfig("none")},
         "model.encoder.type none and model.decoder.type language_model go together: the source is read by the "
         "decoder, or by an encoder; but the types are none and transformer."),
        ({**WITHOUT_ENCODER, "tie": "output"},
         "model.tie output: a language model reads source and target with one embedding; set it to src_tgt or all."),
    ],
)  # fmt: skip
def test_what_makes_no_model_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig(**options)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"context": "top"},
         "model.decoder.attention null does not go with model.decoder.context top: contexts bottom and top need a "
         "score (additive, dot, general or concat), none and summary have no attention."),
        ({"context": "summary", "attention": "dot"},
         "model.decoder.attention dot does not go with model.decoder.context summary: contexts bottom and top need a "
         "score (additive, dot, general or concat), none and summary have no attention."),
        ({"context": "bottom", "attention": "dot", "input_feeding": True},
         "model.decoder.input_feeding true belongs to model.decoder.context top, but that is bottom: change "
         "model.decoder.context, or leave model.decoder.input_feeding out."),
        ({"context": "top", "attention": "dot", "maxout": True},
         "model.decoder.maxout true belongs to model.decoder.context none or summary or bottom, but that is top: "
         "change model.decoder.context, or leave model.decoder.maxout out."),
        ({"context": "top", "attention": "dot", "window_size": 5},
         "model.decoder.window_size 5 belongs to model.decoder.window local_m or local_p, but that is global: change "
         "model.decoder.window, or leave model.decoder.window_size out."),
        ({"window": "local_m"},
         "model.decoder.window local_m belongs to model.decoder.context bottom or top, but that is none: change "
         "model.decoder.context, or leave model.decoder.window out."),
    ],
)  # fmt: skip
def test_what_makes_no_recurrent_decoder_is_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DecoderConfig("lstm", **options)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("config", "key", "table"),
    [
        (EncoderConfig, "type", ENCODERS), (DecoderConfig, "type", DECODERS), (ModelConfig, "preset", PRESETS),
        (ModelConfig, "norm", NORMS), (ModelConfig, "positions", POSITIONS), (ModelConfig, "activation", ACTIVATIONS),
        (ModelConfig, "init", INITS), (DecoderConfig, "attention", SCORES),
        (DecoderConfig, "window", {"global": None, **WINDOWS}),
    ],
)  # fmt: skip
def test_choices_are_the_tables(config: type, key: str, table: dict[str, object]) -> None:
    """A new member is one line in its table, and one here that the recipe knows of."""
    assert set(keys_of(config)[key].metadata["choices"]) == set(table)


def test_each_type_of_stack_says_what_it_reads() -> None:
    assert set(ENCODER_KEYS) == set(ENCODERS)
    assert set(DECODER_KEYS) == set(DECODERS)
    known = {"encoder." + key for key in keys_of(EncoderConfig)} | {"decoder." + key for key in keys_of(DecoderConfig)}
    for keys in (*ENCODER_KEYS.values(), *DECODER_KEYS.values()):
        assert keys <= known | set(keys_of(ModelConfig))


def test_encoders_and_decoders_combine_freely() -> None:
    """Every encoder under every decoder."""
    batch = random_batch()
    for encoder in set(ENCODERS) - {"none"}:
        for decoder in set(DECODERS) - {"language_model"}:
            stacks = {"encoder": EncoderConfig(encoder, 1), "decoder": DecoderConfig(decoder, 1)}
            model = ModelConfig(**stacks, dim=8).build(VOCAB, VOCAB, PAD)  # type: ignore[arg-type]
            assert model(batch).shape == (4, 7, VOCAB)


def test_recurrent_keys_of_presets_can_be_overridden() -> None:
    assert preset("luong_global", dim=64).decoder.attention == "general"
    assert recurrent(decoder={"layers": 5}).decoder.layers == 5
