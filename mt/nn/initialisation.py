"""How all weights of a model begin, where not each part says it for itself.

`scale` is that of the papers, which read embeddings as they are: here they are read times sqrt(D), and begin smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import nn

from mt.nn.recurrent import RecurrentLayer
from mt.nn.scores import Additive


def uniform(model: nn.Module, scale: float) -> None:
    """Every number within +-`scale`: 0.08 (Sutskever et al. 2014), 0.1 (Luong et al. 2015), 0.04 (Wu et al. 2016)."""
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -scale, scale)
    _shrink_embeddings(model)


def normal(model: nn.Module, scale: float) -> None:
    """Bahdanau et al. 2014, appendix B.1, whose `scale` is 0.01; Cho et al. 2014, appendix A, agree where they overlap.

    Matrices are normal with the deviation `scale`, those of recurrences orthogonal; biases 0. Of an additive score the
    matrices have a tenth of `scale`, and v is 0.
    """
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=scale)
        else:
            nn.init.zeros_(parameter)
    for module in model.modules():
        if isinstance(module, RecurrentLayer):
            _, recurrence, *_ = module.weights
            for gate in recurrence.chunk(recurrence.size(0) // recurrence.size(1)):
                nn.init.orthogonal_(gate)
        if isinstance(module, Additive):
            nn.init.normal_(module.query.weight, std=scale / 10)
            nn.init.normal_(module.key.weight, std=scale / 10)
    _shrink_embeddings(model)


def _shrink_embeddings(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.weight.data.div_(math.sqrt(module.embedding_dim))


INITS: dict[str, Callable[[nn.Module, float], None]] = {
    "parts": lambda model, scale: None,  # noqa: ARG005 (each part has begun as its `reset_parameters` says)
    "uniform": uniform,
    "normal": normal,
}
