"""A step's gates against torch's cells, values and derivatives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mt.nn.recurrent import CELLS

N, D = 3, 4
every_cell = pytest.mark.parametrize("kind", CELLS)


def operands(kind: str, dtype: torch.dtype) -> list[Tensor]:
    """Both products of a step, and the parts of the state."""
    torch.manual_seed(0)
    width = len(CELLS[kind].keep) * D
    shapes = [(N, width)] * 2 + [(N, D)] * CELLS[kind].parts
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


@every_cell
def test_gates_are_those_of_torchs_cell(kind: str) -> None:
    """Its products are given: the weight of the input is 1, and that of the state, whose product would differ, is 0."""
    inputs, recurrent, *state = operands(kind, torch.float64)
    width = inputs.size(1)
    inputs, recurrent = inputs.detach(), recurrent.detach()[:1].expand(N, -1)
    weights = (torch.eye(width), torch.zeros(width, D), torch.zeros(width), recurrent[0])
    hidden = tuple(state) if len(state) == 2 else state[0]
    expected = CELLS[kind].step(inputs, hidden, *(weight.double() for weight in weights))
    found = CELLS[kind].gates(inputs, recurrent, tuple(state))
    torch.testing.assert_close(found, expected if isinstance(expected, tuple) else (expected,))


@every_cell
def test_the_derivatives_are_those_of_the_formula(kind: str) -> None:
    given = operands(kind, torch.float64)
    assert torch.autograd.gradcheck(
        lambda inputs, recurrent, *state: CELLS[kind].gates(inputs, recurrent, state), given
    )


@every_cell
def test_products_of_half_the_width_make_a_state_of_float32(kind: str) -> None:
    inputs, recurrent, *state = operands(kind, torch.float32)
    low = [inputs.detach().bfloat16().requires_grad_(), recurrent.detach().bfloat16().requires_grad_()]
    found = CELLS[kind].gates(low[0], low[1], tuple(state))
    exact = CELLS[kind].gates(low[0].float(), low[1].float(), tuple(state))
    assert [part.dtype for part in found] == [torch.float32] * len(state)
    torch.testing.assert_close(found, exact, rtol=0, atol=0)
    gradients = torch.autograd.grad(torch.cat(found).sum(), low)
    assert [gradient.dtype for gradient in gradients] == [torch.bfloat16] * 2
