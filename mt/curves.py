"""The curves of trainings, read from their logs: what `mt plot` draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from mt.errors import RunError
from mt.training.log import read_log
from mt.training.run_folder import LOG

POINTS = 150
"""Of a curve of means, at most."""


@dataclass(frozen=True)
class Axis:
    """What curves run along: a count that events carry, in units of `factor`, up to `end` of them."""

    key: str
    label: str
    units: tuple[tuple[float, str], ...] = ((1, ""),)
    """Factors and their names, the smallest first."""
    factor: float = 1
    end: float = math.inf

    def fitted(self, logs: Iterable[RunLog]) -> Axis:
        """The axis as long as the longest run, in the largest unit of which that holds more than one."""
        longest = max(log.longest(self) for log in logs)
        factor, name = next((unit for unit in reversed(self.units) if longest > unit[0]), self.units[0])
        label = f"{self.label}, {name}" if name else self.label
        return replace(self, label=label, factor=factor, end=longest / factor)


AXES = {
    "updates": Axis("update", "updates"),
    "epochs": Axis("epoch", "epochs"),
    "tokens": Axis("tokens", "target tokens", ((1, ""), (1e3, "thousands"), (1e6, "millions"), (1e9, "billions"))),
    "time": Axis("seconds", "training time", ((1, "seconds"), (60, "minutes"), (3600, "hours"))),
}


@dataclass(frozen=True)
class Quantity:
    """What curves show: a value that one kind of event carries."""

    event: str
    key: str
    title: str
    unit: str
    averaged: bool = False
    """Whether lines of the log that are near each other are drawn as one point, their mean over updates."""


NATS = "nats per target token, unsmoothed"

QUANTITIES = {
    "loss": Quantity("trained", "nll", "Training loss", NATS, averaged=True),
    "valid_loss": Quantity("validated", "loss", "Validation loss", NATS),
    "bleu": Quantity("validated", "bleu", "Validation BLEU", "BLEU"),
    "learning_rate": Quantity("trained", "learning_rate", "Learning rate", "learning rate"),
    "speed": Quantity("trained", "tokens_per_second", "Speed", "target tokens per second", averaged=True),
}


@dataclass(frozen=True)
class Curve:
    """Points in the order of their updates; a value that is not a finite number is a gap: NaN in `y`."""

    x: list[float]
    y: list[float]

    def averaged(self, weights: Sequence[int], width: float) -> Curve:
        """With points about `width` apart, each the mean of those up to it; none stands for little weight alone."""
        least, before = median(weights) / 2, 0.0
        stretches: list[list[int]] = [[]]
        for number, place in enumerate(self.x):
            stretches[-1].append(number)
            if place - before >= width and sum(weights[other] for other in stretches[-1]) >= least:
                stretches.append([])
                before = place
        rest = stretches.pop()
        stretches = [*stretches[:-1], [*stretches[-1], *rest]] if stretches else [rest]
        means = [np.average([self.y[i] for i in part], weights=[weights[i] for i in part]) for part in stretches]
        return Curve([self.x[part[-1]] for part in stretches], list(map(float, means)))

    @property
    def finite(self) -> list[float]:
        """The values that can be seen."""
        return list(filter(math.isfinite, self.y))


@dataclass(frozen=True)
class RunLog:
    """A training by its log; `name` tells it from those that it is compared with."""

    name: str
    events: list[dict[str, Any]]

    def curve(self, quantity: Quantity, axis: Axis) -> Curve:
        """`quantity` along `axis`."""
        curve = self._curve(self.of(quantity.event), quantity, axis)
        return curve.averaged(self._updates_logged(), axis.end / POINTS) if quantity.averaged else curve

    def best(self, quantity: Quantity, axis: Axis) -> Curve:
        """The one point of `quantity` at the best validation; no point where there is none."""
        best = self.best_validation
        return self._curve([best] if best and quantity.event == "validated" else [], quantity, axis)

    @property
    def best_validation(self) -> dict[str, Any] | None:
        """The event of the best validation, by the metric of the run's recipe."""
        return next((event for event in reversed(self.of("validated")) if event.get("best")), None)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of a kind."""
        return [event for event in self.events if event["event"] == kind]

    def longest(self, axis: Axis) -> float:
        """How far the run goes along `axis`."""
        return max((event[axis.key] for event in self.events if axis.key in event), default=0)

    def _curve(self, events: Sequence[Mapping[str, Any]], quantity: Quantity, axis: Axis) -> Curve:
        places = [place / axis.factor for place in self._places(events, axis)]
        return Curve(places, [_finite(event.get(quantity.key)) for event in events])

    def _updates_logged(self) -> list[int]:
        """Of how many updates each line of means tells: those since the line before, or since training was resumed."""
        logged, before = [], 0
        for event in self.events:
            if event["event"] == "trained":
                logged.append(max(1, event["update"] - before))
            if event["event"] in ("trained", "resumed", "rewound"):
                before = event["update"]
        return logged

    def _places(self, events: Sequence[Mapping[str, Any]], axis: Axis) -> Iterator[float]:
        """Where events stand on the axis; one that does not say it stands between the updates that do."""
        known = [event for event in self.of("trained") if axis.key in event]
        updates, places = ([event[key] for event in known] for key in ("update", axis.key))
        for event in events:
            yield float(event[axis.key] if axis.key in event else np.interp(event["update"], updates, places))


def _finite(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else math.nan


def read_runs(folders: Sequence[Path]) -> list[RunLog]:
    """The logs of run folders, in their order.

    Raises:
        RunError: a folder has no log, or one that tells of no update yet.
    """
    return [RunLog(name, _events(folder)) for name, folder in zip(distinct_names(folders), folders, strict=True)]


def _events(folder: Path) -> list[dict[str, Any]]:
    if not (folder / LOG).is_file():
        raise RunError(
            f"'{folder}' holds no training: there is no {LOG} in it ({folder.resolve()}); a run folder is the "
            "model_dir of its recipe."
        )
    events = read_log(folder / LOG)
    if not any(event["event"] == "trained" for event in events):
        raise RunError(f"{folder / LOG} tells of no update yet: mt train logs one when it is made.")
    return events


def distinct_names(folders: Sequence[Path]) -> list[str]:
    """The last part of each path, and before it as many as it takes to tell them apart."""
    parts = [folder.resolve().parts for folder in folders]
    names: list[str] = []
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len({*names}) == len({*parts}):
            break
    return names
