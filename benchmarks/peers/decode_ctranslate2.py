"""CTranslate2, from pieces to pieces: `compute_type`, `workers` batches at once and `threads` of each."""

from __future__ import annotations

from typing import Any

import ctranslate2

from benchmarks.peers.decoding import Decode, Task, serve


def make(task: Task, settings: dict[str, Any]) -> Decode:
    """Load the exported model."""
    translator = ctranslate2.Translator(
        task.exported,
        inter_threads=settings["workers"],
        intra_threads=settings["threads"],
        compute_type=settings["compute_type"],
    )
    sources = [[task.pieces[one] for one in ids] for ids in task.sources]
    ids = {piece: number for number, piece in enumerate(task.pieces)}
    options = {
        "beam_size": task.beam_size,
        "min_decoding_length": max(1, task.shortest),
        "max_decoding_length": task.limit + 1,
        "max_input_length": 0,
        "suppress_sequences": [[task.pieces[one]] for one in (task.bos, task.pad)],
    }

    def decode(count: int, singly: bool) -> list[Any]:
        if singly:
            results = [translator.translate_batch([source], **options)[0] for source in sources[:count]]
        else:
            results = translator.translate_batch(sources[:count], max_batch_size=64, **options)
        return [[ids[piece] for piece in result.hypotheses[0]] for result in results]

    return decode


if __name__ == "__main__":
    serve(make)
