"""The training loop: a generator of events over updates, validations and checkpoints. It sees ids, never text."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Protocol, TypeAlias

from mt.data.batching import Batch
from mt.data.training_data import Elsewhere
from mt.errors import RunError
from mt.events import Event, Notice
from mt.training.checkpoint import WEIGHTS, Checkpoints
from mt.training.config import TrainConfig
from mt.training.distributed import Group
from mt.training.ema import Ema
from mt.training.events import Rewound, Saved, StepDone, Stopped, Validated
from mt.training.loss_scale import FLOOR
from mt.training.schedules import Schedule
from mt.training.snapshot import restore, take
from mt.training.state import TrainingState
from mt.training.stop import StopRequest
from mt.training.update import Updater

MAX_REWINDS = 10
"""How often training may go back before it stops after all."""


class TrainingBatches(Protocol):
    """The training pairs, batch by batch."""

    def __len__(self) -> int:
        """Pairs of an epoch."""
        ...

    def epoch(self, epoch: int, start_batch: int = 0) -> Iterator[Batch | Elsewhere]:
        """The batches of `epoch`, of all ranks, from number `start_batch` on: a pure function of the two."""
        ...

    def close(self) -> None:
        """End what makes batches ahead."""
        ...


Validate: TypeAlias = Callable[[int], Generator[Event, None, dict[str, float]]]


@dataclass
class Trainer:
    """All that one training needs; `run` goes on from `state` until an end that `config` names."""

    updater: Updater
    schedule: Schedule
    data: TrainingBatches
    validate: Validate | None
    """Update number -> scores of the model as it stands."""
    checkpoints: Checkpoints
    config: TrainConfig
    state: TrainingState
    stop: StopRequest = field(default_factory=StopRequest)
    """Looked at after each update and in validations; saves a checkpoint and ends."""
    ema: Ema | None = None
    """Moving averages of the weights: validated and saved in their place."""

    @property
    def group(self) -> Group:
        """Those who train together: they go through the same states."""
        return self.updater.group

    def run(self) -> Generator[Event, None, Stopped]:
        """Train. A checkpoint stands at the end, whatever the end was.

        Raises:
            RunError: no update can be made any more; the last good checkpoint is untouched.
        """
        self._clock, self._unsaved = time.monotonic(), False
        if not self.checkpoints.updates():
            self._unsaved = True
            if self.config.on_nan == "rewind":
                yield from self._save()
        while not (stop := (yield from self._duties()) or self._end()):
            last = self.state
            for batches in self._updates():
                yield from self._update(batches)
                if reason := self._diverged():
                    yield self._rewind(reason)
                    break
                # From update to update: a period may also end while the model is validated or saved.
                before, last = last, self.state
                self.state = self.state.with_duties(before, self.config)
                if stop := (yield from self._duties()) or self._end():
                    break
        if stop.finished and self.state.scored != self.state.update:
            self.state = replace(self.state, validating=True)
            stop = (yield from self._duties()) or stop
        yield from self._keep()
        stop = replace(stop, state=self.state)
        yield stop
        return stop

    def _updates(self) -> Iterator[list[Batch | Elsewhere]]:
        """The rest of the running epoch, an update's micro-batches at a time; the last update may have fewer."""
        batches = iter(self.data.epoch(self.state.epoch, self.state.batch))
        return iter(lambda: list(islice(batches, self._micro_batches())), [])

    def _micro_batches(self) -> int:
        """Of the next update, on all ranks."""
        return self.config.micro_batches(self.state.update + 1) * self.group.size

    def _update(self, batches: list[Batch | Elsewhere]) -> Iterable[Event]:
        rate, before = self.state.lr_scale * self.schedule(self.state.update + 1), self.state
        done = self.updater(batches, rate, before, self._may_leave)
        if done is None:
            return
        state = before.after_batches(len(batches), done.pairs, done.tokens, len(self.data), skipped=done.skipped)
        if self.updater.precision.needs_loss_scale:
            state = replace(state, loss_scale=state.loss_scale.after(overflow=done.skipped))
        if self.ema is not None and not done.skipped:
            self.ema.add(state.update)
        self._advance(replace(state, cuts=state.cuts + done.cuts))
        yield from map(Notice, done.notices)
        seconds, self._unsaved = self.state.seconds - before.seconds, True
        yield StepDone(self.state, done.loss, done.nll, done.tokens, seconds, done.grad_norm, rate)

    def _may_leave(self) -> bool:
        """Whether to give up what has begun, since somebody asked; ranks cannot leave at the same moment."""
        return self.stop.asked and self.group.size == 1

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
        state = restore(checkpoint, self.updater.model, self.updater.optimizer, file, self.ema)
        lower = state.lr_scale / 2
        self._advance(
            replace(state, lr_scale=lower, rewinds=rewinds, skipped=self.state.skipped, seconds=self.state.seconds)
        )
        self.checkpoints.save(take(self.state, self.updater.model, self.updater.optimizer, self.ema))
        return Rewound(self.state, reason)

    def _advance(self, state: TrainingState) -> None:
        """Go on to `state`, and count all time since the last call, whatever took it."""
        now = time.monotonic()
        self.state = replace(state, seconds=state.seconds + self.group.lead(now - self._clock))
        self._clock = now

    def _duties(self) -> Generator[Event, None, Stopped | None]:
        """Validate and save, where the state says that it is due; or stop, and leave what is not done to be resumed.

        Where validation fails, what was trained is saved first: resumed, training begins with that validation.
        """
        try:
            if self.state.validating and not (yield from self._validate()):
                return self._asked()
        except Exception:
            if self.group.size == 1:  # of several only one may have failed, and saving is done together
                yield from self._keep()
            raise
        if self.state.saving:
            self.state = replace(self.state, saving=False, unscheduled=None)
            yield from self._save()
        return None

    def _validate(self) -> Generator[Event, None, bool]:
        """Validate, where there is validation text; False where it was left undone for a stop."""
        if self.validate is None:
            self.state = replace(self.state, validating=False)
            return True
        scores = yield from self._scores(self.validate)
        if scores is None:
            return False
        state = self.state.after_validation(scores)
        scale = self.config.schedule.lr_scale(state.lr_scale, state.bad_validations, self.config.lr)
        keep = self.checkpoints.is_among_best(state, self.config.keep_best)
        self._advance(replace(state, lr_scale=scale, saving=state.saving or keep))
        self._unsaved = True
        yield Validated(self.state, is_best=self.state.bad_validations == 0)
        return True

    def _scores(self, validate: Validate) -> Generator[Event, None, dict[str, float] | None]:
        """The scores of what would be saved; None where training is to stop before they are there."""
        self.updater.model.eval()
        try:
            with nullcontext() if self.ema is None else self.ema.in_place():
                self.updater.loss.refresh()
                work = validate(self.state.update)
                # Ranks cannot leave at the same moment what they do together.
                return (yield from self.stop.until_asked(work) if self.group.size == 1 else work)
        finally:
            self.updater.model.train()

    def _keep(self) -> Iterable[Event]:
        """Save what is not saved yet, whether or not it is due."""
        if self._unsaved:
            if self.state.update not in self.checkpoints.updates():
                self.state = replace(self.state, unscheduled=self.state.update)
            yield from self._save()

    def _save(self) -> Iterable[Event]:
        self.checkpoints.save(take(self.state, self.updater.model, self.updater.optimizer, self.ema))
        good = {"stop": 1, "rewind": 2}[self.config.on_nan]
        self.checkpoints.prune(self.config.keep_last, self.config.keep_best, good)
        self._unsaved = False
        self._advance(self.state)
        yield Saved(self.state)

    def _end(self) -> Stopped | None:
        """Why training is over; None while it goes on."""
        if reason := self.state.end(self.config):
            return Stopped(self.state, reason, finished=True)
        return self._asked() if self.group.any(self.stop()) else None

    def _asked(self) -> Stopped:
        return Stopped(self.state, "asked to stop", finished=False)
