"""`train.init_from`: a new training from the weights of another run."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from mt.errors import RunError
from mt.text.tokenizer import Tokenizers
from mt.training.checkpoint import WEIGHTS, Checkpoints
from mt.training.final import final_weights
from mt.training.snapshot import difference, put_weights
from mt.training.weights import read_tensors

KEY = "train.init_from"


def find_weights(run: Path, model_dir: Path, fingerprint: str) -> Path:
    """The file of the weights of `run`: its final model, else its best or last checkpoint.

    Args:
        model_dir: run folder of the new training.
        fingerprint: that of the tokenizers of the corpus that will be trained on.

    Raises:
        RunError: there is no such run, it is the new one, it has another vocabulary, or it is damaged.
    """
    if run.resolve() == model_dir.resolve():
        raise RunError(f"{KEY}: {run} is the run folder of the new training itself (model_dir): name another run.")
    if not (run / "tokenizer").is_dir():
        raise RunError(f"{KEY}: {run} is not the run folder of a training: there is no tokenizer in it.")
    other = Tokenizers.load(run / "tokenizer").fingerprint
    if other != fingerprint:
        raise RunError(
            f"{KEY}: {run} has another vocabulary ({other[:12]}) than the prepared corpus ({fingerprint[:12]}), and "
            f"its embeddings mean other pieces: set tokenizer.reuse to {run} and prepare again."
        )
    return _weights_of(run)


def initialise(model: nn.Module, file: Path) -> None:
    """Copy the weights of `file`, found by `find_weights`, into `model`.

    Raises:
        RunError: its model has other shapes.
    """
    weights = read_tensors(file)
    if found := difference(weights, model.state_dict()):
        raise RunError(f"{KEY}: {file} does not fit the recipe's model ({found}): take over that run's model block.")
    put_weights(model, weights)


def _weights_of(run: Path) -> Path:
    if (run / WEIGHTS).is_file():
        return final_weights(run).path
    checkpoints = Checkpoints(run)
    newest = checkpoints.updates()[-1:]
    if not newest:
        raise RunError(f"{KEY}: {run} has neither a final model nor a checkpoint.")
    return checkpoints.weights((checkpoints.best(1) or newest)[0]).path
