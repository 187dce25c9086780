"""How far a target is with the phrases that it must hold, told token by token."""

from __future__ import annotations

from collections.abc import Sequence

Phrase = tuple[int, ...]
"""A sequence of ids of the target vocabulary, without bos and eos."""

Progress = tuple[int, ...]
"""Of each phrase, how many of its first tokens the target ends with; its whole length once it was there."""

EXACT = 8
"""With more phrases than this, `Phrases.need` does not count on their overlaps: orders are too many to try."""

_OTHER = -1
"""A token of no phrase."""


class Phrases:
    """The required phrases of a line, but for those that others hold inside."""

    def __init__(self, required: Sequence[Phrase]) -> None:
        different = list(dict.fromkeys(required))
        self.phrases = [
            phrase for phrase in different if not any(phrase != other and holds(other, phrase) for other in different)
        ]
        self.start: Progress = (0,) * len(self.phrases)
        self.alphabet = sorted({token for phrase in self.phrases for token in phrase})
        self._failures = [_failures(phrase) for phrase in self.phrases]
        self._after: dict[tuple[Progress, int], Progress] = {}
        self._needs: dict[Progress, tuple[int, tuple[int, ...], int]] = {}
        self._rest: dict[tuple[int, frozenset[int]], int] = {}

    @property
    def least(self) -> int:
        """Fewest tokens of a target that has them."""
        return self.need(self.start)

    def after(self, progress: Progress, token: int) -> Progress:
        """The progress once `token` is read too."""
        key = (progress, token)
        if key not in self._after:
            self._after[key] = tuple(self._advance(phrase, done, token) for phrase, done in enumerate(progress))
        return self._after[key]

    def _advance(self, number: int, done: int, token: int) -> int:
        """The automaton of Knuth, Morris and Pratt 1977; a whole phrase stays."""
        phrase = self.phrases[number]
        if done == len(phrase):
            return done
        while done and phrase[done] != token:
            done = self._failures[number][done]
        return done + (phrase[done] == token)

    def needs(self, progress: Progress) -> tuple[int, tuple[int, ...], int]:
        """`need` of the progress itself; after each token of the alphabet; and after any token outside it."""
        if progress not in self._needs:
            after = [self.need(self.after(progress, token)) for token in self.alphabet]
            self._needs[progress] = self.need(progress), tuple(after), self.need(self.after(progress, _OTHER))
        return self._needs[progress]

    def need(self, progress: Progress) -> int:
        """Fewest further tokens with which all phrases are there."""
        missing = frozenset(number for number, done in enumerate(progress) if done < len(self.phrases[number]))
        ways = (len(self.phrases[number]) - progress[number] + self._behind(number, missing) for number in missing)
        return min(ways, default=0)

    def _behind(self, last: int, missing: frozenset[int]) -> int:
        """Fewest tokens after the phrase `last` for the others of `missing`: their shortest common superstring."""
        others = missing - {last}
        if len(self.phrases) > EXACT:
            return sum(len(self.phrases[number]) for number in others)
        key = (last, others)
        if key not in self._rest:
            ways = (self._gain(last, number) + self._behind(number, others) for number in others)
            self._rest[key] = min(ways, default=0)
        return self._rest[key]

    def _gain(self, last: int, number: int) -> int:
        """Tokens of a phrase that the end of the phrase `last` does not have already."""
        before, phrase = self.phrases[last], self.phrases[number]
        return next(
            len(phrase) - shared
            for shared in reversed(range(min(len(before), len(phrase))))
            if before[len(before) - shared :] == phrase[:shared]
        )


def holds(tokens: Sequence[int], phrase: Phrase) -> bool:
    """Whether `phrase` occurs in `tokens`, its tokens side by side."""
    size = len(phrase)
    return any(tuple(tokens[start : start + size]) == phrase for start in range(len(tokens) - size + 1))


def _failures(phrase: Phrase) -> list[int]:
    """For each number of tokens read, the length of their longest end that is a shorter beginning of the phrase."""
    failures = [0, 0]
    for token in phrase[1:]:
        shorter = failures[-1]
        while shorter and phrase[shorter] != token:
            shorter = failures[shorter]
        failures.append(shorter + (phrase[shorter] == token))
    return failures
