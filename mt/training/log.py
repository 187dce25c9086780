"""The run's log: a file of events, one JSON object a line, and numbers that a person reads."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from mt.errors import RunError
from mt.training.board import Board


class EventLog:
    """Appends events to `path`. Each is on its way to the disk when `write` returns.

    What is not a number, which JSON lacks, is written as the strings "nan", "inf" and "-inf".
    """

    def __init__(self, path: Path, update: int = 0, board: Board | None = None) -> None:
        """Open the log of a training that stands at `update`: what it holds of later updates, which come again, is cut.

        `board` shows at any time what the log holds.

        Raises:
            RunError: it cannot be opened.
        """
        self._path = path
        self._board = board
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab+", buffering=0)
            cut = self._cut(update)
        except OSError as error:
            raise RunError(f"{path} could not be opened ({error}).") from error
        if cut or update:
            self.write("resumed", {"update": update, "lines_cut": cut})

    def cut(self, update: int) -> int:
        """Cut off the lines from the first one of an update after `update` on; return how many.

        Raises:
            RunError: the file cannot be changed.
        """
        try:
            return self._cut(update)
        except OSError as error:
            raise RunError(f"{self._path} could not be cut ({error}).") from error

    def write(self, event: str, values: Mapping[str, Any]) -> None:
        """Append an event.

        Raises:
            RunError: it could not be written. A line that is only begun is cut off when training is resumed.
        """
        record = {"event": event, "time": datetime.now(timezone.utc).isoformat(timespec="seconds"), **values}
        line = json.dumps(_plain(record), ensure_ascii=False, allow_nan=False) + "\n"
        try:
            self._file.write(line.encode())
        except OSError as error:
            raise RunError(
                f"{self._path} could not be written ({error}): make room there and run the same command again."
            ) from error
        if self._board is not None:
            self._board.add(record)

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.close()

    def _cut(self, update: int) -> int:
        """Cut off the lines from the first one of a later update on, or from a torn one; return how many."""
        self._file.seek(0)
        lines = io.BytesIO(self._file.read()).readlines()
        kept = next((number for number, line in enumerate(lines) if _is_later(line, update)), len(lines))
        self._file.truncate(sum(map(len, lines[:kept])))
        if self._board is not None:
            self._board.begin(read_log(self._path))
        return len(lines) - kept


def _is_later(line: bytes, update: int) -> bool:
    if not line.endswith(b"\n"):
        return True
    try:
        content = json.loads(line)
    except ValueError:
        return False
    found = content.get("update") if isinstance(content, dict) else None
    return isinstance(found, int) and found > update


def read_log(path: Path) -> list[dict[str, Any]]:
    """The events of a log in the order of their updates; of updates that were run again, only as they were last.

    A last line that is only begun, and what is no event of an update, are left out; "nan" and "inf" are numbers again.

    Raises:
        RunError: it cannot be read.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise RunError(f"{path} could not be read ({error}).") from error
    events: dict[tuple[int, str], dict[str, Any]] = {}
    for event in filter(None, map(_event, lines)):
        place = event["update"], event["event"]
        while events and next(reversed(events))[0] > event["update"]:
            events.popitem()
        events.pop(place, None)
        events[place] = event
    return list(events.values())


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(line)
    except ValueError:
        return None
    if not isinstance(content, dict) or not isinstance(content.get("event"), str):
        return None
    if not isinstance(content.get("update"), int):
        return None
    return {key: float(value) if value in ("nan", "inf", "-inf") else value for key, value in content.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def perplexity(nll: float) -> float:
    """exp of a negative log-likelihood a token in nats, never of a smoothed loss; infinity where that overflows."""
    return math.exp(nll) if not nll > 709 else math.inf
