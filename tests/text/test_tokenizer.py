"""What holds for each type of tokenizer, and the folder they are kept in."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest

from mt.errors import ConfigError, DataError
from mt.text.config import SPECIALS, TokenizerConfig
from mt.text.tokenizer import Tokenizers

SOURCES = [f"the {colour} {animal} sat on mat {number}" for colour in ("red", "old") for animal in ("cat", "dog")
           for number in range(40)]  # fmt: skip
TARGETS = [line.replace("the", "die").replace("sat", "saß") for line in SOURCES]
TYPES = ("bpe", "unigram", "char", "word")


def config(type: str = "bpe", **keys: object) -> TokenizerConfig:
    return replace(TokenizerConfig(type=type, vocab_size=90, soft_vocab_limit=True), **keys)  # type: ignore[arg-type]


def train(config: TokenizerConfig, sources: list[str] = SOURCES, targets: list[str] = TARGETS) -> Tokenizers:
    return Tokenizers.train(config, sources, targets, ("s.txt", "t.txt"))


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("normalization", ["nfc", "identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf"])
def test_decoding_gives_the_normalised_text(type: str, normalization: str) -> None:
    tokenizer = train(config(type, normalization=normalization)).tgt
    for line in (*TARGETS[:5], "  die   old cat ", "", " "):
        assert tokenizer.decode(tokenizer.encode(line)) == tokenizer.normalize(line)


@pytest.mark.parametrize("type", TYPES)
def test_a_batch_is_its_lines(type: str) -> None:
    tokenizer = train(config(type)).src
    assert tokenizer.encode_batch(SOURCES) == [tokenizer.encode(line) for line in SOURCES]
    batch = tokenizer.encode_batch(SOURCES)
    assert tokenizer.decode_batch(batch) == [tokenizer.decode(ids) for ids in batch] == SOURCES
    assert tokenizer.encode_batch([]) == []
    assert tokenizer.decode_batch([]) == []
    assert tokenizer.decode_batch([[], batch[0], []]) == ["", SOURCES[0], ""]


@pytest.mark.parametrize("type", TYPES)
def test_specials_stand_once_at_the_start(type: str) -> None:
    """Fault 27."""
    tokenizer = train(config(type, user_symbols=("<2de>",))).src
    assert tuple(tokenizer.pieces[:4]) == SPECIALS
    assert (tokenizer.unk, tokenizer.bos, tokenizer.eos, tokenizer.pad) == (0, 1, 2, 3)
    assert len(tokenizer) == len(tokenizer.pieces) == len(set(tokenizer.pieces)) <= 90


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("special", SPECIALS)
def test_text_cannot_name_a_special(type: str, special: str) -> None:
    """Fault 27, its neighbour: a special's name in the text is text."""
    tokenizer = train(config(type)).src
    assert not {1, 2, 3} & set(tokenizer.encode(f"the {special} cat"))


@pytest.mark.parametrize("type", TYPES)
def test_a_user_symbol_is_one_piece(type: str) -> None:
    """Fault 27."""
    tokenizer = train(config(type, user_symbols=("<2de>", "a,b", 'x"y'))).src
    for symbol in ("<2de>", "a,b", 'x"y'):
        ids = tokenizer.encode(f"{symbol} the cat")
        assert tokenizer.pieces.index(symbol) in ids
        assert tokenizer.unk not in ids


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        (("<s>",), "'<s>' is a symbol of every vocabulary already; leave it out or take another name."),
        (("<2de>", "<2de>"), "'<2de>' is given twice; each symbol may stand there once."),
        (("<0x41>",), "'<0x41>' is the name of a byte piece; take another name."),
        (("a b",), "'a b' may not be empty nor hold white space, control characters or U+2581."),
        (("",), "'' may not be empty nor hold white space, control characters or U+2581."),
        (("e\u0301",), "'e\u0301' is not composed (Unicode NFC), as the normalised text will be; write it composed."),
    ],
)
def test_wrong_user_symbols_are_refused_by_name(symbols: tuple[str, ...], message: str) -> None:
    """Fault 27."""
    with pytest.raises(ConfigError) as error:
        TokenizerConfig(user_symbols=symbols)
    assert str(error.value) == f"tokenizer.user_symbols: {message}"


@pytest.mark.parametrize("type", ["bpe", "unigram", "char"])
@pytest.mark.parametrize("normalization", ["nfc", "nfkc", "nmt_nfkc", "nmt_nfkc_cf"])
def test_control_characters_never_join_words(type: str, normalization: str) -> None:
    """Fault 6."""
    tokenizer = train(config(type, normalization=normalization)).src
    expected = tokenizer.encode("the cat")
    for code in (*range(0x0A), *range(0x0B, 0x20), *range(0x7F, 0xA0)):
        assert tokenizer.encode(f"the{chr(code)}cat") == expected, hex(code)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("normalization", ["nfc", "identity", "nmt_nfkc"])
def test_text_after_a_nul_is_not_lost(type: str, normalization: str) -> None:
    """Fault 5."""
    tokenizer = train(config(type, normalization=normalization), ["a\0b c", "d e"] * 20, []).src
    assert tokenizer.encode("a\0b c") == tokenizer.encode("a b c")
    assert tokenizer.unk not in tokenizer.encode("a\0b c")
    assert not any("\0" in piece for piece in tokenizer.pieces)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("normalization", ["nfc", "nfkc", "nmt_nfkc"])
def test_decomposed_text_has_the_same_ids(type: str, normalization: str) -> None:
    """Fault 8."""
    line = "le café est très près d’ici ."
    tokenizer = train(config(type, normalization=normalization), [line] * 20, []).src
    assert tokenizer.encode(unicodedata.normalize("NFD", line)) == tokenizer.encode(line)


@pytest.mark.parametrize(
    "text",
    ["\u0645\u06cc\u200c\u0631\u0648\u0645", "\U0001f3f3\ufe0f\u200d\U0001f308", "a\u200bb", "a\u00adb", "½①㎏…Ａﬁn"],
)
@pytest.mark.parametrize("normalization", ["identity", "nfc"])
@pytest.mark.parametrize("type", TYPES)
def test_identity_and_nfc_change_nothing(type: str, normalization: str, text: str) -> None:
    """Faults 7 and 9."""
    tokenizer = train(config(type, normalization=normalization), [text] * 20, []).src
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert not tokenizer.changes(text)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("½", "1⁄2"),
        ("①", "1"),
        ("㎏", "kg"),
        ("…", "..."),
        ("Ａ", "A"),
        ("ﬁn", "fin"),
        ("a\u200cb", "a b"),
        ("a\u00adb", "a\u00adb"),
    ],
)
def test_nmt_nfkc_folds_and_says_so(text: str, folded: str) -> None:
    """Faults 7 and 9."""
    tokenizer = train(config(normalization="nmt_nfkc")).src
    assert tokenizer.normalize(text) == folded
    assert tokenizer.changes(text) == (text != folded)
    assert not tokenizer.changes("  plain   text ")


def test_the_marker_of_spaces_becomes_a_space() -> None:
    """Fault 11."""
    tokenizer = train(config(byte_fallback=True, vocab_size=400)).src
    assert tokenizer.decode(tokenizer.encode("the\u2581cat")) == "the cat"
    assert tokenizer.decode(tokenizer.encode("\u2581\u2581")) == ""
    assert train(config("word"), ["the\u2581cat"], []).src.encode("the\u2581cat") == [4]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("text", ["cat \U0001f600 dog", "ᚠᚢ cat dog", "\U00020000 cat dog"])
def test_unseen_characters_are_shown_as_unknown(type: str, text: str) -> None:
    """Fault 10."""
    tokenizer = train(config(type)).src
    shown = tokenizer.decode(tokenizer.encode(text))
    assert "\u2047" in shown
    assert "cat" in shown
    assert shown.endswith("dog")


@pytest.mark.parametrize("type", ["bpe", "unigram"])
@pytest.mark.parametrize("text", ["cat \U0001f600 dog", "ᚠᚢ", "\U00020000"])
def test_byte_fallback_spells_unseen_characters(type: str, text: str) -> None:
    """Fault 10."""
    tokenizer = train(config(type, byte_fallback=True, vocab_size=400)).src
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_cut_bytes_are_shown_as_replacement_characters() -> None:
    """Fault 25."""
    tokenizer = train(config(byte_fallback=True, vocab_size=400)).src
    ids = [tokenizer.pieces.index(f"<0x{byte:02X}>") for byte in "\U0001f600".encode()]
    assert tokenizer.decode(ids) == "\U0001f600"
    assert tokenizer.decode(ids[:2]) == "\ufffd\ufffd"


def test_no_marker_is_left_in_the_output() -> None:
    """Fault 26."""
    tokenizer = train(config(vocab_size=40)).src
    ids = tokenizer.encode("the red dog")
    for end in range(len(ids)):
        assert not {"\u2581", "@"} & set(tokenizer.decode(ids[:end]))


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("shared", [True, False])
def test_a_saved_folder_gives_the_same_back(type: str, shared: bool, tmp_path: Path) -> None:
    """Faults 28 and 32."""
    made = train(config(type, shared=shared))
    folder = tmp_path / "my run, données" / "tokenizer"
    made.save(folder)
    loaded = Tokenizers.load(folder)
    assert loaded.shared == shared == (loaded.src is loaded.tgt)
    assert loaded.fingerprint == made.fingerprint
    assert loaded.src.pieces == made.src.pieces
    assert loaded.tgt.encode_batch(TARGETS) == made.tgt.encode_batch(TARGETS)
    assert loaded.src.normalization == "nfc"


@pytest.mark.parametrize("type", ["char", "word"])
def test_pieces_may_be_line_ends_of_other_kinds(type: str, tmp_path: Path) -> None:
    """Fault 28."""
    made = train(config(type, normalization="identity"), ["a\u2028b \u2028 \r \xa0 \x85"] * 100, [])
    made.save(tmp_path)
    assert {"\u2028", "\r", "\xa0", "\x85"} <= set(made.src.pieces)
    assert Tokenizers.load(tmp_path).src.pieces == made.src.pieces


def test_equal_sizes_are_not_equal_vocabularies() -> None:
    """Fault 29."""
    apart = train(config("char", shared=False), ["ab c"], ["xy z"])
    assert len(apart.src) == len(apart.tgt)
    assert apart.src.fingerprint != apart.tgt.fingerprint


def test_the_wrong_side_knows_nothing() -> None:
    """Fault 31."""
    apart = train(config("char", shared=False), ["ab"], ["xy"])
    assert apart.src.unk not in apart.src.encode("ab")
    assert set(apart.tgt.encode("ab")) - {apart.tgt.pieces.index("\u2581")} == {apart.tgt.unk}


def test_a_damaged_model_is_named(tmp_path: Path) -> None:
    train(config()).save(tmp_path)
    (tmp_path / "shared.model").write_bytes(b"junk")
    with pytest.raises(DataError, match=r"shared.model is damaged \(it is no SentencePiece model\); prepare again"):
        Tokenizers.load(tmp_path)
    train(config(vocab_size=30)).save(tmp_path / "other")
    (tmp_path / "other" / "shared.model").rename(tmp_path / "shared.model")
    with pytest.raises(DataError, match=r"shared.model is not the file that .*tokenizer.json describes; prepare again"):
        Tokenizers.load(tmp_path)


@pytest.mark.parametrize("index", [{"format": 1}, {"format": 1, "type": "word", "files": {}, "fingerprints": 3}])
def test_a_damaged_index_is_named(tmp_path: Path, index: dict[str, object]) -> None:
    """Fault 43."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(index))
    with pytest.raises(DataError, match=r"tokenizer.json is damaged: entries are missing; prepare again or restore "):
        Tokenizers.load(tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent/tokenizer.json cannot be read: No such file or directory\."):
        Tokenizers.load(tmp_path / "absent")


def test_reuse_takes_over_a_run(tmp_path: Path) -> None:
    """Fault 35."""
    train(config()).save(tmp_path / "run" / "tokenizer")
    for folder in (tmp_path / "run", tmp_path / "run" / "tokenizer"):
        Tokenizers.reuse(config(), folder).save(tmp_path / "new")
        for name in ("shared.model", "tokenizer.json"):
            assert (tmp_path / "new" / name).read_bytes() == (tmp_path / "run" / "tokenizer" / name).read_bytes()


def test_reuse_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        Tokenizers.reuse(config(), tmp_path)
    assert str(error.value) == (
        f"tokenizer.reuse: {tmp_path} holds no tokenizer; name the folder of a run or a tokenizer."
    )


@pytest.mark.parametrize(("key", "value", "said"), [("type", "unigram", "unigram"), ("shared", False, "false")])
def test_reuse_of_another_kind_is_refused(tmp_path: Path, key: str, value: object, said: str) -> None:
    """Fault 35."""
    train(config()).save(tmp_path / "tokenizer")
    there = {"type": "bpe", "shared": "true"}[key]
    with pytest.raises(ConfigError) as error:
        Tokenizers.reuse(config(**{key: value}), tmp_path)  # type: ignore[arg-type]
    assert str(error.value) == (
        f"tokenizer.{key} is {said}, but in {tmp_path}, which tokenizer.reuse names, it is {there}; "
        f"set tokenizer.{key}: {there}."
    )


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"type": "word", "character_coverage": 0.99},
            "tokenizer.character_coverage 0.99 belongs to tokenizer.type bpe or unigram or char, but that is word: "
            "change tokenizer.type, or leave tokenizer.character_coverage out.",
        ),
        (
            {"type": "unigram", "dropout": 0.1},
            "tokenizer.dropout 0.1 belongs to tokenizer.type bpe, but that is unigram: change tokenizer.type, or leave "
            "tokenizer.dropout out.",
        ),
        (
            {"type": "bpe", "alpha": 0.1},
            "tokenizer.alpha 0.1 belongs to tokenizer.type unigram, but that is bpe: change tokenizer.type, or leave "
            "tokenizer.alpha out.",
        ),
        (
            {"type": "char", "byte_fallback": True},
            "tokenizer.byte_fallback true belongs to tokenizer.type bpe or unigram, but that is char: change "
            "tokenizer.type, or leave tokenizer.byte_fallback out.",
        ),
    ],
)
def test_settings_of_another_type_are_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        TokenizerConfig(**keys)  # type: ignore[arg-type]
    assert str(error.value) == message
