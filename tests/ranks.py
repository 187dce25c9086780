"""Processes that train together, as torchrun starts them, for tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


def environment(rank: int, size: int, port: int) -> dict[str, str]:
    """What torchrun tells the process `rank` of `size`."""
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
    return {**os.environ, **place, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def start(size: int, *arguments: str) -> list[subprocess.Popen[str]]:
    """Start `python ARGUMENTS` as `size` ranks."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment(rank, size, port),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def run_ranks(size: int, statements: str) -> None:
    """Run `statements` as each of `size` ranks; all must end well, and soon."""
    for rank, process in enumerate(start(size, "-c", statements)):
        _, said = process.communicate(timeout=240)
        assert process.returncode == 0, f"rank {rank}: {said}"
