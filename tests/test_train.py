"""Training, from a prepared corpus to the final model: resuming, randomness, validation, and what is refused."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mt.data.batching import Batch
from mt.data.store import Store
from mt.errors import DataError, MissingExtraError, RunError
from mt.events import Event, Notice, Progress, finish
from mt.prepare import prepare
from mt.recipe import Recipe, load_recipe
from mt.scoring.metrics import METRICS, higher_is_better, score
from mt.text.files import read_lines
from mt.train import TrainReport, train
from mt.training.checkpoint import Checkpoints
from mt.training.events import Saved, Stopped, Validated
from mt.training.meter import Trained
from mt.training.state import HIGHER_IS_BETTER, TrainingState
from mt.training.update import Updater
from mt.training.weights import read_tensors
from mt.translate import load
from tests.tiny import write_task
from tests.training.test_board import scalars

BPE = ("tokenizer={type: bpe, vocab_size: 60, shared: true, dropout: 0.2}", "model.tie=all")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a task that is prepared, and of one with BPE-dropout."""
    folder = tmp_path_factory.mktemp("task")
    recipe = write_task(folder)
    finish(prepare(load_recipe(recipe, [f"data.dir={folder / 'words'}"]), workers=1))
    finish(prepare(load_recipe(recipe, [f"data.dir={folder / 'bpe'}", *BPE]), workers=1))
    return folder


def recipe_of(task: Path, run: str, *overrides: str, data: str = "words") -> Recipe:
    """A recipe of the task that trains 12 updates in the folder `run`."""
    defaults = ["train.max_steps=12", "train.batch_tokens=60", "train.log_every=1", "train.precision=fp32"]
    return load_recipe(
        task / "recipe.yaml",
        [f"data.dir={task / data}", f"model_dir={run}", "model.dropout=0.3", *defaults, *overrides],
    )


def stop_after(updates: int) -> Callable[[], bool]:
    """Ask to stop when it was asked for the `updates`-th time after an update."""
    asked = iter(range(10**6))
    return lambda: next(asked) >= updates


def contents(folder: Path) -> dict[Path, bytes]:
    """All files below `folder`."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def run_to_the_end(recipe: Recipe, stops: Sequence[int] = ()) -> TrainReport:
    """Train; each of `stops` ends a session after that many updates, and the next one resumes."""
    for stop in stops:
        assert not finish(train(recipe, should_stop=stop_after(stop))).finished
    report = finish(train(recipe))
    assert report.finished
    return report


def losses(recipe: Recipe) -> list[float]:
    """The training losses in the log."""
    lines = map(json.loads, (recipe.model_dir / "log.jsonl").read_text("utf-8").split("\n")[:-1])
    return [line["loss"] for line in lines if line["event"] == "trained"]


def rates(recipe: Recipe) -> list[float]:
    """The learning rates in the log."""
    lines = map(json.loads, (recipe.model_dir / "log.jsonl").read_text("utf-8").split("\n")[:-1])
    return [line["learning_rate"] for line in lines if line["event"] == "trained"]


def weights(recipe: Recipe) -> bytes:
    return (recipe.model_dir / "model.safetensors").read_bytes()


SETTINGS = {
    "plain": (),
    "accumulated": ("train.accumulate=3", "train.batch_warmup=6", "train.optimizer.name=adamw"),
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
    @pytest.mark.parametrize("stops", [[1], [5], [3, 1, 4]])
    def test_equals_an_uninterrupted_training_bit_for_bit(
        self, task: Path, uninterrupted: tuple[str, Recipe], stops: list[int]
    ) -> None:
        name, whole = uninterrupted
        parts = settings_of(task, name, f"parts-{name}-{len(stops)}-{stops[0]}")
        run_to_the_end(parts, stops)
        assert weights(parts) == weights(whole)
        assert losses(parts) == losses(whole)
        assert rates(parts) == rates(whole)

    def test_of_a_finished_training_changes_nothing(self, task: Path, tmp_path: Path) -> None:
        recipe = recipe_of(task, str(tmp_path / "run"))
        run_to_the_end(recipe)
        before = weights(recipe)
        assert run_to_the_end(recipe).state.update == 12
        assert weights(recipe) == before

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

    def test_refuses_another_corpus(self, task: Path, tmp_path: Path) -> None:
        shutil.copytree(task, tmp_path / "task")
        begun = recipe_of(tmp_path / "task", str(tmp_path / "run"))
        finish(train(begun, should_stop=stop_after(2)))
        text = tmp_path / "task" / "train.en"
        text.write_text(text.read_text("utf-8").replace("one", "six"), encoding="utf-8", newline="\n")
        finish(prepare(begun, workers=1))
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


class TestRandomness:
    """Fault 69."""

    def test_same_seed_same_training(self, task: Path, tmp_path: Path) -> None:
        recipes = [recipe_of(task, str(tmp_path / name)) for name in ("one", "two")]
        for recipe in recipes:
            torch.rand(7)  # whatever was drawn before
            run_to_the_end(recipe)
        assert losses(recipes[0]) == losses(recipes[1])
        assert weights(recipes[0]) == weights(recipes[1])

    def test_another_seed_another_training(self, task: Path, tmp_path: Path) -> None:
        recipes = [recipe_of(task, str(tmp_path / seed), f"seed={seed}") for seed in ("1", "2")]
        for recipe in recipes:
            run_to_the_end(recipe)
        assert losses(recipes[0])[0] != losses(recipes[1])[0]

    @pytest.mark.parametrize("change", ["train.valid_every=3", "train.save_every=2", "train.valid_beam_size=3"])
    def test_watching_does_not_change_training(self, task: Path, tmp_path: Path, change: str) -> None:
        recipes = [recipe_of(task, str(tmp_path / "one")), recipe_of(task, str(tmp_path / "two"), change)]
        for recipe in recipes:
            run_to_the_end(recipe)
        assert losses(recipes[0]) == losses(recipes[1])


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


class TestValidation:
    def test_bleu_is_that_of_the_translations(self, task: Path, tmp_path: Path) -> None:
        """Fault 103: training, the kept translations, and a translation with the same beam agree."""
        recipe = recipe_of(
            task, str(tmp_path / "run"), "train.max_steps=100", "train.lr=0.02", "train.valid_beam_size=2"
        )
        recipe = load_recipe(write_recipe(tmp_path, recipe), ["model.dropout=0"])
        report = run_to_the_end(recipe)
        kept = list(read_lines(recipe.model_dir / "validations" / "step-00000100.de"))
        assert recipe.data.valid is not None
        sources = list(read_lines(recipe.data.valid.src))
        references = [list(read_lines(recipe.data.valid.tgt))]
        assert [found.text for found in load(recipe.model_dir, "last").translate(sources)] == kept
        assert report.state.scores["chrf"] > 0
        for metric in ("bleu", "chrf"):
            assert report.state.scores[metric] == pytest.approx(score(kept, references, metric).value, abs=1e-6)

    def test_translates_with_the_weights_of_its_own_update(self, task: Path, tmp_path: Path) -> None:
        """Fault 103's kind: not with a form of the model that was made for the validation before."""
        settings = ["train.max_steps=40", "train.lr=0.02", "train.valid_every=20", "train.keep_last=2"]
        recipe = recipe_of(task, str(tmp_path / "run"), *settings, "train.save_every=20", "model.dropout=0")
        run_to_the_end(recipe)
        assert recipe.data.valid is not None
        sources = list(read_lines(recipe.data.valid.src))
        kept = []
        for update in (20, 40):
            kept.append(list(read_lines(recipe.model_dir / "validations" / f"step-{update:08d}.de")))
            model = load(recipe.model_dir, f"step-{update:08d}", decode=replace(recipe.decode, beam_size=1))
            assert [found.text for found in model.translate(sources)] == kept[-1]
        assert kept[0] != kept[1]

    def test_says_how_far_it_is(self, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mt.validation.WINDOW", 4)
        recipe = recipe_of(task, str(tmp_path / "run"), "train.max_steps=3", "train.valid_every=2")
        events: list[Event] = []
        finish(train(recipe), events.append)
        progress = [event for event in events if isinstance(event, Progress) and "validating" in event.detail]
        assert progress == [
            Progress("training", update, 3, "updates", f"validating: {done} of 6 lines")
            for update in (2, 3)
            for done in (0, 4, 6)
        ]

    def test_loss_does_not_depend_on_the_batch_size(self, task: Path, tmp_path: Path) -> None:
        """Fault 50."""
        values = []
        for budget in (1, 12, 1000):
            recipe = recipe_of(task, str(tmp_path / str(budget)), f"train.batch_tokens={budget}", "train.max_steps=1")
            # No update changes the weights, so all validate the same model.
            recipe = load_recipe(write_recipe(tmp_path, recipe), ["train.lr=1e-30", "train.schedule.init=0"])
            values.append(run_to_the_end(recipe).state.scores["loss"])
        assert values == pytest.approx([values[0]] * 3, abs=1e-5)

    def test_gives_the_same_twice_and_leaves_dropout_on(self, task: Path, tmp_path: Path) -> None:
        """Fault 70: dropout 0.5, and no update that changes a weight in between."""
        still = ["train.max_steps=3", "train.valid_every=1", "train.lr=1e-30", "train.schedule.init=0"]
        recipe = recipe_of(task, str(tmp_path / "run"), *still, "model.dropout=0.5", "train.valid_beam_size=2")
        events: list[Event] = []
        finish(train(recipe), events.append)
        scores = [event.state.scores for event in events if isinstance(event, Validated)]
        assert len(scores) == 3
        assert scores[0] == scores[1] == scores[2]
        assert len(set(losses(recipe))) == 3

    @pytest.mark.parametrize("metric", ["chrf++", "ter"])
    def test_any_metric_can_tell_the_best(self, task: Path, tmp_path: Path, metric: str) -> None:
        """Fault 56: in its own direction."""
        best = [f"train.metric={metric}", "train.valid_every=3", "train.lr=0.02", "train.keep_best=2"]
        recipe = recipe_of(task, str(tmp_path / "run"), *best)
        events: list[Event] = []
        finish(train(recipe), events.append)
        values = [event.state.scores[metric] for event in events if isinstance(event, Validated)]
        choose = max if higher_is_better(metric) else min
        assert Checkpoints(recipe.model_dir).best(1) == [3 * (1 + values.index(choose(values)))]

    def test_without_validation_text_there_is_none(self, task: Path, tmp_path: Path) -> None:
        text = (task / "recipe.yaml").read_text("utf-8").replace("  valid: {src: valid.en, tgt: valid.de}\n", "")
        (task / "unvalidated.yaml").write_text(text, encoding="utf-8")
        recipe = load_recipe(
            task / "unvalidated.yaml", [f"data.dir={tmp_path / 'data'}", f"model_dir={tmp_path / 'run'}"]
        )
        finish(prepare(recipe, workers=1))
        events: list[Event] = []
        finish(train(recipe), events.append)
        assert [type(event) for event in events if isinstance(event, Validated | Saved | Stopped)] == [Saved, Stopped]


def write_recipe(folder: Path, recipe: Recipe) -> Path:
    """The effective recipe as a file."""
    from mt.recipe import save_recipe

    save_recipe(recipe, folder / "effective.yaml")
    return folder / "effective.yaml"


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

    def test_one_pair_can_be_trained_on(self, tmp_path: Path) -> None:
        """Fault 46."""
        recipe = load_recipe(write_task(tmp_path, pairs=1), ["train.max_steps=3"])
        finish(prepare(recipe, workers=1))
        assert finish(train(recipe)).state.epoch == 3


def test_training_needs_a_prepared_corpus(task: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run mt prepare first"):
        finish(train(recipe_of(task, str(tmp_path / "run"), data=str(tmp_path / "nothing"))))


def test_half_precision_learns_as_well(task: Path, tmp_path: Path) -> None:
    settings = ["train.max_steps=100", "train.lr=0.02", "model.dropout=0", "train.valid_every=100"]
    scores = []
    for precision in ("fp32", "bf16", "fp16"):
        recipe = recipe_of(task, str(tmp_path / precision), *settings, f"train.precision={precision}")
        scores.append(run_to_the_end(recipe).state.scores["loss"])
    assert scores[0] < 1.5  # of 2.5 for a guess
    assert scores[1:] == pytest.approx([scores[0]] * 2, abs=0.1)


def test_directions_are_those_of_the_scores() -> None:
    """Fault 56."""
    assert {name: HIGHER_IS_BETTER[name] for name in METRICS} == {name: higher_is_better(name) for name in METRICS}
    assert set(HIGHER_IS_BETTER) == {"loss", *METRICS}


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


class TestGoingBack:
    """`train.on_nan: rewind`."""

    @pytest.fixture(autouse=True)
    def divergence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No update after the fifth works with a learning rate above 6e-4."""
        original, step = Updater.__call__, Updater._step

        def call(self: Updater, batches: Any, rate: float, before: TrainingState) -> Any:
            self.diverging = before.update >= 5 and rate > 6e-4  # type: ignore[attr-defined]
            return original(self, batches, rate, before)

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
