"""How training is drawn, and how it is asked to stop: shared by `mt train` and `mt run`."""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cli.draw import Lines

if TYPE_CHECKING:
    from mt.training.loop import Rewound, Saved, Validated
    from mt.training.meter import Trained


class StopRequest:
    """Ctrl-C or SIGTERM: the first asks training to save and end; the second interrupts, as any does before it."""

    def __init__(self) -> None:
        self.heard = False
        self.asked = False

    def __call__(self) -> bool:
        """Whether somebody asked; training calls this after each update."""
        self.heard = True
        return self.asked

    def ask(self, *_: object) -> None:
        """Note the request, or interrupt."""
        if self.asked or not self.heard:
            raise KeyboardInterrupt
        self.asked = True
        print("Stopping after this update, with a checkpoint; once more to stop at once.", file=sys.stderr)


@contextmanager
def stoppable() -> Iterator[StopRequest]:
    """While inside, the signals to stop become a request."""
    request = StopRequest()
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, request.ask) for number in signals]
    try:
        yield request
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def training_lines() -> Lines:
    """What is said of the events of training; the running means are in the bar where there is one."""
    from mt.training.loop import Rewound, Saved, Validated
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
