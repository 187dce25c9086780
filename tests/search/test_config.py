from __future__ import annotations

from typing import Any

import pytest

from mt.errors import ConfigError
from mt.search.config import DecodeConfig


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_best": 6}, "decode.n_best (6) must not be above decode.beam_size (5)."),
        ({"search": "sample", "n_best": 3, "samples": 2}, "decode.n_best (3) must not be above decode.samples (2)."),
        (
            {"search": "greedy", "n_best": 2},
            "decode.n_best (2) must be 1 with decode.search greedy, which finds one translation.",
        ),
        (
            {"temperature": 0.5},
            "decode.temperature 0.5 belongs to decode.search sample, but that is beam: change decode.search, or "
            "leave decode.temperature out.",
        ),
        (
            {"search": "greedy", "coverage_penalty": 0.2},
            "decode.coverage_penalty 0.2 belongs to decode.search beam or diverse or alternatives, but that is "
            "greedy: change decode.search, or leave decode.coverage_penalty out.",
        ),
        (
            {"long_source": "whole", "max_source_length": 9},
            "decode.max_source_length 9 belongs to decode.long_source split or cut, but that is whole: change "
            "decode.long_source, or leave decode.max_source_length out.",
        ),
        (
            {"search": "diverse", "beam_groups": 3},
            "decode.beam_groups (3) must divide decode.beam_size (5).",
        ),
        ({"search": "diverse", "beam_groups": 9}, "decode.beam_groups (9) must divide decode.beam_size (5)."),
        ({"min_length": 9, "max_length": 8}, "decode.min_length (9) must not be above decode.max_length (8)."),
        (
            {"min_length_ratio": 2.5},
            "decode.min_length_ratio (2.5) must not be above decode.max_length_ratio (2).",
        ),
    ],
)
def test_what_contradicts_is_refused(options: dict[str, Any], sentence: str) -> None:
    """Fault 81: among others more translations than the beam has places."""
    with pytest.raises(ConfigError) as refused:
        DecodeConfig(**options)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("options", "pieces", "shortest", "limit"),
    [
        ({}, 10, 0, 70),
        ({"max_length": 5}, 10, 0, 5),
        ({"max_length": 99, "max_length_ratio": 0.5}, 3, 0, 51),
        ({"min_length": 3, "min_length_ratio": 0.5}, 10, 5, 70),
        ({"min_length": 3, "min_length_ratio": 0.5}, 2, 3, 54),
        ({"min_length": 100}, 10, 100, 100),
        ({"min_length_ratio": 1.0, "max_length": 8}, 10, 8, 8),
    ],
)
def test_lengths_of_a_translation(options: dict[str, Any], pieces: int, shortest: int, limit: int) -> None:
    config = DecodeConfig(**options)
    assert (config.shortest(pieces), config.limit(pieces)) == (shortest, limit)


@pytest.mark.parametrize(
    ("options", "candidates"),
    [
        ({}, 1),
        ({"n_best": 2}, 5),
        ({"mbr_metric": "chrf"}, 5),
        ({"search": "sample", "samples": 9, "mbr_metric": "bleu"}, 9),
        ({"search": "sample", "samples": 9}, 1),
        ({"search": "greedy"}, 1),
        ({"search": "alternatives", "n_best": 7}, 7),
    ],
)
def test_more_are_kept_where_they_are_ranked_anew_or_may_spell_one_text(
    options: dict[str, Any], candidates: int
) -> None:
    """Fault 81."""
    assert DecodeConfig(**options).candidates == candidates


@pytest.mark.parametrize(
    "options",
    [
        {"search": "diverse", "beam_size": 6, "beam_groups": 3, "diversity_penalty": 0.3},
        {"search": "sample", "samples": 4, "n_best": 4, "top_k": 3, "seed": 7},
        {"search": "greedy"},
        {"search": "alternatives", "beam_size": 3, "n_best": 9},
    ],
)
def test_any_search_has_a_plain_beam_for_validation(options: dict[str, Any]) -> None:
    """What the other search alone reads is left out, and all else stays."""
    config = DecodeConfig(**options, no_repeat_ngram_size=3)
    assert config.plain_beam(1) == DecodeConfig(beam_size=1, no_repeat_ngram_size=3)
