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


def initialise(model: nn.Module, run: Path, fingerprint: str) -> Path:
    """Copy the weights of `run` into `model`; return their file: the final model, else the best or last checkpoint.

    `fingerprint` is that of the tokenizers of the corpus that will be trained on.

    Raises:
        RunError: there is no such run, it has another vocabulary or a model of other shapes, or it is damaged.
    """
    if not (run / "tokenizer").is_dir():
        raise RunError(f"{KEY}: {run} is not the run folder of a training: there is no tokenizer in it.")
    other = Tokenizers.load(run / "tokenizer").fingerprint
    if other != fingerprint:
        raise RunError(
            f"{KEY}: {run} has another vocabulary ({other[:12]}) than the prepared corpus ({fingerprint[:12]}), and "
            f"its embeddings mean other pieces: set tokenizer.reuse to {run} and prepare again."
        )
    file = _weights_of(run)
    weights = read_tensors(file)
    if found := difference(weights, model.state_dict()):
        raise RunError(f"{KEY}: {file} does not fit the recipe's model ({found}): take over the model block of {run}.")
    put_weights(model, weights)
    return file


def _weights_of(run: Path) -> Path:
    if (run / WEIGHTS).is_file():
        return final_weights(run)
    checkpoints = Checkpoints(run)
    newest = checkpoints.updates()[-1:]
    if not newest:
        raise RunError(f"{KEY}: {run} has neither a final model nor a checkpoint.")
    return checkpoints.weights((checkpoints.best(1) or newest)[0])
