"""What may change in the recipe of a training that was begun, and what may not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mt.config import as_yaml, leaves
from mt.errors import RunError, plural

FREE, END, SETTING, FIXED = "free", "end", "setting", "fixed"
"""No part in training; when it ends, and with what; takes effect from the update it is resumed at; needs a new
training."""

RULES = {
    "": FIXED,
    "name": FREE,
    "model_dir": FREE,
    "data.dir": FREE,
    "data.download": FREE,
    "data.test": FREE,
    # Files may be moved: that they hold the same text is seen in the prepared corpus (`check_corpus`).
    "data.train.src": FREE,
    "data.train.tgt": FREE,
    "data.valid.src": FREE,
    "data.valid.tgt": FREE,
    # A preset is laid out in the other keys.
    "model.preset": FREE,
    "model.dropout": SETTING,
    "model.attention_dropout": SETTING,
    "model.activation_dropout": SETTING,
    "model.word_dropout": SETTING,
    "model.layer_drop": SETTING,
    "train": SETTING,
    "train.log_every": FREE,
    "train.tensorboard": FREE,
    "train.sharding": FREE,
    "train.max_steps": END,
    "train.max_epochs": END,
    "train.max_time": END,
    "train.patience": END,
    "train.max_skipped": END,
    # The final model is made anew from the checkpoints that there are.
    "train.average": END,
    "train.keep_last": END,
    "train.keep_best": END,
    "train.on_nan": END,
    # The place in a half-done epoch is a number of batches of this size.
    "train.batch_tokens": FIXED,
    "train.metric": FIXED,
    "train.objective": FIXED,
    # Read when training begins; the other run may be gone since.
    "train.init_from": FIXED,
    # A moving average is one of all updates.
    "train.ema": FIXED,
    "train.optimizer.name": FIXED,
    "decode": FREE,
    "evaluate": FREE,
}
"""Rules for keys and all below them; the longest that fits holds."""


@dataclass(frozen=True)
class Change:
    """A key whose value is another than before."""

    key: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.key}: {as_yaml(self.old)} -> {as_yaml(self.new)}"

    @property
    def rule(self) -> str:
        """What the change means for a training: FREE, END, SETTING or FIXED."""
        name = re.sub(r"\[\d+\]", "", self.key)
        while name not in RULES:
            name = name.rpartition(".")[0]
        return RULES[name]


def changed_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """The keys, dotted, that differ between two recipes given as plain mappings; in the order of the recipe."""
    before, after = dict(leaves(old)), dict(leaves(new))
    return [
        Change(key, before.get(key), after.get(key))
        for key in {**before, **after}
        if _typed(before.get(key)) != _typed(after.get(key))
    ]


def check_resume(run: Path, old: Mapping[str, Any], new: Mapping[str, Any], *, finished: bool) -> list[Change]:
    """Compare the recipe that a training was begun with and the one now; return the changes that take effect.

    Raises:
        RunError: a change needs a new training, or the training is finished and was one of another recipe.
    """
    changes = changed_keys(old, new)
    if fixed := [change for change in changes if change.rule == FIXED]:
        raise RunError(
            f"{run} holds a training begun with another recipe ({_listed(fixed)}): set the former value to go on with "
            "it, choose another model_dir, or delete that training with --overwrite."
        )
    settings = [change for change in changes if change.rule == SETTING]
    if finished and settings:
        raise RunError(
            f"{run} holds a finished training of another recipe ({_listed(settings)}): choose another model_dir, or "
            "delete that training with --overwrite."
        )
    return [change for change in changes if change.rule in (SETTING, END)]


def check_corpus(run: Path, old: str, new: str) -> None:
    """Compare the fingerprints of the prepared corpus that a training was begun on and of the one there is now.

    Raises:
        RunError: they differ.
    """
    if old != new:
        raise RunError(
            f"{run} holds a training begun on another prepared corpus ({old[:12]}, now {new[:12]}): restore the former "
            "text and settings of data and tokenizer and prepare again, choose another model_dir, or delete that "
            "training with --overwrite."
        )


def ranks_notice(old: int, new: int, old_accumulate: int, accumulate: int) -> str:
    """What becomes of an update where a training goes on with another number of processes; '' with the same."""
    if old == new:
        return ""
    was, now = old * old_accumulate, new * accumulate
    begin = f"Trained by {old} {plural(old, 'process')} before, by {new} now; the place in the corpus is kept"
    if was == now:
        return f"{begin}, and an update takes {now} micro-batches as before."
    keep = f"train.accumulate={was // new} keeps it" if was % new == 0 else f"no train.accumulate of {new} makes {was}"
    return f"{begin}, but an update takes {now} micro-batches where it took {was} ({keep})."


def _typed(value: Any) -> Any:
    """Equal for equal values, but True is not 1 and a tuple is a list."""
    if isinstance(value, (list, tuple)):
        return [_typed(entry) for entry in value]
    return (isinstance(value, bool), value)


def _listed(changes: list[Change]) -> str:
    more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
    return ", ".join(map(str, changes[:3])) + more
