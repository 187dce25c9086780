"""A recipe: one YAML file that says all of a translation experiment."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mt.config import option
from mt.data.config import DataConfig
from mt.models.config import ModelConfig
from mt.scoring.config import EvaluateConfig
from mt.search.config import DecodeConfig
from mt.text.config import TokenizerConfig
from mt.training.config import TrainConfig


@dataclass(frozen=True)
class Recipe:
    """Three scalars and six blocks; prepare reads `data` and `tokenizer`, the other commands the block of their name."""

    name: str = option(help="name of the experiment")
    model_dir: Path = option(help="the run folder: all that training makes and translation needs")
    seed: int = option(1, help="of initialisation, data order and dropout", ge=0)
    data: DataConfig = field(default_factory=DataConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: DecodeConfig = field(default_factory=DecodeConfig)
    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)
