"""OpenNMT-py 3.5.1: its own model, loss, optimiser and training loop, fed with the batches of the task."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch

from benchmarks.peers.protocol import BOS, EOS, PAD, UNK, Ids, Shape, Task, serve

for name in ("fasttext", "spacy"):  # for text filters: imported always, not used here, and large or hard to build
    sys.modules.setdefault(name, ModuleType(name))

import onmt.opts  # noqa: E402
import pyonmttok  # noqa: E402
from onmt.model_builder import build_model  # noqa: E402
from onmt.trainer import build_trainer  # noqa: E402
from onmt.utils.optimizers import Optimizer  # noqa: E402
from onmt.utils.parse import ArgumentParser  # noqa: E402

SPECIALS = {UNK: "<unk>", PAD: "<blank>", BOS: "<s>", EOS: "</s>"}


def options(shape: Shape) -> Namespace:
    """OpenNMT-py's options for the task's model and training."""
    parser = ArgumentParser()
    onmt.opts.train_opts(parser)
    words = f"""-data {{}} -src_vocab none -share_vocab -share_embeddings -share_decoder_embeddings
        -encoder_type transformer -decoder_type transformer -position_encoding -layers {shape.layers}
        -hidden_size {shape.dim} -word_vec_size {shape.dim} -transformer_ff {shape.ffn_dim} -heads {shape.heads}
        -dropout {shape.dropout} -attention_dropout 0.0 -label_smoothing {shape.label_smoothing} -param_init_glorot
        -param_init 0 -optim adam -adam_beta2 0.98 -decay_method rsqrt -warmup_steps {shape.warmup}
        -learning_rate {shape.lr} -max_grad_norm {shape.clip_norm} -normalization tokens -batch_type tokens
        -report_every 1000000 -valid_steps 1000000 -model_dtype fp32"""
    opt: Namespace = parser.parse_known_args(words.split())[0]
    ArgumentParser.update_model_opts(opt)
    ArgumentParser.validate_model_opts(opt)
    opt.data = {}
    return opt


def vocabulary(shape: Shape) -> Any:
    """A vocabulary of the task's size, with the task's ids for the specials."""
    tokens = [SPECIALS.get(number, f"piece{number}") for number in range(shape.vocab_size)]
    vocab = pyonmttok.build_vocab_from_tokens(tokens)
    assert all(vocab[token] == number for number, token in SPECIALS.items())
    return vocab


def column(ids: Ids) -> torch.Tensor:
    """(B, T) -> (B, T, 1): OpenNMT-py has a dimension for features."""
    return torch.from_numpy(ids).unsqueeze(-1)


def make(task: Task) -> Callable[[Sequence[int]], None]:
    """A function that trains an update on each batch it is given the number of."""
    shape = task.shape
    torch.set_num_threads(shape.threads)
    torch.manual_seed(1)
    opt, vocab = options(shape), vocabulary(shape)
    vocabs = {"src": vocab, "tgt": vocab, "data_task": "seq2seq", "decoder_start_token": "<s>"}
    model = build_model(opt, opt, vocabs, None, -1)
    trainer = build_trainer(opt, -1, model, vocabs, Optimizer.from_opt(model, opt))
    batches = [
        {
            "src": column(batch.src),
            "srclen": torch.from_numpy((batch.src != PAD).sum(1)),
            "tgt": column(batch.tgt),
            "indices": torch.from_numpy(np.arange(len(batch.src))),
        }
        for batch in task.batches
    ]

    def feed(numbers: Sequence[int]) -> Iterator[tuple[dict[str, torch.Tensor], int]]:
        yield from ((batches[number], 0) for number in numbers)

    def train(numbers: Sequence[int]) -> None:
        trainer.train(feed(numbers), 0, save_checkpoint_steps=0, valid_steps=1_000_000)

    return train


if __name__ == "__main__":
    serve(make)
