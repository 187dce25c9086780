"""Named tensors as safetensors files. A tied tensor is stored once and read as one; no code is run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from mt.errors import RunError


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write `tensors` to `path` itself. Names of the same memory are stored once, the others as its aliases.

    Raises:
        OSError, SafetensorError: it could not be written; `path` is then worthless.
    """
    stored: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    seen: dict[tuple[object, ...], str] = {}
    for name, tensor in tensors.items():
        place = (tensor.device, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        if tensor.numel() and place in seen:
            aliases[name] = seen[place]
        else:
            seen[place] = name
            stored[name] = tensor.detach().cpu().contiguous()
    path.touch()
    mode = path.stat().st_mode  # as for any new file; that of safetensors is for its owner's eyes alone
    save_file(stored, path, {"aliases": json.dumps(aliases)})
    path.chmod(mode)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of `path` to the CPU; tied names hold the same tensor.

    Raises:
        RunError: it is missing, torn or no safetensors file.
    """
    tensors, aliases = _read(path)
    return {**tensors, **{alias: tensors[name] for alias, name in aliases.items()}}


def average(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the tensors of several files, each tied tensor counted once and still tied.

    Sums are float32 whatever the files hold; integers are those of the last file.

    Raises:
        RunError: a file cannot be read, or its tensors are not those of the first one.
    """
    totals, aliases = _read(paths[0])
    shapes = {name: tensor.shape for name, tensor in totals.items()}
    for path in paths[1:]:
        tensors, others = _read(path)
        if {name: tensor.shape for name, tensor in tensors.items()} != shapes or others != aliases:
            raise RunError(f"{path} cannot be averaged with {paths[0]}: it holds the tensors of another model.")
        totals = {name: _plus(totals[name], tensor) for name, tensor in tensors.items()}
        types = {name: tensor.dtype for name, tensor in tensors.items()}
    if len(paths) > 1:
        totals = {name: _over(total, len(paths), types[name]) for name, total in totals.items()}
    return {**totals, **{alias: totals[name] for alias, name in aliases.items()}}


def _plus(total: Tensor, tensor: Tensor) -> Tensor:
    return total.float() + tensor.float() if tensor.is_floating_point() else tensor


def _over(total: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    return (total / count).to(dtype) if dtype.is_floating_point else total


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            aliases: dict[str, str] = json.loads((file.metadata() or {}).get("aliases", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, aliases  # noqa: SIM118
    except FileNotFoundError:
        raise RunError(f"{path} does not exist.") from None
    except (OSError, SafetensorError, ValueError) as error:
        raise RunError(
            f"{path} is not a whole safetensors file ({error}): it is torn or was written by another program."
        ) from error
