"""The recipe's `evaluate` block."""

from __future__ import annotations

from dataclasses import dataclass, field

from mt.config import option


@dataclass(frozen=True)
class Expected:
    """A score that a recipe promises: `value`, and how far the measured one may lie below it (above it, for TER)."""

    value: float = option(help="the score promised")
    tolerance: float = option(0.0, help="how much worse is still as promised", ge=0)


@dataclass(frozen=True)
class EvaluateConfig:
    """How translations are scored, always through sacreBLEU and always with a signature."""

    metrics: tuple[str, ...] = option(("bleu", "chrf"), help="scores to report", choices=("bleu", "chrf", "chrf++", "ter"))
    tokenize: str | None = option(None, help="sacreBLEU tokenizer of BLEU; null: chosen by data.tgt_lang")
    lowercase: bool = option(False, help="score without regard to case")
    expect: dict[str, dict[str, Expected]] = field(default_factory=dict)
