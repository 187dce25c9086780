"""A sequence-to-sequence machine translation toolkit: raw text in, a trained model and an honest score out.

import mt

for translation in mt.load("runs/quickstart").translate(["Good morning."]):
    print(translation.text)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import torch

    from mt.search.config import DecodeConfig
    from mt.translator import Translator

__version__ = "0.1.0"


def load(
    run: str | Path,
    checkpoint: str | None = None,
    device: str | torch.device = "auto",
    decode: DecodeConfig | None = None,
    others: Sequence[str | Path] = (),
) -> Translator:
    """Load a run folder for translation: `mt.translator.load`, without the cost of torch at `import mt`."""
    from mt.translator import load as load_run

    return load_run(run, checkpoint, device, decode, others=others)
