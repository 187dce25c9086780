"""Training, from a prepared corpus to the final model: resuming, randomness, ends, and what is refused."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from mt.data.batching import Batch
from mt.errors import DataError, MissingExtraError, RunError
from mt.events import Event, Notice, finish
from mt.prepare import prepare
from mt.recipe import Recipe, load_recipe, load_run_recipe
from mt.train import train
from mt.training.checkpoint import Checkpoints
from mt.training.meter import Trained
from mt.training.update import Updater
from mt.training.weights import read_tensors
from tests.tiny import write_task
from tests.training.test_board import scalars
from tests.trainings import BPE, contents, losses, rates, recipe_of, run_to_the_end, stop_after, weights

SETTINGS = {
    "plain": (),
    "accumulated": (
        *("train.accumulate=3", "train.batch_warmup=6", "train.optimizer.name=adamw"),
        *("model.word_dropout=0.2", "model.layer_drop=0.4"),
    ),
    "ema": ("train.ema=0.8", "train.average={of: last, n: 3}", "train.keep_last=3", "train.save_every=3"),
    "periods": ("train.valid_every=5", "train.save_every=7", "train.precision=bf16"),
    "plateau": (
        *("train.schedule={name: plateau, warmup: 2, patience: 1}", "train.valid_every=2", "train.metric=bleu"),
        *("train.optimizer.name=adafactor", "train.lr=0.01"),
    ),
    "bpe-dropout": BPE,
}


@pytest.fixture(scope="module", params=SETTINGS)
def uninterrupted(task: Path, request: pytest.FixtureRequest) -> tuple[str, Recipe]:
    """Name of settings, and the recipe of a training with them that ran from beginning to end."""
    recipe = settings_of(task, request.param, f"whole-{request.param}")
    run_to_the_end(recipe)
    return request.param, recipe


def settings_of(task: Path, name: str, run: str) -> Recipe:
    return recipe_of(task, str(task / run), *SETTINGS[name], data="bpe" if name == "bpe-dropout" else "words")


class TestResuming:
    def test_equals_an_uninterrupted_training_bit_for_bit(self, task: Path, uninterrupted: tuple[str, Recipe]) -> None:
        """Stopped after 3, 4 and 8 of 12 updates."""
        name, whole = uninterrupted
        parts = settings_of(task, name, f"parts-{name}")
        run_to_the_end(parts, [3, 1, 4])
        assert weights(parts) == weights(whole)
        assert losses(parts) == losses(whole)
        assert rates(parts) == rates(whole)

    def test_of_a_finished_training_changes_nothing(self, task: Path, tmp_path: Path) -> None:
        recipe = recipe_of(task, str(tmp_path / "run"))
        run_to_the_end(recipe)
        before, events = contents(tmp_path / "run"), list[Event]()
        report = finish(train(recipe), events.append)
        assert (report.state.update, report.finished, report.final) == (12, True, [12])
        assert events == [Notice(f"The training in {tmp_path}/run is up to date.")]
        assert contents(tmp_path / "run") == before

    def test_of_a_finished_training_takes_over_what_has_no_part_in_it(self, task: Path, tmp_path: Path) -> None:
        run_to_the_end(recipe_of(task, str(tmp_path / "run")))
        run_to_the_end(recipe_of(task, str(tmp_path / "run"), "decode.beam_size=7"))
        assert load_run_recipe(tmp_path / "run").decode.beam_size == 7

    def test_goes_on_when_the_end_is_moved(self, task: Path, tmp_path: Path) -> None:
        run_to_the_end(recipe_of(task, str(tmp_path / "parts")))
        run_to_the_end(recipe_of(task, str(tmp_path / "parts"), "train.max_steps=20"))
        whole = recipe_of(task, str(tmp_path / "whole"), "train.max_steps=20")
        run_to_the_end(whole)
        assert weights(whole) == (tmp_path / "parts" / "model.safetensors").read_bytes()

    def test_goes_on_from_the_last_whole_checkpoint(self, task: Path, tmp_path: Path) -> None:
        recipe = recipe_of(task, str(tmp_path / "run"), "train.save_every=5", "train.keep_last=2")
        run_to_the_end(recipe)
        checkpoints = Checkpoints(recipe.model_dir)
        torn = checkpoints.path(checkpoints.updates()[-1]) / "model.safetensors"
        torn.write_bytes(torn.read_bytes()[:-1])
        notices: list[str] = []
        finish(train(recipe), lambda event: notices.append(event.text) if isinstance(event, Notice) else None)
        assert any("damaged" in text for text in notices)
        assert any(text.startswith("Resuming from update 10, epoch ") for text in notices)

    def test_takes_a_new_learning_rate_and_says_so(self, task: Path, tmp_path: Path) -> None:
        """Fault 54."""
        constant = "train.schedule={name: constant, warmup: 0}"
        begun = recipe_of(task, str(tmp_path / "run"), "train.lr=1e-3", constant)
        finish(train(begun, should_stop=stop_after(10)))
        events: list[Event] = []
        finish(train(recipe_of(task, str(tmp_path / "run"), "train.lr=1e-5", constant)), events.append)
        assert next(event.learning_rate for event in events if isinstance(event, Trained)) == 1e-5
        assert Notice("Changed since this training began: train.lr: 0.001 -> 1e-05.") in events

    def test_says_what_a_new_learning_rate_is_multiplied_by(self, task: Path, tmp_path: Path) -> None:
        """Fault 54: a plateau has lowered the rate, and goes on to."""
        plateau = ("train.schedule={name: plateau, warmup: 0, patience: 1}", "train.valid_every=2")
        begun = recipe_of(task, str(tmp_path / "run"), *plateau, "train.lr=1e-30")
        finish(train(begun, should_stop=stop_after(9)))
        events: list[Event] = []
        finish(train(recipe_of(task, str(tmp_path / "run"), *plateau, "train.lr=1e-5")), events.append)
        assert next(event.learning_rate for event in events if isinstance(event, Trained)) == 1e-5 / 8
        assert Notice("Changed since this training began: train.lr: 1e-30 -> 1e-05.") in events
        assert (
            Notice(
                "Resuming from update 8, epoch 1.60; learning rates are multiplied by 0.125, to which plateaus and "
                "rewinds have lowered them."
            )
            in events
        )

    def test_takes_a_new_schedule_and_says_so(self, task: Path, tmp_path: Path) -> None:
        """Fault 54: also its keys, and those that it takes from the recipe where they are not given."""
        begun = recipe_of(task, str(tmp_path / "run"), "train.schedule={name: constant, warmup: 0}", "train.lr=0.01")
        finish(train(begun, should_stop=stop_after(9)))
        assert set(rates(begun)) == {0.01}
        events: list[Event] = []
        linear = "train.schedule={name: linear, warmup: 0, updates: 31}"
        finish(train(recipe_of(task, str(tmp_path / "run"), linear, "train.lr=0.01")), events.append)
        assert rates(begun)[-2:] == pytest.approx([0.01 * 20 / 30, 0.01 * 19 / 30])  # updates 11 and 12
        assert (
            Notice(
                "Changed since this training began: train.schedule.name: constant -> linear, "
                "train.schedule.updates: null -> 31."
            )
            in events
        )

    @pytest.mark.parametrize("change", ["model.dim=32", "seed=2", "train.batch_tokens=61"])
    def test_refuses_what_may_not_change(self, task: Path, tmp_path: Path, change: str) -> None:
        """Faults 54 and 60."""
        begun = recipe_of(task, str(tmp_path / "run"))
        finish(train(begun, should_stop=stop_after(2)))
        kept = Checkpoints(begun.model_dir).path(2) / "model.safetensors"
        before = kept.read_bytes()
        with pytest.raises(
            RunError, match=f"holds a training begun with another recipe.*{change.split('=')[0]}: .* -> "
        ):
            finish(train(recipe_of(task, str(tmp_path / "run"), change)))
        assert kept.read_bytes() == before

    def test_its_corpus_is_not_replaced_unless_asked(self, task: Path, tmp_path: Path) -> None:
        """Fault 35."""
        shutil.copytree(task, tmp_path / "task")
        begun = recipe_of(tmp_path / "task", str(tmp_path / "run"))
        other = recipe_of(tmp_path / "task", str(tmp_path / "run"), "tokenizer.vocab_size=10")
        finish(train(begun, should_stop=stop_after(2)))
        before = contents(begun.data_dir)
        with pytest.raises(RunError) as caught:
            finish(prepare(other, workers=1))
        assert str(caught.value) == (
            f"{begun.data_dir} is what the training in {tmp_path / 'run'} was begun on, but tokenizer.vocab_size was "
            "20 and is 10: choose another model_dir or data.dir, or make it anew by mt prepare --overwrite, after "
            "which that training cannot go on."
        )
        assert contents(begun.data_dir) == before
        finish(prepare(other, workers=1, overwrite=True))
        finish(prepare(begun, workers=1))
        run_to_the_end(begun)

    def test_refuses_another_corpus(self, task: Path, tmp_path: Path) -> None:
        shutil.copytree(task, tmp_path / "task")
        begun = recipe_of(tmp_path / "task", str(tmp_path / "run"))
        finish(train(begun, should_stop=stop_after(2)))
        text = tmp_path / "task" / "train.en"
        text.write_text(text.read_text("utf-8").replace("one", "six"), encoding="utf-8", newline="\n")
        finish(prepare(begun, workers=1, overwrite=True))
        kept = contents(begun.model_dir)
        with pytest.raises(RunError, match="holds a training begun on another prepared corpus"):
            finish(train(recipe_of(tmp_path / "task", str(tmp_path / "run"), "train.lr=0.01")))
        assert contents(begun.model_dir) == kept, "the model must still be read with its own tokenizer and recipe"

    def test_a_finished_training_is_not_overwritten_unless_asked(self, task: Path, tmp_path: Path) -> None:
        """Fault 60."""
        run_to_the_end(recipe_of(task, str(tmp_path / "run"), "train.keep_last=3", "train.save_every=3"))
        other = recipe_of(task, str(tmp_path / "run"), "train.lr=0.01", "train.keep_last=3")
        with pytest.raises(RunError, match=r"holds a finished training of another recipe.*--overwrite"):
            finish(train(other))
        finish(train(other, overwrite=True))
        fresh = recipe_of(task, str(tmp_path / "fresh"), "train.lr=0.01", "train.keep_last=3")
        run_to_the_end(fresh)
        assert weights(other) == weights(fresh)
        assert Checkpoints(other.model_dir).updates() == Checkpoints(fresh.model_dir).updates()

    def test_a_finished_model_without_checkpoints_is_not_overwritten(self, task: Path, tmp_path: Path) -> None:
        """Fault 60."""
        recipe = recipe_of(task, str(tmp_path / "run"))
        run_to_the_end(recipe)
        shutil.rmtree(recipe.model_dir / "checkpoints")
        with pytest.raises(RunError) as caught:
            finish(train(recipe))
        assert str(caught.value) == (
            f"{recipe.model_dir} holds a finished model but no checkpoint, and training would begin anew: "
            "choose another model_dir, or delete that model with --overwrite."
        )

    def test_pairs_over_the_budget_are_counted(self, task: Path, tmp_path: Path) -> None:
        """Fault 67."""
        events: list[Event] = []
        finish(
            train(recipe_of(task, str(tmp_path / "run"), "train.batch_tokens=3", "train.max_steps=1")), events.append
        )
        told = [event.text for event in events if isinstance(event, Notice)]
        assert any(
            text.startswith("Pairs longer than train.batch_tokens (3), each of which is a batch") for text in told
        )

    def test_the_last_validation_is_in_the_last_checkpoint(self, task: Path, tmp_path: Path) -> None:
        """Fault 56: also where that update was saved before it was validated."""
        recipe = recipe_of(
            task, str(tmp_path / "run"), "train.save_every=12", "train.valid_every=5", "train.keep_last=5"
        )
        state = run_to_the_end(recipe).state
        assert state.scored == state.update == 12
        assert Checkpoints(recipe.model_dir).state(12).scores == state.scores


@pytest.fixture(scope="module")
def plain(task: Path) -> Recipe:
    """The recipe of a training that was run."""
    recipe = recipe_of(task, str(task / "plain"))
    run_to_the_end(recipe)
    return recipe


class TestRandomness:
    """Fault 69."""

    def test_same_seed_same_training(self, task: Path, plain: Recipe, tmp_path: Path) -> None:
        again = recipe_of(task, str(tmp_path / "again"))
        torch.rand(7)  # whatever was drawn before
        run_to_the_end(again)
        assert losses(again) == losses(plain)
        assert weights(again) == weights(plain)

    def test_another_seed_another_training(self, task: Path, plain: Recipe, tmp_path: Path) -> None:
        other = recipe_of(task, str(tmp_path / "other"), "seed=2")
        run_to_the_end(other)
        assert losses(other)[0] != losses(plain)[0]

    @pytest.mark.parametrize("change", ["train.valid_every=3", "train.save_every=2", "train.valid_beam_size=3"])
    def test_watching_does_not_change_training(self, task: Path, plain: Recipe, tmp_path: Path, change: str) -> None:
        watched = recipe_of(task, str(tmp_path / "watched"), change)
        run_to_the_end(watched)
        assert losses(watched) == losses(plain)


class TestTensorBoard:
    def test_shows_each_step_once(self, task: Path, tmp_path: Path) -> None:
        """And may be switched on in the middle, which changes nothing else."""
        pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
        recipe = recipe_of(task, str(tmp_path / "run"), "train.tensorboard=true")
        finish(train(recipe_of(task, str(tmp_path / "run")), should_stop=stop_after(4)))
        run_to_the_end(recipe, [3])
        shown = scalars(recipe.model_dir / "tensorboard")
        assert [step for step, _ in shown["train/loss"]] == [*range(1, 13)]
        assert [loss for _, loss in shown["train/loss"]] == pytest.approx(losses(recipe))
        assert [step for step, _ in shown["valid/bleu"]] == [4, 8, 12]

    def test_is_missed_before_anything_begins(
        self, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "tensorboard", None)
        with pytest.raises(MissingExtraError):
            finish(train(recipe_of(task, str(tmp_path / "run"), "train.tensorboard=true")))
        assert not (tmp_path / "run").exists()


class TestEnds:
    @pytest.mark.parametrize(
        ("end", "reason"),
        [
            ("train.max_steps=5", "train.max_steps 5 reached"),
            ("train.max_epochs=2", "train.max_epochs 2 reached"),
            ("train.max_time=0.001s", "train.max_time 0.001s reached"),
        ],
    )
    def test_say_which_limit_was_met(self, task: Path, tmp_path: Path, end: str, reason: str) -> None:
        limits = ["train.max_steps=null", end] if "max_steps" not in end else [end]
        report = finish(train(recipe_of(task, str(tmp_path / "run"), *limits)))
        assert (report.reason, report.finished) == (reason, True)

    def test_patience_ends_a_training_that_gets_no_better(self, task: Path, tmp_path: Path) -> None:
        ends = ["train.max_steps=null", "train.patience=2", "train.valid_every=1", "train.lr=1e-30"]
        report = finish(train(recipe_of(task, str(tmp_path / "run"), *ends, "train.schedule.init=0")))
        assert (report.reason, report.state.update) == ("train.patience 2 reached without a better loss", 3)

    def test_the_final_model_is_the_mean_of_the_last_checkpoints(self, task: Path, tmp_path: Path) -> None:
        average = ["train.valid_every=3", "train.save_every=3", "train.keep_last=3", "train.average={of: last, n: 3}"]
        recipe = recipe_of(task, str(tmp_path / "run"), *average)
        assert run_to_the_end(recipe).final == [6, 9, 12]
        checkpoints = Checkpoints(recipe.model_dir)
        parts = [read_tensors(checkpoints.path(update) / "model.safetensors") for update in (6, 9, 12)]
        for name, tensor in read_tensors(recipe.model_dir / "model.safetensors").items():
            torch.testing.assert_close(tensor, torch.stack([part[name] for part in parts]).mean(0))

    def test_another_mean_is_made_of_a_finished_training(self, task: Path, tmp_path: Path) -> None:
        """Without an update, and from the checkpoints that were kept."""
        average = ["train.valid_every=12", "train.save_every=3", "train.keep_last=3"]
        of = "train.average={{of: last, n: {}}}".format
        assert run_to_the_end(recipe_of(task, str(tmp_path / "run"), *average, of(3))).final == [6, 9, 12]
        report = run_to_the_end(recipe_of(task, str(tmp_path / "run"), *average, of(2)))
        assert (report.final, report.state.update) == ([9, 12], 12)

    def test_one_pair_can_be_trained_on(self, tmp_path: Path) -> None:
        """Fault 46."""
        recipe = load_recipe(write_task(tmp_path, pairs=1), ["train.max_steps=3"])
        finish(prepare(recipe, workers=1))
        assert finish(train(recipe)).state.epoch == 3


def test_training_needs_a_prepared_corpus(task: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run mt prepare first"):
        finish(train(recipe_of(task, str(tmp_path / "run"), data=str(tmp_path / "nothing"))))


def test_a_resumed_epoch_has_each_pair_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 55: ten pairs, two a batch; stopped after update 7, in the middle of the second epoch."""
    recipe = write_task(tmp_path)
    for side in ("en", "de"):
        lines = "".join(f"{name}\n" for name in "abcdefghij")
        (tmp_path / f"train.{side}").write_text(lines, encoding="utf-8", newline="\n")
    loaded = load_recipe(recipe, ["train.batch_tokens=4", "train.max_steps=15"])
    finish(prepare(loaded, workers=1))
    seen: list[list[int]] = []
    backward = Updater._backward

    def watched(self: Updater, batch: Batch, divisor: float) -> Tensor:
        seen.append(batch.src[:, 0].tolist())
        return backward(self, batch, divisor)

    monkeypatch.setattr(Updater, "_backward", watched)
    run_to_the_end(loaded, [7])
    epochs = [[pair for batch in seen[start : start + 5] for pair in batch] for start in (0, 5, 10)]
    assert [len(batch) for batch in seen] == [2] * 15
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(epochs[2])
    assert len(set(epochs[0])) == 10
    assert epochs[0] != epochs[1] != epochs[2]
