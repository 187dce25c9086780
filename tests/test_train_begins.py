"""How a training begins, and begins again: other weights, budgets that are found, going back with a lower rate."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mt.data.store import Store
from mt.errors import RunError
from mt.events import Event, Notice, finish
from mt.recipe import Recipe, load_recipe
from mt.train import train
from mt.training.state import TrainingState
from mt.training.update import Updater
from mt.training.weights import read_tensors
from tests.trainings import BPE, contents, losses, recipe_of, run_to_the_end, stop_after, weights, write_recipe


class TestInitialWeights:
    """`train.init_from`."""

    def test_are_those_of_another_run(self, task: Path, tmp_path: Path) -> None:
        other = recipe_of(task, str(tmp_path / "other"))
        run_to_the_end(other)
        recipe = recipe_of(
            task, str(tmp_path / "run"), f"train.init_from={other.model_dir}", "train.max_steps=1", "train.lr=1e-30"
        )
        recipe = load_recipe(write_recipe(tmp_path, recipe), ["train.schedule.init=0", "train.ema=0.5"])
        notices: list[Event] = []
        report = finish(train(recipe), notices.append)
        assert Notice(f"Beginning with the weights of {other.model_dir / 'model.safetensors'}.") in notices
        assert (report.state.update, report.state.epoch_part < 0.5) == (1, True)
        expected = read_tensors(other.model_dir / "model.safetensors")
        torch.testing.assert_close(read_tensors(recipe.model_dir / "model.safetensors"), expected)

    def test_are_needed_at_the_beginning_alone(self, task: Path, tmp_path: Path) -> None:
        """A stopped training goes on bit for bit, also where the other run is gone."""
        other = recipe_of(task, str(tmp_path / "other"))
        finish(train(other, should_stop=stop_after(3)))
        whole, parts = (
            recipe_of(task, str(tmp_path / name), f"train.init_from={other.model_dir}") for name in ("whole", "parts")
        )
        run_to_the_end(whole)
        finish(train(parts, should_stop=stop_after(5)))
        shutil.rmtree(other.model_dir)
        run_to_the_end(parts)
        assert weights(parts) == weights(whole)
        with pytest.raises(RunError, match=r"train.init_from: .*other -> null"):
            finish(train(recipe_of(task, str(tmp_path / "parts"))))

    def test_of_another_vocabulary_are_refused(self, task: Path, tmp_path: Path) -> None:
        """Fault 35."""
        other = recipe_of(task, str(tmp_path / "other"))
        run_to_the_end(other)
        recipe = recipe_of(task, str(tmp_path / "run"), f"train.init_from={other.model_dir}", *BPE, data="bpe")
        with pytest.raises(RunError) as caught:
            finish(train(recipe))
        prints = [Store.open(task / data).tokenizers.fingerprint[:12] for data in ("words", "bpe")]
        assert str(caught.value) == (
            f"train.init_from: {other.model_dir} has another vocabulary ({prints[0]}) than the prepared corpus "
            f"({prints[1]}), and its embeddings mean other pieces: set tokenizer.reuse to {other.model_dir} and "
            "prepare again."
        )
        assert not (recipe.model_dir / "recipe.yaml").exists()

    def test_of_another_shape_are_refused(self, task: Path, tmp_path: Path) -> None:
        """Fault 35: the sentence names the parameter and both shapes."""
        other = recipe_of(task, str(tmp_path / "other"))
        run_to_the_end(other)
        recipe = recipe_of(task, str(tmp_path / "run"), f"train.init_from={other.model_dir}", "model.ffn_dim=32")
        with pytest.raises(
            RunError, match=r"does not fit the recipe's model \('.*' has shape \(16,\) in it, but \(32,\)"
        ):
            finish(train(recipe))

    def test_are_looked_for_before_a_run_is_overwritten(self, task: Path, tmp_path: Path) -> None:
        """Fault 60."""
        recipe = recipe_of(task, str(tmp_path / "run"))
        run_to_the_end(recipe)
        kept = contents(recipe.model_dir)
        for wrong, told in (("run", "is the run folder of the new training itself"), ("nowhere", "is not the run")):
            again = recipe_of(task, str(tmp_path / "run"), f"train.init_from={tmp_path / wrong}")
            with pytest.raises(RunError, match=told):
                finish(train(again, overwrite=True))
        assert contents(recipe.model_dir) == kept

    def test_need_a_run(self, task: Path, tmp_path: Path) -> None:
        with pytest.raises(RunError, match=r"train\.init_from: .*nowhere is not the run folder of a training"):
            finish(train(recipe_of(task, str(tmp_path / "run"), f"train.init_from={tmp_path / 'nowhere'}")))


class TestBudget:
    def test_that_was_found_is_kept(self, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        recipe = recipe_of(task, str(tmp_path / "run"), "train.batch_tokens=auto")
        monkeypatch.setattr("mt.train.estimated", lambda *_: 60)
        events: list[Event] = []
        finish(train(recipe, should_stop=stop_after(5)), events.append)
        assert Notice("train.batch_tokens auto: 60.") in events
        monkeypatch.setattr("mt.train.estimated", lambda *_: 300)
        run_to_the_end(recipe)
        whole = recipe_of(task, str(tmp_path / "whole"), "train.batch_tokens=60")
        run_to_the_end(whole)
        assert weights(recipe) == weights(whole)
        assert "batch_tokens: auto" in (recipe.model_dir / "recipe.yaml").read_text("utf-8")

    def test_of_a_tiny_model_on_this_machine(self, task: Path, tmp_path: Path) -> None:
        state = run_to_the_end(recipe_of(task, str(tmp_path / "run"), "train.batch_tokens=auto")).state
        assert 256 <= state.batch_tokens <= 2**15

    def test_a_pair_that_does_not_fit_is_named_with_its_text(
        self, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def loss(*_: object) -> None:
            raise torch.OutOfMemoryError("CUDA out of memory")

        monkeypatch.setattr("mt.objectives.cross_entropy.CrossEntropy.__call__", loss)
        with pytest.raises(
            RunError, match=r"does not fit into memory even alone: .* Its source begins '(one|two|three|four|five|six)"
        ):
            finish(train(recipe_of(task, str(tmp_path / "run"), "train.batch_tokens=3", "seed=4")))


class TestGoingBack:
    """`train.on_nan: rewind`."""

    @pytest.fixture(autouse=True)
    def divergence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No update after the fifth works with a learning rate above 6e-4."""
        original, step = Updater.__call__, Updater._step

        def call(self: Updater, batches: Any, rate: float, before: TrainingState, leave: Any) -> Any:
            self.diverging = before.update >= 5 and rate > 6e-4  # type: ignore[attr-defined]
            return original(self, batches, rate, before, leave)

        def careful(self: Updater, norm: Tensor, rate: float) -> bool:
            return not self.diverging and step(self, norm, rate)  # type: ignore[attr-defined]

        monkeypatch.setattr(Updater, "__call__", call)
        monkeypatch.setattr(Updater, "_step", careful)

    def recipe(self, task: Path, run: Path) -> Recipe:
        constant = "train.schedule={name: constant, warmup: 0}"
        return recipe_of(task, str(run), constant, "train.on_nan=rewind", "train.max_skipped=4", "train.save_every=3")

    def test_is_logged_and_what_was_lost_is_not(self, task: Path, tmp_path: Path) -> None:
        recipe = self.recipe(task, tmp_path / "run")
        report = run_to_the_end(recipe)
        assert (report.state.update, report.state.rewinds, report.state.lr_scale) == (12, 1, 0.5)
        lines = [json.loads(line) for line in (recipe.model_dir / "log.jsonl").read_text("utf-8").split("\n")[:-1]]
        (rewound,) = (line for line in lines if line["event"] == "rewound")
        assert rewound["lr_scale"] == 0.5
        assert rewound["update"] < 5, "what was saved last has failed already"
        assert "4 updates in a row" in rewound["reason"]
        rates = [(line["update"], line["learning_rate"]) for line in lines if line["event"] == "trained"]
        assert rates == [(update, 1e-3 if update <= rewound["update"] else 5e-4) for update in range(1, 13)]

    @pytest.mark.parametrize("stop", [2, 4, 7, 10])
    def test_is_resumed_bit_for_bit(self, task: Path, tmp_path: Path, stop: int) -> None:
        """Stopped before it, among the skipped updates, and after it."""
        whole, parts = self.recipe(task, tmp_path / "whole"), self.recipe(task, tmp_path / "parts")
        run_to_the_end(whole)
        run_to_the_end(parts, [stop])
        assert weights(parts) == weights(whole)
        assert losses(parts) == losses(whole)
