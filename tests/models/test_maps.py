"""Maps of attention are the weights that the model attends with."""

from __future__ import annotations

import pytest
import torch

from mt.models.config import ModelConfig
from mt.models.keys import attends
from mt.models.maps import attention_maps
from tests.models.laws import CONFIGS, build, random_batch

every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


@every_config
def test_each_attention_has_a_map_of_weights(config: ModelConfig) -> None:
    model, batch = build(config).eval(), random_batch()
    before = model(batch)
    maps = attention_maps(model, batch)
    for found in maps:
        assert found.weights.dim() == 4
        assert bool((found.weights.sum(3) <= 1 + 1e-5).all())
    lengths = {found.weights.shape[2:] for found in maps}
    source, target = batch.src.size(1), batch.tgt_in.size(1)
    both = source + target
    assert lengths <= {(source, source), (target, target), (target, source), (both, both)}
    of_itself = {"transformer", "intra_attention"} & {config.encoder.type, config.decoder.type}
    assert bool(maps) == (attends(config) or bool(of_itself))
    assert torch.equal(model(batch), before)
    assert not any(module._forward_hooks for module in model.modules())


@every_config
def test_they_are_what_a_state_tells(config: ModelConfig) -> None:
    """The mean over heads of the last layer but one, to the source, step by step."""
    model, batch = build(config).eval(), random_batch()
    if not attends(config):
        return
    maps = {found.module: found.weights for found in attention_maps(model, batch)}
    names = [name for name in maps if name.startswith("decoder") and "self_attention" not in name]
    weights = maps[names[max(len(names) - 2, 0)]].mean(1)[:, -batch.tgt_in.size(1) :, : batch.src.size(1)]
    state = model.start(batch.src, batch.src_mask, attention=True)
    for position in range(batch.tgt_in.size(1)):
        _, state = model.step(batch.tgt_in[:, position], state)
        assert state.attention is not None
        torch.testing.assert_close(state.attention, weights[:, position], rtol=0, atol=1e-5)
