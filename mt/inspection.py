"""Inspect: what a trained model is made of, and where it looks while it translates a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from mt.data.batching import collate
from mt.engine import evaluating
from mt.errors import ConfigError, DataError
from mt.heat_map import HeatMap, page
from mt.models.encoder_decoder import EncoderDecoder
from mt.models.maps import AttentionMap, attention_maps
from mt.text.files import write_text
from mt.text.tokenizer import Tokenizer
from mt.translator import Translator, load


@dataclass(frozen=True)
class Module:
    """A module of a model, and what is in it."""

    name: str
    kind: str
    shapes: tuple[str, ...]
    """`name (rows, columns)` of its own parameters."""
    parameters: int
    """With those of the modules inside it; what is tied counts once."""


def modules(model: nn.Module) -> list[Module]:
    """All modules that hold parameters, outer ones first."""
    found = []
    for name, module in model.named_modules():
        own = tuple(f"{key} {tuple(weight.shape)}" for key, weight in module.named_parameters(recurse=False))
        count = sum(weight.numel() for weight in module.parameters())
        if count:
            found.append(Module(name, type(module).__name__, own, count))
    return found


def inspect_model(run: str | Path, checkpoint: str | None = None) -> list[Module]:
    """The modules of a run's model. Raises as `mt.load`."""
    return modules(load(run, checkpoint, "cpu").model)


@dataclass(frozen=True)
class Words:
    """Words, and the pieces of which each is made."""

    labels: tuple[str, ...]
    pieces: tuple[tuple[int, ...], ...]

    def __add__(self, other: Words) -> Words:
        """These, and after all their pieces the others."""
        offset = sum(map(len, self.pieces))
        moved = tuple(tuple(piece + offset for piece in word) for word in other.pieces)
        return Words(self.labels + other.labels, self.pieces + moved)


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> Words:
    """The words that `ids` make; a piece with parts of several belongs to the first, one with none to that before."""
    groups: dict[int, list[int]] = {}
    last = 0
    for place, numbers in enumerate(tokenizer.words_of(ids)):
        last = numbers[0] if numbers else last
        groups.setdefault(last, []).append(place)
    labels = tuple(tokenizer.decode([ids[place] for place in group]) for group in groups.values())
    return Words(labels, tuple(map(tuple, groups.values())))


END, BEGIN = Words(("</s>",), ((0,),)), Words(("<s>",), ((0,),))


def inspect_attention(
    run: str | Path,
    sentence: str,
    output: Path,
    target: str | None = None,
    checkpoint: str | None = None,
    device: str = "auto",
) -> str:
    """Write an HTML page with all attention of a run's model to `output`, word by word; returns the translation.

    Args:
        target: what the model is given as the translation; None: its own.

    Raises:
        ConfigError: the model has no attention. DataError: the sentence is blank. Others as `mt.load`.
    """
    translator = load(run, checkpoint, device)
    text = next(iter(translator.translate([sentence]))).text if target is None else target
    source, given = (
        side.encode(line) for side, line in ((translator.tokenizers.src, sentence), (translator.tokenizers.tgt, text))
    )
    if not source:
        raise DataError("The sentence is blank: there is nothing to attend to.")
    sections = _sections(translator, source, given)
    write_text(output, page(f"{sentence} \u2192 {text}", sections))
    return text


def _sections(translator: Translator, source: list[int], target: list[int]) -> dict[str, Sequence[HeatMap]]:
    model, tgt = translator.model, translator.tokenizers.tgt
    batch = collate([source], [target], tgt.pad, tgt.bos, tgt.eos).to(model.output.weight.device)
    with evaluating(model):
        found = attention_maps(model, batch)
    if not found:
        raise ConfigError("This model has no attention: all that it knows of the source is in its state.")
    src, written = words_of(translator.tokenizers.src, source), words_of(tgt, target)
    sides = {
        "source": src + END,
        "written": written + END,
        "read": BEGIN + written,
        "both": src + END + BEGIN + written,
    }
    return {item.module: _heat_maps(item, *(sides[side] for side in _axes(model, item.module))) for item in found}


def _axes(model: EncoderDecoder, module: str) -> tuple[str, str]:
    """What stands in rows and in columns: a decoder's step is named by the word that it writes, after those it read."""
    if module.startswith("encoder."):
        return "source", "source"
    if model.config.decoder.type == "language_model":
        return "both", "both"
    return ("written", "read") if module.endswith("self_attention") else ("written", "source")


def _heat_maps(item: AttentionMap, rows: Words, columns: Words) -> list[HeatMap]:
    heads: NDArray[np.float32] = item.weights[0].cpu().numpy()
    names = [f"head {number} of {len(heads)}" for number in range(1, len(heads) + 1)] if len(heads) > 1 else [""]
    return [
        HeatMap(name, rows.labels, columns.labels, _by_word(head, rows, columns))
        for name, head in zip(names, heads, strict=True)
    ]


def _by_word(weights: NDArray[np.float32], rows: Words, columns: Words) -> NDArray[np.float32]:
    """A word looks where its pieces look on average, and what it is looked at is the sum over its pieces."""
    summed = np.stack([weights[:, list(word)].sum(1) for word in columns.pieces], 1)
    return np.stack([summed[list(word)].mean(0) for word in rows.pieces])
