"""What a prepared corpus was made from, and what has changed since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mt.errors import DataError
from mt.text.files import sha256_of


@dataclass(frozen=True)
class InputFile:
    """A file as it was read; `key` says which one of the recipe's it is."""

    key: str
    path: str
    bytes: int
    mtime_ns: int
    sha256: str

    @classmethod
    def of(cls, key: str, path: Path, known: InputFile | None = None) -> InputFile:
        """Look at a file; its checksum is taken from `known` where size and time of change are the same."""
        if not path.is_file():
            raise DataError(f"{key}: {path} is not a file; name an existing file.")
        stat = path.stat()
        same = known is not None and (known.path, known.bytes, known.mtime_ns) == (
            str(path),
            stat.st_size,
            stat.st_mtime_ns,
        )
        sha256 = known.sha256 if known is not None and same else sha256_of(path)
        return cls(key, str(path), stat.st_size, stat.st_mtime_ns, sha256)


@dataclass(frozen=True)
class Origin:
    """All that a prepared corpus depends on."""

    settings: Mapping[str, Any]
    """Key path of the recipe -> value."""
    inputs: Sequence[InputFile]

    def refuse_moving(self) -> None:
        """Raise `DataError` where a file is no longer the one looked at: it is read several times."""
        for file in self.inputs:
            stat = Path(file.path).stat()
            if (stat.st_size, stat.st_mtime_ns) != (file.bytes, file.mtime_ns):
                raise DataError(f"{file.key}: {file.path} changed while it was read; prepare again when it is whole.")

    def as_mapping(self) -> dict[str, Any]:
        """The origin as the manifest keeps it."""
        return {"settings": dict(self.settings), "inputs": [asdict(file) for file in self.inputs]}

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Origin:
        """The inverse of `as_mapping`; KeyError or TypeError where entries are missing or of another kind."""
        return cls({**mapping["settings"]}, [InputFile(**entry) for entry in mapping["inputs"]])


def look_at(files: Mapping[str, Path], earlier: Origin | None) -> list[InputFile]:
    """Look at all input files, with what is known of them from an earlier preparation."""
    known = {file.key: file for file in earlier.inputs} if earlier else {}
    return [InputFile.of(key, path, known.get(key)) for key, path in files.items()]


def changes(earlier: Origin, inputs: list[InputFile], settings: Mapping[str, Any]) -> list[str]:
    """What differs from an earlier preparation, each in a few words; nothing where it is up to date."""
    old = earlier.settings
    found = [
        f"{key} was {_said(old.get(key))} and is {_said(settings.get(key))}"
        for key in dict.fromkeys([*old, *settings])
        if old.get(key) != settings.get(key)
    ]
    known = {file.key: file.sha256 for file in earlier.inputs}
    for file in inputs:
        if file.key not in known:
            found.append(f"{file.key} ({file.path}) is new")
        elif known[file.key] != file.sha256:
            found.append(f"{file.key} ({file.path}) has other content")
    gone = set(known) - {file.key for file in inputs}
    return found + [f"{key} is gone" for key in sorted(gone)]


def _said(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "not set", True: "true", False: "false"}[value]
    return str(value)
