"""How much each of several translations is like each other: what minimum Bayes risk asks of a metric."""

from __future__ import annotations

from collections.abc import Sequence

from mt.scoring.metrics import metric_named
from mt.scoring.tokenizers import DEFAULT, tokenizer_for


def utilities(texts: Sequence[str], metric: str) -> list[list[float]]:
    """The sentence score by `metric` of each text (row) with each other (column) as its only reference.

    Greater is better: an error rate counts negative. BLEU leaves out the orders of n-grams that are longer than the
    text (sacreBLEU's effective order), as it must for single sentences.

    Raises:
        ConfigError: there is no such metric.
    """
    kind = metric_named(metric)
    scorer = kind.make(tokenizer_for(None, DEFAULT), False, None)
    if metric == "bleu":
        scorer.effective_order = True
    sign = 1 if kind.higher_is_better else -1
    different = list(dict.fromkeys(texts))
    known = {
        (text, reference): sign * float(scorer.sentence_score(text, [reference]).score)
        for text in different
        for reference in different
    }
    return [[known[text, reference] for reference in texts] for text in texts]
