"""What a long translation has done so far: a file for each block of lines, so that it can be stopped and taken up.

For the output OUT they lie in the folder OUT.part; when OUT is written whole, its own files go, and with them the
folder, unless blocks of other lines or settings are left there. A file is named after its
block's place and after all that its content depends on: the lines, the model, the settings. So whatever was stopped,
changed or done by several processes, a block that is there is right, and one that is missing is made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path

from mt.lines.answer import Answer
from mt.text.files import Block, write_aside

SUFFIX = ".part"


class Shards:
    """The folder beside `target`."""

    def __init__(self, target: Path, identity: str) -> None:
        """`identity`: of all but the lines that translations depend on."""
        self.folder = target.with_name(target.name + SUFFIX)
        self.identity = identity

    def path(self, block: Block) -> Path:
        """The file of a block."""
        digest = hashlib.sha256(self.identity.encode() + b"\n" + block.data).hexdigest()[:24]
        return self.folder / f"{block.first_line:010d}-{digest}"

    def write(self, path: Path, answer: Answer) -> None:
        """Keep an answer: a line of JSON that tells of it, then its bytes."""
        head = asdict(replace(answer, data=b""))
        del head["data"], head["error"]
        with write_aside(path) as file:
            file.write(json.dumps(head).encode() + b"\n" + answer.data)

    def read(self, path: Path) -> Answer:
        """The answer that `write` kept. Raises `FileNotFoundError`."""
        head, _, data = path.read_bytes().partition(b"\n")
        told = json.loads(head)
        return Answer(data, told["lines"], tuple(told["notices"]), tuple(told["truncated"]), tuple(told["split"]))

    def remove(self, paths: Iterable[Path]) -> int:
        """Delete these, and the folder where nothing else is left in it; returns how much is left."""
        for path in chain(paths, self.folder.glob(".*.tmp")):  # what was being written when somebody was killed
            path.unlink(missing_ok=True)
        left = len(list(self.folder.glob("*")))
        if not left and self.folder.exists():
            self.folder.rmdir()
        return left
