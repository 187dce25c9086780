"""Models for tests of searches: tables of transitions, on which everything can be computed by hand or by force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mt.search.config import DecodeConfig, LengthPenaltyConfig
from mt.search.hypothesis import Hypothesis, Symbols
from mt.search.options import LineOptions, fulfils
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
        self.known: dict[tuple[int, ...], Tensor] = {}

    def row(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        key = (sentence, *prefix)
        if key not in self.known:
            self.known[key] = self.drawn(sentence, prefix)
        return self.known[key]

    def drawn(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        place = hash((self.seed, sentence, *prefix)) % 2**62
        logits = torch.randn(self.rows, generator=torch.Generator().manual_seed(place)) * 2
        logits[self.symbols.eos] += self.eos_bias
        return logits.log_softmax(0)


def config(
    beam_size: int = 4,
    n_best: int = 1,
    kind: str = "average",
    alpha: float = 1.0,
    search: str = "beam",
    **options: Any,
) -> DecodeConfig:
    """Settings of any search that returns up to `n_best`; a penalty of kind none takes no alpha."""
    penalty = LengthPenaltyConfig(kind) if kind == "none" else LengthPenaltyConfig(kind, alpha)
    own: dict[str, Any] = {"sample": {"samples": beam_size}, "greedy": {"n_best": 1}}.get(search, {})
    settings = {"beam_size": beam_size, "n_best": n_best, "length_penalty": penalty, **own, **options}
    return DecodeConfig(search=search, **settings)


def search(
    model: Table,
    options: DecodeConfig,
    limits: Sequence[int],
    sentences: Sequence[int] | None = None,
    lines: Sequence[LineOptions] = (),
) -> list[list[Hypothesis]]:
    """With `sentences` these alone, each with its own of `lines`."""
    state = model.start(*(range(len(limits)) if sentences is None else sentences))
    return SEARCHES[options.search](model.step, state, torch.tensor(limits), model.symbols, options, lines)


def greedy(model: Table, sentence: int, limit: int) -> tuple[tuple[int, ...], float, bool]:
    """The most probable token, one at a time: tokens, log-probability, whether the limit cut it."""
    prefix: tuple[int, ...] = (model.symbols.bos,)
    log_prob = 0.0
    while True:
        row = model.row(sentence, prefix).clone()
        row[[model.symbols.bos, model.symbols.pad]] = -math.inf
        token = int(row[: model.symbols.size].argmax())
        if token == model.symbols.eos:
            return prefix[1:], log_prob + float(row[token]), False
        if len(prefix) > limit:
            return prefix[1:], log_prob, True
        prefix, log_prob = (*prefix, token), log_prob + float(row[token])


def forced(model: Table, sentence: int, tokens: Sequence[int], truncated: bool = False) -> list[float]:
    """The model's log-probability of each token of a target, and of its end mark unless it is `truncated`."""
    target = [*tokens, *[model.symbols.eos] * (not truncated)]
    rows = [model.row(sentence, (model.symbols.bos, *target[:place])) for place in range(len(target))]
    return [float(row[token]) for row, token in zip(rows, target, strict=True)]


def allowed(tokens: Sequence[int], line: LineOptions, options: DecodeConfig) -> bool:
    """Whether a finished target is what the line wishes and what the settings allow."""
    size, start = options.no_repeat_ngram_size, len(line.prefix)
    grams = [tuple(tokens[end - size : end]) for end in range(size, len(tokens) + 1)] if size else []
    repeats = [place for place, gram in enumerate(grams) if gram in grams[:place] and place + (size or 0) > start]
    return fulfils(tokens, line) and len(tokens) >= line.min_length and not repeats


def penalised(log_probs: Sequence[float], tokens: Sequence[int], fixed: int, options: DecodeConfig) -> float:
    """The sum with the repetition penalty, from which the `fixed` first tokens are free."""
    again = [place >= fixed and token in tokens[:place] for place, token in enumerate(tokens)]
    penalties = [options.repetition_penalty if repeated else 1.0 for repeated in (*again, False)]
    return sum(log_prob * penalty for log_prob, penalty in zip(log_probs, penalties, strict=False))


def brute_force(
    model: Table, sentence: int, limit: int, options: DecodeConfig, line: LineOptions | None = None
) -> list[tuple[tuple[int, ...], float]]:
    """All finished targets of at most `limit` pieces that the line and the settings allow, with scores, best first."""
    symbols, penalty, line = model.symbols, options.length_penalty, line or LineOptions()
    pieces = [token for token in range(symbols.size) if token not in (symbols.bos, symbols.eos, symbols.pad)]
    found = []
    for length in range(limit + 1):
        for tokens in itertools.product(pieces, repeat=length):
            total = penalised(forced(model, sentence, tokens), tokens, len(line.prefix), options)
            if total > -math.inf and allowed(tokens, line, options):
                found.append((tokens, total / PENALTIES[penalty.kind](length + 1, penalty.alpha)))
    return sorted(found, key=lambda item: -item[1])
