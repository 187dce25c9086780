"""`mt run` as a function: all stages in a row, each skipped where it is up to date."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from mt.errors import DataError
from mt.events import Event, Notice, finish
from mt.pipeline import RunReport, run
from mt.recipe import Recipe, load_recipe
from mt.training.events import Stopped
from mt.training.stop import StopRequest
from tests.tiny import write_task


def run_all(recipe: Path, *overrides: str) -> tuple[RunReport, list[str]]:
    """The report, and what was said."""
    events: list[Event] = []
    report = finish(run(load_recipe(recipe, overrides)), events.append)
    return report, [event.text for event in events if isinstance(event, Notice)]


def test_from_raw_text_to_scores_and_samples(tmp_path: Path) -> None:
    recipe = write_task(tmp_path)
    report, said = run_all(recipe)
    assert not any("up to date" in text for text in said)
    assert report.prepared.kept == 60
    assert report.trained.finished
    assert report.trained.state.update == 4
    assert report.evaluation is not None
    assert [score.metric for score in report.evaluation.tests[0].systems[0].scores] == ["bleu", "chrf"]
    assert len(report.samples) == 10
    sources = (tmp_path / "test.en").read_text().split("\n")
    hypotheses = (tmp_path / "run/translations/held_out.de").read_text().split("\n")
    for sample in report.samples:
        assert hypotheses[sources.index(sample.source)] == sample.translation

    again, said = run_all(recipe)
    assert again.evaluation == report.evaluation
    assert again.samples == report.samples
    assert again.trained.state.update == 4
    assert any("is up to date" in text for text in said)
    assert said.count("Translations of held_out are up to date.") == 1
    assert f"The training in {tmp_path}/run is up to date." in said
    assert not any(text.startswith(("Resuming", "Training")) for text in said)


def test_a_changed_stage_and_those_after_it_are_done_again(tmp_path: Path) -> None:
    recipe = write_task(tmp_path)
    first, _ = run_all(recipe)
    second, said = run_all(recipe, "train.max_steps=6")
    assert (first.trained.state.update, second.trained.state.update) == (4, 6)
    assert any("data is up to date" in text for text in said)


def test_without_tests_there_is_nothing_to_evaluate(tmp_path: Path) -> None:
    report, _ = run_all(write_task(tmp_path), "data.test={}")
    assert report.evaluation is None
    assert report.trained.finished


def test_a_stop_leaves_a_checkpoint_and_no_scores(tmp_path: Path) -> None:
    recipe = load_recipe(write_task(tmp_path))
    answers = iter([False, False, True])
    report = finish(run(recipe, should_stop=lambda: next(answers)))
    assert not report.trained.finished
    assert report.evaluation is None
    assert report.samples == ()
    assert 0 < report.trained.state.update < 4
    assert len(list((tmp_path / "run/checkpoints").iterdir())) == 1
    assert finish(run(recipe)).trained.state.update == 4


def test_a_stop_as_training_ends_stops_what_follows(tmp_path: Path) -> None:
    request = StopRequest()
    work = run(load_recipe(write_task(tmp_path)), should_stop=request)
    report = finish(work, lambda event: request.ask() if isinstance(event, Stopped) else None)
    assert report.trained.finished
    assert report.evaluation is None
    assert not request.heard, "signals interrupt again"


def test_missing_text_is_noticed_before_anything_is_written(tmp_path: Path) -> None:
    """Fault 120: the test set is looked for before training."""
    recipe = write_task(tmp_path)
    (tmp_path / "test.de").unlink()
    with pytest.raises(DataError) as error:
        run_all(recipe)
    assert str(error.value) == (
        f"{recipe}, line 10: data.test.held_out.tgt.0: 'test.de' ({tmp_path}/test.de): there is no such file."
    )
    assert not (tmp_path / "run").exists()


def test_missing_text_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = write_task(tmp_path)
    (tmp_path / "test.de").rename(tmp_path / "away")
    fetched = []

    def fetch(recipe: Recipe) -> Generator[Event, None, None]:
        fetched.append(recipe.name)
        yield Notice("Fetching.")
        (tmp_path / "away").rename(tmp_path / "test.de")

    monkeypatch.setattr("mt.pipeline.fetch", fetch)
    download = "data.download=[{url: https://example.org/test.de, to: test.de}]"
    run_all(recipe, download)
    _, said = run_all(recipe, download)
    assert fetched == ["tiny"]
    assert "The text is there: nothing to fetch." in said
