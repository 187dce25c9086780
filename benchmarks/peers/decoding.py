"""What a worker of benchmarks/decoding.py is: a process that decodes the same sentences with one tool, in turns.

The driver writes the task once, starts each worker with its path and its settings, and then alternates: it writes
`batches N` (the first N sentences, batched as the tool likes) or `singles N` (one after another) to one worker's
standard input and waits for its line of JSON, while the others sleep. It runs in the environments of all tools.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Task:
    """What every tool is given."""

    lines: list[str]
    sources: list[list[int]]
    """The lines as ids, without the end mark."""
    pieces: list[str]
    """Of the vocabulary, which source and target share."""
    bos: int
    eos: int
    pad: int
    beam_size: int
    shortest: int
    """Fewest pieces of a translation."""
    limit: int
    """Most pieces of a translation; the end mark is one more."""
    run: str
    exported: str
    """The folder for CTranslate2."""
    weights: str
    """The file for Hugging Face."""
    config: dict[str, Any]
    """Its model's settings."""

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


Decode = Callable[[int, bool], list[Any]]
"""The first N sentences, and whether one at a time -> what was found, as texts or as lists of ids."""


def peak_bytes() -> int:
    """The peak resident memory of this process and its children, together."""
    status = {int(path.parent.name): path.read_text() for path in Path("/proc").glob("[0-9]*/status") if path.exists()}
    parents = {number: int(_field("PPid", text)) for number, text in status.items()}
    me = int(Path("/proc/self").readlink().name)
    family = [me, *(number for number, parent in parents.items() if parent == me)]
    return 1024 * sum(int(_field("VmHWM", status[number])) for number in family if "VmHWM" in status[number])


def _field(name: str, text: str) -> str:
    found = re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)
    return found[1] if found else "0"


def serve(make: Callable[[Task, dict[str, Any]], Decode]) -> None:
    """Build the tool's decoder from task and settings, warm it up, and decode what standard input asks for."""
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever a tool prints stays out of the answers
    task = Task(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    decode = make(task, json.loads(sys.argv[2]))
    decode(min(64, len(task.lines)), False)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        how, count = line.split()
        start = time.perf_counter()
        found = decode(int(count), how == "singles")
        seconds = time.perf_counter() - start
        answer = {"seconds": seconds, "peak_bytes": peak_bytes(), "found": found}
        print(json.dumps(answer), file=answers, flush=True)
