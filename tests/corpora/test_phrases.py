"""The generated corpus: a function from source to target, the same everywhere, in any two languages known."""

from __future__ import annotations

import re
import sys
import unicodedata
from contextlib import suppress
from random import Random

import pytest

from mt.corpora.kinds import COUNTRIES, CURRENCIES, KINDS, LANGUAGES, UNITS, Draw, Say
from mt.corpora.language import SOME_KNOWN, find_language, tidy
from mt.corpora.phrases import Phrases, generate_phrases
from mt.errors import ConfigError, DataError, MissingExtraError

babel = pytest.importorskip("babel")
pytest.importorskip("num2words")


def phrases(source: str, target: str, count: int = 400, seed: int = 1) -> Phrases:
    return generate_phrases(find_language(source, "data.src_lang"), find_language(target, "data.tgt_lang"), count, seed)


def test_no_source_has_two_targets_and_none_comes_twice() -> None:
    generated = phrases("en", "de", 1500)
    assert len(generated.pairs) == len({source for source, _ in generated.pairs}) == 1500


def test_sources_with_two_targets_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def style(draw: Draw) -> Say:
        number, style = draw.below(100), draw.below(10)
        return lambda language: f"{number}" if language.code == "en" else f"{number} {style if number < 50 else ''}"

    monkeypatch.setattr("mt.corpora.phrases.KINDS", {"style": (style, 1)})
    generated = phrases("en", "de", 50)
    assert generated.ambiguous == 11
    assert dict(generated.pairs)["77"] == "77"


def test_the_seed_decides_and_decides_alone() -> None:
    assert phrases("en", "de").pairs == phrases("en", "de").pairs
    assert phrases("en", "de").pairs != phrases("en", "de", seed=2).pairs


def test_draws_are_the_same_in_every_python() -> None:
    """`Random.random` is the one method that Python promises not to change for a seed."""
    draw = Draw(1)
    assert [draw.below(1000) for _ in range(5)] == [134, 847, 763, 255, 495]
    assert [int(Random(1).random() * 1000)] == [134]
    assert draw.several("abc", 3) == ["b", "c", "a"]
    assert (draw.day().isoformat(), draw.amount()) == ("1952-11-13", 5.72)


@pytest.mark.parametrize(
    "pair", ["en de", "de en", "fr es", "en ja", "ru uk", "pt-BR it", "ar he", "nb sv", "th vi", "ko hu"]
)
def test_any_two_languages_that_both_libraries_know(pair: str) -> None:
    source, target = pair.split()
    generated = phrases(source, target)
    assert len(generated.pairs) == 400
    assert sum(source == target for source, target in generated.pairs) < 100
    for text in (text for both in generated.pairs for text in both):
        assert text == tidy(text) != ""
        assert unicodedata.is_normalized("NFC", text)
        assert not re.search("[\u00a0\u202f\u2009\u200e\u200f\t\n]|  ", text)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_says_many_things_in_english_and_german(kind: str) -> None:
    draw, english, german = Draw(1), find_language("en", "x"), find_language("de", "x")
    said = set()
    for _ in range(200):
        say = KINDS[kind][0](draw)
        with suppress(KeyError):  # some releases of Babel lack a format
            said.add((say(english), say(german)))
    assert sum(source != target for source, target in said) > 60


def test_every_name_exists_in_common_languages() -> None:
    for code in ("en", "de", "fr", "es", "it", "ja"):
        locale = find_language(code, "x").locale
        assert set(COUNTRIES) <= set(locale.territories)
        assert set(LANGUAGES) <= set(locale.languages)
        assert set(CURRENCIES) <= set(locale.currencies)
        assert set(UNITS) <= set(locale.unit_display_names)


def test_known_phrases() -> None:
    known = dict(phrases("en", "de", 500).pairs)
    assert known["in 1 minute"] == "in 1 Minute"
    assert known["September 28, 1954"] == "28. September 1954"
    assert known["Tunisia and Somalia"] == "Tunesien und Somalia"


def test_what_a_language_cannot_say_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(draw: Draw) -> Say:
        number = draw.below(1000)
        return lambda language: {1: f"{number} {language.code}"}[number % 2]

    monkeypatch.setattr("mt.corpora.phrases.KINDS", {"odd": (odd, 1)})
    generated = phrases("fr", "es", 100)
    assert all(int(source.split()[0]) % 2 for source, _ in generated.pairs)
    assert generated.unsayable["odd"] > 50


def test_too_many_phrases_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mt.corpora.phrases.KINDS", {"relative time": KINDS["relative time"]})
    with pytest.raises(DataError) as error:
        phrases("en", "de", 1000)
    assert re.fullmatch(
        r"Only \d+ different phrases from en to de can be generated, but data.generate asks for 1000 \(pairs and twice "
        r"held_out\); ask for fewer.",
        str(error.value),
    )


@pytest.mark.parametrize("code", ["xx", "", "zh_Hans_XX_", "klingon", "../de"])
def test_an_unknown_language_is_refused_with_some_known_ones(code: str) -> None:
    with pytest.raises(ConfigError) as error:
        find_language(code, "data.tgt_lang")
    assert str(error.value) == (
        f"data.tgt_lang is '{code}', which Babel and num2words do not both know, so data.generate cannot write phrases "
        "in it; some that they know: cs, da, de, en, es, fi, fr, hu, it, ja, ko, nl, pl, pt, ro, ru, sv, tr, uk."
    )


def test_the_languages_named_are_known() -> None:
    for code in SOME_KNOWN.split(", "):
        assert find_language(code, "x").code == code


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(MissingExtraError) as error:
        find_language("en", "data.src_lang")
    assert str(error.value) == "data.generate needs an optional package: pip install 'mt-toolkit[demo]'."
