"""Hugging Face `generate()`, from ids to ids, with the same weights: MarianMT is post-norm, Pegasus pre-norm."""

from __future__ import annotations

from typing import Any

import torch
from safetensors.torch import load_file
from transformers import MarianConfig, MarianMTModel, PegasusConfig, PegasusForConditionalGeneration

from benchmarks.peers.decoding import Decode, Task, serve

BATCH = 64


def build_model(task: Task) -> Any:
    """The model, in evaluation mode."""
    settings = dict(task.config)
    kinds = (PegasusConfig, PegasusForConditionalGeneration) if settings.pop("pre") else (MarianConfig, MarianMTModel)
    model = kinds[1](kinds[0](**settings)).eval()
    missing, unexpected = model.load_state_dict(load_file(task.weights), strict=False)
    tied = ("embed_tokens.weight", "lm_head.weight", "final_logits_bias")
    assert not unexpected, unexpected
    assert all(name.endswith(tied) for name in missing), missing
    return model


def make(task: Task, settings: dict[str, Any]) -> Decode:
    """Load the model."""
    torch.set_num_threads(settings["threads"])
    model = build_model(task)
    options = {
        "num_beams": task.beam_size,
        "min_new_tokens": task.shortest,
        "max_new_tokens": task.limit + 1,
        "early_stopping": True,
        "length_penalty": 1.0,
        "suppress_tokens": [task.bos, task.pad],
        "do_sample": False,
    }

    def batch(numbers: list[int]) -> list[list[int]]:
        sources = [[*task.sources[number], task.eos] for number in numbers]
        longest = max(map(len, sources))
        ids = torch.tensor([[*source, *[task.pad] * (longest - len(source))] for source in sources])
        found = model.generate(input_ids=ids, attention_mask=(ids != task.pad).long(), **options)
        return [[one for one in row if one not in (task.bos, task.eos, task.pad)] for row in found.tolist()]

    def decode(count: int, singly: bool) -> list[Any]:
        order = sorted(range(count), key=lambda number: len(task.sources[number]))
        size = 1 if singly else BATCH
        batches = [order[start : start + size] for start in range(0, count, size)]
        with torch.inference_mode():
            found = {number: ids for numbers in batches for number, ids in zip(numbers, batch(numbers), strict=True)}
        return [found[number] for number in range(count)]

    return decode


if __name__ == "__main__":
    serve(make)
