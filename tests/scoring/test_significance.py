"""Resampling: properties, and agreement with sacreBLEU where it follows the same convention."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from mt.scoring import significance
from mt.scoring.metrics import METRICS, Scorer
from mt.scoring.significance import TESTS, bootstrap_interval, paired_randomization, resampled_sums
from mt.text.files import read_lines

LEAST = 1 / 1001


def corpus(lines: int = 60) -> tuple[list[str], list[str], list[str]]:
    """References, a good system and a worse one."""
    draw = random.Random(5)
    references = [
        " ".join(draw.choice(["the", "a", "cat", "dog", "sat", "ran", "on", "mat"]) for _ in range(9))
        for _ in range(lines)
    ]

    def spoil(text: str, share: float) -> str:
        return " ".join("blue" if draw.random() < share else word for word in text.split())

    return references, [spoil(line, 0.1) for line in references], [spoil(line, 0.2) for line in references]


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("metric", METRICS)
def test_equal_systems_do_not_differ(metric: str, test: str) -> None:
    """Fault 104: sacreBLEU's strict comparison gives 0.000999 here."""
    references, system, _ = corpus(30)
    scorer = Scorer(metric, [references])
    statistics = scorer.statistics(system)
    assert TESTS[test][0](scorer.kind.formula, statistics, statistics, 1000, 12345) == 1.0


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("metric", METRICS)
def test_different_systems_differ(metric: str, test: str) -> None:
    """Fault 104: p is never 0, and the same seed gives the same p, whichever system comes first."""
    references, good, worse = corpus()
    scorer = Scorer(metric, [references])
    a, b = scorer.statistics(good), scorer.statistics(worse)
    p_values = [TESTS[test][0](scorer.kind.formula, *pair, 1000, 1) for pair in ((a, b), (a, b), (b, a))]
    assert p_values[0] == p_values[1] == p_values[2]
    assert LEAST <= p_values[0] < 0.05


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("metric", METRICS)
def test_one_sentence_tells_nothing_of_chance(metric: str, test: str) -> None:
    """Fault 104: all samples of one sentence are that sentence, and its translations changing sides half the time."""
    references, good, worse = corpus(1)
    scorer = Scorer(metric, [references])
    a, b = scorer.statistics(good), scorer.statistics([f"{worse[0]} blue blue"])
    assert TESTS[test][0](scorer.kind.formula, a, b, 1000, 12345) == 1.0


def test_randomization_agrees_with_sacrebleu(shared_data: Path) -> None:
    """Real systems: no trial ties with the real difference, so that >= and > count the same."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.significance import PairedTest

    folder = shared_data / "wmt22-scored-systems"
    names = ("hyp.JDExploreAcademy", "hyp.Online-B", "hyp.Online-W", "ref.A")
    *systems, reference = (
        list(islice(read_lines(folder / f"generaltest2022.en-de.{name}.de.gz"), 400)) for name in names
    )
    _, theirs = PairedTest(
        list(zip(names, systems, strict=False)), {"BLEU": BLEU(force=True)}, [reference], "ar", 500
    )()
    scorer = Scorer("bleu", [reference])
    baseline, *others = (scorer.statistics(system) for system in systems)
    ours = [paired_randomization(scorer.kind.formula, baseline, other, 500, 12345) for other in others]
    assert ours == pytest.approx([getattr(result, "p_value", None) for result in theirs["BLEU"][1:]])
    assert max(ours) < 1


def test_interval_agrees_with_sacrebleu() -> None:
    from sacrebleu.metrics.bleu import BLEU

    references, good, _ = corpus()
    theirs = BLEU().corpus_score(good, [references], n_bootstrap=400)
    scorer = Scorer("bleu", [references])
    ours = bootstrap_interval(scorer.kind.formula, scorer.statistics(good), 400, 12345)
    assert ours.mean == pytest.approx(theirs._mean, abs=1e-3)
    assert ours.half_width == pytest.approx(theirs._ci, abs=1e-3)
    assert ours.low < theirs.score < ours.high


@pytest.mark.parametrize("test", TESTS)
def test_chunks_change_nothing(test: str, monkeypatch: pytest.MonkeyPatch) -> None:
    references, good, worse = corpus()
    scorer = Scorer("bleu", [references])
    arguments = (scorer.kind.formula, scorer.statistics(good), scorer.statistics(worse[:30] + good[30:]), 200, 7)
    whole = TESTS[test][0](*arguments)
    monkeypatch.setattr(significance, "_CHUNK", 64)
    assert TESTS[test][0](*arguments) == whole


def test_resampling_draws_with_replacement() -> None:
    sums = resampled_sums(np.eye(5), trials=2000, seed=3)
    assert (sums.sum(axis=1) == 5).all()
    assert sums.mean(axis=0) == pytest.approx(np.ones(5), abs=0.1)
    assert sums.max() > 1


@pytest.mark.parametrize("test", TESTS)
def test_chance_is_found_out_as_often_as_the_level_says(test: str) -> None:
    """Two systems of one quality: p below 0.1 in about one of ten corpora, in either direction."""
    draw = np.random.default_rng(11)
    found = []
    for _ in range(200):
        errors = draw.integers(0, 6, size=(2, 80)).astype(float)
        length = np.full(80, 10.0)
        a, b = (np.stack([system, length], axis=1) for system in errors)
        found.append(TESTS[test][0](METRICS["ter"].formula, a, b, 200, 1))
    assert 0.04 < np.mean(np.array(found) < 0.1) < 0.17
