"""What a training would take."""

from __future__ import annotations

from pathlib import Path

import pytest

from mt.estimate import Estimate, estimate, parameter_shapes
from mt.events import finish
from mt.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mt.prepare import prepare
from mt.recipe import load_recipe
from tests.tiny import write_task


@pytest.mark.parametrize("tie", ["none", "output", "src_tgt", "all"])
def test_parameters_are_those_of_the_model(tie: str) -> None:
    encoder, decoder = EncoderConfig(layers=1), DecoderConfig(layers=1)
    config = ModelConfig(encoder=encoder, decoder=decoder, dim=8, ffn_dim=16, heads=2, tie=tie)
    model = config.build(11, 11, 3)
    assert parameter_shapes(config, 11, 11) == [parameter.shape for parameter in model.parameters()]


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
