"""This project: the training loop that `mt train` runs, fed with the batches of the task."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from benchmarks.peers.protocol import PAD, Shape, Task, serve
from mt.data.batching import Batch
from mt.models.config import DecoderConfig, EncoderConfig, ModelConfig
from mt.objectives.cross_entropy import CrossEntropy
from mt.training.allocator import keep_freed_memory
from mt.training.checkpoint import Checkpoints
from mt.training.config import OptimizerConfig, ScheduleConfig, TrainConfig
from mt.training.events import StepDone
from mt.training.loop import Trainer
from mt.training.noise import Noise
from mt.training.parallel import Layout
from mt.training.precision import Precision
from mt.training.state import TrainingState
from mt.training.units import Period
from mt.training.update import Updater

NEVER = Period.parse("1000000000")


@dataclass
class Queue:
    """An epoch that never ends: batches by the numbers put into `numbers`."""

    batches: list[Batch]
    numbers: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return 10**9

    def epoch(self, epoch: int, start_batch: int = 0) -> Iterator[Batch]:  # noqa: ARG002
        while True:
            yield self.batches[self.numbers.pop(0)]

    def close(self) -> None:
        """There are no threads to end."""


def to_batch(src: torch.Tensor, tgt: torch.Tensor) -> Batch:
    """A batch of the task as `collate` makes it."""
    tgt_in = tgt[:, :-1].clone()
    tgt_out = tgt[:, 1:].clone()
    tgt_in[tgt_out == PAD] = PAD  # the end mark is read by nobody
    return Batch(src, src != PAD, tgt_in, tgt_out, tgt_out != PAD)


def build_trainer(shape: Shape, data: Queue) -> Trainer:
    """The trainer of the task's model and training; it neither validates nor saves."""
    encoder, decoder = EncoderConfig(layers=shape.layers), DecoderConfig(layers=shape.layers)
    model = ModelConfig(
        encoder=encoder,
        decoder=decoder,
        dim=shape.dim,
        ffn_dim=shape.ffn_dim,
        heads=shape.heads,
        dropout=shape.dropout,
    ).build(shape.vocab_size, shape.vocab_size, PAD)
    config = TrainConfig(
        lr=shape.lr,
        schedule=ScheduleConfig(warmup=shape.warmup),
        optimizer=OptimizerConfig(),
        max_steps=10**9,
        valid_every=NEVER,
        save_every=NEVER,
        label_smoothing=shape.label_smoothing,
        clip_norm=shape.clip_norm,
        precision=shape.precision,
    )
    updater = Updater(
        model=model,
        loss=Layout(model, partial(CrossEntropy(config.label_smoothing), model)),
        optimizer=config.optimizer.build(model.parameters()),
        precision=Precision.resolve(config.precision, torch.device("cpu")),
        noise=Noise.on(torch.device("cpu"), seed=1),
        clip_norm=config.clip_norm,
    )
    return Trainer(
        updater=updater,
        schedule=config.schedule.build(config.lr),
        data=data,
        validate=None,
        checkpoints=Checkpoints(Path(tempfile.gettempdir()) / "never-written"),
        config=config,
        state=TrainingState(metric=config.metric),
    )


def make(task: Task) -> Callable[[Sequence[int]], None]:
    """A function that trains an update on each batch it is given the number of."""
    keep_freed_memory()
    torch.set_num_threads(task.shape.threads)
    torch.manual_seed(1)
    data = Queue([to_batch(torch.from_numpy(batch.src), torch.from_numpy(batch.tgt)) for batch in task.batches])
    events = build_trainer(task.shape, data).run()

    def train(numbers: Sequence[int]) -> None:
        data.numbers.extend(numbers)
        for _ in numbers:
            event = next(events)
            assert isinstance(event, StepDone)
            float(event.loss)  # as the log does, and all others do

    return train


if __name__ == "__main__":
    serve(make)
