"""Random segmentations: the law they follow, SentencePiece's where nothing is random, and the same in any process."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from math import exp
from pathlib import Path

import pytest

from mt.text.config import TokenizerConfig
from mt.text.files import read_lines
from mt.text.segmentation import Segmenter
from mt.text.subword import SubwordTokenizer, train_subword

ROOT = Path(__file__).resolve().parents[2]
CUTS = {"bpe": TokenizerConfig(dropout=0.3), "unigram": TokenizerConfig(type="unigram", alpha=0.3)}
KEYS: dict[str, dict[str, object]] = {
    "plain": {},
    "bytes": {"byte_fallback": True, "vocab_size": 700},
    "coverage": {"character_coverage": 0.98},
    "symbols": {"user_symbols": ("<2de>", "ab", "abc", "é")},
    "bytes and symbols": {"byte_fallback": True, "vocab_size": 700, "user_symbols": ("bc", "ß")},
    "folded": {"normalization": "nmt_nfkc_cf"},
    "identity": {"normalization": "identity"},
}
ALPHABETS = ("abc", "abcdefgh.,", "aéßÉ-", "日本語文字列", "กขคงจ", "ﬁＡ½…\u200d\u0301", "\u2581 \t<>2de/s")
LONG = ["abcab" * 400, "日本" * 300]
HARD = [
    "",
    "  ",
    "\u2581",
    "\u2581\u2581 a",
    "<s> </s> <unk>",
    "ᚠᚢ ᚠ",
    "\U0001f600\U0001f600 x\U0001f600é",
    "<2de>ab<2de> abc",
]


def generated(count: int, seed: int) -> list[str]:
    """Lines of words of several scripts."""
    draw = random.Random(seed)
    words = ("".join(draw.choices(draw.choice(ALPHABETS), k=draw.randint(1, 12))) for _ in range(10 * count))
    return [" ".join(next(words) for _ in range(draw.randint(1, 10))) for _ in range(count)]


@cache
def trained(type: str, **keys: object) -> SubwordTokenizer:
    config = TokenizerConfig(type=type, vocab_size=400, soft_vocab_limit=True)
    return train_subword(replace(config, **keys), generated(800, 1), "text")  # type: ignore[arg-type]


def segmented(tokenizer: SubwordTokenizer, texts: list[str], strength: float, seed: int = 1) -> list[list[int]]:
    """What the numpy code makes of the texts."""
    normalized = [tokenizer._processor.normalize(tokenizer.clean(text)) for text in texts]
    segmenter: Segmenter = tokenizer._segmenter
    return segmenter.sample(normalized, seed, strength)


class TestWithoutChance:
    @pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
    def test_bpe_is_what_sentencepiece_makes_of_it(self, keys: dict[str, object]) -> None:
        tokenizer = trained("bpe", **keys)
        texts = generated(800, 1) + generated(800, 2) + HARD + LONG
        assert segmented(tokenizer, texts, 0.0) == tokenizer.encode_batch(texts)

    @pytest.mark.parametrize("name", [name for name in KEYS if "symbols" not in name])
    def test_unigram_with_a_large_alpha_is_as_probable_as_the_best(self, name: str) -> None:
        """Of equally probable ones SentencePiece may take another; it may split a symbol that overlaps another, too."""
        tokenizer = trained("unigram", **KEYS[name])
        texts = generated(800, 1) + generated(800, 2) + HARD + LONG
        score = tokenizer._processor.get_score
        for ours, best in zip(segmented(tokenizer, texts, 1e5), tokenizer.encode_batch(texts), strict=True):
            assert sum(map(score, ours)) == pytest.approx(sum(map(score, best)), abs=1e-3)
            assert ours.count(tokenizer.unk) == best.count(tokenizer.unk)


@pytest.mark.parametrize("name", ["jpn", "cmn_Hans", "tha", "ara", "deu", "hin", "vie"])
def test_bpe_of_a_corpus_without_dropout_is_what_sentencepiece_makes_of_it(shared_data: Path, name: str) -> None:
    texts = list(read_lines(shared_data / "flores200-devtest" / f"{name}.devtest.gz"))
    config = TokenizerConfig(vocab_size=3000, character_coverage=0.99, byte_fallback=True)
    tokenizer = train_subword(config, texts[:500], name)
    assert segmented(tokenizer, texts, 0.0) == tokenizer.encode_batch(texts)


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("type", CUTS)
def test_what_is_drawn_says_the_same_text(type: str, keys: dict[str, object]) -> None:
    tokenizer, texts = trained(type, **keys), generated(300, 3) + HARD + LONG
    drawn = tokenizer.sample_batch(texts, 1, CUTS[type])
    assert tokenizer.decode_batch(drawn) == tokenizer.decode_batch(tokenizer.encode_batch(texts))


@pytest.mark.parametrize("type", CUTS)
def test_a_user_symbol_stays_one_piece(type: str) -> None:
    tokenizer = trained(type, user_symbols=("<2de>", "ab", "abc"))
    symbol, short, long = (tokenizer.pieces.index(piece) for piece in ("<2de>", "ab", "abc"))
    for ids in tokenizer.sample_batch(["<2de>abcab c"] * 50, 1, CUTS[type]):
        assert [index for index in ids if index in (symbol, short, long)] == [symbol, long, short]


@pytest.mark.parametrize("type", CUTS)
def test_no_text_is_no_pieces(type: str) -> None:
    tokenizer = trained(type)
    assert tokenizer.sample_batch([], 1, CUTS[type]) == []
    assert tokenizer.sample_batch(["", " "], 1, CUTS[type]) == [[], []]


def frequencies(segmentations: Iterator[tuple[str, ...]], count: int) -> dict[tuple[str, ...], float]:
    return {pieces: times / count for pieces, times in Counter(segmentations).items()}


def drawn(tokenizer: SubwordTokenizer, word: str, strength: float, count: int) -> dict[tuple[str, ...], float]:
    ids = segmented(tokenizer, [word] * count, strength)
    return frequencies((tuple(tokenizer.pieces[index] for index in one) for one in ids), count)


def distance(one: dict[tuple[str, ...], float], other: dict[tuple[str, ...], float]) -> float:
    """Total variation: half the sum of differences."""
    return sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in {*one, *other}) / 2


def algorithm_1(word: str, rank: Callable[[str], float], dropout: float, draw: random.Random) -> tuple[str, ...]:
    """BPE-dropout as Provilkov et al. 2020 write it down; `rank` is infinite for what is no piece."""
    split = list(word)
    while True:
        pairs = [(rank(split[at] + split[at + 1]), at) for at in range(len(split) - 1)]
        merges = [(value, at) for value, at in pairs if value < float("inf") and draw.random() >= dropout]
        if not merges:
            return tuple(split)
        at = min(merges)[1]
        split[at : at + 2] = [split[at] + split[at + 1]]


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_dropout_follows_algorithm_1(dropout: float) -> None:
    lines = ["lower newer wider lowest newest widest low new wide"] * 20
    tokenizer = train_subword(TokenizerConfig(vocab_size=40, soft_vocab_limit=True), lines, "text")
    ranks = {piece: -tokenizer._processor.get_score(index) for index, piece in enumerate(tokenizer.pieces)}
    draw, count = random.Random(1), 20_000
    expected = frequencies(
        (
            algorithm_1("\u2581lowest", lambda piece: ranks.get(piece, float("inf")), dropout, draw)
            for _ in range(count)
        ),
        count,
    )
    assert len(expected) > 3
    assert distance(drawn(tokenizer, "lowest", dropout, count), expected) < 0.03


def segmentations(word: str, pieces: list[str]) -> Iterator[tuple[str, ...]]:
    if not word:
        yield ()
    for piece in pieces:
        if word.startswith(piece):
            yield from ((piece, *rest) for rest in segmentations(word[len(piece) :], pieces))


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
def test_sampling_is_in_proportion_to_the_probability_to_the_power_alpha(alpha: float) -> None:
    """Kudo 2018, section 3.2, over all segmentations."""
    tokenizer = trained("unigram")
    scores = {piece: tokenizer._processor.get_score(index) for index, piece in enumerate(tokenizer.pieces)}
    weights = {
        pieces: exp(alpha * sum(scores[piece] for piece in pieces))
        for pieces in segmentations("\u2581abcab", tokenizer.pieces)
    }
    expected = {pieces: weight / sum(weights.values()) for pieces, weight in weights.items()}
    assert len(expected) > 3
    assert distance(drawn(tokenizer, "abcab", alpha, 20_000), expected) < 0.03


SCRIPT = """
import json, sys
from pathlib import Path
from mt.text.subword import SubwordTokenizer
from tests.text.test_segmentation import CUTS, generated
tokenizer = SubwordTokenizer(sys.argv[1], "nfc", Path(sys.argv[2]).read_bytes())
print(json.dumps([tokenizer.sample_batch(generated(100, 5), seed, CUTS[sys.argv[1]]) for seed in (7, 8)]))
"""


@pytest.mark.parametrize("type", CUTS)
def test_another_process_draws_the_same(type: str, tmp_path: Path) -> None:
    tokenizer, path = trained(type), tmp_path / "model"
    path.write_bytes(tokenizer.model)
    command = [sys.executable, "-c", SCRIPT, type, str(path)]
    said = [subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout for _ in range(2)]
    here = [tokenizer.sample_batch(generated(100, 5), seed, CUTS[type]) for seed in (7, 8)]
    assert json.loads(said[0]) == json.loads(said[1]) == here
    assert here[0] != here[1]
