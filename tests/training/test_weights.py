from __future__ import annotations

import os
import pickle
import stat
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

from mt.errors import RunError
from mt.training.snapshot import load_weights
from mt.training.weights import average, read_tensors, write_tensors


class Tied(nn.Module):
    """Source embedding, target embedding and output layer are one matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(50, 8)
        self.target = nn.Embedding(50, 8)
        self.output = nn.Linear(8, 50, bias=False)
        self.target.weight = self.output.weight = self.source.weight
        self.register_buffer("updates", torch.tensor(0))


def test_whoever_may_read_new_files_may_read_weights(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_tensors(tmp_path / "a", Tied().state_dict())
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_tied_tensor_is_stored_once_and_stays_tied(tmp_path: Path) -> None:
    """Fault 110: all three ties, also after another training step."""
    path = tmp_path / "model.safetensors"
    saved, loaded = Tied(), Tied()
    write_tensors(path, saved.state_dict())
    assert path.stat().st_size < 2 * 50 * 8 * 4
    load_weights(loaded, read_tensors(path), path)
    assert loaded.source.weight is loaded.target.weight is loaded.output.weight
    assert torch.equal(loaded.source.weight, saved.source.weight)
    optimizer = torch.optim.SGD(loaded.parameters(), lr=0.1)
    loaded.output(loaded.target(torch.tensor([1]))).sum().backward()
    optimizer.step()
    assert torch.equal(loaded.source.weight, loaded.output.weight)
    assert not torch.equal(loaded.source.weight, saved.source.weight)


def test_tied_tensors_read_from_a_file_are_one(tmp_path: Path) -> None:
    """Fault 110."""
    write_tensors(tmp_path / "a", Tied().state_dict())
    tensors = read_tensors(tmp_path / "a")
    assert (
        tensors["source.weight"].data_ptr()
        == tensors["target.weight"].data_ptr()
        == tensors["output.weight"].data_ptr()
    )


def test_equal_weights_make_equal_files(tmp_path: Path) -> None:
    """Several ties: neither their order nor that of the file's other entries is left to chance."""
    torch.manual_seed(1)
    tensors = {**Tied().state_dict(), **{f"more.{name}": tensor for name, tensor in Tied().state_dict().items()}}
    for name in ("a", "b", "c"):
        write_tensors(tmp_path / name, tensors)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


def test_equal_tensors_that_are_not_tied_stay_apart(tmp_path: Path) -> None:
    write_tensors(
        tmp_path / "a", {"one": torch.ones(3), "two": torch.ones(3), "none": torch.ones(0), "also": torch.ones(0)}
    )
    tensors = read_tensors(tmp_path / "a")
    assert set(tensors) == {"one", "two", "none", "also"}
    assert tensors["one"].data_ptr() != tensors["two"].data_ptr()


def test_views_are_stored_as_they_look(tmp_path: Path) -> None:
    matrix = torch.arange(6.0).reshape(2, 3)
    write_tensors(tmp_path / "a", {"matrix": matrix, "transposed": matrix.T})
    assert torch.equal(read_tensors(tmp_path / "a")["transposed"], matrix.T)


def test_the_mean_counts_a_tied_tensor_once(tmp_path: Path) -> None:
    """Fault 63: 1.0 and 3.0 give 2.0, still tied; a counter stays an integer, that of the last checkpoint."""
    paths = []
    for value, updates in ((1.0, 3), (3.0, 4)):
        model = Tied()
        nn.init.constant_(model.source.weight, value)
        model.get_buffer("updates").fill_(updates)
        paths.append(tmp_path / str(value))
        write_tensors(paths[-1], model.state_dict())
    mean = average(paths)
    assert torch.equal(mean["source.weight"], torch.full((50, 8), 2.0))
    assert mean["source.weight"] is mean["output.weight"] is mean["target.weight"]
    assert mean["updates"].dtype == torch.int64
    assert int(mean["updates"]) == 4
    write_tensors(tmp_path / "mean", mean)
    with safe_open(tmp_path / "mean", framework="pt") as file:
        assert sorted(file.keys()) == ["source.weight", "updates"]


def test_sums_are_float32_and_the_mean_has_the_type_of_the_files(tmp_path: Path) -> None:
    """Fault 63: in half precision 2048 + 1 is 2048."""
    values = [2048.0, 1.0, 1.0, 2046.0]
    for number, value in enumerate(values):
        write_tensors(tmp_path / str(number), {"w": torch.tensor([value], dtype=torch.float16)})
    mean = average([tmp_path / str(number) for number in range(4)])["w"]
    assert mean.dtype == torch.float16
    assert mean.item() == 1024.0


def test_the_mean_of_one_is_itself(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a", Tied().state_dict())
    for name, tensor in average([tmp_path / "a"]).items():
        assert torch.equal(tensor, read_tensors(tmp_path / "a")[name])


def test_models_that_differ_have_no_mean(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a", {"w": torch.ones(2)})
    write_tensors(tmp_path / "b", {"w": torch.ones(3)})
    with pytest.raises(RunError) as caught:
        average([tmp_path / "a", tmp_path / "b"])
    expected = f"{tmp_path / 'b'} cannot be averaged with {tmp_path / 'a'}: it holds the tensors of another model."
    assert str(caught.value) == expected


class Malicious:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (Path.touch, (Path("executed"),))  # type: ignore[return-value]


def test_no_code_in_a_file_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 62."""
    monkeypatch.chdir(tmp_path)
    Path("pickle").write_bytes(pickle.dumps(Malicious()))
    torch.save(Malicious(), "model.pt")
    for name in ("pickle", "model.pt"):
        with pytest.raises(RunError, match=f"^{name} is not a whole safetensors file"):
            read_tensors(Path(name))
    assert not Path("executed").exists()


@pytest.mark.parametrize("size", [0, 4, 40, -1])
def test_a_torn_file_is_recognised(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a"
    write_tensors(path, {"w": torch.ones(100)})
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(
        RunError, match=r"a is not a whole safetensors file .*: it is torn or was written by another program\.$"
    ):
        read_tensors(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError) as caught:
        read_tensors(tmp_path / "a")
    assert str(caught.value) == f"{tmp_path / 'a'} does not exist."


WRONG: list[tuple[dict[str, Tensor], str]] = [
    ({"weight": torch.ones(2, 3)}, "it lacks 'bias'"),
    ({"weight": torch.ones(2, 3), "bias": torch.ones(2), "more": torch.ones(1)}, "the model has no 'more'"),
    (
        {"weight": torch.ones(2, 4), "bias": torch.ones(2)},
        "'weight' has shape (2, 4) in it, but (2, 3) in the model",
    ),
]


@pytest.mark.parametrize(("weights", "difference"), WRONG)
def test_weights_of_another_model_are_refused(weights: dict[str, Tensor], difference: str) -> None:
    with pytest.raises(RunError) as caught:
        load_weights(nn.Linear(3, 2), weights, Path("run/model.safetensors"))
    assert str(caught.value) == (
        f"run/model.safetensors does not fit the run's recipe and tokenizer ({difference}): put back the recipe.yaml "
        "and the tokenizer that it was trained with."
    )
