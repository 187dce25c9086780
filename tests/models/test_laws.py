"""Laws of every model: see `laws.CONFIGS`."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mt.data.batching import Batch, collate
from mt.models.config import ModelConfig
from mt.models.keys import attends, keys_read
from mt.nn.products import padded
from mt.objectives.cross_entropy import CrossEntropy
from tests.models.laws import (
    BOS,
    CONFIGS,
    EOS,
    PAD,
    VOCAB,
    build,
    changed,
    layered,
    log_probs,
    pairs,
    random_batch,
    small,
)

every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
close = partial(torch.testing.assert_close, rtol=0.0, atol=1e-5)


@every_config
def test_step_by_step_is_the_full_forward(config: ModelConfig) -> None:
    model, batch = build(config).eval(), random_batch()
    expected, state = log_probs(model, batch), model.start(batch.src, batch.src_mask)
    for position in range(batch.tgt_in.size(1)):
        found, state = model.step(batch.tgt_in[:, position], state)
        assert found.dtype == torch.float32
        close(found, expected[:, position])


@every_config
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_step_by_step_is_the_full_forward_after_any_select(config: ModelConfig, data: st.DataObject) -> None:
    """Fault 80. Rows are repeated, dropped and reordered, inside sentences and across them, before any step."""
    model = build(config).eval()
    sources, _ = pairs([(5, 0), (2, 0), (7, 0)])
    histories: list[tuple[int, list[int]]] = [(sentence, [BOS]) for sentence in range(3)]
    batch = _read(sources, histories)
    state = model.start(batch.src, batch.src_mask)
    for _ in range(3):
        rows = data.draw(st.lists(st.integers(0, len(histories) - 1), min_size=1, max_size=6))
        state = state.select(torch.tensor(rows))
        histories = [histories[row] for row in rows]
        found, state = model.step(torch.tensor([tokens[-1] for _, tokens in histories]), state)
        close(found, log_probs(model, _read(sources, histories))[:, -1])
        histories = [(sentence, [*tokens, 4 + row]) for row, (sentence, tokens) in enumerate(histories)]


def _read(sources: list[list[int]], histories: list[tuple[int, list[int]]]) -> Batch:
    """A batch whose decoder input is each history, which begins with bos."""
    return collate([sources[sentence] for sentence, _ in histories], [h[1:] for _, h in histories], PAD, BOS, EOS)


@every_config
def test_beams_that_grow_shrink_and_lose_sentences(config: ModelConfig) -> None:
    """What beam search asks for: expand, reorder within sentences, drop a sentence, shrink."""
    model, sources = build(config).eval(), pairs([(5, 0), (2, 0), (7, 0)])[0]
    histories: list[tuple[int, list[int]]] = [(sentence, [BOS]) for sentence in range(3)]
    batch = _read(sources, histories)
    state = model.start(batch.src, batch.src_mask)
    steps = [[0, 0, 1, 1, 2, 2], [1, 0, 3, 3, 4, 5], [0, 1, 4, 5], [0, 1, 2, 3], [3, 1, 0, 0], [2]]
    for rows in steps:
        state = state.select(torch.tensor(rows))
        histories = [(histories[row][0], [*histories[row][1], 5 + row]) for row in rows]
        found, state = model.step(torch.tensor([tokens[-2] for _, tokens in histories]), state)
        close(found, log_probs(model, _read(sources, histories))[:, -2])


@every_config
def test_a_state_is_never_changed(config: ModelConfig) -> None:
    """Searches may go on twice from one state."""
    model, batch = build(config).eval(), random_batch()
    _, state = model.step(batch.tgt_in[:, 0], model.start(batch.src, batch.src_mask))
    first, _ = model.step(batch.tgt_in[:, 1], state)
    model.step(batch.tgt_in[:, 1].flip(0), state.select(torch.tensor([3, 3, 1])).select(torch.tensor([0, 1, 2, 0])))
    torch.testing.assert_close(model.step(batch.tgt_in[:, 1], state)[0], first, rtol=0, atol=0)


@every_config
def test_a_state_tells_where_its_step_looked(config: ModelConfig) -> None:
    """Rows are weights over the real source positions, go along with their hypothesis, and change no result."""
    model, batch = build(config).eval(), random_batch()
    state, plain = model.start(batch.src, batch.src_mask, attention=True), model.start(batch.src, batch.src_mask)
    if not attends(config):
        assert state.attention is None
        return
    assert state.attention is not None
    assert not state.attention.any()
    found, state = model.step(batch.tgt_in[:, 0], state)
    torch.testing.assert_close(model.step(batch.tgt_in[:, 0], plain)[0], found, rtol=0, atol=0)
    assert state.attention is not None
    assert not state.attention[~batch.src_mask].any()
    # The Gaussian takes a part, or the target itself.
    less = config.decoder.window == "local_p" or config.decoder.type == "language_model"
    assert less or torch.allclose(state.attention.sum(1), torch.ones(4))
    assert bool((state.attention.sum(1) <= 1 + 1e-6).all())
    chosen = state.select(torch.tensor([2, 0, 2]))
    assert chosen.attention is not None
    assert torch.equal(chosen.attention, state.attention[[2, 0, 2]])
    assert plain.attention is None


@every_config
def test_padding_and_company_change_nothing(config: ModelConfig) -> None:
    """Fault 71's kind: a row is the same alone and among longer ones, in any order."""
    model, (sources, targets) = build(config).eval(), pairs([(5, 3), (2, 6), (7, 1), (1, 4)])
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 1, 0]):
        together = log_probs(model, collate([sources[i] for i in order], [targets[i] for i in order], PAD, BOS, EOS))
        for row, i in enumerate(order):
            alone = log_probs(model, collate([sources[i]], [targets[i]], PAD, BOS, EOS))[0]
            close(together[row, : len(targets[i]) + 1], alone)


@every_config
def test_more_padding_changes_nothing(config: ModelConfig) -> None:
    model, batch = build(config).eval(), random_batch()
    wider = Batch(*(_widened(getattr(batch, name)) for name in ("src", "src_mask", "tgt_in", "tgt_out", "tgt_mask")))
    found = log_probs(model, wider)[:, : batch.tgt_in.size(1)]
    close(found[batch.tgt_mask], log_probs(model, batch)[batch.tgt_mask])


def _widened(x: Tensor) -> Tensor:
    return torch.nn.functional.pad(x, (0, 3), value=False if x.dtype == torch.bool else PAD)


@every_config
def test_later_targets_do_not_change_earlier_logits(config: ModelConfig) -> None:
    model, batch = build(config).eval(), random_batch()
    before = model(batch)
    for position in range(1, batch.tgt_in.size(1)):
        changed = batch.tgt_in.clone()
        changed[:, position:] = (changed[:, position:] + 5) % VOCAB
        after = model(replace(batch, tgt_in=changed))
        torch.testing.assert_close(after[:, :position], before[:, :position], rtol=0, atol=1e-6)
        assert not torch.allclose(after[:, position:], before[:, position:], atol=1e-4)


@every_config
def test_the_order_of_the_source_matters(config: ModelConfig) -> None:
    """For all but the encoder that is there to show what order is worth."""
    model, batch = build(config).eval(), random_batch([(6, 4)])
    turned = replace(batch, src=batch.src.flip(1))
    difference = (log_probs(model, turned) - log_probs(model, batch)).abs().max()
    assert difference < 1e-5 if config.encoder.type == "decomposable" else difference > 1e-4


@every_config
def test_an_empty_source_row_stays_finite_and_by_itself(config: ModelConfig) -> None:
    """Fault 64: a source row that is all padding; forward, backward, and the other row."""
    model, batch = build(config), random_batch([(1, 2), (3, 4)])
    batch.src[0], batch.src_mask[0] = PAD, False
    loss = CrossEntropy(label_smoothing=0.1)(model, batch).total
    torch.autograd.backward(loss)
    assert loss.isfinite()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    alone = Batch(*(getattr(batch, name)[1:] for name in ("src", "src_mask", "tgt_in", "tgt_out", "tgt_mask")))
    close(log_probs(model, batch)[1], log_probs(model, alone)[0])
    stepped, _ = model.step(batch.tgt_in[:, 0], model.start(batch.src, batch.src_mask))
    close(stepped, log_probs(model, batch)[:, 0])


@every_config
def test_what_the_padding_row_holds_cannot_matter(config: ModelConfig) -> None:
    """Fault 66 (b). Where the row is a row of the output layer too, it is the score of the piece pad, and only that."""
    model, batch = build(config).eval(), random_batch()
    before = model(batch)
    with torch.no_grad():
        for embedding in (model.src_embedding, model.tgt_embedding):
            embedding.tokens.weight[PAD] = 1000.0
    after = model(batch)
    if config.tie in ("output", "all"):
        before, after = _without_pad(before), _without_pad(after)
    close(after[batch.tgt_mask], before[batch.tgt_mask])


def _without_pad(logits: Tensor) -> Tensor:
    return logits[..., [piece for piece in range(VOCAB) if piece != PAD]]


@every_config
def test_the_padding_row_learns_nothing_as_an_input(config: ModelConfig) -> None:
    """Fault 66 (a). Tied to the output layer the row learns as an output, from each real target; never from padding."""
    model = build(config)
    torch.autograd.backward(CrossEntropy(label_smoothing=0.1)(model, random_batch()).total)
    for embedding in (model.src_embedding, model.tgt_embedding):
        assert embedding.tokens.weight.grad is not None
        is_output = embedding.tokens.weight is model.output.weight
        assert bool(embedding.tokens.weight.grad[PAD].any()) == is_output
    for embedding in (model.src_embedding, model.tgt_embedding):
        embedding.tokens.weight.grad = None
    torch.autograd.backward(model.hidden(random_batch()).square().sum())
    for embedding in (model.src_embedding, model.tgt_embedding):
        assert embedding.tokens.weight.grad is not None
        assert not embedding.tokens.weight.grad[PAD].any()


@every_config
def test_every_parameter_learns(config: ModelConfig) -> None:
    model = build(config)
    torch.autograd.backward(CrossEntropy(label_smoothing=0.1)(model, random_batch()).total)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 1e-7 or name.endswith("key_value.bias"), name


@every_config
def test_an_untrained_model_knows_nothing(config: ModelConfig) -> None:
    torch.manual_seed(0)
    model = changed(config, dim=64, heads=1).build(400, 400, PAD).eval()
    sources, targets = torch.randint(4, 400, (2, 8, 10)).tolist()
    loss = CrossEntropy(label_smoothing=0.0)(model, collate(sources, targets, PAD, BOS, EOS))
    assert float(loss.nll) / loss.tokens == pytest.approx(math.log(400), abs=1.0)


WET = dict.fromkeys(("dropout", "word_dropout", "attention_dropout", "activation_dropout", "layer_drop"), 0.5)


@every_config
def test_dropout_is_on_in_training_only(config: ModelConfig) -> None:
    """Fault 70: three equal answers in eval mode, other ones in training mode."""
    for name in {"dropout", "word_dropout"} | (set(WET) & keys_read(config)):
        model, batch = build(replace(config, **{name: WET[name]})), random_batch()  # type: ignore[arg-type]
        model.eval()
        first, second, third = (model(batch) for _ in range(3))
        assert torch.equal(first, second)
        assert torch.equal(first, third)
        model.train()
        assert any(not torch.equal(model(batch), model(batch)) for _ in range(8)), name


@every_config
def test_eval_mode_is_the_model_without_dropout(config: ModelConfig) -> None:
    wet = build(changed(config, **WET))
    dry = build(config)
    assert torch.equal(wet.eval()(random_batch()), dry.train()(random_batch()))


@every_config
def test_sentences_of_any_length(config: ModelConfig) -> None:
    """Fault 73: there is no greatest length, and a long neighbour changes nothing."""
    model = build(config).eval()
    sources, targets = pairs([(300, 260), (3, 2)])
    together = log_probs(model, collate(sources, targets, PAD, BOS, EOS))
    assert together.isfinite().all()
    alone = log_probs(model, collate(sources[1:], targets[1:], PAD, BOS, EOS))
    close(together[1, :3], alone[0])


def test_training_goes_on_after_a_longer_sentence_was_translated() -> None:
    """A position table that grew in inference mode serves training."""
    model, long = build(small()), random_batch([(300, 4)])
    with torch.inference_mode():
        model(long)
    torch.autograd.backward(CrossEntropy(label_smoothing=0.1)(model, long).total)
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@every_config
def test_autocast_is_close_to_float32(config: ModelConfig, dtype: torch.dtype) -> None:
    """Fault 65: masks are finite in half precision, too, and so are gradients with a loss scale."""
    model, batch = build(config).eval(), random_batch()
    expected = log_probs(model, batch)
    with torch.autocast("cpu", dtype=dtype):
        found = log_probs(model, batch)
        stepped, _ = model.step(batch.tgt_in[:, 0], model.start(batch.src, batch.src_mask))
        loss = CrossEntropy(label_smoothing=0.1)(model, batch).total
    torch.testing.assert_close(found.exp(), expected.exp(), rtol=0, atol=0.05)
    torch.testing.assert_close(stepped.exp(), expected[:, 0].exp(), rtol=0, atol=0.05)
    torch.autograd.backward(loss * 1024)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


class Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the sizes of what is multiplied in bfloat16: of matrices, with vectors too, and of many at once."""

    kinds = ("mv", "addmv", "addmv_", "mm", "addmm", "_linear_pointwise", "bmm", "baddbmm")

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: dict[str, set[torch.Size]] = {kind: set() for kind in self.kinds}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        operands = [x.shape for x in args if isinstance(x, Tensor) and x.dtype == torch.bfloat16]
        self.sizes.get(func.overloadpacket.__name__, set()).update(operands)
        return func(*args, **(kwargs or {}))


@every_config
def test_products_in_bfloat16_have_few_sizes(config: ModelConfig) -> None:
    """A CPU keeps a kernel for each: rows are rounded up, and matrices are taken by powers of two at a time."""
    model, batch = build(config), random_batch([(8, 10)] * 13)
    with Products() as products:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = CrossEntropy(label_smoothing=0.1)(model, batch).total
        torch.autograd.backward(loss)
    many = {size[0] for kind in ("bmm", "baddbmm") for size in products.sizes.pop(kind)}
    assert not [count for count in many if count.bit_count() > 1]
    assert not [size for sizes in products.sizes.values() for size in sizes if any(padded(n) != n for n in size)]
    assert any(products.sizes.values())


@every_config
def test_a_model_in_bfloat16_translates(config: ModelConfig) -> None:
    model, batch = build(config).eval(), random_batch()
    expected = log_probs(model, batch)
    model.to(torch.bfloat16)
    torch.testing.assert_close(log_probs(model, batch).exp(), expected.exp(), rtol=0, atol=0.1)
    stepped, _ = model.step(batch.tgt_in[:, 0], model.start(batch.src, batch.src_mask))
    assert stepped.dtype == torch.float32


@every_config
def test_it_learns_eight_pairs_by_heart(config: ModelConfig) -> None:
    torch.manual_seed(0)
    model = changed(layered(config, 1, 1), dim=32, ffn_dim=64, heads=2).build(VOCAB, VOCAB, PAD)
    batch = random_batch([(4, 4)] * 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    objective = CrossEntropy(label_smoothing=0.0)
    for _ in range(150):
        optimizer.zero_grad()
        loss = objective(model, batch)
        if float(loss.nll) / loss.tokens < 0.3:
            break
        torch.autograd.backward(loss.total / loss.tokens)
        optimizer.step()
    assert float(loss.nll) / loss.tokens < 0.3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device")
@pytest.mark.filterwarnings("ignore:RNN module weights are not part of single contiguous chunk")
@every_config
def test_a_cuda_device_gives_what_the_cpu_gives(config: ModelConfig) -> None:
    """Logits, steps after a select, loss and gradients, with one source row that is all padding (fault 64)."""
    model, batch = build(config), random_batch()
    batch.src[2], batch.src_mask[2] = PAD, False
    found = []
    for device in ("cpu", "cuda"):
        model, batch = model.to(device), batch.to(device)
        loss = CrossEntropy(label_smoothing=0.1)(model, batch)
        state = model.start(batch.src, batch.src_mask).select(torch.tensor([0, 0, 2, 3], device=device))
        stepped, _ = model.step(batch.tgt_in[:, 0], state)
        gradients = torch.autograd.grad(loss.total, tuple(model.parameters()))
        found.append([tensor.detach().cpu() for tensor in (model(batch), stepped, loss.total, loss.nll, *gradients)])
    for on_cpu, on_cuda in zip(*found, strict=True):
        torch.testing.assert_close(on_cuda, on_cpu, rtol=1e-3, atol=1e-3)
