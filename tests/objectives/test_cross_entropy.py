"""The fused loss against torch's, and what perplexity is taken from."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mt.data.batching import Batch, collate
from mt.objectives.cross_entropy import CHUNK, CrossEntropy, LanguageModelCrossEntropy, _FusedCrossEntropy, _Gradients
from tests.models.laws import BOS, CONFIGS, EOS, PAD, build, pairs, random_batch


def fixed(states: Tensor, weight: Tensor | None = None) -> Any:
    """A model whose decoder states are given: with the identity as the output layer they are the logits."""
    weight = torch.eye(states.size(-1)) if weight is None else weight
    return SimpleNamespace(hidden=lambda _: states, output=SimpleNamespace(weight=weight.clone().requires_grad_()))


def only_targets(targets: list[list[int]]) -> Batch:
    return collate([[5]] * len(targets), targets, PAD, BOS, EOS)


def by_torch(logits: Tensor, batch: Batch, smoothing: float) -> Tensor:
    return F.cross_entropy(
        logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=smoothing
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("rows", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 77])
def test_the_loss_is_torchs(rows: int, smoothing: float) -> None:
    """Value and both gradients, for less than a chunk, whole chunks and a rest."""
    torch.manual_seed(rows)
    hidden = torch.randn(rows, 6, requires_grad=True)
    weight = torch.randn(31, 6, requires_grad=True)
    targets = torch.randint(0, 31, (rows,))
    total, nll = _FusedCrossEntropy.apply(hidden, weight, targets, smoothing)  # type: ignore[no-untyped-call]
    logits = hidden @ weight.t()
    expected = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(total, expected, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(nll, F.cross_entropy(logits, targets, reduction="sum"), rtol=1e-5, atol=1e-4)
    found = torch.autograd.grad(3 * total, (hidden, weight))
    for ours, theirs in zip(found, torch.autograd.grad(3 * expected, (hidden, weight)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_there_is_no_second_derivative() -> None:
    """And nobody is given a wrong one."""
    hidden, weight = torch.randn(3, 6, requires_grad=True), torch.randn(31, 6, requires_grad=True)
    total, _ = _FusedCrossEntropy.apply(hidden, weight, torch.arange(3), 0.1)  # type: ignore[no-untyped-call]
    (grad,) = torch.autograd.grad(total.square(), hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        torch.autograd.backward(grad.sum())


def test_a_language_models_loss_has_the_source_in_it() -> None:
    """Each source token but the first, the end mark included, and each target token; no padding."""
    model, batch = build(CONFIGS["decoder_only"]), random_batch()
    loss = LanguageModelCrossEntropy(CrossEntropy(0.1))(model, batch)
    alone = CrossEntropy(0.1)(model, batch)
    source, target = (model.output(states) for states in model.hidden_of_both(batch))
    torch.testing.assert_close(target, model(batch))
    expected = F.cross_entropy(
        source[:, :-1].flatten(0, 1), batch.src[:, 1:].flatten(), ignore_index=PAD, reduction="sum", label_smoothing=0.1
    )
    torch.testing.assert_close(loss.total, alone.total + expected)
    assert (loss.nll, loss.tokens) == (alone.nll, alone.tokens)


@pytest.mark.parametrize(
    ("name", "smoothing"), [*((name, 0.1) for name in CONFIGS), ("transformer_base", 0.0), ("transformer_base", 0.3)]
)
def test_every_parameter_gets_torchs_gradient(name: str, smoothing: float) -> None:
    """Through the whole model, tied matrices included; padding adds nothing."""
    model, batch = build(CONFIGS[name]), random_batch()
    loss = CrossEntropy(smoothing)(model, batch)
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(loss.total, parameters)
    expected = by_torch(model(batch), batch, smoothing)
    torch.testing.assert_close(loss.total, expected, rtol=1e-5, atol=1e-4)
    for key, ours, theirs in zip(names, found, torch.autograd.grad(expected, parameters), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4, msg=key)


def test_perplexity_does_not_depend_on_smoothing() -> None:
    """Fault 48: 9.413253 for both; the exponential of the smoothed loss would be 9.895881."""
    model = fixed(torch.tensor([[[0.0, 2.0, -1.0, -0.5, -3.0]]]))
    batch = Batch(*(torch.tensor([[x]]) for x in (0, True, 0, 0, True)))
    for smoothing, total in ((0.0, 9.413253), (0.1, 9.895881)):
        loss = CrossEntropy(smoothing)(model, batch)
        assert float(loss.nll) == pytest.approx(2.2421186184, abs=1e-6)
        assert math.exp(float(loss.nll) / loss.tokens) == pytest.approx(9.413253, abs=1e-5)
        assert math.exp(float(loss.total.detach())) == pytest.approx(total, abs=1e-5)


def test_padding_is_not_counted() -> None:
    """Fault 51: targets of 1 and 9 tokens with the end mark make 10, not 18; predicting padding gains nothing."""
    batch = only_targets([[], [5, 6, 7, 8, 9, 10, 11, 12]])
    states = torch.zeros(2, 9, 13)
    states[..., PAD] = 50.0
    loss = CrossEntropy(0.0)(fixed(states), batch)
    assert loss.tokens == 10
    assert float(loss.nll) == pytest.approx(10 * 50.0)


def test_batches_of_any_size_add_up_to_the_same_mean() -> None:
    """Fault 50: 10 tokens at 1.0 nats and 2 tokens at 5.0 make 20 / 12, not the mean of means."""
    states = torch.full((2, 10, 2), 0.0)
    states[0, :, 1], states[1, :, 1] = math.log(math.e - 1), math.log(math.e**5 - 1)
    mask = torch.arange(10) < torch.tensor([[10], [2]])
    targets = torch.zeros(2, 10, dtype=torch.int64)
    batch = Batch(targets, mask, targets, targets, mask)
    loss = CrossEntropy(0.1)(fixed(states), batch)
    assert float(loss.nll) / loss.tokens == pytest.approx(20 / 12, abs=1e-6)
    assert math.exp(float(loss.nll) / loss.tokens) == pytest.approx(5.294490, abs=1e-5)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_micro_batches_add_up_to_the_batch(config: Any) -> None:
    """Sums, token counts and gradients, however the rows are split."""
    model = build(config)
    sources, targets = pairs([(5, 3), (2, 6), (7, 1), (1, 4)])
    objective = CrossEntropy(0.1)
    whole = objective(model, collate(sources, targets, PAD, BOS, EOS))
    expected = torch.autograd.grad(whole.total, list(model.parameters()))
    for cuts in ([0, 1, 2, 3, 4], [0, 3, 4]):
        parts = [
            objective(model, collate(sources[start:stop], targets[start:stop], PAD, BOS, EOS))
            for start, stop in pairwise(cuts)
        ]
        assert sum(part.tokens for part in parts) == whole.tokens
        torch.testing.assert_close(torch.stack([part.nll for part in parts]).sum(), whole.nll)
        total = torch.stack([part.total for part in parts]).sum()
        torch.testing.assert_close(total, whole.total)
        for found, one in zip(torch.autograd.grad(total, list(model.parameters())), expected, strict=True):
            torch.testing.assert_close(found, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_it_is_close_to_float32(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    weight = torch.randn(97, 16)
    states = torch.randn(4, 100, 16)
    batch = only_targets([[5 + i % 80 for i in range(99)]] * 4)
    losses, gradients = [], []
    for enabled in (False, True):
        model = fixed(states.clone().requires_grad_(), weight)
        with torch.autocast("cpu", dtype=dtype, enabled=enabled):
            loss = CrossEntropy(0.1)(model, batch)
        assert (loss.total.dtype, loss.nll.dtype) == (torch.float32, torch.float32)
        losses.append(torch.stack((loss.total.detach(), loss.nll)))
        gradients.append(torch.autograd.grad(loss.total, (model.hidden(batch), model.output.weight)))
    torch.testing.assert_close(losses[1], losses[0], rtol=2e-3, atol=0)
    for low, full in zip(gradients[1], gradients[0], strict=True):
        assert low.dtype == torch.float32
        assert float((low - full).norm() / full.norm()) < 0.02


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_rounding_to_bfloat16_makes_no_gradient_shorter(smoothing: float) -> None:
    """In bfloat16 0.9 is 0.17 % less, and before it has learned a model's gradient is that of its targets."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(500, 16, requires_grad=True), (0.01 * torch.randn(9000, 16)).requires_grad_()
    targets, gradients = torch.randint(0, 9000, (500,)), []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            total, _ = _FusedCrossEntropy.apply(hidden, weight, targets, smoothing)  # type: ignore[no-untyped-call]
        gradients.append(torch.autograd.grad(total, (hidden, weight)))
    for full, low in zip(*gradients, strict=True):
        assert float((full * low).sum() / full.square().sum()) == pytest.approx(1, abs=5e-4)


def test_a_float16_loss_scale_does_not_overflow() -> None:
    """Fault 65's kind: 2^16, where loss scales begin, is infinite in float16."""
    states = torch.randn(2, 3, 13, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = CrossEntropy(0.1)(fixed(states), only_targets([[5, 6], [7]]))
    (grad,) = torch.autograd.grad(loss.total * 2.0**16, states)
    assert grad.isfinite().all()
    assert grad.abs().max() > 1000


def test_sums_of_many_tokens_do_not_overflow_in_float16() -> None:
    """Fault 65: 100,000 tokens of ln 2 nats each are more than float16 holds."""
    ones = torch.ones(1, 100_000, dtype=torch.int64)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = CrossEntropy(0.1)(fixed(torch.zeros(1, 100_000, 2)), Batch(*(ones,) * 4, ones.bool()))
    assert float(loss.nll) == pytest.approx(100_000 * math.log(2), rel=1e-3)
    assert float(loss.total.detach()) == pytest.approx(100_000 * math.log(2), rel=1e-3)


def test_extreme_logits_stay_finite() -> None:
    states = torch.tensor([[[1e4, -1e4, 0.0, 0.0]]], requires_grad=True)
    batch = Batch(*(torch.tensor([[x]]) for x in (0, True, 0, 1, True)))
    loss = CrossEntropy(0.0)(fixed(states), batch)
    assert float(loss.nll) == 2e4
    (grad,) = torch.autograd.grad(loss.total, states)
    assert grad.tolist() == [[[1.0, -1.0, 0.0, 0.0]]]


def test_a_loss_that_is_not_a_number_shows() -> None:
    """Fault 58's start: nothing hides it."""
    loss = CrossEntropy(0.1)(
        fixed(torch.full((1, 2, 5), math.nan)), Batch(*(torch.ones(1, 2).long(),) * 4, torch.ones(1, 2).bool())
    )
    assert loss.total.isnan()
    assert loss.nll.isnan()


def test_no_targets_no_loss() -> None:
    batch = only_targets([[5]])
    nothing = Batch(batch.src, batch.src_mask, batch.tgt_in, batch.tgt_out, torch.zeros_like(batch.tgt_mask))
    model = fixed(torch.randn(1, 2, 7, requires_grad=True))
    loss = CrossEntropy(0.1)(model, nothing)
    assert (float(loss.total.detach()), float(loss.nll), loss.tokens) == (0.0, 0.0, 0)
    (grad,) = torch.autograd.grad(loss.total, model.hidden(nothing))
    assert not grad.any()


def test_without_gradients_none_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the output layer's weight would ask for one."""
    model, batch = fixed(torch.randn(1, 2, 7)), only_targets([[5]])
    expected = CrossEntropy(0.1)(model, batch)
    monkeypatch.delattr(_Gradients, "begun")
    with torch.no_grad():
        loss = CrossEntropy(0.1)(model, batch)
    assert torch.equal(loss.total, expected.total)
    with pytest.raises(AttributeError):
        CrossEntropy(0.1)(model, batch)


def test_an_output_layer_may_learn_alone() -> None:
    model, batch = fixed(torch.randn(1, 2, 7)), only_targets([[5]])
    expected = by_torch(model.hidden(batch) @ model.output.weight.t(), batch, 0.1)
    found = CrossEntropy(0.1)(model, batch).total
    for ours, theirs in zip(*(torch.autograd.grad(x, model.output.weight) for x in (found, expected)), strict=True):
        torch.testing.assert_close(ours, theirs)
