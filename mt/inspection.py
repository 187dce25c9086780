"""Inspect: what a model is made of, and where it looks while it translates a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from mt.data.batching import collate
from mt.engine import evaluating
from mt.errors import ConfigError, DataError
from mt.estimate import vocabulary_sizes
from mt.heat_map import Group, HeatMap, page, picture
from mt.models.encoder_decoder import EncoderDecoder
from mt.models.maps import attention_maps
from mt.module_tree import Module, module_tree
from mt.pictures import FORMATS
from mt.recipe import RECIPE_FILE, Recipe, load_recipe, load_run_recipe, shipped_recipes
from mt.text.files import write_text
from mt.text.tokenizer import Tokenizer, Tokenizers
from mt.translator import Translator, load

PAGES = ("html", *FORMATS)
"""Suffixes of what maps are drawn into."""
KINDS = {"cross": "decoder to source", "encoder": "encoder to itself", "decoder": "decoder to itself"}


def inspect_model(target: str | Path) -> Module:
    """The modules of the model of a run folder or of a recipe; neither text nor training is needed.

    Raises as `load_recipe` and `load_run_recipe`.
    """
    recipe = _recipe(target)
    sizes = vocabulary_sizes(recipe)
    if (recipe.model_dir / "tokenizer").is_dir():
        tokenizers = Tokenizers.load(recipe.model_dir / "tokenizer")
        sizes = len(tokenizers.src), len(tokenizers.tgt)
    with torch.device("meta"):
        return module_tree(recipe.model.build(*sizes, pad=3))


def _recipe(target: str | Path) -> Recipe:
    """The recipe of a run folder, which is its `model_dir`; or one by its file or name."""
    is_run = (Path(target).expanduser() / RECIPE_FILE).is_file()
    if not is_run and (Path(target).suffix in (".yaml", ".yml") or str(target) in shipped_recipes()):
        return load_recipe(target)
    return replace(load_run_recipe(target), model_dir=Path(target).expanduser())


@dataclass(frozen=True)
class Choice:
    """Which maps are drawn, and how finely; None: all."""

    kind: str | None = None
    """A key of `KINDS`."""
    layer: int | None = None
    """From 1."""
    head: int | None = None
    """From 1; with several, None also draws their mean."""
    pieces: bool = False
    """Rows and columns are pieces, not words."""

    def __str__(self) -> str:
        numbers = [f"{name} {value}" for name in ("layer", "head") if (value := getattr(self, name)) is not None]
        return " ".join([f"{self.kind} attention" if self.kind else "attention", *numbers])


def inspect_attention(
    target: str | Path,
    sentence: str,
    output: Path,
    translation: str | None = None,
    choice: Choice | None = None,
    checkpoint: str | None = None,
    device: str = "auto",
) -> str:
    """Draw where a trained model looks into `output`, an HTML page, SVG or PNG; returns the translation.

    Args:
        target: the run folder, or its recipe.
        translation: what the model is given as the translation; None: its own.

    Raises:
        ConfigError: the model has no such attention, or `output` is of another kind. DataError: the sentence is blank.
        MissingExtraError: SVG and PNG need matplotlib. Others as `mt.load`.
    """
    suffix = output.suffix.lower().removeprefix(".")
    if suffix not in PAGES:
        raise ConfigError(f"'{output}' does not say what to draw: its name must end in .html, .svg or .png.")
    translator = load(_recipe(target).model_dir, checkpoint, device)
    text = next(iter(translator.translate([sentence]))).text if translation is None else translation
    groups = attention_groups(translator, sentence, text, choice or Choice())
    title = f"{sentence} \u2192 {text}"
    if suffix in FORMATS:
        picture(output, title, groups)
    else:
        write_text(output, page(title, groups))
    return text


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

    def without_last_piece(self) -> Words:
        """All pieces but the last, and the words that they make."""
        *before, last = self.pieces
        kept = (*before, last[:-1]) if len(last) > 1 else tuple(before)
        return Words(self.labels[: len(kept)], kept)


def words_of(tokenizer: Tokenizer, ids: Sequence[int], pieces: bool = False) -> Words:
    """The words that `ids` make; a piece with parts of several belongs to the first, one with none to that before."""
    if pieces:
        return Words(tuple(tokenizer.pieces[piece] for piece in ids), tuple((place,) for place in range(len(ids))))
    groups: dict[int, list[int]] = {}
    last = 0
    for place, numbers in enumerate(tokenizer.words_of(ids)):
        last = numbers[0] if numbers else last
        groups.setdefault(last, []).append(place)
    labels = tuple(tokenizer.decode([ids[place] for place in group]) for group in groups.values())
    return Words(labels, tuple(map(tuple, groups.values())))


END, BEGIN, BEFORE = (Words((label,), ((0,),)) for label in ("</s>", "<s>", "(beginning)"))


@dataclass(frozen=True)
class _Layer:
    """The attention of one layer between words."""

    kind: str
    legend: str
    rows: Words
    columns: Words
    weights: NDArray[np.float32]
    """(H, pieces of the rows, pieces of the columns)."""
    number: int = 0
    """Of those of its kind, from 1."""

    def group(self, head: int | None) -> Group:
        """Its maps: of one head, or of all after their mean."""
        maps = {f"head {number}": weights for number, weights in enumerate(self.weights, 1)}
        if len(maps) == 1:
            maps = {"": self.weights[0]}
        elif head is None:
            maps = {"mean of heads": self.weights.mean(0), **maps}
        else:
            maps = {f"head {head}": self.weights[head - 1]}
        labels = self.rows.labels, self.columns.labels
        drawn = [HeatMap(name, *labels, by_word(found, self.rows, self.columns)) for name, found in maps.items()]
        return Group(f"{KINDS[self.kind].capitalize()}, layer {self.number}", self.legend, drawn)


def attention_groups(translator: Translator, sentence: str, text: str, choice: Choice) -> list[Group]:
    """The maps that are asked for."""
    src, tgt = translator.tokenizers.src, translator.tokenizers.tgt
    source, target = src.encode(sentence), tgt.encode(text)
    if not source:
        raise DataError("The sentence is blank: there is nothing to attend to.")
    sides = words_of(src, source, choice.pieces) + END, words_of(tgt, target, choice.pieces)
    layers = list(_numbered(_layers(translator, source, target, *sides)))
    if not layers:
        raise ConfigError("This model has no attention: all that it knows of the source is in its state.")
    chosen = [
        layer
        for layer in layers
        if choice.kind in (None, layer.kind)
        and choice.layer in (None, layer.number)
        and (choice.head is None or choice.head <= len(layer.weights))
    ]
    if not chosen:
        raise ConfigError(f"This model has no {choice}; it has {_listed(layers)}.")
    order = list(KINDS)
    return [layer.group(choice.head) for layer in sorted(chosen, key=lambda layer: order.index(layer.kind))]


def _layers(translator: Translator, source: list[int], target: list[int], src: Words, tgt: Words) -> Iterator[_Layer]:
    """All attention of the model; `src` and `tgt` are the words of both, `tgt` without marks."""
    model, marks = translator.model, translator.tokenizers.tgt
    batch = collate([source], [target], marks.pad, marks.bos, marks.eos).to(translator.device)
    with evaluating(model):
        found = attention_maps(model, batch)
    read, written = BEGIN + tgt, tgt + END
    step, word = "row: the word that is written", "column: the word that is looked at"
    for item in found:
        weights: NDArray[np.float32] = item.weights[0].cpu().numpy()
        if item.delayed:
            yield _past(model, item.module, src if item.module.startswith("encoder.") else read, weights)
        elif item.module.startswith("encoder."):
            yield _Layer("encoder", f"row: the word that looks; {word}", src, src, weights)
        elif _is_one_stack(model):
            both = src + read
            yield _Layer("decoder", f"row: the word that looks; {word}", both, both, weights)
            split = len(source) + 1
            yield _Layer("cross", f"{step}; {word}", written, src, weights[:, split:, :split])
        elif item.module.endswith("self_attention"):
            yield _Layer("decoder", f"{step}; {word}", written, read, weights)
        else:
            yield _Layer("cross", f"{step}; {word}", written, src, weights)


def _past(model: EncoderDecoder, module: str, words: Words, weights: NDArray[np.float32]) -> _Layer:
    """Attention of a recurrent layer to its own past, in the order of the text."""
    kind = "encoder" if module.startswith("encoder.") else "decoder"
    if kind == "encoder" and model.config.encoder.reverse_source:  # all but the end mark was read backwards
        last = weights.shape[1] - 1
        weights = weights[:, [*reversed(range(last)), last]][:, :, [0, *reversed(range(1, last + 1))]]
    columns = BEFORE + words.without_last_piece()
    legend = "row: the word that is read; column: the state after this word"
    return _Layer(kind, legend, words, columns, weights)


def _is_one_stack(model: EncoderDecoder) -> bool:
    return model.config.decoder.type == "language_model"


def _numbered(layers: Iterable[_Layer]) -> Iterator[_Layer]:
    """They come from the bottom to the top, whatever the modules are called."""
    count = Counter[str]()
    for layer in layers:
        count[layer.kind] += 1
        yield replace(layer, number=count[layer.kind])


def _listed(layers: Sequence[_Layer]) -> str:
    """What there is to choose from."""
    kinds = {kind: [layer for layer in layers if layer.kind == kind] for kind in KINDS}
    there = {kind: (len(of), len(of[0].weights)) for kind, of in kinds.items() if of}
    return ", ".join(f"{kind} (layers: {count}, heads: {heads})" for kind, (count, heads) in there.items())


def by_word(weights: NDArray[np.float32], rows: Words, columns: Words) -> NDArray[np.float32]:
    """A word looks where its pieces look on average, and what it is looked at is the sum over its pieces."""
    summed = np.stack([weights[:, list(word)].sum(1) for word in columns.pieces], 1)
    return np.stack([summed[list(word)].mean(0) for word in rows.pieces])
