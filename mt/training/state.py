"""Where a training stands: counts, best values, and what follows from them. Kept as JSON in each checkpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mt.training.config import TrainConfig
from mt.training.loss_scale import LossScale
from mt.training.units import Period

HIGHER_IS_BETTER = {"loss": False, "bleu": True, "chrf": True, "chrf++": True, "ter": False}
"""Metrics that can tell the best checkpoint, and their direction."""


@dataclass(frozen=True)
class Best:
    """The best value of a metric and the update it was reached at."""

    value: float
    update: int


@dataclass(frozen=True)
class TrainingState:
    """All of a training but its tensors, so that a resumed one goes on exactly where it stood."""

    metric: str = "loss"
    """Tells the best checkpoint."""
    data: str = ""
    """Fingerprint of the prepared corpus."""
    ranks: int = 1
    """Processes that share an update."""
    update: int = 0
    """Updates made."""
    epoch: int = 0
    """Epochs completed, which is the number of the running one."""
    batch: int = 0
    """Batches of the running epoch that are done."""
    pairs: int = 0
    """Sentence pairs of the running epoch that are done."""
    epoch_part: float = 0.0
    """Share of the running epoch that is done."""
    tokens: int = 0
    """Target tokens read, end marks included, padding not."""
    seconds: float = 0.0
    """Training time, over all sessions."""
    skipped: int = 0
    """Updates skipped because loss or gradient was not a number."""
    cuts: int = 0
    """Cuts through micro-batches that did not fit into memory."""
    batch_tokens: int = 0
    """The budget of a micro-batch: found on the device, or the recipe's."""
    skipped_in_row: int = 0
    """Those since the last update that was made."""
    rewinds: int = 0
    """How often training went back to a checkpoint with a lower learning rate, because no update could be made."""
    loss_scale: LossScale = field(default_factory=LossScale)
    """Of float16 products; others leave it alone."""
    lr_scale: float = 1.0
    """What the learning rate of the schedule is multiplied by."""
    validating: bool = False
    """A validation is due at this very update and not done."""
    saving: bool = False
    """A checkpoint is due at this very update and not saved."""
    unscheduled: int | None = None
    """The update at which a checkpoint was saved for no period's sake, but since training stopped."""
    milestone: int | None = None
    """The last update at which a checkpoint was saved that is kept for good."""
    scores: dict[str, float] = field(default_factory=dict)
    """Values of the last validation."""
    scored: int | None = None
    """The update of the last validation."""
    best: dict[str, Best] = field(default_factory=dict)
    """Best value of each metric; of equal ones the earliest."""
    bad_validations: int = 0
    """Validations in a row without a new best of `metric`."""

    def after_batches(
        self, batches: int, pairs: int, tokens: int, epoch_size: int, *, skipped: bool = False
    ) -> TrainingState:
        """The state after one update of `batches` batches, or after skipping it; an update ends with its epoch."""
        done = self.pairs + pairs
        whole = done >= epoch_size
        return replace(
            self,
            update=self.update + (not skipped),
            skipped=self.skipped + skipped,
            skipped_in_row=self.skipped_in_row + 1 if skipped else 0,
            tokens=self.tokens + tokens,
            epoch=self.epoch + whole,
            batch=0 if whole else self.batch + batches,
            pairs=0 if whole else done,
            epoch_part=0.0 if whole else done / epoch_size,
        )

    def after_validation(self, scores: Mapping[str, float]) -> TrainingState:
        """The state after a validation that gave `scores`, `metric` among them. NaN and infinity are never a best."""
        best = dict(self.best)
        for metric, value in scores.items():
            if is_better(metric, value, best[metric].value if metric in best else None):
                best[metric] = Best(value, self.update)
        is_best = best.get(self.metric) != self.best.get(self.metric)
        bad = 0 if is_best else self.bad_validations + 1
        return replace(self, validating=False, scores=dict(scores), scored=self.update, best=best, bad_validations=bad)

    def with_duties(self, before: TrainingState, config: TrainConfig) -> TrainingState:
        """This state, with what the recipe's periods want to be done at it; `before` is that after the last update."""
        milestone = config.keep_every is not None and due(config.keep_every, before, self)
        return replace(
            self,
            validating=due(config.valid_every, before, self),
            saving=milestone or due(config.save_every, before, self),
            milestone=self.update if milestone else self.milestone,
        )

    def end(self, config: TrainConfig) -> str:
        """Why training is over, in the order of the recipe's keys; '' while it goes on."""
        ends = {
            f"train.max_steps {config.max_steps} reached": config.max_steps and self.update >= config.max_steps,
            f"train.max_epochs {config.max_epochs} reached": config.max_epochs and self.epoch >= config.max_epochs,
            f"train.max_time {config.max_time} reached": config.max_time and self.seconds >= config.max_time.value,
            f"train.patience {config.patience} reached without a better {config.metric}": config.patience
            and self.bad_validations >= config.patience,
        }
        return next((reason for reason, reached in ends.items() if reached), "")

    @property
    def rank(self) -> tuple[float, int] | None:
        """What checkpoints are sorted by, the best first and of equal ones the earlier; None without a `value`."""
        if self.value is None:
            return None
        return -self.value if HIGHER_IS_BETTER[self.metric] else self.value, self.update

    @property
    def value(self) -> float | None:
        """The value of `metric` at this very update; None without a validation here, or where it is not a number."""
        value = self.scores.get(self.metric, math.nan)
        return value if self.scored == self.update and math.isfinite(value) else None

    def elapsed(self, unit: str) -> float:
        """How much of `unit` (updates, epochs, tokens or seconds) is done."""
        return self.epoch + self.epoch_part if unit == "epochs" else {**vars(self), "updates": self.update}[unit]

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; values that are not numbers become null."""
        scores = {metric: value if math.isfinite(value) else None for metric, value in self.scores.items()}
        return {**asdict(self), "scores": scores}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> TrainingState:
        """Read what `to_json` wrote. Raises KeyError or TypeError where it did not."""
        scores = {metric: math.nan if value is None else float(value) for metric, value in content["scores"].items()}
        best = {metric: Best(**found) for metric, found in content["best"].items()}
        scale = LossScale(**content.get("loss_scale", {}))  # of which early versions knew nothing
        return cls(**{**content, "scores": scores, "best": best, "loss_scale": scale})


def is_better(metric: str, value: float, than: float | None) -> bool:
    """Whether `value` is a new best: finite, and better than the best so far in its direction; a tie is none."""
    if not math.isfinite(value):
        return False
    return than is None or (value > than if HIGHER_IS_BETTER[metric] else value < than)


def due(period: Period, before: TrainingState, after: TrainingState) -> bool:
    """Whether a multiple of `period` was reached between two states that follow one another.

    It depends on the two states alone, so a resumed training finds the same moments.
    """
    return _multiples(period, after) > _multiples(period, before)


def _multiples(period: Period, state: TrainingState) -> int:
    return math.floor(state.elapsed(period.unit) / period.value + 1e-9)  # 0.3 / 0.1 is a hair below 3
