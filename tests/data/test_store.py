from __future__ import annotations

import json
from pathlib import Path

import pytest

from mt.data import store as module
from mt.data.store import Store
from mt.errors import DataError
from mt.events import finish
from mt.prepare import prepare
from mt.text.config import TokenizerConfig
from tests.prepared import recipe_of, write_pair

RESAMPLED = TokenizerConfig(vocab_size=40, soft_vocab_limit=True, dropout=0.1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    train = write_pair(tmp_path, b"a b c\nd e\n\xc3\xa9\n" * 9, b"x y\nz\nw w w\n" * 9)
    valid = write_pair(tmp_path, b"a d\n\n", b"x  z\r\ny\n", "valid")
    recipe = recipe_of(tmp_path, train, valid=valid, tokenizer=RESAMPLED)
    finish(prepare(recipe))
    return recipe.data_dir


def test_it_gives_ids_and_text_back(folder: Path) -> None:
    store = Store.open(folder)
    train = store.split("train")
    tokenizers = store.tokenizers
    assert len(train) == len(train.src) == len(train.tgt) == 27
    assert train.src_text is not None
    assert train.tgt_text is not None
    assert [train.src_text[2], train.tgt_text[26]] == ["é", "w w w"]
    for index in range(27):
        assert train.src[index].tolist() == tokenizers.src.encode(train.src_text[index])
        assert train.tgt[index].tolist() == tokenizers.tgt.encode(train.tgt_text[index])
    assert train.tgt.lengths.tolist() == [len(train.tgt[index]) for index in range(27)]


def test_validation_keeps_its_raw_lines(folder: Path) -> None:
    store = Store.open(folder)
    assert list(store.reference_lines("valid", "src")) == ["a d", ""]
    assert list(store.reference_lines("valid", "tgt")) == ["x  z", "y"]
    assert (folder / "valid.tgt.txt").read_bytes() == b"x  z\ny\n"
    assert store.split("valid").src.lengths.tolist()[1] == 0
    assert store.split("valid").src_text is None


def test_a_missing_part_is_named(folder: Path) -> None:
    with pytest.raises(DataError) as error:
        Store.open(folder).split("test")
    assert str(error.value) == f"{folder} has no test text; name it in the recipe (data.test) and prepare again."


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"holds no prepared corpus \(no manifest.json in it\); run mt prepare first\.$"
    ):
        Store.open(tmp_path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"format": "other"}, "is not the manifest of a prepared corpus; run mt prepare again."),
        ({"version": 7}, "is of version 7, this program reads version 1; run mt prepare again."),
        ({"files": {}}, "is damaged: entries are missing; run mt prepare again."),
        ({"splits": 3}, "is damaged: entries are missing; run mt prepare again."),
    ],
)
def test_a_wrong_manifest_is_refused(folder: Path, entries: dict[str, object], message: str) -> None:
    """Fault 43."""
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))
    with pytest.raises(DataError) as error:
        Store.open(folder)
    assert str(error.value) == f"{path} {message}"


def names(folder: Path) -> list[str]:
    return sorted(json.loads((folder / "manifest.json").read_text())["files"])


@pytest.mark.parametrize("key", ["corpus", "files", "inputs", "settings", "splits", "tokenizer"])
def test_a_manifest_that_lacks_an_entry_is_refused(folder: Path, key: str) -> None:
    """Fault 43."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    del manifest[key]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"manifest.json is damaged: entries are missing; run mt prepare again\.$"):
        Store.open(folder)


def test_every_flipped_byte_is_found(folder: Path) -> None:
    """Fault 43."""
    assert len(names(folder)) == 14
    for name in names(folder):
        data = (folder / name).read_bytes()
        for position in (0, len(data) // 2, len(data) - 1):
            (folder / name).write_bytes(data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :])
            with pytest.raises(DataError, match=name):
                Store.open(folder)
        (folder / name).write_bytes(data)
    Store.open(folder)


def test_large_files_are_checked_when_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 43: opening takes constant time."""
    monkeypatch.setattr(module, "SMALL", 0)
    path = folder / "train.tgt.ids"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    store = Store.open(folder)
    with pytest.raises(DataError) as error:
        store.verify()
    assert str(error.value) == f"{path} is not as mt prepare wrote it (its checksum differs); run mt prepare again."


def test_a_foreign_tokenizer_is_refused(folder: Path) -> None:
    """Fault 31."""
    store = Store.open(folder)
    other = TokenizerConfig(vocab_size=20, soft_vocab_limit=True)
    type(store.tokenizers).train(other, ["a b"], ["c"], ("s", "t")).save(folder / "tokenizer")
    with pytest.raises(DataError, match=r"tokenizer is not the tokenizer that made this corpus; prepare again\.$"):
        Store.open(folder).tokenizers  # noqa: B018
