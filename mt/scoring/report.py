"""What an evaluation found: scores of systems, differences between them, expectations; as JSON and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mt.scoring.config import Expected
from mt.scoring.metrics import JSON_DIGITS, METRICS, Interval, Score, display, higher_is_better

SIGNIFICANT = 0.05
# Measured and promised scores are written with JSON_DIGITS decimals; less than half of the last one is no miss.
_SLACK: float = 0.5 * 10**-JSON_DIGITS


@dataclass(frozen=True)
class Comparison:
    """A system's difference from the baseline in one metric."""

    metric: str
    difference: float
    """System minus baseline: below zero is better where the metric is an error rate."""
    p_value: float
    """Probability of such a difference in either direction by chance alone."""
    signature: str
    """The score's signature with the trials and the seed of the test."""


@dataclass(frozen=True)
class System:
    """A file of translations, scored."""

    name: str
    scores: tuple[Score, ...]
    comparisons: tuple[Comparison, ...] = ()
    """With the baseline; none for the baseline itself."""

    def score(self, metric: str) -> Score:
        """This system's score in `metric`, which was among the metrics asked for."""
        return next(score for score in self.scores if score.metric == metric)


@dataclass(frozen=True)
class TestResult:
    """All systems on one test set; the first is the baseline of the comparisons."""

    __test__ = False  # not a test, whatever pytest thinks of the name

    name: str
    lines: int
    references: tuple[str, ...]
    systems: tuple[System, ...]
    paired: str = ""
    """The significance test, in words; empty where nothing was compared."""


@dataclass(frozen=True)
class Expectation:
    """A promised score and the measured one."""

    test: str
    metric: str
    expected: Expected
    measured: float

    @property
    def shortfall(self) -> float:
        """By how much the measured score is worse than promised; below zero where it is better."""
        worse = self.expected.value - self.measured
        return worse if higher_is_better(self.metric) else -worse

    @property
    def kept(self) -> bool:
        """Whether the shortfall is within the tolerance."""
        return self.shortfall <= self.expected.tolerance + _SLACK

    def __str__(self) -> str:
        promise = f"{self.test} {METRICS[self.metric].label}: expected {self.expected.value:g}"
        tolerance = f" (tolerance {self.expected.tolerance:g})" if self.expected.tolerance else ""
        verdict = "kept" if self.kept else f"missed by {self.shortfall - self.expected.tolerance:.{JSON_DIGITS}f}"
        return f"{promise}{tolerance}, measured {self.measured:.{JSON_DIGITS}f}: {verdict}"


@dataclass(frozen=True)
class Evaluation:
    """All that an evaluation found."""

    tests: tuple[TestResult, ...]
    expectations: tuple[Expectation, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether every expectation that was checked is kept."""
        return all(expectation.kept for expectation in self.expectations)

    def to_json(self) -> dict[str, Any]:
        """Plain mappings and lists; scores are rounded to four decimals."""
        found: dict[str, Any] = {"tests": {test.name: _test_json(test) for test in self.tests}}
        if self.expectations:
            found["expectations"] = [_expectation_json(expectation) for expectation in self.expectations]
        return found


def _rounded(value: float) -> float:
    return round(value, JSON_DIGITS)


def _test_json(test: TestResult) -> dict[str, Any]:
    found: dict[str, Any] = {"lines": test.lines, "references": list(test.references)}
    if test.paired:
        found["paired"] = test.paired
    return {**found, "systems": [_system_json(system) for system in test.systems]}


def _system_json(system: System) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": system.name,
        "scores": {score.metric: _score_json(score) for score in system.scores},
    }
    if system.comparisons:
        found["comparisons"] = {
            comparison.metric: {
                "difference": _rounded(comparison.difference),
                "p": comparison.p_value,
                "signature": comparison.signature,
            }
            for comparison in system.comparisons
        }
    return found


def _score_json(score: Score) -> dict[str, Any]:
    found: dict[str, Any] = {"value": _rounded(score.value), "signature": score.signature}
    if score.details:
        found["details"] = score.details
    if score.interval:
        interval = score.interval
        found["confidence"] = {name: _rounded(getattr(interval, name)) for name in ("mean", "low", "high")}
    return found


def _expectation_json(expectation: Expectation) -> dict[str, Any]:
    return {
        "test": expectation.test,
        "metric": expectation.metric,
        "expected": expectation.expected.value,
        "tolerance": expectation.expected.tolerance,
        "measured": _rounded(expectation.measured),
        "kept": expectation.kept,
    }


def table(evaluation: Evaluation) -> str:
    """The evaluation as text: a table for each test set, then the signatures, then the expectations."""
    blocks = ["\n".join(_test_lines(test)) for test in evaluation.tests]
    if evaluation.expectations:
        blocks.append("\n".join(str(expectation) for expectation in evaluation.expectations))
    return "\n\n".join(blocks)


def _test_lines(test: TestResult) -> list[str]:
    metrics = [score.metric for score in test.systems[0].scores]
    rows = [[test.name, *(_heading(metric) for metric in metrics)]]
    rows += [[system.name, *(_cell(system, metric) for metric in metrics)] for system in test.systems]
    lines = [*_aligned(rows), ""]
    lines += [f"{METRICS[score.metric].label}|{score.signature}" for score in test.systems[0].scores]
    for system in test.systems:
        lines += [
            f"{system.name}: {METRICS[score.metric].label} {score.details}" for score in system.scores if score.details
        ]
    if test.paired:
        lines.append(f"p: {test.paired}, against {test.systems[0].name}; * is p < {SIGNIFICANT}")
    return lines


def _heading(metric: str) -> str:
    return METRICS[metric].label + ("" if higher_is_better(metric) else " (lower is better)")


def _cell(system: System, metric: str) -> str:
    score = system.score(metric)
    parts = [display(score.value), *([_interval(score.interval)] if score.interval else [])]
    for comparison in system.comparisons:
        if comparison.metric == metric:
            parts.append(f"(p = {comparison.p_value:.4f}{'*' if comparison.p_value < SIGNIFICANT else ''})")
    return " ".join(parts)


def _interval(interval: Interval) -> str:
    return f"[{display(interval.low)}, {display(interval.high)}]"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
