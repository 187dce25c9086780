"""Translators for tests: a model that copies its source, and small untrained ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from mt.data.config import DataConfig
from mt.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mt.models.encoder_decoder import EncoderDecoder
from mt.recipe import RECIPE_FILE, Recipe, save_recipe
from mt.search.config import DecodeConfig
from mt.text.config import SPECIALS
from mt.text.tokenizer import Tokenizers
from mt.text.words import WordTokenizer
from mt.training.config import TrainConfig
from mt.training.weights import write_tensors
from mt.translator import Translator

LETTERS = tuple("abcdefghijklmnopqrstuvwxyz0123456789")


def words(*pieces: str) -> WordTokenizer:
    return WordTokenizer("word", "identity", json.dumps([*SPECIALS, *pieces]).encode())


def letters() -> Tokenizers:
    tokenizer = words(*LETTERS)
    return Tokenizers(tokenizer, tokenizer, True)


@dataclass(frozen=True)
class CopyState:
    src: Tensor
    position: int

    def select(self, rows: Tensor) -> CopyState:
        return CopyState(self.src[rows], self.position)


class Copy(nn.Module):
    """Says the source again, fairly sure of each piece; the piece after it in the vocabulary is the second choice."""

    def __init__(self, vocab: int, *, endless: bool = False) -> None:
        super().__init__()
        self.vocab, self.endless = vocab, endless
        self.modes: list[tuple[bool, bool]] = []
        self.rows: list[int] = []

    def start(self, src: Tensor, src_mask: Tensor, attention: bool = False) -> CopyState:  # noqa: ARG002
        self.rows.append(len(src))
        return CopyState(src, 0)

    def step(self, tokens: Tensor, state: CopyState) -> tuple[Tensor, CopyState]:
        self.modes.append((self.training, torch.is_inference_mode_enabled()))
        said = state.src[:, min(state.position, state.src.size(1) - 1)]
        if self.endless:
            said = torch.full_like(tokens, 4)
        logits = torch.zeros(len(tokens), self.vocab)
        logits.scatter_(1, said[:, None], 9.0)
        logits.scatter_(1, (said[:, None] + 1) % self.vocab, 5.0)
        return logits.log_softmax(-1), CopyState(state.src, state.position + 1)


def copier(config: DecodeConfig | None = None, *, endless: bool = False) -> Translator:
    tokenizers = letters()
    model = Copy(len(tokenizers.src), endless=endless)
    return Translator(cast(EncoderDecoder, model), tokenizers, config)


def copied(translator: Translator) -> Copy:
    """The model of a `copier`."""
    model: object = translator.model
    assert isinstance(model, Copy)
    return model


TINY = ModelConfig(
    encoder=EncoderConfig(layers=2),
    decoder=DecoderConfig(layers=2),
    dim=16,
    ffn_dim=32,
    heads=2,
    dropout=0.5,
    tie="none",
)


def untrained(config: DecodeConfig | None = None, seed: int = 1) -> Translator:
    """A real model whose output is as good as random, with dropout 0.5 and separate vocabularies."""
    tokenizers = Tokenizers(words(*LETTERS), words(*LETTERS[:9]), False)
    torch.manual_seed(seed)
    model = TINY.build(len(tokenizers.src), len(tokenizers.tgt), tokenizers.tgt.pad)
    with torch.no_grad():
        model.output.weight.mul_(6)
    return Translator(model, tokenizers, config)


def run_folder(folder: Path, data: DataConfig, decode: DecodeConfig | None = None) -> Recipe:
    """A run folder with an untrained model as its final one."""
    translator = untrained()
    folder.mkdir(parents=True, exist_ok=True)
    recipe = Recipe(
        "test", folder, data=data, model=TINY, train=TrainConfig(max_steps=1), decode=decode or DecodeConfig()
    )
    save_recipe(recipe, folder / RECIPE_FILE)
    translator.tokenizers.save(folder / "tokenizer")
    write_tensors(folder / "model.safetensors", translator.model.state_dict())
    return recipe
