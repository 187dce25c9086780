"""The tokenizer of BLEU follows the target language."""

from __future__ import annotations

import sys

import pytest

from mt.errors import MissingExtraError
from mt.scoring.tokenizers import tokenizer_for


@pytest.mark.parametrize("code", ["zh", "zh-CN", "zh_TW", "ZH", "zho_Hans", "cmn_Hans", "cmn", "yue"])
def test_chinese(code: str) -> None:
    """Fault 94."""
    assert tokenizer_for(code) == "zh"


@pytest.mark.parametrize("code", [None, "", "en", "de_AT", "deu", "zha", "jam", "kok"])
def test_languages_with_spaces(code: str | None) -> None:
    assert tokenizer_for(code) == "13a"


@pytest.mark.parametrize("code", ["th", "tha_Thai", "lo", "km", "my", "bo"])
def test_languages_without_spaces(code: str) -> None:
    """Fault 94's kind: 13a would take a sentence for one word."""
    assert tokenizer_for(code) == "char"


@pytest.mark.parametrize("code", ["ja", "ja-JP", "jpn_Jpan", "jpn"])
def test_japanese(code: str) -> None:
    pytest.importorskip("MeCab")
    assert tokenizer_for(code) == "ja-mecab"


@pytest.mark.parametrize("code", ["ko", "ko_KR", "kor_Hang"])
def test_korean(code: str) -> None:
    pytest.importorskip("mecab_ko")
    assert tokenizer_for(code) == "ko-mecab"


@pytest.mark.parametrize(("code", "module", "tokenizer"), [("ja", "MeCab", "ja-mecab"), ("ko", "mecab_ko", "ko-mecab")])
def test_missing_mecab_is_an_error(code: str, module: str, tokenizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults 94 and 120."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError) as caught:
        tokenizer_for(code)
    assert str(caught.value) == (
        f"BLEU with the tokenizer {tokenizer} needs an optional package: pip install 'mt-toolkit[{code}]'."
    )


def test_a_chosen_tokenizer_is_taken() -> None:
    assert tokenizer_for("ja", "char") == "char"
    assert tokenizer_for("zh", "13a") == "13a"
