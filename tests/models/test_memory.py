"""The encoded source is held once a sentence, and never copied where rows only change places inside sentences."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mt.models.memory import Memory
from mt.nn.attention import KeysValues, MultiHeadAttention

B, S, D, H = 3, 4, 6, 2


def memory() -> tuple[MultiHeadAttention, Memory]:
    torch.manual_seed(0)
    attention = MultiHeadAttention(D, H)
    mask = torch.arange(S) < torch.tensor([[4], [2], [3]])
    return attention, Memory.start([attention.keys_values(torch.randn(B, S, D))], mask)


def rows_of(memory: Memory, sentences: list[int]) -> tuple[KeysValues, torch.Tensor]:
    """The slow way: a copy for each hypothesis."""
    chosen = torch.tensor(sentences)
    return memory.layers[0].select(chosen), memory.mask[chosen]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_any_row_of_selects_reads_its_own_sentence(data: st.DataObject) -> None:
    attention, start = memory()
    current, sentences = start, list(range(B))
    for _ in range(data.draw(st.integers(1, 4))):
        rows = data.draw(st.lists(st.integers(0, len(sentences) - 1), min_size=1, max_size=7))
        current, sentences = current.select(torch.tensor(rows)), [sentences[row] for row in rows]
        x = torch.randn(len(rows), 1, D)
        expected = attention(x, *rows_of(start, sentences))
        torch.testing.assert_close(current.attend(attention, x, 0), expected, rtol=0, atol=1e-6)


def test_expanding_and_reordering_inside_sentences_copies_nothing() -> None:
    _, start = memory()
    beams = start.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert beams.layers is start.layers
    assert beams.select(torch.tensor([1, 0, 2, 2, 5, 4])) is beams
    assert beams.select(torch.tensor([0, 2, 4])).layers is start.layers


def test_dropping_a_sentence_keeps_the_others_once() -> None:
    _, start = memory()
    left = start.select(torch.tensor([0, 0, 1, 1, 2, 2])).select(torch.tensor([0, 1, 4, 5]))
    assert left.layers[0].key.size(0) == 2
    assert left.sentence.tolist() == [0, 0, 1, 1]


def test_nothing_may_be_left() -> None:
    """All hypotheses finished."""
    _, start = memory()
    nothing = start.select(torch.tensor([], dtype=torch.int64))
    assert nothing.layers[0].key.size(0) == 0
    assert nothing.sentence.numel() == 0
