"""Values of the `train` block that read their own text: periods with units, and budgets. It imports no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mt.errors import ConfigError

_UNITS = {
    "updates": {"": 1, "u": 1},
    "epochs": {"e": 1},
    "tokens": {"t": 1, "kt": 10**3, "mt": 10**6, "gt": 10**9},
    "seconds": {"s": 1, "m": 60, "h": 3600},
}
_FACTORS = {suffix: (unit, factor) for unit, suffixes in _UNITS.items() for suffix, factor in suffixes.items()}


@dataclass(frozen=True)
class Period:
    """A stretch of training: `value` in `unit` (updates, epochs, target tokens or seconds); `text` as written."""

    value: float
    unit: str
    text: str

    @classmethod
    def parse(cls, text: str) -> Period:
        """Read `500` (updates), `2e` (epochs), `10Mt` (target tokens; also `t`, `kt`, `Gt`), `90s`, `30m`, `4h`."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]*)", text.strip())
        # Letters alone are lower case: 10M could be minutes or a million of something.
        suffix = "?" if not match else match[2] if len(match[2]) == 1 else match[2].lower()
        if not match or suffix not in _FACTORS or float(match[1]) <= 0:
            raise ConfigError(
                f"'{text}' is not a period; write a number above 0 and a unit: 500 (updates), 2e (epochs), "
                "10Mt (target tokens), 90s, 30m or 4h."
            )
        unit, factor = _FACTORS[suffix]
        return cls(float(match[1]) * factor, unit, text.strip())

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Budget:
    """`tokens` of a batch; None: what fits."""

    tokens: int | None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read a whole number or `auto`."""
        if text == "auto":
            return cls(None)
        if not re.fullmatch(r"[1-9]\d{0,17}", text):
            raise ConfigError(f"'{text}' is no budget; write a whole number of tokens, at least 1, or auto.")
        return cls(int(text))

    def __str__(self) -> str:
        return "auto" if self.tokens is None else str(self.tokens)
