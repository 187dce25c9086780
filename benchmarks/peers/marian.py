"""Hugging Face MarianMT in a plain PyTorch loop with scaled-dot-product attention: what a careful user would write."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn.functional import cross_entropy
from transformers import MarianConfig, MarianMTModel

from benchmarks.peers.protocol import BOS, EOS, PAD, Shape, Task, serve


def build_model(shape: Shape) -> MarianMTModel:
    """The model in fp32, all embeddings tied."""
    layers = {"encoder_layers": shape.layers, "decoder_layers": shape.layers}
    widths = {"d_model": shape.dim, "encoder_ffn_dim": shape.ffn_dim, "decoder_ffn_dim": shape.ffn_dim}
    heads = {"encoder_attention_heads": shape.heads, "decoder_attention_heads": shape.heads}
    dropout = {"dropout": shape.dropout, "attention_dropout": 0.0, "activation_dropout": 0.0}
    ids = {"pad_token_id": PAD, "eos_token_id": EOS, "bos_token_id": BOS, "decoder_start_token_id": BOS}
    config = MarianConfig(
        vocab_size=shape.vocab_size,
        activation_function="relu",
        max_position_embeddings=512,
        scale_embedding=True,
        use_cache=False,
        attn_implementation="sdpa",
        **layers,
        **widths,
        **heads,
        **dropout,
        **ids,
    )
    return MarianMTModel(config)


def make(task: Task) -> Callable[[Sequence[int]], None]:
    """A function that trains an update on each batch it is given the number of."""
    shape = task.shape
    torch.set_num_threads(shape.threads)
    torch.manual_seed(1)
    model = build_model(shape).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=shape.lr, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / shape.warmup, (shape.warmup / (step + 1)) ** 0.5)
    )
    batches = [(torch.from_numpy(batch.src), torch.from_numpy(batch.tgt), batch.tokens) for batch in task.batches]

    def train(numbers: Sequence[int]) -> None:
        for number in numbers:
            src, tgt, tokens = batches[number]
            with torch.autocast("cpu", torch.bfloat16, enabled=shape.precision == "bf16"):
                logits = model(input_ids=src, attention_mask=src != PAD, decoder_input_ids=tgt[:, :-1]).logits
            loss = cross_entropy(
                logits.flatten(0, 1).float(),
                tgt[:, 1:].flatten(),
                ignore_index=PAD,
                label_smoothing=shape.label_smoothing,
                reduction="sum",
            )
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss / tokens)
            torch.nn.utils.clip_grad_norm_(model.parameters(), shape.clip_norm)
            optimizer.step()
            schedule.step()

    return train


if __name__ == "__main__":
    serve(make)
