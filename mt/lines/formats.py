"""How translations are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from mt.lines.translation import Alternative, Links, Translation

Extra = Mapping[str, Any]


def as_text(translation: Translation, n_best: int, extra: Extra) -> str:  # noqa: ARG001 - one signature for all
    """The `n_best` translations, a line each; empty lines where there are fewer."""
    texts = [translation.text, *(other.text for other in translation.alternatives)]
    return "".join(text + "\n" for text in [*texts, *[""] * (n_best - len(texts))])


def as_json(translation: Translation, n_best: int, extra: Extra) -> str:
    """A JSON object on one line: what is said of the best, the list `n_best` if that is above 1, and `extra`."""
    line: dict[str, Any] = {"source": translation.source, **_described(translation)}
    if translation.cut_from is not None:
        line["cut_from"] = translation.cut_from
    if translation.parts:
        line |= {"parts": translation.parts, "part_tokens": translation.part_tokens}
    if translation.error is not None:
        line["error"] = translation.error
    if n_best > 1:
        line["n_best"] = [_described(one) for one in (translation, *translation.alternatives)]
    return json.dumps({**line, **extra}, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[Translation, int, Extra], str]] = {"text": as_text, "jsonl": as_json}
"""text: of each source line exactly `n_best` lines, the best first; empty ones where fewer different translations were
found, and for a blank line. jsonl: one JSON object a source line."""


def _described(one: Alternative) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "translation": one.text,
        "score": one.score,
        "log_prob": one.log_prob,
        "truncated": one.truncated,
        "repetitive": one.repetitive,
        "tokens": one.tokens,
        "token_scores": [round(score, 6) for score in one.token_scores],
    }
    return fields if one.alignment is None else {**fields, "alignment": pharaoh(one.alignment)}


def pharaoh(links: Links) -> str:
    """`0-0 1-2`: source word - target word."""
    return " ".join(f"{source}-{target}" for source, target in links)


_DESCRIBED = ("translation", "score", "log_prob", "truncated", "repetitive", "tokens", "token_scores", "alignment")
ANSWERS = frozenset(["source", *_DESCRIBED, "cut_from", "parts", "part_tokens", "error", "n_best"])
"""The names of an answer's fields."""
