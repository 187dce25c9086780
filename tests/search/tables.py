"""Models for tests of searches: tables of transitions, on which everything can be computed by hand or by force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mt.search.config import DecodeConfig, LengthPenaltyConfig
from mt.search.hypothesis import Hypothesis, Symbols
from mt.search.penalties import PENALTIES
from mt.search.searches import SEARCHES

NAMES = ["<s>", "</s>", "<pad>"]


@dataclass
class TableState:
    """What was read by each row; which sentence's table it uses."""

    sentences: list[int]
    prefixes: list[tuple[int, ...]]

    def select(self, rows: Tensor) -> TableState:
        chosen = rows.tolist()
        return TableState([self.sentences[row] for row in chosen], [self.prefixes[row] for row in chosen])


class Table:
    """A model given by probabilities: after the prefix "a b" of pieces, the next token is c with `table["a b"]["c"]`.

    A prefix without an entry continues as `table["*"]`.
    """

    def __init__(self, *tables: dict[str, dict[str, float]], dummies: int = 0) -> None:
        words = {word for table in tables for key, row in table.items() for word in [*row, *key.split()]}
        self.names = [*NAMES, *sorted(words - {*NAMES, "*"})]
        self.tables = tables
        self.symbols = Symbols(bos=0, eos=1, pad=2, size=len(self.names))
        self.rows = len(self.names) + dummies
        self.steps: list[int] = []

    def start(self, *sentences: int) -> TableState:
        return TableState(list(sentences), [() for _ in sentences])

    def step(self, tokens: Tensor, state: TableState) -> tuple[Tensor, TableState]:
        self.steps.append(len(state.sentences))
        read = tokens.tolist()
        prefixes = [(*prefix, token) for prefix, token in zip(state.prefixes, read, strict=True)]
        rows = [self.row(sentence, prefix) for sentence, prefix in zip(state.sentences, prefixes, strict=True)]
        return torch.stack(rows), TableState(state.sentences, prefixes)

    def row(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        table = self.tables[sentence]
        key = " ".join(self.names[token] for token in prefix[1:])
        log_probs = torch.full((self.rows,), -math.inf)
        for word, probability in table.get(key, table.get("*", {})).items():
            log_probs[self.names.index(word)] = math.log(probability)
        return log_probs

    def words(self, hypothesis: Hypothesis) -> str:
        return " ".join(self.names[token] for token in hypothesis.tokens)


# The toy models of faults 79 to 81 and 92.
T1 = {
    "": {"x": 0.6, "y": 0.4},
    "x": {"</s>": 0.6, "x": 0.4},
    "x x": {"</s>": 1.0},
    "y": {"z": 1.0},
    "y z": {"w": 0.75, "z": 0.25},
    "y z z": {"w": 1.0},
    "y z w": {"</s>": 1.0},
    "y z z w": {"</s>": 1.0},
}
T2 = {
    "": {"a": 0.6, "b": 0.4},
    "a": {"c": 0.55, "d": 0.45},
    "b": {"c": 0.95, "d": 0.05},
    "*": {"</s>": 1.0},
}


class RandomModel(Table):
    """Next-token probabilities drawn anew for each prefix from a seed; `words` pieces beside the special symbols."""

    def __init__(self, seed: int, words: int, sentences: int = 1, eos_bias: float = 0.0) -> None:
        super().__init__(*({"": {f"w{i}": 1.0 for i in range(words)}} for _ in range(sentences)))
        self.seed, self.eos_bias = seed, eos_bias

    def row(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        place = hash((self.seed, sentence, *prefix)) % 2**62
        logits = torch.randn(self.rows, generator=torch.Generator().manual_seed(place)) * 2
        logits[self.symbols.eos] += self.eos_bias
        return logits.log_softmax(0)


def config(beam_size: int = 4, n_best: int = 1, kind: str = "average", alpha: float = 1.0) -> DecodeConfig:
    """A penalty of kind none takes no alpha."""
    penalty = LengthPenaltyConfig(kind) if kind == "none" else LengthPenaltyConfig(kind, alpha)
    return DecodeConfig(beam_size=beam_size, n_best=n_best, length_penalty=penalty)


def search(
    model: Table, options: DecodeConfig, limits: Sequence[int], sentences: Sequence[int] | None = None
) -> list[list[Hypothesis]]:
    state = model.start(*(range(len(limits)) if sentences is None else sentences))
    return SEARCHES[options.search](model.step, state, torch.tensor(limits), model.symbols, options)


def greedy(model: Table, sentence: int, limit: int) -> tuple[tuple[int, ...], float, bool]:
    """The most probable token, one at a time: tokens, log-probability, whether the limit cut it."""
    prefix: tuple[int, ...] = (model.symbols.bos,)
    log_prob = 0.0
    while True:
        row = model.row(sentence, prefix)
        row[[model.symbols.bos, model.symbols.pad]] = -math.inf
        token = int(row[: model.symbols.size].argmax())
        if token == model.symbols.eos:
            return prefix[1:], log_prob + float(row[token]), False
        if len(prefix) > limit:
            return prefix[1:], log_prob, True
        prefix, log_prob = (*prefix, token), log_prob + float(row[token])


def brute_force(model: Table, sentence: int, limit: int, options: DecodeConfig) -> list[tuple[tuple[int, ...], float]]:
    """All finished targets of at most `limit` pieces with their scores, best first."""
    symbols, penalty = model.symbols, options.length_penalty
    pieces = [token for token in range(symbols.size) if token not in (symbols.bos, symbols.eos, symbols.pad)]
    found = []
    for length in range(limit + 1):
        for tokens in itertools.product(pieces, repeat=length):
            target = (*tokens, symbols.eos)
            prefixes = [(symbols.bos, *target[:place]) for place in range(length + 1)]
            log_prob = sum(float(model.row(sentence, p)[t]) for p, t in zip(prefixes, target, strict=True))
            if log_prob > -math.inf:
                found.append((tokens, log_prob / PENALTIES[penalty.kind](length + 1, penalty.alpha)))
    return sorted(found, key=lambda item: -item[1])
