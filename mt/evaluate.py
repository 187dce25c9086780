"""Evaluate: files of translations, or a run's test sets -> scores with signatures.

A new metric goes into `METRICS` of mt/scoring/metrics.py; nothing changes here.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mt.errors import ConfigError, DataError, plural
from mt.events import Event, Notice, Progress
from mt.recipe import Recipe
from mt.scoring.checks import strange, strange_references
from mt.scoring.config import EvaluateConfig
from mt.scoring.formulas import FloatArray
from mt.scoring.metrics import References, Score, Scorer
from mt.scoring.report import Comparison, Evaluation, Expectation, System, TestResult
from mt.scoring.significance import TESTS, bootstrap_interval
from mt.text.files import read_lines, write_json

if TYPE_CHECKING:
    import torch

SCORES_FILE = "scores.json"  # in a run folder


@dataclass(frozen=True)
class _Text:
    """A file's lines, under the name that reports call it by."""

    name: str
    lines: list[str]


def evaluate_files(
    hypotheses: Sequence[Path],
    references: Sequence[Path],
    config: EvaluateConfig | None = None,
    tgt_lang: str | None = None,
    name: str = "test",
) -> Generator[Event, None, Evaluation]:
    """Score files of translations against files of references; several systems are compared with the first.

    Args:
        hypotheses: a file a system, plain text (not tokenised), one sentence a line.
        references: a file a reference set.
        config: metrics, tokenizer, case, resampling.
        tgt_lang: language of the text, which chooses BLEU's tokenizer unless the config does.
        name: what the report calls the test set.

    Raises:
        ConfigError, MissingExtraError: settings; DataError: a file cannot be read or has another number of lines.
    """
    result = yield from _evaluate(hypotheses, references, config or EvaluateConfig(), tgt_lang, name)
    return Evaluation((result,))


def evaluate_run(
    recipe: Recipe, device: torch.device | str = "auto", checkpoint: str | None = None, check: bool = False
) -> Generator[Event, None, Evaluation]:
    """Score a run on all test sets of its recipe, against the references' raw text; writes scores.json.

    Tests are translated first where their translations are not up to date.

    Args:
        recipe: the run's effective recipe; the run folder is its `model_dir`.
        device: where to translate.
        checkpoint: a checkpoint of the run in place of its final model.
        check: compare with the scores that `evaluate.expect` promises.

    Raises:
        ConfigError: no test set; RunError: no trained model; DataError: a text is missing or of another length.
    """
    if not recipe.data.test:
        raise ConfigError("data.test names no test set: there is nothing to evaluate.")
    from mt.translate import translate_tests

    translations = yield from translate_tests(recipe, device, checkpoint)
    results = []
    for name, test in recipe.data.test.items():
        work = _evaluate([translations[name]], test.tgt, recipe.evaluate, recipe.data.tgt_lang, name)
        results.append((yield from work))
    found = Evaluation(tuple(results))
    if check:
        found = replace(found, expectations=expectations(found, recipe.evaluate))
    write_json(recipe.model_dir / SCORES_FILE, found.to_json())
    return found


def _evaluate(
    hypotheses: Sequence[Path], references: Sequence[Path], config: EvaluateConfig, tgt_lang: str | None, name: str
) -> Generator[Event, None, TestResult]:
    """One test set."""
    for metric in config.metrics:
        config.tokenizer(metric, tgt_lang)  # its package may be missing: said before anything is read
    if not hypotheses or not references:
        raise ConfigError("Evaluation needs at least one file of translations and one file of references.")
    systems, refs = _read(hypotheses), _read(references)
    _check_lengths(systems, refs)
    sets = [text.lines for text in refs]
    for sentence in strange_references([(text.name, text.lines) for text in refs]):
        yield Notice(sentence)
    for text in systems:
        for sentence in strange(text.name, text.lines, sets, tokenised=config.tokenize == "none"):
            yield Notice(sentence)
    scored = yield from _score(systems, sets, config, tgt_lang)
    compared = len(systems) > 1 and config.paired in TESTS
    trials = f"{config.trials} {plural(config.trials, 'trial')}"
    paired = f"paired {config.paired}, {trials}, seed {config.seed}" if compared else ""
    return TestResult(name, len(sets[0]), tuple(str(path) for path in references), scored, paired)


def _read(paths: Sequence[Path]) -> list[_Text]:
    """The files' lines; a file is called by its name, or by its path where two have the same name."""
    names = [path.name for path in paths]
    called = [path.name if names.count(path.name) == 1 else str(path) for path in paths]
    return [_Text(name, list(read_lines(path))) for name, path in zip(called, paths, strict=True)]


def _check_lengths(systems: Sequence[_Text], references: Sequence[_Text]) -> None:
    first = references[0]
    if not first.lines:
        raise DataError(f"{first.name} has no lines: there is nothing to score.")
    for text in [*references[1:], *systems]:
        if len(text.lines) != len(first.lines):
            raise DataError(
                f"{text.name} has {_count(text)}, but {first.name} has {_count(first)}: line k of one must belong to "
                "line k of the other."
            )


def _count(text: _Text) -> str:
    return f"{len(text.lines)} {plural(len(text.lines), 'line')}"


def _score(
    systems: Sequence[_Text], references: References, config: EvaluateConfig, tgt_lang: str | None
) -> Generator[Event, None, tuple[System, ...]]:
    """Metric after metric, so that the references' statistics are computed once and one metric's are held at a time."""
    scores: list[list[Score]] = [[] for _ in systems]
    comparisons: list[list[Comparison]] = [[] for _ in systems]
    done, total = 0, len(systems) * len(config.metrics)
    for metric in config.metrics:
        scorer = config.build(metric, references, tgt_lang)
        baseline: FloatArray | None = None
        for index, text in enumerate(systems):
            yield Progress("evaluate", done, total, unit="scores", detail=f"{scorer.kind.label} of {text.name}")
            statistics = scorer.statistics(text.lines)
            scores[index].append(_with_interval(scorer, statistics, config))
            if baseline is not None and config.paired in TESTS:
                comparisons[index].append(_compare(scorer, baseline, statistics, config))
            baseline = statistics if baseline is None else baseline
            done += 1
    yield Progress("evaluate", done, total, unit="scores")
    parts = zip(systems, scores, comparisons, strict=True)
    return tuple(System(text.name, tuple(of), tuple(against)) for text, of, against in parts)


def _with_interval(scorer: Scorer, statistics: FloatArray, config: EvaluateConfig) -> Score:
    if not config.confidence:
        return scorer.score(statistics)
    interval = bootstrap_interval(scorer.kind.formula, statistics, config.confidence, config.seed)
    return scorer.score(statistics, interval, bs=config.confidence, seed=config.seed)


def _compare(scorer: Scorer, baseline: FloatArray, system: FloatArray, config: EvaluateConfig) -> Comparison:
    test, key = TESTS[config.paired]
    p_value = test(scorer.kind.formula, baseline, system, config.trials, config.seed)
    difference = scorer.score(system).value - scorer.score(baseline).value
    signature = scorer.signature(**{key: config.trials, "seed": config.seed})
    return Comparison(scorer.metric, round(difference, 10), p_value, signature)


def expectations(evaluation: Evaluation, config: EvaluateConfig) -> tuple[Expectation, ...]:
    """Each score that `evaluate.expect` promises, beside the first system's score on that test.

    Raises:
        ConfigError: a promise for a test that was not evaluated.
    """
    tests = {test.name: test for test in evaluation.tests}
    found = []
    for name, promised in config.expect.items():
        if name not in tests:
            raise ConfigError(f"evaluate.expect.{name} names no test set; data.test has {', '.join(tests) or 'none'}.")
        for metric, expected in promised.items():
            found.append(Expectation(name, metric, expected, tests[name].systems[0].score(metric).value))
    return tuple(found)
