"""What the papers claim, and whether it shows in the results: each verdict is computed, none is written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.side_by_side.results import Result
from benchmarks.side_by_side.speed import Speeds
from mt.scoring.formulas import FloatArray, bleu
from mt.scoring.report import SIGNIFICANT
from mt.scoring.significance import paired_bootstrap

TRIALS, SEED = 1000, 12345
ORDERS = 4
"""Of BLEU's n-grams."""
CLEAR = 1.05
"""How many times as fast is faster: less may come from what the machine did before a turn."""


@dataclass(frozen=True)
class Found:
    """All that there is to judge by."""

    results: dict[str, Result]
    speeds: Speeds | None


@dataclass(frozen=True)
class Finding:
    """What the results say of a claim."""

    verdict: str
    evidence: str


@dataclass(frozen=True)
class Claim:
    """That `first` does better than `second` in what `judge` looks at."""

    text: str
    source: str
    judge: Callable[[Found, str, str], Finding]
    first: str
    second: str

    def finding(self, found: Found) -> Finding:
        """The verdict; where a model was not trained there is none."""
        missing = [name for name in (self.first, self.second) if name not in found.results]
        if missing:
            return Finding("not tested", f"not trained: {', '.join(missing)}")
        return self.judge(found, self.first, self.second)


def better(found: Found, first: str, second: str) -> Finding:
    """BLEU on all sentences."""
    mine, other = found.results[first], found.results[second]
    p = paired_bootstrap(bleu, other.statistics, mine.statistics, TRIALS, SEED)
    values = f"BLEU {mine.bleu:.2f} ({first}) and {other.bleu:.2f} ({second})"
    return _finding(mine.bleu - other.bleu, p, values)


def more_on_long_sentences(found: Found, first: str, second: str) -> Finding:
    """Whether the difference in BLEU is larger on the longest third of the sentences than on the shortest."""
    mine, other = found.results[first], found.results[second]
    ranks = mine.lengths.argsort(kind="stable").argsort(kind="stable")
    short, long = ranks < len(ranks) // 3, ranks >= len(ranks) - len(ranks) // 3
    if not short.any():
        return Finding("not tested", f"{len(ranks)} sentences have no thirds")

    def halves(result: Result) -> FloatArray:
        return np.concatenate([result.statistics * short[:, None], result.statistics * long[:, None]], 1)

    def long_minus_short(sums: FloatArray) -> FloatArray:
        width = sums.shape[1] // 2
        return bleu(sums[:, width:]) - bleu(sums[:, :width])

    gaps = [mine.bleu_of(part) - other.bleu_of(part) for part in (short, long)]
    p = paired_bootstrap(long_minus_short, halves(other), halves(mine), TRIALS, SEED)
    limits = f"up to {mine.lengths[short].max()} words", f"{mine.lengths[long].min()} words and more"
    values = f"{first} is ahead by {gaps[0]:+.2f} BLEU on sources of {limits[0]}, by {gaps[1]:+.2f} on {limits[1]}"
    return _finding(gaps[1] - gaps[0], p, values)


def keeps_order(found: Found, first: str, second: str) -> Finding:
    """How many of the words that are right stand in right sequences: precision of 4-grams over that of single words."""
    mine, other = (found.results[name].statistics for name in (first, second))
    p = paired_bootstrap(_in_order, other, mine, TRIALS, SEED)
    shares = [float(_in_order(of.sum(0, keepdims=True))[0]) for of in (mine, other)]
    values = f"precision of 4-grams / of words: {shares[0]:.1f} % ({first}) and {shares[1]:.1f} % ({second})"
    return _finding(shares[0] - shares[1], p, values)


def trains_faster(found: Found, first: str, second: str) -> Finding:
    """Target tokens a second."""
    return _faster(found, first, second, "train", "trained")


def translates_faster(found: Found, first: str, second: str) -> Finding:
    """Sentences a second."""
    return _faster(found, first, second, "decode", "translated")


def _faster(found: Found, first: str, second: str, what: str, verb: str) -> Finding:
    speeds = found.speeds
    if speeds is None or not {first, second} <= set(speeds.turns):
        return Finding("not tested", "speed was not measured")
    middle, least, most = speeds.ratio(first, second, what)
    evidence = f"{first} {verb} {middle:.2f} times as fast as {second} ({least:.2f} to {most:.2f} in the rounds)"
    verdict = "shows" if least > CLEAR else "the contrary shows" if most < 1 / CLEAR else "undecided"
    return Finding(verdict, evidence)


def _in_order(sums: FloatArray) -> FloatArray:
    """`sums` (R, 10) as BLEU counts -> (R,), percent."""
    correct, total = sums[:, 2 : 2 + ORDERS], sums[:, 2 + ORDERS :]
    precisions = correct / np.maximum(total, 1)
    shares: FloatArray = 100 * precisions[:, ORDERS - 1] / np.maximum(precisions[:, 0], 1e-9)
    return shares


def _finding(difference: float, p: float, values: str) -> Finding:
    sure = p < SIGNIFICANT
    verdict = "shows" if sure and difference > 0 else "the contrary shows" if sure and difference < 0 else "undecided"
    return Finding(verdict, f"{values}; difference {difference:+.2f}, p = {p:.3f}")


CLAIMS = (
    Claim(
        "Reversing the source helps an LSTM without attention",
        "Sutskever et al. 2014, section 3.3",
        better,
        "seq2seq-lstm",
        "seq2seq-lstm-forward",
    ),
    Claim("Attention beats a fixed vector", "Bahdanau et al. 2014, table 1", better, "rnnsearch", "seq2seq-gru"),
    Claim("Attention beats a handed-over state", "Luong et al. 2015, table 1", better, "luong-global", "seq2seq-lstm"),
    Claim(
        "Attention helps more on long sentences (GRU)",
        "Bahdanau et al. 2014, figure 2",
        more_on_long_sentences,
        "rnnsearch",
        "seq2seq-gru",
    ),
    Claim(
        "Attention helps more on long sentences (LSTM)",
        "Luong et al. 2015, figure 6",
        more_on_long_sentences,
        "luong-global",
        "seq2seq-lstm",
    ),
    Claim(
        "Local attention translates better than global",
        "Luong et al. 2015, table 4",
        better,
        "luong-local",
        "luong-global",
    ),
    Claim(
        "Local attention translates faster than global",
        "Luong et al. 2015, section 3.2",
        translates_faster,
        "luong-local",
        "luong-global",
    ),
    Claim("The Transformer beats recurrence", "Vaswani et al. 2017, table 2", better, "transformer-tiny", "gnmt"),
    Claim(
        "The Transformer trains faster than recurrence",
        "Vaswani et al. 2017, section 1",
        trains_faster,
        "transformer-tiny",
        "gnmt",
    ),
    Claim(
        "Recurrence translates faster than the Transformer",
        "Kasai et al. 2021",
        translates_faster,
        "rnnsearch",
        "transformer-tiny",
    ),
    Claim("The hybrid beats its recurrent parent", "Chen et al. 2018, section 5", better, "hybrid", "gnmt"),
    Claim(
        "The hybrid beats its Transformer parent", "Chen et al. 2018, section 5", better, "hybrid", "transformer-tiny"
    ),
    Claim(
        "The hybrid translates faster than its Transformer parent",
        "Caswell and Liang 2020",
        translates_faster,
        "hybrid",
        "transformer-tiny",
    ),
    Claim(
        "An encoder without order loses the order of words",
        "after Parikh et al. 2016",
        keeps_order,
        "luong-global",
        "decomposable",
    ),
    Claim(
        "A language model gains by seeing the whole source at once",
        "Raffel et al. 2020, section 3.2",
        better,
        "prefix-lm",
        "decoder-only",
    ),
    Claim(
        "A deep encoder and a shallow decoder translate faster",
        "Kasai et al. 2021",
        translates_faster,
        "deep-shallow",
        "transformer-tiny",
    ),
    Claim(
        "A simple recurrence in place of self-attention translates faster",
        "Kim et al. 2019",
        translates_faster,
        "deep-shallow-ssru",
        "deep-shallow",
    ),
)
