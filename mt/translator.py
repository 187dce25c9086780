"""The translator: a model, its tokenizers and a search, from lines of text to translations.

    translator = load("runs/quickstart")
    for translation in translator.translate(["Good morning."]):
        print(translation.text, translation.score)

Lines go through in windows, so that memory does not grow with the input. Inside a window they are sorted by length and
batched by tokens; outside nothing of that shows: translation k belongs to line k, and is the same in any company. A
blank line (white space only, or nothing that the tokenizer keeps) stays blank without asking the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from mt.device import pick_device
from mt.engine import Engine, TorchEngine
from mt.errors import RunError
from mt.events import finish
from mt.models.encoder_decoder import EncoderDecoder
from mt.recipe import load_run_recipe
from mt.search.config import DecodeConfig
from mt.search.hypothesis import Hypothesis
from mt.text.tokenizer import Tokenizers
from mt.training.checkpoint import Checkpoints
from mt.training.final import final_weights
from mt.training.snapshot import load_weights
from mt.training.weights import read_tensors

WINDOW = 1024
"""Most lines that are translated together."""


@dataclass(frozen=True)
class Alternative:
    """A translation of a line, one of several."""

    text: str
    score: float
    """What translations are ranked by: `log_prob` divided by the length penalty."""
    log_prob: float
    """Sum of the natural log-probabilities of the pieces and of the end mark."""
    truncated: bool = False
    """Cut at the length limit, before its end."""


@dataclass(frozen=True)
class Translation:
    """The best translation of the line `source`, described as an `Alternative` is, and the next best."""

    source: str
    text: str
    score: float
    log_prob: float
    truncated: bool = False
    alternatives: tuple[Alternative, ...] = ()
    """The next best, at most `n_best` - 1, each with another text."""
    cut_from: int | None = None
    """Pieces of a source that had more than `decode.max_source_length`, so that only its start was translated."""


class Translator:
    """A model, its tokenizers and the settings of the search; the model must be on `device` already."""

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizers: Tokenizers,
        config: DecodeConfig | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.model = model
        self.tokenizers = tokenizers
        self.config = config or DecodeConfig()
        self.device = torch.device(device)
        self.engine: Engine = TorchEngine(model, tokenizers, device)

    def translate(self, lines: Iterable[str]) -> Iterator[Translation]:
        """Translate lines, in their order; `lines` is read a window ahead, never as a whole."""
        lines = iter(lines)
        while window := list(islice(lines, WINDOW)):
            yield from self.translate_window(window)

    def translate_window(self, lines: Sequence[str]) -> list[Translation]:
        """Translate lines that are all there; time to the first is that to the last."""
        pieces = self.tokenizers.src.encode_batch(lines)
        most = self.config.max_source_length
        sources = [ids[:most] if line.strip() else [] for line, ids in zip(lines, pieces, strict=True)]
        full = [number for number, ids in enumerate(sources) if ids]
        found = [[Alternative("", 0.0, 0.0)] for _ in lines]
        searched = self.engine.search([sources[number] for number in full], self.config)
        for number, hypotheses in zip(full, searched, strict=True):
            found[number] = self._alternatives(hypotheses)
        return [
            _translation(line, best, others, len(ids) if 0 < len(kept) < len(ids) else None)
            for line, (best, *others), ids, kept in zip(lines, found, pieces, sources, strict=True)
        ]

    def _alternatives(self, hypotheses: Sequence[Hypothesis]) -> list[Alternative]:
        """The best `n_best` with different texts; a text is one line, whatever pieces the model chose."""
        texts = self.tokenizers.tgt.decode_batch([hypothesis.tokens for hypothesis in hypotheses])
        best: dict[str, Alternative] = {}
        for text, found in zip(texts, hypotheses, strict=True):
            line = text.replace("\n", " ").replace("\r", " ")
            best.setdefault(line, Alternative(line, found.score, found.log_prob, found.truncated))
        return list(best.values())[: self.config.n_best]


def _translation(line: str, best: Alternative, others: Sequence[Alternative], cut_from: int | None) -> Translation:
    return Translation(line, best.text, best.score, best.log_prob, best.truncated, tuple(others), cut_from)


def load(
    run: str | Path,
    checkpoint: str | None = None,
    device: str | torch.device = "auto",
    decode: DecodeConfig | None = None,
) -> Translator:
    """Load a run folder for translation; nothing else than the folder is needed, and no code in it is run.

    Args:
        run: the run folder.
        checkpoint: `best`, `last` or the name of a folder in checkpoints/; None: the final model.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        decode: settings of the search, in place of the recipe's.

    Raises:
        RunError: there is no such run, model or checkpoint, it is damaged, or the recipe there is of another model.
        ConfigError: no such device; DataError: damaged tokenizer.
    """
    folder = Path(run).expanduser()
    recipe = load_run_recipe(folder)
    place = finish(pick_device(device)) if isinstance(device, str) else device
    tokenizers = Tokenizers.load(folder / "tokenizer")
    model = recipe.model.build(len(tokenizers.src), len(tokenizers.tgt), tokenizers.tgt.pad)
    file = weights_file(folder, checkpoint)
    load_weights(model, read_tensors(file), file)
    return Translator(model.to(place), tokenizers, decode or recipe.decode, place)


def weights_file(run: Path, checkpoint: str | None) -> Path:
    """The file with the weights of the final model or of a checkpoint, compared with its checksum. Raises as `load`."""
    if checkpoint is None:
        return final_weights(run)
    checkpoints = Checkpoints(run)
    names = {checkpoints.path(update).name: update for update in checkpoints.updates()}
    for name, found in (("last", checkpoints.updates()[-1:]), ("best", checkpoints.best(1))):
        names.update((name, update) for update in found)
    if checkpoint not in names:
        raise RunError(f"{run} has no checkpoint '{checkpoint}'; there are: {', '.join(names) or 'none'}.")
    return checkpoints.weights(names[checkpoint])
