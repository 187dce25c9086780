"""Scores: the right value for what other tools got wrong. The values are sacreBLEU's and were computed beforehand."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import pytest

from mt.errors import ConfigError, DataError
from mt.scoring.config import METRIC_NAMES
from mt.scoring.metrics import METRICS, Scorer, display, higher_is_better, is_better, score

MAT = "the cat sat on the mat"
PARK = "there is a dog in the park"
GARDEN = "there is a dog in the garden"

CORPORA = [
    ([MAT, PARK], [[MAT, GARDEN]]),
    ([MAT, ""], [[MAT, PARK]]),
    (["", ""], [[MAT, PARK]]),
    (["a b c d e", "junk"], [["a b c d e", ""]]),
    (["hello world", "good day"], [["hello world", "good day"]]),
    (["a b", "c d"], [["x y", "z w"]]),
    ([MAT, "a dog ran"], [[MAT, "the dog ran in the park today"], ["a cat sat here", "dogs run"]]),
]


def bleu(
    hypotheses: Sequence[str], *references: Sequence[str], tokenize: str = "13a", lowercase: bool = False
) -> float:
    return score(hypotheses, references, "bleu", tokenize, lowercase).value


def test_tables_agree() -> None:
    assert tuple(METRICS) == METRIC_NAMES


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("metric", METRICS)
def test_formula_gives_sacrebleus_score(metric: str, corpus: tuple[list[str], list[list[str]]]) -> None:
    hypotheses, references = corpus
    scorer = Scorer(metric, references)
    statistics = scorer.statistics(hypotheses)
    by_formula = scorer.kind.formula(statistics.sum(axis=0, keepdims=True))
    assert by_formula[0] == pytest.approx(scorer.score(statistics).value, abs=1e-9)


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("metric", METRICS)
def test_score_is_sacrebleus_own(metric: str, corpus: tuple[list[str], list[list[str]]]) -> None:
    from sacrebleu import corpus_bleu, corpus_chrf, corpus_ter

    hypotheses, references = corpus
    theirs = {
        "bleu": corpus_bleu(hypotheses, references, force=True),
        "chrf": corpus_chrf(hypotheses, references),
        "chrf++": corpus_chrf(hypotheses, references, word_order=2),
        "ter": corpus_ter(hypotheses, references),
    }
    assert score(hypotheses, references, metric).value == pytest.approx(theirs[metric].score, abs=1e-9)


def test_punctuation_of_plain_and_tokenised_text() -> None:
    """Fault 93."""
    hyp, ref = '"Hello," she said; it\'s 3.5%.', '"Hello," she said; it\'s 4.5%.'
    assert bleu([hyp], [ref]) == pytest.approx(74.1945, abs=1e-4)
    assert bleu([hyp], [ref], tokenize="none") == pytest.approx(66.8740, abs=1e-4)
    tokenised = [f'" Hello , " she said ; it \'s {number} % .' for number in ("3.5", "4.5")]
    assert bleu([tokenised[0]], [tokenised[1]]) == pytest.approx(76.9161, abs=1e-4)
    plain = "I don't know, said the man."
    assert bleu(["I do n't know , said the man ."], [plain]) == pytest.approx(61.0474, abs=1e-4)
    assert bleu([plain], [plain]) == pytest.approx(100)


@pytest.mark.parametrize(
    ("hypotheses", "references", "tokenize", "value"),
    [
        (["我今天去学校。", "他喜欢吃苹果。"], ["我今天去了学校。", "他喜欢吃香蕉。"], "zh", 48.1334),
        (["我今天去学校。", "他喜欢吃苹果。"], ["我今天去了学校。", "他喜欢吃香蕉。"], "13a", 0.0),
        (["私は東京へ行きます。"], ["私は京都へ行きます。"], "char", 59.8806),
        (["私は東京へ行きます。"], ["私は京都へ行きます。"], "13a", 0.0),
        (["私は東京へ行きます。"], ["私は京都へ行きます。"], "zh", 42.7287),
        (["나는 오늘 학교에 간다."], ["나는 오늘 학교에 갔다."], "char", 70.7107),
        (["나는 오늘 학교에 간다."], ["나는 오늘 학교에 갔다."], "13a", 42.7287),
    ],
)
def test_tokenizers_of_cjk(hypotheses: list[str], references: list[str], tokenize: str, value: float) -> None:
    """Fault 94."""
    found = score(hypotheses, [references], "bleu", tokenize)
    assert found.value == pytest.approx(value, abs=1e-4)
    assert f"|tok:{tokenize}|" in found.signature


@pytest.mark.parametrize(
    ("tokenize", "module", "hyp", "ref"),
    [
        ("ja-mecab", "MeCab", "私は東京へ行きます。", "私は京都へ行きます。"),
        ("ko-mecab", "mecab_ko", "학교에 간다.", "학교에 갔다."),
    ],
)
def test_mecab(tokenize: str, module: str, hyp: str, ref: str) -> None:
    """Fault 94."""
    pytest.importorskip(module)
    found = score([hyp], [[ref]], "bleu", tokenize)
    assert f"|tok:{tokenize}-" in found.signature
    assert 0 < found.value < 100


def test_several_references() -> None:
    """Fault 95."""
    hyp = ["the dog bit the man", "it was not surprising"]
    first = ["the dog bit the man", "it was not unexpected"]
    second = ["the dog had bitten the man", "it was not surprising"]
    assert bleu(hyp, first) == pytest.approx(79.8408, abs=1e-4)
    assert bleu(hyp, second) == pytest.approx(48.2680, abs=1e-4)
    assert bleu(hyp, first, second) == pytest.approx(100)
    assert score(hyp, [first, second], "bleu").signature.startswith("nrefs:2|")


def test_references_in_the_wrong_shape() -> None:
    """Fault 95."""
    hyp = ["the dog bit the man", "it was not surprising", "yes"]
    with pytest.raises(DataError, match=r"^The translations have 3 lines, but each reference set has 1 line\.$"):
        score(hyp, [[line] for line in hyp], "bleu")
    with pytest.raises(DataError, match=r"^References must be a list of reference sets"):
        score(hyp, hyp, "bleu")
    with pytest.raises(DataError, match=r"^References must be a list of reference sets"):
        score(hyp, [], "bleu")
    with pytest.raises(DataError, match=r"^The reference sets differ in their numbers of lines: 3, 2\.$"):
        score(hyp, [hyp, hyp[:2]], "bleu")
    with pytest.raises(DataError, match=r"^Hypotheses must be a list of lines, not one string\.$"):
        score("yes", [hyp], "bleu")
    with pytest.raises(DataError, match=r"^There is nothing to score"):
        score([], [[]], "bleu")


@pytest.mark.parametrize("metric", METRICS)
def test_sentences_with_fewer_references(metric: str) -> None:
    found = score(["the dog", "a cat"], [["the dog", "one cat"], ["that dog", None]], metric)
    assert "nrefs:var" in found.signature
    with pytest.raises(DataError, match=r"^Line 2 has no reference at all"):
        score(["the dog", "a cat"], [["the dog", None], ["that dog", None]], metric)


def test_empty_hypothesis_line_counts() -> None:
    """Fault 97."""
    assert bleu([MAT, ""], [MAT, PARK]) == pytest.approx(31.1403, abs=1e-4)


@pytest.mark.parametrize(("metric", "worst"), [("bleu", 0.0), ("chrf", 0.0), ("chrf++", 0.0), ("ter", 100.0)])
def test_all_hypotheses_empty(metric: str, worst: float) -> None:
    """Fault 97."""
    assert score(["", ""], [[MAT, PARK]], metric).value == worst


def test_empty_reference_line_counts() -> None:
    """Fault 98."""
    assert bleu(["a b c d e", "junk words here now ok"], ["a b c d e", ""]) == pytest.approx(50.0)


@pytest.mark.parametrize("metric", METRICS)
def test_everything_empty(metric: str) -> None:
    """Fault 98: neither side has a word, and nothing is divided by zero."""
    assert score(["", ""], [["", ""]], metric).value == 0.0


def test_short_segments_have_no_four_grams() -> None:
    """Fault 99: 0 by the standard, which the signature states as no effective order."""
    found = score(["hello world", "good day"], [["hello world", "good day"]], "bleu")
    assert found.value == 0.0
    assert "|eff:no|" in found.signature
    assert found.details == "100.0/100.0/0.0/0.0 (BP = 1.000 ratio = 1.000 hyp_len = 4 ref_len = 4)"


def test_corpus_score_is_no_mean() -> None:
    """Faults 99 and 100: the means of the scores of sentences are 90.4553 and 50; the order of lines matters."""
    assert bleu([MAT, PARK], [MAT, GARDEN]) == pytest.approx(89.4204, abs=1e-4)
    assert bleu([MAT, "a dog ran"], [MAT, "the dog ran in the park today"]) == pytest.approx(56.6537, abs=1e-4)
    assert bleu([PARK, MAT], [MAT, GARDEN]) == pytest.approx(4.3156, abs=1e-4)


def test_case() -> None:
    """Fault 101: the dotted capital I becomes two code points and stays different."""
    hyp, ref = "the cat sat on the mat .", "The Cat sat on the mat ."
    assert bleu([hyp], [ref]) == pytest.approx(61.4788, abs=1e-4)
    assert bleu([hyp], [ref], lowercase=True) == pytest.approx(100)
    turkish = "istanbul güzel bir şehir ."
    assert bleu([turkish], ["İstanbul" + turkish[8:]], lowercase=True) == pytest.approx(66.8740, abs=1e-4)
    for metric in ("bleu", "chrf", "chrf++"):
        assert "|case:mixed|" in score([hyp], [[ref]], metric).signature
        assert "|case:lc|" in score([hyp], [[ref]], metric, lowercase=True).signature
    assert "|case:lc|" in score([hyp], [[ref]], "ter").signature


@pytest.mark.parametrize(("hyp", "value"), [("a <unk> ran home today", 26.27), ("a ⁇ ran home today", 42.73)])
def test_unknown_marks_match_nothing(hyp: str, value: float) -> None:
    """Fault 102."""
    assert bleu([hyp], ["a zebra ran home today"]) == pytest.approx(value, abs=0.005)


def test_unicode_forms_are_different_text() -> None:
    """Fault 8."""
    composed = "le café est très près d’ici ."
    decomposed = unicodedata.normalize("NFD", composed)
    assert bleu([decomposed], [composed]) == pytest.approx(15.6197, abs=1e-4)
    assert bleu([composed], [composed]) == pytest.approx(100)


@pytest.mark.parametrize(("metric", "value"), [("chrf", 84.4774), ("chrf++", 86.2699), ("ter", 7.6923)])
def test_chrf_and_ter(metric: str, value: float) -> None:
    """Fault 105."""
    assert score([MAT, PARK], [[MAT, GARDEN]], metric).value == pytest.approx(value, abs=1e-4)


def test_direction() -> None:
    """Fault 105: a lower error rate is better."""
    assert [higher_is_better(metric) for metric in METRICS] == [True, True, True, False]
    assert is_better("bleu", 30.1, than=30.0)
    assert not is_better("bleu", 29.9, than=30.0)
    assert is_better("ter", 29.9, than=30.0)
    assert not is_better("ter", 30.1, than=30.0)


def test_ter_details() -> None:
    assert score([MAT, PARK], [[MAT, GARDEN]], "ter").details == "1 edits of 13 words"


@pytest.mark.parametrize("lines", [1, 2, 7])
@pytest.mark.parametrize(("metric", "best"), [("bleu", 100.0), ("chrf", 100.0), ("chrf++", 100.0), ("ter", 0.0)])
def test_no_dust(metric: str, best: float, lines: int) -> None:
    """Fault 106."""
    text = [f"{MAT} number {number}" for number in range(lines)]
    found = score(text, [text], metric)
    assert found.value == best
    assert display(found.value) == f"{best:.2f}"
    assert not is_better(metric, found.value + 4e-14, than=found.value)
    assert not is_better(metric, found.value - 4e-14, than=found.value)


def test_a_score_shows_its_signature() -> None:
    assert str(score([MAT], [[MAT]], "bleu")).startswith(
        "BLEU = 100.00 (nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:"
    )


def test_unknown_names() -> None:
    with pytest.raises(ConfigError, match=r"^'meteor' is not a metric; choose one of bleu, chrf, chrf\+\+, ter\.$"):
        score([MAT], [[MAT]], "meteor")
    with pytest.raises(
        ConfigError, match=r"^'moses' is not a tokenizer of BLEU; choose one of 13a, intl, char, none, zh, "
    ):
        score([MAT], [[MAT]], "bleu", tokenize="moses")


def test_white_space_inside_a_line() -> None:
    """Fault 2: a lone CR is white space, not a line end."""
    assert bleu(["a b c d e\rf g h i j", "x y z w v"], ["a b c d e f g h i j", "x y z w v"]) == pytest.approx(100)
