"""The recipe's `train` block. It imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mt.config import option, refuse_idle
from mt.errors import ConfigError
from mt.training.units import Budget, Period

if TYPE_CHECKING:
    import torch

    from mt.training.schedules import Schedule

DECAYS = ("linear", "cosine")
"""Schedules with an end."""
_OF_SCHEDULES = {
    "dim": ("noam",),
    "updates": DECAYS,
    "final": (*DECAYS, "plateau"),
    "patience": ("plateau",),
    "factor": ("plateau",),
}


@dataclass(frozen=True)
class ScheduleConfig:
    """How the learning rate moves; `train.lr` is its peak, or the factor of the formula `noam`."""

    name: str = option(
        "inverse_sqrt",
        help="shape of the schedule; noam is the formula of Vaswani et al. 2017",
        choices=("inverse_sqrt", "noam", "linear", "cosine", "constant", "plateau"),
    )
    warmup: int = option(4000, help="updates of linear warm-up; 0 starts at the peak", ge=0)
    init: float = option(1e-7, help="learning rate of update 0, where the warm-up starts; noam: always 0", ge=0)
    dim: int | None = option(None, help="noam: D in its formula; default: model.dim", ge=1)
    updates: int | None = option(
        None, help="linear, cosine: the update at which the decay ends; default: train.max_steps", ge=1
    )
    final: float = option(
        0.0, help="linear, cosine: learning rate at the end of the decay and after it; plateau: the lowest", ge=0
    )
    patience: int = option(
        3,
        help="plateau: validations in a row without a better train.metric that lower the rate, as often as so many",
        ge=1,
    )
    factor: float = option(0.5, help="plateau: what the learning rate is then multiplied by", gt=0, lt=1)

    def build(self, lr: float, max_steps: int | None = None, dim: int | None = None) -> Schedule:
        """The learning rate of an update by its number (the first is 1), with the recipe's `train.lr`.

        `max_steps` of the training and `dim` of its model stand in for `updates` and `dim` where those are None.
        """
        from mt.training.schedules import SCHEDULES

        return SCHEDULES[self.name](lr, replace(self, updates=self.updates or max_steps, dim=self.dim or dim))

    def lr_scale(self, before: float, bad_validations: int, lr: float) -> float:
        """What the rates are multiplied by after a validation, the last of so many in a row without a better value.

        It follows from the state that a checkpoint keeps, so a resumed training finds the same.
        """
        if self.name != "plateau" or bad_validations == 0 or bad_validations % self.patience:
            return before
        return min(before, max(before * self.factor, self.final / lr))

    def check(self, train: TrainConfig) -> None:
        """Refuse what does not fit the rest of the block, and keys that the schedule in force does not read."""
        refuse_idle(self, "train.schedule", "name", _OF_SCHEDULES)
        if self.name == "noam" and train.lr < 0.01:
            raise ConfigError(
                f"train.schedule.name noam multiplies its formula by train.lr, and {train.lr} leaves next to nothing: "
                "set train.lr, 1.0 for the learning rates of the paper."
            )
        if self.name == "plateau" and train.patience is not None and train.patience <= self.patience:
            raise ConfigError(
                f"train.patience ({train.patience}) ends training before train.schedule.patience ({self.patience}) "
                "could lower the learning rate: make it the larger one."
            )
        if self.final > train.lr:
            raise ConfigError(f"train.schedule.final ({self.final}) must not be above train.lr ({train.lr}).")
        if self.name in DECAYS:
            self._check_end(self.updates or train.max_steps)

    def _check_end(self, end: int | None) -> None:
        if end is None:
            raise ConfigError(
                f"train.schedule.name {self.name} decays until an update: set train.schedule.updates or "
                "train.max_steps."
            )
        if end <= max(self.warmup, 1):
            raise ConfigError(
                f"train.schedule: the decay ends at update {end}, within the warm-up ({self.warmup} updates); set "
                "train.schedule.updates above train.schedule.warmup."
            )


_ADAMS = ("adam", "adamw")
_OF_OPTIMIZERS = {"beta1": _ADAMS, "beta2": _ADAMS, "eps": _ADAMS, "weight_decay": ("adamw",)}


@dataclass(frozen=True)
class OptimizerConfig:
    """The update rule; its betas and eps are those of Vaswani et al. 2017, section 5.3."""

    name: str = option(
        "adam",
        help="Adam; AdamW, where matrices (embeddings too) decay, biases and norms do not; Adafactor, which keeps "
        "least, with its paper's constants and train.lr relative to the size of each weight (0.01 is usual)",
        choices=("adam", "adamw", "adafactor"),
    )
    beta1: float = option(0.9, help="adam, adamw: decay of the first moment", ge=0, lt=1)
    beta2: float = option(0.98, help="adam, adamw: decay of the second moment", ge=0, lt=1)
    eps: float = option(1e-9, help="adam, adamw: added to the root of the second moment", gt=0)
    weight_decay: float = option(0.01, help="adamw: share of a weight lost an update, times its learning rate", ge=0)

    def __post_init__(self) -> None:
        refuse_idle(self, "train.optimizer", "name", _OF_OPTIMIZERS)

    def build(self, parameters: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser of `parameters`; its learning rate is set before each update."""
        from mt.training.optim import OPTIMIZERS

        return OPTIMIZERS[self.name].build(parameters, self)

    def state_size(self, shape: Sequence[int]) -> int:
        """Numbers that the optimiser keeps of a parameter of that shape."""
        from mt.training.optim import OPTIMIZERS

        return OPTIMIZERS[self.name].state_size(shape)


@dataclass(frozen=True)
class AverageConfig:
    """Which checkpoints the final model is the mean of; with `train.ema` it is a mean of moving averages."""

    of: str = option("best", help="the last n checkpoints, or the n best by `train.metric`", choices=("last", "best"))
    n: int = option(1, help="how many; 1 takes that one checkpoint as it is", ge=1)


@dataclass(frozen=True)
class TrainConfig:
    """How the model is trained. Periods carry units: 500 updates, 2e epochs, 10Mt target tokens, 30m minutes."""

    init_from: Path | None = option(
        None, help="run folder whose weights a new training begins with; it must have the same vocabulary"
    )
    batch_tokens: Budget = option(
        Budget(4096),
        help="budget of a micro-batch: rows x longest side, specials included; auto: the largest that fits into "
        "memory, at most 32768, found when training begins",
    )
    accumulate: int = option(1, help="micro-batches an update", ge=1)
    batch_warmup: int = option(0, help="updates over which their number grows from 1 to train.accumulate", ge=0)
    lr: float = option(5e-4, help="peak learning rate", gt=0)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    max_steps: int | None = option(None, help="stop after this many updates", ge=1)
    max_epochs: int | None = option(None, help="stop after this many epochs", ge=1)
    max_time: Period | None = option(
        None, help="stop after this much training time, over all resumed sessions: 90s, 30m, 4h"
    )
    valid_every: Period = option(Period.parse("1e"), help="how often to validate")
    save_every: Period = option(Period.parse("1e"), help="how often to save a checkpoint")
    log_every: Period = option(Period.parse("50"), help="how often to log the training loss")
    tensorboard: bool = option(False, help="write the log for TensorBoard, too (tensorboard --logdir RUN)")
    patience: int | None = option(None, help="stop after this many validations in a row without a new best", ge=1)
    metric: str = option(
        "loss", help="what tells the best checkpoint", choices=("loss", "bleu", "chrf", "chrf++", "ter")
    )
    valid_beam_size: int = option(1, help="beam of the validation translations; 1 is greedy", ge=1)
    keep_last: int = option(1, help="how many of the newest checkpoints to keep", ge=1)
    keep_best: int = option(1, help="how many of the best checkpoints to keep", ge=0)
    keep_every: Period | None = option(
        None, help="how often to save a checkpoint that is kept for good, such as 10e; null: never"
    )
    ema: float | None = option(
        None,
        help="decay of an exponential moving average of the weights, such as 0.999, which is validated and saved in "
        "their place; null: none",
        gt=0,
        lt=1,
    )
    average: AverageConfig = field(default_factory=AverageConfig)
    objective: str = option(
        "cross_entropy",
        help="what is minimised: the cross-entropy of the target, or that of source and target together, which a "
        "causal language model can learn",
        choices=("cross_entropy", "language_model"),
    )
    label_smoothing: float = option(0.1, help="share of the target mass spread over all V entries", ge=0, lt=1)
    clip_norm: float | None = option(1.0, help="largest L2 norm of an update's gradient; null: no clipping", gt=0)
    sharding: str = option(
        "none",
        help="of weights and moments over several devices: none (each has them whole), or full, for large models",
        choices=("none", "full"),
    )
    precision: str = option(
        "auto",
        help="of the matrix products; auto: bf16 where the machine has it; fp16 comes with dynamic loss scaling",
        choices=("auto", "fp32", "bf16", "fp16"),
    )
    max_skipped: int = option(
        100, help="updates in a row that are skipped, since their gradient is not a number, before `on_nan` holds", ge=1
    )
    on_nan: str = option(
        "stop",
        help="stop with an error, or rewind: go back to the last good checkpoint and go on from there with half the "
        "learning rate, 10 times at most",
        choices=("stop", "rewind"),
    )

    def __post_init__(self) -> None:
        if self.max_steps is None and self.max_epochs is None and self.max_time is None and self.patience is None:
            raise ConfigError(
                "train needs an end: set train.max_steps, train.max_epochs, train.max_time or train.patience."
            )
        self.schedule.check(self)
        if self.sharding == "full" and self.optimizer.name == "adafactor":
            raise ConfigError(
                "train.sharding full cuts weights and their moments alike, but those of train.optimizer.name adafactor "
                "are of whole rows and columns: choose adam or adamw, or train.sharding none."
            )
        if self.batch_warmup and self.accumulate == 1:
            raise ConfigError(
                f"train.batch_warmup ({self.batch_warmup}) grows the micro-batches of an update up to "
                "train.accumulate, which is 1: set that, or leave batch_warmup out."
            )
        if self.max_time is not None and self.max_time.unit != "seconds":
            raise ConfigError(f"train.max_time must be a time such as 90s, 30m or 4h, but is {self.max_time}.")
        kept = self.keep_last if self.average.of == "last" else self.keep_best
        if self.average.n > kept:
            raise ConfigError(
                f"train.average.n ({self.average.n}) must not be above train.keep_{self.average.of} ({kept}): "
                "only kept checkpoints can be averaged."
            )

    def micro_batches(self, update: int) -> int:
        """How many micro-batches the update of that number (the first is 1) accumulates."""
        if update >= self.batch_warmup:
            return self.accumulate
        return -(-self.accumulate * update // self.batch_warmup)
