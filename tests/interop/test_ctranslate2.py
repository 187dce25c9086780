"""The conversion to CTranslate2: each function that a model computes arrives, or is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mt.errors import ConfigError, DataError
from mt.interop.ctranslate2 import (
    NOTE,
    CTranslate2Engine,
    check_decode,
    folder_aside,
    read_note,
    write_model,
    write_note,
)
from mt.interop.ctranslate2_model import POSITIONS, check_model, specification
from mt.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mt.search.config import DecodeConfig, LengthPenaltyConfig
from mt.search.options import LineOptions
from mt.text.tokenizer import Tokenizers
from mt.translator import Translator
from tests.models.laws import small
from tests.translators import LETTERS, letters, words

CONFIGS = {
    "post-relu": small(norm_position="post"),
    "pre-gelu": small(norm_position="pre", activation="gelu", tie="output"),
    "pre-swiglu": small(norm_position="pre", activation="swiglu", tie="src_tgt"),
    "another wavelength": small(position_base=100.0, heads=1, tie="none"),
    "more encoder": small(encoder=EncoderConfig(layers=3), decoder=DecoderConfig(layers=1)),
}


def translator(config: ModelConfig, tokenizers: Tokenizers) -> Translator:
    torch.manual_seed(1)
    model = config.build(len(tokenizers.src), len(tokenizers.tgt), tokenizers.tgt.pad)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return Translator(model, tokenizers)


def written(folder: Path, config: ModelConfig, tokenizers: Tokenizers) -> tuple[Translator, CTranslate2Engine]:
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    ours = translator(config, tokenizers)
    folder.mkdir()
    write_model(folder, ours.model, config, tokenizers)
    return ours, CTranslate2Engine(folder, tokenizers, threads=1)


def sentences(tokenizers: Tokenizers, count: int = 8, longest: int = 300) -> list[list[int]]:
    draw = torch.Generator().manual_seed(1)
    lengths = [1, 2, 5, longest, *[12] * (count - 4)]
    return [torch.randint(4, len(tokenizers.src), (length,), generator=draw).tolist() for length in lengths]


@pytest.mark.parametrize("name", CONFIGS)
def test_each_function_arrives(tmp_path: Path, name: str) -> None:
    """Faults 110, 111 and 112: activation, norms, scale and positions, at sentences of 1 to 300 pieces."""
    tokenizers = letters()
    ours, theirs = written(tmp_path / "model", CONFIGS[name], tokenizers)
    sources = sentences(tokenizers)
    targets = sources[::-1]
    for mine, other in zip(ours.engine.log_probs(sources, targets), theirs.log_probs(sources, targets), strict=True):
        assert mine == pytest.approx(other, abs=1e-4)


@pytest.mark.parametrize("name", CONFIGS)
def test_greedy_translations_are_the_same(tmp_path: Path, name: str) -> None:
    """Faults 108, 109 and 113: marks, begin and end are those of training."""
    tokenizers = Tokenizers(words(*LETTERS), words(*LETTERS[:9]), False) if "none" in CONFIGS[name].tie else letters()
    ours, theirs = written(tmp_path / "model", CONFIGS[name], tokenizers)
    config = DecodeConfig(beam_size=1, max_length=20)
    sources = sentences(tokenizers, longest=40)
    for mine, other in zip(ours.engine.search(sources, config), theirs.search(sources, config), strict=True):
        assert (mine[0].tokens, mine[0].truncated) == (other[0].tokens, other[0].truncated)


def test_n_best_scores_and_limits_of_each_sentence(tmp_path: Path) -> None:
    tokenizers = letters()
    _, theirs = written(tmp_path / "model", CONFIGS["post-relu"], tokenizers)
    config = DecodeConfig(beam_size=4, n_best=3, max_length_ratio=0.01)
    found = theirs.search(sentences(tokenizers, longest=200), config)
    assert [len(one) for one in found] == [4] * 8  # of which some may spell one text
    assert max(len(one.tokens) for one in found[0]) <= 50 < config.limit(200)
    for hypothesis in found[0]:
        length = len(hypothesis.tokens) + (not hypothesis.truncated)
        assert hypothesis.log_prob == pytest.approx(hypothesis.score * length)
    assert theirs.search([], config) == []


def test_what_is_finished_comes_before_what_was_cut(tmp_path: Path) -> None:
    """Fault 83. The engine ranks by score alone; here some that were cut have a better one than some that end."""
    tokenizers = letters()
    _, theirs = written(tmp_path / "model", CONFIGS["pre-swiglu"], tokenizers)
    config = DecodeConfig(beam_size=6, n_best=6, max_length=2)
    overtaken = 0
    for source in sentences(tokenizers, 16, longest=20):
        [found] = theirs.search([source], config)
        [best] = theirs.search([source], replace(config, n_best=1))
        cut = [one.truncated for one in found]
        assert cut == sorted(cut)
        assert best == found[:1]
        for group in (False, True):
            scores = [one.score for one in found if one.truncated == group]
            assert scores == sorted(scores, reverse=True)
        overtaken += not cut[0] and max(one.score for one in found) > found[0].score
    assert overtaken


def test_what_ends_is_found_however_much_is_cut(tmp_path: Path) -> None:
    """Fault 83. The engine drops hypotheses that end where those that the limit cut have better scores."""
    tokenizers = letters()
    ours, theirs = written(tmp_path / "model", CONFIGS["more encoder"], tokenizers)
    sources, config = sentences(tokenizers, 24, longest=20), DecodeConfig(beam_size=5, n_best=5, max_length=12)
    found, expected = (engine.search(sources, config) for engine in (theirs, ours.engine))
    cut = [[one.truncated for one in some] for some in found]
    assert cut == [[one.truncated for one in some] for some in expected]
    assert [False, True, True, True, True] in cut


def test_a_translation_as_long_as_its_limit_has_its_end(tmp_path: Path) -> None:
    """Faults 45 and 83: the end mark is no piece, and what has one is not cut."""
    tokenizers = letters()
    ours, theirs = written(tmp_path / "model", CONFIGS["pre-swiglu"], tokenizers)
    config, ended = DecodeConfig(beam_size=1, max_length=4), list[int]()
    for source in sentences(tokenizers, 24, longest=20):
        [[mine]], [[other]] = ours.engine.search([source], config), theirs.search([source], config)
        assert (mine.tokens, mine.truncated) == (other.tokens, other.truncated)
        ended += [len(other.tokens)] * (not other.truncated)
        [found] = theirs.search([source], replace(config, beam_size=5, n_best=5))
        assert len({one.tokens for one in found}) == 5
        assert all(len(one.tokens) == 4 if one.truncated else len(one.tokens) <= 4 for one in found)
    assert 4 in ended


def test_a_limit_is_that_of_its_sentence_in_any_company(tmp_path: Path) -> None:
    """Fault 83."""
    tokenizers = letters()
    _, theirs = written(tmp_path / "model", CONFIGS["pre-gelu"], tokenizers)
    config = DecodeConfig(beam_size=3, n_best=3, max_length_ratio=5)
    sources = [[5], [6, 7], [8, 9, 10], [11]]
    found = theirs.search(sources, config)
    for source, together in zip(sources, found, strict=True):
        [alone] = theirs.search([source], config)
        assert [(one.tokens, one.truncated) for one in together] == [(one.tokens, one.truncated) for one in alone]
        assert max(len(one.tokens) for one in together) == config.limit(len(source))


def test_what_is_written_beside_the_weights(tmp_path: Path) -> None:
    """Faults 107, 109 and 113: as many pieces as rows; marks and the source's end mark are stored with the model."""
    tokenizers = Tokenizers(words(*LETTERS), words(*LETTERS[:9]), False)
    written(tmp_path / "model", CONFIGS["another wavelength"], tokenizers)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (config["add_source_bos"], config["add_source_eos"]) == (False, True)
    assert config["decoder_start_token"] == tokenizers.tgt.pieces[tokenizers.tgt.bos]
    assert config["eos_token"] == tokenizers.tgt.pieces[tokenizers.tgt.eos]
    assert json.loads((tmp_path / "model" / "source_vocabulary.json").read_text()) == tokenizers.src.pieces
    assert json.loads((tmp_path / "model" / "target_vocabulary.json").read_text()) == tokenizers.tgt.pieces
    assert Tokenizers.load(tmp_path / "model" / "tokenizer").fingerprint == tokenizers.fingerprint


def test_tied_weights_are_stored_once(tmp_path: Path) -> None:
    """Fault 110."""
    tokenizers = letters()
    sizes = {}
    for tie in ("none", "all"):
        written(tmp_path / tie, small(tie=tie), tokenizers)
        sizes[tie] = (tmp_path / tie / "model.bin").stat().st_size
    matrix = 4 * len(tokenizers.src) * CONFIGS["post-relu"].dim
    assert sizes["none"] - sizes["all"] == pytest.approx(2 * matrix, abs=200)


def test_a_source_may_have_as_many_pieces_as_there_are_positions_but_one(tmp_path: Path) -> None:
    """Fault 73: a longer one is split or cut before it comes here, and a translation's limit is in reach."""
    tokenizers = letters()
    _, theirs = written(tmp_path / "model", CONFIGS["post-relu"], tokenizers)
    longest = [5] * int(theirs.reach.source)
    assert len(longest) == POSITIONS - 1
    [found] = theirs.search([longest], DecodeConfig(max_length=3))
    assert len(found[0].tokens) <= 3
    [scores] = theirs.log_probs([[5]], [longest])
    assert len(scores) == POSITIONS
    text = Translator(theirs, tokenizers, DecodeConfig(max_length=3)).translate(["a " * POSITIONS, "a"])
    assert [len(one.parts) for one in text] == [2, 0]


RECURRENT = ModelConfig(encoder=EncoderConfig(type="gru", layers=1), decoder=DecoderConfig(type="gru", layers=1), dim=8)


def test_a_model_that_cannot_be_run_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError) as error:
        check_model(RECURRENT)
    assert str(error.value) == (
        "model.encoder.type is gru, which cannot be run by CTranslate2: with it model.encoder.type must be "
        "transformer. Translate without it."
    )


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            DecodeConfig(length_penalty=LengthPenaltyConfig("wu")),
            "decode.length_penalty.kind is wu, which cannot be run by CTranslate2: with it decode.length_penalty.kind "
            "must be average or none. Translate without it.",
        ),
        (
            DecodeConfig(no_repeat_ngram_size=3),
            "decode.no_repeat_ngram_size is 3, which cannot be run by CTranslate2: with it "
            "decode.no_repeat_ngram_size must be null. Translate without it.",
        ),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(config: DecodeConfig, sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_decode(config)
    assert str(error.value) == sentence


def test_a_folder_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), folder_aside(tmp_path / "new") as aside:
        shutil.copytree(tmp_path / "nowhere", aside / "half")
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_export_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with folder_aside(tmp_path / "new") as aside:
            (aside / NOTE).write_text("{}")
            (aside / "model").write_text(text)
    assert (tmp_path / "new" / "model").read_text() == "second"
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").touch()
    with pytest.raises(DataError) as error, folder_aside(other):
        pass
    assert str(error.value) == f"{other} holds something that is no exported model; name a new folder."
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "other"]


def test_wishes_of_a_line_are_refused(tmp_path: Path) -> None:
    _, theirs = written(tmp_path / "model", CONFIGS["post-relu"], letters())
    with pytest.raises(ConfigError, match=r"^decode.search is sample, which cannot be run by CTranslate2"):
        theirs.search([[5]], DecodeConfig(search="sample"))
    for wish in (LineOptions(prefix=(5,)), LineOptions(forbidden=((5, 6),)), LineOptions(min_length=2)):
        with pytest.raises(ConfigError, match=r"^A prefix, constraints and banned phrases are not there with CTransl"):
            theirs.search([[5], [5]], DecodeConfig(), [LineOptions(), wish])
    exact = CTranslate2Engine(tmp_path / "model", letters(), threads=1, compute_type="float32")
    assert exact.search([[5]], DecodeConfig(max_length=3)) == theirs.search([[5]], DecodeConfig(max_length=3))
    with pytest.raises(ConfigError, match=r"^Lines with a decode\.precision of their own are not there with CTrans"):
        exact.search([[5]], DecodeConfig(precision="int8"))
    with pytest.raises(ConfigError) as error:
        theirs.attention([[5]], [[5]])
    assert str(error.value) == (
        "word alignments are not there with CTranslate2: translate without --backend ctranslate2."
    )


def test_the_note_names_the_weights(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    assert read_note(tmp_path) == {}
    write_note(tmp_path, "ab12", {"sentences": 3}, {"model.bin": {"bytes": 1}})
    note = read_note(tmp_path)
    assert (note["weights"], note["checked"], note["files"]) == ("ab12", {"sentences": 3}, {"model.bin": {"bytes": 1}})


def test_the_specification_refuses_what_the_check_refuses() -> None:
    pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")
    tokenizers = letters()
    with pytest.raises(ConfigError):
        specification(translator(RECURRENT, tokenizers).model, RECURRENT, tokenizers)
