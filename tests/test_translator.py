from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import mt
from mt.data.config import DataConfig, ParallelText
from mt.data.training_data import batches_of
from mt.engine import evaluating
from mt.errors import ConfigError, DataError, RunError
from mt.lines.lengths import Lengths
from mt.lines.request import Request
from mt.models.encoder_decoder import EncoderDecoder
from mt.scoring.utility import utilities
from mt.search.config import DecodeConfig
from mt.search.searches import SEARCHES
from mt.text.tokenizer import Tokenizers
from mt.training.checkpoint import Checkpoint, Checkpoints
from mt.training.state import TrainingState
from mt.translator import WINDOW, Alternative, Translation, Translator, load
from mt.yaml_tree import Block, read_yaml
from tests.data.fakes import corpus_of
from tests.translators import LETTERS, Copy, CopyState, copied, copier, letters, run_folder, untrained

NINE = ["1 a a a a", "2", "3 b b b b b b b b", "4 c c", "5 d d", "6 e e e e e e", "7", "8 f", "9 g g g g g g g"]
DATA = DataConfig("en", "de", (ParallelText(Path("a"), Path("b")),))
lines = st.lists(st.lists(st.sampled_from(LETTERS), max_size=7).map(" ".join), max_size=9)


def texts(translations: list[Translation] | Iterator[Translation]) -> list[str]:
    return [translation.text for translation in translations]


@pytest.mark.parametrize("batch_tokens", [1, 8, 20, 4096])
@pytest.mark.parametrize("n_best", [1, 3])
def test_line_k_belongs_to_line_k(batch_tokens: int, n_best: int) -> None:
    """Fault 74: lengths in disorder, equal lines included."""
    config = DecodeConfig(batch_tokens=batch_tokens, n_best=n_best)
    found = list(copier(config).translate([*NINE, NINE[3]]))
    assert texts(found) == [*NINE, NINE[3]]
    assert [one.source for one in found] == [*NINE, NINE[3]]
    assert all(len(one.alternatives) == n_best - 1 for one in found)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 10, 16, 17])
@pytest.mark.parametrize("window", [1, 3, 8, 1024])
def test_n_lines_in_are_n_lines_out(count: int, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 77: windows and batches that do not divide the number of lines; and a line in the middle that is over the
    batch's budget and longer than all lines of the training."""
    monkeypatch.setattr("mt.translator.WINDOW", window)
    source = [f"{LETTERS[number]} x" for number in range(count)]
    if count > 4:
        source[4] = " ".join(["y"] * 40)
    translator = copier(DecodeConfig(batch_tokens=24))
    translator.lengths = Lengths(pieces=5, sentences=1, longest=9)
    assert texts(translator.translate(source)) == source


@pytest.mark.parametrize("search", SEARCHES)
def test_batches_windows_order_and_streams_change_no_translation(search: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any search: the same pieces, and scores to 1e-4."""
    options: dict[str, Any] = {"sample": {"samples": 3, "top_k": 8}, "greedy": {"n_best": 1}}.get(search, {})
    config = DecodeConfig(**{"search": search, "n_best": 3, "beam_size": 4, "max_length": 7, **options})
    source = ["a b c", "", "d", "e f g h i j", "k l", "m n o p q r s t", "a b c"]
    whole = list(untrained(config).translate(source))
    for window, batch_tokens in ((1, 4096), (3, 8), (1024, 1)):
        monkeypatch.setattr("mt.translator.WINDOW", window)
        other = list(untrained(replace(config, batch_tokens=batch_tokens)).translate(source))
        assert [one.tokens for one in other] == [one.tokens for one in whole]
        assert [one.score for one in other] == pytest.approx([one.score for one in whole], abs=1e-4)
        assert [[a.text for a in one.alternatives] for one in other] == [
            [a.text for a in one.alternatives] for one in whole
        ]
    if search != "sample":  # which draws by the number of the line
        turned = list(untrained(config).translate(source[::-1]))
        assert [one.tokens for one in turned[::-1]] == [one.tokens for one in whole]


def test_a_batch_keeps_to_its_budget() -> None:
    translator = copier(DecodeConfig(batch_tokens=24))
    list(translator.translate(["a b c"] * 13))
    assert copied(translator).rows == [6, 6, 1]


@pytest.mark.parametrize("blank", ["", " ", "\t", "\u3000", "\xa0 "])
def test_blank_lines_stay_blank_and_their_neighbours_do_not_notice(blank: str) -> None:
    """Faults 64 and 15."""
    translator = untrained()
    together = list(translator.translate([blank, "a b c", blank]))
    assert [together[0], together[2]] == [Translation("", 0.0, 0.0, source=blank)] * 2
    assert together[1] == next(translator.translate(["a b c"]))


def test_only_blank_lines_need_no_model() -> None:
    translator = copier()
    assert texts(translator.translate(["", " "])) == ["", ""]
    assert copied(translator).rows == []


@settings(max_examples=15, deadline=None)
@given(source=lines, beam_size=st.integers(1, 4), batch_tokens=st.sampled_from([1, 16, 4096]))
def test_company_changes_no_translation(source: list[str], beam_size: int, batch_tokens: int) -> None:
    translator = untrained(DecodeConfig(beam_size=beam_size, max_length=8, batch_tokens=batch_tokens))
    together = list(translator.translate(source))
    alone = [next(translator.translate([line])) for line in source]
    assert texts(together) == texts(alone)
    assert [one.score for one in together] == pytest.approx([one.score for one in alone], abs=1e-4)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_printed_score_is_that_of_the_forced_translation(beam_size: int) -> None:
    """Faults 92 and 80: a real model, cached step by step in a reordered beam, against its full forward pass."""
    from mt.data.batching import collate

    config = DecodeConfig(beam_size=beam_size, n_best=beam_size, max_length=6)
    translator = untrained(config)
    src, tgt = translator.tokenizers.src, translator.tokenizers.tgt
    checked = 0
    for one in translator.translate(["a b c", "d", "e f g h i j"]):
        best = Alternative(one.text, one.score, one.log_prob, one.truncated)
        for found in (best, *one.alternatives):
            target = tgt.encode(found.text)
            batch = collate([src.encode(one.source)], [target], tgt.pad, tgt.bos, tgt.eos)
            with torch.inference_mode(), evaluating(translator.model):
                log_probs = translator.model(batch).log_softmax(-1)[0].gather(1, batch.tgt_out[0][:, None])
            log_prob = float(log_probs[: len(target)].sum() if found.truncated else log_probs.sum())
            length = len(target) + (not found.truncated)
            assert found.log_prob == pytest.approx(log_prob, abs=1e-4)
            assert found.score == pytest.approx(log_prob / length, abs=1e-4)
            checked += 1
    assert checked >= 3


def test_the_model_translates_without_dropout_and_gradients_and_is_left_as_it_was() -> None:
    """Faults 70 and 88."""
    translator = copier()
    translator.model.train()
    stream = translator.translate(["a"])
    next(stream)
    assert translator.model.training
    assert not torch.is_inference_mode_enabled()
    assert set(copied(translator).modes) == {(False, True)}
    real = untrained()
    real.model.train()
    assert len({tuple(texts(real.translate(["a b c d"]))) for _ in range(3)}) == 1
    assert real.model.training


def test_training_goes_on_after_a_translation_that_grew_the_position_table() -> None:
    """Faults 70 and 73: nothing made in inference mode stays in the model."""
    from mt.data.batching import collate

    translator = untrained(DecodeConfig(beam_size=1, max_length=2))
    list(translator.translate([" ".join(["a"] * 600)]))
    translator.model.train()
    translator.model(collate([[5] * 600], [[6, 7]], 3, 1, 2)).sum().backward()
    assert all(parameter.grad is not None for parameter in translator.model.parameters())


def test_the_training_flag_comes_back_after_an_error() -> None:
    """Fault 70."""
    model = torch.nn.Linear(1, 1)

    def fail() -> None:
        with evaluating(model):
            assert not model.training
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert model.training


def test_an_overlong_source_is_cut_where_asked_and_says_so() -> None:
    """Fault 84."""
    source = ["a", " ".join(["b"] * 5000), "c"]
    found = list(copier(DecodeConfig(beam_size=1, max_source_length=100, long_source="cut")).translate(source))
    assert texts(found) == ["a", " ".join(["b"] * 100), "c"]
    assert [one.cut_from for one in found] == [None, 5000, None]


def test_a_long_source_comes_out_whole_with_the_defaults() -> None:
    """Fault 83: the limit is relative to the source."""
    source = " ".join(["a"] * 300)
    [found] = copier(DecodeConfig(beam_size=1)).translate([source])
    assert (found.text, found.truncated) == (source, False)


def test_a_model_that_never_ends_is_cut_and_flagged() -> None:
    """Fault 83."""
    [found] = copier(DecodeConfig(beam_size=1, max_length=5), endless=True).translate(["a"])
    assert (found.text, found.truncated) == ("a a a a a", True)


def test_alternatives_have_texts_of_their_own() -> None:
    """Fault 81: two segmentations that spell one text are one translation."""
    translator = copier(DecodeConfig(beam_size=4, n_best=3))
    translator.tokenizers.tgt.pieces[5] = translator.tokenizers.tgt.pieces[4]  # `b`, the second choice, now reads `a`
    [found] = translator.translate(["a a"])
    every = [found.text, *(other.text for other in found.alternatives)]
    assert len(every) == len(set(every))
    scores = [found.score, *(other.score for other in found.alternatives)]
    assert scores == sorted(scores, reverse=True)


def test_a_translation_is_one_line_whatever_the_pieces() -> None:
    """Fault 15: a piece may hold a line end."""
    translator = copier()
    translator.tokenizers.tgt.pieces[4] = "\n"
    translator.tokenizers.tgt.pieces[5] = "\r"
    assert [one.text.split() for one in translator.translate(["a b c"])] == [["c"]]
    assert "\n" not in next(translator.translate(["a c"])).text


@pytest.mark.parametrize(
    ("arguments", "wishes", "sentence"),
    [
        (["ab"], {}, "The lines must be a list of texts, but are one: put it in brackets."),
        ([[None]], {}, '"text" must be text, but is null.'),
        ([["caf\udce9"]], {}, '"text" holds half a surrogate pair, which is no character.'),
        ([["a"]], {"banned": "b"}, '"banned" must be a list of words or phrases, none of them blank, but is "b".'),
    ],
)
def test_what_is_no_text_is_not_translated(arguments: list[Any], wishes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError) as raised:
        next(copier().translate(*arguments, **wishes))
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("sources", "translations", "sentence"),
    [
        (["a", "b"], ["c"], "There are more sources than translations (1): each source needs its translation."),
        ([], ["c"], "There are more translations than sources (0): each source needs its translation."),
        (["a"], "c", "The translations must be a list of texts, but are one: put it in brackets."),
        (["a"], [None], '"translation" must be text, but is null.'),
    ],
)
def test_what_is_no_pair_is_not_scored(sources: Any, translations: Any, sentence: str) -> None:
    with pytest.raises(DataError) as raised:
        list(untrained().score(sources, translations))
    assert str(raised.value) == sentence


def test_each_side_has_its_own_tokenizer() -> None:
    """Fault 31."""
    [found] = untrained(DecodeConfig(max_length=5)).translate(["x y z"])
    assert set(found.text.split()) <= {*LETTERS[:9], "\u2047"}


class Listener(Copy):
    """Keeps what the encoder was given, and what the decoder was given first."""

    encoded: list[list[int]]
    begun: list[int] | None

    def start(self, src: Tensor, src_mask: Tensor, attention: bool = False) -> CopyState:
        self.encoded, self.begun = src.tolist(), None
        return super().start(src, src_mask, attention)

    def step(self, tokens: Tensor, state: CopyState) -> tuple[Tensor, CopyState]:
        self.begun = self.begun or tokens.tolist()
        return super().step(tokens, state)


def test_the_model_is_given_in_translation_what_it_was_given_in_training(tmp_path: Path) -> None:
    """Faults 109 and 113: ids of the encoder for 'a b', end mark included, and the decoder's first id; moved, too."""
    saved = letters()
    saved.save(tmp_path)
    for tokenizers in (saved, Tokenizers.load(tmp_path)):
        a, b = tokenizers.src.encode("a b")
        bos, eos = tokenizers.src.bos, tokenizers.src.eos
        [batch] = batches_of(corpus_of(["a b"], ["a b"], tokenizers), tokenizers, 100)
        assert batch.src.tolist() == [[a, b, eos]]
        assert batch.tgt_in.tolist() == [[bos, a, b]]
        listener = Listener(len(tokenizers.src))
        config = DecodeConfig(beam_size=1)
        [_] = Translator(cast(EncoderDecoder, listener), tokenizers, config).translate(["a b"])
        assert listener.encoded == batch.src.tolist()
        assert listener.begun == batch.tgt_in[:, 0].tolist()


def test_lines_are_read_a_window_ahead() -> None:
    """Fault 88."""
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "a"

    stream = copier(DecodeConfig(beam_size=1)).translate(endless())
    next(stream)
    assert read == WINDOW


def test_a_run_folder_translates_wherever_it_was_moved(tmp_path: Path) -> None:
    """Fault 121; and a decode block of one's own."""
    run_folder(tmp_path / "first", DATA, DecodeConfig(beam_size=2))
    expected = texts(untrained(DecodeConfig(beam_size=2)).translate(NINE))
    (tmp_path / "first").rename(tmp_path / "second")
    translator = mt.load(tmp_path / "second", device="cpu")
    assert isinstance(translator, Translator)
    assert translator.config == DecodeConfig(beam_size=2)
    assert texts(translator.translate(NINE)) == expected
    other = mt.load(str(tmp_path / "second"), device=torch.device("cpu"), decode=DecodeConfig(max_length=1))
    assert {len(one.text.split()) for one in other.translate(NINE)} <= {0, 1}


def test_the_recipe_of_a_run_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_folder(tmp_path, DATA)
    read = list[Path]()

    def tree_of(path: Path, base: Path) -> Block:
        read.append(path)
        return read_yaml(path, base)

    monkeypatch.setattr("mt.recipe.read_yaml", tree_of)
    load(tmp_path, device="cpu")
    assert read == [tmp_path / "recipe.yaml"]


def test_a_run_without_what_is_asked_for_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run_folder(run, DATA)
    with pytest.raises(RunError) as raised:
        load(run, "best", "cpu")
    assert str(raised.value) == f"{run} has no checkpoint 'best'; there are: none."
    (run / "model.safetensors").unlink()
    with pytest.raises(RunError) as raised:
        load(run, device="cpu")
    assert str(raised.value) == f"{run} has no final model: let mt train end, or choose a checkpoint (best, last, ...)."
    with pytest.raises(RunError, match="is not a run folder"):
        load(tmp_path, device="cpu")


def test_a_recipe_that_was_edited_to_another_model_is_noticed(tmp_path: Path) -> None:
    run_folder(tmp_path, DATA)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("  dim: 16\n", "  dim: 32\n"))
    with pytest.raises(RunError) as raised:
        load(tmp_path, device="cpu")
    assert str(raised.value) == (
        f"{tmp_path}/model.safetensors does not fit the run's recipe and tokenizer "
        "('decoder.layers.0.feed_forward.inner.weight' has shape (32, 16) in it, but (32, 32) in the model): put back "
        "the recipe.yaml and the tokenizer that it was trained with."
    )


def test_translation_does_not_need_the_description(tmp_path: Path) -> None:
    run_folder(tmp_path, DATA)
    assert not (tmp_path / "model.json").exists()
    assert texts(load(tmp_path, device="cpu").translate(NINE)) == texts(untrained().translate(NINE))


def test_a_damaged_checkpoint_is_not_translated_with(tmp_path: Path) -> None:
    run_folder(tmp_path, DATA)
    path = Checkpoints(tmp_path).save(Checkpoint(TrainingState(update=7), untrained().model.state_dict(), {}))
    content = bytearray((path / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (path / "model.safetensors").write_bytes(content)
    with pytest.raises(RunError) as raised:
        load(tmp_path, "last", "cpu")
    assert str(raised.value) == f"{path} is damaged: model.safetensors was changed after it was written."


def test_settings_of_a_line_that_the_model_cannot_follow_are_its_error() -> None:
    """Fault 86; where all lines are to have them nothing is translated."""
    wish = DecodeConfig(coverage_penalty=0.2)
    found = list(copier().translate(["a", Request("b", decode=wish), "c"]))
    assert texts(found) == ["a", "", "c"]
    with pytest.raises(ConfigError) as raised:
        list(copier(wish).translate(["a"]))
    assert [one.error for one in found] == [None, str(raised.value), None]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_an_absent_device_is_refused(tmp_path: Path) -> None:
    """Fault 117."""
    run_folder(tmp_path, DATA)
    with pytest.raises(ConfigError, match="cuda:7"):
        load(tmp_path, device="cuda:7")


def test_checkpoints_are_chosen_by_name(tmp_path: Path) -> None:
    run_folder(tmp_path, DATA)
    for update, value in ((10, 3.0), (20, 2.0), (30, 2.5)):
        state = TrainingState(update=update).after_validation({"loss": value})
        Checkpoints(tmp_path).save(Checkpoint(state, untrained(seed=update).model.state_dict(), {}))
    for name, seed in (("last", 30), ("best", 20), ("step-00000010", 10)):
        assert texts(load(tmp_path, name, "cpu").translate(NINE)) == texts(untrained(seed=seed).translate(NINE))


def test_import_mt_imports_no_torch() -> None:
    program = "import mt, sys; assert mt.load; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("options", [{"beam_size": 6}, {"search": "sample", "samples": 12, "temperature": 2.0}])
def test_minimum_bayes_risk_takes_the_text_that_is_most_like_all_others(options: dict[str, Any]) -> None:
    """Scores are expected utilities; the log-probability stays the model's, and each text comes once."""
    config = DecodeConfig(mbr_metric="chrf", n_best=3, max_length=6, **options)
    translator = untrained(config)
    [line] = translator.translate(["a b c d"])
    [found] = translator.engine.search([translator.tokenizers.src.encode("a b c d")], config)
    texts = translator.tokenizers.tgt.decode_batch([one.tokens for one in found])
    weights = [float(one.count) if config.search == "sample" else math.exp(one.log_prob) for one in found]
    expected = {
        text: sum(weight * value for weight, value in zip(weights, row, strict=True)) / sum(weights)
        for text, row in zip(texts, utilities(texts, "chrf"), strict=True)
    }
    kept = [line, *line.alternatives]
    assert len({one.text for one in kept}) == len(kept)
    whole = [one for one in kept if not one.truncated]
    assert [one.score for one in whole] == sorted((one.score for one in whole), reverse=True)
    assert [one.score for one in kept] == pytest.approx([expected[one.text] for one in kept])
