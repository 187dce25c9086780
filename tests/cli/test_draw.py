"""Events on standard error: bars only on a terminal, notices always, standard output untouched."""

from __future__ import annotations

import io
import sys
from collections.abc import Generator
from dataclasses import dataclass

import pytest

from cli.draw import draw
from mt.events import Event, Notice, Progress


@dataclass(frozen=True)
class Odd(Event):
    """An event of a kind that `draw` does not know."""

    number: int


def work() -> Generator[Event, None, str]:
    yield Notice("A stage begins.")
    yield Progress("reading", 1, 3)
    yield Notice("Something odd.")
    yield Progress("reading", 3, 3)
    yield Progress("training", 5, None, "updates", "loss 3.2")
    yield Odd(7)
    return "result"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_off_a_terminal_there_are_lines_only(capsys: pytest.CaptureFixture[str]) -> None:
    """Fault 118: no carriage-return bar when stderr is no terminal."""
    assert draw(work(), {Odd: lambda event: f"odd {event.number}"}) == "result"
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "A stage begins.\nSomething odd.\nodd 7\n")


def test_on_a_terminal_there_are_bars(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert draw(work()) == "result"
    drawn = terminal.getvalue()
    assert "reading: 100%" in drawn
    assert "3.00/3.00" in drawn or "3/3" in drawn
    assert "loss 3.2" in drawn
    assert "Something odd." in drawn
    assert capsys.readouterr().out == ""


def test_a_bar_tells_at_once_what_goes_on_while_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a resumed training, whose earlier updates do not count for its speed."""

    def training() -> Generator[Event, None, None]:
        yield Progress("training", 5000, 9000, "updates", "loss 3.2")
        yield Progress("training", 5001, 9000, "updates", "loss 3.1")
        for done in range(3):
            yield Progress("training", 5001, 9000, "updates", f"validating: {done} of 2 lines")

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    draw(training())
    assert all(f"validating: {done} of 2 lines" in terminal.getvalue() for done in range(3))


def test_without_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    draw(work(), bars=False)
    assert terminal.getvalue() == "A stage begins.\nSomething odd.\n"


def test_work_is_closed_when_it_is_interrupted() -> None:
    closed = []

    def interrupted() -> Generator[Event, None, None]:
        try:
            yield Notice("begun")
            yield Odd(1)
        finally:
            closed.append(True)

    def fail(_: object) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        draw(interrupted(), {Odd: fail})
    assert closed == [True]
