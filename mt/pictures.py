"""What all pictures share: formats, colours, style. Needs the extra `plots`.

The same content gives the same bytes: no date, no name drawn by chance, no setting of the person's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mt.errors import ConfigError, MissingExtraError
from mt.text.files import write_aside

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {"Software": None}}
"""Suffix of a picture -> what is kept out of it."""
# Okabe and Ito 2008: told apart by people of any colour vision. Black is for text, and yellow too light for a line.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", (0, (6, 1.5)), (0, (2, 1)), (0, (6, 1.5, 1.5, 1.5)), (0, (10, 2)))
FONT = 9.5
"""Points."""
STYLE: dict[str, Any] = {
    "svg.hashsalt": "mt",
    "font.size": FONT,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "figure.constrained_layout.h_pad": 0.12,
    "figure.constrained_layout.w_pad": 0.12,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    "savefig.dpi": 120,
    "text.parse_math": False,  # dollars are dollars
}


def format_of(target: Path) -> str:
    """What the name of a picture says it is, a key of `FORMATS`.

    Raises:
        ConfigError: the name says something else, or nothing.
    """
    suffix = target.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise ConfigError(f"'{target}' does not say what to draw: its name must end in .svg or .png.")
    return suffix


@contextmanager
def drawing(what: str) -> Iterator[None]:
    """Draw by nothing but what this file says; `what` begins the sentence that says that the extra is missing."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError(what, "plots") from None
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def save(figure: Figure, target: Path) -> None:
    """Write the picture, while `drawing`. Raises as `format_of`."""
    suffix = format_of(target)
    with write_aside(target) as file:
        figure.savefig(file, format=suffix, metadata=FORMATS[suffix])
