"""The recipe's `decode` block. It imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

from mt.config import default_of, option, refuse_idle
from mt.errors import ConfigError

BATCH_TOKENS = 4096
"""Rows x longest side of a batch, at most, where the recipe does not say it."""


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
        refuse_idle(self, "decode.length_penalty", "kind", {"alpha": ("average", "wu")})


_BEAMS = ("beam", "diverse", "alternatives")
_OPTIONS = {
    "beam_groups": ("diverse",),
    "diversity_penalty": ("diverse",),
    "samples": ("sample",),
    "temperature": ("sample",),
    "top_k": ("sample",),
    "top_p": ("sample",),
    "seed": ("sample",),
    "coverage_penalty": _BEAMS,
    "mbr_metric": ("beam", "diverse", "sample"),
}
"""Key -> the searches that read it; with another search it must be left out."""


@dataclass(frozen=True)
class DecodeConfig:
    """How a translation is searched for."""

    search: str = option(
        "beam",
        help="beam; greedy (always the most probable piece); diverse (groups of a beam that avoid one another's "
        "pieces); sample; alternatives (the n_best most probable pieces after the line's prefix, completed by beam)",
        choices=("beam", "greedy", "diverse", "sample", "alternatives"),
    )
    beam_size: int = option(5, help="hypotheses kept a step; greedy and sample have no use for it", ge=1)
    beam_groups: int | None = option(None, help="diverse: groups of the beam; null: beam_size groups of one", ge=1)
    diversity_penalty: float = option(
        0.5, help="diverse: taken from a piece's log-probability for each hypothesis that just took it", ge=0
    )
    samples: int = option(1, help="sample: draws a line, of which the n_best of highest score are returned", ge=1)
    temperature: float = option(1.0, help="sample: below 1 the probable pieces get more probable", gt=0)
    top_k: int | None = option(None, help="sample: only from so many most probable pieces; null: all", ge=1)
    top_p: float = option(1.0, help="sample: only from the most probable pieces with so much mass", gt=0, le=1)
    seed: int = option(1, help="sample: draws are a function of the seed, the line's number and the draw's", ge=0)
    length_penalty: LengthPenaltyConfig = field(default_factory=LengthPenaltyConfig)
    coverage_penalty: float = option(
        0.0,
        help="beta of Wu et al. 2016, section 7: favours hypotheses that attended to all of the source; 0: none",
        ge=0,
    )
    n_best: int = option(1, help="translations returned a line", ge=1)
    mbr_metric: str | None = option(
        None,
        help="minimum Bayes risk: rank all hypotheses of the beam, or all samples, by how well they score under this "
        "metric with the others as references; null: by log-probability and length penalty",
        choices=("bleu", "chrf", "chrf++", "ter"),
    )
    min_length: int = option(0, help="fewest pieces of a translation; not above max_length", ge=0)
    min_length_ratio: float = option(
        0.0, help="and fewest as a multiple of the source pieces, unless max_length is below", ge=0
    )
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
        None,
        help="most pieces of a source that is not too long; null: more pieces or sentences than 99 of 100 lines of the "
        "training had are too long",
        ge=1,
    )
    batch_tokens: int | None = option(
        None,
        help=f"source budget of a batch: rows x longest; null: {BATCH_TOKENS}, on a CPU less of a model that is wider "
        "than 128",
        ge=1,
    )
    precision: str = option(
        "fp32",
        help="of the products: fp32, or on a CPU bf16 or int8, faster and less exact",
        choices=("fp32", "bf16", "int8"),
    )

    def __post_init__(self) -> None:
        refuse_idle(self, "decode", "search", _OPTIONS)
        refuse_idle(self, "decode", "long_source", {"max_source_length": ("split", "cut")})
        if self.search == "greedy" and self.n_best > 1:
            raise ConfigError(
                f"decode.n_best ({self.n_best}) must be 1 with decode.search greedy, which finds one translation."
            )
        if self._most is not None and self.n_best > self._most:
            key = "decode.samples" if self.search == "sample" else "decode.beam_size"
            raise ConfigError(f"decode.n_best ({self.n_best}) must not be above {key} ({self._most}).")
        if self.beam_size % (self.beam_groups or 1):
            raise ConfigError(
                f"decode.beam_groups ({self.beam_groups}) must divide decode.beam_size ({self.beam_size})."
            )
        if self.max_length is not None and self.min_length > self.max_length:
            raise ConfigError(
                f"decode.min_length ({self.min_length}) must not be above decode.max_length ({self.max_length})."
            )
        if self.min_length_ratio > self.max_length_ratio:
            raise ConfigError(
                f"decode.min_length_ratio ({self.min_length_ratio:g}) must not be above decode.max_length_ratio "
                f"({self.max_length_ratio:g})."
            )

    def plain_beam(self, beam_size: int) -> DecodeConfig:
        """These settings with plain beam search for the best translation, whatever search they name."""
        others = {name: default_of(DecodeConfig, name) for name, searches in _OPTIONS.items() if "beam" not in searches}
        return replace(self, search="beam", beam_size=beam_size, n_best=1, **others)

    @property
    def _most(self) -> int | None:
        """How many translations a search can return; None: as many as there are pieces."""
        return {"alternatives": None, "greedy": 1, "sample": self.samples}.get(self.search, self.beam_size)

    @property
    def group_size(self) -> int:
        """Hypotheses of each group of the beam."""
        return self.beam_size // (self.beam_groups or self.beam_size)

    @property
    def candidates(self) -> int:
        """Hypotheses to ask a search for: more than `n_best` where they are ranked anew, or may spell one text."""
        if self._most is None or (self.n_best == 1 and self.mbr_metric is None):
            return self.n_best
        return self._most

    def shortest(self, source_pieces: int) -> int:
        """Fewest pieces of a translation of a source of `source_pieces`, the end mark not counted."""
        fewest = max(self.min_length, int(self.min_length_ratio * source_pieces))
        return fewest if self.max_length is None else min(self.max_length, fewest)

    def limit(self, source_pieces: int, room: float = inf) -> int:
        """Most pieces of a translation of a source of `source_pieces`, the end mark not counted.

        `room`: the most that the model can hold.
        """
        relative = int(self.max_length_ratio * source_pieces) + 50
        most = relative if self.max_length is None else min(self.max_length, relative)
        return int(min(max(most, self.shortest(source_pieces)), room))
