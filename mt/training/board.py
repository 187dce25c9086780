"""A run's log as the event files that TensorBoard shows."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mt.errors import MissingExtraError

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

GROUPS = {"trained": "train", "validated": "valid"}
"""Events whose numbers are shown, and the name that these are grouped under."""
PLACES = ("update", "epoch", "tokens", "seconds")


def check_installed() -> None:
    """Raise MissingExtraError where TensorBoard is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        raise MissingExtraError("train.tensorboard", "tensorboard")


class Board:
    """The event files in `folder`. They hold what the log holds: each session writes them anew, so no step is twice."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: SummaryWriter | None = None

    def begin(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Show `events`, and nothing else."""
        from torch.utils.tensorboard import SummaryWriter

        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._writer = SummaryWriter(str(self._folder), flush_secs=10)
        for event in events:
            self.add(event)

    def add(self, event: Mapping[str, Any]) -> None:
        """Show an event of the log, too."""
        assert self._writer is not None
        if event["event"] not in GROUPS:
            return
        time = datetime.fromisoformat(event["time"]).timestamp()
        for key, value in event.items():
            if key not in PLACES and isinstance(value, (int, float)) and not isinstance(value, bool):
                self._writer.add_scalar(f"{GROUPS[event['event']]}/{key}", value, event["update"], time)

    def close(self) -> None:
        """Write what is not yet written."""
        if self._writer is not None:
            self._writer.close()
