"""The driver's side of a worker: a process in its tool's environment that answers requests in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Tool:
    """A worker module, and the arguments of the `pip install`s that make its environment; none: this one."""

    module: str
    installs: tuple[tuple[str, ...], ...] = ()


class Worker:
    """A running worker process."""

    def __init__(self, name: str, python: Path, threads: int, module: str, task: Path, *settings: str) -> None:
        """Start `module` on the file `task`, beside which its log goes, and wait until it is ready."""
        self.name = name
        with task.with_name(f"{name}.log").open("w") as log:
            self._process = subprocess.Popen(
                [python, "-m", module, task, *settings],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": str(threads)},
            )
        self._answer()

    def ask(self, request: object) -> dict[str, Any]:
        """Send a line, and wait for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"The worker {self.name} ended early; its log is in the cache folder.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def environment(folder: Path, tool: Tool) -> Path:
    """The Python of the tool's environment, made where it is missing."""
    if not tool.installs:
        return Path(sys.executable)
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        for packages in tool.installs:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        done.touch()
    return python
