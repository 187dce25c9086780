"""The models that are compared: each is a shipped recipe, some with a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mt.recipe import Recipe, load_recipe

PREFIX = "multi30k-tok-"
"""Of the recipes: one corpus, the same pieces, budget and search."""

FAMILIES = WITHOUT, RECURRENT, TRANSFORMER, MIXED = (
    "Recurrent without attention",
    "Recurrent with attention",
    "Transformers",
    "Mixed, and one stack for both sides",
)


@dataclass(frozen=True)
class Model:
    """One of those compared."""

    family: str
    recipe: str = ""
    """The recipe's name without `PREFIX`, where it is not the model's own."""
    changes: tuple[str, ...] = ()
    """KEY=VALUE laid over that recipe."""


# In the order of training and of the table. A new one is a recipe and a line here.
MODELS: dict[str, Model] = {
    "seq2seq-lstm": Model(WITHOUT),
    "seq2seq-lstm-forward": Model(WITHOUT, "seq2seq-lstm", ("model.encoder.reverse_source=false",)),
    "seq2seq-gru": Model(WITHOUT),
    "rnnsearch": Model(RECURRENT),
    "luong-global": Model(RECURRENT),
    "luong-local": Model(RECURRENT),
    "gnmt": Model(RECURRENT),
    "intra-attention": Model(RECURRENT),
    "decomposable": Model(MIXED),
    "transformer-tiny": Model(TRANSFORMER),
    "hybrid": Model(MIXED),
    "decoder-only": Model(MIXED),
    "prefix-lm": Model(MIXED),
    "modern": Model(TRANSFORMER),
    "deep-shallow": Model(TRANSFORMER),
    "deep-shallow-ssru": Model(TRANSFORMER),
}


def recipe_of(name: str, runs: Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a model, whose run folder lies in `runs`; all have one prepared corpus there.

    Raises:
        ConfigError: of an override.
    """
    model = MODELS[name]
    own = (f"name={PREFIX}{name}", f"model_dir={run_folder(name, runs)}", f"data.dir={runs / PREFIX}data")
    return load_recipe(f"{PREFIX}{model.recipe or name}", (*model.changes, *overrides, *own))


def run_folder(name: str, runs: Path) -> Path:
    """Where a model is trained: the folder that its recipe names, below `runs`."""
    return runs / f"{PREFIX}{name}"
