"""The organisers' scores of the WMT22 general task, through the use case: 18 systems, 108 scores, to four decimals."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.wmt22 import compare, published


@pytest.mark.parametrize("pair", ["en-de", "de-en"])
@pytest.mark.slow
def test_published_scores(shared_data: Path, pair: str) -> None:
    """All systems of a pair: reference A, reference B and both, BLEU and chrF."""
    folder = shared_data / "wmt22-scored-systems"
    compared = list(compare(folder, pair))
    assert len(compared) == 9 * 6 == sum(score.pair == pair for score in published(folder))
    assert [one for one in compared if one.measured_text != one.published_text] == []
