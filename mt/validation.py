"""Validation during training: the loss on the validation ids, and the scores of real translations of its text."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.autograd.graph import increment_version

from mt.data.batching import Batch
from mt.data.store import Store
from mt.data.training_data import batches_of
from mt.events import Event, Progress
from mt.lines.lengths import Lengths
from mt.models.encoder_decoder import EncoderDecoder
from mt.objectives.cross_entropy import Loss
from mt.recipe import Recipe
from mt.scoring.metrics import Scorer
from mt.text.files import write_text
from mt.training.distributed import ALONE, Group
from mt.training.precision import Precision
from mt.translate import Translator

METRICS = ("bleu", "chrf")
WINDOW = 256
"""Lines translated between two signs of life: a model that has not learnt to end takes its time for each."""
FOLDER = "validations"

Part = TypeVar("Part")


class Validation:
    """Scores a model on the recipe's validation text. Nothing is drawn, so training goes on as if it had not been.

    The translations are those that `mt translate` gives by beam search with the same beam: whole sentences,
    detokenised, scored against the raw references. They are kept in the run folder, a file a validation. The ranks of
    `group` share the work, and what comes out is what one process would find.
    """

    def __init__(
        self,
        recipe: Recipe,
        store: Store,
        model: EncoderDecoder,
        loss: Callable[[Batch], Loss],
        precision: Precision,
        budget: int,
        group: Group = ALONE,
    ) -> None:
        self.group = group
        self.loss = loss
        self.precision = precision
        self.folder = recipe.model_dir / FOLDER
        self.suffix = recipe.data.tgt_lang
        self.batches = list(batches_of(store.split("valid"), store.tokenizers, budget))
        self.sources = list(store.reference_lines("valid", "src"))
        references = [list(store.reference_lines("valid", "tgt"))]
        names = dict.fromkeys((*METRICS, *{recipe.train.metric} - {"loss"}))
        self.scorers = {name: recipe.evaluate.build(name, references, recipe.data.tgt_lang) for name in names}
        decode = recipe.decode.plain_beam(recipe.train.valid_beam_size)
        lengths = Lengths.of(store.split("train").src, store.tokenizers.src)
        self.translator = Translator(model, store.tokenizers, decode, precision.device, lengths)

    def __call__(self, update: int) -> Generator[Event, None, dict[str, float]]:
        """The scores at `update`: loss in nats a target token, without smoothing; scores of the translations."""
        yield Progress("validating", 0, len(self.sources))
        for weight in self.translator.model.parameters():
            increment_version(weight)  # fused optimisers do not, and the engine keeps a form of the model by it
        with torch.inference_mode():
            loss = self._loss()
        texts = yield from self._translations()
        if self.group.leads:
            write_text(self.path(update), "".join(text + "\n" for text in texts))
        return {"loss": loss, **{name: _value(scorer, texts) for name, scorer in self.scorers.items()}}

    def path(self, update: int) -> Path:
        """The file with the translations of the validation at `update`."""
        return self.folder / f"step-{update:08d}.{self.suffix}"

    def _loss(self) -> float:
        """Summed over the corpus before it is divided, so that no batching changes it; in float32."""
        losses = [self.loss(batch.to(self.precision.device)) for batch in self._share(self.batches)]
        sums = self._collect([(float(loss.nll), loss.tokens) for loss in losses])
        return float(sum(nll for nll, _ in sums) / sum(tokens for _, tokens in sums))

    def _translations(self) -> Generator[Event, None, list[str]]:
        starts, total = range(0, len(self.sources), WINDOW), len(self.sources)
        own: list[list[str]] = []
        for start in self._share(starts):
            window = self.translator.translate_window(self.sources[start : start + WINDOW])
            own.append([translation.text for translation in window])
            yield Progress("validating", min(len(own) * self.group.size * WINDOW, total), total)
        return [text for texts in self._collect(own) for text in texts]

    def _share(self, parts: Sequence[Part]) -> Sequence[Part]:
        """The parts of the work that are this rank's."""
        return parts[self.group.rank :: self.group.size]

    def _collect(self, found: list[Any]) -> list[Any]:
        """What all ranks found in their shares, in the order of the parts."""
        shares = self.group.gather(found)
        return [share[turn] for turn in range(len(shares[0])) for share in shares if turn < len(share)]


def _value(scorer: Scorer, texts: list[str]) -> float:
    return scorer.score(scorer.statistics(texts)).value
