"""Packed layers compute what they were made of, as exactly as they say."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mt.errors import ConfigError
from mt.nn import packed
from mt.nn.packed import PACKINGS, PackedFloat, PackedProducts

ERRORS = {"fp32": 1e-5, "bf16": 0.05, "int8": 0.05}


@pytest.mark.parametrize("name", PACKINGS)
@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_it_is_the_linear_layer(name: str, rows: int, relu: bool, with_bias: bool) -> None:
    torch.manual_seed(1)
    x, weight = torch.randn(rows, 16), torch.randn(24, 16) / 4
    bias = torch.randn(24) if with_bias else None
    expected = F.linear(x, weight, bias)
    found = PACKINGS[name](weight, bias)(x, relu).float()
    torch.testing.assert_close(found, expected.relu() if relu else expected, rtol=0.0, atol=ERRORS[name])


def test_it_is_the_same_without_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = torch.randn(40, 16), torch.randn(24, 16)
    monkeypatch.setattr(packed, "_for_onednn", lambda _: None)
    torch.testing.assert_close(PackedFloat(weight, None)(x), F.linear(x, weight))


def test_bf16_is_to_be_had_on_a_processor_without_kernels_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """OneDNN refuses even to lay such weights out there, as on most desktops."""

    def refuse(_: Tensor) -> Tensor:
        raise RuntimeError

    x, weight, bias = torch.randn(40, 16), torch.randn(24, 16) / 4, torch.randn(24)
    with monkeypatch.context() as patch:
        patch.setattr(packed, "has_bf16_kernels", lambda: False)
        patch.setattr(packed, "_for_onednn", refuse)
        found = PACKINGS["bf16"](weight, bias)(x, relu=True)
    torch.testing.assert_close(found.float(), F.linear(x, weight, bias).relu(), rtol=0.0, atol=ERRORS["bf16"])


def test_int8_says_where_it_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(torch.backends.quantized), "supported_engines", [])
    with pytest.raises(ConfigError) as error:
        PACKINGS["int8"](torch.randn(4, 4), None)
    assert str(error.value) == (
        "decode.precision int8: this PyTorch has no kernels for it; leave it at fp32, or set bf16."
    )


def test_rows_are_rounded_to_few_numbers_where_kernels_are_for_one() -> None:
    rounded = PACKINGS["fp32"].rounded
    assert [rounded(count, 128) for count in (1, 5, 7, 17, 33, 320, 321, 929)] == [1, 5, 7, 18, 36, 320, 352, 960]
    assert len({rounded(count, 128) for count in range(256, 512)}) <= 9
    assert len({rounded(count, 128) for count in range(512, 1024)}) <= 17
    assert len({rounded(count, 512) for count in range(256, 512)}) <= 17
    assert all(count <= rounded(count, 128) <= 1.125 * count for count in range(8, 5000))
    assert PACKINGS["bf16"].rounded(321, 128) == 352
    assert PACKINGS["int8"].rounded(321, 128) == 321


@pytest.mark.parametrize("name", PACKINGS)
def test_of_no_rows_there_is_nothing(name: str) -> None:
    weight = torch.ones(6, 4)
    with torch.no_grad():
        assert PackedProducts(PACKINGS[name])(torch.ones(0, 3, 4), weight, None).shape == (0, 3, 6)
