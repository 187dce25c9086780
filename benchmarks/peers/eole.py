"""eole 0.6.4: its own model, loss, optimiser and training loop, fed with the batches of the task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyonmttok
import torch
from eole.config.run import TrainConfig
from eole.models.model import get_model_class
from eole.trainer import build_trainer
from eole.utils.optimizers import Optimizer

from benchmarks.peers.protocol import BOS, EOS, PAD, UNK, Shape, Task, serve

SPECIALS = {UNK: "<unk>", PAD: "<blank>", BOS: "<s>", EOS: "</s>"}


def options(shape: Shape) -> Any:
    """eole's options for the task's model and training."""
    return TrainConfig(
        data={},
        src_vocab="none",
        share_vocab=True,
        model={
            "architecture": "transformer",
            "layers": shape.layers,
            "hidden_size": shape.dim,
            "heads": shape.heads,
            "transformer_ff": shape.ffn_dim,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "embeddings": {"word_vec_size": shape.dim, "position_encoding_type": "SinusoidalInterleaved"},
        },
        training={
            "compute_dtype": shape.precision,
            "dropout": [shape.dropout],
            "attention_dropout": [0.0],
            "label_smoothing": shape.label_smoothing,
            "optim": "adam",
            "adam_beta2": 0.98,
            "learning_rate": shape.lr,
            "warmup_steps": shape.warmup,
            "decay_method": "rsqrt",
            "max_grad_norm": shape.clip_norm,
            "param_init_method": "xavier_uniform",
            "normalization": "tokens",
            "batch_type": "tokens",
            "valid_steps": 1_000_000,
        },
        report_every=1_000_000,
    )


def make(task: Task) -> Callable[[Sequence[int]], None]:
    """A function that trains an update on each batch it is given the number of."""
    shape = task.shape
    torch.set_num_threads(shape.threads)
    torch.manual_seed(1)
    config = options(shape)
    tokens = [SPECIALS.get(number, f"piece{number}") for number in range(shape.vocab_size)]
    vocab = pyonmttok.build_vocab_from_tokens(tokens)
    specials = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<blank>", "unk_token": "<unk>"}
    vocabs: dict[str, Any] = {"src": vocab, "tgt": vocab, "decoder_start_token": "<s>", "specials": specials}
    model = get_model_class(config.model).for_training(config.model, vocabs, config.training, device_id=-1)
    trainer = build_trainer(config, -1, model, vocabs, Optimizer.from_config(model, config))
    batches: list[dict[str, Any]] = [
        {
            "src": torch.from_numpy(batch.src),
            "srclen": torch.from_numpy((batch.src != PAD).sum(1)),
            "tgt": torch.from_numpy(batch.tgt),
            "images": None,
            "prefix_len": None,
            "left_pad": False,
            "cid": [],
            "cid_line_number": [],
        }
        for batch in task.batches
    ]

    def feed(numbers: Sequence[int]) -> Iterator[tuple[dict[str, Any], int]]:
        yield from ((batches[number], 0) for number in numbers)

    def train(numbers: Sequence[int]) -> None:
        trainer.train(feed(numbers), 0, save_checkpoint_steps=0, valid_steps=1_000_000)

    return train


if __name__ == "__main__":
    serve(make)
