"""Both stacks against `torch.nn.TransformerEncoder` and `torch.nn.TransformerDecoder` with copied weights."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from torch import Tensor, nn

from mt.models.config import DecoderConfig
from mt.models.encoded import Encoded
from mt.models.transformer import DecoderLayer, EncoderLayer, TransformerDecoder, TransformerEncoder
from mt.nn.feed_forward import FeedForward
from mt.nn.self_attention import SelfAttention
from tests.models.laws import small
from tests.nn.test_attention import copy_attention

DIM, FFN, HEADS, LAYERS = 12, 20, 3, 2
# torch's encoder warns where it takes its path for inference; a fault of its own that it announces.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
every_kind = pytest.mark.parametrize("kind", [(p, a) for p in ("post", "pre") for a in ("relu", "gelu")], ids="-".join)


def copy_feed_forward(theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer, ours: FeedForward) -> None:
    ours.inner.load_state_dict(theirs.linear1.state_dict())
    ours.outer.load_state_dict(theirs.linear2.state_dict())


def randomise(parameters: Iterable[Tensor]) -> None:
    """Torch repeats one layer, with gains of 1 and biases of 0: none of that may hide an exchange."""
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(0.3 * torch.randn_like(parameter))


def encoders(norm_position: str, activation: str) -> tuple[nn.TransformerEncoder, TransformerEncoder]:
    pre = norm_position == "pre"
    layer = nn.TransformerEncoderLayer(DIM, HEADS, FFN, 0.0, activation, batch_first=True, norm_first=pre)
    theirs = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(DIM) if pre else None, enable_nested_tensor=False)
    randomise(theirs.parameters())
    ours = TransformerEncoder(small(norm_position=norm_position, activation=activation))
    for their_layer, our_layer in zip(theirs.layers, ours.layers, strict=True):
        assert isinstance(their_layer, nn.TransformerEncoderLayer)
        assert isinstance(our_layer, EncoderLayer)
        copy_attention(their_layer.self_attn, our_layer.attention)
        copy_feed_forward(their_layer, our_layer.feed_forward)
        our_layer.attention_residual.norm.load_state_dict(their_layer.norm1.state_dict())
        our_layer.feed_forward_residual.norm.load_state_dict(their_layer.norm2.state_dict())
    if theirs.norm is not None:
        ours.norm.load_state_dict(theirs.norm.state_dict())
    return theirs, ours


def decoders(norm_position: str, activation: str) -> tuple[nn.TransformerDecoder, TransformerDecoder]:
    pre = norm_position == "pre"
    layer = nn.TransformerDecoderLayer(DIM, HEADS, FFN, 0.0, activation, batch_first=True, norm_first=pre)
    theirs = nn.TransformerDecoder(layer, LAYERS, nn.LayerNorm(DIM) if pre else None)
    randomise(theirs.parameters())
    two = DecoderConfig(layers=LAYERS)
    ours = TransformerDecoder(small(norm_position=norm_position, activation=activation, decoder=two))
    for their_layer, our_layer in zip(theirs.layers, ours.layers, strict=True):
        assert isinstance(their_layer, nn.TransformerDecoderLayer)
        assert isinstance(our_layer, DecoderLayer)
        assert isinstance(our_layer.self_attention, SelfAttention)
        copy_attention(their_layer.self_attn, our_layer.self_attention)
        copy_attention(their_layer.multihead_attn, our_layer.source_attention)
        copy_feed_forward(their_layer, our_layer.feed_forward)
        our_layer.self_residual.norm.load_state_dict(their_layer.norm1.state_dict())
        our_layer.source_residual.norm.load_state_dict(their_layer.norm2.state_dict())
        our_layer.feed_forward_residual.norm.load_state_dict(their_layer.norm3.state_dict())
    if theirs.norm is not None:
        ours.norm.load_state_dict(theirs.norm.state_dict())
    return theirs, ours


def sorted_gradients(output: Tensor, weights: Tensor, module: nn.Module) -> Tensor:
    """All gradients of parameters, as one sorted vector: the two sides cut and order their matrices differently."""
    gradients = torch.autograd.grad((output * weights).sum(), list(module.parameters()), retain_graph=True)
    return torch.cat([gradient.flatten() for gradient in gradients]).sort().values


@every_kind
def test_the_encoder_is_torchs(kind: tuple[str, str]) -> None:
    torch.manual_seed(0)
    theirs, ours = encoders(*kind)
    x, mask = torch.randn(3, 5, DIM, requires_grad=True), torch.arange(5) < torch.tensor([[5], [2], [4]])
    weights = torch.randn(3, 5, DIM) * mask.unsqueeze(2)
    expected, found = theirs(x, src_key_padding_mask=~mask), ours(x, mask).memory
    torch.testing.assert_close(found[mask], expected[mask], rtol=0, atol=1e-5)
    (their_grad,) = torch.autograd.grad((expected * weights).sum(), x, retain_graph=True)
    (our_grad,) = torch.autograd.grad((found * weights).sum(), x, retain_graph=True)
    torch.testing.assert_close(our_grad, their_grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        sorted_gradients(found, weights, ours), sorted_gradients(expected, weights, theirs), rtol=1e-3, atol=1e-3
    )


@every_kind
def test_the_decoder_is_torchs(kind: tuple[str, str]) -> None:
    torch.manual_seed(0)
    theirs, ours = decoders(*kind)
    x, memory = torch.randn(3, 4, DIM, requires_grad=True), torch.randn(3, 5, DIM, requires_grad=True)
    mask, causal = torch.arange(5) < torch.tensor([[5], [2], [4]]), torch.ones(4, 4, dtype=torch.bool).tril()
    weights = torch.randn(3, 4, DIM)
    expected = theirs(x, memory, tgt_mask=~causal, memory_key_padding_mask=~mask)
    found = ours(x, Encoded(memory, mask))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    their_grads = torch.autograd.grad((expected * weights).sum(), (x, memory), retain_graph=True)
    for our_grad, their_grad in zip(
        torch.autograd.grad((found * weights).sum(), (x, memory), retain_graph=True), their_grads, strict=True
    ):
        torch.testing.assert_close(our_grad, their_grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        sorted_gradients(found, weights, ours), sorted_gradients(expected, weights, theirs), rtol=1e-3, atol=1e-3
    )
