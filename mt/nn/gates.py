"""What the gates of LSTM and GRU do with a step's two products, by formulas and derivatives of our own.

A CPU has no fused kernel for them; autograd would make three times as many passes over memory. All is in float32 at
least, whatever the products are in.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from mt.nn.tanh import tanh_


def lstm_gates(inputs: Tensor, recurrent: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """From W x + b and U h + b', both (N, 4D), gates in torch's order i f g o, and h and c: the new h and c (N, D).

    c' = sigmoid(f) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(c') (Gers et al. 2000).
    """
    found: tuple[Tensor, ...] = _LSTMGates.apply(inputs, recurrent, state[1])  # type: ignore[no-untyped-call]
    return found


def gru_gates(inputs: Tensor, recurrent: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """From W x + b and U h + b', both (N, 3D), gates in torch's order r z n, and h: the new h (N, D).

    h' = (1 - sigmoid(z)) tanh(W_n x + sigmoid(r) U_n h) + sigmoid(z) h (Cho et al. 2014, as cuDNN has it).
    """
    return (_GRUGates.apply(inputs, recurrent, state[0]),)  # type: ignore[no-untyped-call]


class _LSTMGates(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, recurrent: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        gates = _sum(inputs, recurrent)
        i, f, g, o = gates.chunk(4, 1)
        for gate in (gates[:, : 2 * cell.size(1)], o):
            gate.sigmoid_()
        tanh_(g)
        cell = cell.to(gates.dtype)
        after = torch.addcmul(i * g, f, cell)
        shown = tanh_(after.clone())
        ctx.save_for_backward(gates, cell, shown)
        ctx.dtype = inputs.dtype
        return o * shown, after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hidden: Tensor, grad_after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, cell, shown = ctx.saved_tensors
        i, f, g, o = gates.chunk(4, 1)
        grad = gates * (1 - gates)
        grad_i, grad_f, grad_g, grad_o = grad.chunk(4, 1)
        total = torch.addcmul(grad_after, grad_hidden * o, 1 - shown * shown)
        grad_i.mul_(total * g)
        grad_f.mul_(total * cell)
        torch.mul(total * i, 1 - g * g, out=grad_g)
        grad_o.mul_(grad_hidden * shown)
        low = grad.to(ctx.dtype)
        return low, low, total * f


class _GRUGates(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
        dim = hidden.size(1)
        gates = _sum(inputs[:, : 2 * dim], recurrent[:, : 2 * dim]).sigmoid_()
        reset, update = gates.chunk(2, 1)
        past, hidden = recurrent[:, 2 * dim :].to(gates.dtype), hidden.to(gates.dtype)
        new = tanh_(torch.addcmul(inputs[:, 2 * dim :].to(gates.dtype), reset, past))
        ctx.save_for_backward(gates, past, new, hidden)
        ctx.dtype = inputs.dtype
        return torch.lerp(new, hidden, update)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, past, new, hidden = ctx.saved_tensors
        reset, update = gates.chunk(2, 1)
        kept = grad * update
        grad_new = (grad - kept).mul_(1 - new * new)
        grad_reset, grad_update = (gates * (1 - gates)).chunk(2, 1)
        grad_reset.mul_(grad_new * past)
        grad_update.mul_(grad * (hidden - new))
        of_gates = torch.cat((grad_reset, grad_update), 1)
        of_inputs = torch.cat((of_gates, grad_new), 1).to(ctx.dtype)
        of_recurrent = torch.cat((of_gates, grad_new * reset), 1).to(ctx.dtype)
        return of_inputs, of_recurrent, kept


def _sum(one: Tensor, other: Tensor) -> Tensor:
    return one.to(torch.promote_types(one.dtype, torch.float32)) + other
