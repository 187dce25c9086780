"""The metrics, all through sacreBLEU, and the scores that carry its signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mt.errors import ConfigError, DataError, plural
from mt.scoring import formulas
from mt.scoring.formulas import FloatArray
from mt.scoring.tokenizers import DEFAULT, tokenizer_for

# One list a reference set; None where a sentence has fewer references than others.
References = Sequence[Sequence["str | None"]]

# Scores closer than this are equal: sums of floats leave dust, such as 100.00000000000004.
TOLERANCE = 1e-9
DISPLAY_DIGITS = 2
JSON_DIGITS = 4


@dataclass(frozen=True)
class Interval:
    """What bootstrap resampling says of a score: its mean, and the bounds of 95 % of the resampled scores."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the distance between the bounds, which sacreBLEU prints after a plus-minus sign."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Score:
    """A score and how it was made: without its signature it is not a result."""

    metric: str
    """Key of METRICS."""
    value: float
    """On the scale of 0 to 100 (TER may be above), free of floating-point dust."""
    signature: str
    """sacreBLEU's."""
    details: str = ""
    """The counts behind BLEU and TER, in sacreBLEU's words."""
    interval: Interval | None = None

    def __str__(self) -> str:
        return f"{METRICS[self.metric].label} = {display(self.value)} ({self.signature})"


def display(value: float) -> str:
    """A score as people read it, to two decimals."""
    return f"{value:.{DISPLAY_DIGITS}f}"


@dataclass(frozen=True)
class Metric:
    """A way to score a corpus."""

    label: str
    higher_is_better: bool
    make: Callable[[str, bool, Any], Any]
    """(tokenizer, lowercase, references) -> sacreBLEU's metric, with the references' statistics computed."""
    formula: Callable[[FloatArray], FloatArray]
    """Summed statistics (R, K) -> scores (R,)."""
    details: Callable[[Any], str] = lambda _score: ""


def _bleu(tokenizer: str, lowercase: bool, references: Any) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    # `force` silences sacreBLEU's own warning on stderr; mt.scoring.checks gives it as a notice.
    return BLEU(tokenize=tokenizer, lowercase=lowercase, force=True, references=references)


def _chrf(_tokenizer: str, lowercase: bool, references: Any, word_order: int = 0) -> Any:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF(lowercase=lowercase, word_order=word_order, references=references)


def _chrf_plus(tokenizer: str, lowercase: bool, references: Any) -> Any:
    return _chrf(tokenizer, lowercase, references, word_order=2)


def _ter(_tokenizer: str, _lowercase: bool, references: Any) -> Any:
    from sacrebleu.metrics.ter import TER

    return TER(references=references)  # disregards case by its own convention, as its signature says


def _bleu_details(score: Any) -> str:
    lengths = f"ratio = {score.ratio:.3f} hyp_len = {score.sys_len} ref_len = {score.ref_len}"
    return f"{score.prec_str} (BP = {score.bp:.3f} {lengths})"


def _ter_details(score: Any) -> str:
    return f"{score.num_edits} edits of {score.ref_length:g} words"


METRICS: dict[str, Metric] = {
    "bleu": Metric("BLEU", True, _bleu, formulas.bleu, _bleu_details),
    "chrf": Metric("chrF2", True, _chrf, formulas.chrf),
    "chrf++": Metric("chrF2++", True, _chrf_plus, formulas.chrf),
    "ter": Metric("TER", False, _ter, formulas.ter, _ter_details),
}


def metric_named(name: str) -> Metric:
    """The metric of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in METRICS:
        raise ConfigError(f"'{name}' is not a metric; choose one of {', '.join(METRICS)}.")
    return METRICS[name]


def higher_is_better(name: str) -> bool:
    """True for BLEU and chrF, False for TER, an error rate."""
    return metric_named(name).higher_is_better


def is_better(name: str, value: float, than: float) -> bool:
    """Whether `value` beats `than` in the metric's direction by more than floating-point dust."""
    gain = value - than if higher_is_better(name) else than - value
    return gain > TOLERANCE


class Scorer:
    """One metric against one set of references, whose statistics are computed once for all systems."""

    def __init__(self, metric: str, references: References, tokenize: str = DEFAULT, lowercase: bool = False) -> None:
        """Read the references.

        Args:
            metric: key of METRICS.
            references: one list a reference set, all of the same length; None where a sentence has fewer references.
            tokenize: what BLEU counts words with, a key of TOKENIZERS; the other metrics have their own.
            lowercase: disregard case (BLEU, chrF); TER always does.

        Raises:
            ConfigError, MissingExtraError: no such metric or tokenizer; DataError: references of the wrong shape.
        """
        self.metric = metric
        self.kind = metric_named(metric)
        self.lines = _check_references(references)
        self._sacrebleu = self.kind.make(tokenizer_for(None, tokenize), lowercase, references)

    def statistics(self, hypotheses: Sequence[str]) -> FloatArray:
        """What the metric counts in each sentence, (lines, K).

        Raises:
            DataError: not as many hypotheses as references.
        """
        _check_hypotheses(hypotheses, self.lines)
        # Not public in sacreBLEU, but its own significance tests stand on these two methods.
        return np.array(self._sacrebleu._extract_corpus_statistics(hypotheses, None), dtype=np.float64)

    def score(self, statistics: FloatArray, interval: Interval | None = None, **resampling: int) -> Score:
        """The corpus' score from `statistics` (lines, K); `resampling` goes into the signature."""
        sums = statistics.sum(axis=0)
        # sacreBLEU prints counts with the format of whole numbers.
        whole = [int(value) if value.is_integer() else value for value in sums.tolist()]
        result = self._sacrebleu._compute_score_from_stats(whole)
        value = round(float(result.score), 10)
        return Score(self.metric, value, self.signature(**resampling), self.kind.details(result), interval)

    def signature(self, **resampling: int) -> str:
        """sacreBLEU's signature, with `bs` or `ar` (trials) and `seed` where the score was resampled."""
        signature = self._sacrebleu.get_signature()
        for key, value in resampling.items():
            signature.update(key, value)
        return str(signature.format())


def score(
    hypotheses: Sequence[str], references: References, metric: str, tokenize: str = DEFAULT, lowercase: bool = False
) -> Score:
    """Score one system; see `Scorer`, which keeps the references' statistics for the next one."""
    scorer = Scorer(metric, references, tokenize, lowercase)
    return scorer.score(scorer.statistics(hypotheses))


def _check_references(references: References) -> int:
    """The number of lines that every reference set has."""
    if isinstance(references, str) or not references or any(isinstance(lines, str) for lines in references):
        raise DataError("References must be a list of reference sets, each a list with a line for each hypothesis.")
    counts = {len(lines) for lines in references}
    if counts == {0}:
        raise DataError("There is nothing to score: the references have no lines.")
    if len(counts) > 1:
        found = ", ".join(str(len(lines)) for lines in references)
        raise DataError(f"The reference sets differ in their numbers of lines: {found}.")
    for number, lines in enumerate(zip(*references, strict=True), start=1):
        if all(line is None for line in lines):
            raise DataError(f"Line {number} has no reference at all; an empty reference is an empty line, not None.")
    return counts.pop()


def _check_hypotheses(hypotheses: Sequence[str], lines: int) -> None:
    if isinstance(hypotheses, str):
        raise DataError("Hypotheses must be a list of lines, not one string.")
    if len(hypotheses) != lines:
        count = len(hypotheses)
        raise DataError(
            f"The translations have {count} {plural(count, 'line')}, but each reference set has {lines} "
            f"{plural(lines, 'line')}."
        )
