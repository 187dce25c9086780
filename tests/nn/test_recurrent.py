"""Recurrent layers against torch's own with copied weights, and padding that changes nothing (fault 71)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mt.nn.intra_attention import IntraAttentionLayer
from mt.nn.recurrent import CELLS, BidirectionalLayer, LayerState, Recurrence, RecurrentLayer, last_real, reverse
from mt.nn.recurrent_stack import RECURRENCES, RecurrentStack

B, T, WIDTH, D = 3, 7, 5, 6
LENGTHS = [7, 2, 4]
MASK = torch.arange(T) < torch.tensor(LENGTHS)[:, None]
every_cell = pytest.mark.parametrize("kind", CELLS)
every_kind = pytest.mark.parametrize("kind", RECURRENCES)


def begin(layer: Recurrence, rows: int = B) -> LayerState:
    return layer.begin(tuple(torch.randn(rows, D) for _ in range(layer.parts)))


def theirs(module: Any, x: Tensor, state: LayerState) -> tuple[Tensor, list[Tensor]]:
    """What torch's module gives, with the first dimension of its states taken off."""
    hidden = tuple(part.unsqueeze(0).contiguous() for part in state)
    out, final = module(x, hidden if len(hidden) == 2 else hidden[0])
    return out, [part.squeeze(0) for part in (final if isinstance(final, tuple) else (final,))]


@every_cell
def test_a_layer_is_torchs_forward_and_gradients(kind: str) -> None:
    torch.manual_seed(0)
    layer, x = RecurrentLayer(kind, WIDTH, D), torch.randn(B, T, WIDTH, requires_grad=True)
    state = begin(layer)
    module = CELLS[kind].module(WIDTH, D, batch_first=True)
    module.load_state_dict(layer.rnn.state_dict())
    expected, expected_final = theirs(module, x, state)
    found, final = layer(x, state)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(list(final), expected_final)
    weights = torch.randn_like(expected)
    their_gradients = torch.autograd.grad((expected * weights).sum(), (x, *module.parameters()))
    our_gradients = torch.autograd.grad((found * weights).sum(), (x, *layer.parameters()))
    torch.testing.assert_close(our_gradients, their_gradients)


@every_cell
def test_two_layers_are_torchs_stack(kind: str) -> None:
    torch.manual_seed(0)
    module = CELLS[kind].module(WIDTH, D, num_layers=2, batch_first=True)
    stack = RecurrentStack([RECURRENCES[kind](WIDTH, D), RECURRENCES[kind](D, D)], dropout=0.0)
    weights = dict(module.named_parameters())
    for index, layer in enumerate(stack.layers):
        assert isinstance(layer, RecurrentLayer)
        for name, parameter in layer.rnn.named_parameters():
            parameter.data.copy_(weights[name.replace("l0", f"l{index}")])
    x = torch.randn(B, T, WIDTH)
    found, _ = stack(x, stack.begin([(torch.zeros(B, D),) * CELLS[kind].parts] * 2))
    torch.testing.assert_close(found, module(x)[0])


@every_cell
def test_both_directions_are_torchs_on_packed_rows(kind: str) -> None:
    """Fault 71: torch's way to hide padding, in any order of lengths."""
    torch.manual_seed(0)
    module = CELLS[kind].module(WIDTH, D // 2, batch_first=True, bidirectional=True)
    layer = BidirectionalLayer(kind, WIDTH, D)
    for name, parameter in module.named_parameters():
        side = layer.back if name.endswith("_reverse") else layer.ahead
        getattr(side.rnn, name.removesuffix("_reverse")).data.copy_(parameter)
    x = torch.randn(B, T, WIDTH)
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
    packed_out, packed_final = module(packed)
    expected, _ = nn.utils.rnn.pad_packed_sequence(packed_out, batch_first=True)
    found, final = layer(x, (torch.zeros(B, D),) * layer.parts, MASK)
    torch.testing.assert_close(found[MASK], expected[MASK])
    for ours, parts in zip(final, packed_final if layer.parts == 2 else (packed_final,), strict=True):
        torch.testing.assert_close(ours, torch.cat((parts[0], parts[1]), 1))


@every_kind
def test_padding_and_its_content_change_nothing(kind: str) -> None:
    """Fault 71: outputs and last states of each row are those of the row alone."""
    torch.manual_seed(0)
    layer, x = RECURRENCES[kind](WIDTH, D), torch.randn(B, T, WIDTH)
    state = tuple(torch.randn(B, D) for _ in range(layer.parts))
    found, final = layer(x.masked_fill(~MASK.unsqueeze(2), 1e4), layer.begin(state), MASK)
    for row, length in enumerate(LENGTHS):
        alone, alone_final = layer(x[row : row + 1, :length], layer.begin(tuple(part[row : row + 1] for part in state)))
        torch.testing.assert_close(found[row : row + 1, :length], alone, rtol=0, atol=1e-6)
        for ours, expected in zip(final, alone_final, strict=False):
            torch.testing.assert_close(ours[row : row + 1], expected, rtol=0, atol=1e-6)


@every_kind
def test_step_by_step_is_over_time_at_once(kind: str) -> None:
    torch.manual_seed(0)
    layer, x = RECURRENCES[kind](WIDTH, D), torch.randn(B, T, WIDTH)
    state = begin(layer)
    expected, final = layer(x, state)
    for position in range(T):
        found, state = layer.step(x[:, position], state)
        torch.testing.assert_close(found, expected[:, position])
    torch.testing.assert_close(state[: layer.parts], final[: layer.parts])


@torch.no_grad()
def test_intra_attention_is_its_formula() -> None:
    """Cheng et al. 2016, equations 4 to 9, number by number in float64; the LSTM of the end is torch's."""
    torch.manual_seed(0)
    layer, x = IntraAttentionLayer(WIDTH, D).double(), torch.randn(1, 4, WIDTH, dtype=torch.float64)
    hiddens, cells = [torch.randn(D, dtype=torch.float64)], [torch.randn(D, dtype=torch.float64)]
    found, _ = layer(x, layer.begin((hiddens[0][None], cells[0][None])))
    past, mean = layer.self_attention, hiddens[0]
    for position in range(4):
        fixed = past.input.weight @ x[0, position] + past.mean.weight @ mean
        scores = [float(past.score @ (past.key.weight @ hidden + fixed).tanh()) for hidden in hiddens]
        masses = torch.tensor(scores, dtype=torch.float64).exp()
        shares = (masses / masses.sum()).tolist()
        mean = torch.stack([share * hidden for share, hidden in zip(shares, hiddens, strict=True)]).sum(0)
        cell = torch.stack([share * old for share, old in zip(shares, cells, strict=True)]).sum(0)
        hidden, cell = torch.lstm_cell(x[0, position][None], (mean[None], cell[None]), *layer.lstm.rnn.parameters())
        hiddens.append(hidden[0])
        cells.append(cell[0])
        torch.testing.assert_close(found[0, position], hidden[0])


def test_residual_layers_add_what_they_read() -> None:
    """Wu et al. 2016, equation 6, from the layer that is named on."""
    torch.manual_seed(0)
    layers = [RECURRENCES["lstm"](D, D) for _ in range(3)]
    x, zeros = torch.randn(B, T, D), (torch.zeros(B, D), torch.zeros(B, D))
    found, _ = RecurrentStack(layers, 0.0, residual_from=1)(x, [zeros] * 3)
    expected = layers[0](x, zeros)[0]
    for layer in layers[1:]:
        expected = expected + layer(expected, zeros)[0]
    torch.testing.assert_close(found, expected)


def test_dropout_falls_on_the_output_of_each_layer() -> None:
    torch.manual_seed(0)
    stack = RecurrentStack([RECURRENCES["gru"](D, D)], dropout=0.5)
    x = torch.randn(50, 20, D)
    out, _ = stack(x, stack.nothing(x))
    assert float((out == 0).double().mean()) == pytest.approx(0.5, abs=0.05)
    assert not (stack.eval()(x, stack.nothing(x))[0] == 0).any()


def test_rows_are_turned_around_before_their_padding() -> None:
    x = torch.arange(1, 11).view(2, 5, 1)
    mask = torch.arange(5) < torch.tensor([[3], [5]])
    assert reverse(x, mask).squeeze(2).tolist() == [[3, 2, 1, 4, 5], [10, 9, 8, 7, 6]]
    assert reverse(x, mask, keep_last=True).squeeze(2).tolist() == [[2, 1, 3, 4, 5], [9, 8, 7, 6, 10]]
    assert torch.equal(reverse(reverse(x, mask), mask), x)
    assert last_real(x, mask).squeeze(1).tolist() == [3, 10]
    nothing = torch.zeros(2, 5, dtype=torch.bool)
    assert torch.equal(reverse(x, nothing, keep_last=True), x)


@every_cell
def test_weights_begin_as_documented(kind: str) -> None:
    """Each gate by itself: Glorot inputs, orthogonal recurrences, biases 0 but an LSTM's forget gate's."""
    torch.manual_seed(0)
    layer = RecurrentLayer(kind, 64, 64)
    inputs, recurrence, bias, other = (weight.detach() for weight in layer.weights)
    for gate in recurrence.split(64):  # type: ignore[no-untyped-call]
        torch.testing.assert_close(gate @ gate.T, torch.eye(64), rtol=0, atol=1e-5)
    assert float(inputs.var()) * 64 == pytest.approx(1, abs=0.05)
    assert not other.any()
    assert bias.sum() == (64 if kind == "lstm" else 0)
    assert kind != "lstm" or bool((bias[64:128] == 1).all())
