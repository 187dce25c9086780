"""Where each attention of a model looks, while it reads a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt.data.batching import Batch
from mt.models.decomposable import DecomposableLayer
from mt.models.encoder_decoder import EncoderDecoder
from mt.nn.attention import MultiHeadAttention
from mt.nn.intra_attention import PastAttention
from mt.nn.self_attention import SelfAttention
from mt.nn.source_attention import SourceAttention


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one attention, which `module` of the model has."""

    module: str
    weights: Tensor
    """(B, H, T, S) float32, T and S the lengths of source or target; of a language model both are source and target."""
    delayed: bool = False
    """Columns are the state with which a sequence begins, and then what was read at each step but the last."""


def _of_other_sequence(module: MultiHeadAttention, inputs: tuple[Any, ...], _: Any) -> Tensor:
    return module.weights(*inputs)


def _of_itself(module: SelfAttention, inputs: tuple[Any, ...], output: Any) -> Tensor:
    x, places, mask = inputs
    return module.looked(x, output[1], places, places, mask)


def _of_source(module: SourceAttention, inputs: tuple[Any, ...], output: Any) -> Tensor:  # noqa: ARG001
    weights: Tensor = output[1]
    return weights


def _of_past(module: PastAttention, inputs: tuple[Any, ...], output: Tensor) -> Tensor:  # noqa: ARG001
    return output[:, None, None]  # (N, t) -> (N, 1, 1, t)


def _of_words(module: DecomposableLayer, inputs: tuple[Any, ...], _: Any) -> Tensor:
    return module.weights(*inputs).unsqueeze(1)  # (B, S, S) -> (B, 1, S, S)


# kind of attention -> its weights (B, H, T, S), from what its `forward` was given and gave.
LOOKS: dict[type[nn.Module], Any] = {
    MultiHeadAttention: _of_other_sequence,
    SelfAttention: _of_itself,
    SourceAttention: _of_source,
    PastAttention: _of_past,
    DecomposableLayer: _of_words,
}


def attention_maps(model: EncoderDecoder, batch: Batch) -> list[AttentionMap]:
    """The weights of all attention in the encoder and in the decoder, in the order of the modules."""
    with torch.inference_mode(), _watched(model) as looked:
        model.hidden(batch)
    return [
        AttentionMap(name, _joined(steps), delayed=isinstance(model.get_submodule(name), PastAttention))
        for name, steps in looked.items()
        if steps
    ]


def _joined(steps: list[Tensor]) -> Tensor:
    """Steps (B, H, T, S) one after the other, with nothing looked at beyond what a step could look at."""
    longest = max(step.size(3) for step in steps)
    return torch.cat([F.pad(step, (0, longest - step.size(3))) for step in steps], 2)


@contextmanager
def _watched(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """What each attention looks at meanwhile: one (B, H, T, S) where it ran over time at once, else one a step."""
    looked: dict[str, list[Tensor]] = {}
    hooks = []
    for name, module in model.named_modules():
        if type(module) in LOOKS:
            hooks.append(module.register_forward_hook(_keeper(LOOKS[type(module)], looked.setdefault(name, []))))
    try:
        yield looked
    finally:
        for hook in hooks:
            hook.remove()


def _keeper(look: Any, steps: list[Tensor]) -> Any:
    return lambda module, inputs, output: steps.append(look(module, inputs, output).float())
