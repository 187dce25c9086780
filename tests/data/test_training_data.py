from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
import pytest
import torch

from mt.data.batching import Batch, TokenBatches
from mt.data.resampling import Holds, all_held, examples_of
from mt.data.store import ParallelIds
from mt.data.training_data import Elsewhere, TrainingData, batches_of, over_budget
from mt.errors import DataError
from mt.models.reach import Reach
from mt.text.config import TokenizerConfig
from mt.text.tokenizer import Tokenizers
from tests.data.fakes import corpus_of, lines, tokenizers_of

SIZE = 300
CONFIGS = {
    "stored": TokenizerConfig(vocab_size=60),
    "bpe-dropout": TokenizerConfig(vocab_size=60, dropout=0.2),
    "unigram": TokenizerConfig(type="unigram", vocab_size=60, soft_vocab_limit=True, alpha=0.2),
}
SOURCES, TARGETS = lines(SIZE, 1), lines(SIZE, 2)
ORDER = TokenBatches(SIZE, 150, 1, 512)


@pytest.fixture(scope="module", params=CONFIGS)
def config(request: pytest.FixtureRequest) -> TokenizerConfig:
    return CONFIGS[request.param]


@pytest.fixture(scope="module")
def tokenizers(config: TokenizerConfig) -> Tokenizers:
    return tokenizers_of(config, SOURCES + TARGETS)


@pytest.fixture(scope="module")
def corpus(tokenizers: Tokenizers) -> ParallelIds:
    return corpus_of(SOURCES, TARGETS, tokenizers)


def data(
    corpus: ParallelIds,
    tokenizers: Tokenizers,
    config: TokenizerConfig,
    *,
    ahead: int = 4,
    budget: int = 150,
    seed: int = 1,
) -> TrainingData:
    return TrainingData(corpus, tokenizers, config, budget, seed, ahead=ahead, pool_size=128)


def own(batches: Iterable[Batch | Elsewhere]) -> Iterator[Batch]:
    """Those that this rank makes: all of them, where it is alone."""
    return (batch for batch in batches if isinstance(batch, Batch))


def ids(batches: Iterable[Batch | Elsewhere]) -> list[tuple[list[list[int]], list[list[int]]]]:
    return [(batch.src.tolist(), batch.tgt_out.tolist()) for batch in own(batches)]


def texts(batches: Iterable[Batch | Elsewhere], tokenizers: Tokenizers) -> list[tuple[str, str]]:
    """The pairs of the batches, decoded."""
    return [
        (tokenizers.src.decode(source), tokenizers.tgt.decode(target))
        for batch in own(batches)
        for source, target in zip(batch.src.tolist(), batch.tgt_out.tolist(), strict=True)
    ]


def threads() -> int:
    return sum(thread.name == "prefetch" for thread in threading.enumerate())


def test_each_pair_comes_once_an_epoch(corpus: ParallelIds, tokenizers: Tokenizers, config: TokenizerConfig) -> None:
    """Fault 55."""
    with data(corpus, tokenizers, config) as training:
        assert len(training) == SIZE
        for epoch in range(3):
            assert sorted(texts(training.epoch(epoch), tokenizers)) == sorted(zip(SOURCES, TARGETS, strict=True))
    assert threads() == 0


def test_epochs_differ_and_seeds_too(corpus: ParallelIds, tokenizers: Tokenizers, config: TokenizerConfig) -> None:
    """Faults 55 and 69."""
    first = data(corpus, tokenizers, config, ahead=0)
    second = data(corpus, tokenizers, config, ahead=0, seed=2)
    epochs = [ids(first.epoch(0)), ids(first.epoch(1)), ids(second.epoch(0))]
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


@pytest.mark.parametrize("ahead", [1, 2, 50])
def test_threads_change_nothing(
    corpus: ParallelIds, tokenizers: Tokenizers, config: TokenizerConfig, ahead: int
) -> None:
    """Fault 69: a fourth run with more loader workers."""
    plain = data(corpus, tokenizers, config, ahead=0)
    with data(corpus, tokenizers, config, ahead=ahead) as threaded:
        for epoch in (0, 1):
            assert ids(threaded.epoch(epoch)) == ids(plain.epoch(epoch))


@pytest.mark.parametrize("ahead", [0, 3])
def test_a_resumed_epoch_goes_on_where_it_stood(
    corpus: ParallelIds, tokenizers: Tokenizers, config: TokenizerConfig, ahead: int
) -> None:
    """Fault 55: neither repeats nor leaves out, wherever it stopped."""
    whole = ids(data(corpus, tokenizers, config, ahead=0).epoch(2))
    for start in (0, 1, len(whole) // 2, len(whole) - 1):
        with data(corpus, tokenizers, config, ahead=ahead) as training:
            assert ids(training.epoch(2, start)) == whole[start:]


def test_stopping_in_mid_epoch_ends_the_threads(
    corpus: ParallelIds, tokenizers: Tokenizers, config: TokenizerConfig
) -> None:
    training = data(corpus, tokenizers, config)
    whole = ids(training.epoch(0))
    batches = training.epoch(0)
    started = ids(islice(batches, 3))
    del batches
    assert threads() == 0
    assert started + ids(training.epoch(0, 3)) == whole
    training.close()
    training.close()
    assert threads() == 0


def test_no_batch_is_over_the_budget(corpus: ParallelIds, tokenizers: Tokenizers, config: TokenizerConfig) -> None:
    """Fault 67: also where a newly drawn segmentation is longer than the stored one."""
    for batch in own(data(corpus, tokenizers, config, ahead=0).epoch(0)):
        rows = batch.src.size(0)
        assert rows * max(batch.src.size(1), batch.tgt_out.size(1)) <= 150 or rows == 1


def test_a_line_over_the_budget_is_counted_and_kept(
    corpus: ParallelIds, tokenizers: Tokenizers, config: TokenizerConfig
) -> None:
    """Fault 67."""
    training = data(corpus, tokenizers, config, ahead=0, budget=20)
    stored = zip(corpus.src.lengths.tolist(), corpus.tgt.lengths.tolist(), strict=True)
    assert over_budget(corpus, 20) == sum(max(lengths) + 1 > 20 for lengths in stored) > 0
    assert sorted(texts(training.epoch(0), tokenizers)) == sorted(zip(SOURCES, TARGETS, strict=True))


def test_validation_has_each_pair_once(corpus: ParallelIds, tokenizers: Tokenizers) -> None:
    for budget in (1, 100, 10**6):
        batches = list(batches_of(corpus, tokenizers, budget))
        assert sorted(texts(iter(batches), tokenizers)) == sorted(zip(SOURCES, TARGETS, strict=True))
        assert sum(int(batch.tgt_mask.sum()) for batch in batches) == len(corpus.tgt.items) + SIZE


def test_the_number_of_batches_is_told_beforehand(
    corpus: ParallelIds, tokenizers: Tokenizers, config: TokenizerConfig
) -> None:
    one_pool = TrainingData(corpus, tokenizers, CONFIGS["stored"], 150, 1, ahead=0)
    assert one_pool.batches_in_epoch() == len(list(one_pool.epoch(0)))
    several = data(corpus, tokenizers, config, ahead=0)
    assert several.batches_in_epoch() == pytest.approx(len(list(several.epoch(0))), rel=0.15)


def test_a_place_that_the_epoch_does_not_have_is_refused(
    corpus: ParallelIds, tokenizers: Tokenizers, config: TokenizerConfig
) -> None:
    training = data(corpus, tokenizers, config)
    batches = len(list(training.epoch(0)))
    with pytest.raises(DataError) as caught:
        next(training.epoch(0, batches))
    assert str(caught.value) == (
        f"Epoch 1 ends with batch {batches}, so training cannot go on after batch {batches} of it: "
        "corpus, seed or train.batch_tokens changed."
    )
    assert threads() == 0


def test_two_epochs_at_a_time_are_an_error_and_not_a_short_epoch() -> None:
    tokenizers = tokenizers_of(CONFIGS["stored"], SOURCES)
    training = data(corpus_of(SOURCES, TARGETS, tokenizers), tokenizers, CONFIGS["stored"])
    first, second = training.epoch(0), training.epoch(1)
    next(first)
    next(second)
    with pytest.raises(RuntimeError, match="iterate over one at a time"):
        next(first)
    training.close()


def test_text_is_needed_to_segment_it_anew() -> None:
    config = CONFIGS["bpe-dropout"]
    tokenizers = tokenizers_of(config, SOURCES)
    corpus = corpus_of(SOURCES, TARGETS, tokenizers, with_text=False)
    with pytest.raises(DataError) as caught:
        data(corpus, tokenizers, config)
    assert str(caught.value) == (
        "tokenizer.dropout segments the training text anew each epoch, but the corpus was prepared without its text; "
        "run mt prepare again."
    )


def test_batches_draw_from_no_generator_of_the_training(
    corpus: ParallelIds, tokenizers: Tokenizers, config: TokenizerConfig
) -> None:
    """Fault 69."""
    before = torch.get_rng_state()
    with data(corpus, tokenizers, config) as training:
        list(training.epoch(0))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "stored"])
def test_a_pair_that_grew_beyond_the_model_is_taken_as_it_is_stored(name: str) -> None:
    """Faults 73 and 120: found out in the middle of training otherwise."""
    tokenizers = tokenizers_of(CONFIGS[name], SOURCES + TARGETS)
    corpus = corpus_of(SOURCES, TARGETS, tokenizers)
    most = int(max(corpus.src.lengths.max(), corpus.tgt.lengths.max()))

    def drawn(holds: Holds) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
        [pool] = islice(examples_of(corpus, tokenizers, CONFIGS[name], holds, ahead=False).pools(ORDER, 0), 1)
        return {(tuple(src), tuple(tgt)) for src, tgt in zip(*pool.examples(np.arange(SIZE)), strict=True)}

    free, held = drawn(all_held), drawn(Reach(most, most).holds)
    assert max(len(side) for pair in held for side in pair) <= most < max(len(side) for pair in free for side in pair)
    stored = {(tuple(corpus.src[row].tolist()), tuple(corpus.tgt[row].tolist())) for row in range(SIZE)}
    assert {pair for pair in free if max(map(len, pair)) <= most} <= held
    assert held - free <= stored
