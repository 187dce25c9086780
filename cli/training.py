"""How training is drawn, and how it is asked to stop: shared by `mt train` and `mt run`."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from cli.draw import Lines
from mt.place import Place
from mt.training.stop import StopRequest

if TYPE_CHECKING:
    from mt.training.events import Rewound, Saved, Validated
    from mt.training.meter import Trained


class Signals:
    """Ctrl-C, SIGTERM or SIGHUP: the first has training save and end; the second interrupts, as any does before it."""

    def __init__(self) -> None:
        self.request = StopRequest()
        self.first = signal.SIGINT
        self.before: dict[int, Any] = {}

    @property
    def exit_code(self) -> int:
        """Of a training that was stopped: a SIGTERM is how schedulers end what went well."""
        return 0 if self.first == signal.SIGTERM else 128 + self.first

    def hear(self, number: int, frame: object) -> None:
        """Ask training to stop, or interrupt."""
        if self.request.asked or not self.request.heard:
            before = self.before[number]
            if callable(before):
                before(number, frame)
            raise KeyboardInterrupt
        self.first = signal.Signals(number)
        if sys.stderr is not None and Place.of().leads:
            with suppress(OSError):  # a terminal that is gone
                # Not print: the signal may have come in the middle of one.
                os.write(2, b"Stopping with a checkpoint; once more to stop at once.\n")
        self.request.ask()


@contextmanager
def stoppable() -> Iterator[Signals]:
    """While inside, the signals to stop become a request, save those that are ignored (nohup)."""
    signals = Signals()
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:
            signals.before[number] = signal.signal(number, signals.hear)
    try:
        yield signals
    finally:
        for number, handler in signals.before.items():
            signal.signal(number, handler)


def training_lines() -> Lines:
    """What is said of the events of training; the running means are in the bar where there is one."""
    from mt.training.events import Rewound, Saved, Validated
    from mt.training.meter import Trained

    lines: Lines = {Validated: _validated, Saved: _saved, Rewound: _rewound}
    return lines if sys.stderr is not None and sys.stderr.isatty() else {**lines, Trained: _trained}


def _trained(event: Trained) -> str:
    return (
        f"update {event.update} (epoch {event.epoch:.2f}): loss {event.loss:.4f}, perplexity {_perplexity(event.nll)}, "
        f"learning rate {event.learning_rate:.3g}, {event.tokens_per_second:,.0f} target tokens/s"
    )


def _validated(event: Validated) -> str:
    scores = dict(event.state.scores)
    loss = scores.pop("loss", math.nan)
    rest = "".join(f", {name} {value:.2f}" for name, value in scores.items())
    best = ", the best so far" if event.is_best else ""
    return f"validation at update {event.state.update}: loss {loss:.4f}, perplexity {_perplexity(loss)}{rest}{best}"


def _saved(event: Saved) -> str:
    return f"saved update {event.state.update}"


def _rewound(event: Rewound) -> str:
    state = event.state
    return f"back to update {state.update}, with {state.lr_scale:g} times the learning rate: {event.reason}"


def _perplexity(nll: float) -> str:
    from mt.training.log import perplexity

    return f"{perplexity(nll):.6g}"
