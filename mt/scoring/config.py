"""The recipe's `evaluate` block. It imports no sacreBLEU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mt.config import option
from mt.errors import ConfigError
from mt.scoring.tokenizers import DEFAULT, TOKENIZERS, tokenizer_for

if TYPE_CHECKING:
    from mt.scoring.metrics import References, Scorer

METRIC_NAMES = ("bleu", "chrf", "chrf++", "ter")


@dataclass(frozen=True)
class Expected:
    """A score that a recipe promises: `value`, and how far the measured one may lie below it (above it, for TER)."""

    value: float = option(help="the score promised")
    tolerance: float = option(0.0, help="how much worse is still as promised", ge=0)


@dataclass(frozen=True)
class EvaluateConfig:
    """How translations are scored, always through sacreBLEU and always with a signature."""

    metrics: tuple[str, ...] = option(("bleu", "chrf"), help="scores to report", choices=METRIC_NAMES)
    tokenize: str | None = option(
        None,
        help="sacreBLEU tokenizer of BLEU; null: by data.tgt_lang (zh, ja-mecab, ko-mecab, char for languages written "
        "without spaces, else 13a)",
        choices=tuple(TOKENIZERS),
    )
    lowercase: bool = option(
        False,
        help="disregard case in BLEU and chrF; TER always does. As in Unicode, not as in Turkish: İ becomes i and "
        "U+0307, which is not i",
    )
    confidence: int = option(0, help="bootstrap samples for 95 % confidence intervals; 0: none", ge=0)
    paired: str = option(
        "bootstrap",
        help="significance test of several systems against the first: paired bootstrap, paired randomization or none",
        choices=("bootstrap", "randomization", "none"),
    )
    trials: int = option(1000, help="trials of the significance test; p is never below 1 / (trials + 1)", ge=1)
    seed: int = option(12345, help="of the resampling; the default is sacreBLEU's", ge=0)
    expect: dict[str, dict[str, Expected]] = option(
        factory=dict, help="scores the recipe promises: {test set: {metric: {value, tolerance}}}"
    )

    def __post_init__(self) -> None:
        if not self.metrics:
            raise ConfigError(f"evaluate.metrics must name at least one of {', '.join(METRIC_NAMES)}.")
        twice = [name for name in METRIC_NAMES if self.metrics.count(name) > 1]
        if twice:
            raise ConfigError(f"evaluate.metrics names {twice[0]} twice.")
        for test, scores in self.expect.items():
            for metric in scores:
                if metric not in self.metrics:
                    raise ConfigError(
                        f"evaluate.expect.{test}.{metric} is not among evaluate.metrics ({', '.join(self.metrics)}): "
                        "a score that is not computed cannot be expected."
                    )

    def build(self, metric: str, references: References, tgt_lang: str | None) -> Scorer:
        """What scores translations in `metric` against `references`, a list a reference set.

        Validation in training and `mt evaluate` both score with it, so that one translation has one score.

        Raises:
            MissingExtraError: the tokenizer's package is not installed; DataError: references of the wrong shape.
        """
        from mt.scoring.metrics import Scorer

        return Scorer(metric, references, self.tokenizer(metric, tgt_lang), self.lowercase)

    def tokenizer(self, metric: str, tgt_lang: str | None) -> str:
        """BLEU's tokenizer; other metrics have their own, and need no package that this one needs."""
        return tokenizer_for(tgt_lang, self.tokenize) if metric == "bleu" else DEFAULT
