from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mt.config import leaves, to_mapping
from mt.errors import RunError
from mt.models.config import ModelConfig
from mt.training.resume import FIXED, RULES, Change, changed_keys, check_corpus, check_resume

RUN = Path("runs/one")


def recipe(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "name": "one",
        "seed": 1,
        "data.train": [{"src": "a.en", "tgt": "a.de"}],
        "data.test": {},
        "tokenizer.vocab_size": 8000,
        "tokenizer.user_symbols": [],
        "model.dim": 128,
        "model.dropout": 0.3,
        "train.lr": 0.001,
        "train.batch_tokens": 4096,
        "train.max_steps": 10,
        "train.clip_norm": 1.0,
        "decode.beam_size": 5,
    }
    tree: dict[str, Any] = {}
    for key, value in {**values, **changes}.items():
        *blocks, name = key.split(".")
        place = tree
        for block in blocks:
            place = place.setdefault(block, {})
        place[name] = value
    return tree


def changed(key: str, value: Any, *, finished: bool = False) -> list[str]:
    return [str(change) for change in check_resume(RUN, recipe(), recipe(**{key: value}), finished=finished)]


def test_changes_are_found_wherever_they_are() -> None:
    new = recipe(**{"data.train": [{"src": "a.en", "tgt": "b.de"}, {"src": "c", "tgt": "d"}], "train.clip_norm": None})
    assert changed_keys(recipe(), new) == [
        Change("data.train[0].tgt", "a.de", "b.de"),
        Change("train.clip_norm", 1.0, None),
        Change("data.train[1].src", None, "c"),
        Change("data.train[1].tgt", None, "d"),
    ]
    assert changed_keys(new, new) == []
    assert changed_keys({"a": ()}, {"a": []}) == []
    assert changed_keys({"a": 1}, {"a": True}) == [Change("a", 1, True)]


def test_a_new_learning_rate_is_told_with_both_values() -> None:
    """Fault 54."""
    assert changed("train.lr", 1e-5) == ["train.lr: 0.001 -> 1e-05"]
    assert changed("model.dropout", 0.1) == ["model.dropout: 0.3 -> 0.1"]
    assert changed("train.max_steps", None) == ["train.max_steps: 10 -> null"]


@pytest.mark.parametrize("key", [key for key, _ in leaves(to_mapping(ModelConfig())) if "drop" in key])
def test_whatever_is_left_out_at_random_may_change(key: str) -> None:
    """Fault 54: no weight depends on it."""
    assert [change.split(" -> ")[-1] for change in changed(f"model.{key}", 0.25)] == ["0.25"]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("model.dim", 256, "model.dim: 128 -> 256"),
        ("tokenizer.vocab_size", 4000, "tokenizer.vocab_size: 8000 -> 4000"),
        ("tokenizer.user_symbols", ["<a>"], "tokenizer.user_symbols: [] -> [<a>]"),
        ("seed", 2, "seed: 1 -> 2"),
        ("train.batch_tokens", 2048, "train.batch_tokens: 4096 -> 2048"),
        ("data.dedup", True, "data.dedup: null -> true"),
        ("train.ema", 0.999, "train.ema: null -> 0.999"),
        ("train.init_from", "runs/other", "train.init_from: null -> runs/other"),
        ("train.metric", "bleu", "train.metric: null -> bleu"),
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_what_makes_another_training_is_refused(key: str, value: Any, told: str, finished: bool) -> None:
    """Faults 54 and 60."""
    with pytest.raises(RunError) as caught:
        changed(key, value, finished=finished)
    assert str(caught.value) == (
        f"{RUN} holds a training begun with another recipe ({told}): set the former value to go on with it, "
        "choose another model_dir, or delete that training with --overwrite."
    )


def test_of_many_changes_three_are_named() -> None:
    new = recipe(**{"model.dim": 2, "model.heads": 1, "model.ffn_dim": 2, "seed": 3, "tokenizer.type": "char"})
    with pytest.raises(
        RunError, match=r"\(seed: 1 -> 3, model.dim: 128 -> 2, tokenizer.type: null -> char and 2 more\)"
    ):
        check_resume(RUN, recipe(), new, finished=False)


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "two"),
        ("decode.beam_size", 1),
        ("data.test", {"new": {"src": "x", "tgt": ["y"]}}),
        ("data.train", [{"src": "/moved/a.en", "tgt": "/moved/a.de"}]),
        ("model.preset", "transformer_tiny"),
    ],
)
def test_what_has_no_part_in_training_may_change(key: str, value: Any, finished: bool) -> None:
    assert changed(key, value, finished=finished) == []


def test_a_finished_training_of_another_recipe_is_refused() -> None:
    """Fault 60."""
    with pytest.raises(RunError) as caught:
        changed("train.lr", 0.01, finished=True)
    assert str(caught.value) == (
        f"{RUN} holds a finished training of another recipe (train.lr: 0.001 -> 0.01): choose another model_dir, or "
        "delete that training with --overwrite."
    )


def test_a_finished_training_may_go_on_for_longer() -> None:
    assert changed("train.max_steps", 20, finished=True) == ["train.max_steps: 10 -> 20"]


def test_a_prepared_corpus_of_other_text_is_refused() -> None:
    """Fault 35."""
    check_corpus(RUN, "0123456789abcdef", "0123456789abcdef")
    with pytest.raises(RunError) as caught:
        check_corpus(RUN, "0123456789abcdef", "fedcba9876543210")
    assert str(caught.value) == (
        f"{RUN} holds a training begun on another prepared corpus (0123456789ab, now fedcba987654): restore the former "
        "text and settings of data and tokenizer and prepare again, choose another model_dir, or delete that training "
        "with --overwrite."
    )


def test_a_key_without_a_rule_needs_a_new_training() -> None:
    assert Change("model.encoder.layers", 1, 2).rule == RULES[""] == FIXED
