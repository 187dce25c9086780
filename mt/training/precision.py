"""Which number type the matrix products run in. Weights, sums, norms and the optimiser are always float32."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Precision:
    """`dtype` of the matrix products on `device`."""

    device: torch.device
    dtype: torch.dtype

    @classmethod
    def resolve(cls, name: str, device: torch.device) -> Precision:
        """`name` is a value of `train.precision`; auto takes bf16 where `device` multiplies it in hardware."""
        if name == "auto":
            name = "bf16" if has_bf16(device) else "fp32"
        return cls(device, DTYPES[name])

    @property
    def name(self) -> str:
        return next(name for name, dtype in DTYPES.items() if dtype == self.dtype)

    @property
    def needs_loss_scale(self) -> bool:
        """Whether gradients are so narrow that the loss must be scaled (`mt.training.loss_scale`)."""
        return self.dtype == torch.float16

    def autocast(self) -> AbstractContextManager[None]:
        """Run the enclosed forward pass in this precision."""
        context: AbstractContextManager[None] = torch.autocast(
            self.device.type,
            dtype=torch.bfloat16 if self.dtype == torch.float32 else self.dtype,
            enabled=self.dtype != torch.float32,
        )
        return context


def has_bf16(device: torch.device) -> bool:
    """Whether `device` has matrix units for bfloat16 (on a CPU: AVX512_BF16, AMX, or ARM's bf16)."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    try:
        flags = Path("/proc/cpuinfo").read_text("utf-8", "replace").split()
    except OSError:
        return False
    return device.type == "cpu" and not {"avx512_bf16", "amx_bf16", "bf16"}.isdisjoint(flags)
