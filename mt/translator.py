"""The translator: a model, its tokenizers and a search, from lines of text to translations.

    translator = load("runs/quickstart")
    for translation in translator.translate(["Good morning."]):
        print(translation.text, translation.score)

Lines go through in windows, so that memory does not grow with the input. Inside a window they are sorted by length and
batched by tokens; outside nothing of that shows: translation k belongs to line k, and is the same in any company. A
blank line (white space only, or nothing that the tokenizer keeps) stays blank without asking the model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from mt import __version__
from mt.config import to_mapping
from mt.device import pick_device
from mt.engine import Engine, TorchEngine
from mt.ensemble import Ensemble, check_vocabularies
from mt.errors import ConfigError, DataError, RunError
from mt.events import finish
from mt.given import Given, Scored, Scoring
from mt.interop.ctranslate2 import NOTE
from mt.lines.answer import WINDOW, Answer, Style
from mt.lines.lengths import Lengths
from mt.lines.request import Request
from mt.lines.translation import Alternative, Translation
from mt.models.config import ModelConfig
from mt.models.encoder_decoder import EncoderDecoder
from mt.recipe import Recipe, load_run_recipe
from mt.search.config import DecodeConfig
from mt.text.files import Block
from mt.text.tokenizer import Tokenizers
from mt.training.allocator import keep_freed_memory
from mt.training.checkpoint import Checkpoints
from mt.training.checksum import Known
from mt.training.final import final_weights
from mt.training.snapshot import load_weights
from mt.training.weights import read_tensors
from mt.window import Window

__all__ = ["WINDOW", "Alternative", "Request", "Translation", "Translator", "load", "weights_file"]


class Translator:
    """A model, its tokenizers and the settings of the search; the model must be on `device` already."""

    def __init__(
        self,
        model: EncoderDecoder | Engine,
        tokenizers: Tokenizers,
        config: DecodeConfig | None = None,
        device: torch.device | str = "cpu",
        lengths: Lengths | None = None,
        weights: str | None = None,
    ) -> None:
        """Make it, of a model, or of another engine that has one.

        `lengths`: those of the training, where `config` does not say when a source is too long;
        `weights`: a checksum of the model, where it is known.
        """
        self.tokenizers = tokenizers
        self.config = config or DecodeConfig()
        self.device = torch.device(device)
        self.lengths = lengths
        self._weights = weights
        self.engine: Engine = model if not isinstance(model, nn.Module) else TorchEngine(model, tokenizers, device)

    @property
    def model(self) -> EncoderDecoder:
        """The model of PyTorch's engine."""
        assert isinstance(self.engine, TorchEngine)
        return self.engine.model

    def translate(
        self,
        lines: Iterable[str | Request],
        *,
        prefix: str = "",
        constraints: Sequence[str] = (),
        banned: Sequence[str] = (),
        alignments: bool = False,
    ) -> Iterator[Translation]:
        """Translate lines, in their order; `lines` is read a window ahead, never as a whole.

        Args:
            lines: texts; or requests, which have wishes of their own.
            prefix: what the translations of texts begin with.
            constraints: words or phrases that each of them holds.
            banned: words or phrases that none of them holds.
            alignments: also find which source word each word comes from.

        Raises:
            DataError: something is no text, or a text where a list of texts is due.
            ConfigError: alignments of a model that does not attend to its source.
        """
        _refuse_text("lines", lines)
        common = Request("", prefix, cast("tuple[str, ...]", constraints), cast("tuple[str, ...]", banned))
        requests = (line if isinstance(line, Request) else replace(common, text=line) for line in lines)
        first = 0
        while window := list(islice(requests, WINDOW)):
            yield from self.translate_window(window, first, alignments)
            first += len(window)

    def translate_window(
        self, lines: Sequence[str | Request], first: int = 0, alignments: bool = False
    ) -> list[Translation]:
        """Translate lines that are all there; time to the first is that to the last.

        `first` is the number of the first one in the whole input, from 0: samples are drawn by the number of a line.
        Settings of its own that model or engine cannot follow are an error of that line.

        Raises:
            ConfigError: they cannot follow those of the translator.
        """
        requests = [line if isinstance(line, Request) else Request(line) for line in lines]
        groups: dict[DecodeConfig, list[int]] = {}
        for place, request in enumerate(requests):
            groups.setdefault(request.decode or self.config, []).append(place)
        found: dict[int, Translation] = {}
        for config, places in groups.items():
            asked, numbers = [requests[place] for place in places], [first + place for place in places]
            try:
                window = Window(self.engine, self.tokenizers, config, self.lengths)
                translations = window.translate(asked, numbers, alignments)
            except ConfigError as error:
                if config == self.config:  # what is asked of all lines is refused once
                    raise
                translations = [Translation("", 0.0, 0.0, source=one.text, error=str(error)) for one in asked]
            found.update(zip(places, translations, strict=True))
        return [found[place] for place in range(len(requests))]

    def score(self, sources: Iterable[str], translations: Iterable[str]) -> Iterator[Scored]:
        """Score given translations, in their order.

        Raises:
            DataError: something is no text, a text is given for a list, or one iterable is shorter.
        """
        _refuse_text("sources", sources)
        _refuse_text("translations", translations)
        given = (Given(*pair) for pair in _paired(sources, translations))
        while window := list(islice(given, WINDOW)):
            yield from self.score_window(window)

    def score_window(self, lines: Sequence[Given]) -> list[Scored]:
        """Score translations that are all there."""
        return self._scoring.score(lines)

    @cached_property
    def _scoring(self) -> Scoring:
        return Scoring(self.engine, self.tokenizers, self.config)

    @property
    def block_lines(self) -> int:
        """Most lines that are translated together."""
        return WINDOW

    @property
    def weights(self) -> str:
        """A checksum of the model: of a run folder's the SHA-256 of its file."""
        if self._weights is None:
            self._weights = _checksum(self.model)
        return self._weights

    @property
    def identity(self) -> str:
        """Equal for equal translations of equal lines: of the weights, the vocabularies, the settings, the machine."""
        settings = [
            to_mapping(self.config),
            self.lengths and vars(self.lengths),
            type(self.engine).__name__,
            self.device.type,
        ]
        return json.dumps([__version__, self.weights, self.tokenizers.fingerprint, settings])

    def answers(self, blocks: Iterable[Block], style: Style) -> Iterator[Answer]:
        """The answer to each block, in their order; the next is read when the answer to this one was taken."""
        for block in blocks:
            requests, error = style.requests(block, self.config)
            translations = self.translate_window(requests, block.first_line - 1, style.alignments)
            yield Answer.of(requests, translations, block.first_line, style, self.config, error)


def _refuse_text(name: str, lines: Iterable[str | Request]) -> None:
    """A text is an iterable of its letters, which nobody wants translated one by one."""
    if isinstance(lines, (str, bytes)):
        raise DataError(f"The {name} must be a list of texts, but are one: put it in brackets.")


def _paired(sources: Iterable[str], translations: Iterable[str]) -> Iterator[tuple[str, str]]:
    missing: Any = object()
    for number, pair in enumerate(zip_longest(sources, translations, fillvalue=missing)):
        if missing in pair:
            fewer, more = ("translations", "sources") if pair[1] is missing else ("sources", "translations")
            raise DataError(f"There are more {more} than {fewer} ({number}): each source needs its translation.")
        yield pair


def _checksum(model: torch.nn.Module) -> str:
    """SHA-256 of the names and values of a model's weights."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        digest.update(name.encode() + tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def load(
    run: str | Path,
    checkpoint: str | None = None,
    device: str | torch.device = "auto",
    decode: DecodeConfig | None = None,
    mapped: bool = False,
    others: Sequence[str | Path] = (),
    weights: Known | None = None,
) -> Translator:
    """Load a run folder for translation; nothing else than the folder is needed, and no code in it is run.

    Args:
        run: the run folder.
        checkpoint: `best`, `last` or the name of a folder in checkpoints/; None: the final model.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        decode: settings of the search, in place of the recipe's.
        mapped: leave the weights in the file, which several processes then share in memory; the file must stay.
        others: run folders whose models decide together with it, the mean of their probabilities.
        weights: what `weights_file` has found in `run`, where it was asked before.

    Raises:
        RunError: there is no such run, model or checkpoint, it is damaged, the recipe there is of another model, or one
            of `others` has another vocabulary.
        ConfigError: no such device; DataError: damaged tokenizer.
    """
    keep_freed_memory()
    folders = [Path(folder).expanduser() for folder in (run, *others)]
    recipes = [load_run_recipe(folder) for folder in folders]
    place = finish(pick_device(device)) if isinstance(device, str) else device
    tokenizers, *more = (Tokenizers.load(folder / "tokenizer") for folder in folders)
    for folder, tokenizers_there in zip(folders[1:], more, strict=True):
        check_vocabularies(folders[0], tokenizers, folder, tokenizers_there)
    files = [weights or weights_file(folders[0], checkpoint)]
    files += [weights_file(folder, checkpoint) for folder in folders[1:]]
    models = [
        _model(recipe.model, file.path, tokenizers, mapped).to(place)
        for recipe, file in zip(recipes, files, strict=True)
    ]
    # An ensemble is no EncoderDecoder, but has all that an engine asks of one.
    model = cast("EncoderDecoder", Ensemble(models)) if others else models[0]
    lengths, checksums = lengths_of(recipes[0], folders[0]), " ".join(file.sha256 for file in files)
    return Translator(model.eval(), tokenizers, decode or recipes[0].decode, place, lengths, checksums)


def lengths_of(recipe: Recipe, folder: Path) -> Lengths | None:
    """When a source is too long for the model in a run folder; None where nothing tells."""
    most = recipe.data.filters.max_length
    return Lengths.load(folder) or (Lengths.at_most(most) if most else None)


def _model(config: ModelConfig, file: Path, tokenizers: Tokenizers, mapped: bool) -> EncoderDecoder:
    """The model of a run folder, with the weights in `file`."""
    model = config.build(len(tokenizers.src), len(tokenizers.tgt), tokenizers.tgt.pad)
    load_weights(model, read_tensors(file), file, assign=mapped)
    return model


def weights_file(run: Path, checkpoint: str | None) -> Known:
    """The file with the weights of the final model or of a checkpoint, compared with its checksum. Raises as `load`."""
    if (run / NOTE).is_file():
        raise RunError(
            f"{run} holds a model that was exported for CTranslate2: only mt translate with --backend ctranslate2 "
            "reads it; for all else name the run that it was made of."
        )
    if checkpoint is None:
        return final_weights(run)
    checkpoints = Checkpoints(run)
    names = {checkpoints.path(update).name: update for update in checkpoints.updates()}
    for name, found in (("last", checkpoints.updates()[-1:]), ("best", checkpoints.best(1))):
        names.update((name, update) for update in found)
    if checkpoint not in names:
        raise RunError(f"{run} has no checkpoint '{checkpoint}'; there are: {', '.join(names) or 'none'}.")
    return checkpoints.weights(names[checkpoint])
