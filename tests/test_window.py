"""What a line asks for beside its text, with fake engines and with a real model."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mt.engine import TorchEngine
from mt.errors import ConfigError
from mt.events import finish
from mt.lines.lengths import Lengths
from mt.lines.request import Request
from mt.lines.translation import Alternative, Translation
from mt.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mt.models.reach import Reach
from mt.search.config import DecodeConfig, LengthPenaltyConfig
from mt.search.hypothesis import Hypothesis
from mt.search.options import LineOptions
from mt.text.tokenizer import Tokenizers
from mt.translate import Style, translate_stream
from mt.window import Line, Source, Window
from tests.translators import LETTERS, copier, untrained, words


@dataclass
class Fake:
    """Says the same for each source, but for what is forbidden; attends to one piece."""

    says: Sequence[Sequence[int]]
    peak: int = 0
    asked: list[Sequence[LineOptions]] = field(default_factory=list)
    reach: Reach = field(default_factory=Reach)
    without_wishes: str | None = None

    def search(
        self,
        sources: Sequence[list[int]],  # noqa: ARG002
        config: DecodeConfig,  # noqa: ARG002
        lines: Sequence[LineOptions] = (),
    ) -> list[list[Hypothesis]]:
        self.asked.append(lines)
        return [[self.hypothesis(one) for one in self.says if not self.forbids(line, one)] for line in lines]

    @staticmethod
    def forbids(line: LineOptions, tokens: Sequence[int]) -> bool:
        spelled = ",".join(map(str, tokens))
        return any(",".join(map(str, phrase)) in spelled for phrase in line.forbidden)

    @staticmethod
    def hypothesis(tokens: Sequence[int]) -> Hypothesis:
        return Hypothesis(tuple(tokens), -1.0, -float(len(tokens) + 1), False, (-1.0,) * (len(tokens) + 1))

    def log_probs(
        self,
        sources: Sequence[list[int]],  # noqa: ARG002
        targets: Sequence[list[int]],
    ) -> list[list[float]]:
        return [[-1.0] * (len(target) + 1) for target in targets]

    def attention(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[NDArray[np.float32]]:
        found = [
            np.zeros((len(target), len(source)), np.float32) for source, target in zip(sources, targets, strict=True)
        ]
        for weights in found:
            weights[:, self.peak] = 1
        return found


TOKENIZERS = Tokenizers(words("aa", "bb", "cc"), words("x", "y", "z"), False)
X, Y, Z = 4, 5, 6


def translate(
    engine: Fake, *requests: Request, config: DecodeConfig | None = None, alignments: bool = False, most: int = 99
) -> list[Translation]:
    window = Window(engine, TOKENIZERS, config or DecodeConfig(), Lengths.at_most(most))
    return window.translate(requests, range(len(requests)), alignments)


def test_the_unknown_piece_is_replaced_by_the_word_that_was_attended_to() -> None:
    """Fault 85; without the option the mark stays."""
    unk = TOKENIZERS.tgt.unk
    [copied] = translate(Fake([[X, unk]], 1), Request("aa bb cc"), config=DecodeConfig(unknown="copy"))
    assert (copied.text, copied.alignment) == ("x bb", None)
    [marked] = translate(Fake([[X, unk]], 1), Request("aa bb cc"))
    assert marked.text == "x \u2047"


@pytest.mark.parametrize(("unknown", "alignments"), [("copy", False), ("mark", True)])
def test_a_model_that_attends_to_nothing_is_refused_before_it_searches(
    unknown: str, alignments: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only where an unknown piece is generated, which may be after hours."""
    made = untrained()
    config = ModelConfig(encoder=EncoderConfig("gru", 1), decoder=DecoderConfig("gru", 1), dim=8, tie="none")
    src, tgt = made.tokenizers.src, made.tokenizers.tgt
    engine = TorchEngine(config.build(len(src), len(tgt), tgt.pad), made.tokenizers)
    monkeypatch.delattr(TorchEngine, "search")
    window = Window(engine, made.tokenizers, DecodeConfig(unknown=unknown), None)
    assert not window.translate([Request("")], [0], alignments)[0].error
    with pytest.raises(ConfigError) as caught:
        window.translate([Request("a b")], [0], alignments)
    assert str(caught.value) == (
        "word alignments, and the words that decode.unknown copy takes, are read from attention to the source, and "
        "this model has none: do without."
    )


def test_the_unknown_piece_can_be_forbidden() -> None:
    """Fault 85."""
    engine = Fake([[TOKENIZERS.tgt.unk], [Y]])
    [found] = translate(engine, Request("aa"), config=DecodeConfig(unknown="forbid"))
    assert found.text == "y"
    assert engine.asked[0][0].forbidden == ((TOKENIZERS.tgt.unk,),)


def test_alignments_are_of_words() -> None:
    [found] = translate(Fake([[X, Y]], 2), Request("aa bb cc"), alignments=True)
    assert found.alignment == ((2, 0), (2, 1))


def test_a_banned_phrase_that_comes_back_in_another_spelling_is_banned_again() -> None:
    tokenizers = Tokenizers(words("aa"), words("x", "y", "y y", "z"), False)
    other = tokenizers.tgt.encode("z")[0]  # here `y y` is one piece, which text is never cut into
    engine = Fake([[4, 6], [4, other]])
    [found] = Window(engine, tokenizers, DecodeConfig(), None).translate([Request("aa", banned=("y y",))], [0], False)
    assert found.text == "x z"
    assert len(engine.asked) == 2


def test_what_cannot_be_is_an_error_of_its_line_only() -> None:
    """Fault 86: the others, and their number, stay."""
    asked = [
        Request("aa"),
        Request("bb", constraints=("x x x x x x",)),
        Request("cc", prefix="nowhere"),
        Request("", prefix="x"),
        Request("aa", prefix="x", banned=("x",)),
        Request("bb", prefix="<s>"),
        Request("cc", banned=("q",)),
    ]
    found = untrained_with(DecodeConfig(beam_size=2, max_length=5)).translate(asked, range(7), False)
    assert [one.source for one in found] == [request.text for request in asked]
    assert [one.error for one in found] == [
        None,
        "What is asked for cannot be met: it needs 6 pieces and the limit is 5.",
        "'nowhere' cannot be spelled with the pieces of the target side.",
        "A blank line has no translation to hold anything.",
        "What is asked for cannot be met: the prefix holds a forbidden phrase.",
        "'<s>' cannot be spelled with the pieces of the target side.",
        None,
    ]


def test_an_engine_without_wishes_says_so_of_each_line_that_has_some() -> None:
    asked = [Request("aa"), Request("bb", banned=("y",)), Request("cc", prefix="x"), Request("", banned=("y",))]
    found = translate(Fake([[X]], without_wishes="Not here."), *asked)
    assert [(one.text, one.error) for one in found] == [("x", None), ("", "Not here."), ("", "Not here."), ("", None)]


def untrained_with(config: DecodeConfig) -> Window:
    translator = untrained(config)
    tokenizers = Tokenizers(translator.tokenizers.src, words("x", "y", "z", "v", "w", "u", "t", "s", "r"), False)
    return Window(translator.engine, tokenizers, config, None)


def test_prefix_and_bans_of_a_real_model() -> None:
    """Faults 86 and 92: the score of a forced translation is still the model's own."""
    translator = untrained(DecodeConfig(beam_size=3, n_best=3, max_length=8))
    [free] = translator.translate(["k l m"])
    first, *_ = free.text.split()
    [found] = translator.translate(["k l m"], prefix="b c", banned=[first])
    every = [found, *found.alternatives]
    assert all(one.text.startswith("b c") and first not in one.text.split() for one in every)
    for one in every:
        [scored] = translator.score(["k l m"], [one.text])
        if not one.truncated:
            assert scored.log_prob == pytest.approx(one.log_prob, abs=1e-4)
        assert sum(one.token_scores) == pytest.approx(one.log_prob, abs=1e-4)


def test_each_line_has_its_own_wishes_and_settings() -> None:
    translator = untrained(DecodeConfig(beam_size=3, max_length=6))
    greedy = DecodeConfig(beam_size=1, max_length=2)
    asked = [Request("k l"), Request("k l", decode=greedy), Request("k l", prefix="d"), Request("", decode=greedy)]
    together = list(translator.translate(asked))
    alone = [next(translator.translate([request])) for request in asked]
    assert [one.text for one in together] == [one.text for one in alone]
    assert len(together[1].text.split()) <= 2
    assert together[2].text.startswith("d")


LONG = "a b c. D e f! G " + "g " * 20 + "h"


def test_a_long_line_is_split_at_sentence_ends_and_joined_again() -> None:
    """Faults 83 and 84: nothing is lost."""
    tokenizers = Tokenizers(words(*LETTERS, "c.", "D", "f!", "G"), words(*LETTERS), False)
    [found] = Window(Fake([[X]]), tokenizers, DecodeConfig(), Lengths.at_most(8)).translate([Request(LONG)], [0], False)
    assert found.parts[:2] == ("a b c.", "D e f!")
    assert " ".join(found.parts).split() == LONG.split()
    assert all(len(part.split()) <= 8 for part in found.parts)
    assert found.text == " ".join(["a"] * len(found.parts))
    assert found.tokens == ("a", "</s>") * len(found.parts)
    assert found.part_tokens == (2,) * len(found.parts)


def joined(kind: str, *parts: list[Alternative]) -> list[tuple[str, float]]:
    """The texts and scores that a line has of which each part has these translations."""
    config = DecodeConfig(n_best=2, length_penalty=LengthPenaltyConfig(kind))
    sources = [Source("aa", [4], number, LineOptions(), described=found) for number, found in enumerate(parts)]
    best = Window(Fake([]), TOKENIZERS, config, None)._end(Line(Request("aa aa"), sources))
    return [(one.text, one.score) for one in (best, *best.alternatives)]


@pytest.mark.parametrize(("kind", "scores"), [("average", [-10.2 / 12, -11.2 / 12]), ("none", [-10.2, -10.3])])
def test_the_n_best_of_a_split_line_are_in_falling_score(kind: str, scores: list[float]) -> None:
    """Faults 81 and 92: the best has its own; the next, which is shorter, does not count for less beside the others."""
    lengths, log_probs = (10, 2), {"average": (-10.0, -2.2), "none": (-10.0, -10.1)}[kind]
    divisors = lengths if kind == "average" else (1, 1)
    ranked = [
        Alternative(text, log_prob / divisor, log_prob, tokens=(text,) * length)
        for text, log_prob, length, divisor in zip("xy", log_probs, lengths, divisors, strict=True)
    ]
    other = Alternative("z", -0.2 / divisors[1], -0.2, tokens=("z", "</s>"))
    found = joined(kind, ranked, [other])
    assert [text for text, _ in found] == ["x z", "y z"]
    assert [score for _, score in found] == pytest.approx(scores)


def test_two_ways_to_say_a_text_in_parts_are_one_translation() -> None:
    """Fault 81."""
    texts = [["x x", "x"], ["y", "x y"], ["z"]]
    parts = [[Alternative(text, -rank, -rank) for rank, text in enumerate(of_part, 1)] for of_part in texts]
    assert [text for text, _ in joined("average", *parts)] == ["x x y z"]


def test_more_sentences_than_in_training_are_split_and_one_long_sentence_is_not() -> None:
    """A model of single sentences translates two in a line badly, however short."""
    tokenizers = Tokenizers(words(*LETTERS, "c.", "f!", "D"), words(*LETTERS), False)
    window = Window(Fake([[X]]), tokenizers, DecodeConfig(), Lengths(pieces=5, sentences=1, longest=9))
    asked = [Request(text) for text in ("a b c. D", "a b c f! d e", "a b c d e f", "a b c d e f g h i j")]
    found = window.translate(asked, range(4), False)
    assert [one.parts for one in found] == [
        ("a b c.", "D"),
        (),
        (),
        ("a b c d e", "f g h i j"),
    ]


def test_5000_pieces_come_out_whole() -> None:
    """Fault 84."""
    source = ["a", " ".join(["b"] * 5000), "c"]
    found = list(copier(DecodeConfig(beam_size=1, max_source_length=100)).translate(source))
    assert [one.text for one in found] == source
    assert [len(one.parts) for one in found] == [0, 64, 0]


def test_alignments_of_a_split_line_are_those_of_the_whole() -> None:
    request = Request("aa bb cc aa bb")
    [found] = translate(Fake([[X, Y]], 1), request, alignments=True, most=3)
    assert found.parts == ("aa bb", "cc aa bb")
    assert found.alignment == ((1, 0), (1, 1), (3, 2), (3, 3))


def test_a_line_that_must_hold_something_is_not_split() -> None:
    [found] = translate(Fake([[X, Y]]), Request("aa bb cc", constraints=("x",)), most=2)
    assert found.parts == ()
    [prefixed] = translate(engine := Fake([[X, Y]]), Request("aa bb cc", prefix="x"), most=2)
    assert [line.prefix for line in engine.asked[0]] == [(X,), ()]
    assert prefixed.parts == ("aa", "bb cc")


def test_a_long_line_can_stay_whole() -> None:
    [found] = translate(Fake([[X]]), Request("aa bb cc"), config=DecodeConfig(long_source="whole"), most=2)
    assert (found.parts, found.cut_from) == ((), None)


def test_repetition_is_flagged_unless_the_source_has_it() -> None:
    """Fault 82."""
    looping, loop = translate(Fake([[X] * 9]), Request("aa"), Request(" ".join(["aa"] * 9)))
    assert looping.repetitive
    assert not loop.repetitive


def test_json_lines_go_through_with_all_that_is_asked() -> None:
    lines: list[dict[str, Any]] = [
        {"text": "k l", "id": 1},
        {"text": "", "id": 2},
        {"text": "m", "prefix": "b", "options": {"n_best": 2}},
        {"text": "m", "prefix": "~", "id": 4},
    ]
    out, data = io.BytesIO(), "".join(json.dumps(line) + "\n" for line in lines).encode()
    translator = untrained(DecodeConfig(max_length=4))
    finish(translate_stream(translator, io.BytesIO(data), out, Style("jsonl", "jsonl")))
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [one["source"] for one in found] == ["k l", "", "m", "m"]
    assert [one.get("id") for one in found] == [1, 2, None, 4]
    assert found[2]["translation"].startswith("b")
    assert len(found[2]["n_best"]) == 2
    assert found[3]["error"] == "'~' cannot be spelled with the pieces of the target side."
