"""Linear layers against torch's, whatever the kernel and the number of rows."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt.nn import products
from mt.nn.linear import Linear, into_heads, linear, of_heads, products_by, rows_of, shaped

# Few rows, whole blocks of rows, and some over them.
every_shape = pytest.mark.parametrize("shape", [(3,), (1, 1), (16, 20), (5, 7), (33, 10), (7, 9, 11)])


@pytest.fixture(params=[False, True], ids=["torch", "onednn"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to multiply float32."""
    if request.param and not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(products, "_shuns_mkl", lambda: request.param)


def tensors(shape: tuple[int, ...], bias: bool, dtype: torch.dtype = torch.float32) -> list[Tensor | None]:
    torch.manual_seed(0)
    x, weight = torch.randn(*shape, 12, dtype=dtype), torch.randn(10, 12, dtype=dtype)
    return [x.requires_grad_(), weight.requires_grad_(), torch.randn(10, requires_grad=True) if bias else None]


def gradients(out: Tensor, given: list[Tensor | None]) -> tuple[Tensor, ...]:
    weights = torch.linspace(-1, 1, out.numel()).view(out.shape)
    return torch.autograd.grad((out.float() * weights).sum(), [tensor for tensor in given if tensor is not None])


@every_shape
@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("bias", [True, False])
def test_value_and_gradients_are_torchs(shape: tuple[int, ...], bias: bool) -> None:
    given = tensors(shape, bias)
    out, expected = linear(*given), F.linear(*given)  # type: ignore[arg-type]
    torch.testing.assert_close(out, expected)
    for ours, theirs in zip(gradients(out, given), gradients(expected, given), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@every_shape
def test_under_autocast_products_are_bfloat16_and_gradients_float32(shape: tuple[int, ...]) -> None:
    given = tensors(shape, bias=True)
    with torch.autocast("cpu", torch.bfloat16):
        out, expected = linear(*given), F.linear(*given)  # type: ignore[arg-type]
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out, expected)
    for ours, theirs in zip(gradients(out, given), gradients(expected, given), strict=True):
        assert ours.dtype == torch.float32
        assert float((ours - theirs).norm() / theirs.norm()) < 0.02


@every_shape
@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("low", [True, False])
def test_layers_in_a_row_on_rows_laid_out_once(shape: tuple[int, ...], low: bool) -> None:
    torch.manual_seed(0)
    first, second = Linear(12, 30), Linear(30, 5)
    x = torch.randn(*shape, 12, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        together = shaped(second(first(rows_of(x)).relu()), x)
        apart = second(first(x).relu())
    torch.testing.assert_close(together, apart)
    given: list[Tensor | None] = [x, *first.parameters(), *second.parameters()]
    for ours, theirs in zip(gradients(together, given), gradients(apart, given), strict=True):
        assert float((ours - theirs).norm() / theirs.norm()) < (0.02 if low else 1e-5)


@pytest.mark.parametrize("low", [True, False])
@pytest.mark.parametrize("length", [1, 20, 300])
@pytest.mark.usefixtures("kernel")
def test_heads_are_columns(length: int, low: bool) -> None:
    """Those that a layer writes, of several kinds, and that another reads."""
    torch.manual_seed(0)
    first, second = Linear(12, 10), Linear(6, 5)
    x = torch.randn(2, length, 12, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        query, key = into_heads(x, first.weight, first.bias, 3, 2)
        found = torch.cat((of_heads(query, second.weight, second.bias), key.mean(1)), 2)
        columns = first(x)
        heads = columns[..., 6:].view(2, length, 2, 2)
        expected = torch.cat((second(columns[..., :6]), heads.mean(2)), 2)
    assert (query.shape, key.shape) == ((2, 3, length, 2), (2, 2, length, 2))
    torch.testing.assert_close(found, expected)
    given: list[Tensor | None] = [x, *first.parameters(), *second.parameters()]
    for ours, theirs in zip(gradients(found, given), gradients(expected, given), strict=True):
        assert float((ours - theirs).norm() / theirs.norm()) < (0.02 if low else 1e-5)


@pytest.mark.parametrize("low", [True, False])
def test_no_rows(low: bool) -> None:
    given = tensors((0, 4), bias=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        out = linear(*given)  # type: ignore[arg-type]
    assert out.shape == (0, 4, 10)
    assert not gradients(out, given)[1].any()


@pytest.mark.parametrize("low", [True, False])
def test_no_rows_of_heads(low: bool) -> None:
    x, weight = torch.zeros(0, 4, 12, requires_grad=True), torch.zeros(10, 12, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        query, key = into_heads(x, weight, None, 3, 2)
        out = of_heads(query, weight[:, :6], None)
        same = shaped(rows_of(x), x)
    assert (query.shape, key.shape) == ((0, 3, 4, 2), (0, 2, 4, 2))
    assert (out.shape, same.shape) == ((0, 4, 10), (0, 4, 12))
    assert not torch.autograd.grad(out.sum() + same.sum(), weight)[0].any()


def test_it_has_the_names_of_torchs() -> None:
    assert Linear(3, 2).state_dict().keys() == nn.Linear(3, 2).state_dict().keys()


def test_what_needs_no_gradient_gets_none() -> None:
    given = tensors((300,), bias=True)
    assert given[0] is not None
    (grad,) = torch.autograd.grad(linear(given[0].detach(), *given[1:]).sum(), given[1:2])  # type: ignore[arg-type]
    assert grad.shape == (10, 12)
    frozen = [given[0], given[1].detach() if given[1] is not None else None, None]
    (grad,) = torch.autograd.grad(linear(*frozen).sum(), given[:1])  # type: ignore[arg-type]
    assert grad.shape == (300, 12)


def test_there_is_no_second_derivative() -> None:
    """And nobody is given a wrong one."""
    given = tensors((300,), bias=False)
    grad, _ = torch.autograd.grad(linear(*given).square().sum(), given[:2], create_graph=True)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="twice"):
        torch.autograd.backward(grad.sum())


def test_other_devices_have_their_own_kernels() -> None:
    """The meta device stands for all that are not a CPU."""
    x = torch.ones(3, 12, device="meta")
    assert shaped(Linear(12, 10, device="meta")(rows_of(x)), x).shape == (3, 10)


def test_in_float64_gradients_are_of_float64() -> None:
    torch.manual_seed(0)
    layer = Linear(3, 4).double()
    assert torch.autograd.gradcheck(layer, torch.randn(5, 3, dtype=torch.float64, requires_grad=True))
    assert torch.autograd.gradcheck(
        lambda weight, bias: linear(torch.ones(300, 3, dtype=torch.float64), weight, bias), tuple(layer.parameters())
    )


def test_parameters_and_only_they_may_be_multiplied_otherwise() -> None:
    """Until the block ends, by an error too."""

    def negated(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return -F.linear(x, weight, bias)

    layer, unit, x = Linear(12, 8), nn.Parameter(torch.eye(8)), torch.randn(2, 3, 12)
    expected = layer(x)
    with suppress(ZeroDivisionError), products_by(negated):
        torch.testing.assert_close(layer(x), -expected)
        (heads,) = into_heads(x, layer.weight, layer.bias, 2)
        torch.testing.assert_close(of_heads(heads, unit, None), expected)
        torch.testing.assert_close(linear(x, layer.weight.detach(), layer.bias), expected)
        raise ZeroDivisionError
    torch.testing.assert_close(layer(x), expected)
