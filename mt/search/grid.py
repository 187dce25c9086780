"""Grid beam search (Hokamp and Liu 2017, section 3): a beam for each number of tokens that required phrases still need.

A hypothesis whose phrases need g further tokens competes with those of the same need alone, so that none is driven out
by what has not yet begun with its phrases. The beam of need 0 is that of an ordinary search: it alone may end. What
needs more tokens than its limit leaves is dropped at once. With no phrase this is beam search.

Letters: those of mt/search/beam.py, where W is G x beam size with G beams of a sentence; K tokens of its phrases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mt.search.beam import Beam, Candidates
from mt.search.config import DecodeConfig
from mt.search.continuations import largest
from mt.search.hypothesis import Symbols
from mt.search.options import LineOptions
from mt.search.phrases import Phrases


class Grid(Beam):
    """The beams of all sentences that are still searched."""

    def __init__(self, limits: Tensor, symbols: Symbols, config: DecodeConfig, lines: Sequence[LineOptions]) -> None:
        super().__init__(limits, symbols, config)
        self.phrases = [Phrases(line.required) for line in lines]
        self.progress = [phrases.start for phrases in self.phrases]  # of each row
        self.beams = 1 + max((phrases.least for phrases in self.phrases), default=0)

    def ranked(self, log_probs: Tensor, discouraged: Tensor | None) -> tuple[Candidates, Candidates]:
        """As for a plain beam, of each beam; what ends comes from that of need 0."""
        sums, tokens, needs, loss = self._continued(self.symbols.possible(log_probs), discouraged)
        count, width = self.sums.shape
        each = needs.view(count, 1, -1) == torch.arange(self.beams, device=needs.device)[:, None]  # (B, G, M)
        order = (sums - loss).view(count, 1, -1).masked_fill(~each, -math.inf)
        places = order.sort(dim=2, descending=True, stable=True).indices[:, :, : 2 * self.size].flatten(0, 1)
        first = torch.arange(count, device=places.device).repeat_interleave(self.beams)[:, None]
        rows = first * width + places // tokens.size(1)
        found = sums.view(count, 1, -1).masked_fill(~each, -math.inf).flatten(0, 1).gather(1, places)
        found_tokens = tokens.view(count, -1).repeat_interleave(self.beams, 0).gather(1, places)
        ending, following = self.split(Candidates(found, rows, found_tokens))
        return (
            Candidates(*(x.view(count, self.beams, -1)[:, 0] for x in ending)),
            Candidates(*(x.reshape(count, -1) for x in following)),
        )

    def _continued(self, log_probs: Tensor, discouraged: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Continuations (N, K + k) of each row: sums, tokens, tokens needed after them, and what discourages them.

        They are the tokens of its phrases, and the best of all others, which lead to one need.
        """
        needed, alphabet, after, otherwise = self._moves(log_probs.device)
        own = log_probs.scatter(1, alphabet, -math.inf)
        key = own if discouraged is None else own - discouraged[:, : self.symbols.size]
        _, others = largest(key, self.size + 1)
        tokens = torch.cat((alphabet, others), 1)
        needs = torch.cat((after, otherwise[:, None].expand_as(others)), 1)
        sums = self.sums.view(-1, 1) + torch.cat((log_probs.gather(1, alphabet), own.gather(1, others)), 1)
        ends = tokens == self.symbols.eos
        needs = torch.where(ends, needed[:, None], needs)
        room = self.limits.repeat_interleave(self.sums.size(1))[:, None] - len(self.trace.tokens) - 1
        never = torch.where(ends, needs > 0, needs > room.clamp(min=0))
        loss = torch.zeros_like(sums) if discouraged is None else discouraged.gather(1, tokens)
        return sums.masked_fill(never, -math.inf), tokens, needs, loss

    def _moves(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of each row: its need (N,); its phrases' tokens (N, K), filled up with pad; the needs after them (N, K); and
        the need after any other token (N,)."""
        owners = self._owners()
        width = max((len(phrases.alphabet) for phrases in owners), default=0)
        fills = [[self.symbols.pad] * (width - len(phrases.alphabet)) for phrases in owners]
        needs = [phrases.needs(progress) for phrases, progress in zip(owners, self.progress, strict=True)]
        columns = (
            [need for need, _, _ in needs],
            [[*phrases.alphabet, *fill] for phrases, fill in zip(owners, fills, strict=True)],
            [[*after, *fill] for (_, after, _), fill in zip(needs, fills, strict=True)],
            [otherwise for _, _, otherwise in needs],
        )
        needed, alphabet, after, otherwise = (torch.tensor(x, dtype=torch.int64, device=device) for x in columns)
        return needed, alphabet, after, otherwise

    def _owners(self) -> list[Phrases]:
        """The phrases of each row's line."""
        return [self.phrases[number] for number in self.sentences.repeat_interleave(self.sums.size(1)).tolist()]

    def cut(self, short: Tensor, ended: Tensor, bonus: Tensor | None) -> None:
        """Store what was continued of the beams of need 0 alone."""
        owners = zip(self._owners(), self.progress, strict=True)
        needy = [phrases.need(progress) > 0 for phrases, progress in owners]
        self.sums = self.sums.masked_fill(torch.tensor(needy, device=self.sums.device).view_as(self.sums), -math.inf)
        super().cut(short, ended, bonus)

    def move(self, searched: Tensor, following: Candidates) -> None:
        """Go on with `following`, each with the progress of the row that it continues."""
        super().move(searched, following)
        moves = zip(self._owners(), self.trace.parents[-1].tolist(), self.tokens.tolist(), strict=True)
        self.progress = [phrases.after(self.progress[row], token) for phrases, row, token in moves]
