"""The training loop: a generator of events over updates, validations and checkpoints. It sees ids, never text."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from torch import Tensor

from mt.data.batching import Batch
from mt.errors import RunError
from mt.events import Event
from mt.training.checkpoint import WEIGHTS, Checkpoints
from mt.training.config import TrainConfig
from mt.training.loss_scale import FLOOR
from mt.training.schedules import Schedule
from mt.training.snapshot import restore, take
from mt.training.state import TrainingState, due
from mt.training.update import Updater

MAX_REWINDS = 10
"""How often training may go back before it stops after all."""


@dataclass(frozen=True)
class StepDone(Event):
    """One update. The sums stay on the device: reading them waits for it."""

    state: TrainingState
    loss: Tensor
    """Smoothed loss, summed over `tokens`."""
    nll: Tensor
    """Negative log-likelihood in nats, summed over `tokens`."""
    tokens: int
    seconds: float
    """Since the event before."""
    grad_norm: Tensor
    learning_rate: float


@dataclass(frozen=True)
class Validated(Event):
    """The scores of a validation; `is_best` by the recipe's metric."""

    state: TrainingState
    is_best: bool


@dataclass(frozen=True)
class Saved(Event):
    """A checkpoint is whole on disk."""

    state: TrainingState


@dataclass(frozen=True)
class Rewound(Event):
    """Training went back to the checkpoint of `state`, which has a lower learning rate now."""

    state: TrainingState
    reason: str


@dataclass(frozen=True)
class Stopped(Event):
    """Training is over, or was asked to stop (`finished` False)."""

    state: TrainingState
    reason: str
    finished: bool


class TrainingBatches(Protocol):
    """The training pairs, batch by batch."""

    def __len__(self) -> int:
        """Pairs of an epoch."""
        ...

    def epoch(self, epoch: int, start_batch: int = 0) -> Iterator[Batch]:
        """The batches of `epoch` from number `start_batch` on: a pure function of the two."""
        ...

    def close(self) -> None:
        """End what makes batches ahead."""
        ...


@dataclass
class Trainer:
    """All that one training needs; `run` goes on from `state` until an end that `config` names."""

    updater: Updater
    schedule: Schedule
    data: TrainingBatches
    validate: Callable[[int], Generator[Event, None, dict[str, float]]] | None
    """Update number -> scores of the model as it stands."""
    checkpoints: Checkpoints
    config: TrainConfig
    state: TrainingState
    should_stop: Callable[[], bool] = lambda: False
    """Asked after each update; True saves a checkpoint and ends."""

    def run(self) -> Generator[Event, None, Stopped]:
        """Train. A checkpoint stands at the end, whatever the end was.

        Raises:
            RunError: no update can be made any more; the last good checkpoint is untouched.
        """
        self._clock = time.monotonic()
        if self.config.on_nan == "rewind" and not self.checkpoints.updates():
            yield from self._save()
        last = self.state
        while not (stop := self._end()):
            for batches in self._updates():
                before, done = self.state, self._update(batches)
                self._advance(done.state)
                yield replace(done, state=self.state, seconds=self.state.seconds - before.seconds)
                if reason := self._diverged():
                    yield self._rewind(reason)
                    last = self.state
                    break
                # From update to update: a period may also end while the model is validated or saved.
                before, last = last, self.state
                best = (yield from self._validate()) if due(self.config.valid_every, before, last) else False
                if due(self.config.save_every, before, last) or (best and self.config.keep_best):
                    yield from self._save()
                if stop := self._end():
                    break
        scored = self.state.scored
        if scored != self.state.update and stop.finished:
            yield from self._validate()
        if self.state.update not in self.checkpoints.updates() or self.state.scored != scored:
            yield from self._save()
        stop = replace(stop, state=self.state)
        yield stop
        return stop

    def _updates(self) -> Iterator[list[Batch]]:
        """The rest of the running epoch, an update's micro-batches at a time; the last update may have fewer."""
        batches = iter(self.data.epoch(self.state.epoch, self.state.batch))
        return iter(lambda: list(islice(batches, self.config.micro_batches(self.state.update + 1))), [])

    def _update(self, batches: list[Batch]) -> StepDone:
        rate = self.state.lr_scale * self.schedule(self.state.update + 1)
        done = self.updater(batches, rate, self.state)
        state = self.state.after_batches(len(batches), done.pairs, done.tokens, len(self.data), skipped=done.skipped)
        if self.updater.precision.needs_loss_scale:
            state = replace(state, loss_scale=state.loss_scale.after(overflow=done.skipped))
        return StepDone(state, done.loss, done.nll, done.tokens, 0.0, done.grad_norm, rate)

    def _diverged(self) -> str:
        """Why no update can be made any more; '' while they can."""
        if self.state.loss_scale.exhausted:
            return f"gradients in fp16 overflow even with the smallest loss scale ({FLOOR:g})"
        if self.state.skipped_in_row >= self.config.max_skipped:
            return f"the loss was not a number for {self.config.max_skipped} updates in a row (train.max_skipped)"
        return ""

    def _rewind(self, reason: str) -> Rewound:
        """Go back to the last good checkpoint, and save it again with half its learning rate.

        Raises:
            RunError: the recipe wants a stop, or this was tried often enough.
        """
        where, rewinds = self.state.update, self.state.rewinds + 1
        if self.config.on_nan == "stop" or rewinds > MAX_REWINDS:
            tried = f", also after it went back {MAX_REWINDS} times" if self.config.on_nan == "rewind" else ""
            raise RunError(
                f"Training stopped at update {where}{tried}: {reason}; lower train.lr or set train.precision to fp32, "
                "and resume or start again."
            )
        # One after which no update worked may be past help already; that of the beginning may be all there is.
        checkpoint, _ = self.checkpoints.newest(lambda state: state.update < max(where, 1) and not state.skipped_in_row)
        assert checkpoint is not None
        file = self.checkpoints.path(checkpoint.state.update) / WEIGHTS
        state = restore(checkpoint, self.updater.model, self.updater.optimizer, file)
        lower = state.lr_scale / 2
        self._advance(
            replace(state, lr_scale=lower, rewinds=rewinds, skipped=self.state.skipped, seconds=self.state.seconds)
        )
        self.checkpoints.save(take(self.state, self.updater.model, self.updater.optimizer))
        return Rewound(self.state, reason)

    def _advance(self, state: TrainingState) -> None:
        """Go on to `state`, and count all time since the last call, whatever took it."""
        now = time.monotonic()
        self.state = replace(state, seconds=state.seconds + now - self._clock)
        self._clock = now

    def _validate(self) -> Generator[Event, None, bool]:
        """Validate, where there is validation text; whether the scores are a new best."""
        if self.validate is None:
            return False
        before = self.state
        self.updater.model.eval()
        try:
            scores = yield from self.validate(self.state.update)
        finally:
            self.updater.model.train()
        state = self.state.after_validation(scores)
        scale = self.config.schedule.lr_scale(state.lr_scale, state.bad_validations, self.config.lr)
        self._advance(replace(state, lr_scale=scale))
        is_best = self.state.best.get(self.config.metric) != before.best.get(self.config.metric)
        yield Validated(self.state, is_best)
        return is_best

    def _save(self) -> Iterable[Event]:
        self.checkpoints.save(take(self.state, self.updater.model, self.updater.optimizer))
        good = {"stop": 1, "rewind": 2}[self.config.on_nan]
        self.checkpoints.prune(self.config.keep_last, self.config.keep_best, good)
        self._advance(self.state)
        yield Saved(self.state)

    def _end(self) -> Stopped | None:
        """Why training is over, in the order of the recipe's keys; None while it goes on."""
        state, config = self.state, self.config
        ends = {
            f"train.max_steps {config.max_steps} reached": config.max_steps and state.update >= config.max_steps,
            f"train.max_epochs {config.max_epochs} reached": config.max_epochs and state.epoch >= config.max_epochs,
            f"train.max_time {config.max_time} reached": config.max_time and state.seconds >= config.max_time.value,
            f"train.patience {config.patience} reached without a better {config.metric}": config.patience
            and state.bad_validations >= config.patience,
        }
        for reason, reached in ends.items():
            if reached:
                return Stopped(state, reason, finished=True)
        return Stopped(state, "asked to stop", finished=False) if self.should_stop() else None
