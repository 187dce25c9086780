"""CTranslate2: a folder that it runs, and the engine behind `mt translate --backend ctranslate2`.

The folder is a run folder with other weights: the recipe (its `decode` block holds the defaults), the tokenizer, and
the files that CTranslate2 reads itself (`model.bin`, `config.json`, vocabularies). `export.json` names the weights that
they were made of and the checksums of the files, and is written last.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mt.config import to_mapping
from mt.errors import ConfigError, DataError, MissingExtraError, RunError
from mt.interop.ctranslate2_model import POSITIONS, refuse, specification
from mt.models.config import ModelConfig
from mt.models.encoder_decoder import EncoderDecoder
from mt.models.reach import Reach
from mt.search.config import BATCH_TOKENS, DecodeConfig
from mt.search.hypothesis import Hypothesis
from mt.search.options import LineOptions
from mt.text.files import read_json, write_json
from mt.text.folders import locked, write_folder_aside
from mt.text.tokenizer import Tokenizers

NOTE = "export.json"

# What of the decode block CTranslate2 can do: key -> the values, None for every one. Others must be at their defaults.
DECODES: dict[str, tuple[Any, ...] | None] = {
    "search": ("beam",),
    "beam_size": None,
    "length_penalty.kind": ("average", "none"),
    "length_penalty.alpha": None,
    "n_best": None,
    "max_length": None,
    "max_length_ratio": None,
    "max_source_length": None,
    "batch_tokens": None,
    "precision": None,
    "long_source": None,
}

ENDING_FIRST = -8.0
"""A length penalty's alpha with which long translations score so low that those which the limit cut come last."""

COMPUTE_TYPES = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}
"""decode.precision -> what CTranslate2 calls it."""


def require() -> None:
    """Refuse to go on without the package `ctranslate2`; MissingExtraError names the extra."""
    if find_spec("ctranslate2") is None:
        raise MissingExtraError("CTranslate2", "ctranslate2")


def check_decode(config: DecodeConfig) -> None:
    """Refuse settings of the search that CTranslate2 cannot follow; ConfigError names the key."""
    refuse("decode", to_mapping(config), to_mapping(DecodeConfig()), DECODES)


@contextmanager
def folder_aside(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` that takes its name, flushed to disk, when all went well; else nothing is left.

    An earlier export is replaced.

    Raises:
        RunError: another export is writing there; DataError: `folder` is a file, or holds something that is no export.
    """
    folder = folder.absolute()
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} cannot be a folder: a file of that name is in the way.")
    if folder.exists() and any(folder.iterdir()) and not (folder / NOTE).is_file():
        raise DataError(f"{folder} holds something that is no exported model; name a new folder.")
    with locked(folder, "mt export"), write_folder_aside(folder) as aside:
        yield aside
        for path in aside.rglob("*"):
            _flush(path)


def _flush(path: Path) -> None:
    if path.is_file():
        with path.open("rb+") as file:
            os.fsync(file.fileno())


def write_model(folder: Path, model: EncoderDecoder, config: ModelConfig, tokenizers: Tokenizers) -> None:
    """Write what CTranslate2 reads to `folder`, and the tokenizer. ConfigError where it cannot run `model`."""
    spec = specification(model, config, tokenizers)
    spec.validate()
    spec.optimize()
    spec.save(str(folder))
    tokenizers.save(folder / "tokenizer")


def write_note(folder: Path, weights: str, checked: dict[str, Any], files: dict[str, dict[str, Any]]) -> None:
    """Say what the folder was made of (the SHA-256 of the `weights`), how it was checked, and checksums of `files`."""
    import ctranslate2

    note = {"weights": weights, "ctranslate2": ctranslate2.__version__, "checked": checked, "files": files}
    write_json(folder / NOTE, note)


def read_note(folder: Path) -> dict[str, Any]:
    """What `write_note` wrote; empty where there is no exported folder.

    Raises:
        DataError: it is damaged.
    """
    if not (folder / NOTE).is_file():
        return {}
    note = read_json(folder / NOTE, "export the model again")
    if not (isinstance(note, dict) and isinstance(note.get("files", {}), dict)):
        raise DataError(f"{folder / NOTE} is damaged: it is not what an export writes; export the model again.")
    return note


_NOT_THERE = "are not there with CTranslate2: translate without --backend ctranslate2."


class CTranslate2Engine:
    """A model in CTranslate2's hands: ids of sources in, hypotheses out."""

    without_wishes: str | None = f"A prefix, constraints and banned phrases {_NOT_THERE}"

    def __init__(
        self,
        folder: Path,
        tokenizers: Tokenizers,
        device: str = "cpu",
        workers: int = 1,
        threads: int = 0,
        compute_type: str = "default",
    ) -> None:
        """Load an exported `folder`; `workers` batches at once with `threads` (0: all) each.

        Raises:
            MissingExtraError, RunError: there is no such engine or model.
        """
        require()
        import ctranslate2

        self.reach = Reach(POSITIONS - 1, POSITIONS - 1)
        device, _, number = device.partition(":")
        try:
            self._translator = ctranslate2.Translator(
                str(folder),
                device,
                device_index=int(number or 0),
                inter_threads=workers,
                intra_threads=threads,
                compute_type=compute_type,
            )
        except (RuntimeError, ValueError) as error:
            raise RunError(f"{folder} cannot be loaded by CTranslate2: {error}.") from error
        self._computes = compute_type
        self._src, self._tgt = tokenizers.src.pieces, tokenizers.tgt
        self._ids = {piece: number for number, piece in enumerate(tokenizers.tgt.pieces)}
        self._never = [[self._tgt.pieces[one]] for one in (self._tgt.bos, self._tgt.pad)]

    def search(
        self, sources: Sequence[list[int]], config: DecodeConfig, lines: Sequence[LineOptions] = ()
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source, given without its end mark; their pieces have no scores of their own.

        Raises:
            ConfigError: a line has wishes, or `config` cannot be followed.
        """
        check_decode(config)  # a line may have settings of its own
        if any(line.prefix or line.required or line.forbidden or line.min_length for line in lines):
            raise ConfigError(self.without_wishes)
        if self._computes not in ("default", COMPUTE_TYPES[config.precision]):
            raise ConfigError(f"Lines with a decode.precision of their own {_NOT_THERE}")
        if not sources:
            return []
        limits = [config.limit(len(ids), self.reach.target) for ids in sources]
        found = self._search(sources, max(limits) + 1, config)  # the engine counts the end mark
        # And it knows one limit a call; where a translation is beyond its own, the line is searched again.
        beyond = {
            number
            for number, limit in enumerate(limits)
            if any(len(one.tokens) > limit for one in found[number][: config.candidates])
        }
        for limit in sorted({limits[number] for number in beyond}):
            numbers = [number for number in sorted(beyond) if limits[number] == limit]
            again = self._up_to([sources[number] for number in numbers], limit, config)
            found.update(zip(numbers, again, strict=True))
        return [found[number][: config.candidates] for number in range(len(sources))]

    def _up_to(self, sources: Sequence[list[int]], limit: int, config: DecodeConfig) -> list[list[Hypothesis]]:
        """The hypotheses of each source: those that end after `limit` pieces, and then what has so many and no end."""
        best, ending = (self._search(sources, limit + 1, config, alpha) for alpha in (None, ENDING_FIRST))
        cut, found = self._search(sources, limit, config), []
        for number in range(len(sources)):
            ended = {one.tokens: one for one in (*ending[number], *best[number]) if not one.truncated}
            rest = [one for one in cut[number] if one.tokens not in ended]
            ranked = sorted(ended.values(), key=lambda one: -one.score)
            found.append([*ranked, *rest][: config.beam_size])
        return found

    def _search(
        self, sources: Sequence[list[int]], length: int, config: DecodeConfig, alpha: float | None = None
    ) -> dict[int, list[Hypothesis]]:
        """The beam of each source, by its number, of at most `length` tokens, end marks among them.

        Of more hypotheses than the beam has places the engine leaves the best by the length penalty `alpha`; None: by
        that of `config`.
        """
        own = config.length_penalty.alpha if config.length_penalty.kind == "average" else 0.0
        alpha = own if alpha is None else alpha
        results = self._translator.translate_batch(
            [[self._src[one] for one in ids] for ids in sources],
            max_batch_size=config.batch_tokens or BATCH_TOKENS,
            batch_type="tokens",
            beam_size=config.beam_size,
            num_hypotheses=config.beam_size,  # the beam is the same, and a finished one may rank behind cut ones there
            length_penalty=alpha,
            max_input_length=0,
            max_decoding_length=length,
            min_decoding_length=0,
            return_scores=True,
            return_end_token=True,
            suppress_sequences=self._never,
        )
        return {
            number: self._ranked(zip(result.hypotheses, result.scores, strict=True), alpha, own)
            for number, result in enumerate(results)
        }

    def _ranked(self, found: Iterable[tuple[Sequence[str], float]], alpha: float, own: float) -> list[Hypothesis]:
        """As this project has them: what is finished comes before what the limit cut, each in falling score."""
        hypotheses = [self._hypothesis(pieces, score * len(pieces) ** alpha, own) for pieces, score in found]
        return sorted(hypotheses, key=lambda one: (one.truncated, -one.score))

    def _hypothesis(self, pieces: Sequence[str], log_prob: float, alpha: float) -> Hypothesis:
        ids = [self._ids[piece] for piece in pieces]
        ended = bool(ids) and ids[-1] == self._tgt.eos
        return Hypothesis(
            tuple(ids[:-1] if ended else ids), log_prob / len(ids) ** alpha, log_prob, truncated=not ended
        )

    def log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """The natural log-probability of each piece of each target and, last, of its end mark."""
        results = self._translator.score_batch(
            [[self._src[one] for one in ids] for ids in sources],
            [[self._tgt.pieces[one] for one in ids] for ids in targets],
            max_input_length=0,
        )
        return [list(result.log_probs) for result in results]

    def attention(
        self,
        sources: Sequence[list[int]],
        targets: Sequence[list[int]],  # noqa: ARG002
    ) -> list[NDArray[np.float32]]:
        """What this engine does not tell: ConfigError, unless nothing is asked."""
        if sources:
            raise ConfigError(f"word alignments {_NOT_THERE}")
        return []
