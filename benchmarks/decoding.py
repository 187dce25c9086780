"""Decoding speed, latency and memory of this project beside CTranslate2 and Hugging Face, in turns: see README.md.

python -m benchmarks.decoding RUN --src test.en --ref test.de --cache FOLDER
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from benchmarks.peers.decoding import Task
from benchmarks.peers.worker import TORCH, Tool, Worker, environment
from mt.events import finish
from mt.export import exported
from mt.models.config import ModelConfig
from mt.nn.sinusoids import sinusoids
from mt.recipe import load_run_recipe
from mt.scoring.metrics import score
from mt.text.files import read_lines
from mt.text.tokenizer import Tokenizers
from mt.translator import Translator, load

OURS = Tool("benchmarks.peers.decode_ours")
CTRANSLATE2 = Tool("benchmarks.peers.decode_ctranslate2", (("ctranslate2==4.8.5",),))
HUGGINGFACE = Tool("benchmarks.peers.decode_huggingface", ((TORCH, "transformers==5.24.0", "safetensors"),))


@dataclass(frozen=True)
class Variant:
    """A tool with settings; `beside` are the kinds that it is compared with."""

    name: str
    kind: str
    tool: Tool
    settings: dict[str, Any]


def variants(cores: int) -> list[Variant]:
    """All that is measured on so many cores."""
    found = [
        Variant(
            f"ours {precision} {workers}x{threads}",
            f"ours {precision}",
            OURS,
            {"precision": precision, "workers": workers, "threads": threads},
        )
        for precision in ("fp32", "bf16", "int8")
        for workers, threads in ((cores, 1),)
    ]
    found += [
        Variant(
            f"ctranslate2 {name} {workers}x{threads}",
            f"ctranslate2 {name}",
            CTRANSLATE2,
            {"compute_type": kind, "workers": workers, "threads": threads},
        )
        for name, kind in (("fp32", "float32"), ("int8", "int8"))
        for workers, threads in dict.fromkeys([(cores, 1), (1, cores)])
    ]
    return [*found, Variant(f"huggingface fp32 1x{cores}", "huggingface", HUGGINGFACE, {"threads": cores})]


SINGLY = [
    Variant("ours fp32, 1 thread", "ours fp32", OURS, {"precision": "fp32", "workers": 1, "threads": 1}),
    Variant("ours int8, 1 thread", "ours int8", OURS, {"precision": "int8", "workers": 1, "threads": 1}),
    *(
        Variant(
            f"ctranslate2 fp32, {threads} thread{'s' * (threads > 1)}",
            "ctranslate2 fp32",
            CTRANSLATE2,
            {"compute_type": "float32", "workers": 1, "threads": threads},
        )
        for threads in (1, 2)
    ),
    Variant("huggingface fp32, 1 thread", "huggingface", HUGGINGFACE, {"threads": 1}),
]


class Decoder(Worker):
    """A running worker process, and what it measured."""

    def __init__(self, variant: Variant, python: Path, task: Path) -> None:
        settings = variant.settings
        super().__init__(variant.name, python, settings["threads"], variant.tool.module, task, json.dumps(settings))
        self.variant = variant
        self.seconds: list[float] = []
        self.peak = 0
        self.found: list[Any] = []

    def turn(self, request: str) -> float:
        """Decode, and return the seconds."""
        answer = self.ask(request)
        self.seconds.append(answer["seconds"])
        self.peak, self.found = answer["peak_bytes"], answer["found"]
        return self.seconds[-1]


def huggingface_weights(translator: Translator, config: ModelConfig, rows: int) -> dict[str, Tensor]:
    """The weights under Hugging Face's names, with `rows` positions."""
    model: Any = translator.model
    table = sinusoids(rows, config.dim, config.position_base)
    found = {"model.shared.weight": model.src_embedding.tokens.weight}
    attentions = {
        "encoder": {"self_attn": ("attention", "attention_residual")},
        "decoder": {
            "self_attn": ("self_attention", "self_residual"),
            "encoder_attn": ("source_attention", "source_residual"),
        },
    }
    for side, parts in attentions.items():
        stack = getattr(model, side)
        found[f"model.{side}.embed_positions.weight"] = table.clone()
        if config.norm_position == "pre":
            _name(found, f"model.{side}.layer_norm", stack.norm)
        for number, layer in enumerate(stack.layers):
            prefix = f"model.{side}.layers.{number}"
            for name, (attention, residual) in parts.items():
                _name_attention(found, f"{prefix}.{name}", getattr(layer, attention))
                _name(found, f"{prefix}.{name}_layer_norm", getattr(layer, residual).norm)
            _name(found, f"{prefix}.fc1", layer.feed_forward.inner)
            _name(found, f"{prefix}.fc2", layer.feed_forward.outer)
            _name(found, f"{prefix}.final_layer_norm", layer.feed_forward_residual.norm)
    return {name: tensor.detach().clone().contiguous() for name, tensor in found.items()}


def _name(found: dict[str, Tensor], name: str, module: Any) -> None:
    found[f"{name}.weight"], found[f"{name}.bias"] = module.weight, module.bias


def _name_attention(found: dict[str, Tensor], name: str, attention: Any) -> None:
    _name(found, f"{name}.q_proj", attention.query)
    _name(found, f"{name}.out_proj", attention.out)
    for kind in ("weight", "bias"):
        found[f"{name}.k_proj.{kind}"], found[f"{name}.v_proj.{kind}"] = getattr(attention.key_value, kind).chunk(2)


def make_task(options: argparse.Namespace) -> tuple[Path, Tokenizers]:
    """Convert the Transformer of `beside` for the other tools, and write the task, in which ours decodes with `run`."""
    beside, cache = options.beside, options.cache
    config = load_run_recipe(beside).model
    assert config.tie == "all", "the peers tie all embeddings"
    translator = load(beside, device="cpu")
    tokenizers, text = translator.tokenizers, list(read_lines(options.src))[: options.lines]
    sources = tokenizers.src.encode_batch(text)
    longest = max(map(len, sources))
    limit = options.length or 2 * longest + 50
    positions = max(longest, limit) + 2
    weights = cache / "huggingface.safetensors"
    save_file(huggingface_weights(translator, config, positions), weights)
    marks = {"bos": tokenizers.tgt.bos, "eos": tokenizers.tgt.eos, "pad": tokenizers.tgt.pad}
    settings = {
        "pre": config.norm_position == "pre",
        "vocab_size": len(tokenizers.tgt),
        "d_model": config.dim,
        "encoder_layers": config.encoder.layers,
        "decoder_layers": config.decoder.layers,
        "activation_function": config.activation,
        "max_position_embeddings": positions,
        "scale_embedding": True,
        "decoder_start_token_id": marks["bos"],
        "forced_eos_token_id": None,
        **{f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in _widths(config).items()},
        **{f"{mark}_token_id": number for mark, number in marks.items()},
    }
    folder = finish(exported(beside))
    task = Task(
        lines=text,
        sources=sources,
        pieces=tokenizers.tgt.pieces,
        beam_size=options.beam_size,
        shortest=options.length or 0,
        limit=limit,
        run=str(options.run.resolve()),
        exported=str(folder.resolve()),
        weights=str(weights.resolve()),
        config=settings,
        **marks,
    )
    task.write(cache / "decoding.json")
    return cache / "decoding.json", tokenizers


def _widths(config: ModelConfig) -> dict[str, int]:
    return {"ffn_dim": config.ffn_dim, "attention_heads": config.heads}


def bleu(worker: Decoder, tokenizers: Tokenizers, references: Sequence[str]) -> float:
    """Of what a worker found last."""
    found = worker.found
    texts = found if isinstance(found[0], str) else tokenizers.tgt.decode_batch(found)
    return score(texts, [list(references)[: len(texts)]], "bleu").value


def race(chosen: Sequence[Variant], request: str, rounds: int, cache: Path, task: Path) -> list[Decoder]:
    """Start the workers, and let each decode in turn."""
    workers = [Decoder(one, environment(cache / one.tool.module.split("_")[-1], one.tool), task) for one in chosen]
    count = int(request.split()[1])
    for number in range(rounds):
        for worker in workers:
            seconds = worker.turn(request)
            print(f"round {number + 1}: {worker.variant.name} {count / seconds:.1f}/s", file=sys.stderr)
    for worker in workers:
        worker.close()
    return workers


def report(workers: Sequence[Decoder], count: int, tokenizers: Tokenizers, references: Sequence[str]) -> None:
    """Print sentences a second, peak memory and BLEU, and the ratios of ours to the best setting of each peer."""
    for worker in workers:
        speed = count / statistics.median(worker.seconds)
        quality = bleu(worker, tokenizers, references)
        memory = f"peak {worker.peak / 2**20:.0f} MiB"
        print(f"{worker.variant.name:30} {speed:8.1f} sentences/s, {memory}, BLEU {quality:.2f}")
    for mine in (worker for worker in workers if worker.variant.tool is OURS):
        for kind, peer in _best(workers).items():
            ratios = [other / own for own, other in zip(mine.seconds, peer.seconds, strict=True)]
            spread = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds"
            print(f"  {mine.variant.name} / {kind}: {statistics.median(ratios):.2f} ({spread})")


def _best(workers: Sequence[Decoder]) -> dict[str, Decoder]:
    """Of each kind of peer the fastest setting."""
    found: dict[str, Decoder] = {}
    for worker in sorted(workers, key=lambda one: statistics.median(one.seconds)):
        if worker.variant.tool is not OURS:
            found.setdefault(worker.variant.kind, worker)
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("run", type=Path, help="run folder; without --beside of a Transformer with all embeddings tied")
    parser.add_argument("--beside", type=Path, help="run folder of such a Transformer, with which the others decode")
    parser.add_argument("--src", type=Path, required=True, help="source text")
    parser.add_argument("--ref", type=Path, required=True, help="its reference translation")
    parser.add_argument("--cache", type=Path, required=True, help="folder for the peers' environments and the task")
    parser.add_argument("--lines", type=int, help="only so many of the text")
    parser.add_argument("--singles", type=int, default=100, help="lines that are decoded one at a time; 0: none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2, help="that each tool may use")
    parser.add_argument("--beam-size", type=int, default=5)
    parser.add_argument("--length", type=int, help="of all translations, for models that are hardly trained")
    parser.add_argument("--only", default="", help="only variants whose name holds one of these words, by commas")
    options = parser.parse_args()
    options.beside = options.beside or options.run
    return options


def main() -> None:
    """Measure and print."""
    options = parse()
    torch.set_num_threads(options.cores)
    options.cache.mkdir(parents=True, exist_ok=True)
    task, tokenizers = make_task(options)
    references = list(read_lines(options.ref))[: options.lines]
    count = len(references)

    def wanted(found: Sequence[Variant]) -> list[Variant]:
        return [one for one in found if any(word in one.name for word in options.only.split(","))]

    for run in dict.fromkeys((options.run, options.beside)):
        print(f"{run}: {sum(weight.numel() for weight in load(run, device='cpu').model.parameters()):,} parameters")
    print(f"{count} sentences, beam {options.beam_size}, batches free, {options.cores} cores")
    report(race(wanted(variants(options.cores)), f"batches {count}", options.rounds, options.cache, task),
           count, tokenizers, references)  # fmt: skip
    if options.singles:
        print(f"{options.singles} sentences, one at a time")
        found = race(wanted(SINGLY), f"singles {options.singles}", options.rounds, options.cache, task)
        report(found, options.singles, tokenizers, references)


if __name__ == "__main__":
    main()
