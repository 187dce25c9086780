"""A running training as its watchers see it: what is logged, what is said, and how far it is."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import asdict
from typing import Any

from mt.events import Event, Notice, Progress
from mt.training.config import TrainConfig
from mt.training.events import Rewound, Saved, StepDone, Stopped, Validated
from mt.training.log import EventLog
from mt.training.loop import Trainer
from mt.training.meter import Meter, expected_updates
from mt.training.state import TrainingState, due


def watched(trainer: Trainer, log: EventLog) -> Generator[Event, None, Stopped]:
    """Run `trainer`, log its events and pass them on, updates as their means and as progress."""
    meter, before, means = Meter(), trainer.state, None
    events = trainer.run()
    while True:
        try:
            event = next(events)
        except StopIteration as end:
            stopped: Stopped = end.value
            return stopped
        if isinstance(event, StepDone):
            meter.add(event)
            if means is None or due(trainer.config.log_every, before, event.state):
                means = meter.means()
                log.write("trained", asdict(means))
                yield means
            before = event.state
            detail = f"loss {means.loss:.3f}, {means.tokens_per_second:,.0f} tokens/s"
            yield _progress(event.state, trainer.config, detail)
        elif isinstance(event, Progress):
            yield _progress(trainer.state, trainer.config, f"{event.label}: {event.done} of {event.total} {event.unit}")
        else:
            if isinstance(event, Rewound):
                log.cut(event.state.update)
                meter, before = Meter(), event.state
            log.write(*_logged(event, trainer.state))
            yield event


def _progress(state: TrainingState, config: TrainConfig, detail: str) -> Progress:
    return Progress("training", state.update, expected_updates(state, config), "updates", detail)


def _logged(event: Event, state: TrainingState) -> tuple[str, dict[str, Any]]:
    """Name and values of an event's line in the log."""
    if isinstance(event, Notice):
        return "notice", {"update": state.update, "text": event.text}
    assert isinstance(event, Validated | Saved | Rewound | Stopped)
    values: dict[str, Any] = {"update": event.state.update, "seconds": event.state.seconds}
    if isinstance(event, Validated):
        return "validated", {**values, **event.state.scores, "best": event.is_best}
    if isinstance(event, Rewound):
        return "rewound", {**values, "reason": event.reason, "lr_scale": event.state.lr_scale}
    if isinstance(event, Stopped):
        return "stopped", {**values, "reason": event.reason, "finished": event.finished}
    return "saved", values
