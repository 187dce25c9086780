"""An encoder, a decoder, embeddings and an output layer: the model that most recipes train."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from mt.data.batching import Batch
from mt.errors import ConfigError
from mt.models.config import ModelConfig
from mt.models.decomposable import DecomposableEncoder
from mt.models.embedding import token_table
from mt.models.language_model import LanguageModel, LanguageModelState, NoEncoder
from mt.models.recurrent_decoder import RecurrentDecoder, recurrent_decoder
from mt.models.recurrent_encoder import RecurrentEncoder
from mt.models.recurrent_state import RecurrentState
from mt.models.transformer import TransformerDecoder, TransformerEncoder, TransformerState
from mt.nn.initialisation import INITS

Encoder = TransformerEncoder | RecurrentEncoder | DecomposableEncoder | NoEncoder
Decoder = TransformerDecoder | RecurrentDecoder | LanguageModel
DecoderState = TransformerState | RecurrentState | LanguageModelState

# A new one is one file, one line here, and one in mt/models/keys.py.
ENCODERS: dict[str, Callable[[ModelConfig], Encoder]] = {
    "transformer": TransformerEncoder,
    "lstm": RecurrentEncoder,
    "gru": RecurrentEncoder,
    "intra_attention": RecurrentEncoder,
    "decomposable": DecomposableEncoder,
    "none": NoEncoder,
}
DECODERS: dict[str, Callable[[ModelConfig], Decoder]] = {
    "transformer": TransformerDecoder,
    "ssru": TransformerDecoder,
    "lstm": recurrent_decoder,
    "gru": recurrent_decoder,
    "intra_attention": recurrent_decoder,
    "language_model": LanguageModel,
}


class EncoderDecoder(nn.Module):
    """p(target | source): the `Seq2Seq` of mt/seq2seq.py."""

    def __init__(self, config: ModelConfig, src_tokens: nn.Embedding, tgt_tokens: nn.Embedding) -> None:
        super().__init__()
        self.config = config
        encoder, decoder = ENCODERS[config.encoder.type](config), DECODERS[config.decoder.type](config)
        self.src_embedding = encoder.embedding(config, src_tokens)
        self.tgt_embedding = decoder.embedding(config, tgt_tokens)
        self.encoder = encoder
        self.decoder = decoder
        self.output = nn.Linear(config.dim, tgt_tokens.num_embeddings, bias=False)
        if config.tie in ("output", "all"):
            self.output.weight = tgt_tokens.weight
        else:
            nn.init.normal_(self.output.weight, std=config.dim**-0.5)
        INITS[config.init](self, config.init_scale)
        for tokens in (src_tokens, tgt_tokens):
            nn.init.zeros_(tokens.weight[tokens.padding_idx])

    @classmethod
    def build(cls, config: ModelConfig, src_vocab: int, tgt_vocab: int, pad: int) -> EncoderDecoder:
        """Build and initialise.

        Raises:
            ConfigError: the embeddings are tied, but the vocabularies' sizes differ.
        """
        shared = config.tie in ("src_tgt", "all")
        if shared and src_vocab != tgt_vocab:
            raise ConfigError(
                f"model.tie {config.tie} makes the embeddings of source and target one, but the source vocabulary has "
                f"{src_vocab} entries and the target vocabulary {tgt_vocab}: train one shared vocabulary, or set "
                "model.tie to output or none."
            )
        src_tokens = token_table(config, src_vocab, pad)
        return cls(config, src_tokens, src_tokens if shared else token_table(config, tgt_vocab, pad))

    def forward(self, batch: Batch) -> Tensor:
        """Logits (B, T, V) of each next target token."""
        out: Tensor = self.output(self.hidden(batch))
        return out

    def hidden(self, batch: Batch) -> Tensor:
        """Decoder states (B, T, D) before the output layer."""
        encoded = self.encoder(self.src_embedding(batch.src), batch.src_mask)
        out: Tensor = self.decoder(self.tgt_embedding(batch.tgt_in), encoded)
        return out

    def hidden_of_both(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Of a language model the states before the output layer of source (B, S, D) and target (B, T, D)."""
        assert isinstance(self.decoder, LanguageModel)
        encoded = self.encoder(self.src_embedding(batch.src), batch.src_mask)
        states = self.decoder.both(self.tgt_embedding(batch.tgt_in), encoded)
        return states[:, : batch.src.size(1)], states[:, batch.src.size(1) :]

    def start(self, src: Tensor, src_mask: Tensor, attention: bool = False) -> DecoderState:
        """Encode `src` (B, S) with `src_mask` (B, S): the state before the first target token.

        With `attention` each state says where its step looked.
        """
        return self.decoder.start(self.encoder(self.src_embedding(src), src_mask), attention)

    def step(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Log-probabilities (N, V) float32 after reading `tokens` (N,), and the state after them."""
        hidden, state = self.read(tokens, state)
        return self.output(hidden).float().log_softmax(-1), state

    def read(self, tokens: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Decoder states (N, D) before the output layer after reading `tokens` (N,), and the state after them."""
        x = self.tgt_embedding(tokens.unsqueeze(1), offset=state.position)
        step: Callable[..., tuple[Tensor, DecoderState]] = self.decoder.step  # the state is of its own kind
        hidden, state = step(x, state)
        return hidden.squeeze(1), state
