"""From the sums of a corpus' statistics to its score, for many corpora at once.

sacreBLEU computes one score at a time; resampling needs thousands. K statistics a sentence are summed over the corpus
before the formula is applied (a mean of sentence scores is another number); R is the number of resampled corpora.
Each function agrees with sacreBLEU's own score and is tested against it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_BLEU_ORDER = 4
_CHRF_BETA = 2


def bleu(sums: FloatArray) -> FloatArray:
    """BLEU (Papineni et al. 2002, section 2.3) with sacreBLEU's exponential smoothing, no effective order.

    `sums` (R, 10): hypothesis length, reference length, 4 counts of matched n-grams, 4 counts of n-grams. Returns (R,).
    """
    length, ref_length = sums[:, 0], sums[:, 1]
    correct, total = sums[:, 2 : 2 + _BLEU_ORDER], sums[:, 2 + _BLEU_ORDER :]
    # The k-th order without a match counts as 2^-k matches (Chen and Cherry 2014, smoothing 3).
    smoothed = np.where(correct == 0, 0.5 ** np.cumsum(correct == 0, axis=1), correct)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(total > 0, smoothed / total, 0.0)
        brevity = np.where(length < ref_length, np.exp(1 - ref_length / length), 1.0)
        scores = 100 * brevity * np.exp(np.log(precisions).mean(axis=1))
    return np.where(correct.any(axis=1), scores, 0.0)


def chrf(sums: FloatArray) -> FloatArray:
    """chrF and chrF++ (Popović 2015, section 2; 2017), beta 2, averaged over the orders that both sides have.

    `sums` (R, 3 x orders): n-grams of the hypothesis, of the reference, and matched, for each order. Returns (R,).
    """
    hyp, ref, match = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]
    counted = (hyp > 0) & (ref > 0)
    orders = np.maximum(counted.sum(axis=1), 1)
    precision = np.where(counted, match / np.where(counted, hyp, 1), 0.0).sum(axis=1) / orders
    recall = np.where(counted, match / np.where(counted, ref, 1), 0.0).sum(axis=1) / orders
    weight = _CHRF_BETA**2
    denominator = weight * precision + recall
    scores: FloatArray = 100 * (1 + weight) * precision * recall / np.where(denominator > 0, denominator, 1.0)
    return scores


def ter(sums: FloatArray) -> FloatArray:
    """Translation edit rate in percent (Snover et al. 2006, section 2).

    `sums` (R, 2): edits, reference words. Returns (R,).
    """
    edits, words = sums[:, 0], sums[:, 1]
    return 100 * np.where(words > 0, edits / np.where(words > 0, words, 1.0), (edits > 0).astype(np.float64))
