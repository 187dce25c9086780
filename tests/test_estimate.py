"""What a training would take."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from mt.estimate import LENGTH, Estimate, activations, estimate, parameter_shapes
from mt.events import finish
from mt.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mt.prepare import prepare
from mt.recipe import load_recipe
from tests.models.laws import CONFIGS, PAD, VOCAB, build, changed, layered, random_batch
from tests.tiny import write_task

every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


@pytest.mark.parametrize("tie", ["none", "output", "src_tgt", "all"])
def test_parameters_are_those_of_the_model(tie: str) -> None:
    encoder, decoder = EncoderConfig(layers=1), DecoderConfig(layers=1)
    config = ModelConfig(encoder=encoder, decoder=decoder, dim=8, ffn_dim=16, heads=2, tie=tie)
    model = config.build(11, 11, 3)
    assert parameter_shapes(config, 11, 11) == [parameter.shape for parameter in model.parameters()]


@every_config
def test_each_architecture_is_counted_right(config: ModelConfig) -> None:
    shapes = [parameter.shape for parameter in build(config).parameters()]
    assert parameter_shapes(config, VOCAB, VOCAB) == shapes


@every_config
def test_what_is_kept_for_the_backward_pass_is_roughly_right(config: ModelConfig) -> None:
    """By torch's saved-tensor hooks, at a width at which constants do not count."""
    config = changed(layered(config, 2, 2), dim=64, ffn_dim=128, heads=4, dropout=0.3)
    model, kept = config.build(VOCAB, VOCAB, PAD), dict[int, int]()
    own = {parameter.data_ptr() for parameter in model.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // 4
        return tensor

    batch = random_batch([(LENGTH - 1, LENGTH - 1)] * 4)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        hidden = model.hidden(batch)
    assert hidden.requires_grad
    assert 0.5 < activations(config) / (sum(kept.values()) / (4 * LENGTH)) < 2


@pytest.mark.parametrize(
    ("key", "bytes_a_weight"),
    [("optimizer.name=adam", 16), ("optimizer.name=adamw", 16), ("optimizer.name=adafactor", 8), ("ema=0.9", 20)],
)
def test_memory_is_that_of_the_optimiser_and_the_averages(tmp_path: Path, key: str, bytes_a_weight: int) -> None:
    found = estimate(load_recipe(write_task(tmp_path), [f"train.{key}", "model.dim=256"]))
    assert found.states / found.parameters == pytest.approx(bytes_a_weight, rel=0.2)


def test_steps_an_epoch_are_known_once_prepared(tmp_path: Path) -> None:
    recipe = load_recipe(write_task(tmp_path), ["train.accumulate=2"])
    before = estimate(recipe)
    assert (before.src_vocab, before.updates) == (20, None)
    assert str(before).endswith("\nUpdates an epoch: not known before mt prepare")
    finish(prepare(recipe))
    after = estimate(recipe)
    assert (after.src_vocab, after.tgt_vocab) == (10, 10)
    assert after.batches is not None
    assert after.updates == -(-after.batches // 2)
    assert after.states == 16 * after.parameters


def test_the_estimate_reads_well() -> None:
    assert str(Estimate(63_082_496, 37_000, 37_000, 1_009_319_936, 3_774_873_600, 8_000, 4_000)) == (
        "Parameters: 63,082,496 (vocabularies of 37000 and 37000 pieces)\n"
        "Memory: about 4.78 GB: 1.01 GB for weights, gradients and optimiser, 3.77 GB for the activations of a batch "
        "in float32\n"
        "Updates an epoch: 4000 of 8000 batches"
    )
