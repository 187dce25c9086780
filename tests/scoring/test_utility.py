from __future__ import annotations

import pytest
from sacrebleu import sentence_bleu, sentence_chrf, sentence_ter

from mt.scoring.metrics import METRICS
from mt.scoring.utility import utilities

TEXTS = ["the cat sat on the mat", "the cat is on the mat", "", "a dog", "the cat sat on the mat"]
SACREBLEU = {
    "bleu": lambda text, other: sentence_bleu(text, [other]).score,
    "chrf": lambda text, other: sentence_chrf(text, [other]).score,
    "chrf++": lambda text, other: sentence_chrf(text, [other], word_order=2).score,
    "ter": lambda text, other: -sentence_ter(text, [other]).score,
}


@pytest.mark.parametrize("metric", METRICS)
def test_the_utility_is_sacrebleus_sentence_score_of_each_against_each(metric: str) -> None:
    expected = [[SACREBLEU[metric](text, other) for other in TEXTS] for text in TEXTS]
    assert utilities(TEXTS, metric) == [pytest.approx(row) for row in expected]
