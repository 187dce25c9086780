"""Recurrent decoders, by what each step gets of the source: `decoder.context`."""

from __future__ import annotations

from torch import Tensor, nn

from mt.models.attention_decoder import BottomAttentionDecoder, TopAttentionDecoder, recurrent_stack
from mt.models.config import ModelConfig
from mt.models.embedding import Embedding
from mt.models.encoded import Encoded
from mt.models.recurrent_state import Bridge, Maxout, RecurrentState
from mt.nn.linear import Linear


class StateDecoder(nn.Module):
    """No attention. All of the source is in the state with which it begins (`none`: Sutskever et al. 2014).

    With `summary` its summary is also an input of each step and of the output (Cho et al. 2014, appendix A.1.2).
    """

    embedding = Embedding

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.fed = config.decoder.context == "summary"
        self.stack = recurrent_stack(config, input_dim=config.dim, context_dim=config.dim if self.fed else 0)
        self.bridge = Bridge(config, self.stack.parts)
        self.summary = Linear(config.dim, config.dim) if self.fed else None
        if self.summary is not None:
            nn.init.xavier_uniform_(self.summary.weight)
            nn.init.zeros_(self.summary.bias)
        self.maxout = Maxout(config.dim, 3 if self.fed else 2) if config.decoder.maxout else None

    def forward(self, x: Tensor, encoded: Encoded) -> Tensor:
        """Embedded target `x` (B, T, D) -> decoder states (B, T, D), over time at once."""
        state = self.start(encoded)
        context = None if state.carried is None else state.carried.unsqueeze(1).expand_as(x)
        out, _ = self.stack(x, state.layers, context)
        return self._read_out(out, x, context)

    def start(self, encoded: Encoded, attention: bool = False) -> RecurrentState:  # noqa: ARG002
        """The state before the first target token; it never has attention."""
        carried = None if self.summary is None else self.summary(encoded.summary).tanh()
        return RecurrentState(0, self.stack.begin(self.bridge(encoded)), carried)

    def step(self, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """An embedded token each, `x` (N, 1, D) -> decoder states (N, 1, D), and the state after it."""
        out, layers = self.stack.step(x.squeeze(1), state.layers, state.carried)
        out = self._read_out(out, x.squeeze(1), state.carried)
        return out.unsqueeze(1), state.after(layers, carried=state.carried)

    def _read_out(self, out: Tensor, x: Tensor, context: Tensor | None) -> Tensor:
        if self.maxout is None:
            return out
        inputs = (out, x) if context is None else (out, x, context)
        read: Tensor = self.maxout(*inputs)
        return read


RecurrentDecoder = StateDecoder | BottomAttentionDecoder | TopAttentionDecoder

CONTEXTS: dict[str, type[RecurrentDecoder]] = {
    "none": StateDecoder,
    "summary": StateDecoder,
    "bottom": BottomAttentionDecoder,
    "top": TopAttentionDecoder,
}


def recurrent_decoder(config: ModelConfig) -> RecurrentDecoder:
    """The decoder whose steps get of the source what `decoder.context` says."""
    return CONTEXTS[config.decoder.context](config)
