"""The recipe's `decode` block. It imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field

from mt.config import option
from mt.errors import ConfigError


@dataclass(frozen=True)
class LengthPenaltyConfig:
    """What a hypothesis' summed log-probability is divided by."""

    kind: str = option(
        "average",
        help="average: L^alpha; wu: ((5+L)/6)^alpha (Wu et al. 2016, section 7); none. L counts the end mark",
        choices=("average", "wu", "none"),
    )
    alpha: float = option(1.0, help="exponent; 0 is the plain sum, larger favours longer output", ge=0)

    def __post_init__(self) -> None:
        if self.kind == "none" and self.alpha != 1.0:
            raise ConfigError(
                f"decode.length_penalty.alpha {self.alpha:g} belongs to decode.length_penalty.kind average or wu, but "
                "the kind is none: choose one of those, or leave alpha at 1."
            )


@dataclass(frozen=True)
class DecodeConfig:
    """How a translation is searched for."""

    search: str = option("beam", help="how translations are searched for", choices=("beam",))
    beam_size: int = option(5, help="hypotheses kept a step; 1 is greedy", ge=1)
    length_penalty: LengthPenaltyConfig = field(default_factory=LengthPenaltyConfig)
    n_best: int = option(1, help="translations returned a line", ge=1)
    min_length: int = option(0, help="fewest pieces of a translation, unless max_length is below", ge=0)
    min_length_ratio: float = option(0.0, help="and fewest as a multiple of the source pieces", ge=0)
    max_length: int | None = option(None, help="most pieces of a translation; null: only the ratio limits", ge=1)
    max_length_ratio: float = option(2.0, help="a translation ends at this x source pieces + 50", gt=0)
    no_repeat_ngram_size: int | None = option(
        None, help="no sequence of so many pieces occurs twice in a translation; null: whatever the model says", ge=1
    )
    repetition_penalty: float = option(
        1.0, help="multiplies the log-probability of pieces already there (Keskar et al. 2019); 1 is none", ge=1
    )
    unknown: str = option(
        "mark",
        help="an unknown piece of a translation: its mark; the source word that it comes from; or none is generated",
        choices=("mark", "copy", "forbid"),
    )
    long_source: str = option(
        "split",
        help="a source that is too long: split at sentence ends and joined again, cut, or translated whole",
        choices=("split", "cut", "whole"),
    )
    max_source_length: int | None = option(
        None, help="most pieces of a source that is not too long; null: data.filters.max_length of the training", ge=1
    )
    batch_tokens: int = option(4096, help="source budget of a batch: rows x longest", ge=1)

    def __post_init__(self) -> None:
        if self.n_best > self.beam_size:
            raise ConfigError(f"decode.n_best ({self.n_best}) must not be above decode.beam_size ({self.beam_size}).")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ConfigError(
                f"decode.min_length ({self.min_length}) must not be above decode.max_length ({self.max_length})."
            )
        if self.min_length_ratio > self.max_length_ratio:
            raise ConfigError(
                f"decode.min_length_ratio ({self.min_length_ratio:g}) must not be above decode.max_length_ratio "
                f"({self.max_length_ratio:g})."
            )

    def shortest(self, source_pieces: int) -> int:
        """Fewest pieces of a translation of a source of `source_pieces`, the end mark not counted."""
        fewest = max(self.min_length, int(self.min_length_ratio * source_pieces))
        return fewest if self.max_length is None else min(self.max_length, fewest)

    def limit(self, source_pieces: int) -> int:
        """Most pieces of a translation of a source of `source_pieces`, the end mark not counted."""
        relative = int(self.max_length_ratio * source_pieces) + 50
        most = relative if self.max_length is None else min(self.max_length, relative)
        return max(most, self.shortest(source_pieces))
