"""How sure a score or a difference is, from resampled corpora of the same sentences.

All functions work on a metric's statistics a sentence, (lines, K), and its formula: no text is read again. Draws are
those of sacreBLEU for the same seed and number of trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from mt.scoring.formulas import FloatArray
from mt.scoring.metrics import TOLERANCE, Interval

Formula = Callable[[FloatArray], FloatArray]

_CHUNK = 2**22  # elements of a drawn matrix held at once


def _chunks(trials: int, lines: int) -> Iterator[int]:
    """Numbers of trials that together make `trials`, each small enough for memory.

    A multiple of 32 draws leaves no rest of a random word behind, so that the draws do not depend on the chunks.
    """
    size = 32 * max(1, _CHUNK // (32 * lines))
    for start in range(0, trials, size):
        yield min(size, trials - start)


def resampled_sums(systems: FloatArray, trials: int, seed: int) -> FloatArray:
    """Sums of bootstrap samples: `systems` (lines, K) -> (trials, K). Sentences are drawn with replacement."""
    lines = len(systems)
    generator = np.random.default_rng(seed)
    sums = []
    for size in _chunks(trials, lines):
        drawn = generator.integers(0, lines, size=(size, lines)) + lines * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * lines).reshape(size, lines)
        sums.append(times.astype(np.float64) @ systems)
    return np.concatenate(sums)


def bootstrap_interval(formula: Formula, statistics: FloatArray, trials: int, seed: int) -> Interval:
    """The 95 % confidence interval of a score by bootstrap resampling (Koehn 2004, section 3)."""
    scores = np.sort(formula(resampled_sums(statistics, trials, seed)))
    outside = trials // 40  # 2.5 % at each end
    return Interval(float(scores.mean()), float(scores[outside]), float(scores[trials - outside - 1]))


def paired_bootstrap(formula: Formula, baseline: FloatArray, system: FloatArray, trials: int, seed: int) -> float:
    """Two-sided p-value of the difference by paired bootstrap resampling.

    Both systems are scored on the same drawn sentences. The resampled differences, moved so that their mean is zero,
    stand for what chance does where there is no difference (Riezler and Maxwell 2005, section 3, there one-sided, as
    in sacreBLEU, whose p is therefore about half of this one). A corpus of one sentence is drawn alike in every trial:
    nothing is known of chance, and p is 1.
    """
    if len(baseline) < 2:
        return 1.0
    both = np.concatenate([baseline, system], axis=1)
    sums = resampled_sums(both, trials, seed)
    width = baseline.shape[1]
    differences = formula(sums[:, width:]) - formula(sums[:, :width])
    return _p_value(differences - differences.mean(), _difference(formula, baseline, system))


def paired_randomization(formula: Formula, baseline: FloatArray, system: FloatArray, trials: int, seed: int) -> float:
    """Two-sided p-value of the difference by approximate randomisation (Riezler and Maxwell 2005, section 2).

    In each trial every sentence's two translations change sides with probability one half.
    """
    lines = len(baseline)
    generator = np.random.default_rng(seed)
    total = baseline.sum(axis=0) + system.sum(axis=0)
    differences = []
    for size in _chunks(trials, lines):
        kept = generator.integers(2, size=(size, lines), dtype=bool).astype(np.float64)
        first = kept @ baseline + (1 - kept) @ system
        differences.append(formula(first) - formula(total - first))
    return _p_value(np.concatenate(differences), _difference(formula, baseline, system))


# Name -> test, and the key by which sacreBLEU's signature counts its trials.
TESTS: dict[str, tuple[Callable[[Formula, FloatArray, FloatArray, int, int], float], str]] = {
    "bootstrap": (paired_bootstrap, "bs"),
    "randomization": (paired_randomization, "ar"),
}


def _difference(formula: Formula, baseline: FloatArray, system: FloatArray) -> float:
    scores = formula(np.stack([baseline.sum(axis=0), system.sum(axis=0)]))
    return float(scores[1] - scores[0])


def _p_value(by_chance: FloatArray, difference: float) -> float:
    """(count of |d*| >= |d|, + 1) / (trials + 1): never 0, and 1 where there is no difference.

    sacreBLEU counts |d*| > |d|, which gives two equal systems the smallest p there is.
    """
    count = int(np.sum(np.abs(by_chance) >= abs(difference) - TOLERANCE))
    return (count + 1) / (len(by_chance) + 1)
